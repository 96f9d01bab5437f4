//! Tells of single packets while somebody listens: see `responder_common::sample`.

use core::mem::{MaybeUninit, offset_of};

use aya_ebpf::{
    bindings::xdp_md,
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns, generated::bpf_xdp_load_bytes},
    programs::XdpContext,
};
use responder_common::{
    client::mapped,
    counters::Slot,
    layout::PerCpu,
    name::fold,
    sample::{ANSWER, Filter, Head, QUERY, Record, SNAP, VERDICT},
};

use crate::{
    headers::Headers,
    maps,
    packet::{Frame, opaque},
};

/// Nobody is woken: who listens looks by itself, and a packet pays for no interrupt.
const NO_WAKEUP: u64 = 1;

/// Tells of a query, if it is one that is asked for and its turn. Nothing of it is written over yet.
#[inline(always)]
pub fn query(ctx: &XdpContext, headers: &Headers) {
    let [low, high] = headers.source;
    query_alone(ctx.ctx, low, high, headers.udp_at as u64, headers.is_ipv6 as u64);
}

/// Functions of their own to the kernel, which checks them once and not once for every path that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn query_alone(ctx: *mut xdp_md, low: u64, high: u64, udp_at: u64, is_ipv6: u64) -> u64 {
    let Some(cpu) = maps::PER_CPU.get_ptr_mut(0) else { return 0 };
    let headers = Headers {
        source: [low, high],
        udp_at: udp_at as usize & 0x7f,
        is_ipv6: is_ipv6 as usize & 1,
        ..Headers::NONE
    };
    // SAFETY: this CPU's own element, which the caller does not look at while this runs.
    tell(&XdpContext::new(ctx), unsafe { &mut *cpu }, &headers);
    0
}

#[inline(always)]
fn tell(ctx: &XdpContext, cpu: &mut PerCpu, headers: &Headers) {
    let Some(filter) = filter() else { return };
    cpu.sampled = 0;
    if !fits(filter, &Frame::of(ctx), headers) {
        return;
    }
    cpu.seen = cpu.seen.wrapping_add(1);
    // 0 divides nothing but 0.
    if !cpu.seen.is_multiple_of(filter.every) {
        return;
    }
    cpu.numbered = cpu.numbered.wrapping_add(1);
    cpu.sampled = cpu.numbered;
    with_frame(ctx, cpu, QUERY, Slot(0));
}

/// Tells what became of a query that was told.
#[inline(always)]
pub fn outcome(ctx: &XdpContext, slot: Slot, is_answer: bool) {
    outcome_alone(ctx.ctx, slot.0 as u64, u64::from(is_answer));
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn outcome_alone(ctx: *mut xdp_md, slot: u64, is_answer: u64) -> u64 {
    let Some(cpu) = maps::PER_CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own element, which the caller does not look at while this runs.
    end(&XdpContext::new(ctx), unsafe { &mut *cpu }, Slot(slot as usize), is_answer != 0);
    0
}

#[inline(always)]
fn end(ctx: &XdpContext, cpu: &mut PerCpu, slot: Slot, is_answer: bool) {
    let Some(filter) = filter() else { return };
    if cpu.sampled == 0 {
        return;
    }
    if filter.answers != 0 {
        if is_answer {
            with_frame(ctx, cpu, ANSWER, slot);
        } else if let Some(mut entry) = maps::SAMPLES.reserve::<Head>(0) {
            entry.write(head(ctx, cpu, VERDICT, 0, slot));
            entry.submit(NO_WAKEUP);
        } else {
            cpu.lost += 1;
        }
    }
    cpu.sampled = 0;
}

#[inline(always)]
fn filter() -> Option<&'static Filter> {
    let filter = maps::FILTER.get_ptr(0)?;
    // SAFETY: the array has one element of this type, which is not written while packets are sampled.
    Some(unsafe { &*filter })
}

#[inline(always)]
fn fits(filter: &Filter, frame: &Frame, headers: &Headers) -> bool {
    let client = mapped((headers.source, headers.is_ipv6 != 0));
    let mut difference = (client[0] & filter.client_mask[0]) ^ filter.client[0];
    difference |= (client[1] & filter.client_mask[1]) ^ filter.client[1];
    if filter.name_mask[0] != 0 {
        let at = headers.dns_at() + 12;
        for i in 0..2 {
            // A message may end inside the second word, where the name is shorter.
            let word = frame.get::<u64>(at + i * 8).unwrap_or(0);
            difference |= (fold(word) & filter.name_mask[i]) ^ filter.name[i];
        }
    }
    difference == 0
}

#[inline(always)]
fn head(ctx: &XdpContext, cpu: &PerCpu, kind: u32, len: u32, slot: Slot) -> Head {
    // SAFETY: helpers without arguments; the context is the kernel's.
    unsafe {
        Head {
            time: bpf_ktime_get_ns(),
            number: cpu.sampled,
            kind,
            cpu: bpf_get_smp_processor_id(),
            len,
            captured: len.min(SNAP as u32),
            ifindex: (*ctx.ctx).ingress_ifindex,
            slot: slot.0 as u32,
        }
    }
}

#[inline(always)]
fn with_frame(ctx: &XdpContext, cpu: &mut PerCpu, kind: u32, slot: Slot) {
    let Some(mut entry) = maps::SAMPLES.reserve::<Record>(0) else {
        cpu.lost += 1;
        return;
    };
    let len = (ctx.data_end() - ctx.data()) as u32;
    let head = head(ctx, cpu, kind, len, slot);
    // 1 to SNAP, as the checker of programs wants to see it.
    let captured = opaque(head.captured as usize).clamp(1, SNAP);
    let record: *mut Record = MaybeUninit::as_mut_ptr(&mut entry);
    // SAFETY:
    // - the record is ours until it is submitted, and `frame` lies inside it with room for SNAP octets;
    // - the helper writes `captured` octets, or nothing.
    let failed = unsafe {
        (&raw mut (*record).head).write(head);
        let room = record.cast::<u8>().add(offset_of!(Record, frame));
        bpf_xdp_load_bytes(ctx.ctx, 0, room.cast(), captured as u32)
    };
    if failed == 0 {
        entry.submit(NO_WAKEUP);
    } else {
        entry.discard(NO_WAKEUP);
    }
}
