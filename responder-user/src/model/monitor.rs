//! Health checks: what to ask, how often, and how many answers in a row decide.

use std::time::Duration;

/// One `[[monitor]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// Unique name.
    pub name: String,
    /// What is asked.
    pub kind: MonitorKind,
    /// Time between the starts of two checks. At least 10 ms.
    pub interval: Duration,
    /// A check without a result after this has failed. At most `interval`.
    pub timeout: Duration,
    /// Successes in a row to come up, at least 1.
    pub rise: u32,
    /// Failures in a row to go down, at least 1.
    pub fall: u32,
    /// Port to ask instead of the service's.
    pub port: Option<u16>,
    /// False: its result counts for nothing (`disable monitor`).
    pub enabled: bool,
}

/// Protocols that have an effect now; the others parse and warn.
#[derive(Clone, Debug, PartialEq)]
pub enum MonitorKind {
    /// A connection that is accepted is a success.
    Tcp,
    /// A GET whose status lies in one of the ranges is a success.
    Http {
        /// Path and query, begins with `/`.
        path: String,
        /// Host header; None: the address.
        host: Option<String>,
        /// Inclusive ranges of status codes.
        expect: Vec<(u16, u16)>,
    },
    /// A load monitor: withdraws a service whose figures reach a threshold (spec/netscaler.md 5.2). Figures come from
    /// `responderctl load`; it never changes UP or DOWN.
    Load {
        /// What is looked at.
        metrics: Vec<Metric>,
    },
    /// Parsed, but this version does not run it: the service counts as one without this monitor.
    Inert {
        /// The type as typed.
        type_name: String,
    },
}

impl MonitorKind {
    /// True if it asks whether an address is up, and this version asks.
    pub fn is_check(&self) -> bool {
        matches!(self, Self::Tcp | Self::Http { .. })
    }
}

/// One figure of a load monitor.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name of the figure.
    pub name: String,
    /// A service at or above it gets no clients; 0: not looked at.
    pub threshold: u64,
    /// Share in the computed load, 1 to 100.
    pub weight: u32,
}
