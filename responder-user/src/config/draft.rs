//! A configuration that is being changed: the document as it was typed, comments included.
//!
//! A draft knows tables and keys, not what they mean: whether a changed text can run is for [`super::parse`]. What
//! nobody touches stays as it is, to the octet. A value that is replaced keeps the comments around it; a key or an
//! object that is taken away takes the comments right above it along.

mod difference;
#[cfg(test)]
mod tests;

use toml_edit::{
    Array, ArrayOfTables, DocumentMut, InlineTable, Item, Key, RawString, Table, TableLike, Value, value,
};

pub use difference::{Difference, differences};

/// The tables of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `[[table]]` whose objects have a name.
    Objects {
        /// Name of the table.
        table: &'static str,
        /// The key that names an object.
        key: &'static str,
        /// The key that tells objects of one name apart: `NAME@…`.
        beside: Option<&'static str>,
    },
    /// A `[table]`.
    Single(&'static str),
    /// `location.custom`; its ranges are the names.
    Ranges,
}

/// Why a draft cannot be changed like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// The text is no TOML.
    #[error("the configuration is not TOML: {0}")]
    Syntax(String),
    /// No such object.
    #[error("no {kind} {name:?}")]
    Unknown {
        /// Of this kind.
        kind: String,
        /// Of this name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// There is one already.
    #[error("{kind} {name:?} exists already")]
    Exists {
        /// Of this kind.
        kind: String,
        /// Of this name.
        name: String,
    },
    /// Several objects have the name.
    #[error("{count} tables [[{kind}]] have the name {name:?}; write one of {}", .choices.join(", "))]
    Several {
        /// Of this kind.
        kind: String,
        /// The name.
        name: String,
        /// How many.
        count: usize,
        /// Names that mean one each.
        choices: Vec<String>,
    },
    /// A change that is none.
    #[error("{0:?} is no change; write KEY=VALUE, KEY+=ELEMENT, KEY-=ELEMENT, or KEY= for the default")]
    Change(String),
    /// A key that is none.
    #[error("{0:?} is not a key")]
    Key(String),
    /// A part of a key is no table.
    #[error("{field}: is no table, so it has no key {key:?}")]
    NoTable {
        /// The part.
        field: String,
        /// Below it.
        key: String,
    },
    /// `+=` or `-=` on what is no list.
    #[error("{0}: is no list; write {0}=VALUE")]
    NoList(String),
    /// `-=` of what is not there.
    #[error("{field}: {element} is not in the list")]
    NoElement {
        /// The list.
        field: String,
        /// The element.
        element: String,
    },
}

/// What becomes of one key of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Dotted: `spillover.threshold`.
    pub field: String,
    /// What it is to be.
    pub to: To,
}

/// The new value of a key.
#[derive(Clone, Debug)]
pub enum To {
    /// This value.
    Value(Value),
    /// The default: the key goes.
    Default,
    /// One element more.
    With(Value),
    /// One element less.
    Without(Value),
}

impl Change {
    /// Reads `key=value`, `key+=element`, `key-=element` and `key=`. A value is TOML; what is none is a string.
    pub fn parse(text: &str) -> Result<Self, DraftError> {
        let wrong = || DraftError::Change(text.to_owned());
        let (left, right) = text.split_once('=').ok_or_else(wrong)?;
        let (field, to) = if let Some(field) = left.strip_suffix('+') {
            (field, To::With(read(right)))
        } else if let Some(field) = left.strip_suffix('-') {
            (field, To::Without(read(right)))
        } else if right.is_empty() {
            (left, To::Default)
        } else {
            (left, To::Value(read(right)))
        };
        if field.trim().is_empty() || (right.is_empty() && !matches!(to, To::Default)) {
            return Err(wrong());
        }
        Ok(Self { field: field.trim().to_owned(), to })
    }

    /// A key that gets a value.
    pub fn set(field: &str, to: impl Into<Value>) -> Self {
        Self { field: field.to_owned(), to: To::Value(to.into()) }
    }

    /// A key that gets its default.
    pub fn unset(field: &str) -> Self {
        Self { field: field.to_owned(), to: To::Default }
    }
}

/// A value as TOML; what is none is a string.
fn read(text: &str) -> Value {
    let mut read = text.trim().parse::<Value>().unwrap_or_else(|_| Value::from(text));
    read.decor_mut().clear();
    read
}

/// The document.
#[derive(Clone, Debug)]
pub struct Draft(DocumentMut);

impl Draft {
    /// Of a text.
    pub fn of(text: &str) -> Result<Self, DraftError> {
        text.parse()
            .map(Self)
            .map_err(|error: toml_edit::TomlError| DraftError::Syntax(error.message().to_owned()))
    }

    /// The text that would be written.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// True if there is such an object.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        !self.places(kind, name).is_empty()
    }

    /// A value of an object, as it stands.
    pub fn get(&self, kind: Kind, name: &str, field: &str) -> Option<&Value> {
        let place = *self.places(kind, name).first()?;
        let mut table = self.rows(kind).into_iter().nth(place)?;
        let keys = Key::parse(field).ok()?;
        let (last, above) = keys.split_last()?;
        for key in above {
            table = table.get(key.get())?.as_table_like()?;
        }
        table.get(last.get())?.as_value()
    }

    /// Changes an object that is there, or a `[table]`, which need not.
    pub fn set(&mut self, kind: Kind, name: &str, changes: &[Change]) -> Result<(), DraftError> {
        let table = if let Kind::Single(table) = kind {
            self.single(table)?
        } else {
            let place = self.place(kind, name)?;
            self.row(kind, place).ok_or_else(|| DraftError::Key(name.to_owned()))?
        };
        changes.iter().try_for_each(|change| change.apply(table))
    }

    /// Adds an object.
    pub fn add(&mut self, kind: Kind, name: &str, changes: &[Change]) -> Result<(), DraftError> {
        let (key, label) = match kind {
            Kind::Objects { table, key, .. } => (key, table),
            Kind::Ranges => ("range", "location"),
            Kind::Single(table) => {
                return Err(DraftError::Exists { kind: table.to_owned(), name: table.to_owned() });
            }
        };
        let is_unique = !matches!(kind, Kind::Objects { beside: Some(_), .. });
        if is_unique && self.has(kind, name) {
            return Err(DraftError::Exists { kind: label.to_owned(), name: name.to_owned() });
        }
        let mut made = Table::new();
        made.insert(key, value(name));
        changes.iter().try_for_each(|change| change.apply(&mut made))?;
        let list = match kind {
            Kind::Ranges => {
                let location = self.single("location")?;
                location.entry("custom").or_insert(Item::Value(Array::new().into()))
            }
            _ => self.0.as_table_mut().entry(label).or_insert(Item::ArrayOfTables(ArrayOfTables::new())),
        };
        match list {
            Item::ArrayOfTables(tables) => {
                made.decor_mut().set_prefix("\n");
                tables.push(made);
            }
            Item::Value(Value::Array(array)) => push(array, inline(made).into()),
            _ => return Err(DraftError::NoList(label.to_owned())),
        }
        Ok(())
    }

    /// Takes an object away.
    pub fn remove(&mut self, kind: Kind, name: &str) -> Result<(), DraftError> {
        if let Kind::Single(table) = kind {
            return self.remove_key(table, name);
        }
        let place = self.place(kind, name)?;
        match self.list_mut(kind) {
            Some(Item::ArrayOfTables(tables)) => drop(tables.remove(place)),
            Some(Item::Value(Value::Array(array))) => drop(array.remove(place)),
            _ => {}
        }
        Ok(())
    }

    /// Takes a key out of a table that is no list of objects, and the table with its last one.
    fn remove_key(&mut self, table: &str, key: &str) -> Result<(), DraftError> {
        let all = self.0.as_table_mut();
        let Some(keys) = all.get_mut(table).and_then(Item::as_table_like_mut) else {
            return Err(DraftError::Unknown {
                kind: table.to_owned(),
                name: key.to_owned(),
                known: Vec::new(),
            });
        };
        if keys.remove(key).is_none() {
            let known = keys.iter().map(|(key, _)| key.to_owned()).collect();
            return Err(DraftError::Unknown { kind: format!("key of {table}"), name: key.to_owned(), known });
        }
        if keys.is_empty() {
            all.remove(table);
        }
        Ok(())
    }

    /// Calls `change` for every object of a kind, with its name.
    pub fn each(
        &mut self,
        kind: Kind,
        mut change: impl FnMut(&str, &mut dyn TableLike) -> Result<(), DraftError>,
    ) -> Result<(), DraftError> {
        for place in 0..self.rows(kind).len() {
            let Some(row) = self.row(kind, place) else { continue };
            let name = kind.name_of(row).to_owned();
            change(&name, row)?;
        }
        Ok(())
    }

    fn list(&self, kind: Kind) -> Option<&Item> {
        match kind {
            Kind::Objects { table, .. } | Kind::Single(table) => self.0.get(table),
            Kind::Ranges => self.0.get("location")?.as_table_like()?.get("custom"),
        }
    }

    fn list_mut(&mut self, kind: Kind) -> Option<&mut Item> {
        match kind {
            Kind::Objects { table, .. } | Kind::Single(table) => self.0.get_mut(table),
            Kind::Ranges => self.0.get_mut("location")?.as_table_like_mut()?.get_mut("custom"),
        }
    }

    /// The objects of a kind.
    fn rows(&self, kind: Kind) -> Vec<&dyn TableLike> {
        match self.list(kind) {
            Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| table as &dyn TableLike).collect(),
            Some(Item::Value(Value::Array(array))) => array
                .iter()
                .filter_map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
                .collect(),
            Some(other) => other.as_table_like().into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn row(&mut self, kind: Kind, place: usize) -> Option<&mut dyn TableLike> {
        match self.list_mut(kind)? {
            Item::ArrayOfTables(tables) => tables.get_mut(place).map(|table| table as &mut dyn TableLike),
            Item::Value(Value::Array(array)) => {
                array.get_mut(place)?.as_inline_table_mut().map(|table| table as &mut dyn TableLike)
            }
            other => other.as_table_like_mut(),
        }
    }

    /// A `[table]`, made if it is missing.
    fn single(&mut self, table: &'static str) -> Result<&mut dyn TableLike, DraftError> {
        let item = self.0.as_table_mut().entry(table).or_insert_with(|| {
            let mut made = Table::new();
            made.decor_mut().set_prefix("\n");
            Item::Table(made)
        });
        item.as_table_like_mut()
            .ok_or_else(|| DraftError::NoTable { field: table.to_owned(), key: String::new() })
    }

    /// Where the objects of a name stand.
    fn places(&self, kind: Kind, name: &str) -> Vec<usize> {
        let rows = self.rows(kind);
        let of = |wanted: &str| -> Vec<usize> {
            let found = rows.iter().enumerate().filter(|(_, row)| kind.same(kind.name_of(**row), wanted));
            found.map(|(place, _)| place).collect()
        };
        let all = of(name);
        let Kind::Objects { beside: Some(beside), .. } = kind else { return all };
        let Some((first, second)) = name.rsplit_once('@').filter(|_| all.is_empty()) else { return all };
        let is_it = |place: &usize| {
            rows[*place]
                .get(beside)
                .and_then(Item::as_str)
                .is_some_and(|text| text.eq_ignore_ascii_case(second))
        };
        of(first).into_iter().filter(is_it).collect()
    }

    fn place(&self, kind: Kind, name: &str) -> Result<usize, DraftError> {
        let label = kind.label().to_owned();
        match self.places(kind, name).as_slice() {
            [place] => Ok(*place),
            [] => {
                let known = self.rows(kind).iter().map(|row| kind.name_of(*row).to_owned()).collect();
                Err(DraftError::Unknown { kind: label, name: name.to_owned(), known })
            }
            several => {
                let rows = self.rows(kind);
                let beside = if let Kind::Objects { beside, .. } = kind { beside } else { None };
                let choice = |place: &usize| {
                    let word = beside.and_then(|key| rows[*place].get(key)).and_then(Item::as_str);
                    format!("{name}@{}", word.unwrap_or("?"))
                };
                let choices = several.iter().map(choice).collect();
                Err(DraftError::Several { kind: label, name: name.to_owned(), count: several.len(), choices })
            }
        }
    }
}

impl Kind {
    /// Name of the table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Objects { table, .. } | Self::Single(table) => table,
            Self::Ranges => "location",
        }
    }

    fn name_of(self, row: &dyn TableLike) -> &str {
        let key = match self {
            Self::Objects { key, .. } => key,
            Self::Ranges => "range",
            Self::Single(_) => return "",
        };
        row.get(key).and_then(Item::as_str).unwrap_or_default()
    }

    /// Names of DNS have no case and may end with a dot.
    fn same(self, a: &str, b: &str) -> bool {
        let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        match self {
            Self::Objects { table: "domain" | "zone" | "record", .. } => plain(a) == plain(b),
            _ => a == b,
        }
    }
}

impl Change {
    /// Changes a table.
    pub fn apply(&self, table: &mut dyn TableLike) -> Result<(), DraftError> {
        let keys = Key::parse(&self.field).map_err(|_| DraftError::Key(self.field.clone()))?;
        let Some((last, above)) = keys.split_last() else { return Err(DraftError::Key(self.field.clone())) };
        let last = last.get();
        let Some(table) = below(table, above, !matches!(self.to, To::Default | To::Without(_)))? else {
            return match &self.to {
                To::Without(element) => Err(self.lacks(element)),
                _ => Ok(()),
            };
        };
        match &self.to {
            To::Default => {
                table.remove(last);
            }
            To::Value(value) => put(table, last, value.clone()),
            To::With(element) => push(self.list(table, last)?, element.clone()),
            To::Without(element) => {
                if !table.contains_key(last) {
                    return Err(self.lacks(element));
                }
                let list = self.list(table, last)?;
                let place = list.iter().position(|value| is_element(value, element));
                let place = place.ok_or_else(|| self.lacks(element))?;
                pull(list, place);
            }
        }
        Ok(())
    }

    fn lacks(&self, element: &Value) -> DraftError {
        DraftError::NoElement { field: self.field.clone(), element: element.to_string().trim().to_owned() }
    }

    /// The list of a key; one value stands for a list of one.
    fn list<'t>(&self, table: &'t mut dyn TableLike, key: &str) -> Result<&'t mut Array, DraftError> {
        let item = table.entry(key).or_insert_with(|| Item::Value(Array::new().into()));
        if let Item::Value(one @ (Value::String(_) | Value::Integer(_) | Value::InlineTable(_))) = item {
            let mut element = one.clone();
            let decor = std::mem::take(element.decor_mut());
            let mut list = Value::from(Array::from_iter([element]));
            *list.decor_mut() = decor;
            *one = list;
        }
        item.as_array_mut().ok_or_else(|| DraftError::NoList(self.field.clone()))
    }
}

/// The table that `above` leads to; missing ones are made if `make`.
fn below<'t>(
    table: &'t mut dyn TableLike,
    above: &[Key],
    make: bool,
) -> Result<Option<&'t mut dyn TableLike>, DraftError> {
    let mut table = table;
    for key in above {
        if !table.contains_key(key.get()) && !make {
            return Ok(None);
        }
        let item = table.entry(key.get()).or_insert_with(|| Item::Value(InlineTable::new().into()));
        table = item.as_table_like_mut().ok_or_else(|| DraftError::NoTable {
            field: key.get().to_owned(),
            key: above.last().map_or_else(String::new, |key| key.get().to_owned()),
        })?;
    }
    Ok(Some(table))
}

/// Sets a key; a value that was there gives its comments.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// Adds an element in the layout of the list. A comment behind the last element stays behind it.
fn push(array: &mut Array, mut element: Value) {
    let last = array.len().checked_sub(1).and_then(|last| array.get_mut(last));
    let (mut prefix, mut suffix) = (if last.is_some() { " " } else { "" }.to_owned(), String::new());
    if let Some(last) = last {
        let typed = last.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
        if let Some(line) = typed.rfind('\n') {
            typed[line..].clone_into(&mut prefix);
            last.decor().suffix().and_then(RawString::as_str).unwrap_or_default().clone_into(&mut suffix);
            last.decor_mut().set_suffix("");
        }
    }
    let behind = suffix + array.trailing().as_str().unwrap_or_default();
    let (comment, rest) = behind.split_at(behind.find('\n').unwrap_or(0));
    element.decor_mut().set_prefix(format!("{comment}{prefix}"));
    element.decor_mut().set_suffix("");
    array.push_formatted(element);
    array.set_trailing(rest.to_owned());
}

/// Takes an element out, and its comment: that stands before the element behind it.
fn pull(array: &mut Array, place: usize) {
    let gone = array.remove(place);
    let prefix = gone.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    if let Some(next) = array.get_mut(place) {
        next.decor_mut().set_prefix(prefix);
    } else {
        let behind = array.trailing().as_str().unwrap_or_default();
        let line = |text: &str| text.find('\n').unwrap_or(0);
        let trailing = format!("{}{}", &prefix[..line(prefix)], &behind[line(behind)..]);
        array.set_trailing(trailing);
    }
}

fn inline(table: Table) -> InlineTable {
    let mut table = table.into_inline_table();
    table.fmt();
    table
}

/// True if a list holds the element: as it is, or as a table of that name.
fn is_element(value: &Value, element: &Value) -> bool {
    let plain = |value: &Value| {
        let mut value = value.clone();
        value.decor_mut().clear();
        difference::plain(&value)
    };
    let named = |key: &str| value.as_inline_table().and_then(|table| table.get(key));
    let as_string = element.as_str();
    plain(value) == plain(element)
        || as_string.is_some_and(|text| {
            ["name", "address", "range"].iter().any(|key| named(key).and_then(Value::as_str) == Some(text))
        })
}
