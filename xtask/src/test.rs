//! `cargo xtask test`: every test, on the real kernel.

use clap::Args;

use crate::build::{self, Profile};
use crate::command;
use crate::error::Result;
use crate::section::section;
use crate::setup;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Runs the long tests at full length too.
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
    section("test", || tests(options))
}

/// cargo test is enough: a fresh machine has it.
fn tests(options: &Options) -> Result {
    let mut cargo = command::cargo();
    cargo.args(["test", "--workspace", "--no-fail-fast"]).args(&options.filter);
    if options.full {
        cargo.env("RESPONDER_FULL", "1");
    }
    command::run(&mut cargo)
}
