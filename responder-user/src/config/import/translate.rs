//! From the objects to a configuration of ours: what has a meaning here, in the words of `responder.toml`.

use std::{collections::HashMap, net::IpAddr};

use super::{
    check::{address_of, answers, http_request},
    doc::{Doc, Row, V},
    kind::Kind,
    objects::{Object, Store, Values, fold},
    refer, value, zone,
};

/// What objects become.
#[derive(Default)]
pub(super) struct Translated {
    pub(super) doc: Doc,
    /// Master files: name beside the configuration, and text.
    pub(super) files: Vec<(String, String)>,
    /// What was left out, and why: line and text.
    pub(super) warnings: Vec<(usize, String)>,
}

/// Translates everything. `find` says under which path a location file can be read, if it can.
pub(super) fn translate(store: &Store, find: &dyn Fn(&str) -> Option<String>) -> Translated {
    let mut out = Translated::default();
    listen(store, &mut out);
    locations(store, find, &mut out);
    zone::zones(store, &mut out);
    monitors(store, &mut out);
    for service in store.all(Kind::Service) {
        out.doc.rows.push(self::service(store, service));
    }
    for vserver in store.all(Kind::Vserver) {
        let row = self::vserver(store, vserver, &mut out);
        out.doc.rows.push(row);
    }
    for vserver in store.all(Kind::Vserver) {
        domains(vserver, &mut out);
    }
    actions(store, &mut out);
    policies(store, &mut out);
    out
}

/// The name of an object as it was added: references may differ in case.
fn named(store: &Store, kind: Kind, name: &str) -> String {
    store.get(kind, name).map_or_else(|| name.to_owned(), |object| object.name.clone())
}

fn strings<S: Into<String>>(list: impl IntoIterator<Item = S>) -> V {
    V::L(list.into_iter().map(|text| V::S(text.into())).collect())
}

/// One value alone, several as a list.
fn one_or_list(list: Vec<V>) -> Option<V> {
    match list.len() {
        0 => None,
        1 => list.into_iter().next(),
        _ => Some(V::L(list)),
    }
}

fn texts(list: &[IpAddr]) -> Vec<V> {
    list.iter().map(|address| V::S(address.to_string())).collect()
}

fn listen(store: &Store, out: &mut Translated) {
    let mut all: Vec<String> = Vec::new();
    for service in store.all(Kind::Adns) {
        let address = service.given("IPAddress").and_then(|named| address_of(store, named));
        let port = service.number("port").unwrap_or(53) as u16;
        if let Some(address) = address.map(|ip| std::net::SocketAddr::new(ip, port).to_string())
            && !all.contains(&address)
        {
            all.push(address);
        }
    }
    if !all.is_empty() {
        out.doc.tables.push(("listen", vec![("addresses", strings(all))]));
    }
}

fn locations(store: &Store, find: &dyn Fn(&str) -> Option<String>, out: &mut Translated) {
    let mut fields = Vec::new();
    if let Some(parameter) = store.get(Kind::LocationParameter, "") {
        if let Some(context) = parameter.given("context") {
            fields.push(("context", V::S(context.to_owned())));
        }
        if let Some(any) = parameter.given("matchWildcardtoany") {
            fields.push(("wildcard_matches_any", V::S(any.to_ascii_lowercase())));
        }
    }
    let mut files = Vec::new();
    for kind in [Kind::LocationFile, Kind::LocationFile6] {
        let Some(file) = store.get(kind, "") else { continue };
        let typed = file.given("Locationfile").unwrap_or_default();
        let default = if kind == Kind::LocationFile { "netscaler" } else { "netscaler6" };
        if let Some(path) = find(typed) {
            let format = file.given("format").unwrap_or(default);
            files.push(V::T(vec![("path", V::S(path)), ("format", format.into())]));
        } else {
            let text = format!(
                "location file {typed} cannot be read here and is left out: addresses of no custom location have none"
            );
            out.warnings.push((file.line, text));
        }
    }
    if !files.is_empty() {
        fields.push(("files", V::L(files)));
    }
    let custom: Vec<V> = store.all(Kind::Location).map(location).collect();
    if !custom.is_empty() {
        fields.push(("custom", V::L(custom)));
    }
    if !fields.is_empty() {
        out.doc.tables.push(("location", fields));
    }
}

fn location(object: &Object) -> V {
    let of = |key: &str| object.given(key).unwrap_or_default();
    let (first, last) = (of("IPfrom"), of("IPto"));
    let range = if first == last { first.to_owned() } else { format!("{first}-{last}") };
    let mut fields = vec![("range", V::S(range)), ("location", of("preferredLocation").into())];
    if let (Some(longitude), Some(latitude)) = (object.given("longitude"), object.given("latitude")) {
        for (key, text) in [("longitude", longitude), ("latitude", latitude)] {
            let number = text.parse().map(V::I).or_else(|_| text.parse().map(V::F));
            fields.extend(number.ok().map(|number| (key, number)));
        }
    }
    V::T(fields)
}

/// What a type of monitor is here.
fn monitor_type(monitor: &Object) -> Option<&'static str> {
    let is_secure = monitor.given("secure") == Some("YES");
    Some(match monitor.given("type")? {
        "HTTP" | "HTTP-ECV" | "HTTP-INLINE" if is_secure => "https",
        "HTTP" | "HTTP-ECV" | "HTTP-INLINE" => "http",
        "SECURE_HTTP" => "https",
        "TCP" | "TCP-ECV" => "tcp",
        "PING" => "ping",
        "DNS" | "DNS-TCP" => "dns",
        "UDP-ECV" => "udp",
        "FTP" | "FTP-EXTENDED" => "ftp",
        "LDAP" => "ldap",
        "MYSQL" | "MYSQL-ECV" => "mysql",
        "USER" => "exec",
        "LOAD" if !monitor.bound.is_empty() => "load",
        "GRPC" => "grpc",
        "POSTGRESQL" => "postgresql",
        "PUSH" => "push",
        "RESPONDER" => "responder",
        _ => return None,
    })
}

/// The monitors that are there without a command and are bound to a service.
fn built_in(store: &Store) -> Vec<Object> {
    let mut out: Vec<Object> = Vec::new();
    let watched = store.all(Kind::Service).filter(|service| service.given("healthMonitor") != Some("NO"));
    for bound in watched.flat_map(|service| service.bound_of("monitorName")) {
        let is_new = store.get(Kind::Monitor, &bound.name).is_none()
            && refer::is_built_in(Kind::Monitor, &bound.name)
            && !out.iter().any(|other| fold(&other.name) == fold(&bound.name));
        if !is_new {
            continue;
        }
        let name = fold(&bound.name);
        let values = built_in_values(&name);
        out.push(Object { name, values, ..Object::default() });
    }
    out
}

/// What a monitor says that is there without a command.
pub(super) fn built_in_values(name: &str) -> Values {
    let name = fold(name);
    let stem = name.trim_end_matches("-default").trim_end_matches("-ecv");
    let kind = if stem == "https" { "HTTP".to_owned() } else { stem.to_ascii_uppercase() };
    let mut values = Values::new();
    values.insert("type", vec![if kind == "UDP" { "UDP-ECV".to_owned() } else { kind }]);
    if stem == "https" {
        values.insert("secure", vec!["YES".to_owned()]);
    }
    values
}

fn monitors(store: &Store, out: &mut Translated) {
    for monitor in store.all(Kind::Monitor).chain(&built_in(store)) {
        let Some(kind) = monitor_type(monitor) else {
            if monitor.line > 0 && monitor.given("type") != Some("LOAD") {
                let kind = monitor.given("type").unwrap_or_default();
                let text = format!(
                    "lb monitor {}: type {kind} is not run here: services count as if they lacked it",
                    monitor.name
                );
                out.warnings.push((monitor.line, text));
            }
            continue;
        };
        let row = self::monitor(store, monitor, kind, out);
        out.doc.rows.push(row);
    }
}

fn monitor(store: &Store, monitor: &Object, kind: &'static str, out: &mut Translated) -> Row {
    let mut row = Row::new("monitor", monitor.name.as_str());
    row.set("type", kind);
    if kind.starts_with("http") {
        let request = monitor.given("httpRequest").and_then(http_request);
        if let Some((method, path)) = request {
            row.put("path", Some(path).filter(|path| *path != "/"));
            if !method.eq_ignore_ascii_case("GET") && monitor.line > 0 {
                let text = format!("lb monitor {}: httpRequest: GET is sent, not {method}", monitor.name);
                out.warnings.push((monitor.line, text));
            }
        }
        row.put("host", host(monitor));
        let codes = monitor.all("respCode");
        // NetScaler takes 200 alone, unless it is told otherwise.
        row.set("expect", if codes.is_empty() { strings(["200"]) } else { strings(codes.iter().cloned()) });
    }
    if kind == "tcp" && monitor.given("secure") == Some("YES") && monitor.line > 0 {
        let text = format!("lb monitor {}: secure: the connection is opened, without TLS", monitor.name);
        out.warnings.push((monitor.line, text));
    }
    for key in
        ["send", "recv", "destIP"].into_iter().filter(|key| monitor.given(key).is_some() && monitor.line > 0)
    {
        out.warnings.push((monitor.line, format!("lb monitor {}: {key} has no effect yet", monitor.name)));
    }
    if kind == "load" {
        load(store, monitor, &mut row);
    }
    let time = |key: &str| Some(monitor.all(key)).filter(|list| !list.is_empty()).map(duration);
    row.put("interval", time("interval"));
    row.put("timeout", time("resptimeout"));
    row.put("rise", monitor.number("successRetries"));
    row.put("fall", monitor.number("failureRetries").filter(|n| *n > 0).or(monitor.number("retries")));
    row.put("port", monitor.number("destPort"));
    row.put("state", monitor.given("state").map(|_| "disabled"));
    row
}

fn duration(list: &[String]) -> String {
    let all = value::milliseconds(list);
    if all.is_multiple_of(1000) { format!("{}s", all / 1000) } else { format!("{all}ms") }
}

/// The Host header among the custom ones.
fn host(monitor: &Object) -> Option<String> {
    let headers = monitor.given("customHeaders")?.replace("\\r\\n", "\n").replace('\r', "\n");
    let (_, host) = headers
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case("host"))?;
    let host = host.trim();
    (!host.is_empty() && host.chars().all(|c| c.is_ascii_graphic() && c != '/')).then(|| host.to_owned())
}

fn load(store: &Store, monitor: &Object, row: &mut Row) {
    let table = monitor.given("metricTable");
    let oids = table.and_then(|name| store.get(Kind::MetricTable, name));
    match table {
        Some(name) if name.eq_ignore_ascii_case("LOCAL") => row.set("source", "push"),
        Some(_) => row.set("source", "snmp"),
        None => {}
    }
    let metric = |bound: &super::Bound| {
        let mut fields = vec![("name", V::S(bound.name.clone()))];
        let known =
            oids.and_then(|table| table.bound_of("metric").find(|m| fold(&m.name) == fold(&bound.name)));
        fields.extend(known.and_then(|m| m.given("SnmpOID")).map(|oid| ("oid", oid.into())));
        fields.extend(bound.number("metricThreshold").map(|n| ("threshold", n.into())));
        fields.extend(bound.number("metricWeight").map(|n| ("weight", n.into())));
        V::T(fields)
    };
    row.set("metrics", V::L(monitor.bound_of("metric").map(metric).collect()));
}

fn service(store: &Store, service: &Object) -> Row {
    let mut row = Row::new("service", service.name.as_str());
    row.put("address", one_or_list(texts(&answers(store, service))));
    row.put("cname", service.given("cnameEntry"));
    if let Some(replacement) = service.given("naptrReplacement") {
        let mut fields = Vec::new();
        for (key, from) in [("order", "naptrOrder"), ("preference", "naptrPreference")] {
            fields.extend(service.number(from).map(|n| (key, V::from(n))));
        }
        fields.extend(service.given("naptrServices").map(|text| ("services", text.into())));
        fields.push(("replacement", replacement.into()));
        row.set("naptr", V::T(fields));
    }
    let port = service.number("publicPort").or(service.number("port")).filter(|port| *port > 0);
    row.put("port", port);
    row.put("site", service.given("siteName").map(|site| named(store, Kind::Site, site)));
    let is_watched = service.given("healthMonitor") != Some("NO");
    let mut weights = 0;
    if is_watched {
        let mut bound = Vec::new();
        for one in service.bound_of("monitorName") {
            let monitor = store.get(Kind::Monitor, &one.name);
            let runs = monitor.is_none_or(|monitor| monitor_type(monitor).is_some());
            if one.given("monState").is_some() || !runs {
                continue;
            }
            let name = monitor.map_or_else(|| fold(&one.name), |monitor| monitor.name.clone());
            weights += one.number("weight").unwrap_or(1);
            bound.push(match one.number("weight") {
                Some(weight) => V::T(vec![("name", V::S(name)), ("weight", weight.into())]),
                None => V::S(name),
            });
        }
        if !bound.is_empty() {
            row.set("monitors", V::L(bound));
        }
    }
    row.put("monitor_threshold", service.number("monThreshold").filter(|threshold| *threshold <= weights));
    row.put("max_connections", service.number("maxClient"));
    row.put("max_bandwidth", service.number("maxBandwidth"));
    row.put("hash_id", service.number("hashId"));
    let mut views: Vec<(String, V)> = Vec::new();
    for bound in service.bound_of("viewName") {
        let list = bound.all("viewIP").iter().map(|ip| V::S(ip.clone())).collect();
        views.extend(one_or_list(list).map(|list| (named(store, Kind::DnsView, &bound.name), list)));
    }
    if !views.is_empty() {
        row.set("views", V::M(views));
    }
    row.put("state", Some("disabled").filter(|_| !is_enabled(store, service)));
    row
}

/// Neither the service nor its server is disabled.
fn is_enabled(store: &Store, service: &Object) -> bool {
    let server = service.given("IPAddress").and_then(|named| store.get(Kind::Server, named));
    service.is_on(Kind::Service, "state") && server.is_none_or(|server| server.is_on(Kind::Server, "state"))
}

/// A word of NetScaler in ours.
fn word(words: &[(&'static str, &'static str)], typed: Option<&str>) -> Option<&'static str> {
    words.iter().find(|(theirs, _)| Some(*theirs) == typed).map(|(_, ours)| *ours)
}

/// lbMethod.
pub(super) const METHODS: [(&str, &str); 10] = [
    ("ROUNDROBIN", "round-robin"),
    ("LEASTCONNECTION", "least-connection"),
    ("LEASTRESPONSETIME", "least-response-time"),
    ("LEASTBANDWIDTH", "least-bandwidth"),
    ("LEASTPACKETS", "least-packets"),
    ("SOURCEIPHASH", "source-ip-hash"),
    ("STATICPROXIMITY", "static-proximity"),
    ("RTT", "rtt"),
    ("CUSTOMLOAD", "custom-load"),
    ("API", "api"),
];

/// soMethod.
pub(super) const SPILLOVERS: [(&str, &str); 4] = [
    ("CONNECTION", "connection"),
    ("DYNAMICCONNECTION", "dynamic-connection"),
    ("BANDWIDTH", "bandwidth"),
    ("HEALTH", "health"),
];

/// soBackupAction; the last two have no word in NetScaler.
pub(super) const SPILL_ACTIONS: [(&str, &str); 5] = [
    ("DROP", "drop"),
    ("ACCEPT", "accept"),
    ("REDIRECT", "redirect"),
    ("EMPTY", "empty"),
    ("REFUSED", "refused"),
];

/// skippersistency.
pub(super) const SKIPS: [(&str, &str); 2] = [("ReLb", "rebalance"), ("Bypass", "bypass")];

/// dynamicWeight.
pub(super) const WEIGHTS: [(&str, &str); 2] =
    [("SERVICECOUNT", "service-count"), ("SERVICEWEIGHT", "service-weight")];

/// Options that are true or false here.
pub(super) const SWITCHES: [(&str, &str); 5] = [
    ("disablePrimaryOnDown", "disable_primary_on_down"),
    ("MIR", "multiple_ip_response"),
    ("EDR", "empty_down_response"),
    ("ECS", "ecs"),
    ("ecsAddrValidation", "ecs_validation"),
];

fn vserver(store: &Store, vserver: &Object, out: &mut Translated) -> Row {
    let mut row = Row::new("vserver", vserver.name.as_str());
    row.set("service_type", vserver.given("serviceType").unwrap_or("ANY"));
    row.set("types", strings([vserver.given("dnsRecordType").unwrap_or("A")]));
    row.put("method", word(&METHODS, vserver.given("lbMethod").or(Some("LEASTCONNECTION"))));
    row.put("backup_method", word(&METHODS, vserver.given("backupLBMethod")));
    let bound = |one: &super::Bound| {
        let name = V::S(named(store, Kind::Service, &one.name));
        let mut fields = vec![("name", name.clone())];
        fields.extend(one.number("weight").map(|n| ("weight", n.into())));
        fields.extend(one.number("order").map(|n| ("order", n.into())));
        if fields.len() == 1 { name } else { V::T(fields) }
    };
    row.set("services", V::L(vserver.bound_of("serviceName").map(bound).collect()));
    row.put("backup", vserver.given("backupVServer").map(|name| named(store, Kind::Vserver, name)));
    for (theirs, ours) in SWITCHES {
        row.put(ours, vserver.given(theirs).map(|_| true));
    }
    row.put("effective_state", vserver.given("considerEffectiveState").map(|_| "state-only"));
    row.put("skip_persistency", word(&SKIPS, skip(store, vserver, out).as_deref()));
    row.put("persistence", persistence(vserver));
    row.put("backup_session_timeout", minutes(vserver, "backupSessionTimeout"));
    row.put("spillover", spillover(vserver));
    row.put("dynamic_weight", word(&WEIGHTS, vserver.given("dynamicWeight")));
    row.put("hash_mask", mask(vserver, "netmask"));
    row.put("hash_mask6", vserver.number("v6netmasklen"));
    row.put("toggle_order", vserver.given("toggleOrder").map(|_| "descending"));
    row.put("order_threshold", vserver.number("orderThreshold"));
    row.put("state", vserver.given("state").map(|_| "disabled"));
    row
}

fn mask(vserver: &Object, key: &str) -> Option<u64> {
    value::mask(vserver.given(key)?).ok().map(u64::from)
}

/// Its own setting, else that of the `lb vserver` that a bound service stands for, by address and port
/// (spec/netscaler.md 0.1 no. 8).
fn skip(store: &Store, vserver: &Object, out: &mut Translated) -> Option<String> {
    if let Some(own) = vserver.given("skippersistency") {
        return Some(own.to_owned());
    }
    if !["ANY", "UDP"].contains(&vserver.given("serviceType").unwrap_or("ANY")) {
        return None;
    }
    let behind = |service: &Object| {
        let address = service.given("IPAddress").and_then(|named| address_of(store, named))?;
        let is_it = |lb: &&Object| {
            lb.given("IPAddress").and_then(|ip| ip.parse().ok()) == Some(address)
                && lb.given("port") == service.given("port")
        };
        let lb = store.all(Kind::LbVserver).find(is_it)?;
        Some((lb.name.clone(), lb.given("skippersistency")?.to_owned()))
    };
    let mut services =
        vserver.bound_of("serviceName").filter_map(|bound| store.get(Kind::Service, &bound.name));
    let (lb, skip) = services.find_map(behind)?;
    let text = format!(
        "gslb vserver {}: skippersistency {skip} is that of lb vserver {lb}, for which a service stands",
        vserver.name
    );
    if vserver.line > 0 {
        out.warnings.push((vserver.line, text));
    }
    Some(skip)
}

fn minutes(object: &Object, key: &str) -> Option<V> {
    object.number(key).map(|n| V::S(format!("{n}m")))
}

fn persistence(vserver: &Object) -> Option<V> {
    vserver.given("persistenceType")?;
    let mut fields = vec![("type", V::from("source-ip"))];
    fields.extend(mask(vserver, "persistMask").map(|bits| ("mask", bits.into())));
    fields.extend(vserver.number("v6persistmasklen").map(|bits| ("mask6", bits.into())));
    fields.extend(minutes(vserver, "timeout").map(|timeout| ("timeout", timeout)));
    fields.extend(vserver.number("persistenceId").map(|id| ("id", id.into())));
    Some(V::T(fields))
}

fn spillover(vserver: &Object) -> Option<V> {
    let method = vserver.given("soMethod")?;
    let mut fields = vec![("method", V::from(word(&SPILLOVERS, Some(method))?))];
    if method != "DYNAMICCONNECTION" {
        fields.push(("threshold", vserver.number("soThreshold")?.into()));
    }
    fields.extend(vserver.given("soPersistence").map(|_| ("persistence", V::B(true))));
    fields.extend(minutes(vserver, "soPersistenceTimeOut").map(|timeout| ("timeout", timeout)));
    let redirect = vserver.given("redirectURL");
    // Without a URL what nobody takes is dropped, as the default is (spec/netscaler.md 0.1 no. 1).
    let action = vserver.given("soBackupAction").filter(|action| *action != "REDIRECT" || redirect.is_some());
    fields.extend(word(&SPILL_ACTIONS, action).map(|action| ("action", action.into())));
    fields.extend(redirect.map(|url| ("redirect", url.into())));
    Some(V::T(fields))
}

fn domains(vserver: &Object, out: &mut Translated) {
    for bound in vserver.bound_of("domainName") {
        let mut row = Row::new("domain", bound.name.as_str());
        row.ids = &["name", "vserver"];
        row.set("vserver", vserver.name.as_str());
        row.put("ttl", bound.number("TTL"));
        row.put("backup_ip", one_or_list(bound.all("backupIP").iter().map(|ip| V::S(ip.clone())).collect()));
        out.doc.rows.push(row);
    }
}

/// Actions that are there without a command.
const BUILT_IN_ACTIONS: [(&str, &str); 2] =
    [("dns_default_act_Drop", "drop"), ("dns_default_act_Cachebypass", "cache_bypass")];

fn actions(store: &Store, out: &mut Translated) {
    for action in store.all(Kind::DnsAction) {
        let mut row = Row::new("dns_action", action.name.as_str());
        match action.given("actionType").unwrap_or("noop") {
            "GslbPrefLoc" => {
                row.set("preferred_locations", strings(action.all("preferredLocList").iter().cloned()));
            }
            "ViewName" => {
                row.put("view", action.given("viewName").map(|view| named(store, Kind::DnsView, view)));
            }
            "Rewrite_Response" => {
                row.set("rewrite", strings(action.all("IPAddress").iter().cloned()));
                row.put("ttl", action.number("TTL").map(|ttl| ttl.max(1)));
            }
            "Drop" => row.set("drop", true),
            "Cache_Bypass" => row.set("cache_bypass", true),
            _ => row.set("noop", true),
        }
        out.doc.rows.push(row);
    }
    for (name, key) in BUILT_IN_ACTIONS {
        let is_used = store
            .all(Kind::DnsPolicy)
            .any(|policy| policy.given("actionName").is_some_and(|used| used.eq_ignore_ascii_case(name)));
        if is_used && store.get(Kind::DnsAction, name).is_none() {
            let mut row = Row::new("dns_action", name);
            row.set(key, true);
            out.doc.rows.push(row);
        }
    }
}

/// Where policies are bound, by folded name of the policy.
fn binds(store: &Store) -> HashMap<String, Vec<Vec<(&'static str, V)>>> {
    let mut out: HashMap<String, Vec<Vec<(&'static str, V)>>> = HashMap::new();
    let mut push = |bound: &super::Bound, mut fields: Vec<(&'static str, V)>| {
        fields.extend(bound.number("priority").map(|n| ("priority", n.into())));
        let goto = bound.given("gotoPriorityExpression");
        let goto = goto.filter(|goto| *goto != "END");
        fields.extend(goto.map(|text| ("goto", text.parse().map_or_else(|_| text.into(), V::I))));
        let label = bound.all("invoke").get(1).map(|label| named(store, Kind::PolicyLabel, label));
        fields.extend(label.map(|label| ("invoke", V::S(label))));
        out.entry(fold(&bound.name)).or_default().push(fields);
    };
    for global in store.all(Kind::DnsGlobal) {
        for bound in global.bound_of("policyName") {
            let point = match bound.given("type") {
                Some("REQ_OVERRIDE") => "request-override",
                Some("RES_OVERRIDE") => "response-override",
                Some("RES_DEFAULT") => "response",
                _ => "request",
            };
            push(bound, vec![("global", point.into())]);
        }
    }
    for vserver in store.all(Kind::Vserver) {
        for bound in vserver.bound_of("policyName") {
            let on = bound.given("type").map(|_| ("on", V::from("response")));
            push(bound, std::iter::once(("vserver", V::S(vserver.name.clone()))).chain(on).collect());
        }
    }
    for label in store.all(Kind::PolicyLabel) {
        for bound in label.bound_of("policyName") {
            push(bound, vec![("label", V::S(label.name.clone()))]);
        }
    }
    out
}

fn policies(store: &Store, out: &mut Translated) {
    let mut binds = binds(store);
    for policy in store.all(Kind::DnsPolicy) {
        let Some(action) = policy.given("actionName") else { continue };
        let mut row = Row::new("dns_policy", policy.name.as_str());
        row.put("rule", policy.given("rule"));
        let built_in = BUILT_IN_ACTIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(action));
        let action = match built_in {
            Some((name, _)) if store.get(Kind::DnsAction, name).is_none() => (*name).to_owned(),
            _ => named(store, Kind::DnsAction, action),
        };
        row.set("action", action);
        let mut points = binds.remove(&fold(&policy.name)).unwrap_or_default();
        match &mut points[..] {
            // The bind point of all requests is where a policy is bound that says nothing else.
            [one] if one[0] == ("global", "request".into()) => row.fields.extend(one.drain(1..)),
            [_] => row.set("bind", V::T(points.remove(0))),
            _ => row.set("bind", V::L(points.into_iter().map(V::T).collect())),
        }
        out.doc.rows.push(row);
    }
}
