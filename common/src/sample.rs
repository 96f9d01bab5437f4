//! What the program tells of single packets, for `capture` and `stats --top`: records in a ring buffer.
//!
//! A sampled query is told when it comes, before anything of it is written over; what became of it when the program is
//! done: with the frame of the answer if there is one. The number that both carry belongs to a CPU.

use bytemuck::{Pod, Zeroable};

/// Octets of a frame that are told.
pub const SNAP: usize = 640;

/// Octets of the ring buffer: 1,489 frames.
pub const RING: u32 = 1 << 20;

/// [`Head::kind`]: a query as it came.
pub const QUERY: u32 = 1;
/// [`Head::kind`]: an answer as it left.
pub const ANSWER: u32 = 2;
/// [`Head::kind`]: a query was passed or dropped; without a frame.
pub const VERDICT: u32 = 3;

/// In front of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// 1, 2, 3, … of this CPU.
    pub number: u64,
    /// [`QUERY`], [`ANSWER`] or [`VERDICT`].
    pub kind: u32,
    /// Number of the CPU.
    pub cpu: u32,
    /// Octets of the frame.
    pub len: u32,
    /// Octets of it that follow.
    pub captured: u32,
    /// Index of the interface.
    pub ifindex: u32,
    /// [`crate::counters::Counter::slot`] of what became of the query; 0 in a [`QUERY`].
    pub slot: u32,
}

/// A record with a frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Record {
    /// What it is.
    pub head: Head,
    /// [`Head::captured`] octets of the frame; what follows them means nothing.
    pub frame: [u8; SNAP],
}

/// Which packets are told. Written while nothing is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Filter {
    /// One of so many that fit the rest; at least 1.
    pub every: u64,
    /// 1: answers and verdicts as well.
    pub answers: u64,
    /// Client address under `client_mask`, in memory order; IPv4 as mapped addresses.
    pub client: [u64; 2],
    /// Bits of the address that count.
    pub client_mask: [u64; 2],
    /// The first octets of the question's name, folded, under `name_mask`.
    pub name: [u64; 2],
    /// Octets of the name that count.
    pub name_mask: [u64; 2],
    /// Zero.
    pub reserved: [u64; 6],
}

impl Filter {
    /// Everything.
    pub const ALL: Self = Self {
        every: 1,
        answers: 1,
        client: [0; 2],
        client_mask: [0; 2],
        name: [0; 2],
        name_mask: [0; 2],
        reserved: [0; 6],
    };

    /// A filter that asks for the first 16 octets of a name in wire format, folded. Longer names need a second look.
    #[must_use]
    pub fn with_name(mut self, wire: &[u8]) -> Self {
        let (mut name, mut mask) = ([0_u8; 16], [0_u8; 16]);
        for (i, octet) in wire.iter().take(16).enumerate() {
            (name[i], mask[i]) = (*octet, 0xff);
        }
        self.name = bytemuck::cast(name);
        self.name_mask = bytemuck::cast(mask);
        self
    }
}

const _: () = {
    assert!(size_of::<Head>() == 40);
    assert!(size_of::<Record>() == 40 + SNAP);
    assert!(size_of::<Filter>() == 128);
};
