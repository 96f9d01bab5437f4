//! The committed corpus of the fuzz targets, by the checks of the fuzz targets: no fuzzer is needed for what is known.
//!
//! `cargo xtask fuzz` looks for more. What it finds is mended, and its input gets a telling name in `fuzz/corpus`.

#[path = "../../fuzz/src/oracle/mod.rs"]
#[expect(dead_code, reason = "the readers are those of the lab, and do more")]
mod oracle;

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
};

/// Runs every input of a target; at least so many.
fn replay(target: &str, least: usize, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut count = 0;
    let mut failed = Vec::new();
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let octets = fs::read(&path).expect("an input");
        if panic::catch_unwind(AssertUnwindSafe(|| check(&octets))).is_err() {
            failed.push(path.display().to_string());
        }
        count += 1;
    }
    println!("{target}: {count} inputs");
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(count >= least, "{target}: inputs are missing");
}

#[test]
fn parse_holds_for_the_corpus() {
    replay("parse", 60, oracle::parse::check);
}

#[test]
fn reply_holds_for_the_corpus() {
    replay("reply", 60, oracle::reply::check);
}

#[test]
fn options_hold_for_the_corpus() {
    replay("options", 30, oracle::options::check);
}

#[test]
fn config_holds_for_the_corpus() {
    replay("config", 15, oracle::config::check);
}

#[test]
fn master_holds_for_the_corpus() {
    replay("master", 25, oracle::master::check);
}
