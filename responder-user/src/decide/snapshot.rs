//! What is known at one moment, for a whole decision: one epoch (spec/netscaler.md 9, row 47).

use std::{collections::BTreeMap, time::Duration};

pub use crate::health::AddressState;
use crate::model::{Model, RecordType, Service, ServiceId, VserverId};

/// States of everything that has one, indexed as the model is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// One per service of the model.
    pub services: Vec<ServiceState>,
    /// One per virtual server of the model.
    pub vservers: Vec<VserverState>,
}

/// What is known of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceState {
    /// Enabled by configuration and operator.
    pub admin: bool,
    /// `force service NAME up|down`: counts instead of the monitors.
    pub forced: Option<bool>,
    /// One per address of the service, in the same order.
    pub addresses: Vec<AddressState>,
    /// What was reported of it.
    pub report: Report,
    /// Load figures by name.
    pub load: BTreeMap<String, Figure>,
}

/// States that somebody outside told (spec/netscaler.md 4.4, 0.1, 5b); None: not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The state of the virtual server that the service stands for.
    pub primary_up: Option<bool>,
    /// The state of that virtual server together with its backups.
    pub effective_up: Option<bool>,
    /// That virtual server has reached its threshold.
    pub above: Option<bool>,
}

/// One load figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its value, finite and not negative.
    pub value: f64,
    /// When it came, on the clock of whoever keeps the snapshot.
    pub at: Duration,
}

/// Names of the figures that methods and thresholds look at; load monitors look at names of their own.
pub mod figure {
    /// Active connections.
    pub const CONNECTIONS: &str = "connections";
    /// Traffic in both directions, kbit/s.
    pub const BANDWIDTH: &str = "bandwidth";
    /// Packets of the last 14 seconds.
    pub const PACKETS: &str = "packets";
    /// Average response time, milliseconds.
    pub const RESPONSE_TIME: &str = "response_time";
    /// Active services behind the service.
    pub const SERVICES: &str = "services";
    /// The sum of their weights.
    pub const WEIGHTS: &str = "weights";

    /// All of them.
    pub const ALL: [&str; 6] = [CONNECTIONS, BANDWIDTH, PACKETS, RESPONSE_TIME, SERVICES, WEIGHTS];
}

/// What is known of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VserverState {
    /// False: treated as down (spec/netscaler.md 3.7).
    pub enabled: bool,
    /// What is remembered for each type, by [`RecordType`]; see [`super::memory`].
    pub memory: [Memory; RecordType::COUNT],
}

/// What is remembered of a virtual server from one snapshot to the next. NetScaler's virtual servers have one type;
/// those of several remember for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// It has been up since it was enabled or configured.
    pub was_up: bool,
    /// disablePrimaryOnDown holds it back.
    pub latched: bool,
    /// It is over its spillover threshold.
    pub spilled: bool,
    /// When it last came below it, CLOCK_MONOTONIC in nanoseconds; 0: never.
    pub spill_ended: u64,
}

impl Default for VserverState {
    fn default() -> Self {
        Self { enabled: true, memory: Default::default() }
    }
}

impl VserverState {
    /// The memory of a type.
    pub fn memory(&self, rtype: RecordType) -> Memory {
        self.memory[rtype as usize]
    }

    /// True if it is held back for some type.
    pub fn is_latched(&self) -> bool {
        self.memory.iter().any(|memory| memory.latched)
    }
}

impl Snapshot {
    /// Before the first check: addresses with monitors are undecided, the others up.
    pub fn initial(model: &Model) -> Self {
        Self::with(model, |service| {
            if is_monitored(model, service) { AddressState::Undecided } else { AddressState::Up }
        })
    }

    /// Every address up; services and virtual servers enabled as configured.
    pub fn all_up(model: &Model) -> Self {
        Self::with(model, |_| AddressState::Up)
    }

    /// Every address up but those of `down`.
    pub fn with_down(model: &Model, down: &[ServiceId]) -> Self {
        let mut out = Self::all_up(model);
        for id in down {
            out.services[id.index()].addresses.fill(AddressState::Down);
        }
        out
    }

    /// A service by id.
    pub fn service(&self, id: ServiceId) -> &ServiceState {
        &self.services[id.index()]
    }

    /// A virtual server by id.
    pub fn vserver(&self, id: VserverId) -> VserverState {
        self.vservers[id.index()]
    }

    /// Forgets load figures that came before `limit`. Gives the services that had some.
    pub fn expire_load(&mut self, limit: Duration) -> Vec<ServiceId> {
        let mut out = Vec::new();
        for (i, service) in self.services.iter_mut().enumerate() {
            let before = service.load.len();
            service.load.retain(|_, figure| figure.at >= limit);
            if service.load.len() != before {
                out.push(ServiceId(i as u32));
            }
        }
        out
    }

    fn with(model: &Model, state: impl Fn(&Service) -> AddressState) -> Self {
        let service = |s: &Service| ServiceState {
            admin: s.enabled,
            addresses: vec![state(s); s.addresses.len()],
            ..ServiceState::default()
        };
        let vservers =
            model.vservers.iter().map(|v| VserverState { enabled: v.enabled, ..VserverState::default() });
        Self { services: model.services.iter().map(service).collect(), vservers: vservers.collect() }
    }
}

impl ServiceState {
    /// A load figure by name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.load.get(name).map(|figure| figure.value)
    }
}

/// True if some monitor of the service counts: enabled, and of a kind that runs.
pub fn is_monitored(model: &Model, service: &Service) -> bool {
    service.monitors.iter().any(|(id, _)| {
        let monitor = model.monitor(*id);
        monitor.enabled && monitor.kind.is_check()
    })
}
