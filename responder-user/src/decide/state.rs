//! Primary state, effective state and threshold flag of every service (spec/netscaler.md 4.4, 0.1).
//!
//! Document 002 lists what the two states bring; here is where each is done:
//!
//! | effect | where |
//! |---|---|
//! | source-IP persistence holds only while the primary is UP and below its threshold | [`super::session`] |
//! | a cookie redirects only while the primary is UP | [`States::allows_redirect`] |
//! | a saturated primary without a backup that is up has effective state DOWN | [`Facts::states`], [`Facts::vserver_states`] |
//! | an external monitor decides the primary state | [`Facts::states`] |
//! | a service is eligible only while its primary state is UP | [`super::candidate`] |

use super::{
    candidate::Offer,
    chain::links,
    reason::Trace,
    snapshot::{AddressState, ServiceState, Snapshot, is_monitored},
};
use crate::model::{Model, RecordType, Service, ServiceId, VserverId};

/// What a decision looks at, for one type.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The configuration.
    pub model: &'a Model,
    /// What is known.
    pub snapshot: &'a Snapshot,
    /// The type that is decided.
    pub rtype: RecordType,
}

/// The three states of a service or virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// Of the virtual server itself.
    pub primary: AddressState,
    /// Of that virtual server and its backup chain together.
    pub effective: AddressState,
    /// It has reached its threshold.
    pub above: bool,
}

impl States {
    /// The same state for both, below the threshold.
    fn plain(state: AddressState) -> Self {
        Self { primary: state, effective: state, above: false }
    }

    /// An HTTP front end may redirect a client with a cookie to it.
    pub fn allows_redirect(self) -> bool {
        self.primary == AddressState::Up
    }
}

/// The virtual servers whose state is being asked for, so that a loop ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'p> {
    vserver: VserverId,
    before: Option<&'p Path<'p>>,
}

impl<'p> Path<'p> {
    pub(super) fn to(vserver: VserverId, before: Option<&'p Path<'p>>) -> Self {
        Self { vserver, before }
    }

    fn holds(&self, vserver: VserverId) -> bool {
        self.vserver == vserver || self.before.is_some_and(|before| before.holds(vserver))
    }
}

fn up(is_up: bool) -> AddressState {
    if is_up { AddressState::Up } else { AddressState::Down }
}

impl Facts<'_> {
    /// The states of a service.
    pub fn states(&self, id: ServiceId) -> States {
        self.states_on(id, None)
    }

    pub(super) fn states_on(&self, id: ServiceId, path: Option<&Path<'_>>) -> States {
        let (service, state) = (self.model.service(id), self.snapshot.service(id));
        if let Some(forced) = state.forced {
            return States::plain(up(forced));
        }
        let own = self.monitored(service, state);
        let behind = service.behind.map(|vserver| self.vserver_states_on(vserver, path));
        let told = state.report.primary_up.map(up).or(behind.map(|b| b.primary));
        // An external monitor decides; without one it is what was told.
        let primary = if is_monitored(self.model, service) { own } else { told.unwrap_or(own) };
        let above = state.report.above.or(behind.map(|b| b.above)).unwrap_or(false);
        // At its threshold and nobody told of a backup that is up: DOWN (002).
        let alone = if above { AddressState::Down } else { primary };
        let effective = state.report.effective_up.map(up).or(behind.map(|b| b.effective)).unwrap_or(alone);
        States { primary, effective, above }
    }

    /// What the monitors say of the addresses that count: those of the type, or all for records that are no address.
    fn monitored(&self, service: &Service, state: &ServiceState) -> AddressState {
        let counts = |address: &std::net::IpAddr| !self.rtype.is_address() || self.rtype.fits(*address);
        let states =
            || service.addresses.iter().zip(&state.addresses).filter(|(a, _)| counts(a)).map(|(_, s)| *s);
        if states().any(|s| s == AddressState::Undecided) {
            return AddressState::Undecided;
        }
        up(states().any(|s| s == AddressState::Up)
            || (service.addresses.is_empty() && !self.rtype.is_address()))
    }

    /// The states of a virtual server, for this type if it answers it, else for the first that it answers.
    pub fn vserver_states(&self, id: VserverId) -> States {
        self.vserver_states_on(id, None)
    }

    fn vserver_states_on(&self, id: VserverId, path: Option<&Path<'_>>) -> States {
        if path.is_some_and(|path| path.holds(id)) {
            return States::plain(AddressState::Down);
        }
        let (primary, above) = self.link_state(id, path);
        if primary == AddressState::Up && !above {
            return States { primary, effective: primary, above };
        }
        let mut effective = if primary == AddressState::Undecided { primary } else { AddressState::Down };
        for link in links(self.model, id).into_iter().skip(1) {
            match self.link_state(link, path) {
                (AddressState::Up, false) => {
                    effective = AddressState::Up;
                    break;
                }
                (AddressState::Undecided, _) => effective = AddressState::Undecided,
                _ => {}
            }
        }
        States { primary, effective, above }
    }

    /// State and threshold flag of one virtual server by itself.
    fn link_state(&self, id: VserverId, path: Option<&Path<'_>>) -> (AddressState, bool) {
        if path.is_some_and(|path| path.holds(id)) {
            return (AddressState::Down, false);
        }
        let types = &self.model.vserver(id).types;
        let rtype = if types.contains(&self.rtype) {
            self.rtype
        } else {
            types.first().copied().unwrap_or(self.rtype)
        };
        let facts = Self { rtype, ..*self };
        let here = Path::to(id, path);
        let state = match facts.offer(id, Some(&here), &mut Trace::silent()) {
            Offer::Undecided => AddressState::Undecided,
            Offer::Down => AddressState::Down,
            Offer::Usable(_) | Offer::Overloaded => AddressState::Up,
        };
        (state, facts.spillover(id, Some(&here)).is_over())
    }
}
