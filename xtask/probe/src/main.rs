//! The smallest XDP program: lets every frame pass.
//!
//! `cargo xtask setup` compiles it to prove the eBPF toolchain, and attaches it in a network namespace of its
//! own to prove the kernel.
#![no_std]
#![no_main]

/// XDP_PASS.
const PASS: u32 = 2;

/// Lets the frame pass.
#[unsafe(no_mangle)]
#[unsafe(link_section = "xdp")]
pub extern "C" fn pass(_context: *mut u8) -> u32 {
    PASS
}

/// The kernel wants to know it for some helpers; none is called here.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 4] = *b"GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
