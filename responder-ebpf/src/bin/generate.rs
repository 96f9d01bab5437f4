//! Load generator: each run makes one query for a random name and sends it out of an interface.
//!
//! It runs by BPF_PROG_TEST_RUN with live frames, whose pages are recycled as the receiver left them. So everything
//! from the MAC addresses to the last octet is written each time, and every frame is cut to its length, for only a
//! changed length makes the kernel forget what the frame was before.

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{
    bindings::xdp_action,
    helpers::bpf_xdp_adjust_tail,
    macros::{map, xdp},
    maps::{Array, DevMap, PerCpuArray},
    programs::XdpContext,
};
use responder_common::{
    checksum::Sum,
    load::{DIGITS_AT, Load, ROOM, digits},
    wire::Sink,
};
use responder_ebpf::packet::{Frame, Scratch};

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// What is sent.
#[map]
pub static LOAD: Array<Load> = Array::with_max_entries(1, 0);

/// State of the random numbers, and how many frames were made.
#[map]
pub static STATE: PerCpuArray<[u64; 2]> = PerCpuArray::with_max_entries(1, 0);

/// The interface.
#[map]
pub static OUT: DevMap = DevMap::with_max_entries(1, 0);

/// Entry point.
#[xdp]
pub fn generate(ctx: XdpContext) -> u32 {
    let drop = xdp_action::XDP_DROP;
    if make(&ctx).is_none() {
        return drop;
    }
    OUT.redirect(0, 0).unwrap_or(drop)
}

#[inline(always)]
fn make(ctx: &XdpContext) -> Option<()> {
    // SAFETY: both maps have one element of this type, and user space does not write it while frames are made.
    let (load, state) = unsafe { (&*LOAD.get_ptr(0)?, &mut *STATE.get_ptr_mut(0)?) };
    // Knuth's MMIX generator: its upper half is good enough to spread names.
    state[0] = state[0].wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let number = ((state[0] >> 32) * load.names) >> 32;
    let (word, count) = digits(number as u32);
    let count = (count & 7) as usize;
    let len = DIGITS_AT + count + (load.tail_len & 0x3f) as usize;

    let frame = Frame::of(ctx);
    let total = u64::from(((len - 14) as u16).to_be());
    let udp_len = u64::from(((len - 34) as u16).to_be());
    let port = 0x8000 | ((state[0] >> 40) & 0x7f00) | (number >> 16);
    let mut sum = Sum::default();
    sum.add(load.ip_sum + total);
    frame.put(0, load.header[0])?;
    frame.put(8, load.header[1])?;
    frame.put(16, load.header[2] | total)?;
    frame.put(24, load.header[3] | u64::from(sum.finish()))?;
    frame.put(32, load.header[4] | (u64::from((port as u16).to_be()) << 16) | (udp_len << 48))?;
    frame.put(40, load.header[5] | (u64::from((number as u16).to_be()) << 16))?;
    let additional = u64::from(load.tail_len > 32) << 40;
    frame.put(48, additional | ((4 + count as u64) << 48) | (u64::from(b'h') << 56))?;
    frame.put(56, u32::from_le_bytes(*b"ost\0"))?;
    let mut rest = frame.message(DIGITS_AT, 0, Scratch::none());
    rest.put_u64(0, word)?;
    for (i, tail) in load.tail.iter().enumerate() {
        rest.put_u64(count + i * 8, *tail)?;
    }
    state[1] += 1;
    // SAFETY: the context is the kernel's; no pointer into the frame is used after this.
    let result = unsafe { bpf_xdp_adjust_tail(ctx.ctx, len as i32 - ROOM as i32) };
    (result == 0).then_some(())
}
