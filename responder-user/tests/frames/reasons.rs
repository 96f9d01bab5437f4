//! Every reason to pass or drop has at least two rows: those of the table, and those here, which want a world in which
//! something has happened before.

use std::{collections::BTreeMap, time::Duration};

use responder_common::counters::Counter;
use responder_user::model::{DnsActionKind, Rule, Settings, settings::Limits};

use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, query},
        run::Verdict,
        world,
    },
    open_classless,
    row::{self, Row, Want, drop, pass, row},
    rows,
    support::add_preference,
};

/// Faults of ours, which no frame brings about.
const NEVER: [Counter; 3] = [Counter::DropBroken, Counter::PassTailroom, Counter::PassBroken];

/// While the daemon has been silent for too long.
fn silent() -> Vec<Row> {
    let stale = || pass(Counter::PassStale);
    vec![
        row("nothing is answered for a silent daemon", query("one.example.com", A), stale()),
        row("nor over IPv6 with OPT", query("one.example.com", AAAA).v6().opt(1232), stale()),
        row("nor behind a tag", query("v4.example.com", AAAA).tag(0x8100, 7), stale()),
    ]
}

/// Where the way back to the client leads elsewhere: no frame of a test run came in by an interface that leads to it.
fn routed() -> Vec<Row> {
    let elsewhere = || pass(Counter::PassRoute);
    vec![
        row(
            "nothing is answered where the way back leads elsewhere",
            query("one.example.com", A),
            elsewhere(),
        ),
        row("nor over IPv6 with OPT", query("one.example.com", AAAA).v6().opt(1232), elsewhere()),
        row("nor behind a tag", query("v4.example.com", AAAA).tag(0x8100, 7), elsewhere()),
    ]
}

/// Where a policy says to drop.
fn decided() -> Vec<Row> {
    let silence = || drop(Counter::DropDecision);
    vec![
        row("a policy drops a client's queries", query("one.example.com", A), silence()),
        row("for AAAA with OPT too", query("one.example.com", AAAA).opt(1232), silence()),
        row("and behind a tag", query("m8.example.com", A).tag(0x8100, 7), silence()),
    ]
}

/// While networks of clients are over their limit.
fn limited() -> Vec<Row> {
    let silence = || drop(Counter::DropLimited);
    vec![
        row("a client over its limit gets nothing", query("one.example.com", A), silence()),
        row("nor over IPv6 with OPT", query("one.example.com", AAAA).v6().opt(1232), silence()),
        row("nor where there is no data", query("v4.example.com", AAAA).from("198.51.100.7"), silence()),
    ]
}

#[test]
fn every_reason_to_pass_or_drop_has_two_rows() {
    let mut count: BTreeMap<Counter, usize> = BTreeMap::new();
    for row in [rows(), silent(), routed(), decided(), limited()].iter().flatten() {
        if let Want::Pass(counter) | Want::Drop(counter) = row.want {
            *count.entry(counter).or_default() += 1;
        }
    }
    for (counter, rows) in &count {
        println!("{:<32}{rows:>4}", counter.name());
    }
    let is_reason = |counter: &&Counter| !counter.is_answer() && !NEVER.contains(counter);
    let few: Vec<&str> = Counter::ALL
        .iter()
        .filter(is_reason)
        .filter(|counter| count.get(counter).is_none_or(|rows| *rows < 2))
        .map(|counter| counter.name())
        .collect();
    assert!(few.is_empty(), "reasons with fewer than two rows: {few:?}");
}

#[test]
fn a_silent_daemon_is_a_reason_for_every_frame() {
    let mut lab = open_classless("silent");
    lab.surround(Some(&|around| around.max_stale = Duration::from_millis(100)));
    lab.writer().world_mut().beat();
    std::thread::sleep(Duration::from_millis(300));
    for row in silent() {
        row::run(&mut lab, &row).unwrap_or_else(|error| panic!("{}: {error}", row.rule));
    }
}

#[test]
fn another_way_back_is_a_reason_for_every_frame() {
    let mut lab = open_classless("routed");
    let mut settings = lab.compiled.model.settings.clone();
    settings.xdp.route_check = true;
    lab.writer().limit(&settings).unwrap_or_else(|error| panic!("{error}"));
    for row in routed() {
        row::run(&mut lab, &row).unwrap_or_else(|error| panic!("{}: {error}", row.rule));
    }
}

#[test]
fn a_decision_is_a_reason_for_every_frame() {
    let mut model = world::classless();
    let rule = Rule::InSubnet("203.0.113.0/24".parse().expect("a prefix"));
    add_preference(&mut model, "silence", 10, rule, &["Nowhere"]);
    model.actions.last_mut().expect("just added").kind = DnsActionKind::Drop;
    let mut lab = Lab::open("decided", model, &world::snapshot);
    for row in decided() {
        row::run(&mut lab, &row).unwrap_or_else(|error| panic!("{}: {error}", row.rule));
    }
}

#[test]
fn a_limit_is_a_reason_for_every_frame() {
    let mut lab = open_classless("limited");
    let limits = Limits { responses_per_second: 1, slip: 0, max_amplification: 0.0, ..Limits::default() };
    let settings = Settings { limits, ..lab.compiled.model.settings.clone() };
    lab.writer().limit(&settings).unwrap_or_else(|error| panic!("{error}"));
    for row in limited() {
        let frame = row.frame.build();
        // A token that comes back at that very moment takes one frame more.
        let is_held = (0..3).any(|_| {
            let is_over = (0..100).any(|_| lab.runner().once(&frame).0 == Verdict::Drop);
            is_over && row::run(&mut lab, &row).is_ok()
        });
        assert!(is_held, "{}", row.rule);
    }
}
