//! The daemon under demonstration.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use aya::{
    programs::{
        links::{FdLink, PinnedLink},
        loaded_programs,
    },
    sys::{Stats, enable_stats},
};
use nix::sys::signal::Signal;
use responder_testbed::{Process, Scratch};
use responder_user::{
    control::{Command, client::Client},
    publish::pin::Pins,
};
use serde_json::Value;

use super::{DemoError, Result, example::Example, pause::Pause, stage::Stage};

/// How long it may take until it is ready.
const START: Duration = Duration::from_secs(20);

/// A running responderd.
pub struct Daemon {
    process: Process,
    socket: PathBuf,
    link: PathBuf,
}

/// How many queries were answered where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// By the program in the driver.
    pub xdp: u64,
    /// By a worker.
    pub worker: u64,
    /// Not at all.
    pub dropped: u64,
}

impl Answered {
    /// What came since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            xdp: self.xdp - earlier.xdp,
            worker: self.worker - earlier.worker,
            dropped: self.dropped - earlier.dropped,
        }
    }
}

impl Daemon {
    /// Starts it and waits until it answers.
    pub fn start(example: &Example, stage: &Stage, scratch: &Scratch, pause: &Pause) -> Result<Self> {
        let mut command = stage.server.command(beside_us("responderd")?);
        command.arg("--config").arg(&example.file);
        let process = Process::start("responderd", &mut command, scratch.file("responderd.log"))?;
        let link = Pins::open(scratch.pins()).map_err(|e| DemoError::Unexpected(e.to_string()))?;
        let mut daemon = Self {
            process: process.with_farewell(Signal::SIGTERM),
            socket: example.socket.clone(),
            link: link.link(&example.interface),
        };
        let is_ready = pause.watch(Instant::now() + START, || Ok(daemon.process.has_said("ready")?))?;
        if is_ready {
            return Ok(daemon);
        }
        Err(DemoError::Unexpected(format!("responderd is not ready after {} s", START.as_secs())))
    }

    /// The mode in which the program is attached: "native", "generic", "off".
    pub fn mode(&self) -> Result<String> {
        let status = self.status()?;
        Ok(status["interfaces"][0]["mode"].as_str().unwrap_or("unknown").to_owned())
    }

    /// What it has answered so far.
    pub fn answered(&self) -> Result<Answered> {
        let queries = &self.status()?["queries"];
        let count = |key: &str| queries[key].as_u64().unwrap_or(0);
        Ok(Answered { xdp: count("xdp"), worker: count("worker"), dropped: count("dropped") })
    }

    fn status(&self) -> Result<Value> {
        Ok(Client::connect(&self.socket)?.call(&Command::Status)?)
    }

    /// Lets the kernel measure the program for a while: nanoseconds a run, and how many runs.
    pub fn measure(&self, pause: &Pause, time: Duration) -> Result<(f64, u64)> {
        let refused = |e: &dyn std::fmt::Display| DemoError::Unexpected(format!("kernel statistics: {e}"));
        // In effect while this is open: nothing is left to be restored, whatever happens.
        let _enabled = enable_stats(Stats::RunTime).map_err(|e| refused(&e))?;
        let (time_before, runs_before) = self.run_time()?;
        pause.until(Instant::now() + time)?;
        let (time_after, runs_after) = self.run_time()?;
        let runs = runs_after - runs_before;
        Ok((time_after.saturating_sub(time_before).as_nanos() as f64 / runs.max(1) as f64, runs))
    }

    /// Time and number of the runs that the kernel has measured.
    fn run_time(&self) -> Result<(Duration, u64)> {
        let refused =
            |e: &dyn std::fmt::Display| DemoError::Unexpected(format!("{}: {e}", self.link.display()));
        let link: FdLink = PinnedLink::from_pin(&self.link).map_err(|e| refused(&e))?.into();
        let id = link.info().map_err(|e| refused(&e))?.program_id();
        let program = loaded_programs().flatten().find(|program| program.id() == id);
        let program = program.ok_or_else(|| refused(&"its program is gone"))?;
        Ok((program.run_time(), program.run_count()))
    }
}

/// A binary of the same build.
fn beside_us(name: &str) -> Result<PathBuf> {
    let us = std::env::current_exe().map_err(DemoError::system("find our own program"))?;
    let binary = us.with_file_name(name);
    if binary.exists() {
        return Ok(binary);
    }
    Err(DemoError::Unexpected(format!("{}: not built; run `cargo xtask demo`", binary.display())))
}
