//! What the program runs on.
//!
//! `config` turns what users typed into one [`Model`]; everything behind it reads the model and never the file.
//! A model is immutable: a reload makes a new one. Objects refer to each other by index (the `…Id` types), so that
//! a reference that points nowhere cannot be expressed.

pub mod location;
pub mod monitor;
pub mod name;
pub mod policy;
pub mod service;
pub mod settings;
pub mod vserver;
pub mod zone;

use std::collections::BTreeMap;

pub use location::{Location, LocationTable};
pub use monitor::{Metric, Monitor, MonitorKind};
pub use name::DnsName;
pub use policy::{DnsAction, DnsActionKind, DnsPolicy, Rule};
pub use service::{Naptr, Service};
pub use settings::Settings;
pub use vserver::{Bound, Method, Vserver};
pub use zone::Zone;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $name {
            /// The index into the list of the model.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// Index into [`Model::monitors`].
    MonitorId,
    /// Index into [`Model::services`].
    ServiceId,
    /// Index into [`Model::vservers`].
    VserverId,
    /// Index into [`Model::actions`].
    ActionId,
    /// Index into [`Model::policies`].
    PolicyId,
    /// Index into [`Model::labels`].
    LabelId,
    /// Index into [`Model::views`].
    ViewId,
}

/// A whole configuration, checked: every reference resolves, every value is in range.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Server, listen, xdp, limits and the other singletons.
    pub settings: Settings,
    /// Client and service locations.
    pub locations: LocationTable,
    /// Zones that we are authoritative for, as configured.
    pub zones: Vec<Zone>,
    /// Health checks by name.
    pub monitors: Vec<Monitor>,
    /// GSLB services.
    pub services: Vec<Service>,
    /// GSLB virtual servers.
    pub vservers: Vec<Vserver>,
    /// Names bound to virtual servers: `[[domain]]` and every line of a `[[domain_list]]`.
    pub domains: Vec<Domain>,
    /// DNS actions.
    pub actions: Vec<DnsAction>,
    /// Bindings of DNS policies, by bind point and then by ascending priority.
    pub policies: Vec<DnsPolicy>,
    /// Policy labels by name.
    pub labels: Vec<String>,
    /// Views by name.
    pub views: Vec<String>,
    /// Every different test of a name in the rules of the policies; see [`policy::NameTest`].
    pub name_tests: Vec<policy::NameTest>,
}

/// One name bound to one virtual server (spec/netscaler.md 3.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name, folded.
    pub name: DnsName,
    /// Who decides its answers.
    pub vserver: VserverId,
    /// TTL of the answers in seconds, 1 to 2^31-1.
    pub ttl: u32,
    /// Answered when no service of the chain is usable; index into the set of lists keeps a million names small.
    pub backup_ip: std::sync::Arc<[std::net::IpAddr]>,
}

/// Address families and other kinds of answer a virtual server gives (`vserver.types`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// IPv4 address, type 1.
    A,
    /// IPv6 address, type 28.
    Aaaa,
    /// Alias, type 5.
    Cname,
    /// Naming authority pointer, type 35.
    Naptr,
}

impl RecordType {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Every type.
    pub const ALL: [Self; Self::COUNT] = [Self::A, Self::Aaaa, Self::Cname, Self::Naptr];

    /// The name as written in DNS and in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Naptr => "NAPTR",
        }
    }

    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
            Self::Cname => 5,
            Self::Naptr => 35,
        }
    }

    /// A or AAAA.
    pub fn is_address(self) -> bool {
        matches!(self, Self::A | Self::Aaaa)
    }

    /// True for an address that belongs into an answer of this type.
    pub fn fits(self, address: std::net::IpAddr) -> bool {
        match self {
            Self::A => address.is_ipv4(),
            Self::Aaaa => address.is_ipv6(),
            Self::Cname | Self::Naptr => false,
        }
    }
}

impl std::fmt::Display for RecordType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Model {
    /// A service by id.
    pub fn service(&self, id: ServiceId) -> &Service {
        &self.services[id.index()]
    }

    /// A virtual server by id.
    pub fn vserver(&self, id: VserverId) -> &Vserver {
        &self.vservers[id.index()]
    }

    /// A monitor by id.
    pub fn monitor(&self, id: MonitorId) -> &Monitor {
        &self.monitors[id.index()]
    }

    /// A service by its configured name.
    pub fn service_named(&self, name: &str) -> Option<ServiceId> {
        self.services.iter().position(|s| s.name == name).map(|i| ServiceId(i as u32))
    }

    /// A virtual server by its configured name.
    pub fn vserver_named(&self, name: &str) -> Option<VserverId> {
        self.vservers.iter().position(|v| v.name == name).map(|i| VserverId(i as u32))
    }

    /// The virtual servers that use a service, directly.
    pub fn vservers_using(&self, service: ServiceId) -> Vec<VserverId> {
        (0..self.vservers.len() as u32)
            .map(VserverId)
            .filter(|v| self.vserver(*v).services.iter().any(|b| b.service == service))
            .collect()
    }

    /// The configured zone that holds a name: the longest apex that is an ancestor of it or the name itself.
    /// None: the name is its own apex with the default SOA (spec/config.md 2).
    pub fn zone_of(&self, name: &DnsName) -> Option<&Zone> {
        self.zones.iter().filter(|z| name.is_under(&z.apex)).max_by_key(|z| z.apex.wire().len())
    }

    /// All names with their bindings, folded name as key; a dual-stack name has several (spec/netscaler.md 0).
    pub fn domains_by_name(&self) -> BTreeMap<&DnsName, Vec<&Domain>> {
        let mut out: BTreeMap<&DnsName, Vec<&Domain>> = BTreeMap::new();
        for domain in &self.domains {
            out.entry(&domain.name).or_default().push(domain);
        }
        out
    }
}
