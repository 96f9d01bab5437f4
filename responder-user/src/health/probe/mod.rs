//! One check: one question, one result, one deadline. No policy: what a result means is `health::state`'s business.

mod http;
mod tcp;

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use crate::model::{Monitor, MonitorKind, Service};

/// A deadline that is noticed so late was not missed by the peer: this process did not run.
const STALL: Duration = Duration::from_millis(100);
/// How much of a stall is given back to the peer. Bounded, so that a sick host still gets results.
const MAX_GRACE: Duration = Duration::from_secs(1);

/// What a check asks, ready to be asked again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    target: SocketAddr,
    timeout: Duration,
    question: Question,
}

#[derive(Clone, Debug, PartialEq)]
enum Question {
    Tcp,
    Http(http::Question),
}

/// What a check found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// True: success.
    pub ok: bool,
    /// For people: `200`, `connection refused`, `timeout after 2s`, `status 503, expected 200-299`.
    pub detail: String,
    /// From the first packet to the result; at most the monitor's timeout, plus what this host stood still.
    pub took: Duration,
}

/// The check could not be made, which says nothing about the service: its state must not move.
#[derive(Debug, thiserror::Error)]
pub enum LocalFault {
    /// File descriptors or memory of this host are used up.
    #[error("not checked, this host is out of resources: {0}")]
    Exhausted(#[source] io::Error),
}

/// Why a check failed, before it becomes a result.
enum Failure {
    /// The peer's, or the path's.
    Peer(String),
    /// No answer in time; what had been reached by then.
    Late(&'static str),
    /// Ours.
    Local(LocalFault),
}

impl Probe {
    /// The check that a monitor makes at an address of a service. None: a type that this version does not run.
    pub fn new(monitor: &Monitor, service: &Service, address: IpAddr) -> Option<Self> {
        let target = SocketAddr::new(address, monitor.port.unwrap_or(service.port));
        let question = match &monitor.kind {
            MonitorKind::Tcp => Question::Tcp,
            MonitorKind::Http { path, host, expect } => {
                Question::Http(http::Question::new(target, path, host.as_deref(), expect))
            }
            MonitorKind::Load { .. } | MonitorKind::Inert { .. } => return None,
        };
        Some(Self { target, timeout: monitor.timeout, question })
    }

    /// True if both ask the same of the same address, however long they wait for the answer.
    pub fn same_question(&self, other: &Self) -> bool {
        self.target == other.target && self.question == other.question
    }

    /// A number for what is asked of whom, however long one waits for the answer. Another question has another number,
    /// with very few exceptions; another version of this program may give another number for the same.
    pub fn fingerprint(&self) -> u32 {
        crc32fast::hash(format!("{} {:?}", self.target, self.question).as_bytes())
    }

    /// Asks once. Returns within the timeout (see [`ProbeResult::took`]); nothing of it outlives the call.
    pub async fn check(&self) -> Result<ProbeResult, LocalFault> {
        let start = Instant::now();
        let deadline = start + self.timeout;
        let outcome = match &self.question {
            Question::Tcp => tcp::check(self.target, deadline).await,
            // On the heap, because it is ten times the other: thousands of checks wait, few are in the middle of HTTP.
            Question::Http(question) => Box::pin(http::check(question, self.target, deadline)).await,
        };
        let (ok, detail) = match outcome {
            Ok(detail) => (true, detail),
            Err(Failure::Peer(detail)) => (false, detail),
            Err(Failure::Late(reached)) => {
                (false, format!("timeout after {}{reached}", humantime::format_duration(self.timeout)))
            }
            Err(Failure::Local(fault)) => return Err(fault),
        };
        Ok(ProbeResult { ok, detail, took: start.elapsed() })
    }
}

/// Waits for one step of a check until the deadline. Where this process itself stood still across the deadline (a
/// paused virtual machine, a core that was taken away), the answer may be waiting in the socket: the peer gets the
/// time back that it never had.
async fn within<T>(
    deadline: Instant,
    reached: &'static str,
    step: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut step = pin!(step);
    if let Ok(done) = timeout_at(deadline, &mut step).await {
        return Ok(done);
    }
    let now = Instant::now();
    let stalled = now.saturating_duration_since(deadline);
    if stalled < STALL {
        return Err(Failure::Late(reached));
    }
    timeout_at(now + stalled.min(MAX_GRACE), step).await.map_err(|_| Failure::Late(reached))
}

/// Sorts a socket error: the service's, or this host's.
fn io_failure(error: io::Error) -> Failure {
    use nix::errno::Errno;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => {
            Failure::Local(LocalFault::Exhausted(error))
        }
        _ => Failure::Peer(io_detail(&error)),
    }
}

/// `connection refused` rather than `Connection refused (os error 111)`, where the standard library has a word for it.
fn io_detail(error: &io::Error) -> String {
    match error.kind() {
        kind @ (io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::TimedOut) => kind.to_string(),
        _ => error.to_string(),
    }
}
