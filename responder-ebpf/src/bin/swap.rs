//! Swaps MAC addresses, IP addresses and ports and sends the frame back: the floor of any responder.
//! ARP and everything else that is not UDP over IPv4 or IPv6 passes, so that hosts can find each other.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use responder_ebpf::packet::Frame;

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Entry point.
#[xdp]
pub fn swap(ctx: XdpContext) -> u32 {
    reflect(&Frame::of(&ctx)).map_or(xdp_action::XDP_PASS, |()| xdp_action::XDP_TX)
}

#[inline(always)]
fn reflect(frame: &Frame) -> Option<()> {
    let low = frame.get::<u64>(0)?;
    let high = u64::from(frame.get::<u32>(8)?);
    let ethertype = frame.get::<u16>(12)?;
    let udp_at = if ethertype == 0x0800_u16.to_be() && frame.get::<u8>(23)? == 17 {
        let (source, destination) = (frame.get::<u32>(26)?, frame.get::<u32>(30)?);
        frame.put(26, destination)?;
        frame.put(30, source)?;
        34
    } else if ethertype == 0x86dd_u16.to_be() && frame.get::<u8>(20)? == 17 {
        for half in 0..2 {
            let (source, destination) = (frame.get::<u64>(22 + half * 8)?, frame.get::<u64>(38 + half * 8)?);
            frame.put(22 + half * 8, destination)?;
            frame.put(38 + half * 8, source)?;
        }
        54
    } else {
        return None;
    };
    let ports = frame.get::<u32>(udp_at)?;
    frame.put(udp_at, ports.rotate_left(16))?;
    let (to, from) = (low & 0xffff_ffff_ffff, (low >> 48) | (high << 16));
    frame.put(0, from | (to << 48))?;
    frame.put(8, (to >> 16) as u32)
}
