//! `cargo xtask demo`: eight sites that fail one after the other, under load, on a stage of its own.
//!
//! ```text
//! example -> stage (namespaces, veth) -> services (nginx) -> daemon (responderd) -> clients (dig, dnsperf)
//!     tap (every frame of the load) -> answer (is it right in itself?) -> judge (is it right now?)
//!     steps (kill, watch, count) -> table
//! ```
//!
//! Nothing outside the stage is touched; whatever ends the demo, the stage goes with it.

mod answer;
mod clients;
mod daemon;
mod example;
mod judge;
mod pause;
mod pool;
mod services;
mod stage;
mod steps;
mod table;
mod tap;

use std::process::ExitCode;

use clap::Parser;

use crate::pause::Pause;

/// Why the demo stops before its end.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    /// The stage.
    #[error(transparent)]
    Testbed(#[from] responder_testbed::TestbedError),
    /// The control socket of the daemon.
    #[error(transparent)]
    Control(#[from] responder_user::control::client::ClientError),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Something is not as the demo needs it.
    #[error("{0}")]
    Unexpected(String),
    /// Ctrl-C, or another polite signal.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    /// For `map_err`: the system refused `what`.
    fn system<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |source| Self::System { what, source: source.into() }
    }
}

type Result<T = ()> = std::result::Result<T, DemoError>;

/// Runs examples/eight-sites.toml on two network namespaces with real services, kills them one after the other under
/// a load of 20,000 queries a second, and checks every answer. Needs root.
#[derive(Parser)]
#[command(name = "responder-demo", version)]
struct Cli {}

fn main() -> ExitCode {
    let Cli {} = Cli::parse();
    let done = Pause::begin().and_then(|pause| steps::run(&pause));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(DemoError::Interrupted) => {
            eprintln!("demo: interrupted; everything is removed");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}
