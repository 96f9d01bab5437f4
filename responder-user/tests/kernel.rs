//! scratch
use std::{net::{IpAddr, Ipv4Addr}, sync::Arc};
use aya::programs::{TestRun, TestRunOptions};
use responder_user::{compile::Compiled, decide::{Snapshot, OwnerId}, model::*, publish::writer::Writer};
use responder_user::model::{service::Service, vserver::*, settings::*};

#[test]
fn first() {
    let mut settings = Settings { listen: vec!["127.0.0.1:53".parse().unwrap()], ..Settings::default() };
    settings.xdp = Xdp { interfaces: vec!["lo".into()], mode: XdpMode::Generic, pin_path: "/sys/fs/bpf/responder-test".into(), ..Xdp::default() };
    let model = Model {
        settings: settings.clone(),
        services: (1..=3).map(|i| Service { name: format!("s{i}"), addresses: vec![IpAddr::V4(Ipv4Addr::new(192,0,2,i))], cname: None, port: 80, location: None, coordinates: None, monitors: vec![], monitor_threshold: 0, enabled: true, site: None }).collect(),
        vservers: vec![Vserver { name: "www".into(), service_type: "ANY".into(), types: vec![RecordType::A], method: Method::RoundRobin, backup_method: None, services: (0..3).map(|i| Bound { service: ServiceId(i), weight: 1, order: None }).collect(), backup: None, multiple_ip_response: false, empty_down_response: false, enabled: true }],
        domains: vec![Domain { name: DnsName::parse("www.example.com").unwrap(), vserver: VserverId(0), ttl: 5, backup_ip: Arc::from([]) }],
        ..Model::default()
    };
    let compiled = Compiled::of(Arc::new(model), &|_| Default::default(), &|_| None).unwrap();
    let (mut w, start) = Writer::open(&settings, &compiled, Arc::new(|| ())).unwrap();
    println!("{start:?} verified {:?}", w.program_mut().unwrap().verified_instructions());
    let snap = Snapshot::all_up(&compiled.model);
    let side = compiled.numbering.side(OwnerId(0), RecordType::A).unwrap();
    let n = w.publish(side, &compiled.columns(&snap, OwnerId(0), RecordType::A), 1).unwrap();
    w.world_mut().end_batch(1);
    println!("published {n}");
    let mut frame: Vec<u8> = vec![0;6]; frame.extend([2,0,0,0,0,1]); frame.extend([8,0]);
    let dns: Vec<u8> = [&[0x12,0x34,1,0,0,1,0,0,0,0,0,0][..], b"\x03wWw\x07example\x03com\x00", &[0,1,0,1]].concat();
    let total = (28 + dns.len()) as u16;
    frame.extend([0x45,0]); frame.extend(total.to_be_bytes()); frame.extend([0,0,0,0,64,17,0,0, 198,51,100,7, 127,0,0,1]);
    frame.extend(4000u16.to_be_bytes()); frame.extend(53u16.to_be_bytes()); frame.extend(((8+dns.len()) as u16).to_be_bytes()); frame.extend([0,0]);
    frame.extend(&dns);
    for _ in 0..2 {
    let mut out = vec![0; 2048];
    let r = w.program_mut().unwrap().xdp().unwrap().test_run(TestRunOptions { data_in: Some(&frame), data_out: Some(&mut out), ..TestRunOptions::default() }).unwrap();
    out.truncate(r.data_size_out as usize);
    println!("ret {} {:02x?}", r.return_value, &out);
    for (i, c) in w.counters().iter().enumerate() { if *c > 0 { println!("{} {c}", responder_common::counters::Counter::ALL[i].name()); } }
    }
    w.close(OnExit::Detach).unwrap();
}
