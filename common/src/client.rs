//! Who asks.

/// Whose address decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// An IPv4 address as a number.
    V4(u32),
    /// An IPv6 address in memory order.
    V6([u8; 16]),
}

impl Client {
    /// The address in memory order, an IPv4 address in the lower half of the first word; and true for IPv6.
    #[inline(always)]
    pub fn words(&self) -> ([u64; 2], bool) {
        match self {
            Self::V4(address) => ([u64::from(address.to_be()), 0], false),
            Self::V6(a) => {
                let low = u64::from_le_bytes([a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]);
                let high = u64::from_le_bytes([a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]]);
                ([low, high], true)
            }
        }
    }
}

/// The address of [`Client::words`], an IPv4 address as the mapped one (RFC 4291 2.5.5.2). Without a branch.
#[inline(always)]
pub const fn mapped((words, is_ipv6): ([u64; 2], bool)) -> [u64; 2] {
    let v4 = (is_ipv6 as u64).wrapping_sub(1);
    let mapped = MAPPED | (words[0] << 32);
    [words[0] & !v4, (mapped & v4) | (words[1] & !v4)]
}

/// The lower half of the second word of every mapped address, in memory order.
pub const MAPPED: u64 = 0xffff_0000;
