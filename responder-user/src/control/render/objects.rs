//! `show`: a table for a list, a block for one object, with tables for what belongs to it.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Style, block, cell, given, state, table};
use crate::control::command::ShowKind;

/// A column: its header, and how it is read from a row.
type Column = (&'static str, fn(&Value) -> String);

const SERVICE: &[Column] = &[
    ("NAME", |v| cell(&v["name"])),
    ("STATE", service_state),
    ("EFFECTIVE", |v| state(&v["effective"])),
    ("THRESHOLD", |v| state(&v["threshold"])),
    ("LOCATION", |v| cell(&v["location"])),
    ("ADDRESSES", service_addresses),
    ("REASON", |v| cell(&v["reason"])),
];

const VSERVER: &[Column] = &[
    ("NAME", |v| cell(&v["name"])),
    ("STATE", |v| state(&v["primary"])),
    ("EFFECTIVE", |v| state(&v["effective"])),
    ("THRESHOLD", |v| state(&v["threshold"])),
    ("SERVICES", |v| format!("{}/{}", cell(&v["services_active"]), cell(&v["services_total"]))),
    ("HEALTH", |v| cell(&v["health"]) + "%"),
    ("NAMES", |v| cell(&v["domains"])),
    ("METHOD NOW", |v| cell(&v["current_method"])),
    ("REASON", |v| cell(&v["reason"])),
];

const DOMAIN: &[Column] = &[
    ("NAME", |v| cell(&v["name"])),
    ("VSERVER", |v| cell(&v["vserver"])),
    ("TYPES", |v| cell(&v["types"])),
    ("TTL", |v| cell(&v["ttl"])),
    ("BACKUP IP", |v| cell(&v["backup_ip"])),
    ("ZONE", |v| cell(&v["zone"])),
];

const MONITOR: &[Column] = &[
    ("NAME", |v| cell(&v["name"])),
    ("TYPE", |v| cell(&v["type"])),
    ("ENABLED", |v| cell(&v["enabled"])),
    ("INTERVAL", |v| cell(&v["interval"])),
    ("TIMEOUT", |v| cell(&v["timeout"])),
    ("RISE", |v| cell(&v["rise"])),
    ("FALL", |v| cell(&v["fall"])),
    ("UP", |v| cell(&v["up"])),
    ("DOWN", |v| cell(&v["down"])),
    ("UNDECIDED", |v| cell(&v["undecided"])),
];

const LOCATION: &[Column] = &[
    ("FIRST", |v| cell(&v["first"])),
    ("LAST", |v| cell(&v["last"])),
    ("LOCATION", |v| cell(&v["location"])),
    ("LONGITUDE", |v| cell(&v["longitude"])),
    ("LATITUDE", |v| cell(&v["latitude"])),
];

const POLICY: &[Column] = &[
    ("PRIORITY", |v| cell(&v["priority"])),
    ("NAME", |v| cell(&v["name"])),
    ("BOUND AT", |v| cell(&v["bind"])),
    ("ACTION", |v| cell(&v["action"])),
    ("GOTO", |v| cell(&v["goto"])),
    ("RULE", |v| cell(&v["rule"])),
];

const ACTION: &[Column] = &[
    ("NAME", |v| cell(&v["name"])),
    ("KIND", |v| cell(&v["kind"])),
    ("PREFERRED LOCATIONS", |v| cell(&v["preferred_locations"])),
    ("POLICIES", |v| cell(&v["policies"])),
];

const SESSION: &[Column] = &[
    ("CLIENT", |v| cell(&v["client"])),
    ("SERVICE", |v| cell(&v["service"])),
    ("ID", |v| cell(&v["persistence_id"])),
    ("VSERVER", |v| cell(&v["vserver"])),
    ("DOMAIN", |v| cell(&v["domain"])),
    ("GIVEN BY", |v| cell(&v["link"])),
    ("KIND", |v| cell(&v["kind"])),
    ("EXPIRES IN", |v| v["expires_in_seconds"].as_u64().map_or_else(|| "-".to_owned(), |s| format!("{s}s"))),
    ("COOKIE REDIRECT", |v| cell(&v["cookie_redirect"])),
];

const NAME: &[Column] = &[("NAME", |v| cell(&v["name"]))];

/// Of a service in a virtual server.
const BOUND: &[Column] = &[
    ("SERVICE", |v| cell(&v["name"])),
    ("STATE", |v| state(&v["state"])),
    ("EFFECTIVE", |v| state(&v["effective"])),
    ("THRESHOLD", |v| state(&v["threshold"])),
    ("WEIGHT", |v| cell(&v["weight"])),
    ("ORDER", |v| cell(&v["order"])),
    ("LOCATION", |v| cell(&v["location"])),
    ("ADDRESSES", |v| cell(&v["addresses"])),
    ("REASON", |v| cell(&v["reason"])),
];

/// Of a check.
const CHECKS: &[Column] = &[
    ("MONITOR", |v| cell(&v["name"])),
    ("ADDRESS", |v| cell(&v["address"])),
    ("STATE", |v| state(&v["state"])),
    ("FORCED", |v| cell(&v["forced"])),
    ("IN A ROW", |v| cell(&v["consecutive"])),
    ("LAST RESULT", |v| cell(&v["last"])),
    ("AGE", age),
];

/// Of a check, seen from the monitor.
const USES: &[Column] = &[
    ("SERVICE", |v| cell(&v["service"])),
    ("ADDRESS", |v| cell(&v["address"])),
    ("STATE", |v| state(&v["state"])),
    ("FORCED", |v| cell(&v["forced"])),
    ("IN A ROW", |v| cell(&v["consecutive"])),
    ("LAST RESULT", |v| cell(&v["last"])),
    ("AGE", age),
];

fn age(row: &Value) -> String {
    row["seconds_ago"].as_u64().map_or_else(|| "-".to_owned(), |s| format!("{s}s"))
}

fn service_state(row: &Value) -> String {
    if row["admin"] == "disabled" { "DISABLED".to_owned() } else { state(&row["primary"]) }
}

/// Addresses; where some are up and some are not, those that are not say so.
fn service_addresses(row: &Value) -> String {
    let list = row["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let mixed = list.iter().any(|a| a["state"] == "up") && list.iter().any(|a| a["state"] != "up");
    let words = list.iter().map(|a| {
        let address = cell(&a["address"]);
        if mixed && a["state"] != "up" { format!("{address}({})", cell(&a["state"])) } else { address }
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

fn columns(kind: ShowKind) -> &'static [Column] {
    match kind {
        ShowKind::Service => SERVICE,
        ShowKind::Vserver => VSERVER,
        ShowKind::Domain => DOMAIN,
        ShowKind::Monitor => MONITOR,
        ShowKind::Location => LOCATION,
        ShowKind::Policy => POLICY,
        ShowKind::Action => ACTION,
        ShowKind::Session => SESSION,
        ShowKind::Record | ShowKind::Scenario => NAME,
    }
}

/// The fields of every list, for `show --help`.
pub fn columns_help() -> String {
    let mut out = "Fields of a line when piped, in this order, separated by tabs:\n".to_owned();
    for kind in [
        ShowKind::Vserver,
        ShowKind::Service,
        ShowKind::Domain,
        ShowKind::Monitor,
        ShowKind::Location,
        ShowKind::Policy,
        ShowKind::Action,
        ShowKind::Session,
    ] {
        let names: Vec<String> = columns(kind).iter().map(|(name, _)| name.to_lowercase()).collect();
        let _ = writeln!(out, "  {:9} {}", kind.name(), names.join(", "));
    }
    out + "`-` stands for what is not set. Records and scenarios do not exist in this version."
}

/// A list or one object.
pub fn show(style: Style, kind: ShowKind, value: &Value) -> String {
    match (value, kind) {
        (Value::Array(rows), ShowKind::Domain) => {
            list(style, DOMAIN, &rows.iter().flat_map(bindings).collect::<Vec<_>>())
        }
        (Value::Array(rows), _) => list(style, columns(kind), rows),
        (one, ShowKind::Domain) => list(style, DOMAIN, &bindings(one)),
        (one, ShowKind::Service) => service(style, one),
        (one, ShowKind::Vserver) => vserver(style, one),
        (one, ShowKind::Monitor) => monitor(style, one),
        (one, _) => one_of(columns(kind), one),
    }
}

fn list(style: Style, columns: &[Column], rows: &[Value]) -> String {
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    table(
        style,
        &header,
        rows.iter().map(|row| columns.iter().map(|(_, read)| read(row)).collect()).collect(),
    )
}

/// A name with several bindings is several rows.
fn bindings(domain: &Value) -> Vec<Value> {
    let rows = domain["bindings"].as_array().into_iter().flatten().map(|binding| {
        let mut row = binding.clone();
        row["name"] = domain["name"].clone();
        row["zone"] = domain["zone"].clone();
        row
    });
    rows.collect()
}

fn one_of(columns: &[Column], one: &Value) -> String {
    let labels: Vec<(String, String)> =
        columns.iter().map(|(name, read)| (name.to_lowercase(), read(one))).collect();
    block(&labels.iter().map(|(label, value)| (label.as_str(), value.clone())).collect::<Vec<_>>())
}

fn section(style: Style, title: &str, columns: &[Column], rows: &Value) -> String {
    let rows = rows.as_array().map_or(&[][..], Vec::as_slice);
    format!("\n{title}:\n{}", list(Style { terminal: true, ..style }, columns, rows))
}

fn service(style: Style, one: &Value) -> String {
    let forced = if one["forced"].is_null() { "no".to_owned() } else { cell(&one["forced"]) };
    let rows = [
        ("service", cell(&one["name"])),
        ("state", service_state(one)),
        ("effective", state(&one["effective"])),
        ("threshold", state(&one["threshold"])),
        ("load", figures(&one["load"])),
        ("usable", format!("{}: {}", cell(&one["usable"]), cell(&one["reason"]))),
        ("admin", cell(&one["admin"])),
        ("forced", forced),
        ("addresses", service_addresses(one)),
        ("port", cell(&one["port"])),
        ("location", cell(&one["location"])),
        ("site", cell(&one["site"])),
        ("vservers", cell(&one["vservers"])),
        ("last change", cell(&one["last_change"])),
    ];
    block(&rows) + &section(style, "Monitors", CHECKS, &one["monitors"])
}

/// `connections 12, cpu 0.5`
fn figures(value: &Value) -> String {
    let Some(all) = value.as_object() else { return "not known".to_owned() };
    all.iter()
        .map(|(name, value)| format!("{} {}", super::clean(name), cell(value)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn vserver(style: Style, one: &Value) -> String {
    let backup_method = if one["backup_method"].is_null() {
        String::new()
    } else {
        format!(", then {}", cell(&one["backup_method"]))
    };
    let rows = [
        ("vserver", format!("{} ({})", cell(&one["name"]), cell(&one["service_type"]))),
        ("state", state(&one["primary"])),
        ("effective", state(&one["effective"])),
        ("threshold", state(&one["threshold"])),
        ("latch", if one["latched"] == true { "set" } else { "not set" }.to_owned()),
        ("spillover", spillover(&one["spillover"])),
        ("method", format!("{}{backup_method}", cell(&one["method"]))),
        ("method now", format!("{}: {}", cell(&one["current_method"]), cell(&one["reason"]))),
        (
            "services",
            format!(
                "{} bound, {} active, health {}%",
                cell(&one["services_total"]),
                cell(&one["services_active"]),
                cell(&one["health"])
            ),
        ),
        ("types", cell(&one["types"])),
        ("names", cell(&one["domains"])),
        ("backup", cell(&one["backup"])),
        (
            "answers",
            format!(
                "multiple IP response {}, empty down response {}",
                cell(&one["multiple_ip_response"]),
                cell(&one["empty_down_response"])
            ),
        ),
        ("admin", cell(&one["admin"])),
        ("last change", cell(&one["last_change"])),
    ];
    let mut out = block(&rows);
    out += &section(style, "Services", BOUND, &one["services"]);
    out += "\nAnswers now:\n";
    out.extend(one["answers"].as_array().into_iter().flatten().map(answer));
    if let Some(more @ 1..) = one["classes_left_out"].as_u64() {
        let hint = "`responderctl explain NAME TYPE --client IP` shows any";
        let _ = writeln!(out, "and {more} more classes of clients; {hint}");
    }
    out
}

/// `connection: 12 connections, below 1000; then redirect`
fn spillover(value: &Value) -> String {
    if value.is_null() {
        return "none".to_owned();
    }
    let (method, level, action) = (cell(&value["method"]), cell(&value["level"]), cell(&value["action"]));
    format!("{method}: {level}; without a backup {action}")
}

/// What some classes of clients are answered, in two lines.
fn answer(row: &Value) -> String {
    let classes = row["classes"].as_u64().unwrap_or(0);
    let others = match classes {
        0 | 1 => String::new(),
        2 => " and one more class".to_owned(),
        n => format!(" and {} more classes", n - 1),
    };
    let how = if row["give"].is_null() {
        String::new()
    } else {
        format!("{}, {}: ", cell(&row["tier"]), cell(&row["method"]))
    };
    let policy =
        if row["policy"].is_null() { String::new() } else { format!("policy {}, ", cell(&row["policy"])) };
    let (rtype, client) = (cell(&row["type"]), cell(&row["client"]));
    let reason = cell(&row["reason"]);
    format!("{rtype} to clients like {client}{others}: {}\n    {policy}{how}{reason}\n", given(row))
}

fn monitor(style: Style, one: &Value) -> String {
    let runs = if one["runs"] == false { " (does not run in this version: counts for nothing)" } else { "" };
    let port = if one["port"].is_null() { "that of the service".to_owned() } else { cell(&one["port"]) };
    let mut rows = vec![
        ("monitor", cell(&one["name"])),
        ("type", cell(&one["type"]) + runs),
        ("enabled", cell(&one["enabled"])),
        ("every", format!("{}, timeout {}", cell(&one["interval"]), cell(&one["timeout"]))),
        ("rise, fall", format!("{}, {}", cell(&one["rise"]), cell(&one["fall"]))),
        ("port", port),
    ];
    if one["http"].is_object() {
        let http = &one["http"];
        rows.push(("asks", format!("GET {}, host {}", cell(&http["path"]), cell(&http["host"]))));
        rows.push(("expects", cell(&http["expect"])));
    }
    block(&rows) + &section(style, "Checks", USES, &one["checks"])
}
