//! Does the way back to the client lead through the interface that the query came in by?

use aya_ebpf::{
    bindings::{bpf_fib_lookup as Lookup, xdp_md},
    helpers::generated::bpf_fib_lookup,
    programs::XdpContext,
};

use crate::{headers::Headers, maps, packet::Frame};

/// Families, as the kernel numbers them.
const INET: u8 = 2;
const INET6: u8 = 10;
const UDP: u8 = 17;

/// Results of bpf_fib_lookup: there is a way, with a neighbour that is known or not.
const SUCCESS: i64 = 0;
const NO_NEIGHBOUR: i64 = 7;

/// True if a reply may leave where the query came in.
#[inline(always)]
pub fn leads_back(ctx: &XdpContext, headers: &Headers, ifindex: u32) -> bool {
    route_alone(ctx.ctx, headers.ip_at as u64, headers.is_ipv6 as u64, u64::from(ifindex)) == 1
}

/// A function of its own to the kernel, which checks it once. Numbers go in and come out: offset of the IP header, whether
/// it is IPv6, the interface; 1 if the way back is the way here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn route_alone(ctx: *mut xdp_md, ip_at: u64, is_ipv6: u64, ifindex: u64) -> u64 {
    find(ctx, ip_at as usize & 0x1f, is_ipv6 != 0, ifindex as u32).unwrap_or(0)
}

#[inline(always)]
fn find(ctx: *mut xdp_md, ip_at: usize, is_ipv6: bool, ifindex: u32) -> Option<u64> {
    let cpu = maps::PER_CPU.get_ptr_mut(0)?;
    let frame = Frame::of(&XdpContext::new(ctx));
    // SAFETY: words of this CPU's own element, which nothing else uses while the program runs; their addresses alone.
    let words: *mut u64 = unsafe { (&raw mut (*cpu).route).cast() };
    // SAFETY: eight words, each written once.
    let put = |at: usize, word: u64| unsafe { words.add(at).write(word) };
    let head = |family: u8| u64::from(family) | u64::from(UDP) << 8;
    for at in [6, 7] {
        put(at, 0);
    }
    put(1, u64::from(ifindex));
    // From our address to the client's.
    if is_ipv6 {
        let ip = frame.window::<40>(ip_at)?;
        put(0, head(INET6));
        for (at, place) in [(2, 24), (3, 32), (4, 8), (5, 16)] {
            put(at, ip.get(place));
        }
    } else {
        let ip = frame.window::<20>(ip_at)?;
        put(0, head(INET));
        for (at, word) in [(2, ip.get::<u32>(16)), (3, 0), (4, ip.get::<u32>(12)), (5, 0)] {
            put(at, u64::from(word));
        }
    }
    // SAFETY: the words are as large as what the helper reads and writes, which the layout asserts.
    let found = unsafe { bpf_fib_lookup(ctx.cast(), words.cast(), size_of::<Lookup>() as i32, 0) };
    // SAFETY: as above; the helper has written the interface of the way.
    let way = unsafe { words.add(1).read() } as u32;
    Some(u64::from((found == SUCCESS || found == NO_NEIGHBOUR) && way == ifindex))
}

const _: () = assert!(size_of::<Lookup>() == 64);
