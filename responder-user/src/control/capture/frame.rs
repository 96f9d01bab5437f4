//! What a captured frame says, for people: whose query for what.

use std::net::IpAddr;

use crate::model::DnsName;

/// The essence of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Source address and port.
    pub from: (IpAddr, u16),
    /// Destination address and port.
    pub to: (IpAddr, u16),
    /// The question's name, folded.
    pub name: DnsName,
    /// The question's type.
    pub qtype: u16,
}

/// Reads a frame of UDP with a question. None: it is not one, or not whole.
pub fn read(frame: &[u8]) -> Option<Seen> {
    let mut at = 12;
    while matches!(number(frame, at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    let (udp, from, to): (usize, IpAddr, IpAddr) = match number(frame, at)? {
        0x0800 => {
            let octets: &[u8; 20] = frame.get(ip..)?.first_chunk()?;
            let address = |at: usize| [octets[at], octets[at + 1], octets[at + 2], octets[at + 3]].into();
            (ip + usize::from(octets[0] & 15) * 4, address(12), address(16))
        }
        0x86dd => {
            let address = |at: usize| Some(IpAddr::from(*frame.get(ip + at..)?.first_chunk::<16>()?));
            (ip + 40, address(8)?, address(24)?)
        }
        _ => return None,
    };
    let question = udp + 8 + 12;
    let mut end = question;
    while *frame.get(end)? != 0 {
        end += usize::from(frame[end]) + 1;
    }
    let name = DnsName::from_wire(frame.get(question..=end)?)?;
    Some(Seen {
        from: (from, number(frame, udp)?),
        to: (to, number(frame, udp + 2)?),
        name,
        qtype: number(frame, end + 1)?,
    })
}

fn number(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_with_tags_is_read_and_a_cut_one_is_not() {
        let mut frame = vec![2; 12];
        frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0]);
        frame.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 53]);
        frame.extend([0x9c, 0x40, 0, 53, 0, 0, 0, 0]);
        frame.extend([0; 12]);
        frame.extend(b"\x03WwW\x04test\0\0\x1c\0\x01");
        let seen = read(&frame).unwrap();
        assert_eq!(seen.from, ("192.0.2.1".parse().unwrap(), 40_000));
        assert_eq!(seen.to, ("192.0.2.53".parse().unwrap(), 53));
        assert_eq!((seen.name, seen.qtype), (DnsName::parse("www.test").unwrap(), 28));
        for len in 0..frame.len() - 2 {
            assert_eq!(read(&frame[..len]), None, "{len}");
        }
    }
}
