//! The control process and the resolver workers of the responder.
//!
//! The modules in the order in which data moves; a module imports only those above it and `responder_common`.

pub mod config;
pub mod model;
