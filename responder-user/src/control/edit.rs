//! `set`, `add` and `rm`: from the words of an operator to a changed document, and `diff`.

use serde_json::{Value, json};

use super::{Command, Refusal, command::ConfigKind, target::unknown};
use crate::config::draft::{Change, Difference, Draft, DraftError, Kind};

impl ConfigKind {
    /// The table of an object, or of a `[table]` where there is no name.
    fn table(self, name: Option<&str>) -> Kind {
        let named = |table, key| Kind::Objects { table, key, beside: None };
        let bound = |table, beside| Kind::Objects { table, key: "name", beside: Some(beside) };
        match self {
            Self::Vserver => named("vserver", "name"),
            Self::Service => named("service", "name"),
            Self::Domain => bound("domain", "vserver"),
            Self::DomainList => bound_file(),
            Self::Monitor => named("monitor", "name"),
            Self::Policy => named("dns_policy", "name"),
            Self::Action => named("dns_action", "name"),
            Self::Location if name.is_some() => Kind::Ranges,
            Self::Location => Kind::Single("location"),
            Self::Zone => named("zone", "name"),
            Self::Record => bound("record", "type"),
            Self::Scenario => named("scenario", "name"),
            Self::Server => Kind::Single("server"),
            Self::Listen => Kind::Single("listen"),
            Self::Xdp => Kind::Single("xdp"),
            Self::Limits => Kind::Single("limits"),
            Self::Observer => Kind::Single("observer"),
            Self::Resolver => Kind::Single("resolver"),
            Self::Metrics => Kind::Single("metrics"),
        }
    }

    /// The word that is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::DomainList => "domain-list",
            Self::Policy => "policy",
            Self::Action => "action",
            _ => self.table(None).label(),
        }
    }

    /// True if there is one table of it, without a name.
    pub fn is_single(self) -> bool {
        matches!(self.table(None), Kind::Single(_))
    }
}

fn bound_file() -> Kind {
    Kind::Objects { table: "domain_list", key: "file", beside: None }
}

/// `set KIND [NAME] key=value...`: the words behind the kind, taken apart.
pub fn words(kind: ConfigKind, words: &[String]) -> (Option<String>, Vec<String>) {
    match words {
        // A range holds no `=`.
        [first, ..] if kind.is_single() && (kind != ConfigKind::Location || first.contains('=')) => {
            (None, words.to_vec())
        }
        [first, rest @ ..] => (Some(first.clone()), rest.to_vec()),
        [] => (None, Vec::new()),
    }
}

/// What a command does, in a few words for the log: `set vserver www method=round-robin`. None: it changes nothing.
pub fn headline(command: &Command) -> Option<String> {
    let (verb, kind, name, changes) = match command {
        Command::Set { kind, name, changes } => ("set", kind, name.as_deref(), changes.as_slice()),
        Command::Add { kind, name, changes } => ("add", kind, Some(name.as_str()), changes.as_slice()),
        Command::Remove { kind, name } => ("rm", kind, Some(name.as_str()), &[][..]),
        _ => return None,
    };
    let words = [verb, kind.word()].into_iter().chain(name).chain(changes.iter().map(String::as_str));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Carries out `set`, `add` or `rm` on a document. Whether the result can run is for who publishes it.
pub fn edit(draft: &mut Draft, command: &Command) -> Result<(), Refusal> {
    let (kind, name, changes) = match command {
        Command::Set { kind, name, changes } => (*kind, name.as_deref(), changes.as_slice()),
        Command::Add { kind, name, changes } => (*kind, Some(name.as_str()), changes.as_slice()),
        Command::Remove { kind, name } => (*kind, Some(name.as_str()), &[][..]),
        _ => return Err(Refusal::new("this command changes no configuration")),
    };
    let table = kind.table(name);
    let word = kind.word();
    if name.is_none() && !kind.is_single() {
        return Err(Refusal::new(format!("which {word}? Write its name")));
    }
    let read: Result<Vec<Change>, DraftError> = changes.iter().map(|text| Change::parse(text)).collect();
    let refuse = |error| refusal(word, error);
    let changes = read.map_err(refuse)?;
    let name = name.unwrap_or_default();
    match command {
        Command::Add { .. } => draft.add(table, name, &changes),
        Command::Remove { .. } => draft.remove(table, name),
        _ if changes.is_empty() => {
            return Err(Refusal::new("no change is given; write one such as method=round-robin"));
        }
        _ => draft.set(table, name, &changes),
    }
    .map_err(refuse)
}

fn refusal(word: &str, error: DraftError) -> Refusal {
    match error {
        DraftError::Unknown { name, known, .. } => {
            let mut refusal = unknown(word, &name, known.iter().map(String::as_str));
            if word == "domain" {
                refusal.message += "; names of a domain-list stand in its file";
            }
            refusal
        }
        other => Refusal::new(other.to_string()),
    }
}

/// The answer to `diff`.
pub fn diff(file: &str, is_changed: bool, differences: &[Difference]) -> Value {
    json!({ "file": file, "changed_on_disk": is_changed, "differences": differences })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn tables_have_no_name_and_ranges_have_one() {
        let taken = |kind, list: &[&str]| words(kind, &typed(list));
        assert_eq!(taken(ConfigKind::Limits, &["slip=1"]), (None, typed(&["slip=1"])));
        assert_eq!(taken(ConfigKind::Location, &["context=custom"]), (None, typed(&["context=custom"])));
        let range = taken(ConfigKind::Location, &["10.0.0.0/8", "location=Asia"]);
        assert_eq!(range, (Some("10.0.0.0/8".to_owned()), typed(&["location=Asia"])));
        let odd = taken(ConfigKind::Vserver, &["a=b", "ecs=true"]);
        assert_eq!(odd, (Some("a=b".to_owned()), typed(&["ecs=true"])));
    }

    #[test]
    fn a_name_that_does_not_exist_is_refused_with_the_nearest() {
        let mut draft = Draft::of("[[dns_policy]]\nname = \"near\"\n").unwrap();
        let set = |name: Option<&str>, changes: &[&str]| Command::Set {
            kind: ConfigKind::Policy,
            name: name.map(str::to_owned),
            changes: typed(changes),
        };
        let mut refused = |command| edit(&mut draft, &command).unwrap_err().message;
        assert_eq!(refused(set(Some("nera"), &["priority=1"])), "no policy \"nera\"; did you mean \"near\"?");
        assert_eq!(refused(set(None, &["priority=1"])), "which policy? Write its name");
        assert_eq!(
            refused(set(Some("near"), &[])),
            "no change is given; write one such as method=round-robin"
        );
        let add = Command::Add { kind: ConfigKind::Policy, name: "near".to_owned(), changes: Vec::new() };
        assert_eq!(refused(add), "dns_policy \"near\" exists already");
        let single = Command::Add { kind: ConfigKind::Limits, name: "x".to_owned(), changes: Vec::new() };
        assert!(refused(single).contains("limits"));
    }

    /// Each kind of object and table of the whole example is found, changed, and still a configuration.
    #[test]
    fn every_kind_can_be_changed() {
        let text = include_str!("../../../examples/complete.toml");
        let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/complete.toml"));
        for (kind, name, change) in [
            (ConfigKind::Vserver, Some("www"), "ecs=true"),
            (ConfigKind::Service, Some("hk"), "port=8443"),
            (ConfigKind::Domain, Some("www.example.com"), "ttl=77"),
            (ConfigKind::DomainList, Some("names.txt"), "ttl=77"),
            (ConfigKind::Monitor, Some("web"), "expect+=418"),
            (ConfigKind::Policy, Some("dnsPolPrefLoc"), "priority=7"),
            (ConfigKind::Action, Some("prefLoc11"), "preferred_locations+=Africa"),
            (ConfigKind::Location, Some("203.0.113.0/24"), "location=NA.US"),
            (ConfigKind::Location, None, "wildcard_matches_any=yes"),
            (ConfigKind::Zone, Some("EXAMPLE.NET."), "soa.minimum=9"),
            (ConfigKind::Scenario, Some("main-dead"), "any=[\"web@uk\"]"),
            (ConfigKind::Record, Some("app.example.com"), "ttl=31"),
            (ConfigKind::Server, None, "log=debug"),
            (ConfigKind::Listen, None, "workers=2"),
            (ConfigKind::Xdp, None, "max_stale=5m"),
            (ConfigKind::Limits, None, "allow+=10.0.0.0/8"),
            (ConfigKind::Observer, None, "targets="),
            (ConfigKind::Resolver, None, "mode=forward"),
            (ConfigKind::Metrics, None, "listen="),
        ] {
            let mut draft = Draft::of(text).unwrap();
            let command = Command::Set { kind, name: name.map(str::to_owned), changes: typed(&[change]) };
            edit(&mut draft, &command).unwrap_or_else(|refusal| panic!("{kind:?}: {refusal}"));
            let changed = draft.text();
            assert!(changed != text, "{kind:?} is changed");
            crate::config::parse(&changed, path).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        }
    }
}
