//! What was measured, for people and for programs.

use std::{cell::Cell, fs, io::IsTerminal as _, time::Instant};

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::{
    change::Changes,
    cost::{Cost, Rate},
    crafted::Crafted,
    scene::LoadTimes,
    traffic::Opt,
};

/// Lines on stderr for everything that takes longer than two seconds.
pub struct Progress {
    begin: Instant,
    last: Cell<Option<Instant>>,
}

impl Progress {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { begin: Instant::now(), last: Cell::new(None) }
    }

    /// Says what is going on; at most one line in two seconds where nobody watches.
    pub fn line(&self, text: &str) {
        let quiet = if std::io::stderr().is_terminal() { 0.2 } else { 2.0 };
        if self.last.get().is_some_and(|last| last.elapsed().as_secs_f64() < quiet) {
            return;
        }
        self.last.set(Some(Instant::now()));
        eprintln!("{:5.1} s  {text}", self.begin.elapsed().as_secs_f64());
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }
}

/// The machine, and how quiet it was.
pub struct Machine {
    /// Kernel, CPU, mode.
    pub what: String,
    stat: Vec<u64>,
}

impl Machine {
    /// As it is now.
    pub fn look(mode: &str) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let cpu = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown CPU");
        let cpus = info.lines().filter(|line| line.starts_with("processor")).count();
        let kernel = read("/proc/sys/kernel/osrelease");
        let what = format!(
            "Linux {}, {cpus} x {}, XDP {mode} on veth, 1 queue, sender and responder on one CPU",
            kernel.trim(),
            cpu.trim_start_matches(['\t', ' ', ':'])
        );
        Self { what, stat: Self::stat() }
    }

    /// Steal since the look, percent of all CPU time, and the load average now.
    pub fn noise(&self) -> String {
        let now = Self::stat();
        let spent: Vec<u64> = now.iter().zip(&self.stat).map(|(now, then)| now - then).collect();
        let all: u64 = spent.iter().take(8).sum();
        let steal = spent.get(7).copied().unwrap_or(0) as f64 * 100.0 / all.max(1) as f64;
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("?");
        format!("steal {steal:.1} %, load average {load} (this bench makes about 1)")
    }

    /// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
    fn stat() -> Vec<u64> {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect()
    }
}

/// A number to reach.
pub struct Goal {
    /// What.
    pub what: String,
    /// As measured.
    pub measured: f64,
    /// At most.
    pub limit: f64,
    /// Unit.
    pub unit: &'static str,
}

impl Goal {
    /// True if it is reached.
    pub fn is_met(&self) -> bool {
        self.measured <= self.limit
    }
}

/// Everything.
#[derive(Default)]
pub struct Report {
    /// Nanoseconds per packet.
    pub costs: Vec<Cost>,
    /// Hot names with all options that resolvers send.
    pub hot: Option<Crafted>,
    /// The costliest queries, with the largest number of names.
    pub crafted: Vec<Crafted>,
    /// Answers per second.
    pub rates: Vec<Rate>,
    /// Loading, by number of names.
    pub loads: Vec<(u32, LoadTimes)>,
    /// Health changes.
    pub changes: Vec<Changes>,
    /// Instructions that the verifier looked at.
    pub verified: Option<u32>,
}

impl Report {
    /// The numbers to reach, as far as they were measured.
    pub fn goals(&self) -> Vec<Goal> {
        let mut out = Vec::new();
        for (names, limit) in [(1_000, 2.5), (1_000_000, 9.0)] {
            for cost in self.costs.iter().filter(|cost| cost.names == names) {
                let what =
                    format!("{} names{} against swap-only, gross", with_commas(names), cost.opt.phrase());
                let limit = match (cost.opt, names) {
                    (Opt::Cookie, 1_000) => 4.0,
                    (Opt::Cookie, _) => continue,
                    _ => limit,
                };
                out.push(Goal { what, measured: cost.ratio.median(), limit, unit: "x" });
            }
        }
        if let Some(hot) = &self.hot {
            let what = format!("{} names{} against swap-only, gross", with_commas(hot.names), hot.what);
            out.push(Goal { what, measured: hot.ratio.median(), limit: 4.0, unit: "x" });
        }
        for (crafted, ratio) in self.against_random() {
            let names = with_commas(crafted.names);
            let what = format!("{} against random names of {names}, gross", crafted.what);
            out.push(Goal { what, measured: ratio, limit: 3.0, unit: "x" });
        }
        for changes in &self.changes {
            out.push(Goal {
                what: format!(
                    "health change to the last entry in the kernel, {} names, p99",
                    with_commas(changes.names)
                ),
                measured: changes.took.quantile(0.99),
                limit: 10.0,
                unit: "ms",
            });
        }
        for (names, times) in self.loads.iter().filter(|(names, _)| *names == 1_000_000) {
            out.push(Goal {
                what: format!("{} names loaded from a domain_list", with_commas(*names)),
                measured: times.total().as_secs_f64(),
                limit: 10.0,
                unit: "s",
            });
        }
        if let Some(verified) = self.verified {
            out.push(Goal {
                what: "verifier: instructions processed".to_owned(),
                measured: f64::from(verified),
                limit: 200_000.0,
                unit: "",
            });
        }
        out
    }

    /// Each crafted query against the median of random names of the same table.
    fn against_random(&self) -> impl Iterator<Item = (&Crafted, f64)> {
        self.crafted.iter().filter_map(|crafted| {
            let mut random =
                self.costs.iter().filter(|cost| cost.names == crafted.names && cost.opt == Opt::No);
            Some((crafted, crafted.responder.median() / random.next()?.responder.median()))
        })
    }

    /// The tables.
    pub fn print(&self, machine: &Machine, seconds: f64) {
        println!("\n{}", machine.what);
        println!("{}; {seconds:.0} s in all\n", machine.noise());
        if !self.costs.is_empty() {
            println!(
                "In vivo, ns per packet: median [smallest - largest]; net is less what an empty program shows"
            );
            println!("{}\n", self.cost_table());
        }
        if self.hot.is_some() || !self.crafted.is_empty() {
            println!("Crafted queries in vivo, ns per packet; random: against random names without OPT");
            println!("{}\n", self.crafted_table());
        }
        if !self.rates.is_empty() {
            println!("Answers, M/s, one CPU that also makes the queries and checks the answers");
            println!("{}\n", self.rate_table());
        }
        if !self.loads.is_empty() {
            println!("Loading, seconds");
            println!("{}\n", self.load_table());
        }
        if !self.changes.is_empty() {
            println!("Health change until the last changed entry is in the kernel, ms, while queries flow");
            println!("{}\n", self.change_table());
        }
        println!("Numbers to reach");
        println!("{}", self.goal_table());
    }

    fn cost_table(&self) -> Table {
        let mut table =
            table(&["names", "OPT", "gross", "net", "swap-only", "net", "x gross", "in XDP", "wrong"]);
        for cost in &self.costs {
            let empty = cost.empty.median();
            let (low, high) = cost.responder.range();
            table.add_row([
                with_commas(cost.names),
                cost.opt.name().to_owned(),
                format!("{:.1} [{low:.0} - {high:.0}]", cost.responder.median()),
                format!("{:.1}", cost.responder.median() - empty),
                format!("{:.1}", cost.swap.median()),
                format!("{:.1}", cost.swap.median() - empty),
                format!("{:.2}", cost.ratio.median()),
                format!("{:.2} %", cost.right as f64 * 100.0 / cost.sent as f64),
                "0".to_owned(),
            ]);
        }
        align(table, 2)
    }

    fn crafted_table(&self) -> Table {
        let mut table = table(&["names", "query", "became", "gross", "x swap", "x random"]);
        let ratios: Vec<(&Crafted, f64)> = self.against_random().collect();
        for crafted in self.hot.iter().chain(&self.crafted) {
            let (low, high) = crafted.responder.range();
            let ratio = ratios.iter().find(|(of, _)| std::ptr::eq(*of, crafted));
            table.add_row([
                with_commas(crafted.names),
                crafted.what.trim().to_owned(),
                crafted.counter.name().to_owned(),
                format!("{:.1} [{low:.0} - {high:.0}]", crafted.responder.median()),
                format!("{:.2}", crafted.ratio.median()),
                ratio.map_or("-".to_owned(), |(_, ratio)| format!("{ratio:.2}")),
            ]);
        }
        align(table, 3)
    }

    fn rate_table(&self) -> Table {
        let mut table = table(&["names", "responder", "swap-only", "share"]);
        for rate in &self.rates {
            let (low, high) = rate.responder.range();
            table.add_row([
                with_commas(rate.names),
                format!("{:.2} [{low:.2} - {high:.2}]", rate.responder.median()),
                format!("{:.2}", rate.swap.median()),
                format!("{:.0} %", rate.responder.median() * 100.0 / rate.swap.median()),
            ]);
        }
        align(table, 1)
    }

    fn load_table(&self) -> Table {
        let mut table = table(&["names", "config", "compile", "maps and names", "first publish", "all"]);
        for (names, times) in &self.loads {
            let seconds = |time: std::time::Duration| format!("{:.3}", time.as_secs_f64());
            table.add_row([
                with_commas(*names),
                seconds(times.config),
                seconds(times.compile),
                seconds(times.open),
                seconds(times.publish),
                seconds(times.total()),
            ]);
        }
        align(table, 1)
    }

    fn change_table(&self) -> Table {
        let mut table =
            table(&["names", "p50", "p99", "max", "changes", "words each", "seen by the kernel", "stalls"]);
        for changes in &self.changes {
            table.add_row([
                with_commas(changes.names),
                format!("{:.3}", changes.took.median()),
                format!("{:.3}", changes.took.quantile(0.99)),
                format!("{:.3}", changes.took.quantile(1.0)),
                changes.took.0.len().to_string(),
                changes.references.to_string(),
                format!("{0} of {0}", changes.checked),
                changes.stalls.to_string(),
            ]);
        }
        align(table, 1)
    }

    fn goal_table(&self) -> Table {
        let mut table = table(&["what", "measured", "at most", ""]);
        for goal in self.goals() {
            let digits = if goal.unit.is_empty() { 0 } else { 2 };
            table.add_row([
                goal.what.clone(),
                format!("{:.digits$} {}", goal.measured, goal.unit),
                format!("{} {}", goal.limit, goal.unit),
                if goal.is_met() { "ok" } else { "MISSED" }.to_owned(),
            ]);
        }
        align(table, 1)
    }

    /// The same for programs.
    pub fn json(&self, machine: &Machine) -> Value {
        json!({
            "machine": machine.what,
            "noise": machine.noise(),
            "verifier_instructions": self.verified,
            "in_vivo_ns": self.costs.iter().map(|cost| json!({
                "names": cost.names,
                "opt": cost.opt.name(),
                "responder": cost.responder.0,
                "swap": cost.swap.0,
                "empty": cost.empty.0,
                "ratio_median": cost.ratio.median(),
                "sent": cost.sent,
                "answered_in_xdp": cost.right,
                "wrong": 0,
            })).collect::<Vec<_>>(),
            "crafted_ns": self.hot.iter().chain(&self.crafted).map(|crafted| json!({
                "names": crafted.names,
                "query": crafted.what,
                "became": crafted.counter.name(),
                "responder": crafted.responder.0,
                "swap": crafted.swap.0,
                "sent": crafted.sent,
            })).collect::<Vec<_>>(),
            "rate_millions": self.rates.iter().map(|rate| json!({
                "names": rate.names,
                "responder": rate.responder.0,
                "swap": rate.swap.0,
            })).collect::<Vec<_>>(),
            "load_seconds": self.loads.iter().map(|(names, times)| json!({
                "names": names,
                "config": times.config.as_secs_f64(),
                "compile": times.compile.as_secs_f64(),
                "open": times.open.as_secs_f64(),
                "publish": times.publish.as_secs_f64(),
                "total": times.total().as_secs_f64(),
            })).collect::<Vec<_>>(),
            "change_ms": self.changes.iter().map(|changes| json!({
                "names": changes.names,
                "p50": changes.took.median(),
                "p99": changes.took.quantile(0.99),
                "max": changes.took.quantile(1.0),
                "changes": changes.took.0.len(),
                "checked": changes.checked,
                "stalls": changes.stalls,
                "answered_meanwhile": changes.tally.right,
            })).collect::<Vec<_>>(),
            "goals": self.goals().iter().map(|goal| json!({
                "what": goal.what,
                "measured": goal.measured,
                "limit": goal.limit,
                "unit": goal.unit,
                "met": goal.is_met(),
            })).collect::<Vec<_>>(),
        })
    }
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(head);
    table
}

/// Numbers to the right, from a column on.
fn align(mut table: Table, from: usize) -> Table {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn with_commas(number: u32) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
