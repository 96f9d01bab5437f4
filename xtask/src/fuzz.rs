//! `cargo xtask fuzz`: the targets of `fuzz/`, under libFuzzer.
//!
//! libFuzzer comes as a crate and wants no more than the instrumentation that stable rustc can put in, so there is no
//! need for a nightly. Debug assertions and overflow checks are on; there is no address sanitizer, for the code under
//! test has no `unsafe`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};

use crate::build;
use crate::command;
use crate::error::{Error, Result};
use crate::section::section;
use crate::setup;

/// Options of `cargo xtask fuzz`.
#[derive(Args)]
pub struct Options {
    /// One target; without it each in turn.
    target: Option<Target>,
    /// Seconds of each target.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// What is fuzzed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// DNS messages as they are read.
    Parse,
    /// What workers reply.
    Reply,
    /// Options of EDNS.
    Options,
    /// Configuration files.
    Config,
    /// Master files.
    Master,
}

/// Every branch counts, and what is compared is told to the fuzzer. Few units, so that small functions are inlined.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                               -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                               -Cllvm-args=-sanitizer-coverage-pc-table \
                               -Cllvm-args=-sanitizer-coverage-trace-compares \
                               -Ccodegen-units=4";

/// The folders of a run.
struct Place {
    /// Where builds, new inputs and findings go.
    root: PathBuf,
    /// What the table of frames brings.
    seeds: PathBuf,
    binaries: PathBuf,
}

/// What a run came to.
struct Ran {
    target: &'static str,
    inputs: String,
    seconds: u64,
    coverage: String,
}

/// Makes the machine ready, builds, and runs the targets; stops at the first finding.
pub fn run(options: &Options) -> Result {
    let toolchain = setup::for_fuzz()?;
    let host = setup::host_of_rustc()?;
    let root = command::target_dir().join("fuzz");
    let place = Place {
        binaries: root.join(&host).join("release"),
        seeds: command::target_dir().join("tmp/seeds"),
        root,
    };
    section("seeds", || {
        build::ebpf(&toolchain)?;
        let test = ["test", "--quiet", "-p", "responder-user", "--test", "frames", "every_row_is_a_seed"];
        command::quiet(command::cargo().args(test))?;
        Ok(())
    })?;
    section("build", || command::build(&mut build_of(&place.root, &host)))?;
    let targets: Vec<Target> =
        options.target.map_or_else(|| Target::value_variants().to_vec(), |one| vec![one]);
    let mut ran = Vec::new();
    for target in targets {
        section(target.name(), || {
            ran.push(fuzz(target, options.seconds, &place)?);
            Ok(())
        })?;
    }
    println!("{:<10}{:>14}{:>10}{:>12}", "target", "inputs", "seconds", "edges");
    for Ran { target, inputs, seconds, coverage } in ran {
        println!("{target:<10}{inputs:>14}{seconds:>10}{coverage:>12}");
    }
    Ok(())
}

/// The build of all targets. The target triple is named, so that build scripts are not instrumented.
fn build_of(folder: &Path, host: &str) -> Command {
    let mut cargo = command::plain_cargo();
    cargo.current_dir(command::root().join("fuzz")).env("RUSTFLAGS", INSTRUMENTATION);
    cargo.args(["build", "--release", "--locked", "--target", host, "--target-dir"]).arg(folder);
    cargo
}

/// Runs one target. New inputs go into a folder of their own: what is worth keeping gets a name and is committed.
fn fuzz(target: Target, seconds: u64, place: &Place) -> Result<Ran> {
    let name = target.name();
    let folder = |what: &str| {
        let folder = place.root.join(what).join(name);
        std::fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
        Ok::<_, Error>(folder)
    };
    let (found, findings) = (folder("corpus")?, folder("findings")?);
    let mut fuzzer = Command::new(place.binaries.join(name));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={}/", findings.display()));
    fuzzer.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=1"]);
    fuzzer.args([found, command::root().join("fuzz/corpus").join(name)]);
    fuzzer.args(Some(place.seeds.join(name)).filter(|seeds| seeds.is_dir()));
    let mut ran = Ran { target: name, inputs: "?".to_owned(), seconds, coverage: "?".to_owned() };
    watch(&mut fuzzer, &mut ran).map_err(|error| {
        Error::missing(
            format!("{error}: an input for which {name} does not hold lies in {}", findings.display()),
            format!("mend the fault, and keep the input under a telling name in fuzz/corpus/{name}"),
        )
    })?;
    Ok(ran)
}

/// Shows what a fuzzer says, without a line for each new input, and notes its figures.
fn watch(fuzzer: &mut Command, ran: &mut Ran) -> Result {
    let program = fuzzer.get_program().to_string_lossy().into_owned();
    let started = fuzzer.stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|source| Error::Start { program: program.clone(), source })?;
    let mut in_dictionary = false;
    for bytes in child.stderr.take().map(BufReader::new).into_iter().flat_map(|s| s.split(b'\n')) {
        let Ok(bytes) = bytes else { break };
        let text = String::from_utf8_lossy(&bytes);
        if let Some(edges) = text.split("cov: ").nth(1).and_then(|rest| rest.split(' ').next()) {
            edges.clone_into(&mut ran.coverage);
        }
        if let Some(inputs) = text.strip_prefix("stat::number_of_executed_units:") {
            inputs.trim().clone_into(&mut ran.inputs);
        }
        in_dictionary |= text.starts_with("###### Recommended");
        in_dictionary &= !text.starts_with("###### End");
        let is_input = matches!(text.split_whitespace().nth(1), Some("NEW" | "REDUCE"));
        let is_noise = is_input || in_dictionary || text.starts_with("###### End");
        if !is_noise {
            println!("{text}");
        }
    }
    let status = child.wait().map_err(|source| Error::Start { program: program.clone(), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: program, status, output: String::new() })
}

impl Target {
    /// Its name, which is that of its binary and of its folder.
    const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Reply => "reply",
            Self::Options => "options",
            Self::Config => "config",
            Self::Master => "master",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let fuzz = command::root().join("fuzz");
        for target in Target::value_variants() {
            let name = target.name();
            assert!(fuzz.join("fuzz_targets").join(name).with_extension("rs").is_file(), "{name}");
            assert!(fuzz.join("corpus").join(name).is_dir(), "{name}");
        }
        let programs = std::fs::read_dir(fuzz.join("fuzz_targets")).expect("a folder").count();
        assert_eq!(programs, Target::value_variants().len(), "a target that no verb runs");
    }
}
