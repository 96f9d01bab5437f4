//! Whether a virtual server is over its spillover threshold (spec/netscaler.md 4).
//!
//! A figure that is not known cannot put it over. Figures that grow old leave the snapshot by and by, so the last
//! decision holds for as long as they count, and then it is "not over" (9, row 26).

use std::fmt;

use super::{
    snapshot::{AddressState, figure},
    state::{Facts, Path},
};
use crate::model::{VserverId, vserver::SpilloverMethod};

/// Where a virtual server stands against its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// It has no spillover.
    NotConfigured,
    /// No figure is known.
    Unknown(SpilloverMethod),
    /// Some service takes any number of connections, so no number is too many.
    Unlimited,
    /// A count or a rate; over from the limit on.
    Load {
        /// By which method.
        method: SpilloverMethod,
        /// The sum over the bound services.
        value: f64,
        /// The threshold.
        limit: f64,
    },
    /// A share of the weights that are up; over below the limit.
    Health {
        /// Weights of the services whose primary state is UP.
        up: u64,
        /// Weights of all that are enabled.
        all: u64,
        /// Percent.
        limit: u64,
    },
}

impl Level {
    /// True if clients are to be diverted: equality diverts for counts and rates, not for health (0.1, 7).
    pub fn is_over(self) -> bool {
        match self {
            Self::NotConfigured | Self::Unknown(_) | Self::Unlimited => false,
            Self::Load { value, limit, .. } => value >= limit,
            Self::Health { up, all, limit } => 100 * up < limit * all,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured => f.write_str("no spillover"),
            Self::Unknown(method) => write!(f, "no figures for {}", method.name()),
            Self::Unlimited => f.write_str("some service has no max_connections"),
            Self::Load { method, value, limit } => {
                let unit = if *method == SpilloverMethod::Bandwidth { "kbit/s" } else { "connections" };
                let word = if self.is_over() { "at or above" } else { "below" };
                write!(f, "{value} {unit}, {word} {limit}")
            }
            Self::Health { up, all, limit } => {
                let word = if self.is_over() { "below" } else { "not below" };
                write!(f, "{up} of {all} weights up, {word} {limit} %")
            }
        }
    }
}

impl Facts<'_> {
    /// Where a virtual server stands now.
    pub fn level(&self, vserver: VserverId) -> Level {
        self.spillover(vserver, None)
    }

    pub(super) fn spillover(&self, vserver: VserverId, path: Option<&Path<'_>>) -> Level {
        let configured = self.model.vserver(vserver);
        let Some(spillover) = &configured.spillover else { return Level::NotConfigured };
        let method = spillover.method;
        let services = || configured.services.iter().map(|bound| bound.service);
        let sum = |name: &str| {
            let known = services().filter_map(|id| self.snapshot.service(id).figure(name));
            known.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
        };
        let load = |name: &str, limit: f64| match sum(name) {
            Some(value) => Level::Load { method, value, limit },
            None => Level::Unknown(method),
        };
        match method {
            SpilloverMethod::Connection => load(figure::CONNECTIONS, spillover.threshold as f64),
            SpilloverMethod::Bandwidth => load(figure::BANDWIDTH, spillover.threshold as f64),
            SpilloverMethod::DynamicConnection => {
                let limits: Vec<u32> = services().map(|id| self.model.service(id).max_connections).collect();
                if limits.contains(&0) || limits.is_empty() {
                    return Level::Unlimited;
                }
                load(figure::CONNECTIONS, limits.iter().map(|limit| f64::from(*limit)).sum())
            }
            SpilloverMethod::Health => {
                let (mut up, mut all) = (0, 0);
                for bound in &configured.services {
                    let service = self.model.service(bound.service);
                    let of_type =
                        !self.rtype.is_address() || service.addresses.iter().any(|a| self.rtype.fits(*a));
                    if !self.snapshot.service(bound.service).admin || !of_type {
                        continue;
                    }
                    all += u64::from(bound.weight);
                    if self.states_on(bound.service, path).primary == AddressState::Up {
                        up += u64::from(bound.weight);
                    }
                }
                Level::Health { up, all, limit: spillover.threshold }
            }
        }
    }
}
