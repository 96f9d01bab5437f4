//! What happened: a numbered list of the last events, and a feed for those who follow.
//!
//! Times come from the caller. Followers share one bounded ring: whoever reads too slowly misses events and is told
//! how many; the writer never waits.

use std::{
    collections::{HashMap, VecDeque},
    time::SystemTime,
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

/// Events that are kept.
pub const KEPT: usize = 10_000;

/// Events that a follower may lag behind before it misses some.
pub const LAG: usize = 1024;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The answers of a record changed.
    Record,
    /// A service or virtual server went up or down, or an operator switched it.
    State,
    /// A check changed its mind, or could not be made.
    Health,
    /// Spillover began or ended.
    Spillover,
    /// A latch was set or cleared.
    Latch,
    /// New answers were published.
    Publish,
    /// The program was attached, detached, or changed its mode.
    Attach,
    /// The configuration was read again, or refused.
    Reload,
    /// The journal cannot be written, or can be again.
    Journal,
}

impl EventKind {
    /// The word that is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::State => "state",
            Self::Health => "health",
            Self::Spillover => "spillover",
            Self::Latch => "latch",
            Self::Publish => "publish",
            Self::Attach => "attach",
            Self::Reload => "reload",
            Self::Journal => "journal",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// 1, 2, 3, … since the daemon started.
    pub id: u64,
    /// Wall time: RFC 3339 with milliseconds, UTC.
    pub time: String,
    /// What it is about.
    pub kind: EventKind,
    /// `KIND NAME` as `show` takes them ("service hk"), or what else it happened to ("interface eth0").
    pub object: String,
    /// One line for people.
    pub text: String,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

/// Hands out receivers of new events.
#[derive(Clone, Debug)]
pub struct Feed(broadcast::Sender<Event>);

impl Feed {
    /// Everything that is recorded from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}

/// The last events.
#[derive(Debug)]
pub struct Events {
    next: u64,
    kept: VecDeque<Event>,
    /// Id of the newest kept state event of an object.
    states: HashMap<String, u64>,
    /// How often an object went over its threshold.
    spillovers: HashMap<String, u64>,
    feed: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            next: 1,
            kept: VecDeque::new(),
            states: HashMap::new(),
            spillovers: HashMap::new(),
            feed: broadcast::Sender::new(LAG),
        }
    }
}

impl Events {
    /// Writes an event down and sends it to all who follow.
    pub fn record(
        &mut self,
        time: SystemTime,
        kind: EventKind,
        object: impl Into<String>,
        text: impl Into<String>,
        fields: Map<String, Value>,
    ) -> &Event {
        let event = Event {
            id: self.next,
            time: rfc3339(time),
            kind,
            object: object.into(),
            text: text.into(),
            fields,
        };
        self.next += 1;
        if self.kept.len() == KEPT
            && let Some(old) = self.kept.pop_front()
            && self.states.get(&old.object) == Some(&old.id)
        {
            self.states.remove(&old.object);
        }
        if kind == EventKind::Spillover && event.fields.get("over") == Some(&Value::Bool(true)) {
            *self.spillovers.entry(event.object.clone()).or_default() += 1;
        }
        if kind == EventKind::State {
            self.states.insert(event.object.clone(), event.id);
        }
        // No follower is no fault.
        let _ = self.feed.send(event.clone());
        self.kept.push_back(event);
        &self.kept[self.kept.len() - 1]
    }

    /// The kept events, oldest first; the newest `last` of one kind where given.
    pub fn list(&self, kind: Option<EventKind>, last: Option<usize>) -> Vec<&Event> {
        let wanted = self.kept.iter().rev().filter(|e| kind.is_none_or(|k| e.kind == k));
        let mut out: Vec<&Event> = wanted.take(last.unwrap_or(usize::MAX)).collect();
        out.reverse();
        out
    }

    /// [`Self::list`] as `events` returns it.
    pub fn to_value(&self, kind: Option<EventKind>, last: Option<usize>) -> Value {
        serde_json::to_value(self.list(kind, last)).unwrap_or_default()
    }

    /// For the server, which lets clients follow.
    pub fn feed(&self) -> Feed {
        Feed(self.feed.clone())
    }

    /// How often an object went over its threshold since the start.
    pub fn spillovers(&self, object: &str) -> u64 {
        self.spillovers.get(object).copied().unwrap_or(0)
    }

    /// When the state of an object last changed, as far as it is kept.
    pub fn last_change(&self, object: &str) -> Option<&str> {
        let (id, first) = (*self.states.get(object)?, self.kept.front()?.id);
        self.kept.get((id - first) as usize).map(|event| event.time.as_str())
    }
}

/// Wall time as it is printed. Times before 1970 or after 9999 are printed as the nearest of these.
pub fn rfc3339(time: SystemTime) -> String {
    let last = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.clamp(SystemTime::UNIX_EPOCH, last)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn events_are_numbered_and_the_oldest_go() {
        let mut events = Events::default();
        for i in 0..KEPT as u64 + 5 {
            let kind = if i % 2 == 0 { EventKind::State } else { EventKind::Publish };
            events.record(at(i), kind, "service hk", format!("{i}"), Map::new());
        }
        let all = events.list(None, None);
        assert_eq!(all.len(), KEPT);
        assert_eq!((all[0].id, all[KEPT - 1].id), (6, KEPT as u64 + 5));
        let two: Vec<u64> = events.list(Some(EventKind::State), Some(2)).iter().map(|e| e.id).collect();
        assert_eq!(two, [KEPT as u64 + 3, KEPT as u64 + 5], "the newest two of the kind, oldest first");
        assert_eq!(events.last_change("service hk"), Some("1970-01-01T00:00:10.004Z"));
        assert_eq!(events.last_change("service uk"), None);
        for i in 0..KEPT as u64 {
            events.record(at(i), EventKind::Publish, "answers", "", Map::new());
        }
        assert_eq!(events.last_change("service hk"), None, "forgotten with its event");
        assert!(events.states.is_empty());
    }

    #[test]
    fn the_keys_of_an_event_stay() {
        let mut events = Events::default();
        let fields = Map::from_iter([("to".to_owned(), Value::from("down"))]);
        let event =
            events.record(at(1_785_542_400_123), EventKind::State, "service hk", "UP -> DOWN", fields);
        assert_eq!(
            serde_json::to_string(event).unwrap(),
            r#"{"id":1,"time":"2026-08-01T00:00:00.123Z","kind":"state","object":"service hk","text":"UP -> DOWN","fields":{"to":"down"}}"#
        );
    }

    #[test]
    fn times_outside_the_calendar_do_not_panic() {
        assert_eq!(rfc3339(at(0) - Duration::from_secs(9)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(at(u64::MAX / 4)), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn a_slow_follower_learns_what_it_missed() {
        let mut events = Events::default();
        let mut follower = events.feed().subscribe();
        for i in 0..LAG as u64 + 10 {
            events.record(at(i), EventKind::State, "x", "", Map::new());
        }
        assert!(matches!(follower.try_recv(), Err(broadcast::error::TryRecvError::Lagged(10))));
        assert_eq!(follower.try_recv().unwrap().id, 11);
    }
}
