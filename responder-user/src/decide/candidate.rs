//! Which services of a virtual server are usable for a type (spec/netscaler.md 3.2).

use std::net::IpAddr;

use super::{
    reason::Trace,
    snapshot::{AddressState, ServiceState, Snapshot},
};
use crate::model::{Bound, Model, RecordType, Service, ServiceId, VserverId};

/// A usable service with the addresses that may be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The service.
    pub service: ServiceId,
    /// Weight of its binding.
    pub weight: u32,
    /// Order of its binding.
    pub order: Option<u32>,
    /// Its addresses of the type that are up, in the order of the file; at least one.
    pub addresses: Vec<IpAddr>,
}

/// What one virtual server has to offer.
#[derive(Debug, PartialEq)]
pub(super) enum Offer {
    /// Some state that matters is not known yet.
    Undecided,
    /// Disabled, or no service usable.
    Down,
    /// Usable services in the order of the file.
    Usable(Vec<Candidate>),
}

/// Sorts the bound services into usable and not; the module documentation of `decide` has the rule for undecided.
pub(super) fn offer(
    model: &Model,
    snapshot: &Snapshot,
    vserver: VserverId,
    rtype: RecordType,
    trace: &mut Trace,
) -> Offer {
    let name = &model.vserver(vserver).name;
    if !snapshot.vserver(vserver).enabled {
        trace.note("vserver", || (format!("{name} is down"), "disabled".to_owned()));
        return Offer::Down;
    }
    let (mut usable, mut undecided) = (Vec::new(), false);
    for bound in &model.vserver(vserver).services {
        let service = model.service(bound.service);
        let verdict = judge(service, snapshot.service(bound.service), rtype);
        note(service, &verdict, rtype, trace);
        undecided |= verdict.undecided;
        if !verdict.addresses.is_empty() {
            let Bound { service, weight, order } = *bound;
            usable.push(Candidate { service, weight, order, addresses: verdict.addresses });
        }
    }
    let bound = model.vserver(vserver).services.len();
    let state = match (undecided, usable.len()) {
        (true, _) => "undecided",
        (false, 0) => "down",
        (false, _) => "up",
    };
    trace.note("vserver", || {
        (format!("{name} is {state}"), format!("{} of {bound} services usable", usable.len()))
    });
    match state {
        "undecided" => Offer::Undecided,
        "down" => Offer::Down,
        _ => Offer::Usable(usable),
    }
}

/// What a service contributes, and why.
struct Verdict {
    addresses: Vec<IpAddr>,
    undecided: bool,
    why: &'static str,
}

fn judge(service: &Service, state: &ServiceState, rtype: RecordType) -> Verdict {
    let out = |why| Verdict { addresses: Vec::new(), undecided: false, why };
    let fitting = || service.addresses.iter().zip(&state.addresses).filter(|(a, _)| rtype.fits(**a));
    if fitting().next().is_none() {
        return out("no address of the type");
    }
    if !state.admin {
        return out("disabled");
    }
    match state.forced {
        Some(false) => return out("forced down"),
        Some(true) => {
            let addresses = fitting().map(|(a, _)| *a).collect();
            return Verdict { addresses, undecided: false, why: "forced up" };
        }
        None => {}
    }
    let addresses: Vec<IpAddr> =
        fitting().filter(|(_, s)| **s == AddressState::Up).map(|(a, _)| *a).collect();
    let undecided = fitting().any(|(_, s)| *s == AddressState::Undecided);
    let why = match (undecided, addresses.is_empty()) {
        (true, _) => "monitors have not decided yet",
        (false, true) => "down",
        (false, false) => "up",
    };
    Verdict { addresses, undecided, why }
}

fn note(service: &Service, verdict: &Verdict, rtype: RecordType, trace: &mut Trace) {
    trace.note("service", || {
        let place = service.location.as_ref().map_or_else(|| "no location".to_owned(), ToString::to_string);
        let list: Vec<String> = verdict.addresses.iter().map(ToString::to_string).collect();
        let outcome = if list.is_empty() {
            format!("{} ({place}) is out", service.name)
        } else {
            format!("{} ({place}) is in: {}", service.name, list.join(" "))
        };
        let total = service.addresses.iter().filter(|a| rtype.fits(**a)).count();
        let why = if list.is_empty() || list.len() == total {
            verdict.why.to_owned()
        } else {
            format!("{}, {} of {total} addresses", verdict.why, list.len())
        };
        (outcome, why)
    });
}

/// True if some bound service has an address of the type, whatever its state.
pub fn has_address(model: &Model, vserver: VserverId, rtype: RecordType) -> bool {
    model
        .vserver(vserver)
        .services
        .iter()
        .any(|b| model.service(b.service).addresses.iter().any(|a| rtype.fits(*a)))
}
