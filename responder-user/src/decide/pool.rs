//! From services in order to addresses with weights (spec/netscaler.md 3.5, design section 5).

use std::net::IpAddr;

use super::candidate::Candidate;
use crate::model::ServiceId;

/// The addresses of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Members that share the load by weight; never empty.
    pub rotate: Vec<Member>,
    /// Further usable members in decision order, for [`Give::BestFirst`] alone.
    pub extras: Vec<Member>,
    /// How many of them an answer carries.
    pub give: Give,
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

/// One address of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The address; unique within a pool.
    pub address: IpAddr,
    /// Share of the rotation.
    pub weight: u32,
    /// The service it belongs to; None for a backup address of a domain.
    pub service: Option<ServiceId>,
}

impl Pool {
    /// Addresses that are all given, each once.
    pub(super) fn all(members: impl Iterator<Item = (IpAddr, Option<ServiceId>)>) -> Option<Self> {
        let mut rotate: Vec<Member> = Vec::new();
        for (address, service) in members {
            if rotate.iter().all(|m| m.address != address) {
                rotate.push(Member { address, weight: 1, service });
            }
        }
        (!rotate.is_empty()).then_some(Self { rotate, extras: Vec::new(), give: Give::All })
    }

    /// A pool of the services that share the load, and for MIR of those that follow.
    pub(super) fn of(best: &[&Candidate], further: &[&Candidate], multiple: bool) -> Self {
        let rotate = members(best);
        let mut extras: Vec<Member> = Vec::new();
        if multiple {
            for member in members(further) {
                if rotate.iter().chain(&extras).all(|m| m.address != member.address) {
                    extras.push(member);
                }
            }
        }
        Self { rotate, extras, give: if multiple { Give::BestFirst } else { Give::One } }
    }
}

/// Members with weights such that a service keeps its share however many of its addresses are up. An address that
/// two services share is one member with both weights.
fn members(services: &[&Candidate]) -> Vec<Member> {
    let whole = services.iter().fold(1, |whole, c| lcm(whole, c.addresses.len() as u64));
    let mut out: Vec<Member> = Vec::new();
    for candidate in services {
        // `whole` is small for all but absurd numbers of addresses; there the shares are rounded, and never to none.
        let scale = u128::from(whole.min(1 << 20)) * u128::from(candidate.weight);
        let share = (scale / candidate.addresses.len() as u128).clamp(1, u128::from(u32::MAX)) as u32;
        for &address in &candidate.addresses {
            match out.iter_mut().find(|m| m.address == address) {
                Some(member) => member.weight = member.weight.saturating_add(share),
                None => out.push(Member { address, weight: share, service: Some(candidate.service) }),
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
        Candidate { service: ServiceId(service), weight, order: None, addresses }
    }

    fn weights(services: &[Candidate]) -> Vec<(u8, u32)> {
        let services: Vec<&Candidate> = services.iter().collect();
        let host = |a: IpAddr| if let IpAddr::V4(a) = a { a.octets()[3] } else { 0 };
        members(&services).iter().map(|m| (host(m.address), m.weight)).collect()
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
        let pool = Pool::of(&[&a], &[&b, &b], true);
        assert_eq!(pool.rotate.len(), 1);
        assert_eq!(pool.extras.len(), 1, "no address twice");
    }
}
