//! Octets to a query of the one shape that is answered from the table.
//!
//! QR=0, opcode QUERY, one question of class IN and a data type, no records but at most one OPT of version 0, no octet
//! too many. Everything else is passed with its reason: never a wrong answer, only a slower one.

use crate::{
    checksum::Sum,
    counters::Counter,
    edns::{self, Edns, Options},
    limits::{HEADER, MAX_NAME},
    name::{FoldedName, HashKey},
    wire::{CLASS_IN, Source, flags, rtype},
};

/// A query that can be answered from the table. Names have at most `8 * W` octets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Query<const W: usize> {
    /// Id and flags, in memory order.
    pub head: u32,
    /// The question's name.
    pub name: FoldedName<W>,
    /// The question's type.
    pub qtype: u16,
    /// OPT, or that there was none. What is not answered of it is taken out on the way.
    pub edns: Edns,
    /// What the options say; on the way they become what the reply says.
    pub options: Options,
    /// Offset behind the question.
    pub question_end: usize,
    /// Sum over the question as it stands.
    pub question_sum: Sum,
}

/// One question, no answer: QDCOUNT and ANCOUNT in memory order.
const ONE_QUESTION: u32 = 1_u16.to_be() as u32;

/// No authority, one additional record: NSCOUNT and ARCOUNT in memory order.
const ONE_ADDITIONAL: u32 = (1_u16.to_be() as u32) << 16;

impl<const W: usize> Query<W> {
    /// No query.
    #[inline(always)]
    pub fn empty() -> Self {
        Self {
            head: 0,
            name: FoldedName::empty(),
            qtype: 0,
            edns: Edns::ABSENT,
            options: Options::default(),
            question_end: 0,
            question_sum: Sum::default(),
        }
    }
}

/// Reads a query (RFC 1035 4.1, RFC 6891 6.1.2, RFC 9619). Err: why it is not of the shape.
#[inline(always)]
pub fn parse<S: Source + ?Sized, const W: usize>(source: &S, key: HashKey) -> Result<Query<W>, Counter> {
    let mut query = Query::empty();
    scan_into(source, key, &mut query).map_err(|found| reason(source, &query, found))?;
    prove(source, &query)?;
    Ok(query)
}

/// Reads a query whose name ends at the first zero octet. That the octets before it are labels is shown by a name of
/// the table that has the same ones, or by [`prove`].
#[inline(always)]
pub fn scan_into<S: Source + ?Sized, const W: usize>(
    source: &S,
    key: HashKey,
    query: &mut Query<W>,
) -> Result<(), Counter> {
    if source.len() < HEADER {
        return Err(Counter::PassNoHeader);
    }
    let (head, counts) = source.head().ok_or(Counter::PassNoHeader)?;
    let header_flags = (head >> 16) as u16;
    if header_flags & flags::QR != 0 {
        return Err(Counter::PassResponse);
    }
    if header_flags & flags::OPCODE != 0 {
        return Err(Counter::PassOpcode);
    }
    if (head >> 32) as u32 != ONE_QUESTION || (counts != 0 && counts != ONE_ADDITIONAL) {
        return Err(Counter::PassCounts);
    }
    let mut question_sum = Sum::default();
    query.name.scan_into(source, HEADER, key, &mut question_sum).ok_or(Counter::PassLongName)?;
    let len = source.forget(query.name.len);
    if len > W * 8 {
        return Err(Counter::PassLongName);
    }
    let type_class = source.u32_at(HEADER + len).ok_or(Counter::PassRunt)?;
    question_sum.add_at(len, u64::from(type_class));
    if (type_class >> 16) as u16 != CLASS_IN.to_be() {
        return Err(Counter::PassClass);
    }
    let qtype = u16::from_be(type_class as u16);
    if qtype == rtype::OPT || qtype == 0 || (rtype::META_FIRST..=rtype::ANY).contains(&qtype) {
        return Err(Counter::PassMetaType);
    }
    let question_end = HEADER + len + 4;
    let edns = if counts == 0 {
        if question_end != source.len() {
            return Err(Counter::PassTrailing);
        }
        Edns::ABSENT
    } else {
        edns::parse(source, question_end, &mut query.options)?
    };
    query.head = head as u32;
    query.name.len = len;
    query.qtype = qtype;
    query.edns = edns.forget(source);
    query.question_end = question_end;
    query.question_sum = question_sum;
    Ok(())
}

/// Why a query is passed that has not been found: a fault of its name goes before all that comes behind the name.
#[inline(always)]
pub fn reason<S: Source + ?Sized, const W: usize>(source: &S, query: &Query<W>, found: Counter) -> Counter {
    if found.is_of_header() { found } else { prove(source, query).err().unwrap_or(found) }
}

/// Follows the labels of a name that was read up to its first zero octet. Err: they are not labels, or not as many.
#[inline(always)]
pub fn prove<S: Source + ?Sized, const W: usize>(source: &S, query: &Query<W>) -> Result<(), Counter> {
    let mut at = HEADER;
    // Every label but the root has at least two octets.
    let most = W * 4 + 1;
    for _ in 0..most {
        let label = source.u8_at(at).ok_or(Counter::PassName)? as usize;
        at += 1;
        if label == 0 {
            let len = at - HEADER;
            if len > W * 8 || len > MAX_NAME {
                return Err(Counter::PassLongName);
            }
            return if len == query.name.len { Ok(()) } else { Err(Counter::PassName) };
        }
        if label > 63 {
            return Err(Counter::PassName);
        }
        at += label;
        if at >= HEADER + W * 8 {
            return Err(Counter::PassLongName);
        }
    }
    Err(Counter::PassLongName)
}
