//! From decisions to what stands in the maps. Pure: numbers and octets, no memory of anybody else's.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`class`] | policies and locations | the partition of client addresses |
//! | [`session`] | virtual servers that keep sessions | rules of sessions |
//! | [`number`] | owners and classes | numbers of reference words |
//! | [`soa`] | zones | starts of authority in pieces |
//! | [`name`] | domains | entries of the name table |
//! | [`answer`] | decisions | answer sets |

pub mod answer;
pub mod class;
pub mod name;
pub mod number;
pub mod session;
pub mod soa;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use answer::{Column, Deferred, Sticks, column, placeholder};
use class::{ClassError, Classes, drops::Drops, subnet::Deciders};
use name::{Names, StaticTypes};
use number::{NumberError, Numbering};
use responder_common::layout;
use session::{Keeping, SessionError};

use crate::{
    decide::{OwnerId, Owners, Question, Snapshot, answer_without_steps, session::hold},
    model::{DnsName, Model, RecordType},
};

/// Why a configuration cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Too many client classes.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// Too many services for sessions.
    #[error(transparent)]
    Sessions(#[from] SessionError),
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
    /// Whose address decides where a query brings a client subnet.
    pub deciders: Arc<Deciders>,
    /// Which queries are dropped for types that a name lacks.
    pub drops: Arc<Drops>,
    /// How each owner keeps sessions; None: it keeps none.
    pub keeping: Arc<[Option<Keeping>]>,
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

/// What stands in the table for each answer of one owner and type ([`number::Side::number`]); None while undecided.
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
        let keeping: Arc<[_]> = session::rules(&model, &owners)?.into();
        let numbering = Numbering::of(&model, &owners, &classes, &keeping)?;
        let deciders = Deciders::of(&model, &owners, &numbering, &classes);
        let drops = Drops::of(&model, &owners, &numbering, &classes);
        let (names, complete) =
            Names::of(&model, &owners, &numbering, &deciders, &drops, static_types, existing);
        let mut soas = vec![soa::own_apex(true), soa::own_apex(false)];
        for (i, zone) in model.zones.iter().enumerate() {
            soas.push(soa::soa(&zone.apex, &soa_of(i).unwrap_or_else(|| zone.soa.clone())));
        }
        let fingerprint = fingerprint(&model, &owners, &classes, &keeping, &numbering, &soas);
        let (classes, deciders, drops) = (Arc::new(classes), Arc::new(deciders), Arc::new(drops));
        Ok(Self {
            model,
            owners,
            classes,
            deciders,
            drops,
            keeping,
            numbering,
            names,
            complete,
            soas,
            fingerprint,
        })
    }

    /// Decides all columns of one owner and type, each decision once.
    pub fn columns(&self, snapshot: &Snapshot, owner: OwnerId, rtype: RecordType) -> Side {
        let mut out = Side::default();
        let Some(side) = self.numbering.side(owner, rtype) else { return out };
        let keeping = self.keeping[owner.index()].as_ref();
        let owner = self.owners.owner(owner);
        for class in 0..side.columns {
            let client = self.classes.client(&self.model, class as u16);
            for choice in 0..=side.choices {
                let session = choice.checked_sub(1).and_then(|at| keeping?.choices.get(at as usize).copied());
                let question = Question { owner, rtype, client: &client, session };
                let decision = answer_without_steps(&self.model, snapshot, &question);
                let number = side.number(class, choice);
                let (set, deferred) = match column(&decision, rtype, &Sticks::of(&decision, keeping)) {
                    Column::Undecided => {
                        out.is_undecided = true;
                        (None, None)
                    }
                    Column::Set(mut set) => {
                        set.hold =
                            session.map_or(0, |session| hold(&self.model, snapshot, owner, rtype, session));
                        (Some(set), None)
                    }
                    Column::Deferred(deferred) => (Some(placeholder(&deferred)), Some(deferred)),
                };
                out.deferred.extend(deferred.map(|deferred| (number, deferred)));
                if rtype.is_address() {
                    out.columns.push(set);
                }
            }
        }
        out
    }
}

fn fingerprint(
    model: &Model,
    owners: &Owners,
    classes: &Classes,
    keeping: &[Option<Keeping>],
    numbering: &Numbering,
    soas: &[layout::Soa],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (i, owner) in owners.list.iter().enumerate() {
        model.vserver(owner.vserver).name.hash(&mut hasher);
        owner.backup_ip.hash(&mut hasher);
        for rtype in number::SIDES.into_iter().chain(number::WORKER_SIDES) {
            numbering.side(OwnerId(i as u32), rtype).hash(&mut hasher);
        }
    }
    for keeping in keeping.iter().flatten() {
        bytemuck::bytes_of(&*keeping.rule).hash(&mut hasher);
    }
    classes.v4.hash(&mut hasher);
    classes.v6.hash(&mut hasher);
    for soa in soas {
        bytemuck::bytes_of(soa).hash(&mut hasher);
    }
    hasher.finish()
}
