//! The zone of a name that does not exist.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use responder_common::{limits::FAST_NAME_WORDS, lookup, name::FoldedName};

use crate::{
    headers::Headers,
    lookup::KernelWorld,
    maps,
    packet::{Frame, Scratch},
};

/// Where a name does not exist: one number, for the program has little room.
#[derive(Clone, Copy, Default)]
pub struct Absent(u64);

impl Absent {
    /// The zone of the name that a query asks for, if it is complete.
    #[inline(always)]
    pub fn of(ctx: &XdpContext, headers: &Headers) -> Option<Self> {
        let packed = zone_alone(ctx.ctx, headers.dns_at() as u64, headers.dns_len as u64);
        (packed & 1 != 0).then_some(Self(packed))
    }

    /// Offset of its apex inside the name.
    #[inline(always)]
    pub fn apex_at(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Slot of its SOA.
    #[inline(always)]
    pub fn zone(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A function of its own to the kernel, which checks it once. Numbers come out: 1 if there is a zone, offset of its apex
/// from bit 8 on, its slot from bit 32 on.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn zone_alone(ctx: *mut xdp_md, dns_at: u64, dns_len: u64) -> u64 {
    let Some(cpu) = maps::PER_CPU.get_ptr_mut(0) else { return 0 };
    // SAFETY:
    // - this CPU's own element, of which the caller does not touch these words;
    // - the name fits into them, which the layout asserts; it has no references and no enums: every bit pattern is one.
    let (scratch, name) =
        unsafe { (Scratch::of_ptr(cpu), &mut *(&raw mut (*cpu).end).cast::<FoldedName<FAST_NAME_WORDS>>()) };
    let Some(world) = KernelWorld::open(scratch) else { return 0 };
    let frame = Frame::of(&XdpContext::new(ctx));
    let message = frame.message(dns_at as usize & 0x7f, dns_len as usize & 0xffff, scratch);
    match lookup::zone_without(&world, &message, name) {
        Some((apex_at, zone)) => 1 | (u64::from(apex_at) << 8) | (u64::from(zone) << 32),
        None => 0,
    }
}
