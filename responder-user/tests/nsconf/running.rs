//! Imported configurations, started with workers alone on a loopback address, and asked.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use hickory_proto::op::Message;
use responder_user::{config::import::import, model::DnsName, worker::testing::query_of};

use super::fragment;

const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon that runs an imported configuration.
struct Daemon {
    child: Child,
    at: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Daemon {
    /// Imports with the built binary, as an operator does, and starts what comes of it.
    fn start(conf: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let conf = format!("{conf}\nadd service adns {} ADNS {}\n", at.ip(), at.port());
        let (source, target) = (folder.path().join("ns.conf"), folder.path().join("responder.toml"));
        fs::write(&source, &conf).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_responderctl"))
            .arg("import")
            .arg(&source)
            .arg("--output")
            .arg(&target)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

        // Not of NetScaler: where this test has room.
        let mut text = fs::read_to_string(&target).unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        write!(
            text,
            "\n[server]\ncontrol_socket = \"{}\"\nstate_dir = \"{}\"\n",
            run.join("control.sock").display(),
            run.display()
        )
        .unwrap();
        fs::write(&target, &text).unwrap();
        let checked = Command::new(env!("CARGO_BIN_EXE_responderd"))
            .arg("--config")
            .arg(&target)
            .arg("--check")
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stdout));

        let mut child = Command::new(env!("CARGO_BIN_EXE_responderd"))
            .arg("--config")
            .arg(&target)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, ready) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut said = String::new();
        let begin = Instant::now();
        while !said.lines().any(|line| line.ends_with("ready")) {
            match ready.recv_timeout(PATIENCE.saturating_sub(begin.elapsed())) {
                Ok(line) => writeln!(said, "{line}").unwrap(),
                Err(error) => {
                    let _ = child.kill();
                    panic!("{error}: {said}\n{text}");
                }
            }
        }
        Self { child, at, _folder: folder }
    }

    fn ask(&self, client: &str, name: &str, rtype: u16) -> Message {
        let socket = UdpSocket::bind((client, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let query = query_of(DnsName::parse(name).unwrap().wire(), rtype, Some((1232, false)));
        socket.send_to(&query, self.at).unwrap();
        let mut reply = [0; 4096];
        let length = socket.recv(&mut reply).unwrap();
        Message::from_vec(&reply[..length]).unwrap()
    }

    /// Code, and the data of the answer section with their TTLs.
    fn answer(&self, client: &str, name: &str, rtype: u16) -> (u16, Vec<String>) {
        let message = self.ask(client, name, rtype);
        let mut list: Vec<String> =
            message.answers.iter().map(|record| format!("{} {}", record.ttl, record.data)).collect();
        list.sort();
        (message.metadata.response_code.into(), list)
    }

    /// Everything that is answered one time after the other.
    fn all(&self, client: &str, name: &str, rtype: u16) -> BTreeSet<String> {
        (0..12).flat_map(|_| self.answer(client, name, rtype).1).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;

fn own(name: &str) -> String {
    let (text, own) = fragment(name);
    text.lines().take(own).fold(String::new(), |text, line| text + line + "\n")
}

/// Fragments A to G and the records in one, with a place for clients of this host.
#[test]
fn the_fragments_run_and_answer() {
    let mut conf: String =
        ["A", "B", "C", "D", "E", "F", "G"].map(|name| own(&format!("{name}.conf"))).concat();
    conf += &own("records.conf")
        .replace("gslb service www1", "gslb service web1")
        .replace("-serviceName www1", "-serviceName web1");
    conf += "add dns policy polLoop CLIENT.IP.SRC.EQ(127.0.0.3) actInside\nbind dns global polLoop 20 -type REQ_OVERRIDE\n";
    let daemon = Daemon::start(&conf);
    let set = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
    for (client, name, rtype, wanted) in [
        ("127.0.0.1", "www.shop.example", A, &["5 198.51.100.80", "5 203.0.113.80"][..]),
        ("127.0.0.1", "www.shop.example", AAAA, &["5 2001:db8:e::80", "5 2001:db8:f::80"]),
        ("127.0.0.1", "app.shop.example", A, &["5 198.51.100.80", "5 198.51.100.81", "5 198.51.100.82"]),
        ("127.0.0.1", "ord.shop.example", A, &["5 198.51.100.80", "5 198.51.100.81"]),
        ("127.0.0.1", "load.shop.example", A, &["5 198.51.100.80", "5 203.0.113.80"]),
        // The view.
        ("127.0.0.3", "www.shop.example", A, &["5 10.10.0.80", "5 10.20.0.80"]),
        // Records, and a GSLB name among them.
        ("127.0.0.1", "web.shop.example", A, &["7 192.0.2.80"]),
        (
            "127.0.0.1",
            "shop.example",
            SOA,
            &["5 ns1.shop.example. hostmaster.shop.example. 2024010101 3600 900 86400 5"],
        ),
        ("127.0.0.1", "shop.example", NS, &["3600 ns1.shop.example.", "3600 ns2.shop.example."]),
        ("127.0.0.1", "shop.example", MX, &["3600 10 mx.shop.example."]),
        ("127.0.0.1", "shop.example", TXT, &["3600 v=spf1 mx \"-all\"back\\slash"]),
        ("127.0.0.1", "ns1.shop.example", A, &["3600 192.0.2.53"]),
        ("127.0.0.1", "ns1.shop.example", AAAA, &["3600 2001:db8::53"]),
        ("127.0.0.1", "ns2.shop.example", A, &["60 198.51.100.53", "60 198.51.100.54"]),
        ("127.0.0.1", "mail.shop.example", CNAME, &["300 mx.shop.example."]),
        ("127.0.0.1", "_sip._tcp.shop.example", SRV, &["120 10 20 5060 sip.shop.example."]),
        ("127.0.0.1", "53.2.0.192.in-addr.arpa", PTR, &["3600 ns1.shop.example."]),
        ("127.0.0.1", "bare.example", NS, &["3600 ns1.shop.example."]),
        ("127.0.0.1", "lonely.example.net", A, &["3600 192.0.2.99"]),
    ] {
        assert_eq!(daemon.all(client, name, rtype), set(wanted), "{name} {rtype} from {client}");
    }
    // Clients come back to what they were given.
    let geo = daemon.all("127.0.0.1", "geo.shop.example", A);
    assert!(geo.len() == 1 && geo.is_subset(&set(&["30 198.51.100.80", "30 203.0.113.80"])), "{geo:?}");
    assert_eq!(daemon.answer("127.0.0.1", "no.shop.example", A).0, 3, "NXDOMAIN in a zone");
    assert_eq!(daemon.answer("127.0.0.1", "other.example.net", A).0, 5, "REFUSED outside");
    assert_eq!(daemon.answer("127.0.0.1", "a.root-servers.net", A).0, 5, "root hints are no zone");
}

/// The eight sites of the source documents, and the policy as they print it.
#[test]
fn the_source_documents_run_and_answer() {
    let mut conf =
        own("000.conf") + "add gslb vserver pref HTTP -lbMethod STATICPROXIMITY\nadd gslb site s 192.0.2.1\n";
    let places =
        ["Asia.IN", "Asia.JPN", "Asia.hk", "Europe.UK", "Europe.RU", "Europe.EG", "Africa.SD", "Africa.ZMB"];
    for (i, place) in places.iter().enumerate() {
        let ip = format!("10.77.0.{}", i + 1);
        writeln!(conf, "add location {ip} {ip} {place}").unwrap();
        writeln!(conf, "add gslb service s{i} {ip} HTTP 80 -siteName s").unwrap();
        writeln!(conf, "bind gslb vserver pref -serviceName s{i}").unwrap();
    }
    conf +=
        "bind gslb vserver pref -domainName www.example.com\nadd location 127.0.0.2 127.0.0.2 *.ZMB.*.*\n";
    conf += "bind dns global dnsPolPrefLoc 100\n";
    conf += &own("002.conf");
    conf += "add gslb service abc 192.0.2.1 HTTP 80 -siteName s -state DISABLED\nbind gslb vserver vserver-GSLB-2 -serviceName abc\n";
    let daemon = Daemon::start(&conf);
    let of = |text: &str| BTreeSet::from([text.to_owned()]);
    assert_eq!(daemon.all("127.0.0.2", "www.example.com", A), of("5 10.77.0.3"), "Asia.HK for *.ZMB");
    assert_eq!(daemon.all("127.0.0.1", "www.example.com", A).len(), 8, "the method for others");
    // Both virtual servers are down: the backup address, which comes before the empty answer.
    assert_eq!(daemon.all("127.0.0.1", "www.abc.com", A), of("5 10.102.29.66"));
}

/// Every example of `ns.conf` starts.
#[test]
fn the_example_is_taken_over_without_a_warning_and_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ns.conf");
    let text = fs::read_to_string(&path).unwrap();
    let made = import(&text, Path::new("responder.toml")).unwrap();
    let odd: Vec<_> =
        made.remarks.iter().filter(|r| r.weight != responder_user::config::import::Weight::Notice).collect();
    assert!(odd.is_empty(), "{odd:#?}");
    let conf: String = text
        .lines()
        .filter(|line| !line.contains(" ADNS "))
        .fold(String::new(), |text, line| text + line + "\n");
    let daemon = Daemon::start(&conf);
    let hosts = daemon.all("127.0.0.1", "www.shop.example", A);
    assert_eq!(hosts, BTreeSet::from(["5 198.51.100.80".to_owned(), "5 203.0.113.80".to_owned()]));
    assert_eq!(daemon.answer("127.0.0.1", "mail.shop.example", A), (0, vec!["3600 192.0.2.25".to_owned()]));
    assert_eq!(daemon.answer("127.0.0.1", "shop.example", NS).1.len(), 2);
}
