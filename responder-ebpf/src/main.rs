//! The XDP program: answers A and AAAA of GSLB names in the driver, passes everything else.
//!
//! ```text
//! frame -> headers -> parse -> lookup, class, select -> grow the frame -> reply -> XDP_TX
//!             |          |              |                     |
//!             +-- pass --+---- pass ----+------- pass --------+--> kernel -> worker
//! ```

#![no_std]
#![no_main]
#![allow(missing_docs, reason = "the xdp attribute makes a second item without the comment")]

use aya_ebpf::{
    bindings::xdp_action,
    helpers::{bpf_jiffies64, bpf_ktime_get_coarse_ns},
    macros::xdp,
    programs::XdpContext,
};
use responder_common::{
    counters::{self, Counter, Slot},
    layout::{Control, PerCpu},
    limits::{FAST_GIVE, FAST_NAME_WORDS, FAST_SOA_WORDS},
    lookup,
    parse::{self, Query},
    reply,
    switches::Switches,
};
use responder_ebpf::{
    absent::Absent,
    grow, headers, limit,
    lookup::KernelWorld,
    maps,
    packet::{Frame, Scratch},
    route, sample, send, tally,
};

/// Declared to the kernel.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Entry point.
#[xdp]
pub fn responder(ctx: XdpContext) -> u32 {
    let Some(cpu) = maps::PER_CPU.get_ptr_mut(0) else { return xdp_action::XDP_PASS };
    // SAFETY: this CPU's own element; a program is not interrupted by another run of itself on the same CPU.
    let cpu = unsafe { &mut *cpu };
    let scratch = Scratch::of(cpu);
    let Some(world) = KernelWorld::open(scratch) else { return xdp_action::XDP_PASS };
    let switches = world.switches();
    if switches.times() {
        tally::begin(cpu);
    }
    let switches = world.forget_switches(switches);
    let (slot, verdict) = match answer(&ctx, cpu, &world, switches) {
        Ok(slot) => (slot, xdp_action::XDP_TX),
        // Nothing was written yet where an answer of the program fails, so a pass passes the packet as it came.
        Err(slot) if slot.is_drop() => (slot, xdp_action::XDP_DROP),
        Err(slot) => (slot, xdp_action::XDP_PASS),
    };
    #[cfg(feature = "log")]
    aya_log_ebpf::debug!(&ctx, "counter {}: verdict {}", slot.0, verdict);
    cpu.counters[slot.0 & (counters::SLOTS - 1)] += 1;
    if verdict == xdp_action::XDP_TX {
        tally::answer(cpu);
    }
    if switches.samples() {
        sample::outcome(&ctx, slot, verdict == xdp_action::XDP_TX);
    }
    if switches.times() {
        tally::end(cpu);
    }
    verdict
}

#[inline(always)]
fn answer(ctx: &XdpContext, cpu: &mut PerCpu, world: &KernelWorld, switches: Switches) -> Result<Slot, Slot> {
    let scratch = world.scratch;
    let frame = Frame::of(ctx);
    // SAFETY: the context is valid while the program runs; the kernel rewrites this access to its own field.
    let ifindex = unsafe { (*ctx.ctx).ingress_ifindex };
    let headers = headers::parse(&frame, world.control, ifindex, scratch)?;
    if is_stale(world.control, cpu) {
        return Err(Counter::PassStale.into());
    }
    let headers = headers.forget(scratch);
    limit::measure(switches, &headers, cpu);
    let switches = world.forget_switches(switches);
    if switches.samples() {
        sample::query(ctx, &headers);
    }
    let switches = world.forget_switches(switches);
    let message = frame.message(headers.dns_at(), headers.dns_len, scratch);
    let query = room(cpu);
    let found = parse::scan_into(&message, world.control.key(), query)
        .and_then(|()| lookup::find(world, &query.name));
    let mut zone = Absent::default();
    let entry = match found {
        Ok(entry) => Some(entry),
        // Only what is behind the header depends on the name.
        Err(found) if found.is_of_header() => return Err(found.into()),
        Err(found) => {
            // Unknown to the verifier, which would follow the labels for each reason by itself.
            let is_unknown = found == Counter::PassUnknownName;
            let found = Slot(scratch.forget(found.slot()));
            parse::prove(&message, query)?;
            if !is_unknown {
                return Err(found);
            }
            zone = Absent::of(ctx, &headers).ok_or(found)?;
            None
        }
    };
    let client = headers.client();
    let (edns, options) = (&mut query.edns, &mut query.options);
    lookup::settle_options(world, &client, edns, options)?;
    let answer = match entry {
        Some(entry) => lookup::answer_for::<_, FAST_GIVE, FAST_SOA_WORDS>(
            world,
            entry,
            query.qtype,
            client,
            edns,
            options,
        )?,
        None => {
            *edns = edns.without_subnet();
            lookup::no_name::<_, FAST_SOA_WORDS>(world, zone.apex_at(), zone.zone())?
        }
    };
    let room = limit::room(world, switches, &headers, cpu, query.edns.has_valid_cookie())?;
    let headers = headers.forget(scratch);
    let nsid = &world.control.nsid;
    let shape = reply::fit(query, &answer, nsid, room);
    let slot = Slot(scratch.forget(limit::counter(&answer, shape, room).slot()));
    let shape = limit::forget(shape, scratch);
    if switches.routes() && !route::leads_back(ctx, &headers, ifindex) {
        return Err(Counter::PassRoute.into());
    }
    tally::note(cpu, &answer, query.qtype);
    let change = (headers.dns_at() + shape.len) as i64 - frame.len() as i64;
    grow::grow(ctx, change as i32, headers.dns_at() + query.question_end, scratch)?;
    let frame = Frame::of(ctx);
    let mut message = frame.message(headers.dns_at(), shape.len, scratch);
    let sum = reply::write::<_, FAST_NAME_WORDS, FAST_GIVE, FAST_SOA_WORDS>(
        &mut message,
        query,
        &answer,
        nsid,
        shape,
    )
    .ok_or(Counter::DropBroken)?;
    send::send(&frame, &headers, shape.len, sum).ok_or(Counter::DropBroken)?;
    Ok(slot)
}

/// Room for a query in the memory of this CPU.
#[inline(always)]
fn room<'q>(cpu: &mut PerCpu) -> &'q mut Query<FAST_NAME_WORDS> {
    let room = (&raw mut cpu.query).cast::<Query<FAST_NAME_WORDS>>();
    // SAFETY:
    // - the query fits, which the layout asserts, and words are aligned as it is;
    // - it has no references and no enums: every bit pattern is one;
    // - nothing else uses these words while the program runs.
    unsafe { &mut *room }
}

/// True when the daemon has been silent for too long. The clock is read once a jiffy, not once a packet.
#[inline(always)]
fn is_stale(control: &Control, cpu: &mut PerCpu) -> bool {
    // SAFETY: aligned words that their writer stores whole; helpers without arguments.
    unsafe {
        let max_stale = (&raw const control.max_stale).read_volatile();
        if max_stale == 0 {
            return false;
        }
        let jiffy = bpf_jiffies64();
        if jiffy != cpu.checked {
            cpu.checked = jiffy;
            let heartbeat = (&raw const control.heartbeat).read_volatile();
            cpu.stale = u64::from(bpf_ktime_get_coarse_ns().saturating_sub(heartbeat) > max_stale);
        }
    }
    cpu.stale != 0
}
