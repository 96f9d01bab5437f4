//! An answer to octets: header, address records or SOA, OPT. The question stays where it is.

use crate::{
    checksum::Sum,
    edns::{self, Nsid},
    layout::{SET_EXTRAS_OPTIONAL, SOA_FIXED_SERIAL, SOA_MNAME_IN_ZONE, SOA_RNAME_IN_ZONE, Soa},
    limits::HEADER,
    parse::Query,
    select::{self, Answer, Kind, Selection},
    wire::{CLASS_IN, Sink, flags, rcode, rtype},
};

/// Octets of an A record whose owner is a pointer.
pub const A_LEN: usize = 16;

/// Octets of an AAAA record whose owner is a pointer.
pub const AAAA_LEN: usize = 28;

/// What fits into a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Octets of the whole message.
    pub len: usize,
    /// Address records.
    pub count: u32,
    /// TC is set: a set that must not be cut did not fit (RFC 2181 9).
    pub truncated: bool,
}

/// Address records that a message of `limit` octets has room for.
#[inline(always)]
fn record_len(is_aaaa: bool) -> usize {
    if is_aaaa { AAAA_LEN } else { A_LEN }
}

/// The shape of the reply when nothing has to be left out. With at most eight addresses, names of at most 104 octets
/// and the SOA pieces of the XDP program it is below 512 octets, so that program needs no [`fit`].
#[inline(always)]
pub fn shape<const W: usize>(query: &Query<W>, answer: &Answer<'_>, nsid: &Nsid) -> Shape {
    let base = query.question_end + query.edns.reply_len(&query.options, nsid);
    match answer.kind {
        Kind::Addresses { selection, is_aaaa, .. } => {
            let count = selection.set.give as u32;
            Shape { len: base + count as usize * record_len(is_aaaa), count, truncated: false }
        }
        Kind::Negative { soa, .. } => {
            Shape { len: base + 12 + soa_data_len(soa), count: 0, truncated: false }
        }
    }
}

/// The shape for a message of at most `limit` octets: optional extras are left out from the tail; any other set that
/// does not fit is left out whole with TC. With a `limit` of 0 everything is left out.
#[inline(always)]
pub fn fit<const W: usize>(query: &Query<W>, answer: &Answer<'_>, nsid: &Nsid, limit: usize) -> Shape {
    let whole = shape(query, answer, nsid);
    if whole.len <= limit {
        return whole;
    }
    let base = query.question_end + query.edns.reply_len(&query.options, nsid);
    if let Kind::Addresses { selection, is_aaaa, .. } = answer.kind {
        let room = limit.saturating_sub(base) / record_len(is_aaaa);
        if selection.set.flags & SET_EXTRAS_OPTIONAL != 0 && room > 0 {
            return Shape { len: base + room * record_len(is_aaaa), count: room as u32, truncated: false };
        }
    }
    Shape { len: base, count: 0, truncated: true }
}

/// Octets of a UDP reply that this client takes.
#[inline(always)]
pub fn udp_limit<const W: usize>(query: &Query<W>) -> usize {
    query.edns.limit()
}

#[inline(always)]
fn soa_data_len(soa: &Soa) -> usize {
    let pointer = |bit: u8| if soa.flags & bit != 0 { 2 } else { 0 };
    soa.mname_len as usize
        + pointer(SOA_MNAME_IN_ZONE)
        + soa.rname_len as usize
        + pointer(SOA_RNAME_IN_ZONE)
        + 20
}

/// Writes everything but the question, which stands at 12. `GIVE` and `SOA` bound the loops. Returns the sum over the
/// whole message. None: the sink is shorter than `shape.len`.
#[inline(always)]
pub fn write<K: Sink + ?Sized, const W: usize, const GIVE: usize, const SOA: usize>(
    sink: &mut K,
    query: &Query<W>,
    answer: &Answer<'_>,
    nsid: &Nsid,
    shape: Shape,
) -> Option<Sum> {
    let mut sum = query.question_sum;
    let has_soa = matches!(answer.kind, Kind::Negative { .. }) && !shape.truncated;
    let no_name = matches!(answer.kind, Kind::Negative { no_name: true, .. });
    header(sink, query, shape, has_soa, no_name, &mut sum)?;
    let mut at = query.question_end;
    match answer.kind {
        Kind::Addresses { selection, ttl, is_aaaa } => {
            if is_aaaa {
                at = records_aaaa::<K, GIVE>(sink, at, &selection, ttl, shape.count, &mut sum)?;
            } else {
                at = records_a::<K, GIVE>(sink, at, &selection, ttl, shape.count, &mut sum)?;
            }
        }
        Kind::Negative { soa, generation, .. } if has_soa => {
            at = record_soa::<K, SOA>(sink, at, answer.apex_at, soa, generation, &mut sum)?;
        }
        Kind::Negative { .. } => {}
    }
    if query.edns.is_present() {
        edns::write(sink, at, query.edns, &query.options, nsid, 0, &mut sum)?;
    }
    Some(sum)
}

#[inline(always)]
fn header<K: Sink + ?Sized, const W: usize>(
    sink: &mut K,
    query: &Query<W>,
    shape: Shape,
    has_soa: bool,
    no_name: bool,
    sum: &mut Sum,
) -> Option<()> {
    let rcode = (no_name as u16 * rcode::NXDOMAIN) << flags::RCODE_SHIFT;
    let kept = (query.head >> 16) as u16 & (flags::RD | flags::CD);
    let reply_flags = kept | rcode | flags::QR | flags::AA | if shape.truncated { flags::TC } else { 0 };
    let low = u64::from(query.head & 0xffff)
        | (u64::from(reply_flags) << 16)
        | (u64::from(1_u16.to_be()) << 32)
        | (u64::from((shape.count as u16).to_be()) << 48);
    let high =
        u32::from(u16::from(has_soa).to_be()) | (u32::from(u16::from(query.edns.is_present()).to_be()) << 16);
    sink.put_head(low, high)?;
    sum.add(low);
    sum.add(u64::from(high));
    Some(())
}

/// A pointer to an offset of the message, in memory order (RFC 1035 4.1.4).
#[inline(always)]
const fn pointer(to: usize) -> u16 {
    (0xc000 | to as u16).to_be()
}

/// The first eight octets of a record: owner pointer, type, class, upper half of the TTL.
#[inline(always)]
fn record_head(owner: u16, rtype: u16, ttl: u32) -> u64 {
    u64::from(owner)
        | (u64::from(rtype.to_be()) << 16)
        | (u64::from(CLASS_IN.to_be()) << 32)
        | (u64::from(ttl.to_be() & 0xffff) << 48)
}

/// The next four: lower half of the TTL, length of the data.
#[inline(always)]
fn record_rest(ttl: u32, length: u16) -> u32 {
    (ttl.to_be() >> 16) | (u32::from(length.to_be()) << 16)
}

/// [`Selection::index`], where nothing is learnt from one record for the next.
#[inline(always)]
fn index<K: Sink + ?Sized>(sink: &K, selection: &Selection<'_>, i: u32) -> usize {
    let start = sink.forget(selection.start as usize) as u32;
    let rotate = sink.forget(selection.set.rotate as usize) as u32;
    select::place(start, rotate, i)
}

#[inline(always)]
fn records_a<K: Sink + ?Sized, const GIVE: usize>(
    sink: &mut K,
    from: usize,
    selection: &Selection<'_>,
    ttl: u32,
    count: u32,
    sum: &mut Sum,
) -> Option<usize> {
    let mut at = from;
    let mut part = Sum::default();
    let low = record_head(pointer(HEADER), rtype::A, ttl);
    let rest = u64::from(record_rest(ttl, 4));
    for i in 0..GIVE as u32 {
        if i >= count {
            break;
        }
        let address = selection.set.addresses[index(sink, selection, i)];
        let high = rest | (u64::from(address) << 32);
        sink.put_u128(at, low, high)?;
        part.add(low);
        part.add(high);
        at += A_LEN;
    }
    sum.join_at(from, part);
    Some(sink.forget(at))
}

#[inline(always)]
fn records_aaaa<K: Sink + ?Sized, const GIVE: usize>(
    sink: &mut K,
    from: usize,
    selection: &Selection<'_>,
    ttl: u32,
    count: u32,
    sum: &mut Sum,
) -> Option<usize> {
    let mut at = from;
    let mut part = Sum::default();
    let low = record_head(pointer(HEADER), rtype::AAAA, ttl);
    let rest = record_rest(ttl, 16);
    for i in 0..GIVE as u32 {
        if i >= count {
            break;
        }
        let first = index(sink, selection, i) * 4;
        let word = |k: usize| u64::from(selection.set.addresses[(first + k) & 0xff]);
        let (left, right) = (word(0) | (word(1) << 32), word(2) | (word(3) << 32));
        sink.put_u64(at, low)?;
        sink.put_u32(at + 8, rest)?;
        sink.put_u128(at + 12, left, right)?;
        part.add(low);
        part.add(u64::from(rest));
        part.add(left);
        part.add(right);
        at += AAAA_LEN;
    }
    sum.join_at(from, part);
    Some(sink.forget(at))
}

#[inline(always)]
fn record_soa<K: Sink + ?Sized, const SOA: usize>(
    sink: &mut K,
    from: usize,
    apex_at: u8,
    soa: &Soa,
    generation: u64,
    sum: &mut Sum,
) -> Option<usize> {
    let apex = pointer(HEADER + apex_at as usize);
    let low = record_head(apex, rtype::SOA, soa.negative_ttl);
    let rest = record_rest(soa.negative_ttl, soa_data_len(soa) as u16);
    sink.put_u64(from, low)?;
    sink.put_u32(from + 8, rest)?;
    sum.add_at(from, low);
    sum.add_at(from, u64::from(rest));
    let in_zone = |bit: u8| (soa.flags & bit != 0).then_some(apex);
    let mut at = from + 12;
    at = labels::<K, SOA>(sink, at, &soa.mname, soa.mname_len, in_zone(SOA_MNAME_IN_ZONE), sum)?;
    at = labels::<K, SOA>(sink, at, &soa.rname, soa.rname_len, in_zone(SOA_RNAME_IN_ZONE), sum)?;
    let serial = if soa.flags & SOA_FIXED_SERIAL != 0 { soa.serial } else { generation as u32 };
    let timer = |i: usize| u64::from(soa.timers[i].to_be());
    let (first, second) = (u64::from(serial.to_be()) | (timer(0) << 32), timer(1) | (timer(2) << 32));
    sink.put_u128(at, first, second)?;
    sink.put_u32(at + 16, timer(3) as u32)?;
    sum.add_at(at, first);
    sum.add_at(at, second);
    sum.add_at(at, timer(3));
    Some(sink.forget(at + 20))
}

/// Labels, whole words at a time: what a word holds behind the labels is overwritten by the 20 octets that follow.
#[inline(always)]
fn labels<K: Sink + ?Sized, const SOA: usize>(
    sink: &mut K,
    from: usize,
    words: &[u64],
    len: u8,
    apex: Option<u16>,
    sum: &mut Sum,
) -> Option<usize> {
    for (i, word) in words.iter().enumerate().take(SOA) {
        if i * 8 >= len as usize {
            break;
        }
        sink.put_u64(from + i * 8, *word)?;
        sum.add_at(from, *word);
    }
    let end = sink.forget(from + len as usize);
    match apex {
        None => Some(end),
        Some(pointer) => {
            sink.put_u16(end, pointer)?;
            sum.add_at(end, u64::from(pointer));
            Some(end + 2)
        }
    }
}
