//! A DNS message is read as a reader by the RFCs reads it, and as hickory-proto reads it.

use responder_common::{
    counters::Counter,
    limits::{FAST_NAME_WORDS, MAX_NAME_WORDS},
    name::HashKey,
    parse,
};

use super::{message, second};

/// A key like any other.
const KEY: HashKey = HashKey { seed: 0x0123_4567_89ab_cdef, multiplier: 0xfedc_ba98_7654_3211 };

/// Reads a message with the bounds of the XDP program and with those of a worker.
pub fn check(octets: &[u8]) {
    read::<FAST_NAME_WORDS>(octets);
    read::<MAX_NAME_WORDS>(octets);
}

fn read<const W: usize>(octets: &[u8]) {
    let parsed = parse::parse::<[u8], W>(octets, KEY);
    let longest = (W * 8).min(255);
    let question = message::question(octets, longest);
    let wanted = question.as_ref().filter(|question| !question.has_zero());
    match (&parsed, wanted) {
        (Ok(query), Some(question)) => {
            let mut name: Vec<u8> = query.name.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert!(name[query.name.len..].iter().all(|octet| *octet == 0), "zeros behind the name");
            name.truncate(query.name.len);
            assert_eq!(name, question.name, "the name in lower case");
            assert_eq!((query.qtype, query.question_end), (question.qtype, question.end));
            assert_eq!(query.head.to_le_bytes(), octets[..4], "id and flags");
            let opt = query.edns.is_present().then(|| (query.edns.payload(), query.edns.dnssec_ok()));
            assert_eq!(opt, question.opt.map(|(payload, ttl)| (payload, ttl & 0x8000 != 0)), "OPT");
        }
        (Err(counter), None) => assert!(Counter::ALL.contains(counter) && !counter.is_answer()),
        _ => panic!("parse reads {parsed:02x?}, wanted {wanted:02x?}"),
    }
    if let Err(difference) = second::compare(octets, question.as_ref()) {
        panic!("{difference}");
    }
}
