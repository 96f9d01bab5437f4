//! A new configuration under load: no query lost, and all or nothing (spec/reliability.md T-C9).

use std::{thread, time::Duration};

use nix::sys::signal::Signal;
use responder_user::control::{client::ClientError, command::ForceState};

use responder_testbed::{ebpf_object, veth::attach_xdp};

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, Start},
    dns::{self, A},
    is_full,
    load::{self, Load},
    pins::link_id,
    say, text,
};

/// Rounds of the normal run and of the long one; each has four good files and two bad ones.
fn rounds() -> u32 {
    if is_full() { 500 } else { 10 }
}

/// The same numbers as the base, more names.
fn more_names(base: &str) -> String {
    (0..200).fold(base.to_owned(), |all, i| all + &text::domain(&format!("x{i}.example.com"), "s1"))
}

/// Other weights: the same owners and classes, other rings.
fn other_weights(base: &str) -> String {
    let changed = base.replace(r#"["p1", "p2"]"#, r#"[{ name = "p1", weight = 3 }, "p2"]"#);
    assert_ne!(changed, base);
    changed
}

/// A policy splits the clients: other classes, so a second world and one flip.
fn more_classes(base: &str) -> String {
    base.to_owned() + &text::policy("10.53.0.0/24")
}

/// Four faults in one file.
fn bad(base: &str) -> String {
    let domains = text::domain("a..b", "s1") + &text::domain("fine.example.com", "nobody");
    base.to_owned() + &domains.replace("ttl = 5\n\n[[", "ttl = \"long\"\n\n[[") + "[nonsense]\nkey = 1\n"
}

#[test]
fn reloads_under_load_lose_nothing_and_bad_files_change_nothing() {
    let bed = Bed::new();
    let base = text::head(&bed, "on_exit = \"keep\"") + &text::stable() + &text::flapping();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let link = link_id(&bed);
    let socket = dns::socket(&bed);
    let load = Load::start(&bed, load::stable().into_iter().chain(load::flapping()).collect(), 4_000);
    let rcode_of = |name: &str| dns::ask(&socket, name, A).rcode;
    for _ in 0..rounds() {
        bed.write("responder.toml", &more_names(&base));
        daemon.reload().expect("more names");
        assert_eq!(rcode_of("x7.example.com"), 0);
        bed.write("responder.toml", &bad(&base));
        let generation = daemon.status()["generation"].clone();
        let Err(ClientError::Refused(refusal)) = daemon.reload() else { panic!("a bad file is refused") };
        assert_bad(&refusal.details);
        assert_eq!(daemon.status()["generation"], generation);
        assert_eq!(rcode_of("x7.example.com"), 0, "the old answers stay");
        bed.write("responder.toml", &other_weights(&base));
        daemon.reload().expect("other weights");
        assert_eq!(rcode_of("x7.example.com"), 3, "the names are gone");
        bed.write("responder.toml", &more_classes(&base));
        daemon.reload().expect("another world");
        bed.write("responder.toml", "this is no TOML");
        assert!(daemon.reload().is_err());
        bed.write("responder.toml", &base);
        daemon.reload().expect("the first file");
    }
    let totals = load.stop();
    totals.assert_clean(1_000, "reload");
    assert_eq!(link_id(&bed), link, "the same link all the time");
    say!("reload: {} good and {} bad files, {} queries, 0 lost", rounds() * 4, rounds() * 2, totals.sent);
}

/// Every problem of [`bad`] with its place.
fn assert_bad(details: &[String]) {
    let all = details.join("\n");
    assert!(details.len() >= 4, "every problem is listed: {all}");
    for part in ["a..b", "nobody", "ttl", "nonsense"] {
        let line = details.iter().find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("{part}: not said: {all}"));
        let place = line.split_once("responder.toml:").expect("the file").1;
        let numbers: Vec<&str> = place.split(':').take(2).collect();
        assert!(numbers.iter().all(|n| n.parse::<u32>().is_ok()), "line and column: {line}");
    }
}

#[test]
fn sighup_reads_the_file_again_and_says_what_is_wrong() {
    let bed = Bed::new();
    let base = text::head(&bed, "on_exit = \"keep\"") + &text::stable() + &text::flapping();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let load = Load::start(&bed, load::stable(), 2_000);
    bed.write("responder.toml", &more_names(&base));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_line("read again", |line| line.contains("configuration read again: 210 names"));
    assert_eq!(dns::ask(&socket, "x199.example.com", A).answers, 1);
    bed.write("responder.toml", &bad(&base));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_line("refused", |line| line.contains("the new configuration is refused"));
    daemon.wait_line("the last problem", |line| line.contains("nonsense"));
    assert_eq!(dns::ask(&socket, "x199.example.com", A).answers, 1, "the old answers stay");
    thread::sleep(Duration::from_millis(100));
    load.stop().assert_clean(100, "SIGHUP");
}

#[test]
fn orders_of_operators_outlive_a_reload() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable() + &text::flapping();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    daemon.ctl_ok(&["disable", "service", "p1"]);
    daemon.force("p3", responder_user::control::command::ForceState::Down);
    for text in [more_names(&base), more_classes(&base)] {
        bed.write("responder.toml", &text);
        daemon.reload().expect("a good file");
        for (name, left) in [("f1.example.com", "198.51.100.2"), ("f2.example.com", "198.51.100.4")] {
            for _ in 0..8 {
                assert_eq!(dns::ask(&socket, name, A).addresses[0].to_string(), left);
            }
        }
    }
}

#[test]
fn what_needs_a_restart_is_refused_by_name() {
    let bed = Bed::new();
    let base = text::head(&bed, "mode = \"native\"") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    bed.write("responder.toml", &base.replace("\"native\"", "\"generic\""));
    let Err(ClientError::Refused(refusal)) = daemon.reload() else { panic!("xdp.mode cannot change") };
    assert!(refusal.details.join("\n").contains("xdp.mode"), "{refusal:?}");
    assert_eq!(dns::ask(&dns::socket(&bed), "s1.example.com", A).answers, 1);
}

#[test]
fn listening_addresses_change_with_a_reload() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let load = Load::start(&bed, load::stable(), 2_000);
    bed.write(
        "responder.toml",
        &base.replace("\"[2001:db8:53::1]:53\"", "\"[2001:db8:53::1]:53\", \"10.53.0.1:5353\""),
    );
    daemon.reload().expect("one more address");
    let socket = dns::socket_from(&bed, "10.53.0.2:0", "10.53.0.1:5353");
    assert_eq!(dns::ask(&socket, "s1.example.com", A).answers, 1);
    let six = dns::socket_from(&bed, "[2001:db8:53::2]:0", "[2001:db8:53::1]:53");
    assert_eq!(dns::ask(&six, "s1.example.com", A).answers, 1);
    thread::sleep(Duration::from_millis(100));
    let before = daemon.stats()["xdp_pass_not_listening"];
    bed.write("responder.toml", &base);
    daemon.reload().expect("the first file");
    let query = dns::query(1, "s1.example.com", A);
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(dns::exchange(&socket, &query), None, "nobody listens there any more");
    assert!(daemon.stats()["xdp_pass_not_listening"] > before);
    thread::sleep(Duration::from_millis(100));
    load.stop().assert_clean(100, "listen.addresses");
}

/// A second interface that carries somebody else's program.
fn with_occupied_interface(bed: &Bed, base: &str) -> String {
    bed.ip("link add dmy0 type veth peer name dmy1");
    bed.ip("link set dmy0 up");
    bed.ip("link set dmy1 up");
    attach_xdp(bed.server(), "dmy0", &ebpf_object("pass")).unwrap_or_else(|error| panic!("{error}"));
    base.replace("interfaces = [\"gslb0\"]", "interfaces = [\"gslb0\", \"dmy0\"]")
}

#[test]
fn a_reload_that_an_interface_refuses_changes_no_answer() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let occupied = with_occupied_interface(&bed, &more_names(&base));
    for text in
        [occupied.clone(), more_classes(&occupied), occupied.replace("\"gslb0\", \"dmy0\"", "\"nothere\"")]
    {
        bed.write("responder.toml", &text);
        let Err(ClientError::Refused(refusal)) = daemon.reload() else { panic!("an interface refuses") };
        let details = refusal.details.join("\n");
        assert!(details.contains("dmy0") || details.contains("nothere"), "{details}");
        assert_eq!(dns::ask(&socket, "x7.example.com", A).rcode, 3, "the old answers stay");
        let before = daemon.stats()["xdp_answer_a"];
        assert_eq!(dns::ask(&socket, "s1.example.com", A).answers, 1);
        assert_eq!(daemon.stats()["xdp_answer_a"], before + 1, "from XDP");
    }
    bed.write("responder.toml", &more_names(&base));
    daemon.reload().expect("the interface that is ours");
    assert_eq!(dns::ask(&socket, "x7.example.com", A).answers, 1);
}

#[test]
fn a_reload_with_one_missing_interface_is_degraded_and_not_refused() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let with_missing = more_names(&base).replace("[\"gslb0\"]", "[\"gslb0\", \"dmy0\"]");
    for text in [with_missing.clone(), more_classes(&with_missing)] {
        bed.write("responder.toml", &text);
        let done = daemon.reload().expect("one interface is there");
        let warnings = done["warnings"].to_string();
        assert!(warnings.contains(":9:24: xdp.interfaces: \\\"dmy0\\\" does not exist"), "{warnings}");
        let before = daemon.stats()["xdp_answer_a"];
        assert_eq!(dns::ask(&dns::socket(&bed), "x7.example.com", A).answers, 1);
        assert_eq!(daemon.stats()["xdp_answer_a"], before + 1, "from XDP");
        let status = daemon.status();
        assert_eq!(
            (&status["interfaces"][0]["mode"], &status["interfaces"][1]["link"]),
            (&"native".into(), &"missing".into())
        );
        assert!(status["problems"].to_string().contains("interface dmy0: link is missing"), "{status}");
    }
    // The interfaces in force may be gone all together: a reload has no part in that.
    bed.ip("link delete gslb0");
    daemon.reload().expect("nothing new is missing");
    bed.wire_pair();
}

#[test]
fn sighup_logs_the_warnings_that_reload_shows() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    bed.write("responder.toml", &(base + "[metrics]\nlisten = \"127.0.0.1:9153\"\n"));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_line("the warning", |line| line.contains("metrics has no effect yet"));
}

#[test]
fn from_an_address_to_the_wildcard_and_back_without_a_lost_query() {
    let bed = Bed::new();
    let base = text::head(&bed, "mode = \"off\"") + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let load = Load::start(&bed, load::stable(), 4_000);
    let six = dns::socket_from(&bed, "[2001:db8:53::2]:0", "[2001:db8:53::1]:53");
    for round in 0..10 {
        let addresses =
            ["\"0.0.0.0:53\", \"[::]:53\"", "\"10.53.0.1:53\", \"[2001:db8:53::1]:53\""][round % 2];
        let text = base.replace("\"10.53.0.1:53\", \"[2001:db8:53::1]:53\"", addresses);
        bed.write("responder.toml", &text);
        daemon.reload().expect("another address of ours");
        assert_eq!(dns::ask(&six, "s1.example.com", A).answers, 1);
        dns::exchange_tcp(&bed, "10.53.0.1:53", &dns::query(1, "s1.example.com", A));
        thread::sleep(Duration::from_millis(50));
    }
    let totals = load.stop();
    totals.assert_clean(500, "wildcard");
    say!("address to wildcard and back: 10 reloads, {} queries, 0 lost", totals.sent);
}

#[test]
fn a_reload_before_the_first_decisions_takes_no_answer_away() {
    let bed = Bed::new();
    let base = text::head(&bed, "on_exit = \"keep\"") + &text::stable();
    let config = bed.write("responder.toml", &base);
    Daemon::start(&bed, &config).stop();
    let slow = "[[monitor]]\nname = \"slow\"\ntype = \"tcp\"\ninterval = \"10s\"\ntimeout = \"9s\"\n\n"
        .to_owned()
        + &text::service("slow", "10.53.0.99").replace("port = 80", "port = 80\nmonitors = [\"slow\"]")
        + &text::vserver("more", &["s1", "slow"], "")
        + &text::vserver("s9", &["slow"], "");
    // Packets to it are lost: the first result takes nine seconds.
    bed.ip("neigh add 10.53.0.99 lladdr 02:00:00:00:00:99 dev gslb0");
    let waiting = base.replace("services = [\"s1\"]", "services = [\"s1\", \"slow\"]") + &slow;
    bed.write("responder.toml", &waiting);
    let daemon = Start::new(&bed, &config).spawn();
    daemon.wait_line("a new world", |line| line.contains("a new world"));
    thread::sleep(Duration::from_millis(200));
    let load = Load::start(&bed, load::stable(), 500);
    for text in [waiting.clone(), more_names(&waiting), more_classes(&waiting)] {
        bed.write("responder.toml", &text);
        daemon.reload().expect("a good file");
        thread::sleep(Duration::from_millis(300));
        assert_eq!(daemon.status()["ready"], false);
    }
    daemon.wait_ready();
    thread::sleep(Duration::from_millis(200));
    load.stop().assert_clean(100, "reload before the first decisions");
    assert_eq!(dns::ask(&dns::socket(&bed), "s1.example.com", A).answers, 1);
}

#[test]
fn interfaces_are_followed_while_another_one_is_missing() {
    let bed = Bed::new();
    bed.ip("link add dmy0 type veth peer name dmy1");
    let base = text::head(&bed, "").replace("interfaces = [\"gslb0\"]", "interfaces = [\"gslb0\", \"dmy0\"]")
        + &text::stable();
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    bed.ip("link delete dmy0");
    bed.ip("link set dev gslb0 address 02:00:00:00:53:01");
    bed.client_ip("neigh replace 10.53.0.1 lladdr 02:00:00:00:53:01 dev cli0");
    thread::sleep(Duration::from_millis(2500));
    let socket = dns::socket(&bed);
    let before = daemon.stats()["xdp_answer_a"];
    assert_eq!(dns::ask(&socket, "s1.example.com", A).answers, 1);
    assert_eq!(daemon.stats()["xdp_answer_a"], before + 1, "the new address of the interface is followed");
}

/// Found by cycling reloads under queries: while workers still had the old zones, the table already passed the name.
#[test]
fn a_name_that_moves_between_a_vserver_and_zone_data_is_never_denied() {
    let bed = Bed::new();
    let zone = |records: &str| {
        format!(
            "$ORIGIN example.com.\n@ 5 IN SOA ns1 hostmaster 1 3600 600 86400 5\n@ IN NS ns1\nns1 IN A 192.0.2.53\n{records}"
        )
    };
    let path = bed.write("example.com.zone", &zone(""));
    let base = text::head(&bed, "")
        + &format!("[[zone]]\nname = \"example.com\"\nfile = {path:?}\n\n")
        + &text::service("one", "192.0.2.1")
        + &text::vserver("stays", &["one"], "");
    let bound = base.clone() + &text::domain("mv.example.com", "stays");
    let config = bed.write("responder.toml", &bound);
    let daemon = Daemon::start(&bed, &config);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let socket = dns::socket(&bed);
            let mut asked = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let reply = dns::ask(&socket, "mv.example.com", A);
                assert_eq!((reply.rcode, reply.answers), (0, 1), "after {asked} right answers");
                asked += 1;
            }
            asked
        });
        for round in 0..12 {
            let (text, records) = [(&base, "mv 5 IN A 192.0.2.50\n"), (&bound, "")][round % 2];
            bed.write("example.com.zone", &zone(records));
            bed.write("responder.toml", text);
            daemon.reload().expect("a good file");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        client.join().expect("every answer right")
    });
    say!("a name between vserver and zone data: 12 reloads, {asked} queries, never denied");
}

/// Found by hand: the memory of virtual servers began with their first change, so their first DOWN was none.
#[test]
fn the_first_down_after_a_start_latches() {
    let bed = Bed::new();
    let config = text::head(&bed, "")
        + &text::service("s", "192.0.2.1")
        + &text::service("t", "192.0.2.2")
        + &text::vserver("v", &["s"], "backup = \"b\"\ndisable_primary_on_down = true")
        + &text::vserver("b", &["t"], "");
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &config));
    let socket = dns::socket(&bed);
    let answer = || dns::ask(&socket, "v.example.com", A).addresses;
    let wait = |address: &str| {
        let until = std::time::Instant::now() + PATIENCE;
        while answer() != [address.parse::<std::net::IpAddr>().unwrap()] {
            assert!(std::time::Instant::now() < until, "{:?}, wanted {address}", answer());
        }
    };
    wait("192.0.2.1");
    daemon.force("s", ForceState::Down);
    wait("192.0.2.2");
    daemon.force("s", ForceState::Up);
    std::thread::sleep(std::time::Duration::from_millis(300));
    wait("192.0.2.2");
    daemon.ctl_ok(&["enable", "vserver", "v"]);
    wait("192.0.2.1");
}
