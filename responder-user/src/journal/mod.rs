//! What the daemon has to know again after it died: an append-only file in `server.state_dir`.
//!
//! | stage | question |
//! |---|---|
//! | [`stamp`] | when, on clocks of which one may jump and one ends with the host |
//! | [`record`] | one statement on one object, as a whole |
//! | [`frame`] | records as octets, with length, number and checksums |
//! | [`state`] | what records add up to |
//! | [`replay`] | from the octets of a file to that, whatever has become of them |
//! | [`store`] | the file: append, take back, sync, compact |
//! | [`writer`] | the one thread that writes it |
//!
//! # What holds
//!
//! - Each record says everything of one object, by name: the last one of an object counts, and none needs another. The
//!   numbers of a configuration are not in it.
//! - A record is in force when it is whole. What was being written when the daemon died (a torn tail) is cut; what a full
//!   disk did not take is taken back at once.
//! - What is damaged is left out, and with it everything that must not be guessed: [`Record::is_observation`] of all
//!   objects, because the lost record may have said otherwise. Orders and latches before and after it stand.
//! - An order is acknowledged after `fdatasync`. What the daemon finds out by itself is written at once and synced within
//!   a second; where the disk refuses it, it is kept in memory and tried again.
//! - The wall clock decides only between two boots of the host, and then a time that lies ahead of it is no time
//!   ([`Stamp::age`]).

pub mod frame;
pub mod record;
pub mod replay;
pub mod stamp;
pub mod state;
pub mod store;
pub mod writer;

use std::{io, path::PathBuf};

pub use record::{Figure, Kind, Record, Scope, Session, SessionKind, TypeMemory};
pub use replay::Findings;
pub use stamp::Stamp;
pub use state::State;
pub use store::Store;
pub use writer::{Desk, Journal, Opened, Status, Told};

/// Name of the file in the state folder.
pub const NAME: &str = "journal";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another daemon writes it.
    #[error("server.state_dir: another responderd keeps its journal in {}; give this one another folder", .0.display())]
    InUse(PathBuf),
    /// The system refused something.
    #[error("journal {}: {what}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A record is larger than a frame may be.
    #[error("journal: a record of {length} octets is too large; allowed are {}", frame::MAX_BODY)]
    TooLarge {
        /// Its length.
        length: usize,
    },
    /// The file could not be read at the start, and is not overwritten.
    #[error("{0}; it is left as it is, and nothing is written until a restart can read it")]
    Unread(String),
}
