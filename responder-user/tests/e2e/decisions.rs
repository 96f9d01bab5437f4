//! Decisions on the wire: what the table of answers can express leaves from XDP, what stands beside it from the workers,
//! and a report, a figure or an order of an operator changes either (spec/netscaler.md 1.7, 2, 3.6, 4).

use std::{
    collections::BTreeSet,
    net::{IpAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, rise, risen},
    dns::{self, A, Reply},
    say, text,
};

const CNAME: u16 = 5;

/// Queries of one step; rotation is per CPU.
const QUERIES: u64 = 48;

const BODY: &str = r#"
[[zone]]
name = "example.com"

[[service]]
name = "a"
address = "198.51.100.1"
views = { inside = "10.0.0.1" }

[[service]]
name = "b"
address = "198.51.100.2"

[[service]]
name = "spare"
address = "198.51.100.3"

[[service]]
name = "elsewhere"
cname = "www.example.org"

[[vserver]]
name = "plain"
method = "round-robin"
services = ["a", "b"]

[[vserver]]
name = "least"
services = ["a", "b"]

[[vserver]]
name = "hash"
method = "source-ip-hash"
services = ["a", "b", "spare"]

[[vserver]]
name = "alias"
method = "round-robin"
types = ["CNAME"]
services = ["elsewhere"]

[[vserver]]
name = "spill"
method = "round-robin"
services = ["a"]
backup = "behind"
spillover = { method = "connection", threshold = 10 }

[[vserver]]
name = "full"
method = "round-robin"
services = ["a"]
spillover = { method = "connection", threshold = 10, action = "drop" }

[[vserver]]
name = "behind"
method = "round-robin"
services = ["spare"]

[[vserver]]
name = "latch"
method = "round-robin"
services = ["b"]
backup = "behind"
disable_primary_on_down = true

[[domain]]
name = "plain.example.com"
vserver = "plain"

[[domain]]
name = "least.example.com"
vserver = "least"

[[domain]]
name = "hash.example.com"
vserver = "hash"

[[domain]]
name = "alias.example.com"
vserver = "alias"

[[domain]]
name = "spill.example.com"
vserver = "spill"

[[domain]]
name = "full.example.com"
vserver = "full"

[[domain]]
name = "latch.example.com"
vserver = "latch"

[[domain]]
name = "drop.example.com"
vserver = "plain"

[[domain]]
name = "own.example.com"
vserver = "plain"

[[domain]]
name = "inside.example.com"
vserver = "plain"

[[dns_action]]
name = "drop"
drop = true

[[dns_action]]
name = "own"
rewrite = ["203.0.113.7"]
ttl = 77

[[dns_action]]
name = "inside"
view = "inside"

[[dns_policy]]
name = "drop"
rule = 'DNS.REQ.QUESTION.DOMAIN.EQ("drop.example.com") && CLIENT.IP.SRC.IN_SUBNET(10.53.0.3/32)'
action = "drop"
priority = 10

[[dns_policy]]
name = "own"
rule = 'DNS.REQ.QUESTION.DOMAIN.STARTSWITH("own.")'
action = "own"
priority = 20

[[dns_policy]]
name = "inside"
rule = 'DNS.REQ.QUESTION.DOMAIN.STARTSWITH("inside.") && CLIENT.IP.SRC.EQ(10.53.0.3)'
action = "inside"
priority = 30
"#;

/// The daemon and two clients.
struct Stand<'a> {
    daemon: &'a Daemon,
    first: UdpSocket,
    second: UdpSocket,
    native: bool,
}

/// Who answers.
#[derive(Clone, Copy)]
enum Lane {
    /// XDP, where it runs
    Fast,
    Worker,
}

impl Stand<'_> {
    /// Asks often; checks who answered and that every reply has one of these addresses, each of them met.
    fn gives(&self, socket: &UdpSocket, name: &str, lane: Lane, expected: &[&str]) -> Vec<Reply> {
        let before = self.daemon.stats();
        let replies: Vec<Reply> = (0..QUERIES).map(|_| dns::ask(socket, name, A)).collect();
        let after = self.daemon.stats();
        let by = (rise(&before, &after, "xdp_answer_"), rise(&before, &after, "worker_answer_"));
        let want = match lane {
            Lane::Fast if self.native => (QUERIES, 0),
            _ => (0, QUERIES),
        };
        assert_eq!(by, want, "{name}: by XDP, by workers\n{}", risen(&before, &after));
        assert!(replies.iter().all(|reply| (reply.rcode, reply.aa) == (0, true)), "{name}");
        let seen: BTreeSet<IpAddr> = replies.iter().flat_map(|reply| reply.addresses.clone()).collect();
        let expected: BTreeSet<IpAddr> = expected.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(seen, expected, "{name}");
        replies
    }

    /// Does an order, and waits until a name has this one address.
    fn turns(&self, order: &[&str], name: &str, expected: &str) {
        self.daemon.ctl_ok(order);
        let started = Instant::now();
        loop {
            let reply = dns::ask(&self.first, name, A);
            if reply.addresses == [expected.parse::<IpAddr>().unwrap()] {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "after {order:?} {name} gives {:?}", reply.addresses);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// No reply, and what was counted as a drop says so.
    fn silent(&self, socket: &UdpSocket, name: &str) {
        self.silent_to(socket, name, A);
    }

    fn silent_to(&self, socket: &UdpSocket, name: &str, qtype: u16) {
        let before = self.daemon.stats();
        socket.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
        let query = dns::query(dns::rand_id(), name, qtype);
        assert_eq!(dns::exchange(socket, &query), None, "{name} {qtype}");
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        // What a vserver has nothing of is no set in the table.
        let counter = if self.native && qtype == A { "xdp_drop_decision" } else { "worker_dropped" };
        assert_eq!(rise(&before, &self.daemon.stats(), counter), 1, "{name}");
    }
}

const A1: &str = "198.51.100.1";
const B2: &str = "198.51.100.2";
const SPARE: &str = "198.51.100.3";

fn run(bed: &Bed, mode: &str) {
    let head = text::head(bed, &format!("mode = \"{mode}\""));
    let config = bed.write("responder.toml", &(head + BODY));
    let daemon = Daemon::start(bed, &config);
    let socket = |source: &str| dns::socket_from(bed, source, dns::SERVER);
    let stand = Stand {
        daemon: &daemon,
        first: socket("10.53.0.2:0"),
        second: socket("10.53.0.3:0"),
        native: mode == "native",
    };
    policies(&stand);
    beside(&stand);
    figures(&stand);
    states(&stand);
    let stats = daemon.stats();
    if stand.native {
        assert_eq!(stats["xdp_pass_broken"], 0);
    }
    say!("decisions, {mode}: {} from XDP", stats.get("xdp_answer_a").copied().unwrap_or(0));
    daemon.stop();
}

/// Policies that concern one client of two.
fn policies(stand: &Stand) {
    let Stand { first, second, .. } = stand;
    stand.gives(first, "drop.example.com", Lane::Fast, &[A1, B2]);
    stand.silent(second, "drop.example.com");
    a_drop_policy_drops_what_the_vserver_lacks(stand);
    stand.gives(first, "inside.example.com", Lane::Fast, &[A1, B2]);
    stand.gives(second, "inside.example.com", Lane::Fast, &["10.0.0.1", B2]);
    let replies = stand.gives(first, "own.example.com", Lane::Worker, &["203.0.113.7"]);
    assert!(replies.iter().all(|reply| reply.ttls == BTreeSet::from([77])));
}

/// The fault: a type that the name lacks got NODATA.
fn a_drop_policy_drops_what_the_vserver_lacks(stand: &Stand) {
    for (qtype, typed) in [(28, "AAAA"), (16, "TXT"), (65, "HTTPS"), (255, "ANY"), (4711, "TYPE4711")] {
        stand.silent_to(&stand.second, "drop.example.com", qtype);
        let reply = dns::ask(&stand.first, "drop.example.com", qtype);
        assert_eq!(
            (reply.rcode, reply.authority),
            (0, usize::from(qtype != 255)),
            "{typed}: a client that it does not name"
        );
        let why = stand.daemon.ctl_json(&["explain", "drop.example.com", typed, "--client", "10.53.0.3"]);
        assert_eq!(why["outcome"], "drop", "{typed}: {why}");
        assert!(why["reason"].as_str().is_some_and(|reason| reason.contains("a policy drops")), "{why}");
    }
    // Names that the policy does not name are none the slower.
    let before = stand.daemon.stats();
    assert_eq!(dns::ask(&stand.second, "spill.example.com", 28).rcode, 0);
    let from_xdp = rise(&before, &stand.daemon.stats(), "xdp_answer_nodata");
    assert_eq!(from_xdp, u64::from(stand.native));
}

/// A hash over clients, and an alias.
fn beside(stand: &Stand) {
    for socket in [&stand.first, &stand.second] {
        let client = socket.local_addr().unwrap().ip().to_string();
        let why = stand.daemon.ctl_json(&["explain", "hash.example.com", "A", "--client", &client]);
        let address = dns::ask(socket, "hash.example.com", A).addresses[0].to_string();
        stand.gives(socket, "hash.example.com", Lane::Worker, &[&address]);
        assert!(why.to_string().contains(&address), "{why}");
    }
    let reply = dns::ask(&stand.first, "alias.example.com", CNAME);
    assert_eq!((reply.rcode, reply.answers), (0, 1));
    let reply = dns::ask(&stand.first, "alias.example.com", A);
    assert_eq!((reply.rcode, reply.answers), (0, 1), "the alias answers every type");
}

/// Loads: the method, and thresholds.
fn figures(stand: &Stand) {
    let Stand { first, .. } = stand;
    stand.gives(first, "least.example.com", Lane::Fast, &[A1, B2]);
    stand.daemon.ctl_ok(&["load", "a", "connections=4"]);
    stand.turns(&["load", "b", "connections=9"], "least.example.com", A1);
    stand.gives(first, "least.example.com", Lane::Fast, &[A1]);
    stand.turns(&["load", "a", "connections=9", "rtt=1"], "plain.example.com", A1);
    stand.daemon.ctl_ok(&["load", "b", "connections=3"]);
    stand.turns(&["load", "a", "connections=10"], "spill.example.com", SPARE);
    stand.gives(first, "spill.example.com", Lane::Fast, &[SPARE]);
    stand.gives(first, "least.example.com", Lane::Fast, &[B2]);
    stand.silent(first, "full.example.com");
    stand.turns(&["load", "a", "connections=9"], "spill.example.com", A1);
    stand.gives(first, "full.example.com", Lane::Fast, &[A1]);
}

/// Reports of other sites, and a latch.
fn states(stand: &Stand) {
    let Stand { first, .. } = stand;
    stand.gives(first, "latch.example.com", Lane::Fast, &[B2]);
    stand.turns(&["report", "b", "primary=down"], "latch.example.com", SPARE);
    stand.gives(first, "plain.example.com", Lane::Fast, &[A1]);
    stand.daemon.ctl_ok(&["report", "b", "primary=up"]);
    stand.gives(first, "latch.example.com", Lane::Fast, &[SPARE]);
    stand.turns(&["enable", "vserver", "latch"], "latch.example.com", B2);
    stand.gives(first, "plain.example.com", Lane::Fast, &[A1, B2]);
}

#[test]
fn every_decision_is_sent_from_xdp_or_beside_it() {
    run(&Bed::new(), "native");
}

#[test]
fn every_decision_is_the_same_without_xdp() {
    run(&Bed::new(), "off");
}
