//! The Internet checksum (RFC 1071), summed in the order in which octets are read and written anyway.

/// A running one's complement sum of 16-bit lanes in memory order.
///
/// Sums of up to 2^31 words cannot overflow: each word adds less than 2^33.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Eight octets that begin at an even distance from the start.
    #[inline(always)]
    pub fn add(&mut self, word: u64) {
        self.0 += (word & 0xffff_ffff) + (word >> 32);
    }

    /// Up to eight octets at any distance: at an odd one, high and low octets of the lanes change places.
    #[inline(always)]
    pub fn add_at(&mut self, at: usize, word: u64) {
        // 2^64 is 1 modulo 2^16 - 1, so rotating the whole word by 8 multiplies it by 2^8, which swaps every lane.
        let shift = (at as u32 & 1) * 8;
        self.add((word << shift) | ((word >> 1) >> (63 - shift)));
    }

    /// Another sum over octets that begin at an even distance.
    #[inline(always)]
    pub fn join(&mut self, other: Self) {
        self.add(other.0);
    }

    /// Another sum over octets that begin at any distance.
    #[inline(always)]
    pub fn join_at(&mut self, at: usize, other: Self) {
        self.add_at(at, other.0);
    }

    /// The checksum as it is stored, in memory order.
    #[inline(always)]
    pub fn finish(self) -> u16 {
        let mut s = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        s = (s & 0xffff) + (s >> 16);
        s = (s & 0xffff) + (s >> 16);
        s = (s & 0xffff) + (s >> 16);
        !(s as u16)
    }

    /// The checksum of UDP, where 0 means "none" and is sent as all ones (RFC 768).
    #[inline(always)]
    pub fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::Sum;

    /// RFC 1071 4.1, octet by octet.
    fn reference(octets: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in octets.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_give_the_reference_sum(pieces in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..=8), 0..40)) {
            let mut sum = Sum::default();
            let mut all: Vec<u8> = Vec::new();
            for piece in &pieces {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                sum.add_at(all.len(), u64::from_le_bytes(word));
                all.extend(piece);
            }
            // All ones and zero are the same number in one's complement.
            let (got, want) = (u16::from_be(sum.finish()), reference(&all));
            prop_assert!(got == want || (got ^ want == 0xffff && (got == 0 || want == 0)));
        }
    }
}
