//! Octets of a DNS message: where they are read, where they are written, and the numbers that stand in them.

/// Read access to a message. Offsets count from the first octet of the DNS header.
///
/// Wide reads are little endian on every machine that this runs on: the first octet is the lowest byte. [`name`]
/// and [`checksum`] work on such words; what the protocol calls a number goes through [`Source::number16`].
///
/// [`name`]: crate::name
/// [`checksum`]: crate::checksum
pub trait Source {
    /// Octets of the message.
    fn len(&self) -> usize;
    /// One octet; None behind the end.
    fn u8_at(&self, at: usize) -> Option<u8>;
    /// Two octets, the first one lowest.
    fn u16_at(&self, at: usize) -> Option<u16>;
    /// Four octets, the first one lowest.
    fn u32_at(&self, at: usize) -> Option<u32>;
    /// Eight octets, the first one lowest.
    fn u64_at(&self, at: usize) -> Option<u64>;

    /// True for a message without octets.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same value, of which nothing is known any more. A program that is checked path by path calls it where paths
    /// meet, so that what follows is checked once and not once for every path.
    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        value
    }

    /// The first twelve octets: the DNS header.
    #[inline(always)]
    fn head(&self) -> Option<(u64, u32)> {
        Some((self.u64_at(0)?, self.u32_at(8)?))
    }

    /// Eight octets at `at`; zeros for those behind the end of the message. None: all of them are.
    #[inline(always)]
    fn word_at(&self, at: usize) -> Option<u64> {
        if let Some(word) = self.u64_at(at) {
            return Some(word);
        }
        let last = self.len().checked_sub(8)?;
        let beyond = at.checked_sub(last)?;
        if beyond > 7 {
            return None;
        }
        Some(self.u64_at(last)? >> (beyond as u32 * 8))
    }

    /// A number of two octets in network order.
    #[inline(always)]
    fn number16(&self, at: usize) -> Option<u16> {
        self.u16_at(at).map(u16::from_be)
    }
}

/// Write access to the reply. The same offsets and the same order of octets as [`Source`].
pub trait Sink {
    /// One octet; None behind the end.
    fn put_u8(&mut self, at: usize, value: u8) -> Option<()>;
    /// Two octets, the lowest first.
    fn put_u16(&mut self, at: usize, value: u16) -> Option<()>;
    /// Four octets, the lowest first.
    fn put_u32(&mut self, at: usize, value: u32) -> Option<()>;
    /// Eight octets, the lowest first.
    fn put_u64(&mut self, at: usize, value: u64) -> Option<()>;
    /// Sixteen octets in one go.
    fn put_u128(&mut self, at: usize, low: u64, high: u64) -> Option<()>;

    /// The first twelve octets.
    #[inline(always)]
    fn put_head(&mut self, low: u64, high: u32) -> Option<()> {
        self.put_u64(0, low)?;
        self.put_u32(8, high)
    }

    /// As [`Source::forget`].
    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        value
    }
}

impl Source for [u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn u8_at(&self, at: usize) -> Option<u8> {
        self.get(at).copied()
    }

    #[inline(always)]
    fn u16_at(&self, at: usize) -> Option<u16> {
        self.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
    }

    #[inline(always)]
    fn u32_at(&self, at: usize) -> Option<u32> {
        self.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    #[inline(always)]
    fn u64_at(&self, at: usize) -> Option<u64> {
        self.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
    }
}

impl Sink for [u8] {
    #[inline(always)]
    fn put_u8(&mut self, at: usize, value: u8) -> Option<()> {
        *self.get_mut(at)? = value;
        Some(())
    }

    #[inline(always)]
    fn put_u16(&mut self, at: usize, value: u16) -> Option<()> {
        *self.get_mut(at..)?.first_chunk_mut()? = value.to_le_bytes();
        Some(())
    }

    #[inline(always)]
    fn put_u32(&mut self, at: usize, value: u32) -> Option<()> {
        *self.get_mut(at..)?.first_chunk_mut()? = value.to_le_bytes();
        Some(())
    }

    #[inline(always)]
    fn put_u64(&mut self, at: usize, value: u64) -> Option<()> {
        *self.get_mut(at..)?.first_chunk_mut()? = value.to_le_bytes();
        Some(())
    }

    #[inline(always)]
    fn put_u128(&mut self, at: usize, low: u64, high: u64) -> Option<()> {
        self.put_u64(at, low)?;
        self.put_u64(at + 8, high)
    }
}

/// Flags of the DNS header as the third and fourth octet, the third lowest (RFC 1035 4.1.1, RFC 4035 3).
pub mod flags {
    /// This is a response.
    pub const QR: u16 = 0x80;
    /// Mask of the opcode.
    pub const OPCODE: u16 = 0x78;
    /// Authoritative answer.
    pub const AA: u16 = 0x04;
    /// Truncated.
    pub const TC: u16 = 0x02;
    /// Recursion desired.
    pub const RD: u16 = 0x01;
    /// Checking disabled.
    pub const CD: u16 = 0x1000;
    /// Lowest bit of the response code.
    pub const RCODE_SHIFT: u16 = 8;
}

/// Types by number.
pub mod rtype {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Name server.
    pub const NS: u16 = 2;
    /// Alias.
    pub const CNAME: u16 = 5;
    /// Start of authority.
    pub const SOA: u16 = 6;
    /// IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
    /// Pseudo record of EDNS (RFC 6891).
    pub const OPT: u16 = 41;
    /// The first type that is no data: 249 and 250 are TKEY and TSIG, 251 to 255 the query types (RFC 6895 3.1).
    pub const META_FIRST: u16 = 249;
    /// The last of them: ANY.
    pub const ANY: u16 = 255;
}

/// Class IN.
pub const CLASS_IN: u16 = 1;

/// Response codes (RFC 1035 4.1.1, RFC 6891 6.1.3).
pub mod rcode {
    /// No error.
    pub const NOERROR: u16 = 0;
    /// Format error.
    pub const FORMERR: u16 = 1;
    /// Server failure.
    pub const SERVFAIL: u16 = 2;
    /// Name does not exist.
    pub const NXDOMAIN: u16 = 3;
    /// Not implemented.
    pub const NOTIMP: u16 = 4;
    /// Refused.
    pub const REFUSED: u16 = 5;
    /// Bad EDNS version: the upper bits stand in the OPT record.
    pub const BADVERS: u16 = 16;
}
