//! Random models and snapshots. Address spaces and vocabularies are small, so that things meet.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::FileFailurePersistence};
use responder_user::{
    decide::{AddressState, Figure, Owner, Owners, Report, ServiceState, Session, Snapshot, VserverState},
    model::{
        ActionId, Bound, DnsAction, DnsActionKind, DnsName, DnsPolicy, LabelId, Location, LocationTable,
        Method, Metric, Model, Monitor, MonitorId, MonitorKind, RecordType, Rule, Service, ServiceId, ViewId,
        Vserver, VserverId,
        location::{FileTable, LocationRange, OwnedPlace, WildcardMatchesAny},
        policy::{BindPoint, Goto, NameTest, TextOp},
        vserver::{DynamicWeight, Persistence, SkipPersistency, Spillover, SpilloverAction, SpilloverMethod},
    },
};

/// 256 cases, or what `RESPONDER_FULL` asks for.
pub fn config() -> ProptestConfig {
    cases(if is_full() { 100_000 } else { 256 })
}

/// Likewise for decisions: a million of each property in a release build.
pub fn decisions() -> ProptestConfig {
    cases(match is_full() {
        false => 256,
        true if cfg!(debug_assertions) => 20_000,
        true => 1_000_000,
    })
}

fn is_full() -> bool {
    std::env::var_os("RESPONDER_FULL").is_some_and(|value| value != "0")
}

/// So many cases.
pub fn cases(cases: u32) -> ProptestConfig {
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
        1 => Just(DnsActionKind::Noop),
    ]
}

/// Of every kind; the model has two views.
fn any_action() -> impl Strategy<Value = DnsActionKind> {
    let addresses = vec((any::<bool>(), 0..3_u32).prop_map(|(v4, n)| near(v4, 0xfe00 + n)), 1..3);
    prop_oneof![
        3 => action(),
        2 => (0..2_u32).prop_map(|view| DnsActionKind::View(ViewId(view))),
        1 => Just(DnsActionKind::Drop),
        1 => addresses.prop_map(|addresses| DnsActionKind::Rewrite { addresses, ttl: 7 }),
        1 => Just(DnsActionKind::CacheBypass),
    ]
}

/// A model as a configuration in two orders of its tables, with a snapshot and a question.
pub fn two_orders() -> impl Strategy<Value = (Vec<String>, Vec<String>, Model, Snapshot, Question)> {
    rich_case(false).prop_flat_map(|(model, snapshot, question, _)| {
        let blocks = super::written::blocks(&model);
        (Just(blocks.clone()), Just(blocks).prop_shuffle(), Just(model), Just(snapshot), Just(question))
    })
}

/// Names of the domains and what rules look for in them.
const NAMES: [&str; 3] = ["www.example.com", "mail.example.com", "www.example.net"];

fn name_rule() -> impl Strategy<Value = Rule> {
    use TextOp::{Contains, EndsWith, Equals, StartsWith};
    let op = select(vec![Equals, Contains, StartsWith, EndsWith]);
    let text = select(vec!["www.example.com", "www", "net", "example", "x"]);
    (op, text, prop::bool::weighted(0.2)).prop_map(|(op, text, of_response)| Rule::Name {
        test: NameTest::new(op, text),
        id: 0,
        of_response,
    })
}

/// Every kind of rule.
fn any_rule() -> impl Strategy<Value = Rule> {
    let leaf = prop_oneof![
        4 => rule(),
        2 => name_rule(),
        1 => (select(vec![1_u16, 28]), prop::bool::weighted(0.2))
            .prop_map(|(code, of_response)| Rule::Type { code, of_response }),
        1 => select(vec![0_u16, 5]).prop_map(Rule::ResponseCode),
    ];
    (leaf, name_rule(), 0..4_u8).prop_map(|(leaf, name, how)| match how {
        0 => Rule::And(Box::new(leaf), Box::new(name)),
        1 => Rule::Or(Box::new(name), Box::new(leaf)),
        _ => leaf,
    })
}

fn bind_point(vservers: u32) -> impl Strategy<Value = BindPoint> {
    prop_oneof![
        4 => Just(BindPoint::Request),
        2 => Just(BindPoint::RequestOverride),
        1 => (0..vservers).prop_map(|v| BindPoint::Vserver(VserverId(v))),
        1 => Just(BindPoint::Response),
        1 => (0..vservers).prop_map(|v| BindPoint::VserverResponse(VserverId(v))),
        2 => (0..2_u32).prop_map(|label| BindPoint::Label(LabelId(label))),
    ]
}

/// What else a service can have; the model has load monitor 1 with a threshold of 80 for `cpu`.
fn enrich_service(vservers: u32) -> impl Strategy<Value = Service> {
    let view = (0..2_u32, (any::<bool>(), 0..3_u32).prop_map(|(v4, n)| near(v4, 0xfd00 + n)));
    (
        prop_oneof![2 => Just(0_u32), 1 => 1..100_u32],
        vec(view, 0..3),
        option::weighted(0.15, 0..vservers),
        any::<bool>(),
        option::weighted(0.2, 0..3_u32),
    )
        .prop_map(|(max_connections, mut views, behind, is_loaded, hash_id)| {
            views.sort();
            views.dedup_by_key(|v| v.0);
            Service {
                max_connections,
                views: views.iter().map(|(id, address)| (ViewId(*id), vec![*address])).collect(),
                behind: behind.map(VserverId),
                monitors: if is_loaded { vec![(MonitorId(1), 1)] } else { Vec::new() },
                hash_id,
                ..Service::default()
            }
        })
}

fn rich_service(service: Service, more: Service) -> Service {
    let Service { name, addresses, location, coordinates, enabled, .. } = service;
    Service { name, addresses, location, coordinates, enabled, ..more }
}

fn rich_vserver(vserver: Vserver, more: Vserver) -> Vserver {
    let Vserver { name, types, method, backup_method, services, backup, .. } = vserver;
    let (multiple_ip_response, empty_down_response) =
        (vserver.multiple_ip_response, vserver.empty_down_response);
    let enabled = vserver.enabled;
    Vserver {
        name,
        types,
        method,
        backup_method,
        services,
        backup,
        multiple_ip_response,
        empty_down_response,
        enabled,
        ..more
    }
}

/// What else a virtual server can have.
fn enrich_vserver() -> impl Strategy<Value = Vserver> {
    let spillover = (
        select(SpilloverMethod::ALL.to_vec()),
        1..150_u64,
        any::<bool>(),
        select(SpilloverAction::ALL.to_vec()),
        any::<bool>(),
    )
        .prop_map(|(method, threshold, persistence, action, has_url)| Spillover {
            method,
            threshold,
            persistence,
            timeout: Duration::from_mins(2),
            action,
            redirect: has_url.then(|| ("https://s/".to_owned(), DnsName::parse("s").unwrap())),
        });
    let persistence = any::<bool>().prop_map(|ignore_in_round_robin| Persistence {
        mask: 24,
        mask6: 56,
        timeout: Duration::from_mins(2),
        id: Some(1),
        ignore_in_round_robin,
    });
    let skip = select(vec![SkipPersistency::None, SkipPersistency::Rebalance, SkipPersistency::Bypass]);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), select(vec![0_u32, 50, 100]));
    let dynamic = select(DynamicWeight::ALL.to_vec());
    (option::weighted(0.5, spillover), option::of(persistence), skip, switches, dynamic).prop_map(
        |(
            spillover,
            persistence,
            skip_persistency,
            (latch, effective_state, descending, percent),
            dynamic,
        )| {
            Vserver {
                spillover,
                persistence,
                skip_persistency,
                disable_primary_on_down: latch,
                effective_state,
                descending_order: descending,
                order_threshold: percent,
                dynamic_weight: dynamic,
                ..Vserver::default()
            }
        },
    )
}

/// A model that uses everything: policies at all bind points, tests of names, views, load monitors, spillover, latches,
/// services that stand for virtual servers (also in circles, which validation refuses).
pub fn rich_model() -> impl Strategy<Value = Model> {
    model().prop_flat_map(|base| {
        let (services, vservers) = (base.services.len(), base.vservers.len());
        let rich_policy =
            (any_rule(), any_action(), bind_point(vservers as u32), goto(), option::weighted(0.2, 0..2_u32));
        (
            Just(base),
            vec(enrich_service(vservers as u32), services),
            vec(enrich_vserver(), vservers),
            vec(rich_policy, 0..7),
            vec((range(), 0..4_usize), 0..4),
        )
            .prop_map(|(mut model, services, vservers, policies, rows)| {
                model.services =
                    model.services.into_iter().zip(services).map(|(s, more)| rich_service(s, more)).collect();
                model.vservers =
                    model.vservers.into_iter().zip(vservers).map(|(v, more)| rich_vserver(v, more)).collect();
                model.views = vec!["inside".to_owned(), "outside".to_owned()];
                model.labels = vec!["one".to_owned(), "two".to_owned()];
                model.monitors = vec![super::monitor("tcp"), load_monitor()];
                model.locations.files = Arc::new(file_table(rows.into_iter().map(|(range, _)| range)));
                for (i, name) in NAMES.iter().enumerate() {
                    let vserver = i % model.vservers.len();
                    let backup: &[&str] = if i == 1 { &["10.0.255.240", "2001:db8::fff0"] } else { &[] };
                    model.domains.push(super::domain(name, vserver as u32, backup));
                }
                bind(&mut model, policies);
                model
            })
    })
}

type RichPolicy = (Rule, DnsActionKind, BindPoint, Goto, Option<u32>);

fn bind(model: &mut Model, policies: Vec<RichPolicy>) {
    model.actions.clear();
    model.policies.clear();
    for (i, (mut rule, kind, bind, goto, invoke)) in policies.into_iter().enumerate() {
        rule.visit_mut(&mut |part| {
            if let Rule::Name { test, id, .. } = part {
                let known = model.name_tests.iter().position(|other| other == test);
                *id = known.unwrap_or(model.name_tests.len()) as u32;
                if known.is_none() {
                    model.name_tests.push(test.clone());
                }
            }
        });
        model.actions.push(DnsAction { name: format!("a{i}"), kind });
        model.policies.push(DnsPolicy {
            name: format!("p{i}"),
            rule_text: super::written(&rule),
            rule,
            action: ActionId(i as u32),
            bind,
            priority: (i as u32 + 1) * 5,
            goto,
            invoke: invoke.map(LabelId),
        });
    }
    model.policies.sort_by_key(|p| (p.bind, p.priority));
}

fn load_monitor() -> Monitor {
    let metrics = vec![Metric { name: "cpu".to_owned(), threshold: 80, weight: 1 }];
    Monitor { kind: MonitorKind::Load { metrics }, ..super::monitor("busy") }
}

/// Rows that do not overlap: of those that would, the later ones are left out.
fn file_table(ranges: impl Iterator<Item = LocationRange>) -> FileTable {
    let mut out = FileTable::default();
    for range in ranges {
        let place = out.places.len() as u32;
        match (range.first, range.last) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let (a, b) = (a.to_bits(), b.to_bits());
                if out.v4.iter().any(|(first, last, _)| *first <= b && a <= *last) {
                    continue;
                }
                out.v4.push((a, b, place));
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let (a, b) = (a.to_bits(), b.to_bits());
                if out.v6.iter().any(|(first, last, _)| *first <= b && a <= *last) {
                    continue;
                }
                out.v6.push((a, b, place));
            }
            _ => continue,
        }
        out.places.push(OwnedPlace { location: range.location, coordinates: range.coordinates });
    }
    out.v4.sort_unstable();
    out.v6.sort_unstable();
    out
}

/// States of a rich model, whole numbers as load figures.
pub fn rich_snapshot(model: &Model, undecided: bool) -> impl Strategy<Value = Snapshot> + use<> {
    let services = model.services.len();
    let report = (
        option::weighted(0.2, any::<bool>()),
        option::weighted(0.2, any::<bool>()),
        option::weighted(0.3, any::<bool>()),
    )
        .prop_map(|(primary_up, effective_up, above)| Report { primary_up, effective_up, above });
    let names = ["connections", "bandwidth", "packets", "response_time", "cpu", "services"];
    let load = vec(option::weighted(0.6, 0..120_u32), names.len()).prop_map(move |values| {
        let known = names.iter().zip(values).filter_map(|(name, value)| Some((*name, value?)));
        known
            .map(|(name, value)| (name.to_owned(), Figure { value: f64::from(value), at: Duration::ZERO }))
            .collect::<BTreeMap<_, _>>()
    });
    let memory = vec(vec(prop::bool::weighted(0.3), RecordType::COUNT), model.vservers.len());
    (snapshot(model, undecided), vec((report, load), services), memory).prop_map(
        |(mut out, told, latched)| {
            for (service, (report, load)) in out.services.iter_mut().zip(told) {
                service.report = report;
                service.load = load;
            }
            for (vserver, latched) in out.vservers.iter_mut().zip(latched) {
                for (memory, latched) in vserver.memory.iter_mut().zip(latched) {
                    memory.latched = latched;
                }
            }
            out
        },
    )
}

/// A question to a domain of a rich model, and a session that the client may have.
pub fn rich_question(model: &Model) -> impl Strategy<Value = (Question, Option<Session>)> + use<> {
    let (owners, services, vservers) = (Owners::of(model), model.services.len(), model.vservers.len());
    let session = option::of((0..vservers as u32, 0..services as u32)).prop_map(|pair| {
        pair.map(|(link, service)| Session { link: VserverId(link), service: ServiceId(service) })
    });
    let rtype = select(vec![RecordType::A, RecordType::Aaaa]);
    (0..NAMES.len(), rtype, client(), session).prop_map(move |(domain, rtype, client, session)| {
        (Question { owner: owners.owner(owners.of_domain(domain)).clone(), rtype, client }, session)
    })
}

/// A rich model with a snapshot, a question and a session.
pub fn rich_case(undecided: bool) -> impl Strategy<Value = (Model, Snapshot, Question, Option<Session>)> {
    rich_model().prop_flat_map(move |model| {
        let (snapshot, question) = (rich_snapshot(&model, undecided), rich_question(&model));
        (Just(model), snapshot, question)
            .prop_map(|(model, snapshot, (question, session))| (model, snapshot, question, session))
    })
}

fn goto() -> impl Strategy<Value = Goto> {
    prop_oneof![Just(Goto::End), Just(Goto::Next), (0..6_u32).prop_map(|n| Goto::Priority(n * 5))]
}

fn locations() -> impl Strategy<Value = LocationTable> {
    use WildcardMatchesAny::{Expression, No, Yes};
    (vec(range(), 0..8), select(vec![No, Yes, Expression])).prop_map(|(custom, wildcard_matches_any)| {
        LocationTable { custom, wildcard_matches_any, ..LocationTable::default() }
    })
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
            bind: BindPoint::Request,
            priority: (i as u32 + 1) * 5,
            goto,
            invoke: None,
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
                .prop_map(|(admin, forced, addresses)| ServiceState {
                    admin,
                    forced,
                    addresses,
                    ..ServiceState::default()
                })
        })
        .collect();
    let vservers = vec(
        prop::bool::weighted(0.9).prop_map(|enabled| VserverState { enabled, ..VserverState::default() }),
        model.vservers.len(),
    );
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
        Question {
            owner: Owner {
                vserver: VserverId(vserver),
                backup_ip: backup.into(),
                names: [].into(),
                domain: None,
            },
            rtype,
            client,
        }
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
