//! `cargo xtask lint`: format, clippy, licences.

use std::path::PathBuf;

use crate::build;
use crate::command;
use crate::error::{Error, Result};
use crate::section::section;
use crate::setup::{self, Toolchain};

/// Everything that a machine can find wrong with the sources. A part that fails does not keep the next from running.
pub fn run() -> Result {
    components()?;
    let toolchain = setup::for_build()?;
    let parts = [
        section("format", format),
        // `responderd` embeds the eBPF program: without it the host workspace cannot be checked.
        section("build the eBPF program", || build::ebpf(&toolchain)),
        section("clippy, eBPF", || clippy_ebpf(&toolchain)),
        section("clippy, host", clippy_host),
        section("licences", licences),
    ];
    parts.into_iter().collect()
}

/// The packages that are compiled for BPF, each a workspace of its own.
fn ebpf_packages() -> [PathBuf; 2] {
    ["responder-ebpf", "xtask/probe"].map(|package| command::root().join(package))
}

/// rustfmt and clippy of the toolchain that runs us; rustup's minimal profile leaves them out.
fn components() -> Result {
    for (verb, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if command::quiet(command::cargo().args([verb, "--version"])).is_ok() {
            continue;
        }
        println!("setup: installing {component} (a component of this toolchain)");
        command::quiet(command::plain("rustup").args(["component", "add", component])).map_err(|error| {
            Error::missing(format!("no {component}: {error}"), format!("rustup component add {component}"))
        })?;
    }
    Ok(())
}

/// Every source file is as rustfmt writes it.
fn format() -> Result {
    command::run(command::cargo().args(["fmt", "--all", "--check"]))?;
    // The checks of the fuzz targets are linted with the tests, which compile them too.
    for package in ebpf_packages().into_iter().chain([command::root().join("fuzz")]) {
        command::run(command::cargo().current_dir(package).args(["fmt", "--check"]))?;
    }
    Ok(())
}

/// The host workspace, tests and benches too.
fn clippy_host() -> Result {
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    command::build(command::cargo().args(arguments))
}

/// The eBPF code, apart from the host workspace: in one run, cargo would unify the features of `common`, and clippy would see
/// code that is never loaded. The clippy is that of the eBPF compiler, which brings the only `core` for BPF.
fn clippy_ebpf(toolchain: &Toolchain) -> Result {
    for package in ebpf_packages() {
        command::build(toolchain.clippy(&package)?.args(["--", "--deny", "warnings"]))?;
    }
    Ok(())
}

/// Licences and sources of all dependencies, where cargo-deny is installed. Advisories are left out: their database comes from
/// the internet, and a lint run must end the same without it.
fn licences() -> Result {
    if command::find("cargo-deny").is_none() {
        println!("not checked: cargo-deny is not installed (cargo install cargo-deny --locked)");
        println!("advisories: cargo deny check advisories (needs the internet)");
        return Ok(());
    }
    command::run(command::cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}
