//! Properties of `decide` over random models, snapshots and questions. What is right is said a second time here, by
//! exhaustive comparison instead of stages.

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use responder_user::{
    decide::{
        AddressState, Client, Decision, Give, Member, Outcome, Reason, Snapshot, Tier, chain::links, decide,
        decide_without_steps, policy,
    },
    model::{Bound, Location, Method, Model, RecordType, ServiceId, VserverId, location::same_qualifier},
};
use support::random::{Question, case, config};

/// Addresses of a service that may be given.
fn given(model: &Model, snapshot: &Snapshot, id: ServiceId, rtype: RecordType) -> Vec<IpAddr> {
    let (service, state) = (model.service(id), snapshot.service(id));
    let up = |i: usize| state.forced.unwrap_or(state.addresses[i] == AddressState::Up);
    let fits = |i: &usize| rtype.fits(service.addresses[*i]);
    let all = (0..service.addresses.len()).filter(fits);
    all.filter(|i| state.admin && up(*i)).map(|i| service.addresses[i]).collect()
}

/// True if a result is awaited that matters.
fn awaited(model: &Model, snapshot: &Snapshot, id: ServiceId, rtype: RecordType) -> bool {
    let (service, state) = (model.service(id), snapshot.service(id));
    let pending = service.addresses.iter().zip(&state.addresses);
    state.admin
        && state.forced.is_none()
        && pending.into_iter().any(|(a, s)| rtype.fits(*a) && *s == AddressState::Undecided)
}

/// The place of a service in the order of a list: pass and position, smaller is better.
fn standing(list: &[Location], service: Option<&Location>) -> (usize, usize) {
    let mut best = (2, 0);
    let Some(service) = service.filter(|l| l.qualifiers.iter().any(Option::is_some)) else { return best };
    for (i, preferred) in list.iter().enumerate() {
        let pairs = preferred.qualifiers.iter().zip(&service.qualifiers).filter(|(p, _)| p.is_some());
        let hits: Vec<bool> =
            pairs.map(|(p, s)| s.as_ref().is_some_and(|s| same_qualifier(s, p.as_ref().unwrap()))).collect();
        let pass = match hits.iter().filter(|h| **h).count() {
            n if n == hits.len() => 0,
            0 => continue,
            _ => 1,
        };
        best = best.min((pass, i));
    }
    best
}

fn tier_of(standing: (usize, usize)) -> Tier {
    match standing {
        (0, i) => Tier::Perfect(i + 1),
        (1, i) => Tier::Partial(i + 1),
        _ => Tier::Rest,
    }
}

/// The answer of one link: services of the lowest order and, there, of the best standing.
fn winners<'m>(model: &Model, usable: &[&'m Bound], list: Option<&[Location]>) -> (Tier, Vec<&'m Bound>) {
    let key = |b: &Bound| {
        let location = model.service(b.service).location.as_ref();
        (b.order.unwrap_or(u32::MAX), list.map_or((9, 9), |list| standing(list, location)))
    };
    let best = usable.iter().map(|b| key(b)).min().unwrap();
    let tier = if list.is_some() { tier_of(best.1) } else { Tier::All };
    (tier, usable.iter().copied().filter(|b| key(b) == best).collect())
}

fn addresses(members: &[Member]) -> Vec<IpAddr> {
    let mut out: Vec<IpAddr> = members.iter().map(|m| m.address).collect();
    out.sort();
    out
}

fn unique(mut list: Vec<IpAddr>) -> Vec<IpAddr> {
    list.sort();
    list.dedup();
    list
}

/// Checks an answer that a link gives.
fn check_link(model: &Model, snapshot: &Snapshot, question: &Question, link: VserverId, got: &Decision) {
    let vserver = model.vserver(link);
    let give = |b: &Bound| given(model, snapshot, b.service, question.rtype);
    let usable: Vec<&Bound> = vserver.services.iter().filter(|b| !give(b).is_empty()).collect();
    let client = Client::locate(model, question.client);
    let fired = policy::fires(model, &client);
    let (tier, winners) = winners(model, &usable, fired.map(|f| f.preferred));
    assert_eq!((got.link, got.tier, got.policy), (link, tier, fired.map(|f| f.policy)));
    let Outcome::Answer(pool) = &got.outcome else { panic!("{got:?}") };
    let all = unique(winners.iter().flat_map(|b| give(b)).collect());
    let rotate = addresses(&pool.rotate);
    if got.method == Method::StaticProximity {
        assert!(fired.is_none() && client.place.is_some());
        assert!(!rotate.is_empty() && rotate.iter().all(|a| all.contains(a)), "nearest are of the tier");
    } else {
        assert_eq!(got.method, Method::RoundRobin);
        assert_eq!(rotate, all, "the whole tier shares the load");
    }
    let everything = unique(usable.iter().flat_map(|b| give(b)).collect());
    if vserver.multiple_ip_response {
        assert_eq!(pool.give, Give::BestFirst);
        let both = [pool.rotate.as_slice(), &pool.extras].concat();
        assert_eq!(addresses(&both), everything, "MIR gives every usable address once");
    } else {
        assert_eq!((pool.give, pool.extras.len()), (Give::One, 0));
    }
    assert!(pool.rotate.iter().all(|m| m.weight > 0));
}

/// Checks what is answered when no link is usable.
fn check_ladder(model: &Model, question: &Question, got: &Decision) {
    let fits = |a: &IpAddr| question.rtype.fits(*a);
    let vserver = model.vserver(question.owner.vserver);
    let backup = unique(question.owner.backup_ip.iter().copied().filter(fits).collect());
    let all = vserver.services.iter().flat_map(|b| model.service(b.service).addresses.clone());
    let all = unique(all.filter(fits).collect());
    let (expected, reason) = match (backup.is_empty(), vserver.empty_down_response, all.is_empty()) {
        (false, ..) => (backup, Reason::BackupIp),
        (true, true, _) => (vec![], Reason::EmptyDownResponse),
        (true, false, false) => (all, Reason::AllBound),
        (true, false, true) => (vec![], Reason::NothingBound),
    };
    assert_eq!((got.reason, got.tier), (reason, Tier::None));
    match &got.outcome {
        Outcome::Empty => assert!(expected.is_empty()),
        Outcome::Answer(pool) => {
            assert_eq!((addresses(&pool.rotate), pool.give), (expected, Give::All));
            assert!(pool.extras.is_empty());
        }
        Outcome::Undecided => panic!("nothing is awaited"),
    }
}

fn check(model: &Model, snapshot: &Snapshot, question: &Question, got: &Decision) {
    let Question { owner, rtype, .. } = question;
    let vserver = model.vserver(owner.vserver);
    let has = |v: VserverId| {
        let bound = &model.vserver(v).services;
        bound.iter().any(|b| model.service(b.service).addresses.iter().any(|a| rtype.fits(*a)))
    };
    if !vserver.types.contains(rtype) || (!vserver.services.is_empty() && !has(owner.vserver)) {
        assert_eq!(got.outcome, Outcome::Empty);
        return;
    }
    for link in links(model, owner.vserver) {
        let vserver = model.vserver(link);
        if !snapshot.vserver(link).enabled || !vserver.types.contains(rtype) {
            continue;
        }
        if vserver.services.iter().any(|b| awaited(model, snapshot, b.service, *rtype)) {
            assert_eq!((&got.outcome, got.reason), (&Outcome::Undecided, Reason::MonitorsPending));
            return;
        }
        if vserver.services.iter().any(|b| !given(model, snapshot, b.service, *rtype).is_empty()) {
            assert_eq!(got.reason == Reason::BackupVserver, link != owner.vserver);
            check_link(model, snapshot, question, link, got);
            return;
        }
    }
    check_ladder(model, question, got);
}

/// The same configuration with every list turned round in which no order is given.
fn turned_round(model: &Model, snapshot: &Snapshot, question: &Question) -> (Model, Snapshot, Question) {
    let (mut model, mut snapshot, mut question) = (model.clone(), snapshot.clone(), question.clone());
    let services = model.services.len() as u32;
    let vservers = model.vservers.len() as u32;
    model.services.reverse();
    model.vservers.reverse();
    snapshot.services.reverse();
    snapshot.vservers.reverse();
    for vserver in &mut model.vservers {
        vserver.services.reverse();
        for bound in &mut vserver.services {
            bound.service = ServiceId(services - 1 - bound.service.0);
        }
        vserver.backup = vserver.backup.map(|b| VserverId(vservers - 1 - b.0));
    }
    question.owner.vserver = VserverId(vservers - 1 - question.owner.vserver.0);
    (model, snapshot, question)
}

/// What a client sees of a decision: shares by address, further addresses, and why.
fn seen(model: &Model, decision: &Decision) -> impl PartialEq + std::fmt::Debug + use<> {
    let pool = match &decision.outcome {
        Outcome::Answer(pool) => {
            let shares: BTreeMap<IpAddr, u32> = pool.rotate.iter().map(|m| (m.address, m.weight)).collect();
            Some((shares, addresses(&pool.extras), pool.give))
        }
        _ => None,
    };
    let empty = decision.outcome == Outcome::Empty;
    let link = model.vserver(decision.link).name.clone();
    (pool, empty, decision.policy, decision.tier, decision.order, decision.method, decision.reason, link)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn decisions_are_right((model, snapshot, question) in case(true)) {
        let got = decide(&model, &snapshot, &question.owner, question.rtype, question.client);
        check(&model, &snapshot, &question, &got);
        prop_assert!(!got.steps.is_empty());
    }

    #[test]
    fn decisions_are_the_same_every_time((model, snapshot, question) in case(true)) {
        let ask = || decide(&model, &snapshot, &question.owner, question.rtype, question.client);
        let mut first = ask();
        prop_assert_eq!(&first, &ask());
        let client = Client::locate(&model, question.client);
        first.steps.clear();
        let quiet = decide_without_steps(&model, &snapshot, &question.owner, question.rtype, &client);
        prop_assert_eq!(first, quiet);
    }

    #[test]
    fn order_in_the_file_changes_nothing((model, snapshot, question) in case(true)) {
        let ask = |m: &Model, s: &Snapshot, q: &Question| seen(m, &decide(m, s, &q.owner, q.rtype, q.client));
        let (m, s, q) = turned_round(&model, &snapshot, &question);
        prop_assert_eq!(ask(&model, &snapshot, &question), ask(&m, &s, &q));
    }
}
