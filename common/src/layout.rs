//! What stands in the maps. Shared by the program, the writer and the workers; no implicit padding, sizes asserted.
//!
//! ```text
//! BUCKETS  8 words {40-bit fingerprint | 24-bit slot}     one cold line
//!    -> NAMES    NameEntry: the folded name, TTLs, reference numbers      one cold line; a second one, in NAME_TAILS,
//!                for names of more than 40 octets
//!       -> REFERENCES  one word {generation | slot} for (owner, type, client class)
//!          -> ANSWERS  AnswerSet, never edited while a reference leads to it
//! ```
//!
//! Any change of a size, an offset or a meaning raises [`LAYOUT_VERSION`]: a daemon never adopts another version.

use bytemuck::{Pod, Zeroable};

use crate::{
    counters,
    edns::Nsid,
    limits::{FAST_NAME_WORDS, MAX_INTERFACES, MAX_LISTEN, MAX_POOL, MAX_RING, SOA_WORDS},
};

/// Stands in the pin path and in [`Control::layout`].
pub const LAYOUT_VERSION: u32 = 4;

/// Ways of a bucket.
pub const WAYS: usize = 8;

/// Buckets that may hold a name: its own, and these after it, by exclusive or (1, 2, 3).
pub const PROBES: u32 = 4;

/// A word of a bucket: fingerprint in the upper 40 bits, of which the lowest is set; slot of [`NameEntry`] in the lower
/// 24; 0 is free.
pub const SLOT_BITS: u32 = 24;

/// Mask of the slot.
pub const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

/// Words of a name that stand in its [`NameEntry`].
pub const NEAR_WORDS: usize = 5;

/// Words of a name that stand in its [`NameTail`].
pub const TAIL_WORDS: usize = FAST_NAME_WORDS - NEAR_WORDS;

/// One line of the name table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Bucket {
    /// See [`SLOT_BITS`].
    pub words: [u64; WAYS],
}

/// [`NameEntry::references`]: the name has no record of this type. NODATA.
pub const REFERENCE_NONE: u32 = u32::MAX;

/// [`NameEntry::references`]: the name has records of this type that only a worker knows. Pass.
pub const REFERENCE_WORKER: u32 = u32::MAX - 1;

/// [`NameEntry::flags`]: the answer of type A depends on the client class.
pub const NAME_CLASSED_A: u8 = 1;
/// [`NameEntry::flags`]: the answer of type AAAA depends on the client class.
pub const NAME_CLASSED_AAAA: u8 = 2;
/// [`NameEntry::flags`]: zone data has other types than A and AAAA at the name: pass them all.
pub const NAME_OTHER_TYPES: u8 = 4;
/// [`NameEntry::flags`]: the name is the apex of its zone: pass SOA and NS.
pub const NAME_APEX: u8 = 8;

/// [`NameEntry::flags`]: the virtual server looks at ECS.
pub const NAME_ECS: u8 = 16;
/// [`NameEntry::flags`]: with ECS, addresses that are not routed are set aside.
pub const NAME_ECS_VALIDATION: u8 = 32;
/// [`NameEntry::flags`]: policies look at the source of the packet and proximity at ECS: a worker brings both together.
pub const NAME_ECS_AND_SOURCE: u8 = 64;
/// [`NameEntry::flags`]: classes differ by policies alone, which never look at ECS.
pub const NAME_SOURCE_ALONE: u8 = 128;

/// [`NameEntry::more`]: no GSLB name but one that zone data have, or that lies above one: a worker answers it. It stands
/// in the table so that it is told from names that do not exist.
pub const NAME_ZONE_DATA: u8 = 1;
/// [`NameEntry::more`]: the reference of type A is the word of a rule of sessions: see [`crate::session`].
pub const NAME_SESSIONS_A: u8 = 2;
/// [`NameEntry::more`]: likewise for type AAAA.
pub const NAME_SESSIONS_AAAA: u8 = 4;

/// A name that we answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct NameEntry {
    /// First reference of type A and of type AAAA; the client class is added where the flag says so.
    pub references: [u32; 2],
    /// TTL of type A and of type AAAA, seconds.
    pub ttls: [u32; 2],
    /// Slot of the zone's [`Soa`].
    pub soa: u32,
    /// Octets of the name, root label included.
    pub name_len: u8,
    /// Offset of the zone's apex inside the name.
    pub apex_at: u8,
    /// NAME_… bits.
    pub flags: u8,
    /// NAME_… bits of [`Self::more`].
    pub more: u8,
    /// The first octets of the folded name, zero-padded.
    pub name: [u64; NEAR_WORDS],
}

/// What a name of more than `8 * NEAR_WORDS` octets has behind them, zero-padded; in the slot of its entry. The tails
/// of shorter names are never read, so their lines stay cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct NameTail {
    /// The last words of the folded name.
    pub words: [u64; TAIL_WORDS],
}

/// A word of the reference table: slot of [`AnswerSet`] in the lower half, lower half of its generation above; 0: not
/// decided yet. Slot 0 is never used.
#[inline(always)]
pub const fn reference(slot: u32, generation: u64) -> u64 {
    (generation << 32) | slot as u64
}

/// The slot of a reference word.
#[inline(always)]
pub const fn reference_slot(word: u64) -> u32 {
    word as u32
}

/// [`AnswerSet::flags`]: NOERROR without records.
pub const SET_EMPTY: u16 = 1;
/// [`AnswerSet::flags`]: addresses behind [`AnswerSet::rotate`] may be left out where the reply would be too long (MIR).
pub const SET_EXTRAS_OPTIONAL: u16 = 2;
/// [`AnswerSet::flags`]: no reply at all: a policy or a saturated virtual server says so.
pub const SET_DROP: u16 = 4;

/// An answer ready to copy: a pool of addresses, which of them rotate, and how many one reply carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct AnswerSet {
    /// The plan that made it.
    pub generation: u64,
    /// The reference that it was made for.
    pub made_for: u32,
    /// SET_… bits.
    pub flags: u16,
    /// Places used in `ring`, 1 to 1024; 0 when empty.
    pub ring_len: u16,
    /// The first addresses rotate; the others follow in this order.
    pub rotate: u8,
    /// Addresses in all, at most 64.
    pub total: u8,
    /// Addresses of one reply.
    pub give: u8,
    /// Zero.
    pub reserved: [u8; 5],
    /// CLOCK_MONOTONIC until which sessions that lead here live although nobody used them, nanoseconds.
    pub hold: u64,
    /// Addresses in network order: one word each for A, four words each for AAAA.
    pub addresses: [u32; MAX_POOL * 4],
    /// Rotation: index of the address that stands first.
    pub ring: [u8; MAX_RING],
    /// For each address the choice of the session that goes with it ([`crate::session`]), from 1 on; 0: none.
    pub choices: [u8; MAX_POOL],
    /// Zero.
    pub tail: [u8; 32],
}

/// [`Soa::flags`]: the serial is [`Soa::serial`], not the generation.
pub const SOA_FIXED_SERIAL: u8 = 1;
/// [`Soa::flags`]: mname ends in the apex, which is written as a pointer.
pub const SOA_MNAME_IN_ZONE: u8 = 2;
/// [`Soa::flags`]: rname ends in the apex, which is written as a pointer.
pub const SOA_RNAME_IN_ZONE: u8 = 4;

/// The start of authority of a zone, in pieces that can be written under any name of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Soa {
    /// TTL of the record in negative answers: the smaller of SOA TTL and MINIMUM (RFC 2308 3), seconds.
    pub negative_ttl: u32,
    /// TTL of the record when it is asked for, seconds.
    pub ttl: u32,
    /// Used with [`SOA_FIXED_SERIAL`].
    pub serial: u32,
    /// Octets of `mname`.
    pub mname_len: u8,
    /// Octets of `rname`.
    pub rname_len: u8,
    /// SOA_… bits.
    pub flags: u8,
    /// Zero.
    pub reserved: u8,
    /// Refresh, retry, expire, minimum in seconds.
    pub timers: [u32; 4],
    /// Labels of mname: up to the apex when the flag is set, else whole with the root label. Zero-padded.
    pub mname: [u64; SOA_WORDS],
    /// Labels of rname, likewise.
    pub rname: [u64; SOA_WORDS],
    /// 1: every name of the zone is in the table, and no other name has answers: what is not there does not exist. Set
    /// after the last name was put in, cleared before the first is taken out.
    pub complete: u64,
    /// Zero.
    pub tail: [u64; 3],
}

/// A listening IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Listen6 {
    /// The address in memory order.
    pub address: [u64; 2],
    /// Port in memory order; 0: unused.
    pub port: u64,
}

/// An interface of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Interface {
    /// MAC address in memory order, in the lower 48 bits; 0: unused.
    pub mac: u64,
    /// Index.
    pub ifindex: u64,
}

/// What the program reads once per packet. Words change one at a time, each by one aligned store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Control {
    /// Seed of the hash.
    pub hash_seed: u64,
    /// Multiplier of the hash.
    pub hash_multiplier: u64,
    /// Number of buckets less one.
    pub bucket_mask: u32,
    /// [`LAYOUT_VERSION`].
    pub layout: u32,
    /// Generation of the last published plan; the SOA serial is its lower half.
    pub generation: u64,
    /// CLOCK_MONOTONIC of the daemon's last sign of life, nanoseconds.
    pub heartbeat: u64,
    /// Nanoseconds without a sign of life after which everything is passed; 0: never.
    pub max_stale: u64,
    /// Number of client classes; larger numbers in the IPv4 table are split /24s.
    pub classes: u32,
    /// Class of IPv6 clients in no prefix.
    pub class6_default: u32,
    /// Limits and what is watched: a [`crate::switches::Switches`].
    pub switches: u64,
    /// Listening IPv4 addresses: address in memory order << 16 | port in memory order; 0 ends the list.
    pub listen4: [u64; MAX_LISTEN],
    /// Interfaces; an unused one ends the list.
    pub interfaces: [Interface; MAX_INTERFACES],
    /// Listening IPv6 addresses; an unused one ends the list.
    pub listen6: [Listen6; MAX_LISTEN],
    /// Nanoseconds of UTC less those of CLOCK_MONOTONIC: the time of cookies.
    pub utc_offset: u64,
    /// 0: no cookies; 1 and 2: which of the secrets makes cookies.
    pub cookies: u64,
    /// Secrets of server cookies (RFC 9018), each with the flag's number.
    pub cookie_secrets: [[u64; 2]; 2],
    /// The server's identifier.
    pub nsid: Nsid,
    /// Which numbering of owners, classes and zones the world has; a daemon with another one builds a new world.
    pub fingerprint: u64,
}

/// What each CPU has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct PerCpu {
    /// Jiffy in which staleness was last looked at.
    pub checked: u64,
    /// 1: stale.
    pub stale: u64,
    /// Memory of no meaning; see [`crate::wire::Source::forget`].
    pub scratch: u64,
    /// Octets that the reply under way may have; kept here, where a program that is checked path by path forgets it.
    pub room: u64,
    /// What the answer under way is about: slot of the zone's [`Soa`] in the lower half, type above.
    pub note: u64,
    /// When this run began, while runs are timed; nanoseconds.
    pub began: u64,
    /// Number of the query under way in the stream of samples; 0: it is not told.
    pub sampled: u64,
    /// The last such number.
    pub numbered: u64,
    /// Queries that were asked for by the filter of samples.
    pub seen: u64,
    /// Samples for which the ring buffer had no room.
    pub lost: u64,
    /// Key of a session and the session itself, on their way to the kernel's table.
    pub session: [u64; SESSION_WORDS],
    /// What the kernel is asked about the way back to a client, and what it says.
    pub route: [u64; ROUTE_WORDS],
    /// Zero.
    pub reserved: [u64; 6],
    /// Indexed by [`counters::Counter::slot`].
    pub counters: [u64; counters::SLOTS],
    /// Room for a query while it is answered: the stack of the program is too small for it.
    pub query: [u64; QUERY_WORDS],
    /// Room for the end of a name that does not exist.
    pub end: [u64; END_WORDS],
    /// Answers by [`counters::type_place`].
    pub types: [u64; counters::TYPES],
    /// Runs that took less than 2^n nanoseconds and no less than half of that; the last place is for all longer ones.
    pub latency: [u64; counters::LATENCIES],
}

/// Words of [`PerCpu::end`].
pub const END_WORDS: usize = 16;

/// Words of [`PerCpu::route`]: a `struct bpf_fib_lookup`.
pub const ROUTE_WORDS: usize = 8;

/// Words of [`PerCpu::session`].
pub const SESSION_WORDS: usize = 8;

/// Words of [`PerCpu::query`].
pub const QUERY_WORDS: usize = 32;

/// Key of the IPv6 class trie: prefix length in bits, then the address in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Class6Key {
    /// 0 to 128.
    pub bits: u32,
    /// Address.
    pub address: [u8; 16],
}

const _: () = {
    assert!(size_of::<Bucket>() == 64);
    assert!(size_of::<NameEntry>() == 64);
    assert!(size_of::<NameTail>() == 64);
    assert!(core::mem::offset_of!(NameEntry, name) == 24);
    assert!(core::mem::offset_of!(AnswerSet, addresses) == 32);
    assert!(size_of::<AnswerSet>() == 32 + 1024 + 1024 + MAX_POOL + 32);
    assert!(size_of::<AnswerSet>().is_multiple_of(64));
    assert!(size_of::<Soa>().is_multiple_of(64));
    assert!(size_of::<Control>().is_multiple_of(64));
    assert!(
        size_of::<PerCpu>()
            == 128
                + 8 * (SESSION_WORDS
                    + ROUTE_WORDS
                    + counters::SLOTS
                    + QUERY_WORDS
                    + END_WORDS
                    + counters::TYPES
                    + counters::LATENCIES)
    );
    assert!(size_of::<crate::name::FoldedName<FAST_NAME_WORDS>>() <= 8 * END_WORDS);
    assert!(size_of::<crate::parse::Query<FAST_NAME_WORDS>>() <= 8 * QUERY_WORDS);
    // On the line that every packet reads for the key of the hash.
    assert!(core::mem::offset_of!(Control, switches) < 64);
    assert!(size_of::<Class6Key>() == 20);
};
