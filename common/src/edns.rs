//! The OPT pseudo record (RFC 6891), read and written.

use crate::{
    checksum::Sum,
    counters::Counter,
    limits::{EDNS_PAYLOAD, MAX_OPTIONS, PLAIN_PAYLOAD},
    wire::{Sink, Source, rtype},
};

/// Octets of an OPT record without options.
pub const OPT_LEN: usize = 11;

/// What a well-formed OPT record of version 0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Payload size of the client, at least 512 (RFC 6891 6.2.3).
    pub payload: u16,
    /// DNSSEC OK, echoed (RFC 3225).
    pub dnssec_ok: bool,
}

impl Edns {
    /// Octets that a UDP reply to this client may have.
    #[inline(always)]
    pub fn limit(edns: Option<Self>) -> usize {
        match edns {
            None => PLAIN_PAYLOAD as usize,
            Some(edns) if edns.payload < EDNS_PAYLOAD => edns.payload as usize,
            Some(_) => EDNS_PAYLOAD as usize,
        }
    }
}

/// Reads the only additional record of a query at `at`, which must be an OPT and end the message.
///
/// Options are walked for their lengths alone: unknown ones are ignored (RFC 6891 6.1.2), and all are unknown here.
///
/// ```text
/// 0     root name (0)
/// 1-2   type 41
/// 3-4   payload size
/// 5     extended rcode      6 version      7-8 flags, DO highest
/// 9-10  length of the options
/// ```
#[inline(always)]
pub fn parse<S: Source + ?Sized>(source: &S, at: usize) -> Result<Edns, Counter> {
    let head = source.u64_at(at).ok_or(Counter::PassOpt)?;
    let options = source.number16(at + 9).ok_or(Counter::PassOpt)? as usize;
    if head & 0xff_ffff != u64::from(rtype::OPT) << 16 {
        return Err(Counter::PassOpt);
    }
    if (head >> 48) & 0xff != 0 {
        return Err(Counter::PassVersion);
    }
    let end = at + OPT_LEN + options;
    if end != source.len() {
        return Err(if end < source.len() { Counter::PassTrailing } else { Counter::PassOpt });
    }
    walk(source, at + OPT_LEN, end)?;
    let payload = u16::from_be((head >> 24) as u16);
    Ok(Edns {
        payload: if payload < PLAIN_PAYLOAD { PLAIN_PAYLOAD } else { payload },
        dnssec_ok: head >> 63 != 0,
    })
}

#[inline(always)]
fn walk<S: Source + ?Sized>(source: &S, from: usize, end: usize) -> Result<(), Counter> {
    let mut at = from;
    for _ in 0..MAX_OPTIONS {
        if at >= end {
            break;
        }
        let length = source.number16(at + 2).ok_or(Counter::PassOpt)? as usize;
        at += 4 + length;
    }
    if at == end {
        Ok(())
    } else if at < end {
        Err(Counter::PassManyOptions)
    } else {
        Err(Counter::PassOpt)
    }
}

/// Writes our OPT without options at `at`: payload 1232, version 0, DO as asked.
#[inline(always)]
pub fn write<K: Sink + ?Sized>(sink: &mut K, at: usize, dnssec_ok: bool, extended: u8, sum: &mut Sum) -> Option<()> {
    let word = (u64::from(rtype::OPT) << 16)
        | (u64::from(EDNS_PAYLOAD.to_be()) << 24)
        | (u64::from(extended) << 40)
        | (u64::from(dnssec_ok) << 63);
    sink.put_u64(at, word)?;
    sink.put_u16(at + 8, 0)?;
    sink.put_u8(at + 10, 0)?;
    sum.add_at(at, word);
    Some(())
}
