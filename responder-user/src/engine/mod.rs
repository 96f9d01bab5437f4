//! The control process: one loop that owns the model, health, the snapshot and the writer.
//!
//! ```text
//! checks ---> apply ----> dirty owners --> publish (decide, compile, write) --> kernel and workers
//! commands -> command --/                     ^
//! reload, set -> compile -> new world or diff -/
//! ```
//!
//! Everything happens on one thread, in the order in which it arrives; nothing in the loop waits for the network, a
//! disk or a reader of the maps. The checks run on a thread of their own, and so does the journal: orders wait for it
//! (`order`), nothing else does.

mod apply;
mod change;
mod command;
mod follow;
mod host;
mod ns;
mod order;
mod publish;
mod reload;
mod restore;
mod session;
mod start;
mod states;
mod visibility;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{
    compile::{CompileError, Compiled},
    config::{ConfigError, Places, Problem},
    control::{EventKind, Events, InterfaceStatus, NameIndex, RateMeter, Request, server::BindError},
    decide::{Figure, Memory, OwnerId, Report, Snapshot},
    health::{Health, HealthEvent, Scheduler},
    journal::{Journal, JournalError, Told, record::Key},
    model::{RecordType, ServiceId, VserverId},
    publish::{PublishError, interface::Listening, netlink::Watch, world::Reader, writer::Writer},
    worker::{DeferredTable, Epochs, Served, WorkerError, Workers, Zones},
};

pub use start::{Prepared, check};

/// Changes that follow a publish closer than this wait for each other.
const COALESCE: Duration = Duration::from_millis(10);

/// So often the secrets of cookies are read, and made anew when their day is over.
const SECRETS_EVERY: Duration = Duration::from_mins(1);

/// So often sessions that have ended are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Signs of life, samples and a look at the interfaces.
const TICK: Duration = Duration::from_secs(1);

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration has problems.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Zone files have problems; one line each.
    #[error("{}", .0.join("\n"))]
    Zones(Vec<String>),
    /// The host does not have what the configuration names; one line each, with its place.
    #[error("{}", .0.join("\n"))]
    Host(Vec<String>),
    /// Any of the others, with the place of the setting in front.
    #[error("{0}")]
    Placed(String),
    /// A reload changes what only a start can set.
    #[error("{0} cannot change while running; restart responderd, which loses no query")]
    NeedsRestart(String),
    /// The configuration is too large.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The maps or the program.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The workers.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] BindError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something that the system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl EngineError {
    /// Names the line of the setting that the host refuses.
    fn placed(self, places: &Places) -> Self {
        let (key, element) = match &self {
            Self::Publish(error) => match error {
                PublishError::NoInterface { name: interface }
                | PublishError::Foreign { interface, .. }
                | PublishError::StrippedTags { interface, .. }
                | PublishError::Mode { interface, .. } => ("xdp.interfaces", interface.clone()),
                PublishError::TooMany { .. } => ("listen.addresses", String::new()),
                PublishError::InUse { .. }
                | PublishError::NotBpffs { .. }
                | PublishError::Orphan { .. }
                | PublishError::Pin { .. } => ("xdp.pin_path", String::new()),
                PublishError::Program(_) | PublishError::Bpf { .. } => ("xdp.interfaces", String::new()),
                PublishError::Memory { .. } | PublishError::Full { .. } | PublishError::NoPlace { .. } => {
                    return self;
                }
            },
            Self::Worker(error) => match error {
                WorkerError::Bind { address, .. } => ("listen.addresses", address.to_string()),
                WorkerError::Cpu { .. } | WorkerError::Count { .. } => ("listen.workers", String::new()),
                WorkerError::NoCpus | WorkerError::Epochs { .. } | WorkerError::Thread { .. } => return self,
            },
            Self::Control(_) => ("server.control_socket", String::new()),
            Self::Journal(_) => ("server.state_dir", String::new()),
            Self::NeedsRestart(keys) => (keys.split(',').next().unwrap_or_default(), String::new()),
            Self::Config(_)
            | Self::Zones(_)
            | Self::Host(_)
            | Self::Placed(_)
            | Self::Compile(_)
            | Self::System { .. } => return self,
        };
        Self::Placed(places.say(key, &element, &self.to_string()))
    }
}

/// Everything that one configuration brings.
struct Plan {
    /// The configuration as a document.
    text: Arc<str>,
    compiled: Compiled,
    names: NameIndex,
    zones: Arc<Zones>,
    /// What the table cannot say.
    deferred: Arc<DeferredTable>,
    warnings: Vec<Problem>,
    places: Places,
}

/// What operators said beside the file, by name, so that it survives a reload.
#[derive(Default)]
struct Orders {
    services: HashMap<String, bool>,
    vservers: HashMap<String, bool>,
    /// What was reported of services, and when, on [`Engine::load_clock`].
    reports: HashMap<String, (Report, Duration)>,
    /// Load figures of services. Times are on [`Engine::load_clock`].
    loads: HashMap<String, BTreeMap<String, Figure>>,
    /// What virtual servers remember.
    memories: HashMap<String, Vec<(RecordType, Memory)>>,
}

/// All epochs that some worker may use: more than one set only while workers are replaced.
type AllEpochs = Arc<Mutex<Vec<Arc<Epochs>>>>;

/// The control process.
pub struct Engine {
    config: PathBuf,
    /// The file as it was read or written last.
    on_disk: Arc<str>,
    plan: Plan,
    orders: Orders,
    health: Health,
    snapshot: Snapshot,
    scheduler: Scheduler,
    checks: mpsc::Receiver<HealthEvent>,
    writer: Writer,
    served: Arc<ArcSwap<Served<Reader>>>,
    epochs: AllEpochs,
    workers: Workers,
    requests: mpsc::Receiver<Request>,
    events: Events,
    rates: RateMeter,
    interfaces: Vec<InterfaceStatus>,
    /// What the program compares packets with.
    listening: Listening,
    /// Listed addresses that the host does not have now; one line each.
    absent: Vec<String>,
    /// None: there are no notifications, and the look once a second has to do.
    watch: Option<Watch>,
    problems: BTreeSet<String>,
    dirty: BTreeSet<OwnerId>,
    /// Virtual servers whose memory may have to change before the next decisions.
    stirred: BTreeSet<VserverId>,
    /// Owners whose publish failed; tried again once a second.
    failed: BTreeSet<OwnerId>,
    /// When the earliest result that is not published yet was received.
    oldest: Option<Instant>,
    /// Owners and types without a decision.
    undecided: BTreeSet<(OwnerId, RecordType)>,
    generation: u64,
    published: Instant,
    latency: publish::Latency,
    started: Instant,
    /// States of virtual servers as they were told last.
    states: states::Known,
    /// When the secrets of cookies were read last.
    secrets_read: Instant,
    /// When sessions were last looked through.
    swept: Instant,
    clearing: session::Clearing,
    is_ready: bool,
    is_attached: bool,
    journal: Journal,
    told: mpsc::UnboundedReceiver<Told>,
    /// Orders on their way to the disk.
    given: Vec<Request>,
    /// What those say something about; true: something else was found out of it meanwhile.
    given_keys: BTreeMap<Key, bool>,
    /// Orders behind them.
    waiting: VecDeque<Request>,
    ticket: u64,
    /// Services whose states the journal is still to be given.
    unrecorded: BTreeSet<ServiceId>,
    watching: visibility::Watching,
}

impl Engine {
    /// Runs until SIGTERM or SIGINT, then ends as `xdp.on_exit` says.
    pub async fn run(mut self) -> Result<(), EngineError> {
        let system = |what| move |source| EngineError::System { what, source };
        let mut terminate = signal(SignalKind::terminate()).map_err(system("SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system("SIGINT"))?;
        let mut hangup = signal(SignalKind::hangup()).map_err(system("SIGHUP"))?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.begin()?;
        loop {
            let wait = self.wait();
            tokio::select! {
                // In this order: an operator must be heard while checks pour in.
                biased;
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => self.hangup(),
                told = self.told.recv(), if !self.told.is_closed() || !self.told.is_empty() => self.told(told),
                Some(request) = self.requests.recv() => self.request(request),
                changed = changed(&mut self.watch) => self.links_changed(changed),
                () = tokio::time::sleep(wait.unwrap_or(TICK)), if wait.is_some() => {}
                _ = tick.tick() => self.tick(),
                Some(event) = self.checks.recv() => self.check(event),
            }
            self.record_health();
            if self.is_due() {
                self.publish();
            }
            self.settle()?;
        }
        self.finish()
    }

    /// A notification of the kernel.
    fn links_changed(&mut self, heard: std::io::Result<()>) {
        if let Err(error) = heard {
            tracing::warn!(%error, "no notifications of links and addresses for a moment");
            self.watch = None;
        }
        self.follow_interfaces();
    }

    /// Time until a publish is due; None when nothing is dirty.
    fn wait(&self) -> Option<Duration> {
        (!self.dirty.is_empty()).then(|| COALESCE.saturating_sub(self.published.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.wait().is_some_and(|wait| wait.is_zero())
    }

    /// Once a second.
    fn tick(&mut self) {
        self.writer.beat();
        if self.secrets_read.elapsed() >= SECRETS_EVERY {
            self.secrets_read = Instant::now();
            self.writer.follow_secrets(&self.plan.compiled.model.settings);
        }
        if self.swept.elapsed() >= SWEEP_EVERY {
            self.swept = Instant::now();
            self.look_through_sessions();
        }
        if let Some(program) = self.writer.program_mut() {
            program.flush_log();
        }
        self.rates.sample(Instant::now(), self.queries());
        if self.watch.is_none() {
            self.watch = Watch::open().ok();
        }
        self.follow_interfaces();
        self.end_timing();
        self.dirty.append(&mut self.failed);
        self.expire_load();
        if !self.is_ready && self.started.elapsed() >= self.plan.compiled.model.settings.warm_up {
            self.end_warm_up();
        }
    }

    /// Stops workers and checks first: what the kernel answers is answered to the end.
    fn finish(self) -> Result<(), EngineError> {
        let on_exit = self.plan.compiled.model.settings.xdp.on_exit;
        let look = self.last_look();
        drop(self.scheduler);
        self.workers.stop();
        if let Some(look) = look {
            self.journal.sessions(&look());
        }
        self.writer.close(on_exit)?;
        tracing::info!(?on_exit, "stopped");
        Ok(())
    }

    fn event(
        &mut self,
        kind: EventKind,
        object: impl Into<String>,
        text: impl Into<String>,
        fields: Map<String, Value>,
    ) {
        let text = text.into();
        let object = object.into();
        tracing::info!(kind = kind.name(), object, "{text}");
        self.events.record(SystemTime::now(), kind, object, text, fields);
    }
}

/// Waits for a notification.
async fn changed(watch: &mut Option<Watch>) -> std::io::Result<()> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// A function that waits for every worker of every set.
fn workers_done(epochs: &AllEpochs) -> crate::publish::writer::WorkersDone {
    let epochs = epochs.clone();
    Arc::new(move || {
        let all = epochs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for set in &all {
            set.wait_quiescent();
        }
    })
}
