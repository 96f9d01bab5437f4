//! What the user sees: a head, one row for each step, the totals.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use super::{
    DemoError, Result,
    clients::{LEAST_RATE, RATE, Summary},
    daemon::Answered,
    example::{EXAMPLE, Example},
    judge::{self, Phase},
    pool::{Expect, Pool},
    stage::Stage,
};

/// One step.
pub struct Row {
    /// Sites that are down, in the order in which they were killed.
    pub down: Vec<usize>,
    /// What is right now.
    pub expect: Expect,
    /// What dig got.
    pub dig: Pool,
    /// From the event to the first changed answer.
    pub after: Option<Duration>,
    /// What the load got.
    pub phase: Phase,
    /// Who answered.
    pub answered: Answered,
}

/// The whole run.
pub struct Totals {
    /// What dnsperf says.
    pub summary: Summary,
    /// What was seen on the wire.
    pub seen: judge::Totals,
    /// Queries seen on the wire without an answer.
    pub unanswered: u64,
    /// Who answered.
    pub answered: Answered,
    /// Mode of the program.
    pub mode: String,
    /// Time of one run of the program.
    pub nanoseconds: f64,
    /// Runs that were measured.
    pub runs: u64,
}

impl Totals {
    /// Queries without an answer, as dnsperf or as the wire says, whichever is worse.
    fn lost(&self) -> u64 {
        // Where frames went past the tap, it cannot know what was lost.
        let on_the_wire = if self.unchecked() == 0 { self.unanswered } else { 0 };
        self.summary.lost.max(on_the_wire)
    }

    /// Wrong answers on the wire, or answers that dnsperf did not like, whichever is worse.
    fn wrong(&self) -> u64 {
        self.seen.wrong.max(self.summary.completed.saturating_sub(self.summary.no_error))
    }

    /// Queries of dnsperf that were not seen on the wire.
    fn unchecked(&self) -> u64 {
        self.summary.sent.abs_diff(self.seen.asked)
    }

    /// What is not as it must be.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.lost() > 0 {
            faults.push(format!("{} queries got no answer", self.lost()));
        }
        if self.wrong() > 0 {
            let first = self.seen.fault.as_deref().unwrap_or("an rcode other than NOERROR");
            faults.push(format!("{} wrong answers; the first: {first}", self.wrong()));
        }
        if self.unchecked() > 0 {
            faults.push(format!(
                "dnsperf sent {} queries, {} were seen on the wire",
                self.summary.sent, self.seen.asked
            ));
        }
        if self.summary.rate < LEAST_RATE {
            faults.push(format!("dnsperf reached {:.0} queries a second only", self.summary.rate));
        }
        if self.mode != "native" {
            faults.push(format!("the XDP program is attached in mode {}, not native", self.mode));
        }
        faults
    }
}

/// Writes to standard output.
#[derive(Default)]
pub struct Table {
    has_progress: bool,
}

impl Table {
    /// A line that the next output replaces; for terminals alone.
    pub fn progress(&mut self, text: &str) -> Result {
        if !io::stdout().is_terminal() {
            return Ok(());
        }
        self.erase()?;
        self.has_progress = true;
        write(&format!("  ... {text}"))
    }

    fn erase(&mut self) -> Result {
        if std::mem::take(&mut self.has_progress) { write("\r\x1b[K") } else { Ok(()) }
    }

    /// What is about to be seen.
    pub fn head(&mut self, example: &Example, stage: &Stage, mode: &str) -> Result {
        self.erase()?;
        write(&format!(
            "{EXAMPLE}: eight sites, one name. Clients at *.ZMB get Asia.HK while it is up, then Europe.UK,
then what is left of Asia, then of Europe, then anything; with everything down, all addresses.

  server   responderd at {server}, XDP {mode} on {interface}; eight nginx behind it, checked over HTTP every 250 ms
  client   {client}, located at *.ZMB; dnsperf asks for {name} {rate} times a second
  check    every query and every answer of dnsperf is read off the wire and judged

",
            server = example.server,
            interface = example.interface,
            client = stage.client_address,
            name = example.name,
            rate = grouped(u64::from(RATE)),
        ))?;
        write(&line(["", "", "", "answers since", "answers", "", "", "changed"]))?;
        write(&line(["down", "expected", "dig", "the change", "before it", "in XDP", "worker", "after"]))
    }

    /// One step.
    pub fn row(&mut self, example: &Example, row: &Row) -> Result {
        self.erase()?;
        let down = down(example, &row.down);
        let after = row.after.map_or(String::new(), |after| format!("{} ms", after.as_millis()));
        write(&line([
            &down,
            &example.labels(row.expect.pool),
            &example.labels(row.dig),
            &answers(example, row),
            &grouped(row.phase.old()),
            &grouped(row.answered.xdp),
            &grouped(row.answered.worker),
            &after,
        ]))
    }

    /// The end.
    pub fn totals(&mut self, totals: &Totals) -> Result {
        self.erase()?;
        let Totals { summary, seen, answered, .. } = totals;
        let all = answered.xdp + answered.worker + answered.dropped;
        write(&format!(
            "
  rate     {rate} queries a second; {sent} sent, {answered} answers checked
  lost     {lost}
  wrong    {wrong}
  in XDP   {share:.2} % ({mode}), {nanoseconds:.0} ns a packet (kernel.bpf_stats over {runs} packets)
",
            rate = grouped(summary.rate.round() as u64),
            sent = grouped(summary.sent),
            answered = grouped(seen.answered),
            lost = grouped(totals.lost()),
            wrong = grouped(totals.wrong()),
            share = 100.0 * answered.xdp as f64 / all.max(1) as f64,
            mode = totals.mode,
            nanoseconds = totals.nanoseconds,
            runs = grouped(totals.runs),
        ))
    }
}

/// "HK UK", or the shortest that says the same.
fn down(example: &Example, down: &[usize]) -> String {
    let up: Vec<usize> = (0..example.sites.len()).filter(|site| !down.contains(site)).collect();
    let label = |site: &usize| example.sites[*site].label.as_str();
    match (down, up.as_slice()) {
        ([], _) => "none".to_owned(),
        (_, []) => "all eight".to_owned(),
        (_, [up]) => format!("all but {}", label(up)),
        _ => down.iter().map(label).collect::<Vec<_>>().join(" "),
    }
}

/// "IN 20,000  JPN 20,001", or one number where each answer holds all.
fn answers(example: &Example, row: &Row) -> String {
    if row.expect.all {
        return format!("each all eight: {}", grouped(row.phase.new_answers()));
    }
    let counts = row.phase.by_site().iter().enumerate().filter(|(_, count)| **count > 0);
    let counts: Vec<String> =
        counts.map(|(site, count)| format!("{} {}", example.sites[site].label, grouped(*count))).collect();
    counts.join("  ")
}

fn line(cells: [&str; 8]) -> String {
    let [down, expected, dig, answers, old, xdp, worker, after] = cells;
    let text = format!(
        "  {down:<19} {expected:<10} {dig:<10} {answers:<24} {old:>9} {xdp:>8} {worker:>7} {after:>9}"
    );
    format!("{}\n", text.trim_end())
}

/// "20,000"
fn grouped(number: u64) -> String {
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

fn write(text: &str) -> Result {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(DemoError::system("standard output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (499_990, "499,990"), (1_000_000, "1,000,000")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_row_is_not_wider_than_a_screen() {
        let widest = [
            "HK UK IN JPN RU EG",
            "all eight",
            "all eight",
            "IN 250,000  JPN 250,000",
            "250,000",
            "250,000",
            "250,000",
            "1999 ms",
        ];
        assert!(line(widest).trim_end().len() <= 110);
    }
}
