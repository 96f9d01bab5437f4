//! Addresses that a reply brings along: of the servers of a referral, and of the hosts that MX, SRV and NS name.

use responder_common::wire::rtype;

use super::{
    walk::put,
    writer::{Section, Writer},
    zone::{RrSet, Zone},
};

/// Types whose data name a host, and how many octets stand before the name.
const HOSTS: [(u16, usize); 3] = [(rtype::NS, 0), (15, 2), (33, 6)];

/// Addresses that the zone has for the hosts of an answer, as far as whole sets fit.
pub(super) fn of_answer(zone: &Zone, set: &RrSet, writer: &mut Writer<'_>) {
    let Some((_, front)) = HOSTS.iter().find(|(rtype, _)| *rtype == set.rtype) else { return };
    let mut told: Vec<Vec<u8>> = Vec::new();
    for host in set.records.iter().filter_map(|data| data.get(*front..)) {
        let host = host.to_ascii_lowercase();
        if !told.contains(&host) {
            optional(zone, &host, set.rtype == rtype::NS, writer);
            told.push(host);
        }
    }
}

/// Addresses of the servers of a delegated name. Those in the delegated part are found nowhere else: where they do not fit, the
/// reply is truncated (RFC 9471 3.1). The others are left out then.
pub(super) fn of_referral(zone: &Zone, cut: &[u8], servers: &RrSet, writer: &mut Writer<'_>) {
    let is_inside = |host: &[u8]| {
        let at = host.len().checked_sub(cut.len());
        at.is_some_and(|at| host[at..] == *cut && super::zone::suffixes(host).any(|start| start == at))
    };
    let hosts = || servers.records.iter().map(|host| host.to_ascii_lowercase());
    for host in hosts().filter(|host| is_inside(host)) {
        zone.addresses(&host, true).for_each(|set| put(&host, set, Section::Additional, writer));
    }
    for host in hosts().filter(|host| !is_inside(host)) {
        optional(zone, &host, true, writer);
    }
}

fn optional(zone: &Zone, host: &[u8], glue: bool, writer: &mut Writer<'_>) {
    for set in zone.addresses(host, glue) {
        if writer.is_full() {
            return;
        }
        let mark = writer.mark();
        put(host, set, Section::Additional, writer);
        if writer.is_full() {
            writer.rewind(mark);
            return;
        }
    }
}
