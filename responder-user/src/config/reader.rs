//! Hands out the typed values of one table and notes everything that is wrong with it.
//!
//! A reader never stops: a value that cannot be used is reported and read as absent. What was asked for is what is
//! known: [`Reader::finish`] reports every other key.

use std::{cell::RefCell, fmt::Write as _};

use toml_edit::{ArrayOfTables, Item, TableLike, Value};

use super::{
    kind::{Kind, Wrong},
    problem::{At, Notes},
};

/// A value or a table of the document.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Value(&'a Value),
    Table(&'a dyn TableLike),
    Tables(&'a ArrayOfTables),
}

impl<'a> Node<'a> {
    fn new(item: &'a Item) -> Option<Self> {
        match item {
            Item::None => None,
            Item::Value(value) => Some(Self::of_value(value)),
            Item::Table(table) => Some(Self::Table(table)),
            Item::ArrayOfTables(tables) => Some(Self::Tables(tables)),
        }
    }

    fn of_value(value: &'a Value) -> Self {
        value.as_inline_table().map_or(Self::Value(value), |table| Self::Table(table))
    }

    pub(super) fn as_value(self) -> Option<&'a Value> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }

    pub(super) fn as_table(self) -> Option<&'a dyn TableLike> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    /// What it is, in the words of a message: `"http" is a string`.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Table(_) | Self::Value(Value::InlineTable(_)) => "is a table".to_owned(),
            Self::Tables(_) => "is a list of tables".to_owned(),
            Self::Value(Value::Array(_)) => "is a list".to_owned(),
            Self::Value(Value::String(text)) => format!("{:?} is a string", text.value()),
            Self::Value(Value::Integer(number)) => format!("{} is an integer", number.value()),
            Self::Value(Value::Float(number)) => format!("{:?} is a float", number.value()),
            Self::Value(Value::Boolean(flag)) => format!("{} is a boolean", flag.value()),
            Self::Value(Value::Datetime(date)) => format!("{} is a date", date.value()),
        }
    }
}

/// An element of a list of references: a name alone, or a table with more to say.
pub(super) enum Row<'a> {
    Text(At<String>),
    Table(Reader<'a>),
}

/// Reads one table. `label` names the object in messages: `vserver "www"`.
pub(super) struct Reader<'a> {
    pub(super) notes: &'a Notes<'a>,
    table: &'a dyn TableLike,
    /// Where the table begins.
    pub(super) at: usize,
    /// Kind of the object, the key of the table.
    pub(super) kind: &'static str,
    label: String,
    /// Keys above this table inside the object, each with a dot behind it.
    path: String,
    known: RefCell<Vec<&'static str>>,
    problems_before: usize,
}

impl<'a> Reader<'a> {
    /// The reader of a whole document.
    pub(super) fn root(notes: &'a Notes<'a>, table: &'a dyn TableLike) -> Self {
        Self::new(notes, table, 0, "", String::new(), String::new())
    }

    fn new(
        notes: &'a Notes<'a>,
        table: &'a dyn TableLike,
        at: usize,
        kind: &'static str,
        label: String,
        path: String,
    ) -> Self {
        let problems_before = notes.count();
        Self { notes, table, at, kind, label, path, known: RefCell::default(), problems_before }
    }

    /// True if something inside this table was reported: conclusions from it would only repeat that.
    pub(super) fn is_broken(&self) -> bool {
        self.notes.count() > self.problems_before
    }

    /// `object: field: text` as the message of this table.
    pub(super) fn say(&self, field: &str, text: &str) -> String {
        let mut out = self.label.clone();
        if !self.label.is_empty() {
            out.push_str(": ");
        }
        if !field.is_empty() || !self.path.is_empty() {
            let _ = write!(out, "{}{field}: ", self.path);
        }
        out + text
    }

    /// Reports a problem of a field.
    pub(super) fn problem(&self, at: usize, field: &str, text: &str) {
        self.notes.problem(at, self.say(field, text));
    }

    /// Notes that a key is known, and finds its value.
    fn node(&self, key: &'static str) -> Option<(Node<'a>, usize)> {
        self.known.borrow_mut().push(key);
        let item = self.table.get(key)?;
        let span = item.span().filter(|span| !span.is_empty());
        let at = span.or_else(|| self.table.key(key)?.span()).map_or(self.at, |span| span.start);
        Some((Node::new(item)?, at))
    }

    /// A text as it was typed, whatever it is worth; empty if there is none.
    pub(super) fn typed(&self, key: &str) -> String {
        self.table.get(key).and_then(Item::as_str).unwrap_or_default().to_owned()
    }

    /// True if the key is there, whatever its value.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.known.borrow_mut().push(key);
        self.table.get(key).is_some()
    }

    /// Where a key was typed; the table if it was not.
    pub(super) fn key_at(&self, key: &str) -> usize {
        self.table.key(key).and_then(toml_edit::Key::span).map_or(self.at, |span| span.start)
    }

    /// The value of a key, None if it is absent or wrong.
    pub(super) fn get<K: Kind>(&self, key: &'static str, kind: &K) -> Option<At<K::Out>> {
        let (node, at) = self.node(key)?;
        self.convert(key, node, at, kind)
    }

    /// As [`Self::get`]; an absent key is a problem.
    pub(super) fn require<K: Kind>(&self, key: &'static str, kind: &K) -> Option<At<K::Out>> {
        if !self.has(key) {
            self.missing(key);
        }
        self.get(key, kind)
    }

    /// Reports that a key is absent.
    pub(super) fn missing(&self, key: &str) {
        self.problem(self.at, key, "is missing");
    }

    /// The elements of a list; None if the key is absent. Elements that are wrong are reported and left out.
    pub(super) fn list<K: Kind>(&self, key: &'static str, kind: &K) -> Option<Vec<At<K::Out>>> {
        let (node, at) = self.node(key)?;
        let Some(array) = node.as_value().and_then(Value::as_array) else {
            self.wrong_type(key, at, node, &format!("a list, each {}", kind.allowed()));
            return None;
        };
        let element = |value: &'a Value| {
            let at = value.span().map_or(at, |span| span.start);
            self.convert(key, Node::of_value(value), at, kind)
        };
        Some(array.iter().filter_map(element).collect())
    }

    /// As [`Self::list`]; one value stands for a list of one.
    pub(super) fn one_or_list<K: Kind>(&self, key: &'static str, kind: &K) -> Option<Vec<At<K::Out>>> {
        match self.table.get(key) {
            Some(item) if !item.is_array() => {
                Some(self.get(key, kind).map_or_else(Vec::new, |one| vec![one]))
            }
            _ => self.list(key, kind),
        }
    }

    /// The table of a key. Its fields print as `key.field`, or as `kind: field` when the object is the table.
    pub(super) fn table(&self, key: &'static str) -> Option<Reader<'a>> {
        let (node, at) = self.node(key)?;
        let Some(table) = node.as_table() else {
            self.wrong_type(key, at, node, "a table");
            return None;
        };
        Some(self.inner(key, table, at))
    }

    fn inner(&self, key: &'static str, table: &'a dyn TableLike, at: usize) -> Reader<'a> {
        let kind = if self.kind.is_empty() { key } else { self.kind };
        Reader::new(self.notes, table, at, kind, self.label.clone(), format!("{}{key}.", self.path))
    }

    /// The tables of a `[[key]]`, or of a list of inline tables.
    pub(super) fn tables(&self, key: &'static str) -> Vec<Reader<'a>> {
        let Some((node, at)) = self.node(key) else { return Vec::new() };
        match node {
            Node::Tables(tables) => tables
                .iter()
                .map(|table| self.inner(key, table, table.span().map_or(at, |s| s.start)))
                .collect(),
            Node::Value(Value::Array(array)) => {
                let mut out = Vec::new();
                for value in array {
                    let at = value.span().map_or(at, |span| span.start);
                    match Node::of_value(value) {
                        Node::Table(table) => out.push(self.inner(key, table, at)),
                        other => self.wrong_type(key, at, other, "a table"),
                    }
                }
                out
            }
            _ if self.kind.is_empty() => {
                self.wrong_type(key, at, node, &format!("a list of tables, each [[{key}]]"));
                Vec::new()
            }
            _ => {
                self.wrong_type(key, at, node, "a list of tables");
                Vec::new()
            }
        }
    }

    /// As [`Self::tables`]; one table stands for a list of one.
    pub(super) fn tables_or_table(&self, key: &'static str) -> Vec<Reader<'a>> {
        match self.table.get(key).and_then(Node::new) {
            Some(Node::Table(_)) => self.table(key).into_iter().collect(),
            _ => self.tables(key),
        }
    }

    /// Every key with its reader, for tables whose keys are names of the user and whose values are one value or a list.
    pub(super) fn lists<K: Kind>(&self, kind: &K) -> Vec<(String, Vec<At<K::Out>>)> {
        let mut out = Vec::new();
        for (key, item) in self.table.iter() {
            let at = item.span().map_or_else(|| self.key_at(key), |span| span.start);
            let Some(node) = Node::new(item) else { continue };
            let values = match node.as_value().and_then(Value::as_array) {
                Some(array) => array
                    .iter()
                    .filter_map(|v| {
                        self.convert(key, Node::of_value(v), v.span().map_or(at, |s| s.start), kind)
                    })
                    .collect(),
                None => self.convert(key, node, at, kind).into_iter().collect(),
            };
            out.push((key.to_owned(), values));
        }
        out
    }

    /// The objects of a `[[kind]]`: as [`Self::tables`], but fields print as `kind "name": field`.
    pub(super) fn objects<T, R: Into<Option<T>>>(
        &self,
        kind: &'static str,
        name_key: &str,
        read: fn(&Reader<'a>) -> R,
    ) -> Vec<T> {
        let mut out = Vec::new();
        for mut object in self.tables(kind) {
            let name = object.table.get(name_key).and_then(Item::as_str);
            object.label = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name:?}"));
            object.path.clear();
            // What was wrong with the objects before does not break this one.
            object.problems_before = self.notes.count();
            out.extend(read(&object).into());
        }
        out
    }

    /// A list of strings and tables; one of them stands for a list of one.
    pub(super) fn rows(&self, key: &'static str) -> Vec<Row<'a>> {
        let Some((node, at)) = self.node(key) else { return Vec::new() };
        if let Some(array) = node.as_value().and_then(Value::as_array) {
            let row = |value: &'a Value| {
                self.row(key, Node::of_value(value), value.span().map_or(at, |span| span.start))
            };
            return array.iter().filter_map(row).collect();
        }
        match node {
            Node::Tables(_) => self.tables(key).into_iter().map(Row::Table).collect(),
            _ => self.row(key, node, at).into_iter().collect(),
        }
    }

    fn row(&self, key: &'static str, node: Node<'a>, at: usize) -> Option<Row<'a>> {
        match (node, node.as_value().and_then(Value::as_str)) {
            (_, Some(text)) => Some(Row::Text(At { value: text.to_owned(), at })),
            (Node::Table(table), _) => Some(Row::Table(self.inner(key, table, at))),
            _ => {
                self.wrong_type(key, at, node, "a list of strings and tables");
                None
            }
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (key, _) in self.table.iter().filter(|(key, _)| !known.contains(key)) {
            let hint = self.notes.did_you_mean(key, known.iter().copied());
            self.problem(self.key_at(key), key, &format!("is not a known key{hint}"));
        }
    }

    /// One warning a kind of key that parses but does nothing yet.
    pub(super) fn inert(&self, key: &'static str) {
        let name = format!("{}{key}", self.path);
        let mut text = self.label.clone();
        if !text.is_empty() {
            text.push_str(": ");
        }
        let _ = write!(text, "{name} has no effect yet");
        self.notes.warn_once(&format!("{}/{name}", self.kind), self.key_at(key), text);
    }

    fn convert<K: Kind>(&self, key: &str, node: Node<'a>, at: usize, kind: &K) -> Option<At<K::Out>> {
        match kind.read(node) {
            Ok(value) => return Some(At { value, at }),
            Err(Wrong::Type) => self.wrong_type(key, at, node, &kind.allowed()),
            Err(Wrong::Value(text)) => self.problem(at, key, &text),
            Err(Wrong::Word(word, words)) => {
                let hint = self.notes.did_you_mean(&word, words.iter().map(String::as_str));
                let allowed = kind.allowed();
                self.problem(at, key, &format!("{word:?} is not known; allowed is {allowed}{hint}"));
            }
        }
        None
    }

    fn wrong_type(&self, key: &str, at: usize, node: Node<'_>, allowed: &str) {
        self.problem(at, key, &format!("{}; allowed is {allowed}", node.describe()));
    }
}
