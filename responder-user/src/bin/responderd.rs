//! The daemon.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use responder_user::{
    control::render,
    engine::{self, Engine, Prepared},
};
use tracing_subscriber::EnvFilter;

/// Answers DNS queries for GSLB names, and decides what the answers are.
#[derive(Parser)]
#[command(name = "responderd", version)]
struct Cli {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Validates the file, prints every problem and exits.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.check {
        return check(&cli.config);
    }
    match run(&cli.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.to_string().lines() {
                eprintln!("responderd: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Problems go to stdout; warnings alone are no failure.
fn check(config: &Path) -> ExitCode {
    let report = engine::check(config);
    print!("{}", render::problems(&report));
    if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(config: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let prepared = Prepared::read(config)?;
    let filter =
        EnvFilter::try_from_env("RESPONDER_LOG").unwrap_or_else(|_| EnvFilter::new(prepared.log_level()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Engine::start(prepared)?.run().await })?;
    Ok(())
}
