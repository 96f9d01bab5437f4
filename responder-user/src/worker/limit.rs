//! How many replies that help nobody one client network may get: errors, and anything to port 53.
//!
//! A spoofed query turns an error reply into a packet to a victim, and two servers that answer errors with errors
//! never stop (CVE-2024-2169). So such replies have a rate per client prefix and a rate in all. Good answers have none
//! here, and TCP needs none: its source address is proven.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    time::Duration,
};

/// Replies a second to one prefix.
const RATE: u64 = 20;
/// Replies to one prefix at once, after silence.
const BURST: u64 = 50;
/// Replies a second of one worker to everybody.
const TOTAL_RATE: u64 = 2_000;
/// Replies of one worker at once, after silence.
const TOTAL_BURST: u64 = 2_000;
/// Prefixes that are remembered.
const PLACES: usize = 8192;
/// Places where one prefix may stand.
const WAYS: usize = 4;
/// Length of an IPv4 prefix; one /24 is one network for most purposes (spec/config.md, limits).
const BITS4: u32 = 24;
/// Length of an IPv6 prefix.
const BITS6: u32 = 56;

/// A token bucket as the time at which it is full again (GCRA): one word, no refill loop.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket(u64);

impl Bucket {
    /// True if there is a token, which is taken. Times in nanoseconds since any start.
    fn take(&mut self, now: u64, rate: u64, burst: u64) -> bool {
        let interval = 1_000_000_000 / rate;
        let full_again = self.0.max(now) + interval;
        let allowed = full_again - now <= burst * interval;
        if allowed {
            self.0 = full_again;
        }
        allowed
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The prefix, never 0.
    prefix: u64,
    bucket: Bucket,
}

/// The limiter of one worker. Its memory is fixed.
#[derive(Debug)]
pub struct Limiter {
    places: Box<[Place]>,
    total: Bucket,
    /// Keyed, so that nobody can aim at the places of another prefix.
    hasher: RandomState,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            places: vec![Place::default(); PLACES].into_boxed_slice(),
            total: Bucket::default(),
            hasher: RandomState::new(),
        }
    }
}

impl Limiter {
    /// True if a reply to this client may go out now. `now` is the time since the worker started.
    pub fn allow(&mut self, client: IpAddr, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        let prefix = prefix(client);
        let first = self.hasher.hash_one(prefix) as usize % (PLACES / WAYS) * WAYS;
        let ways = &mut self.places[first..first + WAYS];
        let way = ways.iter().position(|place| place.prefix == prefix).unwrap_or_else(|| {
            // The bucket that is full soonest knows least about its prefix. A flood of prefixes can make the limiter
            // forget; then the total holds.
            let way = (0..WAYS).min_by_key(|way| ways[*way].bucket.0).unwrap_or(0);
            ways[way] = Place { prefix, bucket: Bucket::default() };
            way
        });
        ways[way].bucket.take(now, RATE, BURST) && self.total.take(now, TOTAL_RATE, TOTAL_BURST)
    }
}

/// The prefix as a number that differs between the families.
fn prefix(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => 1 << 63 | u64::from(u32::from(address) >> (32 - BITS4)),
        IpAddr::V6(address) => 1 << 62 | (u128::from(address) >> (128 - BITS6)) as u64,
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
        let mut limiter = Limiter::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let neighbour: IpAddr = "192.0.2.200".parse().unwrap();
        let other: IpAddr = "192.0.3.1".parse().unwrap();
        let count = |limiter: &mut Limiter, who, ms| (0..1000).filter(|_| limiter.allow(who, at(ms))).count();
        assert_eq!(count(&mut limiter, client, 0), 50);
        assert_eq!(count(&mut limiter, neighbour, 0), 0);
        assert_eq!(count(&mut limiter, other, 0), 50);
        assert_eq!(count(&mut limiter, client, 1000), 20);
        assert_eq!(count(&mut limiter, client, 100_000), 50);
    }

    #[test]
    fn ipv6_counts_by_slash_56() {
        let mut limiter = Limiter::default();
        let count = |limiter: &mut Limiter, who: &str| {
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
        let mut limiter = Limiter::default();
        let sent = (0..1_000_000u32).filter(|i| limiter.allow(IpAddr::V4((i << 8).into()), at(500))).count();
        assert_eq!(sent, 2_000);
    }
}
