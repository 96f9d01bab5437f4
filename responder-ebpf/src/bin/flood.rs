//! Frames of a template: for the end-to-end tests a flood of names that nobody has, at a rate that is kept, and for the
//! benches crafted queries; and a sink at the same end that counts and drops what comes back to the flood and passes
//! everything else.
//!
//! The generator runs by BPF_PROG_TEST_RUN with live frames; see `generate` for what follows from that.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{
    bindings::xdp_action,
    helpers::{bpf_ktime_get_ns, bpf_xdp_adjust_tail},
    macros::{map, xdp},
    maps::{Array, DevMap, PerCpuArray},
    programs::XdpContext,
};
use responder_ebpf::packet::Frame;

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Words of a frame before it is cut.
const WORDS: usize = 64;

/// Offset of what chance writes: the first label, whose length stands before it.
const LABEL_AT: usize = 55;

/// Chance writes 16 letters.
const LETTERS: u64 = 1;

/// Chance writes three digits behind four letters, 100 to 999.
const DIGITS: u64 = 2;

/// A generator that had to wait for its CPU makes up for so much, nanoseconds. Bursts overflow no ring: what it sends is
/// answered on the same CPU before it sends more.
const MOST_DEBT: u64 = 20_000_000;

/// The frame; then its length, nanoseconds between two frames, and what chance writes (0: nothing).
#[map]
pub static FLOOD: Array<[u64; WORDS + 3]> = Array::with_max_entries(1, 0);

/// State of the random numbers, frames made, time of the next one.
#[map]
pub static STATE: PerCpuArray<[u64; 3]> = PerCpuArray::with_max_entries(1, 0);

/// What came back: NXDOMAIN, anything else.
#[map]
pub static BACK: PerCpuArray<[u64; 2]> = PerCpuArray::with_max_entries(1, 0);

/// The interface.
#[map]
pub static OUT: DevMap = DevMap::with_max_entries(1, 0);

/// The generator.
#[xdp]
pub fn flood(ctx: XdpContext) -> u32 {
    let drop = xdp_action::XDP_DROP;
    if make(&ctx).is_none() {
        return drop;
    }
    OUT.redirect(0, 0).unwrap_or(drop)
}

/// Half octets as letters from a to p, the lowest first.
#[inline(always)]
fn letters(half: u64) -> u64 {
    let mut x = half & 0xffff_ffff;
    x = (x | (x << 16)) & 0x0000_ffff_0000_ffff;
    x = (x | (x << 8)) & 0x00ff_00ff_00ff_00ff;
    x = (x | (x << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    x + 0x6161_6161_6161_6161
}

#[inline(always)]
fn make(ctx: &XdpContext) -> Option<()> {
    // SAFETY: both maps have one element of this type, and user space does not write it while frames are made.
    let (load, state) = unsafe { (&*FLOOD.get_ptr(0)?, &mut *STATE.get_ptr_mut(0)?) };
    let (len, interval, chance) = (load[WORDS], load[WORDS + 1], load[WORDS + 2]);
    if interval != 0 {
        // SAFETY: the helper takes nothing and cannot fail.
        let now = unsafe { bpf_ktime_get_ns() };
        if now < state[2] {
            return None;
        }
        let due = if state[2] + MOST_DEBT < now { now } else { state[2] };
        state[2] = due + interval;
    }
    state[0] = state[0].wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let frame = Frame::of(ctx).window::<{ WORDS * 8 }>(0)?;
    for (i, word) in load[..WORDS].iter().enumerate() {
        frame.put(i * 8, *word);
    }
    frame.put(42, (state[0] >> 48) as u16);
    if chance == LETTERS {
        frame.put(LABEL_AT, letters(state[0] >> 32));
        frame.put(LABEL_AT + 8, letters((state[0] >> 16) ^ state[1]));
    } else if chance == DIGITS {
        let number = 100 + (((state[0] >> 32) * 900) >> 32) as u32;
        let tens = (number * 205) >> 11;
        let hundreds = (number * 41) >> 12;
        frame.put(LABEL_AT + 4, b'0' + hundreds as u8);
        frame.put(LABEL_AT + 5, b'0' + (tens - hundreds * 10) as u8);
        frame.put(LABEL_AT + 6, b'0' + (number - tens * 10) as u8);
    }
    state[1] += 1;
    let change = (len & 0x1ff) as i32 - (WORDS * 8) as i32;
    // SAFETY: the context is the kernel's; no pointer into the frame is used after this.
    let result = unsafe { bpf_xdp_adjust_tail(ctx.ctx, change) };
    (result == 0).then_some(())
}

/// The sink.
#[xdp]
pub fn sink(ctx: XdpContext) -> u32 {
    count(&Frame::of(&ctx)).unwrap_or(xdp_action::XDP_PASS)
}

#[inline(always)]
fn count(frame: &Frame) -> Option<u32> {
    // SAFETY: both maps have one element of this type, and user space does not write them while frames come.
    let (load, back) = unsafe { (&*FLOOD.get_ptr(0)?, &mut *BACK.get_ptr_mut(0)?) };
    // The source of the flood stands at octets 26 to 29, the destination of a frame at 30 to 33.
    let source = ((load[3] >> 16) & 0xffff_ffff) as u32;
    if source == 0 || frame.get::<u32>(30)? != source {
        return None;
    }
    // QR and AA, NXDOMAIN.
    let is_denied = frame.get::<u16>(44)? & 0x0f84 == 0x0384;
    back[if is_denied { 0 } else { 1 }] += 1;
    Some(xdp_action::XDP_DROP)
}
