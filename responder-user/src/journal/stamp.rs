//! A moment, so that its age can be told after the daemon, or the host, began anew.

use std::{
    fs,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment on two clocks. Within one boot of the host the clock since boot tells ages, which nobody can set; across
/// boots only the wall clock is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Which boot of the host; 0: not known.
    pub boot: u64,
    /// Milliseconds since then, suspension included.
    pub uptime: u64,
    /// Milliseconds since 1970-01-01 00:00:00 UTC, as the calendar had it.
    pub wall: u64,
}

impl Stamp {
    /// Now, on the clocks of this host.
    pub fn now() -> Self {
        let uptime = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            boot: if uptime.is_ok() { boot() } else { 0 },
            uptime: millis(uptime.unwrap_or_default()),
            wall: millis(wall),
        }
    }

    /// The moment so long before this one.
    #[must_use]
    pub fn before(&self, by: Duration) -> Self {
        let by = millis(by);
        let uptime = self.uptime.checked_sub(by);
        // Before the host was started: only the calendar has a name for it.
        Self {
            boot: if uptime.is_some() { self.boot } else { 0 },
            uptime: uptime.unwrap_or(0),
            wall: self.wall.saturating_sub(by),
        }
    }

    /// How long ago this was at `now`; None where nobody can say: the host was started anew, and its calendar is behind
    /// this moment. Then whatever hangs on the age is over.
    pub fn age(&self, now: &Self) -> Option<Duration> {
        let is_one_boot = self.boot == now.boot && self.boot != 0;
        let (then, now) = if is_one_boot { (self.uptime, now.uptime) } else { (self.wall, now.wall) };
        now.checked_sub(then).map(Duration::from_millis)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// From the kernel's name of this boot; 0 if it has none.
pub fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn within_a_boot_nobody_can_set_the_clock() {
        let then = Stamp { boot: 7, uptime: 1_000, wall: 50 * HOUR };
        for wall in [0, 49 * HOUR, 50 * HOUR, 99 * HOUR] {
            let now = Stamp { boot: 7, uptime: 3_500, wall };
            assert_eq!(then.age(&now), Some(Duration::from_millis(2_500)));
        }
    }

    #[test]
    fn across_boots_a_time_ahead_of_the_calendar_is_no_time() {
        let then = Stamp { boot: 7, uptime: 9_000, wall: 50 * HOUR };
        let at = |wall| Stamp { boot: 8, uptime: 100, wall };
        assert_eq!(then.age(&at(51 * HOUR)), Some(Duration::from_hours(1)));
        assert_eq!(then.age(&at(49 * HOUR)), None);
        let unknown = Stamp { boot: 0, ..then };
        assert_eq!(
            unknown.age(&Stamp { boot: 0, uptime: 0, wall: 50 * HOUR + 1 }),
            Some(Duration::from_millis(1))
        );
    }

    #[test]
    fn a_moment_before_the_boot_is_known_by_the_calendar() {
        let now = Stamp { boot: 7, uptime: 9_000, wall: 50 * HOUR };
        let age = |seconds| now.before(Duration::from_secs(seconds)).age(&now).map(|age| age.as_secs());
        assert_eq!((age(5), age(30)), (Some(5), Some(30)));
        assert_eq!(now.before(Duration::from_secs(30)).boot, 0);
    }

    #[test]
    fn this_host_tells_its_boot() {
        let now = Stamp::now();
        assert!(now.boot != 0 && now.uptime > 0 && now.wall > 0, "{now:?}");
        assert!(now.age(&Stamp::now()).unwrap() < Duration::from_secs(10));
    }
}
