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
            // Without the option what it had brought is over, too (3.6).
            snapshot.vservers[vserver.index()].memory = Default::default();
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
    let latches = latches(model, vserver, rtype);
    let mut memory = Memory { spilled: level.is_over(), latched: was.latched && latches, ..was };
    match facts.offer(vserver, None, &mut Trace::silent()) {
        Offer::Undecided => {}
        Offer::Usable(_) | Offer::Overloaded => memory.was_up = true,
        Offer::Down => {
            memory.latched |= was.was_up && latches;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bound, DnsName, Domain, Service, ServiceId, Vserver};

    /// One service, a virtual server over it, and a backup over nothing.
    fn model() -> Model {
        let address = "198.51.100.1".parse().unwrap();
        let service =
            Service { name: "a".to_owned(), addresses: vec![address], enabled: true, ..Service::default() };
        let bound = Bound { service: ServiceId(0), weight: 1, order: None };
        let main = Vserver {
            types: vec![RecordType::A],
            services: vec![bound],
            backup: Some(VserverId(1)),
            disable_primary_on_down: true,
            ..Vserver::default()
        };
        Model {
            services: vec![service],
            vservers: vec![main, Vserver { types: vec![RecordType::A], ..Vserver::default() }],
            ..Model::default()
        }
    }

    fn step_all(model: &Model, snapshot: &mut Snapshot, up: bool) -> bool {
        snapshot.services[0].forced = Some(up);
        advance(model, snapshot, [VserverId(0), VserverId(1)]);
        snapshot.vserver(VserverId(0)).is_latched()
    }

    #[test]
    fn only_the_change_from_up_to_down_latches() {
        let model = model();
        let mut snapshot = Snapshot::all_up(&model);
        assert!(!step_all(&model, &mut snapshot, false), "it was never up");
        assert!(!step_all(&model, &mut snapshot, true));
        assert!(step_all(&model, &mut snapshot, false));
        assert!(step_all(&model, &mut snapshot, true), "and stays");
        assert!(snapshot.vservers[0].clear_latch());
        assert!(!step_all(&model, &mut snapshot, true));
        assert!(step_all(&model, &mut snapshot, false), "again");
    }

    #[test]
    fn a_latch_ends_with_its_option_and_with_its_backup() {
        let mut model = model();
        let mut snapshot = Snapshot::all_up(&model);
        step_all(&model, &mut snapshot, true);
        assert!(step_all(&model, &mut snapshot, false));
        let latched = snapshot.clone();
        model.vservers[0].backup = None;
        assert!(!step_all(&model, &mut snapshot, true), "nothing is left that could go on");
        let name = DnsName::parse("a.example").unwrap();
        let backup_ip = ["192.0.2.1".parse().unwrap()].into();
        model.domains.push(Domain { name, vserver: VserverId(0), ttl: 5, backup_ip });
        snapshot = latched.clone();
        assert!(step_all(&model, &mut snapshot, true), "a backup IP is a backup entity");
        model.vservers[0].disable_primary_on_down = false;
        assert!(!step_all(&model, &mut snapshot, true));
    }
}
