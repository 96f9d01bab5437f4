//! What people see: every text against a golden file, for a terminal of 100 columns and for a pipe.

use std::{net::Ipv6Addr, sync::Arc, time::Duration};

use responder_common::session::{Key, Session};
use responder_user::{
    compile::{Compiled, name::StaticTypes},
    control::{
        View,
        command::{Question, ShowKind},
        explain::{Lanes, explain},
        render::{self, Style},
        session::Reading,
        show::show,
        view,
    },
    decide::Snapshot,
    model::{DnsName, ServiceId, vserver::Persistence},
};
use serde_json::json;

use crate::{
    fake::{golden, world},
    support::{ZMB_CLIENT, eight_sites},
};

const TERMINAL: Style = Style { terminal: true, width: Some(100) };
const PIPE: Style = Style { terminal: false, width: None };

fn shown(view: &View<'_>, style: Style, kind: ShowKind, name: Option<&str>) -> String {
    let title = format!("$ responderctl show {} {}", kind.name(), name.unwrap_or_default());
    format!("{}\n{}\n", title.trim_end(), render::show(style, kind, &show(view, kind, name).unwrap()))
}

#[test]
fn status_is_one_block() {
    let mut world = world();
    golden("status.golden", &render::status(&view::status(&world.view())));
    for service in &mut world.snapshot.services {
        service.admin = false;
    }
    world.interfaces.clear();
    world.problems.clear();
    world.journal.error = Some("write: No space left on device".to_owned());
    let mut view = world.view();
    (view.ready, view.rates) = (false, None);
    golden("status_bad.golden", &render::status(&view::status(&view)));
}

#[test]
fn lists_are_tables_or_lines() {
    use ShowKind::{Action, Domain, Location, Monitor, Policy, Record, Service, Vserver};
    let world = world();
    let view = world.view();
    for (style, file) in [(TERMINAL, "lists.golden"), (PIPE, "lists_piped.golden")] {
        let kinds = [Vserver, Service, Domain, Monitor, Location, Policy, Action, Record];
        golden(file, &kinds.map(|kind| shown(&view, style, kind, None)).concat());
    }
}

#[test]
fn sessions_are_a_table_or_lines() {
    let now = 1_000_000_000_000;
    let mut model = eight_sites();
    let persistence = Persistence {
        mask: 24,
        mask6: 56,
        timeout: Duration::from_mins(2),
        id: None,
        ignore_in_round_robin: false,
    };
    model.vservers[0].persistence = Some(persistence);
    let none = |_: &DnsName| StaticTypes::default();
    let compiled = Compiled::of(Arc::new(model), &none, &|_| None, &|_| None).unwrap();
    let keeping = compiled.keeping[0].as_ref().unwrap();
    let session = |client: [u64; 2], choice: usize, seconds: u64| {
        let key = Key { scope: keeping.rule.scope, client };
        (key, Session::new(&key, keeping.rule.choices[choice], now + seconds * 1_000_000_000, now))
    };
    let v4 = |address: [u8; 4]| [0, 0xffff_0000 | (u64::from(u32::from_le_bytes(address)) << 32)];
    let v6 = |address: &str| bytemuck::cast(address.parse::<Ipv6Addr>().unwrap().octets());
    let gone = Key { scope: 77, client: [0, 0] };
    let all = [
        session(v4([198, 51, 100, 0]), 1, 117),
        session(v4([10, 53, 0, 0]), 0, 3),
        session(v6("2001:db8:7::"), 7, 60),
        (gone, Session::new(&gone, keeping.rule.choices[0], now + 1, now)),
    ];
    let snapshot = Snapshot::with_down(&compiled.model, &[ServiceId(1)]);
    let list = Reading::of(&compiled, &snapshot, now).list(&all).unwrap();
    let shown = [TERMINAL, PIPE].map(|style| render::show(style, ShowKind::Session, &list));
    golden("sessions.golden", &shown.join("\n"));
}

#[test]
fn objects_are_blocks() {
    use ShowKind::{Domain, Location, Monitor, Service, Vserver};
    let world = world();
    let view = world.view();
    let all = [
        (Vserver, "www"),
        (Service, "hk"),
        (Monitor, "tcp"),
        (Domain, "alone.test"),
        (Domain, "*.com"),
        (Location, "10.53.0.9"),
    ];
    golden("objects.golden", &all.map(|(kind, name)| shown(&view, TERMINAL, kind, Some(name))).concat());
}

#[test]
fn explanations_read_like_stories() {
    let world = world();
    let questions = [
        ("www.example.com", "A", Some(ZMB_CLIENT)),
        ("www.example.com", "A", None),
        ("alone.test", "AAAA", None),
        ("www.example.com", "MX", None),
        ("alone.test", "SOA", None),
        ("below.alone.test", "A", None),
        ("example.com", "NS", None),
        ("www.example.net", "A", None),
    ];
    let texts = questions.map(|(name, rtype, client)| {
        let question = Question {
            name: name.to_owned(),
            rtype: rtype.to_owned(),
            client: client.map(|c| c.parse().unwrap()),
            ecs: client.map(|_| "203.0.113.0/24".to_owned()),
            verbose: client.is_some(),
        };
        render::explain(TERMINAL, &explain(&world.view(), &question, Lanes::default()).unwrap()) + "\n"
    });
    golden("explain.golden", &texts.concat());
}

#[test]
fn streams_are_lines() {
    let mut world = world();
    let events = world.events.to_value(None, None);
    let mut out = String::new();
    for style in [TERMINAL, PIPE] {
        out.extend(events.as_array().unwrap().iter().map(|e| render::event(style, e)));
        out += &render::stats(style, &view::stats(&world.view()));
        let mut watch = render::Watch::default();
        assert!(watch.rates(world.now, view::stats(&world.view())).is_none());
        world.counters[0].1 += 250;
        let later = world.now + std::time::Duration::from_secs(2);
        let rates = watch.rates(later, view::stats(&world.view())).unwrap();
        assert_eq!(rates, json!({"seconds": 2.0, "rates": {"xdp_answer_a": 125.0, "worker_answers": 0.0}}));
        out += &watch.text(style, "12:00", &rates).replace('\x1b', "ESC");
        out.push('\n');
    }
    golden("streams.golden", &out);
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let mut world = world();
    world.model.services[0].name = "in\x1b[2J\tx\u{9b}y".to_owned();
    let text = shown(&world.view(), PIPE, ShowKind::Service, None);
    let first = text.lines().nth(1).unwrap();
    assert!(first.starts_with("in [2J x y\tUP\t"), "{first:?}");
}
