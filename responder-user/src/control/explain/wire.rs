//! Queries as octets, and replies as words.

use std::{fmt::Write as _, net::IpAddr};

use hickory_proto::{
    op::Message,
    rr::{RData, RecordType},
};
use ipnet::IpNet;

use crate::model::DnsName;

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub rcode: String,
    /// Records of the answer section, one line each.
    pub records: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// Of the first record of the answer, else of the authority section.
    pub ttl: Option<u32>,
}

/// `A`, `aaaa`, `TYPE65`.
pub(super) fn type_number(text: &str) -> Option<u16> {
    let upper = text.to_ascii_uppercase();
    if let Some(digits) = upper.strip_prefix("TYPE") {
        return digits.parse().ok();
    }
    upper.parse::<RecordType>().ok().map(u16::from)
}

/// The mnemonic, or `TYPE123`.
pub(super) fn type_name(number: u16) -> String {
    match RecordType::from(number) {
        RecordType::Unknown(_) => format!("TYPE{number}"),
        known => known.to_string(),
    }
}

/// Types that are no data: OPT, TKEY, TSIG, transfers, ANY.
pub(super) fn is_meta(number: u16) -> bool {
    matches!(number, 41 | 249..=255)
}

/// A query with id 0, RD, and an OPT record if there is a client subnet.
pub(super) fn query(name: &DnsName, rtype: u16, ecs: Option<IpNet>) -> Vec<u8> {
    let mut out = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(ecs.is_some())];
    out.extend(name.wire());
    out.extend(rtype.to_be_bytes());
    out.extend([0, 1]);
    if let Some(net) = ecs {
        let (family, octets) = match net.addr() {
            IpAddr::V4(a) => (1_u8, a.octets().to_vec()),
            IpAddr::V6(a) => (2, a.octets().to_vec()),
        };
        let octets = &octets[..usize::from(net.prefix_len()).div_ceil(8)];
        let length = 4 + octets.len() as u16;
        // OPT (RFC 6891 6.1.2) with one client subnet (RFC 7871 6).
        out.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0]);
        out.extend((length + 4).to_be_bytes());
        out.extend([0, 8]);
        out.extend(length.to_be_bytes());
        out.extend([0, family, net.prefix_len(), 0]);
        out.extend(octets);
    }
    out
}

/// Reads a reply; None if it is malformed.
pub(super) fn read(reply: &[u8]) -> Option<Reading> {
    let message = Message::from_vec(reply).ok()?;
    let address = |data: &RData| match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(a) => Some(IpAddr::V6(a.0)),
        _ => None,
    };
    let first = message.answers.first().or(message.authorities.first());
    Some(Reading {
        rcode: rcode(u16::from(message.metadata.response_code)),
        records: message.answers.iter().map(|r| format!("{} {}", r.record_type(), r.data)).collect(),
        addresses: message.answers.iter().filter_map(|r| address(&r.data)).collect(),
        ttl: first.map(|r| r.ttl),
    })
}

fn rcode(number: u16) -> String {
    let known = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
    match (known.get(usize::from(number)), number) {
        (Some(name), _) => (*name).to_owned(),
        (None, 16) => "BADVERS".to_owned(),
        (None, other) => format!("RCODE{other}"),
    }
}

/// Two digits an octet.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(octets.len() * 2), |mut out, octet| {
        // Writing into a String cannot fail.
        let _ = write!(out, "{octet:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_well_formed() {
        let name = DnsName::parse("www.example.com").unwrap();
        let plain = query(&name, 28, None);
        assert_eq!(
            hex(&plain),
            "000001000001000000000000037777770765786d61706c6503636f6d00001c0001"
                .replace("65786d61706c65", "6578616d706c65")
        );
        let net = "198.51.100.0/22".parse().unwrap();
        let message = Message::from_vec(&query(&name, 1, Some(net))).unwrap();
        let edns = message.edns.unwrap();
        assert_eq!((edns.max_payload(), edns.options().as_ref().len()), (1232, 1));
    }

    #[test]
    fn types_have_names_and_numbers() {
        for (text, number, name) in [("a", 1, "A"), ("AAAA", 28, "AAAA"), ("TYPE65280", 65280, "TYPE65280")] {
            assert_eq!(type_number(text), Some(number));
            assert_eq!(type_name(number), name);
        }
        for text in ["", "TYPE", "TYPE65536", "1"] {
            assert_eq!(type_number(text), None, "{text:?}");
        }
        assert!(is_meta(255) && is_meta(41) && !is_meta(1) && !is_meta(248));
    }
}
