//! Every bound once.

/// Octets of the DNS header (RFC 1035 4.1.1).
pub const HEADER: usize = 12;

/// Longest name on the wire, root label included (RFC 1035 3.1).
pub const MAX_NAME: usize = 255;

/// Words of eight octets that hold the longest name.
pub const MAX_NAME_WORDS: usize = 32;

/// Words of a name that a [`crate::layout::NameEntry`] holds; longer names are answered by a worker.
pub const FAST_NAME_WORDS: usize = 13;

/// Longest name of the XDP program, root label included.
pub const FAST_NAME: usize = FAST_NAME_WORDS * 8;

/// Ends of a name that are looked for as the apex of a complete zone; deeper names are answered by a worker.
pub const MAX_ENDS: usize = 6;

/// Options of one OPT record that are walked; longer lists go to a worker.
pub const MAX_OPTIONS: usize = 8;

/// Words of eight octets of the server's identifier.
pub const MAX_NSID_WORDS: usize = 8;

/// UDP payload size that we announce and never exceed (RFC 9715; DNS flag day 2020).
pub const EDNS_PAYLOAD: u16 = 1232;

/// Payload of a client without EDNS (RFC 1035 4.2.1), and the least that an OPT can mean (RFC 6891 6.2.3).
pub const PLAIN_PAYLOAD: u16 = 512;

/// Addresses of one answer that the XDP program writes.
pub const FAST_GIVE: usize = 8;

/// Addresses that one answer set can hold.
pub const MAX_POOL: usize = 64;

/// Places of the rotation ring of an answer set.
pub const MAX_RING: usize = 1024;

/// Octets of the SOA's mname and rname, less the apex, that the XDP program writes.
pub const FAST_SOA_WORDS: usize = 4;

/// Words of eight octets of an SOA's mname or rname.
pub const SOA_WORDS: usize = MAX_NAME_WORDS;

/// Listening addresses per family.
pub const MAX_LISTEN: usize = 16;

/// Prefixes of `limits.allow`.
pub const MAX_ALLOWED: usize = 1024;

/// Interfaces.
pub const MAX_INTERFACES: usize = 16;

/// Longest TTL (RFC 2181 8).
pub const MAX_TTL: u32 = 0x7fff_ffff;
