//! Which addresses of an answer set one reply carries, and in which order.

use crate::{
    counters::Counter,
    layout::{AnswerSet, Soa},
    limits::{MAX_POOL, MAX_RING},
};

/// An answer for one query.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'w> {
    /// Offset of the apex inside the name.
    pub apex_at: u8,
    /// Slot of the zone's SOA.
    pub zone: u32,
    /// What is said.
    pub kind: Kind<'w>,
}

impl Answer<'_> {
    /// The counter that an answer of the XDP program raises.
    #[inline(always)]
    pub fn counter(&self) -> Counter {
        match self.kind {
            Kind::Addresses { is_aaaa: false, .. } => Counter::AnswerA,
            Kind::Addresses { is_aaaa: true, .. } => Counter::AnswerAaaa,
            Kind::Negative { no_name: false, .. } => Counter::AnswerNodata,
            Kind::Negative { no_name: true, .. } => Counter::AnswerNxdomain,
        }
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'w> {
    /// Address records.
    Addresses {
        /// Which ones.
        selection: Selection<'w>,
        /// TTL in seconds.
        ttl: u32,
        /// AAAA, else A.
        is_aaaa: bool,
    },
    /// No records, with the SOA (RFC 2308 2).
    Negative {
        /// The zone.
        soa: &'w Soa,
        /// Lower half: the serial, unless it is fixed.
        generation: u64,
        /// NXDOMAIN, else NOERROR.
        no_name: bool,
    },
}

/// A set and the place of its ring that a turn hits.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'w> {
    /// The set.
    pub set: &'w AnswerSet,
    /// Index of the first address.
    pub start: u32,
}

impl<'w> Selection<'w> {
    /// The selection of a turn below the places of the ring.
    #[inline(always)]
    pub fn of(set: &'w AnswerSet, turn: u32) -> Self {
        let start = if set.ring_len > 1 { set.ring[turn as usize & (MAX_RING - 1)] as u32 } else { 0 };
        Self { set, start }
    }

    /// Index of the `i`th address of the reply: the rotating ones from `start` on, then the others in their order.
    #[inline(always)]
    pub fn index(&self, i: u32) -> usize {
        place(self.start, self.set.rotate as u32, i)
    }
}

/// See [`Selection::index`].
#[inline(always)]
pub fn place(start: u32, rotate: u32, i: u32) -> usize {
    let turned = start + i;
    let index = if i >= rotate {
        i
    } else if turned >= rotate {
        turned - rotate
    } else {
        turned
    };
    index as usize & (MAX_POOL - 1)
}
