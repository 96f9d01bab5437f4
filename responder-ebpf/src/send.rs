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
    let udp_at = headers.udp_at;
    let ports = frame.get::<u32>(udp_at)?;
    let swapped = ports.rotate_left(16);
    let mut sum = message;
    sum.add(u64::from(swapped));
    // Once as the field, once in the pseudo header.
    sum.add(u64::from(udp_len) * 2);
    sum.add(u64::from(u16::from(UDP).to_be()));
    if headers.is_ipv6 == 0 {
        ipv4(frame, headers.ip_at, len, &mut sum)?;
    } else {
        ipv6(frame, headers.ip_at, udp_len, &mut sum)?;
    }
    frame.put(udp_at, swapped)?;
    frame.put(udp_at + 4, u32::from(udp_len) | (u32::from(sum.finish_udp()) << 16))
}

#[inline(always)]
fn ethernet(frame: &Frame) -> Option<()> {
    let low = frame.get::<u64>(0)?;
    let high = u64::from(frame.get::<u32>(8)?);
    let (to, from) = (low & 0xffff_ffff_ffff, (low >> 48) | (high << 16));
    frame.put(0, from | (to << 48))?;
    frame.put(8, (to >> 16) as u32)
}

#[inline(always)]
fn ipv4(frame: &Frame, at: usize, len: usize, udp: &mut Sum) -> Option<()> {
    let source = frame.get::<u32>(at + 12)?;
    let destination = frame.get::<u32>(at + 16)?;
    let addresses = u64::from(destination) | (u64::from(source) << 32);
    udp.add(addresses);
    let total = ((len + 28) as u16).to_be();
    // Version 4, five words, no type of service; id 0 and "do not fragment" (RFC 6864, RFC 9715).
    let first = 0x45 | (u64::from(total) << 16) | (u64::from(0x4000_u16.to_be()) << 48);
    let third = u32::from(TTL) | (u32::from(UDP) << 8);
    let mut sum = Sum::default();
    sum.add(first);
    sum.add(u64::from(third));
    sum.add(addresses);
    frame.put(at, first)?;
    frame.put(at + 8, third | (u32::from(sum.finish()) << 16))?;
    frame.put(at + 12, destination)?;
    frame.put(at + 16, source)
}

#[inline(always)]
fn ipv6(frame: &Frame, at: usize, udp_len: u16, udp: &mut Sum) -> Option<()> {
    frame.put(at, 0x60 | (u64::from(udp_len) << 32) | (u64::from(UDP) << 48) | (u64::from(TTL) << 56))?;
    for half in 0..2 {
        let source = frame.get::<u64>(at + 8 + half * 8)?;
        let destination = frame.get::<u64>(at + 24 + half * 8)?;
        udp.add(source);
        udp.add(destination);
        frame.put(at + 8 + half * 8, destination)?;
        frame.put(at + 24 + half * 8, source)?;
    }
    Some(())
}
