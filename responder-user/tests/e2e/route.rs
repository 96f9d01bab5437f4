//! `xdp.route_check`: XDP answers only where the way back to the client leads through the interface that the query came in
//! by (design section 4); what it needs is said aloud.

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, rise},
    dns::{self, A},
    text,
};

/// Asks once; the counters of the program that rose.
fn ask(daemon: &Daemon, socket: &std::net::UdpSocket) -> (Option<Vec<u8>>, u64, u64) {
    let before = daemon.stats();
    let reply = dns::exchange(socket, &dns::query(dns::rand_id(), "n1.example.com", A));
    let after = daemon.stats();
    (reply, rise(&before, &after, "xdp_answer_a"), rise(&before, &after, "xdp_pass_route"))
}

fn server_interface(bed: &Bed) -> String {
    let links = bed.ip("-o link show");
    let line = links.lines().find(|line| !line.contains("lo:")).expect("an interface");
    line.split([':', '@']).nth(1).expect("a name").trim().to_owned()
}

fn forward(bed: &Bed, name: &str, word: &str) {
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
        bed.in_server(|| std::fs::write(&path, word).unwrap_or_else(|error| panic!("{path}: {error}")));
    }
}

#[test]
fn a_reply_leaves_by_xdp_only_where_the_way_back_is_the_way_here() {
    let bed = Bed::new();
    let name = server_interface(&bed);
    let body = text::service("p1", "198.51.100.1")
        + &text::vserver("v", &["p1"], "")
        + &text::domain("n1.example.com", "v");
    let config =
        bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"\nroute_check = true") + &body));
    forward(&bed, &name, "0");
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    // Without forwarding the kernel tells no way: a worker answers, and the operator is told.
    let (reply, answers, passes) = ask(&daemon, &socket);
    assert!(reply.is_some());
    assert_eq!((answers, passes), (0, 1));
    let problems = daemon.status()["problems"].to_string();
    let mend = format!("sysctl -w net.ipv4.conf.{name}.forwarding=1");
    assert!(problems.contains(&mend), "{problems}");
    forward(&bed, &name, "1");
    let (reply, answers, passes) = ask(&daemon, &socket);
    assert!(reply.is_some());
    assert_eq!((answers, passes), (1, 0));
    assert!(!daemon.status()["problems"].to_string().contains("route_check"));
    let six = dns::socket_from(&bed, "[2001:db8:53::2]:0", "[2001:db8:53::1]:53");
    let (reply, answers, passes) = ask(&daemon, &six);
    assert!(reply.is_some());
    assert_eq!((answers, passes), (1, 0), "IPv6");
    // The way to the client leads elsewhere: XDP would send it back where it came from.
    bed.ip("route add 10.53.0.2/32 dev lo");
    socket.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    let (_, answers, passes) = ask(&daemon, &socket);
    assert_eq!((answers, passes), (0, 1));
    bed.ip("route del 10.53.0.2/32 dev lo");
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (reply, answers, _) = ask(&daemon, &socket);
    assert!(reply.is_some() && answers == 1);
    // Off again, by a reload.
    bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"") + &body));
    daemon.reload().expect("a valid file");
    forward(&bed, &name, "0");
    assert_eq!(ask(&daemon, &socket).1, 1);
    daemon.stop();
}
