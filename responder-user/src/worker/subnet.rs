//! Names for which policies look at the source and proximity at the client subnet: the program passes queries that bring one,
//! and the class is found here, for the owner of the name and type.

use std::net::IpAddr;

use responder_common::{
    class,
    client::Client,
    layout::{
        NAME_CLASSED_A, NAME_CLASSED_AAAA, NAME_ECS_AND_SOURCE, NAME_ECS_VALIDATION, NAME_SOURCE_ALONE,
        NameEntry, REFERENCE_WORKER,
    },
    wire::rtype,
};

use super::answer::{AnyQuery, Names, client_of, octets, place_of};

/// A query of which the class is known.
pub(super) struct Pinned {
    /// The entry; the class is that of the source alone.
    pub entry: NameEntry,
    /// A member of the class that answers, to stand for the source.
    pub member: Client,
    /// Scope of the answer, as far as the place decides.
    pub scope: u32,
}

/// The answers of the class that source and ECS lead to. None: the table says it alone. Where the owner of this type looks
/// away from ECS, the option is taken out of the query.
pub(super) fn pin(names: &Names, entry: &NameEntry, query: &mut AnyQuery, client: Client) -> Option<Pinned> {
    let has_option = query.edns.has_subnet() || query.edns.has_bad_subnet();
    if entry.flags & NAME_ECS_AND_SOURCE == 0 || !has_option {
        return None;
    }
    let (at, classed) = match query.qtype {
        rtype::A => (Some(0), NAME_CLASSED_A),
        rtype::AAAA => (Some(1), NAME_CLASSED_AAAA),
        _ => (None, 0),
    };
    let address = at.map(|at| entry.references[at]).filter(|base| *base < REFERENCE_WORKER);
    let record =
        || names.beside.records.get(octets(&query.name)).and_then(|r| place_of(r, entry, query.qtype));
    let (base, is_classed) = match address {
        Some(base) => (base, entry.flags & classed != 0),
        None => record().map(|place| (place.side.base, place.side.columns > 1))?,
    };
    let Some(decider) = names.beside.deciders.of_answer(base) else {
        query.edns = query.edns.without_subnet();
        return None;
    };
    if !is_classed || !query.edns.has_subnet() || query.options.source_len() == 0 {
        return None;
    }
    let subnet = query.options.address()?;
    if entry.flags & NAME_ECS_VALIDATION != 0 && class::set_aside(&subnet).is_some() {
        return None;
    }
    let classes = names.beside.classes.as_ref()?;
    let found = decider.class(classes, address_of(client), address_of(subnet));
    let member = client_of(*classes.representatives.get(usize::from(found.class))?);
    let mut entry = *entry;
    entry.flags = (entry.flags & !NAME_ECS_AND_SOURCE) | NAME_SOURCE_ALONE;
    Some(Pinned { entry, member, scope: found.prefix_len.into() })
}

/// An address of the table's kind as one of the standard library's.
pub(super) fn address_of(client: Client) -> IpAddr {
    match client {
        Client::V4(address) => std::net::Ipv4Addr::from_bits(address).into(),
        Client::V6(octets) => octets.into(),
    }
}
