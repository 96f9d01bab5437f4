//! Times as NetScaler prints them: `Sat Aug  1 12:00:00 2026`, `0 days, 00:00:04.000`. UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// When the state of an object last changed, and how long ago that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: SystemTime,
    /// How long ago.
    pub ago: Duration,
}

impl Change {
    /// From a time of the event list; an object without one has its state since the start.
    pub fn of(last: Option<&str>, now: SystemTime, uptime: Duration) -> Self {
        let started = now.checked_sub(uptime).unwrap_or(UNIX_EPOCH);
        let at = last.and_then(|text| humantime::parse_rfc3339(text).ok()).unwrap_or(started);
        Self { at, ago: now.duration_since(at).unwrap_or_default() }
    }

    /// `Sat Aug  1 12:00:00 2026`
    pub fn date(&self) -> String {
        date(self.at)
    }

    /// `0 days, 00:00:04.000`
    pub fn since(&self) -> String {
        let seconds = self.ago.as_secs();
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
        let millis = self.ago.subsec_millis();
        format!("{days} days, {hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
    }

    /// Seconds of the epoch, and the milliseconds beside them.
    pub fn epoch(&self) -> (u64, u32) {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        (since.as_secs(), since.subsec_millis())
    }

    /// In units of 10 ms.
    pub fn ticks(&self) -> u64 {
        self.ago.as_millis() as u64 / 10
    }
}

fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
    format!("{weekday} {month} {day:>2} {hours:02}:{minutes:02}:{seconds:02} {year}")
}

/// Year, month and day from days since 1970 (the algorithm of Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |text: &str| date(humantime::parse_rfc3339(text).unwrap());
        assert_eq!(at("1970-01-01T00:00:00Z"), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at("2000-02-29T23:59:59Z"), "Tue Feb 29 23:59:59 2000");
        assert_eq!(at("2026-08-01T12:00:00Z"), "Sat Aug  1 12:00:00 2026");
        assert_eq!(at("2100-03-01T00:00:01Z"), "Mon Mar  1 00:00:01 2100");
    }

    #[test]
    fn without_an_event_the_state_is_as_old_as_the_daemon() {
        let now = humantime::parse_rfc3339("2026-08-01T12:00:00Z").unwrap();
        let change = Change::of(None, now, Duration::from_millis(93_784_120));
        assert_eq!((change.since().as_str(), change.ticks()), ("1 days, 02:03:04.120", 9_378_412));
        let change = Change::of(Some("2026-08-01T11:59:56.500Z"), now, Duration::ZERO);
        assert_eq!((change.since().as_str(), change.epoch().1), ("0 days, 00:00:03.500", 500));
        // A clock that was set back.
        let change = Change::of(Some("2026-08-02T00:00:00Z"), now, Duration::ZERO);
        assert_eq!(change.ago, Duration::ZERO);
    }
}
