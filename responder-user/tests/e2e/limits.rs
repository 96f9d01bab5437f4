//! Response rate limiting with real traffic (T-X8): a hundred times the limit from one /24, one client from another
//! network beside it, and TCP for whoever is told to come by it.

use std::{
    io::ErrorKind,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    bed::Bed,
    daemon::{Daemon, rise},
    dns::{self, A, AAAA},
    load::{self, Load},
    text,
};

/// Replies a second to one /24.
const LIMIT: u32 = 200;

/// Seconds of the flood.
const SECONDS: usize = 5;

/// What came back in each second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    sent: u32,
    answers: u32,
    truncated: u32,
    /// Octets of truncated replies, the most of one.
    longest: usize,
}

/// Asks so many questions a second from both addresses of the flooding network, one thread each.
fn flood(bed: &Bed, rate: u32) -> Vec<Second> {
    let query = dns::query(7, "s1.example.com", A);
    let from = |source: &str| {
        let socket = dns::socket_from(bed, source, dns::SERVER);
        socket.set_nonblocking(true).unwrap();
        let query = query.clone();
        thread::spawn(move || {
            let begin = Instant::now();
            let mut seconds = vec![Second::default(); SECONDS + 2];
            let (mut sent, mut buffer) = (0, [0; 512]);
            while begin.elapsed() < Duration::from_secs(SECONDS as u64) {
                let due = (begin.elapsed().as_secs_f64() * f64::from(rate / 2)) as u32;
                for _ in sent..due {
                    // A full queue costs a query of the flood, which has enough of them.
                    let _ = socket.send(&query);
                    seconds[begin.elapsed().as_secs() as usize].sent += 1;
                }
                sent = due;
                loop {
                    let second = &mut seconds[begin.elapsed().as_secs() as usize];
                    match socket.recv(&mut buffer) {
                        Ok(len) if buffer[2] & 2 != 0 => {
                            second.truncated += 1;
                            second.longest = second.longest.max(len);
                        }
                        Ok(_) => second.answers += 1,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            seconds.truncate(SECONDS);
            seconds
        })
    };
    let (first, second) = (from("10.53.0.2:0"), from("10.53.0.3:0"));
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    let join = |(a, b): (&Second, &Second)| Second {
        sent: a.sent + b.sent,
        answers: a.answers + b.answers,
        truncated: a.truncated + b.truncated,
        longest: a.longest.max(b.longest),
    };
    first.iter().zip(&second).map(join).collect()
}

fn config(bed: &Bed, mode: &str, slip: u32) -> String {
    let limits =
        format!("[limits]\nresponses_per_second = {LIMIT}\nslip = {slip}\nallow = [\"10.55.0.0/24\"]\n\n");
    text::head(bed, &format!("mode = \"{mode}\"")) + &limits + &text::stable()
}

/// A client in another /24, and one in a network that is never limited.
fn add_networks(bed: &Bed) {
    for network in ["10.54.0", "10.55.0"] {
        bed.client_ip(&format!("address add {network}.2/24 dev cli0"));
        bed.ip(&format!("route add {network}.0/24 dev gslb0"));
    }
}

fn hold(mode: &str, prefix: &str) {
    let bed = Bed::alone();
    add_networks(&bed);
    let path = bed.write("responder.toml", &config(&bed, mode, 0));
    let daemon = Daemon::start(&bed, &path);
    for slip in [0, 2] {
        bed.write("responder.toml", &config(&bed, mode, slip));
        daemon.reload().unwrap_or_else(|error| panic!("{error:?}"));
        // The bucket of the flooding network is full again.
        thread::sleep(Duration::from_millis(1200));
        let before = daemon.stats();
        let outside = Load::start_from(&bed, "10.54.0.2:0", load::stable(), LIMIT * 3 / 4);
        let allowed = Load::start_from(&bed, "10.55.0.2:0", load::stable(), LIMIT * 3);
        let seconds = flood(&bed, LIMIT * 100);
        let (outside, allowed) = (outside.stop(), allowed.stop());
        let after = daemon.stats();
        println!("{mode}, slip {slip}: {seconds:?}");
        let sent: u32 = seconds.iter().map(|s| s.sent).sum();
        assert!(sent as usize >= LIMIT as usize * 50 * SECONDS, "{sent} queries are no flood");
        // The first second also empties the bucket, which holds a second's worth.
        let most = LIMIT + LIMIT / 20;
        assert!(seconds[0].answers <= LIMIT + most, "{seconds:?}");
        for second in &seconds[1..] {
            assert!(second.answers <= most, "limit + 5 %: {seconds:?}");
            assert!(second.answers >= LIMIT * 9 / 10, "the network gets its due: {seconds:?}");
        }
        let truncated: u32 = seconds.iter().map(|s| s.truncated).sum();
        if slip == 0 {
            assert_eq!(truncated, 0, "nothing but answers leaves");
        } else {
            let limited = sent - seconds.iter().map(|s| s.answers).sum::<u32>();
            // Replies that a full socket of the flood did not take are missing.
            assert!(truncated > limited / 4 && truncated <= limited / 2 + 2, "{truncated} of {limited}");
            assert!(seconds.iter().all(|s| s.longest <= dns::query(7, "s1.example.com", A).len()));
        }
        outside.assert_clean(u64::from(LIMIT) * 3 / 4 * (SECONDS as u64 - 1), "a client outside");
        allowed.assert_clean(u64::from(LIMIT) * 3 * (SECONDS as u64 - 1), "a client that is allowed");
        assert!(rise(&before, &after, &format!("{prefix}_limited")) > u64::from(sent) / 4);
    }
    // The bucket is empty: the next query is told to come by TCP, where it is answered.
    let socket = dns::socket(&bed);
    let query = dns::query(9, "s2.example.com", A);
    let told = (0..3 * LIMIT).find_map(|_| {
        let reply = dns::exchange(&socket_soon(&socket), &query)?;
        let reply = dns::read(&query, &reply);
        reply.tc.then_some(reply)
    });
    let told = told.expect("a truncated reply");
    assert_eq!((told.rcode, told.answers, told.authority), (0, 0, 0));
    let reply = dns::read(&query, &dns::exchange_tcp(&bed, dns::SERVER, &query));
    assert_eq!((reply.rcode, reply.tc, reply.answers), (0, false, 1));
}

/// The same socket with little patience.
fn socket_soon(socket: &std::net::UdpSocket) -> std::net::UdpSocket {
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    socket.try_clone().unwrap()
}

#[test]
fn a_hundred_times_the_limit_gets_the_limit_from_xdp() {
    hold("native", "xdp_drop");
}

#[test]
fn a_hundred_times_the_limit_gets_the_limit_from_workers() {
    hold("off", "worker");
}

/// T-S3 by hand: five AAAA records are more than four times the query; by TCP they are whole.
#[test]
fn a_reply_that_would_amplify_is_truncated_and_whole_by_tcp() {
    for mode in ["native", "off"] {
        let bed = Bed::new();
        let services: Vec<String> = (1..=5).map(|i| format!("w{i}")).collect();
        let all =
            services.iter().enumerate().map(|(i, name)| text::service(name, &format!("2001:db8::{}", i + 1)));
        let names: Vec<&str> = services.iter().map(String::as_str).collect();
        let body = all.collect::<String>() + &text::vserver("wide", &names, "multiple_ip_response = true");
        // Factor 1.6: 34 octets may become 54, too few for one AAAA record.
        let config = |factor: &str| {
            let limits = format!("[limits]\nmax_amplification = {factor}\n\n");
            text::head(&bed, &format!("mode = \"{mode}\"")) + &limits + &body
        };
        let path = bed.write("responder.toml", &config("1.6"));
        let daemon = Daemon::start(&bed, &path);
        let socket = dns::socket(&bed);
        let query = dns::query(3, "wide.example.com", AAAA);
        let reply = dns::read(&query, &dns::exchange(&socket, &query).expect("a reply"));
        assert_eq!((reply.tc, reply.answers), (true, 0), "{mode}");
        let whole = dns::read(&query, &dns::exchange_tcp(&bed, dns::SERVER, &query));
        assert_eq!((whole.tc, whole.answers), (false, 5), "{mode}");
        // Extras are left out before anything is truncated; without the bound all come.
        for (factor, answers) in [("4", 3), ("0", 5)] {
            bed.write("responder.toml", &config(factor));
            let done: Value = daemon.reload().unwrap_or_else(|error| panic!("{error:?}"));
            assert!(done["warnings"].as_array().is_none_or(Vec::is_empty), "{done}");
            let reply = dns::read(&query, &dns::exchange(&socket, &query).expect("a reply"));
            assert_eq!((reply.tc, reply.answers), (false, answers), "{mode}, factor {factor}");
        }
        let stats = daemon.stats();
        let counter = if mode == "native" { "xdp_answer_truncated" } else { "worker_truncated" };
        assert_eq!(stats[counter], 1, "{mode}");
    }
}
