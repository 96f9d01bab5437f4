//! `explain`: the answer first, then how it came about.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Style, block, cell, given};

/// The answer, where it is given, and the numbered steps to it.
pub fn explain(style: Style, value: &Value) -> String {
    let mut out = format!(
        "{} {} for client {}\n\n",
        cell(&value["name"]),
        cell(&value["type"]),
        cell(&value["client"])
    );
    out += &block(&head(value));
    out += "\nStep by step:\n";
    out += &steps(style, value["steps"].as_array().map_or(&[], Vec::as_slice));
    if value["wire"].is_object() {
        let rows = [("query", cell(&value["wire"]["query"])), ("reply", cell(&value["wire"]["reply"]))];
        out += "\nOn the wire:\n";
        out += &block(&rows);
    }
    out
}

fn head(value: &Value) -> Vec<(&'static str, String)> {
    let count = |key: &str| value[key].as_array().map_or(0, Vec::len);
    let answer = match (value["rcode"].as_str(), count("addresses") + count("records")) {
        (None, _) if value["outcome"].is_string() => given(value),
        (Some("NOERROR"), 0) => "NOERROR, no addresses".to_owned(),
        (Some("NOERROR"), _) => given(value),
        (rcode, _) => rcode.unwrap_or("made by the worker").to_owned(),
    };
    let lane = if value["source"] == "xdp" { "in XDP" } else { "by a worker" };
    let mut rows =
        vec![("answer", answer), ("answered", format!("{lane}: {}", cell(&value["source_reason"])))];
    let mut add = |label, key: &str| {
        if !value[key].is_null() {
            rows.push((label, cell(&value[key])));
        }
    };
    add("TTL", "ttl");
    add("vserver", "owner");
    add("policy", "policy");
    add("view", "view");
    add("tier", "tier");
    add("method", "method");
    add("reason", "reason");
    add("class", "class");
    add("generation", "generation");
    if value["link"].is_string() && value["link"] != value["owner"] {
        rows.insert(4, ("backup", cell(&value["link"])));
    }
    rows
}

/// Three columns without a header. In a terminal what does not fit goes to a line of its own.
fn steps(style: Style, steps: &[Value]) -> String {
    let cells: Vec<[String; 3]> =
        steps.iter().map(|s| ["step", "outcome", "reason"].map(|key| cell(&s[key]))).collect();
    let widest = |i: usize| cells.iter().map(|c| c[i].chars().count()).max().unwrap_or(0);
    let (first, second) = (widest(0), widest(1).min(44));
    let digits = cells.len().to_string().len();
    let mut out = String::new();
    // Writing into a String cannot fail.
    for (i, [step, outcome, reason]) in cells.iter().enumerate() {
        let number = i + 1;
        let line = format!("{number:>digits$}. {step:first$}  {outcome:second$}");
        let room = style.width.map_or(usize::MAX, usize::from);
        if line.chars().count() + reason.chars().count() + 2 > room {
            let indent = digits + 2 + first + 4;
            let _ = writeln!(out, "{}\n{:indent$}{reason}", line.trim_end(), "");
        } else {
            let _ = writeln!(out, "{line}  {reason}");
        }
    }
    out
}
