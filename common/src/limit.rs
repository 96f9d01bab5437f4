//! How many replies one client network may get (response rate limiting), for the XDP program and the workers alike.
//!
//! A bucket of tokens is the time at which it is full again (GCRA): one word, no refill, nothing to do while it rests.
//! Buckets stand in lines of four. The line comes from a keyed hash of the prefix, so nobody can aim at the line of
//! another prefix; 24 more bits of the hash stand in the word as a tag. A prefix without a bucket takes the one of its
//! line that is full soonest, which knows least. So a flood of prefixes can make the table forget a prefix, which then
//! starts with a full bucket again; it never makes an innocent one wait with the guilty.
//!
//! The table is an array that both lanes and all CPUs share, changed by compare-and-swap: the limit is one number,
//! whatever CPUs the queries of a prefix come to, and whoever answers them. A BPF hash map would reuse elements under a
//! reader; buckets for each CPU would multiply the limit by the CPUs that one prefix reaches. The price is a line that
//! moves between CPUs, of prefixes that several of them serve; a limited query writes nothing but a count.

use bytemuck::{Pod, Zeroable};

use crate::{
    client::Client,
    name::HashKey,
    switches::{SECOND, UNIT_SHIFT},
};

/// Buckets of a line.
pub const WAYS: usize = 4;

/// Lines of the table that limits good answers: room for 262,144 prefixes in 4 MiB.
pub const LINES: u32 = 1 << 16;

/// Length of an IPv4 prefix; one /24 is one network for most purposes (spec/config.md, limits).
pub const BITS4: u32 = 24;

/// Length of an IPv6 prefix.
pub const BITS6: u32 = 56;

/// Tries to take a token while other CPUs take theirs of the same bucket.
const TRIES: usize = 3;

/// Bits of the time in a word; the tag stands above them. They turn round in 4.9 hours.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// No bucket is full later than this after now: a word that says so has rested for long.
const FARTHEST: u64 = 8 * SECOND;

/// Four buckets, and how often each said no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line {
    /// Tag above, time at which the bucket is full again below; 0 is free.
    pub words: [u64; WAYS],
    /// Queries that were limited. Stays when a bucket changes hands.
    pub limited: [u64; WAYS],
}

/// How fast a bucket fills, and how much it holds; both in units of 16 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time that one token takes.
    pub interval: u64,
    /// Time that a whole bucket takes; at most [`FARTHEST`].
    pub depth: u64,
}

impl Rate {
    /// A rate that has a second's worth of tokens at once after silence, from [`Switches::interval`].
    ///
    /// [`Switches::interval`]: crate::switches::Switches::interval
    #[inline(always)]
    pub const fn each(interval: u64) -> Self {
        // The interval was rounded up: without the rest, a bucket would hold one token less than the rate.
        Self { interval, depth: SECOND + interval - 1 }
    }

    /// So many a second, and so many at once after silence. `rate` is at least 1; more than eight seconds' worth at once
    /// counts as eight.
    pub const fn new(rate: u64, burst: u64) -> Self {
        let interval = SECOND.div_ceil(rate);
        let depth = interval * burst;
        Self { interval, depth: if depth > FARTHEST { FARTHEST } else { depth } }
    }
}

/// A time in units, as words hold it. `nanoseconds` is CLOCK_MONOTONIC, of which both lanes read the coarse form.
#[inline(always)]
pub const fn time(nanoseconds: u64) -> u64 {
    (nanoseconds >> UNIT_SHIFT) & TIME_MASK
}

/// Units until the bucket of a word is full; 0: it is.
#[inline(always)]
const fn ahead(word: u64, now: u64) -> u64 {
    let ahead = word.wrapping_sub(now) & TIME_MASK;
    if ahead > FARTHEST { 0 } else { ahead }
}

/// The word of a bucket after a token was taken. None: there is none.
#[inline(always)]
pub const fn take(word: u64, tag: u64, now: u64, rate: Rate) -> Option<u64> {
    let full_in = ahead(word, now) + rate.interval;
    if full_in > rate.depth {
        return None;
    }
    Some((tag << TIME_BITS) | (now.wrapping_add(full_in) & TIME_MASK))
}

/// The prefix of a client as a number that differs between the families.
#[inline(always)]
pub const fn prefix(client: Client) -> u64 {
    match client {
        Client::V4(address) => (1 << 63) | (address >> (32 - BITS4)) as u64,
        Client::V6(address) => (1 << 62) | (u128::from_be_bytes(address) >> (128 - BITS6)) as u64,
    }
}

/// The line of a prefix, and its tag.
#[inline(always)]
pub const fn place(prefix: u64, key: HashKey, lines: u32) -> (u32, u64) {
    let h = (prefix ^ key.seed).wrapping_mul(key.multiplier | 1);
    let h = (h ^ (h >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    let h = h ^ (h >> 29);
    (h as u32 & (lines - 1), h >> TIME_BITS)
}

/// What a query may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its answer.
    Answer,
    /// An empty reply with TC: whoever really asks comes again by TCP.
    Slip,
    /// Nothing.
    Nothing,
}

/// Memory of buckets, shared or not.
pub trait Table {
    /// A line of it.
    type Line: Copy;
    /// Lines, a power of two.
    fn lines(&self) -> u32;
    /// One of them. None: there is none, which is a fault of whoever made the table.
    fn line(&self, index: u32) -> Option<Self::Line>;
    /// The word of a bucket, read once and whole; `way` below 4.
    fn load(&self, line: Self::Line, way: usize) -> u64;
    /// Puts `new` in the place of `old`. False: it was not `old` any more.
    fn swap(&self, line: Self::Line, way: usize, old: u64, new: u64) -> bool;
    /// Counts a query that was limited. Returns how many there were before.
    fn count(&self, line: Self::Line, way: usize) -> u64;
    /// As [`crate::wire::Source::forget`].
    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        value
    }
}

/// The bucket of a tag in a line; without one, the bucket that is full soonest.
///
/// Without branches: which bucket it is cannot be predicted, and a program that is checked path by path has one path here.
#[inline(always)]
fn way<T: Table>(table: &T, line: T::Line, tag: u64, now: u64) -> usize {
    // 1 for a negative number.
    let sign = |number: u64| table.forget((number >> 63) as usize) as u64;
    let rank = |way: usize| {
        let word = table.load(line, way);
        let difference = (word >> TIME_BITS) ^ tag;
        let differs = sign(difference | difference.wrapping_neg());
        let ahead = word.wrapping_sub(now) & TIME_MASK;
        let is_near = 1 - sign(FARTHEST.wrapping_sub(ahead));
        // 0 for the bucket of the tag; for others, 1 and how far they are from full.
        ((differs * (1 + is_near * ahead)) << 2) | way as u64
    };
    let less = |a: u64, b: u64| b ^ ((a ^ b) & sign(a.wrapping_sub(b)).wrapping_neg());
    let least = less(less(rank(0), rank(1)), less(rank(2), rank(3)));
    table.forget(least as usize) & (WAYS - 1)
}

/// Takes a token of a prefix.
///
/// Where other CPUs change the bucket under every try, the query is answered: an error in its favour, once among as many
/// as there are CPUs.
#[inline(always)]
pub fn ask<T: Table>(
    table: &T,
    key: HashKey,
    prefix: u64,
    now: u64,
    rate: Rate,
    slip: u64,
) -> Option<Verdict> {
    let (index, tag) = place(prefix, key, table.lines());
    let line = table.line(index)?;
    let way = way(table, line, tag, now);
    for _ in 0..TRIES {
        let old = table.load(line, way);
        // The bucket of another prefix counts as full.
        let own = if old >> TIME_BITS == tag { old } else { now };
        match take(own, tag, now, rate) {
            Some(new) if table.swap(line, way, old, new) => return Some(Verdict::Answer),
            Some(_) => {}
            None => return Some(limited(table.count(line, way), slip)),
        }
    }
    Some(Verdict::Answer)
}

/// What the query gets that is limited after `before` others.
#[inline(always)]
const fn limited(before: u64, slip: u64) -> Verdict {
    if slip > 0 && before.wrapping_add(1).is_multiple_of(slip) { Verdict::Slip } else { Verdict::Nothing }
}

const _: () = {
    assert!(size_of::<Line>() == 64);
    assert!(LINES.is_power_of_two());
    // A whole second at one reply a second, and as much again while it is taken.
    assert!(Rate::each(SECOND).depth <= FARTHEST);
};

#[cfg(test)]
mod tests;
