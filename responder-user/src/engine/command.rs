//! Commands of operators.

use std::{
    net::IpAddr,
    time::{Instant, SystemTime},
};

use ipnet::IpNet;
use responder_common::{counters::Counter, session::Store};
use serde_json::{Map, Value, json};

use super::{Engine, start::forced};
use crate::{
    control::{
        Command, Done, EventKind, Queries, Refusal, Request, View,
        command::{ForceKind, ForceState, SessionAction, ShowKind, SwitchKind},
        explain::{self, Lanes},
        show,
        target::{self, Target},
        told, view,
    },
    decide::{OwnerId, snapshot::is_monitored},
    health::Force,
    model::{MonitorId, ServiceId, VserverId, settings::XdpMode},
    worker::answer::{self, Outcome, Transport},
};

impl Engine {
    /// Answers a request, orders after the journal has them. The client may be gone.
    pub(super) fn request(&mut self, request: Request) {
        let Some(request) = self.queue_order(request) else { return };
        let answer = self.carry_out(&request.command);
        let _ = request.reply.send(answer);
    }

    /// Orders must be in the journal already.
    pub(super) fn carry_out(&mut self, command: &Command) -> Result<Value, Refusal> {
        match command {
            Command::Enable { kind, name } => self.switch(*kind, name, true).map(|done| json!(done)),
            Command::Disable { kind, name } => self.switch(*kind, name, false).map(|done| json!(done)),
            Command::Force { kind, name, state } => self.force(*kind, name, *state).map(|done| json!(done)),
            Command::Load { service, figures } => self.load(service, figures).map(|done| json!(done)),
            Command::Report { service, states } => self.report(service, states).map(|done| json!(done)),
            Command::Set { .. } | Command::Add { .. } | Command::Remove { .. } => {
                self.edit(command).map(|done| json!(done))
            }
            Command::Diff => self.diff(),
            Command::Save { force } => self.save(*force).map(|done| json!(done)),
            Command::Ns { line } => self.ns(line),
            Command::Reload => self.reload().map(|done| json!(done)),
            Command::Events { kind, last, .. } => Ok(self.events.to_value(*kind, *last)),
            Command::Status => self.viewed(|view| Ok(view::status(view))),
            Command::Stats => self.viewed(|view| Ok(view::stats(view))),
            Command::Latency { seconds } => self.latency(*seconds),
            Command::Capture(wanted) => self.capture(wanted),
            Command::CaptureEnd => Ok(self.end_capture()),
            Command::Session { action, vserver, client } => {
                self.sessions(*action, vserver.as_deref(), *client)
            }
            Command::Show { kind: ShowKind::Session, name } => {
                self.sessions(SessionAction::List, name.as_deref(), None)
            }
            Command::Show { kind, name } => self.viewed(|view| show::show(view, *kind, name.as_deref())),
            Command::Explain(question) => {
                let served = self.served.load_full();
                let mut names = served.names.clone();
                names.beside.aside = true;
                let reply = |query: &[u8], client: IpAddr| {
                    let mut out = vec![0; 1232];
                    let client = (client, 53_000).into();
                    let world = served.world.aside();
                    match answer::reply(query, Transport::Udp, client, &world, &names, &mut out) {
                        Outcome::Silent | Outcome::Dropped => None,
                        Outcome::Reply { len, .. } => {
                            out.truncate(len);
                            Some(out)
                        }
                    }
                };
                let verdict =
                    |query: &[u8], client: IpAddr| Some(served.world.aside().verdict(query, client));
                let (keeping, sessions) =
                    (self.plan.compiled.keeping.clone(), self.writer.world().sessions());
                let (holds, now) = (self.holds(), sessions.now());
                let session = |owner: OwnerId, client: IpAddr, subnet: Option<IpNet>| {
                    let keeping = keeping[owner.index()].as_ref()?;
                    let key = keeping.key(client, subnet);
                    keeping.read(&key, &sessions.get(&key)?, &holds, now)
                };
                let lanes = Lanes { reply: Some(&reply), verdict: Some(&verdict), session: Some(&session) };
                self.viewed(|view| explain::explain(view, question, lanes))
            }
        }
    }

    pub(super) fn viewed(
        &mut self,
        read: impl FnOnce(&View<'_>) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let queries = self.queries();
        self.rates.sample(Instant::now(), queries);
        let counters = self.counters();
        let journal = self.journal.status();
        let problems: Vec<String> = self.problems.iter().cloned().chain(self.degraded()).collect();
        read(&View {
            version: env!("CARGO_PKG_VERSION"),
            model: &self.plan.compiled.model,
            names: &self.plan.names,
            owners: &self.plan.compiled.owners,
            classes: &self.plan.compiled.classes,
            snapshot: &self.snapshot,
            health: &self.health,
            events: &self.events,
            generation: self.generation,
            ready: self.is_ready,
            uptime: self.started.elapsed(),
            clock: SystemTime::now(),
            now: Instant::now(),
            interfaces: &self.interfaces,
            problems: &problems,
            queries,
            journal: &journal,
            rates: self.rates.rates(),
            counters: &counters,
        })
    }

    /// What works, but not as it was asked for.
    fn degraded(&self) -> Vec<String> {
        let settings = &self.plan.compiled.model.settings;
        let mut out = self.surroundings_problems();
        for interface in &self.interfaces {
            let wanted = match settings.xdp.mode {
                XdpMode::Auto | XdpMode::Native => "native",
                XdpMode::Generic => "generic",
                XdpMode::Off => "off",
            };
            if self.is_ready && interface.mode != wanted {
                let row = self.writer.attached().iter().find(|row| row.name == interface.name);
                let why =
                    row.and_then(|row| row.why.as_ref()).map_or(String::new(), |why| format!(": {why}"));
                out.push(format!(
                    "interface {}: XDP mode is {}, not {wanted}{why}",
                    interface.name, interface.mode
                ));
            }
            if interface.link != "up" {
                out.push(format!("interface {}: link is {}", interface.name, interface.link));
            }
        }
        let broken = self.writer.counters().get(Counter::PassBroken.slot()).copied().unwrap_or(0);
        if broken > 0 {
            out.push(format!("{broken} packets met a map that does not fit another: report this"));
        }
        out
    }

    pub(super) fn queries(&self) -> Queries {
        let xdp = self.writer.counters();
        let worker = self.workers.counters();
        let of = |name: &str| worker.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value);
        let replies =
            worker.iter().filter(|(name, _)| name.starts_with("worker_answer_")).map(|(_, v)| *v).sum();
        Queries::of(
            |counter| xdp.get(counter.slot()).copied().unwrap_or(0),
            replies,
            of("worker_limited") + of("worker_silent"),
        )
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let xdp = self.writer.counters();
        let mut out: Vec<(String, u64)> = Counter::ALL
            .iter()
            .map(|c| (c.name().to_owned(), xdp.get(c.slot()).copied().unwrap_or(0)))
            .collect();
        out.extend(self.kinds());
        out.extend(self.workers.counters().into_iter().map(|(name, value)| (name.to_owned(), value)));
        let checks = self.scheduler.stats();
        let publish = [
            ("health_checks_started", checks.started),
            ("health_checks_succeeded", checks.succeeded),
            ("health_checks_failed", checks.failed),
            ("health_checks_faults", checks.faults),
            ("health_checks_late", checks.late),
            ("publish_generation", self.generation),
            ("publish_changes", self.latency.count),
            ("publish_stalls", self.writer.world().table().stalls()),
            ("publish_last_microseconds", self.latency.last.as_micros() as u64),
            ("publish_slowest_microseconds", self.latency.most.as_micros() as u64),
        ];
        out.extend(publish.into_iter().map(|(name, value)| (name.to_owned(), value)));
        out
    }

    pub(super) fn switch(&mut self, kind: SwitchKind, name: &str, enabled: bool) -> Result<Done, Refusal> {
        let model = self.plan.compiled.model.clone();
        let (changed, object) = match target::switch(&model, kind, name)? {
            Target::Vserver(id) => self.switch_vserver(id, enabled),
            Target::Service(id) => self.switch_service(id, enabled),
            Target::Monitor(id) | Target::MonitorAt(id, _) => self.switch_monitor(id, enabled),
        };
        let word = if enabled { "enabled" } else { "disabled" };
        Ok(self.done(changed, &object, word))
    }

    fn switch_vserver(&mut self, id: VserverId, enabled: bool) -> (bool, String) {
        let name = self.plan.compiled.model.vserver(id).name.clone();
        let state = &mut self.snapshot.vservers[id.index()];
        let changed = state.enabled != enabled;
        state.enabled = enabled;
        let was_latched = enabled && state.clear_latch();
        if self.plan.compiled.model.vserver(id).enabled == enabled {
            self.orders.vservers.remove(&name);
        } else {
            self.orders.vservers.insert(name.clone(), enabled);
        }
        self.touch_vserver(id);
        if was_latched {
            let text = "held back no longer: enabled by an operator";
            self.event(EventKind::Latch, format!("vserver {name}"), text, Map::new());
        }
        (changed || was_latched, format!("vserver {name}"))
    }

    fn switch_service(&mut self, id: ServiceId, enabled: bool) -> (bool, String) {
        let name = self.plan.compiled.model.service(id).name.clone();
        let state = &mut self.snapshot.services[id.index()];
        let changed = state.admin != enabled;
        state.admin = enabled;
        if self.plan.compiled.model.service(id).enabled == enabled {
            self.orders.services.remove(&name);
        } else {
            self.orders.services.insert(name.clone(), enabled);
        }
        self.touch_service(id, Instant::now());
        (changed, format!("service {name}"))
    }

    fn switch_monitor(&mut self, id: MonitorId, enabled: bool) -> (bool, String) {
        let model = self.plan.compiled.model.clone();
        let changed = self.health.monitor_enabled(id) != enabled;
        let transitions = self.health.set_monitor_enabled(id, enabled, Instant::now());
        self.transitions(transitions);
        self.record_all();
        self.scheduler.reload(self.health.jobs(&model));
        (changed, format!("monitor {}", model.monitor(id).name))
    }

    fn force(&mut self, kind: ForceKind, name: &str, state: ForceState) -> Result<Done, Refusal> {
        let model = self.plan.compiled.model.clone();
        let force = match state {
            ForceState::Up => Force::Up,
            ForceState::Down => Force::Down,
            ForceState::Auto => Force::Auto,
        };
        let now = Instant::now();
        let mut is_another = false;
        let (transitions, object) = match target::force(&model, kind, name)? {
            Target::Service(id) => {
                let transitions = self.health.force_service(id, force, now);
                let forced = forced(&self.health, id);
                let before = std::mem::replace(&mut self.snapshot.services[id.index()].forced, forced);
                // An order goes before what was told of a service whose checks say the same as before.
                is_another = before != forced;
                if is_another {
                    self.touch_service(id, now);
                }
                (transitions, format!("service {}", model.service(id).name))
            }
            Target::MonitorAt(id, service) => (self.force_at(id, service, force)?, format!("monitor {name}")),
            Target::Monitor(id) => {
                let mut all = Vec::new();
                for (i, service) in model.services.iter().enumerate() {
                    if service.monitors.iter().any(|(bound, _)| *bound == id) {
                        all.extend(self.force_at(id, ServiceId(i as u32), force)?);
                    }
                }
                (all, format!("monitor {name}"))
            }
            Target::Vserver(_) => return Err(Refusal::new("a vserver cannot be forced; disable it")),
        };
        let changed = is_another || !transitions.is_empty();
        self.transitions(transitions);
        Ok(self.done(changed, &object, &format!("forced {force}")))
    }

    /// Takes load figures; what is not named stays as it is.
    fn load(&mut self, name: &str, figures: &[String]) -> Result<Done, Refusal> {
        let model = self.plan.compiled.model.clone();
        let id = target::service(&model, name)?;
        let at = self.load_clock();
        let state = &mut self.snapshot.services[id.index()];
        let changed = told::take_load(state, figures, at)?;
        let warnings = told::unused(&model, id, figures);
        let name = model.service(id).name.clone();
        self.orders.loads.insert(name.clone(), state.load.clone());
        if changed {
            self.touch_service(id, Instant::now());
            self.publish();
        }
        let message = format!("service {name} load taken");
        Ok(Done { message, changed, generation: self.generation, warnings })
    }

    /// Takes states of the virtual server that a service stands for; what is not named stays as it is.
    fn report(&mut self, name: &str, states: &[String]) -> Result<Done, Refusal> {
        let model = self.plan.compiled.model.clone();
        let id = target::service(&model, name)?;
        let state = &mut self.snapshot.services[id.index()];
        let changed = told::take_report(state, states)?;
        let report = state.report;
        let service = model.service(id);
        self.orders.reports.insert(service.name.clone(), (report, self.load_clock()));
        let mut warnings = Vec::new();
        if report.primary_up.is_some() && is_monitored(&model, service) {
            warnings.push(format!("service {}: its monitors decide the primary state", service.name));
        }
        let object = format!("service {}", service.name);
        if changed {
            self.touch_service(id, Instant::now());
            self.event(
                EventKind::State,
                object.clone(),
                format!("reported {}", states.join(" ")),
                Map::new(),
            );
            self.publish();
        }
        let message = format!("{object} report taken");
        Ok(Done { message, changed, generation: self.generation, warnings })
    }

    fn force_at(
        &mut self,
        monitor: MonitorId,
        service: ServiceId,
        force: Force,
    ) -> Result<Vec<crate::health::Transition>, Refusal> {
        self.health
            .force_monitor(monitor, service, force, Instant::now())
            .map_err(|error| Refusal::new(error.to_string()))
    }

    /// An operator's change is published before the command returns.
    fn done(&mut self, changed: bool, object: &str, word: &str) -> Done {
        self.event(EventKind::State, object, format!("{word} by an operator"), Map::new());
        if !self.dirty.is_empty() {
            self.publish();
        }
        Done {
            message: format!("{object} {word}"),
            changed,
            generation: self.generation,
            warnings: Vec::new(),
        }
    }
}
