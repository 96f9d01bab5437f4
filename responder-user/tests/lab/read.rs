//! Reads reply frames octet by octet, by the RFCs and by nothing of the product.

use std::{fmt::Debug, net::IpAddr};

/// A reply, checked in every length and checksum.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// Id of the DNS header.
    pub id: u16,
    /// Flags of the DNS header.
    pub flags: u16,
    /// The question as it stands, type and class included.
    pub question: Vec<u8>,
    /// Answer section.
    pub answers: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// OPT, if there is one.
    pub opt: Option<Opt>,
}

/// A record with its names written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner in wire format.
    pub owner: Vec<u8>,
    /// Type.
    pub rtype: u16,
    /// TTL in seconds.
    pub ttl: u32,
    /// Data, with names in them written out.
    pub data: Vec<u8>,
}

/// An OPT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Payload size.
    pub payload: u16,
    /// Extended code, version and flags.
    pub ttl: u32,
    /// Options.
    pub options: Vec<u8>,
}

/// The Internet checksum of octets (RFC 1071 4.1); 0 for octets that contain their own.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn number16(octets: &[u8], at: usize) -> Result<u16, String> {
    let two = octets.get(at..at + 2).ok_or_else(|| format!("ends before octet {}", at + 2))?;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}

fn number32(octets: &[u8], at: usize) -> Result<u32, String> {
    Ok(u32::from(number16(octets, at)?) << 16 | u32::from(number16(octets, at + 2)?))
}

fn want<T: PartialEq + Debug + Copy>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: {got:02x?}, wanted {wanted:02x?}")) }
}

/// Headers of a frame: offset of IP, offset of UDP, and both addresses.
pub struct Place {
    /// Offset of the IP header.
    pub ip: usize,
    /// Offset of the UDP header.
    pub udp: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

/// Finds the headers of a frame that is known to be UDP over IPv4 without options or over IPv6.
pub fn place(frame: &[u8]) -> Result<Place, String> {
    let mut ip = 14;
    while matches!(number16(frame, ip - 2)?, 0x8100 | 0x88a8) {
        ip += 4;
    }
    let octets = |at: usize, len: usize| frame.get(at..at + len).ok_or("IP header is cut off");
    let v4 = |at| Ok::<_, String>(IpAddr::from(<[u8; 4]>::try_from(octets(at, 4)?).expect("4 octets")));
    let v6 = |at| Ok::<_, String>(IpAddr::from(<[u8; 16]>::try_from(octets(at, 16)?).expect("16 octets")));
    match number16(frame, ip - 2)? {
        0x0800 => Ok(Place { ip, udp: ip + 20, source: v4(ip + 12)?, destination: v4(ip + 16)? }),
        0x86dd => Ok(Place { ip, udp: ip + 40, source: v6(ip + 8)?, destination: v6(ip + 24)? }),
        other => Err(format!("ethertype {other:04x}")),
    }
}

/// The DNS message of a frame whose headers are right.
pub fn message(frame: &[u8]) -> Result<&[u8], String> {
    let udp = place(frame)?.udp;
    let len = usize::from(number16(frame, udp + 4)?);
    frame.get(udp + 8..udp + len).ok_or_else(|| "UDP is longer than the frame".to_owned())
}

/// Checks a reply frame against the query frame that it answers: addresses swapped, tags kept, every length exact,
/// every checksum right, no octet too many.
pub fn check_frame(query: &[u8], reply: &[u8]) -> Result<(), String> {
    let (asked, said) = (place(query)?, place(reply)?);
    want("destination MAC", reply.get(..6), query.get(6..12))?;
    want("source MAC", reply.get(6..12), query.get(..6))?;
    want("tags and ethertype", reply.get(12..said.ip), query.get(12..asked.ip))?;
    want("source", said.source, asked.destination)?;
    want("destination", said.destination, asked.source)?;
    want("source port", number16(reply, said.udp)?, number16(query, asked.udp + 2)?)?;
    want("destination port", number16(reply, said.udp + 2)?, number16(query, asked.udp)?)?;
    let udp_len = reply.len() - said.udp;
    want("UDP length", usize::from(number16(reply, said.udp + 4)?), udp_len)?;
    let header = &reply[said.ip..said.udp];
    if said.source.is_ipv4() {
        want("version and header length", header[0], 0x45)?;
        want("type of service", header[1], 0)?;
        want("IP length", usize::from(number16(header, 2)?), reply.len() - said.ip)?;
        want("id, fragment", number32(header, 4)?, 0x0000_4000)?;
        want("TTL, protocol", number16(header, 8)?, 0x4011)?;
        want("IP checksum", checksum(&[header]), 0)?;
    } else {
        want("version, class, flow", number32(header, 0)?, 0x6000_0000)?;
        want("IP length", usize::from(number16(header, 4)?), udp_len)?;
        want("next header, hop limit", number16(header, 6)?, 0x1140)?;
    }
    let addresses = &header[if said.source.is_ipv4() { 12 } else { 8 }..];
    let pseudo = [&[0, 17][..], &(udp_len as u16).to_be_bytes()].concat();
    if number16(reply, said.udp + 6)? == 0 {
        return Err("no UDP checksum".to_owned());
    }
    want("UDP checksum", checksum(&[addresses, &pseudo, &reply[said.udp..]]), 0)
}

/// Reads the message of a reply to its last octet.
pub fn reply(message: &[u8]) -> Result<Reply, String> {
    let counts: Vec<u16> = (0..4).map(|i| number16(message, 4 + 2 * i)).collect::<Result<_, _>>()?;
    want("QDCOUNT", counts[0], 1)?;
    let (_, end) = name(message, 12)?;
    let mut at = end + 4;
    let question = message.get(12..at).ok_or("question is cut off")?.to_vec();
    let mut sections: [Vec<Record>; 3] = Default::default();
    let mut opt = None;
    for (section, count) in counts[1..].iter().enumerate() {
        for _ in 0..*count {
            let (owner, fixed) = name(message, at)?;
            let (rtype, class) = (number16(message, fixed)?, number16(message, fixed + 2)?);
            let ttl = number32(message, fixed + 4)?;
            let from = fixed + 10;
            at = from + usize::from(number16(message, fixed + 8)?);
            let data = message.get(from..at).ok_or("record data is cut off")?.to_vec();
            if rtype == 41 {
                want("section of OPT", section, 2)?;
                want("owner of OPT", &owner[..], &[0][..])?;
                want("OPT is the second one", opt.is_some(), false)?;
                opt = Some(Opt { payload: class, ttl, options: data });
                continue;
            }
            want("class", class, 1)?;
            let data = if rtype == 6 { soa(message, from, at)? } else { data };
            sections[section].push(Record { owner, rtype, ttl, data });
        }
    }
    want("octets read", at, message.len())?;
    let [answers, authority, additional] = sections;
    want("additional records", additional.len(), 0)?;
    let (id, flags) = (number16(message, 0)?, number16(message, 2)?);
    Ok(Reply { id, flags, question, answers, authority, opt })
}

fn soa(message: &[u8], from: usize, end: usize) -> Result<Vec<u8>, String> {
    let (mut out, next) = name(message, from)?;
    let (rname, next) = name(message, next)?;
    out.extend(rname);
    want("octets of SOA numbers", end - next, 20)?;
    out.extend(&message[next..end]);
    Ok(out)
}

/// A name written out, and the offset behind it. Pointers must lead backwards.
fn name(message: &[u8], from: usize) -> Result<(Vec<u8>, usize), String> {
    let (mut out, mut at, mut end) = (Vec::new(), from, None);
    loop {
        let length = *message.get(at).ok_or("name is cut off")?;
        if length >= 0xc0 {
            let target = usize::from(number16(message, at)? & 0x3fff);
            end = end.or(Some(at + 2));
            if target >= at {
                return Err(format!("pointer at {at} leads forward"));
            }
            at = target;
            continue;
        }
        if length > 63 {
            return Err(format!("label type at {at}"));
        }
        let whole = at + 1 + usize::from(length);
        out.extend(message.get(at..whole).ok_or("label is cut off")?);
        at = whole;
        if length == 0 {
            return Ok((out, end.unwrap_or(at)));
        }
    }
}
