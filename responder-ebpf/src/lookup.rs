//! The maps as `responder_common::lookup` wants them.

use aya_ebpf::{helpers::bpf_ktime_get_coarse_ns, maps::lpm_trie::Key};
use responder_common::{
    cookie::Secrets,
    counters::Counter,
    edns::Options,
    layout::{AnswerSet, Bucket, Class6Key, Control, NameEntry, NameTail, SLOT_BITS, Soa, WAYS},
    lookup::{self, Ask, Found, World},
    session::{self, Rule},
    switches::Switches,
};

use crate::{
    maps,
    packet::{Scratch, opaque},
    session::Table,
    special,
};

/// The maps of this program.
pub struct KernelWorld {
    /// The control words, looked up once per packet.
    pub control: &'static Control,
    /// See [`Scratch::forget`].
    pub scratch: Scratch,
}

impl KernelWorld {
    /// None: there is no control word, which cannot be.
    #[inline(always)]
    pub fn open(scratch: Scratch) -> Option<Self> {
        let control = maps::CONTROL.get_ptr(0)?;
        // SAFETY:
        // - the array has one element of this type for as long as the program is loaded;
        // - words that change are read volatile where they are used.
        Some(Self { control: unsafe { &*control }, scratch })
    }

    /// What is switched on, for this packet.
    #[inline(always)]
    pub fn switches(&self) -> Switches {
        // SAFETY: an aligned word that its writer stores whole.
        Switches(unsafe { (&raw const self.control.switches).read_volatile() })
    }

    /// The same, of which the checker of paths does not remember what was on.
    #[inline(always)]
    pub fn forget_switches(&self, switches: Switches) -> Switches {
        Switches(self.scratch.forget(switches.0 as usize) as u64)
    }
}

/// A reference into a map whose element is not written while a word leads to it.
macro_rules! element {
    ($map:expr, $index:expr) => {{
        let pointer = $map.get_ptr($index)?;
        // SAFETY:
        // - the kernel checked the index, and maps outlive the program;
        // - the writer reuses an element only after every running program is done (design section 4).
        Some(unsafe { &*pointer })
    }};
}

/// One word that the writer may change at any moment, read once.
macro_rules! word {
    ($map:expr, $index:expr) => {{
        let pointer = $map.get_ptr($index)?;
        // SAFETY: the kernel checked the index; the word is aligned, and its writer stores it whole.
        Some(unsafe { pointer.read_volatile() })
    }};
}

impl World for KernelWorld {
    type Line = *const Bucket;

    #[inline(always)]
    fn control(&self) -> &Control {
        self.control
    }

    #[inline(always)]
    fn line(&self, bucket: u32) -> Option<Self::Line> {
        maps::BUCKETS.get_ptr(bucket)
    }

    #[inline(always)]
    fn way(&self, line: Self::Line, way: usize) -> u64 {
        // SAFETY: the line is a whole bucket; the mask keeps the way inside; the writer stores whole words.
        unsafe { line.cast::<u64>().add(way & (WAYS - 1)).read_volatile() }
    }

    #[inline(always)]
    fn word_with(&self, line: Self::Line, wanted: u64) -> u64 {
        (0..WAYS).fold(0, |found, way| found | if_same(self.way(line, way), wanted))
    }

    #[inline(always)]
    fn entry(&self, slot: u32) -> Option<&NameEntry> {
        element!(maps::NAMES, slot)
    }

    #[inline(always)]
    fn tail(&self, slot: u32) -> Option<&NameTail> {
        element!(maps::NAME_TAILS, slot)
    }

    #[inline(always)]
    fn reference(&self, index: u32) -> Option<u64> {
        word!(maps::REFERENCES, index)
    }

    #[inline(always)]
    fn set(&self, slot: u32) -> Option<&AnswerSet> {
        element!(maps::ANSWERS, slot)
    }

    #[inline(always)]
    fn soa(&self, slot: u32) -> Option<&Soa> {
        element!(maps::SOAS, slot)
    }

    #[inline(always)]
    fn is_complete(&self, slot: u32) -> bool {
        let Some(soa) = maps::SOAS.get_ptr(slot) else { return false };
        // SAFETY: the kernel checked the index; the word is aligned, and its writer stores it whole.
        unsafe { (&raw const (*soa).complete).read_volatile() == 1 }
    }

    #[inline(always)]
    fn class_direct(&self, element: u32) -> Option<u64> {
        word!(maps::CLASS4, element)
    }

    #[inline(always)]
    fn class_split(&self, element: u32) -> Option<u64> {
        word!(maps::CLASS4_SPLIT, element)
    }

    #[inline(always)]
    fn class6(&self, key: &Class6Key) -> Option<u32> {
        maps::CLASS6.get(Key::new(key.bits, key.address)).copied()
    }

    #[inline(always)]
    fn scope_direct(&self, element: u32) -> Option<u64> {
        word!(maps::SCOPE4, element)
    }

    #[inline(always)]
    fn scope_split(&self, element: u32) -> Option<u64> {
        word!(maps::SCOPE4_SPLIT, element)
    }

    #[inline(always)]
    fn class6_scope(&self, key: &Class6Key) -> Option<u32> {
        maps::SCOPE6.get(Key::new(key.bits, key.address)).copied()
    }

    #[inline(always)]
    fn cookies(&self) -> Option<Secrets> {
        let secret = |slot: usize| {
            let words = &raw const self.control.cookie_secrets[slot & 1];
            // SAFETY: aligned words that their writer stores whole.
            unsafe { [(&raw const (*words)[0]).read_volatile(), (&raw const (*words)[1]).read_volatile()] }
        };
        // SAFETY: an aligned word that its writer stores whole.
        let which = unsafe { (&raw const self.control.cookies).read_volatile() } as usize;
        (which != 0).then(|| Secrets { current: secret(which.wrapping_sub(1)), previous: secret(which) })
    }

    #[inline(always)]
    fn now(&self) -> u32 {
        // SAFETY: an aligned word that its writer stores whole; a helper without arguments.
        let (offset, now) =
            unsafe { ((&raw const self.control.utc_offset).read_volatile(), bpf_ktime_get_coarse_ns()) };
        (now.wrapping_add(offset) / 1_000_000_000) as u32
    }

    #[inline(always)]
    fn rule(&self, slot: u32) -> Option<&Rule> {
        element!(maps::RULES, slot)
    }

    #[inline(always)]
    fn session(&self, ask: &Ask, class: u32, options: &Options) -> Result<Found, Counter> {
        let sessions = Table::open().ok_or(Counter::PassBroken)?;
        session::choose(self, &sessions, ask, class, options)
    }

    #[inline(always)]
    fn special(&self, ask: &Ask, _options: &Options) -> Result<Found, Counter> {
        special::find(ask)
    }

    #[inline(always)]
    fn turn(&self, index: u32, places: u32) -> Option<u32> {
        let turn = maps::TURNS.get_ptr_mut(index)?;
        // SAFETY: this CPU's own element; a program is not interrupted by another run of itself on the same CPU.
        unsafe {
            let (next, now) = lookup::take_turn(*turn, places);
            *turn = next;
            Some(now)
        }
    }

    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        self.scratch.forget(value)
    }

    #[inline(always)]
    fn generation(&self) -> u64 {
        // SAFETY: an aligned word that its writer stores whole.
        unsafe { (&raw const self.control.generation).read_volatile() }
    }
}

/// `word` if it has the fingerprint, else 0. Without a branch: where a name stands in its line cannot be predicted, and
/// the verifier has one path to follow.
#[inline(always)]
fn if_same(word: u64, wanted: u64) -> u64 {
    // Negative if the fingerprints do not differ.
    let difference = opaque(((word ^ wanted) >> SLOT_BITS) as usize).wrapping_sub(1);
    word & ((difference as i64) >> 63) as u64
}
