//! What is up. The one room that talks to the outside.

pub mod probe;

pub use probe::{LocalFault, Probe, ProbeResult};
