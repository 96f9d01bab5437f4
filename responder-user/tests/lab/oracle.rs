//! What must become of a frame, written down from the design once more: it shares no code with the product.

use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
};

use super::{
    OUR_MAC,
    frame::{OUR_V4, OUR_V6},
    world::{SECOND_V4, SECOND_V6},
};

/// What the headers in front of the message say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not for us.
    Pass,
    /// From a port that answers anything.
    Drop,
    /// A message to us.
    Message {
        /// Its octets in the frame.
        dns: Range<usize>,
        /// Who sent it.
        client: IpAddr,
    },
}

/// A query of the one shape that is answered from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name in lower case.
    pub name: Vec<u8>,
    /// The type.
    pub qtype: u16,
    /// Octets of header and question.
    pub end: usize,
    /// Payload size and TTL field of OPT.
    pub opt: Option<(u16, u32)>,
}

const SERVICE_PORTS: [u16; 14] = [7, 13, 17, 19, 37, 69, 111, 123, 137, 138, 161, 389, 520, 1900];

fn n16(octets: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*octets.get(at)?) << 8 | usize::from(*octets.get(at + 1)?))
}

fn is_listening(address: IpAddr, port: usize) -> bool {
    let listening = [(OUR_V4, 53), (OUR_V6, 53), SECOND_V4, SECOND_V6];
    let asked = SocketAddr::new(address, port as u16);
    listening.iter().any(|(ip, port)| Ok(asked) == ip.parse().map(|ip| SocketAddr::new(ip, *port)))
}

/// Reads everything in front of the message.
pub fn headers(frame: &[u8]) -> Fate {
    read_headers(frame).unwrap_or(Fate::Pass)
}

fn read_headers(frame: &[u8]) -> Option<Fate> {
    let mut ip = 14;
    while ip < 22 && matches!(n16(frame, ip - 2)?, 0x8100 | 0x88a8) {
        ip += 4;
    }
    let (udp, payload, source, destination): (usize, usize, IpAddr, IpAddr) = match n16(frame, ip - 2)? {
        0x0800 => {
            let header = frame.get(ip..ip + 20)?;
            if header[0] != 0x45 || n16(header, 6)? & 0xbfff != 0 || header[9] != 17 {
                return None;
            }
            let address = |at: usize| <[u8; 4]>::try_from(&header[at..at + 4]).map(IpAddr::from);
            (ip + 20, n16(header, 2)?.checked_sub(20)?, address(12).ok()?, address(16).ok()?)
        }
        0x86dd => {
            let header = frame.get(ip..ip + 40)?;
            if header[0] >> 4 != 6 || header[6] != 17 {
                return None;
            }
            let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).map(IpAddr::from);
            (ip + 40, n16(header, 4)?, address(8).ok()?, address(24).ok()?)
        }
        _ => return None,
    };
    let (from, to, length) = (n16(frame, udp)?, n16(frame, udp + 2)?, n16(frame, udp + 4)?);
    if frame[..6] != OUR_MAC || length != payload || length < 8 || udp + length > frame.len() {
        return None;
    }
    if !is_listening(destination, to) || !may_be_answered(source) || from == 53 || from == 0 {
        return None;
    }
    if SERVICE_PORTS.contains(&(from as u16)) {
        return Some(Fate::Drop);
    }
    Some(Fate::Message { dns: udp + 8..udp + length, client: source })
}

fn may_be_answered(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(a) => !a.is_loopback() && a.octets()[0] != 0 && a.octets()[0] < 224,
        IpAddr::V6(a) => {
            !a.is_multicast() && !a.is_loopback() && !a.is_unspecified() && a.to_ipv4_mapped().is_none()
        }
    }
}

/// Reads a message; None if it is not of the one shape.
pub fn question(dns: &[u8]) -> Option<Question> {
    let is_query = dns.get(2)? & 0xf8 == 0;
    let counts = [n16(dns, 4)?, n16(dns, 6)?, n16(dns, 8)?, n16(dns, 10)?];
    let mut at = 12;
    loop {
        match usize::from(*dns.get(at)?) {
            0 => break,
            label @ 1..=63 => at += label + 1,
            _ => return None,
        }
    }
    let name = dns.get(12..=at)?.to_ascii_lowercase();
    let (qtype, class) = (n16(dns, at + 1)? as u16, n16(dns, at + 3)?);
    let end = at + 5;
    let is_data = qtype != 0 && qtype != 41 && !(249..=255).contains(&qtype);
    if !is_query || counts[..3] != [1, 0, 0] || name.len() > 104 || class != 1 || !is_data {
        return None;
    }
    let opt = match counts[3] {
        0 => None,
        1 => Some(read_opt(dns.get(end..)?)?),
        _ => return None,
    };
    (opt.is_some() || end == dns.len()).then_some(Question { name, qtype, end, opt })
}

/// An OPT record that is all of these octets.
fn read_opt(record: &[u8]) -> Option<(u16, u32)> {
    let head: &[u8; 11] = record.first_chunk()?;
    let mut options = &record[11..];
    let is_opt = head[..3] == [0, 0, 41] && head[6] == 0;
    if !is_opt || n16(head, 9)? != options.len() {
        return None;
    }
    let mut count = 0;
    while !options.is_empty() {
        options = options.get(4 + n16(options, 2)?..)?;
        count += 1;
    }
    let ttl = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    (count <= 8).then_some((n16(head, 3)? as u16, ttl))
}
