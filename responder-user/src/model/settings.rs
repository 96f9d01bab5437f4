//! The singletons of the configuration: server, listen, xdp and what has no effect yet.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use responder_common::switches::{FRACTION, Switches};

/// Everything that is not a named object.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `server.control_socket`
    pub control_socket: PathBuf,
    /// `server.state_dir`
    pub state_dir: PathBuf,
    /// `server.log`: error, warn, info, debug or trace.
    pub log: String,
    /// `server.warm_up`: how long undecided names wait for their monitors; default 30 s.
    pub warm_up: Duration,
    /// `server.nsid`: the server's identifier (RFC 5001), at most 64 octets; empty: none.
    pub nsid: String,
    /// `limits.cookies`
    pub cookies: bool,
    /// `server.load_hold`: how long load figures count; default 1 minute.
    pub load_hold: Duration,
    /// `listen.addresses`, at least one.
    pub listen: Vec<SocketAddr>,
    /// `listen.workers`
    pub workers: Workers,
    /// `[xdp]`
    pub xdp: Xdp,
    /// `[limits]`
    pub limits: Limits,
}

/// How many workers, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One per core that this process may use.
    #[default]
    PerCore,
    /// So many, on the first cores.
    Count(u32),
    /// One on each of these CPU ids.
    Cpus(Vec<u32>),
}

/// `[xdp]`
#[derive(Clone, Debug, PartialEq)]
pub struct Xdp {
    /// Interfaces to attach to; none: sockets only.
    pub interfaces: Vec<String>,
    /// How.
    pub mode: XdpMode,
    /// What happens to the program on SIGTERM.
    pub on_exit: OnExit,
    /// Zero: never stale.
    pub max_stale: Duration,
    /// Replies leave by XDP only where the way back to the client is the way that the query came.
    pub route_check: bool,
    /// Folder on a bpffs that holds the pins.
    pub pin_path: PathBuf,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Replies a second to one client prefix (/24, /56); 0: no limit.
    pub responses_per_second: u32,
    /// Prefixes that are never limited.
    pub allow: Vec<IpNet>,
    /// Every how many limited queries one gets TC=1 instead of nothing; 0: none.
    pub slip: u16,
    /// A longer reply by UDP, against the query, gets TC=1; 0: none does.
    pub max_amplification: f64,
}

impl Settings {
    /// The word that the program reads.
    pub fn switches(&self) -> Switches {
        self.limits.switches().routed(self.xdp.route_check)
    }
}

impl Limits {
    /// The word that both lanes read.
    pub fn switches(&self) -> Switches {
        let amplification = (self.max_amplification * FRACTION as f64).round() as u64;
        let has_allowed = !self.allow.is_empty();
        Switches::limits(self.responses_per_second.into(), self.slip.into(), has_allowed, amplification)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { responses_per_second: 0, allow: Vec::new(), slip: 2, max_amplification: 4.0 }
    }
}

/// `xdp.mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Native, else generic, else off; each step down is loud.
    #[default]
    Auto,
    /// In the driver, or refuse to start.
    Native,
    /// In the network stack, or refuse to start.
    Generic,
    /// No XDP.
    Off,
}

/// `xdp.on_exit`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExit {
    /// Remove the program and the pins.
    #[default]
    Detach,
    /// The kernel goes on answering.
    Keep,
}

impl Xdp {
    /// True if a program is to answer: there are interfaces, and the mode is not off.
    pub fn is_on(&self) -> bool {
        self.mode != XdpMode::Off && !self.interfaces.is_empty()
    }
}

impl Default for Xdp {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            mode: XdpMode::Auto,
            on_exit: OnExit::Detach,
            max_stale: Duration::from_mins(10),
            route_check: false,
            pin_path: PathBuf::from("/sys/fs/bpf/responder"),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control_socket: PathBuf::from("/run/responder/control.sock"),
            state_dir: PathBuf::from("/var/lib/responder"),
            log: "info".to_owned(),
            warm_up: Duration::from_secs(30),
            nsid: String::new(),
            cookies: true,
            load_hold: Duration::from_mins(1),
            listen: Vec::new(),
            workers: Workers::PerCore,
            xdp: Xdp::default(),
            limits: Limits::default(),
        }
    }
}
