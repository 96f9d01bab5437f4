//! Passes everything. Native XDP_TX on a veth pair needs an XDP program on the other end.
//!
//! Without the library and its maps, so that `ip link set … xdp` can load it.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Entry point.
#[xdp]
pub fn pass(_ctx: XdpContext) -> u32 {
    xdp_action::XDP_PASS
}

/// Nothing here panics.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the program has no code that panics.
    unsafe { core::hint::unreachable_unchecked() }
}
