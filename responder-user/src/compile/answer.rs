//! A decision to an answer set: octets ready to copy. What a set cannot say is left to the workers.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use bytemuck::Zeroable;
use responder_common::{
    layout::{AnswerSet, SET_DROP, SET_EMPTY, SET_EXTRAS_OPTIONAL},
    limits::{MAX_POOL, MAX_RING},
};

use crate::{
    decide::{Decision, Give, Member, Outcome, Pick, Pool, Record, session::Use},
    model::{RecordType, ServiceId},
};

use super::session::Keeping;

/// What a decision becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Nothing yet.
    Undecided,
    /// A set that program and workers answer from.
    Set(Box<AnswerSet>),
    /// Something that an answer set cannot say: the program passes it, workers answer from this.
    Deferred(Arc<Deferred>),
}

/// An answer of the workers alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferred {
    /// What is said.
    pub kind: DeferredKind,
    /// TTL in seconds where it is not that of the domain.
    pub ttl: Option<u32>,
    /// Sessions that go with it.
    pub sticks: Sticks,
}

/// See [`Deferred`].
#[derive(Clone, Debug, PartialEq)]
pub enum DeferredKind {
    /// No reply.
    Drop,
    /// REFUSED.
    Refused,
    /// The name is resolved as if no virtual server owned it.
    NotOurs,
    /// NOERROR without records, for types that are in no table.
    Empty,
    /// Addresses that a set cannot choose: by hash, or with a TTL of their own.
    Addresses(Rotating<IpAddr>),
    /// Records that are no addresses.
    Records(Rotating<Record>),
}

/// Which choice of a rule of sessions goes with which service of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sticks(Vec<(ServiceId, u8)>);

impl Sticks {
    /// Those of a decision. None where the owner keeps no sessions, or where the client's is set aside.
    pub fn of(decision: &Decision, keeping: Option<&Keeping>) -> Self {
        let Some(keeping) = keeping.filter(|_| decision.session != Use::SetAside) else {
            return Self::default();
        };
        let services: Vec<ServiceId> = match &decision.outcome {
            Outcome::Answer(pool) => pool.rotate.iter().filter_map(|member| member.service).collect(),
            Outcome::Records(pool) => pool.rotate.iter().filter_map(|member| member.service).collect(),
            _ => Vec::new(),
        };
        let choice = |service| (service, keeping.choice(decision.link, service));
        Self(services.into_iter().map(choice).filter(|(_, choice)| *choice != 0).collect())
    }

    /// The choice of a service, from 1 on; 0: none.
    pub fn choice(&self, service: Option<ServiceId>) -> u8 {
        let found = self.0.iter().find(|(with, _)| Some(*with) == service);
        found.map_or(0, |(_, choice)| *choice)
    }
}

/// A pool with the places of its rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotating<T> {
    /// Who is in it.
    pub pool: Pool<T>,
    /// Index of the member that stands first, for each turn; never empty.
    pub ring: Vec<u8>,
}

impl<T: Clone + PartialEq> Rotating<T> {
    fn of(pool: &Pool<T>) -> Self {
        Self { ring: ring(&pool.rotate[..pool.rotate.len().min(MAX_POOL)]), pool: pool.clone() }
    }

    /// The members of one answer, in order.
    pub fn given(&self, client: IpAddr, turn: u32) -> Vec<&Member<T>> {
        let place = turn as usize % self.ring.len().max(1);
        self.pool.given(client, self.ring.get(place).copied().unwrap_or(0).into())
    }
}

/// The column of a decision; a set lacks generation and owner.
///
/// More than 64 addresses cannot be held; validation refuses such configurations, so what is cut here are addresses
/// behind the 64th of a pool that several services share.
pub fn column(decision: &Decision, rtype: RecordType, sticks: &Sticks) -> Column {
    let kind = match &decision.outcome {
        Outcome::Undecided => return Column::Undecided,
        Outcome::Empty if rtype.is_address() && decision.ttl.is_none() => {
            return Column::Set(Box::new(AnswerSet { flags: SET_EMPTY, ..AnswerSet::zeroed() }));
        }
        Outcome::Drop if rtype.is_address() => {
            return Column::Set(Box::new(AnswerSet { flags: SET_DROP, ..AnswerSet::zeroed() }));
        }
        Outcome::Empty => DeferredKind::Empty,
        Outcome::Answer(pool) if pool.pick == Pick::Turn && decision.ttl.is_none() => {
            return Column::Set(set_of(pool, sticks));
        }
        Outcome::Answer(pool) => DeferredKind::Addresses(Rotating::of(pool)),
        Outcome::Records(pool) => DeferredKind::Records(Rotating::of(pool)),
        Outcome::Drop => DeferredKind::Drop,
        Outcome::Refused => DeferredKind::Refused,
        Outcome::NotOurs => DeferredKind::NotOurs,
    };
    Column::Deferred(Arc::new(Deferred { kind, ttl: decision.ttl, sticks: sticks.clone() }))
}

/// The set that stands for an answer of the workers alone: it claims more addresses than anybody writes, so the program
/// passes it. Its words tell one such answer from another.
pub fn placeholder(deferred: &Deferred) -> Box<AnswerSet> {
    let mut set = Box::new(AnswerSet { give: DEFERRED_GIVE, ..AnswerSet::zeroed() });
    let mut hasher = DefaultHasher::new();
    format!("{deferred:?}").hash(&mut hasher);
    let hash = hasher.finish();
    set.addresses[..2].copy_from_slice(&[hash as u32, (hash >> 32) as u32]);
    set
}

/// [`AnswerSet::give`] of a [`placeholder`].
const DEFERRED_GIVE: u8 = u8::MAX;

/// True if two sets say the same, whoever made them and when.
pub fn says_same(a: &AnswerSet, b: &AnswerSet) -> bool {
    let plain = |set: &AnswerSet| AnswerSet { generation: 0, made_for: 0, ..*set };
    plain(a) == plain(b)
}

/// The addresses of a set, in order.
pub fn addresses(set: &AnswerSet, is_aaaa: bool) -> Vec<IpAddr> {
    (0..usize::from(set.total))
        .map(|i| {
            if is_aaaa {
                let words = &set.addresses[i * 4..i * 4 + 4];
                let octets: [u8; 16] = bytemuck::cast([words[0], words[1], words[2], words[3]]);
                IpAddr::from(octets)
            } else {
                IpAddr::from(set.addresses[i].to_ne_bytes())
            }
        })
        .collect()
}

fn set_of(pool: &Pool, sticks: &Sticks) -> Box<AnswerSet> {
    let mut set = Box::new(AnswerSet::zeroed());
    let rotate = &pool.rotate[..pool.rotate.len().min(MAX_POOL)];
    let extras = match pool.give {
        Give::BestFirst => &pool.extras[..pool.extras.len().min(MAX_POOL - rotate.len())],
        Give::One | Give::All => &[],
    };
    for (i, member) in rotate.iter().chain(extras).enumerate() {
        match member.address {
            IpAddr::V4(a) => set.addresses[i] = u32::from_ne_bytes(a.octets()),
            IpAddr::V6(a) => {
                let words: [u32; 4] = bytemuck::cast(a.octets());
                set.addresses[i * 4..i * 4 + 4].copy_from_slice(&words);
            }
        }
    }
    for (to, member) in set.choices.iter_mut().zip(rotate) {
        *to = sticks.choice(member.service);
    }
    set.rotate = rotate.len() as u8;
    set.total = (rotate.len() + extras.len()) as u8;
    set.give = if pool.give == Give::One { 1 } else { set.total };
    if pool.give == Give::BestFirst {
        set.flags |= SET_EXTRAS_OPTIONAL;
    }
    let places = ring(rotate);
    set.ring_len = places.len() as u16;
    set.ring[..places.len()].copy_from_slice(&places);
    set
}

/// The rotation: each member as often as its weight says, spread evenly (smooth weighted round robin). Weights whose
/// sum, after taking out common factors, exceeds 1024 are rounded to that resolution, and never to nothing.
fn ring<T>(members: &[Member<T>]) -> Vec<u8> {
    let mut weights: Vec<u64> = members.iter().map(|m| u64::from(m.weight.max(1))).collect();
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    for weight in &mut weights {
        *weight /= divisor;
    }
    let sum: u64 = weights.iter().sum();
    if sum > MAX_RING as u64 {
        let room = (MAX_RING - members.len()) as u64;
        for weight in &mut weights {
            *weight = (*weight * room / sum).max(1);
        }
    }
    let sum: i64 = weights.iter().sum::<u64>() as i64;
    let mut credit = vec![0_i64; weights.len()];
    (0..sum)
        .map(|_| {
            credit.iter_mut().zip(&weights).for_each(|(c, w)| *c += *w as i64);
            let best = (0..credit.len()).max_by_key(|&i| (credit[i], std::cmp::Reverse(i))).unwrap_or(0);
            credit[best] -= sum;
            best as u8
        })
        .collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(weights: &[u32]) -> Vec<Member> {
        let member = |(i, w): (usize, &u32)| Member {
            address: IpAddr::from([192, 0, 2, i as u8]),
            weight: *w,
            service: None,
            identity: 0,
        };
        weights.iter().enumerate().map(member).collect()
    }

    #[test]
    fn equal_weights_rotate_in_order() {
        assert_eq!(ring(&members(&[7, 7, 7])), [0, 1, 2]);
        assert_eq!(ring(&members(&[1])), [0]);
    }

    #[test]
    fn weights_are_spread_evenly() {
        assert_eq!(ring(&members(&[2, 1])), [0, 1, 0]);
        assert_eq!(ring(&members(&[50, 10, 10])), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn large_sums_are_rounded_to_the_ring_and_nobody_is_lost() {
        let places = ring(&members(&[6399, 1, 3200]));
        assert!(places.len() <= MAX_RING);
        let count = |i| places.iter().map(|p| usize::from(*p == i)).sum::<usize>();
        assert!(count(1) >= 1);
        assert!((count(0) as f64 / count(2) as f64 - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_set_gives_what_the_pool_says() {
        let pool = |give| Pool { rotate: members(&[1, 1]), extras: members(&[1]), give, pick: Pick::Turn };
        let give = |give| {
            let set = set_of(&pool(give), &Sticks::default());
            (set.rotate, set.total, set.give, set.flags)
        };
        assert_eq!(give(Give::One), (2, 2, 1, 0));
        assert_eq!(give(Give::All), (2, 2, 2, 0));
        assert_eq!(give(Give::BestFirst), (2, 3, 3, SET_EXTRAS_OPTIONAL));
    }
}
