//! What health knows at one moment, for a whole decision: one epoch (spec/netscaler.md 9, row 47).

pub use crate::health::AddressState;
use crate::model::{Model, MonitorKind, Service, ServiceId, VserverId};

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
}

/// What is known of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VserverState {
    /// False: treated as down (spec/netscaler.md 3.7).
    pub enabled: bool,
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

    fn with(model: &Model, state: impl Fn(&Service) -> AddressState) -> Self {
        let service = |s: &Service| ServiceState {
            admin: s.enabled,
            forced: None,
            addresses: vec![state(s); s.addresses.len()],
        };
        Self {
            services: model.services.iter().map(service).collect(),
            vservers: model.vservers.iter().map(|v| VserverState { enabled: v.enabled }).collect(),
        }
    }
}

/// True if some monitor of the service counts: enabled, and of a kind that runs.
pub fn is_monitored(model: &Model, service: &Service) -> bool {
    service.monitors.iter().any(|(id, _)| {
        let monitor = model.monitor(*id);
        monitor.enabled && !matches!(monitor.kind, MonitorKind::Inert { .. })
    })
}
