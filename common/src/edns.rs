//! The OPT pseudo record (RFC 6891), read and written, with the options that are understood here: client subnet
//! (RFC 7871), cookie (RFC 7873) and server identifier (RFC 5001). All others are ignored (RFC 6891 6.1.2).

use core::cmp::Ordering;

use crate::{
    checksum::Sum,
    client::Client,
    counters::Counter,
    limits::{EDNS_PAYLOAD, MAX_NSID_WORDS, MAX_OPTIONS, PLAIN_PAYLOAD},
    wire::{Sink, Source, rtype},
};

/// Octets of an OPT record without options.
pub const OPT_LEN: usize = 11;

/// Octets of a cookie with the server's part.
pub const COOKIE_LEN: usize = 24;

/// Octets in front of the data of an option.
const OPTION_HEAD: usize = 4;

/// Option codes.
mod code {
    pub const NSID: u16 = 3;
    pub const SUBNET: u16 = 8;
    pub const COOKIE: u16 = 10;
}

/// What the OPT record of a query says, or that there is none: one word, so that it can be handed on as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edns(usize);

/// The data of the options that are understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Options {
    /// Client cookie, then the server cookie where [`Edns::has_server_cookie`].
    pub cookie: [u64; 3],
    /// Family, source and scope prefix length in memory order, in the lower half of the first word; then 16 octets of
    /// address, zero-padded. Only where [`Edns::has_subnet`].
    pub subnet: [u64; 3],
}

impl Edns {
    const PRESENT: usize = 1 << 16;
    const DNSSEC_OK: usize = 1 << 17;
    const COOKIE: usize = 1 << 18;
    const SERVER_COOKIE: usize = 1 << 19;
    const BAD_COOKIE: usize = 1 << 20;
    const VALID_COOKIE: usize = 1 << 21;
    const NSID: usize = 1 << 22;
    const SUBNET: usize = 1 << 23;
    const BAD_SUBNET: usize = 1 << 24;

    /// A query without OPT.
    pub const ABSENT: Self = Self(0);

    /// An OPT of version 0 without options.
    #[inline(always)]
    pub const fn new(payload: u16, dnssec_ok: bool) -> Self {
        Self(payload as usize | Self::PRESENT | if dnssec_ok { Self::DNSSEC_OK } else { 0 })
    }

    /// See [`Source::forget`].
    #[inline(always)]
    pub(crate) fn forget<S: Source + ?Sized>(self, source: &S) -> Self {
        Self(source.forget(self.0))
    }

    /// True if the query had an OPT; then the reply has one (RFC 6891 6.1.1).
    #[inline(always)]
    pub const fn is_present(self) -> bool {
        self.0 & Self::PRESENT != 0
    }

    /// Payload size as the client wrote it; 0 without OPT.
    #[inline(always)]
    pub const fn payload(self) -> u16 {
        self.0 as u16
    }

    /// DNSSEC OK, echoed (RFC 3225).
    #[inline(always)]
    pub const fn dnssec_ok(self) -> bool {
        self.0 & Self::DNSSEC_OK != 0
    }

    /// True if there is a COOKIE option of a length that RFC 7873 4 allows.
    #[inline(always)]
    pub const fn has_cookie(self) -> bool {
        self.0 & Self::COOKIE != 0
    }

    /// True if the cookie has a server's part of the length of ours.
    #[inline(always)]
    pub const fn has_server_cookie(self) -> bool {
        self.0 & Self::SERVER_COOKIE != 0
    }

    /// True if there is a COOKIE option of another length: FORMERR (RFC 7873 5.2.2).
    #[inline(always)]
    pub const fn has_bad_cookie(self) -> bool {
        self.0 & Self::BAD_COOKIE != 0
    }

    /// True if the server cookie was checked and is good.
    #[inline(always)]
    pub const fn has_valid_cookie(self) -> bool {
        self.0 & Self::VALID_COOKIE != 0
    }

    /// True if the server's identifier is asked for.
    #[inline(always)]
    pub const fn wants_nsid(self) -> bool {
        self.0 & Self::NSID != 0
    }

    /// True if there is a well-formed ECS option.
    #[inline(always)]
    pub const fn has_subnet(self) -> bool {
        self.0 & Self::SUBNET != 0
    }

    /// True if there is a malformed ECS option: FORMERR, where it matters (RFC 7871 7.1.2).
    #[inline(always)]
    pub const fn has_bad_subnet(self) -> bool {
        self.0 & Self::BAD_SUBNET != 0
    }

    /// The same without a cookie.
    #[inline(always)]
    #[must_use]
    pub const fn without_cookie(self) -> Self {
        Self(self.0 & !(Self::COOKIE | Self::SERVER_COOKIE | Self::BAD_COOKIE))
    }

    /// The same after the cookie was checked.
    #[inline(always)]
    #[must_use]
    pub const fn with_valid_cookie(self, is_valid: bool) -> Self {
        Self(self.0 | if is_valid { Self::VALID_COOKIE } else { 0 })
    }

    /// The same without ECS.
    #[inline(always)]
    #[must_use]
    pub const fn without_subnet(self) -> Self {
        Self(self.0 & !(Self::SUBNET | Self::BAD_SUBNET))
    }

    /// The same without a wish for the identifier.
    #[inline(always)]
    #[must_use]
    pub const fn without_nsid(self) -> Self {
        Self(self.0 & !Self::NSID)
    }

    /// Octets that a UDP reply to this client may have: at least 512 (RFC 6891 6.2.3), at most 1232.
    #[inline(always)]
    pub const fn limit(self) -> usize {
        match self.payload() {
            payload if payload < PLAIN_PAYLOAD => PLAIN_PAYLOAD as usize,
            payload if payload < EDNS_PAYLOAD => payload as usize,
            _ => EDNS_PAYLOAD as usize,
        }
    }

    /// Octets of the OPT record of the reply; 0 where it has none.
    #[inline(always)]
    pub fn reply_len(self, options: &Options, nsid: &Nsid) -> usize {
        if !self.is_present() {
            return 0;
        }
        let mut len = OPT_LEN;
        // Nothing else is here for most.
        if self.0 & (Self::SUBNET | Self::COOKIE | Self::NSID) == 0 {
            return len;
        }
        if self.has_subnet() {
            len += OPTION_HEAD + 4 + options.address_len();
        }
        if self.has_cookie() {
            len += OPTION_HEAD + COOKIE_LEN;
        }
        if self.wants_nsid() {
            len += OPTION_HEAD + nsid.len();
        }
        len
    }
}

/// The server's identifier (RFC 5001).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Nsid {
    /// Octets used; 0: the option is ignored.
    pub len: u64,
    /// The octets, zero-padded.
    pub words: [u64; MAX_NSID_WORDS],
}

impl Nsid {
    /// Octets, at most 64.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize & (MAX_NSID_WORDS * 16 - 1)
    }

    /// True where the server has no identifier.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Options {
    /// Address family: 1 IPv4, 2 IPv6.
    #[inline(always)]
    pub const fn family(&self) -> u16 {
        u16::from_be(self.subnet[0] as u16)
    }

    /// Source prefix length in bits.
    #[inline(always)]
    pub const fn source_len(&self) -> u32 {
        (self.subnet[0] >> 16) as u32 & 0xff
    }

    /// Octets of address: those that the source prefix needs.
    #[inline(always)]
    pub const fn address_len(&self) -> usize {
        // At most 16, which a checker of paths cannot know.
        (self.source_len() as usize).div_ceil(8) & 0x1f
    }

    /// The address, zeros behind the prefix. None: family 0, which has none.
    #[inline(always)]
    pub fn address(&self) -> Option<Client> {
        match self.family() {
            1 => Some(Client::V4(u32::from_be(self.subnet[1] as u32))),
            2 => {
                let mut address = [0; 16];
                address[..8].copy_from_slice(&self.subnet[1].to_le_bytes());
                address[8..].copy_from_slice(&self.subnet[2].to_le_bytes());
                Some(Client::V6(address))
            }
            _ => None,
        }
    }

    /// The scope of the reply, as it is now.
    #[inline(always)]
    pub const fn scope(&self) -> u32 {
        (self.subnet[0] >> 24) as u32 & 0xff
    }

    /// Sets the scope of the reply.
    #[inline(always)]
    pub const fn set_scope(&mut self, bits: u32) {
        self.subnet[0] = (self.subnet[0] & 0xff_ffff) | ((bits as u64 & 0xff) << 24);
    }
}

/// Reads the only additional record of a query at `at`, which must be an OPT and end the message.
///
/// ```text
/// 0     root name (0)
/// 1-2   type 41
/// 3-4   payload size
/// 5     extended rcode      6 version      7-8 flags, DO highest
/// 9-10  length of the options
/// ```
#[inline(always)]
pub fn parse<S: Source + ?Sized>(source: &S, at: usize, options: &mut Options) -> Result<Edns, Counter> {
    let head = source.u64_at(at).ok_or(Counter::PassOpt)?;
    let len = source.number16(at + 9).ok_or(Counter::PassOpt)? as usize;
    if head & 0xff_ffff != u64::from(rtype::OPT) << 16 {
        return Err(Counter::PassOpt);
    }
    if (head >> 48) & 0xff != 0 {
        return Err(Counter::PassVersion);
    }
    let end = at + OPT_LEN + len;
    if end != source.len() {
        return Err(if end < source.len() { Counter::PassTrailing } else { Counter::PassOpt });
    }
    // Payload and DO are copied bit by bit, without a branch.
    let payload = u16::from_be((head >> 24) as u16) as usize;
    let plain = payload | Edns::PRESENT | ((head >> 63) as usize * Edns::DNSSEC_OK);
    if len == 0 {
        return Ok(Edns(plain));
    }
    let found = walk::<S, MAX_OPTIONS>(source, at + OPT_LEN, end)?;
    Ok(Edns(plain | found.read(source, options)?.0))
}

/// Where the options stand that are understood: offset and length of the data, 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    cookie: usize,
    subnet: usize,
    nsid: usize,
}

/// Walks at most `MOST` options. Of several options of one kind the first counts (RFC 7873 5.2; RFC 7871 says nothing).
#[inline(always)]
pub fn walk<S: Source + ?Sized, const MOST: usize>(
    source: &S,
    from: usize,
    end: usize,
) -> Result<Found, Counter> {
    let mut found = Found::default();
    let mut at = from;
    for _ in 0..MOST {
        if at >= end {
            break;
        }
        let head = source.u32_at(at).ok_or(Counter::PassOpt)?;
        let len = u16::from_be((head >> 16) as u16) as usize;
        let place = (at << 16) | len;
        match u16::from_be(head as u16) {
            code::COOKIE if found.cookie == 0 => found.cookie = source.forget(place),
            code::SUBNET if found.subnet == 0 => found.subnet = source.forget(place),
            code::NSID => found.nsid = 1,
            _ => {}
        }
        at = source.forget(at + OPTION_HEAD + len);
    }
    found.cookie = source.forget(found.cookie);
    found.subnet = source.forget(found.subnet);
    found.nsid = source.forget(found.nsid);
    match at.cmp(&end) {
        Ordering::Equal => Ok(found),
        Ordering::Less => Err(Counter::PassManyOptions),
        Ordering::Greater => Err(Counter::PassOpt),
    }
}

impl Found {
    /// Reads the data. The options lie within the message. Err: the frame ends before it.
    #[inline(always)]
    pub fn read<S: Source + ?Sized>(self, source: &S, options: &mut Options) -> Result<Edns, Counter> {
        let mut flags = if self.nsid != 0 { Edns::NSID } else { 0 };
        if self.cookie != 0 {
            flags |= cookie(source, self.cookie, options).ok_or(Counter::PassOpt)?;
        }
        if self.subnet != 0 {
            flags |= subnet(source, self.subnet, options).ok_or(Counter::PassOpt)?;
        }
        Ok(Edns(source.forget(flags)))
    }
}

impl core::ops::BitOr for Edns {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[inline(always)]
fn cookie<S: Source + ?Sized>(source: &S, place: usize, options: &mut Options) -> Option<usize> {
    let (at, len) = ((place >> 16) + OPTION_HEAD, place & 0xffff);
    if len != 8 && !(16..=40).contains(&len) {
        return Some(Edns::BAD_COOKIE);
    }
    options.cookie[0] = source.u64_at(at)?;
    if len != COOKIE_LEN {
        return Some(Edns::COOKIE);
    }
    options.cookie[1] = source.u64_at(at + 8)?;
    options.cookie[2] = source.u64_at(at + 16)?;
    Some(Edns::COOKIE | Edns::SERVER_COOKIE)
}

/// The first `bits` of an IPv6 address, as two numbers.
#[inline(always)]
const fn mask(bits: u32) -> (u64, u64) {
    let upper = if bits >= 64 { u64::MAX } else { !(u64::MAX >> bits) };
    let lower = if bits >= 128 {
        u64::MAX
    } else if bits <= 64 {
        0
    } else {
        !(u64::MAX >> (bits - 64))
    };
    (upper, lower)
}

/// RFC 7871 6: as many octets of address as the prefix needs, zeros behind the prefix, no scope in a query. Family 0 has
/// no address (a client that sends it wants no answer of its own).
#[inline(always)]
fn subnet<S: Source + ?Sized>(source: &S, place: usize, options: &mut Options) -> Option<usize> {
    let (at, len) = ((place >> 16) + OPTION_HEAD, place & 0xffff);
    if !(4..=20).contains(&len) {
        return Some(Edns::BAD_SUBNET);
    }
    let head = source.u32_at(at)?;
    let (family, bits) = (u16::from_be(head as u16), (head >> 16) & 0xff);
    let most = match family {
        0 => 0,
        1 => 32,
        2 => 128,
        _ => return Some(Edns::BAD_SUBNET),
    };
    let octets = bits.div_ceil(8);
    if bits > most || head >> 24 != 0 || octets as usize + 4 != len {
        return Some(Edns::BAD_SUBNET);
    }
    let word = |at: usize| u64::from_be(source.word_at(at).unwrap_or(0));
    let (upper, lower) = (word(at + 4), word(at + 12));
    // What stands behind the option is cut off; what stands behind the prefix must be zero.
    let (upper_all, lower_all) = mask(octets * 8);
    let (upper_kept, lower_kept) = mask(bits);
    let (upper, lower) = (upper & upper_all, lower & lower_all);
    if (upper & !upper_kept) | (lower & !lower_kept) != 0 {
        return Some(Edns::BAD_SUBNET);
    }
    options.subnet = [u64::from(head), upper.to_be(), lower.to_be()];
    Some(Edns::SUBNET)
}

/// Writes our OPT at `at`: payload 1232, version 0, DO as asked, and the options that `edns` still has.
#[inline(always)]
pub fn write<K: Sink + ?Sized>(
    sink: &mut K,
    at: usize,
    edns: Edns,
    options: &Options,
    nsid: &Nsid,
    extended: u8,
    sum: &mut Sum,
) -> Option<()> {
    let len = edns.reply_len(options, nsid) - OPT_LEN;
    let word = (u64::from(rtype::OPT) << 16)
        | (u64::from(EDNS_PAYLOAD.to_be()) << 24)
        | (u64::from(extended) << 40)
        | (u64::from(edns.dnssec_ok()) << 63);
    // The last octet of the flags is zero, and goes with the length.
    let tail = (len as u16).to_be();
    sink.put_u64(at, word)?;
    sink.put_u8(at + 8, 0)?;
    sink.put_u16(at + 9, tail)?;
    sum.add_at(at, word);
    sum.add_at(at + 9, u64::from(tail));
    if len == 0 {
        return Some(());
    }
    let mut at = at + OPT_LEN;
    if edns.has_subnet() {
        at = subnet_option(sink, at, options, sum)?;
    }
    if edns.has_cookie() {
        at = cookie_option(sink, at, options, sum)?;
    }
    if edns.wants_nsid() {
        nsid_option(sink, at, nsid, sum)?;
    }
    Some(())
}

/// Code and length of an option in memory order.
#[inline(always)]
fn option_head(code: u16, len: usize) -> u32 {
    u32::from(code.to_be()) | (u32::from((len as u16).to_be()) << 16)
}

#[inline(always)]
fn subnet_option<K: Sink + ?Sized>(
    sink: &mut K,
    at: usize,
    options: &Options,
    sum: &mut Sum,
) -> Option<usize> {
    let octets = options.address_len();
    let head = u64::from(option_head(code::SUBNET, 4 + octets)) | (options.subnet[0] << 32);
    sink.put_u64(at, head)?;
    sum.add_at(at, head);
    let mut at = at + 8;
    // Halves of halves, so that no octet behind the option is written: 16 octets are two words.
    if octets & 0x18 != 0 {
        sink.put_u64(at, options.subnet[1])?;
        sum.add_at(at, options.subnet[1]);
        at += 8;
    }
    if octets & 0x10 != 0 {
        sink.put_u64(at, options.subnet[2])?;
        sum.add_at(at, options.subnet[2]);
        return Some(sink.forget(at + 8));
    }
    let rest = if octets & 8 != 0 { options.subnet[2] } else { options.subnet[1] };
    rest_of_word(sink, sink.forget(at), rest, octets & 7, sum)
}

#[inline(always)]
fn cookie_option<K: Sink + ?Sized>(
    sink: &mut K,
    at: usize,
    options: &Options,
    sum: &mut Sum,
) -> Option<usize> {
    let head = option_head(code::COOKIE, COOKIE_LEN);
    sink.put_u32(at, head)?;
    sum.add_at(at, u64::from(head));
    let at = at + OPTION_HEAD;
    sink.put_u128(at, options.cookie[0], options.cookie[1])?;
    sink.put_u64(at + 16, options.cookie[2])?;
    for word in options.cookie {
        sum.add_at(at, word);
    }
    Some(sink.forget(at + COOKIE_LEN))
}

#[inline(always)]
fn nsid_option<K: Sink + ?Sized>(sink: &mut K, at: usize, nsid: &Nsid, sum: &mut Sum) -> Option<usize> {
    let len = nsid.len();
    let head = option_head(code::NSID, len);
    sink.put_u32(at, head)?;
    sum.add_at(at, u64::from(head));
    let mut at = at + OPTION_HEAD;
    let mut left = len;
    for word in nsid.words {
        if left < 8 {
            return rest_of_word(sink, sink.forget(at), word, sink.forget(left), sum);
        }
        sink.put_u64(at, word)?;
        sum.add_at(at, word);
        at += 8;
        left -= 8;
    }
    Some(at)
}

/// The first `octets` octets of a word, fewer than eight; the others are zero.
#[inline(always)]
fn rest_of_word<K: Sink + ?Sized>(
    sink: &mut K,
    from: usize,
    word: u64,
    octets: usize,
    sum: &mut Sum,
) -> Option<usize> {
    sum.add_at(from, word & ((1 << ((octets & 7) * 8)) - 1));
    let (mut at, mut word) = (from, word);
    if octets & 4 != 0 {
        sink.put_u32(at, word as u32)?;
        word >>= 32;
        at += 4;
    }
    at = sink.forget(at);
    if octets & 2 != 0 {
        sink.put_u16(at, word as u16)?;
        word >>= 16;
        at += 2;
    }
    at = sink.forget(at);
    if octets & 1 != 0 {
        sink.put_u8(at, word as u8)?;
        at += 1;
    }
    Some(sink.forget(at))
}
