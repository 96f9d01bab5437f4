//! What can go wrong, each in one clear line.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a verb stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something that this program cannot or may not install.
    #[error("{what}\n  how to get it: {how}")]
    Missing {
        /// What is not there.
        what: String,
        /// What the user does about it.
        how: String,
    },
    /// A program did not start.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}){output}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed, when that was caught; begins with a line break then.
        output: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Something is missing, and how to get it.
    pub fn missing(what: impl Into<String>, how: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), how: how.into() }
    }

    /// A file could not be read or written.
    pub fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

/// Result of every step of a verb.
pub type Result<T = ()> = std::result::Result<T, Error>;
