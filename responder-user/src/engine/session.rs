//! Sessions of clients: listed, ended by an operator, swept away when they are over, and kept in the journal.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use ipnet::IpNet;
use responder_common::session::{Key, Session, Store};
use serde_json::{Map, Value, json};

use super::Engine;
use crate::{
    compile::{
        Compiled,
        session::{Holds, Named, Scope, Words},
    },
    control::{Command, Done, EventKind, Refusal, command::SessionAction, session::Reading},
    journal::{self, Record, SessionKind, Stamp, State},
    publish::sessions::Sessions,
};

/// Times in the journal are rounded to so many milliseconds, so that a session that nobody used is the same as before.
const GRAIN: u64 = 1_000;

/// Keeps a look at all sessions that began before an order to end some from being written after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clearing(Arc<Mutex<Cleared>>);

#[derive(Debug, Default)]
struct Cleared {
    /// An order is on its way.
    is_under_way: bool,
    /// So many orders were carried out, or were not.
    count: u64,
}

impl Clearing {
    /// An order goes to the journal.
    pub(super) fn begin(&self) {
        self.lock().is_under_way = true;
    }

    /// Nothing is on its way any more.
    pub(super) fn end(&self) {
        let mut cleared = self.lock();
        cleared.is_under_way = false;
        cleared.count += 1;
    }

    fn count(&self) -> u64 {
        self.lock().count
    }

    /// Does something unless an order came since `count` was read.
    fn unless_cleared(&self, count: u64, work: impl FnOnce()) {
        let cleared = self.lock();
        if !cleared.is_under_way && cleared.count == count {
            work();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cleared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// `session list`, `session clear`.
    pub(super) fn sessions(
        &mut self,
        action: SessionAction,
        vserver: Option<&str>,
        clients: Option<IpNet>,
    ) -> Result<Value, Refusal> {
        let sessions = self.writer.world().sessions();
        let now = sessions.now();
        let reading = Reading::of(&self.plan.compiled, &self.snapshot, now);
        let chosen = reading.chosen(sessions.all(), vserver, clients)?;
        if action == SessionAction::List {
            let holds = self.holds();
            let alive: Vec<_> =
                chosen.into_iter().filter(|(key, session)| holds.lives(key, session, now)).collect();
            return reading.list(&alive);
        }
        let count = sessions.remove(chosen.iter().map(|(key, _)| key));
        let text = format!("{count} cleared by an operator");
        self.event(EventKind::State, "sessions", text.clone(), Map::new());
        let message = format!("sessions: {text}");
        Ok(json!(Done { message, changed: count > 0, generation: self.generation, warnings: Vec::new() }))
    }

    /// What an order to end sessions would have the journal say.
    pub(super) fn session_records(&self, command: &Command) -> Result<Vec<Record>, Refusal> {
        let Command::Session { action: SessionAction::Clear, vserver, client } = command else {
            return Ok(Vec::new());
        };
        let sessions = self.writer.world().sessions();
        let reading = Reading::of(&self.plan.compiled, &self.snapshot, sessions.now());
        let chosen = reading.chosen(sessions.all(), vserver.as_deref(), *client)?;
        self.clearing.begin();
        let end = |named: Named| Record::SessionEnd { scope: scope(named.scope), client: named.client };
        Ok(reading.names(&chosen).into_iter().map(end).collect())
    }

    pub(super) fn holds(&self) -> Holds {
        let compiled = &self.plan.compiled;
        Holds::of(&compiled.model, &compiled.owners, &compiled.keeping, &self.snapshot)
    }

    /// Removes what has ended and writes down what there is, beside the loop: there may be many.
    pub(super) fn look_through_sessions(&self) {
        let compiled = &self.plan.compiled;
        if compiled.keeping.iter().all(Option::is_none) {
            return;
        }
        let sessions = self.writer.world().sessions();
        let (holds, words) = (self.holds(), Words::of(&compiled.model, &compiled.keeping));
        let (desk, clearing, count) = (self.journal.desk(), self.clearing.clone(), self.clearing.count());
        let started = thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            sessions.sweep(&holds);
            let noted = noted(&sessions, &words);
            clearing.unless_cleared(count, || desk.put(noted));
        });
        if let Err(error) = started {
            tracing::warn!(%error, "sessions are neither swept away nor written down");
        }
    }

    /// For the last look, when nobody gives any more; None: no sessions are kept.
    pub(super) fn last_look(&self) -> Option<impl FnOnce() -> Vec<journal::Session> + use<>> {
        let compiled = &self.plan.compiled;
        compiled.keeping.iter().any(Option::is_some).then(|| {
            let words = Words::of(&compiled.model, &compiled.keeping);
            let sessions = self.writer.world().sessions();
            move || noted(&sessions, &words)
        })
    }
}

fn scope(scope: Scope) -> journal::Scope {
    match scope {
        Scope::Id(id) => journal::Scope::Id(id),
        Scope::Vserver(vserver) => journal::Scope::Vserver(vserver),
        Scope::Domain(vserver, domain) => journal::Scope::Domain(vserver, domain),
    }
}

/// Every session as the journal has it.
fn noted(sessions: &Sessions, words: &Words) -> Vec<journal::Session> {
    let (now, at) = (sessions.now(), Stamp::now());
    let wall = |moment: u64| {
        let whole = at.wall.saturating_add_signed((moment as i64 - now as i64) / 1_000_000);
        (whole + GRAIN / 2) / GRAIN * GRAIN
    };
    let note = |(key, session): (Key, Session)| {
        let Named { scope: of, client, link, service, is_backup } = words.name(&key, &session)?;
        let kind = if is_backup { SessionKind::Spillover } else { SessionKind::SourceIp };
        let (expires, since) = (wall(session.until), wall(session.since));
        Some(journal::Session { scope: scope(of), client, link, service, kind, expires, since, at })
    };
    sessions.all().into_iter().filter_map(note).collect()
}

/// Puts in what the journal has and the table has not.
pub(super) fn restore(compiled: &Compiled, state: &State, sessions: &Sessions) {
    if compiled.keeping.iter().all(Option::is_none) {
        return;
    }
    let (now, at) = (sessions.now(), Stamp::now());
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    for noted in state.sessions() {
        let (Some(left), Some(age)) = (noted.left(&at), noted.at.age(&at)) else { continue };
        let before = Duration::from_millis(noted.at.wall.saturating_sub(noted.since));
        let scope = match noted.scope {
            journal::Scope::Id(id) => Scope::Id(id),
            journal::Scope::Vserver(vserver) => Scope::Vserver(vserver),
            journal::Scope::Domain(vserver, domain) => Scope::Domain(vserver, domain),
        };
        let named = Named {
            scope,
            client: noted.client,
            link: noted.link,
            service: noted.service,
            is_backup: noted.kind == SessionKind::Spillover,
        };
        let (key, choice) = named.numbers();
        let since = now.saturating_sub(nanoseconds(before + age));
        sessions.insert(&key, &Session::new(&key, choice, now.saturating_add(nanoseconds(left)), since));
    }
}
