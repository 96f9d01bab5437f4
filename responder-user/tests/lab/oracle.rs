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
