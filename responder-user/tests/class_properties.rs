//! Properties of the partition into client classes over random models.

mod support;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use ipnet::{IpNet, Ipv6Net};
use proptest::{collection::vec, prelude::*};
use responder_user::{
    compile::class::{ClassError, Classes, classed, subnet::Decider},
    decide::{
        Client, Decision, Owner, Owners, Snapshot, decide_without_steps,
        policy::{self, Asked},
    },
    model::{
        Method, Model, RecordType, Rule, ServiceId, VserverId,
        location::LocationRange,
        policy::{BindPoint, NameTest, TextOp},
    },
};
use support::{
    add_preference, address, domain, eight_sites, location, model_of,
    random::{Question, case, client, config, model, proximity_model, rich_case},
    range,
};

fn quiet(model: &Model, snapshot: &Snapshot, question: &Question, client: &Client<'_>) -> Decision {
    decide_without_steps(model, snapshot, &question.owner, question.rtype, client)
}

/// The class by longest prefix.
fn longest(prefixes: &[(Ipv6Net, u16)], address: Ipv6Addr) -> u16 {
    prefixes
        .iter()
        .filter(|(net, _)| net.contains(&address))
        .max_by_key(|(net, _)| net.prefix_len())
        .unwrap()
        .1
}

/// True if all of the network is of one class.
fn uniform(classes: &Classes, net: IpNet) -> bool {
    match net {
        IpNet::V4(net) => classes.v4.iter().any(|r| r.0 <= net.network() && net.broadcast() <= r.1),
        IpNet::V6(net) => classes.v6_ranges.iter().any(|r| r.0 <= net.network() && net.broadcast() <= r.1),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_class_decides_as_its_members((model, snapshot, question) in case(true), others in vec(client(), 16)) {
        let classes = Classes::of(&model).unwrap();
        let varied = classed(&model, &question.owner, question.rtype);
        let zero = quiet(&model, &snapshot, &question, &classes.client(&model, 0));
        for address in others.into_iter().chain([question.client]) {
            let class = classes.class_of(address);
            let representative = classes.client(&model, class);
            prop_assert_eq!(representative.address, classes.representatives[usize::from(class)]);
            prop_assert_eq!(classes.class_of(representative.address), class);
            let located = Client::locate(&model, representative.address);
            prop_assert_eq!(located.place, representative.place);
            let own = Client::locate(&model, address);
            let asked = |client| Asked { client, vserver: question.owner.vserver, names: &[], qtype: question.rtype.code() };
            let fired = |client| policy::fires(&model, &asked(client)).hit();
            prop_assert_eq!(fired(&own), fired(&representative), "{}", address);
            let got = quiet(&model, &snapshot, &question, &own);
            prop_assert_eq!(&got, &quiet(&model, &snapshot, &question, &representative), "{}", address);
            if !varied {
                prop_assert_eq!(&got.outcome, &zero.outcome, "one column would do");
            }
        }
    }

    #[test]
    fn a_class_decides_as_its_members_in_every_respect(
        (model, snapshot, question, _) in rich_case(true), others in vec(client(), 16),
    ) {
        let classes = Classes::of(&model).unwrap();
        let varied = classed(&model, &question.owner, question.rtype);
        let zero = quiet(&model, &snapshot, &question, &classes.client(&model, 0));
        for address in others.into_iter().chain([question.client]) {
            let representative = classes.client(&model, classes.class_of(address));
            let got = quiet(&model, &snapshot, &question, &Client::locate(&model, address));
            prop_assert_eq!(&got, &quiet(&model, &snapshot, &question, &representative), "{}", address);
            if !varied {
                prop_assert_eq!(&got.outcome, &zero.outcome, "one column would do");
            }
        }
    }

    /// Policies by the source, proximity by the client subnet; the scope says no more than is true.
    #[test]
    fn source_and_subnet_each_decide_what_is_theirs(
        (mut model, snapshot, question, _) in rich_case(true), pairs in vec((client(), client()), 12),
    ) {
        for vserver in &mut model.vservers {
            vserver.ecs = true;
        }
        let mut asks_for_place = false;
        for policy in &model.policies {
            policy.rule.visit(&mut |part| asks_for_place |= matches!(part, Rule::MatchesLocation(_)));
        }
        let classes = Classes::of(&model).unwrap();
        for owner in &Owners::of(&model).list {
            let decider = Decider::of(&model, &classes, owner).unwrap();
            let types = &model.vserver(owner.vserver).types;
            let fires = |client: &Client<'_>, rtype: RecordType| {
                let asked = Asked { client, vserver: owner.vserver, names: &owner.names, qtype: rtype.code() };
                let of_response = |code| policy::fires_on_response(&model, &asked, code).hit();
                (policy::fires(&model, &asked).hit(), of_response(0), of_response(5))
            };
            let ask = |client: &Client<'_>, rtype| decide_without_steps(&model, &snapshot, owner, rtype, client);
            for (source, subnet) in &pairs {
                let (s, t) = (Client::locate(&model, *source), Client::locate(&model, *subnet));
                let found = decider.class(&classes, *source, *subnet);
                let member = classes.client(&model, found.class);
                for rtype in types {
                    prop_assert_eq!(fires(&member, *rtype), fires(&s, *rtype), "{} {}", source, subnet);
                }
                if decider == Decider::Subnet {
                    prop_assert_eq!(found, classes.lookup(*subnet));
                }
                // What the decision would be if both were one client: only where no rule asks for the place, and where
                // there is a class for both.
                let both = Client { address: *source, place: t.place };
                let is_missing = found.class == classes.class_of(*source) && found.prefix_len > 0;
                if !asks_for_place && !is_missing {
                    prop_assert_eq!(ask(&member, question.rtype).outcome, ask(&both, question.rtype).outcome);
                }
                let net = IpNet::new(*subnet, found.prefix_len).unwrap();
                let (first, last) = (net.network(), net.broadcast());
                for other in [first, last] {
                    prop_assert_eq!(decider.class(&classes, *source, other), found, "{} in {}", other, net);
                }
            }
        }
    }

    #[test]
    fn places_of_one_class_rank_services_alike(model in proximity_model(), down in any::<u8>()) {
        let classes = Classes::of(&model).unwrap();
        let ids = (0..model.services.len() as u32).map(ServiceId);
        let down: Vec<ServiceId> = ids.filter(|id| down >> id.0 & 1 == 1).collect();
        let snapshot = Snapshot::with_down(&model, &down);
        let ask = |c: &Client<'_>| decide_without_steps(&model, &snapshot, &support::owner(), RecordType::A, c);
        for range in &model.locations.custom {
            let class = classes.class_of(range.first);
            let (own, other) = (Client::locate(&model, range.first), classes.client(&model, class));
            prop_assert_eq!(ask(&own), ask(&other), "{} and {}", own.address, other.address);
        }
    }

    #[test]
    fn ranges_cover_everything_once_and_prefixes_agree(model in model(), others in vec(client(), 16)) {
        let classes = Classes::of(&model).unwrap();
        prop_assert_eq!(classes.v4[0].0, Ipv4Addr::UNSPECIFIED);
        prop_assert_eq!(classes.v4.last().unwrap().1, Ipv4Addr::BROADCAST);
        for pair in classes.v4.windows(2) {
            prop_assert_eq!(pair[0].1.to_bits() + 1, pair[1].0.to_bits());
            prop_assert!(pair[0].2 != pair[1].2, "neighbours of one class are joined");
        }
        prop_assert_eq!(classes.v6_ranges[0].0, Ipv6Addr::UNSPECIFIED);
        prop_assert_eq!(classes.v6_ranges.last().unwrap().1, Ipv6Addr::from_bits(u128::MAX));
        for pair in classes.v6_ranges.windows(2) {
            prop_assert_eq!(pair[0].1.to_bits() + 1, pair[1].0.to_bits());
            prop_assert!(pair[0].2 != pair[1].2, "neighbours of one class are joined");
        }
        for (first, last, class) in &classes.v6_ranges {
            prop_assert_eq!(longest(&classes.v6, *first), *class);
            prop_assert_eq!(longest(&classes.v6, *last), *class);
        }
        for address in others {
            let found = classes.lookup(address);
            if let IpAddr::V6(a) = address {
                prop_assert_eq!(longest(&classes.v6, a), found.class);
            }
            let net = IpNet::new(address, found.prefix_len).unwrap().trunc();
            prop_assert!(uniform(&classes, net), "{} is not of one class", net);
            if let Some(wider) = net.supernet() {
                prop_assert!(!uniform(&classes, wider), "{} is of one class, too", wider);
            }
        }
    }

    #[test]
    fn order_of_ranges_changes_nothing(model in model()) {
        let widths = |m: &Model| {
            let mut all: Vec<u128> = m.locations.custom.iter().map(LocationRange::width).collect();
            all.sort_unstable();
            all
        };
        // Of two ranges of one width the newer wins: there the order counts.
        prop_assume!(widths(&model).windows(2).all(|w| w[0] != w[1]));
        let mut turned = model.clone();
        turned.locations.custom.reverse();
        let (a, b) = (Classes::of(&model).unwrap(), Classes::of(&turned).unwrap());
        prop_assert_eq!((a.v4, a.v6, a.representatives), (b.v4, b.v6, b.representatives));
    }
}

#[test]
fn the_example_has_two_classes() {
    let model = eight_sites();
    let classes = Classes::of(&model).unwrap();
    assert_eq!(classes.count(), 2, "clients of the policy, and all others");
    assert_eq!(classes.class_of(address("192.0.2.1")), 0);
    assert_eq!(classes.v6, [("::/0".parse().unwrap(), 0)]);
    let found = classes.lookup(address("10.53.0.2"));
    assert_eq!((found.class, found.prefix_len), (1, 24));
    assert_eq!(classes.lookup(address("10.53.1.2")).prefix_len, 24);
    assert_eq!(classes.lookup(address("128.0.0.1")).prefix_len, 1);
}

/// The fault: one policy that fires for a name, for a type or for another virtual server set ECS of every name aside.
#[test]
fn policies_that_do_not_concern_a_name_s_source_leave_ecs_in_force() {
    let mut base = model_of(&[("hk", "Asia.HK"), ("uk", "Europe.UK")], Method::StaticProximity);
    base.vservers[0].ecs = true;
    base.vservers.push(base.vservers[0].clone());
    base.locations.custom.push(range("10.1.0.0", "10.1.255.255", "Asia.HK"));
    base.locations.custom.push(range("10.2.0.0", "10.2.255.255", "Europe.UK"));
    base.domains = vec![domain("www.example.com", 0, &[]), domain("other.example.com", 1, &[])];
    base.name_tests = vec![NameTest::new(TextOp::Equals, "other.example.com")];
    let by_name = || Rule::Name { test: base.name_tests[0].clone(), id: 0, of_response: false };
    let subnet = || Rule::InSubnet("192.0.2.0/24".parse().unwrap());
    let both = Rule::And(Box::new(by_name()), Box::new(subnet()));
    // What the policy looks at, what it is bound to, and what it makes of the two names.
    let (ecs, source) = (Some(Decider::Subnet), Some(Decider::Source));
    let rows: [(Rule, BindPoint, Option<Decider>, Option<Decider>); 8] = [
        (Rule::Constant(false), BindPoint::Request, ecs.clone(), ecs.clone()),
        (Rule::Constant(true), BindPoint::Request, source.clone(), source.clone()),
        (by_name(), BindPoint::Request, ecs.clone(), source.clone()),
        (Rule::Type { code: 5, of_response: false }, BindPoint::Request, ecs.clone(), ecs.clone()),
        (Rule::Constant(true), BindPoint::Vserver(VserverId(1)), ecs.clone(), source),
        (subnet(), BindPoint::Vserver(VserverId(1)), ecs.clone(), None),
        (subnet(), BindPoint::Request, None, None),
        (both, BindPoint::Request, ecs, None),
    ];
    for (rule, bind, first, second) in rows {
        let mut model = base.clone();
        add_preference(&mut model, "p", 1, rule, &["Europe.UK"]);
        model.policies[0].bind = bind;
        let what = format!("{} at {bind:?}", model.policies[0].rule_text);
        let (classes, owners) = (Classes::of(&model).unwrap(), Owners::of(&model));
        for (index, wanted) in [first, second].into_iter().enumerate() {
            let owner = owners.owner(owners.of_domain(index));
            let got = Decider::of(&model, &classes, owner).unwrap();
            if let Some(wanted) = wanted {
                assert_eq!(got, wanted, "{what}: name {index}");
                continue;
            }
            let Decider::Both(_) = &got else { panic!("{what}: name {index}: {got:?}") };
            let class = |source, net| got.class(&classes, address(source), address(net));
            // The policy's clients: their source decides, for all. The others: ECS, as if there were no policy.
            assert_eq!(class("192.0.2.1", "10.1.0.1").prefix_len, 0, "{what}");
            assert_eq!(class("198.51.100.1", "10.1.0.1"), classes.lookup(address("10.1.0.1")), "{what}");
            // A subnet that the policy would fire for, if it were the source: its place alone counts.
            let found = class("198.51.100.1", "192.0.2.1");
            assert_eq!(
                (found.class, found.prefix_len),
                (classes.class_of(address("198.51.100.1")), 24),
                "{what}"
            );
        }
    }
}

#[test]
fn places_that_look_alike_are_one_class() {
    let mut model = model_of(&[("hk", "Asia.HK"), ("uk", "Europe.UK")], Method::StaticProximity);
    for (i, place) in ["Asia.JPN", "asia.CN.Beijing", "Europe.UK.London", "Europe.UK"].iter().enumerate() {
        model.locations.custom.push(range(&format!("10.{i}.0.0"), &format!("10.{i}.255.255"), place));
    }
    let classes = Classes::of(&model).unwrap();
    let class = |i: u8| classes.class_of([10, i, 0, 1].into());
    assert_eq!([class(0), class(1), class(2), class(3)], [1, 1, 2, 2]);
    assert_eq!(classes.lookup([10, 0, 0, 1].into()).prefix_len, 15, "siblings of one class merge");
    model.vservers[0].method = Method::RoundRobin;
    assert_eq!(Classes::of(&model).unwrap().count(), 1, "nobody asks where a client is");
    assert!(!classed(&model, &support::owner(), RecordType::A));
}

/// One class besides class 0 on the lower half of so many /24s.
fn halves(count: u32) -> Model {
    let mut model = model_of(&[("a", "Asia.HK")], Method::RoundRobin);
    add_preference(&mut model, "p", 1, Rule::MatchesLocation(location("Asia")), &["Asia"]);
    for i in 0..count {
        let first = Ipv4Addr::from_bits(0x1000_0000 + (i << 8));
        let last = Ipv4Addr::from_bits(first.to_bits() + 127);
        model.locations.custom.push(range(&first.to_string(), &last.to_string(), "Asia"));
    }
    model
}

#[test]
fn too_many_classes_and_splits_are_refused_with_their_numbers() {
    let fits = Classes::of(&halves(65_533)).unwrap();
    assert_eq!((fits.count(), fits.splits()), (2, 65_533));
    let error = Classes::of(&halves(65_534)).unwrap_err();
    assert_eq!(error, ClassError { classes: 2, splits: 65_534 });
    assert!(error.to_string().contains("65535"), "{error}");
}

#[test]
fn a_hundred_thousand_ranges_take_seconds() {
    let places = ["Asia.HK", "Asia.JPN", "Europe.UK", "Africa.ZMB", "Africa.SD"];
    let mut model = eight_sites();
    for i in 0..100_000_u32 {
        // Spread over both families, nested here and there.
        let place = format!("{}.c{}", places[i as usize % places.len()], i % 5_000);
        let n = i.wrapping_mul(2_654_435_761);
        let (first, last): (IpAddr, IpAddr) = if i % 2 == 0 {
            let first = Ipv4Addr::from_bits(n & !0xff);
            (first.into(), Ipv4Addr::from_bits(first.to_bits() | 0xff | (n & 0xf00)).into())
        } else {
            let first = (0x2001_u128 << 112) | (u128::from(n) << 80);
            (Ipv6Addr::from_bits(first).into(), Ipv6Addr::from_bits(first | ((1 << 80) - 1)).into())
        };
        model.locations.custom.push(LocationRange {
            first,
            last,
            location: location(&place),
            coordinates: None,
        });
    }
    let start = Instant::now();
    let classes = Classes::of(&model).unwrap();
    let took = start.elapsed();
    println!(
        "{} classes, {} v4 ranges, {} v6 prefixes in {took:?}",
        classes.count(),
        classes.v4.len(),
        classes.v6.len()
    );
    assert!(took.as_secs() < 30, "{took:?} in a debug build");
    assert!(classes.v6.len() <= 50_001, "a range costs one prefix at most: {}", classes.v6.len());
    let owner = Owner { ..support::owner() };
    let snapshot = Snapshot::all_up(&model);
    for i in 0..classes.count() as u16 {
        let client = classes.client(&model, i);
        decide_without_steps(&model, &snapshot, &owner, RecordType::A, &client);
    }
}
