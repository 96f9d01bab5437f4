//! The OPT pseudo record (RFC 6891), read and written.

use core::cmp::Ordering;

use crate::{
    checksum::Sum,
    counters::Counter,
    limits::{EDNS_PAYLOAD, MAX_OPTIONS, PLAIN_PAYLOAD},
    wire::{Sink, Source, rtype},
};

/// Octets of an OPT record without options.
pub const OPT_LEN: usize = 11;

/// What the OPT record of a query says, or that there is none: one word, so that it can be handed on as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edns(usize);

impl Edns {
    const PRESENT: usize = 1 << 16;
    const DNSSEC_OK: usize = 1 << 17;

    /// A query without OPT.
    pub const ABSENT: Self = Self(0);

    /// An OPT of version 0.
    #[inline(always)]
    pub const fn new(payload: u16, dnssec_ok: bool) -> Self {
        Self(payload as usize | Self::PRESENT | if dnssec_ok { Self::DNSSEC_OK } else { 0 })
    }

    /// See [`Source::forget`].
    #[inline(always)]
    pub(crate) fn forget<S: Source + ?Sized>(self, source: &S) -> Self {
        Self(source.forget(self.0))
    }

    /// True if the query had an OPT; then the reply has one (RFC 6891 6.1.1).
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        self.0 & Self::PRESENT != 0
    }

    /// Payload size as the client wrote it; 0 without OPT.
    #[inline(always)]
    pub const fn payload(self) -> u16 {
        self.0 as u16
    }

    /// DNSSEC OK, echoed (RFC 3225).
    #[inline(always)]
    pub const fn dnssec_ok(self) -> bool {
        self.0 & Self::DNSSEC_OK != 0
    }

    /// Octets that a UDP reply to this client may have: at least 512 (RFC 6891 6.2.3), at most 1232.
    #[inline(always)]
    pub const fn limit(self) -> usize {
        match self.payload() {
            payload if payload < PLAIN_PAYLOAD => PLAIN_PAYLOAD as usize,
            payload if payload < EDNS_PAYLOAD => payload as usize,
            _ => EDNS_PAYLOAD as usize,
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
    // Nothing else may branch here: payload and DO are copied bit by bit.
    let payload = u16::from_be((head >> 24) as u16) as usize;
    Ok(Edns(payload | Edns::PRESENT | ((head >> 63) as usize * Edns::DNSSEC_OK)))
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
    match at.cmp(&end) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(Counter::PassManyOptions),
        Ordering::Greater => Err(Counter::PassOpt),
    }
}

/// Writes our OPT without options at `at`: payload 1232, version 0, DO as asked.
#[inline(always)]
pub fn write<K: Sink + ?Sized>(
    sink: &mut K,
    at: usize,
    dnssec_ok: bool,
    extended: u8,
    sum: &mut Sum,
) -> Option<()> {
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
