//! A client that asks all the time and looks at every reply.
//!
//! It never asks twice: a query without a reply is lost, for good. At most [`WINDOW`] queries are under way, less than
//! the ring of a veth holds, so that a loss is the responder's and not that of a busy machine.

use std::{
    io::ErrorKind,
    net::{IpAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    bed::Bed,
    daemon::Daemon,
    dns::{self, A, AAAA},
    text::{self, STABLE},
};

/// Queries under way.
const WINDOW: usize = 64;

/// A reply that takes longer is none.
const LOST: Duration = Duration::from_secs(2);

/// A question, and what may come back.
pub struct Target {
    name: String,
    qtype: u16,
    /// Data of the one record that a right answer holds.
    legal: Vec<Vec<u8>>,
}

impl Target {
    /// One address of these.
    pub fn new(name: &str, legal: &[&str]) -> Self {
        let legal: Vec<IpAddr> = legal.iter().map(|text| text.parse().unwrap()).collect();
        let qtype = if legal[0].is_ipv4() { A } else { AAAA };
        let octets = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        Self { name: name.to_owned(), qtype, legal: legal.iter().map(octets).collect() }
    }
}

/// The names of [`crate::text::stable`].
pub fn stable() -> Vec<Target> {
    let both = |i: u8| {
        let name = format!("s{i}.example.com");
        [Target::new(&name, &[&format!("192.0.2.{i}")]), Target::new(&name, &[&format!("2001:db8::{i}")])]
    };
    (1..=STABLE).flat_map(both).collect()
}

/// The names of [`crate::text::flapping`]: whatever is down, the answer is one of two.
pub fn flapping() -> Vec<Target> {
    vec![
        Target::new("f1.example.com", &["198.51.100.1", "198.51.100.2"]),
        Target::new("f2.example.com", &["198.51.100.3", "198.51.100.4"]),
    ]
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Totals {
    /// Queries.
    pub sent: u64,
    /// Right answers.
    pub right: u64,
    /// Queries without a reply.
    pub lost: u64,
    /// Wrong answers, the first few of them.
    pub wrong: Vec<String>,
    /// The longest wait for a reply.
    pub slowest: Duration,
}

impl Totals {
    /// Nothing lost, nothing wrong, and enough of it.
    pub fn assert_clean(&self, least: u64, what: &str) {
        assert!(self.wrong.is_empty(), "{what}: wrong answers: {:#?}", self.wrong);
        assert_eq!((self.lost, self.right), (0, self.sent), "{what}: lost, right");
        assert!(self.sent >= least, "{what}: {} queries prove little, {least} would", self.sent);
    }
}

/// A running client.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Totals>>,
}

impl Load {
    /// Asks so many questions a second, of each target in turn.
    pub fn start(bed: &Bed, targets: Vec<Target>, rate: u32) -> Self {
        Self::start_from(bed, "10.53.0.2:0", targets, rate)
    }

    /// Likewise, from another address of the clients' namespace.
    pub fn start_from(bed: &Bed, source: &str, targets: Vec<Target>, rate: u32) -> Self {
        let socket = dns::socket_from(bed, source, dns::SERVER);
        socket.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || Client::new(socket, targets, rate).run(&is_over));
        Self { stop, thread: Some(thread) }
    }

    /// Ends: waits for the replies that are under way.
    pub fn stop(mut self) -> Totals {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("the load client")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Client {
    socket: UdpSocket,
    targets: Vec<(Target, Vec<u8>)>,
    rate: u32,
    /// By id: which target, and since when.
    under_way: Vec<Option<(usize, Instant)>>,
    pending: usize,
    oldest: u16,
    next: u16,
    totals: Totals,
}

impl Client {
    fn new(socket: UdpSocket, targets: Vec<Target>, rate: u32) -> Self {
        let with_query = |target: Target| {
            let query = dns::query(0, &target.name, target.qtype);
            (target, query)
        };
        Self {
            socket,
            targets: targets.into_iter().map(with_query).collect(),
            rate,
            under_way: vec![None; 1 << 16],
            pending: 0,
            oldest: 0,
            next: 0,
            totals: Totals::default(),
        }
    }

    fn run(mut self, is_over: &AtomicBool) -> Totals {
        let started = Instant::now();
        let mut due = 0.0;
        let mut last = started;
        while !is_over.load(Ordering::Relaxed) || self.pending > 0 {
            let now = Instant::now();
            // What could not be sent in time is not made up for: a burst would fill queues that are not ours.
            due = (due + (now - last).as_secs_f64() * f64::from(self.rate)).min(WINDOW as f64);
            last = now;
            if is_over.load(Ordering::Relaxed) {
                due = 0.0;
            }
            while due >= 1.0 && self.pending < WINDOW {
                self.send();
                due -= 1.0;
            }
            self.receive();
            self.forget_lost();
            thread::sleep(Duration::from_micros(500));
        }
        self.totals
    }

    fn send(&mut self) {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let target = self.totals.sent as usize % self.targets.len();
        let query = &mut self.targets[target].1;
        query[..2].copy_from_slice(&id.to_be_bytes());
        self.under_way[usize::from(id)] = Some((target, Instant::now()));
        self.pending += 1;
        self.totals.sent += 1;
        if let Err(error) = self.socket.send(query) {
            // The port may be closed while no daemon runs; a query that was to reach XDP did not.
            self.note(format!("send: {error}"));
        }
    }

    fn receive(&mut self) {
        let mut reply = [0; 512];
        loop {
            match self.socket.recv(&mut reply) {
                Ok(len) => self.check(&reply[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.note(format!("receive: {error}")),
            }
        }
    }

    fn check(&mut self, reply: &[u8]) {
        let id = reply.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let Some((index, since)) = self.under_way[usize::from(id)].take() else {
            return self.note(format!("an answer to nothing that was asked: {reply:02x?}"));
        };
        self.pending -= 1;
        self.totals.slowest = self.totals.slowest.max(since.elapsed());
        let (target, query) = &self.targets[index];
        let end = query.len();
        // QR, AA, NOERROR; one question, one answer; the question; owner, class, TTL 5, and the data.
        let is_right = reply.get(2..8) == Some(&[0x84, 0, 0, 1, 0, 1])
            && reply.get(12..end) == query.get(12..)
            && reply.get(end..end + 2) == Some(&[0xc0, 12])
            && reply.get(end + 2..end + 10).is_some_and(|head| head[2..] == [0, 1, 0, 0, 0, 5])
            && target.legal.iter().any(|data| reply.get(end + 12..) == Some(data));
        if is_right {
            self.totals.right += 1;
        } else {
            let text = format!("{} {}: {reply:02x?}", target.name, target.qtype);
            self.note(text);
        }
    }

    fn forget_lost(&mut self) {
        while self.oldest != self.next {
            let place = &mut self.under_way[usize::from(self.oldest)];
            match place {
                Some((_, since)) if since.elapsed() < LOST => return,
                Some(_) => {
                    *place = None;
                    self.pending -= 1;
                    self.totals.lost += 1;
                }
                None => {}
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    fn note(&mut self, what: String) {
        if self.totals.wrong.len() < 10 {
            self.totals.wrong.push(what);
        }
    }
}

#[test]
fn the_client_notices_what_is_lost_and_what_is_wrong() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "on_exit = \"detach\"") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let load = Load::start(&bed, vec![Target::new("s1.example.com", &["192.0.2.2"])], 200);
    thread::sleep(Duration::from_millis(100));
    let totals = load.stop();
    assert!(totals.right == 0 && !totals.wrong.is_empty(), "another address than the right one: {totals:?}");
    let load = Load::start(&bed, stable(), 200);
    daemon.stop();
    thread::sleep(Duration::from_millis(100));
    let totals = load.stop();
    assert!(totals.lost > 0, "nobody answers any more: {totals:?}");
}
