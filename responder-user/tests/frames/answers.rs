//! What is answered: counts of addresses, rotation, NODATA, what is passed on purpose.

use std::time::Duration;

use responder_common::counters::Counter;

use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, query, wire_query},
        read,
        world::{host_v4, host_v6, name_of, snapshot},
    },
    open_classless,
    row::{self, Row, answer, no_data, pass, row},
};

pub fn rows() -> Vec<Row> {
    let v4 = |pool: u8, n: u8| answer(&(1..=n).map(|i| host_v4(pool, i)).collect::<Vec<_>>());
    let v6 = |pool: u8, n: u8| answer(&(1..=n).map(|i| host_v6(pool, i)).collect::<Vec<_>>());
    let mut rows = Vec::new();
    for n in 1..=8_u8 {
        let name = format!("m{n}.example.com");
        rows.push(row(&format!("{n} A records are written"), query(&name, A), v4(10 + n, n)));
        rows.push(row(&format!("{n} AAAA records are written"), query(&name, AAAA), v6(10 + n, n)));
        rows.push(row(
            &format!("{n} A records over IPv6 with OPT"),
            query(&name, A).v6().opt(4096),
            v4(10 + n, n),
        ));
        rows.push(row(
            &format!("{n} AAAA records over IPv6 with OPT"),
            query(&name, AAAA).v6().opt(4096),
            v6(10 + n, n),
        ));
        let frame = query(&name, AAAA).tag(0x8100, 5).opt(0);
        rows.push(row(&format!("{n} AAAA records behind a tag for a small payload"), frame, v6(10 + n, n)));
    }
    rows.extend([
        row("nine A records pass", query("m9.example.com", A), pass(Counter::PassLarge)),
        row("nine AAAA records pass", query("m9.example.com", AAAA).v6().opt(4096), pass(Counter::PassLarge)),
        row(
            "nine addresses: another type is NODATA all the same",
            query("m9.example.com", 16),
            no_data("example.com"),
        ),
        row("the first turn of weights", query("weights.example.com", A), answer(&[host_v4(30, 1)])),
        row("AAAA of a name with A alone is NODATA", query("v4.example.com", AAAA), no_data("example.com")),
        row("A of a name with A alone is answered", query("v4.example.com", A), answer(&[host_v4(2, 1)])),
        row("A of a name with AAAA alone is NODATA", query("v6.example.com", A).v6(), no_data("example.com")),
        row(
            "AAAA of a name with AAAA alone is answered",
            query("v6.example.com", AAAA).v6(),
            answer(&[host_v6(3, 1)]),
        ),
        row(
            "A is NODATA when all is down and empty is wanted",
            query("empty.example.com", A),
            no_data("example.com"),
        ),
        row(
            "AAAA is NODATA when all is down and empty is wanted",
            query("empty.example.com", AAAA).v6().opt(512),
            no_data("example.com"),
        ),
        row("TXT of an empty name is NODATA", query("empty.example.com", 16), no_data("example.com")),
        row("all addresses when all is down", query("down.example.com", A), v4(32, 2)),
        row("A of an undecided name passes", query("undecided.example.com", A), pass(Counter::PassUndecided)),
        row(
            "AAAA of an undecided name passes",
            query("undecided.example.com", AAAA).v6().opt(1232),
            pass(Counter::PassUndecided),
        ),
        row("MX of an undecided name is NODATA", query("undecided.example.com", 15), no_data("example.com")),
        row(
            "A of a name with zone data passes where the zone has it",
            query("zone-a.example.com", A),
            pass(Counter::PassOtherType),
        ),
        row("AAAA of that name is answered", query("zone-a.example.com", AAAA), answer(&[host_v6(3, 1)])),
        row(
            "AAAA of a name with zone data passes where the zone has it",
            query("zone-aaaa.example.com", AAAA),
            pass(Counter::PassOtherType),
        ),
        row("A of the other name is answered", query("zone-aaaa.example.com", A), answer(&[host_v4(2, 1)])),
        row(
            "MX of a name with other zone data passes",
            query("mail.example.com", 15),
            pass(Counter::PassOtherType),
        ),
        row(
            "type 65535 of a name with other zone data passes",
            query("mail.example.com", 65535),
            pass(Counter::PassOtherType),
        ),
        row(
            "A of a name with other zone data is answered",
            query("mail.example.com", A),
            answer(&[host_v4(1, 1)]),
        ),
        row("SOA of the apex passes", query("example.com", 6), pass(Counter::PassOtherType)),
        row("NS of the apex passes", query("example.com", 2), pass(Counter::PassOtherType)),
        row("A of the apex is answered", query("example.com", A), answer(&[host_v4(1, 1)])),
        row("AAAA of the apex is answered", query("EXAMPLE.com", AAAA).v6(), answer(&[host_v6(1, 1)])),
        row("MX of the apex is NODATA", query("example.com", 15), no_data("example.com")),
        row("SOA of a name that is its own apex passes", query("own.net", 6), pass(Counter::PassOtherType)),
        row(
            "NS of a name that is its own apex passes",
            query("own.net", 2).opt(1232),
            pass(Counter::PassOtherType),
        ),
        row("TXT of a name that is its own apex has its own SOA", query("own.net", 16), no_data("own.net")),
        row("TXT of that name over IPv6 with OPT", query("OWN.net", 16).v6().opt(1232), no_data("own.net")),
        row("a configured SOA is said as it is configured", query("www.other.org", 16), other_org()),
        row(
            "the same over IPv6 with OPT",
            query("www.other.org", 65).v6().opt_with(1232, 0x8000, &[]),
            other_org(),
        ),
        row("the same at its apex", query("other.org", 16), other_org()),
        row("the root is its own apex", query(".", 16), no_data(".")),
        row(
            "a primary server's name of 32 octets is written",
            query("a.edge.test", 16),
            no_data("edge.test").mname(&name_of(32).to_string()),
        ),
        row("a primary server's name of 33 octets passes", query("a.far.test", 16), pass(Counter::PassLarge)),
        row(
            "A below a long primary server's name is answered",
            query("a.far.test", A),
            answer(&[host_v4(1, 1)]),
        ),
    ]);
    for octets in [3, 33, 64, 65, 66, 95, 96, 97, 103, 104] {
        let name = name_of(octets);
        let frame = wire_query(name.wire().to_vec(), 16).opt(1232);
        let rule = format!("the SOA of a name of {octets} octets that is its own apex");
        rows.push(row(&rule, frame, no_data(&name.to_string())));
    }
    rows
}

fn other_org() -> row::Want {
    let numbers = [2_026_113_001, 7200, 900, 1_209_600, 300];
    no_data("other.org").mname("ns.elsewhere.net").numbers(numbers, 60)
}

/// The first address of each of so many answers.
fn firsts(lab: &Lab, name: &str, turns: usize) -> Vec<Vec<u8>> {
    let frame = query(name, A).build();
    let first = |_| {
        let (_, out) = lab.runner().once(&frame);
        let message = read::message(&out).unwrap_or_else(|error| panic!("{error}"));
        let reply = read::reply(message).unwrap_or_else(|error| panic!("{error}"));
        reply.answers[0].data.clone()
    };
    (0..turns).map(first).collect()
}

#[test]
fn weights_are_exact_over_every_round() {
    let mut lab = open_classless("weights");
    lab.rewind();
    for round in firsts(&lab, "weights.example.com", 80).chunks(8) {
        let count = |host: u8| round.iter().filter(|data| data[3] == host).count();
        assert_eq!([count(1), count(2), count(3)], [5, 2, 1]);
    }
}

#[test]
fn every_address_of_a_set_stands_first_in_turn() {
    let mut lab = open_classless("turns");
    lab.rewind();
    for n in 2..=8_u8 {
        let hosts: Vec<u8> = firsts(&lab, &format!("m{n}.example.com"), 24).iter().map(|d| d[3]).collect();
        let wanted: Vec<u8> = (0..24).map(|turn| turn % n + 1).collect();
        assert_eq!(hosts, wanted);
    }
}

#[test]
fn other_names_and_types_do_not_take_a_turn() {
    let mut lab = open_classless("apart");
    lab.rewind();
    let mut hosts = Vec::new();
    for _ in 0..6 {
        hosts.push(firsts(&lab, "m3.example.com", 1)[0][3]);
        lab.runner().once(&query("m3.example.com", AAAA).build());
        lab.runner().once(&query("m3.example.com", 16).build());
        lab.runner().once(&query("m2.example.com", A).build());
    }
    assert_eq!(hosts, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn the_serial_is_the_generation_of_the_last_plan() {
    let mut lab = open_classless("serial");
    let health = snapshot(&lab.compiled.model);
    lab.publish(&health, 0x1_0000_0007);
    let numbers = [7, 3600, 600, 86400, 5];
    let rows = [
        row(
            "a zone without a serial",
            query("one.example.com", 16),
            no_data("example.com").numbers(numbers, 5),
        ),
        row("a zone with a serial", query("www.other.org", 16), other_org()),
    ];
    for row in &rows {
        row::run(&mut lab, row).unwrap_or_else(|error| panic!("{}: {error}", row.rule));
    }
}

#[test]
fn a_silent_daemon_is_not_spoken_for() {
    let mut lab = open_classless("stale");
    let v4 = || answer(&[host_v4(1, 1)]);
    let expect = |lab: &mut Lab, want, what: &str| {
        let row = row(what, query("one.example.com", A), want);
        row::run(lab, &row).unwrap_or_else(|error| panic!("{what}: {error}"));
    };
    lab.surround(Some(&|around| around.max_stale = Duration::from_millis(200)));
    lab.writer().world_mut().beat();
    jiffy();
    expect(&mut lab, v4(), "just heard of");
    std::thread::sleep(Duration::from_millis(400));
    expect(&mut lab, pass(Counter::PassStale), "silent for too long");
    lab.writer().world_mut().beat();
    jiffy();
    expect(&mut lab, v4(), "heard of again");
    std::thread::sleep(Duration::from_millis(400));
    expect(&mut lab, pass(Counter::PassStale), "silent again");
    lab.surround(Some(&|around| around.max_stale = Duration::ZERO));
    expect(&mut lab, v4(), "no limit");
}

/// The program looks at the clock once a jiffy.
fn jiffy() {
    std::thread::sleep(Duration::from_millis(30));
}
