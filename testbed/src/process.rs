//! Processes that end with their owner.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Result, TestbedError};

/// How often a process or its log is looked at while we wait for it.
const GLANCE: Duration = Duration::from_millis(5);

/// How long a process may take to end after its signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running program; its output goes to a file. Ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    log: PathBuf,
    farewell: Signal,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a program of [`crate::Namespace::command`]. `what` is its name for people. Start it from a thread that lives
    /// as long as it shall: the kernel kills it with that thread.
    pub fn start(what: impl Into<String>, command: &mut Command, log: impl Into<PathBuf>) -> Result<Self> {
        let log = log.into();
        let failed = || TestbedError::system(format!("open {}", log.display()));
        let file = File::create(&log).map_err(failed())?;
        let again = file.try_clone().map_err(failed())?;
        let started = command.stdin(Stdio::null()).stdout(file).stderr(again).spawn();
        let child = started.map_err(|source| TestbedError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        Ok(Self { what: what.into(), child, log, farewell: Signal::SIGKILL, status: None })
    }

    /// The signal that ends it, when it shall have time to clean up: SIGKILL comes only five seconds later.
    #[must_use]
    pub fn with_farewell(mut self, signal: Signal) -> Self {
        self.farewell = signal;
        self
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends a signal, unless it is known to have ended.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended a moment ago: not reaped, so the id is still its own.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }

    /// How it ended; None while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(self.fault(format!("has not ended after {} s", patience.as_secs_f64())));
            }
            thread::sleep(GLANCE);
        }
    }

    /// True once the log has this whole line; an error when the process has ended without it.
    pub fn has_said(&mut self, line: &str) -> Result<bool> {
        // In this order: what it said before its end is in the log.
        let ended = self.ended();
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        match ended {
            _ if log.lines().any(|l| l == line) => Ok(true),
            Some(status) => Err(self.fault(format!("ended ({status}) before it said `{line}`"))),
            None => Ok(false),
        }
    }

    /// Waits for a whole line in its log.
    pub fn wait_for_line(&mut self, line: &str, patience: Duration) -> Result {
        let deadline = Instant::now() + patience;
        while !self.has_said(line)? {
            if Instant::now() >= deadline {
                return Err(self.fault(format!("has not said `{line}` after {} s", patience.as_secs_f64())));
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Ends it with `signal` and waits; with SIGKILL when it does not obey.
    pub fn stop(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.signal(signal);
        self.wait(PATIENCE).or_else(|_| {
            self.signal(Signal::SIGKILL);
            self.wait(PATIENCE)
        })
    }

    fn fault(&self, fault: String) -> TestbedError {
        TestbedError::Process { what: self.what.clone(), fault, log: self.log.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that SIGKILL does not end is the kernel's.
        let _ = self.stop(self.farewell);
    }
}
