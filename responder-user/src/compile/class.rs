//! The partition of client addresses into classes (design section 4, "Client class").
//!
//! Two addresses are of one class if no decision can tell them apart: the same policy brings its preferred locations
//! to both, or no policy does and static proximity sees both from the same place. The partition is a function of the
//! configuration alone; health never moves a class. How it is made:
//!
//! 1. `sweep`: every prefix of a rule and every range of a location cuts the address space; between two cuts nothing
//!    changes, and one range at most holds the piece;
//! 2. pieces get their signature, equal signatures get one class number, neighbours of one class are joined;
//! 3. `trie`: IPv6 goes into the fewest prefixes for a longest-prefix-match trie.

mod sweep;
mod trie;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::Ipv6Net;
use responder_common::layout;

use crate::{
    decide::{Client, Owner, candidate, chain, policy, proximity},
    model::{DnsActionKind, Model, PolicyId, RecordType},
};
use sweep::Piece;

/// Classes and split /24s share one 16-bit space in the kernel's table, of which one value is kept free.
pub const LIMIT: usize = 65_535;

/// The classes of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// IPv4: first address, last address and class; ascending, without gaps, neighbours of different classes.
    pub v4: Vec<(Ipv4Addr, Ipv4Addr, u16)>,
    /// IPv6: the fewest prefixes by which a longest-prefix match finds the class of every address. They nest, `::/0`
    /// is among them, and the length of the one that matches is no ECS scope: [`Self::lookup`] knows that.
    pub v6: Vec<(Ipv6Net, u16)>,
    /// IPv6 as `v4`: what `v6` stands for.
    pub v6_ranges: Vec<(Ipv6Addr, Ipv6Addr, u16)>,
    /// For every class an address of it, to decide for. Class 0 is what no rule and no range mentions, if there is
    /// such an address at all.
    pub representatives: Vec<IpAddr>,
    /// For every class the range of locations that holds its representative; index into the model's table.
    places: Vec<Option<u32>>,
    /// For every class whether a policy decides for it, and not proximity.
    fired: Vec<bool>,
    /// /24s that hold more than one class.
    splits: usize,
}

/// Where an address belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassMatch {
    /// Its class.
    pub class: u16,
    /// Length of the largest prefix around the address that is all of this class: the ECS scope (spec/config.md 2).
    pub prefix_len: u8,
}

/// More classes than the kernel's table can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policies and locations make {classes} client classes and split {splits} IPv4 /24 networks; \
     both together must not exceed {LIMIT}"
)]
pub struct ClassError {
    /// Number of classes.
    pub classes: usize,
    /// Number of /24s that hold more than one class.
    pub splits: usize,
}

/// What decisions take from a client: the policy that fires, else the view of static proximity, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Signature {
    Preferred(PolicyId),
    Place(u32),
}

impl Classes {
    /// Partitions both families.
    pub fn of(model: &Model) -> Result<Self, ClassError> {
        let mut signer = Signer::new(model);
        let (v4, v6) = (signer.family(true), signer.family(false));
        let numbering = Numbering::of(&v4, &v6);
        let v4 = merge(&v4, &numbering);
        let splits = count_splits(&v4);
        let classes = numbering.representatives.len();
        if classes + splits > LIMIT {
            return Err(ClassError { classes, splits });
        }
        let v6 = merge(&v6, &numbering);
        let net = |(first, len, class): (u128, u8, u32)| {
            (Ipv6Net::new_assert(Ipv6Addr::from_bits(first), len), class as u16)
        };
        Ok(Self {
            v6: trie::fewest_prefixes(&v6, classes as u32).into_iter().map(net).collect(),
            v4: v4.iter().map(|r| (v4_address(r.first), v4_address(r.last), r.class as u16)).collect(),
            v6_ranges: v6
                .iter()
                .map(|r| (Ipv6Addr::from_bits(r.first), Ipv6Addr::from_bits(r.last), r.class as u16))
                .collect(),
            representatives: numbering.representatives,
            places: numbering.places,
            fired: numbering.fired,
            splits,
        })
    }

    /// Number of classes, at least 1.
    pub fn count(&self) -> usize {
        self.representatives.len()
    }

    /// Number of /24s that hold more than one class.
    pub fn splits(&self) -> usize {
        self.splits
    }

    /// The class of an address.
    pub fn class_of(&self, address: IpAddr) -> u16 {
        self.lookup(address).class
    }

    /// The class of an address, and how much around it is of the same class.
    pub fn lookup(&self, address: IpAddr) -> ClassMatch {
        match address {
            IpAddr::V4(a) => {
                let at = self.v4.partition_point(|(_, last, _)| *last < a);
                let (first, last, class) = self.v4[at];
                let (a, first, last) = (a.to_bits(), first.to_bits(), last.to_bits());
                ClassMatch { class, prefix_len: room(32, a.into(), first.into(), last.into()) }
            }
            IpAddr::V6(a) => {
                let at = self.v6_ranges.partition_point(|(_, last, _)| *last < a);
                let (first, last, class) = self.v6_ranges[at];
                ClassMatch { class, prefix_len: room(128, a.to_bits(), first.to_bits(), last.to_bits()) }
            }
        }
    }

    /// The class of a client whose source policies look at and whose ECS address proximity looks at, and the scope: where
    /// a policy decides, ECS is of no concern. Where policies decide for the ECS address itself, no class is made for its
    /// place alone: the source decides, as it does for a query without ECS.
    pub fn of_both(&self, source: IpAddr, subnet: IpAddr) -> ClassMatch {
        let by_source = ClassMatch { class: self.class_of(source), prefix_len: 0 };
        let by_subnet = self.lookup(subnet);
        let is_fired = |class: u16| self.fired.get(usize::from(class)).copied().unwrap_or(false);
        if is_fired(by_source.class) || is_fired(by_subnet.class) { by_source } else { by_subnet }
    }

    /// The largest prefixes that are each of one class as a whole: an address, a prefix length and a class, ascending.
    pub fn v6_scopes(&self) -> impl Iterator<Item = (Ipv6Addr, u8, u16)> + '_ {
        self.v6_ranges.iter().flat_map(|(first, last, class)| {
            let pieces = largest_prefixes(128, first.to_bits(), last.to_bits());
            pieces.map(|(at, len)| (Ipv6Addr::from_bits(at), len, *class))
        })
    }

    /// As [`Self::v6_scopes`], for IPv4.
    pub fn v4_scopes(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> + '_ {
        self.v4.iter().flat_map(|(first, last, _)| {
            let pieces = largest_prefixes(32, first.to_bits().into(), last.to_bits().into());
            pieces.map(|(at, len)| (v4_address(at), len))
        })
    }

    /// A client of the class to decide for, located without a search.
    pub fn client<'m>(&self, model: &'m Model, class: u16) -> Client<'m> {
        let class = usize::from(class);
        let place = self.places[class].map(|i| &model.locations.custom[i as usize]);
        Client { address: self.representatives[class], place }
    }
}

/// What ECS changes of the answers of an owner: flags of its names ([`layout::NameEntry::flags`]).
pub fn ecs_flags(model: &Model, owner: &Owner) -> u8 {
    let vserver = model.vserver(owner.vserver);
    if !vserver.ecs {
        return 0;
    }
    let links = chain::links(model, owner.vserver);
    let has_proximity = links.into_iter().any(|v| proximity::is_used_by(model.vserver(v)));
    let validation = if vserver.ecs_validation { layout::NAME_ECS_VALIDATION } else { 0 };
    let decider = match (has_policies(model), has_proximity) {
        (true, true) => layout::NAME_ECS_AND_SOURCE,
        (_, false) => layout::NAME_SOURCE_ALONE,
        (false, true) => 0,
    };
    layout::NAME_ECS | validation | decider
}

fn has_policies(model: &Model) -> bool {
    model
        .policies
        .iter()
        .any(|p| matches!(model.actions[p.action.index()].kind, DnsActionKind::PreferredLocations(_)))
}

/// False if the owner answers this type alike to all classes, so that one column will do. A cheap rule that may say
/// true too often, never too seldom.
pub fn classed(model: &Model, owner: &Owner, rtype: RecordType) -> bool {
    let preferred = has_policies(model);
    let links = chain::links(model, owner.vserver);
    let answers = |v| model.vserver(v).types.contains(&rtype) && candidate::has_address(model, v, rtype);
    links.into_iter().any(|v| answers(v) && (preferred || proximity::is_used_by(model.vserver(v))))
}

/// Gives pieces their signatures.
struct Signer<'m> {
    model: &'m Model,
    proximity: bool,
    /// Views of static proximity, numbered.
    views: HashMap<Vec<u32>, u32>,
    /// The number of the view from each distinct place, by spelling: big tables repeat few places.
    places: HashMap<(String, Option<(u64, u64)>), u32>,
}

impl<'m> Signer<'m> {
    fn new(model: &'m Model) -> Self {
        let proximity = model.vservers.iter().any(proximity::is_used_by);
        Self { model, proximity, views: HashMap::new(), places: HashMap::new() }
    }

    fn family(&mut self, v4: bool) -> Vec<(Piece, Signature)> {
        let pieces = sweep::pieces(self.model, v4);
        pieces.into_iter().map(|piece| (piece, self.sign(piece, v4))).collect()
    }

    fn sign(&mut self, piece: Piece, v4: bool) -> Signature {
        let place = piece.range.map(|i| &self.model.locations.custom[i as usize]);
        let client = Client { address: address(v4, piece.first), place };
        match policy::fires(self.model, &client) {
            Some(fired) => Signature::Preferred(fired.policy),
            None if !self.proximity => Signature::Place(0),
            None => Signature::Place(self.view(&client)),
        }
    }

    fn view(&mut self, client: &Client<'_>) -> u32 {
        let key = client.place.map_or_else(Default::default, |place| {
            let bits = place.coordinates.map(|(lon, lat)| (lon.to_bits(), lat.to_bits()));
            (place.location.to_string().to_ascii_lowercase(), bits)
        });
        let (model, views) = (self.model, &mut self.views);
        *self.places.entry(key).or_insert_with(|| {
            let next = views.len() as u32;
            *views.entry(proximity::view(model, client.place)).or_insert(next)
        })
    }
}

/// Class numbers by signature.
struct Numbering {
    numbers: HashMap<Signature, u32>,
    representatives: Vec<IpAddr>,
    places: Vec<Option<u32>>,
    fired: Vec<bool>,
}

impl Numbering {
    /// 0 for what nothing mentions, then ascending addresses, IPv4 first: the order of the file has no influence.
    fn of(v4: &[(Piece, Signature)], v6: &[(Piece, Signature)]) -> Self {
        let mut out = Self {
            numbers: HashMap::new(),
            representatives: Vec::new(),
            places: Vec::new(),
            fired: Vec::new(),
        };
        let both = || v4.iter().map(|p| (true, p)).chain(v6.iter().map(|p| (false, p)));
        let unmentioned = both().find(|(_, (piece, _))| !piece.mentioned);
        for (v4, (piece, signature)) in unmentioned.into_iter().chain(both()) {
            let next = out.representatives.len() as u32;
            out.numbers.entry(*signature).or_insert_with(|| {
                out.representatives.push(address(v4, piece.first));
                out.places.push(piece.range);
                out.fired.push(matches!(signature, Signature::Preferred(_)));
                next
            });
        }
        out
    }
}

/// Addresses of one class, as numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u128,
    last: u128,
    class: u32,
}

/// Joins neighbouring pieces of one class.
fn merge(pieces: &[(Piece, Signature)], numbering: &Numbering) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for (piece, signature) in pieces {
        let class = numbering.numbers[signature];
        match out.last_mut() {
            Some(run) if run.class == class => run.last = piece.last,
            _ => out.push(Run { first: piece.first, last: piece.last, class }),
        }
    }
    out
}

/// /24s in which a run begins anywhere but at the first address.
fn count_splits(v4: &[Run]) -> usize {
    let mut split: Vec<u128> = v4.iter().filter(|r| r.first & 0xff != 0).map(|r| r.first >> 8).collect();
    split.dedup();
    split.len()
}

/// The prefixes, as large as can be, that make up `first` to `last`.
fn largest_prefixes(bits: u8, first: u128, last: u128) -> impl Iterator<Item = (u128, u8)> {
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let at = next?;
        let len = room(bits, at, at, last);
        let host = 1_u128.checked_shl(u32::from(bits - len)).map_or(u128::MAX, |size| size - 1);
        next = (at | host).checked_add(1).filter(|at| *at <= last);
        Some((at, len))
    })
}

/// Length of the largest prefix that contains `address` and lies within `first` to `last`.
fn room(bits: u8, address: u128, first: u128, last: u128) -> u8 {
    let fits = |len: &u8| {
        let host = 1_u128.checked_shl(u32::from(bits - len)).map_or(u128::MAX, |size| size - 1);
        first <= address & !host && address | host <= last
    };
    (0..bits).find(fits).unwrap_or(bits)
}

fn address(v4: bool, number: u128) -> IpAddr {
    if v4 { v4_address(number).into() } else { Ipv6Addr::from_bits(number).into() }
}

fn v4_address(number: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits(number as u32)
}
