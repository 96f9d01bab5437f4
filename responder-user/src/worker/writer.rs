//! Writes replies that the packet lane does not make: several owners, types other than addresses, NXDOMAIN.
//!
//! Names are compressed against names that stand in the message already (RFC 1035 4.1.4), inside data only for the
//! types of RFC 1035 (RFC 3597 4).

use responder_common::{
    checksum::Sum,
    edns::{self, Edns, Nsid, Options},
    limits::HEADER,
    parse::Query,
    wire::{CLASS_IN, flags, rtype},
};

/// Type PTR.
const PTR: u16 = 12;
/// Type MX.
const MX: u16 = 15;

/// Label starts that are remembered; later names are written without help from earlier ones.
const KNOWN: usize = 64;

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Answer.
    Answer,
    /// Authority.
    Authority,
    /// Additional.
    Additional,
}

/// A reply under construction. What does not fit makes it a truncated one without records (RFC 2181 9).
pub struct Writer<'b> {
    out: &'b mut [u8],
    at: usize,
    /// Octets without OPT.
    limit: usize,
    head: u32,
    question_end: usize,
    edns: Edns,
    options: Options,
    nsid: Nsid,
    counts: [u16; 3],
    known: [u16; KNOWN],
    known_count: usize,
    overflow: bool,
    authority: u16,
}

/// Where the writer stood.
#[derive(Clone, Copy)]
pub struct Mark {
    at: usize,
    counts: [u16; 3],
    known_count: usize,
}

impl<'b> Writer<'b> {
    /// Copies the question. `limit` is the whole length that the reply may have. None: not even the question fits.
    pub fn new(
        message: &[u8],
        query: &Query<32>,
        nsid: &Nsid,
        out: &'b mut [u8],
        limit: usize,
    ) -> Option<Self> {
        let reserve = query.edns.reply_len(&query.options, nsid);
        let limit = limit.min(out.len()).checked_sub(reserve)?;
        let end = query.question_end;
        if end > limit {
            return None;
        }
        out.get_mut(..end)?.copy_from_slice(message.get(..end)?);
        let mut writer = Self {
            out,
            at: end,
            limit,
            head: query.head,
            question_end: end,
            edns: query.edns,
            options: query.options,
            nsid: *nsid,
            counts: [0; 3],
            known: [0; KNOWN],
            known_count: 0,
            overflow: false,
            authority: flags::AA,
        };
        let mut at = HEADER;
        while let Some(label @ 1..) = writer.out.get(at).copied() {
            writer.know(at);
            at += usize::from(label) + 1;
        }
        Some(writer)
    }

    /// What follows is a referral: a reply without answers is not an authoritative one. With answers AA goes with the first
    /// of them (RFC 1035 4.1.1).
    pub fn refer(&mut self) {
        if self.counts[Section::Answer as usize] == 0 {
            self.authority = 0;
        }
    }

    /// True once something did not fit.
    pub fn is_full(&self) -> bool {
        self.overflow
    }

    /// Octets that are left.
    pub fn room(&self) -> usize {
        self.limit - self.at
    }

    /// To go back to with [`Self::rewind`].
    pub fn mark(&self) -> Mark {
        Mark { at: self.at, counts: self.counts, known_count: self.known_count }
    }

    /// Takes back what was written since `mark`, and what did not fit. For records that may be left out.
    pub fn rewind(&mut self, mark: Mark) {
        (self.at, self.counts, self.known_count) = (mark.at, mark.counts, mark.known_count);
        self.overflow = false;
    }

    /// Appends a record. Sections are filled in their order.
    pub fn record(&mut self, section: Section, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) {
        self.name(owner);
        self.put(&rtype.to_be_bytes());
        self.put(&CLASS_IN.to_be_bytes());
        self.put(&ttl.to_be_bytes());
        let length_at = self.at;
        self.put(&[0, 0]);
        let data_at = self.at;
        self.data(rtype, data);
        if self.overflow {
            return;
        }
        let length = (self.at - data_at) as u16;
        self.out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
        self.counts[section as usize] += 1;
    }

    fn data(&mut self, rtype: u16, data: &[u8]) {
        let (front, names) = match rtype {
            rtype::NS | rtype::CNAME | PTR => (0, 1),
            MX => (2, 1),
            rtype::SOA => (0, 2),
            _ => return self.put(data),
        };
        let Some((fixed, mut rest)) = data.split_at_checked(front) else { return self.put(data) };
        self.put(fixed);
        for _ in 0..names {
            let Some(len) = name_len(rest) else { break };
            self.name(&rest[..len]);
            rest = &rest[len..];
        }
        self.put(rest);
    }

    /// A name: its first labels as they are, then a pointer if the others stand in the message already.
    fn name(&mut self, wire: &[u8]) {
        let mut at = 0;
        while let Some(label @ 1..) = wire.get(at).copied() {
            if let Some(target) = self.find(&wire[at..]) {
                return self.put(&(0xc000 | target).to_be_bytes());
            }
            self.know(self.at);
            let end = at + usize::from(label) + 1;
            self.put(wire.get(at..end).unwrap_or_default());
            at = end;
        }
        self.put(&[0]);
    }

    fn know(&mut self, at: usize) {
        if at < 0x4000 && self.known_count < KNOWN {
            self.known[self.known_count] = at as u16;
            self.known_count += 1;
        }
    }

    fn find(&self, wire: &[u8]) -> Option<u16> {
        self.known[..self.known_count].iter().copied().find(|at| self.stands_at(usize::from(*at), wire))
    }

    /// Does this name stand in the message there? Pointers are our own and go backwards.
    fn stands_at(&self, mut at: usize, mut wire: &[u8]) -> bool {
        loop {
            let (Some(&label), Some(&wanted)) = (self.out[..self.at].get(at), wire.first()) else {
                return false;
            };
            if label >= 0xc0 {
                let Some(low) = self.out.get(at + 1) else { return false };
                at = usize::from(label & 0x3f) << 8 | usize::from(*low);
                continue;
            }
            if label != wanted {
                return false;
            }
            if label == 0 {
                return true;
            }
            let len = usize::from(label) + 1;
            let (Some(ours), Some(theirs)) = (self.out[..self.at].get(at..at + len), wire.get(..len)) else {
                return false;
            };
            if !ours.eq_ignore_ascii_case(theirs) {
                return false;
            }
            at += len;
            wire = &wire[len..];
        }
    }

    fn put(&mut self, octets: &[u8]) {
        let end = self.at + octets.len();
        if self.overflow || end > self.limit {
            self.overflow = true;
            return;
        }
        self.out[self.at..end].copy_from_slice(octets);
        self.at = end;
    }

    /// Writes header and OPT. Returns the length, and whether TC is set.
    pub fn finish(mut self, rcode: u16) -> (usize, bool) {
        if self.overflow {
            self.at = self.question_end;
            self.counts = [0; 3];
        }
        let kept = (self.head >> 16) as u16 & (flags::RD | flags::CD);
        let truncated = if self.overflow { flags::TC } else { 0 };
        let reply_flags =
            kept | flags::QR | self.authority | truncated | ((rcode & 0xf) << flags::RCODE_SHIFT);
        let [answers, authorities, additionals] = self.counts;
        let additionals = additionals + u16::from(self.edns.is_present());
        self.out[2..4].copy_from_slice(&reply_flags.to_le_bytes());
        self.out[4..6].copy_from_slice(&1_u16.to_be_bytes());
        self.out[6..8].copy_from_slice(&answers.to_be_bytes());
        self.out[8..10].copy_from_slice(&authorities.to_be_bytes());
        self.out[10..12].copy_from_slice(&additionals.to_be_bytes());
        if self.edns.is_present() {
            // Room for it was set aside at the start.
            let (edns, options, nsid) = (self.edns, &self.options, &self.nsid);
            let _ = edns::write(&mut *self.out, self.at, edns, options, nsid, 0, &mut Sum::default());
            self.at += edns.reply_len(options, nsid);
        }
        (self.at, self.overflow)
    }
}

/// Octets of the plain name at the start of `octets`.
fn name_len(octets: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let label = usize::from(*octets.get(at)?);
        at += label + 1;
        if label == 0 {
            return Some(at);
        }
    }
}
