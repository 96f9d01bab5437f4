//! GSLB services: endpoints with addresses, a location and health checks.

use std::net::IpAddr;

use super::{Location, MonitorId};

/// One `[[service]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Unique name.
    pub name: String,
    /// Addresses of both families, in the order of the file, each once. May be empty for a `cname` service.
    pub addresses: Vec<IpAddr>,
    /// Alias target of a service without addresses.
    pub cname: Option<super::DnsName>,
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
}
