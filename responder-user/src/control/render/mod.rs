//! Results as text: tables in a terminal, one record a line with tabs between its fields when piped.
//!
//! Names and details come from configuration and from servers that are checked; control characters in them never
//! reach the terminal.

mod edit;
mod explain;
mod ns;
mod objects;
mod status;
mod stream;

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::command::{CheckReport, Done};

pub use edit::diff;
pub use explain::explain;
pub use ns::ns;
pub use objects::{columns_help, show};
pub use status::status;
pub use stream::{Watch, event, latency, missed, stats, top};

/// Where text goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// To people, not to a pipe or file.
    pub terminal: bool,
    /// Columns, if known.
    pub width: Option<u16>,
}

impl Style {
    /// Of standard output.
    pub fn of_stdout() -> Self {
        use std::io::IsTerminal as _;
        let terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
        Self { terminal, width: width.filter(|_| terminal) }
    }
}

/// Text without control characters.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A value in one cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => clean(text),
        Value::Array(list) if list.is_empty() => "-".to_owned(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(" "),
        Value::Number(_) | Value::Object(_) => clean(&value.to_string()),
    }
}

/// The addresses of an answer, and how many of them it carries.
fn given(answer: &Value) -> String {
    match answer["outcome"].as_str() {
        Some("drop") => return "no reply".to_owned(),
        Some("refused") => return "REFUSED".to_owned(),
        Some("not-ours") => return "as if no vserver owned the name".to_owned(),
        _ => {}
    }
    let records = answer["records"].as_array().map_or(0, Vec::len);
    let key = if records > 0 { "records" } else { "addresses" };
    let addresses = cell(&answer[key]);
    match (answer["give"].as_str(), answer[key].as_array().map_or(0, Vec::len)) {
        (_, 0) => "no addresses".to_owned(),
        (_, 1) => addresses,
        (Some("one"), _) => format!("one of {addresses}"),
        (Some("best-first"), _) => format!("all of {addresses}, best first"),
        _ => format!("all of {addresses}"),
    }
}

/// A state as NetScaler prints it.
fn state(value: &Value) -> String {
    cell(value).to_ascii_uppercase()
}

/// A list: a table with a header, or lines with tabs.
fn table(style: Style, header: &[&str], rows: Vec<Vec<String>>) -> String {
    if !style.terminal {
        return rows.into_iter().fold(String::new(), |out, row| out + &row.join("\t") + "\n");
    }
    if rows.is_empty() {
        return "none\n".to_owned();
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    if let Some(width) = style.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// Labels and values, aligned.
fn block(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut out, (label, value)| {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{label:width$}  {value}");
        out
    })
}

/// `enable`, `disable`, `force`, `reload`.
pub fn done(value: &Value) -> String {
    let Ok(done) = serde_json::from_value::<Done>(value.clone()) else { return pretty(value) };
    lines(std::iter::once(clean(&done.message)).chain(warnings(&done.warnings)))
}

/// `check`: every problem, errors first; of a valid file that it is.
pub fn check(report: &CheckReport) -> String {
    let valid = format!("{}: valid", clean(&report.file.display().to_string()));
    problems(report) + &lines(report.errors.is_empty().then_some(valid).into_iter())
}

/// Every problem, errors first.
pub fn problems(report: &CheckReport) -> String {
    let errors = report.errors.iter().map(|e| clean(e));
    lines(errors.chain(warnings(&report.warnings)))
}

fn warnings(list: &[String]) -> impl Iterator<Item = String> {
    list.iter().map(|w| format!("warning: {}", clean(w)))
}

fn lines(list: impl Iterator<Item = String>) -> String {
    list.fold(String::new(), |out, line| out + &line + "\n")
}

/// JSON for people and programs alike.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
