//! Why a bench cannot go on.

use std::io;

use responder_user::{compile::CompileError, config::ConfigError, publish::PublishError};

/// Why a bench cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that needs root or a kernel feature.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Reason.
        source: io::Error,
    },
    /// A program that did not do what it was asked to.
    #[error("{command}: {output}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        output: String,
    },
    /// A BPF program or map.
    #[error("{what}: {why}")]
    Bpf {
        /// Which, and what was tried.
        what: String,
        /// Reason.
        why: String,
    },
    /// The configuration of the bench.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration of the bench.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The maps.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A wrong or missing answer: nothing measured of it counts.
    #[error("{0}")]
    Wrong(String),
}

/// What most functions here return.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// From a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(nix::errno::Errno) -> Self {
        let what = what.into();
        move |errno| Self::System { what, source: errno.into() }
    }

    /// From a file operation.
    pub fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    /// From aya, with the causes that it hides.
    pub fn bpf<E: std::error::Error>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| {
            let mut why = error.to_string();
            let mut cause = error.source();
            while let Some(inner) = cause {
                why = format!("{why}: {inner}");
                cause = inner.source();
            }
            Self::Bpf { what, why }
        }
    }
}
