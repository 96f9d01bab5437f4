//! Why a decision fell as it did, in the words that `show` and `explain` print.

use std::fmt;

use crate::model::Method;

/// Why this answer, or why it was not made by the configured method (spec/netscaler.md 3.3, 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The configured method decided.
    Configured,
    /// A list of preferred locations overrides the configured method (2.5, point 11).
    PreferredLocations(Method),
    /// Static proximity: no range of locations holds the client.
    ClientNotLocated,
    /// Static proximity: no service matches the client's location.
    NoServiceMatches,
    /// The method needs load figures, and there are none.
    NoLoadFigures(Method),
    /// `rtt` needs round trip times, and nothing measures them.
    NoRoundTripTimes,
    /// `source-ip-hash` differs from client to client; this version does not hash.
    NoHashing,
    /// A virtual server of the backup chain answers.
    BackupVserver,
    /// Nothing usable: the backup addresses of the domain are answered (3.7 rung 2).
    BackupIp,
    /// Nothing usable: empty answer, because `empty_down_response` says so (3.7 rung 3).
    EmptyDownResponse,
    /// Nothing usable: the addresses of all bound services are answered, whatever their state (3.7 rung 4).
    AllBound,
    /// Nothing usable, and no address to fall back on.
    NothingBound,
    /// No bound service has an address of this type.
    NoSuchAddress,
    /// The virtual server does not answer this type.
    TypeNotServed,
    /// Monitors have not decided yet.
    MonitorsPending,
}

impl Reason {
    /// NetScaler's number for it (`lbrrreason`), where it has one.
    pub fn lbrrreason(self) -> Option<u8> {
        match self {
            Self::NoLoadFigures(Method::CustomLoad) => Some(7),
            Self::NoLoadFigures(_) | Self::NoRoundTripTimes => Some(1),
            Self::BackupIp | Self::EmptyDownResponse | Self::AllBound | Self::NothingBound => Some(12),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("configured method"),
            Self::PreferredLocations(method) => write!(f, "preferred locations override {method}"),
            Self::ClientNotLocated => f.write_str("location of the client is not known"),
            Self::NoServiceMatches => f.write_str("no service matches the location of the client"),
            Self::NoLoadFigures(Method::CustomLoad) => {
                f.write_str("load monitor inactive: custom-load acts as round-robin")
            }
            Self::NoLoadFigures(method) => {
                write!(f, "metric exchange is down: {method} acts as round-robin")
            }
            Self::NoRoundTripTimes => f.write_str("no round trip times: rtt cannot decide"),
            Self::NoHashing => {
                f.write_str("source-ip-hash has no effect in this version: acts as round-robin")
            }
            Self::BackupVserver => f.write_str("primary is down: backup virtual server answers"),
            Self::BackupIp => f.write_str("no service is usable: backup IP"),
            Self::EmptyDownResponse => f.write_str("no service is usable: empty down response"),
            Self::AllBound => f.write_str("no service is usable: addresses of all bound services"),
            Self::NothingBound => f.write_str("no service is usable, and none is bound"),
            Self::NoSuchAddress => f.write_str("no bound service has an address of this type"),
            Self::TypeNotServed => f.write_str("virtual server does not answer this type"),
            Self::MonitorsPending => f.write_str("monitors have not decided yet"),
        }
    }
}

/// Where the pool stands in the order of preferred locations (spec/netscaler.md 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The answer is no pool of usable services: the ladder made it, or there is none.
    None,
    /// No list of preferred locations applies: all usable services compete.
    All,
    /// Perfect matches of the n-th preferred location, counted from 1.
    Perfect(usize),
    /// Partial matches of the n-th preferred location, counted from 1.
    Partial(usize),
    /// All other services.
    Rest,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all services"),
            Self::Perfect(n) => write!(f, "perfect match of preferred location {n}"),
            Self::Partial(n) => write!(f, "partial match of preferred location {n}"),
            Self::Rest => f.write_str("all other services"),
        }
    }
}

/// One step to the answer, as `explain` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which step.
    pub step: &'static str,
    /// What came out of it.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

/// Collects steps, or does nothing: the compiler asks for thousands of decisions and reads no steps.
#[derive(Debug)]
pub(super) struct Trace(Option<Vec<Step>>);

impl Trace {
    pub(super) fn recording() -> Self {
        Self(Some(Vec::new()))
    }

    pub(super) fn silent() -> Self {
        Self(None)
    }

    /// Writes down one step; `text` makes its outcome and its reason, and runs only while recording.
    pub(super) fn note(&mut self, step: &'static str, text: impl FnOnce() -> (String, String)) {
        if let Some(steps) = &mut self.0 {
            let (outcome, reason) = text();
            steps.push(Step { step, outcome, reason });
        }
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.0.unwrap_or_default()
    }
}
