//! The objects that commands make: values by keyword, as NetScaler names them, and what is tied to them.

use std::collections::{BTreeMap, HashSet};

use indexmap::IndexMap;

use super::{kind::Kind, table};

/// Values by keyword. What equals its default is not there.
pub type Values = BTreeMap<&'static str, Vec<String>>;

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Its name as it was added; empty where there is one such object.
    pub name: String,
    /// Positional values and keywords.
    pub values: Values,
    /// What is tied to it, in order.
    pub bound: Vec<Bound>,
    /// The line that added it; 0: none did.
    pub line: usize,
    /// The lines that gave its values.
    pub(super) lines: BTreeMap<&'static str, usize>,
}

/// Something tied to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// `serviceName`, `domainName`, `policyName`, `monitorName`, `viewName` or `metric`.
    pub what: &'static str,
    /// Which.
    pub name: String,
    /// What stands beside it.
    pub values: Values,
    /// The line that tied it; 0: none did.
    pub line: usize,
}

/// The values of one key, or its default.
fn one<'v>(values: &'v Values, key: &str, default: Option<&'static str>) -> Option<&'v str> {
    values.get(key).and_then(|list| list.first()).map(String::as_str).or(default)
}

impl Object {
    /// A value as it was given.
    pub fn given(&self, key: &str) -> Option<&str> {
        one(&self.values, key, None)
    }

    /// All values of a keyword.
    pub fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// What is tied to it of one kind.
    pub fn bound_of<'o>(&'o self, what: &'static str) -> impl Iterator<Item = &'o Bound> + use<'o> {
        self.bound.iter().filter(move |bound| bound.what == what)
    }

    /// As [`Self::given`], as a number.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.given(key)?.parse().ok()
    }

    /// The line that gave a value, else the one that made the object; 0: a configuration did.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(self.line)
    }

    /// The last line that was about its values; 0: none was.
    pub(super) fn last_line(&self) -> usize {
        self.lines.values().copied().max().unwrap_or(0).max(self.line)
    }

    /// True for a keyword that is ENABLED or YES, its default counted.
    pub(super) fn is_on(&self, kind: Kind, key: &str) -> bool {
        let default = table::spec_of(kind).arg(key).and_then(|arg| arg.default);
        one(&self.values, key, default).is_some_and(|value| value == "ENABLED" || value == "YES")
    }
}

impl Bound {
    /// A value as it was given.
    pub fn given(&self, key: &str) -> Option<&str> {
        one(&self.values, key, None)
    }

    /// All values of a keyword.
    pub fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// As [`Self::given`], as a number.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.given(key)?.parse().ok()
    }
}

/// Every object, by kind and by name; names ignore case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    kinds: BTreeMap<Kind, IndexMap<String, Object>>,
    /// Zones with a master file that others wrote: their records are not objects.
    pub(super) foreign_zones: Vec<String>,
    /// Names of policies that are no DNS policies, folded: what refers to them has no meaning here.
    pub(super) foreign_policies: HashSet<String>,
}

/// As names are compared: case ignored, and the last dot of a domain name.
pub(super) fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

impl Store {
    /// An object by name.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Object> {
        self.kinds.get(&kind)?.get(&fold(name))
    }

    /// All objects of a kind, in the order in which they were added.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.kinds.get(&kind).into_iter().flat_map(IndexMap::values)
    }

    /// To change an object.
    pub(super) fn get_mut(&mut self, kind: Kind, name: &str) -> Option<&mut Object> {
        self.kinds.get_mut(&kind)?.get_mut(&fold(name))
    }

    /// To change all objects of a kind.
    pub(super) fn all_mut(&mut self, kind: Kind) -> impl Iterator<Item = &mut Object> {
        self.kinds.get_mut(&kind).into_iter().flat_map(IndexMap::values_mut)
    }

    /// An object that is there, or a new one.
    pub(super) fn entry(&mut self, kind: Kind, name: &str) -> &mut Object {
        self.kinds.entry(kind).or_default().entry(fold(name)).or_insert_with(|| Object {
            name: name.to_owned(),
            values: Values::new(),
            bound: Vec::new(),
            line: 0,
            lines: BTreeMap::new(),
        })
    }

    /// Takes an object away.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) -> Option<Object> {
        let objects = self.kinds.get_mut(&kind)?;
        let removed = objects.shift_remove(&fold(name));
        if objects.is_empty() {
            self.kinds.remove(&kind);
        }
        removed
    }

    /// Takes all objects of a kind away.
    pub(super) fn clear(&mut self, kind: Kind) {
        self.kinds.remove(&kind);
    }

    /// Gives an object another name, in its place.
    pub(super) fn rename(&mut self, kind: Kind, from: &str, to: &str) {
        let Some(objects) = self.kinds.get_mut(&kind) else { return };
        let Some(at) = objects.get_index_of(&fold(from)) else { return };
        if let Some(mut object) = objects.shift_remove(&fold(from)) {
            to.clone_into(&mut object.name);
            let at = at.min(objects.len());
            objects.shift_insert(at, fold(to), object);
        }
    }
}
