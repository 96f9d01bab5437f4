//! `cargo xtask bench`: what an answer costs, in the kernel, against a program that only swaps the addresses; how
//! long a million names take to load; how long a change of health takes to reach the kernel.
//!
//! ```text
//! rig (namespaces, cable) -> scene (a responder, loaded as the daemon does) -> traffic (queries, checked replies)
//!    -> cost (ns per packet, rate), crafted (the costliest queries), change (health) -> report
//! ```
//!
//! Every reply is checked. A wrong one ends the bench: nothing that it measured would count.

mod change;
mod cost;
mod crafted;
mod error;
mod program;
mod report;
mod rig;
mod scene;
mod signal;
mod traffic;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;

use cost::{Effort, Floor};
use error::{Error, Result};
use report::{Machine, Progress, Report};
use rig::Rig;
use scene::Scene;
use traffic::{Opt, Traffic};

/// What an answer costs, in the kernel.
#[derive(Parser)]
#[command(name = "cargo xtask bench --")]
struct Options {
    /// Writes all numbers to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How many names; several numbers with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    names: Vec<u32>,
    /// Interleaved runs of each program.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds of one run.
    #[arg(long, default_value_t = 500)]
    run: u64,
    /// Health changes for each number of names but the middle ones; 0: none.
    #[arg(long, default_value_t = 1_000)]
    changes: usize,
    /// Nanoseconds per packet only.
    #[arg(long)]
    costs_only: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// True if every number was reached.
fn run(options: &Options) -> Result<bool> {
    if let Some(wrong) = options.names.iter().find(|names| u64::from(**names) > MAX_NAMES || **names == 0) {
        return Err(Error::Wrong(format!("--names {wrong}: allowed are 1 to {MAX_NAMES}")));
    }
    let progress = Progress::start();
    let rig = Rig::make()?;
    signal::install()?;
    let mut report = Report::default();
    let mut scenes = Vec::new();
    for names in &options.names {
        progress.line(&format!("loading {names} names"));
        let mut scene = Scene::load(&rig, *names)?;
        report.loads.push((*names, scene.times));
        report.verified = scene.verified_instructions();
        scenes.push(scene);
    }
    let mut traffic = Traffic::on(&rig)?;
    let mut floor = Floor::on(&rig)?;
    let machine = Machine::look(mode(&rig));

    let effort = Effort { rounds: options.rounds, run: Duration::from_millis(options.run) };
    for scene in &mut scenes {
        for opt in Opt::ALL {
            report.costs.push(cost::in_vivo(&rig, &mut traffic, &mut floor, scene, opt, effort, &progress)?);
        }
    }
    if let Some(first) = scenes.first_mut() {
        report.hot = Some(crafted::hot(&rig, &mut floor, first, effort, &progress)?);
    }
    if let Some(last) = scenes.last_mut() {
        report.crafted = crafted::worst(&rig, &mut floor, last, effort, &progress)?;
    }
    if !options.costs_only {
        for scene in &mut scenes {
            report.rates.push(cost::rate(&rig, &mut traffic, &mut floor, scene, effort, &progress)?);
        }
        let last = scenes.len().saturating_sub(1);
        for (i, scene) in scenes.iter_mut().enumerate() {
            if options.changes > 0 && (i == 0 || i == last) {
                let count = options.changes;
                report.changes.push(change::changes(
                    &rig,
                    &mut traffic,
                    &mut floor,
                    scene,
                    count,
                    &progress,
                )?);
            }
        }
    }
    report.print(&machine, progress.seconds());
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report.json(&machine));
        fs::write(path, text).map_err(Error::file(path.display().to_string()))?;
    }
    Ok(report.goals().iter().all(report::Goal::is_met))
}

/// Most names that a query can be for.
const MAX_NAMES: u64 = responder_common::load::MAX_NAMES;

/// How the program on the far end is attached.
fn mode(rig: &Rig) -> &'static str {
    match responder_user::publish::interface::xdp_on(rig.far.index) {
        Ok(Some((mode, _))) => mode.name(),
        _ => "of unknown mode",
    }
}
