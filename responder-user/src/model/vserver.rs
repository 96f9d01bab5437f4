//! GSLB virtual servers: a pool of services and the rules of the decision.

use std::fmt;

use super::{RecordType, ServiceId, VserverId};

/// Most addresses of one family in the pool of a virtual server.
pub const MAX_POOL: usize = 64;

/// One `[[vserver]]` (spec/netscaler.md 3.1).
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "switches of the configuration, each with its own name")]
pub struct Vserver {
    /// Unique name.
    pub name: String,
    /// NetScaler's service type, shown in lists.
    pub service_type: String,
    /// Kinds of answer it gives; the families of its services' addresses when not configured.
    pub types: Vec<RecordType>,
    /// lbMethod.
    pub method: Method,
    /// backupLBMethod; only with static proximity or rtt.
    pub backup_method: Option<Method>,
    /// Bound services in the order of the file, each once.
    pub services: Vec<Bound>,
    /// Backup virtual server (parsed and validated; takes part in the decision when the chain lands).
    pub backup: Option<VserverId>,
    /// MIR: the best address first, then the other usable ones.
    pub multiple_ip_response: bool,
    /// EDR: an empty answer when down, instead of all bound addresses.
    pub empty_down_response: bool,
    /// ECS: the client subnet option of a query stands for its source where proximity decides (spec/netscaler.md 1.7).
    pub ecs: bool,
    /// ecsAddrValidation: private addresses in that option are set aside.
    pub ecs_validation: bool,
    /// False after `disable vserver`: treated as down (spec/netscaler.md 3.7).
    pub enabled: bool,
}

/// A service bound to a virtual server.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Which service.
    pub service: ServiceId,
    /// 1 to 100.
    pub weight: u32,
    /// 1 to 8192; None after every numbered one.
    pub order: Option<u32>,
}

/// lbMethod (spec/netscaler.md 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// `round-robin`
    RoundRobin,
    /// `least-connection`, NetScaler's default
    #[default]
    LeastConnection,
    /// `least-response-time`
    LeastResponseTime,
    /// `least-bandwidth`
    LeastBandwidth,
    /// `least-packets`
    LeastPackets,
    /// `source-ip-hash`
    SourceIpHash,
    /// `static-proximity`
    StaticProximity,
    /// `rtt`
    Rtt,
    /// `custom-load`
    CustomLoad,
}

impl Method {
    /// Every method, in the order of spec/config.md.
    pub const ALL: [Self; 9] = [
        Self::RoundRobin,
        Self::LeastConnection,
        Self::LeastResponseTime,
        Self::LeastBandwidth,
        Self::LeastPackets,
        Self::SourceIpHash,
        Self::StaticProximity,
        Self::Rtt,
        Self::CustomLoad,
    ];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastConnection => "least-connection",
            Self::LeastResponseTime => "least-response-time",
            Self::LeastBandwidth => "least-bandwidth",
            Self::LeastPackets => "least-packets",
            Self::SourceIpHash => "source-ip-hash",
            Self::StaticProximity => "static-proximity",
            Self::Rtt => "rtt",
            Self::CustomLoad => "custom-load",
        }
    }

    /// From the word of the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
