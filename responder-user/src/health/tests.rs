//! `Health` as a machine: events in, transitions out. No sockets, no waiting.

use std::time::Duration;

use super::{AddressState::*, *};
use crate::{
    clock::{Clock, FakeClock},
    model::MonitorKind,
};

fn monitor(name: &str, rise: u32, fall: u32) -> Monitor {
    Monitor {
        name: name.to_owned(),
        kind: MonitorKind::Tcp,
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(2),
        rise,
        fall,
        port: None,
        enabled: true,
    }
}

fn service(name: &str, addresses: &[&str], monitors: &[(u32, u32)], monitor_threshold: u32) -> Service {
    Service {
        name: name.to_owned(),
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
        port: 80,
        monitors: monitors.iter().map(|(id, weight)| (MonitorId(*id), *weight)).collect(),
        monitor_threshold,
        enabled: true,
        ..Service::default()
    }
}

fn model(monitors: Vec<Monitor>, services: Vec<Service>) -> Model {
    Model { monitors, services, ..Model::default() }
}

/// One service `web` with two addresses under two monitors, all needed.
fn two_by_two() -> Model {
    model(
        vec![monitor("tcp", 1, 3), monitor("page", 2, 1)],
        vec![service("web", &["192.0.2.1", "2001:db8::1"], &[(0, 1), (1, 1)], 0)],
    )
}

const WEB: ServiceId = ServiceId(0);
const TCP: MonitorId = MonitorId(0);
const PAGE: MonitorId = MonitorId(1);

/// Lets a result reach the health, and says what changed as (address, from, to).
fn report(
    health: &mut Health,
    monitor: MonitorId,
    address: usize,
    ok: bool,
) -> Vec<(usize, AddressState, AddressState)> {
    let result =
        ProbeResult { ok, detail: if ok { "200" } else { "refused" }.to_owned(), took: Duration::ZERO };
    let epoch = health.epoch();
    let event = HealthEvent::Result { epoch, monitor, service: WEB, address, result, at: Instant::now() };
    changes(&health.apply(event))
}

fn changes(transitions: &[Transition]) -> Vec<(usize, AddressState, AddressState)> {
    transitions.iter().map(|t| (t.address, t.from, t.to)).collect()
}

#[test]
fn a_service_without_monitors_is_up() {
    let mut inert = monitor("ping", 1, 3);
    inert.kind = MonitorKind::Inert { type_name: "ping".to_owned() };
    let mut disabled = monitor("off", 1, 3);
    disabled.enabled = false;
    for bound in [&[][..], &[(0, 1)], &[(1, 1)], &[(0, 1), (1, 1)]] {
        for threshold in [0, 2] {
            let model = model(
                vec![inert.clone(), disabled.clone()],
                vec![service("web", &["192.0.2.1"], bound, threshold)],
            );
            let health = Health::new(&model);
            assert_eq!(health.snapshot_service(WEB), [Up], "{bound:?} {threshold}");
            assert!(health.jobs(&model).is_empty());
        }
    }
}

#[test]
fn an_inert_monitor_is_not_missed_by_the_threshold() {
    let mut inert = monitor("ping", 1, 3);
    inert.kind = MonitorKind::Inert { type_name: "ping".to_owned() };
    let model =
        model(vec![monitor("tcp", 1, 3), inert], vec![service("web", &["192.0.2.1"], &[(0, 1), (1, 1)], 2)]);
    let mut health = Health::new(&model);
    assert_eq!(report(&mut health, TCP, 0, true), [(0, Undecided, Up)]);
}

#[test]
fn addresses_are_decided_one_by_one() {
    let mut health = Health::new(&two_by_two());
    assert_eq!(health.snapshot_service(WEB), [Undecided, Undecided]);
    assert_eq!(report(&mut health, TCP, 0, true), [], "the other monitor could still object");
    assert_eq!(report(&mut health, TCP, 1, false), [(1, Undecided, Down)], "one failure decides");
    assert_eq!(report(&mut health, PAGE, 0, true), [(0, Undecided, Up)]);
    assert_eq!(health.snapshot_service(WEB), [Up, Down]);
}

#[test]
fn falls_and_rises_by_the_monitors_own_thresholds() {
    let clock = FakeClock::new();
    let mut health = Health::new(&two_by_two());
    report(&mut health, TCP, 0, true);
    report(&mut health, PAGE, 0, true);
    assert_eq!(report(&mut health, TCP, 0, false), []);
    assert_eq!(report(&mut health, TCP, 0, false), []);
    clock.advance(Duration::from_secs(15));
    let result =
        ProbeResult { ok: false, detail: "timeout after 2s".to_owned(), took: Duration::from_secs(2) };
    let at = clock.now();
    let event = HealthEvent::Result { epoch: 0, monitor: TCP, service: WEB, address: 0, result, at };
    let expected = Transition {
        service: WEB,
        address: 0,
        from: Up,
        to: Down,
        monitor: Some(TCP),
        detail: "timeout after 2s".to_owned(),
        at,
    };
    assert_eq!(health.apply(event), [expected]);
    assert_eq!(report(&mut health, TCP, 0, true), [(0, Down, Up)]);
    assert_eq!(report(&mut health, PAGE, 0, false), [(0, Up, Down)]);
    assert_eq!(report(&mut health, PAGE, 0, true), []);
    assert_eq!(report(&mut health, PAGE, 0, true), [(0, Down, Up)]);
}

#[test]
fn rows_tell_the_last_check() {
    let mut health = Health::new(&two_by_two());
    report(&mut health, TCP, 0, true);
    report(&mut health, TCP, 0, false);
    report(&mut health, TCP, 0, false);
    let rows = health.monitor_rows(WEB);
    assert_eq!(rows.len(), 4, "two monitors at two addresses");
    let row = &rows[0];
    assert_eq!((row.name.as_str(), row.address.to_string().as_str()), ("tcp", "192.0.2.1"));
    assert_eq!((row.state, row.consecutive), (Up, 2));
    assert_eq!((row.last.as_deref(), row.error.as_deref()), (Some("refused"), Some("refused")));
    assert_eq!((rows[1].state, rows[1].last.as_deref(), rows[1].at), (Undecided, None, None));
}

#[test]
fn a_fault_of_this_host_moves_no_state() {
    let mut health = Health::new(&two_by_two());
    report(&mut health, PAGE, 0, true);
    report(&mut health, TCP, 0, true);
    let full = || LocalFault::Exhausted(std::io::Error::from_raw_os_error(24));
    for _ in 0..10 {
        let at = Instant::now();
        let event =
            HealthEvent::Fault { epoch: 0, monitor: TCP, service: WEB, address: 0, fault: full(), at };
        assert_eq!(health.apply(event), []);
    }
    assert_eq!(health.snapshot_service(WEB)[0], Up);
    let row = health.monitor_rows(WEB).swap_remove(0);
    assert_eq!((row.consecutive, row.last), (1, row.error.clone()));
    assert!(row.error.is_some_and(|e| e.starts_with("not checked, this host is out of resources")));
}

#[test]
fn events_of_another_model_or_from_nowhere_are_ignored() {
    let mut health = Health::new(&two_by_two());
    let nowhere = [(1, TCP, WEB, 0), (0, MonitorId(9), WEB, 0), (0, TCP, ServiceId(9), 0), (0, TCP, WEB, 9)];
    for (epoch, monitor, service, address) in nowhere {
        let result = ProbeResult { ok: false, detail: String::new(), took: Duration::ZERO };
        let event = HealthEvent::Result { epoch, monitor, service, address, result, at: Instant::now() };
        assert_eq!(health.apply(event), []);
    }
    assert_eq!(health.snapshot_service(WEB), [Undecided, Undecided]);
}

#[test]
fn a_disabled_monitor_counts_for_nothing() {
    let model = two_by_two();
    let mut health = Health::new(&model);
    report(&mut health, TCP, 0, true);
    report(&mut health, PAGE, 0, false);
    assert_eq!(health.snapshot_service(WEB)[0], Down);
    let moved = health.set_monitor_enabled(PAGE, false, Instant::now());
    assert_eq!(changes(&moved), [(0, Down, Up)]);
    assert_eq!(moved[0].detail, "monitor page disabled");
    assert!(health.jobs(&model).iter().all(|job| job.monitor == TCP));
    assert_eq!(report(&mut health, PAGE, 0, false), [], "a result that was under way");

    assert_eq!(health.set_monitor_enabled(PAGE, true, Instant::now()), []);
    assert_eq!(health.snapshot_service(WEB)[0], Up, "stays until it has spoken");
    assert_eq!(report(&mut health, PAGE, 0, false), [(0, Up, Down)]);
    assert_eq!(health.set_monitor_enabled(PAGE, true, Instant::now()), [], "it is enabled already");
}

#[test]
fn an_operator_overrules_checks_until_auto() {
    let mut health = Health::new(&two_by_two());
    let now = Instant::now();
    for (m, a) in [(TCP, 0), (PAGE, 0), (TCP, 1), (PAGE, 1)] {
        report(&mut health, m, a, true);
    }
    let moved = health.force_monitor(TCP, WEB, Force::Down, now).expect("bound");
    assert_eq!(changes(&moved), [(0, Up, Down), (1, Up, Down)]);
    assert_eq!(moved[0].detail, "monitor tcp forced down");
    assert_eq!(report(&mut health, TCP, 0, true), []);
    assert_eq!(changes(&health.force_service(WEB, Force::Up, now)), [(0, Down, Up), (1, Down, Up)]);
    assert_eq!(changes(&health.force_service(WEB, Force::Auto, now)), [(0, Up, Down), (1, Up, Down)]);
    let moved = health.force_monitor(TCP, WEB, Force::Auto, now).expect("bound");
    assert_eq!(changes(&moved), [(0, Down, Up), (1, Down, Up)], "the checks went on meanwhile");
}

#[test]
fn forcing_a_monitor_that_is_not_bound_is_refused() {
    let mut model = two_by_two();
    model.monitors.push(monitor("other", 1, 1));
    let refused = Health::new(&model).force_monitor(MonitorId(2), WEB, Force::Up, Instant::now());
    assert_eq!(
        refused.expect_err("not bound").to_string(),
        "monitor \"other\" does not check service \"web\""
    );
}

#[test]
fn a_restored_state_holds_until_the_checks_have_spoken() {
    let mut health = Health::new(&two_by_two());
    health.restore(WEB, 0, Up);
    health.restore(WEB, 9, Up);
    assert_eq!(health.snapshot_service(WEB), [Up, Undecided]);
    assert_eq!(report(&mut health, TCP, 0, true), []);
    assert_eq!(report(&mut health, PAGE, 0, false), [(0, Up, Down)]);
    health.restore(WEB, 0, Up);
    assert_eq!(health.snapshot_service(WEB)[0], Down, "decided: the journal is old");
}

#[test]
fn jobs_name_every_monitor_at_every_address() {
    let mut model = two_by_two();
    model.monitors[1].port = Some(8080);
    let jobs = Health::new(&model).jobs(&model);
    let keys: Vec<_> =
        jobs.iter().map(|job| (job.monitor, job.address, job.key.address.to_string())).collect();
    let v4 = || "192.0.2.1".to_owned();
    let v6 = || "2001:db8::1".to_owned();
    assert_eq!(keys, [(TCP, 0, v4()), (TCP, 1, v6()), (PAGE, 0, v4()), (PAGE, 1, v6())]);
    assert!(!jobs[0].probe.same_question(&jobs[2].probe), "another port");
}

#[test]
fn a_reload_keeps_what_still_holds() {
    let old_model = two_by_two();
    let mut old = Health::new(&old_model);
    report(&mut old, TCP, 0, true);
    report(&mut old, PAGE, 0, true);
    report(&mut old, TCP, 0, false);
    report(&mut old, TCP, 0, false);

    // Ids move, addresses move, thresholds change: the question is the same.
    let mut patient = monitor("tcp", 1, 4);
    patient.interval = Duration::from_secs(1);
    let new_model = model(
        vec![monitor("new", 1, 1), monitor("page", 2, 1), patient],
        vec![
            service("first", &["192.0.2.7"], &[(0, 1)], 0),
            service("web", &["192.0.2.9", "192.0.2.1"], &[(2, 1), (1, 1)], 0),
        ],
    );
    let mut new = Health::carry_over(&old, &old_model, &new_model);
    assert_eq!(new.epoch(), 1);
    assert_eq!(new.snapshot_service(ServiceId(0)), [Undecided]);
    assert_eq!(new.snapshot_service(ServiceId(1)), [Undecided, Up]);
    let mut fail = || {
        let result = ProbeResult { ok: false, detail: "refused".to_owned(), took: Duration::ZERO };
        let (service, monitor, at) = (ServiceId(1), MonitorId(2), Instant::now());
        changes(&new.apply(HealthEvent::Result { epoch: 1, monitor, service, address: 1, result, at }))
    };
    assert_eq!(fail(), [], "the third failure of four");
    assert_eq!(fail(), [(1, Up, Down)]);
}

#[test]
fn a_reload_that_asks_something_else_holds_the_state_until_the_answer() {
    let old_model = two_by_two();
    let mut old = Health::new(&old_model);
    for (m, a) in [(TCP, 0), (PAGE, 0)] {
        report(&mut old, m, a, true);
    }
    let mut new_model = two_by_two();
    new_model.monitors[0].port = Some(81);
    let mut new = Health::carry_over(&old, &old_model, &new_model);
    assert_eq!(new.snapshot_service(WEB), [Up, Undecided]);
    assert_eq!(new.monitor_rows(WEB)[0].state, Undecided);
    assert_eq!(report(&mut new, TCP, 0, false), [(0, Up, Down)], "its first result decides at once");
}

#[test]
fn a_reload_keeps_what_operators_said() {
    let model = two_by_two();
    let mut old = Health::new(&model);
    old.set_monitor_enabled(PAGE, false, Instant::now());
    old.force_monitor(TCP, WEB, Force::Down, Instant::now()).expect("bound");
    old.force_service(WEB, Force::Up, Instant::now());
    let new = Health::carry_over(&old, &model, &model);
    assert!(!new.monitor_enabled(PAGE));
    assert_eq!(new.monitor_rows(WEB)[0].force, Force::Down);
    assert_eq!((new.service_force(WEB), new.snapshot_service(WEB)), (Force::Up, vec![Up, Up]));
}
