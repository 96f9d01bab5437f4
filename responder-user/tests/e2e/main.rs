//! End to end: the real daemon, the real kernel, real queries, in network namespaces that each test makes and removes.
//!
//! Needs root (network namespaces, XDP), `ip`, `dig` and `kdig`; `cargo xtask setup` installs the tools. A test that
//! lacks something fails and says what. With `RESPONDER_FULL=1` the long runs have their full length.

mod adoption;
mod attacks;
mod bed;
mod capture;
mod change;
mod conformance;
mod contract;
mod daemon;
mod decisions;
mod dns;
mod exit;
mod flood;
mod follow;
mod health;
mod journal;
mod limits;
mod load;
mod pins;
mod reaction;
mod reload;
mod restart;
mod route;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod tagged;
mod text;
mod traffic;
mod vectors;
mod wire;
mod workers;

/// A line on stderr at once, past the capture of the test harness: numbers that the run is to show.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "e2e: {}", format_args!($($part)*));
    }};
}
pub(crate) use say;

/// True for the long runs.
pub fn is_full() -> bool {
    std::env::var_os("RESPONDER_FULL").is_some_and(|value| value != "0")
}
