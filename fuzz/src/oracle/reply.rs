//! What a worker replies, to whatever comes.
//!
//! The first octet of the input says how the message comes: bit 0 TCP, bit 1 IPv6, bit 2 a slip.

use hickory_proto::op::Message;
use responder_common::{
    limits::{EDNS_PAYLOAD, PLAIN_PAYLOAD},
    wire::rcode,
};
use responder_user::worker::{
    Outcome, Transport,
    answer::{self, Origin},
};

use super::{
    message::{self, Question},
    read, second,
    stage::{client, stage},
};

/// Answers a message.
pub fn check(octets: &[u8]) {
    let Some((how, query)) = octets.split_first() else { return };
    let (is_tcp, is_v6, is_slip) = (how & 1 != 0, how & 2 != 0, how & 4 != 0);
    let stage = stage();
    let mut out = vec![0xaa; if is_tcp && !is_slip { 65_535 } else { usize::from(EDNS_PAYLOAD) }];
    let outcome = if is_slip {
        answer::slip(query, client(is_v6), &stage.world, &stage.names, &mut out)
    } else {
        let transport = if is_tcp { Transport::Tcp } else { Transport::Udp };
        answer::reply(query, transport, client(is_v6), &stage.world, &stage.names, &mut out)
    };
    // gdnsd 1.0.2: a reply to a response is the beginning of a loop.
    let deserves_silence = query.len() < 12 || query[2] & 0x80 != 0;
    let Outcome::Reply { len, rcode, truncated, origin, zone: _ } = outcome else {
        assert!(outcome == Outcome::Silent && deserves_silence, "{outcome:?}");
        return;
    };
    assert!(!deserves_silence, "a reply to a response");
    let reply = &out[..len];
    head(query, reply, rcode, truncated);
    let readable = second::message(reply).unwrap_or_else(|error| panic!("{error}: {reply:02x?}"));
    let question = message::question(query, 255);
    let limit = if is_tcp && !is_slip { 65_535 } else { limit(query, question.as_ref()) };
    assert!(len <= limit, "{len} octets, {limit} allowed");
    if let Some(question) = &question {
        shaped(query, question, &readable, reply, origin);
    }
    if is_slip && origin == Origin::Table {
        assert!(truncated && readable.answers.is_empty() && readable.authorities.is_empty());
    }
}

/// The header of a reply.
fn head(query: &[u8], reply: &[u8], code: u16, truncated: bool) {
    assert!(reply.len() >= 12, "a whole header");
    assert_eq!(reply[..2], query[..2], "id");
    assert!(reply[2] & 0x80 != 0, "QR");
    assert_eq!(reply[2] & 0x79, query[2] & 0x79, "opcode and RD as asked");
    assert_eq!(reply[2] & 2 != 0, truncated, "TC");
    // RA, Z and AD are ours to clear; CD is copied where there is an answer.
    assert_eq!(reply[3] & 0xe0, 0, "RA, Z, AD");
    assert_eq!(u16::from(reply[3] & 0x0f), code & 0x0f, "response code");
}

/// Octets that a UDP client takes: what its OPT says, within bounds (RFC 6891 6.2.3). Where OPT cannot be read, the most.
fn limit(query: &[u8], question: Option<&Question>) -> usize {
    match question.map(|question| question.opt) {
        Some(Some((payload, _))) => usize::from(payload.clamp(PLAIN_PAYLOAD, EDNS_PAYLOAD)),
        Some(None) => usize::from(PLAIN_PAYLOAD),
        // Errors are short; a message without a question of the one shape may have more options than are walked there.
        None => second::message(query).ok().and_then(|m| m.edns).map_or(usize::from(EDNS_PAYLOAD), |edns| {
            usize::from(edns.max_payload().clamp(PLAIN_PAYLOAD, EDNS_PAYLOAD))
        }),
    }
}

/// A query of the one shape: the question comes back octet by octet, and OPT if and only if there was one.
fn shaped(query: &[u8], question: &Question, readable: &Message, reply: &[u8], origin: Origin) {
    let (_, tail) = query.split_at(12);
    assert_eq!(reply[12..question.end], tail[..question.end - 12], "the question");
    assert_eq!(readable.edns.is_some(), question.opt.is_some(), "OPT");
    if let Some(edns) = &readable.edns {
        assert_eq!((edns.max_payload(), edns.version()), (EDNS_PAYLOAD, 0));
        assert_eq!(edns.flags().dnssec_ok, question.opt.is_some_and(|(_, ttl)| ttl & 0x8000 != 0), "DO");
    }
    if origin == Origin::Error {
        let has_records = !readable.answers.is_empty() || !readable.authorities.is_empty();
        assert!(!has_records, "an error without records");
        return;
    }
    let code = u16::from(readable.metadata.response_code);
    assert!([rcode::NOERROR, rcode::NXDOMAIN].contains(&code), "an answer: {code}");
    // Table and zone owe a reader nothing but what RFC 1035 has.
    if origin == Origin::Table {
        let strict = read::reply(reply).unwrap_or_else(|error| panic!("{error}: {reply:02x?}"));
        assert!(strict.answers.iter().all(|record| record.rtype == question.qtype), "only what was asked");
        assert!(strict.authority.iter().all(|record| record.rtype == 6), "an SOA");
    }
}
