//! Numbers of references: which words of the table belong to which owner, type and class.

use super::class::{Classes, classed};
use crate::{
    decide::{Owner, OwnerId, Owners},
    model::{Model, RecordType},
};

/// The types that the packet path answers, in the order of `NameEntry::references`.
pub const SIDES: [RecordType; 2] = [RecordType::A, RecordType::Aaaa];

/// The types that workers answer by themselves. Their numbers lie behind those of the reference table.
pub const WORKER_SIDES: [RecordType; 2] = [RecordType::Cname, RecordType::Naptr];

/// Reference words that a world may have: 128 MiB.
pub const LIMIT: usize = 1 << 24;

/// The words of one owner and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// First word.
    pub base: u32,
    /// Words: one, or one for every class.
    pub columns: u32,
}

/// Which words belong to whom. A function of the configuration alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    sides: Vec<[Option<Side>; 2]>,
    worker_sides: Vec<[Option<Side>; 2]>,
    total: u32,
}

/// More (owner, type, class) combinations than words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{owners} owners and {classes} client classes make {references} answers; at most {LIMIT} are possible"
)]
pub struct NumberError {
    /// Owners.
    pub owners: usize,
    /// Classes.
    pub classes: usize,
    /// Words needed.
    pub references: usize,
}

impl Numbering {
    /// Numbers all owners.
    pub fn of(model: &Model, owners: &Owners, classes: &Classes) -> Result<Self, NumberError> {
        let mut next = 0;
        let mut number = |types: [RecordType; 2]| -> Vec<[Option<(usize, usize)>; 2]> {
            let side = |owner: &Owner, rtype: RecordType, next: &mut usize| {
                if !model.vserver(owner.vserver).types.contains(&rtype) {
                    return None;
                }
                let columns = if classed(model, owner, rtype) { classes.count() } else { 1 };
                *next += columns;
                Some((*next - columns, columns))
            };
            owners.list.iter().map(|owner| types.map(|rtype| side(owner, rtype, &mut next))).collect()
        };
        let sides = number(SIDES);
        let total = sides.iter().flatten().flatten().map(|(base, columns)| base + columns).max().unwrap_or(0);
        let worker_sides = number(WORKER_SIDES);
        if next > LIMIT {
            return Err(NumberError {
                owners: owners.list.len(),
                classes: classes.count(),
                references: next,
            });
        }
        let narrow = |(base, columns)| Side { base: base as u32, columns: columns as u32 };
        let narrow = |sides: Vec<[Option<(usize, usize)>; 2]>| -> Vec<[Option<Side>; 2]> {
            sides.into_iter().map(|both| both.map(|side| side.map(narrow))).collect()
        };
        Ok(Self { sides: narrow(sides), worker_sides: narrow(worker_sides), total: total as u32 })
    }

    /// Words of the reference table.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Numbers in all, those of the workers' types included.
    pub fn count(&self) -> u32 {
        let all = self.sides.iter().chain(&self.worker_sides).flatten().flatten();
        all.map(|side| side.base + side.columns).max().unwrap_or(0)
    }

    /// The words of an owner and type; None if it does not answer the type.
    pub fn side(&self, owner: OwnerId, rtype: RecordType) -> Option<Side> {
        let at = |types: [RecordType; 2]| types.iter().position(|side| *side == rtype);
        match (at(SIDES), at(WORKER_SIDES)) {
            (Some(at), _) => self.sides.get(owner.index())?[at],
            (None, at) => self.worker_sides.get(owner.index())?[at?],
        }
    }
}
