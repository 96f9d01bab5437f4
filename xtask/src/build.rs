//! `cargo xtask build`: the eBPF program, then the host workspace.
//!
//! Two builds, for the eBPF program has another compiler, another target and its own workspace: in one build, cargo
//! would give host features of `common` and others to the BPF side.

use clap::Args;

use crate::command;
use crate::error::Result;
use crate::setup::{self, Toolchain};

/// Options of `cargo xtask build`.
#[derive(Args)]
pub struct Options {
    /// Builds the host programs with optimization. The eBPF program always is.
    #[arg(long)]
    release: bool,
    /// Builds the eBPF program only.
    #[arg(long, conflicts_with = "release")]
    ebpf_only: bool,
    /// Builds the eBPF program with a log record for every packet, for debugging: slow.
    #[arg(long)]
    ebpf_log: bool,
}

/// Profile of the host programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build, with checks.
    Dev,
    /// Quick to run.
    Release,
}

/// Builds what the options say, on a machine made ready for it.
pub fn run(options: &Options) -> Result {
    let toolchain = setup::for_build()?;
    if options.ebpf_log {
        return command::build(
            toolchain.build(&command::root().join("responder-ebpf")).args(["--features", "log"]),
        );
    }
    if options.ebpf_only {
        return ebpf(&toolchain);
    }
    all(&toolchain, if options.release { Profile::Release } else { Profile::Dev })
}

/// Builds the eBPF program and the host workspace; silent when nothing has changed.
pub fn all(toolchain: &Toolchain, profile: Profile) -> Result {
    ebpf(toolchain)?;
    host(profile)
}

/// Builds the eBPF program into `target/bpf`, from where `responderd` embeds it; silent when nothing has changed.
pub fn ebpf(toolchain: &Toolchain) -> Result {
    command::build(&mut toolchain.build(&command::root().join("responder-ebpf")))
}

/// Builds the host workspace.
fn host(profile: Profile) -> Result {
    let mut cargo = command::cargo();
    cargo.args(["build", "--workspace"]);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    command::build(&mut cargo)
}
