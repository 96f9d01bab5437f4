//! Names that do not exist in zones of which all names are known: NXDOMAIN with the SOA (RFC 2308 2.1, RFC 8020).

use responder_common::counters::Counter;
use responder_user::model::DnsName;

use crate::lab::world::host_v4;
use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, Query, query},
        pin_to, read,
        run::Verdict,
        world::{self, name_of},
    },
    row::{self, Row, answer, no_data, pass, row},
};

fn complete() -> Lab {
    let lab = Lab::open_complete("complete", world::classless(), &world::snapshot);
    pin_to(0);
    lab
}

/// What a name below a zone without such a name gets: the reply of NODATA, but for the response code.
fn no_name(lab: &mut Lab, asked: &Query, apex: &str) {
    lab.rewind();
    let before = lab.counters();
    let frame = asked.build();
    let (verdict, out) = lab.runner().once(&frame);
    assert_eq!(verdict, Verdict::Tx, "{apex}");
    assert_eq!(Lab::risen(&before, &lab.counters()), [(Counter::AnswerNxdomain.name(), 1)]);
    let mut wanted = no_data(apex).reply(asked);
    if apex == "other.org" {
        wanted = no_data(apex)
            .mname("ns.elsewhere.net")
            .numbers([2_026_113_001, 7200, 900, 1_209_600, 300], 60)
            .reply(asked);
    }
    wanted.flags |= 3;
    row::check(asked, &frame, &out, &wanted).unwrap_or_else(|error| panic!("{apex}: {error}"));
    read::check_frame(&frame, &out).expect("a sound frame");
}

#[test]
fn what_no_zone_data_and_no_domain_have_does_not_exist() {
    let mut lab = complete();
    for name in [
        "nowhere.example.com",
        "a.b.c.d.nowhere.example.com",
        "below.one.example.com",
        "a.b.below.One.eXample.com",
        "onee.example.com",
        "*.example.com",
        "\\255\\001.example.com",
    ] {
        for qtype in [A, AAAA, 2, 5, 6, 15, 16, 64, 65, 65535] {
            no_name(&mut lab, &query(name, qtype), "example.com");
            no_name(&mut lab, &query(name, qtype).v6().opt_with(1232, 0x8000, &[]), "example.com");
        }
    }
    no_name(&mut lab, &query("nowhere.other.org", A), "other.org");
    // As long as can be.
    for octets in [60, 63] {
        let label = "x".repeat(octets);
        no_name(&mut lab, &query(&format!("{label}.example.com"), A).tag(0x8100, 1), "example.com");
    }
}

#[test]
fn what_exists_or_may_exist_is_never_denied() {
    let mut lab = complete();
    let rows: Vec<Row> = vec![
        row("a name of the table is answered", query("one.example.com", A), answer(&[host_v4(1, 1)])),
        row("an apex that is a name of the table, too", query("example.com", A), answer(&[host_v4(1, 1)])),
        row(
            "a type that a name lacks is no missing name",
            query("v4.example.com", AAAA),
            no_data("example.com"),
        ),
        row("an apex that no domain has is a worker's", query("edge.test", A), pass(Counter::PassOtherType)),
        row("a name in no zone", query("nowhere.example.net", A), pass(Counter::PassUnknownName)),
        row("a name above every zone", query("com", A), pass(Counter::PassUnknownName)),
        row("the parent of a zone of two labels", query("test", A), pass(Counter::PassUnknownName)),
        row("below a name that is its own apex", query("x.own.net", A), pass(Counter::PassUnknownName)),
        row(
            "seven labels below the apex",
            query("a.b.c.d.e.f.g.example.com", A),
            pass(Counter::PassUnknownName),
        ),
        row("an SOA too long for the program", query("nowhere.far.test", A), pass(Counter::PassLarge)),
        row("names that are not decided", query("undecided.example.com", A), pass(Counter::PassUndecided)),
    ];
    for row in &rows {
        row::run(&mut lab, row).unwrap_or_else(|error| panic!("{}: {error}", row.rule));
    }
    // Names that are too long for the table are never looked for.
    for octets in [105, 255] {
        let long = row(
            "long",
            crate::lab::frame::wire_query(name_of(octets).wire().to_vec(), A),
            pass(Counter::PassLongName),
        );
        row::run(&mut lab, &long).unwrap_or_else(|error| panic!("{octets}: {error}"));
    }
}

#[test]
fn a_zone_is_complete_only_while_all_names_are_in_the_table() {
    let mut lab = complete();
    no_name(&mut lab, &query("late.example.com", A), "example.com");
    // What a daemon does that takes the maps over.
    let compiled = &lab.compiled;
    let late = DnsName::parse("late.example.com").expect("a name");
    let mut names = compiled.names.fast.clone();
    let template = names.iter().find(|(name, _)| name.to_string() == "one.example.com").expect("there").1;
    names.push((late, template));
    names.sort_by(|a, b| a.0.cmp(&b.0));
    lab.compiled.names.fast = names;
    lab.reconcile();
    let row = row("the name that came", query("late.example.com", A), answer(&[host_v4(1, 1)]));
    row::run(&mut lab, &row).unwrap_or_else(|error| panic!("{error}"));
    no_name(&mut lab, &query("later.example.com", A), "example.com");
}
