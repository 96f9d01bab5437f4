//! The partition of client addresses into classes (design section 4, "Client class").
//!
//! Two addresses are of one class if no decision can tell them apart: the same policies fire for both, whatever the name
//! and the type, and static proximity sees both from the same place. The partition is a function of the
//! configuration alone; health never moves a class. How it is made:
//!
//! 1. `sweep`: every prefix of a rule and every range of a location cuts the address space; between two cuts nothing
//!    changes, and one range at most holds the piece;
//! 2. pieces get their signature, equal signatures get one class number, neighbours of one class are joined;
//! 3. `trie`: IPv6 goes into the fewest prefixes for a longest-prefix-match trie.

mod sweep;
mod trie;

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use ipnet::Ipv6Net;
use responder_common::layout;

use crate::{
    decide::{
        Client, Owner, candidate, chain,
        policy::{self, Asked},
        proximity,
    },
    model::{Model, PolicyId, RecordType, Rule, VserverId, policy::BindPoint},
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
    /// For every class the place of its representative, as a number of the model's table.
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

/// What decisions take from a client: which policies fire, by number, and the view of static proximity, by number; no
/// view where a list of preferred locations always overrides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Signature {
    fired: u32,
    /// Some policy fires.
    any: bool,
    view: Option<u32>,
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
        let place = self.places[class].and_then(|number| model.locations.place(number));
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
    let decider = match (is_concerned(model, owner), has_proximity) {
        (true, true) => layout::NAME_ECS_AND_SOURCE,
        (_, false) => layout::NAME_SOURCE_ALONE,
        (false, true) => 0,
    };
    layout::NAME_ECS | validation | decider
}

/// False if no policy can fire for the names of an owner, whoever asks: then ECS alone decides. Policies of other names
/// and virtual servers are no concern of theirs.
fn is_concerned(model: &Model, owner: &Owner) -> bool {
    model.policies.iter().any(|policy| {
        let is_bound = match policy.bind {
            BindPoint::Vserver(id) | BindPoint::VserverResponse(id) => id == owner.vserver,
            _ => true,
        };
        let has_effect = model.actions[policy.action.index()].kind.has_effect();
        is_bound && has_effect && possible(&policy.rule, &owner.names).0
    })
}

/// Whether a rule can be true, and whether it can be false, for names that pass these tests.
fn possible(rule: &Rule, names: &[u64]) -> (bool, bool) {
    match rule {
        Rule::Constant(value) => (*value, !*value),
        Rule::Name { id, .. } => {
            let bits = names.get(*id as usize / 64).copied().unwrap_or(0);
            let passes = bits >> (id % 64) & 1 == 1;
            (passes, !passes)
        }
        Rule::Not(inner) => {
            let (yes, no) = possible(inner, names);
            (no, yes)
        }
        Rule::And(a, b) => {
            let (a, b) = (possible(a, names), possible(b, names));
            (a.0 && b.0, a.1 || b.1)
        }
        Rule::Or(a, b) => {
            let (a, b) = (possible(a, names), possible(b, names));
            (a.0 || b.0, a.1 && b.1)
        }
        _ => (true, true),
    }
}

fn has_policies(model: &Model) -> bool {
    model.policies.iter().any(|p| model.actions[p.action.index()].kind.has_effect())
}

/// False if the owner answers this type alike to all classes, so that one column will do. A cheap rule that may say
/// true too often, never too seldom.
pub fn classed(model: &Model, owner: &Owner, rtype: RecordType) -> bool {
    let has_policies = has_policies(model);
    let links = chain::links(model, owner.vserver);
    let answers = |v| model.vserver(v).types.contains(&rtype) && candidate::has_address(model, v, rtype);
    // Policies answer without any service, too.
    (has_policies && model.vserver(owner.vserver).types.contains(&rtype))
        || links.into_iter().any(|v| answers(v) && proximity::is_used_by(model.vserver(v)))
}

/// Everything but the client that policies look at, in one combination.
struct Context {
    vserver: VserverId,
    names: Arc<[u64]>,
    rtype: RecordType,
    /// For policies of responses.
    code: Option<u16>,
}

/// Every combination that makes a difference.
fn contexts(model: &Model) -> Vec<Context> {
    let mut names: BTreeSet<Vec<u64>> = BTreeSet::new();
    if model.name_tests.is_empty() {
        names.insert(Vec::new());
    } else {
        names.extend(model.domains.iter().map(|domain| policy::name_bits(&model.name_tests, &domain.name)));
    }
    let nobody = VserverId(u32::MAX);
    let mut vservers = BTreeSet::from([nobody]);
    let (mut tests_type, mut has_responses) = (false, false);
    for policy in &model.policies {
        policy.rule.visit(&mut |part| tests_type |= matches!(part, Rule::Type { .. }));
        match policy.bind {
            BindPoint::Vserver(id) => drop(vservers.insert(id)),
            BindPoint::VserverResponse(id) => {
                vservers.insert(id);
                has_responses = true;
            }
            BindPoint::ResponseOverride | BindPoint::Response => has_responses = true,
            BindPoint::RequestOverride | BindPoint::Request | BindPoint::Label(_) => {}
        }
    }
    let types = if tests_type { &RecordType::ALL[..] } else { &RecordType::ALL[..1] };
    // The codes that a decision can have: NOERROR and REFUSED.
    let codes = if has_responses { &[None, Some(0), Some(5)][..] } else { &[None][..] };
    let mut out = Vec::new();
    for bits in names {
        let names: Arc<[u64]> = bits.into();
        for vserver in &vservers {
            for (rtype, code) in types.iter().flat_map(|rtype| codes.iter().map(move |code| (*rtype, *code)))
            {
                out.push(Context { vserver: *vserver, names: names.clone(), rtype, code });
            }
        }
    }
    out
}

/// What fires in one context: by dropping, rewriting, preferring locations, choosing a view.
type Firing = [Option<PolicyId>; 4];

/// Gives pieces their signatures.
struct Signer<'m> {
    model: &'m Model,
    proximity: bool,
    contexts: Vec<Context>,
    /// What fires, numbered.
    firings: HashMap<Vec<Firing>, u32>,
    /// Views of static proximity, numbered.
    views: HashMap<Vec<u32>, u32>,
    /// The number of the view from each distinct place, by spelling: big tables repeat few places.
    places: HashMap<(String, Option<(u64, u64)>), u32>,
    /// The same by the number of the place.
    numbers: HashMap<Option<u32>, u32>,
}

impl<'m> Signer<'m> {
    fn new(model: &'m Model) -> Self {
        Self {
            model,
            proximity: model.vservers.iter().any(proximity::is_used_by),
            contexts: contexts(model),
            firings: HashMap::new(),
            views: HashMap::new(),
            places: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    fn family(&mut self, v4: bool) -> Vec<(Piece, Signature)> {
        let pieces = sweep::pieces(self.model, v4);
        pieces.into_iter().map(|piece| (piece, self.sign(piece, v4))).collect()
    }

    fn sign(&mut self, piece: Piece, v4: bool) -> Signature {
        let place = piece.range.and_then(|number| self.model.locations.place(number));
        let client = Client { address: address(v4, piece.first), place };
        let firings: Vec<Firing> =
            self.contexts.iter().map(|context| self.firing(context, &client)).collect();
        let always_listed = firings.iter().all(|[_, _, preferred, _]| preferred.is_some());
        let view = (self.proximity && !always_listed).then(|| self.view(piece.range, &client));
        let any = firings.iter().flatten().any(Option::is_some);
        let next = self.firings.len() as u32;
        Signature { fired: *self.firings.entry(firings).or_insert(next), any, view }
    }

    fn firing(&self, context: &Context, client: &Client<'_>) -> Firing {
        let Context { vserver, rtype, code, .. } = *context;
        let asked = Asked { client, vserver, names: &context.names, rtype };
        let fired = match code {
            None => policy::fires(self.model, &asked),
            Some(code) => policy::fires_on_response(self.model, &asked, code),
        };
        [
            fired.drop,
            fired.rewrite.map(|(hit, ..)| hit),
            fired.preferred.map(|(hit, _)| hit),
            fired.view.map(|(hit, _)| hit),
        ]
        .map(|hit| hit.map(|hit| hit.policy))
    }

    fn view(&mut self, number: Option<u32>, client: &Client<'_>) -> u32 {
        if let Some(known) = self.numbers.get(&number) {
            return *known;
        }
        let key = client.place.map_or_else(Default::default, |place| {
            let bits = place.coordinates.map(|(lon, lat)| (lon.to_bits(), lat.to_bits()));
            (place.location.to_string().to_ascii_lowercase(), bits)
        });
        let (model, views) = (self.model, &mut self.views);
        let view = *self.places.entry(key).or_insert_with(|| {
            let next = views.len() as u32;
            *views.entry(proximity::view(model, client.place)).or_insert(next)
        });
        self.numbers.insert(number, view);
        view
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
                out.fired.push(signature.any);
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
