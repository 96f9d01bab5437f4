//! What one virtual server answers: view, order, preferred locations, session, method (spec/netscaler.md 2.5, 2.6, 3.8).

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    Decision, Outcome, Question,
    candidate::{Candidate, Usable},
    method::{Ranked, Ranking},
    policy::Fired,
    pool::{Give, Pick, Pool},
    preferred,
    reason::{Reason, Tier, Trace},
    session::Use,
    state::Facts,
};
use crate::model::{Method, ServiceId, VserverId, vserver::SkipPersistency};

/// Everything that one decision is about.
pub(super) struct Case<'a> {
    pub facts: Facts<'a>,
    pub question: &'a Question<'a>,
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

impl Case<'_> {
    /// Order, preferred locations, method: what comes first shares the load, what follows is for MIR.
    pub fn choose(
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
        self.note_order(link, &tiers, trace);
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
            let service = self.facts.model.service(session.service);
            let rtype = self.facts.rtype;
            if rtype.is_address() && !service.addresses.iter().any(|address| rtype.fits(*address)) {
                // A client of two families asks for both: this one must not move it in the other.
                say(format!("with {name} is set aside"), "the service has no address of this type");
                return Sticks::No(Use::SetAside);
            }
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

    fn note_order(&self, link: VserverId, tiers: &[(Option<u32>, Tier, Vec<&Candidate>)], trace: &mut Trace) {
        if tiers.iter().any(|(order, ..)| order.is_some()) {
            let name = tiers[0].0.map_or_else(|| "without order".to_owned(), |n| format!("order {n}"));
            let descending = self.facts.model.vserver(link).descending_order;
            let which = if descending { "highest" } else { "lowest" };
            trace.note("order", || (name, format!("{which} order with enough usable services")));
        }
    }

    /// A decision that no service of a virtual server makes.
    pub fn without_pool(
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
