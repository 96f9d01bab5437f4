//! Sessions in the kernel's table, against a model of them that knows nothing of maps: whoever asks, in whatever state the
//! services are, the program gives what the decision for the client's session gives, and remembers what it gave.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use responder_common::{
    counters::Counter,
    session::{Choice, Key, Session, Store},
};
use responder_user::{
    compile::session::{Keeping, Scope, number},
    decide::{self, Client, Outcome, OwnerId, Session as Given, Snapshot, memory, session::Use},
    model::{
        Domain, Method, Model, RecordType, Vserver, VserverId,
        vserver::{Persistence, SkipPersistency, Spillover, SpilloverAction, SpilloverMethod},
    },
    worker::{Names, Transport, answer},
};

use crate::{
    lab::{
        Lab,
        frame::{A, Query, query},
        pin_to, read,
        run::Verdict,
        world,
    },
    support::{bound, domain, service, vserver},
};

/// Virtual servers over the same services, each with another way of keeping sessions. The first is `sticky0.example.com`.
const VARIANTS: [fn(&mut Vserver); 10] = [
    |v| v.persistence = Some(persistence(32)),
    |v| {
        v.persistence = Some(persistence(24));
        v.multiple_ip_response = true;
    },
    |v| {
        v.persistence = Some(persistence(32));
        v.method = Method::LeastConnection;
        v.skip_persistency = SkipPersistency::Rebalance;
    },
    |v| v.spillover = Some(spillover(true, SpilloverAction::Accept)),
    |v| {
        v.persistence = Some(persistence(24));
        v.spillover = Some(spillover(true, SpilloverAction::Drop));
    },
    |v| {
        v.persistence = Some(persistence(32));
        v.spillover = Some(spillover(false, SpilloverAction::Drop));
    },
    |v| v.backup_session_timeout = Some(minutes(2)),
    |v| {
        v.persistence = Some(persistence(8));
        v.ecs = true;
    },
    |v| v.persistence = Some(Persistence { id: Some(7), ..persistence(32) }),
    |v| v.persistence = Some(Persistence { id: Some(7), ..persistence(32) }),
];

/// Places in [`VARIANTS`].
const PLAIN: usize = 0;
const BACKUP: usize = 6;
const ECS: usize = 7;
const SHARED: [usize; 2] = [8, 9];

fn name(variant: usize) -> String {
    format!("sticky{variant}.example.com")
}

/// Clients; the first two share a /24, the last is IPv6.
const CLIENTS: [&str; 6] =
    ["198.51.100.1", "198.51.100.200", "100.64.1.1", "203.0.113.9", "192.0.2.77", "2001:db8:7::9"];

/// A small generator, so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn minutes(n: u64) -> Duration {
    Duration::from_mins(n)
}

fn persistence(mask: u8) -> Persistence {
    Persistence { mask, mask6: 64, timeout: minutes(2), id: None, ignore_in_round_robin: false }
}

/// Four services and a backup with two, under every variant.
fn model() -> Model {
    let mut model = world::classless();
    let first = model.services.len() as u32;
    for (name, addresses) in [
        ("p1", &["10.9.0.1"][..]),
        ("p2", &["10.9.0.2", "10.9.0.12"]),
        ("p3", &["10.9.0.3"]),
        ("p4", &["10.9.0.4"]),
        ("b1", &["10.9.1.1"]),
        ("b2", &["10.9.1.2"]),
    ] {
        model.services.push(service(name, None, addresses));
    }
    for (i, change) in VARIANTS.iter().enumerate() {
        let pool = model.vservers.len() as u32;
        let services = (first..first + 4).map(bound).collect();
        let mut primary = vserver(&format!("sticky{i}"), Method::RoundRobin, services);
        primary.types = vec![RecordType::A];
        primary.backup = Some(VserverId(pool + 1));
        change(&mut primary);
        let services = (first + 4..first + 6).map(bound).collect();
        let mut backup = vserver(&format!("behind{i}"), Method::RoundRobin, services);
        backup.types = vec![RecordType::A];
        backup.ecs = primary.ecs;
        model.vservers.extend([primary, backup]);
        model.domains.push(domain(&name(i), pool, &["10.9.2.1"]));
    }
    model
}

/// The lab with what is known in it.
struct Stage {
    lab: Lab,
    snapshot: Snapshot,
    generation: u64,
    owners: Vec<OwnerId>,
    /// Sessions as the reference remembers them.
    kept: BTreeMap<Key, Given>,
}

impl Stage {
    fn open(what: &str) -> Self {
        let lab = Lab::open(what, model(), &Snapshot::all_up);
        pin_to(0);
        let snapshot = Snapshot::all_up(&lab.compiled.model);
        let owner = |variant: usize| {
            let is_wanted = |d: &Domain| d.name.to_string() == name(variant);
            lab.compiled.owners.of_domain(lab.compiled.model.domains.iter().position(is_wanted).unwrap())
        };
        let owners = (0..VARIANTS.len()).map(owner).collect();
        Self { lab, snapshot, generation: 1, owners, kept: BTreeMap::new() }
    }

    /// What changed is remembered and published.
    fn settle(&mut self) {
        let model = self.lab.compiled.model.clone();
        let all = (0..model.vservers.len() as u32).map(VserverId);
        memory::advance(&model, &mut self.snapshot, all);
        self.generation += 1;
        for owner in &self.owners {
            self.lab.publish_of(owner.0..owner.0 + 1, &self.snapshot, self.generation);
        }
    }

    /// As in the beginning.
    fn reset(&mut self) {
        self.snapshot = Snapshot::all_up(&self.lab.compiled.model);
        self.settle();
        self.forget();
    }

    /// Without a session.
    fn forget(&mut self) {
        let sessions = self.lab.writer().world().sessions();
        sessions.remove(sessions.all().iter().map(|(key, _)| key));
        self.kept.clear();
    }

    fn keeping(&self, variant: usize) -> &Keeping {
        self.lab.compiled.keeping[self.owners[variant].index()].as_ref().unwrap()
    }

    /// A service by name, to change what is known of it.
    fn service(&mut self, name: &str) -> &mut decide::ServiceState {
        let at = self.lab.compiled.model.services.iter().position(|s| s.name == name).unwrap();
        &mut self.snapshot.services[at]
    }

    fn key(&self, variant: usize, client: &str) -> Key {
        let keeping = self.keeping(variant);
        let client: IpAddr = client.parse().unwrap();
        let whole: [u64; 2] = match client {
            IpAddr::V4(a) => bytemuck::cast(a.to_ipv6_mapped().octets()),
            IpAddr::V6(a) => bytemuck::cast(a.octets()),
        };
        let (v4, bits) =
            (client.is_ipv4(), if client.is_ipv4() { keeping.rule.mask } else { keeping.rule.mask6 });
        let mut octets: [u8; 16] = bytemuck::cast(whole);
        let bits = usize::from(bits) + if v4 { 96 } else { 0 };
        for (i, octet) in octets.iter_mut().enumerate() {
            let front = bits.saturating_sub(i * 8).min(8) as u32;
            *octet &= 0xff_u8.checked_shl(8 - front).unwrap_or(0);
        }
        Key { scope: keeping.rule.scope, client: bytemuck::cast(octets) }
    }

    /// Asks the program or a worker, and holds the answer against the decision. The first address, if there is one.
    fn ask(&mut self, variant: usize, client: &str, by_worker: bool) -> Option<String> {
        let address: IpAddr = client.parse().unwrap();
        let key = self.key(variant, client);
        let model = self.lab.compiled.model.clone();
        let place = Client::locate(&model, address);
        let owner = self.lab.compiled.owners.owner(self.owners[variant]);
        let session = self.kept.get(&key).copied();
        let question = decide::Question { owner, rtype: RecordType::A, client: &place, session };
        let decision = decide::answer(&model, &self.snapshot, &question);
        let why = || format!("variant {variant}: {client} with {session:?}: {decision:#?}");
        let got = if by_worker { self.worker(variant, address) } else { self.program(variant, client) };
        let pool = match (&decision.outcome, got) {
            (Outcome::Drop, None) => return None,
            (Outcome::Empty, Some(got)) if got.is_empty() => return None,
            (Outcome::Answer(pool), Some(got)) => {
                let rotate: BTreeSet<String> = pool.rotate.iter().map(|m| m.address.to_string()).collect();
                assert!(rotate.contains(&got[0]), "{got:?}, {}", why());
                let all = pool.rotate.iter().chain(&pool.extras).map(|m| m.address.to_string());
                let expected: BTreeSet<String> = match pool.give {
                    decide::Give::One => BTreeSet::from([got[0].clone()]),
                    decide::Give::All | decide::Give::BestFirst => all.collect(),
                };
                assert_eq!(got.iter().cloned().collect::<BTreeSet<_>>(), expected, "{}", why());
                (pool, got)
            }
            (_, got) => panic!("{got:?}, {}", why()),
        };
        let first = pool.1[0].clone();
        let member = pool.0.rotate.iter().find(|m| m.address.to_string() == first).unwrap();
        if let (Some(service), true) = (member.service, decision.session != Use::SetAside) {
            let given = Given { link: decision.link, service };
            if self.keeping(variant).choice(given.link, service) != 0 {
                self.kept.insert(key, given);
            }
        }
        Some(first)
    }

    fn program(&mut self, variant: usize, client: &str) -> Option<Vec<String>> {
        let frame = query(&name(variant), A).from(client);
        let before = self.lab.counters();
        let (verdict, out) = self.lab.runner().once(&frame.build());
        let risen = Lab::risen(&before, &self.lab.counters());
        match verdict {
            Verdict::Drop => {
                assert_eq!(risen, [(Counter::DropDecision.name(), 1)]);
                None
            }
            Verdict::Tx => {
                let dns = read::message(&out).unwrap();
                Some(answers(&read::reply(dns).unwrap()))
            }
            other => panic!("{other:?}, {risen:?}"),
        }
    }

    fn worker(&mut self, variant: usize, client: IpAddr) -> Option<Vec<String>> {
        let message = query(&name(variant), A).dns();
        let reader = self.lab.writer().reader(1);
        let mut out = vec![0; 1232];
        let source = SocketAddr::new(client, 40_000);
        match answer::reply(&message, Transport::Udp, source, &reader, &Names::default(), &mut out) {
            answer::Outcome::Reply { len, .. } => Some(answers(&read::reply(&out[..len]).unwrap())),
            answer::Outcome::Dropped => None,
            answer::Outcome::Silent => panic!("silent"),
        }
    }

    /// Every session in the kernel's table is one that the reference has, and the other way round.
    fn compare(&mut self) {
        let all = self.lab.writer().world().sessions().all();
        let there: BTreeMap<Key, u64> =
            all.iter().map(|(key, session)| (*key, session.choice.service)).collect();
        let model = &self.lab.compiled.model;
        let service = |given: &Given| number(&model.service(given.service).name);
        let expected: BTreeMap<Key, u64> =
            self.kept.iter().map(|(key, given)| (*key, service(given))).collect();
        assert_eq!(there, expected);
    }
}

fn answers(reply: &read::Reply) -> Vec<String> {
    let of = |record: &read::Record| {
        let octets: [u8; 4] = record.data[..].try_into().unwrap();
        IpAddr::from(octets).to_string()
    };
    reply.answers.iter().map(of).collect()
}

fn spillover(persistence: bool, action: SpilloverAction) -> Spillover {
    Spillover {
        method: SpilloverMethod::Connection,
        threshold: 100,
        persistence,
        timeout: minutes(2),
        action,
        redirect: None,
    }
}

/// Random states and clients against the reference; kernel and workers in turn on the same sessions.
#[test]
fn sessions_are_those_of_the_decisions() {
    let mut stage = Stage::open("sessions");
    let mut dice = Dice(1);
    let steps = if std::env::var_os("RESPONDER_FULL").is_some() { 100_000 } else { 4000 };
    let mut dropped = 0;
    for _ in 0..steps {
        let names = ["p1", "p2", "p3", "p4", "b1", "b2"];
        let name = names[dice.roll(6) as usize];
        match dice.roll(24) {
            0 => {
                let is_up = dice.roll(2) == 0;
                stage.service(name).forced = Some(is_up);
            }
            1 => {
                let figure = decide::Figure { value: dice.roll(60) as f64, at: Duration::ZERO };
                stage.service(name).load.insert(decide::snapshot::figure::CONNECTIONS.to_owned(), figure);
            }
            2 => stage.service(name).admin = dice.roll(4) != 0,
            3 => stage.service(name).report.above = Some(dice.roll(3) == 0),
            _ => {
                let client = CLIENTS[dice.roll(CLIENTS.len() as u64) as usize];
                let variant = dice.roll(VARIANTS.len() as u64) as usize;
                dropped += u32::from(stage.ask(variant, client, dice.roll(3) == 0).is_none());
                continue;
            }
        }
        stage.settle();
    }
    stage.compare();
    assert!(
        stage.kept.len() > 20 && dropped > 0,
        "{} sessions, {dropped} without an answer",
        stage.kept.len()
    );
}

/// The kernel loads the program once for all of these.
#[test]
fn sessions_begin_go_on_and_end_as_they_should() {
    let mut stage = Stage::open("session-ends");
    let parts: [fn(&mut Stage); 5] = [
        clients_of_a_backup_stay_for_the_backup_session_timeout,
        a_session_lives_for_its_timeout_after_the_last_query,
        words_that_are_nobodys_session_count_for_nothing,
        ecs_prefixes_have_sessions_of_their_own_and_decide_the_scope,
        virtual_servers_with_one_persistence_id_share_their_sessions,
    ];
    for part in parts {
        stage.reset();
        part(&mut stage);
    }
}

fn clients_of_a_backup_stay_for_the_backup_session_timeout(stage: &mut Stage) {
    let all_are = |stage: &mut Stage, up: bool| {
        for name in ["p1", "p2", "p3", "p4"] {
            stage.service(name).forced = Some(up);
        }
        stage.settle();
    };
    all_are(stage, false);
    let client = CLIENTS[2];
    assert!(stage.ask(BACKUP, client, false).unwrap().starts_with("10.9.1."));
    all_are(stage, true);
    assert!(stage.ask(BACKUP, client, false).unwrap().starts_with("10.9.1."), "it stays");
    assert!(stage.ask(BACKUP, CLIENTS[3], false).unwrap().starts_with("10.9.0."), "others do not go there");
    // Used all the time, but begun long ago.
    let sessions = stage.lab.writer().world().sessions();
    let key = stage.key(BACKUP, client);
    let old = sessions.get(&key).unwrap();
    let begun = sessions.now() - minutes(2).as_nanos() as u64;
    sessions.replace(&key, &Session::new(&key, old.choice, old.until, begun));
    stage.kept.clear();
    assert!(stage.ask(BACKUP, client, false).unwrap().starts_with("10.9.0."), "its time is over");
}

fn a_session_lives_for_its_timeout_after_the_last_query(stage: &mut Stage) {
    let client = CLIENTS[2];
    let first = stage.ask(PLAIN, client, false);
    for _ in 0..20 {
        assert_eq!(stage.ask(PLAIN, client, false), first);
    }
    let sessions = stage.lab.writer().world().sessions();
    let key = stage.key(PLAIN, client);
    let there = sessions.get(&key).unwrap();
    let left = there.until - sessions.now();
    assert!((minutes(2).as_nanos() as u64).abs_diff(left) < 10_000_000_000, "{left} ns");
    // Nearly over, and used: it goes on.
    let soon = sessions.now() + 30_000_000_000;
    sessions.replace(&key, &Session::new(&key, there.choice, soon, there.since));
    assert_eq!(stage.ask(PLAIN, client, false), first);
    assert!(sessions.get(&key).unwrap().until - sessions.now() > minutes(1).as_nanos() as u64);
    // Over: decided anew, by turn.
    let mut given = BTreeSet::new();
    for _ in 0..8 {
        sessions.replace(&key, &Session::new(&key, there.choice, sessions.now() - 1, there.since));
        stage.kept.clear();
        given.insert(stage.ask(PLAIN, client, false));
    }
    assert!(given.len() > 2, "{given:?}");
}

fn words_that_are_nobodys_session_count_for_nothing(stage: &mut Stage) {
    let client = CLIENTS[3];
    stage.ask(PLAIN, client, false).unwrap();
    let sessions = stage.lab.writer().world().sessions();
    let key = stage.key(PLAIN, client);
    let whole = sessions.get(&key).unwrap();
    let torn = [
        Session { check: whole.check ^ 1, ..whole },
        Session { until: whole.until + 1, ..whole },
        Session { choice: Choice { service: 1, ..whole.choice }, ..whole },
        // A whole session of another client, as a reader may find while the kernel reuses the element.
        Session::new(&Key { client: [7, 7], ..key }, whole.choice, whole.until, whole.since),
    ];
    for words in torn {
        let mut given = BTreeSet::new();
        for _ in 0..8 {
            sessions.replace(&key, &words);
            stage.kept.clear();
            given.insert(stage.ask(PLAIN, client, false).unwrap());
            assert!(sessions.get(&key).unwrap().is_of(&key), "a whole one is in its place");
        }
        assert!(given.len() > 2, "{words:?} led to {given:?}");
    }
}

fn ecs_prefixes_have_sessions_of_their_own_and_decide_the_scope(stage: &mut Stage) {
    let subnet = |bits: u8, octets: &[u8]| {
        let mut option = vec![0, 8, 0, 4 + octets.len() as u8, 0, 1, bits, 0];
        option.extend_from_slice(octets);
        option
    };
    let ask = |stage: &mut Stage, client: &str, option: &[u8]| {
        let frame: Query = query(&name(ECS), A).from(client).opt_with(1232, 0, option);
        let (verdict, out) = stage.lab.runner().once(&frame.build());
        assert_eq!(verdict, Verdict::Tx);
        let reply = read::reply(read::message(&out).unwrap()).unwrap();
        (answers(&reply)[0].clone(), reply.opt.unwrap().options)
    };
    let first = subnet(24, &[100, 1, 2]);
    let (given, options) = ask(stage, CLIENTS[0], &first);
    assert_eq!(options[6..8], [24, 24], "source and scope");
    for client in CLIENTS {
        assert_eq!(ask(stage, client, &first).0, given, "whoever asks for them");
    }
    // No mask: prefixes that share 8 bits are told apart.
    let others: BTreeSet<String> =
        (0..8).map(|i| ask(stage, CLIENTS[0], &subnet(24, &[100, 1, 100 + i])).0).collect();
    assert!(others.len() > 2, "{others:?}");
    // A prefix of no bits says nothing: the source decides, with its mask.
    let (of_source, options) = ask(stage, CLIENTS[0], &subnet(0, &[]));
    assert_eq!(options[6..8], [0, 0]);
    assert_eq!(ask(stage, CLIENTS[1], &subnet(0, &[])).0, of_source);
}

fn virtual_servers_with_one_persistence_id_share_their_sessions(stage: &mut Stage) {
    for client in CLIENTS {
        let [one, other] = SHARED;
        let given = stage.ask(one, client, false).unwrap();
        // The second service has two addresses; both end alike.
        let service = |address: &str| address.chars().last();
        for by_worker in [false, true, false] {
            let again = stage.ask(other, client, by_worker).unwrap();
            assert_eq!(service(&again), service(&given), "{given} {again}");
        }
    }
}

#[test]
fn scopes_and_names_have_numbers_of_their_own() {
    let names = ["a", "b", "ab", "www", "WWW.example", "sticky"];
    let numbers: BTreeSet<u64> = names.iter().map(|name| number(name)).collect();
    assert_eq!(numbers.len(), names.len());
    assert_ne!(number("Sticky"), number("sticky"), "the configuration tells them apart");
    let scopes = [
        Scope::Id(0),
        Scope::Id(65_535),
        Scope::Vserver("a".to_owned()),
        Scope::Domain("a".to_owned(), "b".to_owned()),
        Scope::Domain("b".to_owned(), "a".to_owned()),
    ];
    let numbers: BTreeSet<u64> = scopes.iter().map(Scope::number).collect();
    assert_eq!(numbers.len(), scopes.len());
}
