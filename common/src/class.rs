//! Client classes: which part of the partition of addresses a client belongs to (design section 4).
//!
//! IPv4 is a DIR-24-8 table. Array elements take at least eight octets, so four 16-bit numbers share one: element
//! `address >> 10`, lane `address >> 8 & 3`. A number below the count of classes is the class of the whole /24; any
//! other one, less that count, is a block of 64 elements with a number for every address.

use crate::client::Client;

/// Elements of the table of scopes: eight lanes each.
pub const SCOPE_ELEMENTS: u32 = 1 << 21;

/// Elements of the scopes of one split /24.
pub const SPLIT_SCOPE_ELEMENTS: u32 = 32;

/// Element and lane of an address in the table of scopes.
#[inline(always)]
pub const fn scope_place(address: u32) -> (u32, u32) {
    (address >> 11, (address >> 8) & 7)
}

/// Element and lane of an address in the scopes of a split /24.
#[inline(always)]
pub const fn split_scope_place(block: u32, address: u32) -> (u32, u32) {
    (block * SPLIT_SCOPE_ELEMENTS + ((address & 0xff) >> 3), address & 7)
}

/// The scope in a lane of an element: a prefix length.
#[inline(always)]
pub const fn scope_lane(element: u64, lane: u32) -> u32 {
    ((element >> ((lane & 7) * 8)) & 0xff) as u32
}

/// Length of the block around an ECS address that is set aside where the virtual server validates them: private,
/// loopback, link-local, multicast or reserved. None: an address that may be routed.
#[inline(always)]
pub fn set_aside(address: &Client) -> Option<u32> {
    set_aside_words(address.words())
}

/// Likewise, of [`Client::words`].
#[inline(always)]
pub fn set_aside_words(words: ([u64; 2], bool)) -> Option<u32> {
    if words.1 {
        let first = u64::from_be(words.0[0]) >> 48;
        return match first >> 8 {
            0x00 | 0xff => Some(8),
            0xfc | 0xfd => Some(7),
            0xfe if first & 0x80 != 0 => Some(9),
            _ => None,
        };
    }
    let address = u32::from_be(words.0[0] as u32);
    match address >> 24 {
        0 | 10 | 127 => Some(8),
        224.. => Some(3),
        _ if address >> 22 == 0x6440_0000 >> 22 => Some(10),
        _ if address >> 20 == 0xac10_0000 >> 20 => Some(12),
        _ if address >> 16 == 0xc0a8 || address >> 16 == 0xa9fe => Some(16),
        _ => None,
    }
}

/// Elements of the first table.
pub const DIRECT_ELEMENTS: u32 = 1 << 22;

/// Elements of one split /24.
pub const SPLIT_ELEMENTS: u32 = 64;

/// Element and lane of an address in the first table.
#[inline(always)]
pub const fn direct_place(address: u32) -> (u32, u32) {
    (address >> 10, (address >> 8) & 3)
}

/// Element and lane of an address in the block of a split /24.
#[inline(always)]
pub const fn split_place(block: u32, address: u32) -> (u32, u32) {
    (block * SPLIT_ELEMENTS + ((address & 0xff) >> 2), address & 3)
}

/// The number in a lane of an element.
#[inline(always)]
pub const fn lane(element: u64, lane: u32) -> u32 {
    ((element >> ((lane & 3) * 16)) & 0xffff) as u32
}
