//! `responderctl` against a daemon in a thread: what is printed, which keys stay, which exit codes come, and what the
//! socket does to clients that misbehave.

mod cli;
mod fake;
mod json;
mod ns;
mod socket;
mod text;

#[path = "../support/mod.rs"]
mod support;
