//! Sessions: what a client was given before, and when that holds (spec/netscaler.md 3.4, 4.3, 4.4, 0.1).
//!
//! A session never leads to a service that is not usable now. Here is what a decision makes of one; how they are kept is
//! [`crate::compile::session`]'s and [`responder_common::session`]'s business.

use super::{
    chain::{Owner, links},
    snapshot::Snapshot,
};
use crate::model::{Model, RecordType, ServiceId, VserverId};

/// What a client was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The virtual server that answered: the primary, or a backup.
    pub link: VserverId,
    /// The service.
    pub service: ServiceId,
}

/// What a decision made of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// There was none, or nothing that keeps sessions.
    #[default]
    None,
    /// The answer follows it; it lives on.
    Kept,
    /// It could not be followed; what was chosen instead takes its place.
    Replaced,
    /// It is not followed now, but stays as it is.
    SetAside,
}

/// CLOCK_MONOTONIC in nanoseconds until which the session of a diverted client lives although it is not used: for as
/// long as spillover lasts, and for its timeout afterwards (spec/netscaler.md 4.3; 9, row 27). 0: no longer than others.
pub fn hold(model: &Model, snapshot: &Snapshot, owner: &Owner, rtype: RecordType, session: Session) -> u64 {
    let links = links(model, owner.vserver);
    let at = links.iter().position(|link| *link == session.link).unwrap_or(0);
    let of = |link: &VserverId| {
        let spillover = model.vserver(*link).spillover.as_ref().filter(|s| s.persistence)?;
        let memory = snapshot.vserver(*link).memory(rtype);
        let ended = (memory.spill_ended != 0)
            .then(|| memory.spill_ended.saturating_add(spillover.timeout.as_nanos() as u64));
        if memory.spilled { Some(u64::MAX) } else { ended }
    };
    links[..at].iter().filter_map(of).max().unwrap_or(0)
}
