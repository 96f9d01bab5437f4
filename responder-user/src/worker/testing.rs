//! A table in plain memory, for tests and benches.

use std::{
    collections::HashMap,
    net::{Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use bytemuck::Zeroable;
use responder_common::{
    class::{self, DIRECT_ELEMENTS},
    cookie::Secrets,
    counters::Counter,
    edns::Options,
    layout::{
        AnswerSet, Bucket, Class6Key, Control, LAYOUT_VERSION, NAME_APEX, NEAR_WORDS, NameEntry, NameTail,
        REFERENCE_NONE, SLOT_MASK, Soa, reference,
    },
    limits::FAST_NAME_WORDS,
    lookup::{self, Ask, Found, World, fingerprint, places},
    name::FoldedName,
    session::{self, Rule},
};

use super::{Names, zone};
use crate::{
    compile,
    model::{DnsName, zone::Soa as ModelSoa},
    publish::sessions::Sessions,
};

/// Addresses of a set: all A or all AAAA, in network order.
pub enum Addresses<'a> {
    /// IPv4.
    V4(&'a [[u8; 4]]),
    /// IPv6.
    V6(&'a [Ipv6Addr]),
}

/// [`World`] over vectors. Names are added before it is shared.
pub struct MemoryWorld {
    control: Control,
    buckets: Vec<Bucket>,
    entries: Vec<NameEntry>,
    tails: Vec<NameTail>,
    references: Vec<AtomicU64>,
    sets: Vec<AnswerSet>,
    soas: Vec<Soa>,
    direct: HashMap<u32, u64>,
    split: HashMap<u32, u64>,
    classes6: HashMap<(u32, [u8; 16]), u32>,
    turns: Vec<AtomicU32>,
    rules: Vec<Rule>,
    sessions: Sessions,
    generation: AtomicU64,
    /// Secrets of cookies; None: no cookies.
    pub cookies: Option<Secrets>,
    /// Seconds of UTC.
    pub now: u32,
}

impl Default for MemoryWorld {
    fn default() -> Self {
        Self::new(1024)
    }
}

impl MemoryWorld {
    /// With a power of two of buckets.
    pub fn new(buckets: u32) -> Self {
        let mut control = Control::zeroed();
        control.hash_seed = 0x0123_4567_89ab_cdef;
        control.hash_multiplier = 0xfedc_ba98_7654_3211;
        control.bucket_mask = buckets.next_power_of_two() - 1;
        control.layout = LAYOUT_VERSION;
        control.classes = 1;
        Self {
            buckets: vec![Bucket::zeroed(); control.bucket_mask as usize + 1],
            control,
            // Slot 0 means "free" everywhere.
            entries: vec![NameEntry::zeroed()],
            tails: vec![NameTail::zeroed()],
            references: Vec::new(),
            sets: vec![AnswerSet::zeroed()],
            soas: Vec::new(),
            direct: HashMap::new(),
            split: HashMap::new(),
            classes6: HashMap::new(),
            turns: Vec::new(),
            rules: vec![Rule::zeroed()],
            sessions: Sessions::plain(1024),
            generation: AtomicU64::new(1),
            cookies: None,
            now: 0,
        }
    }

    /// The control words, to change by hand before the first name is added.
    pub fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    /// Adds a start of authority; returns its slot.
    pub fn add_soa(&mut self, soa: &ModelSoa, apex: &DnsName) -> u32 {
        self.soas.push(compile::soa::soa(apex, soa));
        self.soas.len() as u32 - 1
    }

    /// Adds a set that rotates evenly and gives everything; returns its slot.
    pub fn add_set(&mut self, addresses: &Addresses<'_>) -> u32 {
        let mut set = AnswerSet::zeroed();
        let words: Vec<u32> = match addresses {
            Addresses::V4(all) => all.iter().map(|a| u32::from_le_bytes(*a)).collect(),
            Addresses::V6(all) => all
                .iter()
                .flat_map(|a| bytemuck::cast::<[u8; 16], [[u8; 4]; 4]>(a.octets()))
                .map(u32::from_le_bytes)
                .collect(),
        };
        let total = match addresses {
            Addresses::V4(all) => all.len(),
            Addresses::V6(all) => all.len(),
        };
        set.addresses[..words.len()].copy_from_slice(&words);
        (set.total, set.give, set.rotate) = (total as u8, total as u8, total as u8);
        set.ring_len = total as u16;
        (0..total).for_each(|i| set.ring[i] = i as u8);
        self.sets.push(set);
        self.sets.len() as u32 - 1
    }

    /// A set to change by hand.
    pub fn set_mut(&mut self, slot: u32) -> &mut AnswerSet {
        &mut self.sets[slot as usize]
    }

    /// Adds references, one per set slot; 0: undecided. Returns the index of the first.
    pub fn add_references(&mut self, slots: &[u32]) -> u32 {
        let first = self.references.len() as u32;
        for slot in slots {
            let word = if *slot == 0 { 0 } else { reference(*slot, self.generation()) };
            self.references.push(AtomicU64::new(word));
            self.turns.push(AtomicU32::new(0));
        }
        first
    }

    /// An entry as the table wants it; `references` are [`REFERENCE_NONE`] where a type does not exist.
    pub fn entry_of(name: &DnsName, apex: &DnsName, soa: u32, ttl: u32, references: [u32; 2]) -> NameEntry {
        let mut entry = NameEntry::zeroed();
        entry.references = references;
        entry.ttls = [ttl; 2];
        entry.soa = soa;
        entry.apex_at = (name.wire().len() - apex.wire().len()) as u8;
        if name == apex {
            entry.flags = NAME_APEX;
        }
        entry
    }

    /// Puts an entry into the table; its name is filled in here.
    pub fn add_entry(&mut self, name: &DnsName, mut entry: NameEntry) {
        let name = FoldedName::<FAST_NAME_WORDS>::from_wire(name.wire(), self.control.key())
            .expect("a name of the table");
        let (near, tail) = name.words.split_at(NEAR_WORDS);
        entry.name.copy_from_slice(near);
        entry.name_len = name.len as u8;
        let slot = self.entries.len() as u64;
        self.entries.push(entry);
        self.tails.push(NameTail { words: tail.try_into().expect("the rest of the words") });
        let (bucket, way) = places(name.hash, self.control.bucket_mask)
            .find(|(bucket, way)| self.buckets[*bucket as usize].words[*way] == 0)
            .expect("room in the table");
        self.buckets[bucket as usize].words[way] = fingerprint(name.hash) | (slot & SLOT_MASK);
    }

    /// Adds a GSLB name with addresses; without any of a family the type does not exist.
    pub fn add_name(&mut self, name: &str, apex: &str, ttl: u32, v4: &[[u8; 4]], v6: &[Ipv6Addr]) {
        let name = DnsName::parse(name).expect("a name");
        let apex = DnsName::parse(apex).expect("an apex");
        let soa = self.add_soa(&ModelSoa::default_for(&apex), &apex);
        let mut references = [REFERENCE_NONE; 2];
        if !v4.is_empty() {
            let set = self.add_set(&Addresses::V4(v4));
            references[0] = self.add_references(&[set]);
        }
        if !v6.is_empty() {
            let set = self.add_set(&Addresses::V6(v6));
            references[1] = self.add_references(&[set]);
        }
        self.add_entry(&name, Self::entry_of(&name, &apex, soa, ttl, references));
    }

    /// Gives a /24 a class.
    pub fn set_class4(&mut self, address: [u8; 4], class: u16) {
        let (element, lane) = class::direct_place(u32::from_be_bytes(address));
        assert!(element < DIRECT_ELEMENTS);
        let word = self.direct.entry(element).or_default();
        *word = (*word & !(0xffff << (lane * 16))) | u64::from(class) << (lane * 16);
        self.control.classes = self.control.classes.max(u32::from(class) + 1);
    }

    /// Gives an IPv6 prefix a class.
    pub fn set_class6(&mut self, prefix: Ipv6Addr, bits: u32, class: u32) {
        self.classes6.insert((bits, prefix.octets()), class);
    }

    /// Moves on to the next generation.
    pub fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }
}

impl World for MemoryWorld {
    type Line = usize;

    fn control(&self) -> &Control {
        &self.control
    }

    fn line(&self, bucket: u32) -> Option<usize> {
        ((bucket as usize) < self.buckets.len()).then_some(bucket as usize)
    }

    fn way(&self, line: usize, way: usize) -> u64 {
        self.buckets[line].words[way]
    }

    fn entry(&self, slot: u32) -> Option<&NameEntry> {
        self.entries.get(slot as usize)
    }

    fn tail(&self, slot: u32) -> Option<&NameTail> {
        self.tails.get(slot as usize)
    }

    fn reference(&self, index: u32) -> Option<u64> {
        self.references.get(index as usize).map(|word| word.load(Ordering::Acquire))
    }

    fn set(&self, slot: u32) -> Option<&AnswerSet> {
        self.sets.get(slot as usize)
    }

    fn soa(&self, slot: u32) -> Option<&Soa> {
        self.soas.get(slot as usize)
    }

    fn is_complete(&self, slot: u32) -> bool {
        self.soas.get(slot as usize).is_some_and(|soa| soa.complete == 1)
    }

    fn class_direct(&self, element: u32) -> Option<u64> {
        Some(self.direct.get(&element).copied().unwrap_or(0))
    }

    fn class_split(&self, element: u32) -> Option<u64> {
        self.split.get(&element).copied()
    }

    fn class6(&self, key: &Class6Key) -> Option<u32> {
        let address = u128::from_be_bytes(key.address);
        (0..=key.bits).rev().find_map(|bits| {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            self.classes6.get(&(bits, (address & mask).to_be_bytes())).copied()
        })
    }

    fn scope_direct(&self, _element: u32) -> Option<u64> {
        Some(0)
    }

    fn scope_split(&self, _element: u32) -> Option<u64> {
        Some(0)
    }

    fn class6_scope(&self, key: &Class6Key) -> Option<u32> {
        self.class6(key)
    }

    fn cookies(&self) -> Option<Secrets> {
        self.cookies
    }

    fn now(&self) -> u32 {
        self.now
    }

    fn rule(&self, slot: u32) -> Option<&Rule> {
        self.rules.get(slot as usize)
    }

    fn session(&self, ask: &Ask, class: u32, options: &Options) -> Result<Found, Counter> {
        session::choose(self, &self.sessions, ask, class, options)
    }

    fn turn(&self, index: u32, places: u32) -> Option<u32> {
        let turn = self.turns.get(index as usize)?;
        let (next, now) = lookup::take_turn(turn.load(Ordering::Relaxed), places);
        turn.store(next, Ordering::Relaxed);
        Some(now)
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// A query in wire format: RD set, id 0x1234, with OPT if `edns` (payload, DO).
pub fn query(name: &str, qtype: u16, edns: Option<(u16, bool)>) -> Vec<u8> {
    let name = DnsName::parse(name).expect("a name");
    query_of(name.wire(), qtype, edns)
}

/// The same for a name in wire format, which may be malformed.
pub fn query_of(name: &[u8], qtype: u16, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut out = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
    out.extend(name);
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    if let Some((payload, dnssec_ok)) = edns {
        out.extend([0, 0, 41]);
        out.extend(payload.to_be_bytes());
        out.extend([0, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
    }
    out
}

/// A reply in a vector of its own; None: silence.
pub fn ask(
    message: &[u8],
    transport: super::Transport,
    client: SocketAddr,
    world: &impl World,
    names: &Names,
) -> Option<Vec<u8>> {
    let mut out = vec![0; if transport == super::Transport::Udp { 1232 } else { 65_535 }];
    match super::answer::reply(message, transport, client, world, names, &mut out) {
        super::Outcome::Silent | super::Outcome::Dropped => None,
        super::Outcome::Reply { len, .. } => {
            out.truncate(len);
            Some(out)
        }
    }
}

/// Zones of a model made of `zones` alone.
pub fn zones(zones: Vec<crate::model::Zone>) -> Arc<zone::Zones> {
    let model = crate::model::Model { zones, ..Default::default() };
    Arc::new(zone::Zones::load(&model).expect("zones that load"))
}
