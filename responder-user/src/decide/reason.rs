//! Why a decision fell as it did, in the words that `show` and `explain` print.

use std::fmt;

use crate::model::{ActionId, Method, PolicyId, vserver::SpilloverAction};

/// A policy that matched, and its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit {
    /// The policy.
    pub policy: PolicyId,
    /// Its action.
    pub action: ActionId,
}

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
    /// The method needs load figures, and some service has none.
    NoLoadFigures(Method),
    /// `rtt` needs round trip times, and nothing measures them.
    NoRoundTripTimes,
    /// `api` needs a callout, and there is none.
    NoCallout,
    /// Every service whose primary state is UP has reached its threshold: effective states are in use (4.4).
    AllAboveThreshold,
    /// No service has primary state UP: effective states are in use (4.4).
    NoPrimaryUp,
    /// Load monitors withdraw every service: their figures are set aside (0.1, 2).
    LoadSetAside,
    /// Load monitors withdraw every service, and `skip_persistency = "rebalance"`: no reply (0.1, 2).
    Overloaded,
    /// The client has a session with the service (3.4).
    Session,
    /// The service of the client's session is overloaded, and `skip_persistency = "bypass"` (0.1, 2).
    Bypassed,
    /// A virtual server of the backup chain answers, because those before it are down.
    BackupVserver,
    /// A backup answers, because the primary is over its threshold (4).
    Spilled,
    /// A backup answers, because the client was diverted to it before (4.3).
    SpilloverSession,
    /// A backup answers until an operator enables the primary again (3.6).
    Latched,
    /// The primary answers although it is held back: nothing else can (3.6).
    LatchedAlone,
    /// Over the threshold, and no backup can take over (0.1, 1).
    Saturated(SpilloverAction),
    /// A policy answers with addresses of its own.
    PolicyRewrite,
    /// A policy wants no reply.
    PolicyDrop,
    /// Nothing usable: the backup addresses of the domain are answered (3.7 rung 2).
    BackupIp,
    /// The backup addresses of the domain are answered until an operator enables the primary again (0.1, 3).
    BackupIpLatched,
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
            Self::AllAboveThreshold => Some(10),
            Self::NoPrimaryUp => Some(11),
            Self::BackupIp | Self::EmptyDownResponse | Self::AllBound | Self::NothingBound => Some(12),
            Self::LoadSetAside | Self::Overloaded => Some(13),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured method",
            Self::PreferredLocations(method) => return write!(f, "preferred locations override {method}"),
            Self::ClientNotLocated => "location of the client is not known",
            Self::NoServiceMatches => "no service matches the location of the client",
            Self::NoLoadFigures(Method::CustomLoad) => {
                "load monitor inactive: custom-load acts as round-robin"
            }
            Self::NoLoadFigures(method) => {
                return write!(f, "metric exchange is down: {method} acts as round-robin");
            }
            Self::NoRoundTripTimes => "no round trip times: rtt cannot decide",
            Self::NoCallout => "no callout: api cannot decide",
            Self::AllAboveThreshold => {
                "all bound services have reached their threshold: effective states are in use"
            }
            Self::NoPrimaryUp => "no bound service has primary state UP: effective states are in use",
            Self::LoadSetAside => "all load monitors are active: load figures are set aside",
            Self::Overloaded => "all services are overloaded: the request is dropped until one is not",
            Self::Session => "persistence session of the client",
            Self::Bypassed => "the service of the client's session is overloaded: the vserver is bypassed",
            Self::BackupVserver => "primary is down: backup virtual server answers",
            Self::Spilled => "primary is over its threshold: backup virtual server answers",
            Self::SpilloverSession => "the client was diverted before: backup virtual server answers",
            Self::Latched => "primary was down and waits for an operator: backup virtual server answers",
            Self::LatchedAlone => "primary waits for an operator, but nothing else is usable: it answers",
            Self::Saturated(SpilloverAction::Drop) => "over the threshold and no usable backup: dropped",
            Self::Saturated(SpilloverAction::Redirect) => {
                "over the threshold and no usable backup: host of the redirect URL"
            }
            Self::Saturated(SpilloverAction::Accept) => "over the threshold and no usable backup: accepted",
            Self::Saturated(SpilloverAction::Empty) => {
                "over the threshold and no usable backup: empty answer"
            }
            Self::Saturated(SpilloverAction::Refused) => "over the threshold and no usable backup: refused",
            Self::PolicyRewrite => "a policy answers with addresses of its own",
            Self::PolicyDrop => "a policy drops the request",
            Self::BackupIp => "no service is usable: backup IP",
            Self::BackupIpLatched => "primary was down and waits for an operator: backup IP",
            Self::EmptyDownResponse => "no service is usable: empty down response",
            Self::AllBound => "no service is usable: addresses of all bound services",
            Self::NothingBound => "no service is usable, and none is bound",
            Self::NoSuchAddress => "no bound service has an address of this type",
            Self::TypeNotServed => "virtual server does not answer this type",
            Self::MonitorsPending => "monitors have not decided yet",
        })
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
