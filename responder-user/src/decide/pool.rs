//! From services in order to addresses with weights (spec/netscaler.md 3.5, design section 5).

use std::net::IpAddr;

use responder_common::rendezvous;

use super::candidate::Candidate;
use crate::model::{DnsName, Naptr, ServiceId};

/// What an answer carries: addresses, or records that are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool<T = IpAddr> {
    /// Members that share the load by weight; never empty.
    pub rotate: Vec<Member<T>>,
    /// Further usable members in decision order, for [`Give::BestFirst`] alone.
    pub extras: Vec<Member<T>>,
    /// How many of them an answer carries.
    pub give: Give,
    /// Which of `rotate` comes first.
    pub pick: Pick,
}

/// How many addresses an answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Give {
    /// One of `rotate`.
    One,
    /// MIR: one of `rotate` first, then the others of `rotate`, then `extras`; extras may be left out to fit.
    BestFirst,
    /// All of `rotate`.
    All,
}

/// Which member of a pool comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// One after the other, by weight.
    Turn,
    /// The one with the highest score for the client's prefix ([`rendezvous`]); weights do not count.
    Hash {
        /// Bits of an IPv4 address that tell clients apart.
        mask: u8,
        /// Likewise of an IPv6 address.
        mask6: u8,
    },
}

/// A record that is no address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// An alias, whatever the type that was asked for.
    Cname(DnsName),
    /// A naming authority pointer.
    Naptr(Naptr),
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cname(target) => write!(f, "{target}"),
            Self::Naptr(naptr) => write!(
                f,
                "{} {} {:?} {:?} \"\" {}",
                naptr.order, naptr.preference, naptr.flags, naptr.services, naptr.replacement
            ),
        }
    }
}

/// One address or record of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<T = IpAddr> {
    /// The address, or the record; unique within a pool.
    pub address: T,
    /// Share of the rotation.
    pub weight: u32,
    /// The service it belongs to; None for a backup address of a domain and the like.
    pub service: Option<ServiceId>,
    /// Who it is for the hash: service in the upper half, address in the lower.
    pub identity: u64,
}

/// Words of an address for the hash, after its last bits have been masked away.
pub fn prefix(client: IpAddr, mask: u8, mask6: u8) -> u64 {
    match client {
        IpAddr::V4(a) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(mask)).unwrap_or(0);
            rendezvous::of_words(u64::from(a.to_bits() & bits), 4)
        }
        IpAddr::V6(a) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(mask6)).unwrap_or(0);
            let masked = a.to_bits() & bits;
            rendezvous::of_words((masked >> 64) as u64, masked as u64)
        }
    }
}

impl<T: Clone + PartialEq> Pool<T> {
    /// Members that are all given, each once.
    pub(super) fn all(members: impl Iterator<Item = (T, Option<ServiceId>)>) -> Option<Self> {
        let mut rotate: Vec<Member<T>> = Vec::new();
        for (address, service) in members {
            if rotate.iter().all(|m| m.address != address) {
                rotate.push(Member { address, weight: 1, service, identity: 0 });
            }
        }
        let is_empty = rotate.is_empty();
        (!is_empty).then_some(Self { rotate, extras: Vec::new(), give: Give::All, pick: Pick::Turn })
    }

    /// A pool of the services that share the load, and for MIR of those that follow.
    pub(super) fn of(
        best: &[&Candidate],
        further: &[&Candidate],
        multiple: bool,
        pick: Pick,
        gives: fn(&Candidate) -> &[T],
    ) -> Self {
        let rotate = members(best, gives);
        let mut extras: Vec<Member<T>> = Vec::new();
        if multiple {
            for member in members(further, gives) {
                if rotate.iter().chain(&extras).all(|m| m.address != member.address) {
                    extras.push(member);
                }
            }
        }
        Self { rotate, extras, give: if multiple { Give::BestFirst } else { Give::One }, pick }
    }

    /// The members that one answer carries, in order: `turn` counts the answers of a rotation, whose places `ring` names.
    pub fn given(&self, client: IpAddr, start: usize) -> Vec<&Member<T>> {
        let mut order: Vec<&Member<T>> = match self.pick {
            Pick::Turn => {
                let start = start.min(self.rotate.len().saturating_sub(1));
                self.rotate[start..].iter().chain(&self.rotate[..start]).collect()
            }
            Pick::Hash { mask, mask6 } => {
                let prefix = prefix(client, mask, mask6);
                let mut order: Vec<&Member<T>> = self.rotate.iter().collect();
                order.sort_by_key(|m| std::cmp::Reverse(rendezvous::score(m.identity, prefix)));
                order
            }
        };
        match self.give {
            Give::One => order.truncate(1),
            Give::All => {}
            Give::BestFirst => order.extend(&self.extras),
        }
        order
    }
}

/// Members with weights such that a service keeps its share however many of its addresses are up. An address that
/// two services share is one member with both weights.
fn members<T: Clone + PartialEq>(services: &[&Candidate], gives: fn(&Candidate) -> &[T]) -> Vec<Member<T>> {
    let whole = services.iter().fold(1, |whole, c| lcm(whole, gives(c).len() as u64));
    let mut out: Vec<Member<T>> = Vec::new();
    for candidate in services {
        let own = gives(candidate);
        // `whole` is small for all but absurd numbers of addresses; there the shares are rounded, and never to none.
        let scale = u128::from(whole.min(1 << 20)) * u128::from(candidate.weight);
        let share = (scale / own.len() as u128).clamp(1, u128::from(u32::MAX)) as u32;
        for (i, address) in own.iter().enumerate() {
            match out.iter_mut().find(|m| m.address == *address) {
                Some(member) => {
                    member.weight = member.weight.saturating_add(share);
                    // Whoever comes first in the file: the hash must not depend on it.
                    member.identity = member.identity.min(candidate.identity(i));
                }
                None => out.push(Member {
                    address: address.clone(),
                    weight: share,
                    service: Some(candidate.service),
                    identity: candidate.identity(i),
                }),
            }
        }
    }
    out
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(service: u32, weight: u32, hosts: &[u8]) -> Candidate {
        let addresses = hosts.iter().map(|h| IpAddr::from([192, 0, 2, *h])).collect();
        let hash = rendezvous::of_text(&[service as u8]);
        Candidate { service: ServiceId(service), weight, order: None, addresses, records: Vec::new(), hash }
    }

    fn pool(best: &[&Candidate], further: &[&Candidate], multiple: bool, pick: Pick) -> Pool {
        Pool::of(best, further, multiple, pick, |c| &c.addresses)
    }

    fn weights(services: &[Candidate]) -> Vec<(u8, u32)> {
        let services: Vec<&Candidate> = services.iter().collect();
        let host = |a: IpAddr| if let IpAddr::V4(a) = a { a.octets()[3] } else { 0 };
        members(&services, |c| &c.addresses).iter().map(|m| (host(m.address), m.weight)).collect()
    }

    #[test]
    fn a_service_keeps_its_share_however_many_addresses_are_up() {
        assert_eq!(weights(&[candidate(0, 10, &[1]), candidate(1, 20, &[2])]), [(1, 10), (2, 20)]);
        let three_and_two = [candidate(0, 1, &[1, 2, 3]), candidate(1, 1, &[4, 5])];
        assert_eq!(weights(&three_and_two), [(1, 2), (2, 2), (3, 2), (4, 3), (5, 3)]);
    }

    #[test]
    fn a_shared_address_is_one_member_with_both_weights() {
        assert_eq!(weights(&[candidate(0, 3, &[1]), candidate(1, 4, &[1])]), [(1, 7)]);
        let (a, b) = (candidate(0, 1, &[1]), candidate(1, 1, &[1, 2]));
        let pool = pool(&[&a], &[&b, &b], true, Pick::Turn);
        assert_eq!(pool.rotate.len(), 1);
        assert_eq!(pool.extras.len(), 1, "no address twice");
    }

    /// The host octet that a client is given first.
    fn first(pool: &Pool, client: [u8; 4]) -> u8 {
        let IpAddr::V4(address) = pool.given(client.into(), 0)[0].address else { panic!("IPv6") };
        address.octets()[3]
    }

    #[test]
    fn a_service_that_leaves_moves_its_own_clients_alone() {
        let all: Vec<Candidate> = (0..5).map(|i| candidate(i, 1, &[i as u8])).collect();
        let hash = Pick::Hash { mask: 24, mask6: 128 };
        let whole = pool(&all.iter().collect::<Vec<_>>(), &[], false, hash);
        let fewer = pool(&all.iter().skip(1).collect::<Vec<_>>(), &[], false, hash);
        let mut shares = [0; 5];
        for net in 0..=255 {
            for host in [1, 99] {
                let (before, after) = (first(&whole, [10, 0, net, host]), first(&fewer, [10, 0, net, host]));
                assert!(before == 0 || before == after, "10.0.{net}.{host} moved from {before} to {after}");
                shares[usize::from(before)] += 1;
            }
            assert_eq!(
                first(&whole, [10, 0, net, 1]),
                first(&whole, [10, 0, net, 254]),
                "one prefix, one service"
            );
        }
        assert!(shares.iter().all(|share| (50..160).contains(share)), "of 512 clients: {shares:?}");
    }

    #[test]
    fn addresses_of_one_service_share_its_clients() {
        let (a, b) = (candidate(0, 1, &[1, 2, 3]), candidate(1, 1, &[4]));
        let pool = pool(&[&a, &b], &[], false, Pick::Hash { mask: 32, mask6: 128 });
        let mut counts = [0; 5];
        for n in 0..=255 {
            counts[usize::from(first(&pool, [10, 0, n, 7]))] += 1;
        }
        assert!((90..166).contains(&counts[4]), "half of the clients for half of the services: {counts:?}");
        assert!(counts[1..4].iter().all(|c| *c > 15), "{counts:?}");
    }
}
