//! Sessions: what a client was given before, and when that holds (spec/netscaler.md 3.4, 4.3, 4.4, 0.1).
//!
//! A session never leads to a service that is not usable now. Whoever keeps sessions asks [`key`] for the key of a
//! client, hands what stands there to the decision, and does afterwards what [`Use`] says. [`Sessions`] keeps them in
//! memory, on a clock that its owner brings.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{
    chain::{Owner, links},
    snapshot::Snapshot,
};
use crate::model::{Model, RecordType, ServiceId, Vserver, VserverId};

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

/// Which sessions are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    scope: Scope,
    client: IpAddr,
}

/// Virtual servers with one persistenceId share their sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Id(u16),
    Vserver(VserverId),
}

/// The key of a client of a virtual server, and for how long an entry lives without queries; None if it keeps none.
///
/// Spillover persistence without source-IP persistence tells whole addresses apart.
pub fn key(id: VserverId, vserver: &Vserver, client: IpAddr) -> Option<(Key, Duration)> {
    let spilled = vserver.spillover.as_ref().filter(|s| s.persistence).map(|s| s.timeout);
    match (vserver.persistence, spilled) {
        (Some(p), spilled) => {
            let scope = p.id.map_or(Scope::Vserver(id), Scope::Id);
            let key = Key { scope, client: masked(client, p.mask, p.mask6) };
            Some((key, spilled.map_or(p.timeout, |s| s.max(p.timeout))))
        }
        (None, Some(timeout)) => Some((Key { scope: Scope::Vserver(id), client }, timeout)),
        (None, None) => None,
    }
}

/// The address without the bits behind the mask.
fn masked(client: IpAddr, mask: u8, mask6: u8) -> IpAddr {
    match client {
        IpAddr::V4(a) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(mask.min(32))).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(a.to_bits() & bits).into()
        }
        IpAddr::V6(a) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(mask6.min(128))).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(a.to_bits() & bits).into()
        }
    }
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

/// Sessions in memory. Times are on one clock of the owner's.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    entries: BTreeMap<Key, (Session, Duration)>,
}

impl Sessions {
    /// The session of a key, if it has not ended.
    pub fn find(&self, key: &Key, now: Duration) -> Option<Session> {
        self.entries.get(key).filter(|(_, until)| now < *until).map(|(session, _)| *session)
    }

    /// Does what a decision says: `given` is what the client got, None if that was no service.
    pub fn note(&mut self, key: Key, used: Use, given: Option<Session>, until: Duration) {
        match (used, given) {
            (Use::SetAside, _) | (_, None) => {}
            (Use::None | Use::Kept | Use::Replaced, Some(given)) => {
                self.entries.insert(key, (given, until));
            }
        }
    }

    /// Removes what has ended. Gives how many are left.
    pub fn expire(&mut self, now: Duration) -> usize {
        self.entries.retain(|_, (_, until)| now < *until);
        self.entries.len()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::vserver::Persistence;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn keys_are_shared_by_id_and_by_prefix() {
        let persistence = Persistence {
            mask: 24,
            mask6: 56,
            timeout: seconds(120),
            id: Some(7),
            ignore_in_round_robin: false,
        };
        let vserver = Vserver { persistence: Some(persistence), ..Vserver::default() };
        let key_of = |id: u32, client: &str| key(VserverId(id), &vserver, client.parse().unwrap()).unwrap().0;
        assert_eq!(key_of(0, "10.0.0.1"), key_of(1, "10.0.0.254"));
        assert_ne!(key_of(0, "10.0.0.1"), key_of(0, "10.0.1.1"));
        assert_eq!(key_of(0, "2001:db8:0:12::1"), key_of(0, "2001:db8:0:34::1"));
        assert_ne!(key_of(0, "2001:db8:0:112::1"), key_of(0, "2001:db8:0:12::1"));
        assert_eq!(key(VserverId(0), &Vserver::default(), "10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn entries_end_after_idle_time_and_stay_when_set_aside() {
        let persistence = Persistence {
            mask: 32,
            mask6: 128,
            timeout: seconds(120),
            id: Some(7),
            ignore_in_round_robin: false,
        };
        let vserver = Vserver { persistence: Some(persistence), ..Vserver::default() };
        let (key, timeout) = key(VserverId(0), &vserver, "10.0.0.1".parse().unwrap()).unwrap();
        let session = |service| Session { link: VserverId(0), service: ServiceId(service) };
        let mut all = Sessions::default();
        all.note(key, Use::None, Some(session(1)), timeout);
        assert_eq!(all.find(&key, seconds(119)), Some(session(1)));
        assert_eq!(all.find(&key, seconds(120)), None);
        all.note(key, Use::SetAside, Some(session(2)), seconds(500));
        all.note(key, Use::Replaced, None, seconds(500));
        assert_eq!(
            all.find(&key, seconds(1)),
            Some(session(1)),
            "neither a rebalanced answer nor a backup IP counts"
        );
        all.note(key, Use::Kept, Some(session(1)), seconds(300));
        assert_eq!(all.find(&key, seconds(299)), Some(session(1)));
        assert_eq!(all.expire(seconds(300)), 0);
    }
}
