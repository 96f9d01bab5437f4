//! OPT: payload sizes, DO, versions, options, and what is no OPT.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, Query, query},
        world::host_v4,
    },
    row::{Row, answer, no_data, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

/// DO in the TTL field of OPT.
const DO: u32 = 0x8000;

/// An option: code, length, and that many octets.
fn option(code: u16, len: usize) -> Vec<u8> {
    let mut out = [code.to_be_bytes(), (len as u16).to_be_bytes()].concat();
    out.extend((0..len).map(|i| i as u8 ^ 0x5a));
    out
}

/// Any record: owner, type, the rest.
fn record(owner: &[u8], rtype: u16, class: u16, data: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend(rtype.to_be_bytes());
    out.extend(class.to_be_bytes());
    out.extend([0; 4]);
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

/// Another number in the length field of an OPT that is `options` octets long and ends the message.
fn opt_length(options: usize, value: u16) -> impl Fn(&mut Vec<u8>) {
    move |dns| {
        let at = dns.len() - options - 2;
        dns[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// What is understood and wrong, or what two of our rules do not agree on.
fn understood(rows: &mut Vec<Row>) {
    for len in [0, 7, 9, 41] {
        let frame = one().opt_with(1232, 0, &option(10, len));
        rows.push(row(&format!("a cookie of {len} octets passes"), frame, pass(Counter::PassCookie)));
    }
    let near = |qtype| query("near.example.com", qtype);
    let subnet = |data: &[u8]| [&[0, 8, 0, data.len() as u8], data].concat();
    let (good, bad) = (subnet(&[0, 1, 24, 0, 192, 0, 2]), subnet(&[0, 1, 24, 0, 192, 0]));
    rows.push(row(
        "ECS with too few octets passes where ECS counts",
        near(A).opt_with(1232, 0, &bad),
        pass(Counter::PassSubnet),
    ));
    let frame = near(A).v6().opt_with(1232, 0, &subnet(&[0, 3, 0, 0]));
    rows.push(row("ECS of family 3 passes where ECS counts", frame, pass(Counter::PassSubnet)));
    let frame = near(A).opt_with(1232, 0, &good);
    let counter = Counter::PassSubnetPolicy;
    rows.push(row("ECS passes where policies look at the source", frame, pass(counter)));
    let frame = near(A).v6().opt_with(4096, DO, &good);
    rows.push(row("ECS passes where policies look at the source, over IPv6", frame, pass(counter)));
}

fn accepted(rows: &mut Vec<Row>) {
    let v4 = || answer(&[host_v4(1, 1)]);
    for payload in [0, 1, 511, 512, 513, 1231, 1232, 1233, 4096, 65535] {
        rows.push(row(&format!("OPT with payload size {payload} is answered"), one().opt(payload), v4()));
        let frame = query("one.example.com", AAAA).v6().opt(payload);
        let rule = format!("OPT with payload size {payload} over IPv6 is answered");
        rows.push(row(&rule, frame, answer(&["fd00:1::1"])));
    }
    rows.push(row("DO is echoed", one().opt_with(1232, DO, &[]), v4()));
    let frame = query("one.example.com", AAAA).v6().opt_with(4096, DO, &[]);
    rows.push(row("DO is echoed over IPv6", frame, answer(&["fd00:1::1"])));
    rows.push(row("other flags of OPT are not echoed", one().opt_with(1232, 0x7fff, &[]), v4()));
    rows.push(row("all flags of OPT: only DO is echoed", one().opt_with(1232, 0xffff, &[]), v4()));
    rows.push(row(
        "an extended code in a query does not matter",
        one().opt_with(1232, 0xff00_0000, &[]),
        v4(),
    ));
    for (qtype, name) in [(15, "MX"), (65, "HTTPS"), (65535, "type 65535")] {
        let frame = query("one.example.com", qtype).opt_with(1232, DO, &[]);
        rows.push(row(&format!("NODATA for {name} has OPT, too"), frame, no_data("example.com")));
    }
    let known = [
        (8, 8, "ECS"),
        (9, 0, "EXPIRE"),
        (11, 0, "keepalive"),
        (12, 31, "padding"),
        (15, 2, "an extended error"),
    ];
    for (code, len, name) in known {
        let frame = one().opt_with(1232, 0, &option(code, len));
        rows.push(row(&format!("{name} in a query is ignored"), frame, v4()));
    }
    for code in [0, 100, 65001, 65535] {
        let frame = one().opt_with(1232, 0, &option(code, 5));
        rows.push(row(&format!("option {code} is ignored"), frame, v4()));
    }
    for count in 1..=8 {
        let options: Vec<u8> = (0..count).flat_map(|i| option(65001 + i, usize::from(i))).collect();
        let frame = one().opt_with(1232, 0, &options);
        rows.push(row(&format!("{count} options are walked"), frame, v4()));
    }
    for len in [100, 255, 256, 400, 1000] {
        let frame = one().opt_with(4096, 0, &option(12, len));
        rows.push(row(&format!("an option of {len} octets is walked"), frame, v4()));
    }
    let frame = query(".", A).opt(1232);
    rows.push(row("OPT behind a question for the root", frame, answer(&[host_v4(40, 1)])));
}

fn refused(rows: &mut Vec<Row>) {
    for count in [9, 10, 100] {
        let options: Vec<u8> = (0..count).flat_map(|i| option(65001 + i, 0)).collect();
        let frame = one().opt_with(1232, 0, &options);
        rows.push(row(&format!("{count} options pass"), frame, pass(Counter::PassManyOptions)));
    }
    for version in [1, 2, 127, 128, 255_u32] {
        let frame = one().opt_with(1232, version << 16, &[]);
        rows.push(row(&format!("EDNS version {version} passes"), frame, pass(Counter::PassVersion)));
    }
    let frame = one().opt_with(1232, 1 << 16, &[1, 2, 3]);
    rows.push(row("version 1 with octets that are no options passes", frame, pass(Counter::PassVersion)));
    let opt = |data: &[u8]| record(&[0], 41, 1232, data);
    let named = |octets: &[u8]| record(octets, 41, 1232, &[]);
    let bad = [
        ("OPT owned by a name passes", one().record(&named(b"\x01a\x00"))),
        ("OPT owned by a pointer passes", one().record(&named(&[0xc0, 12]))),
        ("OPT owned by a pointer to a root passes", one().record(&named(&[0xc0, 28]))),
        ("an A record in place of OPT passes", one().record(&record(&[0], 1, 1, &[192, 0, 2, 1]))),
        ("TSIG in place of OPT passes", one().record(&record(&[0], 250, 255, &[0; 16]))),
        ("SIG(0) in place of OPT passes", one().record(&record(&[0], 24, 255, &[0; 18]))),
        ("type 0x2900 is no OPT", one().record(&record(&[0], 0x2900, 1232, &[]))),
        ("type 0x0129 is no OPT", one().record(&record(&[0], 0x0129, 1232, &[]))),
        (
            "OPT one octet too short passes",
            one().opt(1232).edit_dns(|d| {
                d.pop();
            }),
        ),
        ("OPT without its length passes", one().opt(1232).edit_dns(|d| d.truncate(d.len() - 2))),
        ("OPT of one octet passes", one().opt(1232).edit_dns(|d| d.truncate(d.len() - 10))),
        ("a length of OPT beyond the end passes", one().opt(1232).edit_dns(opt_length(0, 4))),
        ("a length of OPT far beyond the end passes", one().opt(1232).edit_dns(opt_length(0, 65535))),
        ("an option cut in its code passes", one().record(&opt(&[0]))),
        ("an option cut in its length passes", one().record(&opt(&[0, 10, 0]))),
        ("an option longer than OPT passes", one().record(&opt(&[0, 10, 0, 8, 1, 2, 3]))),
        ("an option with length 65535 passes", one().record(&opt(&[0, 10, 255, 255, 1, 2]))),
        ("a good option before a cut one passes", one().record(&opt(&[0, 3, 0, 0, 0, 10, 0, 9, 1]))),
        ("a good option before three octets passes", one().record(&opt(&[0, 3, 0, 0, 0, 10, 0]))),
    ];
    rows.extend(bad.into_iter().map(|(rule, frame)| row(rule, frame, pass(Counter::PassOpt))));
    let short = one().opt_with(1232, 0, &option(10, 8)).edit_dns(opt_length(12, 11));
    rows.push(row(
        "a length of OPT one short of its options is trailing",
        short,
        pass(Counter::PassTrailing),
    ));
    let zero = one().opt_with(1232, 0, &option(10, 8)).edit_dns(opt_length(12, 0));
    rows.push(row("a length of OPT of zero before options is trailing", zero, pass(Counter::PassTrailing)));
    let padded = one().opt(1232).edit_dns(opt_length(0, 4)).padded(200, 0);
    rows.push(row("padding of the frame is no option", padded, pass(Counter::PassOpt)));
    rows.push(row("two OPT pass", one().opt(1232).opt(1232), pass(Counter::PassCounts)));
    rows.push(row(
        "two OPT of which one is counted pass",
        one().opt(1232).opt(1232).claims(3, 1),
        pass(Counter::PassTrailing),
    ));
    let a = record(&[0], 1, 1, &[192, 0, 2, 1]);
    rows.push(row("OPT before another record passes", one().opt(1232).record(&a), pass(Counter::PassCounts)));
    rows.push(row("OPT behind another record passes", one().record(&a).opt(1232), pass(Counter::PassCounts)));
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    accepted(&mut rows);
    understood(&mut rows);
    refused(&mut rows);
    rows
}
