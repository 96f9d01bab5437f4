//! A daemon that reads one configuration after the other, and clients at whatever addresses the questions come from.
//!
//! ```text
//! server: 192.0.2.53, 2001:db8::53 (listen); everything else lies behind the clients' end
//! client: an address, or a local route, for every client that asks
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, UdpSocket},
    time::Duration,
};

use hickory_proto::{op::Message, rr::RData};
use ipnet::IpNet;
use responder_user::control::{
    Command,
    client::ClientError,
    command::{self, ForceKind, ForceState, SessionAction, SwitchKind},
};
use serde_json::Value;

use crate::{
    bed::Bed,
    daemon::{Daemon, rise, risen},
    dns,
    support::vectors::Question,
};

/// What a daemon listens at, where a configuration does not say it.
pub const LISTEN: &str = "[listen]\naddresses = [\"192.0.2.53:53\", \"[2001:db8::53]:53\"]\n";

/// Where queries go.
const SERVER4: &str = "192.0.2.53:53";
const SERVER6: &str = "[2001:db8::53]:53";

/// How long silence is waited for.
const SILENCE: Duration = Duration::from_millis(120);

/// How the daemon answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Native,
    Off,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Off => "off",
        }
    }
}

/// See the module.
pub struct Stand {
    pub mode: Mode,
    pub bed: Bed,
    daemon: Option<Daemon>,
    sockets: HashMap<IpAddr, UdpSocket>,
    others: HashMap<(IpAddr, String), UdpSocket>,
    /// What was told since the last reset, as the orders that take it back.
    undo: Vec<String>,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply {
    pub rcode: u16,
    pub aa: bool,
    pub tc: bool,
    /// Addresses, targets of aliases, replacements of naming authority pointers, in their order.
    pub data: Vec<String>,
    pub ttls: BTreeSet<u32>,
    pub authority: usize,
}

/// What came of asking several times.
#[derive(Debug, Default)]
pub struct Seen {
    pub replies: Vec<Reply>,
    pub asked: u64,
    pub xdp: u64,
    pub worker: u64,
    pub dropped: u64,
    /// Counters that rose, for messages.
    pub risen: String,
}

impl Seen {
    /// Everything that stood first.
    pub fn first(&self) -> BTreeSet<String> {
        self.replies.iter().filter_map(|reply| reply.data.first().cloned()).collect()
    }

    /// Everything that was given.
    pub fn all(&self) -> BTreeSet<String> {
        self.replies.iter().flat_map(|reply| reply.data.clone()).collect()
    }
}

impl Stand {
    /// A bed on which any address can ask. No daemon yet: [`Self::load`] starts it.
    pub fn new(mode: Mode) -> Self {
        let bed = Bed::new();
        // Not on lo: what asks for the neighbour must not be a link-local address that is still tentative.
        bed.ip("address add 192.0.2.53/32 dev gslb0");
        bed.ip("address add 2001:db8::53/128 dev gslb0 nodad");
        bed.ip("route add default via 10.53.0.2 dev gslb0");
        bed.ip("-6 route add default via 2001:db8:53::2 dev gslb0");
        bed.client_ip("route add default via 10.53.0.1 dev cli0");
        bed.client_ip("-6 route add default via 2001:db8:53::1 dev cli0");
        let any_source = || std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1");
        bed.in_client(any_source).expect("a setting of the client's namespace");
        // Link-local addresses are tentative for a while, and nobody answers them until then.
        let mac = |links: String| {
            let (_, rest) = links.split_once("link/ether ").expect("a MAC address");
            rest.split(' ').next().expect("a word").to_owned()
        };
        let server = mac(bed.ip("-o link show dev gslb0"));
        let client = mac(bed.client_ip("-o link show dev cli0"));
        bed.ip(&format!("-6 neigh replace 2001:db8:53::2 lladdr {client} dev gslb0 nud permanent"));
        bed.client_ip(&format!("-6 neigh replace 2001:db8:53::1 lladdr {server} dev cli0 nud permanent"));
        Self { mode, bed, daemon: None, sockets: HashMap::new(), others: HashMap::new(), undo: Vec::new() }
    }

    /// Where a configuration is written: with what it does not say itself.
    fn write(&self, config: &str) -> std::path::PathBuf {
        let listen = if config.contains("[listen]") { "" } else { LISTEN };
        let (bed, mode) = (&self.bed, self.mode.word());
        let (socket, state) = (bed.socket(), bed.folder().join("state"));
        let server =
            format!("control_socket = \"{}\"\nstate_dir = \"{}\"\n", socket.display(), state.display());
        let xdp = format!("interfaces = [\"gslb0\"]\npin_path = \"{}\"\n", bed.pins().display());
        // A configuration may have keys of these tables.
        let mut text = format!("{listen}{config}\n");
        for (table, keys) in [("[server]", server), ("[xdp]", format!("{xdp}mode = \"{mode}\"\n"))] {
            text = match text.split_once(&format!("{table}\n")) {
                Some((before, after)) => format!("{before}{table}\n{keys}{after}"),
                None => format!("{table}\n{keys}\n{text}"),
            };
        }
        // Told to be as it is, it makes the daemon publish all that is decided.
        text += "\n[[service]]\nname = \"bell\"\naddress = \"203.0.113.254\"\n";
        bed.write("responder.toml", &text)
    }

    /// Puts a configuration in force; what was told before is taken back.
    pub fn load(&mut self, config: &str) -> Result<(), ClientError> {
        self.reset();
        let path = self.write(config);
        if self.daemon.is_some() {
            self.call(&Command::Reload)?;
        } else {
            let daemon = Daemon::start(&self.bed, &path);
            let interface = &daemon.status()["interfaces"][0];
            assert_eq!(interface["mode"], self.mode.word());
            self.daemon = Some(daemon);
        }
        Ok(())
    }

    /// What `responderd --check` says of a file.
    pub fn check(&self, config: &str) -> Result<(), String> {
        let path = self.write(config);
        let out = self.bed.server().command(crate::daemon::RESPONDERD);
        let out = { out }.arg("--config").arg(path).arg("--check").output().expect("responderd runs");
        if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stdout).into_owned()) }
    }

    fn call(&mut self, command: &Command) -> Result<Value, ClientError> {
        // A connection each: one that is silent for long is closed.
        self.daemon.as_ref().expect("a daemon").client().call(command)
    }

    /// Every counter.
    pub fn stats(&mut self) -> BTreeMap<String, u64> {
        let value = self.call(&Command::Stats).expect("counters");
        serde_json::from_value(value).expect("a flat object of numbers")
    }

    /// Stops the daemon; the end must be success.
    pub fn stop(mut self) {
        self.daemon.take().expect("a daemon").stop();
    }

    /// A command of responderctl, or `wait DURATION`. New answers are published when [`Self::settle`] has returned.
    pub fn order(&mut self, order: &str) -> Result<(), String> {
        let words: Vec<&str> = order.split_whitespace().collect();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let name = |name: &str| name.to_owned();
        let (command, undo) = match words[..] {
            ["wait", time] => {
                let time = humantime::parse_duration(time).map_err(|e| e.to_string())?;
                std::thread::sleep(time);
                return Ok(());
            }
            ["force", "service", service, state] => {
                let state = match state {
                    "up" => ForceState::Up,
                    "down" => ForceState::Down,
                    "auto" => ForceState::Auto,
                    _ => return Err(format!("{order}?")),
                };
                let undo = format!("force service {service} auto");
                (Command::Force { kind: ForceKind::Service, name: name(service), state }, undo)
            }
            [verb @ ("enable" | "disable"), kind, object] => {
                let switch = if kind == "service" { SwitchKind::Service } else { SwitchKind::Vserver };
                let object = name(object);
                let undo = format!("enable {kind} {object}");
                match verb {
                    "enable" => (Command::Enable { kind: switch, name: object }, undo),
                    _ => (Command::Disable { kind: switch, name: object }, undo),
                }
            }
            ["load", service, ref figures @ ..] => {
                let forget: Vec<String> = figures
                    .iter()
                    .map(|figure| format!("{}=", figure.split('=').next().unwrap_or_default()))
                    .collect();
                let undo = format!("load {service} {}", forget.join(" "));
                (Command::Load { service: name(service), figures: owned(figures) }, undo)
            }
            ["report", service, ref states @ ..] => {
                let undo = format!("report {service} primary=auto effective=auto threshold=auto");
                (Command::Report { service: name(service), states: owned(states) }, undo)
            }
            _ => return Err(format!("{order}: no such command")),
        };
        self.call(&command).map_err(|e| format!("{order}: {e}"))?;
        if !self.undo.contains(&undo) {
            self.undo.push(undo);
        }
        Ok(())
    }

    /// Takes back everything that was told, and forgets whom clients were given.
    pub fn reset(&mut self) {
        if self.daemon.is_some() {
            self.call(&Command::Session { action: SessionAction::Clear, vserver: None, client: None })
                .expect("no sessions");
        }
        let orders = std::mem::take(&mut self.undo);
        // Virtual servers last: enabling one ends its latch.
        let (last, first): (Vec<_>, Vec<_>) = orders.iter().partition(|o| o.starts_with("enable vserver"));
        for order in first.into_iter().chain(last) {
            self.order(order).unwrap_or_else(|error| panic!("{error}"));
        }
        self.undo.clear();
    }

    /// Ends latches at the next reset.
    pub fn unlatch(&mut self, vserver: &str) {
        self.undo.push(format!("enable vserver {vserver}"));
    }

    /// Everything that is decided is published when this returns.
    pub fn settle(&mut self) {
        let (kind, name) = (ForceKind::Service, "bell".to_owned());
        self.call(&Command::Force { kind, name, state: ForceState::Auto }).expect("published");
    }

    /// `explain`
    pub fn explain(&mut self, question: &Question<'_>) -> Value {
        let asked = command::Question {
            name: question.name.to_owned(),
            rtype: question.rtype.to_owned(),
            client: Some(question.client),
            ecs: question.ecs.map(|net| net.to_string()),
            verbose: false,
        };
        self.call(&Command::Explain(asked)).expect("an explanation")
    }

    fn socket(&mut self, client: IpAddr) -> &UdpSocket {
        let bed = &self.bed;
        self.sockets.entry(client).or_insert_with(|| {
            let is_there = ["10.53.0.2", "10.53.0.3", "2001:db8:53::2"].contains(&&*client.to_string());
            if !is_there {
                // An IPv6 address gets its route some time after it was added; a route is there at once.
                bed.client_ip(&match client {
                    IpAddr::V4(_) => format!("address replace {client} dev cli0"),
                    IpAddr::V6(_) => format!("-6 route replace local {client} dev lo table local"),
                });
            }
            let (source, server) = match client {
                IpAddr::V4(a) => (format!("{a}:0"), SERVER4),
                IpAddr::V6(a) => (format!("[{a}]:0"), SERVER6),
            };
            dns::socket_from(bed, &source, server)
        })
    }

    /// Sends one query with OPT, and the client subnet if there is one. None: silence.
    fn exchange(&mut self, question: &Question<'_>, patience: Duration) -> Option<Reply> {
        let query = query(question);
        let socket = self.socket(question.client);
        socket.set_read_timeout(Some(patience)).unwrap();
        dns::exchange(socket, &query).map(|reply| read(&query, &reply))
    }

    /// One query to another server in the responder's namespace.
    pub fn ask_other(&mut self, server: &str, question: &Question<'_>) -> Reply {
        // Makes sure of the client's address.
        self.socket(question.client);
        let (bed, key) = (&self.bed, (question.client, server.to_owned()));
        let socket = self.others.entry(key).or_insert_with(|| {
            let source = std::net::SocketAddr::from((question.client, 0)).to_string();
            dns::socket_from(bed, &source, server)
        });
        let query = query(question);
        let reply = dns::exchange(socket, &query).unwrap_or_else(|| panic!("{server} is silent"));
        read(&query, &reply)
    }

    /// Asks until `enough` of the replies, at most `most` times. Every query must be answered.
    pub fn ask(&mut self, question: &Question<'_>, most: u64, enough: impl Fn(&[Reply]) -> bool) -> Seen {
        let seen = self.ask_until_silence(question, most, enough);
        let (client, answered) = (question.client, seen.replies.len() as u64);
        assert!(seen.asked == answered, "no reply for {} to {client}\n{}", question.name, seen.risen);
        seen
    }

    /// Likewise; ends with the first query that is not answered.
    pub fn ask_until_silence(
        &mut self,
        question: &Question<'_>,
        most: u64,
        enough: impl Fn(&[Reply]) -> bool,
    ) -> Seen {
        let before = self.stats();
        let mut seen = Seen::default();
        while seen.asked < most && !enough(&seen.replies) {
            seen.asked += 1;
            let Some(reply) = self.exchange(question, Duration::from_secs(2)) else { break };
            seen.replies.push(reply);
        }
        self.count(&before, seen)
    }

    /// Asks twice and expects silence.
    pub fn silence(&mut self, question: &Question<'_>) -> Seen {
        let before = self.stats();
        let mut seen = Seen::default();
        for _ in 0..2 {
            seen.asked += 1;
            seen.replies.extend(self.exchange(question, SILENCE));
        }
        self.count(&before, seen)
    }

    /// Sends so many queries at once: how many whole replies there are, and how many that say TC=1.
    pub fn flood(&mut self, question: &Question<'_>, count: usize) -> (usize, usize) {
        let socket = self.socket(question.client);
        let query = query(question);
        let (mut whole, mut cut) = (0, 0);
        // In small parts, so that no queue is too short.
        for _ in 0..count.div_ceil(10) {
            for _ in 0..10 {
                socket.send(&query).expect("send");
            }
            let mut buffer = [0; 4096];
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            while let Ok(len) = socket.recv(&mut buffer) {
                let is_cut = read(&query, &buffer[..len]).tc;
                *if is_cut { &mut cut } else { &mut whole } += 1;
                if (whole + cut) % 10 == 0 {
                    break;
                }
            }
        }
        // What comes late is nobody's reply.
        self.sockets.remove(&question.client);
        (whole, cut)
    }

    fn count(&mut self, before: &BTreeMap<String, u64>, seen: Seen) -> Seen {
        let after = self.stats();
        Seen {
            xdp: rise(before, &after, "xdp_answer_"),
            worker: rise(before, &after, "worker_answer_"),
            dropped: rise(before, &after, "worker_dropped") + rise(before, &after, "xdp_drop_"),
            risen: risen(before, &after),
            ..seen
        }
    }
}

/// A query with OPT, and the client subnet if there is one.
fn query(question: &Question<'_>) -> Vec<u8> {
    let qtype = match question.rtype {
        "A" => 1,
        "CNAME" => 5,
        "SOA" => 6,
        "TXT" => 16,
        "AAAA" => 28,
        "NAPTR" => 35,
        other => panic!("{other}: no type of these tests"),
    };
    let mut out = dns::with_opt(dns::query(dns::rand_id(), question.name, qtype), 0);
    if let Some(net) = question.ecs {
        let (family, octets) = match net {
            IpNet::V4(net) => (1, net.network().octets().to_vec()),
            IpNet::V6(net) => (2, net.network().octets().to_vec()),
        };
        let prefix = &octets[..usize::from(net.prefix_len()).div_ceil(8)];
        let end = out.len();
        out[end - 1] = 8 + prefix.len() as u8;
        out.extend([0, 8, 0, 4 + prefix.len() as u8, 0, family, net.prefix_len(), 0]);
        out.extend(prefix);
    }
    out
}

/// Reads a reply with hickory; it must answer the query.
fn read(query: &[u8], reply: &[u8]) -> Reply {
    let message = Message::from_vec(reply).unwrap_or_else(|e| panic!("not a DNS message: {e}: {reply:02x?}"));
    assert_eq!(reply[..2], query[..2], "id");
    let data = |data: &RData| match data {
        RData::CNAME(name) => name.to_string().trim_end_matches('.').to_owned(),
        RData::NAPTR(naptr) => naptr.replacement.to_string().trim_end_matches('.').to_owned(),
        other => other.ip_addr().map_or_else(|| other.to_string(), |address| address.to_string()),
    };
    Reply {
        rcode: u16::from(message.metadata.response_code),
        aa: message.metadata.authoritative,
        tc: message.metadata.truncation,
        data: message.answers.iter().map(|record| data(&record.data)).collect(),
        ttls: message.answers.iter().map(|record| record.ttl).collect(),
        authority: message.authorities.len(),
    }
}
