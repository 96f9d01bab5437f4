//! Client classes: which part of the partition of addresses a client belongs to (design section 4).
//!
//! IPv4 is a DIR-24-8 table. Array elements take at least eight octets, so four 16-bit numbers share one: element
//! `address >> 10`, lane `address >> 8 & 3`. A number below the count of classes is the class of the whole /24; any
//! other one, less that count, is a block of 64 elements with a number for every address.

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
