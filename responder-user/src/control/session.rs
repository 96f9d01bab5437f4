//! `session list` and `session clear`: who comes back to which service (spec/netscaler.md 3.4, 4.3).

use std::collections::BTreeMap;

use ipnet::IpNet;
use responder_common::session::{Key, Session};
use serde_json::{Value, json};

use super::{Refusal, show::LIST_LIMIT, target};
use crate::{
    compile::{
        Compiled,
        session::{Named, Scope, Words},
    },
    decide::{Facts, Snapshot},
    model::{Model, RecordType},
};

/// Reads sessions in the words of a configuration.
pub struct Reading<'a> {
    model: &'a Model,
    snapshot: &'a Snapshot,
    words: Words,
    /// Clock of sessions, nanoseconds.
    now: u64,
}

impl<'a> Reading<'a> {
    /// `now` is the clock of sessions.
    pub fn of(compiled: &'a Compiled, snapshot: &'a Snapshot, now: u64) -> Self {
        let words = Words::of(&compiled.model, &compiled.keeping);
        Self { model: &compiled.model, snapshot, words, now }
    }

    /// The answer to `session list`, ordered by scope and client.
    pub fn list(&self, all: &[(Key, Session)]) -> Result<Value, Refusal> {
        if all.len() > LIST_LIMIT {
            return Err(Refusal::new(format!(
                "{} sessions are more than one list holds ({LIST_LIMIT}); --vserver and --client narrow it down",
                all.len()
            )));
        }
        let mut rows = BTreeMap::new();
        for (key, session) in all {
            let named = self.words.name(key, session);
            rows.extend(named.map(|named| ((named.scope.clone(), named.client), (named, session.until))));
        }
        Ok(rows.into_values().map(|(named, until)| self.value(&named, until)).collect())
    }

    fn value(&self, named: &Named, until: u64) -> Value {
        let (id, vserver, domain) = match &named.scope {
            Scope::Id(id) => (Some(*id), None, None),
            Scope::Vserver(vserver) => (None, Some(vserver), None),
            Scope::Domain(vserver, domain) => (None, Some(vserver), Some(domain)),
        };
        let service = self.model.service_named(&named.service);
        let allows = |rtype| {
            let facts = Facts { model: self.model, snapshot: self.snapshot, rtype };
            service.is_some_and(|service| facts.states(service).allows_redirect())
        };
        json!({
            "client": named.client,
            "service": named.service,
            "persistence_id": id,
            "vserver": vserver,
            "domain": domain,
            "link": named.link,
            "kind": if named.is_backup { "backup" } else { "persistence" },
            "expires_in_seconds": until.saturating_sub(self.now) / 1_000_000_000,
            "cookie_redirect": RecordType::ALL.into_iter().any(allows),
        })
    }

    /// The sessions of a virtual server, of clients inside a prefix, or of both.
    pub fn chosen(
        &self,
        all: Vec<(Key, Session)>,
        vserver: Option<&str>,
        clients: Option<IpNet>,
    ) -> Result<Vec<(Key, Session)>, Refusal> {
        let scopes = match vserver {
            None => None,
            Some(name) => {
                let wanted = target::vserver(self.model, name)?;
                Some(self.words.scopes_of(&self.model.vserver(wanted).name))
            }
        };
        let is_wanted = |(key, _): &(Key, Session)| {
            let whose = self.words.client(key);
            scopes.as_ref().is_none_or(|scopes| scopes.contains(&key.scope))
                && clients.is_none_or(|clients| clients.contains(&whose) || whose.contains(&clients))
        };
        Ok(all.into_iter().filter(is_wanted).collect())
    }

    /// Their names; those that the configuration has none for are left out.
    pub fn names(&self, sessions: &[(Key, Session)]) -> Vec<Named> {
        sessions.iter().filter_map(|(key, session)| self.words.name(key, session)).collect()
    }
}
