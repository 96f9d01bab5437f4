//! The table of frames: a frame, what must become of it, and the counters that rise; run on the real object.
//!
//! | file | rows about |
//! |---|---|
//! | [`link`] | Ethernet, VLAN tags, padding, interfaces, frames that end too soon |
//! | [`internet`] | IPv4 and IPv6 |
//! | [`datagram`] | UDP: ports, lengths, checksums |
//! | [`header`] | the DNS header |
//! | [`question`] | names, types, classes |
//! | [`edns`] | OPT |
//! | [`options`] | client subnet, cookie, server identifier |
//! | [`absent`] | names that do not exist |
//! | [`answers`] | what is answered |
//! | [`clients`] | who gets which answer |
//! | [`limits`] | who gets no answer, or a truncated one |
//! | [`sessions`] | who gets the same answer again |
//! | [`reasons`] | that every reason has two rows |
//! | [`spaces`] | small spaces, exhausted |
//! | [`watched`] | sampling, timing, counting |

#[path = "../lab/mod.rs"]
mod lab;
#[path = "../support/mod.rs"]
mod support;

mod absent;
mod answers;
mod clients;
mod datagram;
mod edns;
mod header;
mod internet;
mod limits;
mod link;
mod options;
mod question;
mod reasons;
mod row;
mod sessions;
mod spaces;
mod watched;

use std::{collections::BTreeSet, fs, path::Path};

use lab::{Lab, pin_to, world};
use row::Row;

/// The world of all rows.
fn open(what: &str) -> Lab {
    let lab = Lab::open(what, world::model(), &world::snapshot);
    pin_to(0);
    lab
}

/// The world without policies, for tests that are not about clients.
fn open_classless(what: &str) -> Lab {
    let lab = Lab::open(what, world::classless(), &world::snapshot);
    pin_to(0);
    lab
}

/// Rows that the world meets as it is.
fn rows() -> Vec<Row> {
    let tables = [
        link::rows(),
        internet::rows(),
        datagram::rows(),
        header::rows(),
        question::rows(),
        edns::rows(),
        answers::rows(),
        clients::rows(),
    ];
    tables.into_iter().flatten().collect()
}

#[test]
fn every_row_of_the_table_holds() {
    let mut lab = open("rows");
    let rows = rows();
    let mut wrong = Vec::new();
    for row in &rows {
        if let Err(error) = row::run(&mut lab, row) {
            wrong.push(format!("{}: {error}", row.rule));
        }
    }
    println!("{} rows", rows.len());
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(rows.len() >= 250, "the table has lost rows: {}", rows.len());
}

/// The messages of all rows, under the names of their rules, in target/tmp/seeds: where the fuzzer begins.
#[test]
fn every_row_is_a_seed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeds");
    let mut seen = BTreeSet::new();
    for target in ["parse", "reply"] {
        fs::create_dir_all(folder.join(target)).expect("a folder");
    }
    for row in rows() {
        let message = row.frame.dns();
        if !seen.insert(message.clone()) {
            continue;
        }
        let name: String =
            row.rule.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(80).collect();
        fs::write(folder.join("parse").join(&name), &message).expect("a seed");
        // In front stands how it comes (fuzz/src/oracle/reply.rs).
        let how = u8::from(row.frame.source.is_ipv6()) << 1;
        fs::write(folder.join("reply").join(&name), [&[how], &message[..]].concat()).expect("a seed");
    }
    assert!(seen.len() > 100, "{} messages", seen.len());
}

#[test]
fn rules_are_written_once() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        assert!(seen.insert(row.rule.clone()), "two rows say {:?}", row.rule);
    }
}

#[test]
fn the_verifier_looks_at_no_more_than_200_000_instructions() {
    let mut lab = open_classless("verifier");
    let program = lab.writer().program_mut().expect("XDP is on");
    let instructions = program.verified_instructions().expect("the kernel tells since 5.16");
    println!("verifier: {instructions} instructions processed, 200000 allowed");
    assert!(instructions <= 200_000);
}
