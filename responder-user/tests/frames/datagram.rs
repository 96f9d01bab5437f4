//! UDP: ports, lengths, checksums.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, Query, query},
        world::host_v4,
    },
    row::{Row, answer, drop, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

fn six() -> Query {
    query("one.example.com", AAAA).v6()
}

/// Another UDP length.
fn length(value: u16) -> impl Fn(&mut Vec<u8>) {
    move |datagram| datagram[4..6].copy_from_slice(&value.to_be_bytes())
}

/// A datagram with so many octets of the message.
fn only(len: usize) -> impl Fn(&mut Vec<u8>) {
    move |dns| dns.truncate(len)
}

/// A whole query that the lengths of IP and UDP do not count.
fn in_padding() -> Query {
    let message = one().dns();
    one().edit_dns(only(0)).edit_frame(move |frame| frame.extend(&message))
}

pub fn rows() -> Vec<Row> {
    let (v4, v6) = (|| answer(&[host_v4(1, 1)]), || answer(&["fd00:1::1"]));
    let mut rows = vec![
        row("source port 1024 is answered", one().source_port(1024), v4()),
        row("source port 65535 is answered", one().source_port(65535), v4()),
        row("source port 1 is answered", one().source_port(1), v4()),
        row("source port 54 is answered", one().source_port(54), v4()),
        row("source port 5353 is answered", one().source_port(5353), v4()),
        row("source port 53 passes", one().source_port(53), pass(Counter::PassSourcePort)),
        row("source port 53 over IPv6 passes", six().source_port(53), pass(Counter::PassSourcePort)),
        row("source port 0 passes", one().source_port(0), pass(Counter::PassSourcePort)),
        row("source port 0 over IPv6 passes", six().source_port(0), pass(Counter::PassSourcePort)),
        row("another port of ours passes", one().port(54), pass(Counter::PassNotListening)),
        row("port 53 with its octets swapped passes", one().port(0x3500), pass(Counter::PassNotListening)),
        row("port 0 passes", one().port(0), pass(Counter::PassNotListening)),
        row("port 0 over IPv6 passes", six().port(0), pass(Counter::PassNotListening)),
        row("another port of ours over IPv6 passes", six().port(5353), pass(Counter::PassNotListening)),
        row(
            "to another port, a service port is nobody's",
            one().port(54).source_port(123),
            pass(Counter::PassNotListening),
        ),
        row("UDP length 0 passes", one().edit_udp(length(0)), pass(Counter::PassLength)),
        row("UDP length 7 passes", one().edit_udp(length(7)), pass(Counter::PassLength)),
        row("UDP length 8 of more octets passes", one().edit_udp(length(8)), pass(Counter::PassLength)),
        row("UDP length 65535 passes", one().edit_udp(length(65535)), pass(Counter::PassLength)),
        row("UDP one octet short passes", one().edit_udp(|d| d[5] -= 1), pass(Counter::PassLength)),
        row("UDP one octet long passes", one().edit_udp(|d| d[5] += 1), pass(Counter::PassLength)),
        row("UDP length 0 over IPv6 passes", six().edit_udp(length(0)), pass(Counter::PassLength)),
        row("UDP one octet long over IPv6 passes", six().edit_udp(|d| d[5] += 1), pass(Counter::PassLength)),
        row(
            "UDP and IP length 7 agree and pass",
            one().edit_udp(length(7)).edit_ip(|p| p[2..4].copy_from_slice(&[0, 27])),
            pass(Counter::PassLength),
        ),
        row("an empty datagram passes", one().edit_dns(only(0)), pass(Counter::PassNoHeader)),
        row(
            "an empty datagram in a padded frame passes",
            one().edit_dns(only(0)).padded(60, 0),
            pass(Counter::PassNoHeader),
        ),
        row(
            "a query in the padding behind an empty datagram passes",
            in_padding(),
            pass(Counter::PassNoHeader),
        ),
        row("one octet passes", one().edit_dns(only(1)), pass(Counter::PassNoHeader)),
        row("seven octets pass", one().edit_dns(only(7)), pass(Counter::PassNoHeader)),
        row("eleven octets pass", one().edit_dns(only(11)), pass(Counter::PassNoHeader)),
        row("eleven octets over IPv6 pass", six().edit_dns(only(11)), pass(Counter::PassNoHeader)),
        row("a header alone passes", one().edit_dns(only(12)), pass(Counter::PassName)),
    ];
    for port in [7, 13, 17, 19, 37, 69, 111, 123, 137, 138, 161, 389, 520, 1900] {
        rows.push(row(
            &format!("source port {port} is dropped"),
            one().source_port(port),
            drop(Counter::DropServicePort),
        ));
    }
    for port in [7, 123, 1900] {
        let frame = six().source_port(port);
        rows.push(row(
            &format!("source port {port} over IPv6 is dropped"),
            frame,
            drop(Counter::DropServicePort),
        ));
    }
    for checksum in [0, 1, 0x1234, 0xffff] {
        let rule = |family: &str| format!("a checksum field of {checksum:04x} over {family} does not matter");
        rows.push(row(&rule("IPv4"), one().checksum(checksum), v4()));
        rows.push(row(&rule("IPv6"), six().checksum(checksum), v6()));
    }
    rows
}
