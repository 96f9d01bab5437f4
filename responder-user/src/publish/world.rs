//! One world: a set of maps with one numbering of owners and classes, written by one table, read by anyone.

use std::{
    cell::Cell,
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    mem::offset_of,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytemuck::Zeroable;
use responder_common::{
    class,
    client::Client,
    cookie::Secrets,
    counters::Counter,
    edns::{Nsid, Options},
    layout::{
        AnswerSet, Class6Key, Control, Interface, LAYOUT_VERSION, Listen6, NAME_ZONE_DATA, NameEntry,
        NameTail, SLOT_MASK, Soa, WAYS, reference, reference_slot,
    },
    limit,
    limits::{FAST_GIVE, FAST_NAME_WORDS, FAST_SOA_WORDS, MAX_INTERFACES, MAX_LISTEN},
    lookup::{self, Ask, Found},
    name::HashKey,
    parse,
    session::{self, Key, Rule},
    switches::Switches,
};

use super::{
    PublishError,
    grace::Reclaimer,
    interface,
    region::Region,
    sessions::{Looking, Sessions},
    table::{Contents, Memory, Sizes, Table},
};
use crate::{
    compile::{Columns, Compiled, answer::says_same, class::Classes, number::Side},
    model::DnsName,
};

/// What the control words say beside the table itself.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Listening IPv4 addresses.
    pub listen4: [u64; MAX_LISTEN],
    /// Listening IPv6 addresses.
    pub listen6: [Listen6; MAX_LISTEN],
    /// Interfaces.
    pub interfaces: [Interface; MAX_INTERFACES],
    /// Zero: never stale.
    pub max_stale: Duration,
    /// Secrets of server cookies; None: no cookies.
    pub cookies: Option<Secrets>,
    /// The server's identifier.
    pub nsid: Nsid,
    /// Limits; what is watched is [`World::watch`]'s.
    pub limits: Switches,
}

/// A random number for the key of a hash.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // `RandomState` is keyed from the operating system's generator, differently each time.
    RandomState::new().hash_one(std::time::Instant::now())
}

/// The sizes that a configuration needs. `grow` doubles the room, once for each failed try.
pub fn sizes(compiled: &Compiled, grow: u32) -> Sizes {
    let references = compiled.numbering.total() as usize;
    // Sets are shared by the classes of an owner that get the same answer; most owners have few different ones.
    let sides = references.min(compiled.owners.list.len() * 2 * 16);
    Sizes::for_contents(&Contents {
        names: compiled.names.fast.len() << grow,
        references,
        answers: sides,
        soas: compiled.soas.len(),
        classes: compiled.classes.count(),
        splits: compiled.classes.splits(),
        has_scopes: compiled.model.vservers.iter().any(|vserver| vserver.ecs),
        rules: compiled.keeping.iter().flatten().count(),
    })
}

/// The writer's side of a world.
pub struct World {
    table: Table,
    classes: Arc<Classes>,
    generation: u64,
}

impl World {
    /// Fills fresh memory: control words, classes, zones, names. Answers come by [`World::publish`].
    pub fn fill(
        memory: Memory,
        compiled: &Compiled,
        surroundings: &Surroundings,
        reclaimer: Reclaimer,
        generation: u64,
    ) -> Result<Self, PublishError> {
        let memory = Arc::new(memory);
        let control = Control {
            hash_seed: random(),
            hash_multiplier: random() | 1,
            bucket_mask: memory.buckets.len() - 1,
            layout: LAYOUT_VERSION,
            generation,
            heartbeat: 0,
            max_stale: surroundings.max_stale.as_nanos() as u64,
            classes: compiled.classes.count() as u32,
            class6_default: u32::from(compiled.classes.class_of(IpAddr::V6(Ipv6Addr::UNSPECIFIED))),
            switches: surroundings.limits.0,
            listen4: surroundings.listen4,
            interfaces: surroundings.interfaces,
            listen6: surroundings.listen6,
            fingerprint: compiled.fingerprint,
            nsid: surroundings.nsid,
            ..Control::zeroed()
        };
        store_words(memory.control.words(0).unwrap_or_default(), &control);
        for (slot, soa) in compiled.soas.iter().enumerate() {
            store_words(memory.soas.words(slot as u32).unwrap_or_default(), soa);
        }
        for (i, keeping) in compiled.keeping.iter().flatten().enumerate() {
            store_words(memory.rules.words(i as u32 + 1).unwrap_or_default(), &*keeping.rule);
        }
        for (word, slot) in compiled.numbering.rule_words() {
            if let Some(word) = memory.references.word(word, 0) {
                word.store(reference(slot, 0), Ordering::Relaxed);
            }
        }
        if compiled.classes.count() > 1 {
            fill_classes(&memory, &compiled.classes);
        }
        if memory.scope4.len() > 1 {
            fill_scopes(&memory, &compiled.classes);
        }
        let mut table = Table::empty(memory, reclaimer);
        for (name, entry) in &compiled.names.fast {
            table.put_name(name.wire(), *entry)?;
        }
        let mut world = Self { table, classes: compiled.classes.clone(), generation };
        world.complete(&compiled.complete);
        world.set_secrets(surroundings.cookies);
        world.beat();
        Ok(world)
    }

    /// Takes over what another daemon wrote, if it has the same numbering.
    pub fn adopt(memory: Memory, compiled: &Compiled, reclaimer: Reclaimer) -> Option<Self> {
        let memory = Arc::new(memory);
        let control = memory.control_copy();
        if control.layout != LAYOUT_VERSION
            || control.fingerprint != compiled.fingerprint
            || control.bucket_mask != memory.buckets.len() - 1
            || memory.references.len() < compiled.numbering.total()
        {
            return None;
        }
        let mut rules: Vec<u32> = compiled.numbering.rule_words().map(|(word, _)| word).collect();
        rules.sort_unstable();
        let table = Table::adopt(memory, reclaimer, &rules);
        Some(Self { table, classes: compiled.classes.clone(), generation: control.generation })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// For the proof and the benches, which write without decisions.
    #[doc(hidden)]
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Generation of the last publish.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Puts in what a configuration adds, as far as the workers of the one before can live with it: a GSLB name that becomes
    /// a name of zone data stays until [`Self::reconcile_names`], for they do not know its records yet.
    pub fn add_names(&mut self, compiled: &Compiled) -> Result<(), PublishError> {
        self.complete(&[]);
        for (name, entry) in &compiled.names.fast {
            let is_gslb = |entry: &NameEntry| entry.more & NAME_ZONE_DATA == 0;
            if is_gslb(entry) || !self.table.entry(name.wire()).is_some_and(is_gslb) {
                self.table.put_name(name.wire(), *entry)?;
            }
        }
        Ok(())
    }

    /// Makes the names equal to the configuration's. Returns how many were put in or changed, and taken out.
    pub fn reconcile_names(&mut self, compiled: &Compiled) -> Result<(usize, usize), PublishError> {
        let mut put = 0;
        self.complete(&[]);
        for (name, entry) in &compiled.names.fast {
            put += usize::from(self.table.put_name(name.wire(), *entry)?);
        }
        let names = &compiled.names.fast;
        let is_gone = |wire: &[u8]| names.binary_search_by(|(name, _)| name.wire().cmp(wire)).is_err();
        let gone: Vec<Vec<u8>> = self.table.names().filter(|wire| is_gone(wire)).collect();
        let removed = gone.iter().filter(|wire| self.table.remove_name(wire)).count();
        self.complete(&compiled.complete);
        self.table.end_batch();
        Ok((put, removed))
    }

    /// Says which zones are complete; none of the others is.
    fn complete(&self, zones: &[u32]) {
        let soas = &self.table.memory().soas;
        for slot in 0..soas.len() {
            if let Some(word) = soas.word(slot, offset_of!(Soa, complete) / 8) {
                word.store(u64::from(zones.contains(&slot)), Ordering::Release);
            }
        }
    }

    /// Publishes what differs of one owner and type. Returns how many references changed.
    ///
    /// A column that is None keeps what it has: after a restart the old answers hold until checks have spoken.
    pub fn publish(&mut self, side: Side, columns: &Columns, generation: u64) -> Result<usize, PublishError> {
        let mut changed = 0;
        // Classes that get the same new answer share its slot.
        let mut staged: HashMap<u64, Vec<u32>> = HashMap::new();
        for (column, set) in columns.iter().enumerate() {
            let Some(set) = set else { continue };
            let index = side.first() + column as u32;
            if self.table.answer(index).is_some_and(|current| says_same(current, set)) {
                continue;
            }
            let hash = content_hash(set);
            let memory = self.table.memory().clone();
            let same = |slot: &&u32| memory.answers.get(**slot).is_some_and(|other| says_same(other, set));
            let slot = if let Some(slot) = staged.get(&hash).and_then(|list| list.iter().find(same)) {
                *slot
            } else {
                let set = AnswerSet { generation, made_for: side.base, ..**set };
                let slot = self.table.stage_answer(&set)?;
                staged.entry(hash).or_default().push(slot);
                slot
            };
            self.table.point(index, slot);
            changed += 1;
        }
        Ok(changed)
    }

    /// Ends a batch of publishes: the generation is visible, retired slots start their wait.
    pub fn end_batch(&mut self, generation: u64) {
        self.generation = generation;
        self.word(offset_of!(Control, generation)).store(generation, Ordering::Release);
        self.table.end_batch();
    }

    /// A sign of life for `xdp.max_stale`, and the time of day for cookies.
    pub fn beat(&mut self) {
        beat(self.word(offset_of!(Control, heartbeat)));
        let offset = clock(nix::time::ClockId::CLOCK_REALTIME).wrapping_sub(monotonic());
        self.word(offset_of!(Control, utc_offset)).store(offset, Ordering::Release);
    }

    /// Follows addresses, interfaces and the staleness limit. A row that stays keeps its place; one that changes is unused
    /// in between.
    pub fn surround(&mut self, new: &Surroundings) {
        self.limit(new.limits);
        let now = self.table.memory().control_copy();
        self.word(offset_of!(Control, max_stale)).store(new.max_stale.as_nanos() as u64, Ordering::Release);
        self.set_secrets(new.cookies);
        // Emptied first: an identifier is never seen half changed.
        let nsid = offset_of!(Control, nsid);
        if now.nsid != new.nsid {
            self.word(nsid).store(0, Ordering::Release);
            for (i, word) in new.nsid.words.iter().enumerate() {
                self.word(nsid + 8 + i * 8).store(*word, Ordering::Release);
            }
            self.word(nsid).store(new.nsid.len, Ordering::Release);
        }
        for (i, listen) in interface::arrange(&now.listen4, &new.listen4).iter().enumerate() {
            self.word(offset_of!(Control, listen4) + i * 8).store(*listen, Ordering::Release);
        }
        for (i, row) in interface::arrange(&now.listen6, &new.listen6).iter().enumerate() {
            let at = offset_of!(Control, listen6) + i * size_of::<Listen6>();
            self.replace_row(at, &[row.address[0], row.address[1]], row.port, 16);
        }
        for (i, row) in interface::arrange(&now.interfaces, &new.interfaces).iter().enumerate() {
            let at = offset_of!(Control, interfaces) + i * size_of::<Interface>();
            self.replace_row(at + 8, &[row.ifindex], row.mac, usize::MAX - 7);
        }
    }

    /// A new secret goes into the place that is not in force, before the word that says which one is.
    pub fn set_secrets(&self, secrets: Option<Secrets>) {
        let which = self.word(offset_of!(Control, cookies));
        let Some(secrets) = secrets else { return which.store(0, Ordering::Release) };
        let half =
            |slot: usize, half: usize| self.word(offset_of!(Control, cookie_secrets) + slot * 16 + half * 8);
        let put = |slot: usize, secret: [u64; 2]| {
            (0..2).for_each(|i| half(slot, i).store(secret[i], Ordering::Release));
        };
        let is_in = |slot: usize| (0..2).all(|i| half(slot, i).load(Ordering::Acquire) == secrets.current[i]);
        let slot = match which.load(Ordering::Acquire) as usize {
            1 if is_in(0) => 0,
            2 if !is_in(1) => 0,
            0 => 0,
            _ => 1,
        };
        put(slot, secrets.current);
        which.store(slot as u64 + 1, Ordering::Release);
        put(slot ^ 1, secrets.previous);
    }

    /// Follows other limits; what is watched stays.
    pub fn limit(&mut self, limits: Switches) {
        let word = self.word(offset_of!(Control, switches));
        let old = Switches(word.load(Ordering::Acquire));
        word.store(limits.watched(old.samples(), old.times()).0, Ordering::Release);
    }

    /// Samples packets and times runs, or not; the limits stay.
    pub fn watch(&mut self, samples: bool, times: bool) {
        let word = self.word(offset_of!(Control, switches));
        let limits = Switches(word.load(Ordering::Acquire));
        word.store(limits.watched(samples, times).0, Ordering::Release);
    }

    /// What client networks may still get, and the key of their places: for the workers, which share it.
    pub fn buckets(&self) -> (Arc<Region<limit::Line>>, HashKey) {
        let memory = self.table.memory();
        (memory.limits.clone(), memory.control_copy().key())
    }

    /// The sessions of clients, which program and workers share.
    pub fn sessions(&self) -> Arc<Sessions> {
        self.table.memory().sessions.clone()
    }

    /// Rows of several words: the word that marks a row as used is cleared first and stored last. `key_offset` counts
    /// from `at`, wrapping.
    fn replace_row(&self, at: usize, values: &[u64], key: u64, key_offset: usize) {
        let key_word = self.word(at.wrapping_add(key_offset));
        let same = key_word.load(Ordering::Acquire) == key
            && values.iter().enumerate().all(|(i, v)| self.word(at + i * 8).load(Ordering::Acquire) == *v);
        if same {
            return;
        }
        key_word.store(0, Ordering::Release);
        for (i, value) in values.iter().enumerate() {
            self.word(at + i * 8).store(*value, Ordering::Release);
        }
        key_word.store(key, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.table.memory().control_word(offset)
    }

    /// A reader for workers, with rotation counters for so many of them.
    pub fn reader(&self, readers: usize) -> Reader {
        let references = self.table.memory().references.len() as usize;
        let turns = || (0..references).map(|_| AtomicU32::new(0)).collect();
        Reader {
            memory: self.table.memory().clone(),
            control: self.table.memory().control_copy(),
            classes: self.classes.clone(),
            turns: (0..readers.max(1)).map(|_| turns()).collect(),
        }
    }

    /// The IPv6 prefixes of the class trie, as keys and values of the map.
    pub fn class6_rows(classes: &Classes) -> impl Iterator<Item = (u32, [u8; 16], u32)> {
        classes
            .v6
            .iter()
            .filter(|_| classes.count() > 1)
            .map(|(net, class)| (u32::from(net.prefix_len()), net.network().octets(), u32::from(*class)))
    }

    /// As [`Self::class6_rows`], with the ECS scope in the upper half of the value.
    pub fn scope6_rows<'c>(
        classes: &'c Classes,
        sizes: &Sizes,
    ) -> impl Iterator<Item = (u32, [u8; 16], u32)> + use<'c> {
        let has_scopes = sizes.has_scopes();
        classes.v6_scopes().filter(move |_| has_scopes).map(|(at, len, class)| {
            let len = u32::from(len);
            (len, at.octets(), u32::from(class) | (len << 16))
        })
    }

    /// True if the name is in the table.
    pub fn has_name(&self, name: &DnsName) -> bool {
        self.table.entry(name.wire()).is_some()
    }
}

/// Gives a sign of life for a world that is still in force while the next one waits for its answers.
pub fn beat_old(control: &Region<Control>) {
    if let Some(word) = control.word(0, offset_of!(Control, heartbeat) / 8) {
        beat(word);
    }
}

fn beat(word: &AtomicU64) {
    word.store(monotonic(), Ordering::Release);
}

fn monotonic() -> u64 {
    clock(nix::time::ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of a clock. These clocks exist on every Linux.
fn clock(id: nix::time::ClockId) -> u64 {
    nix::time::clock_gettime(id).map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// The secrets of cookies as they are now: they change while readers live.
fn secrets_of(memory: &Memory) -> Option<Secrets> {
    let which = memory.control_word(offset_of!(Control, cookies)).load(Ordering::Acquire) as usize;
    let half = |slot: usize, half: usize| {
        let at = offset_of!(Control, cookie_secrets) + (slot & 1) * 16 + half * 8;
        memory.control_word(at).load(Ordering::Acquire)
    };
    let secret = |slot: usize| [half(slot, 0), half(slot, 1)];
    (which != 0).then(|| Secrets { current: secret(which - 1), previous: secret(which) })
}

fn content_hash(set: &AnswerSet) -> u64 {
    let mut hasher = DefaultHasher::new();
    let plain = AnswerSet { generation: 0, made_for: 0, ..*set };
    bytemuck::bytes_of(&plain).hash(&mut hasher);
    hasher.finish()
}

fn store_words<T: bytemuck::Pod>(words: &[AtomicU64], value: &T) {
    let octets = bytemuck::bytes_of(value);
    for (word, octets) in words.iter().zip(octets.chunks_exact(8)) {
        word.store(u64::from_ne_bytes(octets.try_into().unwrap_or_default()), Ordering::Release);
    }
}

/// Fills the DIR-24-8 table. It is new: nobody reads it yet, and all of it says class 0, which most clients are of.
fn fill_classes(memory: &Memory, classes: &Classes) {
    let set = |region: &Region<u64>, element: u32, lane: u32, number: u32| {
        if let Some(word) = region.word(element, 0) {
            let shift = lane * 16;
            let old = word.load(Ordering::Relaxed) & !(0xffff << shift);
            word.store(old | (u64::from(number) << shift), Ordering::Relaxed);
        }
    };
    let count = classes.count() as u32;
    let mut split = 0;
    let mut open: Option<u32> = None;
    for (first, last, class) in &classes.v4 {
        let (mut at, last, class) = (first.to_bits(), last.to_bits(), u32::from(*class));
        loop {
            let block = at >> 8;
            let mut end = last.min((block << 8) | 0xff);
            let (element, lane) = class::direct_place(at);
            let is_whole = at.trailing_zeros() >= 8 && end.trailing_ones() >= 8;
            if is_whole && class == 0 {
                // To the end of the last whole block.
                end = if last.trailing_ones() >= 8 { last } else { (last & !0xff) - 1 };
            } else if is_whole {
                set(&memory.class4, element, lane, class);
            } else {
                if open != Some(block) {
                    open = Some(block);
                    set(&memory.class4, element, lane, count + split);
                    split += 1;
                }
                for address in at..=end {
                    let (element, lane) = class::split_place(split - 1, address);
                    set(&memory.class4_split, element, lane, class);
                }
            }
            match end.checked_add(1) {
                Some(next) if end < last => at = next,
                _ => break,
            }
        }
    }
}

/// Fills the scopes. Which /24s are split, and with which number, stands in the class table. Nobody reads yet.
fn fill_scopes(memory: &Memory, classes: &Classes) {
    let set = |region: &Region<u64>, (element, lane): (u32, u32), scope: u8| {
        if let Some(word) = region.word(element, 0) {
            let old = word.load(Ordering::Relaxed) & !(0xff << (lane * 8));
            word.store(old | (u64::from(scope) << (lane * 8)), Ordering::Relaxed);
        }
    };
    let count = classes.count() as u32;
    for (at, len) in classes.v4_scopes() {
        let at = at.to_bits();
        if len <= 24 {
            let last = u64::from(at) + (1 << (32 - len));
            for cell in (u64::from(at)..last).step_by(256) {
                set(&memory.scope4, class::scope_place(cell as u32), len);
            }
            continue;
        }
        let (element, lane) = class::direct_place(at);
        let number =
            memory.class4.word(element, 0).map_or(0, |w| class::lane(w.load(Ordering::Relaxed), lane));
        let Some(block) = number.checked_sub(count) else { continue };
        for address in at..=(at | ((1_u32 << (32 - len)) - 1)) {
            set(&memory.scope4_split, class::split_scope_place(block, address), len);
        }
    }
}

thread_local! {
    static READER: Cell<usize> = const { Cell::new(0) };
}

/// Tells [`Reader::turn`] whose thread this is: 0 for the first worker.
pub fn set_reader(index: usize) {
    READER.set(index);
}

/// The number of this thread: see [`set_reader`].
pub(super) fn reader_index() -> usize {
    READER.get()
}

/// A world as seen by somebody who only looks: rotation stands still.
pub struct Aside<'w>(&'w Reader);

impl Aside<'_> {
    /// What the XDP program would do with a query: the counter that it would raise.
    pub fn verdict(&self, query_octets: &[u8], client: IpAddr) -> Counter {
        let client = match client.to_canonical() {
            IpAddr::V4(address) => Client::V4(address.to_bits()),
            IpAddr::V6(address) => Client::V6(address.octets()),
        };
        let answer = parse::parse::<[u8], FAST_NAME_WORDS>(query_octets, self.0.control.key()).and_then(
            |mut query| {
                lookup::answer::<_, FAST_NAME_WORDS, FAST_GIVE, FAST_SOA_WORDS>(
                    self,
                    query_octets,
                    &mut query,
                    client,
                )
                .map(|answer| answer.counter())
            },
        );
        answer.unwrap_or_else(|reason| reason)
    }
}

impl lookup::World for Aside<'_> {
    type Line = u32;

    fn control(&self) -> &Control {
        self.0.control()
    }

    fn line(&self, bucket: u32) -> Option<u32> {
        self.0.line(bucket)
    }

    fn way(&self, line: u32, way: usize) -> u64 {
        self.0.way(line, way)
    }

    fn entry(&self, slot: u32) -> Option<&NameEntry> {
        self.0.entry(slot)
    }

    fn tail(&self, slot: u32) -> Option<&NameTail> {
        self.0.tail(slot)
    }

    fn reference(&self, index: u32) -> Option<u64> {
        self.0.reference(index)
    }

    fn set(&self, slot: u32) -> Option<&AnswerSet> {
        self.0.set(slot)
    }

    fn soa(&self, slot: u32) -> Option<&Soa> {
        self.0.soa(slot)
    }

    fn is_complete(&self, slot: u32) -> bool {
        self.0.is_complete(slot)
    }

    fn class_direct(&self, element: u32) -> Option<u64> {
        self.0.class_direct(element)
    }

    fn class_split(&self, element: u32) -> Option<u64> {
        self.0.class_split(element)
    }

    fn class6(&self, key: &Class6Key) -> Option<u32> {
        self.0.class6(key)
    }

    fn scope_direct(&self, element: u32) -> Option<u64> {
        self.0.scope_direct(element)
    }

    fn scope_split(&self, element: u32) -> Option<u64> {
        self.0.scope_split(element)
    }

    fn class6_scope(&self, key: &Class6Key) -> Option<u32> {
        self.0.class6_scope(key)
    }

    fn cookies(&self) -> Option<Secrets> {
        self.0.cookies()
    }

    fn now(&self) -> u32 {
        self.0.now()
    }

    fn rule(&self, slot: u32) -> Option<&Rule> {
        self.0.rule(slot)
    }

    fn session(&self, ask: &Ask, class: u32, options: &Options) -> Result<Found, Counter> {
        session::choose(self, &Looking(&self.0.memory.sessions), ask, class, options)
    }

    fn peek_session(&self, rule: u32, key: &Key) -> u32 {
        self.0.peek_session(rule, key)
    }

    fn turn(&self, _index: u32, _places: u32) -> Option<u32> {
        Some(0)
    }

    fn generation(&self) -> u64 {
        self.0.generation()
    }
}

/// A world as workers see it: the same memory as the kernel's, or plain memory.
pub struct Reader {
    memory: Arc<Memory>,
    control: Control,
    classes: Arc<Classes>,
    turns: Vec<Box<[AtomicU32]>>,
}

impl Reader {
    /// The rotation counters of one reader; tests set them to what the kernel's are.
    pub fn turns(&self, reader: usize) -> &[AtomicU32] {
        self.turns.get(reader).map_or(&[], |turns| turns)
    }

    /// The same world for `explain`: nothing counts, nothing rotates.
    pub fn aside(&self) -> Aside<'_> {
        Aside(self)
    }

    /// The slot that a reference leads to, for tests that follow an answer to its set.
    pub fn slot(&self, index: u32) -> Option<u32> {
        lookup::World::reference(self, index).map(reference_slot)
    }
}

impl lookup::World for Reader {
    type Line = u32;

    fn control(&self) -> &Control {
        &self.control
    }

    fn line(&self, bucket: u32) -> Option<u32> {
        (bucket < self.memory.buckets.len()).then_some(bucket)
    }

    fn way(&self, line: u32, way: usize) -> u64 {
        self.memory.buckets.word(line, way % WAYS).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn entry(&self, slot: u32) -> Option<&NameEntry> {
        self.memory.names.get(slot & SLOT_MASK as u32)
    }

    fn tail(&self, slot: u32) -> Option<&NameTail> {
        self.memory.tails.get(slot)
    }

    fn reference(&self, index: u32) -> Option<u64> {
        self.memory.references.word(index, 0).map(|word| word.load(Ordering::Acquire))
    }

    fn set(&self, slot: u32) -> Option<&AnswerSet> {
        self.memory.answers.get(slot)
    }

    fn soa(&self, slot: u32) -> Option<&Soa> {
        self.memory.soas.get(slot)
    }

    fn is_complete(&self, slot: u32) -> bool {
        self.memory
            .soas
            .word(slot, offset_of!(Soa, complete) / 8)
            .is_some_and(|word| word.load(Ordering::Acquire) == 1)
    }

    fn class_direct(&self, element: u32) -> Option<u64> {
        self.memory.class4.word(element, 0).map(|word| word.load(Ordering::Relaxed))
    }

    fn class_split(&self, element: u32) -> Option<u64> {
        self.memory.class4_split.word(element, 0).map(|word| word.load(Ordering::Relaxed))
    }

    fn class6(&self, key: &Class6Key) -> Option<u32> {
        Some(u32::from(self.classes.class_of(IpAddr::from(key.address))))
    }

    fn scope_direct(&self, element: u32) -> Option<u64> {
        self.memory.scope4.word(element, 0).map(|word| word.load(Ordering::Relaxed))
    }

    fn scope_split(&self, element: u32) -> Option<u64> {
        self.memory.scope4_split.word(element, 0).map(|word| word.load(Ordering::Relaxed))
    }

    fn class6_scope(&self, key: &Class6Key) -> Option<u32> {
        let found = self.classes.lookup(IpAddr::from(key.address));
        Some(u32::from(found.class) | (u32::from(found.prefix_len) << 16))
    }

    fn cookies(&self) -> Option<Secrets> {
        secrets_of(&self.memory)
    }

    fn now(&self) -> u32 {
        let offset = self.memory.control_word(offset_of!(Control, utc_offset)).load(Ordering::Acquire);
        // The clock of the kernel program: cheap, and a few milliseconds behind.
        let now = clock(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
        (now.wrapping_add(offset) / 1_000_000_000) as u32
    }

    fn rule(&self, slot: u32) -> Option<&Rule> {
        self.memory.rules.get(slot)
    }

    fn session(&self, ask: &Ask, class: u32, options: &Options) -> Result<Found, Counter> {
        session::choose(self, &*self.memory.sessions, ask, class, options)
    }

    fn peek_session(&self, rule: u32, key: &Key) -> u32 {
        self.rule(rule).map_or(0, |rule| session::peek(&*self.memory.sessions, rule, key))
    }

    fn note_session(&self, rule: u32, key: &Key, choice: u8) {
        if let Some(rule) = self.rule(rule) {
            session::note(&*self.memory.sessions, rule, key, choice);
        }
    }

    fn turn(&self, index: u32, places: u32) -> Option<u32> {
        // Only this reader's thread changes its counters, so a load and a store lose nothing.
        let turn = self.turns.get(READER.get()).or(self.turns.first())?.get(index as usize)?;
        let (next, now) = lookup::take_turn(turn.load(Ordering::Relaxed), places);
        turn.store(next, Ordering::Relaxed);
        Some(now)
    }

    fn generation(&self) -> u64 {
        self.memory.control_word(offset_of!(Control, generation)).load(Ordering::Acquire)
    }
}
