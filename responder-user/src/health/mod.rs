//! What is up. The one room that talks to the outside.

pub mod probe;
pub mod state;

pub use probe::{LocalFault, Probe, ProbeResult};
pub use state::AddressState;
