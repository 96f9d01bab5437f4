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
    daemon::{Daemon, rise},
    dns::{self, A, SERVER},
    load::{self, Load},
    say, text,
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
