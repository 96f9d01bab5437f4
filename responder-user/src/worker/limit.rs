//! How many replies by UDP one client network may get.
//!
//! Two limits, both by the arithmetic of [`limit`], which the XDP program runs as well:
//!
//! - [`Responses`]: `limits.responses_per_second`, for every reply. Its buckets are the memory that the program changes: a
//!   network gets so many replies in all, whoever gives them.
//! - [`Errors`]: replies that help nobody, errors and anything to port 53. A spoofed query turns an error reply into a
//!   packet to a victim, and two servers that answer errors with errors never stop (CVE-2024-2169). They have a rate per
//!   client network and a rate in all, of each worker, that no configuration turns off.
//!
//! TCP needs none: its source address is proven.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ipnet::IpNet;
use responder_common::{
    limit::{self, Line, Rate, Table, Verdict},
    name::HashKey,
    switches::Switches,
};

use super::answer::client_of;
use crate::{model::settings::Limits, publish::region::Region};

/// Errors a second to one prefix, and at once after silence.
const ERRORS: Rate = Rate::new(20, 50);
/// Errors a second of one worker to everybody, and at once after silence.
const ALL_ERRORS: Rate = Rate::new(2_000, 2_000);
/// Lines of the table of errors: 8,192 prefixes are remembered.
const LINES: usize = 2048;

/// The limit on replies. Cheap to clone; the default limits nobody.
#[derive(Clone, Default)]
pub struct Responses {
    switches: Switches,
    allow: Arc<[IpNet]>,
    buckets: Option<(Arc<Region<Line>>, HashKey)>,
}

impl std::fmt::Debug for Responses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responses")
            .field("switches", &self.switches)
            .field("allow", &self.allow)
            .finish_non_exhaustive()
    }
}

impl Responses {
    /// The limits of a configuration, over the buckets of a world and with the key of their places.
    pub fn new(limits: &Limits, buckets: (Arc<Region<Line>>, HashKey)) -> Self {
        Self { switches: limits.switches(), allow: limits.allow.as_slice().into(), buckets: Some(buckets) }
    }

    /// What a query of this client gets at this time of CLOCK_MONOTONIC_COARSE. `exempt`: the client has shown that the
    /// address is its own.
    pub fn ask(&self, client: IpAddr, now: Duration, exempt: bool) -> Verdict {
        let client = client.to_canonical();
        let interval = self.switches.interval();
        let Some((buckets, key)) = self.buckets.as_ref().filter(|_| interval != 0 && !exempt) else {
            return Verdict::Answer;
        };
        if self.allow.iter().any(|prefix| prefix.contains(&client)) {
            return Verdict::Answer;
        }
        let prefix = limit::prefix(client_of(client));
        let now = limit::time(now.as_nanos() as u64);
        let rate = Rate::each(interval);
        limit::ask(&Shared(buckets), *key, prefix, now, rate, self.switches.slip()).unwrap_or(Verdict::Answer)
    }
}

/// Buckets that the program and other workers change as well.
struct Shared<'a>(&'a Region<Line>);

impl Table for Shared<'_> {
    type Line = u32;

    fn lines(&self) -> u32 {
        self.0.len()
    }

    fn line(&self, index: u32) -> Option<u32> {
        (index < self.0.len()).then_some(index)
    }

    fn load(&self, line: u32, way: usize) -> u64 {
        self.0.word(line, way).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn swap(&self, line: u32, way: usize, old: u64, new: u64) -> bool {
        let word = self.0.word(line, way);
        word.is_some_and(|word| word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok())
    }

    fn count(&self, line: u32, way: usize) -> u64 {
        self.0.word(line, limit::WAYS + way).map_or(0, |word| word.fetch_add(1, Ordering::Relaxed))
    }
}

/// The limit on errors of one worker. Its memory is fixed.
#[derive(Debug)]
pub struct Errors {
    lines: Box<[Cell<Line>]>,
    total: u64,
    /// Keyed, so that nobody can aim at the places of another prefix.
    key: HashKey,
}

impl Default for Errors {
    fn default() -> Self {
        let random = RandomState::new();
        Self {
            lines: vec![Cell::new(Line::default()); LINES].into_boxed_slice(),
            total: 0,
            key: HashKey { seed: random.hash_one(0), multiplier: random.hash_one(1) },
        }
    }
}

impl Errors {
    /// True if an error may go to this client now. `now` is the time since any start.
    pub fn allow(&mut self, client: IpAddr, now: Duration) -> bool {
        let now = limit::time(now.as_nanos() as u64);
        let prefix = limit::prefix(client_of(client));
        let verdict = limit::ask(&Own(&self.lines), self.key, prefix, now, ERRORS, 0);
        if verdict != Some(Verdict::Answer) {
            return false;
        }
        // A flood of prefixes can make the table forget; then the total holds.
        limit::take(self.total, 0, now, ALL_ERRORS).map(|total| self.total = total).is_some()
    }
}

/// Buckets of one thread.
struct Own<'a>(&'a [Cell<Line>]);

impl Own<'_> {
    fn change<R>(&self, line: usize, change: impl FnOnce(&mut Line) -> R) -> R {
        let mut copy = self.0[line].get();
        let result = change(&mut copy);
        self.0[line].set(copy);
        result
    }
}

impl Table for Own<'_> {
    type Line = usize;

    fn lines(&self) -> u32 {
        self.0.len() as u32
    }

    fn line(&self, index: u32) -> Option<usize> {
        self.0.get(index as usize).map(|_| index as usize)
    }

    fn load(&self, line: usize, way: usize) -> u64 {
        self.0[line].get().words[way]
    }

    fn swap(&self, line: usize, way: usize, _old: u64, new: u64) -> bool {
        self.change(line, |line| line.words[way] = new);
        true
    }

    fn count(&self, line: usize, way: usize) -> u64 {
        self.change(line, |line| {
            line.limited[way] += 1;
            line.limited[way] - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_prefix_gets_its_burst_and_then_its_rate() {
        let mut limiter = Errors::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let neighbour: IpAddr = "192.0.2.200".parse().unwrap();
        let other: IpAddr = "192.0.3.1".parse().unwrap();
        let count = |limiter: &mut Errors, who, ms| (0..1000).filter(|_| limiter.allow(who, at(ms))).count();
        assert_eq!(count(&mut limiter, client, 0), 50);
        assert_eq!(count(&mut limiter, neighbour, 0), 0);
        assert_eq!(count(&mut limiter, other, 0), 50);
        assert_eq!(count(&mut limiter, client, 1000), 20);
        assert_eq!(count(&mut limiter, client, 100_000), 50);
    }

    #[test]
    fn ipv6_counts_by_slash_56() {
        let mut limiter = Errors::default();
        let count = |limiter: &mut Errors, who: &str| {
            let who: IpAddr = who.parse().unwrap();
            (0..1000).filter(|_| limiter.allow(who, at(0))).count()
        };
        assert_eq!(count(&mut limiter, "2001:db8:0:1::1"), 50);
        assert_eq!(count(&mut limiter, "2001:db8:0:ff::1"), 0);
        assert_eq!(count(&mut limiter, "2001:db8:0:100::1"), 50);
        assert_eq!(count(&mut limiter, "::ffff:192.0.2.1"), 50);
        assert_eq!(count(&mut limiter, "192.0.2.1"), 0);
    }

    #[test]
    fn a_flood_of_prefixes_meets_the_total() {
        let mut limiter = Errors::default();
        let sent = (0..1_000_000u32).filter(|i| limiter.allow(IpAddr::V4((i << 8).into()), at(500))).count();
        assert_eq!(sent, 2_000);
    }

    fn responses(allow: &[&str]) -> Responses {
        let limits = Limits {
            responses_per_second: 10,
            allow: allow.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            slip: 3,
            ..Limits::default()
        };
        let buckets = Region::plain("LIMITS", 64).unwrap();
        Responses::new(&limits, (Arc::new(buckets), HashKey { seed: 1, multiplier: 0x9e37_79b9_7f4a_7c15 }))
    }

    fn tally(responses: &Responses, client: &str, exempt: bool) -> [usize; 3] {
        let client = client.parse().unwrap();
        let said: Vec<Verdict> = (0..100).map(|_| responses.ask(client, at(7), exempt)).collect();
        [Verdict::Answer, Verdict::Slip, Verdict::Nothing].map(|v| said.iter().filter(|s| **s == v).count())
    }

    #[test]
    fn replies_are_limited_by_prefix_with_slips() {
        let responses = responses(&["198.51.100.0/25", "2001:db8:9::/48"]);
        assert_eq!(tally(&responses, "192.0.2.1", false), [10, 30, 60]);
        assert_eq!(tally(&responses, "::ffff:192.0.2.77", false), [0, 33, 67], "the same network");
        assert_eq!(tally(&responses, "192.0.3.1", false), [10, 30, 60]);
        assert_eq!(tally(&responses, "192.0.2.1", true), [100, 0, 0], "a valid cookie");
    }

    #[test]
    fn allowed_prefixes_are_not_limited_and_cost_their_neighbours_nothing() {
        let responses = responses(&["198.51.100.0/25", "2001:db8:9::/48"]);
        assert_eq!(tally(&responses, "198.51.100.127", false), [100, 0, 0]);
        assert_eq!(tally(&responses, "::ffff:198.51.100.1", false), [100, 0, 0]);
        assert_eq!(tally(&responses, "2001:db8:9:1::1", false), [100, 0, 0]);
        assert_eq!(tally(&responses, "198.51.100.128", false), [10, 30, 60]);
        assert_eq!(tally(&responses, "2001:db8:a::1", false), [10, 30, 60]);
    }

    #[test]
    fn without_a_limit_nobody_is_limited() {
        assert_eq!(tally(&Responses::default(), "192.0.2.1", false), [100, 0, 0]);
    }
}
