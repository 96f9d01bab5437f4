//! From decisions to what stands in the maps. Pure: numbers and octets, no memory of anybody else's.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`class`] | policies and locations | the partition of client addresses |
//! | [`number`] | owners and classes | numbers of reference words |
//! | [`soa`] | zones | starts of authority in pieces |
//! | [`name`] | domains | entries of the name table |
//! | [`answer`] | decisions | answer sets |

pub mod answer;
pub mod class;
pub mod name;
pub mod number;
pub mod soa;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use answer::{Column, Deferred, column, placeholder};
use class::{ClassError, Classes};
use name::{Names, StaticTypes};
use number::{NumberError, Numbering};
use responder_common::layout;

use crate::{
    decide::{OwnerId, Owners, Snapshot, decide_without_steps},
    model::{DnsName, Model, RecordType},
};

/// Why a configuration cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Too many client classes.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// Too many answers.
    #[error(transparent)]
    Numbers(#[from] NumberError),
}

/// A configuration in numbers: everything that does not depend on health.
#[derive(Debug)]
pub struct Compiled {
    /// The configuration.
    pub model: Arc<Model>,
    /// Whose answers there are.
    pub owners: Owners,
    /// The partition of clients.
    pub classes: Arc<Classes>,
    /// Which words belong to whom.
    pub numbering: Numbering,
    /// All names.
    pub names: Names,
    /// Slots of zones of which every name is in the table.
    pub complete: Vec<u32>,
    /// Starts of authority by slot.
    pub soas: Vec<layout::Soa>,
    /// Equal if numbers mean the same: owners, classes, zones.
    pub fingerprint: u64,
}

/// What stands in the table for each column of one owner and type; None while undecided.
pub type Columns = Vec<Option<Box<layout::AnswerSet>>>;

/// The answers of one owner and type.
#[derive(Debug, Default)]
pub struct Side {
    /// For the table; empty for types that are in none.
    pub columns: Columns,
    /// For workers alone, by number.
    pub deferred: Vec<(u32, Arc<Deferred>)>,
    /// Some column is not decided.
    pub is_undecided: bool,
}

impl Compiled {
    /// Compiles a model. `static_types` says what the zone data has at a name; `soa_of` overrides the SOA of a zone,
    /// by its index, where a master file brings one; `existing` gives all names that a zone has beside GSLB names,
    /// where names that are not there have no answers.
    pub fn of(
        model: Arc<Model>,
        static_types: &dyn Fn(&DnsName) -> StaticTypes,
        soa_of: &dyn Fn(usize) -> Option<crate::model::zone::Soa>,
        existing: &dyn Fn(usize) -> Option<Vec<DnsName>>,
    ) -> Result<Self, CompileError> {
        let owners = Owners::of(&model);
        let classes = Classes::of(&model)?;
        let numbering = Numbering::of(&model, &owners, &classes)?;
        let (names, complete) = Names::of(&model, &owners, &numbering, static_types, existing);
        let mut soas = vec![soa::own_apex(true), soa::own_apex(false)];
        for (i, zone) in model.zones.iter().enumerate() {
            soas.push(soa::soa(&zone.apex, &soa_of(i).unwrap_or_else(|| zone.soa.clone())));
        }
        let fingerprint = fingerprint(&model, &owners, &classes, &numbering, &soas);
        Ok(Self { model, owners, classes: Arc::new(classes), numbering, names, complete, soas, fingerprint })
    }

    /// Decides all columns of one owner and type, each decision once.
    pub fn columns(&self, snapshot: &Snapshot, owner: OwnerId, rtype: RecordType) -> Side {
        let mut out = Side::default();
        let Some(side) = self.numbering.side(owner, rtype) else { return out };
        for class in 0..side.columns {
            let client = self.classes.client(&self.model, class as u16);
            let owner = self.owners.owner(owner);
            let decision = decide_without_steps(&self.model, snapshot, owner, rtype, &client);
            let number = side.base + class;
            let (set, deferred) = match column(&decision, rtype) {
                Column::Undecided => {
                    out.is_undecided = true;
                    (None, None)
                }
                Column::Set(set) => (Some(set), None),
                Column::Deferred(deferred) => (Some(placeholder(&deferred)), Some(deferred)),
            };
            out.deferred.extend(deferred.map(|deferred| (number, deferred)));
            if rtype.is_address() {
                out.columns.push(set);
            }
        }
        out
    }
}

fn fingerprint(
    model: &Model,
    owners: &Owners,
    classes: &Classes,
    numbering: &Numbering,
    soas: &[layout::Soa],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (i, owner) in owners.list.iter().enumerate() {
        model.vserver(owner.vserver).name.hash(&mut hasher);
        owner.backup_ip.hash(&mut hasher);
        for rtype in number::SIDES.into_iter().chain(number::WORKER_SIDES) {
            numbering.side(OwnerId(i as u32), rtype).map(|side| (side.base, side.columns)).hash(&mut hasher);
        }
    }
    classes.v4.hash(&mut hasher);
    classes.v6.hash(&mut hasher);
    for soa in soas {
        bytemuck::bytes_of(soa).hash(&mut hasher);
    }
    hasher.finish()
}
