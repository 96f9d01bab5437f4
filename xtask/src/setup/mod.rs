//! `cargo xtask setup`: what the machine must have, found out or installed.

mod machine;
mod packages;
mod toolchain;

use clap::{Args, ValueEnum};

pub use toolchain::Toolchain;

use crate::error::Result;

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
