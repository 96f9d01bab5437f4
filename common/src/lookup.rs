//! Three steps from a name to an answer: name -> entry, (owner, type, class) -> reference, reference -> answer set.

use crate::{
    checksum::Sum,
    class,
    client::Client,
    cookie::{self, Secrets},
    counters::Counter,
    edns::{Edns, Options},
    layout::{AnswerSet, Soa},
    layout::{
        Bucket, Class6Key, Control, NAME_APEX, NAME_CLASSED_A, NAME_CLASSED_AAAA, NAME_ECS,
        NAME_ECS_AND_SOURCE, NAME_ECS_VALIDATION, NAME_OTHER_TYPES, NAME_SESSIONS_A, NAME_SESSIONS_AAAA,
        NAME_SOURCE_ALONE, NEAR_WORDS, NameEntry, NameTail, PROBES, REFERENCE_NONE, REFERENCE_WORKER,
        SET_DROP, SLOT_BITS, SLOT_MASK, TAIL_WORDS, WAYS, reference_slot,
    },
    limits::{HEADER, MAX_ENDS},
    name::{FoldedName, HashKey},
    parse::Query,
    select::{Answer, Kind, Selection},
    session::{Key, Rule},
    wire::{Source, rtype},
};

/// The maps, wherever they are. None: the index is out of range, which is a fault of the writer.
///
/// Words that the writer changes while others read (`way`, `reference`, `generation`) are read once and whole.
/// What a word leads to is not written while a reader may hold it, so plain references to it are sound.
pub trait World {
    /// A line of the name table.
    type Line: Copy;

    /// The control words.
    fn control(&self) -> &Control;
    /// The line of a bucket.
    fn line(&self, bucket: u32) -> Option<Self::Line>;
    /// One word of a line, `way` below 8.
    fn way(&self, line: Self::Line, way: usize) -> u64;
    /// The word of a line with this fingerprint, of which there is at most one; 0 if there is none.
    #[inline(always)]
    fn word_with(&self, line: Self::Line, wanted: u64) -> u64 {
        (0..WAYS).map(|way| self.way(line, way)).find(|word| word & !SLOT_MASK == wanted).unwrap_or(0)
    }
    /// A name.
    fn entry(&self, slot: u32) -> Option<&NameEntry>;
    /// The end of a long name.
    fn tail(&self, slot: u32) -> Option<&NameTail>;
    /// A reference word.
    fn reference(&self, index: u32) -> Option<u64>;
    /// An answer set.
    fn set(&self, slot: u32) -> Option<&AnswerSet>;
    /// A start of authority.
    fn soa(&self, slot: u32) -> Option<&Soa>;
    /// [`Soa::complete`], as it is now.
    fn is_complete(&self, slot: u32) -> bool;
    /// An element of the IPv4 class table.
    fn class_direct(&self, element: u32) -> Option<u64>;
    /// An element of the split /24s.
    fn class_split(&self, element: u32) -> Option<u64>;
    /// The class of the longest matching IPv6 prefix.
    fn class6(&self, key: &Class6Key) -> Option<u32>;
    /// An element of the IPv4 scope table.
    fn scope_direct(&self, element: u32) -> Option<u64>;
    /// An element of the scopes of split /24s.
    fn scope_split(&self, element: u32) -> Option<u64>;
    /// Class, and length of the longest matching IPv6 prefix in the upper half: prefixes that are each of one class as a
    /// whole, as large as can be.
    fn class6_scope(&self, key: &Class6Key) -> Option<u32>;
    /// The class of a client whose source a policy and whose ECS address proximity looks at, and the scope. None: this
    /// reader cannot tell.
    fn class_of_both(&self, _source: &Client, _subnet: &Client) -> Option<(u32, u32)> {
        None
    }
    /// The secrets of cookies, as they are now; None: no cookies.
    fn cookies(&self) -> Option<Secrets>;
    /// Seconds of UTC.
    fn now(&self) -> u32;
    /// A rule of sessions.
    fn rule(&self, slot: u32) -> Option<&Rule>;
    /// As [`crate::session::choose`], over the sessions that this world has.
    fn session(&self, ask: &Ask, class: u32, options: &Options) -> Result<Found, Counter>;
    /// As [`special`].
    #[inline(always)]
    fn special(&self, ask: &Ask, options: &Options) -> Result<Found, Counter> {
        special(self, ask, options)
    }
    /// As [`crate::session::peek`] with the rule of a slot: for answers that only workers know.
    fn peek_session(&self, _rule: u32, _key: &Key) -> u32 {
        0
    }
    /// As [`crate::session::note`], likewise.
    fn note_session(&self, _rule: u32, _key: &Key, _choice: u8) {}
    /// The turn of a reference on this CPU: 0, 1, … `places - 1`, 0, …
    fn turn(&self, index: u32, places: u32) -> Option<u32>;
    /// The generation of the last published plan.
    fn generation(&self) -> u64;
    /// As [`crate::wire::Source::forget`].
    #[inline(always)]
    fn forget(&self, value: usize) -> usize {
        value
    }
}

impl Control {
    /// The secret of the name table.
    #[inline(always)]
    pub fn key(&self) -> HashKey {
        HashKey { seed: self.hash_seed, multiplier: self.hash_multiplier }
    }
}

/// The fingerprint of a hash, in its place in a bucket word. It is never 0, which free words have.
#[inline(always)]
pub const fn fingerprint(hash: u64) -> u64 {
    (hash & !SLOT_MASK) | (1 << SLOT_BITS)
}

/// The home bucket of a hash. Bits of the hash that do not stand in the fingerprint.
#[inline(always)]
pub const fn home(hash: u64, bucket_mask: u32) -> u32 {
    (hash & SLOT_MASK) as u32 & bucket_mask
}

/// The turn that follows on `now`, and the turn to take: `now`, unless the set has got smaller since.
#[inline(always)]
pub const fn take_turn(now: u32, places: u32) -> (u32, u32) {
    let turn = if now < places { now } else { 0 };
    (turn + 1, turn)
}

/// Step 1: the entry of a name. Equality is decided on the whole name.
///
/// One entry is looked at: the writer lets no two names of a group of lines have the same fingerprint.
#[inline(always)]
pub fn find<'w, M: World, const W: usize>(
    world: &'w M,
    name: &FoldedName<W>,
) -> Result<&'w NameEntry, Counter> {
    let word = word_of(world, name.hash)?;
    // The one place where all that the search can have found meets.
    let slot = world.forget((word & SLOT_MASK) as usize) as u32;
    let entry = world.entry(slot).ok_or(Counter::PassBroken)?;
    // Both are zero-padded, so the words decide; the length tells a name from one with trailing zero octets.
    let len = world.forget(name.len);
    let mut difference = (entry.name_len as usize ^ len) as u64;
    let asked = |i: usize| name.words.get(i).copied().unwrap_or(0);
    for i in 0..NEAR_WORDS {
        difference |= entry.name[i] ^ asked(i);
    }
    if len > NEAR_WORDS * 8 {
        let tail = world.tail(slot).ok_or(Counter::PassBroken)?;
        for i in 0..TAIL_WORDS {
            difference |= tail.words[i] ^ asked(NEAR_WORDS + i);
        }
    }
    if difference == 0 { Ok(entry) } else { Err(Counter::PassUnknownName) }
}

/// The first word with the fingerprint of a hash.
#[inline(always)]
fn word_of<M: World>(world: &M, hash: u64) -> Result<u64, Counter> {
    let (wanted, home) = (fingerprint(hash), home(hash, world.control().bucket_mask));
    for probe in 0..PROBES {
        let line = world.line(home ^ probe).ok_or(Counter::PassBroken)?;
        let word = world.word_with(line, wanted);
        if word != 0 {
            return Ok(word);
        }
    }
    Err(Counter::PassUnknownName)
}

/// Step 2a: the class of a client.
#[inline(always)]
pub fn class_of<M: World + ?Sized>(world: &M, client: Client) -> Result<u32, Counter> {
    match client {
        Client::V4(address) => {
            let (element, lane) = class::direct_place(address);
            let number = class::lane(world.class_direct(element).ok_or(Counter::PassBroken)?, lane);
            let classes = world.control().classes;
            if number < classes {
                return Ok(number);
            }
            let (element, lane) = class::split_place(number - classes, address);
            Ok(class::lane(world.class_split(element).ok_or(Counter::PassBroken)?, lane))
        }
        Client::V6(address) => {
            let key = Class6Key { bits: 128, address };
            Ok(world.class6(&key).unwrap_or(world.control().class6_default))
        }
    }
}

/// The class of an ECS address, and the scope of the answer.
#[inline(always)]
fn class_of_subnet<M: World + ?Sized>(world: &M, subnet: Client) -> Result<(u32, u32), Counter> {
    match subnet {
        Client::V4(address) => {
            let (element, lane) = class::direct_place(address);
            let number = class::lane(world.class_direct(element).ok_or(Counter::PassBroken)?, lane);
            let classes = world.control().classes;
            if number < classes {
                let (element, lane) = class::scope_place(address);
                let scopes = world.scope_direct(element).ok_or(Counter::PassBroken)?;
                return Ok((number, class::scope_lane(scopes, lane)));
            }
            let (element, lane) = class::split_place(number - classes, address);
            let class = class::lane(world.class_split(element).ok_or(Counter::PassBroken)?, lane);
            let (element, lane) = class::split_scope_place(number - classes, address);
            let scopes = world.scope_split(element).ok_or(Counter::PassBroken)?;
            Ok((class, class::scope_lane(scopes, lane)))
        }
        Client::V6(address) => {
            let both = world.class6_scope(&Class6Key { bits: 128, address }).ok_or(Counter::PassBroken)?;
            Ok((both & 0xffff, both >> 16))
        }
    }
}

/// What decides an answer that is not the same for all clients.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The first reference of the name and type.
    pub index: u32,
    /// The answer depends on the class of the client.
    pub is_classed: bool,
    /// The owner keeps sessions: the reference is the word of their rule.
    pub has_sessions: bool,
    /// NAME_… bits of the entry.
    pub flags: u8,
    /// There is an ECS option with a prefix that says something.
    pub has_subnet: bool,
    /// The source of the query.
    pub client: Client,
}

impl Ask {
    /// What a query asks of a name.
    #[inline(always)]
    pub fn of(entry: &NameEntry, side: &Side, client: Client, edns: Edns, options: &Options) -> Self {
        Self {
            index: entry.references[side.at],
            is_classed: entry.flags & side.classed != 0,
            has_sessions: entry.more & side.sessions != 0,
            flags: entry.flags,
            has_subnet: edns.has_subnet() && options.source_len() != 0,
            client,
        }
    }
}

/// The class of a query: by its source, or by ECS where that decides; and the scope of the answer (RFC 7871 7.2.1,
/// spec/netscaler.md 1.7).
#[inline(always)]
pub fn class_of_ask<M: World + ?Sized>(
    world: &M,
    ask: &Ask,
    options: &Options,
) -> Result<(u32, u32), Counter> {
    if !ask.has_subnet || ask.flags & NAME_SOURCE_ALONE != 0 {
        return Ok((class_of(world, ask.client)?, 0));
    }
    let subnet = options.address().ok_or(Counter::PassSubnet)?;
    let aside = if ask.flags & NAME_ECS_VALIDATION != 0 { class::set_aside(&subnet) } else { None };
    if let Some(block) = aside {
        Ok((class_of(world, ask.client)?, block))
    } else if ask.flags & NAME_ECS_AND_SOURCE != 0 {
        world.class_of_both(&ask.client, &subnet).ok_or(Counter::PassSubnetPolicy)
    } else {
        class_of_subnet(world, subnet)
    }
}

/// The set of an answer that is not the same for all clients, and where it begins.
#[inline(always)]
pub fn special<M: World + ?Sized>(world: &M, ask: &Ask, options: &Options) -> Result<Found, Counter> {
    let (class, scope) = if ask.is_classed { class_of_ask(world, ask, options)? } else { (0, 0) };
    if ask.has_sessions {
        let found = world.session(ask, class, options)?;
        return Ok(Found { scope: if found.scope > scope { found.scope } else { scope }, ..found });
    }
    let (found, _) = at(world, ask.index.wrapping_add(class))?;
    Ok(Found { scope, ..found })
}

/// Where an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub number: u32,
    /// The slot of its set.
    pub slot: u32,
    /// The place of the set that stands first.
    pub start: u32,
    /// The bits of an ECS prefix that decided.
    pub scope: u32,
}

/// The set of a number, and whose turn it is.
#[inline(always)]
pub fn at<M: World + ?Sized>(world: &M, number: u32) -> Result<(Found, &AnswerSet), Counter> {
    let word = world.reference(number).ok_or(Counter::PassBroken)?;
    if word == 0 {
        return Err(Counter::PassUndecided);
    }
    let slot = reference_slot(word);
    let set = world.set(slot).ok_or(Counter::PassBroken)?;
    let places = u32::from(set.ring_len);
    let turn = if places > 1 { world.turn(number, places).ok_or(Counter::PassBroken)? } else { 0 };
    Ok((Found { number, slot, start: Selection::of(set, turn).start, scope: 0 }, set))
}

/// What the options of a query, other than ECS, lead to: the cookie is checked and the one of the reply stands in its
/// place; what is not answered is taken out.
#[inline(always)]
pub fn settle_options<M: World>(
    world: &M,
    client: &Client,
    edns: &mut Edns,
    options: &mut Options,
) -> Result<(), Counter> {
    let control = world.control();
    if edns.wants_nsid() && control.nsid.is_empty() {
        *edns = edns.without_nsid();
    }
    if !edns.has_cookie() && !edns.has_bad_cookie() {
        return Ok(());
    }
    let Some(secrets) = world.cookies() else {
        *edns = edns.without_cookie();
        return Ok(());
    };
    if edns.has_bad_cookie() {
        return Err(Counter::PassCookie);
    }
    let server = edns.has_server_cookie().then_some([options.cookie[1], options.cookie[2]]);
    let checked = cookie::check(&secrets, options.cookie[0], server, client, world.now());
    options.cookie[1] = checked.server[0];
    options.cookie[2] = checked.server[1];
    *edns = edns.with_valid_cookie(checked.is_valid);
    Ok(())
}

/// Steps 2 and 3: from an entry to the answer for this type and client.
///
/// `GIVE` addresses and `SOA` words of a name are what the caller can write. Where ECS is of no concern it is taken out
/// of `edns`.
#[inline(always)]
pub fn answer_for<'w, M: World, const GIVE: usize, const SOA: usize>(
    world: &'w M,
    entry: &'w NameEntry,
    qtype: u16,
    client: Client,
    edns: &mut Edns,
    options: &mut Options,
) -> Result<Answer<'w>, Counter> {
    if edns.has_subnet() || edns.has_bad_subnet() {
        if entry.flags & NAME_ECS == 0 {
            *edns = edns.without_subnet();
        } else if edns.has_bad_subnet() {
            return Err(Counter::PassSubnet);
        } else {
            options.set_scope(0);
        }
    }
    let side = match qtype {
        rtype::A => &A,
        rtype::AAAA => &AAAA,
        _ if has_type(entry, qtype) => return Err(Counter::PassOtherType),
        _ => return no_data::<M, SOA>(world, entry),
    };
    let index = entry.references[side.at];
    if index >= REFERENCE_WORKER {
        return if index == REFERENCE_NONE {
            no_data::<M, SOA>(world, entry)
        } else {
            Err(Counter::PassOtherType)
        };
    }
    let (set, start) = if entry.flags & side.classed != 0 || entry.more & side.sessions != 0 {
        let found = world.special(&Ask::of(entry, side, client, *edns, options), options)?;
        if found.scope != 0 {
            options.set_scope(found.scope);
        }
        (world.set(found.slot).ok_or(Counter::PassBroken)?, found.start)
    } else {
        let (found, set) = at(world, index)?;
        (set, found.start)
    };
    if set.give == 0 {
        if set.flags & SET_DROP != 0 {
            return Err(Counter::DropDecision);
        }
        return no_data::<M, SOA>(world, entry);
    }
    if set.give as usize > GIVE {
        return Err(Counter::PassLarge);
    }
    Ok(Answer {
        apex_at: entry.apex_at,
        zone: entry.soa,
        kind: Kind::Addresses {
            selection: Selection { set, start },
            ttl: entry.ttls[side.at],
            is_aaaa: side.at == 1,
        },
    })
}

/// What a name entry says of a type.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Its place in [`NameEntry::references`].
    pub at: usize,
    /// The flag of [`NameEntry::flags`]: the answer depends on the client class.
    pub classed: u8,
    /// The flag of [`NameEntry::more`]: its owner keeps sessions.
    pub sessions: u8,
}

/// Type A.
pub const A: Side = Side { at: 0, classed: NAME_CLASSED_A, sessions: NAME_SESSIONS_A };

/// Type AAAA.
pub const AAAA: Side = Side { at: 1, classed: NAME_CLASSED_AAAA, sessions: NAME_SESSIONS_AAAA };

/// True for types that only a worker knows.
#[inline(always)]
fn has_type(entry: &NameEntry, qtype: u16) -> bool {
    entry.flags & NAME_OTHER_TYPES != 0
        || (entry.flags & NAME_APEX != 0 && (qtype == rtype::SOA || qtype == rtype::NS))
}

#[inline(always)]
fn no_data<'w, M: World, const SOA: usize>(
    world: &'w M,
    entry: &'w NameEntry,
) -> Result<Answer<'w>, Counter> {
    let soa = world.soa(entry.soa).ok_or(Counter::PassBroken)?;
    if soa.mname_len as usize > SOA * 8 || soa.rname_len as usize > SOA * 8 {
        return Err(Counter::PassLarge);
    }
    let kind = Kind::Negative { soa, generation: world.generation(), no_name: false };
    Ok(Answer { apex_at: entry.apex_at, zone: entry.soa, kind })
}

/// The zone of a name that is not in the table, where that means that it does not exist (RFC 8020, RFC 2308 2.1): offset of
/// its apex inside the name, and slot of its SOA. The labels of the name are proven.
///
/// The ends of the name are looked for, longest first: the first one that is an apex is the closest zone. `name` is room
/// for them.
#[inline(always)]
pub fn zone_without<M: World, S: Source + ?Sized, const W: usize>(
    world: &M,
    source: &S,
    name: &mut FoldedName<W>,
) -> Option<(u8, u32)> {
    let mut at = HEADER;
    for _ in 0..MAX_ENDS {
        let label = source.u8_at(at)? as usize;
        if label == 0 {
            return None;
        }
        at = source.forget(at + 1 + label) & 0xff;
        name.scan_into(source, at, world.control().key(), &mut Sum::default())?;
        name.len = source.forget(name.len);
        let Ok(entry) = find(world, name) else { continue };
        if entry.flags & NAME_APEX != 0 {
            return world.is_complete(entry.soa).then_some(((at - HEADER) as u8, entry.soa));
        }
    }
    None
}

/// The answer to a name that does not exist in a zone.
#[inline(always)]
pub fn no_name<M: World, const SOA: usize>(world: &M, apex_at: u8, zone: u32) -> Result<Answer<'_>, Counter> {
    let soa = world.soa(zone).ok_or(Counter::PassBroken)?;
    if soa.mname_len as usize > SOA * 8 || soa.rname_len as usize > SOA * 8 {
        return Err(Counter::PassLarge);
    }
    Ok(Answer { apex_at, zone, kind: Kind::Negative { soa, generation: world.generation(), no_name: true } })
}

/// The whole way from a query to its answer.
#[inline(always)]
pub fn answer<'w, M: World, const W: usize, const GIVE: usize, const SOA: usize>(
    world: &'w M,
    source: &(impl Source + ?Sized),
    query: &mut Query<W>,
    client: Client,
) -> Result<Answer<'w>, Counter> {
    let found = find(world, &query.name);
    settle_options(world, &client, &mut query.edns, &mut query.options)?;
    match found {
        Ok(entry) => {
            answer_for::<M, GIVE, SOA>(world, entry, query.qtype, client, &mut query.edns, &mut query.options)
        }
        Err(found) => {
            query.edns = query.edns.without_subnet();
            let (apex_at, zone) = zone_without(world, source, &mut query.name.clone()).ok_or(found)?;
            no_name::<M, SOA>(world, apex_at, zone)
        }
    }
}

/// Places where a name may stand: `(bucket, way)` in the order of the search.
pub fn places(hash: u64, bucket_mask: u32) -> impl Iterator<Item = (u32, usize)> {
    let home = home(hash, bucket_mask);
    (0..PROBES).flat_map(move |probe| (0..WAYS).map(move |way| (home ^ probe, way)))
}

const _: () = assert!(size_of::<Bucket>() == WAYS * 8);
