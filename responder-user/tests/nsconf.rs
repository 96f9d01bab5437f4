//! NetScaler configurations in: files, commands, and the way back.
//!
//! `tests/nsconf/*.conf` are the fragments A to H of spec/netscaler.md 6.4, what the four source documents print, and
//! what else saved configurations carry. Beside each lies what becomes of it: `.toml`, `.zone` where records make one, and
//! `.notices` with everything that is said. `RESPONDER_BLESS=1` writes those files anew.
//!
//! A line `# with A.conf` names the files whose objects a fragment builds upon; they follow behind it, so that lines keep
//! their numbers.

#[path = "nsconf/cli.rs"]
mod cli;
#[path = "nsconf/commands.rs"]
mod commands;
#[path = "nsconf/files.rs"]
mod files;
#[path = "nsconf/random.rs"]
mod random;
#[path = "nsconf/running.rs"]
mod running;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the fragments.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nsconf")
}

/// A fragment with what it builds upon, and how many lines are its own.
fn fragment(name: &str) -> (String, usize) {
    let read = |name: &str| {
        fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let mut text = read(name);
    let own = text.lines().count();
    let others: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# with "))
        .flat_map(|names| names.split(' ').map(str::to_owned))
        .collect();
    for other in others {
        text += &read(&other);
    }
    (text, own)
}

/// Names of all fragments.
fn fragments() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "conf"))
        .collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    names
}
