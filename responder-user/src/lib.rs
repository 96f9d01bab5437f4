//! The control process and the resolver workers of the responder.
//!
//! The modules in the order in which data moves; a module imports only those above it and `responder_common`.

pub mod compile;
pub mod decide;
pub mod model;

pub mod clock;

pub mod health;

pub mod control;
