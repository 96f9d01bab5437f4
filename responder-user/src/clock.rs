//! Time, behind a trait, so that scripted scenarios and tests own it.
//!
//! Everything that schedules or measures uses [`Clock::now`], which never jumps. [`Clock::wall`] may jump at any
//! moment: it is for events, the journal and cookies, and no duration is ever computed from it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time.
    fn now(&self) -> Instant;

    /// What a calendar would say. For people and the journal only.
    fn wall(&self) -> SystemTime;
}

/// The clocks of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until somebody moves it. The two hands move apart, as those of a host can.
#[derive(Debug)]
pub struct FakeClock {
    hands: Mutex<(Instant, SystemTime)>,
}

impl FakeClock {
    /// A clock at an arbitrary monotonic moment and at 2000-01-01 00:00:00 UTC.
    pub fn new() -> Self {
        let y2k = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 10_957);
        Self { hands: Mutex::new((Instant::now(), y2k)) }
    }

    /// Time passes, on both hands.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.0 += by;
        hands.1 += by;
    }

    /// Somebody sets the wall clock; monotonic time does not notice.
    pub fn set_wall(&self, wall: SystemTime) {
        self.hands().1 = wall;
    }

    fn hands(&self) -> MutexGuard<'_, (Instant, SystemTime)> {
        // Two plain values cannot be left half written, so a panic elsewhere is no reason to stop.
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.hands().0
    }

    fn wall(&self) -> SystemTime {
        self.hands().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fake_time_moves_only_when_told() {
        let clock = FakeClock::new();
        let (start, wall) = (clock.now(), clock.wall());
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now() - start, Duration::from_millis(1500));
        assert_eq!(clock.wall().duration_since(wall).ok(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_jump_of_the_wall_clock_leaves_monotonic_time_alone() {
        let clock = FakeClock::new();
        let start = clock.now();
        clock.set_wall(SystemTime::UNIX_EPOCH);
        assert_eq!(clock.now(), start);
    }
}
