//! How long a reply may be for the sake of others: whole, truncated, or not at all.

use core::arch::asm;

use aya_ebpf::{helpers::bpf_ktime_get_coarse_ns, maps::lpm_trie::Key};
use responder_common::{
    client::mapped,
    counters::Counter,
    layout::PerCpu,
    limit::{self, LINES, Line, Rate, Table, Verdict, WAYS},
    reply::Shape,
    select::Answer,
    switches::Switches,
};

use crate::{headers::Headers, lookup::KernelWorld, maps, packet::Scratch};

/// Octets of a reply that says nothing but TC.
const EMPTY: usize = 0;

/// Notes how many octets a reply to this query may have, before anybody forgets how long it is.
#[inline(always)]
pub fn measure(switches: Switches, headers: &Headers, cpu: &mut PerCpu) {
    cpu.room = switches.room(headers.dns_len, false) as u64;
}

/// Octets that the reply may have: [`EMPTY`] for a query over the limit whose turn it is to slip. Err: no reply.
/// `exempt`: the client has shown that the address is its own, by a valid cookie.
#[inline(always)]
pub fn room(
    world: &KernelWorld,
    switches: Switches,
    headers: &Headers,
    cpu: &PerCpu,
    exempt: bool,
) -> Result<usize, Counter> {
    // SAFETY: a live word; volatile, for the compiler knows what was stored and the checker of paths must not.
    let measured = unsafe { (&raw const cpu.room).read_volatile() } as usize;
    let mut room = if exempt { usize::MAX } else { measured };
    if switches.interval() != 0 && !exempt {
        match ask(world, headers, switches) {
            Verdict::Answer => {}
            Verdict::Slip => room = EMPTY,
            Verdict::Nothing => return Err(Counter::DropLimited),
        }
    }
    Ok(world.scratch.forget(room))
}

/// A shape of which the checker of paths knows nothing.
#[inline(always)]
pub fn forget(shape: Shape, scratch: Scratch) -> Shape {
    Shape {
        len: scratch.forget(shape.len),
        count: scratch.forget(shape.count as usize) as u32,
        truncated: scratch.forget(usize::from(shape.truncated)) & 1 == 1,
    }
}

/// The counter of a reply of this shape.
#[inline(always)]
pub fn counter(answer: &Answer<'_>, shape: Shape, room: usize) -> Counter {
    match (shape.truncated, room) {
        (false, _) => answer.counter(),
        (true, EMPTY) => Counter::AnswerSlip,
        (true, _) => Counter::AnswerTruncated,
    }
}

#[inline(always)]
fn ask(world: &KernelWorld, headers: &Headers, switches: Switches) -> Verdict {
    let headers = headers.forget(world.scratch);
    let [low, high] = headers.source;
    match ask_alone(low, high, headers.is_ipv6 as u64, switches.0) {
        0 => Verdict::Answer,
        1 => Verdict::Slip,
        _ => Verdict::Nothing,
    }
}

/// A function of its own to the kernel, which checks it once and not once for every path that leads here. Numbers go in
/// and come out: the source in memory order, whether it is IPv6, the switches; 0 answer, 1 slip, 2 nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ask_alone(low: u64, high: u64, is_ipv6: u64, switches: u64) -> u64 {
    let Some(cpu) = maps::PER_CPU.get_ptr(0) else { return 0 };
    // SAFETY: this CPU's own element.
    let scratch = Scratch::of(unsafe { &*cpu });
    let Some(world) = KernelWorld::open(scratch) else { return 0 };
    let switches = Switches(switches);
    let headers = Headers { source: [low, high], is_ipv6: is_ipv6 as usize & 1, ..Headers::NONE };
    if switches.has_allowed() && is_allowed(&headers) {
        return 0;
    }
    // SAFETY: a helper without arguments. The clock of a tick is fine enough for what lasts a second.
    let now = limit::time(unsafe { bpf_ktime_get_coarse_ns() });
    let prefix = limit::prefix(headers.client());
    let rate = Rate::each(switches.interval());
    // A table without lines cannot be; then nobody is limited.
    match limit::ask(&Buckets(scratch), world.control.key(), prefix, now, rate, switches.slip()) {
        None | Some(Verdict::Answer) => 0,
        Some(Verdict::Slip) => 1,
        Some(Verdict::Nothing) => 2,
    }
}

#[inline(always)]
fn is_allowed(headers: &Headers) -> bool {
    maps::ALLOWED.get(Key::new(128, mapped((headers.source, headers.is_ipv6 != 0)))).is_some()
}

/// The table that both lanes share.
struct Buckets(Scratch);

impl Table for Buckets {
    type Line = *mut Line;

    #[inline(always)]
    fn lines(&self) -> u32 {
        LINES
    }

    #[inline(always)]
    fn line(&self, index: u32) -> Option<*mut Line> {
        maps::LIMITS.get_ptr_mut(index)
    }

    #[inline(always)]
    fn load(&self, line: *mut Line, way: usize) -> u64 {
        // SAFETY: the kernel checked the index of the line, and the mask keeps the way inside.
        unsafe { line.cast::<u64>().add(way & (WAYS - 1)).read_volatile() }
    }

    #[inline(always)]
    fn swap(&self, line: *mut Line, way: usize, old: u64, new: u64) -> bool {
        let found: u64;
        // SAFETY:
        // - the word is one of the line's, as in `load`, and aligned;
        // - the one instruction (Linux 5.12) reads and changes that word alone; r0 is its operand by definition.
        unsafe {
            asm!(
                "r0 = cmpxchg_64({0} + 0, r0, {1})",
                in(reg) line.cast::<u64>().add(way & (WAYS - 1)),
                in(reg) new,
                inout("r0") old => found,
                options(nostack)
            );
        }
        found == old
    }

    #[inline(always)]
    fn count(&self, line: *mut Line, way: usize) -> u64 {
        let mut number: u64 = 1;
        // SAFETY: as in `swap`; the counts stand behind the words.
        unsafe {
            asm!(
                "{1} = atomic_fetch_add((u64 *)({0} + 0), {1})",
                in(reg) line.cast::<u64>().add(WAYS + (way & (WAYS - 1))),
                inout(reg) number,
                options(nostack)
            );
        }
        number
    }

    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        self.0.forget(value)
    }
}
