//! What is up. The one room that talks to the outside.

pub mod probe;
pub mod schedule;
pub mod state;

pub use probe::{LocalFault, Probe, ProbeResult};
pub use schedule::{HealthEvent, Job, JobKey, Scheduler, SchedulerStats};
pub use state::AddressState;
