//! Reading of the objects that make up a pool: monitors, services, virtual servers.

use std::time::Duration;

use super::{
    file::{Bound, Monitor, Service, Vserver},
    inert,
    kind::{ADDRESS, Bool, DOMAIN_NAME, Integer, Name, Parsed, Span, StatusKind, Text, Word},
    problem::At,
    read::{DAY, LOCATION, STATE, close},
    reader::{Reader, Row},
};
use crate::model::{Method, MonitorKind, RecordType};

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
    r.check(inert::LOAD);
    let kind = match typed {
        "tcp" => MonitorKind::Tcp,
        "http" => MonitorKind::Http {
            path: path.unwrap_or_else(|| "/".to_owned()),
            host,
            expect: expect.map_or_else(|| vec![(200, 299)], |list| list.iter().map(|e| e.value).collect()),
        },
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

/// `[[service]]`
pub(super) fn service(r: &Reader<'_>) -> Service {
    let name = r.require("name", &Name);
    let addresses = r.one_or_list("address", &ADDRESS).unwrap_or_default();
    let cname = r.get("cname", &DOMAIN_NAME);
    if r.has("cname") && r.has("address") {
        r.problem(r.key_at("cname"), "cname", "excludes address; give one of the two");
    } else if !r.has("cname") && addresses.is_empty() && !r.is_broken() {
        r.problem(r.key_at("address"), "address", "is missing; give an address or a cname");
    }
    if cname.is_some() {
        r.inert("cname");
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
    if behind.is_some() {
        r.inert("behind");
    }
    r.check_inert(inert::SERVICE);
    let monitors = service_monitors(r);
    let port = r.get("port", &Integer { min: 1, max: 65_535 }).map(|port| port.value as u16);
    let location = r.get("location", &LOCATION).map(|location| location.value);
    let enabled = r.get("state", &STATE).is_none_or(|state| state.value);
    let site = r.get("site", &Text).map(|site| site.value);
    let threshold = long.or(short).map(|t| At { value: t.value as u32, at: t.at });
    let head = close(r, name);
    Service { head, addresses, cname, port, location, monitors, threshold, enabled, site, behind }
}

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
    let flag = |key| r.get(key, &Bool).is_some_and(|flag| flag.value);
    let multiple_ip_response = flag("multiple_ip_response");
    let (ecs, ecs_validation) = (flag("ecs"), flag("ecs_validation"));
    let empty_down_response = flag("empty_down_response");
    let enabled = r.get("state", &STATE).is_none_or(|state| state.value);
    r.check_inert(inert::VSERVER);
    let head = close(r, name);
    Vserver {
        head,
        service_type,
        types,
        method,
        backup_method,
        services,
        backup,
        multiple_ip_response,
        ecs,
        ecs_validation,
        empty_down_response,
        enabled,
    }
}

fn types(r: &Reader<'_>) -> Option<Vec<At<RecordType>>> {
    let words =
        [RecordType::A, RecordType::Aaaa, RecordType::Cname, RecordType::Naptr].map(|t| (t.name(), t));
    let mut out: Vec<At<RecordType>> = Vec::new();
    for one in r.one_or_list("types", &Word(&words))? {
        if out.iter().any(|earlier| earlier.value == one.value) {
            r.problem(one.at, "types", &format!("{} is listed twice", one.value));
            continue;
        }
        if matches!(one.value, RecordType::Cname | RecordType::Naptr) {
            let text = format!("{} has no effect yet", one.value);
            r.notes.warn_once(&format!("vserver/types/{}", one.value), one.at, r.say("types", &text));
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
