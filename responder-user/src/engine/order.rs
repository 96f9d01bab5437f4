//! What goes to the journal, and orders that wait for it.
//!
//! An order is checked, written and synced, and only then carried out: what an operator was told is in force after any
//! crash, and what the disk does not take changes nothing. Orders on different objects share a sync.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Map;

use super::{
    Engine,
    restore::{BEFORE, question_of},
};
use crate::{
    control::{
        Command, EventKind, Refusal, Request,
        command::{ForceKind, ForceState, SessionAction, SwitchKind},
        target::{self, Target},
        told,
    },
    decide::{AddressState, Figure},
    journal::{self, Findings, Kind, Record, Stamp, Told, record::Key},
    model::{MonitorId, ServiceId},
};

/// Begins the problems of the journal that come and go.
const TROUBLE: &str = "journal cannot be written: ";

impl Engine {
    /// The clock of pushed figures and reports. It begins so late that what an earlier life was told lies on it.
    pub(super) fn load_clock(&self) -> Duration {
        BEFORE + self.started.elapsed()
    }

    /// Keeps an order until the journal has it; gives back everything else.
    pub(super) fn queue_order(&mut self, request: Request) -> Option<Request> {
        if !matches!(
            request.command,
            Command::Enable { .. }
                | Command::Disable { .. }
                | Command::Force { .. }
                | Command::Load { .. }
                | Command::Report { .. }
                | Command::Session { action: SessionAction::Clear, .. }
        ) && self.ns_order(&request.command).is_none()
        {
            return Some(request);
        }
        self.waiting.push_back(request);
        self.give();
        None
    }

    /// Gives the journal the orders that wait, as far as each is about something else.
    fn give(&mut self) {
        if !self.given.is_empty() {
            return;
        }
        let mut records = BTreeMap::new();
        while let Some(request) = self.waiting.pop_front() {
            match self.records_of(&request.command) {
                Err(refusal) => drop(request.reply.send(Err(refusal))),
                Ok(more) if more.iter().any(|record| records.contains_key(&record.key())) => {
                    self.waiting.push_front(request);
                    break;
                }
                Ok(more) => {
                    records.extend(more.into_iter().map(|record| (record.key(), record)));
                    self.given.push(request);
                }
            }
        }
        if self.given.is_empty() {
            return;
        }
        if self.told.is_closed() {
            self.done_with(&Err("the journal is gone".to_owned()));
        } else {
            self.ticket += 1;
            self.given_keys = records.keys().map(|key| (key.clone(), false)).collect();
            self.journal.order(self.ticket, records.into_values().collect());
        }
    }

    /// What the journal has to say; None: its thread is gone.
    pub(super) fn told(&mut self, told: Option<Told>) {
        match told {
            Some(Told::Done { ticket, result }) if ticket == self.ticket => self.done_with(&result),
            Some(Told::Done { .. }) => {}
            Some(Told::Trouble(text)) => {
                self.forget_trouble();
                self.problems.insert(format!("{TROUBLE}{text}"));
                tracing::error!("{text}");
                let text = format!("{text}; orders are refused");
                self.event(EventKind::Journal, "journal", text, Map::new());
            }
            Some(Told::Healed) => {
                self.forget_trouble();
                self.event(EventKind::Journal, "journal", "can be written again", Map::new());
            }
            None => {
                self.problems.insert("the journal is gone: restart responderd, and report this".to_owned());
                self.done_with(&Err("the journal is gone".to_owned()));
            }
        }
    }

    fn done_with(&mut self, result: &Result<(), String>) {
        let mut answers = Vec::new();
        for request in std::mem::take(&mut self.given) {
            let answer = match result {
                Ok(()) => self.carry_out(&request.command),
                Err(text) => Err(Refusal::new(format!("nothing is changed: {text}"))),
            };
            answers.push((request.reply, answer));
        }
        self.clearing.end();
        // Before anybody is told: what was found out meanwhile may not stand behind the order in the journal.
        for (key, _) in std::mem::take(&mut self.given_keys).into_iter().filter(|(_, is_stale)| *is_stale) {
            if let Some(record) = self.current(&key) {
                self.journal.note(record);
            }
        }
        for (reply, answer) in answers {
            let _ = reply.send(answer);
        }
        self.give();
    }

    /// What was found out goes to the journal, but never behind an order on the same object that is on its way: that would
    /// be lost. It is said anew when the order is carried out.
    pub(super) fn note(&mut self, record: Record) {
        match self.given_keys.get_mut(&record.key()) {
            Some(is_stale) => *is_stale = true,
            None => self.journal.note(record),
        }
    }

    /// What is so now of an object that orders and findings change.
    fn current(&self, key: &Key) -> Option<Record> {
        let model = &self.plan.compiled.model;
        match key {
            Key::Memory(name) => {
                let state = self.snapshot.vserver(model.vserver_named(name)?);
                Some(Record::memory(name, &state.memory))
            }
            Key::Load(name) => {
                Some(self.load_record(name, &self.snapshot.service(model.service_named(name)?).load))
            }
            Key::Report(name) => {
                let (report, at) = self.orders.reports.get(name).copied().unwrap_or_default();
                Some(Record::report(name, report, Stamp::now().before(self.load_clock().saturating_sub(at))))
            }
            _ => None,
        }
    }

    fn forget_trouble(&mut self) {
        self.problems.retain(|problem| !problem.starts_with(TROUBLE));
    }

    /// What was met in the journal at the start.
    pub(super) fn say_findings(&mut self, findings: &Findings, objects: usize) {
        let path = self.journal.status().path.display().to_string();
        tracing::info!(path, records = findings.records, objects, "journal read");
        if let Some(at) = findings.torn {
            tracing::warn!(path, "the journal ended in a record that was never finished, at octet {at}: cut");
        }
        let problem = if let Some(at) = findings.damaged.first() {
            format!(
                "journal {path}: damaged at octet {at}; what stood there is lost, a copy is {path}.damaged: look at what was \
                 disabled and forced"
            )
        } else if let Some(version) = findings.other_version {
            format!(
                "journal {path}: of version {version}, not {}; set aside as {path}.aside",
                journal::frame::VERSION
            )
        } else if findings.is_foreign {
            format!("journal {path}: was no journal; set aside as {path}.aside")
        } else {
            return;
        };
        tracing::error!("{problem}");
        self.event(EventKind::Journal, "journal", problem.clone(), Map::new());
        self.problems.insert(problem);
    }

    /// What an order would have the journal say; Err: it cannot be carried out.
    fn records_of(&self, command: &Command) -> Result<Vec<Record>, Refusal> {
        match command {
            Command::Enable { kind, name } => self.switch_records(*kind, name, true),
            Command::Disable { kind, name } => self.switch_records(*kind, name, false),
            Command::Force { kind, name, state } => self.force_records(*kind, name, *state),
            Command::Load { service, figures } => {
                let model = &self.plan.compiled.model;
                let id = target::service(model, service)?;
                let mut state = self.snapshot.service(id).clone();
                told::take_load(&mut state, figures, self.load_clock())?;
                Ok(vec![self.load_record(&model.service(id).name, &state.load)])
            }
            Command::Report { service, states } => {
                let model = &self.plan.compiled.model;
                let id = target::service(model, service)?;
                let report = told::report(self.snapshot.service(id).report, states)?;
                Ok(vec![Record::report(&model.service(id).name, report, Stamp::now())])
            }
            Command::Session { .. } => self.session_records(command),
            Command::Ns { .. } => match self.ns_order(command) {
                Some((kind, name, enabled)) => {
                    self.switch_records(kind, &self.spelled(kind, &name)?, enabled)
                }
                None => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        }
    }

    fn switch_records(&self, kind: SwitchKind, name: &str, enabled: bool) -> Result<Vec<Record>, Refusal> {
        let model = &self.plan.compiled.model;
        let order = |kind, name: &str| Record::Enabled { kind, name: name.to_owned(), enabled };
        // What the configuration says by itself needs no order, and does not outlive another word of it.
        let unless = |is_configured: bool, kind, name: &str| {
            if is_configured { Record::Withdrawn { kind, name: name.to_owned() } } else { order(kind, name) }
        };
        Ok(match target::switch(model, kind, name)? {
            Target::Vserver(id) => {
                let name = &model.vserver(id).name;
                let mut state = self.snapshot.vserver(id);
                let is_configured = model.vserver(id).enabled == enabled;
                let mut records = vec![unless(is_configured, Kind::Vserver, name)];
                if enabled {
                    state.clear_latch();
                    records.push(Record::memory(name, &state.memory));
                }
                records
            }
            Target::Service(id) => {
                let service = model.service(id);
                vec![unless(service.enabled == enabled, Kind::Service, &service.name)]
            }
            Target::Monitor(id) | Target::MonitorAt(id, _) => {
                vec![order(Kind::Monitor, &model.monitor(id).name)]
            }
        })
    }

    fn force_records(&self, kind: ForceKind, name: &str, state: ForceState) -> Result<Vec<Record>, Refusal> {
        let model = &self.plan.compiled.model;
        let up = match state {
            ForceState::Up => Some(true),
            ForceState::Down => Some(false),
            ForceState::Auto => None,
        };
        let order = |service: ServiceId, monitor: Option<MonitorId>| Record::Forced {
            service: model.service(service).name.clone(),
            monitor: monitor.map(|id| model.monitor(id).name.clone()),
            up,
        };
        let checked = |monitor: MonitorId, service: ServiceId| {
            if self.health.checks_of(service).any(|id| id == monitor) {
                return Ok(order(service, Some(monitor)));
            }
            let error = crate::health::HealthError::NotChecked {
                monitor: model.monitor(monitor).name.clone(),
                service: model.service(service).name.clone(),
            };
            Err(Refusal::new(error.to_string()))
        };
        match target::force(model, kind, name)? {
            Target::Service(id) => Ok(vec![order(id, None)]),
            Target::MonitorAt(monitor, service) => Ok(vec![checked(monitor, service)?]),
            Target::Monitor(monitor) => {
                let all = (0..model.services.len() as u32).map(ServiceId);
                let bound =
                    all.filter(|id| model.service(*id).monitors.iter().any(|(bound, _)| *bound == monitor));
                bound.map(|service| checked(monitor, service)).collect()
            }
            Target::Vserver(_) => Err(Refusal::new("a vserver cannot be forced; disable it")),
        }
    }

    /// All figures of a service.
    pub(super) fn load_record(&self, service: &str, load: &BTreeMap<String, Figure>) -> Record {
        let (now, clock) = (Stamp::now(), self.load_clock());
        let figures = load.iter().map(|(name, figure)| journal::Figure {
            name: name.clone(),
            value: figure.value,
            at: now.before(clock.saturating_sub(figure.at)),
        });
        Record::Load { service: service.to_owned(), figures: figures.collect() }
    }

    /// The states of everything go to the journal, which takes what is new.
    pub(super) fn record_all(&mut self) {
        self.unrecorded.extend((0..self.plan.compiled.model.services.len() as u32).map(ServiceId));
    }

    /// The states of services that changed go to the journal; never waits for the disk.
    pub(super) fn record_health(&mut self) {
        for service in std::mem::take(&mut self.unrecorded) {
            self.journal.note_all(self.health_records(service));
        }
    }

    fn health_records(&self, id: ServiceId) -> Vec<Record> {
        let model = &self.plan.compiled.model;
        let Some(service) = model.services.get(id.index()) else { return Vec::new() };
        let mut out = Vec::new();
        for (index, (address, state)) in
            service.addresses.iter().zip(&self.snapshot.service(id).addresses).enumerate()
        {
            out.push(Record::Address { service: service.name.clone(), address: *address, up: up(*state) });
            for monitor in self.health.checks_of(id) {
                let (Some(state), Some(question)) =
                    (self.health.check_state(id, index, monitor), question_of(model, id, monitor, *address))
                else {
                    continue;
                };
                let up = up(state);
                let (service, monitor) = (service.name.clone(), model.monitor(monitor).name.clone());
                out.push(Record::Check { service, address: *address, monitor, question, up });
            }
        }
        out
    }

    /// The number of the plan in force.
    pub(super) fn record_plan(&self) {
        self.journal.note(Record::Plan { generation: self.generation, boot: Stamp::now().boot });
    }
}

fn up(state: AddressState) -> Option<bool> {
    match state {
        AddressState::Undecided => None,
        AddressState::Up => Some(true),
        AddressState::Down => Some(false),
    }
}
