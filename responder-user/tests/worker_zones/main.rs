//! Zones with wildcards, delegations and DNAME: what the RFCs say, and what Knot says of the same file.

mod bed;
mod knot;
mod rules;
#[path = "../support/mod.rs"]
mod support;
