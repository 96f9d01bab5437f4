//! The pieces of the XDP program, in the order in which a packet meets them. (The blank lines keep rustfmt from
//! sorting them.)

#![no_std]
// Inline assembly of BPF has no stable name yet; the one use is `packet::opaque`.
#![feature(asm_experimental_arch)]

pub mod maps;

pub mod packet;

pub mod headers;

pub mod session;

pub mod lookup;

pub mod special;

pub mod absent;

pub mod limit;

pub mod route;

pub mod sample;

pub mod tally;

pub mod grow;

pub mod send;

/// Panics cannot happen: everything that could is checked before. The verifier would refuse a loop here.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no code path of the program panics; an object with a reachable panic is refused by the verifier.
    unsafe { core::hint::unreachable_unchecked() }
}
