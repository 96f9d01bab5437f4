//! Rendezvous hashing for `source-ip-hash`: every member of a pool gets a score for the client's prefix, and the highest
//! score wins. A member that leaves moves its own clients alone (spec/netscaler.md 3.3).
//!
//! No secret is in it: every node of a fleet gives a client the same service. An identity has two halves, the service
//! and its address, so that a service with many addresses has no more clients than one with few.

/// Half of an identity, or of a score.
const HALF: u32 = 32;

/// A well-mixed word (the finalizer of SplitMix64).
#[inline(always)]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The hash of two words.
#[inline(always)]
pub const fn of_words(high: u64, low: u64) -> u64 {
    mix(mix(high ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(low))
}

/// The hash of some octets: FNV-1a, mixed.
pub const fn of_text(text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    mix(hash)
}

/// The identity of a member from the hashes of its service and of its address.
#[inline(always)]
pub const fn identity(service: u64, address: u64) -> u64 {
    (service >> HALF << HALF) | (address >> HALF)
}

/// The score of a member for a hashed prefix: the service's in the upper half, so that it decides first.
#[inline(always)]
pub const fn score(identity: u64, prefix: u64) -> u64 {
    let service = mix((identity >> HALF) ^ prefix);
    let address = mix((identity << HALF) ^ prefix.rotate_left(HALF));
    (service >> HALF << HALF) | (address >> HALF)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients must not move when a node of a fleet is upgraded before the others. Computed by other means.
    #[test]
    fn scores_are_those_of_every_version() {
        let identity = identity(of_text(b"hk"), of_text(b"198.51.100.10"));
        assert_eq!(identity, 0x7767_edcc_989e_1f5b);
        assert_eq!(score(identity, of_words(0x0a00_0001, 4)), 0x3394_9d9a_46a0_512a);
    }

    #[test]
    fn addresses_of_a_service_share_the_upper_half() {
        let (a, b) = (identity(of_text(b"s"), of_text(b"a")), identity(of_text(b"s"), of_text(b"b")));
        for prefix in 0..100 {
            let (a, b) = (score(a, mix(prefix)), score(b, mix(prefix)));
            assert_eq!(a >> 32, b >> 32);
            assert_ne!(a, b);
        }
    }
}
