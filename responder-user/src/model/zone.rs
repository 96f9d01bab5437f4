//! Zones that we are authoritative for.

use std::{net::IpAddr, path::PathBuf};

use super::DnsName;

/// One `[[zone]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The apex.
    pub apex: DnsName,
    /// Master file (RFC 1035 5), or None for a zone that holds GSLB names alone.
    pub file: Option<PathBuf>,
    /// From `soa`, or the defaults of spec/config.md; a master file brings its own.
    pub soa: Soa,
    /// Name servers of the apex, from `ns`; may be empty.
    pub ns: Vec<DnsName>,
    /// Their addresses, from `ns`, as far as they lie in the zone: its data, where no master file brings others.
    pub ns_addresses: Vec<(DnsName, IpAddr)>,
}

/// Start of authority (RFC 1035 3.3.13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soa {
    /// Primary name server.
    pub mname: DnsName,
    /// Mailbox.
    pub rname: DnsName,
    /// None: the generation of the answers.
    pub serial: Option<u32>,
    /// Seconds.
    pub refresh: u32,
    /// Seconds.
    pub retry: u32,
    /// Seconds.
    pub expire: u32,
    /// Negative TTL in seconds (RFC 2308 4).
    pub minimum: u32,
    /// TTL of the SOA record itself, in seconds.
    pub ttl: u32,
}

impl Soa {
    /// The defaults: ns1.<zone>, hostmaster.<zone>, 3600, 600, 86400, minimum 5, ttl 5, serial = generation.
    pub fn default_for(apex: &DnsName) -> Self {
        // A zone whose name leaves no room for another label gets its own name in both places.
        let below = |label: &str| apex.child(label).unwrap_or_else(|_| apex.clone());
        Self {
            mname: below("ns1"),
            rname: below("hostmaster"),
            serial: None,
            refresh: 3600,
            retry: 600,
            expire: 86400,
            minimum: 5,
            ttl: 5,
        }
    }
}
