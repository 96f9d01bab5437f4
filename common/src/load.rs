//! What the load generator of the benches and the counter of its replies agree on: the frame of a query for a random
//! name, and what a right answer to it looks like.
//!
//! Names are `host<N>.gslb.example.com`, N below [`Load::names`]. N also stands in the query's id (its lower 16 bits)
//! and in the lower octet of its source port, and the answer's TTL is [`ttl`] of N: a reply that answers another name
//! is found out without any memory of what was asked.
//!
//! ```text
//! 0    Ethernet, IPv4, UDP                    14 + 20 + 8 octets
//! 42   id, flags, counts
//! 54   length of the first label, "host"
//! 59   1 to 7 digits
//! ...  rest of the name, type, class, OPT     Load::tail
//! ```

use bytemuck::{Pod, Zeroable};

/// Octets of a frame before its length is set: more than any query has, so that cutting it refreshes every length
/// that the kernel keeps of a recycled frame.
pub const ROOM: usize = 128;

/// Offset of the UDP header.
pub const UDP_AT: usize = 34;

/// Offset of the DNS message.
pub const DNS_AT: usize = 42;

/// Offset of the first digit.
pub const DIGITS_AT: usize = 59;

/// Octets of the tail up to the end of the question: the rest of the name, type and class.
pub const QUESTION_TAIL: usize = 22;

/// Octets of the OPT of a query, and of that of its reply without options.
pub const OPT_LEN: usize = 11;

/// The client cookie of every query with a cookie, in memory order.
pub const CLIENT_COOKIE: u64 = 0x5773_636f_6f6b_6965;

/// The head of the COOKIE option of a query, in memory order: code 10, 8 octets.
pub const QUERY_COOKIE: u32 = 0x0800_0a00;

/// The same of a reply: 24 octets.
pub const REPLY_COOKIE: u32 = 0x1800_0a00;

/// Octets of the COOKIE option of a reply.
pub const REPLY_COOKIE_LEN: usize = 28;

/// Names that there may be: seven digits less one, and 24 bits in id and port.
pub const MAX_NAMES: u64 = 10_000_000;

/// What `generate` writes and `count` compares with. Words are in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct Load {
    /// Octets 0 to 47; lengths, IPv4 checksum, source port and id are zero.
    pub header: [u64; 6],
    /// What follows the digits, zero-padded.
    pub tail: [u64; 7],
    /// Octets of `tail`.
    pub tail_len: u64,
    /// Unfolded sum over the IPv4 header as it stands in `header`.
    pub ip_sum: u64,
    /// How many names there are.
    pub names: u64,
    /// First address of the pool, as a number.
    pub pool_first: u64,
    /// Addresses of the pool, one after the other.
    pub pool_len: u64,
}

/// Words of a [`Load`].
pub const LOAD_WORDS: usize = 18;

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reply {
    /// The answer to the name that was asked, from the pool, with the TTL of that name, nothing missing or added.
    Right,
    /// The query itself, sent back.
    Reflected,
    /// Not from UDP port 53.
    Other,
    /// A reply whose lengths, flags or counts are wrong.
    WrongHeader,
    /// Not the question that was asked.
    WrongQuestion,
    /// Not an address of the pool with the TTL of the name.
    WrongRecord,
    /// Not our OPT.
    WrongOpt,
}

/// Places of the counter's array.
pub const REPLIES: usize = 8;

/// The TTL of a name, so that every answer is tied to its name.
#[inline(always)]
pub const fn ttl(number: u32) -> u32 {
    number + 1
}

/// The decimal digits of a number below ten million, the first one lowest, and how many they are.
#[inline(always)]
pub const fn digits(number: u32) -> (u64, u32) {
    let mut word = 0;
    let mut rest = number as u64;
    let mut i = 0;
    while i < 7 {
        // A tenth, for all numbers of 32 bits.
        let tenth = (rest * 0xcccc_cccd) >> 35;
        word = (word << 8) | (b'0' as u64 + rest - tenth * 10);
        rest = tenth;
        i += 1;
    }
    let mut count = 1;
    let mut power = 10;
    while power <= 1_000_000 {
        count += (number >= power) as u32;
        power *= 10;
    }
    (word >> ((7 - count) * 8), count)
}

const _: () = assert!(size_of::<Load>() == LOAD_WORDS * 8);

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in (0..10_000_000_u32).step_by(37).chain([0, 9, 10, 99, 999_999, 1_000_000, 9_999_999]) {
            let text = std::format!("{number}");
            let (word, count) = super::digits(number);
            assert_eq!(&word.to_le_bytes()[..count as usize], text.as_bytes());
        }
    }
}
