//! The frame at the length of the reply, before any octet of it is written.

use aya_ebpf::{
    helpers::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail},
    programs::XdpContext,
};
use responder_common::{
    counters::Counter,
    limits::FAST_NAME,
    wire::{Sink, Source},
};

use crate::packet::{Frame, Scratch};

/// Octets of the longest headers and question that are kept: Ethernet with two tags, IPv6, UDP, DNS header, question.
const KEPT_MOST: usize = 22 + 40 + 8 + 12 + FAST_NAME + 4;

/// Changes the length of the frame by `change` octets. The first `kept` octets keep their place from the beginning.
///
/// Where there is no room behind the frame, as on a veth pair whose buffers are cut to measure, the room before it is
/// used, and what is kept moves there. Err: there is no room at all, and the packet is as it came.
#[inline(always)]
pub fn grow(ctx: &XdpContext, change: i32, kept: usize, scratch: Scratch) -> Result<(), Counter> {
    // SAFETY: the context is the kernel's; the caller makes all pointers into the packet anew.
    if unsafe { bpf_xdp_adjust_tail(ctx.ctx, change) } == 0 {
        return Ok(());
    }
    // SAFETY: the same.
    if change <= 0 || unsafe { bpf_xdp_adjust_head(ctx.ctx, -change) } != 0 {
        return Err(Counter::PassTailroom);
    }
    move_down(ctx, change as usize, kept, scratch).ok_or(Counter::DropBroken)
}

/// Moves the first `kept` octets down by `by`, in words; the last word overlaps the one before.
#[inline(always)]
fn move_down(ctx: &XdpContext, by: usize, kept: usize, scratch: Scratch) -> Option<()> {
    let frame = Frame::of(ctx);
    let from = frame.message(by, 0, scratch);
    let mut to = frame.message(0, 0, scratch);
    for i in 0..KEPT_MOST.div_ceil(8) {
        let at = i * 8;
        if at + 8 > kept {
            break;
        }
        to.put_u64(at, from.u64_at(at)?)?;
    }
    let last = scratch.forget(kept.checked_sub(8)?);
    to.put_u64(last, from.u64_at(last)?)
}
