//! Sessions as the specification tells of them, on a clock that the test brings: what the kernel's table is held against.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use responder_user::{
    decide::{Session, session::Use},
    model::{Vserver, VserverId},
};

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
    let spilled = spilled.max(vserver.backup_session_timeout);
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
