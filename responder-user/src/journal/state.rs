//! What records add up to: the last one of each object.

use std::collections::BTreeMap;

use super::{
    Record, Session,
    record::{Key, Scope},
};

/// The last record of each object that has something to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    records: BTreeMap<Key, Record>,
}

impl State {
    /// Takes the next record.
    pub fn apply(&mut self, record: Record) {
        let key = record.key();
        if record.is_void() {
            self.records.remove(&key);
        } else {
            self.records.insert(key, record);
        }
    }

    /// True if the record says nothing new.
    pub fn says(&self, record: &Record) -> bool {
        match self.records.get(&record.key()) {
            None => record.is_void(),
            Some(known) => known == record,
        }
    }

    /// What is known of an object.
    pub fn get(&self, key: &Key) -> Option<&Record> {
        self.records.get(key)
    }

    /// Everything, in a fixed order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.values()
    }

    /// How many objects have something to say.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The sessions, ended ones too.
    pub fn sessions(&self) -> Vec<Session> {
        self.records.values().filter_map(session).cloned().collect()
    }

    /// Forgets what checks will find out again.
    pub fn forget_observations(&mut self) {
        self.records.retain(|_, record| !record.is_observation());
    }

    /// Keeps what `keep` says. Gives how many went.
    pub fn retain(&mut self, mut keep: impl FnMut(&Record) -> bool) -> usize {
        let before = self.records.len();
        self.records.retain(|_, record| keep(record));
        before - self.records.len()
    }

    /// The records that make its sessions equal to these. A session that differs in the moment of its note alone stays as
    /// it is.
    pub fn difference(&self, sessions: &[Session]) -> Vec<Record> {
        let mut out = Vec::new();
        let mut wanted = std::collections::BTreeSet::new();
        for new in sessions {
            let key = Key::Session(new.scope.clone(), new.client);
            let old = self.records.get(&key).and_then(session);
            let is_same = old.is_some_and(|old| {
                old.at.boot == new.at.boot && *old == Session { at: old.at, ..new.clone() }
            });
            if !is_same {
                out.push(Record::Session(new.clone()));
            }
            wanted.insert(key);
        }
        let first = Key::Session(Scope::Id(0), ipnet::IpNet::default());
        // Sessions are the last of the order.
        for (key, _) in self.records.range(first..) {
            if let Key::Session(scope, client) = key
                && !wanted.contains(key)
            {
                out.push(Record::SessionEnd { scope: scope.clone(), client: *client });
            }
        }
        out
    }
}

fn session(record: &Record) -> Option<&Session> {
    match record {
        Record::Session(session) => Some(session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{SessionKind, Stamp};

    #[test]
    fn the_last_word_counts_and_a_void_one_leaves_nothing() {
        let mut state = State::default();
        let force = |up| Record::Forced { service: "a".to_owned(), monitor: None, up };
        assert!(state.says(&force(None)));
        state.apply(force(Some(true)));
        state.apply(force(Some(false)));
        assert!(
            state.says(&force(Some(false))) && !state.says(&force(Some(true))) && !state.says(&force(None))
        );
        state.apply(force(None));
        assert!(state.is_empty());
    }

    #[test]
    fn a_snapshot_of_sessions_replaces_them_all() {
        let session = |client: &str, service: &str, uptime| Session {
            scope: Scope::Vserver("www".to_owned()),
            client: client.parse().unwrap(),
            link: None,
            service: service.to_owned(),
            kind: SessionKind::Spillover,
            expires: 5_000,
            since: 1_000,
            at: Stamp { boot: 1, uptime, wall: 1_000 },
        };
        let mut state = State::default();
        state.apply(Record::Plan { generation: 1, boot: 1 });
        let first =
            [session("0.0.0.0/0", "a", 1), session("2001:db8::/56", "a", 1), session("10.0.0.0/24", "a", 1)];
        let made = state.difference(&first);
        assert_eq!(made.len(), 3);
        for record in made {
            state.apply(record);
        }
        assert_eq!(state.sessions().len(), 3);
        let second = [session("2001:db8::/56", "a", 2), session("10.0.0.0/24", "b", 2)];
        let made = state.difference(&second);
        assert_eq!(made.len(), 2, "one is the same, one changed, one went: {made:?}");
        for record in made {
            state.apply(record);
        }
        assert_eq!(state.sessions().iter().map(|s| s.service.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        state.difference(&[]).into_iter().for_each(|record| state.apply(record));
        assert_eq!(state.len(), 1, "nothing but the plan is left");
    }
}
