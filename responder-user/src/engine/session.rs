//! Sessions of clients: listed, ended by an operator, swept away when they are over.

use std::{sync::Arc, thread};

use ipnet::IpNet;
use responder_common::session::Store;
use serde_json::{Map, Value, json};

use super::Engine;
use crate::{
    compile::session::Holds,
    control::{Done, EventKind, Refusal, command::SessionAction, session::Reading},
    publish::sessions::Sessions,
};

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

    fn holds(&self) -> Holds {
        let compiled = &self.plan.compiled;
        Holds::of(&compiled.model, &compiled.owners, &compiled.keeping, &self.snapshot)
    }

    /// Removes what has ended, beside the loop: there may be many.
    pub(super) fn sweep_sessions(&self) {
        if self.plan.compiled.keeping.iter().all(Option::is_none) {
            return;
        }
        let sessions: Arc<Sessions> = self.writer.world().sessions();
        let holds = self.holds();
        let started = thread::Builder::new().name("sweep".to_owned()).spawn(move || {
            sessions.sweep(&holds);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "sessions that have ended are not swept away");
        }
    }
}
