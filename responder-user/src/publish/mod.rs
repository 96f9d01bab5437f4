//! The one writer of the maps.
//!
//! ```text
//! region (memory), sessions -> table (slots, words) -> grace (who may still read) -> world (one numbering, whole)
//!                                                                            |
//! netlink, interface, offload, pin, attach, leftover, follow (kernel objects) -> writer
//! ```
//!
//! Rules, all of them measured (design section 4): a slot is never edited while a word leads to it; a word is
//! published with one aligned Release store; a slot that no word leads to any more is reused only after every running
//! program and every worker is done.

pub mod attach;
pub mod follow;
pub mod grace;
pub mod interface;
pub mod leftover;
pub mod netlink;
pub mod offload;
pub mod pin;
pub mod region;
pub mod secrets;
pub mod sessions;
pub mod table;
pub mod watch;
pub mod world;
pub mod writer;

use std::{io, path::PathBuf};

/// Why something could not be published or attached.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The kernel did not give memory.
    #[error("map {name}: no memory for {octets} octets: {source}")]
    Memory {
        /// Map.
        name: &'static str,
        /// Size.
        octets: usize,
        /// Reason.
        source: io::Error,
    },
    /// A table is full even after every retired slot came back.
    #[error("map {name}: all {capacity} slots are in use; the old answers stay")]
    Full {
        /// Map.
        name: &'static str,
        /// Slots.
        capacity: u32,
    },
    /// The candidate buckets of a name are full. A larger world with another key places it.
    #[error("name {name}: no place in a table of {buckets} buckets")]
    NoPlace {
        /// The name.
        name: String,
        /// Buckets.
        buckets: u32,
    },
    /// A system call on a BPF object failed.
    #[error("{call} of {object}: {source}")]
    Bpf {
        /// What was tried.
        call: &'static str,
        /// On what.
        object: String,
        /// Reason.
        source: io::Error,
    },
    /// A file operation on a pin failed.
    #[error("{path}: {source}")]
    Pin {
        /// The pin.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// Another daemon uses the pins.
    #[error(
        "xdp.pin_path: another responderd is in charge of {path}; stop it, or give this one another xdp.pin_path"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The path for pins is not on a BPF file system.
    #[error("xdp.pin_path: {path} is not on a BPF file system; mount one: mount -t bpf bpf /sys/fs/bpf")]
    NotBpffs {
        /// The path.
        path: PathBuf,
    },
    /// The program was refused.
    #[error("XDP program: {0}")]
    Program(String),
    /// There is no such interface.
    #[error("xdp.interfaces: {name:?} does not exist")]
    NoInterface {
        /// Its name.
        name: String,
    },
    /// Somebody else's program is on the interface.
    #[error(
        "interface {interface}: carries the XDP program {program:?} (id {id}) that is not ours; detach it, or take the interface out of xdp.interfaces"
    )]
    Foreign {
        /// Interface.
        interface: String,
        /// Name of the program.
        program: String,
        /// Its id.
        id: u32,
    },
    /// Answers would leave without their VLAN tags.
    #[error(
        "interface {interface}: carries the VLAN {vlan}, and its driver takes the tags off: answers from XDP would leave without them; switch that off: {mend}"
    )]
    StrippedTags {
        /// Interface.
        interface: String,
        /// A VLAN on it.
        vlan: String,
        /// The command that mends it.
        mend: String,
    },
    /// A program that an earlier daemon left answers for us.
    #[error(
        "interface {interface}: the XDP program of an earlier responderd still answers there (on_exit = \"keep\", pins in {path}); name that folder as xdp.pin_path, with mode = \"off\" if XDP is not wanted any more, or remove it: scripts/detach.sh {path}"
    )]
    Orphan {
        /// Interface.
        interface: String,
        /// Its `xdp.pin_path`.
        path: PathBuf,
    },
    /// The driver cannot do what the configuration demands.
    #[error("interface {interface}: XDP mode {mode} is not possible: {source}")]
    Mode {
        /// Interface.
        interface: String,
        /// native or generic.
        mode: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// More of something than the control words hold.
    #[error("{what}: {count} are more than the {limit} that the XDP program compares")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}
