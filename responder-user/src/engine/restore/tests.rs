//! From the octets of a journal to answers.

use std::{collections::BTreeSet, fs, path::Path};

use super::*;
use crate::{
    decide::{Decision, Outcome, Owners, Snapshot, decide},
    engine::start::snapshot,
    journal::{Figure as Pushed, Session, SessionKind, Store, frame, replay::replay},
    model::{
        Bound, DnsName, Domain, Method, Monitor, MonitorKind, Service, Vserver, VserverId,
        vserver::{Spillover, SpilloverAction, SpilloverMethod},
    },
};

const NOW: Stamp = Stamp { boot: 7, uptime: 500_000, wall: 1_800_000_000_000 };

/// The other way round, all numbers differ.
fn model(is_reversed: bool) -> Model {
    let monitor = |name: &str, port| Monitor {
        name: name.to_owned(),
        kind: MonitorKind::Tcp,
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(2),
        rise: 2,
        fall: 3,
        port: Some(port),
        enabled: true,
    };
    let names = ["a", "b", "c", "d"];
    let place = |i: usize| if is_reversed { names.len() - 1 - i } else { i } as u32;
    let mut services: Vec<Service> = names
        .iter()
        .enumerate()
        .map(|(i, name)| Service {
            name: (*name).to_owned(),
            addresses: vec![
                format!("192.0.2.{i}").parse().unwrap(),
                format!("2001:db8::{i}").parse().unwrap(),
            ],
            // Of c and d nobody checks anything: what is said of them is decided at once.
            monitors: if i < 2 { vec![(MonitorId(u32::from(is_reversed)), 1)] } else { Vec::new() },
            enabled: true,
            ..Service::default()
        })
        .collect();
    let bound = |i: usize| Bound { service: ServiceId(place(i)), weight: 1, order: None };
    let vserver = |name: &str, services: &[usize], backup: Option<u32>| Vserver {
        name: name.to_owned(),
        types: vec![RecordType::A, RecordType::Aaaa],
        method: Method::RoundRobin,
        services: services.iter().map(|i| bound(*i)).collect(),
        backup: backup.map(VserverId),
        ..Vserver::default()
    };
    let backup = if is_reversed { 0 } else { 3 };
    let spillover = Spillover {
        method: SpilloverMethod::Connection,
        threshold: 10,
        persistence: false,
        timeout: Duration::from_mins(2),
        action: SpilloverAction::Drop,
        redirect: None,
    };
    let mut vservers = vec![
        vserver("plain", &[0, 1], None),
        Vserver { disable_primary_on_down: true, ..vserver("latch", &[1], Some(backup)) },
        Vserver { spillover: Some(spillover), ..vserver("spill", &[2], Some(backup)) },
        vserver("spare", &[3], None),
    ];
    let mut monitors = vec![monitor("tcp", 80), monitor("other", 81)];
    if is_reversed {
        services.reverse();
        vservers.reverse();
        monitors.reverse();
    }
    let domain = |name: &str| Domain {
        name: DnsName::parse(&format!("{name}.example")).unwrap(),
        vserver: VserverId(vservers.iter().position(|v| v.name == name).unwrap() as u32),
        ttl: 5,
        backup_ip: [].into(),
    };
    let domains = ["plain", "latch", "spill"].map(domain).to_vec();
    Model { monitors, services, vservers, domains, ..Model::default() }
}

fn address_of(name: &str, is_v6: bool) -> IpAddr {
    model(false).services.iter().find(|s| s.name == name).unwrap().addresses[usize::from(is_v6)]
}

fn address(name: &str, is_v6: bool, up: bool) -> Record {
    Record::Address { service: name.to_owned(), address: address_of(name, is_v6), up: Some(up) }
}

fn check(name: &str, is_v6: bool, up: bool) -> Record {
    let (model, address) = (model(false), address_of(name, is_v6));
    let service = model.service_named(name).unwrap();
    let question = question_of(&model, service, MonitorId(0), address).unwrap();
    Record::Check { service: name.to_owned(), address, monitor: "tcp".to_owned(), question, up: Some(up) }
}

fn enabled(kind: Kind, name: &str, enabled: bool) -> Record {
    Record::Enabled { kind, name: name.to_owned(), enabled }
}

fn load(name: &str, connections: f64, age: u64) -> Record {
    let at = NOW.before(Duration::from_secs(age));
    let figure = Pushed { name: "connections".to_owned(), value: connections, at };
    Record::Load { service: name.to_owned(), figures: vec![figure] }
}

fn memory(name: &str, memory: Memory) -> Record {
    Record::memory(name, &[memory, memory, Memory::default(), Memory::default()])
}

const LATCHED: Memory = Memory { was_up: false, latched: true, spilled: false, spill_ended: 0 };
const UP: Memory = Memory { was_up: true, latched: false, spilled: false, spill_ended: 0 };

/// A life: what was so at first, and what became of it.
fn life() -> Vec<Record> {
    let mut out = vec![Record::Plan { generation: 9, boot: 7 }];
    for name in ["a", "b"] {
        for is_v6 in [false, true] {
            out.extend([check(name, is_v6, true), address(name, is_v6, true)]);
        }
    }
    out.extend([
        memory("latch", UP),
        enabled(Kind::Service, "a", false),
        enabled(Kind::Vserver, "plain", false),
        load("c", 4.0, 50),
        check("b", false, false),
        address("b", false, false),
        memory("latch", LATCHED),
        check("b", false, true),
        address("b", false, true),
        enabled(Kind::Vserver, "plain", true),
        load("c", 12.0, 20),
        memory("spill", Memory { spilled: true, ..UP }),
        Record::report("d", Report { primary_up: None, effective_up: Some(true), above: Some(false) }, NOW),
        Record::Forced { service: "d".to_owned(), monitor: None, up: Some(false) },
        Record::Forced { service: "d".to_owned(), monitor: None, up: None },
        enabled(Kind::Service, "gone", false),
        enabled(Kind::Monitor, "other", false),
        Record::Plan { generation: 12, boot: 7 },
        check("a", true, false),
        address("a", true, false),
    ]);
    out
}

fn state_of<'a>(records: impl IntoIterator<Item = &'a Record>) -> State {
    let mut state = State::default();
    records.into_iter().for_each(|record| state.apply(record.clone()));
    state
}

fn snapshot_of(model: &Model, state: &State) -> Snapshot {
    let Restored { health, orders } = restore(model, state, &NOW);
    snapshot(model, &health, &orders, false)
}

/// What each name answers to each type.
fn answers(model: &Model, snapshot: &Snapshot) -> Vec<(String, RecordType, Decision)> {
    let owners = Owners::of(model);
    let mut out = Vec::new();
    for owner in &owners.list {
        for rtype in [RecordType::A, RecordType::Aaaa] {
            let decision = decide(model, snapshot, owner, rtype, "203.0.113.1".parse().unwrap());
            out.push((model.vserver(owner.vserver).name.clone(), rtype, decision));
        }
    }
    out.sort_by(|a, b| (&a.0, a.1.code()).cmp(&(&b.0, b.1.code())));
    out
}

/// Addresses by vserver and type, in words; "?" where nothing is decided.
fn words(model: &Model, snapshot: &Snapshot) -> Vec<String> {
    let line = |(name, rtype, decision): (String, RecordType, Decision)| {
        let given = match decision.outcome {
            Outcome::Undecided => "?".to_owned(),
            Outcome::Answer(pool) => {
                let all: BTreeSet<IpAddr> = pool.rotate.iter().map(|member| member.address).collect();
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        format!("{name} {rtype}: {given}")
    };
    answers(model, snapshot).into_iter().map(line).collect()
}

#[test]
fn a_life_comes_back_by_name_whatever_the_numbers_are() {
    let state = state_of(&life());
    let right = [
        "latch A: 192.0.2.3",
        "latch AAAA: 2001:db8::3",
        "plain A: 192.0.2.1",
        "plain AAAA: 2001:db8::1",
        "spill A: 192.0.2.3",
        "spill AAAA: 2001:db8::3",
    ];
    for is_reversed in [false, true] {
        let model = model(is_reversed);
        let snapshot = snapshot_of(&model, &state);
        assert_eq!(words(&model, &snapshot), right, "reversed: {is_reversed}");
        let a = snapshot.service(model.service_named("a").unwrap());
        assert_eq!((a.admin, &a.addresses[..]), (false, &[AddressState::Up, AddressState::Down][..]));
        let Restored { health, orders } = restore(&model, &state, &NOW);
        let other = model.monitors.iter().position(|m| m.name == "other").unwrap();
        assert!(!health.monitor_enabled(MonitorId(other as u32)));
        assert!(!orders.services.contains_key("gone"), "the configuration does not have it");
    }
}

#[test]
fn a_state_has_to_be_disproved_as_often_as_before() {
    use crate::health::{HealthEvent, ProbeResult};
    let model = model(false);
    let a = model.service_named("a").unwrap();
    let mut health = restore(&model, &state_of(&life()), &NOW).health;
    let fail = |health: &mut Health| {
        let result = ProbeResult { ok: false, detail: "refused".to_owned(), took: Duration::ZERO };
        let at = Instant::now();
        health.apply(HealthEvent::Result {
            epoch: 0,
            monitor: MonitorId(0),
            service: a,
            address: 0,
            result,
            at,
        })
    };
    assert_eq!(fail(&mut health).len(), 0);
    assert_eq!(fail(&mut health).len(), 0);
    assert_eq!(fail(&mut health).len(), 1, "fall is 3");
    // Of a monitor that asks something else the address keeps its state, until the first result.
    let mut other = model.clone();
    other.monitors[0].port = Some(8080);
    let mut health = restore(&other, &state_of(&life()), &NOW).health;
    assert_eq!(health.snapshot_service(a), [AddressState::Up, AddressState::Down]);
    assert_eq!(health.check_state(a, 0, MonitorId(0)), Some(AddressState::Undecided));
    assert_eq!(fail(&mut health).len(), 1);
}

#[test]
fn what_was_pushed_counts_as_long_as_it_would_have() {
    let report = Report { primary_up: Some(false), ..Report::default() };
    let records = [load("c", 12.0, 20), Record::report("d", report, NOW.before(Duration::from_secs(30)))];
    let state = state_of(&records);
    let age = |at: Duration| BEFORE.checked_sub(at).unwrap().as_secs();
    let at = |now: Stamp| {
        let orders = restore(&model(false), &state, &now).orders;
        let figure = orders.loads["c"].get("connections").map(|figure| age(figure.at));
        (figure, orders.reports.get("d").map(|(_, at)| age(*at)))
    };
    assert_eq!(at(NOW), (Some(20), Some(30)));
    let later = Stamp { uptime: NOW.uptime + 10_000, ..NOW };
    for wall in [0, NOW.wall - 3_600_000, NOW.wall + 86_400_000 * 400] {
        assert_eq!(at(Stamp { wall, ..later }), (Some(30), Some(40)), "somebody set the calendar");
    }
    let rebooted = |wall| Stamp { boot: 8, uptime: 5_000, wall };
    assert_eq!(at(rebooted(NOW.wall + 40_000)), (Some(60), Some(70)));
    assert_eq!(at(rebooted(NOW.wall - 3_600_000)), (None, None), "nobody can say: it is over");
    assert_eq!(at(rebooted(NOW.wall + 86_400_000 * 2)), (None, None));
}

#[test]
fn the_end_of_spillover_is_known_within_a_boot() {
    let ended = Memory { spill_ended: 77, ..UP };
    let state = state_of(&[memory("spill", ended)]);
    let at = |boot| {
        let orders = restore(&model(false), &state, &Stamp { boot, ..NOW }).orders;
        orders.memories["spill"][0].1.spill_ended
    };
    let boot = Stamp::now().boot;
    assert_eq!((at(boot), at(boot + 1)), (77, 0), "its clock ends with the boot");
}

#[test]
fn generations_never_go_back() {
    let state = state_of(&[Record::Plan { generation: 100, boot: 7 }]);
    let adopted = Start::Adopted { put: 0, removed: 0 };
    assert_eq!(generation(&State::default(), 5, adopted, &NOW), 5);
    assert_eq!(generation(&state, 101, adopted, &NOW), 101);
    assert_eq!(generation(&state, 99, adopted, &NOW), 100);
    assert_eq!(generation(&state, 0, Start::Fresh, &NOW), 101);
    assert_eq!(generation(&state, 0, Start::Fresh, &Stamp { boot: 8, ..NOW }), 100 + UNSYNCED);
}

#[test]
fn what_the_configuration_lacks_is_dropped_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _, _) = Store::open(folder.path(), |_| true).unwrap();
    let session = |service: &str| {
        Record::Session(Session {
            scope: Scope::Id(1),
            client: format!("10.0.{}.0/24", service.len()).parse().unwrap(),
            link: Some("plain".to_owned()),
            service: service.to_owned(),
            kind: SessionKind::SourceIp,
            expires: NOW.wall + 60_000,
            since: NOW.wall,
            at: NOW,
        })
    };
    let kept = [enabled(Kind::Service, "a", false), session("a")];
    let gone = [
        enabled(Kind::Service, "x", false),
        enabled(Kind::Vserver, "x", false),
        Record::Forced { service: "a".to_owned(), monitor: Some("x".to_owned()), up: Some(true) },
        load("x", 1.0, 0),
        memory("x", LATCHED),
        Record::Address { service: "a".to_owned(), address: "192.0.2.99".parse().unwrap(), up: Some(true) },
        session("xx"),
    ];
    store.order(&kept).unwrap();
    store.order(&gone).unwrap();
    drop(store);
    let mut model = model(false);
    model.settings.state_dir = folder.path().to_owned();
    drop(open(&model).unwrap().journal);
    let read = replay(&fs::read(folder.path().join("journal")).unwrap());
    assert_eq!(read.state, state_of(&kept));
    assert_eq!(read.findings.records, 2);
}

/// The file that a real store writes for a life, and where each record ends.
fn written(folder: &Path) -> (Vec<u8>, Vec<usize>) {
    let (mut store, _, _) = Store::open(folder, |_| true).unwrap();
    let mut ends = Vec::new();
    for record in life() {
        store.order(std::slice::from_ref(&record)).unwrap();
        ends.push(store.len() as usize);
    }
    (fs::read(store.path()).unwrap(), ends)
}

/// Whatever octet is wrong: each object has its right state, or the one that it would have had without the record that is
/// damaged, and no check's result counts that a lost record may have revoked.
#[test]
fn a_journal_with_every_byte_flipped_in_turn_never_yields_a_wrong_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (octets, ends) = written(folder.path());
    let (records, model) = (life(), model(false));
    let whole = snapshot_of(&model, &replay(&octets).state);
    assert_eq!(whole, snapshot_of(&model, &state_of(&records)));
    let right = words(&model, &whole);
    let without = |k: Option<usize>| {
        let mut state = state_of(records.iter().enumerate().filter(|(i, _)| Some(*i) != k).map(|(_, r)| r));
        let as_if_never = snapshot_of(&model, &state);
        state.forget_observations();
        (snapshot_of(&model, &state), as_if_never)
    };
    let (mut flips, mut undecided) = (0, 0);
    let starts = std::iter::once(0).chain(std::iter::once(frame::HEADER)).chain(ends.iter().copied());
    let ends = std::iter::once(frame::HEADER).chain(ends.iter().copied());
    for (n, (start, end)) in starts.zip(ends).enumerate() {
        let (safe, as_if_never) = without(n.checked_sub(1));
        let never = words(&model, &as_if_never);
        for at in start..end {
            let mut other = octets.clone();
            other[at] ^= if at % 2 == 0 { 0xff } else { 1 << (at / 2 % 8) };
            let read = replay(&other);
            assert!(!read.findings.is_whole(), "{at}: not noticed");
            let snapshot = snapshot_of(&model, &read.state);
            assert_eq!(snapshot, safe, "octet {at}, of record {n}");
            for (i, given) in words(&model, &snapshot).iter().enumerate() {
                let is_undecided = given.ends_with(": ?");
                assert!(is_undecided || *given == right[i] || *given == never[i], "octet {at}: {given}");
                undecided += usize::from(is_undecided);
            }
            flips += 1;
        }
    }
    assert_eq!(flips, octets.len());
    assert!(undecided > 0);
}
