//! From results to states, without I/O and without a clock.
//!
//! [`Streak`] turns the results of one monitor at one address into a state; [`combine`] turns the states of the
//! monitors of a service into the state of that address.

/// Whether an address, or one monitor of it, is usable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressState {
    /// Not known yet: no result has come that decides.
    #[default]
    Undecided,
    /// Usable.
    Up,
    /// Not usable.
    Down,
}

impl std::fmt::Display for AddressState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Undecided => "UNDECIDED",
            Self::Up => "UP",
            Self::Down => "DOWN",
        })
    }
}

/// The results of one monitor at one address: the state they add up to and how many equal ones came in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streak {
    state: AddressState,
    last_ok: bool,
    run: u32,
}

impl Streak {
    /// Takes the next result. The first one ever sets the state; after it, `rise` successes in a row bring it up and
    /// `fall` failures in a row bring it down. Thresholds of 0 act as 1.
    pub fn record(&mut self, ok: bool, rise: u32, fall: u32) {
        self.run = if ok == self.last_ok { self.run.saturating_add(1) } else { 1 };
        self.last_ok = ok;
        self.state = match (self.state, ok) {
            (AddressState::Undecided, true) => AddressState::Up,
            (AddressState::Undecided, false) => AddressState::Down,
            (AddressState::Down, true) if self.run >= rise => AddressState::Up,
            (AddressState::Up, false) if self.run >= fall => AddressState::Down,
            (unchanged, _) => unchanged,
        };
    }

    /// As an earlier life left it: the state stands, and what would change it has to come in a row from now on.
    pub fn restored(state: AddressState) -> Self {
        Self { state, last_ok: state == AddressState::Up, run: 0 }
    }

    /// What the results add up to.
    pub fn state(&self) -> AddressState {
        self.state
    }

    /// How many results equal to the last one came in a row, the last one included; 0 before the first.
    pub fn consecutive(&self) -> u32 {
        self.run
    }
}

/// The state of an address from the weights and states of the monitors that count (enabled, and run by this version).
///
/// `threshold` 0: all must be up, and one that is down decides at once. Else the weights of those that are up must
/// reach it. Undecided as long as monitors without a result could still turn the outcome. No monitor: up.
pub fn combine(threshold: u32, monitors: impl IntoIterator<Item = (u32, AddressState)>) -> AddressState {
    let (mut up, mut open, mut all) = (0_u64, 0_u64, 0_u64);
    let (mut any_down, mut any_open) = (false, false);
    for (weight, state) in monitors {
        all += 1;
        match state {
            AddressState::Up => up += u64::from(weight),
            AddressState::Undecided => {
                open += u64::from(weight);
                any_open = true;
            }
            AddressState::Down => any_down = true,
        }
    }
    let (is_up, is_down) = match threshold {
        _ if all == 0 => (true, false),
        0 => (!any_down && !any_open, any_down),
        needed => (up >= u64::from(needed), up + open < u64::from(needed)),
    };
    match (is_up, is_down) {
        (true, _) => AddressState::Up,
        (_, true) => AddressState::Down,
        _ => AddressState::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{AddressState::*, *};

    #[test]
    fn the_first_result_decides_alone() {
        for ok in [true, false] {
            let mut streak = Streak::default();
            streak.record(ok, 5, 5);
            assert_eq!(streak.state(), if ok { Up } else { Down });
            assert_eq!(streak.consecutive(), 1);
        }
    }

    #[test]
    fn thresholds_of_one_follow_every_result() {
        let mut streak = Streak::default();
        for ok in [true, false, true, false] {
            streak.record(ok, 1, 1);
            assert_eq!(streak.state(), if ok { Up } else { Down });
        }
    }

    #[test]
    fn the_counter_saturates() {
        let mut streak = Streak { state: Up, last_ok: true, run: u32::MAX };
        streak.record(true, 1, 1);
        assert_eq!((streak.state(), streak.consecutive()), (Up, u32::MAX));
        streak.record(false, 1, u32::MAX);
        assert_eq!((streak.state(), streak.consecutive()), (Up, 1));
    }

    #[test]
    fn all_mode_needs_every_monitor_and_one_failure_decides() {
        assert_eq!(combine(0, []), Up);
        assert_eq!(combine(0, [(1, Up), (1, Undecided)]), Undecided);
        assert_eq!(combine(0, [(1, Undecided), (1, Down)]), Down);
        assert_eq!(combine(0, [(1, Up), (0, Down)]), Down, "without a threshold weights mean nothing");
        assert_eq!(combine(0, [(1, Up), (1, Up)]), Up);
    }

    #[test]
    fn threshold_mode_adds_weights() {
        assert_eq!(combine(5, []), Up);
        assert_eq!(combine(2, [(2, Up), (1, Undecided)]), Up, "the open one cannot turn it");
        assert_eq!(combine(2, [(1, Up), (1, Undecided)]), Undecided);
        assert_eq!(combine(3, [(1, Up), (1, Undecided)]), Down, "unreachable");
        assert_eq!(combine(u32::MAX, [(u32::MAX, Down), (u32::MAX, Up)]), Up);
        assert_eq!(combine(u32::MAX, [(u32::MAX, Up), (u32::MAX, Up)]), Up, "sums do not wrap");
    }

    fn any_state() -> impl Strategy<Value = AddressState> {
        prop_oneof![Just(Undecided), Just(Up), Just(Down)]
    }

    proptest! {
        /// A change to up (down) needs the last `rise` (`fall`) results to be successes (failures), and comes no
        /// later than at that result.
        #[test]
        fn flips_exactly_at_the_threshold(results in prop::collection::vec(any::<bool>(), 1..80), rise in 1_u32..6, fall in 1_u32..6) {
            let mut streak = Streak::default();
            streak.record(results[0], rise, fall);
            for seen in 2..=results.len() {
                let before = streak.state();
                let ok = results[seen - 1];
                streak.record(ok, rise, fall);
                let run = results[..seen].iter().rev().take_while(|r| **r == ok).count() as u32;
                prop_assert_eq!(streak.consecutive(), run);
                let expected = match ok {
                    true if run >= rise => Up,
                    false if run >= fall => Down,
                    _ => before,
                };
                prop_assert_eq!(streak.state(), expected);
            }
        }

        /// Whatever the open monitors will say, a decided outcome stays.
        #[test]
        fn a_decision_is_final(threshold in 0_u32..8, monitors in prop::collection::vec((0_u32..4, any_state()), 0..5), rest in any::<u32>()) {
            let early = combine(threshold, monitors.iter().copied());
            let settled = monitors.iter().enumerate().map(|(i, (weight, state))| match state {
                Undecided if rest >> i & 1 == 1 => (*weight, Up),
                Undecided => (*weight, Down),
                known => (*weight, *known),
            });
            let late = combine(threshold, settled);
            prop_assert_ne!(late, Undecided);
            prop_assert!(early == Undecided || early == late);
        }

        /// Undecided is said only where both outcomes are possible.
        #[test]
        fn undecided_means_open(threshold in 0_u32..8, monitors in prop::collection::vec((0_u32..4, any_state()), 0..5)) {
            let settle = |to: AddressState| combine(threshold, monitors.iter().map(|(w, s)| (*w, if *s == Undecided { to } else { *s })));
            if combine(threshold, monitors.iter().copied()) == Undecided {
                prop_assert_eq!((settle(Up), settle(Down)), (Up, Down));
            } else {
                prop_assert_eq!(settle(Up), settle(Down));
            }
        }
    }
}
