//! What was typed: every object with its positions, references still by name.
//!
//! Values are of the right type and in range; whether they fit each other is for `validate`.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{geo::Source, problem::At};
use crate::model::{
    self, DnsName, Location, Method, MonitorKind, Naptr, RecordType, Rule, Settings,
    location::{LocationRange, WildcardMatchesAny},
    policy::Goto,
};

/// A whole file. Tables that have no effect yet are checked while reading and leave nothing here.
#[derive(Debug, Default)]
pub struct File {
    /// `[server]`, `[listen]` without its addresses, `[xdp]`.
    pub settings: Settings,
    /// `listen.addresses`
    pub listen: Vec<At<SocketAddr>>,
    /// Where settings stand that the host may refuse: key, and one element of its list.
    pub places: Vec<(&'static str, At<String>)>,
    /// `location.wildcard_matches_any`
    pub wildcard_matches_any: WildcardMatchesAny,
    /// `location.context` is "custom": what the qualifiers mean is not known.
    pub custom_context: bool,
    /// `location.files`
    pub location_files: Vec<Source>,
    /// `location.custom`
    pub ranges: Vec<LocationRange>,
    /// `[[zone]]`
    pub zones: Vec<Zone>,
    /// `[[monitor]]`
    pub monitors: Vec<Monitor>,
    /// `[[service]]`
    pub services: Vec<Service>,
    /// `[[vserver]]`
    pub vservers: Vec<Vserver>,
    /// `[[domain]]`
    pub domains: Vec<Domain>,
    /// `[[domain_list]]`
    pub domain_lists: Vec<DomainList>,
    /// `[[dns_action]]`
    pub actions: Vec<Action>,
    /// `[[dns_policy]]`
    pub policies: Vec<Policy>,
    /// `netscaler.kept`
    pub kept: Vec<At<String>>,
    /// Names of `[[scenario]]`; they have no effect yet, but are unique.
    pub scenarios: Vec<Head>,
    /// `name type` of `[[record]]`; they have no effect yet, but are unique.
    pub records: Vec<Head>,
}

/// What every named object has.
#[derive(Debug)]
pub struct Head {
    /// Its name.
    pub name: At<String>,
    /// Where its table begins.
    pub at: usize,
    /// Something in it was reported already: what follows from it is not reported again.
    pub broken: bool,
    /// It has a name that others can refer to. Without one it is still checked.
    pub is_named: bool,
}

/// `[[zone]]`
#[derive(Debug)]
pub struct Zone {
    /// `name`
    pub head: Head,
    /// `name`, read; None if it is wrong.
    pub apex: Option<DnsName>,
    /// `file`, as typed.
    pub file: Option<At<String>>,
    /// `soa`
    pub soa: Option<At<Soa>>,
    /// `ns`
    pub ns: Option<Vec<At<DnsName>>>,
}

/// `zone.soa`; what is absent has a default.
#[derive(Debug, Default)]
pub struct Soa {
    /// Primary name server.
    pub mname: Option<DnsName>,
    /// Mailbox.
    pub rname: Option<DnsName>,
    /// Serial number.
    pub serial: Option<u32>,
    /// Seconds.
    pub refresh: Option<u32>,
    /// Seconds.
    pub retry: Option<u32>,
    /// Seconds.
    pub expire: Option<u32>,
    /// Seconds.
    pub minimum: Option<u32>,
    /// Seconds.
    pub ttl: Option<u32>,
}

/// `[[monitor]]`
#[derive(Debug)]
pub struct Monitor {
    /// `name`
    pub head: Head,
    /// `type` with what belongs to it.
    pub kind: MonitorKind,
    /// `interval`
    pub interval: Option<At<Duration>>,
    /// `timeout`
    pub timeout: Option<At<Duration>>,
    /// `rise`
    pub rise: Option<u32>,
    /// `fall`
    pub fall: Option<u32>,
    /// `port`
    pub port: Option<u16>,
    /// `state`
    pub enabled: bool,
}

/// `[[service]]`
#[derive(Debug)]
pub struct Service {
    /// `name`
    pub head: Head,
    /// `address`
    pub addresses: Vec<At<IpAddr>>,
    /// `cname`
    pub cname: Option<At<DnsName>>,
    /// `port`
    pub port: Option<u16>,
    /// `location`
    pub location: Option<Location>,
    /// `monitors` with their weights.
    pub monitors: Vec<(At<String>, u32)>,
    /// `monitor_threshold`
    pub threshold: Option<At<u32>>,
    /// `state`
    pub enabled: bool,
    /// `site`
    pub site: Option<String>,
    /// `behind`
    pub behind: Option<At<String>>,
    /// `naptr`
    pub naptr: Option<Naptr>,
    /// `max_connections`
    pub max_connections: u32,
    /// `max_bandwidth`
    pub max_bandwidth: u32,
    /// `views`, each with its addresses.
    pub views: Vec<(String, Vec<At<IpAddr>>)>,
    /// `hash_id`
    pub hash_id: Option<u32>,
}

/// `[[vserver]]`
#[derive(Debug)]
pub struct Vserver {
    /// `name`
    pub head: Head,
    /// `service_type`
    pub service_type: Option<String>,
    /// `types`
    pub types: Option<Vec<At<RecordType>>>,
    /// `method`
    pub method: Option<At<Method>>,
    /// `backup_method`
    pub backup_method: Option<At<Method>>,
    /// `services`
    pub services: Vec<Bound>,
    /// `backup`
    pub backup: Option<At<String>>,
    /// Everything that refers to nothing else, with its defaults.
    pub plain: model::Vserver,
}

/// One of `vserver.services`.
#[derive(Debug)]
pub struct Bound {
    /// Name of the service.
    pub service: At<String>,
    /// `weight`, 1 to 100.
    pub weight: u32,
    /// `order`, 1 to 8192.
    pub order: Option<u32>,
}

/// `[[domain]]`
#[derive(Debug)]
pub struct Domain {
    /// `name`
    pub head: Head,
    /// `name`, read; None if it is wrong.
    pub dns: Option<DnsName>,
    /// `vserver`
    pub vserver: At<String>,
    /// `ttl` in seconds.
    pub ttl: Option<u32>,
    /// `backup_ip`
    pub backup_ip: Vec<At<IpAddr>>,
}

/// `[[domain_list]]`
#[derive(Debug)]
pub struct DomainList {
    /// `file`, as typed; None if it is missing.
    pub file: Option<At<String>>,
    /// `vserver`
    pub vserver: At<String>,
    /// `ttl` in seconds of the lines that have none.
    pub ttl: Option<u32>,
}

/// `[[dns_action]]`
#[derive(Debug)]
pub struct Action {
    /// `name`
    pub head: Head,
    /// What it does.
    pub payload: Payload,
}

/// What an action does.
#[derive(Debug)]
pub enum Payload {
    /// `preferred_locations`
    Preferred(Vec<At<Location>>),
    /// `view`
    View(At<String>),
    /// `rewrite` and `ttl`
    Rewrite(Vec<IpAddr>, u32),
    /// `drop = true`
    Drop,
    /// `cache_bypass = true`
    CacheBypass,
    /// `noop = true`
    Noop,
}

/// `[[dns_policy]]`
#[derive(Debug)]
pub struct Policy {
    /// `name`
    pub head: Head,
    /// `rule`, read; None if it is wrong.
    pub rule: Option<Rule>,
    /// `rule`, as typed.
    pub rule_text: At<String>,
    /// `action`
    pub action: At<String>,
    /// `bind`, or the bind point of all requests; `priority`, `goto` and `invoke` of the policy hold where a bind point
    /// has none of its own.
    pub binds: Vec<Bind>,
}

/// One of `dns_policy.bind`
#[derive(Debug)]
pub struct Bind {
    /// Where.
    pub point: Point,
    /// `priority`
    pub priority: At<u32>,
    /// `goto`
    pub goto: Option<At<Goto>>,
    /// `invoke`: name of a label.
    pub invoke: Option<At<String>>,
}

/// Where a policy is bound, names not looked up yet.
#[derive(Debug)]
pub enum Point {
    /// A global one.
    Global(model::policy::BindPoint),
    /// `vserver`, and whether its responses.
    Vserver(At<String>, bool),
    /// `label`
    Label(String),
}
