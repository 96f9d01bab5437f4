//! GSLB virtual servers: a pool of services and the rules of the decision.

use std::{fmt, time::Duration};

use super::{DnsName, RecordType, ServiceId, VserverId};

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
    /// backupVServer: who answers when this one is down or over its threshold.
    pub backup: Option<VserverId>,
    /// Once down, the backup goes on until `enable vserver` (spec/netscaler.md 3.6, 0.1).
    pub disable_primary_on_down: bool,
    /// considerEffectiveState STATE_ONLY (spec/netscaler.md 4.4).
    pub effective_state: bool,
    /// What becomes of sessions of services that load monitors withdraw (spec/netscaler.md 0.1, 2).
    pub skip_persistency: SkipPersistency,
    /// SOURCEIP persistence.
    pub persistence: Option<Persistence>,
    /// Spillover to the backup.
    pub spillover: Option<Spillover>,
    /// backupSessionTimeout: a client of a backup stays there for so long, for each domain; 2 minutes to 24 hours.
    pub backup_session_timeout: Option<Duration>,
    /// What multiplies the configured weights (spec/netscaler.md 3.3).
    pub dynamic_weight: DynamicWeight,
    /// netmask and v6netmasklen of `source-ip-hash`, in bits.
    pub hash_mask: (u8, u8),
    /// toggleOrder DESCENDING: the highest order first (spec/netscaler.md 3.8).
    pub descending_order: bool,
    /// orderThreshold: percent of the services of an order that must be usable before it takes part.
    pub order_threshold: u32,
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

impl Default for Vserver {
    fn default() -> Self {
        Self {
            name: String::new(),
            service_type: "ANY".to_owned(),
            types: Vec::new(),
            method: Method::default(),
            backup_method: None,
            services: Vec::new(),
            backup: None,
            disable_primary_on_down: false,
            effective_state: false,
            skip_persistency: SkipPersistency::None,
            persistence: None,
            spillover: None,
            backup_session_timeout: None,
            dynamic_weight: DynamicWeight::Disabled,
            hash_mask: (32, 128),
            descending_order: false,
            order_threshold: 0,
            multiple_ip_response: false,
            ecs: false,
            ecs_validation: false,
            empty_down_response: false,
            enabled: true,
        }
    }
}

/// skipPersistency (spec/netscaler.md 0.1, 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkipPersistency {
    /// A session is honoured although a load monitor withdraws its service.
    #[default]
    None,
    /// ReLb: it is ignored meanwhile, and the request is decided anew.
    Rebalance,
    /// Bypass: no decision is made; the name is resolved as if nobody owned it.
    Bypass,
}

impl SkipPersistency {
    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rebalance => "rebalance",
            Self::Bypass => "bypass",
        }
    }
}

/// Clients come back to the service that they were given (spec/netscaler.md 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// persistMask: bits of an IPv4 address that tell clients apart.
    pub mask: u8,
    /// v6persistmasklen.
    pub mask6: u8,
    /// A session ends after so long without a query; 2 minutes to 24 hours.
    pub timeout: Duration,
    /// persistenceId: virtual servers with the same id share sessions; None: this one keeps its own.
    pub id: Option<u16>,
    /// Method round-robin ignores sessions (spec/netscaler.md 0.1, 4).
    pub ignore_in_round_robin: bool,
}

/// When a virtual server sends clients to its backup although it is up (spec/netscaler.md 4).
#[derive(Clone, Debug, PartialEq)]
pub struct Spillover {
    /// soMethod.
    pub method: SpilloverMethod,
    /// soThreshold: connections, kbit/s or percent; no meaning for dynamic-connection.
    pub threshold: u64,
    /// soPersistence: who is on one side stays there.
    pub persistence: bool,
    /// soPersistenceTimeOut; 2 minutes to 24 hours.
    pub timeout: Duration,
    /// What happens when no backup can take over.
    pub action: SpilloverAction,
    /// The redirect URL as typed, and its host.
    pub redirect: Option<(String, DnsName)>,
}

/// soMethod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpilloverMethod {
    /// Connections of all bound services against a number.
    Connection,
    /// Connections against the sum of the services' `max_connections`.
    DynamicConnection,
    /// Traffic in both directions, kbit/s.
    Bandwidth,
    /// Percent of the weights of services that are up; below it.
    Health,
}

impl SpilloverMethod {
    /// Every method.
    pub const ALL: [Self; 4] = [Self::Connection, Self::DynamicConnection, Self::Bandwidth, Self::Health];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::DynamicConnection => "dynamic-connection",
            Self::Bandwidth => "bandwidth",
            Self::Health => "health",
        }
    }
}

/// What is answered when a virtual server is over its threshold and no backup can take over (spec/netscaler.md 0.1, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpilloverAction {
    /// Nothing.
    #[default]
    Drop,
    /// A CNAME to the host of the redirect URL.
    Redirect,
    /// The primary's services, although over the threshold.
    Accept,
    /// NOERROR without records.
    Empty,
    /// REFUSED.
    Refused,
}

impl SpilloverAction {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Drop, Self::Redirect, Self::Accept, Self::Empty, Self::Refused];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Redirect => "redirect",
            Self::Accept => "accept",
            Self::Empty => "empty",
            Self::Refused => "refused",
        }
    }
}

/// dynamicWeight (spec/netscaler.md 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DynamicWeight {
    /// The configured weight alone.
    #[default]
    Disabled,
    /// Times the number of active services behind the service.
    ServiceCount,
    /// Times the sum of their weights.
    ServiceWeight,
}

impl DynamicWeight {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Disabled, Self::ServiceCount, Self::ServiceWeight];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ServiceCount => "service-count",
            Self::ServiceWeight => "service-weight",
        }
    }
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
    /// `api`: a callout names the service
    Api,
}

impl Method {
    /// Every method, in the order of spec/config.md.
    pub const ALL: [Self; 10] = [
        Self::RoundRobin,
        Self::LeastConnection,
        Self::LeastResponseTime,
        Self::LeastBandwidth,
        Self::LeastPackets,
        Self::SourceIpHash,
        Self::StaticProximity,
        Self::Rtt,
        Self::CustomLoad,
        Self::Api,
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
            Self::Api => "api",
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
