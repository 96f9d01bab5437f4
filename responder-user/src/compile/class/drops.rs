//! Policies that drop queries for types that a virtual server has nothing of: no column of an answer says so, because there is
//! none (spec/netscaler.md 2.4: Drop wins at once).

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use super::Classes;
use crate::{
    compile::number::{Numbering, SIDES, WORKER_SIDES},
    decide::{Owner, OwnerId, Owners},
    model::{DnsActionKind, Model},
};

/// What is dropped for an owner.
#[derive(Debug, PartialEq)]
pub struct OwnerDrops {
    /// For each type that rules test whether a query is dropped, by the number of what fires; the last one is for the others.
    by_type: Vec<(u16, Box<[bool]>)>,
}

impl OwnerDrops {
    /// None: nothing is ever dropped but what the columns of its answers say.
    fn of(model: &Model, classes: &Classes, owner: &Owner) -> Option<Self> {
        let mut by_type: Vec<(u16, Box<[bool]>)> = Vec::new();
        for (place, context) in classes.contexts_of(model, owner) {
            // The response to a type that there is not is NODATA, whose code is NOERROR.
            if context.code.is_some_and(|code| code != 0) {
                continue;
            }
            if by_type.last().is_none_or(|(qtype, _)| *qtype != context.qtype) {
                by_type.push((context.qtype, vec![false; classes.firings.len()].into()));
            }
            let Some((_, dropped)) = by_type.last_mut() else { continue };
            for (dropped, list) in dropped.iter_mut().zip(&classes.firings) {
                *dropped |= list[place][0].is_some();
            }
        }
        let types = &model.vserver(owner.vserver).types;
        let is_lacking = |qtype: u16| by_type.len() == 1 || types.iter().all(|rtype| rtype.code() != qtype);
        let drops = by_type.iter().any(|(qtype, dropped)| is_lacking(*qtype) && dropped.contains(&true));
        drops.then_some(Self { by_type })
    }

    fn is_dropped(&self, fired: u32, qtype: u16) -> bool {
        let own = self.by_type.iter().find(|(code, _)| *code == qtype).or(self.by_type.last());
        own.and_then(|(_, dropped)| dropped.get(fired as usize)).copied().unwrap_or(false)
    }
}

/// The same for all owners.
#[derive(Debug, Default)]
pub struct Drops {
    by_owner: Vec<Option<Arc<OwnerDrops>>>,
    /// By the first number of an owner's answers to a type.
    by_base: HashMap<u32, Arc<OwnerDrops>>,
}

impl Drops {
    /// Reads the policies of a model.
    pub fn of(model: &Model, owners: &Owners, numbering: &Numbering, classes: &Classes) -> Self {
        let mut out = Self::default();
        if !model.policies.iter().any(|p| model.actions[p.action.index()].kind == DnsActionKind::Drop) {
            return out;
        }
        // Owners differ in their backup addresses, too.
        let mut known: BTreeMap<(u32, &[u64]), Option<Arc<OwnerDrops>>> = BTreeMap::new();
        for (i, owner) in owners.list.iter().enumerate() {
            let entry = known.entry((owner.vserver.0, &*owner.names));
            let drops = entry.or_insert_with(|| OwnerDrops::of(model, classes, owner).map(Arc::new)).clone();
            if let Some(drops) = &drops {
                let id = OwnerId(i as u32);
                let sides = SIDES.into_iter().chain(WORKER_SIDES).filter_map(|t| numbering.side(id, t));
                out.by_base.extend(sides.map(|side| (side.base, drops.clone())));
            }
            out.by_owner.push(drops);
        }
        out
    }

    /// True if a query for a type that the owner has nothing of may be dropped: workers answer those then.
    pub fn concern(&self, owner: OwnerId) -> bool {
        self.by_owner.get(owner.index()).is_some_and(Option::is_some)
    }

    /// True if a query for a type that nobody has at a name is dropped. `base`: a number where answers of an owner begin.
    pub fn is_dropped(&self, base: u32, classes: &Classes, source: IpAddr, qtype: u16) -> bool {
        let Some(drops) = self.by_base.get(&base) else { return false };
        let class = usize::from(classes.class_of(source));
        classes.signatures.get(class).is_some_and(|signature| drops.is_dropped(signature.fired, qtype))
    }

    /// True if nothing is ever dropped.
    pub fn is_empty(&self) -> bool {
        self.by_base.is_empty()
    }
}
