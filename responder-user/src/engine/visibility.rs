//! What operators see of the packet path: counters, run times, single packets.

use std::time::{Duration, Instant};

use responder_common::{
    counters::{Counter, NAMED_TYPES, type_place},
    wire::rcode,
};
use serde_json::{Value, json};

use super::Engine;
use crate::{
    compile::soa::FIRST_ZONE,
    control::{
        Refusal,
        capture::{Drain, SampleFeed, Wanted},
    },
};

/// Longest time that runs are timed by one command.
const MOST_SECONDS: u64 = 3600;

/// What is watched at the moment.
#[derive(Debug, Default)]
pub(super) struct Watching {
    pub(super) feed: SampleFeed,
    drain: Option<Drain>,
    /// Samples lost before this capture.
    lost: u64,
    /// Runs are timed until then.
    timed_until: Option<Instant>,
}

impl Engine {
    /// Answers by response code, type and zone: of the program, where one runs, and of the workers.
    pub(super) fn kinds(&self) -> Vec<(String, u64)> {
        let mut out = by_type(&self.workers.totals().types, "worker");
        let counts = self.plan.zones.counts();
        out.extend(self.by_zone("worker", |slot| counts.get(slot)));
        let Some(tally) = self.writer.tally() else { return out };
        out.extend(by_rcode(&self.writer.counters()));
        out.extend(by_type(&tally.types, "xdp"));
        out.extend(self.by_zone("xdp", |slot| tally.zones.get(slot as usize).copied().unwrap_or(0)));
        out.push(("samples_lost".to_owned(), tally.lost));
        out
    }

    fn by_zone(&self, lane: &str, count: impl Fn(u32) -> u64) -> Vec<(String, u64)> {
        let zones = (FIRST_ZONE..).zip(&self.plan.compiled.model.zones);
        let mut out: Vec<_> =
            zones.map(|(slot, zone)| (format!("zone_{}_{lane}", zone.apex), count(slot))).collect();
        out.push((format!("zone_none_{lane}"), (0..FIRST_ZONE).map(count).sum()));
        out
    }

    /// `stats --latency`: times runs for so long, or tells what was found; places are powers of two in nanoseconds.
    pub(super) fn latency(&mut self, seconds: Option<u64>) -> Result<Value, Refusal> {
        if !self.writer.is_kernel() {
            return Err(Refusal::new("no XDP program runs, so there is nothing to time"));
        }
        if let Some(seconds) = seconds {
            if !(1..=MOST_SECONDS).contains(&seconds) {
                return Err(Refusal::new(format!("{seconds} s is not between 1 and {MOST_SECONDS} s")));
            }
            // A little longer, for whoever asks when the time is over.
            self.watching.timed_until = Some(Instant::now() + Duration::from_secs(seconds + 1));
            self.writer.time(true);
        }
        let tally = self.writer.tally().unwrap_or_default();
        Ok(json!({ "nanoseconds_below_power_of_two": tally.latency }))
    }

    /// Once a second.
    pub(super) fn end_timing(&mut self) {
        if self.watching.timed_until.is_some_and(|until| until <= Instant::now()) {
            self.watching.timed_until = None;
            self.writer.time(false);
        }
    }

    /// `capture`: the program tells of packets from now on. The server lets one client in at a time.
    pub(super) fn capture(&mut self, wanted: &Wanted) -> Result<Value, Refusal> {
        let (filter, name) = wanted.filter()?;
        if !self.writer.is_kernel() {
            return Err(Refusal::new("no XDP program runs: tcpdump sees every packet"));
        }
        let failed = |what: String| Refusal::new(format!("packets cannot be told: {what}"));
        self.watching.drain = None;
        let ring = self.writer.samples().map_err(|error| failed(error.to_string()))?;
        let drain = Drain::start(ring, name, self.watching.feed.clone());
        self.watching.drain = Some(drain.map_err(|error| failed(error.to_string()))?);
        self.watching.lost = self.writer.tally().unwrap_or_default().lost;
        if let Err(error) = self.writer.sample(Some(&filter)) {
            self.watching.drain = None;
            return Err(failed(error.to_string()));
        }
        let interfaces = self.interfaces.iter().map(|interface| interface.name.clone());
        Ok(json!({ "interfaces": interfaces.collect::<Vec<_>>() }))
    }

    /// The end of it. Returns how many samples the ring buffer had no room for.
    pub(super) fn end_capture(&mut self) -> Value {
        if let Err(error) = self.writer.sample(None) {
            tracing::error!(%error, "packets are still told, to nobody");
        }
        self.watching.drain = None;
        let lost = self.writer.tally().unwrap_or_default().lost;
        json!({ "lost": lost.saturating_sub(self.watching.lost) })
    }
}

fn by_rcode(verdicts: &[u64]) -> Vec<(String, u64)> {
    let names = [
        (rcode::NOERROR, "noerror"),
        (rcode::FORMERR, "formerr"),
        (rcode::SERVFAIL, "servfail"),
        (rcode::NXDOMAIN, "nxdomain"),
        (rcode::NOTIMP, "notimp"),
        (rcode::REFUSED, "refused"),
    ];
    let sum = |code: u16| {
        let counters = Counter::ALL.iter().filter(|counter| counter.rcode() == Some(code));
        counters.map(|counter| verdicts.get(counter.slot()).copied().unwrap_or(0)).sum()
    };
    names.iter().map(|(code, name)| (format!("rcode_{name}_xdp"), sum(*code))).collect()
}

fn by_type(types: &[u64], lane: &str) -> Vec<(String, u64)> {
    let of = |qtype: u16| types.get(type_place(qtype)).copied().unwrap_or(0);
    let named: u64 = NAMED_TYPES.iter().map(|(qtype, _)| of(*qtype)).sum();
    let all: u64 = types.iter().sum();
    let mut out: Vec<_> =
        NAMED_TYPES.iter().map(|(qtype, name)| (format!("type_{name}_{lane}"), of(*qtype))).collect();
    out.push((format!("type_other_{lane}"), all - named));
    out
}
