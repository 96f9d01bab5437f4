//! Ethernet: addresses, tags, padding, frames that end too soon.

use responder_common::counters::Counter;

use crate::{
    lab::{
        OUR_IFINDEX, OUR_MAC,
        frame::{A, AAAA, Query, query},
        interface,
        world::host_v4,
    },
    open_classless,
    row::{self, Row, answer, pass, row},
};

fn one() -> Query {
    query("one.example.com", A)
}

fn six() -> Query {
    query("one.example.com", AAAA).v6()
}

fn mac(at: usize, mac: [u8; 6]) -> impl Fn(&mut Vec<u8>) {
    move |frame| frame[at..at + 6].copy_from_slice(&mac)
}

fn ethertype(value: u16) -> impl Fn(&mut Vec<u8>) {
    move |frame| frame[12..14].copy_from_slice(&value.to_be_bytes())
}

pub fn rows() -> Vec<Row> {
    let (v4, v6) = (|| answer(&[host_v4(1, 1)]), || answer(&["fd00:1::1"]));
    let mut rows = vec![
        row("A over IPv4 is answered", one(), v4()),
        row("AAAA over IPv6 is answered", six(), v6()),
        row("A over IPv6 is answered", one().v6(), v4()),
        row("AAAA over IPv4 is answered", query("one.example.com", AAAA), v6()),
        row("a tag of 802.1Q stays in the reply", one().tag(0x8100, 0x0064), v4()),
        row("a tag of 802.1ad stays in the reply", one().tag(0x88a8, 0x0064), v4()),
        row("priority and drop bits of a tag stay", one().tag(0x8100, 0xffff), v4()),
        row("tag 0 is a tag", one().tag(0x8100, 0), v4()),
        row("a tag over IPv6 stays", six().tag(0x8100, 7), v6()),
        row("802.1ad over IPv6 stays", six().tag(0x88a8, 7), v6()),
        row("a tagged query with OPT is answered", one().tag(0x8100, 7).opt(1232), v4()),
        row("two tags stay in the reply", one().tag(0x8100, 1).tag(0x8100, 2), v4()),
        row("two tags of 802.1ad stay", one().tag(0x88a8, 1).tag(0x88a8, 2), v4()),
        row("802.1ad around 802.1Q stays", one().tag(0x88a8, 0xffff).tag(0x8100, 0), v4()),
        row("802.1Q around 802.1ad stays", one().tag(0x8100, 1).tag(0x88a8, 2).opt(1232), v4()),
        row("two tags over IPv6 stay", six().tag(0x88a8, 1).tag(0x8100, 2).opt(1232), v6()),
        row("three tags pass", one().tag(0x8100, 1).tag(0x8100, 2).tag(0x8100, 3), pass(Counter::PassVlan)),
        row(
            "three tags over IPv6 pass",
            six().tag(0x88a8, 1).tag(0x8100, 2).tag(0x8100, 3),
            pass(Counter::PassVlan),
        ),
        row("0x9100 behind a tag is no tag", one().tag(0x8100, 1).tag(0x9100, 1), pass(Counter::PassNotIp)),
        row("0x9100 is no tag", one().tag(0x9100, 1), pass(Counter::PassNotIp)),
        row("padding of zeros is not part of the message", one().padded(100, 0), v4()),
        row("padding of ones is not part of the message", one().padded(100, 0xff), v4()),
        row("a frame of 300 octets with a short query shrinks", one().padded(300, 0xaa), v4()),
        row("padding behind IPv6 is not part of the message", six().padded(200, 0xff), v6()),
        row(
            "padding behind a tagged frame is not part of the message",
            one().tag(0x8100, 1).padded(128, 0xff),
            v4(),
        ),
        row("one octet of padding", one().padded(one().build().len() + 1, 0x55), v4()),
        row("a root query padded to 60 octets", query(".", A).padded(60, 0xee), answer(&[host_v4(40, 1)])),
        row("ARP passes", one().edit_frame(ethertype(0x0806)), pass(Counter::PassNotIp)),
        row("LLDP passes", one().edit_frame(ethertype(0x88cc)), pass(Counter::PassNotIp)),
        row(
            "a length in place of a type passes",
            one().edit_frame(ethertype(0x0040)),
            pass(Counter::PassNotIp),
        ),
        row("PPPoE passes", one().edit_frame(ethertype(0x8864)), pass(Counter::PassNotIp)),
        row("MPLS passes", one().edit_frame(ethertype(0x8847)), pass(Counter::PassNotIp)),
        row(
            "tagged ARP passes",
            one().tag(0x8100, 1).edit_frame(|f| f[16..18].copy_from_slice(&[8, 6])),
            pass(Counter::PassNotIp),
        ),
        row("IPv6 said to be IPv4 passes", six().edit_frame(ethertype(0x0800)), pass(Counter::PassIpOptions)),
        row("IPv4 said to be IPv6 passes", one().edit_frame(ethertype(0x86dd)), pass(Counter::PassNotIp)),
        row(
            "another destination MAC passes",
            one().edit_frame(mac(0, [2, 0, 0, 0, 0, 8])),
            pass(Counter::PassMac),
        ),
        row(
            "one bit of the MAC counts",
            one().edit_frame(mac(0, [3, 0, 0, 0, 0, 9])),
            pass(Counter::PassMac),
        ),
        row(
            "the last octet of the MAC counts",
            six().edit_frame(mac(0, [2, 0, 0, 0, 0, 0x19])),
            pass(Counter::PassMac),
        ),
        row("broadcast passes", one().edit_frame(mac(0, [0xff; 6])), pass(Counter::PassMac)),
        row("multicast passes", six().edit_frame(mac(0, [0x33, 0x33, 0, 0, 0, 1])), pass(Counter::PassMac)),
        row("the zero MAC passes", one().edit_frame(mac(0, [0; 6])), pass(Counter::PassMac)),
        row(
            "a tagged frame to another MAC passes",
            one().tag(0x8100, 1).edit_frame(mac(0, [2, 0, 0, 0, 0, 8])),
            pass(Counter::PassMac),
        ),
        row("the source MAC may be ours", one().edit_frame(mac(6, OUR_MAC)), v4()),
        row("the source MAC may be multicast", one().edit_frame(mac(6, [0xff; 6])), v4()),
    ];
    let ends = [
        (14, "in front of IPv4"),
        (17, "inside the first word of IPv4"),
        (21, "inside the fragment word"),
        (23, "in front of the protocol"),
        (29, "inside the source"),
        (33, "inside the destination"),
        (34, "in front of UDP"),
        (37, "inside the ports"),
        (39, "inside the UDP length"),
    ];
    for (len, place) in ends {
        rows.push(row(
            &format!("a frame that ends {place} passes"),
            one().cut(len),
            pass(Counter::PassShort),
        ));
    }
    let ends = [
        (14, "in front of IPv6"),
        (21, "inside the first words of IPv6"),
        (37, "inside the source of IPv6"),
        (53, "inside the destination of IPv6"),
        (54, "in front of UDP over IPv6"),
        (59, "inside the UDP header over IPv6"),
    ];
    for (len, place) in ends {
        rows.push(row(
            &format!("a frame that ends {place} passes"),
            six().cut(len),
            pass(Counter::PassShort),
        ));
    }
    for (len, place) in
        [(20, "inside the second tag"), (21, "inside the type behind two tags"), (22, "behind two tags")]
    {
        rows.push(row(
            &format!("a frame that ends {place} passes"),
            one().tag(0x88a8, 1).tag(0x8100, 1).cut(len),
            pass(Counter::PassShort),
        ));
    }
    let tagged = || one().tag(0x8100, 1);
    for (len, place) in [(16, "inside a tag"), (17, "inside the type behind a tag"), (18, "behind a tag")] {
        rows.push(row(
            &format!("a frame that ends {place} passes"),
            tagged().cut(len),
            pass(Counter::PassShort),
        ));
    }
    rows
}

/// Rows of the interface table that are used.
type Rows<'a> = &'a [([u8; 6], u32)];

/// Rows of the interface table: address and index belong together, unused rows end the table.
#[test]
fn only_frames_of_our_interfaces_are_answered() {
    let mut lab = open_classless("interfaces");
    let other = [2, 0, 0, 0, 0, 7];
    let cases: [(&str, Rows<'_>, bool); 7] = [
        ("ours", &[(OUR_MAC, OUR_IFINDEX)], true),
        ("another index", &[(OUR_MAC, OUR_IFINDEX + 1)], false),
        ("another address", &[(other, OUR_IFINDEX)], false),
        ("the second row", &[(other, OUR_IFINDEX), (OUR_MAC, OUR_IFINDEX)], true),
        ("address and index of two rows", &[(OUR_MAC, 7), (other, OUR_IFINDEX)], false),
        // The program would stop at it, so the writer leaves no gap.
        ("behind an unused row", &[([0; 6], 0), (OUR_MAC, OUR_IFINDEX)], true),
        ("the last row", &[(other, 1); 15], true),
    ];
    for (what, rows, is_ours) in cases {
        lab.surround(Some(&|around| {
            around.interfaces = [interface([0; 6], 0); 16];
            for (word, (mac, ifindex)) in around.interfaces.iter_mut().zip(rows) {
                *word = interface(*mac, *ifindex);
            }
            if rows.len() == 15 {
                around.interfaces[15] = interface(OUR_MAC, OUR_IFINDEX);
            }
        }));
        let want = if is_ours { answer(&[host_v4(1, 1)]) } else { pass(Counter::PassMac) };
        row::run(&mut lab, &row(what, one(), want)).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// Suspected once: another counter rose where no interface was known.
#[test]
fn without_an_interface_the_counter_is_that_of_the_address() {
    let mut lab = open_classless("no-interface");
    lab.surround(Some(&|around| around.interfaces = [interface([0; 6], 0); 16]));
    for frame in [one(), six(), one().tag(0x8100, 1), one().edit_frame(mac(0, [0; 6]))] {
        let row = row("no interface", frame, pass(Counter::PassMac));
        row::run(&mut lab, &row).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Seen once: the port was looked at before the address of the link, so that frames of others were dropped.
#[test]
fn a_service_port_does_not_drop_what_is_not_for_us() {
    let mut lab = open_classless("not-ours");
    for port in [7, 123, 1900] {
        for frame in [one(), six(), six().tag(0x8100, 1)] {
            let frame = frame.source_port(port).edit_frame(mac(0, [2, 0, 0, 0, 0, 8]));
            let row = row("not ours", frame, pass(Counter::PassMac));
            row::run(&mut lab, &row).unwrap_or_else(|error| panic!("port {port}: {error}"));
        }
    }
}
