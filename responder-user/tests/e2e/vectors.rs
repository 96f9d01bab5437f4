//! Preferred locations on the wire (spec/netscaler.md 2.5): every vector, in every XDP mode.

use std::{
    collections::BTreeSet,
    fmt::Write,
    net::UdpSocket,
    thread,
    time::{Duration, Instant},
};

use responder_user::control::command::ForceState;

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, Start, copy_of_binary, rise, risen},
    dns::{self, A, AAAA, Reply},
    health::{Health, SITES},
    say, text,
};

/// What is down, and the pool (the first table of 2.5). The last row falls to 3.7: all that are bound, in one answer.
const EIGHT: [(&str, &str); 9] = [
    ("", "hk"),
    ("hk", "uk"),
    ("hk uk", "in jpn"),
    ("hk uk in", "jpn"),
    ("hk uk in jpn", "ru eg"),
    ("hk uk in jpn ru", "eg"),
    ("hk uk in jpn ru eg", "sd zmb"),
    ("uk", "hk"),
    ("in jpn hk uk ru eg sd zmb", "in jpn hk uk ru eg sd zmb"),
];

/// Queries of one step. Rotation is per CPU: enough for every CPU to come to every address.
const QUERIES: u64 = 48;

/// Who must have answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Xdp,
    Worker,
    Either,
}

/// The services that replies name: those at 10.77.0.1 and on are called so.
fn pool_of(replies: &[Reply], names: &[&'static str]) -> String {
    let mut seen = BTreeSet::new();
    for address in replies.iter().flat_map(|reply| &reply.addresses) {
        let text = address.to_string();
        let last: usize = text.strip_prefix("10.77.0.").expect("a service address").parse().unwrap();
        seen.insert(last - 1);
    }
    seen.into_iter().map(|service| names[service]).collect::<Vec<_>>().join(" ")
}

/// Asks often, checks form and counters, and returns the replies.
fn collect(daemon: &Daemon, socket: &UdpSocket, name: &str, lane: Lane) -> Vec<Reply> {
    let before = daemon.stats();
    let replies: Vec<Reply> = (0..QUERIES).map(|_| dns::ask(socket, name, A)).collect();
    let after = daemon.stats();
    for reply in &replies {
        assert_eq!((reply.rcode, reply.aa, reply.tc, reply.authority), (0, true, false, 0), "{reply:?}");
        assert_eq!(reply.ttls, BTreeSet::from([5]), "{reply:?}");
    }
    let (xdp, worker) = (rise(&before, &after, "xdp_answer_a"), rise(&before, &after, "worker_answer_"));
    let expected = match lane {
        Lane::Xdp => (QUERIES, 0),
        Lane::Worker => (0, QUERIES),
        Lane::Either => (xdp, QUERIES - xdp),
    };
    assert_eq!((xdp, worker), expected, "answered by XDP, by workers\n{}", risen(&before, &after));
    assert_eq!(rise(&before, &after, "worker_answer_noerror"), worker);
    replies
}

fn check_pool(down: &str, pool: &str, replies: &[Reply]) {
    assert_eq!(pool_of(replies, &SITES), pool, "down: {down:?}");
    let each = if down.split(' ').count() == SITES.len() { SITES.len() } else { 1 };
    assert!(
        replies.iter().all(|reply| reply.addresses.len() == each),
        "{each} addresses each; down: {down:?}"
    );
}

/// Services are taken down by an operator's word.
fn eight_sites_by_force(daemon: &Daemon, socket: &UdpSocket, lane: Lane) {
    for (down, pool) in EIGHT {
        for site in SITES {
            let is_down = down.split(' ').any(|name| name == site);
            daemon.force(site, if is_down { ForceState::Down } else { ForceState::Up });
        }
        check_pool(down, pool, &collect(daemon, socket, "www.example.com", lane));
    }
    // The other family: the vserver has no such address, so NODATA with the SOA.
    let reply = dns::ask(socket, "www.example.com", AAAA);
    assert_eq!((reply.rcode, reply.aa, reply.answers, reply.authority), (0, true, 0, 1));
}

/// Services really stop listening, and checks find out.
fn eight_sites_by_health(daemon: &Daemon, health: &Health, socket: &UdpSocket, lane: Lane) {
    for (down, pool) in EIGHT {
        let is_down = |site: &str| down.split(' ').any(|name| name == site);
        for site in SITES {
            health.set(site, !is_down(site));
        }
        let started = Instant::now();
        loop {
            let shown = daemon.ctl_json(&["show", "service"]);
            let states = shown.as_array().expect("a list").iter();
            let usable = states.filter(|s| s["usable"] == true).count();
            let wrong = shown.as_array().unwrap().iter().any(|s| {
                let name = s["name"].as_str().unwrap();
                s["usable"] == is_down(name)
            });
            if !wrong {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "checks see {usable} usable, down should be {down:?}");
            thread::sleep(Duration::from_millis(20));
        }
        daemon.publish_all("zmb");
        check_pool(down, pool, &collect(daemon, socket, "www.example.com", lane));
    }
}

/// Services of the further vectors of 2.5, and where they are.
const PLACES: [(&str, &str); 6] = [
    ("any-uk", "*.UK.*.*"),
    ("uk", "Europe.UK.*.*"),
    ("fr", "Europe.FR.*.*"),
    ("in", "Asia.IN"),
    ("jpn", "Asia.JPN"),
    ("hk", "Asia.HK"),
];

/// One vserver for each of the two lists; each has a client that it concerns.
fn further_text(bed: &Bed, xdp: &str) -> String {
    let mut out = text::head(bed, xdp) + "[[zone]]\nname = \"example.com\"\n\n";
    for (i, (service, place)) in PLACES.iter().enumerate() {
        out += &text::service_at(service, &format!("10.77.0.{}", i + 1), place);
    }
    out += &text::vserver("europe", &["any-uk", "uk", "fr"], "");
    out += &text::vserver("asia", &["in", "jpn", "hk"], "");
    for (priority, name, list, client) in [
        (1, "europe", r#"["*.UK.*.*"]"#, "10.53.0.2"),
        (2, "asia", r#"["Asia.HK", "Asia.JPN"]"#, "10.53.0.3"),
    ] {
        let _ = write!(
            out,
            "[[dns_action]]\nname = {name:?}\npreferred_locations = {list}\n\n[[dns_policy]]\nname = {name:?}\n\
             rule = 'CLIENT.IP.SRC.IN_SUBNET({client}/32)'\naction = {name:?}\npriority = {priority}\n\n"
        );
    }
    out
}

fn further(bed: &Bed, daemon: &Daemon, lane: Lane) {
    let europe = dns::socket_from(bed, "10.53.0.2:0", dns::SERVER);
    let asia = dns::socket_from(bed, "10.53.0.3:0", dns::SERVER);
    let rows = [
        (&europe, "europe.example.com", "", "any-uk uk"),
        (&europe, "europe.example.com", "any-uk", "uk"),
        (&europe, "europe.example.com", "any-uk uk", "fr"),
        (&asia, "asia.example.com", "", "hk"),
        (&asia, "asia.example.com", "hk", "jpn"),
        (&asia, "asia.example.com", "hk jpn", "in"),
    ];
    let names = PLACES.map(|(service, _)| service);
    for (socket, name, down, pool) in rows {
        for service in names {
            let is_down = down.split(' ').any(|name| name == service);
            daemon.force(service, if is_down { ForceState::Down } else { ForceState::Auto });
        }
        let replies = collect(daemon, socket, name, lane);
        assert_eq!(pool_of(&replies, &names), pool, "{name}, down: {down:?}");
    }
}

fn mode_of(daemon: &Daemon) -> String {
    daemon.status()["interfaces"][0]["mode"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn the_vectors_leave_from_xdp_in_native_mode() {
    let bed = Bed::new();
    let health = Health::start(&bed);
    let config = bed.write("responder.toml", &text::eight_sites(&bed, "mode = \"native\""));
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(mode_of(&daemon), "native");
    let socket = dns::socket(&bed);
    eight_sites_by_health(&daemon, &health, &socket, Lane::Xdp);
    eight_sites_by_force(&daemon, &socket, Lane::Xdp);
    let answers = daemon.stats()["xdp_answer_a"];
    daemon.stop();
    let config = bed.write("more.toml", &further_text(&bed, "mode = \"native\""));
    let daemon = Daemon::start(&bed, &config);
    further(&bed, &daemon, Lane::Xdp);
    let stats = daemon.stats();
    assert_eq!(stats["xdp_pass_broken"], 0);
    say!("vectors, native: {} answers, all from XDP", answers + stats["xdp_answer_a"]);
}

#[test]
fn the_vectors_are_the_same_in_generic_mode() {
    let bed = Bed::new();
    let _health = Health::start(&bed);
    let config = bed.write("responder.toml", &text::eight_sites(&bed, "mode = \"generic\""));
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(mode_of(&daemon), "generic");
    eight_sites_by_force(&daemon, &dns::socket(&bed), Lane::Either);
    let stats = daemon.stats();
    say!(
        "vectors, generic: {} from XDP, {} from workers",
        stats["xdp_answer_a"],
        stats["worker_answer_noerror"]
    );
    daemon.stop();
    let config = bed.write("more.toml", &further_text(&bed, "mode = \"generic\""));
    further(&bed, &Daemon::start(&bed, &config), Lane::Either);
}

#[test]
fn the_vectors_are_the_same_without_xdp() {
    let bed = Bed::new();
    let health = Health::start(&bed);
    let config = bed.write("responder.toml", &text::eight_sites(&bed, "mode = \"off\""));
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(mode_of(&daemon), "off");
    let socket = dns::socket(&bed);
    eight_sites_by_health(&daemon, &health, &socket, Lane::Worker);
    eight_sites_by_force(&daemon, &socket, Lane::Worker);
    daemon.stop();
    let config = bed.write("more.toml", &further_text(&bed, "mode = \"off\""));
    further(&bed, &Daemon::start(&bed, &config), Lane::Worker);
    assert!(!bed.pins().exists(), "without XDP nothing is pinned");
}

#[test]
fn without_xdp_and_without_root_on_a_high_port() {
    const NOBODY: u32 = 65_534;
    const HIGH: &str = "10.53.0.1:5353";
    let bed = Bed::new();
    let health = Health::start(&bed);
    let binary = copy_of_binary(&bed);
    for folder in ["run", "state"] {
        let path = bed.folder().join(folder);
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let text = text::eight_sites(&bed, "mode = \"off\"").replace("10.53.0.1:53\"", "10.53.0.1:5353\"");
    let text = text.replace("[2001:db8:53::1]:53", "[2001:db8:53::1]:5353");
    let config = bed.write("responder.toml", &text);
    let daemon = Start::new(&bed, &config).binary(&binary).uid(NOBODY).ready();
    let socket = dns::socket_from(&bed, "10.53.0.2:0", HIGH);
    eight_sites_by_health(&daemon, &health, &socket, Lane::Worker);
    let query = dns::query(7, "www.example.com", A);
    let reply = dns::read(&query, &dns::exchange_tcp(&bed, HIGH, &query));
    assert_eq!((reply.rcode, reply.answers), (0, 8), "all are down in the last row");
    daemon.stop();
}
