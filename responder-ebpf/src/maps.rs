//! Map declarations, nothing else. Sizes here are the smallest; the loader sets those of the configuration.
//!
//! The layouts are in `responder_common::layout`, who writes what stands in ARCHITECTURE.md.

use aya_ebpf::{
    macros::map,
    maps::{Array, LpmTrie, LruHashMap, PerCpuArray, RingBuf},
};
use responder_common::{
    layout::{AnswerSet, Bucket, Control, NameEntry, NameTail, PerCpu, Soa},
    limit,
    limits::MAX_ALLOWED,
    sample::{Filter, RING},
    session::{Key, Rule, Session},
};

/// Mapped into the memory of the daemon; page-aligned by that.
const MMAPABLE: u32 = 1 << 10;
/// Pages are taken when they are written.
const NO_PREALLOC: u32 = 1;

/// What is read once per packet.
#[map]
pub static CONTROL: Array<Control> = Array::with_max_entries(1, MMAPABLE);

/// The name table.
#[map]
pub static BUCKETS: Array<Bucket> = Array::with_max_entries(4, MMAPABLE);

/// The names.
#[map]
pub static NAMES: Array<NameEntry> = Array::with_max_entries(4, MMAPABLE);

/// The ends of long names, by the slots of NAMES.
#[map]
pub static NAME_TAILS: Array<NameTail> = Array::with_max_entries(4, MMAPABLE);

/// (owner, type, client class) to answer set.
#[map]
pub static REFERENCES: Array<u64> = Array::with_max_entries(4, MMAPABLE);

/// Answer sets.
#[map]
pub static ANSWERS: Array<AnswerSet> = Array::with_max_entries(4, MMAPABLE);

/// Starts of authority.
#[map]
pub static SOAS: Array<Soa> = Array::with_max_entries(4, MMAPABLE);

/// Client classes of IPv4, four to an element.
#[map]
pub static CLASS4: Array<u64> = Array::with_max_entries(1, MMAPABLE);

/// Client classes of split /24s.
#[map]
pub static CLASS4_SPLIT: Array<u64> = Array::with_max_entries(1, MMAPABLE);

/// ECS scopes of IPv4, eight to an element.
#[map]
pub static SCOPE4: Array<u64> = Array::with_max_entries(1, MMAPABLE);

/// ECS scopes of split /24s.
#[map]
pub static SCOPE4_SPLIT: Array<u64> = Array::with_max_entries(1, MMAPABLE);

/// Client classes of IPv6 and ECS scopes.
#[map]
pub static SCOPE6: LpmTrie<[u8; 16], u32> = LpmTrie::with_max_entries(1, NO_PREALLOC);

/// Client classes of IPv6.
#[map]
pub static CLASS6: LpmTrie<[u8; 16], u32> = LpmTrie::with_max_entries(1, NO_PREALLOC);

/// How the sessions of owners are kept.
#[map]
pub static RULES: Array<Rule> = Array::with_max_entries(1, MMAPABLE);

/// Sessions of clients. Elements are reused while others read them: see [`Session::check`].
#[map]
pub static SESSIONS: LruHashMap<Key, Session> = LruHashMap::with_max_entries(1, 0);

/// Rotation counters by reference.
#[map]
pub static TURNS: PerCpuArray<u32> = PerCpuArray::with_max_entries(4, 0);

/// How many replies client networks may still get.
#[map]
pub static LIMITS: Array<limit::Line> = Array::with_max_entries(limit::LINES, MMAPABLE);

/// Prefixes that are never limited, in memory order; IPv4 as mapped addresses.
#[map]
pub static ALLOWED: LpmTrie<[u64; 2], u32> = LpmTrie::with_max_entries(MAX_ALLOWED as u32, NO_PREALLOC);

/// Answers by zone.
#[map]
pub static ZONES: PerCpuArray<u64> = PerCpuArray::with_max_entries(4, 0);

/// What is told of single packets.
#[map]
pub static SAMPLES: RingBuf = RingBuf::with_byte_size(RING, 0);

/// Which packets are told.
#[map]
pub static FILTER: Array<Filter> = Array::with_max_entries(1, MMAPABLE);

/// Counters and the staleness check.
#[map]
pub static PER_CPU: PerCpuArray<PerCpu> = PerCpuArray::with_max_entries(1, 0);
