//! From the [`File`] to the model: names become ids, defaults are filled in, everything is held against everything.

use std::{
    collections::HashMap,
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use responder_common::limits::MAX_LISTEN;

use super::{
    domains,
    file::{File, Head, Payload},
    geo, lint, names, policies, pool,
    problem::{At, Notes},
};
use crate::model::{
    self, DnsAction, DnsActionKind, LocationTable, Model, Monitor, MonitorId, Service, ViewId, VserverId,
    zone::Soa,
};

/// Names of the objects of one kind, each with its index in the list of the file.
pub(super) struct Index<'f> {
    pub(super) kind: &'static str,
    names: HashMap<&'f str, usize>,
}

impl<'f> Index<'f> {
    /// Indexes a list; a name that occurs twice is a problem of the second.
    fn new(notes: &Notes<'_>, kind: &'static str, heads: impl Iterator<Item = &'f Head>) -> Self {
        let mut names: HashMap<&str, (usize, usize)> = HashMap::new();
        for (i, head) in heads.enumerate().filter(|(_, head)| head.is_named) {
            let (_, first) = *names.entry(&head.name.value).or_insert((i, head.name.at));
            if first != head.name.at {
                let (name, line) = (&head.name.value, notes.line(first));
                let text = format!("{kind} {name:?}: name: {name:?} is taken by the {kind} in line {line}");
                notes.problem(head.name.at, text);
            }
        }
        Self { kind, names: names.into_iter().map(|(name, (i, _))| (name, i)).collect() }
    }

    /// The object that a reference means; without one it is a problem of `object`'s `field`.
    pub(super) fn find(
        &self,
        notes: &Notes<'_>,
        object: &str,
        field: &str,
        name: &At<String>,
    ) -> Option<usize> {
        let found = self.names.get(name.value.as_str()).copied();
        if found.is_none() {
            // Sorted, so that one file always gives one message.
            let mut known: Vec<&str> = self.names.keys().copied().collect();
            known.sort_unstable();
            let hint = notes.did_you_mean(&name.value, known.into_iter());
            let kind = self.kind;
            notes
                .problem(name.at, format!("{object}: {field}: {kind} {:?} does not exist{hint}", name.value));
        }
        found
    }
}

/// `kind "name"`, as messages begin.
pub(super) fn label(kind: &str, head: &Head) -> String {
    match head.name.value.as_str() {
        "" => kind.to_owned(),
        name => format!("{kind} {name:?}"),
    }
}

/// Makes the model. It is whole only if the notes have no problem afterwards.
pub(super) fn validate(notes: &Notes<'_>, file: &File) -> Model {
    let monitors = Index::new(notes, "monitor", file.monitors.iter().map(|o| &o.head));
    let services = Index::new(notes, "service", file.services.iter().map(|o| &o.head));
    let vservers = Index::new(notes, "vserver", file.vservers.iter().map(|o| &o.head));
    let actions = Index::new(notes, "dns_action", file.actions.iter().map(|o| &o.head));
    Index::new(notes, "dns_policy", file.policies.iter().map(|o| &o.head));
    Index::new(notes, "scenario", file.scenarios.iter());
    Index::new(notes, "record", file.records.iter());

    let mut settings = file.settings.clone();
    settings.listen = listen(notes, file);
    let locations = LocationTable {
        custom: file.ranges.clone(),
        wildcard_matches_any: file.wildcard_matches_any,
        is_custom_context: file.custom_context,
        sources: file.location_files.iter().map(|source| source.path.value.clone()).collect(),
        files: geo::load(notes, &file.location_files, !file.custom_context),
    };
    let mut model = Model { settings, locations, ..Model::default() };
    model.zones = zones(notes, file);
    model.monitors = file.monitors.iter().map(|typed| monitor(notes, typed)).collect();
    model.views = views(file);
    model.services =
        file.services.iter().map(|typed| service(notes, typed, &monitors, &vservers, &model)).collect();
    model.vservers = pool::vservers(notes, file, &services, &vservers);
    pool::circles(notes, file, &model);
    model.domains = domains::domains(notes, file, &vservers, &model);
    model.actions = file.actions.iter().map(|typed| action(notes, typed, &mut model.views)).collect();
    policies::policies(notes, file, &actions, &vservers, &mut model);
    lint::lint(notes, file, &model);
    model
}

fn listen(notes: &Notes<'_>, file: &File) -> Vec<SocketAddr> {
    let typed = &file.listen;
    if file.settings.xdp.is_on() {
        for family in ["IPv4", "IPv6"] {
            let of_family = || typed.iter().filter(|a| a.value.is_ipv4() == (family == "IPv4"));
            if let Some(surplus) = of_family().nth(MAX_LISTEN) {
                let count = of_family().count();
                let text = format!(
                    "{count} {family} addresses are more than the {MAX_LISTEN} that the XDP program compares"
                );
                notes.problem(surplus.at, format!("listen.addresses: {text}"));
            }
        }
    }
    let mut out = Vec::new();
    for (i, address) in typed.iter().enumerate() {
        if let Some(first) = typed[..i].iter().find(|earlier| earlier.value == address.value) {
            let line = notes.line(first.at);
            notes.problem(
                address.at,
                format!("listen.addresses: \"{}\" is listed twice, first in line {line}", address.value),
            );
        }
        out.push(address.value);
    }
    out
}

fn zones(notes: &Notes<'_>, file: &File) -> Vec<model::Zone> {
    let mut seen = HashMap::new();
    let mut out = Vec::new();
    for typed in &file.zones {
        let label = label("zone", &typed.head);
        let first = typed.apex.as_ref().map(|apex| *seen.entry(apex).or_insert(typed.head.name.at));
        if let Some(first) = first.filter(|first| *first != typed.head.name.at) {
            let (name, line) = (&typed.head.name.value, notes.line(first));
            let text = format!("{label}: name: {name:?} is taken by the zone in line {line}");
            notes.problem(typed.head.name.at, text);
        }
        let path = typed.file.as_ref().map(|file| {
            let path = notes.resolve(&file.value);
            if let Err(error) = names::regular(&path).and_then(|()| std::fs::File::open(&path).map(drop)) {
                notes.problem(file.at, format!("{label}: file: {:?} cannot be read: {error}", file.value));
            }
            path
        });
        let Some(apex) = typed.apex.clone() else { continue };
        for server in typed.ns.iter().filter(|server| !server.name.value.is_under(&apex)) {
            if let Some(address) = server.addresses.first() {
                let text =
                    format!("{} lies outside the zone, which has no addresses for it", server.name.value);
                notes.problem(address.at, format!("{label}: ns: {text}"));
            }
        }
        let addresses = |server: &super::file::NameServer| {
            let name = server.name.value.clone();
            server.addresses.iter().map(|address| (name.clone(), address.value)).collect::<Vec<_>>()
        };
        out.push(model::Zone {
            file: path,
            soa: soa(typed, &apex),
            apex,
            ns: typed.ns.iter().map(|server| server.name.value.clone()).collect(),
            ns_addresses: typed.ns.iter().flat_map(addresses).collect(),
        });
    }
    out
}

fn soa(zone: &super::file::Zone, apex: &model::DnsName) -> Soa {
    let mut soa = Soa::default_for(apex);
    let Some(typed) = zone.soa.as_ref().map(|soa| &soa.value) else { return soa };
    let set = |to: &mut u32, from: Option<u32>| *to = from.unwrap_or(*to);
    set(&mut soa.refresh, typed.refresh);
    set(&mut soa.retry, typed.retry);
    set(&mut soa.expire, typed.expire);
    set(&mut soa.minimum, typed.minimum);
    set(&mut soa.ttl, typed.ttl);
    soa.serial = typed.serial;
    if let Some(mname) = &typed.mname {
        soa.mname = mname.clone();
    }
    if let Some(rname) = &typed.rname {
        soa.rname = rname.clone();
    }
    soa
}

fn monitor(notes: &Notes<'_>, typed: &super::file::Monitor) -> Monitor {
    let interval = typed.interval.as_ref().map_or(Duration::from_secs(5), |d| d.value);
    // A short interval without a timeout is no mistake: the default gives way.
    let timeout = typed.timeout.as_ref().map_or(Duration::from_secs(2).min(interval), |d| d.value);
    if let Some(at) = typed.timeout.as_ref().filter(|_| timeout > interval).map(|d| d.at) {
        let unit = humantime::format_duration;
        notes.problem(
            at,
            format!(
                "{}: timeout: \"{}\" is above the interval of {}",
                label("monitor", &typed.head),
                unit(timeout),
                unit(interval)
            ),
        );
    }
    Monitor {
        name: typed.head.name.value.clone(),
        kind: typed.kind.clone(),
        interval,
        timeout,
        rise: typed.rise.unwrap_or(1),
        fall: typed.fall.unwrap_or(3),
        port: typed.port,
        enabled: typed.enabled,
    }
}

fn service(
    notes: &Notes<'_>,
    typed: &super::file::Service,
    monitors: &Index<'_>,
    vservers: &Index<'_>,
    model: &Model,
) -> Service {
    let label = label("service", &typed.head);
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in &typed.addresses {
        if addresses.contains(&address.value) {
            notes.problem(address.at, format!("{label}: address: \"{}\" is listed twice", address.value));
        } else {
            addresses.push(address.value);
        }
    }
    let behind = typed.behind.as_ref().and_then(|name| vservers.find(notes, &label, "behind", name));
    let bound = service_monitors(notes, &label, typed, monitors, model);
    let sum: u32 = bound.iter().map(|(_, weight)| weight).sum();
    if let Some(threshold) = typed.threshold.as_ref().filter(|t| t.value > sum && !typed.head.broken) {
        let text =
            format!("{} can never be reached: the weights of the monitors add up to {sum}", threshold.value);
        notes.problem(threshold.at, format!("{label}: monitor_threshold: {text}"));
    }
    let looked_up = addresses.first().and_then(|first| model.locations.find(*first));
    let looked_up = looked_up.filter(|_| typed.location.is_none());
    Service {
        name: typed.head.name.value.clone(),
        cname: typed.cname.as_ref().map(|name| name.value.clone()),
        port: typed.port.unwrap_or(0),
        location: typed.location.clone().or_else(|| looked_up.map(|place| place.location.clone())),
        coordinates: looked_up.and_then(|place| place.coordinates),
        monitors: bound,
        monitor_threshold: typed.threshold.as_ref().map_or(0, |t| t.value),
        enabled: typed.enabled,
        site: typed.site.clone(),
        naptr: typed.naptr.clone(),
        max_connections: typed.max_connections,
        max_bandwidth: typed.max_bandwidth,
        views: service_views(notes, &label, typed, model),
        behind: behind.map(|i| VserverId(i as u32)),
        hash_id: typed.hash_id,
        addresses,
    }
}

/// Addresses in views, for families in which the service has an address at all: a view changes no selection.
fn service_views(
    notes: &Notes<'_>,
    label: &str,
    typed: &super::file::Service,
    model: &Model,
) -> Vec<(ViewId, Vec<IpAddr>)> {
    let mut out = Vec::new();
    for (name, addresses) in &typed.views {
        for address in addresses {
            if typed.addresses.iter().all(|own| own.value.is_ipv4() != address.value.is_ipv4()) {
                let family = if address.value.is_ipv4() { "IPv4" } else { "IPv6" };
                let text =
                    format!("\"{}\" is never given: the service has no {family} address", address.value);
                notes.warning(address.at, format!("{label}: views.{name}: {text}"));
            }
        }
        let id = model.views.iter().position(|view| view == name).unwrap_or_default();
        out.push((ViewId(id as u32), addresses.iter().map(|a| a.value).collect()));
    }
    out.sort_by_key(|(id, _)| *id);
    out
}

fn service_monitors(
    notes: &Notes<'_>,
    label: &str,
    typed: &super::file::Service,
    monitors: &Index<'_>,
    model: &Model,
) -> Vec<(MonitorId, u32)> {
    let mut bound: Vec<(MonitorId, u32)> = Vec::new();
    for (name, weight) in &typed.monitors {
        let Some(found) = monitors.find(notes, label, "monitors", name) else { continue };
        let (id, monitor) = (MonitorId(found as u32), &model.monitors[found]);
        if bound.iter().any(|(earlier, _)| *earlier == id) {
            notes.problem(name.at, format!("{label}: monitors: {:?} is listed twice", name.value));
            continue;
        }
        let asks_port = monitor.kind.is_check();
        if asks_port && monitor.port.is_none() && typed.port.is_none() && !typed.head.broken {
            let text =
                format!("{label}: port: is missing; monitor {:?} asks the port of the service", name.value);
            notes.problem(typed.head.at, text);
        }
        bound.push((id, *weight));
    }
    bound
}

/// Every view that a service has an address in, or an action chooses.
fn views(file: &File) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let named = file.services.iter().flat_map(|service| service.views.iter().map(|(name, _)| name));
    for name in named {
        if !out.contains(name) {
            out.push(name.clone());
        }
    }
    out
}

fn action(notes: &Notes<'_>, typed: &super::file::Action, views: &mut Vec<String>) -> DnsAction {
    let kind = match &typed.payload {
        Payload::Preferred(list) => {
            DnsActionKind::PreferredLocations(list.iter().map(|l| l.value.clone()).collect())
        }
        Payload::View(name) => {
            let known = views.iter().position(|view| *view == name.value);
            if known.is_none() {
                let text = format!("no service has an address in view {:?}", name.value);
                notes.warning(name.at, format!("{}: view: {text}", label("dns_action", &typed.head)));
                views.push(name.value.clone());
            }
            DnsActionKind::View(ViewId(known.unwrap_or(views.len() - 1) as u32))
        }
        Payload::Rewrite(addresses, ttl) => {
            DnsActionKind::Rewrite { addresses: addresses.clone(), ttl: *ttl }
        }
        Payload::Drop => DnsActionKind::Drop,
        Payload::CacheBypass => DnsActionKind::CacheBypass,
        Payload::Noop => DnsActionKind::Noop,
    };
    DnsAction { name: typed.head.name.value.clone(), kind }
}

/// `"a" -> "b" -> "a"`
pub(super) fn chain<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut out = String::new();
    for name in names {
        let arrow = if out.is_empty() { "" } else { " -> " };
        let _ = write!(out, "{arrow}{name:?}");
    }
    out
}
