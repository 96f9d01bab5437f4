//! Sends every frame back as it came: what the kernel's own timing adds to any program.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use responder_ebpf as _;

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Entry point.
#[xdp]
pub fn empty(_ctx: XdpContext) -> u32 {
    xdp_action::XDP_TX
}
