//! Verbs that are programs of their own: built for release, then xtask becomes them.

use std::process::Command;

use clap::Args;

use crate::build::{self, Profile};
use crate::command;
use crate::error::Result;
use crate::setup;

/// Options of a verb that is a program of its own.
#[derive(Args)]
pub struct Options {
    /// Arguments of the program (try --help after two dashes).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Makes the machine ready, builds for release, and becomes a binary of the workspace.
pub fn become_binary(name: &str, options: &Options) -> Result {
    let toolchain = setup::for_all()?;
    build::all(&toolchain, Profile::Release)?;
    let mut program = Command::new(command::target_dir().join("release").join(name));
    Err(command::become_program(program.args(&options.arguments)))
}
