//! A stage to run the responder on: network namespaces, veth pairs and processes that end with their owner.
//!
//! ```text
//! scratch (a folder, pins) -> namespace -> veth -> process
//! ```
//!
//! Whatever way the owner dies, little stays: a namespace has no name, so the kernel removes it with its last process;
//! every process is killed by the kernel when the thread that started it ends; and what a killed owner left in the
//! file system is removed by the next [`Scratch`] for the same purpose. Needs root.

pub mod namespace;
pub mod process;
pub mod scratch;
mod spawn;
pub mod veth;

use std::{io, path::PathBuf, process::ExitStatus};

pub use namespace::Namespace;
pub use process::Process;
pub use scratch::Scratch;
pub use veth::End;

/// Why the stage cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A program did not start.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        output: String,
    },
    /// A program did not do in time what it should.
    #[error("{what} {fault}; its log is {}", .log.display())]
    Process {
        /// The program, as its owner calls it.
        what: String,
        /// What went wrong.
        fault: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl TestbedError {
    /// For `map_err`: the system refused `what`.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |source| Self::System { what, source: source.into() }
    }
}

/// Result of every step.
pub type Result<T = ()> = std::result::Result<T, TestbedError>;

/// An object that `cargo xtask build` makes from `responder-ebpf`: "responder", "pass" or "swap".
pub fn ebpf_object(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/bpf/bpfel-unknown-none/release").join(name)
}
