//! Numbers of references: which words of the table belong to which owner, type and class.

use super::{
    class::{Classes, classed},
    session::Keeping,
};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// First word.
    pub base: u32,
    /// Columns: one, or one for every class.
    pub columns: u32,
    /// Slot of the rule of sessions, whose word is the first; 0: none are kept.
    pub rule: u32,
    /// Choices of the rule. Each column has one word without a session and one for each choice.
    pub choices: u32,
}

impl Side {
    /// Words in all.
    pub fn words(self) -> u32 {
        self.answers() + u32::from(self.rule != 0)
    }

    /// Words that lead to answers.
    pub fn answers(self) -> u32 {
        self.columns * (self.choices + 1)
    }

    /// The first word that leads to an answer.
    pub fn first(self) -> u32 {
        self.base + u32::from(self.rule != 0)
    }

    /// The word of a class and a choice; choice 0 is no session.
    pub fn number(self, class: u32, choice: u32) -> u32 {
        self.first() + class * (self.choices + 1) + choice
    }
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
    /// Numbers all owners. `rules` has one place for each.
    pub fn of(
        model: &Model,
        owners: &Owners,
        classes: &Classes,
        rules: &[Option<Keeping>],
    ) -> Result<Self, NumberError> {
        let mut next = 0_usize;
        let mut number = |types: [RecordType; 2]| -> Vec<[Option<Side>; 2]> {
            // Slot 0 is never used.
            let mut slots = 1..;
            let mut side = |owner: &Owner, rtype: RecordType, (rule, choices): (u32, u32)| {
                if !model.vserver(owner.vserver).types.contains(&rtype) {
                    return None;
                }
                let columns = if classed(model, owner, rtype) { classes.count() } else { 1 };
                // Counted beyond the limit, too, for the message.
                let base = next.min(LIMIT) as u32;
                next += columns * (choices as usize + 1) + usize::from(rule != 0);
                Some(Side { base, columns: columns as u32, rule, choices })
            };
            let all = owners.list.iter().zip(rules).map(|(owner, rule)| {
                let kept = match rule {
                    Some(keeping) => (slots.next().unwrap_or(0), keeping.choices.len() as u32),
                    None => (0, 0),
                };
                types.map(|rtype| side(owner, rtype, kept))
            });
            all.collect()
        };
        let sides = number(SIDES);
        let worker_sides = number(WORKER_SIDES);
        if next > LIMIT {
            return Err(NumberError {
                owners: owners.list.len(),
                classes: classes.count(),
                references: next,
            });
        }
        Ok(Self { total: end(&sides), sides, worker_sides })
    }

    /// Words of the reference table.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Numbers in all, those of the workers' types included.
    pub fn count(&self) -> u32 {
        self.total.max(end(&self.worker_sides))
    }

    /// The words of an owner and type; None if it does not answer the type.
    pub fn side(&self, owner: OwnerId, rtype: RecordType) -> Option<Side> {
        let at = |types: [RecordType; 2]| types.iter().position(|side| *side == rtype);
        match (at(SIDES), at(WORKER_SIDES)) {
            (Some(at), _) => self.sides.get(owner.index())?[at],
            (None, at) => self.worker_sides.get(owner.index())?[at?],
        }
    }

    /// The words of rules in the reference table, each with its slot.
    pub fn rule_words(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.sides.iter().flatten().flatten();
        all.filter(|side| side.rule != 0).map(|side| (side.base, side.rule))
    }
}

fn end(sides: &[[Option<Side>; 2]]) -> u32 {
    sides.iter().flatten().flatten().map(|side| side.base + side.words()).max().unwrap_or(0)
}
