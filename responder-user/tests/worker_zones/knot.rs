//! The same master file in Knot and in a worker, a few thousand questions each.
//!
//! Response code, AA, answers and authorities are the same; what we add beside them Knot adds, too. Wanted differences:
//!
//! - a name that a DNAME makes too long: YXDOMAIN here (RFC 6672 3.2), NXDOMAIN with the SOA in Knot 3.2;
//! - ANY, which is not asked for: HINFO of RFC 8482 here, one set there.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use responder_testbed::{Namespace, Process, Scratch};
use responder_user::worker::{Transport, testing};

use crate::bed::{Bed, Said};

const KNOT: &str = "127.0.0.1:5300";

const ZONE: &str = r#"
$ORIGIN example.
$TTL 3600
@           SOA   ns1 hostmaster 7 3600 600 86400 60
@           NS    ns1
@           NS    ns2.sub
@           NS    ns.example.org.
@           MX    10 mail
@           MX    20 mail
@           MX    30 x.sub
@           TXT   "apex"
ns1         A     192.0.2.53
ns1         AAAA  2001:db8::53
mail        A     192.0.2.25
mail        AAAA  2001:db8::25
alias       CNAME mail
alias2      CNAME alias
alias3      CNAME alias2
alias4      CNAME alias3
alias5      CNAME alias4
out         CNAME www.example.org.
none        CNAME nothing
cut         CNAME a.b.sub
wild        CNAME q.w
ring        CNAME gnir
gnir        CNAME ring
self        CNAME self
*.w         A     192.0.2.1
*.w         MX    10 mail
*.w         TXT   "wild"
a.w         TXT   "not wild"
x.ent.w     A     192.0.2.2
*.x.ent.w   A     192.0.2.3
*.alias.v   CNAME mail
*.wild.v    CNAME q.w
*.none.v    CNAME nothing
*.ring.v    CNAME a.ring.v
*.cut.v     CNAME a.sub
*.out.v     CNAME www.example.org.
*.dname.v   CNAME a.d1
a.*.star    A     192.0.2.4
_x._tcp     SRV   0 0 22 mail
_x._tcp     SRV   0 1 23 a.sub
_x._tcp     SRV   0 1 23 www.example.org.
*._tcp      SRV   0 0 24 mail
sub         NS    ns1.sub
sub         NS    ns2.sub
sub         NS    ns1
sub         NS    ns.example.org.
ns1.sub     A     192.0.2.54
ns1.sub     AAAA  2001:db8::54
ns2.sub     A     192.0.2.55
self.sub2   NS    self.sub2
self.sub2   A     192.0.2.56
sig         NS    ns.sib
sig         DS    12345 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
sib         NS    ns.sib
ns.sib      AAAA  2001:db8::57
below.w     NS    ns1
d1          DNAME w
d1          A     192.0.2.5
d1          TXT   "at a DNAME"
d2          DNAME d1
d3          DNAME example.org.
d4          DNAME sub
d5          DNAME d5.d6
d6          DNAME alias.v
d7          DNAME aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
deep.er.e   A     192.0.2.6
"#;

/// Asked of every name of the zone, and in turn of the others.
const TYPES: [u16; 11] = [1, 2, 5, 6, 15, 16, 28, 33, 39, 43, 65];

const NXDOMAIN: u16 = 3;
const YXDOMAIN: u16 = 6;

struct Knot {
    stream: TcpStream,
    _process: Process,
    _scratch: Scratch,
    _namespace: Namespace,
}

impl Knot {
    fn start(apex: &str, zone: &str) -> Self {
        let scratch = Scratch::new("worker-zones").expect("a folder");
        std::fs::write(scratch.file("zone"), zone).expect("the zone");
        let folder = scratch.folder().display();
        let config = format!(
            "server:\n  rundir: \"{folder}\"\n  listen: \"{}\"\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
             database:\n  storage: \"{folder}\"\n\
             log:\n  - target: stderr\n    any: info\n\
             zone:\n  - domain: \"{apex}.\"\n    file: \"{folder}/zone\"\n    zonefile-sync: -1\n    journal-content: none\n",
            KNOT.replace(':', "@"),
        );
        std::fs::write(scratch.file("knot.conf"), config).expect("its configuration");
        let namespace = Namespace::new().expect("a namespace");
        let mut command = namespace.command("knotd");
        command.arg("-c").arg(scratch.file("knot.conf"));
        let mut process =
            Process::start("knotd (install it with `cargo xtask setup`)", &mut command, scratch.file("log"))
                .expect("Knot starts")
                .with_farewell(Signal::SIGTERM);
        let server: SocketAddr = KNOT.parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let log = || std::fs::read_to_string(scratch.file("log")).unwrap_or_default();
            assert!(
                process.ended().is_none() && Instant::now() < deadline,
                "Knot does not answer: {}",
                log()
            );
            let connected = namespace.run(|| TcpStream::connect_timeout(&server, Duration::from_secs(1)));
            if let Ok(stream) = connected.expect("the namespace") {
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut knot = Self { stream, _process: process, _scratch: scratch, _namespace: namespace };
                // It listens before its zone is there.
                while Said::of(&knot.ask(&testing::query(apex, 6, None))).rcode != 0 {
                    assert!(Instant::now() < deadline, "Knot has no zone");
                    std::thread::sleep(Duration::from_millis(20));
                }
                return knot;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ask(&mut self, query: &[u8]) -> Vec<u8> {
        self.stream
            .write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())
            .expect("a query is sent");
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).expect("a reply");
        let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream.read_exact(&mut reply).expect("a whole reply");
        reply
    }
}

/// The names that the zone has, what lies above them, and names made of their labels.
fn questions(apex: &str, zone: &str, count: usize) -> Vec<(String, u16)> {
    let owners = zone.lines().filter(|line| !line.starts_with([' ', '$', '@']));
    let owners: BTreeSet<String> =
        owners.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let mut labels: BTreeSet<String> =
        owners.iter().flat_map(|owner| owner.split('.').map(str::to_owned)).collect();
    labels.extend(["q", "zz", "*", "x", "\\000"].map(str::to_owned));
    labels.insert("l".repeat(63));
    let (owners, labels): (Vec<_>, Vec<_>) = (owners.into_iter().collect(), labels.into_iter().collect());
    let mut out: Vec<(String, u16)> = Vec::new();
    for owner in owners.iter().map(|owner| format!("{owner}.{apex}")).chain([apex.to_owned()]) {
        let ends = owner.match_indices('.').map(|(at, _)| owner[at + 1..].to_owned());
        for name in [owner.clone(), format!("q.{owner}"), format!("*.{owner}")].into_iter().chain(ends) {
            out.extend(TYPES.iter().map(|rtype| (name.clone(), *rtype)));
        }
    }
    // Made by a generator of its own, so that every run asks the same.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    while out.len() < count {
        let mut name = String::new();
        for _ in 0..=below(3) {
            let _ = write!(name, "{}.", labels[below(labels.len())]);
        }
        if below(3) > 0 && !owners.is_empty() {
            let _ = write!(name, "{}.", owners[below(owners.len())]);
        }
        name += apex;
        out.push((name, TYPES[below(TYPES.len())]));
    }
    out.retain(|(name, _)| {
        responder_user::model::DnsName::parse(name).is_ok_and(|n| n.to_string().ends_with(apex))
    });
    out
}

/// Asks both. Gives the number of questions and what differs.
fn compare(apex: &str, zone: &str, count: usize) -> (usize, Vec<String>) {
    let bed = Bed::new(&[(apex, zone)], &[]);
    let mut knot = Knot::start(apex, zone);
    let mut wrong = Vec::new();
    let all = questions(apex, zone, count);
    for (name, rtype) in &all {
        let query = testing::query(name, *rtype, Some((1232, false)));
        let ours = Said::of(&bed.ask(&query, Transport::Tcp));
        let theirs = Said::of(&knot.ask(&query));
        let more: Vec<&String> =
            ours.additionals.iter().filter(|a| !theirs.additionals.contains(a)).collect();
        if ours.rcode == YXDOMAIN {
            let as_knot =
                ours.authorities.is_empty() && ours.answers == theirs.answers && ours.is_authoritative;
            if as_knot && [NXDOMAIN, YXDOMAIN].contains(&theirs.rcode) {
                continue;
            }
        }
        let strip = |said: &Said| Said { additionals: Vec::new(), ..said.clone() };
        if strip(&ours) != strip(&theirs) || !more.is_empty() {
            wrong.push(format!("{name} {rtype}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    (all.len(), wrong)
}

#[test]
fn knot_says_the_same() {
    let count = if std::env::var_os("RESPONDER_FULL").is_some() { 200_000 } else { 6_000 };
    let (asked, wrong) = compare("example", ZONE, count);
    println!("{asked} questions, {} differences", wrong.len());
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

#[test]
fn knot_says_the_same_of_a_zone_with_a_wildcard_at_its_apex() {
    let zone = "$ORIGIN example.\n$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns\n* A 192.0.2.1\n* AAAA 2001:db8::1\n\
                * MX 10 q\na.b TXT x\nsub NS ns.q\nc CNAME anything\n";
    let (asked, wrong) = compare("example", zone, 1_500);
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

#[test]
fn knot_says_the_same_of_a_zone_that_moved_as_a_whole() {
    let zone = "$ORIGIN example.\n$TTL 60\n@ SOA ns.example.org. h 7 3600 600 86400 60\n@ NS ns.example.org.\n@ DNAME moved.org.\n\
                @ MX 10 mail.example.org.\n";
    let (asked, wrong) = compare("example", zone, 500);
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}
