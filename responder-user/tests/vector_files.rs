//! The vectors of the specification and those derived from its source documents: `vectors/*.toml`, which say what is
//! configured, told and asked in the words of operators, and what must be answered. A runner with a daemon can put the
//! same files on the wire.
//!
//! ```toml
//! about = "what this file is about, with its source"
//! base = '''configuration that all groups share'''
//!
//! [[group]]
//! config = '''and what this group adds'''
//! do = ["commands of responderctl that come first; or wait DURATION"]
//! ask = "www.example.com A from 10.53.0.2"     # where a vector has no question of its own
//!
//! [[group.vector]]
//! source = "document and place"                # where the file does not say it already
//! down = "services that are forced down"
//! do = ["further commands"]
//! after = true                                 # goes on from the vector before; else the state is fresh
//! ask = "…"
//! gives = "services that share the load, or addresses and aliases of none; nothing, drop, refused, not-ours"
//! first = "which of them comes first"
//! then = "what follows with multiple_ip_response"
//! # and where they matter: how (one, all, best-first), link, tier, method, reason, code (lbrrreason), ttl, weights, addresses
//! ```

mod support;

use std::{fs, path::Path};

use responder_user::decide::{Give, Outcome};
use support::stage::{Answer, Stage};
use toml_edit::{DocumentMut, Item, Table};

/// Keys that a vector may have.
const KEYS: [&str; 18] = [
    "source",
    "title",
    "down",
    "do",
    "after",
    "ask",
    "gives",
    "first",
    "then",
    "how",
    "link",
    "tier",
    "method",
    "reason",
    "code",
    "ttl",
    "weights",
    "addresses",
];

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).map(|item| item.as_str().unwrap_or_else(|| panic!("{key} is no text")))
}

fn list(table: &Table, key: &str) -> Vec<String> {
    let items = table.get(key).and_then(Item::as_array);
    items.into_iter().flatten().map(|v| v.as_str().expect("a text").to_owned()).collect()
}

fn run(stage: &mut Stage, commands: &[String]) -> Result<(), String> {
    for command in commands {
        stage.run(command).map_err(|e| format!("{command}: {e}"))?;
    }
    Ok(())
}

/// What a vector says of one aspect, and what there is.
fn aspects(stage: &Stage, answer: &Answer) -> Vec<(&'static str, String)> {
    let decision = &answer.decision;
    let (how, weights) = match &decision.outcome {
        Outcome::Answer(pool) => {
            let weights = pool.rotate.iter().map(|m| m.weight.to_string()).collect::<Vec<_>>().join(" ");
            (Some(pool.give), weights)
        }
        Outcome::Records(pool) => (Some(pool.give), String::new()),
        _ => (None, String::new()),
    };
    let addresses = match &decision.outcome {
        Outcome::Answer(pool) => {
            pool.rotate.iter().map(|m| m.address.to_string()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let how = match how {
        Some(Give::One) => "one",
        Some(Give::All) => "all",
        Some(Give::BestFirst) => "best-first",
        None => "-",
    };
    vec![
        ("gives", stage.gives(&decision.outcome)),
        ("first", answer.first.clone().unwrap_or_default()),
        ("then", stage.then(&decision.outcome)),
        ("how", how.to_owned()),
        ("link", stage.model.vserver(decision.link).name.clone()),
        ("tier", decision.tier.to_string()),
        ("method", decision.method.to_string()),
        ("reason", decision.reason.to_string()),
        ("code", decision.reason.lbrrreason().map_or_else(String::new, |code| code.to_string())),
        ("ttl", decision.ttl.map_or_else(String::new, |ttl| ttl.to_string())),
        ("weights", weights),
        ("addresses", addresses),
    ]
}

fn check(stage: &mut Stage, vector: &Table, question: &str) -> Result<(), String> {
    if let Some((key, _)) = vector.iter().find(|(key, _)| !KEYS.contains(key)) {
        return Err(format!("{key} is not a known key"));
    }
    if let Some(down) = text(vector, "down") {
        let commands: Vec<String> =
            down.split_whitespace().map(|s| format!("force service {s} down")).collect();
        run(stage, &commands)?;
    }
    run(stage, &list(vector, "do"))?;
    let answer = stage.ask(question)?;
    let mut expected = 0;
    for (key, got) in aspects(stage, &answer) {
        if let Some(wanted) = text(vector, key) {
            expected += 1;
            if wanted != got {
                let steps: Vec<String> = answer
                    .decision
                    .steps
                    .iter()
                    .map(|s| format!("    {:8} {} ({})", s.step, s.outcome, s.reason))
                    .collect();
                return Err(format!("{key} is {got:?}, should be {wanted:?}\n{}", steps.join("\n")));
            }
        }
    }
    if expected == 0 { Err("nothing is expected".to_owned()) } else { Ok(()) }
}

/// Runs one file. Gives how many vectors it has, and what is wrong with them.
fn file(path: &Path) -> (usize, Vec<String>) {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let written = fs::read_to_string(path).unwrap();
    let document: DocumentMut = written.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(text(&document, "about").is_some(), "{name}: about is missing");
    let base = text(&document, "base").unwrap_or_default();
    let groups = document
        .get("group")
        .and_then(Item::as_array_of_tables)
        .unwrap_or_else(|| panic!("{name}: no group"));
    let (mut count, mut wrong) = (0, Vec::new());
    for (g, group) in groups.iter().enumerate() {
        let config = format!("{base}\n{}", text(group, "config").unwrap_or_default());
        let fresh = || {
            let mut stage = Stage::of(&config).unwrap_or_else(|e| panic!("{name}: group {}: {e}", g + 1));
            run(&mut stage, &list(group, "do")).unwrap_or_else(|e| panic!("{name}: group {}: {e}", g + 1));
            stage
        };
        let mut stage = fresh();
        let vectors = group.get("vector").and_then(Item::as_array_of_tables);
        for (v, vector) in vectors.into_iter().flatten().enumerate() {
            count += 1;
            if vector.get("after").is_none() {
                stage = fresh();
            }
            let question =
                text(vector, "ask").or(text(group, "ask")).unwrap_or_else(|| panic!("{name}: no question"));
            if let Err(error) = check(&mut stage, vector, question) {
                let title = text(vector, "title").or(text(vector, "source")).unwrap_or_default();
                wrong.push(format!(
                    "{name}: group {}, vector {} ({title}; {question}): {error}",
                    g + 1,
                    v + 1
                ));
            }
        }
    }
    (count, wrong)
}

#[test]
fn every_vector_is_decided_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let (mut count, mut wrong) = (0, Vec::new());
    for path in &files {
        let (some, problems) = file(path);
        println!("{}: {some} vectors", path.file_name().unwrap().to_string_lossy());
        count += some;
        wrong.extend(problems);
    }
    assert!(wrong.is_empty(), "{} of {count} vectors:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 200, "only {count} vectors");
}
