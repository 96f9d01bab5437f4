//! A query to its reply: the one function that workers, `explain` and the property tests call. No I/O, no clock.
//!
//! GSLB names first, by the functions that the XDP program calls; then the zones; then REFUSED. Every name that can be
//! answered in the kernel gets the same octets here.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use responder_common::{
    client::Client,
    counters::Counter,
    edns::{Edns, Options},
    layout::{NAME_ZONE_DATA, NameEntry, reference_slot},
    limits::{FAST_NAME, FAST_NAME_WORDS, MAX_NAME_WORDS, MAX_POOL, SOA_WORDS},
    lookup::{self, Ask, World},
    name::FoldedName,
    parse::{self, Query},
    reply,
    select::Answer,
    session::Key,
    switches::Switches,
    wire::{rcode, rtype},
};

use super::{
    deferred::Beside,
    message::{self, Request},
    subnet,
    walk::{self, Asking},
    zone::Zones,
};

use crate::compile::{
    name::{RecordNames, RecordPlace},
    number::Side,
};

/// A query whose name may have any length.
pub type AnyQuery = Query<MAX_NAME_WORDS>;

/// How a query came, which decides how long its reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// At most what OPT says, and never more than 1232 octets.
    Udp,
    /// At most 65,535 octets (RFC 7766 8).
    Tcp,
}

/// Who knew the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The name table: a GSLB name.
    Table,
    /// A zone.
    Zone,
    /// Nobody: an error.
    Error,
}

/// What a query gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it is a response, or shorter than a header.
    Silent,
    /// Nothing: a policy or a saturated virtual server says so.
    Dropped,
    /// This many octets of `out`.
    Reply {
        /// Octets.
        len: usize,
        /// Response code, with the upper bits of OPT.
        rcode: u16,
        /// TC is set.
        truncated: bool,
        /// Who knew.
        origin: Origin,
        /// The slot of the start of authority of its zone, if one of ours answered.
        zone: Option<u32>,
    },
}

/// What is known of names beside the table. Cheap to clone: everything is shared.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// GSLB names of more than 104 octets by folded name, which the table cannot hold; their `name` words are not used.
    pub long: Arc<HashMap<Box<[u8]>, NameEntry>>,
    /// GSLB names whose first decision is still to come, folded: SERVFAIL until then (design section 5).
    pub undecided: Arc<HashSet<Box<[u8]>>>,
    /// The zones.
    pub zones: Arc<Zones>,
    /// Answers that the table cannot hold.
    pub beside: Beside,
}

/// What the table says of a name.
#[derive(Clone, Copy)]
pub(super) enum Known<'a> {
    /// A GSLB name.
    Entry(&'a NameEntry),
    /// A GSLB name without a decision.
    Undecided,
    /// Not a GSLB name.
    No,
}

impl Names {
    /// Step 1 of the lookup, for names of any length.
    pub(super) fn known<'a, W: World>(
        &'a self,
        world: &'a W,
        name: &FoldedName<MAX_NAME_WORDS>,
    ) -> Result<Known<'a>, Counter> {
        match lookup::find(world, name) {
            Ok(entry) if entry.more & NAME_ZONE_DATA == 0 => return Ok(Known::Entry(entry)),
            Ok(_) => return Ok(Known::No),
            Err(Counter::PassUnknownName) => {}
            Err(broken) => return Err(broken),
        }
        let octets = octets(name);
        if name.len > FAST_NAME
            && let Some(entry) = self.long.get(octets)
        {
            return Ok(Known::Entry(entry));
        }
        let is_undecided = !self.undecided.is_empty() && self.undecided.contains(octets);
        Ok(if is_undecided { Known::Undecided } else { Known::No })
    }
}

/// The folded octets of a name.
pub(super) fn octets(name: &FoldedName<MAX_NAME_WORDS>) -> &[u8] {
    let all: &[u8] = bytemuck::bytes_of(&name.words);
    &all[..name.len.min(all.len())]
}

/// Steps 2 and 3, with room for everything that an answer set and an SOA can hold.
pub(super) fn answer_for<'a, W: World>(
    world: &'a W,
    entry: &'a NameEntry,
    qtype: u16,
    client: Client,
    edns: &mut Edns,
    options: &mut Options,
) -> Result<Answer<'a>, Counter> {
    lookup::answer_for::<W, MAX_POOL, SOA_WORDS>(world, entry, qtype, client, edns, options)
}

/// Answers one message. `out` bounds the reply: 1232 octets for UDP, 65,535 for TCP; less is allowed.
///
/// The caller holds an epoch guard if `world` is shared memory (see [`super::epoch`]).
pub fn reply<W: World>(
    message: &[u8],
    transport: Transport,
    client: SocketAddr,
    world: &W,
    names: &Names,
    out: &mut [u8],
) -> Outcome {
    reply_in(Size::Whole, message, transport, client, world, names, out).0
}

/// The reply by UDP to a query that may have no more than a hint to come by TCP: as the XDP program writes it.
pub fn slip<W: World>(
    message: &[u8],
    client: SocketAddr,
    world: &W,
    names: &Names,
    out: &mut [u8],
) -> Outcome {
    reply_in(Size::Empty, message, Transport::Udp, client, world, names, out).0
}

/// How much a reply may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// What transport and limits allow.
    Whole,
    /// Nothing but TC.
    Empty,
}

/// What else is of interest in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its type, if it is a query.
    pub(super) qtype: Option<u16>,
    /// The client has shown that its address is its own.
    pub(super) has_valid_cookie: bool,
}

/// As [`reply`].
pub(super) fn reply_in<W: World>(
    size: Size,
    message: &[u8],
    transport: Transport,
    client: SocketAddr,
    world: &W,
    names: &Names,
    out: &mut [u8],
) -> (Outcome, Facts) {
    let key = world.control().key();
    let client = client_of(client.ip());
    let mut query = if let Ok(query) = parse::parse::<[u8], MAX_NAME_WORDS>(message, key) {
        query
    } else {
        // Not of the one shape: find out what it is.
        let Some(mut request) = message::read(message) else { return (Outcome::Silent, Facts::default()) };
        match (request.fault(), request.query(message, key)) {
            (None, Some(query)) => query,
            (fault, _) => {
                let settled = request.settle(world, &client);
                if let Some((code, has_valid_cookie)) = request.cookie_code() {
                    let facts = Facts { qtype: None, has_valid_cookie };
                    return (error(message, &request, world, code, out), facts);
                }
                let fault = settled.unwrap_or(fault.unwrap_or(rcode::FORMERR));
                return (error(message, &request, world, fault, out), Facts::default());
            }
        }
    };
    if lookup::settle_options(world, &client, &mut query.edns, &mut query.options).is_err() {
        // A cookie of a length that there is not (RFC 7873 5.2.2).
        query.edns = query.edns.without_cookie().without_subnet();
        return (error(message, &Request::from(&query), world, rcode::FORMERR, out), Facts::default());
    }
    let facts = Facts { qtype: Some(query.qtype), has_valid_cookie: query.edns.has_valid_cookie() };
    let limit = match (size, transport) {
        (Size::Empty, _) => 0,
        (Size::Whole, Transport::Udp) => {
            let switches = Switches(world.control().switches);
            reply::udp_limit(&query).min(switches.room(message.len(), facts.has_valid_cookie))
        }
        (Size::Whole, Transport::Tcp) => usize::from(u16::MAX),
    };
    let outcome = answer(message, &mut query, client, world, names, limit, out).unwrap_or_else(|code| {
        query.edns = query.edns.without_subnet();
        error(message, &Request::from(&query), world, code, out)
    });
    (outcome, facts)
}

/// Whose address decides. A mapped address is the IPv4 address that it maps.
pub(super) fn client_of(address: IpAddr) -> Client {
    match address.to_canonical() {
        IpAddr::V4(address) => Client::V4(address.into()),
        IpAddr::V6(address) => Client::V6(address.octets()),
    }
}

/// Err: the response code of an error reply.
fn answer<W: World>(
    message: &[u8],
    query: &mut AnyQuery,
    client: Client,
    world: &W,
    names: &Names,
    limit: usize,
    out: &mut [u8],
) -> Result<Outcome, u16> {
    // What a truncated reply takes there is always room for.
    let whole = out.len();
    let least =
        |query: &AnyQuery| query.question_end + query.edns.reply_len(&query.options, &world.control().nsid);
    let room = |query: &AnyQuery| limit.max(least(query)).min(whole);
    let known = names.known(world, &query.name).map_err(|_| rcode::SERVFAIL)?;
    let beside = |query: &AnyQuery, found: Found<'_>, out: &mut [u8]| {
        walk::deferred(&Asking { message, query, client, world, names }, found, &mut out[..room(query)])
    };
    if let Known::Entry(whole) = known
        && query.qtype != rtype::ANY
    {
        let pinned = subnet::pin(names, whole, query, client);
        let (entry, asker) = pinned.as_ref().map_or((whole, client), |pinned| (&pinned.entry, pinned.member));
        let answer = answer_for(world, entry, query.qtype, asker, &mut query.edns, &mut query.options);
        if let Some(pinned) = &pinned {
            query.options.set_scope(query.options.scope().max(pinned.scope));
        }
        match answer {
            Ok(answer) => return table(message, query, &answer, world, limit, out).ok_or(rcode::SERVFAIL),
            // A type that the zone may have, or only a worker.
            Err(Counter::PassOtherType) => {
                let records = names.beside.records.get(octets(&query.name));
                if let Some(place) = records.and_then(|records| place_of(records, entry, query.qtype)) {
                    let at = number_of(world, entry, place.side, asker, query.edns, &mut query.options)?;
                    if let Some(pinned) = &pinned {
                        query.options.set_scope(query.options.scope().max(pinned.scope));
                    }
                    return beside(query, Found { known, at, ttl: place.ttl }, out);
                }
            }
            // The set stands for an answer that it cannot hold.
            Err(Counter::PassLarge) => {
                let (at, ttl) = reference_of(world, entry, query.qtype, asker, query.edns, &query.options)?;
                return beside(query, Found { known, at, ttl }, out);
            }
            Err(Counter::DropDecision) => return Ok(Outcome::Dropped),
            // RFC 7871 7.1.2.
            Err(Counter::PassSubnet) => return Err(rcode::FORMERR),
            // Undecided, or a fault of the writer: never a guess.
            Err(_) => return Err(rcode::SERVFAIL),
        }
    } else {
        query.edns = query.edns.without_subnet();
    }
    if let Known::Entry(entry) = known {
        let source = subnet::address_of(client);
        if names.beside.drops(octets(&query.name), entry, query.qtype, source) {
            return Ok(Outcome::Dropped);
        }
    }
    let mut end = FoldedName::<FAST_NAME_WORDS>::empty();
    if let Known::No = known
        && query.qtype != rtype::ANY
        && query.name.len <= FAST_NAME
        && lookup::find(world, &query.name).is_err()
        && let Some((apex_at, zone)) = lookup::zone_without(world, message, &mut end)
    {
        let answer = lookup::no_name::<W, SOA_WORDS>(world, apex_at, zone).map_err(|_| rcode::SERVFAIL)?;
        return table(message, query, &answer, world, limit, out).ok_or(rcode::SERVFAIL);
    }
    walk::walk(&Asking { message, query, client, world, names }, known, &mut out[..room(query)])
}

/// An answer beside the table.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub known: Known<'a>,
    /// Its place.
    pub at: Numbered,
    /// TTL of the domain.
    pub ttl: u32,
}

/// Who answers a type that is no address: an alias answers all but those of its apex.
pub(super) fn place_of(records: &RecordNames, entry: &NameEntry, qtype: u16) -> Option<RecordPlace> {
    const NAPTR: u16 = 35;
    let is_apex_type = entry.apex_at == 0 && matches!(qtype, rtype::SOA | rtype::NS);
    match (records.cname, records.naptr) {
        (Some(alias), _) if !is_apex_type => Some(alias),
        (_, Some(naptr)) if qtype == NAPTR => Some(naptr),
        _ => None,
    }
}

/// Where an answer beside the table stands, and whose session goes with it.
#[derive(Clone, Copy)]
pub(super) struct Numbered {
    /// Its number.
    pub number: u32,
    /// The rule, and whose session it is; None: none are kept.
    pub session: Option<(u32, Key)>,
}

/// The number of an answer that is in no table.
pub(super) fn number_of<W: World>(
    world: &W,
    entry: &NameEntry,
    side: Side,
    client: Client,
    edns: Edns,
    options: &mut Options,
) -> Result<Numbered, u16> {
    let ask = Ask {
        index: side.base,
        is_classed: side.columns > 1,
        has_sessions: side.rule != 0,
        flags: entry.flags,
        has_subnet: edns.has_subnet() && options.source_len() != 0,
        client,
    };
    let class = if ask.is_classed { lookup::class_of_ask(world, &ask, options) } else { Ok((0, 0)) };
    let (class, scope) = class.map_err(|_| rcode::SERVFAIL)?;
    options.set_scope(options.scope().max(scope));
    if !ask.has_sessions {
        return Ok(Numbered { number: side.number(class, 0), session: None });
    }
    let (key, scope) = Key::of(world.rule(side.rule).ok_or(rcode::SERVFAIL)?, &ask, options);
    options.set_scope(options.scope().max(scope));
    let choice = world.peek_session(side.rule, &key).min(side.choices);
    Ok(Numbered { number: side.number(class, choice), session: Some((side.rule, key)) })
}

/// The number of the reference to an answer of addresses, and the TTL of the domain.
pub(super) fn reference_of<W: World>(
    world: &W,
    entry: &NameEntry,
    qtype: u16,
    client: Client,
    edns: Edns,
    options: &Options,
) -> Result<(Numbered, u32), u16> {
    let side = match qtype {
        rtype::A => lookup::A,
        rtype::AAAA => lookup::AAAA,
        _ => return Err(rcode::SERVFAIL),
    };
    let ask = Ask::of(entry, &side, client, edns, options);
    let found = world.special(&ask, options).map_err(|_| rcode::SERVFAIL)?;
    let session = if ask.has_sessions {
        let slot = world.reference(ask.index).map(reference_slot).ok_or(rcode::SERVFAIL)?;
        Some((slot, Key::of(world.rule(slot).ok_or(rcode::SERVFAIL)?, &ask, options).0))
    } else {
        None
    };
    Ok((Numbered { number: found.number, session }, entry.ttls[side.at]))
}

/// The reply of the XDP program.
fn table<W: World>(
    message: &[u8],
    query: &AnyQuery,
    answer: &Answer<'_>,
    world: &W,
    limit: usize,
    out: &mut [u8],
) -> Option<Outcome> {
    let nsid = &world.control().nsid;
    let shape = reply::fit(query, answer, nsid, limit.min(out.len()));
    let end = query.question_end;
    let out = out.get_mut(..shape.len)?;
    out.get_mut(..end)?.copy_from_slice(message.get(..end)?);
    reply::write::<[u8], MAX_NAME_WORDS, MAX_POOL, SOA_WORDS>(out, query, answer, nsid, shape)?;
    Some(Outcome::Reply {
        len: shape.len,
        rcode: if answer.counter() == Counter::AnswerNxdomain { rcode::NXDOMAIN } else { rcode::NOERROR },
        truncated: shape.truncated,
        origin: Origin::Table,
        zone: Some(answer.zone),
    })
}

fn error<W: World>(message: &[u8], request: &Request, world: &W, code: u16, out: &mut [u8]) -> Outcome {
    // Longer than 378 octets no error is; a caller that has no room for it gets silence.
    request.error(message, &world.control().nsid, code, out).map_or(Outcome::Silent, |len| Outcome::Reply {
        len,
        rcode: code,
        truncated: false,
        origin: Origin::Error,
        zone: None,
    })
}
