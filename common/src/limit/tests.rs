extern crate std;

use core::cell::Cell;
use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::{
    Verdict::{Answer, Nothing, Slip},
    *,
};
use crate::switches::Switches;

const KEY: HashKey = HashKey { seed: 0x0123_4567_89ab_cdef, multiplier: 0xfedc_ba98_7654_3211 };

/// A table of one thread.
struct Cells(Vec<Cell<Line>>);

impl Cells {
    fn new(lines: usize) -> Self {
        Self(vec![Cell::new(Line::default()); lines])
    }

    fn ask(&self, prefix: u64, now: u64, rate: Rate, slip: u64) -> Verdict {
        ask(self, KEY, prefix, now, rate, slip).unwrap()
    }
}

impl Table for Cells {
    type Line = usize;

    fn lines(&self) -> u32 {
        self.0.len() as u32
    }

    fn line(&self, index: u32) -> Option<usize> {
        (index < self.lines()).then_some(index as usize)
    }

    fn load(&self, line: usize, way: usize) -> u64 {
        self.0[line].get().words[way]
    }

    fn swap(&self, line: usize, way: usize, old: u64, new: u64) -> bool {
        let mut cell = self.0[line].get();
        assert_eq!(cell.words[way], old);
        cell.words[way] = new;
        self.0[line].set(cell);
        true
    }

    fn count(&self, line: usize, way: usize) -> u64 {
        let mut cell = self.0[line].get();
        cell.limited[way] += 1;
        self.0[line].set(cell);
        cell.limited[way] - 1
    }
}

/// A bucket as it is drawn on a blackboard: a level that rises with time and falls with each token.
struct Model {
    level: u128,
    then: u128,
}

impl Model {
    fn take(&mut self, now: u128, rate: Rate) -> bool {
        let depth = u128::from(rate.depth);
        self.level = depth.min(self.level + (now - self.then));
        self.then = now;
        let enough = self.level >= u128::from(rate.interval);
        if enough {
            self.level -= u128::from(rate.interval);
        }
        enough
    }
}

/// Gaps between queries: none, shorter and longer than an interval, longer than a bucket takes to fill, hours.
fn gaps() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        3 => Just(0_u64),
        3 => 0..SECOND / 50,
        2 => 0..2 * SECOND,
        1 => 10 * SECOND..4000 * SECOND,
        1 => 0..3 * (1_u64 << TIME_BITS),
    ];
    proptest::collection::vec(gap, 1..300)
}

proptest! {
    /// Exact, but for buckets that come back after just a turn of the clock: those may say no too early, never yes.
    #[test]
    fn a_word_is_the_bucket_on_the_blackboard(
        gaps in gaps(),
        rate in prop_oneof![1..100_u64, 1..20_000_000_u64],
        start in any::<u64>(),
    ) {
        let rate = Rate::each(Switches::limits(rate, 0, false, 0).interval());
        let mut model = Model { level: u128::from(rate.depth), then: u128::from(start) };
        let (mut now, mut word, mut idle) = (u128::from(start), time(start << UNIT_SHIFT), 0_u128);
        for gap in gaps {
            now += u128::from(gap);
            idle += u128::from(gap);
            let turned = idle % (1 << TIME_BITS);
            let is_ambiguous = idle >= (1 << TIME_BITS) - u128::from(FARTHEST)
                && (turned >= (1 << TIME_BITS) - u128::from(FARTHEST) || turned <= u128::from(FARTHEST));
            if is_ambiguous {
                // The model starts anew with what the word says, which is at most a full bucket.
                let full_in = ahead(word, now as u64 & TIME_MASK);
                prop_assert!(full_in <= FARTHEST);
                model.level = u128::from(rate.depth.saturating_sub(full_in));
                model.then = now;
            }
            let taken = take(word, 0x5a_5a5a, now as u64 & TIME_MASK, rate);
            prop_assert_eq!(taken.is_some(), model.take(now, rate));
            if let Some(new) = taken {
                prop_assert_eq!(new >> TIME_BITS, 0x5a_5a5a);
                (word, idle) = (new, 0);
            }
        }
    }

    /// In any window of time no more than the rate and one bucket.
    #[test]
    fn the_limit_holds_in_every_window(gaps in gaps(), rate in 1..5000_u64) {
        let each = Rate::each(Switches::limits(rate, 0, false, 0).interval());
        let (mut now, mut word) = (0_u64, 0);
        let mut taken = Vec::new();
        for gap in gaps {
            now += gap;
            if let Some(new) = take(word, 0, now & TIME_MASK, each) {
                word = new;
                taken.push(now);
            }
        }
        for from in 0..taken.len() {
            for to in from..taken.len() {
                let most = (taken[to] - taken[from]) as f64 / SECOND as f64 * rate as f64 + rate as f64;
                prop_assert!((to - from + 1) as f64 <= most + 1.0);
            }
        }
    }

    /// Whoever shares a line with others has a bucket of its own as long as there are no more than four.
    #[test]
    fn prefixes_do_not_disturb_each_other(asked in proptest::collection::vec((0..WAYS as u64, 0..SECOND / 4), 1..400)) {
        let table = Cells::new(1);
        let rate = Rate::each(Switches::limits(7, 0, false, 0).interval());
        let mut models: Vec<_> =
            (0..WAYS).map(|_| Model { level: u128::from(rate.depth), then: 0 }).collect();
        let mut now = 1000 * SECOND;
        for (who, gap) in asked {
            now += gap;
            let allowed = table.ask(who, now & TIME_MASK, rate, 0) == Verdict::Answer;
            prop_assert_eq!(allowed, models[who as usize].take(u128::from(now), rate));
        }
    }
}

#[test]
fn a_second_holds_as_many_as_the_rate_says() {
    for rate in [1, 2, 3, 7, 10, 20, 50, 100, 999, 1000, 4321] {
        let each = Rate::each(Switches::limits(rate, 0, false, 0).interval());
        let mut word = 0;
        let at_once =
            (0..2 * rate).filter(|_| take(word, 0, 5 * SECOND, each).map(|new| word = new).is_some()).count();
        assert_eq!(at_once as u64, rate, "after silence");
        let steady = (0..1000 * rate)
            .filter(|i| {
                let now = 5 * SECOND + i * SECOND / (100 * rate);
                take(word, 0, now, each).map(|new| word = new).is_some()
            })
            .count() as u64;
        assert!(steady <= 10 * rate && steady + 1 >= 10 * rate * 99 / 100, "{rate}: {steady} in ten seconds");
    }
}

#[test]
fn every_nth_limited_query_slips() {
    let table = Cells::new(1);
    let rate = Rate::each(SECOND);
    let said: Vec<Verdict> = (0..7).map(|_| table.ask(9, 7, rate, 3)).collect();
    assert_eq!(said, [Answer, Nothing, Nothing, Slip, Nothing, Nothing, Slip]);
    assert_eq!(table.ask(9, 7, rate, 0), Nothing, "slip 0 lets none through");
    assert_eq!(table.ask(9, 7, rate, 1), Slip, "slip 1 lets all through");
}

#[test]
fn the_fifth_prefix_of_a_line_takes_the_bucket_that_knows_least() {
    let table = Cells::new(1);
    let rate = Rate::each(SECOND / 4);
    for who in 0..WAYS as u64 {
        for _ in 0..=who.min(3) {
            table.ask(who, 100, rate, 0);
        }
    }
    // The first has taken one token, the last four: that one stays limited.
    assert_eq!(table.ask(77, 100, rate, 0), Verdict::Answer);
    assert_eq!(table.ask(3, 100, rate, 0), Verdict::Nothing);
    let tag = place(0, KEY, 1).1;
    assert!(table.0[0].get().words.iter().all(|word| word >> TIME_BITS != tag), "the first one is forgotten");
}

#[test]
fn a_flood_of_prefixes_does_not_limit_an_innocent_one() {
    let table = Cells::new(64);
    let rate = Rate::each(SECOND / 10);
    let mut lost = 0;
    for i in 0..100_000_u64 {
        table.ask(1000 + i, i * 10, rate, 0);
        // Ten a second are its due: one in each tenth of a second.
        if i % (SECOND / 100) == 0 {
            lost += u32::from(table.ask(1, i * 10, rate, 0) != Verdict::Answer);
        }
    }
    assert_eq!(lost, 0);
}

#[test]
fn prefixes_are_slash_24_and_slash_56() {
    let v4 = |text: &str| prefix(Client::V4(text.parse::<std::net::Ipv4Addr>().unwrap().into()));
    let v6 = |text: &str| prefix(Client::V6(text.parse::<std::net::Ipv6Addr>().unwrap().octets()));
    assert_eq!(v4("192.0.2.0"), v4("192.0.2.255"));
    assert_ne!(v4("192.0.2.0"), v4("192.0.3.0"));
    assert_eq!(v6("2001:db8:0:1::1"), v6("2001:db8:0:ff::1"));
    assert_ne!(v6("2001:db8:0:1::1"), v6("2001:db8:0:100::1"));
    assert_ne!(v4("0.0.0.0"), v6("::"));
}

#[test]
fn places_spread() {
    let mut lines = vec![0_u32; 1024];
    let mut tags = std::collections::BTreeSet::new();
    for i in 0..102_400_u32 {
        let (line, tag) = place(prefix(Client::V4(i << 8)), KEY, 1024);
        lines[line as usize] += 1;
        tags.insert(tag);
    }
    let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
    assert!(*least > 50 && *most < 160, "100 each would be even: {least} to {most}");
    assert!(tags.len() > 100_000);
}
