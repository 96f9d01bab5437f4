//! Sessions on the wire: clients come back to their service whatever becomes of the daemon and its configuration, an
//! operator sees and ends their sessions, and drops leave no reply (spec/netscaler.md 3.4, 4.3, 0.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, UdpSocket},
};

use serde_json::Value;

use crate::{
    bed::Bed,
    daemon::{Daemon, rise},
    dns::{self, A},
    text,
};

const BODY: &str = r#"
[[zone]]
name = "example.com"

[[service]]
name = "a"
address = "198.51.100.1"

[[service]]
name = "b"
address = "198.51.100.2"

[[service]]
name = "c"
address = "198.51.100.3"

[[service]]
name = "spare"
address = "198.51.100.9"

[[service]]
name = "alias-1"
cname = "one.example.org"

[[service]]
name = "alias-2"
cname = "two.example.org"

[[vserver]]
name = "www"
method = "round-robin"
services = ["a", "b", "c"]
persistence = { type = "source-ip", timeout = "2m" }

[[monitor]]
name = "busy"
type = "load"
source = "push"
metrics = [{ name = "cpu", threshold = 80 }]

[[service]]
name = "heavy"
address = "198.51.100.5"
monitors = ["busy"]

[[service]]
name = "light"
address = "198.51.100.6"
monitors = ["busy"]

[[vserver]]
name = "by"
method = "round-robin"
services = ["heavy", "light"]
skip_persistency = "bypass"
persistence = { type = "source-ip", timeout = "2m" }

[[domain]]
name = "by.example.com"
vserver = "by"

[[service]]
name = "six"
address = ["198.51.100.4", "2001:db8:9::4"]

[[vserver]]
name = "dual"
method = "round-robin"
services = ["six", "b"]
persistence = { type = "source-ip", timeout = "2m" }

[[domain]]
name = "dual.example.com"
vserver = "dual"

[[vserver]]
name = "hash"
method = "source-ip-hash"
services = ["a", "b", "c"]
persistence = { type = "source-ip", timeout = "2m" }

[[vserver]]
name = "alias"
method = "round-robin"
types = ["CNAME"]
services = ["alias-1", "alias-2"]
persistence = { type = "source-ip", timeout = "2m" }

[[vserver]]
name = "spill"
method = "round-robin"
services = ["a"]
backup = "behind"
spillover = { method = "connection", threshold = 10, persistence = true, timeout = "2m" }

[[vserver]]
name = "behind"
method = "round-robin"
services = ["spare"]

[[domain]]
name = "www.example.com"
vserver = "www"

[[domain]]
name = "hash.example.com"
vserver = "hash"

[[domain]]
name = "alias.example.com"
vserver = "alias"

[[domain]]
name = "spill.example.com"
vserver = "spill"
"#;

/// Another numbering: names, services and classes come before the others.
const MORE: &str = r#"
[[service]]
name = "aa"
address = "198.51.100.77"
location = "Asia.HK"

[[vserver]]
name = "aaa"
method = "static-proximity"
services = ["aa"]

[[domain]]
name = "aaa.example.com"
vserver = "aaa"

[[dns_action]]
name = "list"
preferred_locations = ["Asia.HK"]

[[dns_policy]]
name = "list"
rule = 'CLIENT.IP.SRC.IN_SUBNET(203.0.113.0/24)'
action = "list"
priority = 10
"#;

const CNAME: u16 = 5;

/// Clients, each with its address.
struct Clients(Vec<UdpSocket>);

impl Clients {
    fn new(bed: &Bed) -> Self {
        let host = |i: u32| format!("10.53.0.{}", 100 + i);
        for i in 0..8 {
            bed.client_ip(&format!("addr add {}/24 dev {}", host(i), client_interface(bed)));
        }
        Self((0..8).map(|i| dns::socket_from(bed, &format!("{}:0", host(i)), dns::SERVER)).collect())
    }

    /// What each gets for a name, twice in a row the same.
    fn given(&self, name: &str) -> Vec<IpAddr> {
        let ask = |socket: &UdpSocket| {
            let reply = dns::ask(socket, name, A);
            assert_eq!(reply.addresses.len(), 1, "{name}: {reply:?}");
            reply.addresses[0]
        };
        self.0
            .iter()
            .map(|socket| {
                let first = ask(socket);
                for _ in 0..5 {
                    assert_eq!(ask(socket), first, "{name}, {:?}", socket.local_addr());
                }
                first
            })
            .collect()
    }
}

fn client_interface(bed: &Bed) -> String {
    let links = bed.client_ip("-o link show");
    let line = links.lines().find(|line| !line.contains("lo:")).expect("an interface");
    line.split([':', '@']).nth(1).expect("a name").trim().to_owned()
}

fn rows(list: &Value) -> BTreeMap<(String, String), Value> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    list.as_array()
        .unwrap()
        .iter()
        .map(|row| ((text(row, "vserver"), text(row, "client")), row.clone()))
        .collect()
}

fn run(mode: &str) {
    let bed = Bed::new();
    let head = text::head(&bed, &format!("mode = \"{mode}\"\non_exit = \"keep\""));
    let config = bed.write("responder.toml", &format!("{head}{BODY}"));
    let clients = Clients::new(&bed);
    let mut daemon = Daemon::start(&bed, &config);
    let native = mode == "native";
    let www = stick(&daemon, &clients, native);
    let alias = beside(&daemon, &clients);
    spill(&daemon, &clients);
    families(&clients);
    bypass(&daemon, &clients);
    // Another numbering, and back.
    bed.write("responder.toml", &format!("{head}{MORE}{BODY}"));
    daemon.reload().expect("more names");
    assert_eq!(clients.given("www.example.com"), www, "after a reload");
    assert_eq!(aliases(&clients), alias);
    bed.write("responder.toml", &format!("{head}{BODY}"));
    daemon.reload().expect("as before");
    assert_eq!(clients.given("www.example.com"), www, "after another");
    if native {
        daemon.kill();
        daemon = Daemon::start(&bed, &config);
        assert_eq!(clients.given("www.example.com"), www, "after kill -9");
        bed.write("responder.toml", &format!("{head}{MORE}{BODY}"));
        daemon.stop();
        daemon = Daemon::start(&bed, &config);
        assert_eq!(clients.given("www.example.com"), www, "after a restart with other numbers");
    }
    if !native {
        daemon.stop();
        daemon = Daemon::start(&bed, &config);
        assert_eq!(clients.given("www.example.com"), www, "after a restart, from the journal");
        assert_eq!(aliases(&clients), alias, "likewise");
    }
    end(&daemon, &clients);
    daemon.ctl_ok(&["session", "clear"]);
    let list = |daemon: &Daemon| daemon.ctl_json(&["session", "list"]);
    assert_eq!(list(&daemon), serde_json::json!([]));
    daemon.kill();
    daemon = Daemon::start(&bed, &config);
    assert_eq!(list(&daemon), serde_json::json!([]), "what was ended stays ended");
    daemon.stop();
}

/// Each client stays where it is, wherever it is answered; all services are met.
fn stick(daemon: &Daemon, clients: &Clients, native: bool) -> Vec<IpAddr> {
    let before = daemon.stats();
    let www = clients.given("www.example.com");
    let after = daemon.stats();
    let (xdp, worker) = (rise(&before, &after, "xdp_answer_"), rise(&before, &after, "worker_answer_"));
    assert_eq!((xdp, worker), if native { (48, 0) } else { (0, 48) });
    assert_eq!(www.iter().collect::<BTreeSet<_>>().len(), 3, "{www:?}");
    let list = rows(&daemon.ctl_json(&["session", "list"]));
    assert_eq!(list.len(), 8, "{list:?}");
    for (i, address) in www.iter().enumerate() {
        let row = &list[&("www".to_owned(), format!("10.53.0.{}/32", 100 + i))];
        let service = ["a", "b", "c"][usize::from(address.to_string().ends_with(".2"))
            + 2 * usize::from(address.to_string().ends_with(".3"))];
        assert_eq!(row["service"], service, "{row}");
        assert_eq!((&row["kind"], &row["cookie_redirect"]), (&"persistence".into(), &true.into()));
        let left = row["expires_in_seconds"].as_u64().unwrap();
        assert!((60..=120).contains(&left), "{row}");
    }
    for (i, address) in www.iter().enumerate() {
        let client = format!("10.53.0.{}", 100 + i);
        let why = daemon.ctl_json(&["explain", "www.example.com", "A", "--client", &client]);
        assert_eq!(why["addresses"], serde_json::json!([address]), "{why}");
        assert_eq!(why["reason"], "persistence session of the client");
    }
    assert_eq!(daemon.ctl_json(&["show", "session"]).as_array().unwrap().len(), 8);
    // A service that goes loses its clients to the others; who is elsewhere stays there.
    daemon.ctl_ok(&["force", "service", "a", "down"]);
    let without = clients.given("www.example.com");
    for (before, now) in www.iter().zip(&without) {
        let was_a = before.to_string().ends_with(".1");
        assert!(if was_a { before != now } else { before == now }, "{before} {now}");
    }
    daemon.ctl_ok(&["force", "service", "a", "auto"]);
    assert_eq!(clients.given("www.example.com"), without, "the new choice stays");
    without
}

fn aliases(clients: &Clients) -> Vec<String> {
    let target = |socket: &UdpSocket| {
        let query = dns::query(dns::rand_id(), "alias.example.com", CNAME);
        let reply = dns::exchange(socket, &query).expect("a reply");
        let text = String::from_utf8_lossy(&reply).into_owned();
        if text.contains("one") { "one".to_owned() } else { "two".to_owned() }
    };
    let first: Vec<String> = clients.0.iter().map(target).collect();
    for _ in 0..4 {
        assert_eq!(clients.0.iter().map(target).collect::<Vec<_>>(), first);
    }
    first
}

/// Answers that stand beside the table have sessions, too.
fn beside(daemon: &Daemon, clients: &Clients) -> Vec<String> {
    let hash = clients.given("hash.example.com");
    daemon.ctl_ok(&["force", "service", "b", "down"]);
    let without = clients.given("hash.example.com");
    daemon.ctl_ok(&["force", "service", "b", "auto"]);
    assert_eq!(clients.given("hash.example.com"), without, "the session goes before the hash");
    assert!(hash.iter().any(|address| address.to_string().ends_with(".2")), "{hash:?}");
    let alias = aliases(clients);
    assert_eq!(alias.iter().collect::<BTreeSet<_>>().len(), 2, "{alias:?}");
    alias
}

/// Who was at the primary stays there while it spills; who was diverted stays diverted afterwards.
fn spill(daemon: &Daemon, clients: &Clients) {
    let of = |i: usize| dns::ask(&clients.0[i], "spill.example.com", A).addresses;
    let (primary, spare): (IpAddr, IpAddr) =
        ("198.51.100.1".parse().unwrap(), "198.51.100.9".parse().unwrap());
    assert_eq!(of(0), [primary]);
    daemon.ctl_ok(&["load", "a", "connections=10"]);
    assert_eq!(of(0), [primary], "it was there");
    assert_eq!(of(1), [spare], "it is new");
    daemon.ctl_ok(&["load", "a", "connections=3"]);
    assert_eq!(of(1), [spare], "it was diverted");
    assert_eq!(of(2), [primary], "it is new, and the primary takes clients again");
    let list = daemon.ctl_json(&["session", "list", "--vserver", "spill"]);
    let rows = rows(&list);
    let kind = |i: usize| rows[&("spill".to_owned(), format!("10.53.0.{}/32", 100 + i))]["kind"].clone();
    assert_eq!([kind(0), kind(1), kind(2)], ["persistence", "backup", "persistence"]);
    daemon.ctl_ok(&["load", "a", "connections="]);
}

/// The fault: a query for the family that a client's service lacks moved the client to another service.
fn families(clients: &Clients) {
    let four = clients.given("dual.example.com");
    assert_eq!(four.iter().collect::<BTreeSet<_>>().len(), 2, "{four:?}");
    for socket in &clients.0 {
        assert_eq!(dns::ask(socket, "dual.example.com", 28).addresses.len(), 1);
    }
    assert_eq!(clients.given("dual.example.com"), four, "after queries for AAAA");
}

/// The fault: a client whose service was overloaded was told that the name does not exist.
fn bypass(daemon: &Daemon, clients: &Clients) {
    let first = clients.given("by.example.com");
    daemon.ctl_ok(&["load", "heavy", "cpu=90"]);
    for (socket, before) in clients.0.iter().zip(&first) {
        let reply = dns::ask(socket, "by.example.com", A);
        assert_eq!(reply.rcode, 0, "the name exists, whoever decides");
        let is_bypassed = before.to_string().ends_with(".5");
        assert_eq!(reply.addresses.is_empty(), is_bypassed, "{before}: {:?}", reply.addresses);
    }
    daemon.ctl_ok(&["load", "heavy", "cpu="]);
    assert_eq!(clients.given("by.example.com"), first, "and sessions stay");
}

/// An operator ends sessions.
fn end(daemon: &Daemon, clients: &Clients) {
    let said = daemon.ctl_ok(&["session", "clear", "--vserver", "www", "--client", "10.53.0.100"]);
    assert!(said.contains("1 cleared"), "{said}");
    assert!(!daemon.ctl(&["session", "clear", "--vserver", "nobody"]).status.success());
    daemon.ctl_ok(&["session", "clear"]);
    assert_eq!(daemon.ctl_json(&["session", "list"]), serde_json::json!([]));
    let text = daemon.ctl_ok(&["events", "-n", "5"]);
    assert!(text.contains("cleared by an operator"), "{text}");
    // The rotation goes on: some client gets another service than before.
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        seen.insert(clients.given("www.example.com"));
        daemon.ctl_ok(&["session", "clear"]);
    }
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn sessions_outlive_reloads_restarts_and_kills() {
    run("native");
}

#[test]
fn sessions_are_the_same_without_xdp() {
    run("off");
}
