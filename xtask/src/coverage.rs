//! `cargo xtask coverage`: which lines of `common` the tests run.
//!
//! The tests of `common` itself, and those of `responder-user` that run it on the host: the corpus of the fuzz targets,
//! the property tests and answers of the workers, the frames and the differential run (as a worker sees them; what runs
//! in the kernel is not counted).

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::build;
use crate::command;
use crate::error::{Error, Result};
use crate::section::section;
use crate::setup;

/// Options of `cargo xtask coverage`.
#[derive(Args)]
pub struct Options {
    /// Shows every line that no test runs.
    #[arg(long)]
    lines: bool,
}

/// The tests of `responder-user` that run the shared code.
const TESTS: [&str; 6] =
    ["corpus", "worker_answers", "worker_decisions", "class_properties", "differential", "frames"];

/// Makes the machine ready, runs the tests with counters, and prints the table.
pub fn run(options: &Options) -> Result {
    let toolchain = setup::for_all()?;
    let llvm = setup::for_coverage()?;
    let counts = command::target_dir().join("coverage");
    // Counts of an earlier run would add up.
    let _ = std::fs::remove_dir_all(&counts);
    std::fs::create_dir_all(&counts).map_err(|source| Error::file(&counts, source))?;
    section("build the eBPF program", || build::ebpf(&toolchain))?;
    let mut binaries = Vec::new();
    section("test", || {
        let mut common = cargo(&counts)?;
        binaries.extend(tested(common.args(["-p", "responder-common"]))?);
        let mut user = cargo(&counts)?;
        user.args(["-p", "responder-user"]);
        for test in TESTS {
            user.args(["--test", test]);
        }
        binaries.extend(tested(&mut user)?);
        Ok(())
    })?;
    report(&llvm, &counts, &binaries, options.lines)
}

/// Set where this program stands in for the compiler.
const AS_COMPILER: &str = "RESPONDER_COUNTS_LINES";

/// The compiler that cargo calls for the packages of this workspace while coverage is built: rustc, with counters. All
/// other packages are those of the ordinary build.
pub fn as_compiler() -> Option<Error> {
    std::env::var_os(AS_COMPILER)?;
    let mut words = std::env::args_os().skip(1);
    let mut rustc = Command::new(words.next()?);
    rustc.args(words).arg("-Cinstrument-coverage");
    Some(command::become_program(&mut rustc))
}

/// A `cargo test` whose programs count what they run.
fn cargo(counts: &Path) -> Result<Command> {
    let mut cargo = command::cargo();
    let own = std::env::current_exe().map_err(|source| Error::file("xtask", source))?;
    cargo.arg("test").env("RUSTC_WORKSPACE_WRAPPER", own).env(AS_COMPILER, "1");
    // One file for each program: those of one program are added up by its runtime.
    cargo.env("LLVM_PROFILE_FILE", counts.join("%m.profraw"));
    Ok(cargo)
}

/// Runs the tests; the programs that did.
fn tested(tests: &mut Command) -> Result<Vec<PathBuf>> {
    let root = tests.get_current_dir().map(Path::to_owned).unwrap_or_default();
    let mut listed = Command::new(tests.get_program());
    listed.args(tests.get_args()).args(["--no-run", "--message-format", "json"]).current_dir(root);
    for (name, value) in tests.get_envs() {
        match value {
            Some(value) => listed.env(name, value),
            None => listed.env_remove(name),
        };
    }
    let messages = command::caught(&mut listed)?;
    let programs = messages.lines().filter(|line| line.contains("\"test\":true"));
    let found: Vec<PathBuf> = programs
        .filter_map(|line| Some(PathBuf::from(line.split("\"executable\":\"").nth(1)?.split('"').next()?)))
        .collect();
    command::run(tests)?;
    Ok(found)
}

/// Adds up the counts and prints a row for each file of `common`.
fn report(llvm: &setup::Llvm, counts: &Path, binaries: &[PathBuf], lines: bool) -> Result {
    let merged = counts.join("all.profdata");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(counts).map_err(|source| Error::file(counts, source))?.flatten() {
        files.extend(Some(entry.path()).filter(|path| path.extension().is_some_and(|e| e == "profraw")));
    }
    command::quiet(Command::new(&llvm.profdata).args(["merge", "-sparse", "-o"]).arg(&merged).args(files))?;
    let of = |verb: &[&str]| {
        let mut cov = Command::new(&llvm.cov);
        cov.args(verb).arg("--instr-profile").arg(&merged);
        for (i, binary) in binaries.iter().enumerate() {
            if i > 0 {
                cov.arg("--object");
            }
            cov.arg(binary);
        }
        cov.arg("--sources").arg(command::root().join("common/src"));
        cov
    };
    if lines {
        let text =
            command::caught(of(&["show", "--show-line-counts-or-regions=0"]).arg("--show-line-counts"))?;
        for line in text.lines().filter(|line| line.ends_with(".rs:") || line.contains("|      0|")) {
            println!("{line}");
        }
    }
    let export = command::caught(&mut of(&["export", "--format=lcov"]))?;
    print(&export)
}

/// One file of `common`.
struct Row {
    file: String,
    /// Lines with code, those that ran; the same of branches' regions is not told by lcov.
    lines: (u64, u64),
}

fn print(lcov: &str) -> Result {
    let root = command::root().join("common/src");
    let mut rows: Vec<Row> = Vec::new();
    for line in lcov.lines() {
        let number = |text: &str| text.parse().unwrap_or(0);
        if let Some(path) = line.strip_prefix("SF:") {
            let file = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(path)).display().to_string();
            rows.push(Row { file, lines: (0, 0) });
        } else if let Some(row) = rows.last_mut() {
            if let Some(count) = line.strip_prefix("LF:") {
                row.lines.0 = number(count);
            } else if let Some(count) = line.strip_prefix("LH:") {
                row.lines.1 = number(count);
            }
        }
    }
    if rows.is_empty() {
        return Err(Error::missing("the counts name no file of common", "see that the tests ran"));
    }
    println!("{:<16}{:>8}{:>8}{:>10}", "common/src", "lines", "run", "share");
    let sum = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.lines.0, sum.1 + row.lines.1));
    let all = Row { file: "all".to_owned(), lines: sum };
    for Row { file, lines: (lines, run) } in rows.iter().chain([&all]) {
        println!("{file:<16}{lines:>8}{run:>8}{:>8.1} %", *run as f64 * 100.0 / (*lines).max(1) as f64);
    }
    Ok(())
}
