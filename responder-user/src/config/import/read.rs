//! From a configuration of ours to objects: what NetScaler has a counterpart for. What it has none for stays in the
//! document (`doc::merge`).

use std::collections::HashMap;

use super::{
    execute::{self, merge},
    kind::Kind,
    objects::{Bound, Object, Store, Values},
    table,
    translate::{METHODS, SKIPS, SPILL_ACTIONS, SPILLOVERS, SWITCHES, WEIGHTS},
};
use crate::{
    config::{
        file::{Action, Domain, File, Monitor, Payload, Point, Policy, Service, Vserver, Zone},
        geo,
    },
    model::{
        MonitorKind, RecordType,
        location::{LocationRange, WildcardMatchesAny},
        policy::BindPoint,
        vserver::{DynamicWeight, Persistence, Spillover},
    },
};

/// Reads a file into objects, without what `netscaler.kept` and master files say.
pub(super) fn read(file: &File) -> Store {
    let mut store = Store::default();
    locations(&mut store, file);
    for zone in &file.zones {
        self::zone(&mut store, zone);
    }
    for monitor in &file.monitors {
        self::monitor(&mut store, monitor);
    }
    let pools = Pools::of(file);
    for service in &file.services {
        self::service(&mut store, &pools, service);
    }
    for vserver in &file.vservers {
        self::vserver(&mut store, &pools, vserver);
    }
    for domain in &file.domains {
        self::domain(&mut store, domain);
    }
    for action in &file.actions {
        self::action(&mut store, action);
    }
    for policy in &file.policies {
        self::policy(&mut store, policy);
    }
    store
}

/// Who is in which pool.
struct Pools<'f> {
    services: HashMap<&'f str, &'f Service>,
    /// By service: the type of the first virtual server that has it.
    types: HashMap<&'f str, Option<&'f str>>,
}

impl<'f> Pools<'f> {
    fn of(file: &'f File) -> Self {
        let services =
            file.services.iter().map(|service| (service.head.name.value.as_str(), service)).collect();
        let mut types = HashMap::new();
        for vserver in &file.vservers {
            for bound in &vserver.services {
                types.entry(bound.service.value.as_str()).or_insert(vserver.service_type.as_deref());
            }
        }
        Self { services, types }
    }
}

/// Listeners that no kept command names.
pub(super) fn listeners(store: &mut Store, file: &File) {
    for address in file.listen.iter().map(|at| at.value).filter(|address| !address.ip().is_unspecified()) {
        let ip = address.ip().to_string();
        let port = address.port().to_string();
        let is_known = store.all(Kind::Adns).any(|adns| {
            adns.given("port") == Some(port.as_str()) && {
                let named = adns.given("IPAddress").unwrap_or_default();
                super::check::address_of(store, named).is_some_and(|known| known == address.ip())
            }
        });
        if is_known {
            continue;
        }
        let mut values = Values::new();
        put(&mut values, "IPAddress", Some(ip.clone()));
        put(&mut values, "serviceType", Some("ADNS"));
        put(&mut values, "port", Some(port.clone()));
        let name = listener_name(&Object { values: values.clone(), ..Object::default() });
        make(store, Kind::Adns, &name, &values);
    }
}

/// The name of a listener that no command named.
pub(super) fn listener_name(listener: &Object) -> String {
    let of = |key: &str| listener.given(key).unwrap_or_default();
    format!("adns_{}_{}", of("IPAddress"), of("port"))
}

fn put(values: &mut Values, key: &'static str, value: Option<impl ToString>) {
    if let Some(value) = value {
        values.insert(key, vec![value.to_string()]);
    }
}

/// Makes an object; values that are defaults are left out.
fn make(store: &mut Store, kind: Kind, name: &str, values: &Values) {
    let spec = table::spec_of(kind);
    let object = store.entry(kind, name);
    merge(spec, object, values);
    if spec.ids == 0 && object.values.is_empty() {
        store.remove(kind, name);
    }
}

/// Ties something to an object.
fn tie(store: &mut Store, kind: Kind, name: &str, what: &'static str, to: &str, values: Values) {
    let spec = table::spec_of(kind);
    let Some(binding) = spec.bindings.iter().find(|binding| binding.what.key == what) else { return };
    let object = store.entry(kind, name);
    let mut bound = Bound { what: binding.what.key, name: to.to_owned(), values, line: 0 };
    bound.values.retain(|key, list| {
        let default = binding.arg(key).and_then(|arg| arg.default);
        default != Some(list.join(" ").as_str())
    });
    object.bound.push(bound);
    execute::sort(spec, object);
}

/// Their word for ours.
fn theirs(words: &[(&'static str, &'static str)], ours: &str) -> Option<&'static str> {
    words.iter().find(|(_, word)| *word == ours).map(|(theirs, _)| *theirs)
}

fn enabled(values: &mut Values, is_enabled: bool) {
    put(values, "state", (!is_enabled).then_some("DISABLED"));
}

fn locations(store: &mut Store, file: &File) {
    let mut values = Values::new();
    put(&mut values, "context", file.custom_context.then_some("custom"));
    let any = match file.wildcard_matches_any {
        WildcardMatchesAny::No => None,
        WildcardMatchesAny::Yes => Some("YES"),
        WildcardMatchesAny::Expression => Some("Expression"),
    };
    put(&mut values, "matchWildcardtoany", any);
    make(store, Kind::LocationParameter, "", &values);
    for source in &file.location_files {
        let path = &source.path.value;
        let format =
            geo::FORMATS.iter().find(|(_, format)| Some(*format) == source.format).map(|(name, _)| *name);
        let is_database =
            format == Some("mmdb") || (format.is_none() && path.to_ascii_lowercase().ends_with(".mmdb"));
        let kind = if format.is_some_and(|name| name.ends_with('6')) {
            Kind::LocationFile6
        } else {
            Kind::LocationFile
        };
        // An appliance has one file of each family; the others stay in the document.
        if is_database || store.get(kind, "").is_some() {
            continue;
        }
        let mut values = Values::new();
        put(&mut values, "Locationfile", Some(path));
        put(&mut values, "format", format);
        make(store, kind, "", &values);
    }
    for range in &file.ranges {
        location(store, range);
    }
}

fn location(store: &mut Store, range: &LocationRange) {
    let (first, last) = (range.first.to_string(), range.last.to_string());
    let mut values = Values::new();
    put(&mut values, "IPfrom", Some(&first));
    put(&mut values, "IPto", Some(&last));
    put(&mut values, "preferredLocation", Some(&range.location));
    put(&mut values, "longitude", range.coordinates.map(|(longitude, _)| longitude));
    put(&mut values, "latitude", range.coordinates.map(|(_, latitude)| latitude));
    make(store, Kind::Location, &format!("{first} {last}"), &values);
}

/// Addresses of a name server that our configuration has beside its name.
pub(super) const ADDRESSES: &str = "addresses";

fn zone(store: &mut Store, zone: &Zone) {
    let Some(apex) = zone.apex.as_ref().filter(|_| zone.file.is_none()).map(ToString::to_string) else {
        return;
    };
    if let Some(soa) = zone.soa.as_ref().map(|soa| &soa.value) {
        let mut values = Values::new();
        put(&mut values, "originServer", soa.mname.as_ref());
        put(&mut values, "contact", soa.rname.as_ref());
        for (key, number) in [
            ("serial", soa.serial),
            ("refresh", soa.refresh),
            ("retry", soa.retry),
            ("expire", soa.expire),
            ("minimum", soa.minimum),
            ("TTL", soa.ttl),
        ] {
            put(&mut values, key, number);
        }
        make(store, Kind::SoaRec, &apex, &values);
    } else if zone.ns.is_empty() {
        make(store, Kind::SoaRec, &apex, &Values::new());
    }
    for ns in &zone.ns {
        let server = ns.name.value.to_string();
        let mut values = Values::new();
        put(&mut values, "domain", Some(&apex));
        put(&mut values, "nameServer", Some(&server));
        if !ns.addresses.is_empty() {
            // No word of NetScaler: carried so that a command on another server of the zone does not lose them.
            values.insert(ADDRESSES, ns.addresses.iter().map(|address| address.value.to_string()).collect());
        }
        make(store, Kind::NsRec, &format!("{apex} {server}"), &values);
    }
}

fn period(values: &mut Values, key: &'static str, time: Option<std::time::Duration>) {
    if let Some(time) = time {
        let list = vec![(time.as_millis() as u64).to_string(), "MSEC".to_owned()];
        values.insert(key, super::value::period(&list));
    }
}

fn monitor(store: &mut Store, monitor: &Monitor) {
    let name = &monitor.head.name.value;
    let mut values = Values::new();
    let kind = match &monitor.kind {
        MonitorKind::Tcp => "TCP".to_owned(),
        MonitorKind::Http { path, host, expect } => {
            put(&mut values, "httpRequest", (path != "/").then(|| format!("GET {path}")));
            put(&mut values, "customHeaders", host.as_ref().map(|host| format!("Host: {host}\\r\\n")));
            let code = |(first, last): &(u16, u16)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            };
            if *expect != [(200, 200)] {
                values.insert("respCode", expect.iter().map(code).collect());
            }
            "HTTP".to_owned()
        }
        MonitorKind::Load { .. } => "LOAD".to_owned(),
        MonitorKind::Inert { type_name } => match type_name.as_str() {
            "https" => {
                put(&mut values, "secure", Some("YES"));
                "HTTP".to_owned()
            }
            "udp" => "UDP-ECV".to_owned(),
            "exec" => "USER".to_owned(),
            other => other.to_ascii_uppercase(),
        },
    };
    put(&mut values, "type", Some(kind));
    period(&mut values, "interval", monitor.interval.as_ref().map(|at| at.value));
    period(&mut values, "resptimeout", monitor.timeout.as_ref().map(|at| at.value));
    put(&mut values, "successRetries", monitor.rise);
    put(&mut values, "retries", monitor.fall);
    put(&mut values, "destPort", monitor.port);
    enabled(&mut values, monitor.enabled);
    make(store, Kind::Monitor, name, &values);
    let is_built_in = super::refer::is_built_in(Kind::Monitor, name)
        && store
            .get(Kind::Monitor, name)
            .is_some_and(|made| made.values == super::translate::built_in_values(name));
    if is_built_in {
        store.remove(Kind::Monitor, name);
    }
    if let MonitorKind::Load { metrics } = &monitor.kind {
        for metric in metrics {
            let mut values = Values::new();
            put(&mut values, "metricThreshold", (metric.threshold > 0).then_some(metric.threshold));
            put(&mut values, "metricWeight", Some(metric.weight));
            tie(store, Kind::Monitor, name, "metric", &metric.name, values);
        }
    }
}

fn service(store: &mut Store, pools: &Pools<'_>, service: &Service) {
    let name = &service.head.name.value;
    let mut values = Values::new();
    let addresses: Vec<String> = service.addresses.iter().map(|at| at.value.to_string()).collect();
    if !addresses.is_empty() {
        values.insert("IPAddress", addresses);
        put(&mut values, "port", Some(service.port.unwrap_or(0)));
        let kind = pools.types.get(name.as_str()).copied().flatten();
        put(&mut values, "serviceType", Some(kind.unwrap_or("ANY")));
    }
    put(&mut values, "cnameEntry", service.cname.as_ref().map(|at| &at.value));
    if let Some(naptr) = &service.naptr {
        put(&mut values, "naptrReplacement", Some(&naptr.replacement));
        put(&mut values, "naptrOrder", Some(naptr.order));
        put(&mut values, "naptrPreference", Some(naptr.preference));
        put(&mut values, "naptrServices", (!naptr.services.is_empty()).then_some(&naptr.services));
    }
    put(&mut values, "siteName", service.site.as_ref());
    put(&mut values, "maxClient", Some(service.max_connections));
    put(&mut values, "maxBandwidth", Some(service.max_bandwidth));
    put(&mut values, "hashId", service.hash_id);
    put(&mut values, "monThreshold", service.threshold.as_ref().map(|at| at.value));
    enabled(&mut values, service.enabled);
    make(store, Kind::Service, name, &values);
    if let Some(site) = &service.site {
        make(store, Kind::Site, site, &Values::new());
    }
    for (monitor, weight) in &service.monitors {
        let mut values = Values::new();
        put(&mut values, "weight", Some(weight));
        tie(store, Kind::Service, name, "monitorName", &monitor.value, values);
    }
    for (view, addresses) in &service.views {
        let mut values = Values::new();
        values.insert("viewIP", addresses.iter().map(|at| at.value.to_string()).collect());
        tie(store, Kind::Service, name, "viewName", view, values);
        make(store, Kind::DnsView, view, &Values::new());
    }
}

/// The type of a virtual server that names none: of what its services have, the first.
fn record_type(pools: &Pools<'_>, vserver: &Vserver) -> RecordType {
    if let Some(first) = vserver.types.as_ref().and_then(|types| types.first()) {
        return first.value;
    }
    let services =
        || vserver.services.iter().filter_map(|bound| pools.services.get(bound.service.value.as_str()));
    let has = |kind: RecordType| {
        services().any(|service| match kind {
            RecordType::Cname => service.cname.is_some(),
            RecordType::Naptr => service.naptr.is_some(),
            _ => service.addresses.iter().any(|at| kind.fits(at.value)),
        })
    };
    RecordType::ALL.into_iter().find(|kind| has(*kind)).unwrap_or(RecordType::A)
}

fn vserver(store: &mut Store, pools: &Pools<'_>, vserver: &Vserver) {
    let name = &vserver.head.name.value;
    let plain = &vserver.plain;
    let mut values = Values::new();
    put(&mut values, "serviceType", Some(vserver.service_type.as_deref().unwrap_or("ANY")));
    put(&mut values, "dnsRecordType", Some(record_type(pools, vserver)));
    let method = |method: crate::model::Method| theirs(&METHODS, method.name());
    put(&mut values, "lbMethod", vserver.method.as_ref().and_then(|at| method(at.value)));
    put(&mut values, "backupLBMethod", vserver.backup_method.as_ref().and_then(|at| method(at.value)));
    put(&mut values, "backupVServer", vserver.backup.as_ref().map(|at| &at.value));
    let flags = [
        plain.disable_primary_on_down,
        plain.multiple_ip_response,
        plain.empty_down_response,
        plain.ecs,
        plain.ecs_validation,
    ];
    for ((theirs, _), flag) in SWITCHES.into_iter().zip(flags) {
        put(&mut values, theirs, flag.then_some("ENABLED"));
    }
    put(&mut values, "considerEffectiveState", plain.effective_state.then_some("STATE_ONLY"));
    put(&mut values, "skippersistency", theirs(&SKIPS, plain.skip_persistency.name()));
    if plain.dynamic_weight != DynamicWeight::Disabled {
        put(&mut values, "dynamicWeight", theirs(&WEIGHTS, plain.dynamic_weight.name()));
    }
    put(&mut values, "netmask", Some(netmask(plain.hash_mask.0)));
    put(&mut values, "v6netmasklen", Some(plain.hash_mask.1));
    put(&mut values, "backupSessionTimeout", plain.backup_session_timeout.map(minutes));
    put(&mut values, "toggleOrder", plain.descending_order.then_some("DESCENDING"));
    put(&mut values, "orderThreshold", Some(plain.order_threshold));
    enabled(&mut values, plain.enabled);
    persistence(&mut values, plain.persistence.as_ref());
    spillover(&mut values, plain.spillover.as_ref());
    make(store, Kind::Vserver, name, &values);
    for bound in &vserver.services {
        let mut values = Values::new();
        put(&mut values, "weight", Some(bound.weight));
        put(&mut values, "order", bound.order);
        tie(store, Kind::Vserver, name, "serviceName", &bound.service.value, values);
    }
}

fn netmask(bits: u8) -> std::net::Ipv4Addr {
    let bits = u32::from(bits.clamp(1, 32));
    std::net::Ipv4Addr::from_bits(u32::MAX << (32 - bits))
}

fn minutes(time: std::time::Duration) -> String {
    (time.as_secs() / 60).to_string()
}

fn persistence(values: &mut Values, persistence: Option<&Persistence>) {
    let Some(persistence) = persistence else { return };
    put(values, "persistenceType", Some("SOURCEIP"));
    put(values, "persistMask", Some(netmask(persistence.mask)));
    put(values, "v6persistmasklen", Some(persistence.mask6));
    put(values, "timeout", Some(minutes(persistence.timeout)));
    put(values, "persistenceId", persistence.id);
}

fn spillover(values: &mut Values, spillover: Option<&Spillover>) {
    let Some(spillover) = spillover else { return };
    put(values, "soMethod", theirs(&SPILLOVERS, spillover.method.name()));
    put(values, "soThreshold", (spillover.threshold > 0).then_some(spillover.threshold));
    put(values, "soPersistence", spillover.persistence.then_some("ENABLED"));
    put(values, "soPersistenceTimeOut", Some(minutes(spillover.timeout)));
    put(values, "soBackupAction", theirs(&SPILL_ACTIONS, spillover.action.name()));
    put(values, "redirectURL", spillover.redirect.as_ref().map(|(url, _)| url));
}

fn domain(store: &mut Store, domain: &Domain) {
    let Some(name) = &domain.dns else { return };
    if store.get(Kind::Vserver, &domain.vserver.value).is_none() {
        return;
    }
    let mut values = Values::new();
    put(&mut values, "TTL", domain.ttl);
    if !domain.backup_ip.is_empty() {
        values.insert("backupIP", domain.backup_ip.iter().map(|at| at.value.to_string()).collect());
    }
    tie(store, Kind::Vserver, &domain.vserver.value, "domainName", &name.to_string(), values);
}

fn action(store: &mut Store, action: &Action) {
    let mut values = Values::new();
    let kind = match &action.payload {
        Payload::Preferred(list) => {
            values.insert("preferredLocList", list.iter().map(|at| at.value.to_string()).collect());
            "GslbPrefLoc"
        }
        Payload::View(view) => {
            put(&mut values, "viewName", Some(&view.value));
            make(store, Kind::DnsView, &view.value, &Values::new());
            "ViewName"
        }
        Payload::Rewrite(addresses, ttl) => {
            values.insert("IPAddress", addresses.iter().map(ToString::to_string).collect());
            put(&mut values, "TTL", Some(ttl));
            "Rewrite_Response"
        }
        Payload::Drop => "Drop",
        Payload::CacheBypass => "Cache_Bypass",
        Payload::Noop => "noop",
    };
    put(&mut values, "actionType", Some(kind));
    let name = &action.head.name.value;
    // What is there without a command is made when a policy uses it.
    let built_in =
        super::refer::is_built_in(Kind::DnsAction, name) && matches!(kind, "Drop" | "Cache_Bypass");
    if !built_in {
        make(store, Kind::DnsAction, name, &values);
    }
}

fn policy(store: &mut Store, policy: &Policy) {
    let name = &policy.head.name.value;
    let mut values = Values::new();
    put(&mut values, "rule", Some(&policy.rule_text.value));
    put(&mut values, "actionName", Some(&policy.action.value));
    make(store, Kind::DnsPolicy, name, &values);
    for bind in &policy.binds {
        let mut values = Values::new();
        put(&mut values, "priority", Some(bind.priority.value));
        put(&mut values, "gotoPriorityExpression", bind.goto.as_ref().map(|at| at.value));
        if let Some(label) = &bind.invoke {
            values.insert("invoke", vec!["policylabel".to_owned(), label.value.clone()]);
            make(store, Kind::PolicyLabel, &label.value, &label_values());
        }
        match &bind.point {
            Point::Global(point) => {
                let point = match point {
                    BindPoint::RequestOverride => "REQ_OVERRIDE",
                    BindPoint::ResponseOverride => "RES_OVERRIDE",
                    BindPoint::Response => "RES_DEFAULT",
                    _ => "REQ_DEFAULT",
                };
                put(&mut values, "type", Some(point));
                tie(store, Kind::DnsGlobal, "", "policyName", name, values);
            }
            Point::Vserver(vserver, is_response) => {
                put(&mut values, "type", is_response.then_some("RESPONSE"));
                if store.get(Kind::Vserver, &vserver.value).is_some() {
                    tie(store, Kind::Vserver, &vserver.value, "policyName", name, values);
                }
            }
            Point::Label(label) => {
                make(store, Kind::PolicyLabel, label, &label_values());
                tie(store, Kind::PolicyLabel, label, "policyName", name, values);
            }
        }
    }
}

fn label_values() -> Values {
    let mut values = Values::new();
    put(&mut values, "transform", Some("dns_req"));
    values
}
