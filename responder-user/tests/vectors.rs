//! The vectors of spec/netscaler.md, as tables.

mod support;

use std::sync::Arc;

use responder_user::{
    decide::{
        AddressState, Decision, Give, Outcome, Owner, Reason, Snapshot, Tier, decide,
        preferred::{Match, classify},
        proximity::{metres, score},
    },
    model::{Method, Model, RecordType, Rule, VserverId},
};
use support::{
    ZMB_CLIENT, add_preference, address, ask, bound, eight_sites, ids, location, model_of, names, owner,
    range, rotation, service, vserver,
};

#[test]
fn preferred_locations_of_the_source_documents() {
    // spec/netscaler.md 2.5, the first table
    let table = [
        ("", "hk", Tier::Perfect(1)),
        ("hk", "uk", Tier::Perfect(2)),
        ("hk uk", "in jpn", Tier::Partial(1)),
        ("hk uk in", "jpn", Tier::Partial(1)),
        ("hk uk in jpn", "ru eg", Tier::Partial(2)),
        ("hk uk in jpn ru", "eg", Tier::Partial(2)),
        ("hk uk in jpn ru eg", "sd zmb", Tier::Rest),
        ("uk", "hk", Tier::Perfect(1)),
        ("in jpn hk uk ru eg sd zmb", "in jpn hk uk ru eg sd zmb", Tier::None),
    ];
    let model = eight_sites();
    for (down, pool, tier) in table {
        let down: Vec<&str> = down.split_whitespace().collect();
        let got = ask(&model, &down, ZMB_CLIENT);
        assert_eq!(rotation(&model, &got), pool, "down: {down:?}\n{:#?}", got.steps);
        assert_eq!(got.tier, tier, "down: {down:?}");
        assert_eq!(got.policy.is_some(), got.action.is_some());
    }
    let all = ask(&model, &["in", "jpn", "hk", "uk", "ru", "eg", "sd", "zmb"], ZMB_CLIENT);
    assert_eq!(all.reason, Reason::AllBound, "an all-down pool falls to 3.7");
}

#[test]
fn the_policy_concerns_only_clients_it_names() {
    let model = eight_sites();
    let other = ask(&model, &[], "192.0.2.1");
    assert_eq!((other.policy, other.tier, other.method), (None, Tier::All, Method::RoundRobin));
    assert_eq!(other.reason, Reason::ClientNotLocated);
    assert_eq!(rotation(&model, &other), "in jpn hk uk ru eg sd zmb");
    let inside = ask(&model, &[], ZMB_CLIENT);
    assert_eq!(inside.reason, Reason::PreferredLocations(Method::StaticProximity));
}

#[test]
fn locations_are_classified() {
    // preferred, service, match: 2.5, definitions and points 4 to 6
    let table = [
        ("*.UK.*.*", "*.UK.*.*", Match::Perfect),
        ("*.UK.*.*", "Europe.UK.*.*", Match::Perfect),
        ("Europe.UK", "Europe.EG", Match::Partial),
        ("Europe.UK", "Asia.HK", Match::None),
        ("europe.uk", "Europe.UK", Match::Perfect),
        ("Europe.UK.London", "*.UK.London", Match::Partial),
        ("Europe.UK.London", "Europe.FR", Match::Partial),
        ("Europe.UK.London", "Europe.UK.Leeds", Match::Partial),
        ("Europe.UK", "Europe.UK.London.*", Match::Perfect),
        ("Europe.UK.London", "Europe.UK", Match::Partial),
        ("Europe", "Europe.UK", Match::Perfect),
        ("Europe", "Asia.UK", Match::None),
        ("Europe.UK", "*.*.UK", Match::None),
        ("*", "Europe.UK", Match::Perfect),
    ];
    for (preferred, service, expected) in table {
        let got = classify(&location(preferred), Some(&location(service)));
        assert_eq!(got, expected, "preferred {preferred}, service {service}");
    }
    assert_eq!(classify(&location("Europe"), None), Match::None);
    assert_eq!(classify(&location("*"), None), Match::None);
}

/// A model whose policy always applies.
fn always(services: &[(&str, &str)], list: &[&str]) -> Model {
    let mut model = model_of(services, Method::StaticProximity);
    add_preference(&mut model, "always", 1, Rule::Constant(true), list);
    model
}

#[test]
fn preferred_locations_further_vectors() {
    let uk = always(&[("a", "*.UK.*.*"), ("b", "Europe.UK.*.*"), ("c", "Europe.FR.*.*")], &["*.UK.*.*"]);
    assert_eq!(rotation(&uk, &ask(&uk, &[], ZMB_CLIENT)), "a b");
    let down = ask(&uk, &["a", "b"], ZMB_CLIENT);
    assert_eq!((rotation(&uk, &down), down.tier), ("c".to_owned(), Tier::Rest), "one qualifier, no partial");

    let asia = always(&[("in", "Asia.IN"), ("jpn", "Asia.JPN"), ("hk", "Asia.HK")], &["Asia.HK", "Asia.JPN"]);
    let got = ask(&asia, &["hk"], ZMB_CLIENT);
    assert_eq!((rotation(&asia, &got), got.tier), ("jpn".to_owned(), Tier::Perfect(2)));

    let late = always(&[("a", "Asia.IN"), ("b", "Oceania.AU")], &["Asia.HK", "Europe", "X", "Oceania.AU"]);
    let got = ask(&late, &[], ZMB_CLIENT);
    assert_eq!(
        (rotation(&late, &got), got.tier),
        ("b".to_owned(), Tier::Perfect(4)),
        "perfect before partial"
    );

    let unranked = always(&[("leeds", "Europe.UK.Leeds"), ("fr", "Europe.FR")], &["Europe.UK.London"]);
    assert_eq!(rotation(&unranked, &ask(&unranked, &[], ZMB_CLIENT)), "leeds fr", "partials are not ranked");

    let nowhere = always(&[("a", ""), ("b", "Asia.HK")], &["*"]);
    assert_eq!(rotation(&nowhere, &ask(&nowhere, &[], ZMB_CLIENT)), "b");
    assert_eq!(rotation(&nowhere, &ask(&nowhere, &["b"], ZMB_CLIENT)), "a");
}

#[test]
fn the_list_overrides_only_proximity_and_rtt_inside_a_tier() {
    let services = [("a", "Asia.HK"), ("b", "Asia.HK")];
    // method, backup method, used, reason
    let table = [
        (Method::RoundRobin, None, Reason::Configured),
        (Method::StaticProximity, None, Reason::PreferredLocations(Method::StaticProximity)),
        (Method::Rtt, Some(Method::RoundRobin), Reason::PreferredLocations(Method::Rtt)),
        (Method::LeastConnection, None, Reason::NoLoadFigures(Method::LeastConnection)),
    ];
    for (method, backup, reason) in table {
        let mut model = always(&services, &["Asia.HK"]);
        model.vservers[0].method = method;
        model.vservers[0].backup_method = backup;
        let got = ask(&model, &[], ZMB_CLIENT);
        assert_eq!((got.method, got.reason), (Method::RoundRobin, reason));
        assert_eq!(got.tier, Tier::Perfect(1), "the list applies to every method (2.5, point 10)");
    }
}

#[test]
fn proximity_scores() {
    let table = [
        ("EU.GB.London", "EU.GB.London", 3),
        ("EU.GB.London", "EU.GB.Leeds", 2),
        ("EU.GB.London", "EU.FR", 1),
        ("EU.GB.London", "EU", 1),
        ("EU.GB.London", "NA.US", 0),
        ("*.GB.London", "*.GB.London", 2),
        ("*.GB.London", "EU.GB.London", 0),
        ("EU.*.London", "EU.*.London", 2),
        ("eu.gb", "EU.GB", 2),
        ("EU.FR.London", "EU.GB.London", 1),
    ];
    for (client, service, expected) in table {
        assert_eq!(score(&location(client), &location(service)), expected, "{client} and {service}");
    }
}

#[test]
fn static_proximity_result_classes() {
    let services = [("london", "EU.GB.London"), ("leeds", "EU.GB.Leeds"), ("fr", "EU.FR"), ("any", "")];
    let mut model = model_of(&services, Method::StaticProximity);
    model.locations.custom = vec![
        range("10.1.0.0", "10.1.255.255", "EU.GB.London"),
        range("10.2.0.0", "10.2.255.255", "EU.GB.York"),
        range("10.3.0.0", "10.3.255.255", "NA.US"),
    ];
    // client, down, pool, method, reason
    let (near, turns) = (Method::StaticProximity, Method::RoundRobin);
    let table = [
        ("10.1.0.1", "", "london", near, Reason::Configured),
        ("10.1.0.1", "london", "leeds", near, Reason::Configured),
        ("10.2.0.1", "", "london leeds", near, Reason::Configured),
        ("10.2.0.1", "london leeds", "fr", near, Reason::Configured),
        ("10.2.0.1", "london leeds fr", "any", near, Reason::Configured),
        ("10.3.0.1", "", "any", near, Reason::Configured),
        ("10.3.0.1", "any", "london leeds fr", turns, Reason::NoServiceMatches),
        ("192.0.2.1", "", "london leeds fr any", turns, Reason::ClientNotLocated),
    ];
    for (client, down, pool, method, reason) in table {
        let down: Vec<&str> = down.split_whitespace().collect();
        let got = ask(&model, &down, client);
        assert_eq!(rotation(&model, &got), pool, "{client}, down {down:?}");
        assert_eq!((got.method, got.reason), (method, reason), "{client}, down {down:?}");
    }
    model.vservers[0].backup_method = Some(Method::LeastConnection);
    let got = ask(&model, &["any"], "10.3.0.1");
    assert_eq!((got.method, got.reason), (Method::RoundRobin, Reason::NoServiceMatches));
    model.vservers[0].method = Method::Rtt;
    model.vservers[0].backup_method = Some(Method::StaticProximity);
    let got = ask(&model, &[], "10.1.0.1");
    assert_eq!((got.method, got.reason), (Method::StaticProximity, Reason::NoRoundTripTimes));
}

#[test]
fn coordinates_decide_when_client_and_all_located_candidates_have_them() {
    let (london, paris, madrid) = ((0.0, 51.5), (2.35, 48.85), (-3.7, 40.4));
    assert!((336_000..342_000).contains(&metres(london, paris)));
    assert_eq!(metres((170.0, 0.0), (-170.0, 0.0)), metres((0.0, 0.0), (20.0, 0.0)), "across the date line");
    let mut model = model_of(
        &[("paris", "NA.FR"), ("madrid", "EU.ES"), ("none", "EU.GB"), ("any", "")],
        Method::StaticProximity,
    );
    model.services[0].coordinates = Some(paris);
    model.services[1].coordinates = Some(madrid);
    let mut at = range("10.1.0.0", "10.1.255.255", "EU.GB");
    at.coordinates = Some(london);
    model.locations.custom = vec![at, range("10.2.0.0", "10.2.255.255", "EU.GB")];
    assert_eq!(rotation(&model, &ask(&model, &[], "10.1.0.1")), "none", "one without: qualifiers decide");
    assert_eq!(rotation(&model, &ask(&model, &["none"], "10.1.0.1")), "paris");
    assert_eq!(rotation(&model, &ask(&model, &["none"], "10.2.0.1")), "madrid", "client without coordinates");
    model.services[1].coordinates = Some(paris);
    assert_eq!(rotation(&model, &ask(&model, &["none"], "10.1.0.1")), "paris madrid", "equal distance");
    assert_eq!(rotation(&model, &ask(&model, &["none", "paris", "madrid"], "10.1.0.1")), "any");
}

/// Asks with backup addresses.
fn ask_with(model: &Model, snapshot: &Snapshot, backup: &[&str], rtype: RecordType) -> Decision {
    let backup_ip: Vec<_> = backup.iter().map(|a| address(a)).collect();
    let owner = Owner { backup_ip: backup_ip.into(), ..owner() };
    decide(model, snapshot, &owner, rtype, address("192.0.2.1"))
}

#[test]
fn the_ladder_when_nothing_is_usable() {
    let mut model = model_of(&[("a", ""), ("b", ""), ("c", "")], Method::RoundRobin);
    model.vservers.push(vserver("spare", Method::RoundRobin, vec![bound(2)]));
    model.vservers[0].services.pop();
    // backup chain, backup_ip, EDR, c is down; pool, reason (spec/netscaler.md 3.7)
    let table = [
        (true, true, true, false, "c", Reason::BackupVserver),
        (true, true, true, true, "203.0.113.9", Reason::BackupIp),
        (false, true, true, false, "203.0.113.9", Reason::BackupIp),
        (false, false, true, false, "-", Reason::EmptyDownResponse),
        (false, false, false, false, "a b", Reason::AllBound),
        (true, false, false, true, "a b", Reason::AllBound),
    ];
    for disabled in [false, true] {
        for (chain, backup_ip, edr, c_down, pool, reason) in table {
            model.vservers[0].backup = chain.then_some(VserverId(1));
            model.vservers[0].empty_down_response = edr;
            let mut down = if disabled { vec![] } else { vec!["a", "b"] };
            down.extend(c_down.then_some("c"));
            let mut snapshot = Snapshot::with_down(&model, &ids(&model, &down));
            snapshot.vservers[0].enabled = !disabled;
            let backup: &[&str] = if backup_ip { &["203.0.113.9", "2001:db8::9"] } else { &["2001:db8::9"] };
            let got = ask_with(&model, &snapshot, backup, RecordType::A);
            assert_eq!((rotation(&model, &got).as_str(), got.reason), (pool, reason), "disabled: {disabled}");
            if let Outcome::Answer(pool) = &got.outcome {
                let all = reason != Reason::BackupVserver;
                assert_eq!(pool.give == Give::All, all, "fail open gives all, MIR or not");
            }
        }
    }
}

#[test]
fn families_are_decided_apart() {
    let mut model = model_of(&[], Method::RoundRobin);
    model.services = vec![
        service("dual", None, &["198.51.100.1", "198.51.100.2", "2001:db8::1"]),
        service("four", None, &["198.51.100.3"]),
    ];
    model.vservers[0].services = vec![bound(0), bound(1)];
    let mut snapshot = Snapshot::all_up(&model);
    snapshot.services[0].addresses[2] = AddressState::Down;
    snapshot.services[0].addresses[0] = AddressState::Down;
    let got = ask_with(&model, &snapshot, &[], RecordType::A);
    let Outcome::Answer(pool) = &got.outcome else { panic!("{got:?}") };
    let addresses: Vec<String> = pool.rotate.iter().map(|m| m.address.to_string()).collect();
    assert_eq!(addresses, ["198.51.100.2", "198.51.100.3"], "only addresses that are up");
    let six = ask_with(&model, &snapshot, &[], RecordType::Aaaa);
    assert_eq!(six.reason, Reason::AllBound, "no IPv6 address is up: the ladder");
    model.services[0].addresses.pop();
    let none = ask_with(&model, &Snapshot::all_up(&model), &["2001:db8::9"], RecordType::Aaaa);
    assert_eq!((none.outcome, none.reason), (Outcome::Empty, Reason::NoSuchAddress));
    model.vservers[0].types = vec![RecordType::A];
    let not = ask_with(&model, &Snapshot::all_up(&model), &[], RecordType::Aaaa);
    assert_eq!((not.outcome, not.reason), (Outcome::Empty, Reason::TypeNotServed));
}

#[test]
fn multiple_ip_response_lists_all_usable_services_in_decision_order() {
    let mut model = eight_sites();
    model.vservers[0].multiple_ip_response = true;
    let got = ask(&model, &["hk", "ru"], ZMB_CLIENT);
    let Outcome::Answer(pool) = &got.outcome else { panic!("{got:?}") };
    assert_eq!(pool.give, Give::BestFirst);
    assert_eq!(names(&model, &pool.rotate), ["uk"]);
    assert_eq!(names(&model, &pool.extras), ["in", "jpn", "eg", "sd", "zmb"]);
    model.policies.clear();
    model.locations.custom[0].location = location("Europe.UK");
    let got = ask(&model, &[], ZMB_CLIENT);
    let Outcome::Answer(pool) = &got.outcome else { panic!("{got:?}") };
    assert_eq!(names(&model, &pool.rotate), ["uk"]);
    assert_eq!(names(&model, &pool.extras), ["ru", "eg", "in", "jpn", "hk", "sd", "zmb"], "nearest first");
}

#[test]
fn order_comes_before_preferred_locations() {
    let mut model = eight_sites();
    for (i, order) in [Some(2), Some(2), Some(2), Some(1), Some(1), Some(1), None, None].iter().enumerate() {
        model.vservers[0].services[i].order = *order;
    }
    let table = [
        ("", "uk", Some(1)),
        ("uk", "ru eg", Some(1)),
        ("uk ru eg", "hk", Some(2)),
        ("uk ru eg hk in jpn", "sd zmb", None),
    ];
    for (down, pool, order) in table {
        let down: Vec<&str> = down.split_whitespace().collect();
        let got = ask(&model, &down, ZMB_CLIENT);
        assert_eq!((rotation(&model, &got).as_str(), got.order), (pool, order), "down {down:?}");
    }
}

#[test]
fn undecided_while_an_address_that_matters_is() {
    let mut model = model_of(&[("a", ""), ("b", "")], Method::RoundRobin);
    for service in &mut model.services {
        service.monitors = support::checked();
    }
    model.services[1].addresses.push(address("2001:db8::1"));
    let mut snapshot = Snapshot::initial(&model);
    let a = |s: &Snapshot| rotation(&model, &ask_with(&model, s, &[], RecordType::A));
    assert_eq!(a(&snapshot), "undecided");
    snapshot.services[0].addresses[0] = AddressState::Up;
    assert_eq!(a(&snapshot), "undecided", "one that is up does not speak for the other");
    let mut forced = snapshot.clone();
    forced.services[1].forced = Some(true);
    assert_eq!(a(&forced), "a b");
    forced.services[1].forced = Some(false);
    assert_eq!(a(&forced), "a");
    forced.services[1] = snapshot.services[1].clone();
    forced.services[1].admin = false;
    assert_eq!(a(&forced), "a", "a disabled service is not waited for");
    snapshot.services[1].addresses[0] = AddressState::Down;
    assert_eq!(a(&snapshot), "a", "the other family is not waited for");
    assert_eq!(rotation(&model, &ask_with(&model, &snapshot, &[], RecordType::Aaaa)), "undecided");
    model.monitors[0].enabled = false;
    assert_eq!(Snapshot::initial(&model), Snapshot::all_up(&model), "a disabled monitor counts for nothing");
}

#[test]
fn a_chain_that_is_not_reached_is_not_waited_for() {
    let mut model = model_of(&[("a", ""), ("b", "")], Method::RoundRobin);
    model.vservers[0].services.pop();
    model.vservers.push(vserver("spare", Method::RoundRobin, vec![bound(1)]));
    model.vservers[0].backup = Some(VserverId(1));
    let mut snapshot = Snapshot::all_up(&model);
    snapshot.services[1].addresses[0] = AddressState::Undecided;
    let ask = |s: &Snapshot| decide(&model, s, &owner(), RecordType::A, address("192.0.2.1"));
    assert_eq!(rotation(&model, &ask(&snapshot)), "a");
    snapshot.services[0].addresses[0] = AddressState::Down;
    assert_eq!(rotation(&model, &ask(&snapshot)), "undecided");
    snapshot.services[1].addresses[0] = AddressState::Up;
    let got = ask(&snapshot);
    assert_eq!((got.link, got.reason), (VserverId(1), Reason::BackupVserver));
}

#[test]
fn owners_are_shared_and_know_what_touches_them() {
    use responder_user::decide::{OwnerId, Owners};
    let mut model = model_of(&[("a", ""), ("b", "")], Method::RoundRobin);
    model.vservers.push(vserver("spare", Method::RoundRobin, vec![bound(1)]));
    model.vservers[0].services.pop();
    model.vservers[0].backup = Some(VserverId(1));
    model.domains.clear();
    let backup: Arc<[_]> = Arc::from([address("203.0.113.9")]);
    for (name, vserver, list) in [("x", 1, None), ("y", 0, Some(backup)), ("z", 0, None), ("w", 1, None)] {
        let mut domain = support::domain(name, vserver, &[]);
        domain.backup_ip = list.unwrap_or_else(|| Arc::from([]));
        model.domains.push(domain);
    }
    let owners = Owners::of(&model);
    assert_eq!(owners.list.len(), 3);
    let of: Vec<u32> = (0..4).map(|i| owners.of_domain(i).0).collect();
    assert_eq!(of, [2, 1, 0, 2]);
    let all = [OwnerId(0), OwnerId(1), OwnerId(2)];
    assert_eq!(owners.owners_affected_by(ids(&model, &["a"])[0]), &all[..2]);
    assert_eq!(owners.owners_affected_by(ids(&model, &["b"])[0]), &all, "as a link of the chain, too");
    assert_eq!(owners.owners_affected_by_vserver(VserverId(1)), &all);
    let served: Vec<_> = owners.served(&model, 1).map(|s| (s.rtype, s.owner.0, s.ttl)).collect();
    assert_eq!(served, [(RecordType::A, 1, 5), (RecordType::Aaaa, 1, 5)]);
}
