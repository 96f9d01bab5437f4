//! The control process and the resolver workers of the responder.
//!
//! The modules in the order in which data moves; a module imports only those above it and `responder_common`. (The
//! blank lines keep rustfmt from sorting them.)

pub mod config;

pub mod model;

pub mod clock;

pub mod health;

pub mod decide;

pub mod journal;

pub mod compile;

pub mod publish;

pub mod worker;

pub mod control;

pub mod engine;
