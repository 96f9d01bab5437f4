//! What differs between two configurations, key by key.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use toml_edit::{Item, Table, TableLike, Value};

use super::Draft;

/// One key that differs, or an object that only one of the two has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `vserver "www"`, or the name of a table.
    pub object: String,
    /// Dotted key; None: the whole object.
    pub field: Option<String>,
    /// What stands in the first; None: nothing.
    pub file: Option<String>,
    /// What stands in the second; None: nothing.
    pub running: Option<String>,
}

/// Objects with their keys, in the order of the text.
type Objects = Vec<(String, BTreeMap<String, String>)>;

/// What differs, in the order of the second text; what only the first has comes last.
pub fn differences(file: &Draft, running: &Draft) -> Vec<Difference> {
    let (file, running) = (objects(file), objects(running));
    let before: HashMap<&str, &BTreeMap<String, String>> =
        file.iter().map(|(label, fields)| (label.as_str(), fields)).collect();
    let after: HashSet<&str> = running.iter().map(|(label, _)| label.as_str()).collect();
    let mut out = Vec::new();
    for (label, fields) in &running {
        match before.get(label.as_str()) {
            None => out.push(Difference {
                object: label.clone(),
                field: None,
                file: None,
                running: Some(whole(fields)),
            }),
            Some(old) => fields_of(label, old, fields, &mut out),
        }
    }
    for (label, fields) in file.iter().filter(|(label, _)| !after.contains(label.as_str())) {
        out.push(Difference { object: label.clone(), field: None, file: Some(whole(fields)), running: None });
    }
    out
}

fn fields_of(
    label: &str,
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    out: &mut Vec<Difference>,
) {
    let mut keys: Vec<&String> = new.keys().chain(old.keys().filter(|key| !new.contains_key(*key))).collect();
    keys.sort();
    for key in keys {
        let (file, running) = (old.get(key).cloned(), new.get(key).cloned());
        if file != running {
            out.push(Difference { object: label.to_owned(), field: Some(key.clone()), file, running });
        }
    }
}

/// All keys in one line.
fn whole(fields: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = fields.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", words.join(", "))
}

fn objects(draft: &Draft) -> Objects {
    let mut out = Objects::new();
    for (key, item) in draft.0.iter() {
        match item {
            Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| object(key, table, &mut out));
            }
            Item::Value(Value::Array(array)) if array.iter().all(Value::is_inline_table) => {
                array
                    .iter()
                    .filter_map(Value::as_inline_table)
                    .for_each(|table| object(key, table, &mut out));
            }
            Item::Table(table) => single(key, table, &mut out),
            Item::Value(value) => match value.as_inline_table() {
                Some(table) => single(key, table, &mut out),
                None => out.push((key.to_owned(), BTreeMap::from([(String::new(), plain(value))]))),
            },
            Item::None => {}
        }
    }
    // Objects of one name, such as a name of two virtual servers, are told apart by their number.
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (label, _) in &mut out {
        let count = seen.entry(label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *label = format!("{label} ({count})");
        }
    }
    out
}

fn object(kind: &str, table: &dyn TableLike, out: &mut Objects) {
    let text = |key: &str| table.get(key).and_then(Item::as_str);
    let name = text("name").or_else(|| text("file"));
    let label = match (name, text("vserver").filter(|_| kind == "domain")) {
        (Some(name), Some(vserver)) => format!("{kind} {:?}", format!("{name}@{vserver}")),
        (Some(name), None) => format!("{kind} {name:?}"),
        (None, _) => kind.to_owned(),
    };
    let mut fields = BTreeMap::new();
    flatten("", table, &mut fields);
    out.push((label, fields));
}

/// A `[table]`. The custom ranges of locations are objects of their own.
fn single(key: &str, table: &dyn TableLike, out: &mut Objects) {
    let mut fields = BTreeMap::new();
    flatten("", table, &mut fields);
    if key == "location" {
        let mut ranges = BTreeMap::new();
        let rows: Vec<&dyn TableLike> = match table.get("custom") {
            Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| table as &dyn TableLike).collect(),
            Some(Item::Value(Value::Array(array))) => {
                array.iter().filter_map(Value::as_inline_table).map(|table| table as &dyn TableLike).collect()
            }
            _ => Vec::new(),
        };
        for row in rows {
            let mut inner = BTreeMap::new();
            flatten("", row, &mut inner);
            let name = row.get("range").and_then(Item::as_str).unwrap_or_default().to_owned();
            ranges.insert(format!("location {name:?}"), inner);
        }
        if !ranges.is_empty() {
            fields.retain(|field, _| field != "custom");
        }
        out.push((key.to_owned(), fields));
        out.extend(ranges);
        return;
    }
    out.push((key.to_owned(), fields));
}

fn flatten(path: &str, table: &dyn TableLike, out: &mut BTreeMap<String, String>) {
    for (key, item) in table.iter() {
        let field = format!("{path}{key}");
        match item {
            Item::None => {}
            Item::ArrayOfTables(tables) => {
                let rows: Vec<String> = tables.iter().map(of_table).collect();
                out.insert(field, format!("[{}]", rows.join(", ")));
            }
            other => match (other.as_table_like(), other.as_value()) {
                (Some(inner), _) => flatten(&format!("{field}."), inner, out),
                (None, Some(value)) => {
                    out.insert(field, plain(value));
                }
                (None, None) => {}
            },
        }
    }
}

fn of_table(table: &Table) -> String {
    let mut fields = BTreeMap::new();
    flatten("", table, &mut fields);
    whole(&fields)
}

/// A value in one line, without comments and in one spelling.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.value()),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(flag) => flag.value().to_string(),
        Value::Datetime(date) => date.value().to_string(),
        Value::Array(array) => {
            let rows: Vec<String> = array.iter().map(plain).collect();
            format!("[{}]", rows.join(", "))
        }
        Value::InlineTable(table) => {
            let rows: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
            format!("{{ {} }}", rows.join(", "))
        }
    }
}
