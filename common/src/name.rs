//! Names in words of eight octets: folded to lower case, hashed with a key, compared whole.

use crate::{checksum::Sum, wire::Source};

/// The secret of the table; it lives with the maps (design section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    /// Start value.
    pub seed: u64,
    /// Multiplier; made odd on use.
    pub multiplier: u64,
}

/// A name of up to `8 * W` octets: folded, zero-padded, with its keyed hash.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FoldedName<const W: usize> {
    /// Wire format in lower case; octets behind the name are zero.
    pub words: [u64; W],
    /// Octets, root label included: 1 to `8 * W`.
    pub len: usize,
    /// Keyed hash of words and length.
    pub hash: u64,
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// ASCII letters of a word to lower case (RFC 4343). Length octets are at most 63 and stay as they are.
#[inline(always)]
pub fn fold(word: u64) -> u64 {
    let low = word & (0x7f * ONES);
    let from_a = low + (0x80 - 0x41) * ONES;
    let past_z = low + (0x7f - 0x5a) * ONES;
    let upper = (from_a ^ past_z) & !word & (0x80 * ONES);
    word | (upper >> 2)
}

/// One step of the hash.
#[inline(always)]
fn mix(hash: u64, word: u64, multiplier: u64) -> u64 {
    let h = (hash ^ word).wrapping_mul(multiplier | 1);
    h ^ (h >> 32)
}

/// The last step: spreads the high bits over the bucket bits.
#[inline(always)]
fn finish(hash: u64, len: usize, multiplier: u64) -> u64 {
    let h = mix(hash, len as u64, multiplier);
    let h = h.wrapping_mul(0x9fb2_1c65_1e98_df25);
    h ^ (h >> 29)
}

/// The highest bit of the first octet that is zero; 0 if there is none.
#[inline(always)]
fn first_zero(word: u64) -> u64 {
    let zeros = word.wrapping_sub(ONES) & !word & (0x80 * ONES);
    // A borrow can mark octets above the first zero one, never below it.
    zeros & zeros.wrapping_neg()
}

/// Octets before the one whose highest bit is given. The processor of a BPF program has no instruction for this.
#[inline(always)]
fn octets_before(bit: u64) -> usize {
    // Moves the octet that has this number to the top.
    ((bit >> 7).wrapping_mul(0x0001_0203_0405_0607) >> 56) as usize
}

impl<const W: usize> FoldedName<W> {
    /// No name.
    #[inline(always)]
    pub const fn empty() -> Self {
        Self { words: [0; W], len: 0, hash: 0 }
    }

    /// Reads the octets at `at`, which is even, up to the first zero octet: what a name is if no label has a zero octet
    /// in it. Label lengths are not looked at: a name of the table with the same octets has the same labels, and every
    /// other one is for [`crate::parse::prove`]. None: there is no zero octet in `8 * W` octets or up to the end of the
    /// message. The octets as they stand are added to `sum`.
    #[inline(always)]
    pub fn scan_into<S: Source + ?Sized>(
        &mut self,
        source: &S,
        at: usize,
        key: HashKey,
        sum: &mut Sum,
    ) -> Option<()> {
        // Zero, but not a zero that is known: names of all lengths look alike to a checker that follows each path.
        self.words = [source.forget(0) as u64; W];
        let mut hash = key.seed;
        for (i, folded) in self.words.iter_mut().enumerate() {
            let word = source.word_at(at + i * 8)?;
            let zero = first_zero(word);
            // All octets before the zero one, or all of them if there is none.
            let word = word & (zero >> 7).wrapping_sub(1);
            sum.add(word);
            *folded = fold(word);
            hash = mix(hash, *folded, key.multiplier);
            if zero != 0 {
                self.len = i * 8 + octets_before(zero) + 1;
                self.hash = finish(hash, self.len, key.multiplier);
                return Some(());
            }
        }
        None
    }

    /// Reads the `len` octets of a name at `at`, which is even. None: the message ends inside the name, or it has more
    /// than `8 * W` octets. The octets as they stand are added to `sum`.
    #[inline(always)]
    pub fn read<S: Source + ?Sized>(
        source: &S,
        at: usize,
        len: usize,
        key: HashKey,
        sum: &mut Sum,
    ) -> Option<Self> {
        let mut out = Self { words: [0; W], len, hash: key.seed };
        for (i, folded) in out.words.iter_mut().enumerate() {
            let left = len.saturating_sub(i * 8);
            if left == 0 {
                break;
            }
            let mut word = source.word_at(at + i * 8)?;
            if left < 8 {
                word &= (1 << (left * 8)) - 1;
            }
            sum.add(word);
            *folded = fold(word);
            out.hash = mix(out.hash, *folded, key.multiplier);
        }
        out.hash = finish(out.hash, len, key.multiplier);
        (len <= W * 8 && at + len <= source.len()).then_some(out)
    }

    /// From a whole name in wire format; None if it is longer than `8 * W` octets or empty.
    pub fn from_wire(wire: &[u8], key: HashKey) -> Option<Self> {
        if wire.is_empty() || wire.len() > W * 8 {
            return None;
        }
        let mut words = [0; W];
        for (word, octets) in words.iter_mut().zip(wire.chunks(8)) {
            let mut whole = [0; 8];
            whole[..octets.len()].copy_from_slice(octets);
            *word = fold(u64::from_le_bytes(whole));
        }
        let used = wire.len().div_ceil(8);
        let hash = words[..used].iter().fold(key.seed, |h, w| mix(h, *w, key.multiplier));
        Some(Self { words, len: wire.len(), hash: finish(hash, wire.len(), key.multiplier) })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;

    use super::*;

    const KEY: HashKey = HashKey { seed: 7, multiplier: 0x1234_5678_9abc_def1 };

    proptest! {
        #[test]
        fn fold_is_to_ascii_lowercase(octets in any::<[u8; 8]>()) {
            let folded = fold(u64::from_le_bytes(octets)).to_le_bytes();
            prop_assert_eq!(folded, octets.map(|b| b.to_ascii_lowercase()));
        }

        #[test]
        fn reading_a_message_and_a_name_agree(name in proptest::collection::vec(any::<u8>(), 1..=104)) {
            let mut message = std::vec![0u8; 12];
            message.extend(&name);
            let mut sum = Sum::default();
            let read = FoldedName::<13>::read(&message[..], 12, name.len(), KEY, &mut sum).unwrap();
            let made = FoldedName::<13>::from_wire(&name, KEY).unwrap();
            prop_assert_eq!((read.words, read.len, read.hash), (made.words, made.len, made.hash));
            let wide = FoldedName::<32>::from_wire(&name, KEY).unwrap();
            prop_assert_eq!(wide.hash, made.hash);
            let mut whole = Sum::default();
            for (i, octets) in name.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..octets.len()].copy_from_slice(octets);
                whole.add_at(i * 8, u64::from_le_bytes(word));
            }
            prop_assert_eq!(sum.finish(), whole.finish());
        }

        #[test]
        fn case_does_not_change_the_hash(name in "[a-zA-Z0-9.-]{1,100}") {
            let lower = name.to_ascii_lowercase();
            let a = FoldedName::<13>::from_wire(name.as_bytes(), KEY).unwrap();
            let b = FoldedName::<13>::from_wire(lower.as_bytes(), KEY).unwrap();
            prop_assert_eq!((a.words, a.hash), (b.words, b.hash));
        }
    }

    #[test]
    fn hash_spreads_over_buckets_and_fingerprints() {
        let mut buckets = std::collections::HashSet::new();
        let mut fingerprints = std::collections::HashSet::new();
        for i in 0..100_000u32 {
            let name = std::format!("\x08host{i:04}\x07example\x03com\x00");
            let name = FoldedName::<13>::from_wire(name.as_bytes(), KEY).unwrap();
            buckets.insert(name.hash & 0xffff);
            fingerprints.insert(name.hash >> 24);
        }
        // 100,000 balls into 65,536 bins leave e^-1.526 = 21.7 % empty.
        assert!((50_900..51_800).contains(&buckets.len()), "{}", buckets.len());
        assert!(fingerprints.len() > 99_990, "{}", fingerprints.len());
    }
}
