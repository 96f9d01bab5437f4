//! What writer and reader of the proof agree on: names, and contents that betray where they come from. Compiled into
//! the reader in the kernel and, by its path, into the test that writes.

use responder_common::wire::Source;

/// Octets of every name: `\x07n??????\x05proof\x00`.
pub const NAME_LEN: usize = 15;

/// Address words that are tied to owner and generation: all that an answer of eight AAAA records copies.
pub const TIED: usize = 32;

/// Owners that there can be at most.
pub const MOST_OWNERS: u32 = 1024;

/// Reads of one run of the program.
pub const READS: u32 = 256;

/// What the reader is told, and what it found.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Proof {
    /// State of the random numbers; not 0.
    pub seed: u64,
    /// Names that are always there; a power of two.
    pub names: u64,
    /// Names that come and go, numbered behind the others; a power of two, or 0.
    pub guests: u64,
    /// Owners; a power of two. Name `i` belongs to owner `i & (owners - 1)`.
    pub owners: u64,
    /// 1: read the naive map.
    pub naive: u64,
    /// Reads.
    pub reads: u64,
    /// Guests that were there.
    pub guests_seen: u64,
    /// Answers of another owner.
    pub foreign: u64,
    /// Answers or names of which parts do not belong together.
    pub torn: u64,
    /// A name that is always there was not found, or had no answer.
    pub missed: u64,
    /// An answer older than one seen before for the same owner.
    pub backward: u64,
}

/// An answer of the naive map.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NaiveAnswer {
    /// As [`AnswerSet::generation`].
    pub generation: u64,
    /// As [`AnswerSet::made_for`].
    pub made_for: u64,
    /// As [`AnswerSet::addresses`].
    pub addresses: [u32; TIED],
}

/// The words of a name.
#[inline(always)]
pub fn name_words(number: u32) -> [u64; 2] {
    let mut first = 7 | (b'n' as u64) << 8;
    for digit in 0..6 {
        let letter = b'a' as u64 + (number >> (digit * 4) & 0xf) as u64;
        first |= letter << (16 + digit * 8);
    }
    [first, u64::from_le_bytes(*b"\x05proof\0\0")]
}

/// A name as a message, for the reading of names that the product does.
pub struct Wire(pub [u64; 2]);

impl Source for Wire {
    #[inline(always)]
    fn len(&self) -> usize {
        12 + NAME_LEN
    }

    #[inline(always)]
    fn u8_at(&self, _at: usize) -> Option<u8> {
        None
    }

    #[inline(always)]
    fn u16_at(&self, _at: usize) -> Option<u16> {
        None
    }

    #[inline(always)]
    fn u32_at(&self, _at: usize) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn u64_at(&self, at: usize) -> Option<u64> {
        match at {
            12 => Some(self.0[0]),
            19 => Some(self.0[0] >> 56 | self.0[1] << 8),
            _ => None,
        }
    }
}

/// A word that only this owner, generation and place have.
#[inline(always)]
pub fn tie(owner: u32, generation: u64, place: u32) -> u32 {
    owner.wrapping_mul(0x9e37_79b1)
        ^ (generation as u32).wrapping_mul(0x85eb_ca6b)
        ^ place.wrapping_mul(0xc2b2_ae35)
}
