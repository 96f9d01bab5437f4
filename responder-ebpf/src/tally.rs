//! What is counted of packets beside their verdicts: types and zones of answers, and how long runs take.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use responder_common::{
    counters::{LATENCIES, TYPES, type_place},
    layout::PerCpu,
    select::Answer,
};

use crate::{maps, packet::opaque};

/// Notes what an answer is about, before it is written.
#[inline(always)]
pub fn note(cpu: &mut PerCpu, answer: &Answer<'_>, qtype: u16) {
    cpu.note = u64::from(answer.zone) | (u64::from(qtype) << 32);
}

/// Counts an answer that leaves.
#[inline(always)]
pub fn answer(cpu: &mut PerCpu) {
    // SAFETY: a live word; volatile, so that the checker of paths does not know what was stored.
    let note = unsafe { (&raw const cpu.note).read_volatile() };
    cpu.types[opaque(type_place((note >> 32) as u16)) & (TYPES - 1)] += 1;
    if let Some(zone) = maps::ZONES.get_ptr_mut(note as u32) {
        // SAFETY: this CPU's own element; a program is not interrupted by another run of itself on the same CPU.
        unsafe { *zone += 1 };
    }
}

/// The time at which a run begins.
#[inline(always)]
pub fn begin(cpu: &mut PerCpu) {
    // SAFETY: a helper without arguments.
    cpu.began = unsafe { bpf_ktime_get_ns() };
}

/// The time that a run took, in the histogram.
#[inline(always)]
pub fn end(cpu: &mut PerCpu) {
    // SAFETY: a helper without arguments.
    let took = unsafe { bpf_ktime_get_ns() }.wrapping_sub(cpu.began);
    let place = (64 - took.leading_zeros() as usize).min(LATENCIES - 1);
    cpu.latency[opaque(place) & (LATENCIES - 1)] += 1;
}

const _: () = assert!(TYPES.is_power_of_two() && LATENCIES.is_power_of_two());
