//! `cargo xtask setup`: what the machine must have, found out or installed.

mod machine;
mod packages;
mod toolchain;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub use toolchain::Toolchain;

use crate::command;
use crate::error::{Error, Result};

/// Options of `cargo xtask setup`.
#[derive(Args)]
pub struct Options {
    /// What the machine is made ready for.
    #[arg(long = "for", value_enum, default_value_t = Purpose::All)]
    purpose: Purpose,
}

/// What the machine is made ready for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// The eBPF toolchain.
    Build,
    /// Root, the kernel, DNS clients, load generators.
    Test,
    /// Both.
    All,
}

/// Makes the machine ready and says what it has.
pub fn run(options: &Options) -> Result {
    match options.purpose {
        Purpose::Build => println!("setup: eBPF toolchain: {}", for_build()?),
        Purpose::Test => for_test()?,
        Purpose::All => println!("setup: eBPF toolchain: {}", for_all()?),
    }
    println!("setup: everything is there");
    Ok(())
}

/// Makes the machine ready to build; silent when it is.
pub fn for_build() -> Result<Toolchain> {
    toolchain::prepare()
}

/// Makes the machine ready to run what was built; silent when it is.
fn for_test() -> Result {
    machine::check_kernel()?;
    packages::install(&packages::TEST_TOOLS)?;
    machine::mount_bpffs()
}

/// Makes the machine ready to build and to run; silent when it is. The kernel comes first: no use in installing anything
/// where the product cannot run.
pub fn for_all() -> Result<Toolchain> {
    for_test()?;
    let toolchain = for_build()?;
    machine::try_xdp(&toolchain)?;
    Ok(toolchain)
}

/// Makes the machine ready to fuzz; silent when it is.
pub fn for_fuzz() -> Result<Toolchain> {
    packages::install(&packages::FUZZ_TOOLS)?;
    for_all()
}

/// The programs that read the counts of instrumented programs.
pub struct Llvm {
    /// Adds counts up.
    pub profdata: PathBuf,
    /// Lays them over the sources.
    pub cov: PathBuf,
}

/// Finds or installs those of the LLVM that rustc has: others do not read its counts.
pub fn for_coverage() -> Result<Llvm> {
    let version = of_rustc("LLVM version:")?;
    let major = version.split('.').next().unwrap_or_default().to_owned();
    let found = |tool: &str| command::find(&format!("{tool}-{major}"));
    if found("llvm-cov").is_none() || found("llvm-profdata").is_none() {
        println!("setup: installing llvm-{major} (reads the counts of coverage)");
        packages::install_named(&[&format!("llvm-{major}")])?;
    }
    match (found("llvm-profdata"), found("llvm-cov")) {
        (Some(profdata), Some(cov)) => Ok(Llvm { profdata, cov }),
        _ => Err(Error::missing(
            format!("no llvm-cov-{major}: rustc has LLVM {version}"),
            format!("apt-get install llvm-{major}"),
        )),
    }
}

/// What rustc compiles for when nobody says.
pub fn host_of_rustc() -> Result<String> {
    of_rustc("host:")
}

/// A line of what rustc says of itself.
fn of_rustc(field: &str) -> Result<String> {
    let said = command::quiet(command::plain("rustc").arg("-vV"))?;
    let value = said.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
    value
        .map(str::to_owned)
        .ok_or_else(|| Error::missing(format!("rustc does not say {field}"), "rustup update"))
}
