//! The one door for developers and CI: `cargo xtask <verb>`.
//!
//! One module per verb. Every verb first makes sure that the machine has what it needs (`setup`).

mod command;
mod error;
mod setup;

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
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Setup(options) => setup::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
