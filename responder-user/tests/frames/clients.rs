//! Who gets which answer: classes of clients by prefixes of every length.

use responder_common::counters::Counter;

use crate::{
    lab::{
        frame::{A, AAAA, query},
        world::{CLASSES, host_v4, host_v6},
    },
    row::{Row, answer, pass, row},
};

/// The service that clients of a place get; without a place the first one.
fn host(place: &str) -> u8 {
    let at = CLASSES.iter().position(|(_, preferred)| *preferred == place);
    assert!(at.is_some() || place.is_empty(), "{place} is no place");
    at.map_or(1, |at| at as u8 + 2)
}

pub fn rows() -> Vec<Row> {
    let clients = [
        ("198.51.100.200", "Four.Host"),
        ("198.51.100.199", "Four.Half"),
        ("198.51.100.201", "Four.Half"),
        ("198.51.100.128", "Four.Half"),
        ("198.51.100.255", "Four.Half"),
        ("198.51.100.127", "Four.Net"),
        ("198.51.100.0", "Four.Net"),
        ("198.51.99.255", ""),
        ("198.51.101.0", ""),
        ("198.51.101.200", ""),
        ("100.0.0.0", "Four.Wide"),
        ("100.255.255.255", "Four.Wide"),
        ("100.51.100.200", "Four.Wide"),
        ("99.255.255.255", ""),
        ("101.0.0.0", ""),
        ("1.0.0.0", ""),
        ("223.255.255.255", ""),
        ("2001:db8:1:1::1", "Six.Host"),
        ("2001:db8:1:1::", "Six.Net"),
        ("2001:db8:1:1::2", "Six.Net"),
        ("2001:db8:1:1:ffff:ffff:ffff:ffff", "Six.Net"),
        ("2001:db8:1::1", "Six.Site"),
        ("2001:db8:1:2::", "Six.Site"),
        ("2001:db8:1:ffff:ffff:ffff:ffff:ffff", "Six.Site"),
        ("2001:db8:0:ffff::", ""),
        ("2001:db8:2::", ""),
        ("2600::", "Six.Wide"),
        ("260f:ffff::1", "Six.Wide"),
        ("2610::", ""),
        ("25ff::1", ""),
        ("::2", ""),
        ("fe80::1", ""),
    ];
    let mut rows = Vec::new();
    for (client, place) in clients {
        let host = host(place);
        let whose = if place.is_empty() { "of no place" } else { place };
        let rule = |what: &str| format!("a client at {client} gets the {what} record of {whose}");
        rows.push(row(
            &rule("A"),
            query("classes.example.com", A).from(client),
            answer(&[host_v4(34, host)]),
        ));
        let frame = query("classes.example.com", AAAA).from(client).opt(1232);
        rows.push(row(&rule("AAAA"), frame, answer(&[host_v6(34, host)])));
    }
    for client in ["198.51.100.200", "100.1.2.3", "2001:db8:1:1::1"] {
        let rule = format!("a client at {client} gets the same answer of a name without places");
        rows.push(row(&rule, query("one.example.com", A).from(client), answer(&[host_v4(1, 1)])));
        let rule = format!("an undecided name passes for a client at {client}");
        let frame = query("undecided.example.com", A).from(client);
        rows.push(row(&rule, frame, pass(Counter::PassUndecided)));
    }
    rows
}
