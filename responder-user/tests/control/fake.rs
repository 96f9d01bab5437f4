//! A daemon without health checks, maps and workers: the eight sites of the source documents, and an engine that
//! does to them what the commands say.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use responder_user::{
    compile::class::Classes,
    config::{
        draft::{Draft, differences},
        import::{Op, Outcome, Session},
    },
    control::{
        Command, Done, EventKind, Events, InterfaceStatus, NameIndex, Queries, Rates, Refusal, Request,
        Server, View,
        capture::SampleFeed,
        command::{ForceState, SessionAction, SwitchKind},
        edit,
        explain::{self, Lanes},
        ns::{self, Wanted},
        show, target,
        target::Target,
        told, view,
    },
    decide::{AddressState, Owners, Snapshot},
    health::{Health, HealthEvent, ProbeResult},
    journal,
    model::{DnsName, Model, MonitorId, ServiceId, Zone, zone::Soa},
};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::support::{checked, domain, eight_sites};

/// The moment of all events.
pub fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_785_585_600_123)
}

/// The configuration file.
pub const FILE: &str = include_str!("../../../examples/eight-sites.toml");

/// The engine's state.
pub struct World {
    pub model: Model,
    pub names: NameIndex,
    pub owners: Owners,
    pub classes: Classes,
    pub snapshot: Snapshot,
    pub health: Health,
    pub events: Events,
    pub interfaces: Vec<InterfaceStatus>,
    pub problems: Vec<String>,
    pub counters: Vec<(String, u64)>,
    pub journal: journal::Status,
    /// The configuration as a document.
    pub text: String,
    pub now: Instant,
}

/// Eight sites, `hk` checked and down, the others without monitors; `www` in a zone, `alone.test` in none.
pub fn world() -> World {
    let mut model = eight_sites();
    model.services[2].monitors = checked();
    r#"CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")"#.clone_into(&mut model.policies[0].rule_text);
    model.domains.push(domain("alone.test", 0, &["192.0.2.99"]));
    let apex = DnsName::parse("example.com").unwrap();
    model.zones.push(Zone {
        soa: Soa::default_for(&apex),
        apex,
        file: None,
        ns: Vec::new(),
        ns_addresses: Vec::new(),
    });
    let now = Instant::now();
    let mut health = Health::new(&model);
    for _ in 0..3 {
        let result = ProbeResult { ok: false, detail: "connection refused".to_owned(), took: Duration::ZERO };
        let (monitor, service) = (MonitorId(0), ServiceId(2));
        health.apply(HealthEvent::Result { epoch: 0, monitor, service, address: 0, result, at: now });
    }
    let mut snapshot = Snapshot::initial(&model);
    snapshot.services[2].addresses = vec![AddressState::Down];
    let mut events = Events::default();
    let fields = Map::from_iter([("to".to_owned(), json!("down"))]);
    events.record(noon(), EventKind::State, "service hk", "UP -> DOWN: tcp: connection refused", fields);
    events.record(noon(), EventKind::Publish, "answers", "generation 7, 3 changed", Map::new());
    let interface = |name: &str, mode: &str| InterfaceStatus {
        name: name.to_owned(),
        mode: mode.to_owned(),
        link: "up".to_owned(),
    };
    World {
        names: NameIndex::of(&model),
        owners: Owners::of(&model),
        classes: Classes::of(&model).unwrap(),
        model,
        snapshot,
        health,
        events,
        interfaces: vec![interface("eth0", "native"), interface("eth10", "generic")],
        problems: vec!["eth10: stepped down to generic XDP: the driver has no native mode".to_owned()],
        counters: vec![("xdp_answer_a".to_owned(), 1_234_567), ("worker_answers".to_owned(), 89)],
        journal: journal::Status {
            path: "/var/lib/responder/journal".into(),
            records: 1234,
            bytes: 56_789,
            error: None,
        },
        text: FILE.to_owned(),
        now: now + Duration::from_secs(4),
    }
}

impl World {
    pub fn view(&self) -> View<'_> {
        View {
            version: "0.1.0",
            model: &self.model,
            names: &self.names,
            owners: &self.owners,
            classes: &self.classes,
            snapshot: &self.snapshot,
            health: &self.health,
            events: &self.events,
            generation: 7,
            ready: true,
            uptime: Duration::from_secs(93_784),
            clock: noon() + Duration::from_secs(4),
            now: self.now,
            interfaces: &self.interfaces,
            problems: &self.problems,
            queries: Queries { xdp: 1_234_567, worker: 89, dropped: 0 },
            rates: Some(Rates { xdp: 19_998.2, worker: 0.4, dropped: 0.0 }),
            counters: &self.counters,
            journal: &self.journal,
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<Value, Refusal> {
        match command {
            Command::Status => Ok(view::status(&self.view())),
            Command::Show { kind, name } => show::show(&self.view(), kind, name.as_deref()),
            Command::Explain(question) => explain::explain(&self.view(), &question, Lanes::default()),
            Command::Enable { kind, name } => {
                Ok(self.switch(target::switch(&self.model, kind, &name)?, true))
            }
            Command::Disable { kind, name } => {
                Ok(self.switch(target::switch(&self.model, kind, &name)?, false))
            }
            Command::Force { kind, name, state } => {
                let forced = match state {
                    ForceState::Up => Some(true),
                    ForceState::Down => Some(false),
                    ForceState::Auto => None,
                };
                if let Target::Service(id) = target::force(&self.model, kind, &name)? {
                    self.snapshot.services[id.index()].forced = forced;
                }
                Ok(done(format!("{name} forced"), true))
            }
            Command::Load { service, figures } => {
                let id = target::service(&self.model, &service)?;
                let state = &mut self.snapshot.services[id.index()];
                let changed = told::take_load(state, &figures, Duration::ZERO)?;
                let mut out = done(format!("service {service} load taken"), changed);
                out["warnings"] = json!(told::unused(&self.model, id, &figures));
                Ok(out)
            }
            Command::Report { service, states } => {
                let id = target::service(&self.model, &service)?;
                let changed = told::take_report(&mut self.snapshot.services[id.index()], &states)?;
                Ok(done(format!("service {service} report taken"), changed))
            }
            Command::Set { .. } | Command::Add { .. } | Command::Remove { .. } => {
                let mut draft = Draft::of(&self.text).unwrap();
                edit::edit(&mut draft, &command)?;
                let changed = draft.text() != self.text;
                self.text = draft.text();
                Ok(done(edit::headline(&command).unwrap(), changed))
            }
            Command::Diff => {
                let (file, running) = (Draft::of(FILE).unwrap(), Draft::of(&self.text).unwrap());
                Ok(edit::diff("responder.toml", false, &differences(&file, &running)))
            }
            Command::Save { force: true } => Ok(done("saved to responder.toml".to_owned(), true)),
            Command::Save { force: false } => Err(Refusal::new("responder.toml was changed")),
            Command::Ns { line } => {
                let mut session = Session::of(&self.text, Path::new("responder.toml")).unwrap();
                let reply = session.run(&line);
                match (reply.outcome, reply.asked) {
                    (Outcome::Show, Some(asked)) => {
                        ns::look(&self.view(), session.store(), &Wanted::of(&asked), &[])
                    }
                    (Outcome::Error(text), _) => Err(Refusal::new(text)),
                    (_, Some(asked)) if matches!(asked.op, Op::Enable | Op::Disable) => {
                        let target = target::switch(&self.model, SwitchKind::Service, &asked.name.unwrap())?;
                        self.switch(target, asked.op == Op::Enable);
                        Ok(ns::done(None, &[]))
                    }
                    _ => Ok(ns::done(None, &[])),
                }
            }
            Command::Session { action: SessionAction::List, .. } => Ok(json!([])),
            Command::Session { .. } => Ok(done("sessions: 0 cleared by an operator".to_owned(), false)),
            Command::Reload => Err(Refusal {
                message: "responder.toml has 2 errors; the old configuration stays".to_owned(),
                details: vec!["responder.toml:3:1: unknown key \"servr\"".to_owned(), "second".to_owned()],
            }),
            Command::Events { kind, last, .. } => Ok(self.events.to_value(kind, last)),
            Command::Latency { .. } => Ok(json!({"nanoseconds_below_power_of_two": [0, 1]})),
            Command::Capture(_) => Ok(json!({"interfaces": ["gslb0"]})),
            Command::CaptureEnd => Ok(json!({"lost": 3})),
            Command::Stats => {
                self.counters[0].1 += 500;
                Ok(view::stats(&self.view()))
            }
        }
    }

    fn switch(&mut self, target: Target, on: bool) -> Value {
        let word = if on { "enabled" } else { "disabled" };
        let Target::Service(id) = target else { return done(word.to_owned(), false) };
        let state = &mut self.snapshot.services[id.index()];
        let changed = std::mem::replace(&mut state.admin, on) != on;
        let object = format!("service {}", self.model.service(id).name);
        self.events.record(noon(), EventKind::State, object.clone(), word, Map::new());
        done(format!("{object} {word}"), changed)
    }
}

fn done(message: String, changed: bool) -> Value {
    serde_json::to_value(Done { message, changed, generation: 8, warnings: Vec::new() }).unwrap()
}

/// A daemon in a thread, on a socket in a folder of its own.
pub struct Daemon {
    _folder: tempfile::TempDir,
    pub socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("run/control.sock");
        let server = Server::bind(&socket).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(engine(server, stopped));
        });
        Self { _folder: folder, socket, stop: Some(stop), thread: Some(thread) }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().is_none_or(|thread| thread.join().is_ok());
        assert!(ended || std::thread::panicking(), "the daemon panicked");
        assert!(!self.socket.exists() || std::thread::panicking(), "a daemon that stops removes its socket");
    }
}

async fn engine(server: Server, mut stopped: oneshot::Receiver<()>) {
    let mut world = world();
    let (requests, mut inbox) = mpsc::channel::<Request>(16);
    let serving = server.run(requests, world.events.feed(), SampleFeed::default());
    let mut serving = std::pin::pin!(serving);
    loop {
        tokio::select! {
            ended = &mut serving => panic!("the server ended: {ended:?}"),
            _ = &mut stopped => return,
            Some(request) = inbox.recv() => {
                let _ = request.reply.send(world.carry_out(request.command));
            }
        }
    }
}

/// Compares with a file beside this one; `GOLDEN=write` writes it.
pub fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control").join(name);
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        fs::write(&path, got).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        got, expected,
        "{name} differs; look at it, then GOLDEN=write cargo test -p responder-user --test control"
    );
}
