//! A configuration as rows of keys and values, before it is TOML: what two of them differ in goes into a document that is
//! there already.

use std::collections::HashMap;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum V {
    S(String),
    I(i64),
    F(f64),
    B(bool),
    L(Vec<V>),
    T(Vec<(&'static str, V)>),
    /// A table whose keys are names.
    M(Vec<(String, V)>),
}

impl From<&str> for V {
    fn from(text: &str) -> Self {
        Self::S(text.to_owned())
    }
}

impl From<String> for V {
    fn from(text: String) -> Self {
        Self::S(text)
    }
}

impl From<u64> for V {
    fn from(number: u64) -> Self {
        Self::I(number as i64)
    }
}

impl From<bool> for V {
    fn from(flag: bool) -> Self {
        Self::B(flag)
    }
}

/// One `[[kind]]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) kind: &'static str,
    /// The keys that tell rows of a kind apart.
    pub(super) ids: &'static [&'static str],
    pub(super) fields: Vec<(&'static str, V)>,
}

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Doc {
    /// `[table]` with its keys.
    pub(super) tables: Vec<(&'static str, Vec<(&'static str, V)>)>,
    /// `[[table]]`, in order.
    pub(super) rows: Vec<Row>,
}

impl Row {
    pub(super) fn new(kind: &'static str, name: impl Into<V>) -> Self {
        Self { kind, ids: &["name"], fields: vec![("name", name.into())] }
    }

    /// Puts a key in.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<V>) {
        self.fields.push((key, value.into()));
    }

    /// Puts a key in if there is a value.
    pub(super) fn put(&mut self, key: &'static str, value: Option<impl Into<V>>) {
        self.fields.extend(value.map(|value| (key, value.into())));
    }

    fn id(&self) -> Vec<String> {
        self.ids
            .iter()
            .map(|id| match self.fields.iter().find(|(key, _)| key == id) {
                Some((_, V::S(text))) => fold_id(text),
                _ => String::new(),
            })
            .collect()
    }
}

fn fold_id(text: &str) -> String {
    text.trim_end_matches('.').to_ascii_lowercase()
}

/// Gives an object its new name in a document and in what it is compared with: so the row stays the same row. What refers
/// to it in keys that have no counterpart follows, too.
pub(super) fn rename(document: &mut DocumentMut, before: &mut Doc, table: &str, from: &str, to: &str) {
    let keys = |kind: &str| -> &[&str] {
        match (table, kind) {
            ("vserver", "domain" | "domain_list") => &["vserver"],
            ("vserver", "service") => &["behind"],
            _ if table == kind => &["name"],
            _ => &[],
        }
    };
    for row in &mut before.rows {
        for (_, value) in row.fields.iter_mut().filter(|(key, _)| keys(row.kind).contains(key)) {
            if matches!(value, V::S(text) if fold_id(text) == fold_id(from)) {
                *value = to.into();
            }
        }
    }
    for kind in ["vserver", "service", "monitor", "dns_action", "dns_policy", "domain", "domain_list"] {
        let Some(list) = document.get_mut(kind).and_then(Item::as_array_of_tables_mut) else { continue };
        for table in list.iter_mut() {
            for key in keys(kind) {
                let is_it =
                    table.get(key).and_then(Item::as_str).is_some_and(|text| fold_id(text) == fold_id(from));
                if is_it {
                    replace(table, key, &to.into());
                }
            }
        }
    }
}

/// Changes a document as `after` differs from `before`. What neither speaks of stays: comments, order, other keys.
pub(super) fn merge(document: &mut DocumentMut, before: &Doc, after: &Doc) {
    const NONE: &[(&str, V)] = &[];
    let fields = |doc: &'_ Doc, name: &str| -> Vec<(&'static str, V)> {
        doc.tables.iter().find(|(table, _)| *table == name).map_or(NONE, |(_, fields)| fields).to_vec()
    };
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in before.tables.iter().chain(&after.tables) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        let (old, new) = (fields(before, name), fields(after, name));
        if old == new {
            continue;
        }
        let item = document.entry(name).or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = item.as_table_like_mut() {
            merge_fields(table, &old, &new);
            if table.is_empty() {
                document.remove(name);
            }
        }
    }
    let mut kinds: Vec<&'static str> = Vec::new();
    for row in after.rows.iter().chain(&before.rows) {
        if !kinds.contains(&row.kind) {
            kinds.push(row.kind);
        }
    }
    for kind in kinds {
        merge_rows(document, kind, before, after);
    }
}

fn merge_rows(document: &mut DocumentMut, kind: &'static str, before: &Doc, after: &Doc) {
    let of = |doc: &'_ Doc| -> Vec<Row> { doc.rows.iter().filter(|row| row.kind == kind).cloned().collect() };
    let (old, new) = (of(before), of(after));
    if old == new {
        return;
    }
    let list = list_of_tables(document, kind);
    let by_id = |rows: &[Row]| -> HashMap<Vec<String>, usize> {
        rows.iter().enumerate().map(|(i, row)| (row.id(), i)).collect()
    };
    let (olds, news) = (by_id(&old), by_id(&new));
    let places = places(list, new.first().or(old.first()).map_or(&["name"], |row| row.ids));
    let mut gone: Vec<usize> =
        olds.keys().filter(|id| !news.contains_key(*id)).filter_map(|id| places.get(id).copied()).collect();
    let empty = Vec::new();
    for row in &new {
        let id = row.id();
        let earlier = olds.get(&id).map(|i| &old[*i]);
        if earlier == Some(row) {
            continue;
        }
        let old_fields = earlier.map_or(&empty, |earlier| &earlier.fields);
        if let Some(table) = places.get(&id).and_then(|at| list.get_mut(*at)) {
            merge_fields(table, old_fields, &row.fields);
        } else {
            let mut table = Table::new();
            merge_fields(&mut table, &empty, &row.fields);
            list.push(table);
        }
    }
    gone.sort_unstable();
    for at in gone.into_iter().rev() {
        list.remove(at);
    }
    if list.is_empty() {
        document.remove(kind);
    }
}

/// The `[[kind]]` of a document; a list of inline tables becomes one.
fn list_of_tables<'d>(document: &'d mut DocumentMut, kind: &str) -> &'d mut ArrayOfTables {
    let item = document.entry(kind).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let mut tables = ArrayOfTables::new();
        for value in item.as_array().into_iter().flatten() {
            if let Some(inline) = value.as_inline_table() {
                tables.push(inline.clone().into_table());
            }
        }
        *item = Item::ArrayOfTables(tables);
    }
    item.as_array_of_tables_mut().expect("made just above")
}

/// Where the tables of a list stand, by what tells them apart.
fn places(list: &ArrayOfTables, ids: &[&str]) -> HashMap<Vec<String>, usize> {
    let text =
        |table: &Table, key: &&str| table.get(key).and_then(Item::as_str).map(fold_id).unwrap_or_default();
    let id = |table: &Table| ids.iter().map(|key| text(table, key)).collect();
    list.iter().enumerate().map(|(i, table)| (id(table), i)).collect()
}

/// Lists to which others may have added elements of their own: changed element by element.
const SHARED: [&str; 3] = ["addresses", "files", "custom"];

fn merge_fields(table: &mut dyn TableLike, before: &[(&'static str, V)], after: &[(&'static str, V)]) {
    for (key, old) in before {
        if !after.iter().any(|(other, _)| other == key) {
            let rest = match old {
                V::L(list) if SHARED.contains(key) => shared(table.get(key), list, &[]),
                _ => None,
            };
            match rest.filter(|rest| !rest.is_empty()) {
                Some(rest) => put(table, key, Value::Array(rest)),
                None => drop(table.remove(key)),
            }
        }
    }
    for (key, new) in after {
        let old = before.iter().find(|(other, _)| other == key).map(|(_, value)| value);
        if old == Some(new) {
            continue;
        }
        let empty = Vec::new();
        match (old, new) {
            (_, V::T(new)) if table.get(key).is_some_and(Item::is_table_like) => {
                let old = if let Some(V::T(old)) = old { old } else { &empty };
                if let Some(inner) = table.get_mut(key).and_then(Item::as_table_like_mut) {
                    merge_fields(inner, old, new);
                }
            }
            (old, V::L(new)) if SHARED.contains(key) && table.get(key).is_some() => {
                let old = if let Some(V::L(old)) = old { &old[..] } else { &[] };
                let list = shared(table.get(key), old, new).unwrap_or_else(|| array(new));
                put(table, key, Value::Array(list));
            }
            _ => replace(table, key, new),
        }
    }
}

fn replace(table: &mut dyn TableLike, key: &str, new: &V) {
    let mut value = to_value(new);
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        // The comment behind a value stays.
        *value.decor_mut() = old.decor().clone();
    }
    put(table, key, value);
}

/// Puts a value behind its key, which keeps its place and its spacing.
fn put(table: &mut dyn TableLike, key: &str, value: Value) {
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// The elements of a document's list without those of `old` that `new` lacks, and with those that are new. None: the
/// document says them in words that are not ours.
fn shared(item: Option<&Item>, old: &[V], new: &[V]) -> Option<Array> {
    let there = item?.as_array()?;
    let mut left: Vec<(String, Value)> = there.iter().map(|value| (plain(value), value.clone())).collect();
    for gone in old.iter().filter(|value| !new.contains(value)) {
        let at = left.iter().position(|(text, _)| *text == plain(&to_value(gone)))?;
        left.remove(at);
    }
    let mut out = Array::new();
    let is_long = there
        .iter()
        .any(|value| value.decor().prefix().and_then(|p| p.as_str()).is_some_and(|p| p.contains('\n')));
    for (_, value) in left {
        out.push_formatted(value);
    }
    for added in new.iter().filter(|value| !old.contains(value)) {
        out.push(to_value(added));
        if let Some(last) = out.len().checked_sub(1).filter(|_| is_long).and_then(|at| out.get_mut(at)) {
            last.decor_mut().set_prefix("\n  ");
        }
    }
    if is_long {
        out.set_trailing("\n");
        out.set_trailing_comma(true);
    }
    Some(out)
}

/// A value without its spacing.
fn plain(value: &Value) -> String {
    let mut value = value.clone();
    value.decor_mut().clear();
    if let Some(table) = value.as_inline_table_mut() {
        table.fmt();
    }
    value.to_string()
}

fn array(list: &[V]) -> Array {
    let mut out: Array = list.iter().map(to_value).collect();
    // Lists of tables are read a line each.
    if list.len() > 1 && list.iter().any(|value| matches!(value, V::T(_))) {
        for value in out.iter_mut() {
            value.decor_mut().set_prefix("\n  ");
        }
        out.set_trailing("\n");
        out.set_trailing_comma(true);
    }
    out
}

/// As TOML.
pub(super) fn to_value(value: &V) -> Value {
    match value {
        V::S(text) => text.as_str().into(),
        V::I(number) => (*number).into(),
        V::F(number) => (*number).into(),
        V::B(flag) => (*flag).into(),
        V::L(list) => Value::Array(array(list)),
        V::T(fields) => {
            let mut table = InlineTable::new();
            for (key, value) in fields {
                table.insert(*key, to_value(value));
            }
            Value::InlineTable(table)
        }
        V::M(fields) => {
            let mut table = InlineTable::new();
            for (key, value) in fields {
                table.insert(key, to_value(value));
            }
            Value::InlineTable(table)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_spoken_of_stays() {
        let text = "# mine\n[listen]\naddresses = [\"0.0.0.0:53\", \"192.0.2.1:53\"] # all\n\n[[service]] # first\nname = \"a\"\nport = 1 # one\nlocation = \"X\"\n\n[[service]]\nname = \"b\"\n";
        let service = |name: &str, port: u64| {
            let mut row = Row::new("service", name);
            row.set("port", port);
            row
        };
        let listen = |list: &[&str]| {
            vec![("listen", vec![("addresses", V::L(list.iter().map(|a| V::from(*a)).collect()))])]
        };
        let before = Doc { tables: listen(&["192.0.2.1:53"]), rows: vec![service("a", 1), service("b", 0)] };
        let after = Doc { tables: listen(&["192.0.2.2:53"]), rows: vec![service("A", 2), service("c", 3)] };
        let mut document: DocumentMut = text.parse().unwrap();
        merge(&mut document, &before, &before);
        assert_eq!(document.to_string(), text);
        merge(&mut document, &before, &after);
        assert_eq!(
            document.to_string(),
            "# mine\n[listen]\naddresses = [\"0.0.0.0:53\", \"192.0.2.2:53\"]\n\n[[service]] # first\nname = \"A\"\nport = 2 # one\nlocation = \"X\"\n\n[[service]]\nname = \"c\"\nport = 3\n"
        );
    }
}
