//! Which virtual server answers, and what is answered when none can (spec/netscaler.md 3.6, 3.7).

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::{
    Decision, Outcome,
    candidate::{self, Candidate, Offer},
    client::Client,
    method::{self, Ranked},
    policy::{self, Fired},
    pool::{Give, Member, Pool},
    preferred,
    reason::{Reason, Tier, Trace},
    snapshot::Snapshot,
};
use crate::model::{Model, RecordType, ServiceId, VserverId};

/// Whose answers are published: a virtual server with the backup addresses of its domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The virtual server that the domain is bound to.
    pub vserver: VserverId,
    /// Answered when no service of the chain is usable.
    pub backup_ip: Arc<[IpAddr]>,
}

/// Everything that one decision is about.
struct Case<'a> {
    model: &'a Model,
    snapshot: &'a Snapshot,
    owner: &'a Owner,
    rtype: RecordType,
    client: &'a Client<'a>,
}

pub(super) fn decide(
    model: &Model,
    snapshot: &Snapshot,
    owner: &Owner,
    rtype: RecordType,
    client: &Client<'_>,
    trace: &mut Trace,
) -> Decision {
    let case = Case { model, snapshot, owner, rtype, client };
    let vserver = model.vserver(owner.vserver);
    if !vserver.types.contains(&rtype) {
        return case.without_pool(Outcome::Empty, Reason::TypeNotServed, None, trace);
    }
    // A virtual server with nothing bound is down. One whose services lack this family is not: its backup addresses
    // of that family would draw every dual-stack client away from services that are well.
    if !vserver.services.is_empty() && !candidate::has_address(model, owner.vserver, rtype) {
        return case.without_pool(Outcome::Empty, Reason::NoSuchAddress, None, trace);
    }
    let fired = policy::evaluate(model, client, trace);
    case.walk(fired, trace).unwrap_or_else(|| case.fall_back(fired, trace))
}

impl Case<'_> {
    /// The owner's virtual server, then its backup, and so on: the first that is up decides.
    fn walk(&self, fired: Option<Fired<'_>>, trace: &mut Trace) -> Option<Decision> {
        for link in links(self.model, self.owner.vserver) {
            let vserver = self.model.vserver(link);
            let primary = link == self.owner.vserver;
            if !primary {
                trace.note("chain", || (format!("asks {}", vserver.name), "backup chain".to_owned()));
                if !vserver.types.contains(&self.rtype) {
                    let why = Reason::TypeNotServed.to_string();
                    trace.note("vserver", || (format!("{} is passed over", vserver.name), why));
                    continue;
                }
            }
            match candidate::offer(self.model, self.snapshot, link, self.rtype, trace) {
                Offer::Down => {}
                Offer::Undecided => {
                    let reason = Reason::MonitorsPending;
                    return Some(self.without_pool(Outcome::Undecided, reason, fired, trace));
                }
                Offer::Usable(candidates) => {
                    let mut decision = self.choose(link, &candidates, fired, trace);
                    if !primary {
                        decision.reason = Reason::BackupVserver;
                    }
                    return Some(decision);
                }
            }
        }
        None
    }

    /// Order, preferred locations, method: what comes first shares the load, what follows is for MIR.
    fn choose(
        &self,
        link: VserverId,
        candidates: &[Candidate],
        fired: Option<Fired<'_>>,
        trace: &mut Trace,
    ) -> Decision {
        let vserver = self.model.vserver(link);
        let tiers = self.tiers(candidates, fired);
        let (order, tier, members) = &tiers[0];
        if tiers.iter().any(|(order, ..)| order.is_some()) {
            let name = order.map_or_else(|| "without order".to_owned(), |n| format!("order {n}"));
            trace.note("order", || (name, "lowest order with a usable service".to_owned()));
        }
        self.note_tier(*tier, members, fired, trace);
        let Ranked { groups, method, reason } =
            method::rank(self.model, vserver, self.client, members, fired.is_some(), trace);
        let mut further: Vec<&Candidate> = groups[1..].concat();
        if vserver.multiple_ip_response {
            for (.., others) in &tiers[1..] {
                let mut silent = Trace::silent();
                let by_list = fired.is_some();
                let ranked = method::rank(self.model, vserver, self.client, others, by_list, &mut silent);
                further.extend(ranked.groups.concat());
            }
        }
        let pool = Pool::of(&groups[0], &further, vserver.multiple_ip_response);
        note_pool(&pool, &reason.to_string(), trace);
        Decision {
            outcome: Outcome::Answer(pool),
            policy: fired.map(|f| f.policy),
            action: fired.map(|f| f.action),
            link,
            order: *order,
            tier: *tier,
            method,
            reason,
            steps: Vec::new(),
        }
    }

    /// Candidates by order, those without one last, and within an order by tier (9, row 12). The first one wins.
    fn tiers<'c>(
        &self,
        candidates: &'c [Candidate],
        fired: Option<Fired<'_>>,
    ) -> Vec<(Option<u32>, Tier, Vec<&'c Candidate>)> {
        let mut orders: BTreeMap<u32, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            orders.entry(candidate.order.unwrap_or(u32::MAX)).or_default().push(candidate);
        }
        let mut out = Vec::new();
        for members in orders.into_values() {
            let order = members[0].order;
            match fired {
                None => out.push((order, Tier::All, members)),
                Some(fired) => out.extend(
                    preferred::tiers(self.model, fired.preferred, &members)
                        .into_iter()
                        .map(|(tier, members)| (order, tier, members)),
                ),
            }
        }
        out
    }

    fn note_tier(&self, tier: Tier, members: &[&Candidate], fired: Option<Fired<'_>>, trace: &mut Trace) {
        let Some(fired) = fired else { return };
        trace.note("tier", || {
            let names: Vec<&str> =
                members.iter().map(|c| self.model.service(c.service).name.as_str()).collect();
            let why = match tier {
                Tier::Perfect(n) | Tier::Partial(n) => format!("{tier}, {}", fired.preferred[n - 1]),
                _ => tier.to_string(),
            };
            (names.join(" "), why)
        });
    }

    /// Nothing is usable: backup addresses, an empty answer, or everything that is bound (3.7).
    fn fall_back(&self, fired: Option<Fired<'_>>, trace: &mut Trace) -> Decision {
        let backup = self.owner.backup_ip.iter().filter(|a| self.rtype.fits(**a));
        let answer = if let Some(pool) = Pool::all(backup.map(|a| (*a, None))) {
            (Outcome::Answer(pool), Reason::BackupIp)
        } else if self.model.vserver(self.owner.vserver).empty_down_response {
            (Outcome::Empty, Reason::EmptyDownResponse)
        } else if let Some(pool) = Pool::all(self.bound()) {
            (Outcome::Answer(pool), Reason::AllBound)
        } else {
            (Outcome::Empty, Reason::NothingBound)
        };
        if let Outcome::Answer(pool) = &answer.0 {
            note_pool(pool, &answer.1.to_string(), trace);
            return self.finish(answer.0, answer.1, fired);
        }
        self.without_pool(answer.0, answer.1, fired, trace)
    }

    /// Every address of the type that is bound to the owner's virtual server.
    fn bound(&self) -> impl Iterator<Item = (IpAddr, Option<ServiceId>)> {
        self.model.vserver(self.owner.vserver).services.iter().flat_map(|bound| {
            let service = self.model.service(bound.service);
            let fitting = service.addresses.iter().filter(|a| self.rtype.fits(**a));
            fitting.map(|a| (*a, Some(bound.service)))
        })
    }

    fn without_pool(
        &self,
        outcome: Outcome,
        reason: Reason,
        fired: Option<Fired<'_>>,
        trace: &mut Trace,
    ) -> Decision {
        let what = if outcome == Outcome::Undecided { "undecided" } else { "no records" };
        trace.note("answer", || (what.to_owned(), reason.to_string()));
        self.finish(outcome, reason, fired)
    }

    fn finish(&self, outcome: Outcome, reason: Reason, fired: Option<Fired<'_>>) -> Decision {
        Decision {
            outcome,
            policy: fired.map(|f| f.policy),
            action: fired.map(|f| f.action),
            link: self.owner.vserver,
            order: None,
            tier: Tier::None,
            method: self.model.vserver(self.owner.vserver).method,
            reason,
            steps: Vec::new(),
        }
    }
}

fn note_pool(pool: &Pool, reason: &str, trace: &mut Trace) {
    trace.note("answer", || {
        let list =
            |members: &[Member]| members.iter().map(|m| m.address.to_string()).collect::<Vec<_>>().join(" ");
        let rotate = list(&pool.rotate);
        let outcome = match pool.give {
            Give::One => format!("one of {rotate}"),
            Give::All => format!("all of {rotate}"),
            Give::BestFirst if pool.extras.is_empty() => format!("all of {rotate}, one first"),
            Give::BestFirst => {
                format!("all of {rotate}, one first, then {}", list(&pool.extras))
            }
        };
        (outcome, reason.to_owned())
    });
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
