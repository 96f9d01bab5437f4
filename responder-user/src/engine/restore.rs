//! What the journal of an earlier life says of this configuration.
//!
//! Objects are found by name. What the configuration does not have any more is left out, and dropped from the journal at a
//! start: while the daemon runs, the word on an object outlives a reload that leaves it out.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};

use super::Orders;
use crate::{
    decide::{AddressState, Figure, Memory, Report},
    health::{Force, Health, Probe},
    journal::{Journal, JournalError, Kind, Opened, Record, Scope, Stamp, State, record::Key},
    model::{Model, MonitorId, RecordType, ServiceId},
    publish::writer::Start,
};

/// Where [`super::Engine::load_clock`] begins: what was pushed in an earlier life lies before the start of this one. No
/// `server.load_hold` is longer.
pub(super) const BEFORE: Duration = Duration::from_hours(24);

/// So many generations may be lost with the power, at a hundred a second in the second that is not synced.
const UNSYNCED: u64 = 1024;

/// What was restored.
pub(super) struct Restored {
    pub(super) health: Health,
    pub(super) orders: Orders,
}

/// The objects of a configuration by name.
struct Names<'a> {
    model: &'a Model,
    services: HashMap<&'a str, ServiceId>,
    monitors: HashMap<&'a str, MonitorId>,
    vservers: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn of(model: &'a Model) -> Self {
        let numbered = |i: usize| i as u32;
        Self {
            model,
            services: model
                .services
                .iter()
                .enumerate()
                .map(|(i, s)| (&*s.name, ServiceId(numbered(i))))
                .collect(),
            monitors: model
                .monitors
                .iter()
                .enumerate()
                .map(|(i, m)| (&*m.name, MonitorId(numbered(i))))
                .collect(),
            vservers: model.vservers.iter().enumerate().map(|(i, v)| (&*v.name, i)).collect(),
        }
    }

    fn has(&self, record: &Record) -> bool {
        let service = |name: &String| self.services.contains_key(name.as_str());
        let vserver = |name: &String| self.vservers.contains_key(name.as_str());
        let monitor = |name: &String| self.monitors.contains_key(name.as_str());
        let scope = |scope: &Scope| match scope {
            Scope::Id(_) => true,
            Scope::Vserver(name) | Scope::Domain(name, _) => vserver(name),
        };
        match record {
            Record::Plan { .. } => true,
            Record::Enabled { kind: Kind::Service, name, .. }
            | Record::Load { service: name, .. }
            | Record::Report { service: name, .. } => service(name),
            Record::Enabled { kind: Kind::Vserver, name, .. } | Record::Memory { vserver: name, .. } => {
                vserver(name)
            }
            Record::Enabled { kind: Kind::Monitor, name, .. } => monitor(name),
            Record::Forced { service: name, monitor: check, .. } => {
                service(name) && check.as_ref().is_none_or(monitor)
            }
            Record::Address { service: name, address, .. } => self.place(name, *address).is_some(),
            Record::Check { service: name, address, monitor: check, .. } => {
                monitor(check) && self.place(name, *address).is_some()
            }
            Record::Session(session) => {
                scope(&session.scope)
                    && session.link.as_ref().is_none_or(vserver)
                    && service(&session.service)
            }
            Record::SessionEnd { .. } | Record::Withdrawn { .. } => false,
        }
    }

    fn place(&self, service: &str, address: IpAddr) -> Option<(ServiceId, usize)> {
        let id = *self.services.get(service)?;
        let index = self.model.service(id).addresses.iter().position(|known| *known == address)?;
        Some((id, index))
    }
}

/// Opens the journal of a configuration.
pub(super) fn open(model: &Model) -> Result<Opened, JournalError> {
    let names = Names::of(model);
    Journal::open(&model.settings.state_dir, |record| names.has(record))
}

/// Takes what a journal says.
pub(super) fn restore(model: &Model, state: &State, now: &Stamp) -> Restored {
    let names = Names::of(model);
    let mut out = Restored { health: Health::new(model), orders: Orders::default() };
    let known = || state.records().filter(|record| names.has(record));
    // What operators said of monitors comes before what the monitors found.
    for record in known() {
        out.take_order(record, &names, now);
    }
    for record in known() {
        out.take_observation(record, &names);
    }
    out.health.settle_restored();
    out
}

impl Restored {
    fn take_order(&mut self, record: &Record, names: &Names<'_>, now: &Stamp) {
        // Transitions are no news: nothing has happened.
        let at = Instant::now();
        match record {
            Record::Enabled { kind: Kind::Service, name, enabled } => {
                self.orders.services.insert(name.clone(), *enabled);
            }
            Record::Enabled { kind: Kind::Vserver, name, enabled } => {
                self.orders.vservers.insert(name.clone(), *enabled);
            }
            Record::Enabled { kind: Kind::Monitor, name, enabled } => {
                if let Some(id) = names.monitors.get(name.as_str()) {
                    self.health.set_monitor_enabled(*id, *enabled, at);
                }
            }
            Record::Forced { service, monitor, up } => {
                let force = match up {
                    None => Force::Auto,
                    Some(true) => Force::Up,
                    Some(false) => Force::Down,
                };
                let Some(id) = names.services.get(service.as_str()) else { return };
                match monitor.as_ref().map(|name| names.monitors.get(name.as_str())) {
                    None => drop(self.health.force_service(*id, force, at)),
                    // A monitor that no longer checks the service has nothing to be forced.
                    Some(Some(monitor)) => drop(self.health.force_monitor(*monitor, *id, force, at)),
                    Some(None) => {}
                }
            }
            Record::Load { service, figures } => {
                let figures: BTreeMap<String, Figure> = figures
                    .iter()
                    .filter_map(|figure| {
                        let at = pushed(&figure.at, now)?;
                        Some((figure.name.clone(), Figure { value: figure.value, at }))
                    })
                    .collect();
                self.orders.loads.insert(service.clone(), figures);
            }
            Record::Report { service, primary_up, effective_up, above, at } => {
                if let Some(at) = pushed(at, now) {
                    let report =
                        Report { primary_up: *primary_up, effective_up: *effective_up, above: *above };
                    self.orders.reports.insert(service.clone(), (report, at));
                }
            }
            Record::Memory { vserver, boot, types } => {
                let is_same_clock = *boot == now.boot && now.boot != 0;
                let memory = types.iter().filter_map(|of| {
                    let rtype = RecordType::ALL.into_iter().find(|rtype| rtype.code() == of.rtype)?;
                    let memory = Memory {
                        was_up: of.was_up,
                        latched: of.latched,
                        spilled: of.spilled,
                        spill_ended: if is_same_clock { of.spill_ended } else { 0 },
                    };
                    Some((rtype, memory))
                });
                self.orders.memories.insert(vserver.clone(), memory.collect());
            }
            Record::Plan { .. }
            | Record::Address { .. }
            | Record::Check { .. }
            | Record::Session(_)
            | Record::SessionEnd { .. }
            | Record::Withdrawn { .. } => {}
        }
    }

    fn take_observation(&mut self, record: &Record, names: &Names<'_>) {
        match record {
            Record::Address { service, address, up: Some(up) } => {
                if let Some((id, index)) = names.place(service, *address) {
                    self.health.restore(id, index, state_of(*up));
                }
            }
            Record::Check { service, address, monitor, question, up: Some(up) } => {
                let (Some((id, index)), Some(monitor)) =
                    (names.place(service, *address), names.monitors.get(monitor.as_str()))
                else {
                    return;
                };
                // Another question has another answer.
                let asked = question_of(names.model, id, *monitor, *address);
                if asked == Some(*question) {
                    self.health.restore_check(id, index, *monitor, state_of(*up));
                }
            }
            _ => {}
        }
    }
}

/// What a monitor asks at an address of a service.
pub(super) fn question_of(
    model: &Model,
    service: ServiceId,
    monitor: MonitorId,
    address: IpAddr,
) -> Option<u32> {
    Probe::new(model.monitor(monitor), model.service(service), address).map(|probe| probe.fingerprint())
}

/// When something was pushed, on the clock of loads that begins now; None: too long ago, or nobody knows.
fn pushed(at: &Stamp, now: &Stamp) -> Option<Duration> {
    BEFORE.checked_sub(at.age(now)?)
}

fn state_of(up: bool) -> AddressState {
    if up { AddressState::Up } else { AddressState::Down }
}

/// The generation to go on from: that of the world, or of the journal where that is later. Where answers were published
/// that the journal does not know of, they had no later one.
pub(super) fn generation(state: &State, world: u64, start: Start, now: &Stamp) -> u64 {
    let Some(Record::Plan { generation, boot }) = state.get(&Key::Plan) else { return world };
    let lost = match start {
        // The world itself says what was published last.
        Start::Adopted { .. } => 0,
        // The last one may have been on its way to the file when the daemon was killed.
        Start::Fresh if *boot == now.boot && now.boot != 0 => 1,
        Start::Fresh => UNSYNCED,
    };
    world.max(generation.saturating_add(lost))
}

#[cfg(test)]
mod tests;
