//! What the XDP program and the resolver workers both do, compiled once for each.
//!
//! ```text
//! octets -> parse (wire, name, edns) -> lookup (layout, class) -> select -> reply (checksum)
//! ```
//!
//! Nothing here allocates, panics on input or knows where the octets are: [`parse::parse`] reads from a
//! [`wire::Source`], [`lookup::answer`] from a [`lookup::World`], [`reply::write`] writes to a [`wire::Sink`]. The
//! XDP program implements them over the packet and its maps, a worker over slices and the same maps mapped into memory.

#![no_std]
#![forbid(unsafe_code)]
#![allow(
    clippy::inline_always,
    reason = "the verifier follows one flat program, and the packet path has no room for calls"
)]

pub mod checksum;
pub mod class;
pub mod client;
pub mod cookie;
pub mod counters;
pub mod edns;
pub mod layout;
pub mod limit;
pub mod limits;
pub mod load;
pub mod lookup;
pub mod name;
pub mod parse;
pub mod rendezvous;
pub mod reply;
pub mod sample;
pub mod select;
pub mod session;
pub mod switches;
pub mod wire;
