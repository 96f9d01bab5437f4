//! The DNS header: flags, opcodes, counts.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, Query, query},
        world::host_v4,
    },
    row::{Row, answer, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

/// Names of the flags that a query may have, and whether the reply repeats them (see `Want::reply`).
const FLAGS: [(u16, &str); 7] = [
    (0x0400, "AA is not repeated"),
    (0x0200, "TC is not repeated"),
    (0x0100, "RD is repeated"),
    (0x0080, "RA is not repeated"),
    (0x0040, "Z is not repeated"),
    (0x0020, "AD is not repeated"),
    (0x0010, "CD is repeated"),
];

pub fn rows() -> Vec<Row> {
    let v4 = || answer(&[host_v4(1, 1)]);
    let record = [0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1];
    let mut rows = vec![
        row("no flag at all is answered", one().flags(0), v4()),
        row("all flags but QR and opcode are answered", one().flags(0x07ff), v4()),
        row("a response code in a query does not matter", one().flags(0x000f), v4()),
        row("id 0 is repeated", one().id(0), v4()),
        row("id 65535 is repeated", one().id(0xffff), v4()),
        row("a response passes", one().flags(0x8000), pass(Counter::PassResponse)),
        row("an authoritative response passes", one().flags(0x8580), pass(Counter::PassResponse)),
        row(
            "a response over IPv6 passes",
            query("one.example.com", AAAA).v6().flags(0x8180),
            pass(Counter::PassResponse),
        ),
        row("a response with an opcode is a response", one().flags(0xa000), pass(Counter::PassResponse)),
        row("no question passes", one().questions(0), pass(Counter::PassCounts)),
        row("two questions pass", one().questions(2), pass(Counter::PassCounts)),
        row(
            "two questions that are there pass",
            one().questions(2).edit_dns(|d| {
                let q = d[12..].to_vec();
                d.extend(q);
            }),
            pass(Counter::PassCounts),
        ),
        row("256 questions pass", one().questions(256), pass(Counter::PassCounts)),
        row("65535 questions pass", one().questions(0xffff), pass(Counter::PassCounts)),
        row("one answer passes", one().claims(1, 1), pass(Counter::PassCounts)),
        row("256 answers pass", one().claims(1, 256), pass(Counter::PassCounts)),
        row(
            "an answer that is there passes",
            one().record(&record).claims(1, 1).claims(3, 0),
            pass(Counter::PassCounts),
        ),
        row("one authority record passes", one().claims(2, 1), pass(Counter::PassCounts)),
        row("256 authority records pass", one().claims(2, 256), pass(Counter::PassCounts)),
        row("two additional records pass", one().opt(1232).claims(3, 2), pass(Counter::PassCounts)),
        row("256 additional records pass", one().opt(1232).claims(3, 256), pass(Counter::PassCounts)),
        row("65535 additional records pass", one().claims(3, 0xffff), pass(Counter::PassCounts)),
        row(
            "OPT that no count mentions is trailing",
            one().opt(1232).claims(3, 0),
            pass(Counter::PassTrailing),
        ),
        row(
            "OPT in the answer section passes",
            one().opt(1232).claims(1, 1).claims(3, 0),
            pass(Counter::PassCounts),
        ),
        row(
            "OPT in the authority section passes",
            one().opt(1232).claims(2, 1).claims(3, 0),
            pass(Counter::PassCounts),
        ),
        row("OPT beside an answer passes", one().opt(1232).claims(1, 1), pass(Counter::PassCounts)),
        row("an additional record that is not there passes", one().claims(3, 1), pass(Counter::PassOpt)),
        row(
            "one octet behind the question is trailing",
            one().edit_dns(|d| d.push(0)),
            pass(Counter::PassTrailing),
        ),
        row(
            "many octets behind the question are trailing",
            one().edit_dns(|d| d.extend([0; 300])),
            pass(Counter::PassTrailing),
        ),
        row(
            "octets behind OPT are trailing",
            one().opt(1232).edit_dns(|d| d.push(0)),
            pass(Counter::PassTrailing),
        ),
    ];
    for (flag, rule) in FLAGS {
        rows.push(row(rule, one().flags(flag), v4()));
    }
    for opcode in 1..16 {
        let rule = format!("opcode {opcode} passes");
        rows.push(row(&rule, one().flags(opcode << 11), pass(Counter::PassOpcode)));
    }
    rows
}
