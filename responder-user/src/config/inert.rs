//! Keys that parse and are type-checked, but have no effect in this version.
//!
//! They are tables of data, not code: whoever makes a key work takes its line out of here and reads it in `read.rs`.

use std::time::Duration;

use super::{
    kind::{ADDRESS, Bool, Integer, Name, PREFIX, Parsed, SOCKET_ADDRESS, Span, Text, Word},
    reader::{Reader, Row},
};

/// Keys of a table, each with what it takes.
pub(super) type Fields = &'static [(&'static str, Shape)];

/// What a key takes.
pub(super) enum Shape {
    Bool,
    Name,
    Integer(i64, i64),
    /// A duration in milliseconds, least and most.
    Span(u64, u64),
    Word(&'static [(&'static str, ())]),
    Address,
    Addresses,
    SocketAddress,
    SocketAddresses,
    Prefixes,
    Texts,
    /// `static`, `disabled` or `scenario:NAME`.
    HealthField,
    /// `automatic` or `scenario:NAME`.
    DrCondition,
    /// Addresses alone or as `{ address, hc, weight }`.
    Rows,
    /// Checks with nested all / any / unless.
    Condition,
    Table(Fields),
    Tables(Fields),
    /// A table or list that is not looked into yet.
    Anything,
}

const DAY: u64 = 24 * 3_600_000;

macro_rules! words {
    ($($word:literal)*) => { Shape::Word(&[$(($word, ())),*]) };
}

/// `[observer]`
pub(super) const OBSERVER: Fields = &[("targets", Shape::SocketAddresses)];

/// `[resolver]`
pub(super) const RESOLVER: Fields = &[
    ("listen", Shape::SocketAddresses),
    ("mode", words!("refuse" "forward" "recurse")),
    ("allow", Shape::Prefixes),
    ("forwarders", Shape::SocketAddresses),
    ("dnssec", Shape::Bool),
];

/// `[metrics]`
pub(super) const METRICS: Fields = &[("listen", Shape::SocketAddress)];

/// `[[scenario]]`
pub(super) const SCENARIO: Fields = &[("trigger", Shape::Table(TRIGGER))];

const TRIGGER: Fields = &[
    ("verify_on", Shape::Name),
    ("verify_off", Shape::Name),
    ("actions_on", Shape::Anything),
    ("actions_off", Shape::Anything),
    ("timeout", Shape::Span(0, DAY)),
];

/// `[[record]]`
pub(super) const RECORD: Fields = &[
    ("ttl", Shape::Integer(1, 0x7fff_ffff)),
    ("mode", words!("standalone" "disaster-recovery" "datacenter")),
    (
        "balance",
        words!("all" "top-n" "round-robin" "weighted-round-robin" "random" "weighted-random" "closest"),
    ),
    ("topology", Shape::Tables(TOPOLOGY)),
    ("topology_fallback", Shape::Addresses),
    ("addresses", Shape::Rows),
    ("main", Shape::Rows),
    ("dr", Shape::Rows),
    ("dr_condition", Shape::DrCondition),
    ("dr_on_no_healthy_records", Shape::Bool),
    ("fail_safe", Shape::Addresses),
    ("datacenters", Shape::Tables(DATACENTER)),
    ("dc_selection", Shape::Anything),
    ("total_dcs", Shape::Integer(1, 1000)),
];

const TOPOLOGY: Fields = &[("match", Shape::Table(TOPOLOGY_MATCH)), ("addresses", Shape::Addresses)];

const TOPOLOGY_MATCH: Fields = &[
    ("cidr", Shape::Prefixes),
    ("not_cidr", Shape::Prefixes),
    ("country", Shape::Texts),
    ("not_country", Shape::Texts),
    ("city", Shape::Texts),
    ("not_city", Shape::Texts),
    ("continent", Shape::Texts),
    ("not_continent", Shape::Texts),
    ("asn", Shape::Anything),
    ("not_asn", Shape::Anything),
];

const DATACENTER: Fields = &[("name", Shape::Name), ("addresses", Shape::Rows)];

const ROW: Fields = &[
    ("address", Shape::Address),
    ("hc", Shape::HealthField),
    ("weight", Shape::Integer(0, 65_535)),
    ("name", Shape::Name),
];

const HEALTH_FIELD: Parsed<()> = Parsed {
    what: "\"static\", \"disabled\" or \"scenario:NAME\"",
    parse: |typed| {
        one_of_or_scenario(typed, &["static", "disabled"], "\"static\", \"disabled\" or \"scenario:NAME\"")
    },
};

const DR_CONDITION: Parsed<()> = Parsed {
    what: "\"automatic\" or \"scenario:NAME\"",
    parse: |typed| one_of_or_scenario(typed, &["automatic"], "\"automatic\" or \"scenario:NAME\""),
};

fn one_of_or_scenario(typed: &str, words: &[&str], allowed: &str) -> Result<(), String> {
    let scenario = typed.strip_prefix("scenario:").is_some_and(|name| !name.is_empty());
    if scenario || words.contains(&typed) {
        Ok(())
    } else {
        Err(format!("{typed:?} is not known; allowed is {allowed}"))
    }
}

impl Reader<'_> {
    /// Checks the types of all keys.
    pub(super) fn check(&self, fields: Fields) {
        for (key, shape) in fields {
            self.check_one(key, shape);
        }
    }

    /// A whole table that has no effect yet.
    pub(super) fn inert_table(&self, key: &'static str, fields: Fields) {
        if let Some(table) = self.table(key) {
            table.check(fields);
            table.finish();
            self.inert(key);
        }
    }

    fn check_one(&self, key: &'static str, shape: &Shape) {
        match shape {
            Shape::Bool => drop(self.get(key, &Bool)),
            Shape::Name => drop(self.get(key, &Name)),
            Shape::Integer(min, max) => drop(self.get(key, &Integer { min: *min, max: *max })),
            Shape::Span(min, max) => {
                let (min, max) = (Duration::from_millis(*min), Duration::from_millis(*max));
                let _ = self.get(key, &Span { min, max });
            }
            Shape::Word(words) => drop(self.get(key, &Word(words))),
            Shape::Address => drop(self.get(key, &ADDRESS)),
            Shape::Addresses => drop(self.one_or_list(key, &ADDRESS)),
            Shape::SocketAddress => drop(self.get(key, &SOCKET_ADDRESS)),
            Shape::SocketAddresses => drop(self.one_or_list(key, &SOCKET_ADDRESS)),
            Shape::Prefixes => drop(self.one_or_list(key, &PREFIX)),
            Shape::Texts => drop(self.one_or_list(key, &Text)),
            Shape::HealthField => drop(self.get(key, &HEALTH_FIELD)),
            Shape::DrCondition => drop(self.get(key, &DR_CONDITION)),
            Shape::Rows => self.check_rows(key),
            Shape::Condition => self.check_condition(key),
            Shape::Table(fields) => self.table(key).iter().for_each(|table| table.check_whole(fields)),
            Shape::Tables(fields) => self.tables(key).iter().for_each(|table| table.check_whole(fields)),
            Shape::Anything => drop(self.has(key)),
        }
    }

    fn check_whole(&self, fields: Fields) {
        self.check(fields);
        self.finish();
    }

    fn check_rows(&self, key: &'static str) {
        for row in self.rows(key) {
            match row {
                Row::Text(text) => {
                    if let Err(message) = (ADDRESS.parse)(&text.value) {
                        self.problem(text.at, key, &message);
                    }
                }
                Row::Table(table) => {
                    if !table.has("address") {
                        table.missing("address");
                    }
                    table.check_whole(ROW);
                }
            }
        }
    }

    /// `all`, `any` or `unless`: checks, or tables with these three keys again.
    fn check_condition(&self, key: &'static str) {
        for row in self.rows(key) {
            match row {
                Row::Text(text) if is_check(&text.value) => {}
                Row::Text(text) => {
                    let message = format!(
                        "{:?} is not a check; allowed is monitor@service or monitor@address",
                        text.value
                    );
                    self.problem(text.at, key, &message);
                }
                Row::Table(table) => table.check_whole(CONDITION),
            }
        }
    }
}

/// The condition of a scenario, at any depth.
pub(super) const CONDITION: Fields =
    &[("all", Shape::Condition), ("any", Shape::Condition), ("unless", Shape::Condition)];

fn is_check(text: &str) -> bool {
    text.split_once('@').is_some_and(|(monitor, target)| !monitor.is_empty() && !target.is_empty())
}
