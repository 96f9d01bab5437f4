//! Messages that are not of the one shape of [`parse`]: what is wrong with them, and the reply that says so.
//!
//! Reads as far as a message can be read, so that an error echoes the question and carries OPT where one was seen
//! (RFC 6891 6.1.1). The order of the rules is the order in which Knot and BIND apply them.
//!
//! [`parse`]: responder_common::parse

use responder_common::{
    checksum::Sum,
    client::Client,
    edns::{self, Edns, Nsid, Options},
    limits::{HEADER, MAX_NAME},
    lookup::{self, World},
    name::{FoldedName, HashKey},
    parse::Query,
    wire::{CLASS_IN, flags, rcode, rtype},
};

/// Types that no question may have, and the transfers (RFC 6895 3.1).
mod meta {
    pub const TKEY: u16 = 249;
    pub const TSIG: u16 = 250;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const MAILB: u16 = 253;
    pub const MAILA: u16 = 254;
}

/// More options than a message has room for.
const MOST_OPTIONS: usize = 0x4000;

/// Code of the cookie option.
const COOKIE: u16 = 10;

/// Octets of type and class of a question.
const QUESTION_TAIL: usize = 4;

/// The response code of a server cookie that is not ours (RFC 7873 8).
pub(super) const BADCOOKIE: u16 = 23;

/// What a query says, as far as it says anything.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Id and flags, in memory order.
    head: u32,
    question: Option<Question>,
    opt: Option<Opt>,
    /// The response code that the message earns; None: a query like any other.
    fault: Option<u16>,
    /// No question, and nothing wrong with what there is: if a cookie is in it, that is what it asks for.
    is_bare: bool,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    name_len: usize,
    qtype: u16,
}

#[derive(Clone, Copy, Debug)]
struct Opt {
    edns: Edns,
    options: Options,
    version: u8,
    /// The cookie has a server's part of whatever length.
    has_server_part: bool,
}

/// The fixed part of a record.
struct Record {
    is_root: bool,
    rtype: u16,
    class: u16,
    ttl: [u8; 4],
    data_at: usize,
    data_len: usize,
}

/// Reads a message. None: nothing may be answered, because it is a response (answering those makes loops) or has no
/// whole header.
pub fn read(message: &[u8]) -> Option<Request> {
    let header: &[u8; HEADER] = message.first_chunk()?;
    let head = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let header_flags = (head >> 16) as u16;
    if header_flags & flags::QR != 0 {
        return None;
    }
    let mut request = Request { head, question: None, opt: None, fault: None, is_bare: false };
    request.fault = scan(message, header, &mut request).err();
    if header_flags & flags::OPCODE != 0 {
        request.fault = Some(rcode::NOTIMP);
    }
    Some(request)
}

/// Walks the message and notes what it finds. Err: the response code of the first rule that is broken.
fn scan(message: &[u8], header: &[u8; HEADER], request: &mut Request) -> Result<(), u16> {
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    // RFC 9619: a query has exactly one question, but for one that asks for a cookie.
    if count(4) == 0 && count(6) + count(8) == 0 && count(10) == 1 {
        bare(message, request)?;
    }
    if count(4) != 1 {
        return Err(rcode::FORMERR);
    }
    let name_len = plain_name(message, HEADER).ok_or(rcode::FORMERR)?;
    let qtype = number(message, HEADER + name_len).ok_or(rcode::FORMERR)?;
    let qclass = number(message, HEADER + name_len + 2).ok_or(rcode::FORMERR)?;
    request.question = Some(Question { name_len, qtype });
    let in_front = count(6) + count(8);
    let mut at = HEADER + name_len + QUESTION_TAIL;
    let mut has_foreign = false;
    for i in 0..in_front + count(10) {
        let record = record(message, at).ok_or(rcode::FORMERR)?;
        at = record.data_at + record.data_len;
        if i >= in_front && record.rtype == rtype::OPT {
            note_opt(message, &record, request)?;
        } else {
            // A query carries a question and OPT. TSIG and SIG(0) are not spoken here, and an IXFR is refused below.
            has_foreign |= qtype != meta::IXFR;
        }
        if at > message.len() {
            return Err(rcode::FORMERR);
        }
    }
    if at != message.len() || has_foreign {
        return Err(rcode::FORMERR);
    }
    if request.opt.is_some_and(|opt| opt.version > 0) {
        return Err(rcode::BADVERS);
    }
    if qclass != CLASS_IN {
        return Err(rcode::REFUSED);
    }
    match qtype {
        0 | rtype::OPT | meta::TKEY | meta::TSIG => Err(rcode::FORMERR),
        meta::AXFR | meta::IXFR => Err(rcode::REFUSED),
        meta::MAILA | meta::MAILB => Err(rcode::NOTIMP),
        _ => Ok(()),
    }
}

/// A message of OPT alone (RFC 7873 5.4).
fn bare(message: &[u8], request: &mut Request) -> Result<(), u16> {
    let record = record(message, HEADER).ok_or(rcode::FORMERR)?;
    if record.rtype != rtype::OPT || record.data_at + record.data_len != message.len() {
        return Err(rcode::FORMERR);
    }
    note_opt(message, &record, request)?;
    if request.opt.is_some_and(|opt| opt.version > 0) {
        return Err(rcode::BADVERS);
    }
    request.is_bare = true;
    Ok(())
}

/// One OPT, with the root as its owner and options that fill it (RFC 6891 6.1.1, 6.1.2).
fn note_opt(message: &[u8], record: &Record, request: &mut Request) -> Result<(), u16> {
    if request.opt.is_some() {
        return Err(rcode::FORMERR);
    }
    let [_, version, high, _] = record.ttl;
    let (mut edns, mut options) = (Edns::new(record.class, high & 0x80 != 0), Options::default());
    let end = record.data_at + record.data_len;
    let whole = message.get(..end);
    let found = whole.and_then(|whole| {
        let found = edns::walk::<[u8], MOST_OPTIONS>(whole, record.data_at, end).ok()?;
        found.read(whole, &mut options).ok()
    });
    // What the data of a later version look like is not known.
    if version == 0 {
        edns = edns | found.unwrap_or_default();
    }
    let has_server_part =
        whole.is_some_and(|whole| cookie_len(&whole[record.data_at..]).is_some_and(|len| len > 8));
    request.opt = Some(Opt { edns, options, version, has_server_part });
    let is_well_formed = whole.is_some() && (version > 0 || found.is_some());
    if record.is_root && is_well_formed { Ok(()) } else { Err(rcode::FORMERR) }
}

/// Octets of the first cookie among options.
fn cookie_len(mut options: &[u8]) -> Option<usize> {
    loop {
        let (code, len) = (number(options, 0)?, usize::from(number(options, 2)?));
        if code == COOKIE {
            return Some(len);
        }
        options = options.get(4 + len..)?;
    }
}

fn number(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// Octets of a name without pointers, root label included.
fn plain_name(message: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let label = usize::from(*message.get(at)?);
        at += 1;
        if label == 0 {
            return (at - from <= MAX_NAME).then_some(at - from);
        }
        if label > 63 || at + label - from > MAX_NAME {
            return None;
        }
        at += label;
    }
}

/// The record at `at`. Its owner may end in a pointer, which nobody follows.
fn record(message: &[u8], at: usize) -> Option<Record> {
    let mut end = at;
    loop {
        match *message.get(end)? {
            0 => {
                end += 1;
                break;
            }
            0xc0.. => {
                end += 2;
                break;
            }
            label @ 1..=63 if end + usize::from(label) - at < MAX_NAME => end += usize::from(label) + 1,
            _ => return None,
        }
    }
    let fixed: &[u8; 10] = message.get(end..)?.first_chunk()?;
    Some(Record {
        is_root: end == at + 1,
        rtype: u16::from_be_bytes([fixed[0], fixed[1]]),
        class: u16::from_be_bytes([fixed[2], fixed[3]]),
        ttl: [fixed[4], fixed[5], fixed[6], fixed[7]],
        data_at: end + 10,
        data_len: usize::from(u16::from_be_bytes([fixed[8], fixed[9]])),
    })
}

impl Request {
    /// The response code that the message earns, if it is not a query that can be answered.
    pub fn fault(&self) -> Option<u16> {
        self.fault
    }

    /// The query, if nothing is wrong with it.
    pub fn query(&self, message: &[u8], key: HashKey) -> Option<Query<32>> {
        let question = self.question.filter(|_| self.fault.is_none())?;
        let mut question_sum = Sum::default();
        let name = FoldedName::read(message, HEADER, question.name_len, key, &mut question_sum)?;
        let question_end = HEADER + question.name_len + QUESTION_TAIL;
        question_sum.add_at(question.name_len, tail_word(message, question_end - QUESTION_TAIL)?);
        Some(Query {
            head: self.head,
            name,
            qtype: question.qtype,
            edns: self.opt.map_or(Edns::ABSENT, |opt| opt.edns),
            options: self.opt.map_or_else(Options::default, |opt| opt.options),
            question_end,
            question_sum,
        })
    }

    /// Checks the cookie, for an error before the query was read whole. Some: the response code of a cookie of a length that
    /// there is not (RFC 7873 5.2.2).
    pub fn settle<W: World>(&mut self, world: &W, client: &Client) -> Option<u16> {
        let opt = self.opt.as_mut()?;
        opt.edns = opt.edns.without_subnet();
        let settled = lookup::settle_options(world, client, &mut opt.edns, &mut opt.options);
        if settled.is_err() {
            opt.edns = opt.edns.without_cookie();
        }
        (settled.is_err() && self.fault.is_none()).then_some(rcode::FORMERR)
    }

    /// What a query without a question gets, after [`Self::settle`]: the code of a cookie that is asked for or confirmed
    /// (RFC 7873 5.4), and whether it was confirmed. None: it asks for none.
    pub fn cookie_code(&self) -> Option<(u16, bool)> {
        let opt = self.opt.filter(|opt| self.is_bare && opt.edns.has_cookie())?;
        let is_valid = opt.edns.has_valid_cookie();
        Some((if opt.has_server_part && !is_valid { BADCOOKIE } else { rcode::NOERROR }, is_valid))
    }

    /// Writes an error reply: header, the question if there is a whole one, OPT if there was one. Returns its length, at
    /// most 12 + 259 + 11 + 28 + 68. None: `out` is too short.
    pub fn error(&self, message: &[u8], nsid: &Nsid, code: u16, out: &mut [u8]) -> Option<usize> {
        let mut end = HEADER;
        if let Some(question) = self.question {
            end += question.name_len + QUESTION_TAIL;
        }
        out.get_mut(..end)?.copy_from_slice(message.get(..end)?);
        let kept = (self.head >> 16) as u16 & (flags::OPCODE | flags::RD | flags::CD);
        let reply_flags = kept | flags::QR | ((code & 0xf) << flags::RCODE_SHIFT);
        out[2..4].copy_from_slice(&reply_flags.to_le_bytes());
        out[4..HEADER].copy_from_slice(&[0, u8::from(self.question.is_some()), 0, 0, 0, 0, 0, 0]);
        if let Some(opt) = self.opt {
            out[11] = 1;
            edns::write(out, end, opt.edns, &opt.options, nsid, (code >> 4) as u8, &mut Sum::default())?;
            end += opt.edns.reply_len(&opt.options, nsid);
        }
        Some(end)
    }
}

impl From<&Query<32>> for Request {
    /// For an error after a query was read whole.
    fn from(query: &Query<32>) -> Self {
        Self {
            head: query.head,
            question: Some(Question { name_len: query.name.len, qtype: query.qtype }),
            opt: query.edns.is_present().then_some(Opt {
                edns: query.edns,
                options: query.options,
                version: 0,
                has_server_part: false,
            }),
            fault: None,
            is_bare: false,
        }
    }
}

fn tail_word(message: &[u8], at: usize) -> Option<u64> {
    message.get(at..)?.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b)))
}
