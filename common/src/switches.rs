//! What is switched on, in one word that is read once per packet: off costs that load and a branch.

/// Units of time of the limit: 16 nanoseconds.
pub const UNIT_SHIFT: u32 = 4;

/// Units of a second.
pub const SECOND: u64 = 1_000_000_000 >> UNIT_SHIFT;

/// Fractions of [`Switches::amplification`]: it counts in 256ths.
pub const FRACTION: u64 = 256;

/// Largest amplification that can be asked for.
pub const MAX_AMPLIFICATION: u64 = 1000;

/// Largest slip that can be asked for.
pub const MAX_SLIP: u64 = 1000;

const INTERVAL_BITS: u32 = 26;
const AMPLIFICATION_AT: u32 = INTERVAL_BITS;
const AMPLIFICATION_BITS: u32 = 18;
const SLIP_AT: u32 = AMPLIFICATION_AT + AMPLIFICATION_BITS;
const SLIP_BITS: u32 = 10;
const ALLOW_AT: u32 = SLIP_AT + SLIP_BITS;
const ROUTE_AT: u32 = ALLOW_AT + 1;
const SAMPLE_AT: u32 = ROUTE_AT + 1;
const LATENCY_AT: u32 = SAMPLE_AT + 1;

const fn part(word: u64, at: u32, bits: u32) -> u64 {
    (word >> at) & ((1 << bits) - 1)
}

/// Limits and what is watched, packed so that one aligned store changes all of it at once.
///
/// ```text
/// 0-25   units between two replies to one prefix at the limit; 0: no limit
/// 26-43  largest reply / query, in 256ths; 0: no bound
/// 44-53  slip        54 allow list has prefixes        55 the way back is looked at
/// 56     packets are sampled        57 runs are timed
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches(pub u64);

impl Switches {
    /// The limits of a configuration. `responses_per_second` 0: no limit; `amplification` in 256ths, 0: no bound.
    /// What is larger than the word can hold counts as the largest that it can.
    pub const fn limits(responses_per_second: u64, slip: u64, has_allowed: bool, amplification: u64) -> Self {
        // Rounded up, so that no rate is higher than what was asked for; a million a second is 0.8 % lower.
        let interval = if responses_per_second == 0 { 0 } else { SECOND.div_ceil(responses_per_second) };
        let slip = if slip > MAX_SLIP { MAX_SLIP } else { slip };
        let most = MAX_AMPLIFICATION * FRACTION;
        let amplification = if amplification > most { most } else { amplification };
        Self(
            interval
                | (amplification << AMPLIFICATION_AT)
                | (slip << SLIP_AT)
                | ((has_allowed as u64) << ALLOW_AT),
        )
    }

    /// The same, looking at the way back to a client or not.
    #[must_use]
    pub const fn routed(self, routes: bool) -> Self {
        Self((self.0 & !(1 << ROUTE_AT)) | ((routes as u64) << ROUTE_AT))
    }

    /// The same limits, watched or not.
    #[must_use]
    pub const fn watched(self, samples: bool, times: bool) -> Self {
        let limits = self.0 & ((1 << SAMPLE_AT) - 1);
        Self(limits | ((samples as u64) << SAMPLE_AT) | ((times as u64) << LATENCY_AT))
    }

    /// Units of time between two replies to one prefix at the limit; 0: no limit.
    #[inline(always)]
    pub const fn interval(self) -> u64 {
        part(self.0, 0, INTERVAL_BITS)
    }

    /// Largest reply / query in 256ths; 0: no bound.
    #[inline(always)]
    pub const fn amplification(self) -> u64 {
        part(self.0, AMPLIFICATION_AT, AMPLIFICATION_BITS)
    }

    /// Every how many limited queries one gets a truncated reply; 0: none.
    #[inline(always)]
    pub const fn slip(self) -> u64 {
        part(self.0, SLIP_AT, SLIP_BITS)
    }

    /// Some prefixes are never limited.
    #[inline(always)]
    pub const fn has_allowed(self) -> bool {
        self.0 & (1 << ALLOW_AT) != 0
    }

    /// A reply leaves by XDP only where the way back is the way here.
    #[inline(always)]
    pub const fn routes(self) -> bool {
        self.0 & (1 << ROUTE_AT) != 0
    }

    /// Packets are sampled.
    #[inline(always)]
    pub const fn samples(self) -> bool {
        self.0 & (1 << SAMPLE_AT) != 0
    }

    /// Runs of the program are timed.
    #[inline(always)]
    pub const fn times(self) -> bool {
        self.0 & (1 << LATENCY_AT) != 0
    }

    /// Octets that a UDP reply to a query of `query_len` may have for the sake of others: a forged source address must not
    /// turn us into a lever. Both are lengths of DNS messages, as UDP carries them; what padding a query has counts.
    /// `exempt`: the client has shown that the address is its own.
    #[inline(always)]
    pub const fn room(self, query_len: usize, exempt: bool) -> usize {
        let most = self.amplification();
        if most == 0 || exempt { usize::MAX } else { (query_len as u64 * most / FRACTION) as usize }
    }
}

const _: () = {
    assert!(SECOND < 1 << INTERVAL_BITS);
    assert!(MAX_AMPLIFICATION * FRACTION < 1 << AMPLIFICATION_BITS);
    assert!(MAX_SLIP < 1 << SLIP_BITS);
    assert!(LATENCY_AT < 64);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_read_back_alone() {
        let all = Switches::limits(1, MAX_SLIP, true, MAX_AMPLIFICATION * FRACTION).watched(true, true);
        assert_eq!(all.interval(), SECOND);
        assert_eq!((all.slip(), all.amplification()), (MAX_SLIP, MAX_AMPLIFICATION * FRACTION));
        assert!(all.has_allowed() && all.samples() && all.times());
        let routed = all.routed(true);
        assert!(routed.routes() && !all.routes() && routed.routed(false) == all);
        assert!(routed.watched(false, false).routes(), "it is none of the watching");
        let off = Switches::limits(0, 0, false, 0);
        assert_eq!(off, Switches::default());
        assert_eq!(all.watched(false, false), Switches::limits(1, 1000, true, 256_000));
        let sampled = off.watched(true, false);
        assert!(sampled.samples() && !sampled.times() && sampled.interval() == 0);
    }

    #[test]
    fn too_much_is_the_most_there_is() {
        let most = Switches::limits(u64::MAX, u64::MAX, false, u64::MAX);
        assert_eq!((most.interval(), most.slip(), most.amplification()), (1, 1000, 256_000));
    }

    #[test]
    fn room_is_a_multiple_of_the_query() {
        let four = Switches::limits(0, 2, false, 4 * FRACTION);
        assert_eq!(four.room(32, false), 128);
        assert_eq!(four.room(32, true), usize::MAX);
        assert_eq!(
            Switches::limits(0, 2, false, FRACTION * 5 / 2).room(33, false),
            82,
            "2.5 times, rounded down"
        );
        assert_eq!(Switches::default().room(32, false), usize::MAX);
    }
}
