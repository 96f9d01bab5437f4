//! No line panics, whatever is wrong with it, and what is refused changes nothing.

use std::path::Path;

use proptest::{prelude::*, sample::Index};
use responder_user::config::{
    self,
    import::{Outcome, Session, import},
};

use super::{files::sorted, fragment, fragments};

/// Lines of all fragments.
fn lines() -> Vec<String> {
    fragments()
        .iter()
        .flat_map(|name| fragment(name).0.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| !line.is_empty())
        .collect()
}

/// The commands of one session that another lacks.
fn only(a: &Session, b: &Session) -> Vec<String> {
    let others = sorted(b);
    sorted(a).into_iter().filter(|line| !others.contains(line)).collect()
}

/// What is done to a line.
#[derive(Clone, Debug)]
enum Damage {
    Remove(Index),
    Insert(Index, String),
    Double(Index),
    Swap(Index, Index),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "\"",
            "'",
            "\\",
            "(",
            ")",
            " ",
            "\t",
            "-",
            "#",
            "q{",
            "}",
            "[1-3]",
            "[9-1]",
            "<",
            ">",
            "*",
            "\\*\\*",
            "|",
            "0",
            "-1",
            "4294967296",
            "ä",
            "\u{0}",
            " -state DISABLED",
            " -",
            ".",
            "::",
            "99999999999999999999",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop_oneof![
        any::<Index>().prop_map(Damage::Remove),
        (any::<Index>(), piece).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        any::<Index>().prop_map(Damage::Double),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Damage::Swap(a, b)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

/// Words change as wholes, characters singly.
fn damaged(line: &str, what: &Damage) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    let mut words: Vec<&str> = line.split(' ').collect();
    match what {
        Damage::Remove(at) if !chars.is_empty() => drop(chars.remove(at.index(chars.len()))),
        Damage::Insert(at, piece) => {
            let at = at.index(chars.len() + 1);
            chars.splice(at..at, piece.chars());
        }
        Damage::Double(at) => {
            let word = words[at.index(words.len())];
            words.insert(at.index(words.len()), word);
            return words.join(" ");
        }
        Damage::Swap(a, b) => {
            let (a, b) = (a.index(words.len()), b.index(words.len()));
            words.swap(a, b);
            return words.join(" ");
        }
        Damage::Cut(at) => chars.truncate(at.index(chars.len() + 1)),
        Damage::Remove(_) => {}
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("RESPONDER_FULL").is_some() { 20_000 } else { 60 }))]

    /// A file with some lines damaged is taken over or refused, and what is taken over can be saved and read again.
    #[test]
    fn no_damaged_file_panics(
        picks in proptest::collection::vec(any::<Index>(), 1..40),
        damages in proptest::collection::vec((any::<Index>(), damage()), 0..4),
    ) {
        let all = lines();
        let mut text: Vec<String> = picks.iter().map(|pick| all[pick.index(all.len())].clone()).collect();
        for (at, what) in &damages {
            let at = at.index(text.len());
            text[at] = damaged(&text[at], what);
        }
        let path = Path::new("/nonexistent/responder.toml");
        if let Ok(made) = import(&text.join("\n"), path) {
            let mut again = Session::of(&made.output.toml, path).unwrap();
            // Master files are not written here.
            if made.output.files.is_empty() {
                prop_assert_eq!(sorted(&again), sorted(&made.session));
                prop_assert_eq!(again.output().unwrap().toml, made.output.toml);
            }
            let _ = again.run("show gslb vserver");
        }
    }

    /// On a running configuration: a command is done, and the result can run, or it is refused and nothing is changed.
    #[test]
    fn no_damaged_command_breaks_a_session(
        picks in proptest::collection::vec((any::<Index>(), proptest::option::of(damage())), 1..12),
    ) {
        let all = lines();
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/complete.toml"));
        let mut session = Session::of(include_str!("../../../examples/complete.toml"), path).unwrap();
        for (pick, what) in &picks {
            let line = &all[pick.index(all.len())];
            let line = what.as_ref().map_or_else(|| line.clone(), |what| damaged(line, what));
            let before = session.store().clone();
            let reply = session.run(&line);
            if matches!(reply.outcome, Outcome::Error(_)) {
                prop_assert!(*session.store() == before, "{}", line);
            }
        }
        let output = session.output().unwrap();
        let again = Session::of(&output.toml, path).unwrap();
        if output.files.is_empty() {
            prop_assert_eq!(only(&again, &session), only(&session, &again), "kept {}", output.toml.split("[netscaler]").nth(1).unwrap_or_default());
            if let Err(error) = config::parse(&output.toml, path) {
                prop_assert!(false, "{}\n{}", error, output.toml);
            }
        }
    }
}
