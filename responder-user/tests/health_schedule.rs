//! The scheduler and the states together, against services that come and go.

use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    time::{Duration, Instant},
};

use responder_user::{
    health::{AddressState, Health, HealthEvent, Scheduler, Transition},
    model::{Model, Monitor, MonitorId, MonitorKind, Service, ServiceId},
};
use tokio::sync::mpsc;

const INTERVAL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);

/// One TCP monitor over services at these ports of 127.0.0.1.
fn model(ports: &[u16]) -> Model {
    let monitor = Monitor {
        name: "tcp".to_owned(),
        kind: MonitorKind::Tcp,
        interval: INTERVAL,
        timeout: INTERVAL,
        rise: 1,
        fall: 3,
        port: None,
        enabled: true,
    };
    let service = |port: &u16| Service {
        name: format!("s{port}"),
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        port: *port,
        monitors: vec![(MonitorId(0), 1)],
        monitor_threshold: 0,
        enabled: true,
        ..Service::default()
    };
    Model { monitors: vec![monitor], services: ports.iter().map(service).collect(), ..Model::default() }
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

async fn next(rx: &mut mpsc::Receiver<HealthEvent>) -> HealthEvent {
    tokio::time::timeout(PATIENCE, rx.recv()).await.expect("in time").expect("the scheduler runs")
}

async fn next_transition(rx: &mut mpsc::Receiver<HealthEvent>, health: &mut Health) -> Transition {
    loop {
        if let Some(transition) = health.apply(next(rx).await).pop() {
            return transition;
        }
    }
}

#[tokio::test]
async fn a_death_is_seen_within_its_intervals_and_a_return_at_once() {
    let (listener, port) = listen();
    let model = model(&[port]);
    let mut health = Health::new(&model);
    let (tx, mut rx) = mpsc::channel(16);
    let _scheduler = Scheduler::start(health.jobs(&model), tx);
    assert_eq!(next_transition(&mut rx, &mut health).await.to, AddressState::Up);

    drop(listener);
    let died = Instant::now();
    let down = next_transition(&mut rx, &mut health).await;
    assert_eq!((down.to, down.detail.as_str()), (AddressState::Down, "connection refused"));
    let seen = down.at - died;
    assert!(seen > INTERVAL * 2 && seen < INTERVAL * 3 + Duration::from_millis(100), "{seen:?}");

    let _again = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
    let returned = Instant::now();
    let up = next_transition(&mut rx, &mut health).await;
    assert_eq!(up.to, AddressState::Up);
    assert!(up.at - returned < INTERVAL + Duration::from_millis(100));
}

#[tokio::test]
async fn a_reload_leaves_the_beat_of_what_stays_alone() {
    let (_kept, kept_port) = listen();
    let (_gone, gone_port) = listen();
    let mut old_model = model(&[gone_port, kept_port]);
    let mut health = Health::new(&old_model);
    let (tx, mut rx) = mpsc::channel(1024);
    let mut scheduler = Scheduler::start(health.jobs(&old_model), tx);
    for _ in 0..4 {
        health.apply(next(&mut rx).await);
    }
    // Reloads that come faster than checks: a beat that began anew each time would check at every one of them.
    let began = scheduler.stats().started;
    let start = Instant::now();
    for _ in 0..100 {
        let new_model = model(&[kept_port]);
        health = Health::carry_over(&health, &old_model, &new_model);
        scheduler.reload(health.jobs(&new_model));
        old_model = new_model;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let turns = start.elapsed().div_duration_f64(INTERVAL);
    let checks = (scheduler.stats().started - began) as f64;
    assert!((checks - turns).abs() <= 2.0, "{checks} checks in {turns:.1} intervals");
    while let Ok(event) = rx.try_recv() {
        health.apply(event);
    }
    // What comes now comes under the newest ids, and is heard.
    let HealthEvent::Result { epoch, service, .. } = next(&mut rx).await else { panic!("a fault") };
    assert_eq!((epoch, service), (health.epoch(), ServiceId(0)));
    assert_eq!(health.snapshot_service(ServiceId(0)), [AddressState::Up]);
}

#[tokio::test]
async fn a_disabled_monitor_is_not_run() {
    let (_listener, port) = listen();
    let model = model(&[port]);
    let mut health = Health::new(&model);
    let (tx, mut rx) = mpsc::channel(16);
    let mut scheduler = Scheduler::start(health.jobs(&model), tx);
    next(&mut rx).await;
    health.set_monitor_enabled(MonitorId(0), false, Instant::now());
    scheduler.reload(health.jobs(&model));
    while rx.try_recv().is_ok() {}
    let more = tokio::time::timeout(INTERVAL * 4, rx.recv()).await;
    assert!(more.is_err(), "{more:?}");
}

#[test]
fn a_thread_of_its_own_checks_while_the_caller_is_busy_and_ends_with_the_handle() {
    let (_listener, port) = listen();
    let model = model(&[port]);
    let health = Health::new(&model);
    let (tx, mut rx) = mpsc::channel(64);
    let scheduler = Scheduler::start_thread(health.jobs(&model), tx).expect("a thread");
    std::thread::sleep(INTERVAL * 10);
    let stats = scheduler.stats();
    assert!((8..=12).contains(&stats.started), "{stats:?}");
    drop(scheduler);
    // Closed when the last task is gone; a check that was lost on the way would keep this waiting.
    while rx.blocking_recv().is_some() {}
}
