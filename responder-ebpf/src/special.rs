//! Answers that are not the same for all clients: classes, ECS, sessions.

use responder_common::{
    client::Client,
    counters::Counter,
    limits::FAST_NAME_WORDS,
    lookup::{self, Ask, Found},
    parse::Query,
};

use crate::{lookup::KernelWorld, maps, packet::Scratch};

/// Set where there is no answer; the reason stands in the lowest bits.
const NONE: u64 = 1 << 63;

/// Why there is none, by those bits.
const REASONS: [Counter; 4] =
    [Counter::PassBroken, Counter::PassUndecided, Counter::PassSubnet, Counter::PassSubnetPolicy];

/// See [`responder_common::lookup::special`]. The options are those of the query that this CPU has in its memory.
#[inline(always)]
pub fn find(ask: &Ask) -> Result<Found, Counter> {
    let ([low, high], is_ipv6) = ask.client.words();
    let what = u64::from(is_ipv6)
        | u64::from(ask.is_classed) << 1
        | u64::from(ask.has_sessions) << 2
        | u64::from(ask.has_subnet) << 3
        | u64::from(ask.flags) << 8;
    let packed = special_alone(low, high, what, u64::from(ask.index));
    if packed & NONE != 0 {
        return Err(match packed & 3 {
            1 => Counter::PassUndecided,
            2 => Counter::PassSubnet,
            3 => Counter::PassSubnetPolicy,
            _ => Counter::PassBroken,
        });
    }
    let scope = (packed >> 40) as u32 & 0xff;
    Ok(Found { number: 0, slot: (packed >> 8) as u32, start: (packed & 0xff) as u32, scope })
}

/// A function of its own to the kernel, which checks it once. Numbers go in and come out: the client in memory order,
/// what is asked, the first reference; the place in the set in the lowest octet, the slot of the set above it, the scope
/// from bit 40 on.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn special_alone(low: u64, high: u64, what: u64, index: u64) -> u64 {
    let Some(cpu) = maps::PER_CPU.get_ptr(0) else { return NONE };
    // SAFETY:
    // - this CPU's own element;
    // - the query was written before the call, and of what is read here the caller changes nothing;
    // - it has no references and no enums: every bit pattern is one.
    let (scratch, query) =
        unsafe { (Scratch::of_ptr(cpu), &*(&raw const (*cpu).query).cast::<Query<FAST_NAME_WORDS>>()) };
    let Some(world) = KernelWorld::open(scratch) else { return NONE };
    let client = if what & 1 != 0 {
        let mut address = [0; 16];
        address[..8].copy_from_slice(&low.to_le_bytes());
        address[8..].copy_from_slice(&high.to_le_bytes());
        Client::V6(address)
    } else {
        Client::V4(u32::from_be(low as u32))
    };
    let ask = Ask {
        index: index as u32,
        is_classed: what & 2 != 0,
        has_sessions: what & 4 != 0,
        has_subnet: what & 8 != 0,
        flags: (what >> 8) as u8,
        client,
    };
    match lookup::special(&world, &ask, &query.options) {
        Ok(found) => {
            (u64::from(found.scope & 0xff) << 40)
                | (u64::from(found.slot) << 8)
                | u64::from(found.start & 0xff)
        }
        Err(reason) => NONE | REASONS.iter().position(|known| *known == reason).unwrap_or(0) as u64,
    }
}
