//! The question: names of every length and shape, types, classes.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, Query, query, wire_query},
        world::{fast_lengths, host_v4, name_of, name_of_labels},
    },
    row::{Row, answer, no_data, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

/// One octet of the DNS message.
fn octet(at: usize, value: u8) -> impl Fn(&mut Vec<u8>) {
    move |dns| dns[at] = value
}

fn names(rows: &mut Vec<Row>) {
    for octets in fast_lengths() {
        let rule = format!("a name of {octets} octets is answered");
        rows.push(row(&rule, wire_query(name_of(octets).wire().to_vec(), A), answer(&[host_v4(40, 1)])));
    }
    // All lengths modulo 2 and 8 meet the checksum of AAAA over IPv6 with OPT.
    for octets in 90..=104 {
        let rule = format!("AAAA over IPv6 with OPT of a name of {octets} octets is answered");
        let frame = wire_query(name_of(octets).wire().to_vec(), AAAA).v6().opt(1232);
        rows.push(row(&rule, frame, answer(&["fd00:28::1"])));
    }
    for octets in (105..=136).chain([160, 200, 252, 253, 254, 255]) {
        let rule = format!("a name of {octets} octets passes");
        rows.push(row(&rule, wire_query(name_of(octets).wire().to_vec(), A), pass(Counter::PassLongName)));
    }
    let labels = |count| wire_query(name_of_labels(count).wire().to_vec(), A);
    rows.push(row("51 labels are answered", labels(51), answer(&[host_v4(40, 1)])));
    rows.push(row("52 labels pass", labels(52), pass(Counter::PassLongName)));
    rows.push(row("127 labels pass", labels(127), pass(Counter::PassLongName)));
}

fn case(rows: &mut Vec<Row>) {
    for name in ["ONE.EXAMPLE.COM", "oNe.ExAmPlE.cOm", "One.example.com", "one.example.coM"] {
        rows.push(row(
            &format!("{name} is answered in its own case"),
            query(name, A),
            answer(&[host_v4(1, 1)]),
        ));
    }
    let frame = query("ONE.Example.cOm", 15);
    rows.push(row("the SOA has the case of the question", frame, no_data("example.com")));
    let frame = query("oNe.eXample.Com", AAAA).v6().opt(1232);
    rows.push(row("case over IPv6 with OPT", frame, answer(&["fd00:1::1"])));
}

fn shapes(rows: &mut Vec<Row>) {
    let odd = query("odd.\\001\\.x\\255.example.com", A);
    rows.push(row("one, dot and 255 are octets of a label", odd, answer(&[host_v4(1, 1)])));
    let nil = query("nil.\\000x.example.com", A);
    rows.push(row("a label with a zero octet is left to a worker", nil, pass(Counter::PassName)));
    let frame = query("odd.\\001\\.x\\223.example.com", A);
    rows.push(row("only ASCII letters are folded", frame, pass(Counter::PassUnknownName)));
    let frame = query("weird\\000.example.com", A);
    rows.push(row("a zero at the end of a label counts", frame, pass(Counter::PassName)));
    let frame = query("one\\.example.com", A);
    rows.push(row("a dot inside a label is no border of labels", frame, pass(Counter::PassUnknownName)));
    for name in
        ["on.example.com", "onee.example.com", "example.org", "com", "www.one.example.com", "example.com.com"]
    {
        rows.push(row(&format!("{name} is not known"), query(name, A), pass(Counter::PassUnknownName)));
    }
    for (control, letter) in [(b'[', 'x'), (b'@', 'y'), (b'`', 'z')] {
        let frame = one().edit_dns(octet(13, control));
        rows.push(row(
            &format!("octet {control} is no letter ({letter})"),
            frame,
            pass(Counter::PassUnknownName),
        ));
    }
    let pointer = |at: usize, to: u8| one().edit_dns(move |d| d[at..at + 2].copy_from_slice(&[0xc0, to]));
    rows.push(row("a pointer to itself passes", pointer(12, 12), pass(Counter::PassName)));
    rows.push(row("a pointer into the header passes", pointer(12, 0), pass(Counter::PassName)));
    rows.push(row("a pointer forward passes", pointer(12, 20), pass(Counter::PassName)));
    rows.push(row("a pointer behind a label passes", pointer(16, 12), pass(Counter::PassName)));
    for first in [0x40, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xff] {
        let frame = one().edit_dns(octet(12, first));
        rows.push(row(&format!("label type {first:02x} passes"), frame, pass(Counter::PassName)));
        let frame = one().edit_dns(octet(24, first));
        rows.push(row(
            &format!("label type {first:02x} behind labels passes"),
            frame,
            pass(Counter::PassName),
        ));
    }
    let frame = one().edit_dns(octet(24, 60));
    rows.push(row("a label beyond the end passes", frame, pass(Counter::PassName)));
    let frame = one().edit_dns(|d| d.truncate(20));
    rows.push(row("a name that ends inside a label passes", frame, pass(Counter::PassName)));
    let frame = one().edit_dns(|d| d.truncate(28));
    rows.push(row("a name without its root passes", frame, pass(Counter::PassName)));
    let frame = one().edit_dns(|d| d.truncate(29));
    rows.push(row("a name without type and class passes", frame, pass(Counter::PassRunt)));
    let frame = one().edit_dns(|d| d.truncate(32));
    rows.push(row("a question without its last octet passes", frame, pass(Counter::PassRunt)));
    let frame = one().edit_dns(|d| d.truncate(32)).padded(200, 1);
    rows.push(row("a question that padding completes passes", frame, pass(Counter::PassTrailing)));
    let frame = one().edit_dns(|d| d.truncate(32)).padded(200, 3);
    rows.push(row("a class that padding completes is not IN", frame, pass(Counter::PassClass)));
    let frame = one().edit_dns(|d| d.truncate(20)).padded(200, 0);
    rows.push(row("a name that padding ends passes", frame, pass(Counter::PassName)));
}

fn types_and_classes(rows: &mut Vec<Row>) {
    let names = [
        (2, "NS"),
        (5, "CNAME"),
        (6, "SOA"),
        (12, "PTR"),
        (13, "HINFO"),
        (15, "MX"),
        (16, "TXT"),
        (33, "SRV"),
        (35, "NAPTR"),
        (39, "DNAME"),
        (43, "DS"),
        (46, "RRSIG"),
        (47, "NSEC"),
        (48, "DNSKEY"),
        (50, "NSEC3"),
        (52, "TLSA"),
        (64, "SVCB"),
        (65, "HTTPS"),
        (99, "SPF"),
        (256, "URI"),
        (257, "CAA"),
    ];
    for (qtype, name) in names {
        let rule = format!("{name} of a name that has none is NODATA");
        rows.push(row(&rule, query("one.example.com", qtype), no_data("example.com")));
    }
    for qtype in [3, 27, 29, 40, 42, 100, 128, 248, 258, 512, 1000, 0x1c00, 32768, 65280, 65534, 65535] {
        let rule = format!("type {qtype} is NODATA");
        rows.push(row(&rule, query("one.example.com", qtype), no_data("example.com")));
    }
    for qtype in [0, 41, 249, 250, 251, 252, 253, 254, 255] {
        let rule = format!("type {qtype} is no data and passes");
        rows.push(row(&rule, query("one.example.com", qtype), pass(Counter::PassMetaType)));
        let rule = format!("type {qtype} over IPv6 with OPT passes");
        let frame = query("one.example.com", qtype).v6().opt(1232);
        rows.push(row(&rule, frame, pass(Counter::PassMetaType)));
    }
    for (class, name) in [
        (0, "0"),
        (2, "2"),
        (3, "CH"),
        (4, "HS"),
        (254, "NONE"),
        (255, "ANY"),
        (256, "256"),
        (0x8001, "IN with its upper bit"),
        (65535, "65535"),
    ] {
        rows.push(row(&format!("class {name} passes"), one().class(class), pass(Counter::PassClass)));
    }
    let frame = query("unknown.example.com", 255);
    rows.push(row("a type that is no data comes before the name", frame, pass(Counter::PassMetaType)));
    let frame = query("unknown.example.com", 16);
    rows.push(row("another type of an unknown name passes", frame, pass(Counter::PassUnknownName)));
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    names(&mut rows);
    case(&mut rows);
    shapes(&mut rows);
    types_and_classes(&mut rows);
    rows
}
