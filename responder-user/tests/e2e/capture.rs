//! What operators see of the packet path: captures that tcpdump reads, top names, run times, kinds of answers.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    bed::{Bed, tool},
    daemon::{Daemon, RESPONDERCTL},
    dns::{self, A, AAAA},
    load::{self, Load},
    text,
};

fn start(bed: &Bed) -> Daemon {
    let zone = "[[zone]]\nname = \"quiet.test\"\n\n";
    let text = text::head(bed, "mode = \"native\"") + &text::stable() + zone;
    Daemon::start(bed, &bed.write("responder.toml", &text))
}

/// A capture in the background, begun.
struct Capture {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Capture {
    fn start(daemon: &Daemon, args: &[&str]) -> Self {
        let socket = daemon.socket_path().to_str().unwrap();
        let mut command = Command::new(RESPONDERCTL);
        command.args(["--socket", socket]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "responderctl: capturing on gslb0\n", "{args:?}\n{}", daemon.log());
        Self { child, stderr }
    }

    /// Its end: what it printed, and said.
    fn finish(mut self) -> (String, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    }
}

#[test]
fn a_capture_is_read_by_tcpdump_query_and_answer() {
    let bed = Bed::new();
    let daemon = start(&bed);
    let path = bed.folder().join("all.pcap");
    let socket = dns::socket(&bed);
    let capture = Capture::start(&daemon, &["capture", "--write", path.to_str().unwrap(), "--count", "6"]);
    for i in 1..=3 {
        for qtype in [A, AAAA] {
            dns::ask(&socket, &format!("s{i}.example.com"), qtype);
        }
    }
    let (_, said) = capture.finish();
    assert!(said.contains("12 frames of 6 queries") && !said.contains("missing"), "{said}");
    let read = tool("tcpdump", &["-n", "-vv", "-r", path.to_str().unwrap()]);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read = String::from_utf8(read.stdout).unwrap();
    for i in 1..=3 {
        assert!(read.contains(&format!("A? s{i}.example.com.")), "{read}");
        assert!(read.contains(&format!("s{i}.example.com. A 192.0.2.{i}")), "{read}");
        assert!(read.contains(&format!("s{i}.example.com. AAAA 2001:db8::{i}")), "{read}");
    }
    assert_eq!(read.matches("[udp sum ok]").count(), 6, "six answers with right checksums: {read}");
    // Checksums of queries are not finished by a sender on the same host.
    assert!(!read.contains("[|domain]") && !read.contains("truncated"), "{read}");
    let path = path.to_str().unwrap();
    let marked = tool("tshark", &["-n", "-r", path, "-Y", "_ws.malformed || _ws.short"]);
    let all = tool("tshark", &["-n", "-r", path, "-Y", "dns"]);
    for read in [&marked, &all] {
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }
    assert!(marked.stdout.is_empty(), "{}", String::from_utf8_lossy(&marked.stdout));
    assert_eq!(String::from_utf8(all.stdout).unwrap().lines().count(), 12, "tshark reads all of them");
    // Nothing is told any more.
    let before = daemon.stats();
    dns::ask(&socket, "s1.example.com", A);
    assert_eq!(daemon.stats()["samples_lost"], before["samples_lost"]);
}

#[test]
fn a_capture_is_filtered_by_name_and_by_client() {
    let bed = Bed::new();
    let daemon = start(&bed);
    let (first, second) = (dns::socket(&bed), dns::socket_from(&bed, "10.53.0.3:0", dns::SERVER));
    let v6 = dns::socket_from(&bed, "[2001:db8:53::2]:0", "[2001:db8:53::1]:53");
    let run = |args: &[&str]| -> Vec<Value> {
        let capture =
            Capture::start(&daemon, &[&["--output", "json", "capture", "--seconds", "2"], args].concat());
        for name in ["S1.Example.com", "s2.example.com", "nobody.elsewhere.test"] {
            for socket in [&first, &second, &v6] {
                let query = dns::query(dns::rand_id(), name, A);
                dns::exchange(socket, &query).expect("a reply");
            }
        }
        let (out, _) = capture.finish();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let kinds = |seen: &[Value]| {
        let mut out = BTreeMap::new();
        for sample in seen {
            *out.entry(sample["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        out
    };
    let counts = |query, answer, verdict| {
        let all = [("query", query), ("answer", answer), ("verdict", verdict)];
        all.into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| (kind.to_owned(), n))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(kinds(&run(&[])), counts(9, 6, 3), "everything");
    let named = run(&["--name", "s1.example.com"]);
    assert_eq!(kinds(&named), counts(3, 3, 0), "of any case");
    assert!(named.iter().all(|s| s["kind"] == "query" || s["verdict"] == "xdp_answer_a"), "{named:?}");
    let missed = run(&["--name", "nobody.elsewhere.test"]);
    assert_eq!(kinds(&missed), counts(3, 0, 3));
    assert!(missed.iter().all(|s| s["kind"] == "query" || s["verdict"] == "xdp_pass_unknown_name"));
    assert_eq!(kinds(&run(&["--client", "10.53.0.3"])), counts(3, 2, 1));
    assert_eq!(kinds(&run(&["--client", "10.53.0.0/24", "--name", "s2.example.com"])), counts(2, 2, 0));
    assert_eq!(kinds(&run(&["--client", "2001:db8:53::/64"])), counts(3, 2, 1));
    assert_eq!(kinds(&run(&["--client", "192.0.2.0/24"])), counts(0, 0, 0));
    let third = run(&["--sample", "1/3"]);
    let queries = third.iter().filter(|s| s["kind"] == "query").count();
    assert!((2..=4).contains(&queries), "every third on each CPU: {queries}");
}

#[test]
fn top_names_and_run_times_are_found_under_load() {
    let bed = Bed::new();
    let daemon = start(&bed);
    let often = || load::Target::new("s1.example.com", &["192.0.2.1"]);
    let mut targets = load::stable();
    (0..16).for_each(|_| targets.push(often()));
    let load = Load::start(&bed, targets, 4000);
    let top = daemon.ctl_json(&["stats", "--top", "3", "--seconds", "2", "--sample", "1/4"]);
    let latency = daemon.ctl_json(&["stats", "--latency", "--seconds", "2"]);
    let piped = daemon.ctl_ok(&["stats", "--latency", "--seconds", "1"]);
    load.stop().assert_clean(4000, "while packets are told and timed");
    let names = top["names"].as_array().unwrap();
    assert_eq!((names.len(), &names[0]["name"]), (3, &Value::from("s1.example.com")), "{top}");
    let share = names[0]["percent"].as_f64().unwrap();
    // 16 + 2 of 32 queries.
    assert!((46.0..=66.0).contains(&share), "{top}");
    assert!(top["sampled"].as_u64().unwrap() > 500, "{top}");
    let runs = latency["runs"].as_u64().unwrap();
    assert!(runs > 4000, "{latency}");
    let places = latency["histogram"].as_array().unwrap();
    let fast: u64 = places
        .iter()
        .filter(|place| (32..=65_536).contains(&place["below_nanoseconds"].as_u64().unwrap()))
        .map(|place| place["runs"].as_u64().unwrap())
        .sum();
    assert!(fast * 10 > runs * 9, "{latency}");
    assert!(piped.starts_with("< ") && piped.contains("100.0"), "{piped}");
    // Off again, at the latest two seconds after its time.
    std::thread::sleep(Duration::from_secs(3));
    let before = daemon.order(&responder_user::control::Command::Latency { seconds: None });
    dns::ask(&dns::socket(&bed), "s1.example.com", A);
    assert_eq!(daemon.order(&responder_user::control::Command::Latency { seconds: None }), before);
}

#[test]
fn answers_are_counted_by_rcode_type_and_zone() {
    let bed = Bed::new();
    let daemon = start(&bed);
    let socket = dns::socket(&bed);
    let before = daemon.stats();
    for (qtype, count) in [(A, 5), (AAAA, 3), (16, 2), (65, 1), (4711, 4)] {
        (0..count).for_each(|_| drop(dns::ask(&socket, "s1.example.com", qtype)));
    }
    (0..3).for_each(|_| drop(dns::ask(&socket, "nobody.example.com", A)));
    let after = daemon.stats();
    let rise = |name: &str| after[name] - before[name];
    for (name, count) in [
        ("type_a_xdp", 8),
        ("type_aaaa_xdp", 3),
        ("type_txt_xdp", 2),
        ("type_https_xdp", 1),
        ("type_other_xdp", 4),
        ("type_mx_xdp", 0),
        ("rcode_noerror_xdp", 15),
        ("rcode_nxdomain_xdp", 3),
        ("zone_example.com_xdp", 18),
        ("zone_quiet.test_xdp", 0),
        ("zone_none_xdp", 0),
    ] {
        assert_eq!(rise(name), count, "{name}");
    }
}

/// Both lanes; what workers counted outlives the workers and their zones.
#[test]
fn a_reload_that_changes_listen_addresses_keeps_the_counters_of_the_workers() {
    let bed = Bed::new();
    let text = text::head(&bed, "mode = \"off\"")
        + &text::stable()
        + "[[zone]]\nname = \"quiet.test\"\n\n"
        + &text::domain("alone.net", "s1");
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &text));
    let socket = dns::socket(&bed);
    for (name, qtype, count) in [("s1.example.com", A, 5), ("s2.example.com", 16, 2), ("example.com", 6, 1)] {
        (0..count).for_each(|_| drop(dns::ask(&socket, name, qtype)));
    }
    dns::ask(&socket, "nobody.example.com", AAAA);
    dns::ask(&socket, "alone.net", A);
    dns::ask(&socket, "x.alone.net", 4711);
    dns::ask(&socket, "example.org", 15);
    let query = dns::query(7, "quiet.test", 6);
    dns::exchange_tcp(&bed, dns::SERVER, &query);
    let wanted = [
        ("worker_query_udp", 12),
        ("worker_query_tcp", 1),
        ("worker_answer_noerror", 10),
        ("worker_answer_nxdomain", 2),
        ("worker_answer_refused", 1),
        ("type_a_worker", 6),
        ("type_aaaa_worker", 1),
        ("type_txt_worker", 2),
        ("type_soa_worker", 2),
        ("type_mx_worker", 1),
        ("type_other_worker", 1),
        ("zone_example.com_worker", 9),
        ("zone_quiet.test_worker", 1),
        ("zone_none_worker", 2),
    ];
    let check = |when: &str| {
        let stats = daemon.stats();
        for (name, count) in wanted {
            assert_eq!(stats[name], count, "{when}: {name}");
        }
    };
    check("counted");
    // Other addresses, other workers; then another zone in front, so other slots.
    let moved = text.replace("\"10.53.0.1:53\", ", "\"10.53.0.1:53\", \"10.53.0.1:5353\", ");
    assert_ne!(moved, text);
    bed.write("responder.toml", &moved);
    daemon.reload().unwrap();
    check("after other addresses");
    bed.write("responder.toml", &moved.replacen("[[zone]]", "[[zone]]\nname = \"a.test\"\n\n[[zone]]", 1));
    daemon.reload().unwrap();
    check("after another zone");
    assert_eq!(daemon.stats()["zone_a.test_worker"], 0);
}

#[test]
fn without_xdp_a_capture_says_what_to_use() {
    let bed = Bed::new();
    let text = text::head(&bed, "mode = \"off\"") + &text::stable();
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &text));
    for args in [&["capture"][..], &["stats", "--top"], &["stats", "--latency"]] {
        let output = daemon.ctl(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no XDP program runs"), "{args:?}");
    }
}

/// Found by hand: the file was emptied before the daemon had agreed.
#[test]
fn a_capture_that_is_refused_leaves_the_file_as_it_was() {
    let bed = Bed::new();
    let daemon = start(&bed);
    let file = bed.write("keep.pcap", "what was there");
    let running = Capture::start(&daemon, &["capture", "--seconds", "3"]);
    let refused = daemon.ctl(&["capture", "--seconds", "1", "--write", &file.display().to_string()]);
    assert!(!refused.status.success(), "one capture at a time: {refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "what was there");
    running.finish();
}
