//! `cargo xtask test`: every test, on the real kernel.

use std::process::Command;

use clap::Args;

use crate::build::{self, Profile};
use crate::command;
use crate::error::Result;
use crate::section::section;
use crate::setup;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Runs the long tests at full length too, and those that want a release build.
    #[arg(long)]
    full: bool,
    /// Runs only tests whose name contains this.
    filter: Option<String>,
}

/// Makes the machine ready, builds, and runs the tests.
pub fn run(options: &Options) -> Result {
    let mut toolchain = None;
    section("setup", || {
        toolchain = Some(setup::for_all()?);
        Ok(())
    })?;
    if let Some(toolchain) = toolchain {
        section("build", || build::all(&toolchain, Profile::Dev))?;
    }
    let all = section("test", || command::run(&mut tests(options)));
    if !options.full {
        return all;
    }
    let sized = section("test at full size", || command::run(&mut full_size(options)));
    let decided = section("a million decisions", || command::run(&mut decisions(options)));
    all.and(sized).and(decided)
}

/// cargo test is enough: a fresh machine has it.
fn tests(options: &Options) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--workspace", "--no-fail-fast"]).args(&options.filter);
    if options.full {
        // What the long runs measured is their result.
        cargo.env("RESPONDER_FULL", "1").args(["--", "--show-output"]);
    }
    cargo
}

/// The tests that the ordinary run ignores: a debug build could not hold their figures. One after the other, because
/// each wants the machine for itself.
fn full_size(options: &Options) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--release", "-p", "responder-user", "--test", "health_scale", "--no-fail-fast"]);
    cargo.args(&options.filter).args(["--", "--ignored", "--nocapture", "--test-threads", "1"]);
    cargo
}

/// The properties of decisions, a million cases each: a debug build would take hours.
fn decisions(options: &Options) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--release", "-p", "responder-user", "--test", "decide_properties"]);
    cargo.env("RESPONDER_FULL", "1").args(&options.filter);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<&str> {
        command.get_args().filter_map(|word| word.to_str()).collect()
    }

    #[test]
    fn the_full_run_leaves_no_ignored_test_out() {
        let options = Options { full: true, filter: None };
        let words = words(&full_size(&options)).join(" ");
        assert!(words.contains("--release") && words.contains("--ignored"), "{words}");
        // Tests that are ignored stand in that one file; another file with some would be forgotten.
        let ignored = ["#[", "ignore"].concat();
        let mut folders = vec![command::root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                let name = entry.file_name();
                if path.is_dir() && name != "target" && name != ".git" {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    let text = std::fs::read_to_string(&path).expect("a source file");
                    assert!(!text.contains(&ignored) || name == "health_scale.rs", "{}", path.display());
                }
            }
        }
    }

    #[test]
    fn the_full_run_decides_a_million_times_in_a_release_build() {
        let options = Options { full: true, filter: None };
        let command = decisions(&options);
        assert!(words(&command).contains(&"--release") && words(&command).contains(&"decide_properties"));
        assert!(command.get_envs().any(|(name, value)| name == "RESPONDER_FULL" && value.is_some()));
    }

    #[test]
    fn the_full_run_is_long_and_the_ordinary_one_is_not() {
        let is_long = |full| {
            let command = tests(&Options { full, filter: None });
            command.get_envs().any(|(name, value)| name == "RESPONDER_FULL" && value.is_some())
        };
        assert!(is_long(true) && !is_long(false));
    }
}
