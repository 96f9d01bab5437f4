//! From the result of a check that decides to the new answer.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use responder_user::control::{Command as Order, EventKind};

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE},
    dns::{self, A},
    health::Health,
    is_full, say, text,
};

fn changes() -> usize {
    if is_full() { 1_000 } else { 120 }
}

/// Microseconds of every publish that a check caused, by generation.
fn microseconds(daemon: &Daemon) -> BTreeMap<u64, u64> {
    let events = daemon.order(&Order::Events { follow: false, kind: Some(EventKind::Publish), last: None });
    let list = events.as_array().expect("a list").iter();
    list.filter_map(|event| {
        let number = |key: &str| event.get(key).or_else(|| event["fields"].get(key))?.as_u64();
        Some((number("generation")?, number("microseconds")?))
    })
    .collect()
}

#[test]
fn a_deciding_result_becomes_an_answer_within_ten_milliseconds() {
    let bed = Bed::alone();
    let health = Health::start(&bed);
    let text = text::eight_sites(&bed, "mode = \"native\"");
    // Checks often, so that many changes fit into the time of a test.
    let text = text.replace("interval = \"250ms\"", "interval = \"100ms\"").replace("\"200ms\"", "\"80ms\"");
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let first = |socket| dns::ask(socket, "www.example.com", A).addresses[0].to_string();
    assert_eq!(first(&socket), "10.77.0.3");
    let before = microseconds(&daemon).len();
    let (mut wrong, mut seen) = (0, Vec::new());
    for round in 0..changes() {
        let is_up = round % 2 == 1;
        let (old, new) = if is_up { ("10.77.0.4", "10.77.0.3") } else { ("10.77.0.3", "10.77.0.4") };
        health.set("hk", is_up);
        let changed = Instant::now();
        loop {
            match first(&socket) {
                address if address == new => break,
                address if address == old => {}
                _ => wrong += 1,
            }
            assert!(changed.elapsed() < PATIENCE, "the answer does not change");
            thread::sleep(Duration::from_micros(300));
        }
        seen.push(changed.elapsed());
    }
    // The event follows the answer.
    daemon.publish_all("zmb");
    let mut took: Vec<u64> = microseconds(&daemon).into_values().skip(before).collect();
    took.sort_unstable();
    seen.sort_unstable();
    assert!(took.len() >= changes(), "{} events for {} changes", took.len(), changes());
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    say!(
        "reaction: {} changes; result to answer {} us median, {} us p99, {} us slowest; death to answer on the wire {:.0} ms median, {:.0} ms slowest (checks every 100 ms); {wrong} wrong answers",
        took.len(),
        at(50),
        at(99),
        at(100),
        seen[seen.len() / 2].as_secs_f64() * 1e3,
        seen[seen.len() - 1].as_secs_f64() * 1e3,
    );
    assert_eq!(wrong, 0);
    assert!(at(99) < 10_000, "p99 is {} us", at(99));
}
