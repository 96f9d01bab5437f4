//! From a configuration file to a running engine.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc;

use super::{
    AllEpochs, Engine, EngineError, Orders, Plan, host,
    publish::Latency,
    restore::{self, Restored},
    workers_done,
};
use crate::{
    compile::{Compiled, Side, name::StaticTypes},
    config::{self, Loaded},
    control::{EventKind, Events, NameIndex, RateMeter, Server, command::CheckReport},
    decide::{ServiceState, Snapshot, VserverState},
    health::{Force, Health, Scheduler},
    journal::Stamp,
    model::{DnsName, Model, RecordType, ServiceId, VserverId},
    publish::{
        interface::Listening,
        netlink::Watch,
        writer::{Start, Writer},
    },
    worker::{Beside, DeferredTable, Epochs, Responses, Served, Workers, Zones, answer},
};

/// Results of checks that may wait for the loop.
const CHECKS: usize = 4096;

impl Plan {
    /// Reads, validates and compiles a file and its zones: the same for start, reload and check.
    pub(super) fn read(path: &Path) -> Result<Self, EngineError> {
        Self::of(config::read_text(path)?.into(), path)
    }

    /// Likewise, of a text that is at hand.
    pub(super) fn of(text: Arc<str>, path: &Path) -> Result<Self, EngineError> {
        let Loaded { model, warnings, places } = config::parse(&text, path)?;
        let model = Arc::new(model);
        let zones = Zones::load(&model)
            .map_err(|problems| EngineError::Zones(problems.iter().map(ToString::to_string).collect()))?;
        let zones = Arc::new(zones);
        let names = NameIndex::of(&model);
        let static_types = |name: &DnsName| StaticTypes {
            a: zones.has_type(name, RecordType::A.code()),
            aaaa: zones.has_type(name, RecordType::Aaaa.code()),
            other: zones.has_other_types(name),
        };
        let existing = |zone: usize| zones.existing(&model.zones[zone].apex);
        let soa_of = |zone: usize| Some(zones.zone(&model.zones[zone].apex)?.soa().clone());
        let compiled = Compiled::of(model.clone(), &static_types, &soa_of, &existing)?;
        let deferred = Arc::new(DeferredTable::new(compiled.numbering.count()));
        Ok(Self { text, compiled, names, zones, deferred, warnings, places })
    }

    /// What will surprise, one line each with its place: of the configuration and of the zone files.
    pub(super) fn warnings(&self) -> Vec<String> {
        let zones = self.zones.warnings().iter().map(ToString::to_string);
        self.warnings.iter().map(ToString::to_string).chain(zones).collect()
    }

    /// Puts the answers of the workers into their places. Gives how many changed.
    pub(super) fn put_deferred(&self, made: &Side) -> usize {
        made.deferred.iter().filter(|(number, deferred)| self.deferred.put(*number, deferred)).count()
    }

    /// What the workers know beside the table.
    pub(super) fn worker_names(&self) -> answer::Names {
        let long: HashMap<Box<[u8]>, _> =
            self.compiled.names.long.iter().map(|(name, entry)| (name.wire().into(), *entry)).collect();
        answer::Names {
            long: Arc::new(long),
            undecided: Arc::new(HashSet::new()),
            zones: self.zones.clone(),
            beside: Beside::of(&self.compiled, self.deferred.clone()),
        }
    }
}

/// A configuration that can be started.
pub struct Prepared {
    config: PathBuf,
    plan: Plan,
}

impl Prepared {
    /// Reads, validates and compiles a file.
    pub fn read(config: &Path) -> Result<Self, EngineError> {
        Ok(Self { config: config.to_owned(), plan: Plan::read(config)? })
    }

    /// `server.log`
    pub fn log_level(&self) -> &str {
        &self.plan.compiled.model.settings.log
    }
}

/// Validates a file as a start would. Takes as long as reading it does, and needs no daemon.
pub fn check(path: &Path) -> CheckReport {
    let mut report = CheckReport { file: path.to_owned(), errors: Vec::new(), warnings: Vec::new() };
    match Plan::read(path) {
        Ok(plan) => {
            let host = host::check(&plan.compiled.model.settings, &plan.places, None);
            report.errors = host.errors;
            report.warnings = plan.warnings();
            report.warnings.extend(host.warnings);
        }
        Err(error) => report.errors = error.to_string().lines().map(str::to_owned).collect(),
    }
    report
}

/// The snapshot that health and the operators' orders give. Where `is_settled`, an address that no check has decided
/// counts as down: a name that has answers must not lose them to an address that joins.
pub(super) fn snapshot(model: &Model, health: &Health, orders: &Orders, is_settled: bool) -> Snapshot {
    let services = model.services.iter().enumerate().map(|(i, service)| {
        let mut addresses = health.snapshot_service(ServiceId(i as u32));
        if is_settled {
            addresses.iter_mut().for_each(super::apply::settle);
        }
        ServiceState {
            admin: orders.services.get(&service.name).copied().unwrap_or(service.enabled),
            forced: forced(health, ServiceId(i as u32)),
            addresses,
            report: orders.reports.get(&service.name).map(|(report, _)| *report).unwrap_or_default(),
            load: orders.loads.get(&service.name).cloned().unwrap_or_default(),
        }
    });
    let vservers = model.vservers.iter().map(|vserver| {
        let enabled = orders.vservers.get(&vserver.name).copied().unwrap_or(vserver.enabled);
        let mut state = VserverState { enabled, ..VserverState::default() };
        for (rtype, memory) in orders.memories.get(&vserver.name).into_iter().flatten() {
            state.memory[*rtype as usize] = *memory;
        }
        state
    });
    Snapshot { services: services.collect(), vservers: vservers.collect() }
}

/// The operator's word on a service. Health has put it into the states already; decisions and lists name it.
pub(super) fn forced(health: &Health, service: ServiceId) -> Option<bool> {
    match health.service_force(service) {
        Force::Auto => None,
        Force::Up => Some(true),
        Force::Down => Some(false),
    }
}

/// Files and sockets are many with a thousand checks; the hard limit is the administrator's word.
fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

impl Engine {
    /// Starts everything but the loop. Needs a tokio runtime with I/O and time. An error leaves the host as it was: what
    /// an earlier daemon pinned goes on answering.
    pub fn start(prepared: Prepared) -> Result<Self, EngineError> {
        let places = prepared.plan.places.clone();
        Self::start_unplaced(prepared).map_err(|error| error.placed(&places))
    }

    fn start_unplaced(prepared: Prepared) -> Result<Self, EngineError> {
        let started = Instant::now();
        let Prepared { config, plan } = prepared;
        raise_file_limit();
        let settings = plan.compiled.model.settings.clone();
        let host = host::check(&settings, &plan.places, None);
        for warning in plan.warnings().iter().chain(&host.warnings) {
            tracing::warn!("{warning}");
        }
        if !host.errors.is_empty() {
            return Err(EngineError::Host(host.errors));
        }
        // First, so that two daemons never touch the same pins.
        let server = Server::bind(&settings.control_socket)?;
        // Before anything is written into pinned maps.
        let workers = Workers::bind(&settings)?;
        let count = Workers::count(&settings)?;
        let opened = restore::open(&plan.compiled.model)?;
        let set = Arc::new(Epochs::new(count));
        let epochs: AllEpochs = Arc::new(Mutex::new(vec![set.clone()]));
        let (mut writer, start) = Writer::open(&settings, &plan.compiled, workers_done(&epochs))?;
        // What another world had came over already; a table that was taken over has them all.
        if start == Start::Fresh {
            super::session::restore(&plan.compiled, &opened.state, &writer.world().sessions());
        }
        let responses = Responses::new(&settings.limits, writer.world().buckets());
        let served = Served { world: writer.reader(count), names: plan.worker_names(), responses };
        let served = Arc::new(ArcSwap::from_pointee(served));
        let watch = Watch::open()
            .map_err(|source| EngineError::System { what: "notifications of links and addresses", source })?;
        let (send_requests, requests) = mpsc::channel(64);
        let events = Events::default();
        let feed = events.feed();
        let watching = super::visibility::Watching::default();
        let samples = watching.feed.clone();
        tokio::spawn(async move {
            if let Err(error) = server.run(send_requests, feed, samples).await {
                tracing::error!(%error, "the control socket is gone");
            }
        });
        let Restored { health, orders } =
            restore::restore(&plan.compiled.model, &opened.state, &Stamp::now());
        let snapshot = snapshot(&plan.compiled.model, &health, &orders, false);
        let (send_checks, checks) = mpsc::channel(CHECKS);
        let scheduler = Scheduler::start_thread(health.jobs(&plan.compiled.model), send_checks)
            .map_err(|source| EngineError::System { what: "thread of the health checks", source })?;
        let generation =
            restore::generation(&opened.state, writer.world().generation(), start, &Stamp::now());
        if generation > writer.world().generation() {
            writer.world_mut().end_batch(generation);
        }
        let services = plan.compiled.model.services.len() as u32;
        let vservers = plan.compiled.model.vservers.len() as u32;
        let mut engine = Self {
            config,
            on_disk: plan.text.clone(),
            plan,
            orders,
            health,
            snapshot,
            scheduler,
            checks,
            writer,
            served,
            epochs,
            workers,
            requests,
            events,
            rates: RateMeter::default(),
            interfaces: Vec::new(),
            listening: Listening::default(),
            absent: Vec::new(),
            watch: Some(watch),
            problems: BTreeSet::new(),
            dirty: BTreeSet::new(),
            stirred: (0..vservers).map(VserverId).collect(),
            failed: BTreeSet::new(),
            oldest: None,
            undecided: BTreeSet::new(),
            generation,
            published: started,
            latency: Latency::default(),
            started,
            states: super::states::Known::default(),
            secrets_read: started,
            swept: started,
            clearing: super::session::Clearing::default(),
            is_ready: false,
            is_attached: false,
            journal: opened.journal,
            told: opened.told,
            given: Vec::new(),
            given_keys: BTreeMap::new(),
            waiting: VecDeque::new(),
            ticket: 0,
            unrecorded: (0..services).map(ServiceId).collect(),
            watching,
        };
        engine.say_start(start);
        engine.say_findings(&opened.findings, opened.state.len());
        Ok(engine)
    }

    fn say_start(&mut self, start: Start) {
        let names = self.plan.compiled.names.fast.len() + self.plan.compiled.names.long.len();
        let text = match start {
            Start::Fresh => format!("{names} names, a new world"),
            Start::Adopted { put, removed } => format!(
                "{names} names, the pinned answers of generation {} taken over ({put} names changed, {removed} removed)",
                self.generation
            ),
        };
        self.event(EventKind::Publish, "daemon", text, serde_json::Map::new());
    }

    /// The first decisions; what can be attached at once is. Workers answer from now on: before, they would have refused
    /// names that can be decided at once.
    pub(super) fn begin(&mut self) -> Result<(), EngineError> {
        self.follow_interfaces();
        self.dirty_all();
        self.publish();
        let sets = self.epochs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(epochs) = sets.last() {
            self.workers.run(&self.served, epochs)?;
        }
        self.settle()
    }

    /// Becomes ready when every name's state is decided. A program that is pinned already and has its answers is
    /// replaced at once; a new one waits until it has answers, so that an old world answers meanwhile.
    pub(super) fn settle(&mut self) -> Result<(), EngineError> {
        if self.is_ready || !self.undecided.is_empty() {
            return Ok(());
        }
        self.attach()?;
        self.is_ready = true;
        // The whole message, at every log level (spec/config.md 1).
        eprintln!("ready");
        notify_ready();
        Ok(())
    }

    fn attach(&mut self) -> Result<(), EngineError> {
        if self.is_attached {
            return Ok(());
        }
        let settings = self.plan.compiled.model.settings.clone();
        self.writer.attach(&settings).map_err(|error| EngineError::from(error).placed(&self.plan.places))?;
        self.is_attached = true;
        for attached in self.writer.attached().to_vec() {
            let Some(mode) = attached.mode else { continue };
            let text = format!("XDP program attached, mode {mode}");
            self.event(
                EventKind::Attach,
                format!("interface {}", attached.name),
                text,
                serde_json::Map::new(),
            );
        }
        self.follow_interfaces();
        Ok(())
    }
}

/// Tells systemd, if it asked to be told (sd_notify READY=1).
fn notify_ready() {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    };
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent =
        address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(|_| ()));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot tell the service manager that we are ready");
    }
}
