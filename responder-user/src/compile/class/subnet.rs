//! Whose address decides where a query brings a client subnet (RFC 7871, spec/netscaler.md 1.7): proximity looks at ECS,
//! policies look at the source. Everything here is said for one owner: policies of other names, of other virtual servers and
//! those that fire alike for all sources are no reason to set ECS aside.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use responder_common::layout;

use super::{ClassMatch, Classes, Context, Firing};
use crate::{
    compile::number::{Numbering, SIDES, WORKER_SIDES},
    decide::{Owner, OwnerId, Owners, chain, proximity},
    model::{Model, RecordType},
};

/// Whose address decides for an owner whose virtual server has ECS on.
#[derive(Clone, Debug, PartialEq)]
pub enum Decider {
    /// The source: nothing asks where a client is.
    Source,
    /// ECS: no policy tells one source from another.
    Subnet,
    /// Both: which policies fire depends on the source.
    Both(Arc<Both>),
}

/// What policies do for an owner, class by class.
#[derive(Debug, PartialEq)]
pub struct Both {
    /// By class: a number for what fires.
    fired: Vec<u32>,
    /// By that number: it decides whatever the place.
    alone: Vec<bool>,
    /// The class where this fires and which sees services from there.
    by_pair: HashMap<(u32, Option<u32>), u16>,
}

impl Decider {
    /// None: ECS is off.
    pub fn of(model: &Model, classes: &Classes, owner: &Owner) -> Option<Self> {
        if !model.vserver(owner.vserver).ecs {
            return None;
        }
        let links = chain::links(model, owner.vserver);
        if !links.into_iter().any(|v| proximity::is_used_by(model.vserver(v))) {
            return Some(Self::Source);
        }
        let both = Both::of(model, classes, owner);
        Some(match (both.fired.iter().all(|fired| *fired == 0), both.alone.first()) {
            // One number for all.
            (true, Some(true)) => Self::Source,
            (true, _) => Self::Subnet,
            (false, _) => Self::Both(Arc::new(both)),
        })
    }

    /// The class that answers, and the scope of the answer. Where no client is of the source's policies and of the place of the
    /// subnet, there is no class for both: the source decides then, for this subnet alone.
    pub fn class(&self, classes: &Classes, source: IpAddr, subnet: IpAddr) -> ClassMatch {
        self.weigh(classes, source, subnet).0
    }

    /// The same, with whose place decides.
    pub fn weigh(&self, classes: &Classes, source: IpAddr, subnet: IpAddr) -> (ClassMatch, PlaceOf) {
        let by_source = ClassMatch { class: classes.class_of(source), prefix_len: 0 };
        let by_subnet = classes.lookup(subnet);
        let both = match self {
            Self::Source => return (by_source, PlaceOf::Nobody),
            Self::Subnet => return (by_subnet, PlaceOf::Subnet),
            Self::Both(both) => both,
        };
        let Some((fired, is_alone)) = both.fired_for(by_source.class) else {
            return (by_source, PlaceOf::Source);
        };
        if is_alone {
            return (by_source, PlaceOf::Nobody);
        }
        match both.class(classes, fired, by_subnet.class) {
            Some(class) => (ClassMatch { class, ..by_subnet }, PlaceOf::Subnet),
            None => (ClassMatch { class: by_source.class, ..by_subnet }, PlaceOf::Source),
        }
    }
}

/// Whose place decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOf {
    /// Nobody's: policies decide alone, or nothing asks.
    Nobody,
    /// The source's.
    Source,
    /// The client subnet's.
    Subnet,
}

impl Both {
    fn of(model: &Model, classes: &Classes, owner: &Owner) -> Self {
        let types = &model.vserver(owner.vserver).types;
        // Without tests of types one stands for all.
        let has_types = classes.contexts.iter().any(|context| context.qtype != RecordType::ALL[0].code());
        let is_answered =
            |context: &Context| !has_types || types.iter().any(|rtype| rtype.code() == context.qtype);
        let mine: Vec<usize> = classes
            .contexts_of(model, owner)
            .filter(|(_, context)| is_answered(context))
            .map(|(place, _)| place)
            .collect();
        let (mut numbers, mut alone) = (HashMap::<Vec<Firing>, u32>::new(), Vec::new());
        // Every list of what fires once; classes share them.
        let of_list: Vec<u32> = classes
            .firings
            .iter()
            .map(|list| {
                let own: Vec<Firing> = mine.iter().map(|i| list[*i]).collect();
                *numbers.entry(own).or_insert_with_key(|own| {
                    let requests = mine.iter().zip(own).filter(|(i, _)| classes.contexts[**i].code.is_none());
                    let settles = |[drop, rewrite, preferred, _]: &Firing| {
                        drop.is_some() || rewrite.is_some() || preferred.is_some()
                    };
                    alone.push(!mine.is_empty() && requests.map(|(_, firing)| firing).all(settles));
                    alone.len() as u32 - 1
                })
            })
            .collect();
        let fired: Vec<u32> = classes.signatures.iter().map(|s| of_list[s.fired as usize]).collect();
        let mut by_pair = HashMap::new();
        for (class, (fired, signature)) in fired.iter().zip(&classes.signatures).enumerate() {
            by_pair.entry((*fired, signature.view)).or_insert(class as u16);
        }
        Self { fired, alone, by_pair }
    }

    /// What fires for a class, and whether that decides whatever the place.
    fn fired_for(&self, class: u16) -> Option<(u32, bool)> {
        let fired = *self.fired.get(usize::from(class))?;
        Some((fired, *self.alone.get(fired as usize)?))
    }

    /// A class for which this fires, and which sees services as that class does.
    fn class(&self, classes: &Classes, fired: u32, seen_from: u16) -> Option<u16> {
        if self.fired_for(seen_from)?.0 == fired {
            return Some(seen_from);
        }
        let view = classes.signatures.get(usize::from(seen_from))?.view;
        self.by_pair.get(&(fired, view)).copied()
    }
}

/// The deciders of a configuration.
#[derive(Debug, Default)]
pub struct Deciders {
    by_owner: Vec<Option<Decider>>,
    /// By the first number of an owner's answers to a type.
    by_base: HashMap<u32, OwnerId>,
}

impl Deciders {
    /// For all owners.
    pub fn of(model: &Model, owners: &Owners, numbering: &Numbering, classes: &Classes) -> Self {
        let mut out = Self::default();
        // Owners differ in their backup addresses, too.
        let mut known: BTreeMap<(u32, &[u64]), Option<Decider>> = BTreeMap::new();
        for (i, owner) in owners.list.iter().enumerate() {
            let key = (owner.vserver.0, &*owner.names);
            let decider = known.entry(key).or_insert_with(|| Decider::of(model, classes, owner)).clone();
            if decider.is_some() {
                let id = OwnerId(i as u32);
                let sides = SIDES.into_iter().chain(WORKER_SIDES).filter_map(|t| numbering.side(id, t));
                out.by_base.extend(sides.map(|side| (side.base, id)));
            }
            out.by_owner.push(decider);
        }
        out
    }

    /// Who decides for the answers that begin at a number; None: ECS is off.
    pub fn of_answer(&self, base: u32) -> Option<&Decider> {
        self.of_owner(*self.by_base.get(&base)?)
    }

    fn of_owner(&self, owner: OwnerId) -> Option<&Decider> {
        self.by_owner.get(owner.index())?.as_ref()
    }

    /// What ECS changes of the answers to a name, which may have several owners: flags of [`layout::NameEntry::flags`]. Where
    /// one address does not decide for all of them, workers do.
    pub fn flags(&self, model: &Model, owners: &Owners, of_name: &[OwnerId]) -> u8 {
        let all: Vec<Option<&Decider>> = of_name.iter().map(|owner| self.of_owner(*owner)).collect();
        if all.iter().all(Option::is_none) {
            return 0;
        }
        let checks = |owner: &OwnerId| {
            let vserver = model.vserver(owners.owner(*owner).vserver);
            vserver.ecs && vserver.ecs_validation
        };
        let validation = if of_name.iter().any(checks) { layout::NAME_ECS_VALIDATION } else { 0 };
        let decider = if all.iter().all(|decider| *decider == Some(&Decider::Source)) {
            layout::NAME_SOURCE_ALONE
        } else if all.iter().all(|decider| *decider == Some(&Decider::Subnet)) {
            0
        } else {
            layout::NAME_ECS_AND_SOURCE
        };
        layout::NAME_ECS | validation | decider
    }
}
