//! What attackers send: responses, and floods of names that do not exist.

use std::{
    io::ErrorKind,
    net::UdpSocket,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    bed::Bed,
    daemon::{Daemon, Start, rise},
    dns::{self, A, SERVER},
    load::{self, Load},
    say, tagged, text,
};

/// Reads what is there; how many messages there were.
fn drain(socket: &UdpSocket, mut look: impl FnMut(&[u8])) -> u64 {
    let (mut buffer, mut count) = ([0; 1500], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                look(&buffer[..len]);
                count += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
            Err(error) => panic!("{error}"),
        }
    }
}

/// gdnsd 1.0.2, RUSTSEC-2023-0041, CVE-2024-2169: a response is never answered, wherever it comes from.
#[test]
fn ten_thousand_responses_get_no_reply() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let before = daemon.stats();
    let mut sent = 0_u64;
    let mut received = 0;
    for source in ["10.53.0.2:53", "10.53.0.2:123", "10.53.0.2:7", "10.53.0.2:40000"] {
        let socket = dns::socket_from(&bed, source, SERVER);
        socket.set_nonblocking(true).unwrap();
        for i in 0..2_500_u16 {
            let name = ["s1.example.com", "nowhere.example.com", "example.net"][usize::from(i) % 3];
            let mut message = dns::query(i, name, [1, 28, 65, 255][usize::from(i / 3) % 4]);
            // QR=1 with every opcode and every response code.
            message[2] = 0x80 | ((i >> 4) as u8 & 0x7f);
            message[3] = i as u8;
            if i % 5 == 0 {
                message.truncate(12 + usize::from(i) % 20);
            }
            socket.send(&message).expect("send");
            sent += 1;
            if i % 50 == 0 {
                thread::sleep(Duration::from_millis(1));
                received += drain(&socket, |_| {});
            }
        }
        thread::sleep(Duration::from_millis(250));
        received += drain(&socket, |_| {});
    }
    assert_eq!((sent, received), (10_000, 0));
    let after = daemon.stats();
    let (answered, dropped) =
        (rise(&before, &after, "xdp_answer"), rise(&before, &after, "xdp_drop_service_port"));
    assert_eq!((answered, dropped), (0, 5_000), "service ports are dropped, the others pass");
    say!("responses: 10,000 sent, 0 replies, {dropped} dropped in XDP");
}

/// Random names of a zone of ours are denied by the program: no worker sees one of them, and no hit is lost.
#[test]
fn a_flood_of_random_names_does_not_reach_the_workers() {
    let bed = Bed::alone();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let before = daemon.stats();
    let hits = Load::start(&bed, load::stable(), 4_000);
    let stop = AtomicBool::new(false);
    let (flood, denied) = thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            let socket = dns::socket_from(&bed, "10.53.0.3:0", SERVER);
            socket.set_nonblocking(true).unwrap();
            let (mut sent, mut denied, mut random) = (0_u64, 0, 0x9e37_79b9_u64);
            while !stop.load(Ordering::Relaxed) {
                // No more under way than a queue of the veth pair holds beside the hits.
                for _ in 0..100 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let name = format!("{random:016x}.example.com");
                    socket.send(&dns::query(random as u16, &name, A)).expect("send");
                    sent += 1;
                }
                let since = Instant::now();
                while denied < sent && since.elapsed() < Duration::from_millis(100) {
                    denied += drain(&socket, |reply| {
                        assert_eq!(
                            (reply[2], reply[3], reply[9]),
                            (0x84, 3, 1),
                            "NXDOMAIN with SOA: {reply:02x?}"
                        );
                    });
                }
            }
            (sent, denied)
        });
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        attacker.join().expect("the attacker")
    });
    let totals = hits.stop();
    let after = daemon.stats();
    totals.assert_clean(5_000, "hits beside a flood");
    assert_eq!(rise(&before, &after, "worker_query"), 0, "no query reached a worker");
    assert_eq!(rise(&before, &after, "xdp_answer_nxdomain"), flood, "every one was denied in XDP");
    assert_eq!(denied, flood);
    say!(
        "flood: {flood} random names in 3 s denied by XDP beside {} hits, 0 hits lost, slowest {:?}, 0 at the workers",
        totals.sent,
        totals.slowest
    );
}

/// Ethernet, IPv4 and UDP around a message from 10.53.0.2:53 to 10.53.0.1:53.
fn from_port_53(to: [u8; 6], from: [u8; 6], message: &[u8]) -> Vec<u8> {
    let mut out = [&to[..], &from, &[8, 0]].concat();
    let mut header = vec![0x45, 0];
    header.extend((28 + message.len() as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 53, 0, 2, 10, 53, 0, 1]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    out.extend(header);
    out.extend([0, 53, 0, 53]);
    out.extend((8 + message.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(message);
    out
}

/// CVE-2024-2169: somebody lets one server ask another in its name. What each makes of the other's replies is silence.
#[test]
fn two_instances_pointed_at_each_other_fall_silent() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"") + &text::stable()));
    let first = Daemon::start(&bed, &config);
    let second = format!(
        "[server]\ncontrol_socket = \"{}\"\nstate_dir = \"{}\"\n[listen]\naddresses = [\"10.53.0.2:53\"]\n\n{}",
        bed.second_socket().display(),
        bed.folder().join("second-state").display(),
        text::stable()
    );
    let config = bed.write("second.toml", &second);
    let second = Start::new(&bed, &config).in_client().ready();
    let server = tagged::mac(|line| bed.ip(line), "gslb0");
    let client = tagged::mac(|line| bed.client_ip(line), "cli0");
    let socket = bed.in_client(|| tagged::packet_socket("cli0")).expect("a packet socket");
    let good = dns::query(1, "s1.example.com", A);
    let foreign = dns::query(2, "example.net", A);
    let mut broken = dns::query(3, "s1.example.com", A);
    broken.truncate(20);
    let (start, other) = (first.stats(), second.stats());
    for message in [&good, &foreign, &broken] {
        for _ in 0..10 {
            nix::unistd::write(&socket, &from_port_53(server, client, message)).expect("sent");
        }
    }
    thread::sleep(Duration::from_secs(1));
    let (quiet, calm) = (first.stats(), second.stats());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(rise(&quiet, &first.stats(), "worker_query"), 0, "traffic has stopped");
    assert_eq!(rise(&calm, &second.stats(), "worker_query"), 0, "traffic has stopped");
    assert_eq!(rise(&start, &quiet, "worker_query_udp"), 30, "the first sees what was sent, once");
    let heard = rise(&other, &calm, "worker_query_udp");
    assert!((1..=30).contains(&heard), "the second hears at most one reply each: {heard}");
    assert_eq!(rise(&other, &calm, "worker_silent"), heard, "and says nothing");
    say!("two instances: 30 queries in the other's name, {heard} replies heard, 0 said to them");
}
