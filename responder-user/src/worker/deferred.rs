//! Answers that no answer set can say: the program passes the query, and a worker answers from here.
//!
//! The table has one place for every number of [`crate::compile::number`]. A place is replaced as a whole, before the
//! reference that leads to it; it is never emptied, because a reader may still be on its way to it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use arc_swap::{ArcSwapOption, Guard};
use responder_common::layout::{NameEntry, REFERENCE_WORKER};

use crate::compile::{
    Compiled,
    answer::Deferred,
    class::{Classes, drops::Drops, subnet::Deciders},
    name::RecordNames,
};

/// All places of one plan.
#[derive(Debug, Default)]
pub struct DeferredTable(Box<[ArcSwapOption<Slot>]>);

/// An answer with its turns.
#[derive(Debug)]
pub struct Slot {
    /// The answer.
    pub deferred: Arc<Deferred>,
    turn: AtomicU32,
}

impl DeferredTable {
    /// Empty places.
    pub fn new(count: u32) -> Self {
        Self((0..count).map(|_| ArcSwapOption::empty()).collect())
    }

    /// What stands at a place.
    pub fn get(&self, number: u32) -> Option<Guard<Option<Arc<Slot>>>> {
        self.0.get(number as usize).map(ArcSwapOption::load)
    }

    /// Puts an answer into a place. True if it is another one than before; an equal one goes on with its turns.
    pub fn put(&self, number: u32, deferred: &Arc<Deferred>) -> bool {
        let Some(place) = self.0.get(number as usize) else { return false };
        if place.load().as_ref().is_some_and(|slot| slot.deferred == *deferred) {
            return false;
        }
        place.store(Some(Arc::new(Slot { deferred: deferred.clone(), turn: AtomicU32::new(0) })));
        true
    }

    /// The places of another table, where numbers mean the same.
    pub fn take_over(&self, before: &Self) {
        for (place, old) in self.0.iter().zip(&before.0) {
            place.store(old.load_full());
        }
    }
}

impl Slot {
    /// The next turn; `aside` does not take it.
    pub fn turn(&self, aside: bool) -> u32 {
        if aside { self.turn.load(Ordering::Relaxed) } else { self.turn.fetch_add(1, Ordering::Relaxed) }
    }
}

/// What workers know of GSLB names beside the table.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Answers by number.
    pub table: Arc<DeferredTable>,
    /// Names with records that are no addresses, by folded name.
    pub records: Arc<HashMap<Box<[u8]>, RecordNames>>,
    /// Whose address decides where a query brings a client subnet, and the classes of both.
    pub deciders: Arc<Deciders>,
    /// Which queries are dropped for types that a name lacks.
    pub drops: Arc<Drops>,
    /// See `deciders` and `drops`.
    pub classes: Option<Arc<Classes>>,
    /// For `explain`: no turn is taken.
    pub aside: bool,
}

impl Beside {
    /// What a configuration says, with the places of its answers.
    pub fn of(compiled: &Compiled, table: Arc<DeferredTable>) -> Self {
        let records = compiled.names.records.iter().map(|(name, records)| (name.wire().into(), *records));
        Self {
            table,
            records: Arc::new(records.collect()),
            deciders: compiled.deciders.clone(),
            drops: compiled.drops.clone(),
            classes: Some(compiled.classes.clone()),
            aside: false,
        }
    }

    /// True if a policy drops a query for a type that nobody has at a GSLB name.
    pub fn drops(&self, name: &[u8], entry: &NameEntry, qtype: u16, source: IpAddr) -> bool {
        let Some(classes) = self.classes.as_ref().filter(|_| !self.drops.is_empty()) else { return false };
        let records = self.records.get(name).into_iter().flat_map(|records| [records.cname, records.naptr]);
        let addresses = entry.references.into_iter().filter(|base| *base < REFERENCE_WORKER);
        let mut bases = addresses.chain(records.flatten().map(|place| place.side.base));
        bases.any(|base| self.drops.is_dropped(base, classes, source, qtype))
    }
}
