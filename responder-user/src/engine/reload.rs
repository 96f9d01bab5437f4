//! A new configuration, whole or not at all.

use std::sync::{Arc, PoisonError};

use serde_json::Map;

use super::{Engine, EngineError, Plan, host, start::snapshot, workers_done};
use crate::{
    compile::number::{SIDES, WORKER_SIDES},
    control::{Done, EventKind, Refusal},
    decide::{OwnerId, Snapshot},
    health::Health,
    model::{Settings, VserverId},
    publish::{PublishError, writer::Next},
    worker::{Epochs, Responses, Served, Workers},
};

/// Begins the problem of limits that the program cannot follow.
const NOT_LIMITED: &str = "limits are not followed: ";

impl Engine {
    /// SIGHUP.
    pub(super) fn hangup(&mut self) {
        match self.reload() {
            Ok(done) => done.warnings.iter().for_each(|warning| tracing::warn!("{warning}")),
            Err(refusal) => {
                tracing::error!("{}", refusal.message);
                refusal.details.iter().for_each(|detail| tracing::error!("{detail}"));
            }
        }
    }

    /// Reads the file again. On any error the old answers go on.
    pub(super) fn reload(&mut self) -> Result<Done, Refusal> {
        match self.try_reload() {
            Ok((changed, warnings)) => {
                let names = self.plan.compiled.model.domains.len();
                let text = format!("configuration read again: {names} names, generation {}", self.generation);
                self.event(EventKind::Reload, "configuration", text.clone(), Map::new());
                Ok(Done { message: text, changed, generation: self.generation, warnings })
            }
            Err(error) => {
                let details = error.to_string().lines().map(str::to_owned).collect();
                let message = "the new configuration is refused; the old answers stay".to_owned();
                self.event(EventKind::Reload, "configuration", message.clone(), Map::new());
                Err(Refusal { message, details })
            }
        }
    }

    /// True if answers changed; and the warnings.
    fn try_reload(&mut self) -> Result<(bool, Vec<String>), EngineError> {
        let plan = Plan::read(&self.config)?;
        let text = plan.text.clone();
        let done = self.take(plan)?;
        self.on_disk = text;
        Ok(done)
    }

    /// Puts a plan in force: what a reload, a change of an operator and a command of NetScaler have in common. Gives true
    /// if answers changed, and the warnings. On any error the old plan goes on.
    pub(super) fn take(&mut self, plan: Plan) -> Result<(bool, Vec<String>), EngineError> {
        let places = plan.places.clone();
        let old = &self.plan.compiled.model.settings;
        let host = host::check(&plan.compiled.model.settings, &places, Some(old));
        if !host.errors.is_empty() {
            return Err(EngineError::Host(host.errors));
        }
        let warnings = plan.warnings().into_iter().chain(host.warnings).collect();
        let said = self.withdraw_orders(&plan.compiled.model);
        let changed = self.replace(plan).map_err(|error| error.placed(&places));
        if changed.is_err() {
            self.restore_orders(said);
        } else {
            self.forget_orders(said);
        }
        Ok((changed?, warnings))
    }

    fn replace(&mut self, plan: Plan) -> Result<bool, EngineError> {
        let settings = plan.compiled.model.settings.clone();
        let old = self.plan.compiled.model.settings.clone();
        refuse_what_needs_a_restart(&old, &settings)?;
        // Results on their way belong to the old numbers.
        while let Ok(event) = self.checks.try_recv() {
            self.check(event);
        }
        let model = plan.compiled.model.clone();
        let health = Health::carry_over(&self.health, &self.plan.compiled.model, &model);
        let snapshot = snapshot(&model, &health, &self.orders, self.is_ready);
        if plan.compiled.fingerprint == self.plan.compiled.fingerprint {
            plan.deferred.take_over(&self.plan.deferred);
        }
        let replacement = self.replacement_workers(&old, &settings)?;
        if let Err(error) = self.put_in_force(&plan, &snapshot, &settings) {
            if let Some((workers, epochs)) = replacement {
                workers.stop();
                self.forget_epochs(&epochs);
            }
            return Err(error);
        }
        self.follow_limits(&settings);
        let zones_before = std::mem::replace(&mut self.plan, plan).zones;
        self.health = health;
        self.snapshot = snapshot;
        self.scheduler.reload(self.health.jobs(&model));
        self.undecided.clear();
        self.dirty.clear();
        self.dirty_all();
        self.stirred = (0..model.vservers.len() as u32).map(VserverId).collect();
        let readers = replacement.as_ref().map_or(self.workers.len(), |(workers, _)| workers.len());
        let responses = Responses::new(&settings.limits, self.writer.world().buckets());
        let served =
            Served { world: self.writer.reader(readers), names: self.plan.worker_names(), responses };
        self.served.store(Arc::new(served));
        // Only now may the table hand names over to zone data: every worker knows their records.
        workers_done(&self.epochs)();
        self.plan.zones.take_over_counts(&zones_before);
        if let Err(error) = self.writer.world_mut().reconcile_names(&self.plan.compiled) {
            tracing::error!(%error, "not every name of the old configuration is gone: reload again");
        }
        if let Some((workers, _)) = replacement {
            let old = std::mem::replace(&mut self.workers, workers);
            self.workers.take_over(old.stop());
            let mut all = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
            let newest = all.len().saturating_sub(1);
            all.drain(..newest);
        }
        let before = self.generation;
        self.record_all();
        self.publish();
        self.follow_interfaces();
        Ok(before != self.generation)
    }

    /// In place where numbers mean the same, else as a second world and one flip. An error leaves everything as it was.
    /// Before the first decisions nothing is attached: an old world may be answering.
    fn put_in_force(
        &mut self,
        plan: &Plan,
        snapshot: &Snapshot,
        settings: &Settings,
    ) -> Result<(), EngineError> {
        self.writer.make_sure_possible(settings)?;
        let before = self.plan.compiled.model.settings.clone();
        if plan.compiled.fingerprint == self.plan.compiled.fingerprint {
            if self.is_attached {
                self.writer.attach_or_stay(&before, settings)?;
            }
            match self.writer.world_mut().add_names(&plan.compiled) {
                Ok(()) => return Ok(()),
                Err(PublishError::Full { .. } | PublishError::NoPlace { .. }) => self.restore_names(),
                Err(error) => {
                    self.restore_names();
                    return Err(error.into());
                }
            }
        }
        let mut next = self.writer.prepare(settings, &plan.compiled)?;
        if let Err(error) = fill(&mut next, plan, snapshot, self.generation + 1) {
            self.writer.abandon(&next);
            return Err(error.into());
        }
        self.generation += 1;
        if self.is_attached {
            self.writer.flip(next, &before, settings)?;
        } else {
            self.writer.exchange(next);
        }
        Ok(())
    }

    /// A list of allowed prefixes that does not get into the kernel is no reason to keep the old answers.
    fn follow_limits(&mut self, settings: &Settings) {
        self.problems.retain(|problem| !problem.starts_with(NOT_LIMITED));
        if let Err(error) = self.writer.limit(settings) {
            tracing::error!(%error, "limits are not followed");
            self.problems.insert(format!("{NOT_LIMITED}{error}"));
        }
    }

    /// Some names of a refused configuration may be in the table.
    fn restore_names(&mut self) {
        if let Err(error) = self.writer.world_mut().reconcile_names(&self.plan.compiled) {
            tracing::error!(%error, "cannot go back to the old names everywhere");
        }
    }

    /// Workers on other addresses or cores are bound before the old ones end.
    fn replacement_workers(
        &mut self,
        old: &Settings,
        new: &Settings,
    ) -> Result<Option<(Workers, Arc<Epochs>)>, EngineError> {
        if old.listen == new.listen && old.workers == new.workers {
            return Ok(None);
        }
        let epochs = Arc::new(Epochs::new(Workers::count(new)?));
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push(epochs.clone());
        match self.workers.succeed(new, &self.served, &epochs) {
            Ok(workers) => Ok(Some((workers, epochs))),
            Err(error) => {
                self.forget_epochs(&epochs);
                Err(error.into())
            }
        }
    }

    fn forget_epochs(&mut self, epochs: &Arc<Epochs>) {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).retain(|set| !Arc::ptr_eq(set, epochs));
    }
}

/// All answers of a prepared world.
fn fill(next: &mut Next, plan: &Plan, snapshot: &Snapshot, generation: u64) -> Result<(), PublishError> {
    for owner in (0..plan.compiled.owners.list.len() as u32).map(OwnerId) {
        for rtype in SIDES {
            if let Some(side) = plan.compiled.numbering.side(owner, rtype) {
                let made = plan.compiled.columns(snapshot, owner, rtype);
                plan.put_deferred(&made);
                next.publish(side, &made.columns, generation)?;
            }
        }
        for rtype in WORKER_SIDES {
            let made = plan.compiled.columns(snapshot, owner, rtype);
            plan.put_deferred(&made);
        }
    }
    next.end_batch(generation);
    Ok(())
}

/// Settings that only a restart can change; it loses no query (design section 1).
fn refuse_what_needs_a_restart(old: &Settings, new: &Settings) -> Result<(), EngineError> {
    let changed = [
        ("server.control_socket", old.control_socket != new.control_socket),
        ("server.state_dir", old.state_dir != new.state_dir),
        ("xdp.pin_path", old.xdp.pin_path != new.xdp.pin_path),
        ("xdp.mode", old.xdp.mode != new.xdp.mode),
        ("xdp.interfaces", old.xdp.is_on() != new.xdp.is_on()),
    ];
    let keys: Vec<&str> = changed.iter().filter(|(_, changed)| *changed).map(|(key, _)| *key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    Err(EngineError::NeedsRestart(keys.join(", ")))
}
