//! The reader of the proof of publishing: looks names up by the code and the maps of the responder, as fast as it can,
//! and judges what it finds where it finds it (spec/reliability.md T-M1, T-M2).
//!
//! One CPU at a time: the counts are plain.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

mod shape;

use core::ffi::c_void;

use aya_ebpf::{
    bindings::xdp_action,
    helpers::generated::bpf_loop,
    macros::{map, xdp},
    maps::{Array, HashMap},
    programs::XdpContext,
};
use responder_common::{
    checksum::Sum,
    client::Client,
    edns::{Edns, Options},
    layout::{AnswerSet, NameEntry},
    limits::{FAST_GIVE, FAST_NAME_WORDS, FAST_SOA_WORDS},
    lookup::{self, World},
    name::FoldedName,
    select::Kind,
    wire::rtype,
};
use responder_ebpf::{lookup::KernelWorld, packet::Scratch};
use shape::{MOST_OWNERS, NAME_LEN, NaiveAnswer, Proof, READS, TIED, Wire, name_words, tie};

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// What the reader is told, and what it found.
#[map]
pub static PROOF: Array<Proof> = Array::with_max_entries(1, 0);

/// The newest generation seen, by owner.
#[map]
pub static SEEN: Array<u64> = Array::with_max_entries(MOST_OWNERS, 0);

/// Names to answers as one would write it down at first: each answer in its name's element of a hash map.
#[map]
pub static NAIVE: HashMap<[u64; 2], NaiveAnswer> = HashMap::with_max_entries(4096, 0);

/// Entry point: so many reads.
#[xdp]
pub fn proof(_ctx: XdpContext) -> u32 {
    // SAFETY: the callback has the signature that the helper asks for, and needs no context.
    let done = unsafe { bpf_loop(READS, read as *mut c_void, core::ptr::null_mut(), 0) };
    if done == i64::from(READS) { xdp_action::XDP_PASS } else { xdp_action::XDP_ABORTED }
}

/// One read.
extern "C" fn read(_index: u64, _context: *mut c_void) -> i64 {
    let Some(proof) = PROOF.get_ptr_mut(0) else { return 1 };
    // SAFETY: the array has one element of this type, and only one CPU runs this program.
    let proof = unsafe { &mut *proof };
    // Marsaglia's xorshift.
    let mut random = proof.seed;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    proof.seed = random;
    let is_guest = proof.guests != 0 && random & 7 == 0;
    let number = if is_guest {
        proof.names + ((random >> 32) & (proof.guests - 1))
    } else {
        (random >> 32) & (proof.names - 1)
    } as u32;
    proof.reads += 1;
    if proof.naive != 0 {
        read_naive(proof, number)
    } else {
        read_table(proof, number, is_guest)
    }
    0
}

#[inline(always)]
fn read_table(proof: &mut Proof, number: u32, is_guest: bool) {
    let Some(world) = KernelWorld::open(Scratch::none()) else { return };
    let (key, mut sum) = (world.control().key(), Sum::default());
    let name = FoldedName::<FAST_NAME_WORDS>::read(&Wire(name_words(number)), 12, NAME_LEN, key, &mut sum);
    let found = name.as_ref().and_then(|name| lookup::find(&world, name).ok());
    let Some(entry) = found else {
        proof.missed += u64::from(!is_guest);
        return;
    };
    proof.guests_seen += u64::from(is_guest);
    let owner = number & (proof.owners as u32).wrapping_sub(1);
    let mut edns = Edns::ABSENT;
    let answer = lookup::answer_for::<_, FAST_GIVE, FAST_SOA_WORDS>(
        &world,
        entry,
        rtype::A,
        Client::V4(0),
        &mut edns,
        &mut Options::default(),
    );
    let Ok(answer) = answer else {
        proof.missed += 1;
        return;
    };
    if let Kind::Addresses { selection, .. } = answer.kind {
        judge_set(proof, owner, selection.set);
    } else {
        proof.missed += 1;
    }
    // After the answer, so that the entry has had time to change.
    judge_entry(proof, number, owner, entry);
}

#[inline(always)]
fn judge_entry(proof: &mut Proof, number: u32, owner: u32, entry: &NameEntry) {
    let version = entry.ttls[0];
    let whole = entry.ttls[1] == tie(number, u64::from(version), 7)
        && entry.soa == tie(number, u64::from(version), 8)
        && entry.apex_at == version as u8
        && entry.references[0] == owner;
    proof.torn += u64::from(!whole);
}

#[inline(always)]
fn judge_set(proof: &mut Proof, owner: u32, set: &AnswerSet) {
    let generation = set.generation;
    if set.made_for != owner {
        proof.foreign += 1;
        return;
    }
    let mut difference = 0;
    for place in 0..TIED {
        difference |= set.addresses[place] ^ tie(owner, generation, place as u32);
    }
    let ring = tie(owner, generation, 99) as u8;
    difference |= u32::from(set.ring[0] ^ ring) | u32::from(set.ring[1023] ^ ring);
    judge_rest(proof, owner, generation, difference != 0);
}

#[inline(always)]
fn judge_rest(proof: &mut Proof, owner: u32, generation: u64, torn: bool) {
    if torn {
        proof.torn += 1;
        return;
    }
    let Some(seen) = SEEN.get_ptr_mut(owner) else { return };
    // SAFETY: the kernel checked the index, and only one CPU runs this program.
    let seen = unsafe { &mut *seen };
    if generation < *seen {
        proof.backward += 1;
    } else {
        *seen = generation;
    }
}

#[inline(always)]
fn read_naive(proof: &mut Proof, number: u32) {
    let Some(answer) = NAIVE.get_ptr(name_words(number)) else {
        proof.missed += 1;
        return;
    };
    // SAFETY: none is claimed: that the element may change while it is read is what the proof shows.
    let answer = unsafe { &*answer };
    let (owner, generation) = (number & (proof.owners as u32).wrapping_sub(1), answer.generation);
    if answer.made_for != u64::from(owner) {
        proof.foreign += 1;
        return;
    }
    let mut difference = 0;
    for place in 0..TIED {
        difference |= answer.addresses[place] ^ tie(owner, generation, place as u32);
    }
    judge_rest(proof, number & (MOST_OWNERS - 1), generation, difference != 0);
}
