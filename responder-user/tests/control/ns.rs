//! `ns`: what the commands of NetScaler show, as text and with NITRO's keys.

use std::{collections::BTreeMap, path::Path, time::Duration};

use responder_user::{
    compile::class::Classes,
    config::{
        self,
        import::{Outcome, Session},
    },
    control::{
        EventKind, NameIndex, Refusal,
        ns::{self, Wanted},
        render,
    },
    decide::{AddressState, Figure, Memory, Owners, Snapshot},
    health::Health,
    model::RecordType,
};
use serde_json::{Map, Value, json};

use crate::fake::{World, golden, noon, world};

/// Everything of `ns.toml`: hk up, uk with a busy CPU, spare with the states of what it stands for.
fn rich() -> World {
    let text = include_str!("ns.toml");
    let model = config::parse(text, Path::new("ns.toml")).unwrap_or_else(|error| panic!("{error}")).model;
    let mut out = world();
    out.names = NameIndex::of(&model);
    out.owners = Owners::of(&model);
    out.classes = Classes::of(&model).unwrap();
    out.health = Health::new(&model);
    out.snapshot = Snapshot::initial(&model);
    out.counters.push(("zone_example.com_xdp".to_owned(), 77));
    text.clone_into(&mut out.text);
    let figure = |value: f64| Figure { value, at: Duration::ZERO };
    let services = &mut out.snapshot.services;
    services[0].addresses.fill(AddressState::Up);
    services[0].load = BTreeMap::from([("connections".to_owned(), figure(12.0))]);
    services[1].load =
        BTreeMap::from([("cpu".to_owned(), figure(91.0)), ("connections".to_owned(), figure(30.0))]);
    let up = Memory { was_up: true, ..Memory::default() };
    out.snapshot.vservers[0].memory[RecordType::A as usize] = up;
    out.events.record(noon(), EventKind::State, "vserver www", "is up", Map::new());
    out.model = model;
    out
}

fn try_look(world: &World, line: &str) -> Result<Value, Refusal> {
    let mut session = Session::of(&world.text, Path::new("ns.toml")).unwrap();
    let reply = session.run(line);
    assert_eq!(reply.outcome, Outcome::Show, "{line}");
    ns::look(&world.view(), session.store(), &Wanted::of(&reply.asked.unwrap()), &[])
}

fn look(world: &World, line: &str) -> Value {
    try_look(world, line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn printed(world: &World, line: &str) -> String {
    format!("> {line}\n{}\n", render::ns(&look(world, line)))
}

const SHOWN: [&str; 28] = [
    "show gslb vserver",
    "show gslb vserver www",
    "stat gslb vserver",
    "stat gslb vserver www",
    "show gslb service",
    "show gslb service hk",
    "stat gslb service",
    "stat gslb service uk",
    "show gslb domain",
    "show gslb domain www.example.com",
    "stat gslb domain",
    "show gslb site",
    "show gslb site london",
    "show location",
    "show location 203.0.113.7",
    "show locationParameter",
    "show dns policy",
    "show dns policy polInside",
    "show dns action",
    "show dns global",
    "show dns view",
    "show dns view inside",
    "show lb vserver",
    "show lb vserver mylbvserver",
    "show lb vserver kept",
    "show lb monitor",
    "show lb monitor busy",
    "show gslb parameter",
];

#[test]
fn every_show_and_stat_has_the_layout_of_netscaler() {
    let world = rich();
    golden("ns.golden", &SHOWN.map(|line| printed(&world, line)).concat());
}

#[test]
fn the_keys_are_those_of_nitro() {
    let world = rich();
    let all: Vec<Value> =
        SHOWN.iter().map(|line| json!({"command": line, "answer": look(&world, line)})).collect();
    golden("ns.json.golden", &format!("{:#}\n", Value::Array(all)));
}

#[test]
fn states_change_what_is_shown() {
    let mut world = rich();
    let one = |world: &World, line: &str| look(world, line)["gslbvserver"][0].clone();
    let www = one(&world, "show gslb vserver www");
    assert_eq!(
        (&www["curstate"], &www["threshold"], &www["latched"]),
        (&json!("UP"), &json!("BELOW"), &json!(false))
    );
    assert_eq!(
        www["gslbvserver_gslbservice_binding"][1]["thresholdvalue"], "ABOVE",
        "a busy CPU withdraws uk"
    );
    // Over its spillover threshold.
    world.snapshot.services[0].load.get_mut("connections").unwrap().value = 90.0;
    let www = one(&world, "show gslb vserver www");
    assert_eq!((&www["threshold"], &www["spilled"]), (&json!("ABOVE"), &json!(true)));
    // Down, with its latch.
    world.snapshot.services[0].addresses.fill(AddressState::Down);
    world.snapshot.services[1].admin = false;
    world.snapshot.vservers[0].memory[RecordType::A as usize].latched = true;
    let www = one(&world, "show gslb vserver www");
    assert_eq!((&www["curstate"], &www["latched"]), (&json!("DOWN"), &json!(true)));
    assert_eq!(www["gslbvserver_gslbservice_binding"][1]["curstate"], "OFS");
    let text = render::ns(&look(&world, "show gslb vserver www"));
    assert!(text.contains("Primary Latch: SET"), "{text}");
    world.snapshot.vservers[0].enabled = false;
    assert_eq!(one(&world, "show gslb vserver WWW")["curstate"], "OFS", "names have no case");
}

#[test]
fn a_name_that_does_not_exist_is_no_such_resource() {
    let world = rich();
    for (line, said) in [
        ("show gslb vserver nobody", "No such resource [name, nobody]"),
        ("stat gslb vserver nobody", "No such resource [name, nobody]"),
        ("show gslb service nobody", "No such resource [serviceName, nobody]"),
        ("show gslb site nobody", "No such resource [siteName, nobody]"),
        ("show gslb domain nobody.example", "No such resource [name, nobody.example]"),
        ("show location 9.9.9.9", "No such resource [IPfrom, 9.9.9.9]"),
        ("show dns action nobody", "No such resource [actionName, nobody]"),
        ("show dns policy nobody", "No such resource [name, nobody]"),
        ("show dns view nobody", "No such resource [viewName, nobody]"),
        ("show lb vserver nobody", "No such resource [name, nobody]"),
    ] {
        assert_eq!(try_look(&world, line).unwrap_err().message, said, "{line}");
    }
}

/// Names come from outside; a terminal must not obey them.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut world = rich();
    world.model.services[0].site = Some("a\u{1b}[31m\nb".to_owned());
    world.model.vservers[0].service_type = "\u{7}HTTP".to_owned();
    for line in SHOWN {
        let text = printed(&world, line);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{line}: {text:?}");
    }
}
