//! Which virtual server answers, and what is answered when none can (spec/netscaler.md 3.6, 3.7, 4).

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::{
    Decision, Outcome, Question,
    candidate::{self, Candidate, Offer, Usable},
    method::{Ranked, Ranking},
    policy::{self, Asked, Fired},
    pool::{Give, Pick, Pool, Record},
    preferred,
    reason::{Reason, Tier, Trace},
    session::Use,
    state::Facts,
};
use crate::model::{
    Method, Model, RecordType, ServiceId, VserverId,
    vserver::{SkipPersistency, SpilloverAction},
};

/// Whose answers are published: a virtual server with the backup addresses of its domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The virtual server that the domain is bound to.
    pub vserver: VserverId,
    /// Answered when no service of the chain is usable.
    pub backup_ip: Arc<[IpAddr]>,
    /// Which name tests of the model its names pass; see [`policy::name_bits`].
    pub names: Arc<[u64]>,
}

/// Codes that response policies see.
mod rcode {
    pub const NOERROR: u16 = 0;
    pub const REFUSED: u16 = 5;
}

/// Everything that one decision is about.
struct Case<'a> {
    facts: Facts<'a>,
    question: &'a Question<'a>,
}

/// A link that could answer, but is not to.
struct Held {
    link: VserverId,
    usable: Usable,
}

pub(super) fn decide(facts: Facts<'_>, question: &Question<'_>, trace: &mut Trace) -> Decision {
    let (model, owner) = (facts.model, question.owner);
    let case = Case { facts, question };
    let vserver = model.vserver(owner.vserver);
    if !vserver.types.contains(&facts.rtype) {
        return case.without_pool(Outcome::Empty, Reason::TypeNotServed, Fired::default(), trace);
    }
    // A virtual server with nothing bound is down. One whose services lack this family is not: its backup addresses
    // of that family would draw every dual-stack client away from services that are well.
    if !vserver.services.is_empty() && !candidate::has_address(model, owner.vserver, facts.rtype) {
        return case.without_pool(Outcome::Empty, Reason::NoSuchAddress, Fired::default(), trace);
    }
    let asked =
        Asked { client: question.client, vserver: owner.vserver, names: &owner.names, rtype: facts.rtype };
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
            self.facts.model.vserver(*link).spillover.as_ref().is_some_and(|spillover| spillover.persistence)
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

    /// Order, preferred locations, method: what comes first shares the load, what follows is for MIR.
    fn choose(
        &self,
        link: VserverId,
        mut usable: Usable,
        why: Option<Reason>,
        fired: Fired<'_>,
        trace: &mut Trace,
    ) -> Decision {
        let vserver = self.facts.model.vserver(link);
        self.apply_view(&mut usable, fired, trace);
        let tiers = self.tiers(link, &usable.candidates, fired);
        let (order, tier, members) = &tiers[0];
        if tiers.iter().any(|(order, ..)| order.is_some()) {
            let name = order.map_or_else(|| "without order".to_owned(), |n| format!("order {n}"));
            let which = if vserver.descending_order { "highest" } else { "lowest" };
            trace.note("order", || (name, format!("{which} order with enough usable services")));
        }
        self.note_tier(*tier, members, fired, trace);
        let ranking = Ranking {
            facts: &self.facts,
            vserver,
            client: self.question.client,
            by_list: fired.preferred.is_some(),
        };
        let Ranked { groups, pick, method, reason } = ranking.rank(members, trace);
        let mut decision = self.finish(Outcome::Empty, reason, fired);
        (decision.link, decision.order, decision.tier, decision.method) = (link, *order, *tier, method);
        let held = match self.held_by(link, &usable, &tiers, method, fired, trace) {
            Sticks::Bypass => {
                decision.outcome = Outcome::NotOurs;
                decision.reason = Reason::Bypassed;
                decision.session = Use::SetAside;
                trace.note("answer", || ("is not ours".to_owned(), Reason::Bypassed.to_string()));
                return decision;
            }
            Sticks::To(candidate, order) => {
                decision.order = order;
                decision.session = Use::Kept;
                Some(candidate)
            }
            Sticks::No(used) => {
                decision.session = used;
                None
            }
        };
        let best: Vec<&Candidate> = held.map_or_else(|| groups[0].clone(), |candidate| vec![candidate]);
        let mut further: Vec<&Candidate> =
            if held.is_some() { groups.concat() } else { groups[1..].concat() };
        if vserver.multiple_ip_response {
            for (.., others) in &tiers[1..] {
                further.extend(ranking.rank(others, &mut Trace::silent()).groups.concat());
            }
        }
        let pick = if held.is_some() { Pick::Turn } else { pick };
        decision.reason = match (why, held, usable.basis) {
            (Some(why), _, _) => why,
            (None, Some(_), _) => Reason::Session,
            (None, None, Some(basis)) => basis,
            (None, None, None) => reason,
        };
        let multiple = vserver.multiple_ip_response;
        decision.outcome = if self.facts.rtype.is_address() {
            Outcome::Answer(Pool::of(&best, &further, multiple, pick, |c| &c.addresses))
        } else {
            Outcome::Records(Pool::of(&best, &further, multiple, pick, |c| &c.records))
        };
        note_outcome(&decision.outcome, &decision.reason.to_string(), trace);
        decision
    }

    /// Services answer with their addresses in the view; those without one with their usual ones (2.6).
    fn apply_view(&self, usable: &mut Usable, fired: Fired<'_>, trace: &mut Trace) {
        let Some((_, view)) = fired.view else { return };
        let mut lacking = Vec::new();
        for candidate in usable.candidates.iter_mut().chain(&mut usable.withdrawn) {
            let service = self.facts.model.service(candidate.service);
            let own: Vec<IpAddr> = service.in_view(view).unwrap_or_default().to_vec();
            let own: Vec<IpAddr> = own.into_iter().filter(|a| self.facts.rtype.fits(*a)).collect();
            if own.is_empty() {
                lacking.push(service.name.as_str());
            } else {
                candidate.addresses = own;
            }
        }
        let name = &self.facts.model.views[view.index()];
        trace.note("view", || {
            let why = if lacking.is_empty() {
                "every usable service has an address in it".to_owned()
            } else {
                format!("without an address in it, and answering as ever: {}", lacking.join(" "))
            };
            (format!("addresses of view {name}"), why)
        });
    }

    /// The session of the client, if the answer follows it.
    fn held_by<'c>(
        &self,
        link: VserverId,
        usable: &'c Usable,
        tiers: &[(Option<u32>, Tier, Vec<&Candidate>)],
        method: Method,
        fired: Fired<'_>,
        trace: &mut Trace,
    ) -> Sticks<'c> {
        let vserver = self.facts.model.vserver(link);
        let (Some(session), Some(persistence)) = (self.question.session, vserver.persistence) else {
            return Sticks::No(Use::None);
        };
        let name = &self.facts.model.service(session.service).name;
        let mut say = |outcome: String, why: &str| trace.note("session", || (outcome, why.to_owned()));
        if persistence.ignore_in_round_robin && method == Method::RoundRobin {
            say(format!("with {name} is ignored"), "method round-robin ignores sessions");
            return Sticks::No(Use::None);
        }
        let find = |list: &'c [Candidate]| list.iter().find(|c| c.service == session.service);
        let set_aside = usable.basis == Some(Reason::LoadSetAside);
        let found = match (find(&usable.candidates), find(&usable.withdrawn)) {
            (Some(_), _) if usable.basis.is_some() && !set_aside => None,
            (Some(found), _) if !set_aside => Some((found, false)),
            (found, withdrawn) => found.or(withdrawn).map(|found| (found, true)),
        };
        let Some((candidate, is_overloaded)) = found else {
            say(format!("with {name} ends"), "its primary is not up and below its threshold");
            return Sticks::No(Use::Replaced);
        };
        if is_overloaded {
            match vserver.skip_persistency {
                SkipPersistency::None => {}
                SkipPersistency::Rebalance => {
                    say(format!("with {name} is set aside"), "a load monitor withdraws the service");
                    return Sticks::No(Use::SetAside);
                }
                SkipPersistency::Bypass => {
                    say(format!("with {name} is bypassed"), "a load monitor withdraws the service");
                    return Sticks::Bypass;
                }
            }
        }
        if !self.is_in_winning_tier(link, candidate, is_overloaded, tiers, usable, fired) {
            say(format!("with {name} ends"), "a service at a better preferred location is usable");
            return Sticks::No(Use::Replaced);
        }
        say(format!("leads to {name}"), "source-ip persistence");
        Sticks::To(candidate, candidate.order)
    }

    /// Within its order, the service is in the tier that wins (9, row 11). A better order does not move a client (3.8).
    fn is_in_winning_tier(
        &self,
        link: VserverId,
        candidate: &Candidate,
        is_overloaded: bool,
        tiers: &[(Option<u32>, Tier, Vec<&Candidate>)],
        usable: &Usable,
        fired: Fired<'_>,
    ) -> bool {
        let wins = |tiers: &[(Option<u32>, Tier, Vec<&Candidate>)]| {
            let first = tiers.iter().find(|(order, ..)| *order == candidate.order);
            first.is_some_and(|(.., members)| members.iter().any(|c| c.service == candidate.service))
        };
        if !is_overloaded || wins(tiers) {
            return wins(tiers);
        }
        let mut all = usable.candidates.clone();
        if all.iter().all(|c| c.service != candidate.service) {
            all.push(candidate.clone());
        }
        wins(&self.tiers(link, &all, fired))
    }

    /// Candidates by order, those without one last, and within an order by tier (9, row 12). The first one wins. An
    /// order with too few usable services comes behind those with enough (3.8).
    fn tiers<'c>(
        &self,
        link: VserverId,
        candidates: &'c [Candidate],
        fired: Fired<'_>,
    ) -> Vec<(Option<u32>, Tier, Vec<&'c Candidate>)> {
        let vserver = self.facts.model.vserver(link);
        let mut orders: BTreeMap<(bool, u32), Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            let key = match candidate.order {
                None => u32::MAX,
                Some(order) if vserver.descending_order => u32::MAX - 1 - order,
                Some(order) => order,
            };
            let lacks = self.lacks(link, candidate.order, candidates);
            orders.entry((lacks, key)).or_default().push(candidate);
        }
        let mut out = Vec::new();
        for members in orders.into_values() {
            let order = members[0].order;
            match fired.preferred {
                None => out.push((order, Tier::All, members)),
                Some((_, list)) => out.extend(
                    preferred::tiers(self.facts.model, list, &members)
                        .into_iter()
                        .map(|(tier, members)| (order, tier, members)),
                ),
            }
        }
        out
    }

    /// Fewer of the services of an order are usable than orderThreshold says.
    fn lacks(&self, link: VserverId, order: Option<u32>, candidates: &[Candidate]) -> bool {
        let vserver = self.facts.model.vserver(link);
        if vserver.order_threshold == 0 || order.is_none() {
            return false;
        }
        let counts = |id: ServiceId| {
            let service = self.facts.model.service(id);
            self.facts.snapshot.service(id).admin
                && (!self.facts.rtype.is_address()
                    || service.addresses.iter().any(|a| self.facts.rtype.fits(*a)))
        };
        let all = vserver.services.iter().filter(|b| b.order == order && counts(b.service)).count() as u32;
        let usable = candidates.iter().filter(|c| c.order == order).count() as u32;
        usable * 100 < vserver.order_threshold * all
    }

    fn note_tier(&self, tier: Tier, members: &[&Candidate], fired: Fired<'_>, trace: &mut Trace) {
        let Some((_, list)) = fired.preferred else { return };
        trace.note("tier", || {
            let names: Vec<&str> =
                members.iter().map(|c| self.facts.model.service(c.service).name.as_str()).collect();
            let why = match tier {
                Tier::Perfect(n) | Tier::Partial(n) => format!("{tier}, {}", list[n - 1]),
                _ => tier.to_string(),
            };
            (names.join(" "), why)
        });
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

    fn without_pool(
        &self,
        outcome: Outcome,
        reason: Reason,
        fired: Fired<'_>,
        trace: &mut Trace,
    ) -> Decision {
        note_outcome(&outcome, &reason.to_string(), trace);
        self.finish(outcome, reason, fired)
    }

    fn finish(&self, outcome: Outcome, reason: Reason, fired: Fired<'_>) -> Decision {
        let hit = fired.hit();
        Decision {
            outcome,
            policy: hit.map(|hit| hit.policy),
            action: hit.map(|hit| hit.action),
            view: fired.view.map(|(_, view)| view),
            link: self.question.owner.vserver,
            order: None,
            tier: Tier::None,
            method: self.facts.model.vserver(self.question.owner.vserver).method,
            reason,
            ttl: None,
            session: Use::None,
            steps: Vec::new(),
        }
    }
}

/// What becomes of a session.
enum Sticks<'c> {
    /// The answer is this service, of this order.
    To(&'c Candidate, Option<u32>),
    /// The name is resolved as if nobody owned it.
    Bypass,
    /// It is not followed.
    No(Use),
}

fn note_outcome(outcome: &Outcome, reason: &str, trace: &mut Trace) {
    trace.note("answer", || {
        let outcome = match outcome {
            Outcome::Undecided => "undecided".to_owned(),
            Outcome::Empty => "no records".to_owned(),
            Outcome::Drop => "no reply".to_owned(),
            Outcome::Refused => "REFUSED".to_owned(),
            Outcome::NotOurs => "is not ours".to_owned(),
            Outcome::Answer(pool) => told(pool),
            Outcome::Records(pool) => told(pool),
        };
        (outcome, reason.to_owned())
    });
}

fn told<T: std::fmt::Display>(pool: &Pool<T>) -> String {
    let list = |members: &[super::Member<T>]| {
        members.iter().map(|m| m.address.to_string()).collect::<Vec<_>>().join(" ")
    };
    let rotate = list(&pool.rotate);
    match pool.give {
        Give::One => format!("one of {rotate}"),
        Give::All => format!("all of {rotate}"),
        Give::BestFirst if pool.extras.is_empty() => format!("all of {rotate}, one first"),
        Give::BestFirst => format!("all of {rotate}, one first, then {}", list(&pool.extras)),
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
