//! Random models and snapshots. Address spaces and vocabularies are small, so that things meet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::FileFailurePersistence};
use responder_user::{
    decide::{AddressState, Owner, ServiceState, Snapshot, VserverState},
    model::{
        ActionId, Bound, DnsAction, DnsActionKind, DnsPolicy, Location, LocationTable, Method, Model,
        RecordType, Rule, Service, ServiceId, Vserver, VserverId,
        location::{LocationRange, WildcardMatchesAny},
        policy::Goto,
    },
};

/// 256 cases, or what `RESPONDER_FULL` asks for.
pub fn config() -> ProptestConfig {
    let cases = if std::env::var_os("RESPONDER_FULL").is_some() { 100_000 } else { 256 };
    let beside = FileFailurePersistence::WithSource("proptest-regressions");
    ProptestConfig {
        cases,
        max_global_rejects: cases * 10,
        failure_persistence: Some(Box::new(beside)),
        ..ProptestConfig::default()
    }
}

/// Addresses of clients: 10.0.0.0/20 and 2001:db8::/116, and now and then another.
pub fn client() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        8 => (any::<bool>(), 0..4096_u32).prop_map(|(v4, n)| near(v4, n)),
        1 => any::<u32>().prop_map(|n| Ipv4Addr::from_bits(n).into()),
        1 => any::<u128>().prop_map(|n| Ipv6Addr::from_bits(n).into()),
    ]
}

fn near(v4: bool, n: u32) -> IpAddr {
    if v4 {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    } else {
        Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(n)).into()
    }
}

fn qualifier() -> impl Strategy<Value = Option<String>> {
    option::weighted(0.8, select(vec!["a".to_owned(), "b".to_owned(), "B".to_owned()]))
}

fn place() -> impl Strategy<Value = Location> {
    vec(qualifier(), 1..=3).prop_map(|given| {
        let mut out = Location::default();
        out.qualifiers.iter_mut().zip(given).for_each(|(slot, q)| *slot = q);
        out
    })
}

fn coordinates() -> impl Strategy<Value = Option<(f64, f64)>> {
    option::of((-2..=2_i32, -2..=2_i32).prop_map(|(lon, lat)| (f64::from(lon) * 40.0, f64::from(lat) * 30.0)))
}

fn range() -> impl Strategy<Value = LocationRange> {
    let width = prop_oneof![Just(0_u32), 0..40_u32, Just(255), 0..3000_u32];
    (any::<bool>(), 0..4096_u32, width, any::<bool>(), place(), coordinates()).prop_map(
        |(v4, first, width, aligned, location, coordinates)| {
            let first = if aligned { first & !0xff } else { first };
            LocationRange { first: near(v4, first), last: near(v4, first + width), location, coordinates }
        },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Rule::Constant),
        4 => place().prop_map(Rule::MatchesLocation),
        4 => (any::<bool>(), 0..4096_u32, 0..=16_u8).prop_map(|(v4, n, host)| {
            let bits = if v4 { 32 } else { 128 };
            Rule::InSubnet(ipnet::IpNet::new(near(v4, n), bits - host).unwrap())
        }),
        1 => (any::<bool>(), 0..4096_u32).prop_map(|(v4, n)| Rule::Equals(near(v4, n))),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Rule::Not(Box::new(a))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Rule::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Rule::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn service() -> impl Strategy<Value = Service> {
    let address = (any::<bool>(), 0..6_u32).prop_map(|(v4, n)| near(v4, 0xf00 + n));
    let addresses = vec(address, 0..4);
    (option::weighted(0.8, place()), coordinates(), addresses, prop::bool::weighted(0.9)).prop_map(
        |(location, coordinates, mut addresses, enabled)| {
            addresses.sort();
            addresses.dedup();
            let base = super::service("", None, &[]);
            Service { location, coordinates, addresses, enabled, ..base }
        },
    )
}

fn vserver(services: usize, vservers: usize) -> impl Strategy<Value = Vserver> {
    let types = select(vec![
        vec![RecordType::A, RecordType::Aaaa],
        vec![RecordType::A, RecordType::Aaaa],
        vec![RecordType::A],
        vec![RecordType::Aaaa],
    ]);
    let method = prop_oneof![Just(Method::StaticProximity), select(Method::ALL.to_vec())];
    let bound = vec((0..services as u32, 1..4_u32, option::weighted(0.3, 1..3_u32)), 0..6);
    let backup = option::of(0..vservers as u32);
    let switches = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.9));
    (types, method, option::of(select(Method::ALL.to_vec())), bound, backup, switches).prop_map(
        |(types, method, backup_method, bound, backup, (mir, edr, enabled))| {
            let mut services: Vec<Bound> = bound
                .into_iter()
                .map(|(service, weight, order)| Bound { service: ServiceId(service), weight, order })
                .collect();
            services.sort_by_key(|b| b.service);
            services.dedup_by_key(|b| b.service);
            Vserver {
                types,
                backup_method,
                backup: backup.map(VserverId),
                multiple_ip_response: mir,
                ecs: false,
                ecs_validation: false,
                empty_down_response: edr,
                enabled,
                ..super::vserver("", method, services)
            }
        },
    )
}

fn action() -> impl Strategy<Value = DnsActionKind> {
    prop_oneof![
        4 => vec(place(), 1..4).prop_map(DnsActionKind::PreferredLocations),
        1 => Just(DnsActionKind::Inert { key: "view".to_owned() }),
    ]
}

fn goto() -> impl Strategy<Value = Goto> {
    prop_oneof![Just(Goto::End), Just(Goto::Next), (0..6_u32).prop_map(|n| Goto::Priority(n * 5))]
}

fn locations() -> impl Strategy<Value = LocationTable> {
    use WildcardMatchesAny::{Expression, No, Yes};
    (vec(range(), 0..8), select(vec![No, Yes, Expression]))
        .prop_map(|(custom, wildcard_matches_any)| LocationTable { custom, wildcard_matches_any })
}

/// Up to 5 services, 3 virtual servers (chains may loop), 8 ranges, 4 policies.
pub fn model() -> impl Strategy<Value = Model> {
    (1..6_usize, 1..4_usize).prop_flat_map(|(services, vservers)| {
        let policies = vec((rule(), action(), goto()), 0..5);
        (vec(service(), services), vec(vserver(services, vservers), vservers), locations(), policies)
            .prop_map(|(services, vservers, locations, policies)| {
                assemble(services, vservers, locations, policies)
            })
    })
}

fn assemble(
    services: Vec<Service>,
    vservers: Vec<Vserver>,
    locations: LocationTable,
    policies: Vec<(Rule, DnsActionKind, Goto)>,
) -> Model {
    let mut model = Model { services, vservers, locations, ..Model::default() };
    for (i, service) in model.services.iter_mut().enumerate() {
        service.name = format!("s{i}");
    }
    for (i, vserver) in model.vservers.iter_mut().enumerate() {
        vserver.name = format!("v{i}");
    }
    for (i, (rule, kind, goto)) in policies.into_iter().enumerate() {
        model.actions.push(DnsAction { name: format!("a{i}"), kind });
        model.policies.push(DnsPolicy {
            name: format!("p{i}"),
            rule_text: super::written(&rule),
            rule,
            action: ActionId(i as u32),
            priority: (i as u32 + 1) * 5,
            goto,
        });
    }
    model
}

/// States of a model; undecided ones only if asked for.
pub fn snapshot(model: &Model, undecided: bool) -> impl Strategy<Value = Snapshot> + use<> {
    let weight = u32::from(undecided);
    let state = prop_oneof![
        6 => Just(AddressState::Up),
        4 => Just(AddressState::Down),
        weight => Just(AddressState::Undecided),
    ];
    let services: Vec<_> = model
        .services
        .iter()
        .map(|s| {
            (
                prop::bool::weighted(0.9),
                option::weighted(0.1, any::<bool>()),
                vec(state.clone(), s.addresses.len()),
            )
                .prop_map(|(admin, forced, addresses)| ServiceState { admin, forced, addresses })
        })
        .collect();
    let vservers =
        vec(prop::bool::weighted(0.9).prop_map(|enabled| VserverState { enabled }), model.vservers.len());
    (services, vservers).prop_map(|(services, vservers)| Snapshot { services, vservers })
}

/// A question: who is asked for which type, by whom.
#[derive(Clone, Debug)]
pub struct Question {
    pub owner: Owner,
    pub rtype: RecordType,
    pub client: IpAddr,
}

pub fn question(model: &Model) -> impl Strategy<Value = Question> + use<> {
    let backup = vec((any::<bool>(), 0..3_u32).prop_map(|(v4, n)| near(v4, 0xfff0 + n)), 0..3);
    let rtype = select(vec![RecordType::A, RecordType::Aaaa]);
    (0..model.vservers.len() as u32, backup, rtype, client()).prop_map(|(vserver, backup, rtype, client)| {
        Question { owner: Owner { vserver: VserverId(vserver), backup_ip: backup.into() }, rtype, client }
    })
}

/// A model with a snapshot and a question.
pub fn case(undecided: bool) -> impl Strategy<Value = (Model, Snapshot, Question)> {
    model().prop_flat_map(move |model| {
        let (snapshot, question) = (snapshot(&model, undecided), question(&model));
        (Just(model), snapshot, question)
    })
}

/// One virtual server with static proximity over services that are all located, some with coordinates, and clients in
/// many places: what [`model`] seldom brings together.
pub fn proximity_model() -> impl Strategy<Value = Model> {
    let located = (place(), coordinates()).prop_map(|(location, coordinates)| {
        let base = super::service("", None, &[]);
        Service { location: Some(location), coordinates, ..base }
    });
    (vec(located, 2..5), vec(range(), 2..9)).prop_map(|(mut services, custom)| {
        for (i, service) in services.iter_mut().enumerate() {
            service.addresses = vec![near(true, 0xf00 + i as u32)];
        }
        let bound = (0..services.len() as u32).map(super::bound).collect();
        let vservers = vec![super::vserver("", Method::StaticProximity, bound)];
        let locations = LocationTable { custom, ..LocationTable::default() };
        assemble(services, vservers, locations, Vec::new())
    })
}
