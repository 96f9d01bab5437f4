//! What a packet costs while real queries flow: by the kernel's own timing, and as a rate.

use std::{
    thread,
    time::{Duration, Instant},
};

use aya::{
    Ebpf,
    programs::Xdp,
    sys::{Stats, enable_stats},
};

use crate::{
    error::{Error, Result},
    program::{self, Stage},
    report::Progress,
    rig::Rig,
    scene::Scene,
    traffic::{Opt, Tally, Traffic},
};

/// Queries flow so long before anything is measured.
const WARM_UP: Duration = Duration::from_millis(50);

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each program, interleaved.
    pub rounds: usize,
    /// Length of one.
    pub run: Duration,
}

/// Programs to compare with.
pub struct Floor {
    pub(crate) swap: Ebpf,
    empty: Ebpf,
    pub(crate) stage: Stage,
}

impl Floor {
    /// Loads them and puts one on the far end.
    pub fn on(rig: &Rig) -> Result<Self> {
        let mut swap = program::load(program::SWAP, "swap")?;
        let empty = program::load(program::EMPTY, "empty")?;
        let stage = Stage::take(program::xdp(&mut swap, "swap")?, &rig.far.name)?;
        Ok(Self { swap, empty, stage })
    }

    /// Puts a responder there.
    pub fn show(&mut self, scene: &mut Scene) -> Result {
        self.stage.show(responder(scene)?)
    }
}

/// Values of one thing, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Series(pub Vec<f64>);

impl Series {
    /// The value in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value below which this share lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The smallest and the largest.
    pub fn range(&self) -> (f64, f64) {
        (self.quantile(0.0), self.quantile(1.0))
    }
}

/// What was measured for one number of names, with or without OPT.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Names.
    pub names: u32,
    /// The OPT of queries.
    pub opt: Opt,
    /// Nanoseconds of the responder, as the kernel counts them.
    pub responder: Series,
    /// Of the program that swaps the addresses.
    pub swap: Series,
    /// Of the program that does nothing.
    pub empty: Series,
    /// Responder against swap, each round by itself.
    pub ratio: Series,
    /// Queries to the responder.
    pub sent: u64,
    /// Answered rightly from XDP.
    pub right: u64,
}

/// Nanoseconds of each program, interleaved.
pub fn in_vivo(
    rig: &Rig,
    traffic: &mut Traffic,
    floor: &mut Floor,
    scene: &mut Scene,
    opt: Opt,
    effort: Effort,
    progress: &Progress,
) -> Result<Cost> {
    let mut cost = Cost { names: scene.names, opt, ..Cost::default() };
    traffic.aim(rig, scene.names, opt)?;
    let _stats = enable_stats(Stats::RunTime).map_err(Error::bpf("BPF_ENABLE_STATS"))?;
    scene.writer.world_mut().beat();
    for round in 0..effort.rounds {
        progress.line(&format!(
            "ns per packet, {} names{}: round {} of {}",
            scene.names,
            opt.phrase(),
            round + 1,
            effort.rounds
        ));
        let (swap, tally) = timed(traffic, &mut floor.stage, program::xdp(&mut floor.swap, "swap")?, effort)?;
        all_back(tally.sent, tally.reflected, "swap-only")?;
        let (responder, tally) = timed(traffic, &mut floor.stage, responder(scene)?, effort)?;
        none_wrong(&tally)?;
        let (empty, _) = timed(traffic, &mut floor.stage, program::xdp(&mut floor.empty, "empty")?, effort)?;
        cost.sent += tally.sent;
        cost.right += tally.right;
        cost.swap.0.push(swap);
        cost.responder.0.push(responder);
        cost.empty.0.push(empty);
        cost.ratio.0.push(responder / swap);
    }
    Ok(cost)
}

/// Answers per second of one scene and of swap-only, in millions.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    /// Names.
    pub names: u32,
    /// Answered.
    pub responder: Series,
    /// Sent back by the program that swaps the addresses.
    pub swap: Series,
}

/// Rates, interleaved, without the kernel's timing.
pub fn rate(
    rig: &Rig,
    traffic: &mut Traffic,
    floor: &mut Floor,
    scene: &mut Scene,
    effort: Effort,
    progress: &Progress,
) -> Result<Rate> {
    let mut rate = Rate { names: scene.names, ..Rate::default() };
    traffic.aim(rig, scene.names, Opt::No)?;
    scene.writer.world_mut().beat();
    for round in 0..effort.rounds {
        progress.line(&format!("rate, {} names: round {} of {}", scene.names, round + 1, effort.rounds));
        let (swap, _) = counted(traffic, &mut floor.stage, program::xdp(&mut floor.swap, "swap")?, effort)?;
        let (answers, tally) = counted(traffic, &mut floor.stage, responder(scene)?, effort)?;
        none_wrong(&tally)?;
        rate.swap.0.push(swap.reflected as f64 / effort.run.as_secs_f64() / 1e6);
        rate.responder.0.push(answers.right as f64 / effort.run.as_secs_f64() / 1e6);
    }
    Ok(rate)
}

pub(crate) fn responder(scene: &mut Scene) -> Result<&mut Xdp> {
    let program =
        scene.writer.program_mut().ok_or_else(|| Error::Wrong("the responder has no XDP".to_owned()))?;
    Ok(program.xdp()?)
}

/// Nanoseconds that a program takes for a packet, by the kernel's own count, while packets come.
pub(crate) fn spent(xdp: &Xdp, run: Duration) -> Result<f64> {
    let spent = || -> Result<(Duration, u64)> {
        let info = xdp.info().map_err(Error::bpf("program statistics"))?;
        Ok((info.run_time(), info.run_count()))
    };
    thread::sleep(WARM_UP);
    let (time, count) = spent()?;
    thread::sleep(run);
    let (later_time, later_count) = spent()?;
    if later_count == count {
        return Err(Error::Wrong("no packet arrived".to_owned()));
    }
    Ok(later_time.saturating_sub(time).as_nanos() as f64 / (later_count - count) as f64)
}

/// Nanoseconds of one run of a program.
fn timed(traffic: &Traffic, stage: &mut Stage, xdp: &mut Xdp, effort: Effort) -> Result<(f64, Tally)> {
    stage.show(xdp)?;
    traffic.during(|_| spent(xdp, effort.run))
}

/// What one run sends and gets back, without its beginning.
fn counted(traffic: &Traffic, stage: &mut Stage, xdp: &mut Xdp, effort: Effort) -> Result<(Tally, Tally)> {
    stage.show(xdp)?;
    traffic.during(|tally| {
        thread::sleep(WARM_UP);
        let (begin, before) = (Instant::now(), tally()?);
        thread::sleep(effort.run);
        let (mut out, took) = (tally()?.since(&before), begin.elapsed());
        // A late wake-up must not count as speed.
        let scale = effort.run.as_secs_f64() / took.as_secs_f64();
        for count in [&mut out.sent, &mut out.right, &mut out.reflected] {
            *count = (*count as f64 * scale) as u64;
        }
        Ok(out)
    })
}

/// An error if an answer was wrong.
pub fn none_wrong(tally: &Tally) -> Result {
    if tally.wrong == 0 && tally.reflected == 0 && tally.right > 0 {
        return Ok(());
    }
    let [header, question, record, opt] = tally.faults;
    Err(Error::Wrong(format!(
        "of {} queries {} were answered rightly, {} wrongly (header {header}, question {question}, record {record}, \
         OPT {opt}), {} came back as they were",
        tally.sent, tally.right, tally.wrong, tally.reflected
    )))
}

/// An error if much was lost.
fn all_back(sent: u64, back: u64, what: &str) -> Result {
    if back * 100 >= sent * 99 {
        return Ok(());
    }
    Err(Error::Wrong(format!("{what}: of {sent} queries {back} came back")))
}
