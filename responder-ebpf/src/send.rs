//! The frame around a reply: everything swapped, every length and checksum made anew.

use responder_common::checksum::Sum;

use crate::{headers::Headers, packet::Frame};

/// Hop limit of replies.
const TTL: u8 = 64;
const UDP: u8 = 17;

/// Writes Ethernet, IP and UDP headers for a message of `len` octets whose sum is `message`.
#[inline(always)]
pub fn send(frame: &Frame, headers: &Headers, len: usize, message: Sum) -> Option<()> {
    ethernet(frame)?;
    let udp_len = ((len + 8) as u16).to_be();
    let mut sum = message;
    // Once as the field, once in the pseudo header.
    sum.add(u64::from(udp_len) * 2 + u64::from(u16::from(UDP).to_be()));
    if headers.is_ipv6 == 0 {
        ipv4(frame, headers.ip_at, len, &mut sum)?;
    } else {
        ipv6(frame, headers.ip_at, udp_len, &mut sum)?;
    }
    let udp = frame.window::<8>(headers.udp_at)?;
    let ports = udp.get::<u32>(0).rotate_left(16);
    sum.add(u64::from(ports));
    let rest = u32::from(udp_len) | (u32::from(sum.finish_udp()) << 16);
    udp.put(0, u64::from(ports) | (u64::from(rest) << 32));
    Some(())
}

#[inline(always)]
fn ethernet(frame: &Frame) -> Option<()> {
    let ethernet = frame.window::<12>(0)?;
    let low = ethernet.get::<u64>(0);
    let high = u64::from(ethernet.get::<u32>(8));
    let (to, from) = (low & 0xffff_ffff_ffff, (low >> 48) | (high << 16));
    ethernet.put(0, from | (to << 48));
    ethernet.put(8, (to >> 16) as u32);
    Some(())
}

#[inline(always)]
fn ipv4(frame: &Frame, at: usize, len: usize, udp: &mut Sum) -> Option<()> {
    let ip = frame.window::<20>(at)?;
    let addresses = ip.get::<u64>(12).rotate_left(32);
    udp.add(addresses);
    let total = ((len + 28) as u16).to_be();
    // Version 4, five words, no type of service; id 0 and "do not fragment" (RFC 6864, RFC 9715).
    let first = 0x45 | (u64::from(total) << 16) | (u64::from(0x4000_u16.to_be()) << 48);
    let third = u32::from(TTL) | (u32::from(UDP) << 8);
    let mut sum = Sum::default();
    sum.add(first);
    sum.add(u64::from(third));
    sum.add(addresses);
    ip.put(0, first);
    ip.put(8, third | (u32::from(sum.finish()) << 16));
    ip.put(12, addresses);
    Some(())
}

#[inline(always)]
fn ipv6(frame: &Frame, at: usize, udp_len: u16, udp: &mut Sum) -> Option<()> {
    let ip = frame.window::<40>(at)?;
    ip.put(0, 0x60 | (u64::from(udp_len) << 32) | (u64::from(UDP) << 48) | (u64::from(TTL) << 56));
    for half in 0..2 {
        let source = ip.get::<u64>(8 + half * 8);
        let destination = ip.get::<u64>(24 + half * 8);
        udp.add(source);
        udp.add(destination);
        ip.put(8 + half * 8, destination);
        ip.put(24 + half * 8, source);
    }
    Some(())
}
