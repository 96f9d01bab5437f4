//! Which virtual server answers, and what is answered when none can (spec/netscaler.md 3.6, 3.7, 4).

use std::{net::IpAddr, sync::Arc};

use super::{
    Decision, Outcome, Question,
    candidate::{self, Offer, Usable},
    inside::Case,
    policy::{self, Asked, Fired},
    pool::{Give, Pool, Record},
    reason::{Reason, Trace},
    session::Use,
    state::Facts,
};
use crate::model::{Model, RecordType, VserverId, vserver::SpilloverAction};

/// Whose answers are published: a virtual server with the backup addresses of its domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The virtual server that the domain is bound to.
    pub vserver: VserverId,
    /// Answered when no service of the chain is usable.
    pub backup_ip: Arc<[IpAddr]>,
    /// Which name tests of the model its names pass; see [`policy::name_bits`].
    pub names: Arc<[u64]>,
    /// The one domain that it answers for, by its index, where sessions are kept for each domain.
    pub domain: Option<u32>,
}

/// Codes that response policies see.
mod rcode {
    pub const NOERROR: u16 = 0;
    pub const REFUSED: u16 = 5;
}

/// A link that could answer, but is not to.
struct Held {
    link: VserverId,
    usable: Usable,
}

pub(super) fn decide(facts: Facts<'_>, question: &Question<'_>, trace: &mut Trace) -> Decision {
    let (model, owner) = (facts.model, question.owner);
    let case = Case { facts, question };
    let asked = Asked {
        client: question.client,
        vserver: owner.vserver,
        names: &owner.names,
        qtype: facts.rtype.code(),
    };
    if let Some(reason) = lacks(model, owner.vserver, facts.rtype) {
        let fired = dropped(model, &asked, trace);
        let decision = case.overridden(fired, trace);
        return decision.unwrap_or_else(|| case.without_pool(Outcome::Empty, reason, fired, trace));
    }
    let fired = policy::requests(model, &asked, trace);
    if let Some(decision) = case.overridden(fired, trace) {
        return decision;
    }
    let decision = case.walk(fired, trace);
    let code = match decision.outcome {
        Outcome::Empty | Outcome::Answer(_) | Outcome::Records(_) => rcode::NOERROR,
        Outcome::Refused => rcode::REFUSED,
        Outcome::Undecided | Outcome::Drop | Outcome::NotOurs => return decision,
    };
    // Lists and views come too late for a response.
    let fired = policy::responses(model, &asked, code, trace);
    case.overridden(fired, trace).unwrap_or(decision)
}

/// Why a virtual server has nothing of a type, whatever the state of its services.
fn lacks(model: &Model, id: VserverId, rtype: RecordType) -> Option<Reason> {
    let vserver = model.vserver(id);
    if !vserver.types.contains(&rtype) {
        return Some(Reason::TypeNotServed);
    }
    // A virtual server with nothing bound is down. One whose services lack this family is not: its backup addresses
    // of that family would draw every dual-stack client away from services that are well.
    let has_none = !vserver.services.is_empty() && !candidate::has_address(model, id, rtype);
    has_none.then_some(Reason::NoSuchAddress)
}

/// What drops a query for a type that the name lacks: policies see NODATA as any other response.
fn dropped<'m>(model: &'m Model, asked: &Asked<'_>, trace: &mut Trace) -> Fired<'m> {
    let mut fired = policy::requests(model, asked, trace);
    if fired.drop.is_none() {
        fired = policy::responses(model, asked, rcode::NOERROR, trace);
    }
    Fired { drop: fired.drop, ..Fired::default() }
}

impl Case<'_> {
    /// What policies say instead of a decision.
    fn overridden(&self, fired: Fired<'_>, trace: &mut Trace) -> Option<Decision> {
        if fired.drop.is_some() {
            return Some(self.without_pool(Outcome::Drop, Reason::PolicyDrop, fired, trace));
        }
        let (_, addresses, ttl) = fired.rewrite?;
        let fitting = addresses.iter().filter(|a| self.facts.rtype.fits(**a));
        let outcome = Pool::all(fitting.map(|a| (*a, None))).map_or(Outcome::Empty, Outcome::Answer);
        let mut decision = self.without_pool(outcome, Reason::PolicyRewrite, fired, trace);
        decision.ttl = Some(ttl);
        Some(decision)
    }

    /// The owner's virtual server, then its backup, and so on: the first that is up, not held back and below its
    /// threshold decides.
    fn walk(&self, fired: Fired<'_>, trace: &mut Trace) -> Decision {
        let links = links(self.facts.model, self.question.owner.vserver);
        if let Some(decision) = self.diverted(&links, fired, trace) {
            return decision;
        }
        let (mut latched, mut spilled): (Option<Held>, Option<Held>) = (None, None);
        // Why the first link that does not answer does not.
        let mut why = None;
        for link in links {
            if !self.reach(link, trace) {
                continue;
            }
            let usable = match self.facts.offer(link, None, trace) {
                Offer::Down => {
                    why.get_or_insert(Reason::BackupVserver);
                    continue;
                }
                Offer::Undecided => {
                    return self.without_pool(Outcome::Undecided, Reason::MonitorsPending, fired, trace);
                }
                Offer::Overloaded => {
                    let mut decision = self.without_pool(Outcome::Drop, Reason::Overloaded, fired, trace);
                    decision.link = link;
                    decision.session = Use::SetAside;
                    return decision;
                }
                Offer::Usable(usable) => usable,
            };
            if self.is_latched(link, trace) {
                why.get_or_insert(Reason::Latched);
                latched.get_or_insert(Held { link, usable });
            } else if self.is_spilled(link, &usable, trace) {
                why.get_or_insert(Reason::Spilled);
                spilled.get_or_insert(Held { link, usable });
            } else {
                return self.choose(link, usable, why, fired, trace);
            }
        }
        match (spilled, latched) {
            (Some(spilled), None) => self.saturated(spilled, fired, trace),
            (Some(_), Some(latched)) => {
                self.choose(latched.link, latched.usable, Some(Reason::LatchedAlone), fired, trace)
            }
            (None, latched) => self.fall_back(latched, fired, trace),
        }
    }

    /// False for a backup that does not answer the type.
    fn reach(&self, link: VserverId, trace: &mut Trace) -> bool {
        let vserver = self.facts.model.vserver(link);
        if link == self.question.owner.vserver {
            return true;
        }
        trace.note("chain", || (format!("asks {}", vserver.name), "backup chain".to_owned()));
        let serves = vserver.types.contains(&self.facts.rtype);
        if !serves {
            let why = Reason::TypeNotServed.to_string();
            trace.note("vserver", || (format!("{} is passed over", vserver.name), why));
        }
        serves
    }

    /// A client that spillover diverted stays on its backup while that can serve it (4.3).
    fn diverted(&self, links: &[VserverId], fired: Fired<'_>, trace: &mut Trace) -> Option<Decision> {
        let session = self.question.session?;
        let at = links.iter().position(|link| *link == session.link).filter(|at| *at > 0)?;
        let keeps = |link: &VserverId| {
            let vserver = self.facts.model.vserver(*link);
            vserver.spillover.as_ref().is_some_and(|spillover| spillover.persistence)
                || (*link == links[0] && vserver.backup_session_timeout.is_some())
        };
        if !links[..at].iter().any(keeps)
            || !self.facts.model.vserver(session.link).types.contains(&self.facts.rtype)
        {
            return None;
        }
        let name = &self.facts.model.vserver(session.link).name;
        let offer = self.facts.offer(session.link, None, &mut Trace::silent());
        let memory = self.facts.snapshot.vserver(session.link).memory(self.facts.rtype);
        match offer {
            Offer::Usable(usable) if !memory.latched && !self.facts.level(session.link).is_over() => {
                trace.note("session", || {
                    (format!("stays on {name}"), "the client was diverted before".to_owned())
                });
                Some(self.choose(session.link, usable, Some(Reason::SpilloverSession), fired, trace))
            }
            _ => {
                trace.note("session", || (format!("leaves {name}"), "it cannot serve now".to_owned()));
                None
            }
        }
    }

    /// disablePrimaryOnDown holds it back, and there is something that goes on in its place for this owner.
    fn is_latched(&self, link: VserverId, trace: &mut Trace) -> bool {
        let (model, owner) = (self.facts.model, self.question.owner);
        let is_owners = link == owner.vserver;
        let has_backup = model.vserver(link).backup.is_some()
            || (is_owners && owner.backup_ip.iter().any(|a| self.facts.rtype.fits(*a)));
        let is_latched = has_backup
            && model.vserver(link).disable_primary_on_down
            && self.facts.snapshot.vserver(link).memory(self.facts.rtype).latched;
        if is_latched {
            let name = &model.vserver(link).name;
            let why = "it was down; `enable vserver` brings it back".to_owned();
            trace.note("latch", || (format!("{name} is held back"), why));
        }
        is_latched
    }

    /// Over its threshold, and the client is not one of those that stay.
    fn is_spilled(&self, link: VserverId, usable: &Usable, trace: &mut Trace) -> bool {
        let vserver = self.facts.model.vserver(link);
        let Some(spillover) = &vserver.spillover else { return false };
        let level = self.facts.level(link);
        let stays = spillover.persistence
            && self.question.session.is_some_and(|session| {
                session.link == link && usable.candidates.iter().any(|c| c.service == session.service)
            });
        trace.note("spill", || {
            let outcome = match (level.is_over(), stays) {
                (false, _) => format!("{} takes clients", vserver.name),
                (true, true) => format!("{} keeps this client", vserver.name),
                (true, false) => format!("{} is over its threshold", vserver.name),
            };
            (outcome, level.to_string())
        });
        level.is_over() && !stays
    }

    /// Over the threshold, and nobody else can take over (0.1, 1).
    fn saturated(&self, spilled: Held, fired: Fired<'_>, trace: &mut Trace) -> Decision {
        let spillover = self.facts.model.vserver(spilled.link).spillover.as_ref();
        let action = spillover.map_or_else(Default::default, |s| s.action);
        let reason = Reason::Saturated(action);
        let outcome = match (action, spillover.and_then(|s| s.redirect.as_ref())) {
            (SpilloverAction::Accept, _) => {
                return self.choose(spilled.link, spilled.usable, Some(reason), fired, trace);
            }
            (SpilloverAction::Redirect, Some((_, host))) => {
                let alias = std::iter::once((Record::Cname(host.clone()), None));
                Pool::all(alias).map_or(Outcome::Drop, Outcome::Records)
            }
            (SpilloverAction::Empty, _) => Outcome::Empty,
            (SpilloverAction::Refused, _) => Outcome::Refused,
            // Without a URL later requests are dropped (002).
            (SpilloverAction::Drop | SpilloverAction::Redirect, _) => Outcome::Drop,
        };
        let mut decision = self.without_pool(outcome, reason, fired, trace);
        decision.link = spilled.link;
        decision
    }

    /// Nothing is usable: backup addresses, an empty answer, or everything that is bound (3.7). A primary that is held
    /// back comes behind the backup addresses and before the others: rather it than nothing (3.6).
    fn fall_back(&self, latched: Option<Held>, fired: Fired<'_>, trace: &mut Trace) -> Decision {
        let owner = self.question.owner;
        let backup = owner.backup_ip.iter().filter(|a| self.facts.rtype.fits(**a));
        let set_aside = |mut decision: Decision| {
            decision.session = Use::SetAside;
            decision
        };
        if let Some(pool) = Pool::all(backup.map(|a| (*a, None))) {
            let reason = if latched.is_some() { Reason::BackupIpLatched } else { Reason::BackupIp };
            return set_aside(self.without_pool(Outcome::Answer(pool), reason, fired, trace));
        }
        if let Some(latched) = latched {
            return self.choose(latched.link, latched.usable, Some(Reason::LatchedAlone), fired, trace);
        }
        let (outcome, reason) = if self.facts.model.vserver(owner.vserver).empty_down_response {
            (Outcome::Empty, Reason::EmptyDownResponse)
        } else {
            self.everything(fired)
                .map_or((Outcome::Empty, Reason::NothingBound), |all| (all, Reason::AllBound))
        };
        set_aside(self.without_pool(outcome, reason, fired, trace))
    }

    /// Everything of the type that is bound to the owner's virtual server.
    fn everything(&self, fired: Fired<'_>) -> Option<Outcome> {
        let (model, rtype, vserver) = (self.facts.model, self.facts.rtype, self.question.owner.vserver);
        if !rtype.is_address() {
            let all = candidate::all_records(model, vserver, rtype);
            // Two aliases at one name would be no answer at all (RFC 2181 10.1).
            let give = if rtype == RecordType::Cname { Give::One } else { Give::All };
            let pool = Pool::all(all.into_iter().map(|(record, service)| (record, Some(service))))?;
            return Some(Outcome::Records(Pool { give, ..pool }));
        }
        let bound = model.vserver(vserver).services.iter().flat_map(|bound| {
            let service = model.service(bound.service);
            let usual: Vec<IpAddr> = service.addresses.iter().copied().filter(|a| rtype.fits(*a)).collect();
            let view = fired.view.and_then(|(_, view)| service.in_view(view)).unwrap_or_default();
            let view: Vec<IpAddr> = view.iter().copied().filter(|a| rtype.fits(*a)).collect();
            let own = if view.is_empty() || usual.is_empty() { usual } else { view };
            own.into_iter().map(|a| (a, Some(bound.service)))
        });
        Pool::all(bound).map(Outcome::Answer)
    }
}

/// A virtual server and its backup chain, in order. Stops at a loop, which validation refuses.
pub fn links(model: &Model, vserver: VserverId) -> Vec<VserverId> {
    let mut out = vec![vserver];
    while let Some(next) = out.last().and_then(|last| model.vserver(*last).backup) {
        if out.contains(&next) {
            break;
        }
        out.push(next);
    }
    out
}
