//! Those who ask: dig for one answer, dnsperf for the load.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use responder_testbed::{Process, Scratch};

use super::{DemoError, Result, example::Example, pool::Pool, stage::Stage};

/// Queries a second.
pub const RATE: u32 = 20_000;

/// The rate below which the load is not what it says.
pub const LEAST_RATE: f64 = RATE as f64 * 0.95;

/// Sockets of dnsperf.
const SOCKETS: u32 = 20;

/// Queries that may wait for answers. So few for each socket that their answers fit into its receive buffer: while a busy
/// machine lets dnsperf wait, answers are late, not lost. What was not asked meanwhile is asked later.
const WAITING: u32 = SOCKETS * 75;

/// Asks once with dig: the sites of the answer.
pub fn dig(example: &Example, stage: &Stage) -> Result<Pool> {
    let (server, client) = (format!("@{}", example.server), stage.client_address.to_string());
    let arguments = ["-b", &client, &server, "+short", "+tries=1", "+time=2", &example.name, "A"];
    let said = stage.client.output("dig", &arguments)?;
    let site = |line: &str| line.parse().ok().and_then(|address| example.site_of(address));
    said.lines()
        .map(|line| site(line).ok_or_else(|| DemoError::Unexpected(format!("dig said: {line}"))))
        .collect()
}

/// A running dnsperf.
pub struct Load {
    process: Process,
}

/// What dnsperf says at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Queries.
    pub sent: u64,
    /// Answers.
    pub completed: u64,
    /// Queries without an answer.
    pub lost: u64,
    /// Answers with NOERROR.
    pub no_error: u64,
    /// Answers a second.
    pub rate: f64,
}

impl Load {
    /// Starts to ask, for so long.
    pub fn start(example: &Example, stage: &Stage, scratch: &Scratch, time: Duration) -> Result<Self> {
        let names = scratch.file("queries.txt");
        let upper = example.name.to_ascii_uppercase();
        let text = format!("{} A\n{upper} A\n", example.name);
        fs::write(&names, text).map_err(DemoError::system(names.display().to_string()))?;
        let mut command = stage.client.command("dnsperf");
        // With EDNS, as resolvers ask.
        command.args(["-e", "-q", &WAITING.to_string(), "-t", "2", "-s", &example.server.to_string()]);
        command.args(["-a", &stage.load_address.to_string(), "-Q", &RATE.to_string()]);
        command.args(["-c", &SOCKETS.to_string(), "-l", &time.as_secs().to_string(), "-d"]).arg(names);
        let process = Process::start("dnsperf", &mut command, scratch.file("dnsperf.log"))?;
        Ok(Self { process: process.with_farewell(Signal::SIGKILL) })
    }

    /// True when it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Reads what it said.
    pub fn summary(&self) -> Result<Summary> {
        let log = self.process.log();
        let text = fs::read_to_string(log).map_err(DemoError::system(log.display().to_string()))?;
        Summary::read(&text).ok_or_else(|| DemoError::Unexpected(format!("{}: no summary", log.display())))
    }
}

impl Summary {
    fn read(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
        let count = |name: &str| field(name)?.split(' ').next()?.parse().ok();
        // "NOERROR 499950 (100.00%), SERVFAIL 3 (0.00%)"; the line is empty when nothing was answered.
        let no_error = field("Response codes:")?.split(", ").find_map(|code| code.strip_prefix("NOERROR "));
        Some(Self {
            sent: count("Queries sent:")?,
            completed: count("Queries completed:")?,
            lost: count("Queries lost:")?,
            no_error: no_error.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0),
            rate: field("Queries per second:")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read() {
        let text = "Statistics:

  Queries sent:         100003
  Queries completed:    100001 (99.99%)
  Queries lost:         2 (0.00%)

  Response codes:       NOERROR 100000 (99.99%), SERVFAIL 1 (0.00%)
  Average packet size:  request 44, response 60
  Run time (s):         5.000042
  Queries per second:   19999.832001
";
        let expected =
            Summary { sent: 100_003, completed: 100_001, lost: 2, no_error: 100_000, rate: 19_999.832_001 };
        assert_eq!(Summary::read(text), Some(expected));
        assert_eq!(Summary::read("dnsperf: interrupted"), None);
    }
}
