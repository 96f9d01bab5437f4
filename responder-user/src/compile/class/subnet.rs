//! Whose address decides where a query brings a client subnet (RFC 7871, spec/netscaler.md 1.7): proximity looks at ECS,
//! policies look at the source. Everything here is said for one owner: policies of other names, of other virtual servers and
//! those that fire alike for all sources are no reason to set ECS aside.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use responder_common::layout;

use super::{ClassMatch, Classes, Firing, NOBODY};
use crate::{
    compile::number::{Numbering, SIDES, WORKER_SIDES},
    decide::{Owner, OwnerId, Owners, chain, proximity},
    model::{Model, RecordType, policy::BindPoint},
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
        let by_source = ClassMatch { class: classes.class_of(source), prefix_len: 0 };
        let by_subnet = classes.lookup(subnet);
        match self {
            Self::Source => by_source,
            Self::Subnet => by_subnet,
            Self::Both(both) => match both.class(classes, by_source.class, by_subnet) {
                Class::Alone => by_source,
                Class::Of(class) => ClassMatch { class, ..by_subnet },
                Class::Missing => ClassMatch { class: by_source.class, ..by_subnet },
            },
        }
    }
}

impl Both {
    fn of(model: &Model, classes: &Classes, owner: &Owner) -> Self {
        let is_bound = |point: BindPoint| {
            point == BindPoint::Vserver(owner.vserver) || point == BindPoint::VserverResponse(owner.vserver)
        };
        let bound = model.policies.iter().any(|policy| is_bound(policy.bind));
        let vserver = if bound { owner.vserver } else { NOBODY };
        let types = &model.vserver(owner.vserver).types;
        // Without tests of types one stands for all.
        let has_types = classes.contexts.iter().any(|context| context.rtype != RecordType::ALL[0]);
        let mine: Vec<usize> = (0..classes.contexts.len())
            .filter(|i| {
                let context = &classes.contexts[*i];
                let is_of_type = !has_types || types.contains(&context.rtype);
                context.vserver == vserver && *context.names == *owner.names && is_of_type
            })
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

    fn class(&self, classes: &Classes, source: u16, subnet: ClassMatch) -> Class {
        let fired_for = |class: u16| self.fired.get(usize::from(class)).copied();
        let Some(fired) = fired_for(source) else { return Class::Missing };
        if self.alone.get(fired as usize) == Some(&true) {
            return Class::Alone;
        }
        if fired_for(subnet.class) == Some(fired) {
            return Class::Of(subnet.class);
        }
        let view = classes.signatures.get(usize::from(subnet.class)).and_then(|signature| signature.view);
        self.by_pair.get(&(fired, view)).map_or(Class::Missing, |class| Class::Of(*class))
    }
}

/// What source and subnet lead to.
enum Class {
    /// The source decides, whatever the place.
    Alone,
    /// What fires for the source, at the place of the subnet.
    Of(u16),
    /// There is no class for both.
    Missing,
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
