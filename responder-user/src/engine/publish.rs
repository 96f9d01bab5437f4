//! Decides what is dirty and publishes what differs.

use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::Engine;
use crate::{
    compile::number::{SIDES, WORKER_SIDES},
    control::EventKind,
    decide::OwnerId,
    model::RecordType,
    publish::PublishError,
};

/// From the receipt of a deciding result to the new answer in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    /// Publishes that changed something.
    pub(super) count: u64,
    /// The last one.
    pub(super) last: Duration,
    /// The slowest one.
    pub(super) most: Duration,
}

/// What one publish did.
#[derive(Default)]
struct Outcome {
    references: usize,
    owners: usize,
    error: Option<PublishError>,
}

impl Engine {
    /// Everything must be decided anew.
    pub(super) fn dirty_all(&mut self) {
        let owners = self.plan.compiled.owners.list.len() as u32;
        self.dirty.extend((0..owners).map(OwnerId));
    }

    /// Publishes what is dirty, as one generation.
    pub(super) fn publish(&mut self) {
        self.remember();
        self.record_health();
        let dirty = std::mem::take(&mut self.dirty);
        let oldest = self.oldest.take();
        let generation = self.generation + 1;
        let mut outcome = Outcome::default();
        for owner in dirty {
            let mut changed = 0;
            for rtype in SIDES.into_iter().chain(WORKER_SIDES) {
                // After the first failure the others wait with it: the table is full, or worse.
                let result = match outcome.error {
                    None => self.publish_side(owner, rtype, generation),
                    Some(_) => Ok(0),
                };
                match result {
                    Ok(references) => changed += references,
                    Err(error) => outcome.error = Some(error),
                }
            }
            if outcome.error.is_some() {
                self.failed.insert(owner);
            }
            outcome.references += changed;
            outcome.owners += usize::from(changed > 0);
        }
        self.published = Instant::now();
        if outcome.references > 0 {
            self.generation = generation;
            self.writer.world_mut().end_batch(generation);
            self.say_published(&outcome, oldest);
        }
        self.record_plan();
        match outcome.error {
            None => self.problems.retain(|problem| !problem.starts_with("publish: ")),
            Some(error) => {
                tracing::error!(%error, "publish failed; it will be tried again");
                self.problems.insert(format!("publish: {error}"));
            }
        }
    }

    fn publish_side(
        &mut self,
        owner: OwnerId,
        rtype: RecordType,
        generation: u64,
    ) -> Result<usize, PublishError> {
        let Some(side) = self.plan.compiled.numbering.side(owner, rtype) else { return Ok(0) };
        let made = self.plan.compiled.columns(&self.snapshot, owner, rtype);
        self.note_undecided(owner, rtype, made.is_undecided);
        // First what the references lead to.
        let changed = self.plan.put_deferred(&made);
        if rtype.is_address() { self.writer.publish(side, &made.columns, generation) } else { Ok(changed) }
    }

    pub(super) fn note_undecided(&mut self, owner: OwnerId, rtype: RecordType, is_undecided: bool) {
        if is_undecided {
            self.undecided.insert((owner, rtype));
        } else {
            self.undecided.remove(&(owner, rtype));
        }
    }

    fn say_published(&mut self, outcome: &Outcome, oldest: Option<Instant>) {
        let mut fields = Map::new();
        fields.insert("generation".to_owned(), json!(self.generation));
        fields.insert("references".to_owned(), json!(outcome.references));
        let mut text = format!(
            "generation {}: {} answers of {} owners changed",
            self.generation, outcome.references, outcome.owners
        );
        if let Some(oldest) = oldest {
            let took = self.published.saturating_duration_since(oldest);
            self.latency.count += 1;
            self.latency.last = took;
            self.latency.most = self.latency.most.max(took);
            fields.insert("microseconds".to_owned(), json!(took.as_micros() as u64));
            text = format!("{text}, {:.1} ms after the result", took.as_secs_f64() * 1e3);
        }
        self.event(EventKind::Publish, "answers", text, fields);
    }
}
