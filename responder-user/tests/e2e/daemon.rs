//! A `responderd` under test: started in the server's namespace, watched, and killed at the end.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use responder_user::control::{
    Command as Order,
    client::{Client, ClientError},
    command::{ForceKind, ForceState},
};
use serde_json::Value;

use crate::bed::{Bed, tool};

/// The binaries under test.
pub const RESPONDERD: &str = env!("CARGO_BIN_EXE_responderd");
pub const RESPONDERCTL: &str = env!("CARGO_BIN_EXE_responderctl");

/// Longer than this nothing here takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Lines of stderr, with the time of arrival since the start; None: the end.
#[derive(Default)]
struct Log {
    lines: Mutex<(Vec<(Duration, String)>, bool)>,
    more: Condvar,
}

/// A process.
pub struct Daemon {
    child: Child,
    log: Arc<Log>,
    reader: Option<JoinHandle<()>>,
    socket: PathBuf,
}

/// How a daemon is started.
pub struct Start<'a> {
    bed: &'a Bed,
    config: PathBuf,
    binary: PathBuf,
    uid: Option<u32>,
    env: Vec<(&'static str, String)>,
    in_client: bool,
}

impl<'a> Start<'a> {
    /// With the binary of this build, as root.
    pub fn new(bed: &'a Bed, config: &Path) -> Self {
        Self {
            bed,
            config: config.to_owned(),
            binary: RESPONDERD.into(),
            uid: None,
            env: Vec::new(),
            in_client: false,
        }
    }

    /// Another binary.
    pub fn binary(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.binary);
        self
    }

    /// Another user, without any privilege.
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Where the clients live, with [`Bed::second_socket`].
    pub fn in_client(mut self) -> Self {
        self.in_client = true;
        self
    }

    /// A variable of the environment.
    pub fn env(mut self, name: &'static str, value: String) -> Self {
        self.env.push((name, value));
        self
    }

    /// Starts it; does not wait.
    pub fn spawn(self) -> Daemon {
        // A user without privileges cannot enter the namespace by itself.
        let mut command = match self.uid {
            None if self.in_client => self.bed.client().command(&self.binary),
            None => self.bed.server().command(&self.binary),
            Some(_) => Command::new(&self.binary),
        };
        command.arg("--config").arg(&self.config).stdin(Stdio::null()).stderr(Stdio::piped());
        command.env_remove("NOTIFY_SOCKET").env_remove("RESPONDER_LOG").envs(self.env);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        let started = Instant::now();
        let child = if self.uid.is_some() { self.bed.in_server(|| command.spawn()) } else { command.spawn() };
        let mut child = child.expect("responderd can be started");
        let stderr = child.stderr.take().expect("a pipe");
        let log = Arc::new(Log::default());
        let writer = log.clone();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lock(&writer.lines).0.push((started.elapsed(), line));
                writer.more.notify_all();
            }
            lock(&writer.lines).1 = true;
            writer.more.notify_all();
        });
        let socket = if self.in_client { self.bed.second_socket() } else { self.bed.socket() };
        Daemon { child, log, reader: Some(reader), socket }
    }

    /// Starts it and waits until it is ready.
    pub fn ready(self) -> Daemon {
        let daemon = self.spawn();
        daemon.wait_ready();
        daemon
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// Starts a daemon of this build and waits until it is ready.
    pub fn start(bed: &Bed, config: &Path) -> Self {
        Start::new(bed, config).ready()
    }

    /// Waits for the line `ready`; returns how long it took.
    pub fn wait_ready(&self) -> Duration {
        self.wait_line("ready", |line| line == "ready")
    }

    /// Waits for a line of the log; returns when it came.
    pub fn wait_line(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Duration {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = lock(&self.log.lines);
        loop {
            if let Some((at, _)) = lines.0.iter().find(|(_, line)| is_it(line)) {
                return *at;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let text = || lines.0.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
            assert!(!lines.1, "responderd ended before {what:?}:\n{}", text());
            assert!(!left.is_zero(), "responderd did not say {what:?}:\n{}", text());
            lines = self.log.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Everything on stderr so far.
    pub fn log(&self) -> String {
        lock(&self.log.lines).0.iter().flat_map(|(_, line)| [line, "\n"]).collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the daemon is there");
    }

    /// SIGKILL, and the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the end, which must be success.
    pub fn stop(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let status = self.wait_exit();
        assert!(status.success(), "SIGTERM ended in {status}:\n{}", self.log());
        self.log()
    }

    /// Waits for the end of the process.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                if let Some(reader) = self.reader.take() {
                    reader.join().unwrap();
                }
                return status;
            }
            assert!(Instant::now() < deadline, "responderd does not end:\n{}", self.log());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the control socket is.
    pub fn socket_path(&self) -> &Path {
        &self.socket
    }

    /// A connection to the control socket.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket).expect("the control socket")
    }

    /// A command that must succeed.
    pub fn order(&self, order: &Order) -> Value {
        self.client().call(order).unwrap_or_else(|error| panic!("{order:?}: {error:?}\n{}", self.log()))
    }

    /// `force service NAME STATE`; the new answers are published when it returns.
    pub fn force(&self, name: &str, state: ForceState) {
        self.order(&Order::Force { kind: ForceKind::Service, name: name.to_owned(), state });
    }

    /// Everything that is decided is published when this returns.
    pub fn publish_all(&self, any_service: &str) {
        self.force(any_service, ForceState::Auto);
    }

    /// `reload`
    pub fn reload(&self) -> Result<Value, ClientError> {
        self.client().call(&Order::Reload)
    }

    /// `stats`
    pub fn stats(&self) -> BTreeMap<String, u64> {
        serde_json::from_value(self.order(&Order::Stats)).expect("a flat object of numbers")
    }

    /// `status`
    pub fn status(&self) -> Value {
        self.order(&Order::Status)
    }

    /// Runs `responderctl` against it.
    pub fn ctl(&self, args: &[&str]) -> Output {
        let socket = self.socket.to_str().unwrap();
        tool(RESPONDERCTL, &[&["--socket", socket], args].concat())
    }

    /// Likewise; it must succeed. Returns what it printed.
    pub fn ctl_ok(&self, args: &[&str]) -> String {
        let output = self.ctl(args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "responderctl {}: {complaint}", args.join(" "));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Likewise, as JSON.
    pub fn ctl_json(&self, args: &[&str]) -> Value {
        let text = self.ctl_ok(&[&["--output", "json"], args].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a counter rose by.
pub fn rise(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, prefix: &str) -> u64 {
    let sum = |stats: &BTreeMap<String, u64>| -> u64 {
        stats.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, value)| *value).sum()
    };
    sum(after) - sum(before)
}

/// Counters that rose, for messages.
pub fn risen(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> String {
    let rows = after.iter().map(|(name, value)| (name, value - before.get(name).copied().unwrap_or(0)));
    let risen = rows.filter(|(_, rise)| *rise > 0).map(|(name, rise)| format!("{name} +{rise}"));
    risen.collect::<Vec<_>>().join("\n")
}

/// A copy of the daemon, as an upgrade or another user sees it.
pub fn copy_of_binary(bed: &Bed) -> PathBuf {
    let copy = bed.folder().join("responderd-copy");
    fs::copy(RESPONDERD, &copy).unwrap();
    copy
}
