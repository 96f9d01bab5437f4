//! Slots and words: how names and answers get into memory that others are reading.

#![expect(unsafe_code, reason = "writes slots that no reader can reach")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytemuck::Zeroable;
use responder_common::{
    class,
    layout::{
        AnswerSet, Bucket, Control, NEAR_WORDS, NameEntry, NameTail, SLOT_MASK, Soa, WAYS, reference,
        reference_slot,
    },
    limit::{self, LINES},
    limits::FAST_NAME_WORDS,
    lookup::{fingerprint, places},
    name::{FoldedName, HashKey},
    session::Rule,
};

use super::{
    PublishError,
    grace::{Reclaimer, Retired},
    region::Region,
    sessions::Sessions,
};
use crate::compile::class::Classes;

/// Sessions that are kept at once: 40 MiB. The one that was not used for longest goes first.
pub const SESSIONS: u32 = 1 << 18;

/// How large the maps of a world are, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Power of two, at least 4.
    pub buckets: u32,
    /// Slots of NAMES and of NAME_TAILS; slot 0 is never used.
    pub names: u32,
    /// Reference words.
    pub references: u32,
    /// Slots of ANSWERS; slot 0 is never used.
    pub answers: u32,
    /// Slots of SOAS.
    pub soas: u32,
    /// Elements of the IPv4 class table: all of it, or 1 when nothing depends on the client.
    pub class4: u32,
    /// Elements of split /24s.
    pub class4_split: u32,
    /// Elements of the IPv4 scope table: all of it, or 1 where no scope depends on the address.
    pub scope4: u32,
    /// Elements of the scopes of split /24s.
    pub scope4_split: u32,
    /// Slots of RULES; slot 0 is never used.
    pub rules: u32,
    /// Elements of SESSIONS; 1 where no sessions are kept.
    pub sessions: u32,
}

/// What a world has to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Names.
    pub names: usize,
    /// Reference words.
    pub references: usize,
    /// Answer sets.
    pub answers: usize,
    /// Starts of authority.
    pub soas: usize,
    /// Client classes.
    pub classes: usize,
    /// Split /24s.
    pub splits: usize,
    /// ECS scopes depend on the address.
    pub has_scopes: bool,
    /// Rules of sessions.
    pub rules: usize,
}

impl Sizes {
    /// Room for these contents, with room to grow and to replace.
    pub fn for_contents(contents: &Contents) -> Self {
        let Contents { names, references, answers, soas, classes, splits, has_scopes, rules } = *contents;
        let spare = |n: usize| n + n / 4 + 64;
        // Half full at most: then a bucket and its three neighbours overflow for one name in many millions.
        let buckets = (spare(names) * 2).div_ceil(WAYS).next_power_of_two().max(4);
        Self {
            buckets: buckets as u32,
            names: spare(names) as u32,
            references: spare(references) as u32,
            answers: (spare(answers) + answers) as u32,
            soas: spare(soas) as u32,
            class4: if classes > 1 { class::DIRECT_ELEMENTS } else { 1 },
            class4_split: (splits as u32 * class::SPLIT_ELEMENTS).max(1),
            scope4: if has_scopes && classes > 1 { class::SCOPE_ELEMENTS } else { 1 },
            scope4_split: if has_scopes { (splits as u32 * class::SPLIT_SCOPE_ELEMENTS).max(1) } else { 1 },
            rules: rules as u32 + 1,
            sessions: if rules > 0 { SESSIONS } else { 1 },
        }
    }
}

impl Sizes {
    /// True where scopes depend on the address.
    pub fn has_scopes(&self) -> bool {
        self.scope4 > 1
    }

    /// Prefixes of SCOPE6.
    pub fn scope6(&self, classes: &Classes) -> u32 {
        if self.has_scopes() { classes.v6_scopes().count().max(1) as u32 } else { 1 }
    }
}

/// The memory of one world.
pub struct Memory {
    /// One element.
    pub control: Region<Control>,
    /// Name table.
    pub buckets: Region<Bucket>,
    /// Names.
    pub names: Region<NameEntry>,
    /// The ends of long names.
    pub tails: Region<NameTail>,
    /// Reference words.
    pub references: Region<u64>,
    /// Answer sets.
    pub answers: Region<AnswerSet>,
    /// Starts of authority.
    pub soas: Region<Soa>,
    /// Client classes of IPv4.
    pub class4: Region<u64>,
    /// Client classes of split /24s.
    pub class4_split: Region<u64>,
    /// ECS scopes of IPv4.
    pub scope4: Region<u64>,
    /// ECS scopes of split /24s.
    pub scope4_split: Region<u64>,
    /// How sessions are kept.
    pub rules: Region<Rule>,
    /// Sessions of clients. Not written here but by both lanes.
    pub sessions: Arc<Sessions>,
    /// What client networks may still get. Not written here but by both lanes.
    pub limits: Arc<Region<limit::Line>>,
}

impl Memory {
    /// Plain memory of this process: without XDP.
    pub fn plain(sizes: &Sizes) -> Result<Self, PublishError> {
        Ok(Self {
            control: Region::plain("CONTROL", 1)?,
            buckets: Region::plain("BUCKETS", sizes.buckets)?,
            names: Region::plain("NAMES", sizes.names)?,
            tails: Region::plain("NAME_TAILS", sizes.names)?,
            references: Region::plain("REFERENCES", sizes.references)?,
            answers: Region::plain("ANSWERS", sizes.answers)?,
            soas: Region::plain("SOAS", sizes.soas)?,
            class4: Region::plain("CLASS4", sizes.class4)?,
            class4_split: Region::plain("CLASS4_SPLIT", sizes.class4_split)?,
            scope4: Region::plain("SCOPE4", sizes.scope4)?,
            scope4_split: Region::plain("SCOPE4_SPLIT", sizes.scope4_split)?,
            rules: Region::plain("RULES", sizes.rules)?,
            sessions: Arc::new(Sessions::plain(sizes.sessions)),
            limits: Arc::new(Region::plain("LIMITS", LINES)?),
        })
    }

    /// A word of the control element, by its offset in octets.
    pub fn control_word(&self, offset: usize) -> &AtomicU64 {
        self.control.word(0, offset / 8).expect("offsets of Control lie in Control")
    }

    /// A copy of the control words, for what does not change while the world lives.
    pub fn control_copy(&self) -> Control {
        let mut copy = Control::zeroed();
        let words = bytemuck::cast_slice_mut::<Control, u64>(std::slice::from_mut(&mut copy));
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.control_word(i * 8).load(Ordering::Acquire);
        }
        copy
    }
}

/// Free slots of one map.
#[derive(Debug)]
struct Slots {
    capacity: u32,
    /// A bit for each slot that is in use or waits for its readers. Slot 0 always is.
    used: Vec<u64>,
    free: u32,
    /// Where the search for a free one begins.
    next: u32,
}

impl Slots {
    fn empty(capacity: u32) -> Self {
        let mut used = vec![0; (capacity as usize).div_ceil(64).max(1)];
        used[0] = 1;
        Self { capacity, used, free: capacity.saturating_sub(1), next: 1 }
    }

    /// Everything but these, which are in use.
    fn around(capacity: u32, used: impl IntoIterator<Item = u32>) -> Self {
        let mut out = Self::empty(capacity);
        for slot in used {
            out.take_this(slot);
        }
        out
    }

    /// This slot, if it is free.
    fn take_this(&mut self, slot: u32) -> Option<u32> {
        let word = self.used.get_mut(slot as usize / 64).filter(|_| slot < self.capacity)?;
        let bit = 1 << (slot % 64);
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        self.free -= 1;
        Some(slot)
    }

    /// Any free slot.
    fn take(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let words = self.used.len() as u32;
        let first = self.next / 64;
        (0..=words)
            .map(|i| (first + i) % words)
            .find_map(|word| {
                let slot = word * 64 + self.used[word as usize].trailing_ones();
                (!self.used[word as usize] != 0 && slot < self.capacity).then_some(slot)
            })
            .and_then(|slot| {
                self.next = slot;
                self.take_this(slot)
            })
    }

    fn give_back(&mut self, slot: u32) {
        if let Some(word) = self.used.get_mut(slot as usize / 64) {
            self.free += u32::from(*word & (1 << (slot % 64)) != 0);
            *word &= !(1 << (slot % 64));
        }
    }
}

/// When a retired slot may be written again. Anything but `AfterGrace` exists to show that the proof can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// After every reader is done.
    AfterGrace,
    /// At once: wrong.
    AtOnce,
}

/// Bucket and way of a name's word.
type Place = (u32, usize);

/// The writer's view of a world's memory.
pub struct Table {
    memory: Arc<Memory>,
    key: HashKey,
    bucket_mask: u32,
    names: Slots,
    answers: Slots,
    /// How many reference words lead to each answer slot.
    holders: Vec<u32>,
    retired: Retired,
    reclaimer: Reclaimer,
    reuse: Reuse,
    stalls: u64,
}

impl Table {
    /// An empty table over fresh memory.
    pub fn empty(memory: Arc<Memory>, reclaimer: Reclaimer) -> Self {
        let control = memory.control_copy();
        Self {
            key: control.key(),
            bucket_mask: control.bucket_mask,
            names: Slots::empty(memory.names.len()),
            answers: Slots::empty(memory.answers.len()),
            holders: vec![0; memory.answers.len() as usize],
            retired: Retired::default(),
            reclaimer,
            reuse: Reuse::AfterGrace,
            stalls: 0,
            memory,
        }
    }

    /// A table that somebody else wrote: the free lists are what no live word leads to. The caller has waited out the
    /// readers of slots that the former writer had retired. `rules` are the words that lead to no answers, ascending.
    pub fn adopt(memory: Arc<Memory>, reclaimer: Reclaimer, rules: &[u32]) -> Self {
        let mut table = Self::empty(memory, reclaimer);
        let used_names: Vec<u32> = table.live_names().map(|(_, slot)| slot).collect();
        table.names = Slots::around(table.memory.names.len(), used_names);
        let mut used_answers = Vec::new();
        let answers = 0..table.memory.references.len();
        for index in answers.filter(|index| rules.binary_search(index).is_err()) {
            let word = table.reference(index);
            if word != 0 {
                let slot = reference_slot(word);
                used_answers.push(slot);
                if let Some(holders) = table.holders.get_mut(slot as usize) {
                    *holders += 1;
                }
            }
        }
        table.answers = Slots::around(table.memory.answers.len(), used_answers);
        table
    }

    /// For the proof only.
    #[doc(hidden)]
    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The key of the hash.
    pub fn key(&self) -> HashKey {
        self.key
    }

    /// How often the writer had to wait for a free slot.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Every live name: its word and its slot.
    pub fn live_names(&self) -> impl Iterator<Item = (&AtomicU64, u32)> {
        (0..self.memory.buckets.len())
            .filter_map(|bucket| self.memory.buckets.words(bucket))
            .flatten()
            .map(|word| (word, (word.load(Ordering::Acquire) & SLOT_MASK) as u32))
            .filter(|(_, slot)| *slot != 0)
    }

    fn find(&self, name: &FoldedName<FAST_NAME_WORDS>) -> Option<(Place, u32)> {
        places(name.hash, self.bucket_mask).find_map(|place| {
            let value = self.word(place)?.load(Ordering::Acquire);
            let slot = (value & SLOT_MASK) as u32;
            let same = slot != 0
                && value & !SLOT_MASK == fingerprint(name.hash)
                && usize::from(self.memory.names.get(slot)?.name_len) == name.len
                && self.name_words(slot)? == name.words;
            same.then_some((place, slot))
        })
    }

    fn word(&self, (bucket, way): Place) -> Option<&AtomicU64> {
        self.memory.buckets.word(bucket, way)
    }

    /// The words of the name in a slot.
    fn name_words(&self, slot: u32) -> Option<[u64; FAST_NAME_WORDS]> {
        let entry = self.memory.names.get(slot)?;
        let mut words = [0; FAST_NAME_WORDS];
        words[..NEAR_WORDS].copy_from_slice(&entry.name);
        if usize::from(entry.name_len) > NEAR_WORDS * 8 {
            words[NEAR_WORDS..].copy_from_slice(&self.memory.tails.get(slot)?.words);
        }
        Some(words)
    }

    /// A free word for a name. None, too, if another name of its lines has its fingerprint: readers look at one entry.
    fn free_place(&self, hash: u64) -> Option<Place> {
        let wanted = fingerprint(hash);
        let mut free = None;
        for place in places(hash, self.bucket_mask) {
            let word = self.word(place)?.load(Ordering::Relaxed);
            if word & SLOT_MASK == 0 {
                free = free.or(Some(place));
            } else if word & !SLOT_MASK == wanted {
                return None;
            }
        }
        free
    }

    /// The entry of a name in wire format; None if it is not there or longer than the table holds.
    pub fn entry(&self, wire: &[u8]) -> Option<&NameEntry> {
        let name = FoldedName::from_wire(wire, self.key)?;
        self.find(&name).and_then(|(_, slot)| self.memory.names.get(slot))
    }

    /// Every live name in wire format.
    pub fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        self.live_names().filter_map(|(_, slot)| {
            let len = usize::from(self.memory.names.get(slot)?.name_len);
            let words = self.name_words(slot)?;
            bytemuck::bytes_of(&words).get(..len).map(<[u8]>::to_vec)
        })
    }

    /// Puts a name in, or replaces what is said of it. `entry.name` and `entry.name_len` are filled in here. Returns
    /// true if anything changed. Inserting never moves or hides another name.
    pub fn put_name(&mut self, wire: &[u8], mut entry: NameEntry) -> Result<bool, PublishError> {
        let no_place = |table: &Self| PublishError::NoPlace {
            name: crate::model::DnsName::from_wire(wire).map_or_else(String::new, |name| name.to_string()),
            buckets: table.memory.buckets.len(),
        };
        let Some(name) = FoldedName::<FAST_NAME_WORDS>::from_wire(wire, self.key) else {
            return Err(no_place(self));
        };
        let (near, tail) = name.words.split_at(NEAR_WORDS);
        entry.name.copy_from_slice(near);
        entry.name_len = name.len as u8;
        let old = self.find(&name);
        if old.is_some_and(|(_, slot)| self.memory.names.get(slot) == Some(&entry)) {
            return Ok(false);
        }
        let place = old.map(|(place, _)| place).or_else(|| self.free_place(name.hash));
        let place = place.ok_or_else(|| no_place(self))?;
        let slot = self.take_slot(Kind::Name)?;
        // SAFETY: the slot is free: never used, or given back after the readers were done.
        unsafe {
            self.memory.names.write(slot, &entry);
            if name.len > NEAR_WORDS * 8 {
                let mut words = NameTail::zeroed();
                words.words.copy_from_slice(tail);
                self.memory.tails.write(slot, &words);
            }
        }
        if let Some(word) = self.word(place) {
            word.store(fingerprint(name.hash) | u64::from(slot), Ordering::Release);
        }
        if let Some((_, old)) = old {
            self.give_back(Kind::Name, old);
        }
        Ok(true)
    }

    /// Takes a name out. True if it was there.
    pub fn remove_name(&mut self, wire: &[u8]) -> bool {
        let Some(name) = FoldedName::<FAST_NAME_WORDS>::from_wire(wire, self.key) else { return false };
        let Some((place, slot)) = self.find(&name) else { return false };
        if let Some(word) = self.word(place) {
            word.store(0, Ordering::Release);
        }
        self.give_back(Kind::Name, slot);
        true
    }

    /// A reference word.
    pub fn reference(&self, index: u32) -> u64 {
        self.memory.references.word(index, 0).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The answer set that a reference leads to.
    pub fn answer(&self, index: u32) -> Option<&AnswerSet> {
        match self.reference(index) {
            0 => None,
            word => self.memory.answers.get(reference_slot(word)),
        }
    }

    /// Writes a set into a fresh slot that no word leads to yet.
    pub fn stage_answer(&mut self, set: &AnswerSet) -> Result<u32, PublishError> {
        let slot = self.take_slot(Kind::Answer)?;
        // SAFETY: the slot is free: never used, or given back after the readers were done.
        unsafe { self.memory.answers.write(slot, set) };
        Ok(slot)
    }

    /// Lets a reference lead to a slot, with one store; the set that it led to is retired when it was the last.
    pub fn point(&mut self, index: u32, slot: u32) {
        let generation = self.memory.answers.get(slot).map_or(0, |set| set.generation);
        // First, so that a reference that leads there already does not retire the slot.
        self.holders[slot as usize] += 1;
        self.store(index, reference(slot, generation));
    }

    /// Takes the answer of a reference away: undecided.
    pub fn clear(&mut self, index: u32) {
        self.store(index, 0);
    }

    fn store(&mut self, index: u32, new: u64) {
        let Some(word) = self.memory.references.word(index, 0) else { return };
        let old = word.swap(new, Ordering::AcqRel);
        if old != 0 {
            let slot = reference_slot(old);
            let holders = &mut self.holders[slot as usize];
            *holders -= 1;
            if *holders == 0 {
                self.give_back(Kind::Answer, slot);
            }
        }
    }

    fn give_back(&mut self, kind: Kind, slot: u32) {
        let (slots, retired) = match kind {
            Kind::Name => (&mut self.names, &mut self.retired.names),
            Kind::Answer => (&mut self.answers, &mut self.retired.answers),
        };
        match self.reuse {
            Reuse::AfterGrace => retired.push(slot),
            Reuse::AtOnce => slots.give_back(slot),
        }
    }

    /// Ends a batch: what was retired starts its wait, what has waited is free again.
    pub fn end_batch(&mut self) {
        self.reclaimer.retire(std::mem::take(&mut self.retired));
        while let Some(back) = self.reclaimer.collect() {
            self.refill(back);
        }
    }

    fn refill(&mut self, back: Retired) {
        back.names.into_iter().for_each(|slot| self.names.give_back(slot));
        back.answers.into_iter().for_each(|slot| self.answers.give_back(slot));
    }

    /// A free slot; waits for retired ones when there is none, and never reuses one early.
    fn take_slot(&mut self, kind: Kind) -> Result<u32, PublishError> {
        loop {
            let slots = match kind {
                Kind::Name => &mut self.names,
                Kind::Answer => &mut self.answers,
            };
            if let Some(slot) = slots.take() {
                return Ok(slot);
            }
            self.end_batch();
            let freed = match kind {
                Kind::Name => self.names.free > 0,
                Kind::Answer => self.answers.free > 0,
            };
            if freed {
                continue;
            }
            self.stalls += 1;
            match self.reclaimer.collect_blocking() {
                Some(back) => self.refill(back),
                None => return Err(self.full(kind)),
            }
        }
    }

    fn full(&self, kind: Kind) -> PublishError {
        match kind {
            Kind::Name => PublishError::Full { name: "NAMES", capacity: self.names.capacity - 1 },
            Kind::Answer => PublishError::Full { name: "ANSWERS", capacity: self.answers.capacity - 1 },
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Name,
    Answer,
}
