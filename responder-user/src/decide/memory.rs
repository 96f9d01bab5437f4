//! What is remembered from one snapshot to the next: latches of disablePrimaryOnDown (spec/netscaler.md 3.6, 0.1), and
//! whether a virtual server was over its threshold, for the events.
//!
//! [`advance`] is called after every change of a snapshot and before the decisions that follow from it. A latch is set
//! on the change from UP to DOWN, where there is a backup to go on: a virtual server, or a backup IP of some domain.

use super::{
    candidate::Offer,
    reason::Trace,
    snapshot::{Memory, Snapshot, VserverState},
    spillover::Level,
    state::Facts,
};
use crate::model::{Model, RecordType, VserverId};

/// Something that came to be remembered, or was forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Of which virtual server.
    pub vserver: VserverId,
    /// For which type.
    pub rtype: RecordType,
    /// What.
    pub kind: ChangeKind,
}

/// See [`Change`].
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// It went down, and its backup goes on until an operator says otherwise.
    Latched,
    /// It came over its threshold.
    Spilled(Level),
    /// It is no longer over its threshold.
    SpillEnded(Level),
}

/// Brings the memory of some virtual servers up to date.
pub fn advance(
    model: &Model,
    snapshot: &mut Snapshot,
    vservers: impl IntoIterator<Item = VserverId>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for vserver in vservers {
        let configured = model.vserver(vserver);
        if !configured.disable_primary_on_down && configured.spillover.is_none() {
            continue;
        }
        for rtype in &configured.types {
            step(model, snapshot, vserver, *rtype, &mut changes);
        }
    }
    changes
}

fn step(
    model: &Model,
    snapshot: &mut Snapshot,
    vserver: VserverId,
    rtype: RecordType,
    changes: &mut Vec<Change>,
) {
    let facts = Facts { model, snapshot, rtype };
    let level = facts.level(vserver);
    let was = snapshot.vserver(vserver).memory(rtype);
    let mut memory = Memory { spilled: level.is_over(), ..was };
    match facts.offer(vserver, None, &mut Trace::silent()) {
        Offer::Undecided => {}
        Offer::Usable(_) | Offer::Overloaded => memory.was_up = true,
        Offer::Down => {
            memory.latched |= was.was_up && latches(model, vserver, rtype);
            memory.was_up = false;
        }
    }
    snapshot.vservers[vserver.index()].memory[rtype as usize] = memory;
    let mut note = |kind| changes.push(Change { vserver, rtype, kind });
    if memory.latched && !was.latched {
        note(ChangeKind::Latched);
    }
    match (was.spilled, memory.spilled) {
        (false, true) => note(ChangeKind::Spilled(level)),
        (true, false) => note(ChangeKind::SpillEnded(level)),
        _ => {}
    }
}

/// True if a virtual server that goes down stays out of service: it says so, and something else can answer.
fn latches(model: &Model, vserver: VserverId, rtype: RecordType) -> bool {
    let configured = model.vserver(vserver);
    let has_backup_ip = || {
        let bound = model.domains.iter().filter(|d| d.vserver == vserver);
        bound.flat_map(|d| d.backup_ip.iter()).any(|a| rtype.fits(*a))
    };
    configured.disable_primary_on_down && (configured.backup.is_some() || has_backup_ip())
}

impl VserverState {
    /// `enable vserver`: what held it back is forgotten. True if something did.
    pub fn clear_latch(&mut self) -> bool {
        let was = self.is_latched();
        for memory in &mut self.memory {
            memory.latched = false;
            memory.was_up = false;
        }
        was
    }
}
