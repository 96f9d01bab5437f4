//! GSLB services: endpoints with addresses, a location and health checks.

use std::net::IpAddr;

use super::{DnsName, Location, MonitorId, ViewId, VserverId};

/// One `[[service]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Unique name.
    pub name: String,
    /// Addresses of both families, in the order of the file, each once. May be empty for a `cname` service.
    pub addresses: Vec<IpAddr>,
    /// Alias target of a service without addresses.
    pub cname: Option<DnsName>,
    /// What it gives to a NAPTR query.
    pub naptr: Option<Naptr>,
    /// Port that is checked.
    pub port: u16,
    /// As configured, else looked up by the first address (spec/netscaler.md 1.5).
    pub location: Option<Location>,
    /// Coordinates of the range that gave the location.
    pub coordinates: Option<(f64, f64)>,
    /// Health checks with their weights (1 when none was given).
    pub monitors: Vec<(MonitorId, u32)>,
    /// 0: all monitors must be up. Else the sum of the weights of the monitors that are up must reach it.
    pub monitor_threshold: u32,
    /// `state = "enabled"`.
    pub enabled: bool,
    /// Site name, free text.
    pub site: Option<String>,
    /// maxClient: at so many connections it gets no new clients; 0 = no limit.
    pub max_connections: u32,
    /// maxBandwidth in kbit/s: likewise; 0 = no limit.
    pub max_bandwidth: u32,
    /// Addresses in views, in the order of the view ids; see [`Self::in_view`].
    pub views: Vec<(ViewId, Vec<IpAddr>)>,
    /// The virtual server that it stands for, whose three states it takes (spec/netscaler.md 0.1, 5d).
    pub behind: Option<VserverId>,
    /// hashId: who it is for `source-ip-hash`; None: its name says it.
    pub hash_id: Option<u32>,
}

/// A NAPTR record without flags and regular expression (RFC 3403 4.1), as NetScaler gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Naptr {
    /// naptrOrder.
    pub order: u16,
    /// naptrPreference.
    pub preference: u16,
    /// naptrServices, at most 255 octets.
    pub services: String,
    /// Flags, such as "A" or "S", at most 255 octets.
    pub flags: String,
    /// naptrReplacement.
    pub replacement: DnsName,
}

impl Service {
    /// Its addresses in a view; None: the usual ones (spec/netscaler.md 2.6).
    pub fn in_view(&self, view: ViewId) -> Option<&[IpAddr]> {
        self.views.iter().find(|(id, _)| *id == view).map(|(_, addresses)| addresses.as_slice())
    }
}
