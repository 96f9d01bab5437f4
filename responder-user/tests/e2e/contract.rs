//! What scripts and service managers rely on: exit codes, lines, sockets, and keys that stay (spec/config.md 1).

use std::{
    collections::BTreeSet,
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    bed::{Bed, tool},
    daemon::{Daemon, RESPONDERCTL, RESPONDERD, Start},
    dns::{self, A},
    health::{Health, SITES},
    text,
};

/// Exit code, stdout, stderr.
fn run(program: &str, args: &[&str]) -> (Option<i32>, String, String) {
    said(tool(program, args))
}

/// Likewise, where the responder lives: a check looks at its addresses and interfaces.
fn run_in(bed: &Bed, program: &str, args: &[&str]) -> (Option<i32>, String, String) {
    said(bed.server().command(program).args(args).output().expect("the program starts"))
}

fn said(output: std::process::Output) -> (Option<i32>, String, String) {
    let text = |octets: Vec<u8>| String::from_utf8(octets).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_prints_every_problem_and_its_exit_code_tells() {
    let bed = Bed::new();
    let good = text::head(&bed, "") + &text::stable();
    let check = |text: &str| {
        let path = bed.write("responder.toml", text);
        run_in(&bed, RESPONDERD, &["--config", path.to_str().unwrap(), "--check"])
    };
    let (code, out, _) = check(&good);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    let (code, out, _) = check(&(good.clone() + "[limits]\nmax_amplification = 1\n"));
    assert_eq!(code, Some(0), "warnings alone are no failure");
    assert!(!out.is_empty() && out.lines().all(|line| line.starts_with("warning:")), "{out}");
    let (code, out, _) = check(&good.replace("ttl = 5", "ttl = 0").replace("round-robin", "round-robbin"));
    assert_eq!(code, Some(1));
    assert!(out.lines().count() >= 16, "each of them: {out}");
    for line in out.lines() {
        let place = line.split_once("responder.toml:").expect("the file").1;
        assert!(place.split(':').take(2).all(|n| n.parse::<u32>().is_ok()), "line and column: {line}");
    }
    assert!(out.contains("round-robin"), "a hint: {out}");
    let missing = run(RESPONDERD, &["--config", "/nonexistent/responder.toml", "--check"]);
    assert_eq!(missing.0, Some(1));
    assert!(!bed.pins().exists() && !bed.socket().exists(), "a check touches nothing");
}

#[test]
fn wrong_usage_exits_with_two() {
    for (program, args) in [
        (RESPONDERD, [].as_slice()),
        (RESPONDERD, &["--nonsense"]),
        (RESPONDERCTL, &[]),
        (RESPONDERCTL, &["nonsense"]),
        (RESPONDERCTL, &["force", "service", "x", "sideways"]),
    ] {
        assert_eq!(run(program, args).0, Some(2), "{program} {args:?}");
    }
    assert_eq!(run(RESPONDERD, &["--help"]).0, Some(0));
    let (code, _, complaint) = run(RESPONDERCTL, &["--socket", "/nonexistent", "status"]);
    assert_eq!((code, complaint.lines().count()), (Some(1), 1), "{complaint}");
}

#[test]
fn ready_is_one_line_at_every_log_level_and_the_service_manager_is_told() {
    let bed = Bed::new();
    let base = text::head(&bed, "") + &text::stable();
    let abstract_name = format!("responder-e2e-{}", std::process::id());
    for (level, is_abstract) in [("error", false), ("debug", true)] {
        let config =
            bed.write("responder.toml", &base.replace("[server]", &format!("[server]\nlog = {level:?}")));
        let path = bed.folder().join(format!("notify-{level}"));
        let address = if is_abstract {
            SocketAddr::from_abstract_name(&abstract_name).unwrap()
        } else {
            SocketAddr::from_pathname(&path).unwrap()
        };
        // Abstract names belong to a network namespace.
        let manager = bed.in_server(|| UnixDatagram::bind_addr(&address)).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let name = if is_abstract { format!("@{abstract_name}") } else { path.to_str().unwrap().to_owned() };
        let daemon = Start::new(&bed, &config).env("NOTIFY_SOCKET", name).ready();
        let mut message = [0; 64];
        let len = manager.recv(&mut message).expect("a message to the service manager");
        assert!(message[..len].split(|octet| *octet == b'\n').any(|line| line == b"READY=1"));
        let log = daemon.log();
        assert_eq!(log.lines().filter(|line| line.contains("ready")).collect::<Vec<_>>(), ["ready"], "{log}");
        let log = daemon.stop();
        assert!(level == "debug" || log == "ready\n", "nothing else at level error: {log}");
    }
}

#[test]
fn both_ending_signals_end_with_success() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable()));
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Daemon::start(&bed, &config);
        daemon.signal(signal);
        assert!(daemon.wait_exit().success(), "{signal}");
        assert!(!bed.socket().exists() && !bed.pins().exists());
    }
}

#[test]
fn a_start_that_fails_says_why_in_one_line_and_leaves_nothing() {
    let bed = Bed::new();
    let good = text::head(&bed, "mode = \"native\"") + &text::stable();
    for (what, text) in [
        ("gslb7", good.replace("gslb0", "gslb7")),
        ("192.0.2.200:53", good.replace("10.53.0.1:53", "192.0.2.200:53")),
        ("ttl", good.replace("ttl = 5", "ttl = 0")),
    ] {
        let config = bed.write("responder.toml", &text);
        let mut daemon = Start::new(&bed, &config).spawn();
        assert_eq!(daemon.wait_exit().code(), Some(1), "{what}");
        let log = daemon.log();
        let complaint: Vec<&str> = log.lines().filter(|line| line.starts_with("responderd: ")).collect();
        assert!(!complaint.is_empty() && complaint.iter().all(|line| line.contains(what)), "{what}: {log}");
        assert!(!bed.socket().exists(), "{what}: the control socket is gone");
        assert!(!bed.pins().exists(), "{what}: no pin is left");
    }
    Daemon::start(&bed, &bed.write("responder.toml", &good)).stop();
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let mode = fs::metadata(bed.socket()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o660, "the control socket is for root and its group");
    let mut second = Start::new(&bed, &config).spawn();
    assert_eq!(second.wait_exit().code(), Some(1));
    assert!(second.log().contains("another responderd is in charge"), "{}", second.log());
    assert_eq!(daemon.status()["ready"], true);
    let before = daemon.stats()["xdp_answer_a"];
    assert_eq!(dns::ask(&dns::socket(&bed), "s1.example.com", A).answers, 1);
    assert_eq!(daemon.stats()["xdp_answer_a"] - before, 1, "from XDP still");
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has_keys(value: &Value, expected: &str) {
    let keys = keys(value);
    for key in expected.split_whitespace() {
        assert!(keys.contains(key), "{key} is missing: {value}");
    }
}

#[test]
fn commands_speak_text_and_json_with_keys_that_stay() {
    let bed = Bed::new();
    let _health = Health::start(&bed);
    let config = bed.write("responder.toml", &text::eight_sites(&bed, "mode = \"native\""));
    let daemon = Daemon::start(&bed, &config);
    let status = daemon.ctl_json(&["status"]);
    has_keys(&status, "version generation ready uptime_seconds interfaces queries problems");
    has_keys(&status["interfaces"][0], "name mode link");
    has_keys(&status["queries"], "xdp worker dropped");
    assert_eq!(
        (&status["ready"], &status["interfaces"][0]["link"]),
        (&Value::Bool(true), &Value::from("up"))
    );
    assert!(daemon.ctl_ok(&["status"]).contains("native"));
    for kind in ["vserver", "service", "domain", "monitor", "location", "policy", "action"] {
        let list = daemon.ctl_json(&["show", kind]);
        assert!(!list.as_array().expect("a list").is_empty(), "{kind}");
        assert!(!daemon.ctl_ok(&["show", kind]).is_empty(), "{kind}");
    }
    let service = daemon.ctl_json(&["show", "service", "hk"]);
    let service = service.as_array().map_or(&service, |list| &list[0]);
    has_keys(service, "name admin primary effective threshold load monitors usable reason");
    has_keys(&service["monitors"][0], "name state last error");
    let stats = daemon.ctl_json(&["stats"]);
    assert!(stats.as_object().unwrap().values().all(Value::is_u64), "a flat object of counters");
    assert_eq!(daemon.ctl(&["show", "service", "nobody"]).status.code(), Some(1));
    assert_eq!(daemon.ctl(&["disable", "service", "nobody"]).status.code(), Some(1));
    let path = bed.write("bad.toml", "[listen]\n");
    assert_eq!(daemon.ctl(&["check", path.to_str().unwrap()]).status.code(), Some(1));
    let (code, out, _) = run_in(&bed, RESPONDERCTL, &["check", config.to_str().unwrap()]);
    assert!(code == Some(0) && out.lines().all(|l| !l.contains("error")), "{out}");
    assert!(daemon.ctl_ok(&["reload"]).contains("generation"));
    let events = daemon.ctl_json(&["events", "--kind", "attach"]);
    has_keys(&events[0], "id time kind");
    assert!(daemon.ctl_ok(&["events"]).contains("attached"));
}

#[test]
fn switches_change_answers_before_they_return_and_explain_agrees_with_dig() {
    let bed = Bed::new();
    let _health = Health::start(&bed);
    let config = bed.write("responder.toml", &text::eight_sites(&bed, "mode = \"native\""));
    let daemon = Daemon::start(&bed, &config);
    let steps: [(&[&str], &str); 9] = [
        (&["status"], "hk"),
        (&["disable", "service", "hk"], "uk"),
        (&["force", "service", "uk", "down"], "in jpn"),
        (&["force", "monitor", "health@in", "down"], "jpn"),
        (&["enable", "service", "hk"], "hk"),
        (&["force", "monitor", "health", "down"], "in jpn hk uk ru eg sd zmb"),
        (&["force", "monitor", "health", "auto"], "hk"),
        (&["disable", "vserver", "www"], "in jpn hk uk ru eg sd zmb"),
        (&["enable", "vserver", "www"], "hk"),
    ];
    for (command, pool) in steps {
        daemon.ctl_ok(command);
        let explained = daemon.ctl_json(&["explain", "www.example.com", "A", "--client", "10.53.0.2"]);
        has_keys(
            &explained,
            "name type client class source policy owner tier method reason addresses ttl generation steps",
        );
        assert_eq!(explained["source"], "xdp", "{explained}");
        has_keys(&explained["steps"][0], "step outcome reason");
        let list = explained["addresses"].as_array().expect("a list").iter();
        let expected: BTreeSet<String> = list.map(|address| address.as_str().unwrap().to_owned()).collect();
        let of_site = |site: &str| SITES.iter().position(|name| *name == site).unwrap() + 1;
        let wanted: BTreeSet<String> =
            pool.split(' ').map(|site| format!("10.77.0.{}", of_site(site))).collect();
        assert_eq!(expected, wanted, "explain after {command:?}");
        let mut seen = BTreeSet::new();
        for _ in 0..12 {
            let text = bed.client_tool("dig", &["@10.53.0.1", "+short", "+norec", "www.example.com", "A"]);
            seen.extend(text.lines().map(str::to_owned));
        }
        assert_eq!(seen, expected, "dig after {command:?}");
        let text = daemon.ctl_ok(&["explain", "www.example.com", "A", "--client", "10.53.0.2"]);
        assert!(expected.iter().all(|address| text.contains(address)), "{text}");
    }
}

#[test]
fn a_forced_service_says_that_it_is_forced() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable() + &text::flapping()));
    let daemon = Daemon::start(&bed, &config);
    let forced = || daemon.ctl_json(&["show", "service", "p1"])["forced"].clone();
    assert_eq!(forced(), serde_json::Value::Null);
    daemon.ctl_ok(&["force", "service", "p1", "down"]);
    assert_eq!(forced(), "down");
    daemon.ctl_ok(&["reload"]);
    assert_eq!(forced(), "down", "an order survives a reload");
    daemon.ctl_ok(&["force", "service", "p1", "auto"]);
    assert_eq!(forced(), serde_json::Value::Null);
}

#[test]
fn events_are_followed_as_they_come() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable() + &text::flapping()));
    let daemon = Daemon::start(&bed, &config);
    let mut client = daemon.client();
    let follow = responder_user::control::Command::Events { follow: true, kind: None, last: Some(0) };
    client.follow(&follow).unwrap();
    // A follower is one when the daemon has read its line.
    std::thread::sleep(Duration::from_millis(100));
    daemon.ctl_ok(&["disable", "service", "p1"]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match client.news().expect("an event") {
            responder_user::control::client::News::Event(event) => {
                seen.push((event.kind.name(), event.object.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(seen.contains(&("state", "service p1".to_owned())), "{seen:?}");
    assert!(seen.contains(&("publish", "answers".to_owned())), "{seen:?}");
}
