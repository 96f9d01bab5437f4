//! What is up. The one room that talks to the outside.
//!
//! `probe` asks once, `schedule` asks again and again, `state` counts the answers, and [`Health`] keeps what they add
//! up to for every address of every service. `Health` does no I/O and reads no clock: it is given events and says
//! which states changed.

pub mod probe;
pub mod schedule;
pub mod state;

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Instant};

pub use probe::{LocalFault, Probe, ProbeResult};
pub use schedule::{HealthEvent, Job, JobKey, Scheduler, SchedulerStats};
pub use state::AddressState;

use crate::model::{Model, Monitor, MonitorId, Service, ServiceId};
use state::{Streak, combine};

/// An operator's word against the checks'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// The checks decide.
    #[default]
    Auto,
    /// Up, whatever the checks say.
    Up,
    /// Down, whatever the checks say.
    Down,
}

/// The state of an address changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Of which service.
    pub service: ServiceId,
    /// Index into the service's addresses.
    pub address: usize,
    /// Before.
    pub from: AddressState,
    /// Now.
    pub to: AddressState,
    /// The monitor whose result decided; None: an operator did.
    pub monitor: Option<MonitorId>,
    /// The result, or what the operator did.
    pub detail: String,
    /// When the deciding result was received, or when the operator acted.
    pub at: Instant,
}

/// One monitor at one address of a service, for `show service`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorRow {
    /// Name of the monitor.
    pub name: String,
    /// The address that it checks.
    pub address: IpAddr,
    /// Its own state, before it is combined with others.
    pub state: AddressState,
    /// False: it counts for nothing and does not run.
    pub enabled: bool,
    /// The operator's word.
    pub force: Force,
    /// Detail of the last check, whatever its outcome.
    pub last: Option<String>,
    /// Detail of the last check where it failed or could not be made.
    pub error: Option<String>,
    /// When the last check ended.
    pub at: Option<Instant>,
    /// How many results equal to the last one came in a row; stays at 4,294,967,295.
    pub consecutive: u32,
}

/// Why an operator's command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The service has no such monitor, or it is of a type that this version does not run.
    #[error("monitor \"{monitor}\" does not check service \"{service}\"")]
    NotChecked {
        /// Name of the monitor.
        monitor: String,
        /// Name of the service.
        service: String,
    },
}

/// The state of every address of every service.
#[derive(Clone, Debug, Default)]
pub struct Health {
    epoch: u64,
    monitors: Vec<Watched>,
    services: Vec<ServiceHealth>,
}

/// A monitor, as far as it matters here.
#[derive(Clone, Debug)]
struct Watched {
    name: Arc<str>,
    rise: u32,
    fall: u32,
    configured: bool,
    /// `enable monitor`, `disable monitor`.
    ordered: Option<bool>,
}

impl Watched {
    fn enabled(&self) -> bool {
        self.ordered.unwrap_or(self.configured)
    }
}

#[derive(Clone, Debug)]
struct ServiceHealth {
    name: Arc<str>,
    threshold: u32,
    /// Monitors that this version runs, with their weights; each once.
    bound: Vec<(MonitorId, u32)>,
    /// In the order of the model.
    addresses: Vec<AddressHealth>,
    force: Force,
}

#[derive(Clone, Debug)]
struct AddressHealth {
    address: IpAddr,
    state: AddressState,
    /// In the order of `bound`.
    checks: Vec<Check>,
}

#[derive(Clone, Debug, Default)]
struct Check {
    streak: Streak,
    last: Option<Last>,
    force: Force,
}

#[derive(Clone, Debug)]
struct Last {
    ok: bool,
    detail: String,
    at: Instant,
}

impl Check {
    fn state(&self) -> AddressState {
        self.force.over(self.streak.state())
    }
}

impl Force {
    fn over(self, found: AddressState) -> AddressState {
        match self {
            Self::Auto => found,
            Self::Up => AddressState::Up,
            Self::Down => AddressState::Down,
        }
    }
}

impl std::fmt::Display for Force {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

impl Health {
    /// Nothing is known yet: addresses with monitors are undecided, those without are up.
    pub fn new(model: &Model) -> Self {
        let monitors = model.monitors.iter().map(Watched::new).collect();
        let services = model.services.iter().map(|service| ServiceHealth::new(model, service)).collect();
        let mut health = Self { epoch: 0, monitors, services };
        for id in health.service_ids() {
            health.settle_silently(id);
        }
        health
    }

    /// The health of a new model, with everything the old one knew that still holds.
    ///
    /// A monitor that asks the same of the same address of a service of the same name keeps its state and counters,
    /// also under new thresholds. An address that had a state keeps it until its monitors, whatever they are now,
    /// have decided: a reload alone never makes an answer disappear. What operators disabled or forced stays so.
    pub fn carry_over(old: &Self, old_model: &Model, new_model: &Model) -> Self {
        let mut new = Self::new(new_model);
        new.epoch = old.epoch + 1;
        let old_monitors: HashMap<&str, usize> =
            old.monitors.iter().enumerate().map(|(i, monitor)| (&*monitor.name, i)).collect();
        for monitor in &mut new.monitors {
            monitor.ordered = old_monitors.get(&*monitor.name).and_then(|i| old.monitors[*i].ordered);
        }
        let old_services: HashMap<&str, usize> =
            old.services.iter().enumerate().map(|(i, service)| (&*service.name, i)).collect();
        for id in new.service_ids() {
            let service = &mut new.services[id.index()];
            let Some(&was) = old_services.get(&*service.name) else { continue };
            let before = (&old.services[was], &old_model.services[was]);
            service.inherit(before, old_model, new_model, new_model.service(id));
            new.settle_silently(id);
        }
        new
    }

    /// Which model the ids of this belong to: 0, then one more with every carry-over. Events of another are ignored.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The checks to run for this model: all of enabled monitors. Disabled services are checked like the others, so
    /// that their state is right at the moment when they are enabled.
    pub fn jobs(&self, model: &Model) -> Vec<Job> {
        let mut jobs = Vec::new();
        for id in self.service_ids() {
            let (health, service) = (&self.services[id.index()], model.service(id));
            for &(monitor_id, _) in &health.bound {
                let monitor = model.monitor(monitor_id);
                if !self.monitors[monitor_id.index()].enabled() {
                    continue;
                }
                for (index, &address) in service.addresses.iter().enumerate() {
                    let Some(probe) = Probe::new(monitor, service, address) else { continue };
                    jobs.push(Job {
                        key: JobKey { monitor: monitor.name.clone(), service: service.name.clone(), address },
                        probe,
                        interval: monitor.interval,
                        epoch: self.epoch,
                        monitor: monitor_id,
                        service: id,
                        address: index,
                    });
                }
            }
        }
        jobs
    }

    /// Takes what the scheduler reports. Events of another epoch, or of a monitor that was disabled meanwhile, change
    /// nothing.
    pub fn apply(&mut self, event: HealthEvent) -> Vec<Transition> {
        match event {
            HealthEvent::Result { epoch, monitor, service, address, result, at } => {
                let Some((rise, fall)) = self.thresholds(epoch, monitor) else { return Vec::new() };
                let Some(check) = self.check_mut(service, address, monitor) else { return Vec::new() };
                check.streak.record(result.ok, rise, fall);
                check.last = Some(Last { ok: result.ok, detail: result.detail.clone(), at });
                self.settle(service, address, Some(monitor), &result.detail, at).into_iter().collect()
            }
            HealthEvent::Fault { epoch, monitor, service, address, fault, at } => {
                if self.thresholds(epoch, monitor).is_some()
                    && let Some(check) = self.check_mut(service, address, monitor)
                {
                    check.last = Some(Last { ok: false, detail: fault.to_string(), at });
                }
                Vec::new()
            }
        }
    }

    /// The states of a service's addresses, in the order of the model; empty for a service without addresses.
    ///
    /// # Panics
    ///
    /// For an id that is not of this model, as all that take a [`ServiceId`].
    pub fn snapshot_service(&self, service: ServiceId) -> Vec<AddressState> {
        self.services[service.index()].addresses.iter().map(|address| address.state).collect()
    }

    /// The operator's word on a service.
    pub fn service_force(&self, service: ServiceId) -> Force {
        self.services[service.index()].force
    }

    /// The monitors of a service at each of its addresses, monitors that this version does not run left out.
    pub fn monitor_rows(&self, service: ServiceId) -> Vec<MonitorRow> {
        let service = &self.services[service.index()];
        let rows = service.addresses.iter().flat_map(|address| {
            service.bound.iter().zip(&address.checks).map(|((id, _), check)| {
                let monitor = &self.monitors[id.index()];
                let last = check.last.as_ref();
                MonitorRow {
                    name: monitor.name.to_string(),
                    address: address.address,
                    state: check.state(),
                    enabled: monitor.enabled(),
                    force: check.force,
                    last: last.map(|last| last.detail.clone()),
                    error: last.filter(|last| !last.ok).map(|last| last.detail.clone()),
                    at: last.map(|last| last.at),
                    consecutive: check.streak.consecutive(),
                }
            })
        });
        rows.collect()
    }

    /// True unless the configuration or an operator disabled the monitor.
    pub fn monitor_enabled(&self, monitor: MonitorId) -> bool {
        self.monitors[monitor.index()].enabled()
    }

    /// `enable monitor`, `disable monitor`. A monitor that comes back has everything to prove again, and until then
    /// its addresses stay as they are. Give the scheduler the new [`Health::jobs`] afterwards.
    pub fn set_monitor_enabled(&mut self, monitor: MonitorId, enabled: bool, at: Instant) -> Vec<Transition> {
        let watched = &mut self.monitors[monitor.index()];
        if watched.enabled() == enabled {
            return Vec::new();
        }
        watched.ordered = Some(enabled);
        let detail = format!("monitor {} {}", watched.name, if enabled { "enabled" } else { "disabled" });
        let mut transitions = Vec::new();
        for id in self.service_ids() {
            let service = &mut self.services[id.index()];
            let Some(place) = service.place(monitor) else { continue };
            for index in 0..service.addresses.len() {
                self.services[id.index()].addresses[index].checks[place].streak = Streak::default();
                transitions.extend(self.settle(id, index, None, &detail, at));
            }
        }
        transitions
    }

    /// `force monitor NAME@SERVICE up|down|auto`: its word at every address of the service, whatever it finds.
    pub fn force_monitor(
        &mut self,
        monitor: MonitorId,
        service: ServiceId,
        force: Force,
        at: Instant,
    ) -> Result<Vec<Transition>, HealthError> {
        let name = &self.monitors[monitor.index()].name;
        let detail = format!("monitor {name} forced {force}");
        let target = &mut self.services[service.index()];
        let place = target.place(monitor).ok_or_else(|| HealthError::NotChecked {
            monitor: name.to_string(),
            service: target.name.to_string(),
        })?;
        for address in &mut target.addresses {
            address.checks[place].force = force;
        }
        Ok(self.settle_all(service, &detail, at))
    }

    /// `force service NAME up|down|auto`: the state of all its addresses, whatever the monitors say.
    pub fn force_service(&mut self, service: ServiceId, force: Force, at: Instant) -> Vec<Transition> {
        self.services[service.index()].force = force;
        self.settle_all(service, &format!("service forced {force}"), at)
    }

    /// Sets the state from which an undecided address starts, as the journal of an earlier run tells it. It holds
    /// until the monitors have decided; an address that is decided already stays as it is.
    pub fn restore(&mut self, service: ServiceId, address: usize, state: AddressState) {
        let known =
            self.services.get_mut(service.index()).and_then(|service| service.addresses.get_mut(address));
        if let Some(known) = known.filter(|known| known.state == AddressState::Undecided) {
            known.state = state;
        }
    }

    /// Likewise for one monitor at an address: results have to disagree with this state as often as `rise` and `fall` say.
    /// Results that came already count more. [`Self::settle_restored`] makes states of addresses of it.
    pub fn restore_check(
        &mut self,
        service: ServiceId,
        address: usize,
        monitor: MonitorId,
        state: AddressState,
    ) {
        if let Some(check) = self.check_mut(service, address, monitor)
            && check.streak == Streak::default()
        {
            check.streak = Streak::restored(state);
        }
    }

    /// Brings the states of all addresses up to date with what was restored. Nobody is told: it is no news.
    pub fn settle_restored(&mut self) {
        for id in self.service_ids() {
            self.settle_silently(id);
        }
    }

    /// What the results of one monitor at an address add up to, whatever operators say; None: there is no such check.
    pub fn check_state(
        &self,
        service: ServiceId,
        address: usize,
        monitor: MonitorId,
    ) -> Option<AddressState> {
        let service = self.services.get(service.index())?;
        let place = service.place(monitor)?;
        Some(service.addresses.get(address)?.checks[place].streak.state())
    }

    /// The monitors that check a service.
    pub fn checks_of(&self, service: ServiceId) -> impl Iterator<Item = MonitorId> {
        self.services[service.index()].bound.iter().map(|(id, _)| *id)
    }

    fn service_ids(&self) -> impl Iterator<Item = ServiceId> + use<> {
        (0..self.services.len() as u32).map(ServiceId)
    }

    /// Rise and fall of a monitor that counts; None where its events must be ignored.
    fn thresholds(&self, epoch: u64, monitor: MonitorId) -> Option<(u32, u32)> {
        let watched = self.monitors.get(monitor.index())?;
        (epoch == self.epoch && watched.enabled()).then_some((watched.rise, watched.fall))
    }

    fn check_mut(&mut self, service: ServiceId, address: usize, monitor: MonitorId) -> Option<&mut Check> {
        let service = self.services.get_mut(service.index())?;
        let place = service.place(monitor)?;
        service.addresses.get_mut(address)?.checks.get_mut(place)
    }

    fn settle_silently(&mut self, service: ServiceId) {
        for index in 0..self.services[service.index()].addresses.len() {
            let state = self.verdict(service, index);
            self.services[service.index()].addresses[index].state = state;
        }
    }

    fn settle_all(&mut self, service: ServiceId, detail: &str, at: Instant) -> Vec<Transition> {
        let addresses = 0..self.services[service.index()].addresses.len();
        addresses.filter_map(|index| self.settle(service, index, None, detail, at)).collect()
    }

    fn settle(
        &mut self,
        service: ServiceId,
        address: usize,
        monitor: Option<MonitorId>,
        detail: &str,
        at: Instant,
    ) -> Option<Transition> {
        let to = self.verdict(service, address);
        let from = std::mem::replace(&mut self.services[service.index()].addresses[address].state, to);
        (from != to).then(|| Transition {
            service,
            address,
            from,
            to,
            monitor,
            detail: detail.to_owned(),
            at,
        })
    }

    /// What the monitors and the operator say of an address now. Where they leave it open it stays as it is.
    fn verdict(&self, service: ServiceId, address: usize) -> AddressState {
        let service = &self.services[service.index()];
        let known = &service.addresses[address];
        let counted = service.bound.iter().zip(&known.checks);
        let counted = counted.filter(|((id, _), _)| self.monitors[id.index()].enabled());
        let found = combine(service.threshold, counted.map(|((_, weight), check)| (*weight, check.state())));
        match service.force.over(found) {
            AddressState::Undecided => known.state,
            decided => decided,
        }
    }
}

impl Watched {
    fn new(monitor: &Monitor) -> Self {
        Self {
            name: monitor.name.as_str().into(),
            rise: monitor.rise,
            fall: monitor.fall,
            configured: monitor.enabled,
            ordered: None,
        }
    }
}

impl ServiceHealth {
    fn new(model: &Model, service: &Service) -> Self {
        let mut bound: Vec<(MonitorId, u32)> = Vec::with_capacity(service.monitors.len());
        let mut inert = false;
        for &(id, weight) in &service.monitors {
            if !model.monitor(id).kind.is_check() {
                inert = true;
            } else if bound.iter().all(|(known, _)| *known != id) {
                bound.push((id, weight));
            }
        }
        let mut threshold = service.monitor_threshold;
        if inert {
            // The service counts as one without that monitor: its weight must not be missed.
            let reachable: u64 = bound.iter().map(|(_, weight)| u64::from(*weight)).sum();
            threshold = threshold.min(u32::try_from(reachable).unwrap_or(u32::MAX));
        }
        let checks = vec![Check::default(); bound.len()];
        let addresses = service.addresses.iter().map(|&address| AddressHealth {
            address,
            state: AddressState::Undecided,
            checks: checks.clone(),
        });
        let addresses = addresses.collect();
        Self { name: service.name.as_str().into(), threshold, bound, addresses, force: Force::Auto }
    }

    fn place(&self, monitor: MonitorId) -> Option<usize> {
        self.bound.iter().position(|(id, _)| *id == monitor)
    }

    /// Takes over what the service of this name knew under the old model.
    fn inherit(&mut self, old: (&Self, &Service), old_model: &Model, model: &Model, service: &Service) {
        let (old, old_service) = old;
        self.force = old.force;
        for address in &mut self.addresses {
            let Some(before) = old.addresses.iter().find(|before| before.address == address.address) else {
                continue;
            };
            address.state = before.state;
            for (&(id, _), check) in self.bound.iter().zip(&mut address.checks) {
                let monitor = model.monitor(id);
                let known = old
                    .bound
                    .iter()
                    .zip(&before.checks)
                    .find(|((id, _), _)| old_model.monitor(*id).name == monitor.name);
                let Some(((old_id, _), known)) = known else { continue };
                check.force = known.force;
                let question = Probe::new(monitor, service, address.address);
                let old_question = Probe::new(old_model.monitor(*old_id), old_service, address.address);
                if let (Some(new), Some(old)) = (question, old_question)
                    && new.same_question(&old)
                {
                    check.streak = known.streak;
                    check.last.clone_from(&known.last);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
