//! From zone to zone along aliases until there is an answer (RFC 1034 4.3.2).

use std::{cell::Cell, net::IpAddr};

use responder_common::{
    client::Client,
    counters::Counter,
    edns::{Edns, Options},
    layout::{NameEntry, SET_EXTRAS_OPTIONAL},
    limits::{MAX_NAME, MAX_NAME_WORDS},
    lookup::World,
    name::FoldedName,
    reply::{A_LEN, AAAA_LEN},
    select::{Kind, Selection},
    wire::{rcode, rtype},
};

use super::{
    additional,
    answer::{self, AnyQuery, Found, Known, Names, Origin, Outcome},
    deferred::Slot,
    subnet::address_of,
    writer::{Section, Writer},
    zone::{Authority, Lookup, RrSet, Zone},
};
use crate::{
    compile::answer::DeferredKind,
    decide::{Give, Record},
    model::{Naptr, ServiceId},
};

/// Aliases of one reply. What is behind them the asker asks for by itself.
const MAX_ALIASES: usize = 16;

/// The response code of a name that would be too long (RFC 6672 3.2).
pub(super) const YXDOMAIN: u16 = 6;

/// Type HINFO, its data of RFC 8482 4.2, and how long they hold (spec/config.md 2).
const HINFO: u16 = 13;
const HINFO_DATA: &[u8] = b"\x07RFC8482\x00";
const HINFO_TTL: u32 = 3600;

/// Type DS, which the zone above an apex answers (RFC 4035 3.1.4.1).
const DS: u16 = 43;

/// Type CNAME.
const CNAME: u16 = 5;

/// Type NAPTR.
const NAPTR: u16 = 35;

/// Octets of a record between its owner and its data.
const RECORD_HEADER: usize = 10;

/// The zone of a name.
enum Place<'a> {
    Configured(&'a Zone),
    /// A GSLB name in no configured zone, with where it begins.
    Own(&'a NameEntry, usize),
}

struct Walk<'a, W> {
    world: &'a W,
    names: &'a Names,
    qtype: u16,
    client: Client,
    /// Slot of the zone of the first name.
    zone: Cell<Option<u32>>,
}

/// What one name gave.
enum Step {
    /// The reply is complete, with this response code.
    Done(u16),
    /// The name is an alias of this one.
    Alias(Box<[u8]>),
}

/// A query on its way.
pub(super) struct Asking<'a, W> {
    pub message: &'a [u8],
    pub query: &'a AnyQuery,
    pub client: Client,
    pub world: &'a W,
    pub names: &'a Names,
}

/// Answers from beside the table. Err: the response code of an error reply.
pub(super) fn deferred<W: World>(
    asking: &Asking<'_, W>,
    found: Found<'_>,
    out: &mut [u8],
) -> Result<Outcome, u16> {
    let place = asking.names.beside.table.get(found.at.number);
    let Some(slot) = place.as_ref().and_then(|place| place.as_ref()) else { return Err(rcode::SERVFAIL) };
    match slot.deferred.kind {
        DeferredKind::Drop => Ok(Outcome::Dropped),
        DeferredKind::Refused => Err(rcode::REFUSED),
        // The name exists, whoever decides: what zone data lack is no data.
        DeferredKind::NotOurs => walk(asking, found.known, out),
        DeferredKind::Empty | DeferredKind::Addresses(_) | DeferredKind::Records(_) => {
            asking.reply(Origin::Table, out, |walk, name, writer| {
                if let Known::Entry(entry) = found.known {
                    walk.zone.set(Some(entry.soa));
                }
                walk.beside(name, found.known, slot, &found, writer)
            })
        }
    }
}

/// Answers what the table alone could not. Err: the response code of an error reply.
pub(super) fn walk<W: World>(
    asking: &Asking<'_, W>,
    known: Known<'_>,
    out: &mut [u8],
) -> Result<Outcome, u16> {
    asking.reply(Origin::Zone, out, |walk, name, writer| walk.step(name, known, true, writer))
}

impl<W: World> Asking<'_, W> {
    /// Writes a reply: `first` for the name that was asked for, then along aliases.
    fn reply(
        &self,
        origin: Origin,
        out: &mut [u8],
        first: impl FnOnce(&Walk<'_, W>, &[u8], &mut Writer<'_>) -> Result<Step, u16>,
    ) -> Result<Outcome, u16> {
        let limit = out.len();
        let Self { message, query, client, world, names } = *self;
        let mut writer =
            Writer::new(message, query, &world.control().nsid, out, limit).ok_or(rcode::SERVFAIL)?;
        let walk = Walk { world, names, qtype: query.qtype, client, zone: Cell::new(None) };
        let name = answer::octets(&query.name);
        let step = first(&walk, name, &mut writer)?;
        let code = walk.along(name, step, &mut writer)?;
        let (len, truncated) = writer.finish(code);
        Ok(Outcome::Reply { len, rcode: code, truncated, origin, zone: walk.zone.get() })
    }
}

impl<W: World> Walk<'_, W> {
    fn fold(&self, name: &[u8]) -> Option<FoldedName<MAX_NAME_WORDS>> {
        FoldedName::from_wire(name, self.world.control().key()).filter(|name| name.len <= MAX_NAME)
    }

    /// Follows aliases to their end. A name that was met before leads nowhere: the asker sees the loop.
    fn along(&self, name: &[u8], mut step: Step, writer: &mut Writer<'_>) -> Result<u16, u16> {
        let mut met: Vec<Box<[u8]>> = vec![name.into()];
        loop {
            let target = match step {
                Step::Done(code) => return Ok(code),
                Step::Alias(target) => target,
            };
            if met.len() >= MAX_ALIASES || met.contains(&target) || writer.is_full() {
                return Ok(rcode::NOERROR);
            }
            step = self.follow(&target, writer)?;
            met.push(target);
        }
    }

    /// Writes an answer from beside the table. What has none for the name leaves the reply as it is: the asker will ask
    /// for the target of the alias that led here, and gets it then.
    fn beside(
        &self,
        name: &[u8],
        known: Known<'_>,
        slot: &Slot,
        found: &Found<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Step, u16> {
        let ttl = slot.deferred.ttl.unwrap_or(found.ttl);
        match &slot.deferred.kind {
            DeferredKind::Drop | DeferredKind::Refused | DeferredKind::NotOurs => {}
            DeferredKind::Empty => return self.nothing(name, known, writer),
            DeferredKind::Addresses(rotating) => {
                let given = rotating.given(address_of(self.client), slot.turn(self.names.beside.aside));
                self.keep(slot, found, given.first().and_then(|member| member.service));
                let optional = rotating.pool.give == Give::BestFirst;
                let records = given.iter().map(|member| match member.address {
                    IpAddr::V4(a) => (rtype::A, a.octets().to_vec()),
                    IpAddr::V6(a) => (rtype::AAAA, a.octets().to_vec()),
                });
                put_optional(name, ttl, records, optional, writer);
            }
            DeferredKind::Records(rotating) => {
                let given = rotating.given(address_of(self.client), slot.turn(self.names.beside.aside));
                self.keep(slot, found, given.first().and_then(|member| member.service));
                let alias = given.iter().find_map(|member| match &member.address {
                    Record::Cname(target) => Some(target),
                    Record::Naptr(_) => None,
                });
                if let Some(target) = alias {
                    writer.record(Section::Answer, name, CNAME, ttl, target.wire());
                    if self.qtype != CNAME {
                        return Ok(Step::Alias(target.wire().into()));
                    }
                } else {
                    let optional = rotating.pool.give == Give::BestFirst;
                    let records = given.iter().filter_map(|member| match &member.address {
                        Record::Naptr(naptr) => Some((NAPTR, naptr_data(naptr))),
                        Record::Cname(_) => None,
                    });
                    put_optional(name, ttl, records, optional, writer);
                }
            }
        }
        Ok(Step::Done(rcode::NOERROR))
    }

    /// The client has a session with the service that it is given, where the owner keeps sessions.
    fn keep(&self, slot: &Slot, found: &Found<'_>, service: Option<ServiceId>) {
        if let Some((rule, key)) = &found.at.session {
            self.world.note_session(*rule, key, slot.deferred.sticks.choice(service));
        }
    }

    /// NOERROR without records, with the SOA of the zone.
    fn nothing(&self, name: &[u8], known: Known<'_>, writer: &mut Writer<'_>) -> Result<Step, u16> {
        match (self.place(name)?, known) {
            (Some(Place::Configured(zone)), _) => self.negative(zone.apex(), zone.authority(), writer),
            (Some(Place::Own(entry, at)), _) => {
                let apex = &name[at..];
                let soa = self.world.soa(entry.soa).ok_or(rcode::SERVFAIL)?;
                self.negative(apex, &Authority::of_table(soa, apex), writer);
            }
            (None, _) => {}
        }
        Ok(Step::Done(rcode::NOERROR))
    }

    /// The target of an alias.
    fn follow(&self, target: &[u8], writer: &mut Writer<'_>) -> Result<Step, u16> {
        let name = self.fold(target).ok_or(rcode::SERVFAIL)?;
        let known = self.names.known(self.world, &name).map_err(|_| rcode::SERVFAIL)?;
        if let Known::Entry(entry) = known {
            // A reply with two owners has one scope at most: behind an alias the source decides, as without ECS.
            let (mut edns, mut options) = (Edns::ABSENT, Options::default());
            match answer::answer_for(self.world, entry, self.qtype, self.client, &mut edns, &mut options) {
                Ok(answer) => match answer.kind {
                    Kind::Addresses { selection, ttl, is_aaaa } => {
                        addresses(target, &selection, ttl, is_aaaa, writer);
                        return Ok(Step::Done(rcode::NOERROR));
                    }
                    Kind::Negative { soa, .. } => {
                        let apex = target.get(usize::from(entry.apex_at)..).unwrap_or_default();
                        self.negative(apex, &Authority::of_table(soa, apex), writer);
                        return Ok(Step::Done(rcode::NOERROR));
                    }
                },
                Err(Counter::PassOtherType) => {
                    let records = self.names.beside.records.get(target);
                    if let Some(place) = records.and_then(|r| answer::place_of(r, entry, self.qtype)) {
                        let at = answer::number_of(
                            self.world,
                            entry,
                            place.side,
                            self.client,
                            edns,
                            &mut options,
                        )?;
                        return self.at(target, &Found { known, at, ttl: place.ttl }, writer);
                    }
                    // The asker will ask for the target by itself, and is not answered then.
                    let source = address_of(self.client);
                    if self.names.beside.drops(target, entry, self.qtype, source) {
                        return Ok(Step::Done(rcode::NOERROR));
                    }
                }
                Err(Counter::PassLarge) => {
                    let (world, qtype) = (self.world, self.qtype);
                    let found = answer::reference_of(world, entry, qtype, self.client, edns, &options);
                    let (at, ttl) = found?;
                    return self.at(target, &Found { known, at, ttl }, writer);
                }
                // The asker will ask for the target by itself, and is not answered then.
                Err(Counter::DropDecision) => return Ok(Step::Done(rcode::NOERROR)),
                Err(_) => return Err(rcode::SERVFAIL),
            }
        }
        self.step(answer::octets(&name), known, false, writer)
    }

    /// An answer beside the table, by number.
    fn at(&self, name: &[u8], found: &Found<'_>, writer: &mut Writer<'_>) -> Result<Step, u16> {
        let place = self.names.beside.table.get(found.at.number);
        let slot = place.as_ref().and_then(|place| place.as_ref()).ok_or(rcode::SERVFAIL)?;
        if matches!(slot.deferred.kind, DeferredKind::NotOurs) {
            return self.step(name, found.known, false, writer);
        }
        self.beside(name, found.known, slot, found, writer)
    }

    /// One name in its zone. `is_first`: it is the name that was asked for.
    fn step(
        &self,
        name: &[u8],
        known: Known<'_>,
        is_first: bool,
        writer: &mut Writer<'_>,
    ) -> Result<Step, u16> {
        let is_address = self.qtype == rtype::A || self.qtype == rtype::AAAA;
        if matches!(known, Known::Undecided) && is_address {
            return Err(rcode::SERVFAIL);
        }
        let is_known = !matches!(known, Known::No);
        let Some(place) = self.place(name)? else {
            return if is_first { Err(rcode::REFUSED) } else { Ok(Step::Done(rcode::NOERROR)) };
        };
        if is_first {
            self.zone.set(Some(match place {
                Place::Configured(zone) => zone.slot(),
                Place::Own(entry, _) => entry.soa,
            }));
        }
        match place {
            Place::Configured(zone) => self.configured(zone, name, is_known, writer),
            Place::Own(entry, at) => self.own(entry, name, at, is_known, writer),
        }
    }

    /// The closest zone around a name. Ok(None): not ours.
    fn place(&self, name: &[u8]) -> Result<Option<Place<'_>>, u16> {
        let mut below = None;
        for (at, zone) in self.names.zones.candidates(name) {
            if let Some(zone) = zone {
                if at == 0 && self.qtype == DS {
                    below = Some(Place::Configured(zone));
                    continue;
                }
                return Ok(Some(Place::Configured(zone)));
            }
            let suffix = self.fold(&name[at..]).ok_or(rcode::SERVFAIL)?;
            match self.names.known(self.world, &suffix).map_err(|_| rcode::SERVFAIL)? {
                Known::Entry(entry) if entry.apex_at == 0 => {
                    if at == 0 && self.qtype == DS {
                        below = Some(Place::Own(entry, at));
                        continue;
                    }
                    return Ok(Some(Place::Own(entry, at)));
                }
                // Its zone comes with its decision.
                Known::Undecided => return Err(rcode::SERVFAIL),
                _ => {}
            }
        }
        Ok(below)
    }

    fn configured(
        &self,
        zone: &Zone,
        name: &[u8],
        is_known: bool,
        writer: &mut Writer<'_>,
    ) -> Result<Step, u16> {
        if self.qtype == rtype::SOA && name == zone.apex() {
            self.soa(zone.apex(), zone.authority(), writer);
            return Ok(Step::Done(rcode::NOERROR));
        }
        let exists =
            |owner: &[u8]| if owner.len() == name.len() { Ok(is_known) } else { self.is_gslb(owner) };
        let code = match zone.lookup(name, self.qtype, exists)? {
            Lookup::Records(set) => {
                put(name, set, Section::Answer, writer);
                additional::of_answer(zone, set, writer);
                rcode::NOERROR
            }
            Lookup::Any => {
                writer.record(Section::Answer, name, HINFO, HINFO_TTL, HINFO_DATA);
                rcode::NOERROR
            }
            Lookup::Alias(set) => {
                put(name, set, Section::Answer, writer);
                match set.records.first() {
                    // An alias is all there is at its name, so it stands for ANY as well (RFC 8482 4.2).
                    Some(target) if self.qtype != rtype::ANY => {
                        return Ok(Step::Alias(target.to_ascii_lowercase().into()));
                    }
                    _ => rcode::NOERROR,
                }
            }
            Lookup::Moved { at, set } => return Ok(moved(name, at, set, self.qtype, writer)),
            Lookup::Referral { at, servers } => {
                writer.refer();
                put(&name[at..], servers, Section::Authority, writer);
                additional::of_referral(zone, &name[at..], servers, writer);
                rcode::NOERROR
            }
            Lookup::NoData => {
                self.negative(zone.apex(), zone.authority(), writer);
                rcode::NOERROR
            }
            Lookup::NoName => {
                self.negative(zone.apex(), zone.authority(), writer);
                rcode::NXDOMAIN
            }
        };
        Ok(Step::Done(code))
    }

    fn is_gslb(&self, name: &[u8]) -> Result<bool, u16> {
        let name = self.fold(name).ok_or(rcode::SERVFAIL)?;
        let known = self.names.known(self.world, &name).map_err(|_| rcode::SERVFAIL)?;
        Ok(!matches!(known, Known::No))
    }

    /// In the zone that a GSLB name is for itself: an SOA, and the addresses that the table gave already.
    fn own(
        &self,
        entry: &NameEntry,
        name: &[u8],
        at: usize,
        is_known: bool,
        writer: &mut Writer<'_>,
    ) -> Result<Step, u16> {
        let apex = &name[at..];
        let authority = Authority::of_table(self.world.soa(entry.soa).ok_or(rcode::SERVFAIL)?, apex);
        match self.qtype {
            rtype::SOA if at == 0 => self.soa(apex, &authority, writer),
            rtype::ANY if is_known => writer.record(Section::Answer, name, HINFO, HINFO_TTL, HINFO_DATA),
            _ => {
                self.negative(apex, &authority, writer);
                if !is_known && !self.names.zones.is_between(name) {
                    return Ok(Step::Done(rcode::NXDOMAIN));
                }
            }
        }
        Ok(Step::Done(rcode::NOERROR))
    }

    fn soa(&self, apex: &[u8], authority: &Authority, writer: &mut Writer<'_>) {
        let data = authority.data(self.world.generation());
        writer.record(Section::Answer, apex, rtype::SOA, authority.ttl, &data);
    }

    /// The SOA that says for how long there is nothing (RFC 2308 3).
    fn negative(&self, apex: &[u8], authority: &Authority, writer: &mut Writer<'_>) {
        let data = authority.data(self.world.generation());
        writer.record(Section::Authority, apex, rtype::SOA, authority.negative_ttl, &data);
    }
}

/// Writes a set.
pub(super) fn put(owner: &[u8], set: &RrSet, section: Section, writer: &mut Writer<'_>) {
    for data in &set.records {
        writer.record(section, owner, set.rtype, set.ttl, data);
    }
}

/// A DNAME, and the alias that it makes of the name for those who do not know it (RFC 6672 3.1).
fn moved(name: &[u8], at: usize, set: &RrSet, qtype: u16, writer: &mut Writer<'_>) -> Step {
    put(&name[at..], set, Section::Answer, writer);
    let Some(to) = set.records.first() else { return Step::Done(rcode::NOERROR) };
    let target = [&name[..at], &to.to_ascii_lowercase()].concat();
    if target.len() > MAX_NAME {
        return Step::Done(YXDOMAIN);
    }
    writer.record(Section::Answer, name, CNAME, set.ttl, &target);
    // Who asks for an alias has it.
    if matches!(qtype, CNAME | rtype::ANY) { Step::Done(rcode::NOERROR) } else { Step::Alias(target.into()) }
}

/// The addresses that the table selects for the target of an alias, cut as [`responder_common::reply::fit`] cuts.
fn addresses(owner: &[u8], selection: &Selection<'_>, ttl: u32, is_aaaa: bool, writer: &mut Writer<'_>) {
    let set = selection.set;
    let (rtype, record_len, words) = if is_aaaa { (rtype::AAAA, AAAA_LEN, 4) } else { (rtype::A, A_LEN, 1) };
    let mut count = u32::from(set.give);
    if set.flags & SET_EXTRAS_OPTIONAL != 0 {
        // The owner is written whole at most once; later ones are pointers.
        let room = writer.room().saturating_sub(owner.len()) / record_len;
        count = count.min(room.max(1) as u32);
    }
    for i in 0..count {
        let first = selection.index(i) * words;
        let Some(address) = set.addresses.get(first..first + words) else { return };
        writer.record(Section::Answer, owner, rtype, ttl, bytemuck::cast_slice(address));
    }
}

/// Records of one owner; `optional` ones that do not fit are left out from the end, but never the first (MIR).
fn put_optional(
    owner: &[u8],
    ttl: u32,
    records: impl Iterator<Item = (u16, Vec<u8>)>,
    optional: bool,
    writer: &mut Writer<'_>,
) {
    for (i, (rtype, data)) in records.enumerate() {
        let mark = writer.mark();
        if optional && i > 0 && writer.room() < owner.len() + RECORD_HEADER + data.len() {
            return;
        }
        writer.record(Section::Answer, owner, rtype, ttl, &data);
        if optional && i > 0 && writer.is_full() {
            writer.rewind(mark);
            return;
        }
    }
}

/// Data of a NAPTR record with an empty regular expression (RFC 3403 4.1).
fn naptr_data(naptr: &Naptr) -> Vec<u8> {
    let mut data = Vec::new();
    data.extend(naptr.order.to_be_bytes());
    data.extend(naptr.preference.to_be_bytes());
    for text in [naptr.flags.as_str(), naptr.services.as_str(), ""] {
        data.push(text.len() as u8);
        data.extend(text.as_bytes());
    }
    data.extend(naptr.replacement.wire());
    data
}
