//! `show` of locations, policies, actions and views.

use std::fmt::Write as _;

use serde_json::Value;

use super::{bound_policy, cell, line, rows, short};

pub(super) fn location(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let coordinates = if row["longitude"].is_null() {
        String::new()
    } else {
        format!("\tLongitude: {}\tLatitude: {}", short(&row["longitude"]), short(&row["latitude"]))
    };
    format!(
        "{number})\tIP From: {}\tIP To: {}\tLocation: {}{coordinates}\n",
        of("ipfrom"),
        of("ipto"),
        of("preferredlocation")
    )
}

pub(super) fn parameter(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "\tStatic Proximity Database Mode: {}\n\tFlushing: {}; Loading: {};\n\tContext: {}\n",
        of("databasemode"),
        of("flushing"),
        of("loading"),
        of("context")
    );
    for i in 1..=6 {
        let _ = writeln!(out, "\tQualifier {i} label: {}", of(&format!("q{i}label")));
    }
    let _ = writeln!(out, "\tMatch wildcard to any: {}", of("matchwildcardtoany"));
    let _ = writeln!(out, "\tLocation file: {}", of("locationfile"));
    let _ =
        writeln!(out, "\tCurrent static entries: {}  Current custom entries: {}", of("static"), of("custom"));
    let _ = writeln!(
        out,
        "\tCurrent static entries (IPv6): {}  Current custom entries (IPv6): {}",
        of("static6"),
        of("custom6")
    );
    out
}

pub(super) fn policy(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "{number})\tName: {}\n\tRule: {}\n\tAction Name: {}\n\tHits: {}\tUndef Hits: {}\n",
        of("name"),
        of("rule"),
        of("actionname"),
        of("hits"),
        of("undefhits")
    );
    for bound in rows(&row["dnspolicy_binding"]) {
        let of = |key: &str| cell(&bound[key]);
        let parts = [
            ("Bound to", of("boundto")),
            ("Type", of("type")),
            ("Priority", of("priority")),
            ("GotoPriorityExpression", of("gotopriorityexpression")),
        ];
        line(&mut out, "\t", &parts);
    }
    out
}

pub(super) fn action(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out =
        format!("{number})\tAction Name: {}\tAction Type: {}\n", of("actionname"), of("actiontype"));
    for (label, key) in [
        ("Preferred Location List", "preferredloclist"),
        ("View Name", "viewname"),
        ("IP Address", "ipaddress"),
        ("TTL", "ttl"),
    ] {
        if !row[key].is_null() {
            line(&mut out, "\t", &[(label, of(key))]);
        }
    }
    out
}

pub(super) fn global(number: usize, row: &Value) -> String {
    let mut out = format!(
        "{number})\tBind Point: {}\tNumber of policies: {}\n",
        cell(&row["type"]),
        cell(&row["numpol"])
    );
    for (i, bound) in rows(&row["dnsglobal_dnspolicy_binding"]).iter().enumerate() {
        let _ = write!(out, "\t{}", bound_policy(i + 1, bound));
    }
    out
}

pub(super) fn view(number: usize, row: &Value) -> String {
    let mut out = format!("{number})\tView Name: {}\n", cell(&row["viewname"]));
    for bound in rows(&row["dnsview_gslbservice_binding"]) {
        let parts =
            [("GSLB Service", cell(&bound["gslbservicename"])), ("View IP", cell(&bound["ipaddress"]))];
        line(&mut out, "\t", &parts);
    }
    for name in rows(&row["dnsview_dnspolicy_binding"]) {
        line(&mut out, "\t", &[("DNS Policy", cell(name))]);
    }
    out
}
