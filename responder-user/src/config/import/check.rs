//! What is wrong with objects as a whole: references that lead nowhere, options that do not go together, loops.

use std::{collections::HashMap, net::IpAddr};

use super::{
    kind::Kind,
    objects::{Object, Store, fold},
    refer, value,
};

/// Something wrong, with the line that said it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trouble {
    pub(super) line: usize,
    pub(super) text: String,
}

/// What is refused, and what surprises.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Trouble>,
    pub(super) warnings: Vec<Trouble>,
}

impl Findings {
    fn error(&mut self, line: usize, text: String) {
        self.errors.push(Trouble { line, text });
    }

    fn warning(&mut self, line: usize, text: String) {
        self.warnings.push(Trouble { line, text });
    }
}

/// Looks at everything.
pub(super) fn check(store: &Store) -> Findings {
    let mut out = Findings::default();
    references(store, &mut out);
    for vserver in store.all(Kind::Vserver) {
        self::vserver(store, vserver, &mut out);
    }
    loops(store, &mut out);
    domains(store, &mut out);
    for service in store.all(Kind::Service) {
        self::service(store, service, &mut out);
    }
    for monitor in store.all(Kind::Monitor) {
        self::monitor(monitor, &mut out);
    }
    for lb in store.all(Kind::LbVserver) {
        load_balancer(lb, &mut out);
    }
    for action in store.all(Kind::DnsAction) {
        self::action(action, &mut out);
    }
    for policy in store.all(Kind::DnsPolicy) {
        if policy.given("actionName").is_none() {
            let text = format!("dns policy {} has no action and does nothing", policy.name);
            out.warning(policy.line_of("actionName"), text);
        }
    }
    for location in store.all(Kind::Location) {
        if location.given("longitude").is_some() != location.given("latitude").is_some() {
            let text = format!(
                "location {}: longitude without latitude says nothing and is left out",
                location.name
            );
            out.warning(location.line, text);
        }
    }
    out.errors.sort();
    out.warnings.sort();
    out
}

fn references(store: &Store, out: &mut Findings) {
    for reference in refer::all(store) {
        let refer::Reference { from, key, kinds, name, line } = reference;
        let is_there =
            kinds.iter().any(|kind| store.get(*kind, &name).is_some() || refer::is_built_in(*kind, &name));
        if !is_there {
            out.error(line, format!("{from}: No such resource [{key}, {name}]"));
        }
    }
}

/// The address that a service is told to have: its own, or that of its server.
pub(super) fn address_of(store: &Store, named: &str) -> Option<IpAddr> {
    named.parse().ok().or_else(|| store.get(Kind::Server, named)?.given("IPAddress")?.parse().ok())
}

/// The addresses that a service answers with: the public one, else its own (spec/netscaler.md 0).
pub(super) fn answers(store: &Store, service: &Object) -> Vec<IpAddr> {
    match service.given("publicIP").and_then(|ip| ip.parse().ok()) {
        Some(public) => vec![public],
        None => service.all("IPAddress").iter().filter_map(|ip| address_of(store, ip)).collect(),
    }
}

fn record_type(vserver: &Object) -> &str {
    vserver.given("dnsRecordType").unwrap_or("A")
}

fn vserver(store: &Store, vserver: &Object, out: &mut Findings) {
    let name = format!("gslb vserver {}", vserver.name);
    let line_of = |key: &str| vserver.line_of(key);
    let method = vserver.given("lbMethod").unwrap_or("LEASTCONNECTION");
    if vserver.given("backupLBMethod").is_some() && !["RTT", "STATICPROXIMITY"].contains(&method) {
        out.warning(
            line_of("backupLBMethod"),
            format!("{name}: backupLBMethod needs RTT or STATICPROXIMITY; it has no effect with {method}"),
        );
    }
    let service_type = vserver.given("serviceType").unwrap_or("ANY");
    let skip_line = line_of("skippersistency");
    if vserver.given("skippersistency").is_some() && skip_line > 0 && !["ANY", "UDP"].contains(&service_type)
    {
        out.error(
            skip_line,
            format!("{name}: skippersistency is for the types ANY and UDP, not {service_type}"),
        );
    }
    match (vserver.given("soMethod"), vserver.number("soThreshold")) {
        (None | Some("DYNAMICCONNECTION"), _) => {}
        (Some(so), None) => {
            out.error(line_of("soMethod"), format!("{name}: soMethod {so} needs soThreshold"));
        }
        (Some("HEALTH"), Some(percent)) if percent > 100 => {
            out.error(
                line_of("soThreshold"),
                format!("{name}: soThreshold: {percent} is not in the range 1..100 of percent"),
            );
        }
        _ => {}
    }
    if vserver.number("backupSessionTimeout") == Some(1) {
        let line = line_of("backupSessionTimeout");
        out.error(line, format!("{name}: backupSessionTimeout: 1 is not in the range 2..1440; 0 is off"));
    }
    if vserver.given("soBackupAction") == Some("REDIRECT") && vserver.given("redirectURL").is_none() {
        out.warning(
            line_of("soBackupAction"),
            format!("{name}: soBackupAction REDIRECT without a redirectURL drops what nobody takes"),
        );
    }
    if let Some(backup) = vserver.given("backupVServer").and_then(|backup| store.get(Kind::Vserver, backup)) {
        let (own, other) = (record_type(vserver), record_type(backup));
        if own != other && fold(&backup.name) != fold(&vserver.name) {
            out.error(
                line_of("backupVServer"),
                format!("{name}: backupVServer {} answers type {other}, not {own}", backup.name),
            );
        }
    }
    for bound in vserver.bound_of("serviceName") {
        let Some(service) = store.get(Kind::Service, &bound.name) else { continue };
        let has = |family: fn(&IpAddr) -> bool| answers(store, service).iter().any(family);
        let fits = match record_type(vserver) {
            "A" => has(IpAddr::is_ipv4),
            "AAAA" => has(IpAddr::is_ipv6),
            "CNAME" => service.given("cnameEntry").is_some(),
            _ => service.given("naptrReplacement").is_some(),
        };
        if !fits && bound.line > 0 {
            out.error(
                bound.line,
                format!("{name}: service {} has nothing of type {}", service.name, record_type(vserver)),
            );
        }
    }
}

/// Reports every loop of backups once.
fn loops(store: &Store, out: &mut Findings) {
    let mut done: HashMap<String, usize> = HashMap::new();
    for (walk, start) in store.all(Kind::Vserver).enumerate() {
        let mut path = vec![start];
        done.entry(fold(&start.name)).or_insert(walk);
        while let Some(next) = path
            .last()
            .and_then(|at| at.given("backupVServer"))
            .and_then(|name| store.get(Kind::Vserver, name))
        {
            let seen = *done.entry(fold(&next.name)).or_insert(walk);
            path.push(next);
            if let Some(begin) =
                path[..path.len() - 1].iter().position(|other| fold(&other.name) == fold(&next.name))
            {
                let chain: Vec<&str> = path[begin..].iter().map(|object| object.name.as_str()).collect();
                let line =
                    path[begin..].iter().map(|object| object.line_of("backupVServer")).max().unwrap_or(0);
                out.error(line, format!("backupVServer: the backup chain is a loop: {}", chain.join(" -> ")));
                break;
            }
            if seen != walk {
                break;
            }
        }
    }
}

/// A name and type has one virtual server.
fn domains(store: &Store, out: &mut Findings) {
    let mut taken: HashMap<(String, &str), &str> = HashMap::new();
    for vserver in store.all(Kind::Vserver) {
        for bound in vserver.bound_of("domainName") {
            let key = (fold(bound.name.trim_end_matches('.')), record_type(vserver));
            let first = *taken.entry(key).or_insert(&vserver.name);
            if first != vserver.name && bound.line > 0 {
                let text = format!(
                    "gslb vserver {}: domainName {} is bound to {first} already",
                    vserver.name, bound.name
                );
                out.error(bound.line, text);
            }
            let family = match (
                record_type(vserver),
                bound.given("backupIP").and_then(|ip| ip.parse::<IpAddr>().ok()),
            ) {
                ("A", Some(ip)) if ip.is_ipv6() => "AAAA",
                ("AAAA", Some(ip)) if ip.is_ipv4() => "A",
                _ => continue,
            };
            if bound.line > 0 {
                let text =
                    format!("gslb vserver {}: backupIP of {} is of type {family}", vserver.name, bound.name);
                out.error(bound.line, text);
            }
        }
    }
}

fn service(store: &Store, service: &Object, out: &mut Findings) {
    let name = format!("gslb service {}", service.name);
    if let Some(server) = service.given("IPAddress").and_then(|named| store.get(Kind::Server, named))
        && address_of(store, &server.name).is_none()
        && service.given("publicIP").is_none()
    {
        let text = format!(
            "server {} is a domain name; a GSLB service needs an address or a cnameEntry",
            server.name
        );
        out.error(service.line, format!("{name}: {text}"));
    }
    if service.all("IPAddress").is_empty()
        && service.given("cnameEntry").is_none()
        && service.given("naptrReplacement").is_none()
    {
        out.error(service.line, format!("{name}: argument is missing [IPAddress]"));
    }
    let port = service.given("port").unwrap_or("0");
    if port != "*" && port.parse::<u16>().is_err() {
        out.error(service.line_of("port"), format!("{name}: port: {port} is not in the range 1..65535"));
    }
    let weights: u64 = service.bound_of("monitorName").map(|bound| bound.number("weight").unwrap_or(1)).sum();
    if let Some(threshold) =
        service.number("monThreshold").filter(|threshold| *threshold > weights && service.last_line() > 0)
    {
        let text = format!(
            "monThreshold {threshold} can never be reached: the weights of the monitors add up to {weights}"
        );
        out.warning(service.line_of("monThreshold"), format!("{name}: {text}; it is left out"));
    }
    let own = service.given("IPAddress").and_then(|named| address_of(store, named));
    let public = service.given("publicIP").and_then(|ip| ip.parse().ok());
    if public.is_some() && public != own && service.bound_of("monitorName").next().is_some() {
        out.warning(
            service.line,
            format!("{name}: monitors ask the public address, which is the one that is answered"),
        );
    }
}

fn monitor(monitor: &Object, out: &mut Findings) {
    let name = format!("lb monitor {}", monitor.name);
    if monitor.last_line() == 0 {
        return;
    }
    let kind = monitor.given("type").unwrap_or_default();
    if kind == "LOAD" && monitor.line > 0 && monitor.given("metricTable").is_none() {
        out.error(monitor.line, format!("{name}: argument is missing [metricTable]"));
    }
    if kind == "LOAD" && monitor.bound.is_empty() {
        out.warning(
            monitor.line,
            format!("{name}: no metric is bound; it withdraws nothing and is left out"),
        );
    }
    let time = |key: &str, default: u64| match monitor.all(key) {
        [] => default,
        list => value::milliseconds(list),
    };
    let interval = time("interval", 5000);
    if interval < 10 {
        out.error(monitor.line_of("interval"), format!("{name}: interval is below 10 MSEC"));
    }
    if monitor.given("resptimeout").is_some() && time("resptimeout", 2000) > interval {
        out.error(monitor.line_of("resptimeout"), format!("{name}: resptimeout is above the interval"));
    }
    if let Some(request) = monitor.given("httpRequest")
        && http_request(request).is_none()
    {
        let text = format!("httpRequest: {request} is no request, such as \"GET /health\"; GET / is asked");
        out.warning(monitor.line_of("httpRequest"), format!("{name}: {text}"));
    }
}

/// Method and path of `GET /health`.
pub(super) fn http_request(text: &str) -> Option<(&str, &str)> {
    let (method, path) = text.split_once(' ')?;
    let path = path.trim().split(' ').next()?;
    (path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic())).then_some((method, path))
}

fn load_balancer(lb: &Object, out: &mut Findings) {
    let line = lb.line_of("skippersistency");
    let Some(skip) = lb.given("skippersistency").filter(|_| line > 0) else { return };
    let name = format!("lb vserver {}", lb.name);
    let kind = lb.given("serviceType").unwrap_or_default();
    if !["ANY", "UDP"].iter().any(|fits| fits.eq_ignore_ascii_case(kind)) {
        out.error(line, format!("{name}: skippersistency is for the types ANY and UDP, not {kind}"));
    }
    if skip == "Bypass" && (lb.given("IPAddress") != Some("*") || lb.given("port") != Some("*")) {
        out.error(line, format!("{name}: skippersistency Bypass is for wildcard virtual servers, * *"));
    }
}

fn action(action: &Object, out: &mut Findings) {
    let name = format!("dns action {}", action.name);
    let kind = action.given("actionType").unwrap_or_default();
    let payload = match kind {
        "GslbPrefLoc" => Some("preferredLocList"),
        "ViewName" => Some("viewName"),
        "Rewrite_Response" => Some("IPAddress"),
        _ => None,
    };
    if let Some(key) = payload.filter(|key| action.given(key).is_none()) {
        out.error(action.line, format!("{name}: argument is missing [{key}]"));
    }
    for key in ["preferredLocList", "viewName", "IPAddress"] {
        if action.given(key).is_some() && payload != Some(key) {
            out.error(action.line_of(key), format!("{name}: {key} does not go with {kind}"));
        }
    }
    if kind == "Rewrite_Response" && action.number("TTL") == Some(0) {
        out.warning(action.line, format!("{name}: a TTL of 0 is answered as 1"));
    }
}
