//! Reading of the objects that make up a pool: monitors, services, virtual servers.

use std::time::Duration;

use super::{
    file::{Bound, Monitor, Service, Vserver},
    kind::{ADDRESS, Bool, DOMAIN_NAME, Integer, Name, Parsed, Span, StatusKind, Text, Word},
    problem::At,
    read::{DAY, LOCATION, STATE, close},
    reader::{Reader, Row},
};
use crate::model::{
    self, DnsName, Method, Metric, MonitorKind, Naptr, RecordType,
    vserver::{DynamicWeight, Persistence, SkipPersistency, Spillover, SpilloverAction, SpilloverMethod},
};

/// Kinds of monitor that parse and do nothing yet.
const INERT_MONITORS: [&str; 12] = [
    "https",
    "ping",
    "dns",
    "udp",
    "grpc",
    "ftp",
    "ldap",
    "mysql",
    "postgresql",
    "exec",
    "push",
    "responder",
];

/// NetScaler's service types (spec/netscaler.md 3.1).
const SERVICE_TYPES: [&str; 18] = [
    "HTTP",
    "FTP",
    "TCP",
    "UDP",
    "SSL",
    "SSL_BRIDGE",
    "SSL_TCP",
    "NNTP",
    "ANY",
    "SIP_UDP",
    "SIP_TCP",
    "SIP_SSL",
    "RADIUS",
    "RDP",
    "RTSP",
    "MYSQL",
    "MSSQL",
    "ORACLE",
];

const PATH: Parsed<String> = Parsed {
    what: "a path that begins with /",
    parse: |typed| {
        let fits = typed.starts_with('/') && typed.chars().all(|c| c.is_ascii_graphic());
        fits.then(|| typed.to_owned()).ok_or_else(|| {
            format!("{typed:?} is not a path; allowed are printable ASCII characters without spaces, beginning with /")
        })
    },
};

const HOST: Parsed<String> = Parsed {
    what: "the value of a Host header",
    parse: |typed| {
        let fits = !typed.is_empty() && typed.chars().all(|c| c.is_ascii_graphic() && c != '/');
        fits.then(|| typed.to_owned()).ok_or_else(|| format!("{typed:?} is not a host name"))
    },
};

/// `[[monitor]]`
pub(super) fn monitor(r: &Reader<'_>) -> Monitor {
    let name = r.require("name", &Name);
    let types: Vec<_> =
        ["tcp", "http"].into_iter().chain(INERT_MONITORS).chain(["load"]).map(|t| (t, t)).collect();
    let typed = r.require("type", &Word(&types)).map_or("", |typed| typed.value);
    let path = r.get("path", &PATH).map(|path| path.value);
    let host = r.get("host", &HOST).map(|host| host.value);
    let expect = r.list("expect", &StatusKind);
    if expect.as_ref().is_some_and(Vec::is_empty) && !r.is_broken() {
        r.problem(r.key_at("expect"), "expect", "is empty; give status codes, such as [\"200-299\"]");
    }
    let only = |keys: &[&'static str], types: &[&str]| {
        for key in keys.iter().filter(|key| r.has(key) && !typed.is_empty() && !types.contains(&typed)) {
            let text = format!("has no meaning for type {typed}; it is for {}", types.join(", "));
            r.problem(r.key_at(key), key, &text);
        }
    };
    only(&["path"], &["http", "https", "load"]);
    only(&["host", "expect"], &["http", "https"]);
    only(&["source", "metrics"], &["load"]);
    let metrics = metrics(r);
    let kind = match typed {
        "tcp" => MonitorKind::Tcp,
        "http" => MonitorKind::Http {
            path: path.unwrap_or_else(|| "/".to_owned()),
            host,
            expect: expect.map_or_else(|| vec![(200, 299)], |list| list.iter().map(|e| e.value).collect()),
        },
        "load" => {
            if metrics.is_empty() && !r.is_broken() {
                r.problem(r.at, "metrics", "is missing; a load monitor looks at one figure at least");
            }
            MonitorKind::Load { metrics }
        }
        other => {
            if !other.is_empty() {
                let text =
                    format!("{other:?} has no effect yet; services count as if they lacked this monitor");
                r.notes.warn_once(&format!("monitor/type/{other}"), r.key_at("type"), r.say("type", &text));
            }
            MonitorKind::Inert { type_name: other.to_owned() }
        }
    };
    let count = Integer { min: 1, max: 1000 };
    let interval = r.get("interval", &Span { min: Duration::from_millis(10), max: DAY });
    let timeout = r.get("timeout", &Span { min: Duration::from_millis(1), max: DAY });
    let rise = r.get("rise", &count).map(|n| n.value as u32);
    let fall = r.get("fall", &count).map(|n| n.value as u32);
    let port = r.get("port", &Integer { min: 1, max: 65_535 }).map(|port| port.value as u16);
    let enabled = r.get("state", &STATE).is_none_or(|state| state.value);
    let head = close(r, name);
    Monitor { head, kind, interval, timeout, rise, fall, port, enabled }
}

/// `monitor.source` and `monitor.metrics`
fn metrics(r: &Reader<'_>) -> Vec<Metric> {
    let sources = ["snmp", "http-json", "prometheus", "push"].map(|source| (source, source));
    if let Some(source) = r.get("source", &Word(&sources)).filter(|source| source.value != "push") {
        let text = format!("{:?} has no effect yet; push the figures with `responderctl load`", source.value);
        r.notes.warn_once("monitor/source", source.at, r.say("source", &text));
    }
    let mut out: Vec<Metric> = Vec::new();
    for table in r.tables("metrics") {
        let name = table.require("name", &Name);
        table.get("oid", &Text);
        let threshold = table.get("threshold", &Integer { min: 0, max: u32::MAX.into() });
        let weight = table.get("weight", &Integer { min: 1, max: 100 });
        table.finish();
        let Some(name) = name else { continue };
        if out.iter().any(|metric| metric.name == name.value) {
            table.problem(name.at, "name", &format!("{:?} is listed twice", name.value));
        }
        out.push(Metric {
            name: name.value,
            threshold: threshold.map_or(0, |t| t.value as u64),
            weight: weight.map_or(1, |w| w.value as u32),
        });
    }
    out
}

/// `[[service]]`
pub(super) fn service(r: &Reader<'_>) -> Service {
    let name = r.require("name", &Name);
    let addresses = r.one_or_list("address", &ADDRESS).unwrap_or_default();
    let cname = r.get("cname", &DOMAIN_NAME);
    if r.has("cname") && r.has("address") {
        r.problem(r.key_at("cname"), "cname", "excludes address; give one of the two");
    } else if !r.has("cname") && !r.has("naptr") && addresses.is_empty() && !r.is_broken() {
        r.problem(r.key_at("address"), "address", "is missing; give an address or a cname");
    }
    let threshold = Integer { min: 0, max: 65_535 };
    // spec/config.md calls it `threshold`; the longer word says of what.
    let short = r.get("threshold", &threshold);
    let long = r.get("monitor_threshold", &threshold);
    if r.has("threshold") && r.has("monitor_threshold") {
        r.problem(
            r.key_at("threshold"),
            "threshold",
            "is the same as monitor_threshold; give one of the two",
        );
    }
    let behind = r.get("behind", &Name);
    let naptr = r.table("naptr").and_then(|table| naptr(&table));
    let count = |key| r.get(key, &Integer { min: 0, max: u32::MAX.into() }).map_or(0, |n| n.value as u32);
    let (max_connections, max_bandwidth) = (count("max_connections"), count("max_bandwidth"));
    let hash_id = r.get("hash_id", &Integer { min: 1, max: u32::MAX.into() }).map(|id| id.value as u32);
    let views = r.table("views").map_or_else(Vec::new, |table| table.lists(&ADDRESS));
    let monitors = service_monitors(r);
    let port = r.get("port", &Integer { min: 1, max: 65_535 }).map(|port| port.value as u16);
    let location = r.get("location", &LOCATION).map(|location| location.value);
    let enabled = r.get("state", &STATE).is_none_or(|state| state.value);
    let site = r.get("site", &Text).map(|site| site.value);
    let threshold = long.or(short).map(|t| At { value: t.value as u32, at: t.at });
    let head = close(r, name);
    Service {
        head,
        addresses,
        cname,
        port,
        location,
        monitors,
        threshold,
        enabled,
        site,
        behind,
        naptr,
        max_connections,
        max_bandwidth,
        views,
        hash_id,
    }
}

/// `service.naptr`
fn naptr(r: &Reader<'_>) -> Option<Naptr> {
    let replacement = r.require("replacement", &DOMAIN_NAME);
    let number = |key| r.get(key, &Integer { min: 0, max: 65_535 }).map_or(0, |n| n.value as u16);
    let (order, preference) = (number("order"), number("preference"));
    let services = r.get("services", &CHARACTER_STRING).map_or_else(String::new, |s| s.value);
    let flags = r.get("flags", &CHARACTER_STRING).map_or_else(String::new, |s| s.value);
    r.finish();
    Some(Naptr { order, preference, services, flags, replacement: replacement?.value })
}

const CHARACTER_STRING: Parsed<String> = Parsed {
    what: "at most 255 printable ASCII characters",
    parse: |typed| {
        let fits = typed.len() <= 255 && typed.chars().all(|c| (' '..='~').contains(&c));
        fits.then(|| typed.to_owned()).ok_or_else(|| {
            format!("{typed:?} has more than 255 characters, or some that are not printable ASCII")
        })
    },
};

fn service_monitors(r: &Reader<'_>) -> Vec<(At<String>, u32)> {
    let mut out = Vec::new();
    for row in r.rows("monitors") {
        match row {
            Row::Text(name) => out.push((name, 1)),
            Row::Table(table) => {
                let name = table.require("name", &Name);
                let weight = table.get("weight", &Integer { min: 1, max: 100 });
                table.finish();
                out.extend(name.map(|name| (name, weight.map_or(1, |w| w.value as u32))));
            }
        }
    }
    out
}

/// `[[vserver]]`
pub(super) fn vserver(r: &Reader<'_>) -> Vserver {
    let name = r.require("name", &Name);
    let service_type =
        r.get("service_type", &Word(&SERVICE_TYPES.map(|t| (t, t)))).map(|t| t.value.to_owned());
    let types = types(r);
    let methods = Method::ALL.map(|method| (method.name(), method));
    let method = r.get("method", &Word(&methods));
    let backup_method = r.get("backup_method", &Word(&methods));
    let services = bound_services(r);
    let backup = r.get("backup", &Name);
    let plain = plain(r);
    let head = close(r, name);
    Vserver { head, service_type, types, method, backup_method, services, backup, plain }
}

/// What of a virtual server refers to nothing else.
fn plain(r: &Reader<'_>) -> model::Vserver {
    let default = model::Vserver::default();
    let flag = |key| r.get(key, &Bool).is_some_and(|flag| flag.value);
    let bits = |key, max| r.get(key, &Integer { min: 1, max }).map_or(max as u8, |bits| bits.value as u8);
    let skips =
        [SkipPersistency::None, SkipPersistency::Rebalance, SkipPersistency::Bypass].map(|s| (s.name(), s));
    let dynamic = DynamicWeight::ALL.map(|weight| (weight.name(), weight));
    let threshold = r.get("order_threshold", &Integer { min: 0, max: 100 });
    model::Vserver {
        disable_primary_on_down: flag("disable_primary_on_down"),
        effective_state: r
            .get("effective_state", &Word(&[("none", false), ("state-only", true)]))
            .is_some_and(|word| word.value),
        skip_persistency: r
            .get("skip_persistency", &Word(&skips))
            .map_or(default.skip_persistency, |s| s.value),
        persistence: r.table("persistence").and_then(|table| persistence(&table)),
        spillover: r.table("spillover").and_then(|table| spillover(&table)),
        backup_session_timeout: backup_session(r),
        dynamic_weight: r.get("dynamic_weight", &Word(&dynamic)).map_or(default.dynamic_weight, |w| w.value),
        hash_mask: (bits("hash_mask", 32), bits("hash_mask6", 128)),
        descending_order: r
            .get("toggle_order", &Word(&[("ascending", false), ("descending", true)]))
            .is_some_and(|word| word.value),
        order_threshold: threshold.map_or(0, |percent| percent.value as u32),
        multiple_ip_response: flag("multiple_ip_response"),
        ecs: flag("ecs"),
        ecs_validation: flag("ecs_validation"),
        empty_down_response: flag("empty_down_response"),
        enabled: r.get("state", &STATE).is_none_or(|state| state.value),
        ..default
    }
}

/// How long sessions live.
const SESSION: Span = Span { min: Duration::from_mins(2), max: DAY };

/// `vserver.backup_session_timeout`; 0s is off.
fn backup_session(r: &Reader<'_>) -> Option<Duration> {
    let typed = r.get("backup_session_timeout", &Span { min: Duration::ZERO, max: DAY })?;
    if typed.value.is_zero() {
        return None;
    }
    if typed.value < SESSION.min {
        r.problem(typed.at, "backup_session_timeout", "is below the minimum of 2m; 0s turns it off");
        return None;
    }
    Some(typed.value)
}

/// `vserver.persistence`
fn persistence(r: &Reader<'_>) -> Option<Persistence> {
    let kind = r.get("type", &Word(&[("none", false), ("source-ip", true)]));
    let bits = |key, max| r.get(key, &Integer { min: 1, max }).map_or(max as u8, |bits| bits.value as u8);
    let out = Persistence {
        mask: bits("mask", 32),
        mask6: bits("mask6", 128),
        timeout: r.get("timeout", &SESSION).map_or(SESSION.min, |timeout| timeout.value),
        id: r.get("id", &Integer { min: 0, max: 65_535 }).map(|id| id.value as u16),
        ignore_in_round_robin: r.get("ignore_in_round_robin", &Bool).is_some_and(|flag| flag.value),
    };
    r.finish();
    kind.is_none_or(|kind| kind.value).then_some(out)
}

/// `vserver.spillover`
fn spillover(r: &Reader<'_>) -> Option<Spillover> {
    let mut methods = vec![("none", None)];
    methods.extend(SpilloverMethod::ALL.map(|method| (method.name(), Some(method))));
    let method = r.get("method", &Word(&methods));
    let threshold = r.get("threshold", &Integer { min: 1, max: 4_294_967_287 });
    let persistence = r.get("persistence", &Bool).is_some_and(|flag| flag.value);
    let timeout = r.get("timeout", &SESSION).map_or(SESSION.min, |timeout| timeout.value);
    let action = r.get("action", &Word(&SpilloverAction::ALL.map(|action| (action.name(), action))));
    let redirect = r.get("redirect", &REDIRECT).map(|redirect| redirect.value);
    r.finish();
    let method = method.and_then(|method| method.value)?;
    let need = match (method, &threshold) {
        (SpilloverMethod::DynamicConnection, Some(typed)) => {
            let text = "has no meaning with method dynamic-connection, which adds up max_connections";
            r.notes.warning(typed.at, r.say("threshold", text));
            None
        }
        (SpilloverMethod::DynamicConnection, None) => None,
        (_, None) => Some((r.at, format!("is missing; method {} needs it", method.name()))),
        (SpilloverMethod::Health, Some(typed)) if typed.value > 100 => {
            Some((typed.at, format!("{} is above the maximum of 100 percent", typed.value)))
        }
        _ => None,
    };
    if let Some((at, text)) = need.filter(|_| !r.is_broken()) {
        r.problem(at, "threshold", &text);
    }
    match (&action, &redirect) {
        (Some(typed), None) if typed.value == SpilloverAction::Redirect && !r.is_broken() => {
            r.problem(typed.at, "redirect", "is missing; action redirect needs it");
        }
        (Some(typed), Some(_)) if typed.value != SpilloverAction::Redirect => {
            let text = format!("{} is what happens; redirect has no effect beside it", typed.value.name());
            r.notes.warning(typed.at, r.say("action", &text));
        }
        _ => {}
    }
    // A URL without an action says what is wanted (0.1, 1).
    let unsaid = if redirect.is_some() { SpilloverAction::Redirect } else { SpilloverAction::Drop };
    Some(Spillover {
        method,
        threshold: threshold.map_or(0, |t| t.value as u64),
        persistence,
        timeout,
        action: action.map_or(unsaid, |a| a.value),
        redirect,
    })
}

/// A URL with a host name, to which a CNAME can lead.
const REDIRECT: Parsed<(String, DnsName)> = Parsed {
    what: "a URL, such as \"https://sorry.example.com/\"",
    parse: |typed| {
        let wrong =
            || format!("{typed:?} is not a URL with a host name, such as \"https://sorry.example.com/\"");
        let (scheme, rest) = typed.split_once("://").ok_or_else(wrong)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        if scheme.is_empty()
            || host.is_empty()
            || host.starts_with('[')
            || host.parse::<std::net::Ipv4Addr>().is_ok()
        {
            return Err(wrong());
        }
        let name = DnsName::parse(host).map_err(|_| wrong())?;
        Ok((typed.to_owned(), name))
    },
};

fn types(r: &Reader<'_>) -> Option<Vec<At<RecordType>>> {
    let words =
        [RecordType::A, RecordType::Aaaa, RecordType::Cname, RecordType::Naptr].map(|t| (t.name(), t));
    let mut out: Vec<At<RecordType>> = Vec::new();
    for one in r.one_or_list("types", &Word(&words))? {
        if out.iter().any(|earlier| earlier.value == one.value) {
            r.problem(one.at, "types", &format!("{} is listed twice", one.value));
            continue;
        }
        out.push(one);
    }
    if out.is_empty() && !r.is_broken() {
        r.problem(r.key_at("types"), "types", "is empty; leave it out for the families of the services");
    }
    Some(out)
}

fn bound_services(r: &Reader<'_>) -> Vec<Bound> {
    let mut out = Vec::new();
    for row in r.rows("services") {
        match row {
            Row::Text(service) => out.push(Bound { service, weight: 1, order: None }),
            Row::Table(table) => {
                let service = table.require("name", &Name);
                let weight = table.get("weight", &Integer { min: 1, max: 100 }).map_or(1, |w| w.value as u32);
                let order = table.get("order", &Integer { min: 1, max: 8192 }).map(|o| o.value as u32);
                table.finish();
                out.extend(service.map(|service| Bound { service, weight, order }));
            }
        }
    }
    out
}
