//! Workers on real sockets of this host, on high ports, without root.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use responder_user::{
    model::{Settings, settings},
    worker::{
        Epochs, Names, Responses, Served, Workers,
        tcp::{CONNECTIONS, IDLE, LONGEST_QUERY, PER_CLIENT},
        testing::{MemoryWorld, query},
    },
};

const PATIENCE: Duration = Duration::from_secs(5);

struct Server {
    workers: Workers,
    served: Arc<ArcSwap<Served<MemoryWorld>>>,
    at: SocketAddr,
}

fn served(last: u8) -> Arc<Served<MemoryWorld>> {
    let mut world = MemoryWorld::default();
    world.add_name("www.example.com", "example.com", 5, &[[192, 0, 2, last]], &[]);
    world.add_name("example.com", "example.com", 5, &[[192, 0, 2, last]], &[]);
    let many: Vec<[u8; 4]> = (0..64).map(|i| [203, 0, 113, i]).collect();
    world.add_name("many.example.com", "example.com", 5, &many, &[]);
    let mut names = Names::default();
    let model = responder_user::model::Model {
        zones: vec![responder_user::model::Zone {
            apex: responder_user::model::DnsName::parse("example.com").unwrap(),
            file: None,
            soa: responder_user::model::zone::Soa::default_for(
                &responder_user::model::DnsName::parse("example.com").unwrap(),
            ),
            ns: vec![],
            ns_addresses: vec![],
        }],
        ..Default::default()
    };
    names.zones = Arc::new(responder_user::worker::Zones::load(&model).unwrap());
    Arc::new(Served { world, names, responses: Responses::default() })
}

fn settings(address: &str, workers: u32) -> Settings {
    Settings {
        listen: vec![address.parse().unwrap()],
        workers: settings::Workers::Count(workers),
        ..Default::default()
    }
}

impl Server {
    fn start(address: &str, workers: u32) -> Self {
        let served = Arc::new(ArcSwap::new(served(1)));
        let epochs = Arc::new(Epochs::new(workers as usize));
        let workers = Workers::start(&settings(address, workers), &served, &epochs).unwrap();
        let at = workers.addresses()[0];
        Self { workers, served, at }
    }

    fn count(&self, name: &str) -> u64 {
        self.workers.counters().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    fn wait_for(&self, name: &str, least: u64) {
        let started = Instant::now();
        while self.count(name) < least {
            assert!(started.elapsed() < PATIENCE, "{name} is {}", self.count(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection from another address of this host.
    fn connect_from(&self, address: IpAddr) -> io::Result<TcpStream> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(address, 0).into())?;
        socket.connect(&self.at.into())?;
        let stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn udp(to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn ask_udp(socket: &UdpSocket, message: &[u8]) -> Vec<u8> {
    socket.send(message).unwrap();
    let mut out = [0; 2048];
    let len = socket.recv(&mut out).unwrap();
    out[..len].to_vec()
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut out = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut out)?;
    Ok(out)
}

fn ask_tcp(stream: &mut TcpStream, message: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(&frame(message))?;
    read_frame(stream)
}

/// True when the other side has closed.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(e) => !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

fn www() -> Vec<u8> {
    query("www.example.com", 1, None)
}

#[test]
fn udp_and_tcp_give_the_same_octets_and_a_new_world_new_answers() {
    let server = Server::start("127.0.0.1:0", 2);
    let socket = udp(server.at);
    let mut stream = server.connect();
    for message in [www(), query("example.com", 6, Some((1232, true))), query("example.com", 255, None)] {
        let by_udp = ask_udp(&socket, &message);
        assert_eq!(by_udp, ask_tcp(&mut stream, &message).unwrap());
        assert_eq!(by_udp[7], 1);
    }
    assert!(ask_udp(&socket, &www()).ends_with(&[192, 0, 2, 1]));
    server.served.store(served(2));
    assert!(ask_udp(&socket, &www()).ends_with(&[192, 0, 2, 2]));
    assert!(ask_tcp(&mut stream, &www()).unwrap().ends_with(&[192, 0, 2, 2]));
    assert_eq!((server.count("worker_query_udp"), server.count("worker_query_tcp")), (5, 4));
    assert_eq!(server.count("worker_answer_noerror"), 9);
    server.workers.stop();
    assert!(TcpStream::connect(server.at).is_err());
    UdpSocket::bind(server.at).unwrap();
}

#[test]
fn ipv6_is_served() {
    let server = Server::start("[::1]:0", 1);
    assert!(ask_udp(&udp(server.at), &www()).ends_with(&[192, 0, 2, 1]));
    assert_eq!(ask_tcp(&mut server.connect(), &www()).unwrap().len(), 33 + 16);
}

#[test]
fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
    for (listen, ask) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let server = Server::start(listen, 2);
        // A connected socket takes datagrams of this address alone.
        let socket = udp(SocketAddr::new(ask.parse().unwrap(), server.at.port()));
        assert!(ask_udp(&socket, &www()).ends_with(&[192, 0, 2, 1]), "{listen}");
    }
}

#[test]
fn many_datagrams_at_once_are_all_answered() {
    let server = Server::start("127.0.0.1:0", 2);
    let socket = udp(server.at);
    let mut seen = vec![false; 2000];
    for round in 0..20_u16 {
        for i in 0..100 {
            let mut message = www();
            message[..2].copy_from_slice(&(round * 100 + i).to_be_bytes());
            socket.send(&message).unwrap();
        }
        for _ in 0..100 {
            let mut out = [0; 512];
            assert_eq!(socket.recv(&mut out).unwrap(), 49);
            seen[usize::from(u16::from_be_bytes([out[0], out[1]]))] = true;
        }
    }
    assert!(seen.iter().all(|s| *s));
}

#[test]
fn packets_stay_on_the_cpu_that_received_them() {
    let cpus = core_affinity::get_core_ids().unwrap();
    let server = Server::start("127.0.0.1:0", cpus.len() as u32);
    let at = server.at;
    let of = |worker: usize, name: &str| {
        server.workers.counters_of(worker).unwrap().into_iter().find(|(n, _)| *n == name).unwrap().1
    };
    for (worker, cpu) in cpus.iter().copied().enumerate() {
        // On the loopback the sender's CPU receives.
        let sender = std::thread::spawn(move || {
            assert!(core_affinity::set_for_current(cpu));
            for _ in 0..20 {
                ask_udp(&udp(at), &www());
                let mut stream = TcpStream::connect(at).unwrap();
                ask_tcp(&mut stream, &www()).unwrap();
            }
        });
        sender.join().unwrap();
        assert_eq!(
            (of(worker, "worker_query_udp"), of(worker, "worker_query_tcp")),
            (20, 20),
            "worker {worker}"
        );
    }
}

#[test]
fn responses_and_scraps_get_silence_and_long_datagrams_formerr() {
    let server = Server::start("127.0.0.1:0", 1);
    let socket = udp(server.at);
    let mut response = www();
    response[2] |= 0x80;
    socket.send(&response).unwrap();
    socket.send(&[1, 2, 3]).unwrap();
    socket.send(&[]).unwrap();
    server.wait_for("worker_silent", 3);
    let mut long = www();
    long.resize(5000, 0);
    assert_eq!(ask_udp(&socket, &long), [0x12, 0x34, 0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut stream = server.connect();
    stream.write_all(&frame(&response)).unwrap();
    assert!(is_closed(&mut stream));
}

#[test]
fn error_replies_are_limited_and_good_ones_are_not() {
    let server = Server::start("127.0.0.1:0", 1);
    let socket = udp(server.at);
    for _ in 0..4 {
        for _ in 0..100 {
            socket.send(&query("example.net", 1, None)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    server.wait_for("worker_query_udp", 400);
    let refused = server.count("worker_answer_refused");
    assert!((50..90).contains(&refused), "{refused}");
    assert_eq!(server.count("worker_limited"), 400 - refused);
    let fresh = udp(server.at);
    for _ in 0..200 {
        assert_eq!(ask_udp(&fresh, &www())[3], 0);
    }
    let mut stream = server.connect();
    for _ in 0..200 {
        assert_eq!(ask_tcp(&mut stream, &query("example.net", 1, None)).unwrap()[3], 5);
    }
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let first = Server::start("127.0.0.1:0", 1);
    let served = Arc::clone(&first.served);
    let start = |address: &str, readers| {
        Workers::start(&settings(address, 1), &served, &Arc::new(Epochs::new(readers)))
            .unwrap_err()
            .to_string()
    };
    // Not even by another server with SO_REUSEPORT.
    let error = start(&first.at.to_string(), 1);
    assert!(error.starts_with(&format!("listen.addresses: {} (UDP): ", first.at)), "{error}");
    assert!(start("192.0.2.1:5353", 1).starts_with("listen.addresses: 192.0.2.1:5353 (UDP): "));
    assert_eq!(start("127.0.0.1:0", 0), "there are epochs for 0 workers, and 1 workers");
}

#[test]
fn queries_may_come_one_octet_at_a_time() {
    let server = Server::start("127.0.0.1:0", 1);
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for _ in 0..2 {
        for octet in frame(&www()) {
            stream.write_all(&[octet]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(read_frame(&mut stream).unwrap().len(), 49);
    }
}

#[test]
fn a_thousand_pipelined_queries_are_answered_in_order() {
    let server = Server::start("127.0.0.1:0", 1);
    let mut stream = server.connect();
    let all: Vec<u8> = (0..1000_u16)
        .flat_map(|id| {
            let mut message = query("example.com", if id % 3 == 0 { 6 } else { 1 }, None);
            message[..2].copy_from_slice(&id.to_be_bytes());
            frame(&message)
        })
        .collect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        writer.write_all(&all).unwrap();
        // Half closed: what was asked is answered nevertheless.
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    for id in 0..1000_u16 {
        let reply = read_frame(&mut stream).unwrap();
        assert_eq!(reply[..2], id.to_be_bytes());
        assert_eq!(reply[7], 1);
    }
    sender.join().unwrap();
    assert!(is_closed(&mut stream));
}

#[test]
fn a_query_of_65535_octets_gets_formerr_and_the_end() {
    let server = Server::start("127.0.0.1:0", 1);
    let mut stream = server.connect();
    let mut message = www();
    message.resize(65_535, 0);
    stream.write_all(&frame(&message)).unwrap();
    assert_eq!(read_frame(&mut stream).unwrap(), [0x12, 0x34, 0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(is_closed(&mut stream));
    // The longest that is read whole, and an empty one.
    let mut message = www();
    message.resize(LONGEST_QUERY, 0);
    assert_eq!(ask_tcp(&mut server.connect(), &message).unwrap()[2..4], [0x81, 1]);
    let mut stream = server.connect();
    stream.write_all(&[0, 0]).unwrap();
    assert!(is_closed(&mut stream));
}

#[test]
fn connections_are_capped_and_a_new_client_is_served_at_once() {
    let server = Server::start("127.0.0.1:0", 1);
    let mut of_one: Vec<TcpStream> = (0..3 * PER_CLIENT).map(|_| server.connect()).collect();
    server.wait_for("worker_tcp_evicted", 2 * PER_CLIENT as u64);
    for stream in &of_one {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    let closed = of_one.iter_mut().filter_map(|s| is_closed(s).then_some(())).count();
    assert_eq!(closed, 2 * PER_CLIENT);
    // Many clients, each with a few that say nothing.
    let mut of_many: Vec<TcpStream> = (0..600_u32)
        .map(|i| server.connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 1, (i / 4) as u8 + 1))).unwrap())
        .collect();
    server.wait_for("worker_tcp_accepted", 660);
    let started = Instant::now();
    let mut honest = server.connect_from("127.0.2.1".parse().unwrap()).unwrap();
    assert_eq!(ask_tcp(&mut honest, &www()).unwrap().len(), 49);
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
    server.wait_for("worker_tcp_evicted", 661 - CONNECTIONS as u64);
    for stream in &of_many {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    let open = of_many.iter_mut().filter_map(|s| (!is_closed(s)).then_some(())).count();
    assert!(open < CONNECTIONS, "{open}");
    assert_eq!(ask_tcp(&mut honest, &www()).unwrap().len(), 49);
}

#[test]
fn clients_that_write_or_read_too_slowly_are_closed() {
    let server = Server::start("127.0.0.1:0", 1);
    let started = Instant::now();
    let mut idle = server.connect();
    let mut crawling = server.connect();
    crawling.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    // Asks and never reads.
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // 10,000 replies of about a kilobyte are more than the kernel holds for both sides.
    let batch = frame(&query("many.example.com", 1, None)).repeat(9_999);
    let written = deaf.write(&batch).unwrap();
    let wait = Duration::from_millis(500);
    let mut answered = server.count("worker_query_tcp");
    loop {
        std::thread::sleep(wait);
        let now = server.count("worker_query_tcp");
        if now == answered {
            break;
        }
        answered = now;
    }
    assert!(written < batch.len() || answered < 9_999, "{written} {answered}");
    // Half a query, an octet now and then.
    let mut octets = frame(&www()).into_iter().take(28);
    while !is_closed(&mut crawling) {
        assert!(started.elapsed() < IDLE + PATIENCE);
        let _ = octets.next().map(|octet| crawling.write_all(&[octet]));
        assert_eq!(ask_udp(&udp(server.at), &www()).len(), 49);
    }
    assert!(started.elapsed() + Duration::from_secs(1) > IDLE);
    assert!(is_closed(&mut idle));
    server.wait_for("worker_tcp_timeout", 3);
    // While the deaf one heard nothing, nothing more was answered for it.
    assert_eq!(server.count("worker_query_tcp"), answered);
}

/// A client that asks one question after the other.
struct Asking {
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Asking {
    fn of(at: SocketAddr) -> Self {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut asked = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                // A port of its own for each, so that every socket of the group has its turn.
                assert!(ask_udp(&udp(at), &www()).ends_with(&[192, 0, 2, 1]));
                asked += 1;
            }
            asked
        });
        Self { stop, thread }
    }

    /// How many questions had their answer: all of them, or this panics.
    fn stop(self) -> u64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().expect("every answer right")
    }
}

#[test]
fn successors_take_over_without_a_lost_query() {
    let mut server = Server::start("127.0.0.1:0", 2);
    let at = server.at;
    let client = Asking::of(at);
    for round in 0..20 {
        let count = round % 3 + 1;
        let epochs = Arc::new(Epochs::new(count as usize));
        let next =
            server.workers.succeed(&settings(&at.to_string(), count), &server.served, &epochs).unwrap();
        std::mem::replace(&mut server.workers, next).stop();
        assert_eq!(ask_tcp(&mut server.connect(), &www()).unwrap().len(), 49);
    }
    assert!(client.stop() > 0);
}

#[test]
fn successors_go_from_an_address_to_the_wildcard_and_back_without_a_lost_query() {
    let mut server = Server::start("127.0.0.1:0", 2);
    let at = server.at;
    let wildcard = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port()).to_string();
    let client = Asking::of(at);
    for round in 0..10 {
        let listen = if round % 2 == 0 { wildcard.clone() } else { at.to_string() };
        let next =
            server.workers.succeed(&settings(&listen, 2), &server.served, &Arc::new(Epochs::new(2))).unwrap();
        std::mem::replace(&mut server.workers, next).stop();
        assert_eq!(ask_tcp(&mut server.connect(), &www()).unwrap().len(), 49, "{listen}");
    }
    assert!(client.stop() > 0);
}

#[test]
fn an_address_may_stand_beside_the_wildcard_that_covers_it() {
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let served = Arc::new(ArcSwap::new(served(1)));
    let listen = [format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}")].map(|text| text.parse().unwrap());
    let settings = Settings { listen: listen.to_vec(), ..settings("127.0.0.1:0", 1) };
    let workers = Workers::start(&settings, &served, &Arc::new(Epochs::new(1))).unwrap();
    assert_eq!(workers.addresses().len(), 2);
}

#[test]
fn queries_wait_at_the_sockets_until_the_workers_run() {
    let mut workers = Workers::bind(&settings("127.0.0.1:0", 2)).unwrap();
    let socket = udp(workers.addresses()[0]);
    socket.send(&www()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "nobody answers yet");
    workers.run(&Arc::new(ArcSwap::new(served(1))), &Arc::new(Epochs::new(2))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 49);
}
