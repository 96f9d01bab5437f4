//! The zones that we are authoritative for, and what a name of them has (RFC 1034 4.3.2).
//!
//! A zone is configured, with or without a master file; a GSLB name in no configured zone is an apex of its own, which
//! the name table knows by itself (`apex_at` 0) and which costs nothing here. GSLB names count as existing names, so
//! what lies above them inside their zone exists too (RFC 8020).

mod lookup;

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use responder_common::{
    layout::{self, SOA_FIXED_SERIAL, SOA_MNAME_IN_ZONE, SOA_RNAME_IN_ZONE},
    limits::{FAST_NAME, SOA_WORDS},
    wire::rtype,
};

pub use self::lookup::Lookup;
use self::lookup::find;
use super::{
    counters::ZoneCounts,
    master::{self, Contents, DNAME, DS, MasterProblem, Places, at},
};
use crate::{
    compile::soa::FIRST_ZONE,
    model::{self, DnsName, Model, RecordType, zone::Soa},
};

/// TTL of name servers that come from `zone.ns`; they change as rarely as the delegation.
const NS_TTL: u32 = 3600;

/// Records of one owner and type (RFC 2181 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrSet {
    /// The type.
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Data in wire format, names uncompressed, in the order of the file.
    pub records: Vec<Box<[u8]>>,
}

/// A start of authority, ready to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Primary name server and mailbox, in wire format, one behind the other.
    names: Box<[u8]>,
    serial: Option<u32>,
    timers: [u32; 4],
    /// TTL when the SOA is asked for.
    pub ttl: u32,
    /// TTL in negative answers (RFC 2308 3).
    pub negative_ttl: u32,
}

/// A configured zone.
#[derive(Debug)]
pub struct Zone {
    apex: DnsName,
    soa: Soa,
    authority: Authority,
    /// By folded owner name; an empty list is an empty non-terminal.
    names: HashMap<Box<[u8]>, Vec<RrSet>>,
    /// No wildcard, no DNAME, no delegation: a name that is not there does not exist.
    is_plain: bool,
    slot: u32,
}

/// All configured zones.
#[derive(Debug, Default)]
pub struct Zones {
    by_apex: HashMap<Box<[u8]>, Zone>,
    /// Bit n: there is a configured zone with n labels.
    depths: u128,
    /// Bit n: there is a GSLB name with n labels in no configured zone.
    own_depths: u128,
    /// Empty non-terminals below GSLB names that are their own apex.
    between: HashSet<Box<[u8]>>,
    counts: ZoneCounts,
    warnings: Vec<MasterProblem>,
}

impl Zones {
    /// Reads the master files of a model. Every problem of every file is listed.
    pub fn load(model: &Model) -> Result<Self, Vec<MasterProblem>> {
        let mut out = Self::default();
        let mut problems = Vec::new();
        let mut places: HashMap<Box<[u8]>, Places> = HashMap::new();
        for (slot, zone) in (FIRST_ZONE..).zip(&model.zones) {
            let children: Vec<&DnsName> = model
                .zones
                .iter()
                .map(|z| &z.apex)
                .filter(|a| **a != zone.apex && a.is_under(&zone.apex))
                .collect();
            let contents = match &zone.file {
                None => Ok(Contents {
                    soa: zone.soa.clone(),
                    names: server_addresses(zone),
                    places: Places::new(),
                    warnings: Vec::new(),
                }),
                Some(path) => master::read(path, &zone.apex, &children),
            };
            match contents {
                Ok(mut contents) => {
                    out.warnings.append(&mut contents.warnings);
                    places.insert(zone.apex.wire().into(), std::mem::take(&mut contents.places));
                    let places = &places[zone.apex.wire()];
                    out.add(zone.apex.clone(), slot, contents, &zone.ns, zone.file.as_ref().map(|_| places));
                }
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let apexes: Vec<DnsName> = out.by_apex.values().map(|z| z.apex.clone()).collect();
        for apex in &apexes {
            out.link_child(apex);
        }
        out.add_gslb_names(model, &places, &mut problems);
        out.counts = ZoneCounts::new(FIRST_ZONE as usize + model.zones.len());
        if problems.is_empty() { Ok(out) } else { Err(problems) }
    }

    /// `places`: of the records of its master file, if it has one.
    fn add(&mut self, apex: DnsName, slot: u32, contents: Contents, ns: &[DnsName], places: Option<&Places>) {
        let Contents { soa, mut names, .. } = contents;
        let owners: Vec<Box<[u8]>> = names.keys().cloned().collect();
        for owner in owners {
            fill_between(&owner, apex.wire(), |name| {
                let is_new = !names.contains_key(name);
                names.entry(name.into()).or_default();
                is_new
            });
        }
        let is_plain = !names.iter().any(|(name, sets)| covers_others(name, sets, apex.wire()));
        let sets = names.entry(apex.wire().into()).or_default();
        if !ns.is_empty() && !sets.iter().any(|set| set.rtype == rtype::NS) {
            let records = ns.iter().map(|name| name.wire().into()).collect();
            sets.push(RrSet { rtype: rtype::NS, ttl: NS_TTL, records });
        }
        if let Some(places) = places
            && !sets.iter().any(|set| set.rtype == rtype::NS)
        {
            let message = format!("zone {apex}: the master file has no NS records of the apex");
            self.warnings.push(at(places, apex.wire(), rtype::SOA, message));
        }
        self.depths |= 1 << labels(apex.wire());
        let zone = Zone { authority: Authority::of(&soa), soa, names, apex, is_plain, slot };
        self.by_apex.insert(zone.apex.wire().into(), zone);
    }

    /// An apex is a name of the zone around it, too.
    fn link_child(&mut self, apex: &DnsName) {
        let Some(parent) = apex.parent() else { return };
        if let Some(zone) = self.find_mut(parent.wire()) {
            zone.exists(apex.wire());
            let top = zone.apex.clone();
            fill_between(apex.wire(), top.wire(), |name| zone.exists(name));
        }
    }

    fn add_gslb_names(
        &mut self,
        model: &Model,
        places: &HashMap<Box<[u8]>, Places>,
        problems: &mut Vec<MasterProblem>,
    ) {
        let none = Places::new();
        let mut own: HashSet<&[u8]> = HashSet::new();
        let mut warnings = Vec::new();
        for domain in &model.domains {
            match self.find_mut(domain.name.wire()) {
                None => {
                    own.insert(domain.name.wire());
                }
                Some(zone) => {
                    let types = model.vservers.get(domain.vserver.index()).map_or(&[][..], |v| &v.types);
                    let places = places.get(zone.apex()).unwrap_or(&none);
                    if let Err(problem) = zone.add_gslb_name(&domain.name, types, places, &mut warnings) {
                        problems.push(problem);
                    }
                }
            }
        }
        self.warnings.extend(warnings);
        for name in &own {
            self.own_depths |= 1 << labels(name);
            let Some(top) = suffixes(name).skip(1).map(|at| &name[at..]).find(|up| own.contains(up)) else {
                continue;
            };
            let between = &mut self.between;
            fill_between(name, top, |name| between.insert(name.into()));
        }
    }

    fn find_mut(&mut self, name: &[u8]) -> Option<&mut Zone> {
        let at = self.closest(name)?;
        self.by_apex.get_mut(&name[at..])
    }

    fn closest(&self, name: &[u8]) -> Option<usize> {
        suffixes(name).zip((0..=labels(name)).rev()).find_map(|(at, depth)| {
            ((self.depths >> depth) & 1 == 1 && self.by_apex.contains_key(&name[at..])).then_some(at)
        })
    }

    /// The ends of a folded name that may be an apex, longest first: where they begin, and the zone if it is
    /// configured. The others are to be looked for in the name table.
    pub fn candidates<'z, 'n>(
        &'z self,
        name: &'n [u8],
    ) -> impl Iterator<Item = (usize, Option<&'z Zone>)> + use<'z, 'n> {
        suffixes(name).zip((0..=labels(name)).rev()).filter_map(move |(at, depth)| {
            let zone = if (self.depths >> depth) & 1 == 1 { self.by_apex.get(&name[at..]) } else { None };
            (zone.is_some() || (self.own_depths >> depth) & 1 == 1).then_some((at, zone))
        })
    }

    /// Every name of a configured zone that zone data have or that lies above one, the apex among them. None: names that are
    /// not there have answers too (wildcards, DNAME, delegations), or one of them is longer than the table holds.
    pub fn existing(&self, apex: &DnsName) -> Option<Vec<DnsName>> {
        let zone = self.zone(apex)?;
        if !zone.is_plain || zone.names.keys().any(|name| name.len() > FAST_NAME) {
            return None;
        }
        zone.names.keys().map(|name| DnsName::from_wire(name)).collect()
    }

    /// True for a name between a GSLB name that is its own apex and another one above it.
    pub fn is_between(&self, name: &[u8]) -> bool {
        self.between.contains(name)
    }

    /// The configured zone with this apex.
    pub fn zone(&self, apex: &DnsName) -> Option<&Zone> {
        self.by_apex.get(apex.wire())
    }

    /// True if zone data has types other than A and AAAA at a GSLB name, SOA and NS of an apex not counted:
    /// [`layout::NAME_OTHER_TYPES`]. The DS of an apex stands in the zone above it.
    pub fn has_other_types(&self, name: &DnsName) -> bool {
        let is_other = |set: &RrSet| !matches!(set.rtype, rtype::A | rtype::AAAA | rtype::NS);
        let above = self.by_apex.get(name.wire()).and(name.parent());
        let above = above.and_then(|above| self.by_apex.get(&above.wire()[self.closest(above.wire())?..]));
        let has_ds =
            above.and_then(|zone| zone.names.get(name.wire())).is_some_and(|sets| find(sets, DS).is_some());
        has_ds || self.sets_at(name).iter().any(is_other)
    }

    /// True if the master file has records of this type at a name: [`layout::REFERENCE_WORKER`], unless a vserver
    /// decides.
    pub fn has_type(&self, name: &DnsName, rtype: u16) -> bool {
        self.sets_at(name).iter().any(|set| set.rtype == rtype)
    }

    fn sets_at(&self, name: &DnsName) -> &[RrSet] {
        self.closest(name.wire())
            .and_then(|at| self.by_apex.get(&name.wire()[at..])?.names.get(name.wire()))
            .map_or(&[], Vec::as_slice)
    }

    /// Answers by slot of the start of authority.
    pub fn counts(&self) -> &ZoneCounts {
        &self.counts
    }

    /// Goes on counting where other zones ended: those of the same name, and what is in no configured zone.
    pub fn take_over_counts(&self, before: &Self) {
        for slot in 0..FIRST_ZONE {
            self.counts.add(0, slot, before.counts.get(slot));
        }
        for (apex, zone) in &self.by_apex {
            if let Some(old) = before.by_apex.get(apex) {
                self.counts.add(0, zone.slot, before.counts.get(old.slot));
            }
        }
    }

    /// What an operator should know about the files.
    pub fn warnings(&self) -> &[MasterProblem] {
        &self.warnings
    }
}

impl Zone {
    /// The start of authority that holds: the master file's, else the configured one.
    pub fn soa(&self) -> &Soa {
        &self.soa
    }

    /// The same, ready to write.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The slot of its start of authority.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The apex in wire format.
    pub fn apex(&self) -> &[u8] {
        self.apex.wire()
    }

    /// A name that vservers answer for. Err: the file says something that contradicts it.
    fn add_gslb_name(
        &mut self,
        name: &DnsName,
        types: &[RecordType],
        places: &Places,
        warnings: &mut Vec<MasterProblem>,
    ) -> Result<(), MasterProblem> {
        let apex = self.apex.clone();
        self.is_reachable(name, places)?;
        fill_between(name.wire(), apex.wire(), |between| self.exists(between));
        let Some(sets) = self.names.get(name.wire()) else { return Ok(()) };
        if sets.iter().any(|set| set.rtype == rtype::CNAME) {
            let message = format!("{name} has a CNAME and is bound to a vserver");
            return Err(at(places, name.wire(), rtype::CNAME, message));
        }
        let is_unused = |kind: &&RecordType| sets.iter().any(|set| set.rtype == kind.code());
        // What the configuration itself brings, it warns of itself.
        let is_of_file = |kind: &&RecordType| places.contains_key(&(name.wire().into(), kind.code()));
        for kind in types.iter().filter(is_unused).filter(is_of_file) {
            let message = format!(
                "zone {apex}: the {kind} records of {name} in the master file are not used: a vserver decides"
            );
            warnings.push(at(places, name.wire(), kind.code(), message));
        }
        Ok(())
    }

    /// Err: the file says that others know the name, or that it moved, so nobody would ever get the answer of the vserver.
    fn is_reachable(&self, name: &DnsName, places: &Places) -> Result<(), MasterProblem> {
        let refuse = |at_octet: usize, rtype: u16, what: &str| {
            let owner = &name.wire()[at_octet..];
            let above = DnsName::from_wire(owner).unwrap_or_else(|| self.apex.clone());
            let message = format!("{name} is bound to a vserver, but the zone {} {what} {above}", self.apex);
            Err(at(places, owner, rtype, message))
        };
        if let Some(cut) = self.cut_above(name.wire()) {
            return refuse(cut, rtype::NS, "delegates");
        }
        let parent = name.wire().get(usize::from(name.wire()[0]) + 1..).unwrap_or_default();
        let apex_has_one = || self.names.get(self.apex()).is_some_and(|sets| find(sets, DNAME).is_some());
        let moved = match self.highest(parent, DNAME) {
            Some(moved) => Some(name.wire().len() - parent.len() + moved),
            None if *name != self.apex && apex_has_one() => Some(name.wire().len() - self.apex().len()),
            None => None,
        };
        moved.map_or(Ok(()), |moved| refuse(moved, DNAME, "has a DNAME at"))
    }

    /// Notes a name without records of its own. True if it is new.
    fn exists(&mut self, name: &[u8]) -> bool {
        let is_new = !self.names.contains_key(name);
        self.names.entry(name.into()).or_default();
        is_new
    }
}

impl Authority {
    fn of(soa: &Soa) -> Self {
        Self {
            names: [soa.mname.wire(), soa.rname.wire()].concat().into(),
            serial: soa.serial,
            timers: [soa.refresh, soa.retry, soa.expire, soa.minimum],
            ttl: soa.ttl,
            negative_ttl: soa.ttl.min(soa.minimum),
        }
    }

    /// From the pieces of the table, under the apex that they belong to.
    pub fn of_table(soa: &layout::Soa, apex: &[u8]) -> Self {
        let mut names = Vec::with_capacity(4 * SOA_WORDS);
        let pieces =
            [(&soa.mname, soa.mname_len, SOA_MNAME_IN_ZONE), (&soa.rname, soa.rname_len, SOA_RNAME_IN_ZONE)];
        for (words, len, in_zone) in pieces {
            let octets: &[u8] = bytemuck::bytes_of(words);
            names.extend(&octets[..usize::from(len).min(octets.len())]);
            if soa.flags & in_zone != 0 {
                names.extend(apex);
            }
        }
        Self {
            names: names.into(),
            serial: (soa.flags & SOA_FIXED_SERIAL != 0).then_some(soa.serial),
            timers: soa.timers,
            ttl: soa.ttl,
            negative_ttl: soa.negative_ttl,
        }
    }
}

impl Authority {
    /// The data of the record (RFC 1035 3.3.13).
    pub fn data(&self, generation: u64) -> Vec<u8> {
        let mut data = Vec::with_capacity(self.names.len() + 20);
        data.extend_from_slice(&self.names);
        data.extend(self.serial.unwrap_or(generation as u32).to_be_bytes());
        self.timers.iter().for_each(|timer| data.extend(timer.to_be_bytes()));
        data
    }
}

/// The address records that `zone.ns` brings.
fn server_addresses(zone: &model::Zone) -> HashMap<Box<[u8]>, Vec<RrSet>> {
    let mut names: HashMap<Box<[u8]>, Vec<RrSet>> = HashMap::new();
    for (name, address) in &zone.ns_addresses {
        let (rtype, data): (u16, Box<[u8]>) = match address {
            IpAddr::V4(a) => (rtype::A, a.octets().into()),
            IpAddr::V6(a) => (rtype::AAAA, a.octets().into()),
        };
        let sets = names.entry(name.wire().into()).or_default();
        match sets.iter_mut().find(|set| set.rtype == rtype) {
            Some(set) if set.records.contains(&data) => {}
            Some(set) => set.records.push(data),
            None => sets.push(RrSet { rtype, ttl: NS_TTL, records: vec![data] }),
        }
    }
    names
}

/// True for a name that answers for others.
fn covers_others(name: &[u8], sets: &[RrSet], apex: &[u8]) -> bool {
    let has = |rtype: u16| find(sets, rtype).is_some();
    name.starts_with(b"\x01*") || has(DNAME) || (name != apex && has(rtype::NS))
}

/// Where each label of a name begins, the root label last.
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let at = next?;
        let label = usize::from(*name.get(at)?);
        next = (label > 0).then_some(at + label + 1);
        Some(at)
    })
}

/// Labels of a name, the root label not counted; at most 127.
fn labels(name: &[u8]) -> usize {
    suffixes(name).count().saturating_sub(1)
}

/// Calls `note` for the names strictly between `name` and `apex`, nearest first, until one is known already.
fn fill_between(name: &[u8], apex: &[u8], mut note: impl FnMut(&[u8]) -> bool) {
    for at in suffixes(name).skip(1) {
        if name.len() - at <= apex.len() || !note(&name[at..]) {
            break;
        }
    }
}
