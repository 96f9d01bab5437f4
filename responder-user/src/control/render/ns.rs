//! Answers of `ns` in the layout of NetScaler's command line (spec/netscaler.md 7). The shape is NetScaler's, not every
//! blank: scripts that want to be sure take `--output json`.

mod dns;
mod service;
mod vserver;

use std::fmt::Write as _;

use serde_json::Value;

use super::{cell, clean};

/// What was found, then ` Done`.
pub fn ns(value: &Value) -> String {
    let mut out = String::new();
    for warning in value["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "Warning: {}", cell(warning));
    }
    for (key, print) in LAYOUTS {
        let Some(rows) = value[*key].as_array() else { continue };
        for (i, row) in rows.iter().enumerate() {
            out += &print(i + 1, row);
        }
    }
    let is_known = |key: &str| LAYOUTS.iter().any(|(known, _)| *known == key);
    for (key, rows) in value.as_object().into_iter().flatten().filter(|(key, _)| !is_known(key)) {
        let rows = rows.as_array().filter(|_| key != "warnings").map_or(&[][..], Vec::as_slice);
        rows.iter().enumerate().for_each(|(i, row)| out += &plain(i + 1, row));
    }
    out + " Done\n"
}

/// Commands as they are typed, one a line.
fn running(row: &Value) -> String {
    row["response"].as_str().unwrap_or_default().lines().map(|line| clean(line) + "\n").collect()
}

/// What has no layout of its own: a key a line, what is bound to it last.
fn plain(number: usize, row: &Value) -> String {
    let mut out =
        if row["name"].is_null() { String::new() } else { format!("{number})\t{}\n", cell(&row["name"])) };
    let fields = row.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| !["name", "bound"].contains(&key.as_str())) {
        line(&mut out, "\t", &[(key, cell(value))]);
    }
    for (i, bound) in rows(&row["bound"]).iter().enumerate() {
        let fields = bound.as_object().into_iter().flatten();
        let parts: Vec<(&str, String)> = fields.map(|(key, value)| (key.as_str(), cell(value))).collect();
        line(&mut out, &format!("\t{})\t", i + 1), &parts);
    }
    out
}

/// How the objects of a resource are printed, with their number.
type Layout = fn(usize, &Value) -> String;

const LAYOUTS: &[(&str, Layout)] = &[
    ("gslbvserver", |n, row| {
        if row.get("tothits").is_some() { vserver::vserver_stat(row) } else { vserver::vserver(n, row) }
    }),
    ("gslbservice", |n, row| {
        if row.get("tothits").is_some() { service::service_stat(row) } else { service::service(n, row) }
    }),
    ("gslbdomain", |n, row| {
        if row.get("dnsqueries").is_some() { service::domain_stat(row) } else { service::domain(n, row) }
    }),
    ("gslbsite", service::site),
    ("location", dns::location),
    ("locationparameter", |_, row| dns::parameter(row)),
    ("locationfile", |n, row| format!("{n})\tLocation file: {}\n", cell(&row["locationfile"]))),
    ("dnspolicy", dns::policy),
    ("dnsaction", dns::action),
    ("dnsglobal", dns::global),
    ("dnsview", dns::view),
    ("lbvserver", vserver::lb_vserver),
    ("nsrunningconfig", |_, row| running(row)),
];

/// Labels and values beside each other in one line, indented.
fn line(out: &mut String, indent: &str, parts: &[(&str, String)]) {
    let parts: Vec<String> = parts.iter().map(|(label, value)| format!("{label}: {value}")).collect();
    // Writing into a String cannot fail.
    let _ = writeln!(out, "{indent}{}", parts.join("\t"));
}

/// 42 and not 42.0.
fn short(value: &Value) -> String {
    value.as_f64().map_or_else(|| cell(value), |number| number.to_string())
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `NONE` for what is not set.
fn or_none(value: &Value) -> String {
    if value.is_null() { "NONE".to_owned() } else { cell(value) }
}

fn change(out: &mut String, row: &Value) {
    let _ = writeln!(out, "\tLast state change was at {}", cell(&row["statechangetime"]));
    let _ = writeln!(out, "\tTime since last state change: {}", cell(&row["timesincelaststatechange"]));
}

fn yes(value: &Value) -> String {
    if value == true { "SET" } else { "NOT SET" }.to_owned()
}

/// `(192.0.2.1: 80)`, or the alias.
fn endpoint(row: &Value) -> String {
    if !row["cnameentry"].is_null() {
        return cell(&row["cnameentry"]);
    }
    format!("{}: {}", cell(&row["ipaddress"]), cell(&row["port"]))
}

fn more_addresses(out: &mut String, row: &Value) {
    if let [_, more @ ..] = rows(&row["ipaddresses"])
        && !more.is_empty()
    {
        let list: Vec<String> = more.iter().map(cell).collect();
        let _ = writeln!(out, "\tMore Addresses: {}", list.join(" "));
    }
}

fn bound_policy(number: usize, row: &Value) -> String {
    let mut out = String::new();
    let goto = &row["gotopriorityexpression"];
    let mut parts = vec![("Policy Name", cell(&row["policyname"])), ("Priority", cell(&row["priority"]))];
    if !row["type"].is_null() {
        parts.push(("Type", cell(&row["type"])));
    }
    if !goto.is_null() {
        parts.push(("GotoPriorityExpression", cell(goto)));
    }
    if !row["labelname"].is_null() {
        parts.push(("Invoke", format!("policylabel {}", cell(&row["labelname"]))));
    }
    line(&mut out, &format!("{number})\t"), &parts);
    out
}

/// Headers over columns, each as wide as it needs.
fn columns(header: &[&str], row: &[String]) -> String {
    let widths: Vec<usize> =
        header.iter().zip(row).map(|(h, v)| h.len().max(v.chars().count()) + 2).collect();
    let put = |words: &mut dyn Iterator<Item = &str>| {
        let text = words.zip(&widths).fold(String::new(), |mut out, (word, width)| {
            let _ = write!(out, "{word:width$}");
            out
        });
        text.trim_end().to_owned() + "\n"
    };
    put(&mut header.iter().copied()) + &put(&mut row.iter().map(String::as_str))
}

/// `Hits                      -` for what nothing counts.
fn figure(out: &mut String, label: &str, value: &Value) {
    let _ = writeln!(out, "{label:<34}{:>16}", short(value));
}
