//! Which object names which: references are by name, and are looked up when all of a file is read.

use super::{
    kind::Kind,
    objects::{Store, fold},
    table::{self, Value},
};

/// Names that need no object.
const BUILT_IN: [(Kind, &[&str]); 3] = [
    (
        Kind::Monitor,
        &[
            "ping",
            "tcp",
            "http",
            "https",
            "dns",
            "ping-default",
            "tcp-default",
            "tcp-ecv",
            "http-ecv",
            "udp-ecv",
            "ftp",
            "https-ecv",
        ],
    ),
    (Kind::MetricTable, &["LOCAL", "NetScaler", "RADWARE", "CISCO-CSS", "FOUNDRY", "ALTEON"]),
    (Kind::DnsAction, &["dns_default_act_Drop", "dns_default_act_Cachebypass"]),
];

/// A reference.
pub(super) struct Reference {
    /// Who refers: `gslb vserver v`.
    pub(super) from: String,
    /// By which keyword.
    pub(super) key: &'static str,
    /// To what.
    pub(super) kinds: &'static [Kind],
    pub(super) name: String,
    /// Where that was said.
    pub(super) line: usize,
}

/// True for an object that is there without a command.
pub(super) fn is_built_in(kind: Kind, name: &str) -> bool {
    BUILT_IN.iter().any(|(of, names)| *of == kind && names.iter().any(|n| n.eq_ignore_ascii_case(name)))
}

const SERVER: &[Kind] = &[Kind::Server];
const LABEL: &[Kind] = &[Kind::PolicyLabel];

fn kinds_of(value: Value, name: &str) -> Option<&'static [Kind]> {
    match value {
        Value::Name(kinds) => Some(kinds),
        Value::AddressOrServer if name.parse::<std::net::IpAddr>().is_err() => Some(SERVER),
        _ => None,
    }
}

/// Every reference.
pub(super) fn all(store: &Store) -> Vec<Reference> {
    let mut out = Vec::new();
    for spec in table::specs() {
        for object in store.all(spec.kind) {
            let from =
                || format!("{}{}{}", spec.words, if object.name.is_empty() { "" } else { " " }, object.name);
            for (key, list) in &object.values {
                let Some(arg) = spec.arg(key) else { continue };
                for name in list {
                    if let Some(kinds) = kinds_of(arg.value, name) {
                        out.push(Reference {
                            from: from(),
                            key,
                            kinds,
                            name: name.clone(),
                            line: object.line_of(key),
                        });
                    }
                }
            }
            for bound in &object.bound {
                let Some(binding) = spec.binding(bound.what) else { continue };
                if let Some(kinds) = kinds_of(binding.what.value, &bound.name) {
                    let name = bound.name.clone();
                    out.push(Reference { from: from(), key: bound.what, kinds, name, line: bound.line });
                }
                if let Some(label) = bound.all("invoke").get(1) {
                    let name = label.clone();
                    out.push(Reference { from: from(), key: "invoke", kinds: LABEL, name, line: bound.line });
                }
            }
        }
    }
    out
}

/// Who refers to an object.
pub(super) fn user_of(store: &Store, kind: Kind, name: &str) -> Option<String> {
    let at = fold(name);
    all(store).into_iter().find(|r| r.kinds.contains(&kind) && fold(&r.name) == at).map(|r| r.from)
}

/// Lets all references follow a new name.
pub(super) fn rename(store: &mut Store, kind: Kind, from: &str, to: &str) {
    let at = fold(from);
    for spec in table::specs() {
        for object in store.all_mut(spec.kind) {
            for (key, list) in &mut object.values {
                let Some(arg) = spec.arg(key) else { continue };
                for name in list.iter_mut().filter(|name| fold(name) == at) {
                    if kinds_of(arg.value, name).is_some_and(|kinds| kinds.contains(&kind)) {
                        to.clone_into(name);
                    }
                }
            }
            for bound in &mut object.bound {
                let refers = spec.binding(bound.what).and_then(|b| kinds_of(b.what.value, &bound.name));
                if fold(&bound.name) == at && refers.is_some_and(|kinds| kinds.contains(&kind)) {
                    to.clone_into(&mut bound.name);
                }
                if kind == Kind::PolicyLabel
                    && let Some(label) = bound.values.get_mut("invoke").and_then(|list| list.get_mut(1))
                    && fold(label) == at
                {
                    to.clone_into(label);
                }
            }
        }
    }
}
