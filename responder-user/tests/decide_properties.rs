//! Properties of `decide` over random models, snapshots and questions. What is right is said a second time here, by
//! exhaustive comparison instead of stages.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use proptest::prelude::*;
use responder_user::{
    decide::{
        self, AddressState, Client, Decision, Facts, Figure, Give, Member, Outcome, OwnerId, Owners, Pick,
        Pool, Reason, Snapshot, Tier, answer,
        chain::links,
        decide, decide_without_steps,
        memory::advance,
        policy::{self, Asked},
        session::Use,
    },
    model::{
        Bound, Location, Method, Model, RecordType, ServiceId, VserverId, location::same_qualifier,
        policy::BindPoint, vserver::SpilloverAction,
    },
};
use support::random::{Question, case, cases, decisions, rich_case, two_orders};

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
    let asked =
        Asked { client: &client, vserver: question.owner.vserver, names: &[], qtype: question.rtype.code() };
    let fired = policy::fires(model, &asked).preferred;
    let (tier, winners) = winners(model, &usable, fired.map(|(_, list)| list));
    assert_eq!((got.link, got.tier, got.policy), (link, tier, fired.map(|(hit, _)| hit.policy)));
    let Outcome::Answer(pool) = &got.outcome else { panic!("{got:?}") };
    let all = unique(winners.iter().flat_map(|b| give(b)).collect());
    let rotate = addresses(&pool.rotate);
    if got.method == Method::StaticProximity {
        assert!(fired.is_none() && client.place.is_some());
        assert!(!rotate.is_empty() && rotate.iter().all(|a| all.contains(a)), "nearest are of the tier");
    } else {
        let hash = got.method == Method::SourceIpHash;
        assert!(hash || got.method == Method::RoundRobin);
        assert_eq!(hash, pool.pick != Pick::Turn);
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
        other => panic!("{other:?}"),
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
    let (services, vservers) = (model.services.len() as u32, model.vservers.len() as u32);
    let vserver = |id: VserverId| VserverId(vservers - 1 - id.0);
    model.services.reverse();
    model.vservers.reverse();
    snapshot.services.reverse();
    snapshot.vservers.reverse();
    for service in &mut model.services {
        service.behind = service.behind.map(vserver);
    }
    for one in &mut model.vservers {
        one.services.reverse();
        for bound in &mut one.services {
            bound.service = ServiceId(services - 1 - bound.service.0);
        }
        one.backup = one.backup.map(vserver);
    }
    for domain in &mut model.domains {
        domain.vserver = vserver(domain.vserver);
    }
    for policy in &mut model.policies {
        policy.bind = match policy.bind {
            BindPoint::Vserver(id) => BindPoint::Vserver(vserver(id)),
            BindPoint::VserverResponse(id) => BindPoint::VserverResponse(vserver(id)),
            other => other,
        };
    }
    model.policies.sort_by_key(|p| (p.bind, p.priority));
    question.owner.vserver = vserver(question.owner.vserver);
    (model, snapshot, question)
}

/// What a client sees of a decision: shares by address, further addresses, and why.
fn seen(model: &Model, decision: &Decision) -> impl PartialEq + std::fmt::Debug + use<> {
    let pool = match &decision.outcome {
        Outcome::Answer(pool) => {
            let shares: BTreeMap<IpAddr, (u32, u64)> =
                pool.rotate.iter().map(|m| (m.address, (m.weight, m.identity))).collect();
            Some((shares, addresses(&pool.extras), pool.give, pool.pick))
        }
        _ => None,
    };
    let other = (pool.is_none()).then(|| decision.outcome.clone());
    let link = model.vserver(decision.link).name.clone();
    let policy = decision.policy.map(|p| model.policies[p.index()].name.clone());
    let how = (decision.tier, decision.order, decision.method, decision.reason, decision.session);
    // Numbers follow the order of the file.
    let view = decision.view.map(|view| model.views[view.index()].clone());
    (pool, other, policy, view, decision.ttl, how, link)
}

/// What a service of a rich model is worth: eligible but for load monitors, withdrawn by one, usable by effective state.
struct Worth {
    eligible: bool,
    withdrawn: bool,
    effective: bool,
}

fn worth(model: &Model, snapshot: &Snapshot, id: ServiceId, rtype: RecordType) -> Worth {
    let (service, state) = (model.service(id), snapshot.service(id));
    let states = Facts { model, snapshot, rtype }.states(id);
    let load = |name: &str| state.load.get(name).map(|figure| figure.value);
    let full = service.max_connections > 0
        && load("connections").is_some_and(|value| value >= f64::from(service.max_connections));
    let counts = state.admin && service.addresses.iter().any(|a| rtype.fits(*a)) && !full;
    Worth {
        eligible: counts && states.primary == AddressState::Up && !states.above,
        withdrawn: !service.monitors.is_empty() && load("cpu").is_some_and(|cpu| cpu >= 80.0),
        effective: counts && states.effective == AddressState::Up,
    }
}

/// True if the state of a virtual server depends on that of another one.
fn reaches(model: &Model, from: VserverId, to: VserverId) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        if seen.insert(next) {
            let vserver = model.vserver(next);
            open.extend(vserver.backup);
            open.extend(vserver.services.iter().filter_map(|bound| model.service(bound.service).behind));
        }
    }
    false
}

/// An answer of services: of the link that answers, from the best pool that it has.
fn check_pool(model: &Model, snapshot: &Snapshot, question: &Question, got: &Decision, pool: &Pool) {
    let rtype = question.rtype;
    let bound: Vec<ServiceId> = model.vserver(got.link).services.iter().map(|b| b.service).collect();
    // A service that stands for the virtual server that it is bound to has another state from within.
    let stands = |id: &ServiceId| model.service(*id).behind;
    if bound.iter().filter_map(stands).any(|behind| reaches(model, behind, got.link)) {
        return;
    }
    let worth = |id: ServiceId| worth(model, snapshot, id, rtype);
    let any = |wanted: fn(&Worth) -> bool| bound.iter().any(|id| wanted(&worth(*id)));
    assert!(snapshot.vserver(got.link).enabled && model.vserver(got.link).types.contains(&rtype));
    for member in &pool.rotate {
        let id = member.service.expect("a pool of services");
        assert!(bound.contains(&id) && member.weight > 0);
        let worth = worth(id);
        let fine = if any(|w| w.eligible && !w.withdrawn) {
            worth.eligible && (!worth.withdrawn || got.session == Use::Kept)
        } else if any(|w| w.eligible) {
            worth.eligible
        } else {
            worth.effective
        };
        assert!(fine, "{} is given while a better service is usable", model.service(id).name);
    }
    // Nobody before it could have answered.
    for link in links(model, question.owner.vserver).into_iter().take_while(|link| *link != got.link) {
        let facts = Facts { model, snapshot, rtype };
        let takes_over = matches!(got.reason, Reason::SpilloverSession);
        let states = facts.vserver_states(link);
        let held = snapshot.vserver(link).memory(rtype).latched;
        let serves = model.vserver(link).types.contains(&rtype);
        assert!(
            takes_over || held || states.above || !serves || states.primary != AddressState::Up,
            "{} is up and is passed over",
            model.vserver(link).name
        );
    }
}

fn check_rich(model: &Model, snapshot: &Snapshot, question: &Question, got: &Decision) {
    use Reason::{
        AllBound, BackupIp, BackupIpLatched, Bypassed, EmptyDownResponse, MonitorsPending, NoSuchAddress,
        NothingBound, Overloaded, PolicyDrop, PolicyRewrite, Saturated, TypeNotServed,
    };
    let edr = model.vserver(question.owner.vserver).empty_down_response;
    let fine = match &got.outcome {
        Outcome::Empty => match got.reason {
            EmptyDownResponse => edr,
            TypeNotServed | NoSuchAddress | NothingBound | PolicyRewrite => true,
            Saturated(action) => action == SpilloverAction::Empty,
            _ => false,
        },
        Outcome::Drop => match got.reason {
            PolicyDrop | Overloaded => true,
            Saturated(action) => matches!(action, SpilloverAction::Drop | SpilloverAction::Redirect),
            _ => false,
        },
        Outcome::Refused => got.reason == Saturated(SpilloverAction::Refused),
        Outcome::Records(_) => got.reason == Saturated(SpilloverAction::Redirect),
        Outcome::NotOurs => got.reason == Bypassed,
        Outcome::Undecided => got.reason == MonitorsPending,
        Outcome::Answer(pool) => {
            assert!(!pool.rotate.is_empty());
            assert!(pool.rotate.iter().chain(&pool.extras).all(|m| question.rtype.fits(m.address)));
            let of_services = !matches!(got.reason, AllBound | BackupIp | BackupIpLatched | PolicyRewrite);
            assert_eq!(of_services, got.tier != Tier::None);
            if of_services {
                check_pool(model, snapshot, question, got, pool);
            }
            true
        }
    };
    assert!(fine, "{:?} because {:?}", got.outcome, got.reason);
    // Policies of responses may be asked after it.
    let last = got.steps.iter().rfind(|step| step.step == "answer").expect("an answer");
    assert_eq!(last.reason, got.reason.to_string(), "{:#?}", got.steps);
}

/// What clients of every domain are given by a configuration, told what a snapshot of `told` says; None if it is refused.
fn given_by(blocks: &[String], told: &Model, snapshot: &Snapshot, question: &Question) -> Option<String> {
    let text = format!("[listen]\naddresses = [\"192.0.2.53:53\"]\n{}", blocks.join("\n"));
    let model = responder_user::config::parse(&text, "responder.toml".as_ref()).ok()?.model;
    let mut state = Snapshot::all_up(&model);
    for (service, slot) in model.services.iter().zip(&mut state.services) {
        let before = told.services.iter().position(|other| other.name == service.name).expect("its service");
        let addresses = std::mem::take(&mut slot.addresses);
        slot.clone_from(&snapshot.services[before]);
        slot.addresses.resize(addresses.len(), AddressState::Up);
    }
    for (vserver, slot) in model.vservers.iter().zip(&mut state.vservers) {
        let before = told.vservers.iter().position(|other| other.name == vserver.name).expect("its vserver");
        slot.clone_from(&snapshot.vservers[before]);
    }
    let owners = Owners::of(&model);
    let mut out: Vec<String> = (0..model.domains.len())
        .map(|i| {
            let owner = owners.owner(owners.of_domain(i));
            let decision = decide(&model, &state, owner, question.rtype, question.client);
            format!("{}: {:?}", model.domains[i].name, seen(&model, &decision))
        })
        .collect();
    out.sort();
    Some(out.join("\n"))
}

/// Reading a configuration takes longer than deciding.
fn fewer() -> ProptestConfig {
    cases(decisions().cases.div_ceil(10).max(128))
}

/// So many of the configurations of the next property are not refused.
#[test]
fn random_configurations_are_mostly_accepted() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let accepted = (0..100).filter(|_| {
        let (blocks, _, model, snapshot, question) = two_orders().new_tree(&mut runner).unwrap().current();
        given_by(&blocks, &model, &snapshot, &question).is_some()
    });
    let accepted = accepted.count();
    assert!(accepted >= 60, "{accepted} of 100");
}

proptest! {
    #![proptest_config(fewer())]

    #[test]
    fn order_of_the_tables_changes_nothing((one, other, model, snapshot, question) in two_orders()) {
        let given = |blocks: &[String]| given_by(blocks, &model, &snapshot, &question);
        prop_assert_eq!(given(&one), given(&other));
    }
}

proptest! {
    #![proptest_config(decisions())]

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

    #[test]
    fn every_answer_is_of_the_best_that_is_usable((model, snapshot, question, session) in rich_case(true)) {
        let client = Client::locate(&model, question.client);
        let asked = decide::Question { owner: &question.owner, rtype: question.rtype, client: &client, session };
        let got = answer(&model, &snapshot, &asked);
        check_rich(&model, &snapshot, &question, &got);
        prop_assert_eq!(&got, &answer(&model, &snapshot, &asked), "the same every time");
        if session.is_none() {
            let mut loud = got;
            loud.steps.clear();
            let quiet = decide_without_steps(&model, &snapshot, &question.owner, question.rtype, &client);
            prop_assert_eq!(loud, quiet);
        }
    }

    #[test]
    fn order_in_the_file_changes_nothing_of_anything((model, snapshot, question, _) in rich_case(true)) {
        let ask = |m: &Model, s: &Snapshot, q: &Question| seen(m, &decide(m, s, &q.owner, q.rtype, q.client));
        let (m, s, q) = turned_round(&model, &snapshot, &question);
        prop_assert_eq!(ask(&model, &snapshot, &question), ask(&m, &s, &q));
    }

    #[test]
    fn a_change_touches_the_owners_that_say_so((model, before, question, _) in rich_case(false), service in any::<prop::sample::Index>(), cpu in 0..120_u32) {
        let owners = Owners::of(&model);
        let id = ServiceId(service.index(model.services.len()) as u32);
        let mut after = before.clone();
        let state = &mut after.services[id.index()];
        let figure = Figure { value: f64::from(cpu), at: Duration::ZERO };
        state.load.insert("cpu".to_owned(), figure);
        state.load.insert("connections".to_owned(), figure);
        state.report.above = Some(cpu % 2 == 0);
        state.addresses.fill(AddressState::Up);
        let touched = owners.owners_affected_by(id);
        let ask = |s: &Snapshot, owner: &_| decide(&model, s, owner, question.rtype, question.client);
        for (i, owner) in owners.list.iter().enumerate() {
            if ask(&before, owner) != ask(&after, owner) {
                prop_assert!(touched.contains(&OwnerId(i as u32)), "owner {i} changed");
            }
        }
        let (mut remembered, mut elsewhere) = (after.clone(), after.clone());
        advance(&model, &mut remembered, (0..model.vservers.len() as u32).map(VserverId));
        let (mut start, all) = (before.clone(), (0..model.vservers.len() as u32).map(VserverId));
        advance(&model, &mut start, all);
        for (state, known) in elsewhere.vservers.iter_mut().zip(&start.vservers) {
            state.memory = known.memory;
        }
        let mut remembered_late = elsewhere.clone();
        advance(&model, &mut elsewhere, owners.vservers_affected_by(id).iter().copied());
        advance(&model, &mut remembered_late, (0..model.vservers.len() as u32).map(VserverId));
        prop_assert_eq!(elsewhere, remembered_late, "memory that the service touches");
    }
}
