//! `status`: one short block.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;

use super::{block, cell, clean, grouped};

/// The whole state at a glance.
pub fn status(value: &Value) -> String {
    let ready = value["ready"].as_bool().unwrap_or(false);
    let uptime = Duration::from_secs(value["uptime_seconds"].as_u64().unwrap_or(0));
    let mut rows = vec![
        ("state", if ready { "ready" } else { "warming up" }.to_owned()),
        ("version", cell(&value["version"])),
        ("uptime", humantime::format_duration(uptime).to_string()),
        ("generation", cell(&value["generation"])),
    ];
    several(&mut rows, "interfaces", interfaces(value));
    several(&mut rows, "queries", queries(value));
    rows.push(("services", counted(&value["services"])));
    rows.push(("vservers", counted(&value["vservers"])));
    rows.push(("names", grouped(value["domains"].as_u64().unwrap_or(0))));
    rows.push(("journal", journal(&value["journal"])));
    let problems: Vec<String> = value["problems"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| clean(p.as_str().unwrap_or_default()))
        .collect();
    several(&mut rows, "problems", if problems.is_empty() { vec!["none".to_owned()] } else { problems });
    block(&rows)
}

fn several<'a>(rows: &mut Vec<(&'a str, String)>, label: &'a str, lines: Vec<String>) {
    for (i, line) in lines.into_iter().enumerate() {
        rows.push((if i == 0 { label } else { "" }, line));
    }
}

fn interfaces(value: &Value) -> Vec<String> {
    let list = value["interfaces"].as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        return vec!["none: the workers answer everything".to_owned()];
    }
    let width = list.iter().map(|i| cell(&i["name"]).len()).max().unwrap_or(0);
    list.iter()
        .map(|i| {
            let mode = match i["mode"].as_str() {
                Some("off") => "XDP off".to_owned(),
                _ => format!("XDP {}", cell(&i["mode"])),
            };
            format!("{:width$}  {mode}, link {}", cell(&i["name"]), cell(&i["link"]))
        })
        .collect()
}

fn queries(value: &Value) -> Vec<String> {
    let total = |key: &str| grouped(value["queries"][key].as_u64().unwrap_or(0));
    let rate = |key: &str| {
        value["rates"][key].as_f64().map_or_else(|| "-".to_owned(), |r| grouped(r.round() as u64) + "/s")
    };
    ["xdp", "worker", "dropped"]
        .into_iter()
        .zip(["in XDP", "by workers", "dropped"])
        .map(|(key, words)| format!("{:>12} {words:10}  {} in all", rate(key), total(key)))
        .collect()
}

fn journal(value: &Value) -> String {
    if let Some(error) = value["error"].as_str() {
        return format!("cannot be written: {}", clean(error));
    }
    let number = |key: &str| grouped(value[key].as_u64().unwrap_or(0));
    format!("{} records, {} octets in {}", number("records"), number("bytes"), cell(&value["path"]))
}

fn counted(counts: &Value) -> String {
    let number = |key: &str| counts[key].as_u64().unwrap_or(0);
    let mut out = format!("{} of {} up", number("up"), number("total"));
    for key in ["down", "undecided", "disabled"] {
        if number(key) > 0 {
            let _ = write!(out, ", {} {key}", number(key));
        }
    }
    out
}
