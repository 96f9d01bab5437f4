//! Every name with its entry for the table: references, TTLs, zone.

use std::collections::HashMap;

use bytemuck::Zeroable;
use responder_common::{
    layout::{NAME_APEX, NAME_OTHER_TYPES, NAME_ZONE_DATA, NameEntry, REFERENCE_NONE, REFERENCE_WORKER},
    limits::FAST_NAME,
    lookup::{A, AAAA},
};

use super::{
    class::{drops::Drops, subnet::Deciders},
    number::{Numbering, SIDES, Side},
    soa::{FIRST_ZONE, LONGEST_WITH_ROOM, OWN_APEX, OWN_APEX_LONG},
};
use crate::{
    decide::{OwnerId, Owners},
    model::{DnsName, Model, RecordType},
};

/// What static zone data has at a name that is a GSLB name, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticTypes {
    /// A records.
    pub a: bool,
    /// AAAA records.
    pub aaaa: bool,
    /// Anything else, the apex's SOA and NS not counted.
    pub other: bool,
}

/// Entries of all names of a model.
#[derive(Debug, Default)]
pub struct Names {
    /// Names that the table holds, in ascending order.
    pub fast: Vec<(DnsName, NameEntry)>,
    /// Names that are too long for it: only workers answer them. Their entries have no name words.
    pub long: Vec<(DnsName, NameEntry)>,
    /// Names with records that are no addresses.
    pub records: Vec<(DnsName, RecordNames)>,
}

/// The records of a name that are no addresses: workers answer them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordNames {
    /// The name is an alias.
    pub cname: Option<RecordPlace>,
    /// It has NAPTR records.
    pub naptr: Option<RecordPlace>,
}

/// Where the answers of one type stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Their numbers.
    pub side: Side,
    /// TTL in seconds.
    pub ttl: u32,
}

impl Names {
    /// Compiles the names. `drops`: who answers types that a name lacks. `static_types` says what the zone data has at a name.
    pub fn of(
        model: &Model,
        owners: &Owners,
        numbering: &Numbering,
        deciders: &Deciders,
        drops: &Drops,
        static_types: &dyn Fn(&DnsName) -> StaticTypes,
        existing: &dyn Fn(usize) -> Option<Vec<DnsName>>,
    ) -> (Self, Vec<u32>) {
        let zones: HashMap<&[u8], usize> =
            model.zones.iter().enumerate().map(|(i, zone)| (zone.apex.wire(), i)).collect();
        let mut order: Vec<usize> = (0..model.domains.len()).collect();
        order.sort_by(|a, b| model.domains[*a].name.cmp(&model.domains[*b].name));
        let mut out = Self::default();
        for group in order.chunk_by(|a, b| model.domains[*a].name == model.domains[*b].name) {
            let name = &model.domains[group[0]].name;
            let statics = static_types(name);
            let mut entry = frame(name, &zones, statics);
            let mut records = RecordNames::default();
            let of_name: Vec<OwnerId> = group.iter().map(|index| owners.of_domain(*index)).collect();
            entry.flags |= deciders.flags(model, owners, &of_name);
            if of_name.iter().any(|owner| drops.concern(*owner)) {
                entry.references = [REFERENCE_WORKER; 2];
                entry.flags |= NAME_OTHER_TYPES;
            }
            for &index in group {
                for served in owners.served(model, index) {
                    let Some(side) = numbering.side(served.owner, served.rtype) else { continue };
                    let Some(at) = SIDES.iter().position(|side| *side == served.rtype) else {
                        let place = Some(RecordPlace { side, ttl: served.ttl });
                        entry.flags |= NAME_OTHER_TYPES;
                        if served.rtype == RecordType::Cname {
                            records.cname = place;
                            entry.references = [REFERENCE_WORKER; 2];
                        } else {
                            records.naptr = place;
                        }
                        continue;
                    };
                    entry.references[at] = side.base;
                    entry.ttls[at] = served.ttl;
                    if side.columns > 1 {
                        entry.flags |= [A, AAAA][at].classed;
                    }
                    if side.rule != 0 {
                        entry.more |= [A, AAAA][at].sessions;
                    }
                }
            }
            if records != RecordNames::default() {
                out.records.push((name.clone(), records));
            }
            let list = if name.wire().len() <= FAST_NAME { &mut out.fast } else { &mut out.long };
            list.push((name.clone(), entry));
        }
        let complete = out.complete(model, existing, &zones);
        (out, complete)
    }

    /// Adds what else exists in zones of which all names are known and short enough; returns the slots of these zones.
    fn complete(
        &mut self,
        model: &Model,
        existing: &dyn Fn(usize) -> Option<Vec<DnsName>>,
        zones: &HashMap<&[u8], usize>,
    ) -> Vec<u32> {
        let has_long = |apex: &DnsName| self.long.iter().any(|(name, _)| name.is_under(apex));
        let mut more = Vec::new();
        let mut complete = Vec::new();
        for (i, zone) in model.zones.iter().enumerate() {
            let Some(names) = existing(i).filter(|_| !has_long(&zone.apex)) else { continue };
            complete.push(FIRST_ZONE + i as u32);
            let all = StaticTypes { a: true, aaaa: true, other: true };
            more.extend(names.into_iter().map(|name| {
                let entry = frame(&name, zones, all);
                (name, NameEntry { more: NAME_ZONE_DATA, ..entry })
            }));
        }
        self.fast.extend(more);
        // Stable: a GSLB name goes before the same name of zone data. An apex may be a name of the zone above it, too.
        self.fast.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.fast.dedup_by(|(later, _), (first, _)| later == first);
        complete
    }
}

/// The entry without references.
fn frame(name: &DnsName, zones: &HashMap<&[u8], usize>, statics: StaticTypes) -> NameEntry {
    let absent = |is_static| if is_static { REFERENCE_WORKER } else { REFERENCE_NONE };
    let mut entry = NameEntry {
        references: [absent(statics.a), absent(statics.aaaa)],
        soa: if name.wire().len() > LONGEST_WITH_ROOM { OWN_APEX_LONG } else { OWN_APEX },
        name_len: name.wire().len() as u8,
        flags: if statics.other { NAME_OTHER_TYPES } else { 0 },
        ..NameEntry::zeroed()
    };
    let mut at = 0;
    loop {
        if let Some(zone) = zones.get(&name.wire()[at..]) {
            entry.soa = FIRST_ZONE + *zone as u32;
            entry.apex_at = at as u8;
            break;
        }
        match name.wire()[at] {
            0 => break,
            label => at += usize::from(label) + 1,
        }
    }
    if entry.apex_at == 0 {
        entry.flags |= NAME_APEX;
    }
    entry
}
