//! Every file of `examples/capabilities` is checked, started and asked, in native mode and with XDP off. What is done and
//! asked stands in the file itself, in the comment above the configuration:
//!
//! ```text
//! # do: COMMAND of responderctl, or wait DURATION
//! # ask: NAME TYPE from ADDRESS [ecs PREFIX] -> ANSWER
//! # flood: NAME TYPE from ADDRESS -> fewer than 40 of 100 | all of 100
//! ```
//!
//! An answer is `A or B` (they take turns; one is a turn of one), `A and B` (in one reply, in this order if they take no
//! turns), `one of A B` (a client keeps what it was given), `always the same of A B`; with `alias` before names, `, TTL 60`
//! or `, shares 3 1` behind; or `nothing` (NOERROR without records), `no reply`, `REFUSED`, `NXDOMAIN`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    stand::{Mode, Reply, Seen, Stand},
    vectors::addresses_of,
};
use crate::{is_full, say, support::vectors::Question};

/// Queries of one question at most.
const MOST: u64 = 60;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/capabilities")
}

/// The examples, and the files that they name.
fn files() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = fs::read_dir(folder()).expect("the examples").map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.collect();
    all.sort();
    all.into_iter().partition(|path| path.extension().is_some_and(|e| e == "toml"))
}

/// What follows `# KEY:` in the comment above the configuration.
fn steps(text: &str) -> Vec<(&str, &str)> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    comment
        .filter_map(|line| {
            let (key, rest) = line.trim_start_matches('#').trim().split_once(':')?;
            ["ask", "do", "flood"].contains(&key).then_some((key, rest.trim()))
        })
        .collect()
}

/// An answer, taken apart.
#[derive(Debug)]
struct Wanted<'w> {
    /// Of which kind: "or", "and", "one of", "always the same of", or a word that is all.
    how: &'w str,
    data: Vec<&'w str>,
    ttl: Option<u32>,
    shares: Vec<u64>,
}

fn wanted(text: &str) -> Result<Wanted<'_>, String> {
    let mut parts = text.split(", ");
    let answer = parts.next().unwrap_or_default();
    let mut out = Wanted { how: "or", data: Vec::new(), ttl: None, shares: Vec::new() };
    for part in parts {
        let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{part:?}: {e}"));
        match part.split_once(' ') {
            Some(("TTL", ttl)) => out.ttl = Some(number(ttl)? as u32),
            Some(("shares", shares)) => {
                out.shares = shares.split(' ').map(number).collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("{part:?}?")),
        }
    }
    if ["nothing", "no reply", "REFUSED", "NXDOMAIN"].contains(&answer) {
        out.how = answer;
        return Ok(out);
    }
    let answer = answer.strip_prefix("alias ").unwrap_or(answer);
    for how in ["one of", "always the same of"] {
        if let Some(rest) = answer.strip_prefix(how) {
            out.how = how;
            out.data = rest.split_whitespace().collect();
            return Ok(out);
        }
    }
    out.how = if answer.contains(" and ") { "and" } else { "or" };
    out.data = answer.split(&format!(" {} ", out.how)).collect();
    if out.data.iter().any(|data| data.is_empty() || data.contains(' ')) {
        return Err(format!("{text:?} is no answer"));
    }
    Ok(out)
}

fn ask(stand: &mut Stand, question: &Question<'_>, wanted: &Wanted<'_>) -> Result<Seen, String> {
    let set: BTreeSet<String> = wanted.data.iter().map(|data| (*data).to_owned()).collect();
    if wanted.how == "no reply" {
        let seen = stand.silence(question);
        let fine = seen.replies.is_empty() && seen.dropped == seen.asked;
        return if fine { Ok(seen) } else { Err(format!("{:?}\n{}", seen.replies, seen.risen)) };
    }
    let takes_turns = wanted.how == "or";
    let most = if wanted.shares.is_empty() { MOST } else { 8 * wanted.shares.iter().sum::<u64>() };
    let seen = stand.ask(question, most, |replies| {
        let first: BTreeSet<&str> =
            replies.iter().filter_map(|r| r.data.first().map(String::as_str)).collect();
        wanted.shares.is_empty() && replies.len() >= 6 && (!takes_turns || first.len() >= set.len())
    });
    let fine = |reply: &Reply| match wanted.how {
        "nothing" => (reply.rcode, reply.data.len(), reply.authority) == (0, 0, 1),
        "REFUSED" => (reply.rcode, reply.data.len()) == (5, 0),
        "NXDOMAIN" => (reply.rcode, reply.data.len(), reply.authority) == (3, 0, 1),
        "and" => reply.rcode == 0 && reply.data.iter().cloned().collect::<BTreeSet<_>>() == set,
        _ => reply.rcode == 0 && reply.data.len() == 1 && set.contains(&reply.data[0]),
    };
    if let Some(reply) = seen.replies.iter().find(|reply| !fine(reply)) {
        return Err(format!("{reply:?}"));
    }
    let all = seen.all();
    match wanted.how {
        "or" if all != set => return Err(format!("{all:?} take turns")),
        "always the same of" if all.len() != 1 => return Err(format!("{all:?} take turns")),
        _ => {}
    }
    let ttls: BTreeSet<u32> = seen.replies.iter().flat_map(|reply| reply.ttls.clone()).collect();
    if wanted.ttl.is_some_and(|ttl| ttls != BTreeSet::from([ttl])) {
        return Err(format!("TTLs are {ttls:?}"));
    }
    let sum: u64 = wanted.shares.iter().sum();
    for (data, share) in wanted.data.iter().zip(&wanted.shares) {
        let count = seen.replies.iter().filter(|reply| reply.data[0] == **data).count() as u64;
        if count.abs_diff(seen.asked * share / sum) > 4 {
            return Err(format!("{data} came {count} times of {}", seen.asked));
        }
    }
    Ok(seen)
}

/// Answers of the program or of workers, as `explain` says; addresses as it says.
fn explained(
    stand: &mut Stand,
    question: &Question<'_>,
    wanted: &Wanted<'_>,
    seen: &Seen,
) -> Result<(), String> {
    let explained = stand.explain(question);
    let lanes = match explained["source"].as_str() {
        Some("xdp") => (seen.asked, 0),
        _ => (0, seen.asked),
    };
    let got = (seen.xdp, seen.worker);
    if wanted.how != "no reply" && got != lanes {
        return Err(format!("{got:?} answers by XDP and workers, {lanes:?} by explain\n{}", seen.risen));
    }
    let (all, told) = (seen.all(), addresses_of(&explained));
    let is_sticky = wanted.how == "one of";
    if !told.is_empty() && told != all && !(is_sticky && all.is_subset(&told)) {
        return Err(format!("replies give {all:?}, explain {told:?}"));
    }
    Ok(())
}

fn flood(stand: &mut Stand, question: &Question<'_>, wanted: &str) -> Result<(), String> {
    let words: Vec<&str> = wanted.split(' ').collect();
    let number = |text: &str| text.parse::<usize>().map_err(|e| format!("{wanted}: {e}"));
    let (bound, count) = match words[..] {
        ["fewer", "than", bound, "of", count] => (number(bound)?, number(count)?),
        ["all", "of", count] => (number(count)?, number(count)?),
        _ => return Err(format!("{wanted:?}?")),
    };
    let (whole, cut) = stand.flood(question, count);
    match bound == count {
        true if whole != count => Err(format!("{whole} of {count} were answered")),
        false if whole >= bound => Err(format!("{whole} of {count} were answered")),
        false if cut == 0 => Err("no reply says TC=1".to_owned()),
        _ => Ok(()),
    }
}

/// Runs one example: how many questions it has.
fn example(stand: &mut Stand, path: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(path).expect("a file");
    let steps = steps(&text);
    let questions = steps.iter().filter(|(key, _)| *key == "ask").count();
    if questions == 0 {
        return Err("it asks nothing: add lines `# ask: NAME TYPE from ADDRESS -> ANSWER`".to_owned());
    }
    stand.check(&text)?;
    stand.load(&text).map_err(|error| format!("{error:?}"))?;
    for (key, rest) in steps {
        if key == "do" {
            stand.order(rest)?;
            continue;
        }
        let (question, answer) = rest.split_once(" -> ").ok_or_else(|| format!("{rest:?} has no answer"))?;
        let question = Question::parse(question)?;
        stand.settle();
        let outcome = if key == "flood" {
            flood(stand, &question, answer)
        } else {
            wanted(answer).and_then(|wanted| {
                let seen = ask(stand, &question, &wanted)?;
                explained(stand, &question, &wanted, &seen)
            })
        };
        outcome.map_err(|error| format!("{rest}: {error}"))?;
    }
    Ok(questions)
}

fn run(mode: Mode, every: usize) {
    let (examples, beside) = files();
    let mut stand = Stand::new(mode);
    for path in &beside {
        fs::copy(path, stand.bed.folder().join(path.file_name().expect("a name"))).expect("a copy");
    }
    let (mut asked, mut wrong, mut count) = (0, Vec::new(), 0);
    let started = std::time::Instant::now();
    for (i, path) in examples.iter().enumerate() {
        if !is_full() && i % every != 0 {
            continue;
        }
        count += 1;
        match example(&mut stand, path) {
            Ok(questions) => asked += questions,
            Err(error) => wrong.push(format!("{}: {error}", path.file_name().unwrap().to_string_lossy())),
        }
    }
    let took = started.elapsed();
    say!("examples, {}: {asked} questions to {count} of {}, {took:.1?}", mode.word(), examples.len());
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(examples.len() >= 30, "only {} examples", examples.len());
    stand.stop();
}

#[test]
fn every_example_answers_as_it_says_in_native_mode() {
    // Each configuration lets the kernel verify the program anew.
    run(Mode::Native, 4);
}

#[test]
fn every_example_answers_as_it_says_without_xdp() {
    run(Mode::Off, 1);
}

#[test]
fn an_example_without_questions_is_noticed() {
    assert!(steps("# About.\n# It does this: that.\n\n# ask: a A from ::1 -> nothing\n").is_empty());
    assert_eq!(steps("# ask: x A from ::1 -> nothing\n# do: wait 1s\n[listen]").len(), 2);
    assert!(wanted("198.51.100.1 198.51.100.2").is_err());
    assert_eq!(wanted("alias a.example or b.example, TTL 6").unwrap().data, ["a.example", "b.example"]);
}
