//! What operators type and see: the control socket, and pure functions that put the state of the daemon into words.
//!
//! One engine owns the state. It receives a [`server::Request`] for every command, answers those that change
//! something itself, and the others with the functions of this module over a [`View`].
//!
//! | file | what |
//! |---|---|
//! | [`command`] | the commands, as JSON lines on the socket |
//! | [`events`] | what happened, numbered, for `events` and its followers |
//! | [`rate`] | queries per second |
//! | [`index`] | finds the bindings of a name among a million |
//! | [`target`] | from the name that an operator typed to the object |
//! | [`view`] | everything that can be shown, borrowed; `status` and `stats` |
//! | [`show`] | `show KIND [NAME]` |
//! | [`explain`] | `explain NAME TYPE` |
//! | [`server`] | the socket of the daemon |
//! | [`client`], [`cli`], [`render`] | `responderctl` |
//!
//! # Protocol
//!
//! One JSON object a line. The client sends a [`Command`] and reads one [`command::Reply`]; after `events` with
//! `follow` it reads `event` and `missed` lines until it hangs up. Keys are added, never renamed.

pub mod cli;
pub mod client;
pub mod command;
pub mod events;
pub mod explain;
pub mod index;
pub mod rate;
pub mod render;
pub mod server;
pub mod show;
pub mod target;
pub mod view;

pub use command::{Command, Done, Refusal};
pub use events::{Event, EventKind, Events};
pub use index::NameIndex;
pub use rate::{Queries, RateMeter, Rates};
pub use server::{Request, Server};
pub use view::{InterfaceStatus, View};
