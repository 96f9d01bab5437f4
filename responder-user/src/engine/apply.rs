//! What happened outside: results of checks.

use std::time::Instant;

use responder_common::session::Store;
use serde_json::{Map, json};

use super::{Engine, start::snapshot};
use crate::{
    control::EventKind,
    decide::{
        AddressState, Memory, Report,
        memory::{self, Change, ChangeKind},
    },
    health::{HealthEvent, Transition},
    journal::{Record, Stamp},
    model::{RecordType, ServiceId, VserverId},
};

/// An address that nobody has decided counts as down once names have their answers.
pub(super) fn settle(state: &mut AddressState) {
    if *state == AddressState::Undecided {
        *state = AddressState::Down;
    }
}

impl Engine {
    /// A check ended.
    pub(super) fn check(&mut self, event: HealthEvent) {
        let (HealthEvent::Result { service, address, monitor, .. }
        | HealthEvent::Fault { service, address, monitor, .. }) = event;
        let before = self.health.check_state(service, address, monitor);
        let transitions = self.health.apply(event);
        if self.health.check_state(service, address, monitor) != before {
            self.unrecorded.insert(service);
        }
        self.transitions(transitions);
    }

    /// States changed: marks the owners that this touches.
    pub(super) fn transitions(&mut self, transitions: Vec<Transition>) {
        for transition in transitions {
            self.transition(&transition);
        }
    }

    fn transition(&mut self, transition: &Transition) {
        let model = self.plan.compiled.model.clone();
        let service = model.service(transition.service);
        let was_usable = self.usable(transition.service);
        let slot = &mut self.snapshot.services[transition.service.index()].addresses[transition.address];
        *slot = transition.to;
        if self.is_ready {
            settle(slot);
        }
        self.unrecorded.insert(transition.service);
        self.touch_service(transition.service, transition.at);
        let address = service.addresses[transition.address];
        let monitor = transition.monitor.map(|id| model.monitor(id).name.clone());
        let mut fields = Map::new();
        fields.insert("address".to_owned(), json!(address));
        fields.insert("from".to_owned(), json!(transition.from.to_string()));
        fields.insert("to".to_owned(), json!(transition.to.to_string()));
        fields.insert("monitor".to_owned(), json!(monitor));
        let object = format!("service {}", service.name);
        let by = monitor.map_or_else(String::new, |name| format!("{name}: "));
        let text = format!("{address} is {} ({by}{})", transition.to, transition.detail);
        self.event(EventKind::Health, object.clone(), text, fields);
        let is_usable = self.usable(transition.service);
        if was_usable != is_usable {
            let word = if is_usable { "up" } else { "down" };
            self.event(EventKind::State, object, format!("is {word}"), Map::new());
        }
    }

    fn usable(&self, service: ServiceId) -> bool {
        let state = self.snapshot.service(service);
        state.admin && state.addresses.contains(&AddressState::Up)
    }

    /// The answers of these owners must be decided anew.
    pub(super) fn touch_service(&mut self, service: ServiceId, at: Instant) {
        let owners = &self.plan.compiled.owners;
        self.dirty.extend(owners.owners_affected_by(service));
        self.stirred.extend(owners.vservers_affected_by(service));
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    /// Likewise.
    pub(super) fn touch_vserver(&mut self, vserver: VserverId) {
        let owners = &self.plan.compiled.owners;
        self.dirty.extend(owners.owners_affected_by_vserver(vserver));
        self.stirred.extend(owners.vservers_affected_by_vserver(vserver));
    }

    /// Virtual servers remember: latches are set, spillover begins and ends. Before every decision that follows a change.
    pub(super) fn remember(&mut self) {
        let stirred = std::mem::take(&mut self.stirred);
        if stirred.is_empty() {
            return;
        }
        let model = self.plan.compiled.model.clone();
        let changes = memory::advance(&model, &mut self.snapshot, stirred.iter().copied());
        let now = self.writer.world().sessions().now();
        for change in changes.iter().filter(|change| matches!(change.kind, ChangeKind::SpillEnded(_))) {
            self.snapshot.vservers[change.vserver.index()].memory[change.rtype as usize].spill_ended = now;
        }
        for vserver in stirred.iter().copied() {
            let name = &model.vserver(vserver).name;
            let state = self.snapshot.vserver(vserver);
            let record = Record::memory(name, &state.memory);
            if state.memory.iter().any(|memory| *memory != Memory::default()) {
                let all = RecordType::ALL.map(|rtype| (rtype, state.memory(rtype)));
                self.orders.memories.insert(name.clone(), all.to_vec());
            } else {
                self.orders.memories.remove(name);
            }
            self.note(record);
        }
        for Change { vserver, rtype, kind } in changes {
            let object = format!("vserver {}", model.vserver(vserver).name);
            let is_over = matches!(kind, ChangeKind::Spilled(_));
            let (kind, text) = match kind {
                ChangeKind::Latched => {
                    (EventKind::Latch, "was down; its backup answers until an operator enables it".to_owned())
                }
                ChangeKind::Spilled(level) => (EventKind::Spillover, format!("over its threshold: {level}")),
                ChangeKind::SpillEnded(level) => {
                    (EventKind::Spillover, format!("below its threshold: {level}"))
                }
            };
            let mut fields = Map::from_iter([("type".to_owned(), json!(rtype.name()))]);
            if kind == EventKind::Spillover {
                fields.insert("over".to_owned(), json!(is_over));
            }
            self.event(kind, object, format!("{rtype}: {text}"), fields);
        }
        self.tell_states(&stirred);
    }

    /// Load figures and reports count for a while; whoever pushes them has to go on.
    pub(super) fn expire_load(&mut self) {
        let limit = self.load_clock().saturating_sub(self.plan.compiled.model.settings.load_hold);
        let model = self.plan.compiled.model.clone();
        for service in self.snapshot.expire_load(limit) {
            let name = &model.service(service).name;
            let left = self.snapshot.service(service).load.clone();
            self.note(self.load_record(name, &left));
            self.orders.loads.insert(name.clone(), left);
            self.touch_service(service, Instant::now());
            self.event(EventKind::State, format!("service {name}"), "load figures are too old", Map::new());
        }
        let old: Vec<String> = self
            .orders
            .reports
            .iter()
            .filter(|(_, (_, at))| *at < limit)
            .map(|(name, _)| name.clone())
            .collect();
        for name in old {
            self.orders.reports.remove(&name);
            self.note(Record::report(&name, Report::default(), Stamp::now()));
            let Some(service) = model.service_named(&name) else { continue };
            let state = &mut self.snapshot.services[service.index()];
            if std::mem::take(&mut state.report) != Report::default() {
                self.touch_service(service, Instant::now());
                self.event(
                    EventKind::State,
                    format!("service {name}"),
                    "what was reported is too old",
                    Map::new(),
                );
            }
        }
    }

    /// The warm-up is over: what has no result counts as down.
    pub(super) fn end_warm_up(&mut self) {
        tracing::warn!(
            undecided = self.undecided.len(),
            "the warm-up is over; addresses without a result count as down"
        );
        let model = self.plan.compiled.model.clone();
        self.snapshot = snapshot(&model, &self.health, &self.orders, true);
        let owners: Vec<_> = self.undecided.iter().map(|(owner, _)| *owner).collect();
        self.dirty.extend(owners);
        self.record_all();
        self.publish();
    }
}
