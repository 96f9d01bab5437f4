//! Queries per second, from totals that the engine samples.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use responder_common::counters::Counter;
use serde::Serialize;

/// Rates look back so far.
const WINDOW: Duration = Duration::from_secs(10);

/// Samples closer together than this add nothing.
const SPACING: Duration = Duration::from_millis(100);

/// Totals since the start of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queries {
    /// Answered by the XDP program.
    pub xdp: u64,
    /// Answered by a worker.
    pub worker: u64,
    /// Dropped, by either.
    pub dropped: u64,
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Answered by the XDP program.
    pub xdp: f64,
    /// Answered by a worker.
    pub worker: f64,
    /// Dropped, by either.
    pub dropped: f64,
}

/// Keeps samples of the last ten seconds. Sample about once a second; `status` may sample too.
#[derive(Clone, Debug, Default)]
pub struct RateMeter(VecDeque<(Instant, Queries)>);

impl Queries {
    /// From the counters of the program, summed over CPUs, and those of the workers.
    pub fn of(xdp: impl Fn(Counter) -> u64, worker: u64, worker_dropped: u64) -> Self {
        let sum =
            |of: fn(Counter) -> bool| Counter::ALL.iter().filter(|c| of(**c)).map(|c| xdp(*c)).sum::<u64>();
        Self { xdp: sum(Counter::is_answer), worker, dropped: sum(Counter::is_drop) + worker_dropped }
    }
}

impl RateMeter {
    /// Takes a sample.
    pub fn sample(&mut self, now: Instant, totals: Queries) {
        if self.0.back().is_some_and(|(at, _)| now.saturating_duration_since(*at) < SPACING) {
            return;
        }
        while self.0.len() > 1
            && self.0.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW)
        {
            self.0.pop_front();
        }
        self.0.push_back((now, totals));
    }

    /// Between the oldest kept sample and the newest; None before the second one.
    pub fn rates(&self) -> Option<Rates> {
        let ((from, first), (to, last)) = (self.0.front()?, self.0.back()?);
        let seconds = to.saturating_duration_since(*from).as_secs_f64();
        // Totals fall when a new program starts to count from zero.
        let rate = |a: u64, b: u64| (b.saturating_sub(a) as f64 / seconds * 10.0).round() / 10.0;
        (seconds > 0.0).then(|| Rates {
            xdp: rate(first.xdp, last.xdp),
            worker: rate(first.worker, last.worker),
            dropped: rate(first.dropped, last.dropped),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_look_back_ten_seconds() {
        let start = Instant::now();
        let mut meter = RateMeter::default();
        let totals = |xdp| Queries { xdp, worker: 7, dropped: 0 };
        meter.sample(start, totals(0));
        assert_eq!(meter.rates(), None);
        meter.sample(start + Duration::from_millis(1), totals(5));
        assert_eq!(meter.rates(), None, "too close to say anything");
        for second in 1..=20_u64 {
            let xdp = second.saturating_sub(10) * 500;
            meter.sample(start + Duration::from_secs(second), totals(xdp));
        }
        assert_eq!(meter.rates(), Some(Rates { xdp: 500.0, worker: 0.0, dropped: 0.0 }));
        meter.sample(start + Duration::from_secs(21), totals(0));
        assert_eq!(meter.rates().map(|r| r.xdp), Some(0.0), "totals that fall are no rate");
    }

    #[test]
    fn totals_are_summed_from_counters() {
        let queries = Queries::of(|c| u64::from(c.is_answer()) * 10 + u64::from(c.is_drop()), 3, 4);
        let drops = Counter::ALL.iter().filter(|c| c.is_drop()).count() as u64;
        let answers = Counter::ALL.iter().filter(|c| c.is_answer()).count() as u64;
        assert_eq!(queries, Queries { xdp: answers * 10, worker: 3, dropped: drops + 4 });
    }
}
