//! What `explain` says is what a worker sends: random models that use everything, published as the engine does it, and
//! every name asked for both families by many clients.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_proto::{
    op::Message,
    rr::{
        RData, RecordType as WireType,
        rdata::opt::{EdnsCode, EdnsOption},
    },
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use responder_user::{
    compile::{
        Compiled,
        class::{Classes, subnet::Decider},
        name::StaticTypes,
        number::WORKER_SIDES,
    },
    decide::{
        Client, Decision, Give, Outcome, Owner, OwnerId, Owners, Pick, Record, Snapshot, decide,
        decide_without_steps,
        policy::{self, Asked},
    },
    model::{
        DnsActionKind, DnsName, DnsPolicy, Method, Model, Naptr, RecordType, Service, Vserver,
        settings::XdpMode,
    },
    publish::writer::Writer,
    worker::{Beside, DeferredTable, Names, Transport, Zones, answer, testing},
};
use support::random::{client, rich_model, rich_snapshot};

/// A published model.
struct Published {
    compiled: Compiled,
    writer: Writer,
    names: Names,
    generation: u64,
}

impl Published {
    fn new(mut model: Model) -> Self {
        model.settings.xdp.mode = XdpMode::Off;
        model.settings.listen = vec!["127.0.0.1:53".parse().unwrap()];
        model.settings.xdp.pin_path = "/nonexistent/responder-worker-decisions".into();
        let zones = Zones::load(&model).expect("no zone files");
        let none = |_: &DnsName| StaticTypes::default();
        let compiled = Compiled::of(Arc::new(model), &none, &|_| None, &|_| None).unwrap();
        let (writer, _) = Writer::open(&compiled.model.settings, &compiled, Arc::new(|| ())).unwrap();
        let table = Arc::new(DeferredTable::new(compiled.numbering.count()));
        let beside = Beside::of(&compiled, table);
        let names = Names { zones: Arc::new(zones), beside, ..Names::default() };
        Self { compiled, writer, names, generation: 0 }
    }

    fn publish(&mut self, snapshot: &Snapshot) {
        self.generation += 1;
        for owner in (0..self.compiled.owners.list.len() as u32).map(OwnerId) {
            for rtype in RecordType::ALL {
                let made = self.compiled.columns(snapshot, owner, rtype);
                for (number, deferred) in &made.deferred {
                    self.names.beside.table.put(*number, deferred);
                }
                if let Some(side) = self.compiled.numbering.side(owner, rtype).filter(|_| rtype.is_address())
                {
                    self.writer.publish(side, &made.columns, self.generation).unwrap();
                }
            }
        }
        self.writer.world_mut().end_batch(self.generation);
    }

    fn ask(&self, name: &DnsName, code: u16, client: IpAddr) -> (answer::Outcome, Option<Message>) {
        self.send(&testing::query_of(name.wire(), code, Some((1232, false))), client)
    }

    fn send(&self, query: &[u8], client: IpAddr) -> (answer::Outcome, Option<Message>) {
        let mut out = vec![0; 1232];
        let reader = self.writer.reader(1);
        let source = SocketAddr::new(client, 40_000);
        let outcome = answer::reply(query, Transport::Udp, source, &reader, &self.names, &mut out);
        let message = match outcome {
            answer::Outcome::Reply { len, .. } => {
                Some(Message::from_vec(&out[..len]).expect("a whole message"))
            }
            _ => None,
        };
        (outcome, message)
    }
}

/// Addresses of the answer section, in order.
fn addresses(message: &Message) -> Vec<IpAddr> {
    let of = |data: &RData| match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(a) => Some(IpAddr::V6(a.0)),
        _ => None,
    };
    message.answers.iter().filter_map(|record| of(&record.data)).collect()
}

/// Holds a reply against the decision.
fn compare(got: &Decision, client: IpAddr, ttl: u32, outcome: answer::Outcome, message: Option<&Message>) {
    let code = |message: &Message| u16::from(message.metadata.response_code);
    match (&got.outcome, message) {
        (Outcome::Drop, None) => assert_eq!(outcome, answer::Outcome::Dropped),
        (Outcome::Undecided, Some(message)) => assert_eq!(code(message), 2),
        (Outcome::Refused, Some(message)) => assert_eq!(code(message), 5),
        (Outcome::Empty, Some(message)) => {
            assert_eq!((code(message), message.answers.len(), message.authorities.len()), (0, 0, 1));
        }
        (Outcome::Records(pool), Some(message)) => {
            assert_eq!(code(message), 0);
            let Record::Cname(target) = &pool.rotate[0].address else { panic!("an alias") };
            let first = &message.answers[0];
            assert_eq!(first.record_type(), WireType::CNAME);
            assert_eq!(first.data.to_string(), format!("{target}."));
        }
        (Outcome::Answer(pool), Some(message)) => {
            let given = addresses(message);
            assert_eq!(code(message), 0);
            assert!(message.answers.iter().all(|record| record.ttl == got.ttl.unwrap_or(ttl)));
            let rotate: BTreeSet<IpAddr> = pool.rotate.iter().map(|m| m.address).collect();
            let all: BTreeSet<IpAddr> =
                rotate.iter().copied().chain(pool.extras.iter().map(|m| m.address)).collect();
            assert!(rotate.contains(&given[0]), "{given:?} of {rotate:?}");
            let expected = match pool.give {
                Give::One => BTreeSet::from([given[0]]),
                Give::All | Give::BestFirst => all,
            };
            assert_eq!(given.iter().copied().collect::<BTreeSet<_>>(), expected);
            assert_eq!(given.len(), expected.len(), "each once");
            if pool.pick != Pick::Turn {
                let order: Vec<IpAddr> = pool.given(client, 0).iter().map(|m| m.address).collect();
                assert_eq!(given, order, "the hash decides");
            }
        }
        (outcome, message) => panic!("decided {outcome:?}, sent {message:?}"),
    }
}

/// Evaluates the policies for a type that no virtual server answers, whose response would be NODATA.
fn policies_drop(model: &Model, owner: &Owner, client: IpAddr, qtype: u16) -> bool {
    let client = Client::locate(model, client);
    let asked = Asked { client: &client, vserver: owner.vserver, names: &owner.names, qtype };
    let response = || policy::fires_on_response(model, &asked, 0);
    policy::fires(model, &asked).drop.or_else(|| response().drop).is_some()
}

#[test]
fn what_is_explained_is_what_is_sent() {
    let models = if std::env::var_os("RESPONDER_FULL").is_some() { 200 } else { 5 };
    let mut runner = TestRunner::deterministic();
    let (mut compared, mut beside) = (0, 0);
    for _ in 0..models {
        let model = rich_model().new_tree(&mut runner).unwrap().current();
        let mut published = Published::new(model);
        let model = published.compiled.model.clone();
        for _ in 0..8 {
            let snapshot = rich_snapshot(&model, true).new_tree(&mut runner).unwrap().current();
            // An address that was decided stays so: what is published is never withdrawn.
            let snapshot = if published.generation == 0 { snapshot } else { settled(snapshot) };
            published.publish(&snapshot);
            for (index, domain) in model.domains.iter().enumerate() {
                let owner = published.compiled.owners.owner(published.compiled.owners.of_domain(index));
                for rtype in [RecordType::A, RecordType::Aaaa] {
                    for _ in 0..10 {
                        let client = client().new_tree(&mut runner).unwrap().current();
                        let got = decide(&model, &snapshot, owner, rtype, client);
                        if published.generation > 1 && got.outcome == Outcome::Undecided {
                            continue;
                        }
                        let (outcome, message) = published.ask(&domain.name, rtype.code(), client);
                        compare(&got, client, domain.ttl, outcome, message.as_ref());
                        compared += 1;
                        let plain = matches!(&got.outcome, Outcome::Answer(pool) if pool.pick == Pick::Turn)
                            || got.outcome == Outcome::Empty;
                        beside += usize::from(!plain);
                    }
                }
            }
        }
    }
    println!("{compared} replies, {beside} of them from beside the table");
    assert!(compared >= 1000 && beside >= 50, "{compared}, {beside}");
}

/// The fault: a type that the virtual server lacks got NODATA, whatever policies said.
#[test]
fn a_drop_policy_drops_types_that_a_vserver_lacks() {
    let mut runner = TestRunner::deterministic();
    let mut lacking: BTreeMap<bool, usize> = BTreeMap::new();
    for _ in 0..2 {
        let model = loop {
            let model = rich_model().new_tree(&mut runner).unwrap().current();
            let drops = |policy: &DnsPolicy| model.actions[policy.action.index()].kind == DnsActionKind::Drop;
            if model.policies.iter().any(drops) {
                break model;
            }
        };
        let published = Published::new(model);
        let (model, owners) = (&published.compiled.model, &published.compiled.owners);
        for domain in &model.domains {
            for qtype in [6, 15, 16, 255, 4711].repeat(20) {
                let client = client().new_tree(&mut runner).unwrap().current();
                let (outcome, _) = published.ask(&domain.name, qtype, client);
                let is_dropped = model.domains.iter().enumerate().any(|(other, d)| {
                    d.name == domain.name
                        && policies_drop(model, owners.owner(owners.of_domain(other)), client, qtype)
                });
                assert_eq!(outcome == answer::Outcome::Dropped, is_dropped, "{} {qtype}", domain.name);
                *lacking.entry(is_dropped).or_default() += 1;
            }
        }
    }
    assert!(lacking.len() == 2 && lacking.values().all(|count| *count > 10), "{lacking:?}");
}

/// A query with a client subnet of the whole address.
fn with_subnet(name: &DnsName, code: u16, subnet: IpAddr) -> Vec<u8> {
    let mut query = testing::query_of(name.wire(), code, Some((1232, false)));
    let (family, octets) = match subnet {
        IpAddr::V4(a) => (1, a.octets().to_vec()),
        IpAddr::V6(a) => (2, a.octets().to_vec()),
    };
    let end = query.len();
    query[end - 1] = 8 + octets.len() as u8;
    query.extend([0, 8, 0, 4 + octets.len() as u8, 0, family, 8 * octets.len() as u8, 0]);
    query.extend(octets);
    query
}

/// Rich models whose virtual servers all look at ECS: policies by the source, proximity by the subnet.
#[test]
fn with_a_client_subnet_what_is_decided_for_both_is_what_is_sent() {
    let models = if std::env::var_os("RESPONDER_FULL").is_some() { 60 } else { 2 };
    let mut runner = TestRunner::deterministic();
    let mut scopes: BTreeMap<bool, usize> = BTreeMap::new();
    let mut by_worker = 0;
    for _ in 0..models {
        let model = loop {
            let mut model = rich_model().new_tree(&mut runner).unwrap().current();
            for (i, vserver) in model.vservers.iter_mut().enumerate() {
                vserver.ecs = true;
                // A session decides for a subnet of its own.
                vserver.persistence = None;
                vserver.spillover = None;
                vserver.backup_session_timeout = None;
                vserver.method = if i == 1 { Method::RoundRobin } else { Method::StaticProximity };
            }
            let classes = Classes::of(&model).unwrap();
            let looks_at_both =
                |owner: &Owner| matches!(Decider::of(&model, &classes, owner), Some(Decider::Both(_)));
            if model.vservers.len() > 1 && Owners::of(&model).list.iter().any(looks_at_both) {
                break model;
            }
        };
        let snapshot = settled(rich_snapshot(&model, false).new_tree(&mut runner).unwrap().current());
        let mut published = Published::new(model);
        published.publish(&snapshot);
        let (model, classes) = (&published.compiled.model, &published.compiled.classes);
        for (index, domain) in model.domains.iter().enumerate() {
            let id = published.compiled.owners.of_domain(index);
            let owner = published.compiled.owners.owner(id);
            for rtype in [RecordType::A, RecordType::Aaaa] {
                let Some(side) = published.compiled.numbering.side(id, rtype) else { continue };
                let decider = Decider::of(model, classes, owner).unwrap();
                by_worker += usize::from(matches!(decider, Decider::Both(_)));
                for _ in 0..60 {
                    let source = client().new_tree(&mut runner).unwrap().current();
                    let subnet = client().new_tree(&mut runner).unwrap().current();
                    let found = decider.class(classes, source, subnet);
                    let got = decide_without_steps(
                        model,
                        &snapshot,
                        owner,
                        rtype,
                        &classes.client(model, found.class),
                    );
                    let query = with_subnet(&domain.name, rtype.code(), subnet);
                    let (outcome, message) = published.send(&query, source);
                    compare(&got, source, domain.ttl, outcome, message.as_ref());
                    let Some(message) = message.filter(|m| u16::from(m.metadata.response_code) == 0) else {
                        continue;
                    };
                    let option = message.edns.as_ref().and_then(|e| e.option(EdnsCode::Subnet)).cloned();
                    let Some(EdnsOption::Subnet(told)) = option else { panic!("{option:?}") };
                    let wanted = if side.columns > 1 { found.prefix_len } else { 0 };
                    assert_eq!((told.addr(), told.scope_prefix()), (subnet, wanted), "{}", domain.name);
                    *scopes.entry(wanted > 0).or_default() += 1;
                }
            }
        }
    }
    println!("{scopes:?}, {by_worker} sides look at both");
    assert!(scopes[&true] > 50 && scopes[&false] > 20 && by_worker > 1, "{scopes:?}, {by_worker}");
}

fn settled(mut snapshot: Snapshot) -> Snapshot {
    use responder_user::decide::AddressState;
    for service in &mut snapshot.services {
        for state in &mut service.addresses {
            if *state == AddressState::Undecided {
                *state = AddressState::Down;
            }
        }
    }
    snapshot
}

/// Names with records that are no addresses.
fn records_model() -> Model {
    let name = |text: &str| DnsName::parse(text).unwrap();
    let naptr = |order, replacement: &str| Naptr {
        order,
        preference: 5,
        services: "SIP+D2U".to_owned(),
        flags: "S".to_owned(),
        replacement: name(replacement),
    };
    let service = |service: Service| Service { enabled: true, ..service };
    let mut model = Model {
        services: vec![
            service(Service {
                name: "inside".to_owned(),
                cname: Some(name("www.example.com")),
                ..Service::default()
            }),
            service(Service {
                name: "outside".to_owned(),
                cname: Some(name("edge.example.net")),
                ..Service::default()
            }),
            service(Service {
                name: "sip".to_owned(),
                naptr: Some(naptr(10, "_sip._udp.example.com")),
                ..Service::default()
            }),
            service(Service {
                name: "sips".to_owned(),
                naptr: Some(naptr(20, "_sips._tcp.example.com")),
                ..Service::default()
            }),
            service(Service {
                name: "a".to_owned(),
                addresses: vec!["198.51.100.1".parse().unwrap()],
                ..Service::default()
            }),
        ],
        ..Model::default()
    };
    let vserver = |rtype, services: &[u32], mir| Vserver {
        types: vec![rtype],
        method: Method::RoundRobin,
        services: services.iter().map(|id| support::bound(*id)).collect(),
        multiple_ip_response: mir,
        ..Vserver::default()
    };
    model.vservers = vec![
        vserver(RecordType::Cname, &[0], false),
        vserver(RecordType::Cname, &[1, 0], false),
        vserver(RecordType::Naptr, &[2, 3], true),
        vserver(RecordType::A, &[4], false),
    ];
    for (name, vserver) in
        [("alias.example.com", 0), ("both.example.com", 1), ("sip.example.com", 2), ("www.example.com", 3)]
    {
        model.domains.push(support::domain(name, vserver, &[]));
    }
    model
}

#[test]
fn aliases_and_pointers_are_sent() {
    assert_eq!(WORKER_SIDES, [RecordType::Cname, RecordType::Naptr]);
    let mut published = Published::new(records_model());
    let client: IpAddr = "10.0.0.1".parse().unwrap();
    let name = |text: &str| DnsName::parse(text).unwrap();
    let ask =
        |published: &Published, text: &str, code: u16| published.ask(&name(text), code, client).1.unwrap();
    let told = |message: &Message| -> Vec<String> {
        message.answers.iter().map(|r| format!("{} {} {}", r.ttl, r.record_type(), r.data)).collect()
    };
    let undecided = ask(&published, "alias.example.com", 1);
    assert_eq!(u16::from(undecided.metadata.response_code), 2, "nothing is published yet: never a guess");
    published.publish(&Snapshot::all_up(&published.compiled.model));
    // An alias is followed into the table, for every type but those of an apex.
    assert_eq!(
        told(&ask(&published, "alias.example.com", 1)),
        ["5 CNAME www.example.com.", "5 A 198.51.100.1"]
    );
    let aaaa = ask(&published, "alias.example.com", 28);
    assert_eq!((told(&aaaa), aaaa.authorities.len()), (vec!["5 CNAME www.example.com.".to_owned()], 1));
    assert_eq!(told(&ask(&published, "alias.example.com", 5)), ["5 CNAME www.example.com."]);
    assert_eq!(told(&ask(&published, "alias.example.com", 16)), ["5 CNAME www.example.com."]);
    assert_eq!(told(&ask(&published, "alias.example.com", 255)), ["3600 HINFO RFC8482 "]);
    assert_eq!(ask(&published, "alias.example.com", 6).answers[0].record_type(), WireType::SOA);
    // Turns: one alias each.
    let turns: Vec<Vec<String>> = (0..3).map(|_| told(&ask(&published, "both.example.com", 5))).collect();
    assert_eq!(turns[0], ["5 CNAME edge.example.net."]);
    assert_eq!(turns[1], ["5 CNAME www.example.com."]);
    assert_eq!(turns[2], turns[0]);
    let sip = told(&ask(&published, "sip.example.com", 35));
    assert_eq!(sip.len(), 2);
    assert!(sip[0].starts_with("5 NAPTR 10 5 ") && sip[0].contains("_sip._udp.example.com."), "{sip:?}");
    let none = ask(&published, "sip.example.com", 1);
    assert_eq!((none.answers.len(), none.authorities.len()), (0, 1), "a name with other types: NODATA");
}
