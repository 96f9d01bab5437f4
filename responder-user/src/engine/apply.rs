//! What happened outside: results of checks.

use std::time::Instant;

use serde_json::{Map, json};

use super::{Engine, start::snapshot};
use crate::{
    control::EventKind,
    decide::AddressState,
    health::{HealthEvent, Transition},
    model::{ServiceId, VserverId},
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
        let transitions = self.health.apply(event);
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
        self.dirty.extend(self.plan.compiled.owners.owners_affected_by(service));
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    /// Likewise.
    pub(super) fn touch_vserver(&mut self, vserver: VserverId) {
        self.dirty.extend(self.plan.compiled.owners.owners_affected_by_vserver(vserver));
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
        self.publish();
    }
}
