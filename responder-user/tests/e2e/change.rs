//! The running configuration: changed, compared, saved and shown while queries are answered.

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use responder_user::control::command::ForceState;
use serde_json::Value;

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE},
    dns::{self, A},
    load::{self, Load},
    say, text,
};

/// Comments and layout that a save must keep.
fn commented(bed: &Bed) -> String {
    let head = text::head(bed, "on_exit = \"keep\"");
    format!("# Kept: the head.\n{head}{}# Kept: above f1.\n{}", text::stable(), text::flapping())
}

fn differences(daemon: &Daemon) -> Vec<Value> {
    daemon.ctl_json(&["diff"])["differences"].as_array().unwrap().clone()
}

#[test]
fn set_diff_and_save_while_answering() {
    let bed = Bed::new();
    let base = commented(&bed);
    let config = bed.write("responder.toml", &base);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o604)).unwrap();
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let answer = |name: &str| dns::ask(&socket, name, A).addresses;
    let load = Load::start(&bed, load::stable(), 2_000);
    let is = |address: &str| vec![address.parse::<std::net::IpAddr>().unwrap()];

    // Published when the command returns; the file knows nothing of it.
    daemon.ctl_ok(&["set", "vserver", "f1", "services-=p1", "multiple_ip_response=true"]);
    assert_eq!(answer("f1.example.com"), is("198.51.100.2"));
    daemon.ctl_ok(&["add", "service", "p9", "address=198.51.100.9", "port=80"]);
    daemon.ctl_ok(&["add", "vserver", "empty", "types=[\"A\"]"]);
    daemon.ctl_ok(&["add", "domain", "new.example.com", "vserver=empty", "ttl=7"]);
    assert_eq!(answer("new.example.com"), Vec::<std::net::IpAddr>::new(), "nothing is bound yet");
    daemon.ctl_ok(&["set", "vserver", "empty", "services+=p9"]);
    assert_eq!(answer("new.example.com"), is("198.51.100.9"));
    assert_eq!(fs::read_to_string(&config).unwrap(), base);
    assert_eq!(differences(&daemon).len(), 5, "{}", daemon.ctl_ok(&["diff"]));

    // All or nothing, and every problem.
    let refused =
        daemon.ctl(&["set", "vserver", "f2", "method=nonsense", "services+=nobody", "services+=p9"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("vserver \"f2\": method: \"nonsense\"") && said.contains("\"nobody\""), "{said}");
    assert!(!said.contains("responder.toml:"), "lines of a text that nobody has: {said}");
    assert_eq!(differences(&daemon).len(), 5);
    let refused = daemon.ctl(&["set", "xdp", "mode=generic"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("xdp.mode cannot change while running"));

    // What was saved is what runs, with every comment and the mode of the file.
    daemon.ctl_ok(&["save"]);
    let saved = fs::read_to_string(&config).unwrap();
    assert!(saved.starts_with("# Kept: the head.\n") && saved.contains("# Kept: above f1.\n"), "{saved}");
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o604);
    assert_eq!(differences(&daemon), Vec::<Value>::new());
    let done = daemon.reload().expect("what was saved");
    assert_eq!(done["changed"], false, "the file says what runs: {done}");
    load.stop().assert_clean(500, "set and save");
}

#[test]
fn without_save_a_reload_and_a_restart_go_back_to_the_file() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &commented(&bed));
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let ttl = || dns::ask(&socket, "s1.example.com", A).addresses;
    let gone = || ttl().is_empty();
    let remove = |daemon: &Daemon| daemon.ctl_ok(&["set", "service", "s1", "address=192.0.2.77"]);
    remove(&daemon);
    assert_eq!(ttl()[0].to_string(), "192.0.2.77");
    daemon.reload().expect("the file");
    assert_eq!(ttl()[0].to_string(), "192.0.2.1");
    remove(&daemon);
    daemon.stop();
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(ttl()[0].to_string(), "192.0.2.1");
    assert!(!gone());
    // Somebody edits the file beside us: neither side is lost without a word.
    remove(&daemon);
    let edited = fs::read_to_string(&config).unwrap() + "# edited by hand\n";
    bed.write("responder.toml", &edited);
    let refused = daemon.ctl(&["save"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("was changed by somebody else"));
    assert_eq!(daemon.ctl_json(&["diff"])["changed_on_disk"], true);
    assert_eq!(fs::read_to_string(&config).unwrap(), edited);
    daemon.ctl_ok(&["save", "--force"]);
    assert!(!fs::read_to_string(&config).unwrap().contains("edited by hand"));
}

/// An order that was older than the configuration won: `set service NAME state=enabled` did nothing.
#[test]
fn the_newer_of_order_and_configuration_counts() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &commented(&bed));
    let daemon = Daemon::start(&bed, &config);
    let admin = |daemon: &Daemon| daemon.ctl_json(&["show", "service", "p1"])["admin"].clone();
    daemon.ctl_ok(&["enable", "service", "p1"]);
    daemon.ctl_ok(&["set", "service", "p1", "state=disabled"]);
    assert_eq!(admin(&daemon), "disabled");
    daemon.ctl_ok(&["enable", "service", "p1"]);
    // Something else changes: the order stays.
    daemon.ctl_ok(&["set", "service", "p2", "port=81"]);
    assert_eq!(admin(&daemon), "enabled");
    daemon.ctl_ok(&["set", "service", "p1", "state="]);
    assert_eq!(admin(&daemon), "enabled");
}

/// A virtual server that went up or down was no event, and `show vserver` had no last change.
#[test]
fn a_virtual_server_that_goes_down_is_a_state_event() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &commented(&bed));
    let daemon = Daemon::start(&bed, &config);
    let show = || daemon.ctl_json(&["show", "vserver", "f1"]);
    assert_eq!(show()["last_change"], Value::Null);
    for name in ["p1", "p2"] {
        daemon.force(name, ForceState::Down);
    }
    let until = Instant::now() + PATIENCE;
    while show()["last_change"].is_null() {
        assert!(Instant::now() < until, "{}", daemon.ctl_ok(&["events"]));
    }
    daemon.force("p1", ForceState::Up);
    let texts = || -> Vec<String> {
        let events = daemon.ctl_json(&["events", "--kind", "state"]);
        let of_f1 = events.as_array().unwrap().iter().filter(|event| event["object"] == "vserver f1");
        of_f1.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
    };
    while texts().len() < 2 {
        assert!(Instant::now() < until, "{:?}", texts());
    }
    assert_eq!(texts(), ["is down", "is up"]);
    assert!(daemon.ctl_ok(&["ns", "show gslb vserver f1"]).contains("State: UP"));
}

#[test]
fn netscaler_commands_show_what_is_answered() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &text::eight_sites(&bed, ""));
    let health = crate::health::Health::start(&bed);
    let daemon = Daemon::start(&bed, &config);
    let one = |line: &str| daemon.ctl_json(&["ns", line]);
    let hk = || one("show gslb service hk")["gslbservice"][0].clone();
    let until = Instant::now() + PATIENCE;
    assert_eq!(hk()["svrstate"], "UP");
    health.set("hk", false);
    while hk()["svrstate"] != "DOWN" {
        assert!(Instant::now() < until, "{}", hk());
    }
    let www = one("show gslb vserver www")["gslbvserver"][0].clone();
    let bound = www["gslbvserver_gslbservice_binding"].as_array().unwrap();
    let state = |name: &str| &bound.iter().find(|row| row["servicename"] == name).unwrap()["curstate"];
    assert_eq!((state("hk"), state("uk")), (&"DOWN".into(), &"UP".into()));
    assert_eq!((&www["curstate"], &www["activeservices"]), (&"UP".into(), &7.into()));
    let text = daemon.ctl_ok(&["ns", "show gslb vserver www"]);
    assert!(text.contains("Configured Method: STATICPROXIMITY") && text.ends_with(" Done\n"), "{text}");
    assert_eq!(daemon.ctl_ok(&["ns", "disable gslb service uk"]), " Done\n");
    assert_eq!(one("show gslb service uk")["gslbservice"][0]["svrstate"], "OFS");
    assert_eq!(daemon.ctl_ok(&["ns", "enable gslb service UK"]), " Done\n");
    assert_eq!(one("stat gslb service uk")["gslbservice"][0]["state"], "UP");
    let unknown = daemon.ctl(&["ns", "enable gslb vserver nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(String::from_utf8(unknown.stderr).unwrap(), "ERROR: No such resource [name, nobody]\n");
    say!("netscaler: {} lines of show gslb vserver", text.lines().count());
}

/// Each command is in force when it returns, also while what it makes is not whole yet.
#[test]
fn netscaler_commands_change_a_running_daemon() {
    let bed = Bed::new();
    let base = commented(&bed);
    let config = bed.write("responder.toml", &base);
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let answer = |name: &str| {
        let mut all: Vec<String> =
            (0..8).flat_map(|_| dns::ask(&socket, name, A).addresses).map(|a| a.to_string()).collect();
        all.sort();
        all.dedup();
        all
    };
    let load = Load::start(&bed, load::stable(), 1_000);
    let ns = |line: &str| {
        let out = daemon.ctl_ok(&["ns", line]);
        assert!(out.ends_with(" Done\n"), "{line}: {out}");
        out
    };
    let refused = |line: &str| {
        let output = daemon.ctl(&["ns", line]);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.strip_prefix("ERROR: ").unwrap_or_else(|| panic!("{line}: {text}")).to_owned()
    };
    ns("enable ns feature GSLB");
    ns("add gslb site site_fra LOCAL 10.53.0.1");
    ns("add gslb vserver vs_shop HTTP -lbMethod ROUNDROBIN");
    ns("bind gslb vserver vs_shop -domainName shop.example.com -TTL 5");
    assert_eq!(answer("shop.example.com"), Vec::<String>::new(), "no service yet");
    ns("add gslb service svc_1 198.51.100.81 HTTP 80 -siteName site_fra");
    ns("add gslb service svc_2 198.51.100.82 HTTP 80 -siteName site_fra -maxClient 5");
    ns("bind gslb vserver vs_shop -serviceName svc_1");
    assert_eq!(answer("shop.example.com"), ["198.51.100.81"]);
    ns("bind gslb vserver VS_SHOP -serviceName svc_2 -weight 3");
    assert_eq!(answer("shop.example.com"), ["198.51.100.81", "198.51.100.82"]);
    ns("disable gslb service svc_1");
    assert_eq!(answer("shop.example.com"), ["198.51.100.82"]);
    ns("enable gslb service svc_1");
    // Slips of the documents (spec/netscaler.md 0.1, 8).
    ns("set gslb vserver<vs_shop> -MIR ENABLED");
    assert!(ns("-  show gslb vserver vs_shop").contains("Multi IP Response: ENABLED"));
    assert_eq!(dns::ask(&socket, "shop.example.com", A).answers, 2);
    ns("unset gslb vserver vs_shop -MIR");
    assert_eq!(dns::ask(&socket, "shop.example.com", A).answers, 1);
    // The answer of a policy, from the address that asks.
    ns("add location 10.53.0.0 10.53.0.255 *.ZMB");
    ns("add dns action actDrop Drop");
    ns("add dns policy polZmb \"CLIENT.IP.SRC.MATCHES_LOCATION(\\\"*.ZMB.*.*\\\")\" actDrop");
    assert!(ns("show dns policy polZmb").contains("Action Name: actDrop"), "bound nowhere, and shown");
    ns("bind gslb vserver vs_shop -policyName polZmb -priority 10");
    assert_eq!(dns::exchange(&dns::socket(&bed), &dns::query(1, "shop.example.com", A)), None, "dropped");
    ns("unbind gslb vserver vs_shop -policyName polZmb");
    assert_eq!(dns::ask(&socket, "shop.example.com", A).answers, 1);
    ns("unbind gslb vserver vs_shop -serviceName svc_2");
    assert_eq!(answer("shop.example.com"), ["198.51.100.81"]);

    // Records make a zone with a master file beside the configuration.
    ns("add dns soaRec zone.test -originServer ns1.zone.test -contact hostmaster.zone.test");
    ns("add dns nsRec zone.test ns1.zone.test");
    ns("add dns aRec www.zone.test 192.0.2.50");
    assert_eq!(answer("www.zone.test"), ["192.0.2.50"]);
    ns("rm dns aRec www.zone.test 192.0.2.50");
    assert_eq!(dns::ask(&socket, "www.zone.test", A).rcode, 3);

    // What is refused changes nothing.
    let before = daemon.ctl_json(&["diff"]);
    for (line, part) in [
        ("bind gslb vserver vs_shop -serviceName nobody", "nobody"),
        ("set gslb vserver nobody -MIR ENABLED", "No such resource"),
        ("add gslb vserver vs_shop HTTP", "Resource already exists"),
        ("set gslb vserver vs_shop -backupVServer vs_shop", "loop"),
        ("bind gslb vserver vs_shop -serviceName svc_2 -weight 101", "1..100"),
        ("add location 10.0.0.9 10.0.0.1 EU.DE", "10.0.0.9"),
        ("frobnicate", "No such command"),
    ] {
        let text = refused(line);
        assert!(text.contains(part), "{line}: {text}");
    }
    assert_eq!(daemon.ctl_json(&["diff"]), before);

    // As commands, and back from the file: nothing is lost.
    let running = ns("show ns runningConfig");
    for line in
        ["add gslb vserver vs_shop HTTP -lbMethod ROUNDROBIN", "add gslb site site_fra LOCAL 10.53.0.1"]
    {
        assert!(running.contains(line), "{line}: {running}");
    }
    assert_eq!(fs::read_to_string(&config).unwrap(), base, "not saved yet");
    ns("save ns config");
    let saved = fs::read_to_string(&config).unwrap();
    assert!(saved.starts_with("# Kept: the head.\n") && saved.contains("# Kept: above f1.\n"), "{saved}");
    daemon.reload().expect("what was saved");
    assert_eq!(ns("show ns runningConfig"), running);
    // Its bindings go with it.
    ns("rm gslb service svc_1");
    assert_eq!(answer("shop.example.com"), Vec::<String>::new());
    ns("rm gslb vserver vs_shop");
    assert_eq!(dns::ask(&socket, "shop.example.com", A).rcode, 3, "gone");
    load.stop().assert_clean(500, "commands of NetScaler");
}
