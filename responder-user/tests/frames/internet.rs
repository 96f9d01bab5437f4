//! IPv4 and IPv6: options, fragments, lengths, addresses.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, CLIENT_V6, Query, query},
        world::{SECOND_V4, SECOND_V6, host_v4},
    },
    row::{Row, answer, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

fn six() -> Query {
    query("one.example.com", AAAA).v6()
}

/// One octet of the IP header.
fn octet(at: usize, value: u8) -> impl Fn(&mut Vec<u8>) {
    move |packet| packet[at] = value
}

/// The length field at `at`, changed by so many octets.
fn length(at: usize, change: i32) -> impl Fn(&mut Vec<u8>) {
    move |packet| {
        let old = i32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        packet[at..at + 2].copy_from_slice(&((old + change) as u16).to_be_bytes());
    }
}

fn v4_rows() -> Vec<Row> {
    let v4 = || answer(&[host_v4(1, 1)]);
    vec![
        row("TTL 1 is answered with a fresh one", one().ttl(1), v4()),
        row("TTL 255 is answered with a fresh one", one().ttl(255), v4()),
        row("TTL 0 is answered: it has arrived", one().ttl(0), v4()),
        row("type of service is not echoed", one().edit_ip(octet(1, 0xb8)), v4()),
        row("congestion bits are not echoed", one().edit_ip(octet(1, 3)), v4()),
        row("do not fragment is no fragment", one().edit_ip(octet(6, 0x40)), v4()),
        row("more fragments passes", one().edit_ip(octet(6, 0x20)), pass(Counter::PassFragment)),
        row(
            "more fragments beside do not fragment passes",
            one().edit_ip(octet(6, 0x60)),
            pass(Counter::PassFragment),
        ),
        row("the reserved fragment bit passes", one().edit_ip(octet(6, 0x80)), pass(Counter::PassFragment)),
        row("a fragment offset passes", one().edit_ip(octet(7, 1)), pass(Counter::PassFragment)),
        row("a high fragment offset passes", one().edit_ip(octet(6, 0x10)), pass(Counter::PassFragment)),
        row("the last fragment passes", one().edit_ip(octet(7, 0xb9)), pass(Counter::PassFragment)),
        row(
            "one word of options passes",
            one().edit_ip(|p| {
                p[0] = 0x46;
                p.splice(20..20, [1, 1, 1, 0]);
            }),
            pass(Counter::PassIpOptions),
        ),
        row(
            "ten words of options pass",
            one().edit_ip(|p| {
                p[0] = 0x4f;
                p.splice(20..20, [0; 40]);
            }),
            pass(Counter::PassIpOptions),
        ),
        row("a header of four words passes", one().edit_ip(octet(0, 0x44)), pass(Counter::PassIpOptions)),
        row("a header of no words passes", one().edit_ip(octet(0, 0x40)), pass(Counter::PassIpOptions)),
        row("version 5 in IPv4 passes", one().edit_ip(octet(0, 0x55)), pass(Counter::PassIpOptions)),
        row("TCP passes", one().edit_ip(octet(9, 6)), pass(Counter::PassNotUdp)),
        row("ICMP passes", one().edit_ip(octet(9, 1)), pass(Counter::PassNotUdp)),
        row("UDP-Lite passes", one().edit_ip(octet(9, 136)), pass(Counter::PassNotUdp)),
        row("IP in IP passes", one().edit_ip(octet(9, 4)), pass(Counter::PassNotUdp)),
        row(
            "IP one octet longer than the frame passes",
            one().edit_ip(length(2, 1)).edit_udp(length(4, 1)),
            pass(Counter::PassLength),
        ),
        row(
            "IP much longer than the frame passes",
            one().edit_ip(length(2, 9000)).edit_udp(length(4, 9000)),
            pass(Counter::PassLength),
        ),
        row(
            "IP longer than UDP passes",
            one().edit_ip(length(2, 1)).padded(200, 0),
            pass(Counter::PassLength),
        ),
        row("IP shorter than UDP passes", one().edit_ip(length(2, -1)), pass(Counter::PassLength)),
        row(
            "IP length 20 passes",
            one().edit_ip(|p| p[2..4].copy_from_slice(&[0, 20])),
            pass(Counter::PassLength),
        ),
        row(
            "IP length 0 passes",
            one().edit_ip(|p| p[2..4].copy_from_slice(&[0, 0])),
            pass(Counter::PassLength),
        ),
        row(
            "IP length 19 passes",
            one().edit_ip(|p| p[2..4].copy_from_slice(&[0, 19])),
            pass(Counter::PassLength),
        ),
        row(
            "a wrong IP checksum is the driver's affair",
            one().edit_ip(|p| p[10..12].copy_from_slice(&[0xde, 0xad])),
            v4(),
        ),
        row(
            "both lengths shorter than the frame: the rest is padding",
            one().edit_frame(|f| f.extend([0xaa; 9])),
            v4(),
        ),
        row("another destination passes", one().to("192.0.2.55"), pass(Counter::PassNotListening)),
        row("the broadcast address passes", one().to("255.255.255.255"), pass(Counter::PassNotListening)),
        row("destination zero passes", one().to("0.0.0.0"), pass(Counter::PassNotListening)),
        row("the second address has its own port", one().to(SECOND_V4.0).port(SECOND_V4.1), v4()),
        row(
            "the second address with the first port passes",
            one().to(SECOND_V4.0),
            pass(Counter::PassNotListening),
        ),
        row(
            "the first address with the second port passes",
            one().port(SECOND_V4.1),
            pass(Counter::PassNotListening),
        ),
    ]
}

fn v6_rows() -> Vec<Row> {
    let v6 = || answer(&["fd00:1::1"]);
    vec![
        row("hop limit 1 is answered with a fresh one", six().ttl(1), v6()),
        row("hop limit 255 is answered with a fresh one", six().ttl(255), v6()),
        row("traffic class is not echoed", six().edit_ip(octet(0, 0x6b)), v6()),
        row(
            "a flow label is not echoed",
            six().edit_ip(|p| p[1..4].copy_from_slice(&[0x0f, 0xff, 0xff])),
            v6(),
        ),
        row("version 4 in IPv6 passes", six().edit_ip(octet(0, 0x40)), pass(Counter::PassNotIp)),
        row("version 7 in IPv6 passes", six().edit_ip(octet(0, 0x70)), pass(Counter::PassNotIp)),
        row("version 0 in IPv6 passes", six().edit_ip(octet(0, 0)), pass(Counter::PassNotIp)),
        row("hop-by-hop options pass", six().edit_ip(octet(6, 0)), pass(Counter::PassNotUdp)),
        row("a routing header passes", six().edit_ip(octet(6, 43)), pass(Counter::PassNotUdp)),
        row("a fragment of IPv6 passes", six().edit_ip(octet(6, 44)), pass(Counter::PassNotUdp)),
        row("destination options pass", six().edit_ip(octet(6, 60)), pass(Counter::PassNotUdp)),
        row("ESP passes", six().edit_ip(octet(6, 50)), pass(Counter::PassNotUdp)),
        row("no next header passes", six().edit_ip(octet(6, 59)), pass(Counter::PassNotUdp)),
        row("TCP over IPv6 passes", six().edit_ip(octet(6, 6)), pass(Counter::PassNotUdp)),
        row("ICMPv6 passes", six().edit_ip(octet(6, 58)), pass(Counter::PassNotUdp)),
        row(
            "IPv6 longer than the frame passes",
            six().edit_ip(length(4, 1)).edit_udp(length(4, 1)),
            pass(Counter::PassLength),
        ),
        row(
            "IPv6 longer than UDP passes",
            six().edit_ip(length(4, 1)).padded(200, 0),
            pass(Counter::PassLength),
        ),
        row("IPv6 shorter than UDP passes", six().edit_ip(length(4, -1)), pass(Counter::PassLength)),
        row(
            "IPv6 payload length 0 passes",
            six().edit_ip(|p| p[4..6].copy_from_slice(&[0, 0])),
            pass(Counter::PassLength),
        ),
        row("another IPv6 destination passes", six().to("2001:db8::55"), pass(Counter::PassNotListening)),
        row(
            "the first half of an IPv6 destination counts",
            six().to("2001:db9::53"),
            pass(Counter::PassNotListening),
        ),
        row("all nodes pass", six().to("ff02::1"), pass(Counter::PassNotListening)),
        row("the second IPv6 address has its own port", six().to(SECOND_V6.0).port(SECOND_V6.1), v6()),
        row(
            "the second IPv6 address with the first port passes",
            six().to(SECOND_V6.0),
            pass(Counter::PassNotListening),
        ),
    ]
}

pub fn rows() -> Vec<Row> {
    let mut rows = v4_rows();
    rows.extend(v6_rows());
    let refused = [
        "0.0.0.0",
        "0.1.2.3",
        "0.255.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
    ];
    for source in refused {
        rows.push(row(&format!("source {source} passes"), one().from(source), pass(Counter::PassSource)));
    }
    for source in ["1.0.0.0", "10.0.0.1", "126.255.255.255", "128.0.0.0", "192.168.1.1", "223.255.255.255"] {
        rows.push(row(&format!("source {source} is answered"), one().from(source), answer(&[host_v4(1, 1)])));
    }
    for source in ["::", "::1", "ff02::1", "ffff::1", "::ffff:192.0.2.1", "::ffff:0.0.0.0"] {
        rows.push(row(&format!("source {source} passes"), six().from(source), pass(Counter::PassSource)));
    }
    for source in ["::2", "::192.0.2.1", "64:ff9b::192.0.2.1", "fe80::1", "fd00::1", CLIENT_V6] {
        rows.push(row(&format!("source {source} is answered"), six().from(source), answer(&["fd00:1::1"])));
    }
    rows
}
