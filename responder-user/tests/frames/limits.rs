//! Who gets no answer, or a truncated one: amplification, response rate limiting, slip, allowed prefixes.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};
use responder_common::{counters::Counter, limit::Verdict as Limited};
use responder_user::{
    model::{Settings, settings::Limits},
    worker::{Names, Outcome, Responses, Transport, answer},
};

use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, Query, query},
        read,
        run::Verdict,
        world::{host_v4, host_v6},
    },
    open_classless,
    row::{self, Row, Want, answer as addresses, no_data, row, truncated},
};

/// Puts limits in force.
fn limit(lab: &mut Lab, limits: &Limits) {
    let settings = Settings { limits: limits.clone(), ..lab.compiled.model.settings.clone() };
    lab.writer().limit(&settings).unwrap_or_else(|error| panic!("{error}"));
}

fn run_all(lab: &mut Lab, rows: &[Row]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| row::run(lab, row).err().map(|error| format!("{}: {error}", row.rule)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// The first addresses of a name with so many.
fn first(pool: u8, count: usize, v6: bool) -> Want {
    let host = |i| if v6 { host_v6(pool, i) } else { host_v4(pool, i) };
    addresses(&(1..=count as u8).map(host).collect::<Vec<_>>())
}

/// `m8.example.com` has eight addresses of which seven are extras; its query has 32 octets, 43 with OPT.
/// `down.example.com` has two that belong together; 34 and 45.
#[test]
fn a_reply_is_no_longer_than_the_factor_allows() {
    let mut lab = open_classless("amplification");
    let at = |factor| Limits { max_amplification: factor, ..Limits::default() };
    let cut = || truncated(Counter::AnswerTruncated);
    let m8 = |qtype| query("m8.example.com", qtype);
    let both = |qtype| query("down.example.com", qtype);
    limit(&mut lab, &at(4.0));
    // (128 - 32) / 16 = 6; (172 - 43) / 16 = 8.06; (128 - 32) / 28 = 3.4; (172 - 43) / 28 = 4.6
    run_all(
        &mut lab,
        &[
            row("six of eight A records in four times 32 octets", m8(A), first(18, 6, false)),
            row("all eight A records with OPT", m8(A).opt(1232), first(18, 8, false)),
            row("three of eight AAAA records", m8(AAAA), first(18, 3, true)),
            row("four of eight AAAA records with OPT", m8(AAAA).v6().opt(4096), first(18, 4, true)),
            row("a query that pads itself gets more", padded(m8(AAAA), 100), first(18, 8, true)),
            row("what belongs together and fits is whole", both(AAAA), first(32, 2, true)),
            row("NODATA fits", query("v4.example.com", AAAA), no_data("example.com")),
        ],
    );
    limit(&mut lab, &at(1.5));
    run_all(
        &mut lab,
        &[
            row("one and a half times hold one A record", m8(A), first(18, 1, false)),
            row("and no AAAA record: truncated", m8(AAAA), cut()),
            row("truncated with OPT", query("one.example.com", AAAA).opt(1232), cut()),
            row("what belongs together is not cut but truncated", both(A), cut()),
            row("an SOA is not cut but truncated", query("v4.example.com", AAAA).v6(), cut()),
            row("truncated behind a tag", both(AAAA).v6().tag(0x8100, 7), cut()),
        ],
    );
    limit(&mut lab, &at(0.5));
    run_all(&mut lab, &[row("below one everything is truncated", query("one.example.com", A), cut())]);
    limit(&mut lab, &at(0.0));
    run_all(&mut lab, &[row("0 sets no bound", m8(AAAA), first(18, 8, true))]);
}

/// OPT with a padding option (RFC 7830) of so many octets.
fn padded(query: Query, octets: u16) -> Query {
    let mut option = vec![0, 12];
    option.extend(octets.to_be_bytes());
    option.resize(4 + usize::from(octets), 0);
    query.opt_with(1232, 0, &option)
}

/// Runs a query so many times; counters that rose.
fn tally(lab: &mut Lab, query: &Query, times: usize) -> BTreeMap<&'static str, u64> {
    let frame = query.build();
    let before = lab.counters();
    for _ in 0..times {
        let (verdict, out) = lab.runner().once(&frame);
        assert!(verdict == Verdict::Tx || out == frame, "{verdict:?}: the frame was changed");
    }
    Lab::risen(&before, &lab.counters()).into_iter().collect()
}

/// A fresh table for one test: buckets of another are a second old at most.
fn rest() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[test]
fn a_network_over_its_limit_gets_slips_and_silence() {
    let mut lab = open_classless("limits");
    // The rate is low, so that no token comes back while the test runs.
    let limits = Limits {
        responses_per_second: 5,
        slip: 4,
        allow: vec!["203.0.113.128/25".parse().unwrap(), "2001:db8:f00d::/48".parse().unwrap()],
        max_amplification: 0.0,
    };
    limit(&mut lab, &limits);
    let ask = |client: &str| query("one.example.com", A).from(client);
    let tokens = |risen: &BTreeMap<&str, u64>, answered: &str| {
        let of = |name: &str| risen.get(name).copied().unwrap_or(0);
        let (answers, slips, drops) = (of(answered), of("xdp_answer_slip"), of("xdp_drop_limited"));
        assert_eq!(answers + slips + drops, 85, "{risen:?}");
        // One fifth of a second gives one token more.
        assert!((5..=6).contains(&answers), "{risen:?}");
        assert_eq!(slips, (85 - answers) / 4, "every fourth: {risen:?}");
    };
    tokens(&tally(&mut lab, &ask("203.0.113.9"), 85), "xdp_answer_a");
    let neighbour = tally(&mut lab, &ask("203.0.113.77"), 8);
    assert!(neighbour.get("xdp_answer_a").is_none_or(|n| *n <= 1), "the same /24: {neighbour:?}");
    let v6 = query("one.example.com", AAAA).v6().opt(1232);
    tokens(&tally(&mut lab, &v6, 85), "xdp_answer_aaaa");
    let v6 = query("one.example.com", AAAA).from("2001:db8:ffff:1::1");
    assert!(tally(&mut lab, &v6, 8).get("xdp_answer_aaaa").is_none_or(|n| *n <= 1), "the same /56");
    for other in ["203.0.112.9", "203.0.114.1", "2001:db8:ffff:100::9"] {
        let qtype = if other.contains(':') { AAAA } else { A };
        let risen = tally(&mut lab, &query("one.example.com", qtype).from(other), 5);
        assert_eq!(risen.values().sum::<u64>(), 5);
        assert!(risen.keys().all(|name| name.starts_with("xdp_answer_a")), "{other}: {risen:?}");
    }
    for allowed in ["203.0.113.128", "203.0.113.255"] {
        assert_eq!(tally(&mut lab, &ask(allowed), 50), BTreeMap::from([("xdp_answer_a", 50)]), "{allowed}");
    }
    let allowed = query("one.example.com", AAAA).from("2001:db8:f00d:1::1");
    assert_eq!(tally(&mut lab, &allowed, 50), BTreeMap::from([("xdp_answer_aaaa", 50)]));
    // Taken off the list, then no limit at all.
    limit(&mut lab, &Limits { allow: vec!["10.0.0.0/8".parse().unwrap()], ..limits.clone() });
    assert!(tally(&mut lab, &ask("203.0.113.255"), 20).contains_key("xdp_drop_limited"));
    limit(&mut lab, &Limits { responses_per_second: 0, ..limits });
    assert_eq!(tally(&mut lab, &ask("203.0.113.9"), 50), BTreeMap::from([("xdp_answer_a", 50)]));
}

#[test]
fn what_is_not_answered_costs_no_token() {
    let mut lab = open_classless("no-token");
    limit(&mut lab, &Limits { responses_per_second: 5, max_amplification: 0.0, ..Limits::default() });
    let passed = tally(&mut lab, &query("nobody.example.com", A), 50);
    assert_eq!(passed, BTreeMap::from([("xdp_pass_unknown_name", 50)]), "workers have their own say");
    assert_eq!(
        tally(&mut lab, &query("one.example.com", A), 5),
        BTreeMap::from([("xdp_answer_a", 5)]),
        "and all tokens are there"
    );
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).unwrap().into()
}

/// The workers' side of the same world.
fn responses(lab: &mut Lab, limits: &Limits) -> Responses {
    Responses::new(limits, lab.writer().world().buckets())
}

#[test]
fn both_lanes_take_from_the_same_buckets() {
    let mut lab = open_classless("shared-limit");
    let limits = Limits { responses_per_second: 20, slip: 2, max_amplification: 0.0, ..Limits::default() };
    limit(&mut lab, &limits);
    let workers = responses(&mut lab, &limits);
    for client in ["203.0.113.9", "2001:db8:ffff::9", "198.51.100.1"] {
        let (who, qtype): (IpAddr, u16) =
            (client.parse().unwrap(), if client.contains(':') { AAAA } else { A });
        let frame = query("one.example.com", qtype).from(client).build();
        let begin = Instant::now();
        let (mut kernel, mut worker, mut slips) = (0, 0, 0);
        for i in 0..200 {
            if i % 3 == 0 {
                let verdict = workers.ask(who, now(), false);
                worker += u32::from(verdict == Limited::Answer);
                slips += u32::from(verdict == Limited::Slip);
            } else {
                let (verdict, out) = lab.runner().once(&frame);
                let is_slip = verdict == Verdict::Tx && read::message(&out).unwrap()[2] & 2 != 0;
                kernel += u32::from(verdict == Verdict::Tx && !is_slip);
                slips += u32::from(is_slip);
            }
        }
        let back = (begin.elapsed().as_millis() / 50) as u32 + 1;
        let all = kernel + worker;
        assert!(
            (20..=20 + back).contains(&all),
            "{client}: {kernel} and {worker} answers in {:?}",
            begin.elapsed()
        );
        assert!(kernel > 0 && worker > 0);
        assert_eq!(slips, (200 - all) / 2, "{client}: every second limited query, whoever limits it");
    }
}

/// One decision at a time, on the same bucket: the lanes say the same, and leave the same word behind.
#[test]
fn both_lanes_decide_the_same() {
    let mut lab = open_classless("same-limit");
    let limits = Limits { responses_per_second: 3, slip: 3, max_amplification: 0.0, ..Limits::default() };
    limit(&mut lab, &limits);
    let workers = responses(&mut lab, &limits);
    let (region, _) = lab.writer().world().buckets();
    let frame = query("one.example.com", A).build();
    let client: IpAddr = "203.0.113.9".parse().unwrap();
    let find = || -> Option<u32> {
        (0..region.len()).find(|line| region.get(*line).is_some_and(|l| l.words.iter().any(|w| *w != 0)))
    };
    assert_eq!(find(), None, "a new table is empty");
    let (mut compared, mut i) = (0, 0);
    while compared < 60 {
        i += 1;
        assert!(i < 1000, "the clock ticks too often");
        let words = |line: u32| -> Vec<u64> {
            region.words(line).unwrap().iter().map(|w| w.load(std::sync::atomic::Ordering::Relaxed)).collect()
        };
        let line = find();
        let before = line.map(words);
        let at = now();
        let (verdict, out) = lab.runner().once(&frame);
        if now() != at {
            // The kernel may have read another tick.
            continue;
        }
        let line = line.or_else(find).expect("the program used a line");
        let after = words(line);
        let zeros = vec![0; after.len()];
        for (word, value) in region.words(line).unwrap().iter().zip(before.as_ref().unwrap_or(&zeros)) {
            word.store(*value, std::sync::atomic::Ordering::Relaxed);
        }
        let said = workers.ask(client, at, false);
        assert_eq!(words(line), after, "after {verdict:?} and {said:?}");
        let is_slip = verdict == Verdict::Tx && read::message(&out).unwrap()[2] & 2 != 0;
        let kernel = match (verdict, is_slip) {
            (Verdict::Tx, false) => Limited::Answer,
            (Verdict::Tx, true) => Limited::Slip,
            (Verdict::Drop, _) => Limited::Nothing,
            other => panic!("{other:?}"),
        };
        assert_eq!(kernel, said);
        compared += 1;
        if compared % 20 == 0 {
            rest();
        }
    }
}

#[test]
fn a_slip_has_the_same_octets_from_both_lanes() {
    let mut lab = open_classless("slip-octets");
    limit(&mut lab, &Limits { responses_per_second: 1, slip: 1, ..Limits::default() });
    let reader = lab.writer().reader(1);
    let queries = [
        query("One.Example.COM", A),
        query("m8.example.com", AAAA).opt(1232),
        query("v4.example.com", AAAA).flags(0x0110).opt_with(512, 0x8000, &[0xfd, 0xe9, 0, 0]),
        query("one.example.com", A).v6(),
        query("one.example.com", 65).v6().opt(4096),
    ];
    for query in queries {
        let frame = query.build();
        let before = lab.counters();
        lab.runner().once(&frame);
        let (verdict, out) = lab.runner().once(&frame);
        assert_eq!(verdict, Verdict::Tx);
        assert!(Lab::risen(&before, &lab.counters()).contains(&("xdp_answer_slip", 1)) || before.is_empty());
        row::check(&query, &frame, &out, &truncated(Counter::AnswerSlip).reply(&query)).unwrap();
        let mut expected = [0; 512];
        let client = SocketAddr::new(query.source, 40_000);
        let outcome = answer::slip(&query.dns(), client, &reader, &Names::default(), &mut expected);
        let Outcome::Reply { len, truncated: true, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(read::message(&out).unwrap(), &expected[..len]);
        rest();
    }
}

#[test]
fn a_valid_cookie_is_neither_limited_nor_cut() {
    let mut lab = open_classless("cookie-exempt");
    limit(&mut lab, &Limits { responses_per_second: 3, max_amplification: 1.2, ..Limits::default() });
    let with = |cookie: &[u8]| {
        let option = [&[0, 10, 0, cookie.len() as u8][..], cookie].concat();
        query("m8.example.com", AAAA).opt_with(1232, 0, &option)
    };
    let first = with(b"12345678");
    let (verdict, out) = lab.runner().once(&first.build());
    assert_eq!(verdict, Verdict::Tx);
    let reply = read::reply(read::message(&out).unwrap()).unwrap();
    assert_eq!((reply.flags & 0x0200, reply.answers.len()), (0x0200, 0), "a stranger's reply is cut");
    let cookie = reply.opt.unwrap().options[4..].to_vec();
    assert_eq!(cookie.len(), 24);
    let known = with(&cookie);
    assert_eq!(tally(&mut lab, &known, 50), BTreeMap::from([("xdp_answer_aaaa", 50)]));
    let reader = lab.writer().reader(1);
    let mut out = [0; 1232];
    let client = SocketAddr::new(known.source, 40_000);
    let outcome = answer::reply(&known.dns(), Transport::Udp, client, &reader, &Names::default(), &mut out);
    assert!(matches!(outcome, Outcome::Reply { truncated: false, .. }), "nor by a worker: {outcome:?}");
    let mut forged = cookie;
    forged[23] ^= 1;
    let forged = tally(&mut lab, &with(&forged), 20);
    assert!(forged.contains_key("xdp_drop_limited"), "{forged:?}");
    assert!(forged.get("xdp_answer_aaaa").is_none_or(|tokens| *tokens <= 4), "{forged:?}");
}

/// Whatever the factor: what the program writes, a worker writes.
#[test]
fn both_lanes_cut_the_same() {
    let mut lab = open_classless("same-cut");
    let names = ["one", "m2", "m5", "m8", "down", "v4", "weights", "empty"];
    let mut cut = 0;
    for factor in [0.0, 0.7, 1.0, 1.5, 1.9, 2.0, 2.75, 3.0, 4.0, 5.5, 1000.0] {
        limit(&mut lab, &Limits { max_amplification: factor, ..Limits::default() });
        let reader = lab.writer().reader(1);
        for name in names {
            for qtype in [A, AAAA, 16] {
                for query in [
                    query(&format!("{name}.example.com"), qtype),
                    query(&format!("{name}.example.com"), qtype).v6().opt(4096),
                    padded(query(&format!("{name}.example.com"), qtype), 31),
                ] {
                    lab.rewind();
                    reader
                        .turns(0)
                        .iter()
                        .for_each(|turn| turn.store(0, std::sync::atomic::Ordering::Relaxed));
                    let (verdict, out) = lab.runner().once(&query.build());
                    assert_eq!(verdict, Verdict::Tx, "{name} {qtype} at {factor}");
                    let mut expected = [0; 1232];
                    let client = SocketAddr::new(query.source, 40_000);
                    let outcome = answer::reply(
                        &query.dns(),
                        Transport::Udp,
                        client,
                        &reader,
                        &Names::default(),
                        &mut expected,
                    );
                    let Outcome::Reply { len, truncated, .. } = outcome else { panic!("{outcome:?}") };
                    let said = read::message(&out).unwrap();
                    assert_eq!(said, &expected[..len], "{name} {qtype} at {factor}");
                    let asked = query.dns().len();
                    let is_within = factor == 0.0 || said.len() as f64 <= asked as f64 * factor;
                    assert!(is_within || truncated, "{name} {qtype} at {factor}: {} for {asked}", said.len());
                    cut += u32::from(truncated);
                }
            }
        }
    }
    assert!(cut > 100, "{cut} truncated replies prove little");
}
