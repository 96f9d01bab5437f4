//! The keys that stay (spec/config.md 1), and refusals.

use responder_common::counters::Counter;
use responder_user::{
    compile::class::Classes,
    control::{
        command::{ForceKind, Question, ShowKind, SwitchKind},
        explain::{Lanes, explain},
        show::{LIST_LIMIT, show},
        target::{self, Target},
        view::{stats, status},
    },
    model::{Method, MonitorId, ServiceId},
};
use serde_json::{Value, json};

use crate::{
    fake::{World, world},
    support::{ZMB_CLIENT, domain, range},
};

fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no key {key} in {value:#}");
    }
}

fn ask(world: &World, name: &str, rtype: &str, lanes: Lanes<'_>) -> Value {
    let question = Question {
        name: name.to_owned(),
        rtype: rtype.to_owned(),
        client: Some(ZMB_CLIENT.parse().unwrap()),
        verbose: true,
        ..Question::default()
    };
    explain(&world.view(), &question, lanes).unwrap()
}

#[test]
fn keys_stay() {
    let world = world();
    let view = world.view();
    let value = status(&view);
    has(&value, &["version", "generation", "ready", "uptime_seconds", "interfaces", "queries", "problems"]);
    has(&value["journal"], &["path", "records", "bytes", "error"]);
    has(&value["interfaces"][0], &["name", "mode", "link"]);
    assert_eq!(value["queries"], json!({"xdp": 1_234_567, "worker": 89, "dropped": 0}));
    assert_eq!(stats(&view), json!({"xdp_answer_a": 1_234_567, "worker_answers": 89}));

    let value = show(&view, ShowKind::Service, Some("hk")).unwrap();
    let keys = ["name", "admin", "primary", "effective", "threshold", "load", "monitors", "usable", "reason"];
    has(&value, &keys);
    has(&value["monitors"][0], &["name", "state", "last", "error"]);
    assert_eq!(value["usable"], false);
    assert_eq!(value["reason"], "tcp: connection refused");

    let value = ask(&world, "www.example.com", "A", Lanes::default());
    let keys = ["name", "type", "client", "class", "source", "policy", "owner", "tier", "method", "reason"];
    has(&value, &keys);
    has(&value, &["addresses", "ttl", "generation", "steps", "wire"]);
    for step in value["steps"].as_array().unwrap() {
        has(step, &["step", "outcome", "reason"]);
    }
    assert_eq!(value["addresses"], json!(["198.51.100.4"]), "hk is down, uk comes next");
    assert_eq!(value["tier"], "perfect match of preferred location 2");
    assert_eq!((&value["source"], &value["ttl"]), (&json!("xdp"), &json!(5)));
}

/// The keys that the documentation of `control` lists for a command, those inside of brackets left out.
fn documented(command: &str) -> Vec<String> {
    let text = include_str!("../../src/control/mod.rs");
    let row = text.lines().find(|line| line.starts_with(&format!("//! | `{command}` | "))).expect(command);
    let keys = row.splitn(3, " | ").nth(2).unwrap().trim_end_matches(" |");
    let mut depth = 0;
    let outer: String = keys
        .chars()
        .filter(|c| {
            depth += i32::from(matches!(c, '[' | '{' | '('));
            let keep = depth == 0;
            depth -= i32::from(matches!(c, ']' | '}' | ')'));
            keep
        })
        .collect();
    outer.split([',', ';']).map(|key| key.trim().trim_start_matches("for a name also ").to_owned()).collect()
}

/// Keys are added, never renamed: each that is written down is there.
#[test]
fn every_documented_key_is_there() {
    let world = world();
    let view = world.view();
    let shown = |kind, name| show(&view, kind, Some(name)).unwrap();
    let first = |value: Value| value[0].clone();
    for (command, value) in [
        ("status", status(&view)),
        ("show service", shown(ShowKind::Service, "hk")),
        ("show vserver", shown(ShowKind::Vserver, "www")),
        ("show domain", shown(ShowKind::Domain, "www.example.com")),
        ("show monitor", shown(ShowKind::Monitor, "tcp")),
        ("show location", first(show(&view, ShowKind::Location, None).unwrap())),
        ("show policy", first(show(&view, ShowKind::Policy, None).unwrap())),
        ("show action", first(show(&view, ShowKind::Action, None).unwrap())),
    ] {
        let keys = documented(command);
        assert!(keys.len() > 1, "{command}");
        has(&value, &keys.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let value = ask(&world, "www.example.com", "A", Lanes::default());
    for key in documented("explain").iter().filter(|key| !key.contains(' ')) {
        has(&value, &[key]);
    }
}

#[test]
fn what_is_not_decided_is_asked_of_the_worker() {
    let world = world();
    let nxdomain = |query: &[u8], _| {
        let mut reply = query.to_vec();
        (reply[2], reply[3]) = (0x85, 3);
        Some(reply)
    };
    let lanes = Lanes { reply: Some(&nxdomain), ..Lanes::default() };
    let value = ask(&world, "nobody.example.com", "A", lanes);
    assert_eq!((&value["rcode"], &value["source"]), (&json!("NXDOMAIN"), &json!("worker")));
    assert_eq!(value["reason"], "the zone has no such name");
    assert_eq!(value["wire"]["reply"].as_str().unwrap().get(..12), Some("000085030001"));

    let value = ask(&world, "www.example.net", "A", Lanes::default());
    assert_eq!((&value["rcode"], &value["owner"]), (&json!("REFUSED"), &Value::Null));
    assert_eq!(value["reason"], "no zone of ours holds the name");
    let value = ask(&world, "below.alone.test", "A", Lanes::default());
    assert_eq!(value["rcode"], "NXDOMAIN", "alone.test is its own apex");
}

#[test]
fn the_lane_has_its_reason() {
    let mut world = world();
    let lane = |world: &World, name: &str, rtype: &str, lanes: Lanes<'_>| {
        let value = ask(world, name, rtype, lanes);
        format!("{} {}", value["source"].as_str().unwrap(), value["source_reason"].as_str().unwrap())
    };
    let plain = Lanes::default();
    assert_eq!(
        lane(&world, "www.example.com", "TXT", plain),
        "xdp name, type and answer fit into the tables"
    );
    assert_eq!(
        lane(&world, "alone.test", "SOA", plain),
        "worker the name is an apex: it has SOA and NS records"
    );
    assert_eq!(lane(&world, "www.example.com", "ANY", plain), "worker the type is no data");
    let long = format!("{}.example.com", ["a".repeat(60), "b".repeat(60)].join("."));
    world.model.domains.push(domain(&long, 0, &[]));
    world.names = responder_user::control::NameIndex::of(&world.model);
    assert_eq!(lane(&world, &long, "A", plain), "worker the name is longer than 104 octets: 135");
    let verdict = |_: &[u8], _| Some(Counter::PassStale);
    let asked = Lanes { verdict: Some(&verdict), ..Lanes::default() };
    assert_eq!(lane(&world, "www.example.com", "A", asked), "worker the answers in the kernel are stale");
    world.model.vservers[0].multiple_ip_response = true;
    let ninth = world.model.services[1].addresses.clone();
    world.model.services[0]
        .addresses
        .extend(["198.51.100.77".parse::<std::net::IpAddr>().unwrap(), "198.51.100.78".parse().unwrap()]);
    world.model.services[1].addresses = ninth;
    world.snapshot.services[0].addresses = vec![responder_user::decide::AddressState::Up; 3];
    assert_eq!(lane(&world, "www.example.com", "A", plain), "worker 9 addresses are more than 8");
    world.snapshot.services[0].addresses[0] = responder_user::decide::AddressState::Undecided;
    let value = ask(&world, "www.example.com", "A", plain);
    assert_eq!((&value["rcode"], &value["ttl"]), (&json!("SERVFAIL"), &Value::Null));
    world.interfaces.clear();
    assert_eq!(lane(&world, "www.example.com", "A", plain), "worker XDP is off");
}

#[test]
fn what_does_not_exist_is_refused_in_one_line() {
    let world = world();
    let view = world.view();
    let refused = |kind, name| show(&view, kind, Some(name)).unwrap_err().message;
    assert_eq!(refused(ShowKind::Vserver, "ww"), "no vserver \"ww\"; did you mean \"www\"?");
    assert_eq!(
        refused(ShowKind::Service, "qqq"),
        "no service \"qqq\"; `responderctl show service` lists them"
    );
    assert_eq!(refused(ShowKind::Record, "x"), "no record \"x\": none is configured");
    assert_eq!(
        refused(ShowKind::Domain, "x.example.com"),
        "no domain \"x.example.com\"; `responderctl explain x.example.com A` says what is answered for it"
    );
    assert_eq!(refused(ShowKind::Domain, "a..b"), "\"a..b\" has an empty label");
    assert_eq!(refused(ShowKind::Location, "192.0.2.1"), "no range of locations holds 192.0.2.1");
    let question = |rtype: &str, ecs: Option<&str>| Question {
        name: "a.b".to_owned(),
        rtype: rtype.to_owned(),
        ecs: ecs.map(str::to_owned),
        ..Question::default()
    };
    let refused = |q: &Question| explain(&view, q, Lanes::default()).unwrap_err().message;
    assert_eq!(refused(&question("B", None)), "\"B\" is no record type; A, AAAA, … or TYPE123");
    assert_eq!(refused(&question("A", Some("x/y"))), "--ecs: \"x/y\" is neither a prefix nor an address");
}

/// The fault: ECS was ignored, it said, whatever was done with it.
#[test]
fn explain_says_what_a_client_subnet_does() {
    let mut world = world();
    world.model.vservers[0].ecs = true;
    world.model.vservers[0].method = Method::StaticProximity;
    world.model.locations.custom.push(range("192.0.2.0", "192.0.2.127", "Europe.UK"));
    world.classes = Classes::of(&world.model).unwrap();
    let ask = |world: &World, client: &str, ecs: &str| {
        let question = Question {
            name: "www.example.com".to_owned(),
            rtype: "A".to_owned(),
            client: Some(client.parse().unwrap()),
            ecs: Some(ecs.to_owned()),
            verbose: false,
        };
        let value = explain(&world.view(), &question, Lanes::default()).unwrap();
        let steps = value["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == "ecs").unwrap();
        let text = |key: &str| step[key].as_str().unwrap().to_owned();
        (text("outcome"), text("reason"), value["addresses"][0].as_str().unwrap().to_owned())
    };
    let told =
        |outcome: &str, reason: &str, first: &str| (outcome.to_owned(), reason.to_owned(), first.to_owned());
    let far = "198.51.100.9";
    assert_eq!(
        ask(&world, far, "192.0.2.0/24"),
        told(
            "192.0.2.0/24 counts",
            "located at Europe.UK; policies look at 198.51.100.9; scope 25",
            "198.51.100.4"
        )
    );
    let by_policy = "a policy decides for the source: scope 0";
    assert_eq!(ask(&world, "10.53.0.2", "192.0.2.0/24").1, by_policy);
    assert_eq!(ask(&world, far, "192.0.2.0/0").1, "it names nobody");
    world.model.vservers[0].ecs_validation = true;
    let aside = "ecs_validation sets it aside: it is not of the Internet";
    assert_eq!(ask(&world, far, "10.1.2.0/24"), told("10.1.2.0/24 is ignored", aside, "198.51.100.1"));
    world.model.vservers[0].method = Method::RoundRobin;
    assert_eq!(
        ask(&world, far, "192.0.2.0/24").1,
        "the answer does not depend on where a client is: scope 0"
    );
    world.model.vservers[0].ecs = false;
    assert_eq!(ask(&world, far, "192.0.2.0/24").1, "no virtual server uses the client subnet");
}

#[test]
fn a_list_that_would_hold_up_the_daemon_is_refused() {
    let mut world = world();
    for i in 0..LIST_LIMIT {
        world.model.domains.push(domain(&format!("n{i}.big.test"), 0, &[]));
    }
    let refusal = show(&world.view(), ShowKind::Domain, None).unwrap_err();
    assert_eq!(
        refusal.message,
        "10002 objects of kind domain are more than one list holds (10000); name one, or all below one: *.NAME"
    );
    let below = show(&world.view(), ShowKind::Domain, Some("*.big.test")).unwrap();
    assert_eq!(below.as_array().map(Vec::len), Some(LIST_LIMIT));
}

#[test]
fn names_lead_to_objects() {
    let model = world().model;
    assert_eq!(target::switch(&model, SwitchKind::Service, "uk"), Ok(Target::Service(ServiceId(3))));
    assert_eq!(target::force(&model, ForceKind::Monitor, "tcp"), Ok(Target::Monitor(MonitorId(0))));
    assert_eq!(
        target::force(&model, ForceKind::Monitor, "tcp@hk"),
        Ok(Target::MonitorAt(MonitorId(0), ServiceId(2)))
    );
    assert_eq!(
        target::force(&model, ForceKind::Monitor, "tcp@uk").unwrap_err().message,
        "monitor \"tcp\" does not check service \"uk\""
    );
}
