//! Is an answer right at its moment?
//!
//! Frames come in the order in which they crossed the client's interface. When a service is killed the answers may be
//! those of before, until the first changed one. Whatever is asked after that one has arrived must be answered as
//! things are now.

use std::{collections::HashMap, time::Instant};

use super::{
    answer::Rules,
    pool::{Expect, Pool},
};

/// Where the new pool is a part of the old one, no single answer shows the change. Answers take turns, so as many in a row
/// without a site that has left do.
const PROOF: u32 = 64;

/// A frame of the load.
pub struct Frame<'f> {
    /// From the client; else to it.
    pub is_query: bool,
    /// The client's port.
    pub port: u16,
    /// The DNS message.
    pub message: &'f [u8],
    /// When it was seen.
    pub at: Instant,
}

/// Counts of all frames.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Queries.
    pub asked: u64,
    /// Answers, right or wrong.
    pub answered: u64,
    /// Wrong answers.
    pub wrong: u64,
    /// What was wrong with the first of them.
    pub fault: Option<String>,
}

/// An answer in the order of frames.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    at: Instant,
}

/// The time between two events.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    before: Expect,
    after: Expect,
    /// The first changed answer.
    change: Option<Place>,
    /// First of the answers in a row that are right now.
    first: Option<Place>,
    run: u32,
    old: u64,
    new: u64,
    by_site: Vec<u64>,
}

impl Phase {
    fn new(before: Expect, after: Expect, sites: usize) -> Self {
        Self { before, after, by_site: vec![0; sites], ..Self::default() }
    }

    /// When the first changed answer was seen.
    pub fn changed(&self) -> Option<Instant> {
        self.change.map(|place| place.at)
    }

    /// Answers as they were before the change.
    pub fn old(&self) -> u64 {
        self.old
    }

    /// Answers as they are now.
    pub fn new_answers(&self) -> u64 {
        self.new
    }

    /// How often each site was given since the change.
    pub fn by_site(&self) -> &[u64] {
        &self.by_site
    }

    /// True if an answer with these sites is right. `asked` is the number of its query, `place` its own.
    fn judge(&mut self, sites: Pool, asked: u64, place: Place) -> bool {
        let (was_right, is_right) = (self.before.allows(sites), self.after.allows(sites));
        if self.before == self.after || self.change.is_some_and(|change| asked > change.number) {
            self.count(sites);
            return is_right;
        }
        if !is_right {
            self.old += 1;
            if self.change.is_none() {
                self.forget();
            }
            return was_right;
        }
        if !was_right && self.change.is_none() {
            self.forget();
            self.change = Some(place);
        }
        let first = *self.first.get_or_insert(place);
        self.run += 1;
        if self.change.is_none() && self.run >= PROOF && self.after.is_within(self.before) {
            self.change = Some(first);
        }
        self.count(sites);
        true
    }

    fn count(&mut self, sites: Pool) {
        self.new += 1;
        sites.sites().for_each(|site| self.by_site[site] += 1);
    }

    /// What was counted as new was not.
    fn forget(&mut self) {
        self.old += self.new;
        (self.new, self.run, self.first) = (0, 0, None);
        self.by_site.fill(0);
    }
}

struct Asked {
    number: u64,
    message: Vec<u8>,
}

/// Knows every query that is not answered yet, and what is right now.
pub struct Judge {
    rules: Rules,
    phase: Phase,
    frames: u64,
    waiting: HashMap<(u16, u16), Asked>,
    lost: u64,
    totals: Totals,
}

impl Judge {
    /// From now on, answers are as `expect` says.
    pub fn new(rules: Rules, expect: Expect) -> Self {
        let phase = Phase::new(expect, expect, rules.sites.len());
        Self { rules, phase, frames: 0, waiting: HashMap::new(), lost: 0, totals: Totals::default() }
    }

    /// Something happens now: answers may change to `expect`, once.
    pub fn begin(&mut self, expect: Expect) {
        self.phase = Phase::new(self.phase.after, expect, self.rules.sites.len());
    }

    /// What was seen since the last event.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Counts of all frames.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Queries that have no answer; those of the last moment may still get one.
    pub fn unanswered(&self) -> u64 {
        self.lost + self.waiting.len() as u64
    }

    /// The next frame.
    pub fn see(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        let Some(id) = frame.message.first_chunk().map(|id| u16::from_be_bytes(*id)) else { return };
        let key = (frame.port, id);
        if frame.is_query {
            self.totals.asked += 1;
            let asked = Asked { number: self.frames, message: frame.message.to_vec() };
            self.lost += u64::from(self.waiting.insert(key, asked).is_some());
            return;
        }
        self.totals.answered += 1;
        let verdict = self.verdict(key, frame);
        if let Err(fault) = verdict {
            self.totals.wrong += 1;
            self.totals.fault.get_or_insert(fault);
        }
    }

    fn verdict(&mut self, key: (u16, u16), frame: &Frame<'_>) -> Result<(), String> {
        let asked = self.waiting.remove(&key).ok_or("an answer that nobody waits for")?;
        let sites = self.rules.sites_of(&asked.message, frame.message)?;
        let place = Place { number: self.frames, at: frame.at };
        if self.phase.judge(sites, asked.number, place) {
            return Ok(());
        }
        let addresses: Vec<String> = sites.sites().map(|site| self.rules.sites[site].to_string()).collect();
        Err(format!("not right at that moment: [{}]", addresses.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HK: usize = 2;
    const UK: usize = 3;

    fn one_of(sites: &[usize]) -> Expect {
        Expect { pool: sites.iter().copied().collect(), all: false }
    }

    fn all() -> Expect {
        Expect { pool: (0..8).collect(), all: true }
    }

    /// Answers with these sites to queries asked so many frames earlier: which were right?
    fn judged(phase: &mut Phase, answers: &[(&[usize], u64)]) -> Vec<bool> {
        let from = 1000 + phase.old + phase.new;
        let number = |i: usize| from + i as u64;
        let judge = |(i, (sites, lag)): (usize, &(&[usize], u64))| {
            let place = Place { number: number(i), at: Instant::now() };
            phase.judge(sites.iter().copied().collect(), number(i) - lag, place)
        };
        answers.iter().enumerate().map(judge).collect()
    }

    #[test]
    fn an_old_answer_to_a_query_asked_after_the_change_was_seen_is_wrong() {
        let mut phase = Phase::new(one_of(&[HK]), one_of(&[UK]), 8);
        let answers: [(&[usize], u64); 5] = [(&[HK], 1), (&[UK], 1), (&[HK], 2), (&[UK], 0), (&[HK], 0)];
        assert_eq!(judged(&mut phase, &answers), [true, true, true, true, false]);
        assert!(phase.changed().is_some());
    }

    #[test]
    fn an_answer_of_neither_pool_is_wrong_at_any_time() {
        let mut phase = Phase::new(one_of(&[HK]), one_of(&[UK]), 8);
        assert_eq!(judged(&mut phase, &[(&[0], 1), (&[HK, UK], 1), (&[], 1)]), [false; 3]);
    }

    #[test]
    fn a_part_of_the_old_pool_is_proven_by_answers_in_a_row() {
        let mut phase = Phase::new(one_of(&[0, 1]), one_of(&[1]), 8);
        let turns: Vec<(&[usize], u64)> = [(&[0_usize][..], 1), (&[1][..], 1)].repeat(200);
        assert!(judged(&mut phase, &turns).iter().all(|right| *right));
        assert!(phase.changed().is_none());
        assert_eq!(judged(&mut phase, &vec![(&[1][..], 1); 70]), vec![true; 70]);
        assert!(phase.changed().is_some());
        assert_eq!(
            (phase.old(), phase.new_answers()),
            (399, 71),
            "the last turn may have been the first change"
        );
        assert_eq!(judged(&mut phase, &[(&[0], 0)]), [false]);
    }

    #[test]
    fn all_at_once_is_another_answer_than_one_of_them() {
        let mut phase = Phase::new(one_of(&[6, 7]), all(), 8);
        let eight: Vec<usize> = (0..8).collect();
        assert_eq!(
            judged(&mut phase, &[(&[6], 1), (&[7], 1), (&eight, 1), (&[6], 0)]),
            [true, true, true, false]
        );
        let mut back = Phase::new(all(), one_of(&[HK]), 8);
        assert_eq!(judged(&mut back, &[(&eight, 1), (&[HK], 1), (&eight, 0)]), [true, true, false]);
    }
}
