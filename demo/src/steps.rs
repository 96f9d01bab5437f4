//! The script: what is killed in which order, and what must be answered then (the source documents' example).

use std::time::{Duration, Instant};

use responder_testbed::Scratch;

use super::{
    DemoError, Result,
    answer::Rules,
    clients::{self, Load},
    daemon::{Answered, Daemon},
    example::Example,
    judge::{Judge, Phase},
    pause::Pause,
    pool::Pool,
    services::Services,
    stage::Stage,
    table::{Row, Table, Totals},
};

/// How long each step lasts.
const STEP: Duration = Duration::from_millis(2500);

/// How long until a change must be seen; the rest of the step belongs to the answers after it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the kernel measures the program.
const MEASURE: Duration = Duration::from_secs(1);

/// One event.
struct Step {
    kill: &'static [&'static str],
    start: &'static [&'static str],
    /// Each answer is one of these in turn; none named: all services at once, for none is usable.
    right: &'static [&'static str],
}

const fn kill(kill: &'static [&'static str], right: &'static [&'static str]) -> Step {
    Step { kill, start: &[], right }
}

const SCRIPT: [Step; 9] = [
    kill(&[], &["HK"]),
    kill(&["HK"], &["UK"]),
    kill(&["UK"], &["IN", "JPN"]),
    kill(&["IN"], &["JPN"]),
    kill(&["JPN"], &["RU", "EG"]),
    kill(&["RU"], &["EG"]),
    kill(&["EG"], &["SD", "ZMB"]),
    kill(&["SD", "ZMB"], &[]),
    Step { kill: &[], start: &["HK"], right: &["HK"] },
];

/// Runs the demo. True if everything was as it must be.
pub fn run(pause: &Pause) -> Result<bool> {
    let mut scratch = Scratch::new("demo")?;
    let done = Demo::set_up(&scratch, pause).and_then(Demo::play);
    if !matches!(done, Ok(true) | Err(DemoError::Interrupted)) {
        scratch.keep();
        eprintln!("demo: logs and configuration are kept in {}", scratch.folder().display());
    }
    done
}

/// Everything that runs. Its parts end in this order.
struct Demo<'a> {
    load: Load,
    tap: super::tap::Tap,
    daemon: Daemon,
    services: Services,
    stage: Stage,
    example: Example,
    scratch: &'a Scratch,
    pause: &'a Pause,
    table: Table,
    /// In the order in which they were killed.
    down: Vec<usize>,
    faults: Vec<String>,
}

impl<'a> Demo<'a> {
    fn set_up(scratch: &'a Scratch, pause: &'a Pause) -> Result<Self> {
        let mut table = Table::default();
        table.progress("starting eight nginx, responderd and dnsperf")?;
        let example = Example::prepare(scratch)?;
        let stage = Stage::set_up(&example)?;
        let services = Services::start_all(&example, &stage, scratch)?;
        let daemon = Daemon::start(&example, &stage, scratch, pause)?;
        table.head(&example, &stage, &daemon.mode()?)?;
        let sites = example.sites.iter().map(|site| site.address).collect();
        let judge = Judge::new(Rules { sites, ttl: example.ttl }, example.expect(SCRIPT[0].right)?);
        let tap = super::tap::Tap::start(&stage, judge)?;
        let time = STEP * SCRIPT.len() as u32 + MEASURE;
        let load = Load::start(&example, &stage, scratch, time + Duration::from_millis(1500))?;
        let flows = pause.watch(Instant::now() + STEP, || Ok(tap.judge().totals().answered >= 1000))?;
        if !flows {
            return Err(DemoError::Unexpected("dnsperf gets no answers".to_owned()));
        }
        let (down, faults) = (Vec::new(), Vec::new());
        Ok(Self { load, tap, daemon, services, stage, example, scratch, pause, table, down, faults })
    }

    fn play(mut self) -> Result<bool> {
        let first = self.daemon.answered()?;
        let begin = Instant::now();
        for (number, step) in (0..).zip(&SCRIPT) {
            self.step(step, begin + STEP * number)?;
        }
        self.table.progress("the kernel measures the program, dnsperf ends")?;
        let (nanoseconds, runs) = self.daemon.measure(self.pause, MEASURE)?;
        if self.load.has_ended() {
            self.faults.push("dnsperf ended before the last step".to_owned());
        }
        let load = &mut self.load;
        self.pause.watch(Instant::now() + Duration::from_secs(10), || Ok(load.has_ended()))?;
        let (answered, mode) = (self.daemon.answered()?.since(first), self.daemon.mode()?);
        let summary = self.load.summary()?;
        let (seen, unanswered) = {
            let judge = self.tap.judge();
            (judge.totals().clone(), judge.unanswered())
        };
        let totals = Totals { summary, seen, unanswered, answered, mode, nanoseconds, runs };
        self.table.totals(&totals)?;
        self.faults.extend(totals.faults());
        for fault in &self.faults {
            eprintln!("demo: {fault}");
        }
        Ok(self.faults.is_empty())
    }

    fn step(&mut self, step: &Step, begin: Instant) -> Result {
        let expect = self.example.expect(step.right)?;
        let what = match (step.kill, step.start) {
            ([], []) => "all services are up".to_owned(),
            ([], started) => format!("{} is back", started.join(" and ")),
            (killed, _) => format!("killed {}", killed.join(" and ")),
        };
        self.table.progress(&what)?;
        let before = self.daemon.answered()?;
        self.tap.judge().begin(expect);
        let event = self.act(step)?;
        let is_event = !(step.kill.is_empty() && step.start.is_empty());
        let tap = &self.tap;
        let changed = || Ok(!is_event || tap.judge().phase().changed().is_some());
        let is_changed = self.pause.watch(begin + PATIENCE, changed)?;
        let dig = clients::dig(&self.example, &self.stage)?;
        self.pause.until(begin + STEP)?;
        let phase = self.tap.judge().phase().clone();
        let answered = self.daemon.answered()?.since(before);
        let row = Row {
            down: self.down.clone(),
            expect,
            dig,
            after: phase.changed().map(|at| at.saturating_duration_since(event)),
            phase,
            answered,
        };
        self.table.row(&self.example, &row)?;
        let faults = row_faults(&row, is_changed);
        self.faults.extend(faults.into_iter().map(|fault| format!("{what}: {fault}")));
        Ok(())
    }

    /// Kills and starts services; when that was.
    fn act(&mut self, step: &Step) -> Result<Instant> {
        let killed: Result<Vec<usize>> = step.kill.iter().map(|label| self.example.site(label)).collect();
        let killed = killed?;
        let event = Instant::now();
        self.services.kill(&killed);
        self.down.extend(killed);
        for label in step.start {
            let number = self.example.site(label)?;
            self.services.start(number, &self.example.sites[number], &self.stage, self.scratch)?;
            self.down.retain(|&site| site != number);
        }
        Ok(event)
    }
}

/// What is not as it must be in a step. Wrong answers are counted elsewhere.
fn row_faults(row: &Row, is_changed: bool) -> Vec<String> {
    let Row { expect, dig, phase, answered, .. } = row;
    let mut faults = Vec::new();
    if !is_changed {
        faults.push(format!("no answer had changed after {} s", PATIENCE.as_secs()));
    }
    if !expect.allows(*dig) {
        faults.push("dig got another answer than expected".to_owned());
    }
    let seen: Pool = sites_seen(phase).collect();
    if seen != expect.pool {
        faults.push("the answers seen are not the expected pool".to_owned());
    }
    let Answered { worker, dropped, .. } = answered;
    if worker + dropped > 0 {
        faults.push(format!("{worker} answers came from a worker, {dropped} queries were dropped"));
    }
    faults
}

fn sites_seen(phase: &Phase) -> impl Iterator<Item = usize> {
    phase.by_site().iter().enumerate().filter(|(_, count)| **count > 0).map(|(site, _)| site)
}
