//! The one door for developers and CI: `cargo xtask <verb>`.
//!
//! One module per verb. Every verb first makes sure that the machine has what it needs (`setup`).

mod bench;
mod build;
mod command;
mod coverage;
mod demo;
mod error;
mod fuzz;
mod lint;
mod release;
mod section;
mod setup;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, tests and shows the responder. Each verb installs what it lacks and says so.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Installs what is missing (Debian packages, bpf-linker) and checks the kernel.
    Setup(setup::Options),
    /// Builds the eBPF program and the host programs.
    Build(build::Options),
    /// Shows the main job: eight sites that fail one after the other, under load.
    Demo(release::Options),
    /// Runs every test (needs root).
    Test(test::Options),
    /// Fuzzes what reads the octets of others.
    Fuzz(fuzz::Options),
    /// Prints which lines of `common` the tests run (needs root).
    Coverage(coverage::Options),
    /// Checks format, lints and licences.
    Lint,
    /// Measures what an answer costs (needs root).
    Bench(release::Options),
}

fn main() -> ExitCode {
    if let Some(error) = coverage::as_compiler() {
        eprintln!("xtask: {error}");
        return ExitCode::FAILURE;
    }
    let done = match Cli::parse().verb {
        Verb::Setup(options) => setup::run(&options),
        Verb::Build(options) => build::run(&options),
        Verb::Demo(options) => demo::run(&options),
        Verb::Test(options) => test::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Coverage(options) => coverage::run(&options),
        Verb::Lint => lint::run(),
        Verb::Bench(options) => bench::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
