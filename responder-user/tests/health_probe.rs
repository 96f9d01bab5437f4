//! Checks against services that really listen, and misbehave.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use responder_user::{
    health::{Probe, ProbeResult},
    model::{Monitor, MonitorKind, Service},
};

const TIMEOUT: Duration = Duration::from_millis(500);

fn probe(kind: MonitorKind, target: SocketAddr) -> Probe {
    let monitor = Monitor {
        name: "m".to_owned(),
        kind,
        interval: Duration::from_secs(1),
        timeout: TIMEOUT,
        rise: 1,
        fall: 1,
        port: Some(target.port()),
        enabled: true,
    };
    let service = Service {
        name: "s".to_owned(),
        addresses: vec![target.ip()],
        port: 9,
        monitors: Vec::new(),
        monitor_threshold: 0,
        enabled: true,
        ..Service::default()
    };
    Probe::new(&monitor, &service, target.ip()).expect("a type that runs")
}

async fn tcp(target: SocketAddr) -> ProbeResult {
    probe(MonitorKind::Tcp, target).check().await.expect("no fault of this host")
}

async fn http(target: SocketAddr) -> ProbeResult {
    let kind = MonitorKind::Http { path: "/health?x=1".to_owned(), host: None, expect: vec![(200, 299)] };
    probe(kind, target).check().await.expect("no fault of this host")
}

/// Serves every connection with `serve` on a thread of its own.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream);
        }
    });
    address
}

/// Serves a fixed reply once the request is complete, then closes.
fn replies(reply: impl Into<Vec<u8>>) -> SocketAddr {
    let reply = reply.into();
    server(move |mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(&reply);
    })
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        request.push(byte[0]);
    }
    String::from_utf8_lossy(&request).into_owned()
}

/// A port that nobody listens on.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port")
}

/// A listener whose backlog is full: its host drops every further SYN. Keep what is returned.
fn black_hole() -> (SocketAddr, Vec<socket2::Socket>) {
    use socket2::{Domain, Socket, Type};
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let listener = socket();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    listener.listen(0).expect("listens");
    let address = listener.local_addr().ok().and_then(|a| a.as_socket()).expect("an address");
    let mut held = vec![listener];
    for _ in 0..4 {
        let filler = socket();
        filler.set_nonblocking(true).expect("non-blocking");
        let _ = filler.connect(&address.into());
        held.push(filler);
    }
    (address, held)
}

fn assert_timely(result: &ProbeResult) {
    assert!(result.took >= TIMEOUT && result.took < TIMEOUT + Duration::from_millis(400), "{result:?}");
}

#[tokio::test]
async fn an_accepted_connection_is_a_success() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let result = tcp(listener.local_addr().expect("bound")).await;
    assert!(result.ok && result.took < TIMEOUT, "{result:?}");
    let v6 = TcpListener::bind("[::1]:0").expect("a port");
    assert!(tcp(v6.local_addr().expect("bound")).await.ok);
}

#[tokio::test]
async fn a_refused_connection_says_so() {
    for result in [tcp(closed()).await, http(closed()).await] {
        assert_eq!((result.ok, result.detail.as_str()), (false, "connection refused"));
        assert!(result.took < TIMEOUT);
    }
}

#[tokio::test]
async fn a_connection_to_itself_is_no_success() {
    // Every port of the ephemeral range: some connect would choose its own target as the source.
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux");
    let low: u16 = range.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    let free: Vec<u16> =
        (low..low + 4000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).collect();
    for port in free {
        let result = tcp(SocketAddr::from(([127, 0, 0, 1], port))).await;
        assert!(!result.ok, "{port}: {result:?}");
    }
}

#[tokio::test]
async fn a_black_hole_ends_at_the_deadline() {
    let (address, _held) = black_hole();
    let (over_tcp, over_http) = tokio::join!(tcp(address), http(address));
    for result in [over_tcp, over_http] {
        assert_eq!((result.ok, result.detail.as_str()), (false, "timeout after 500ms"));
        assert_timely(&result);
    }
}

#[tokio::test]
async fn a_server_that_never_replies_ends_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let result = http(listener.local_addr().expect("bound")).await;
    assert_eq!((result.ok, result.detail.as_str()), (false, "timeout after 500ms, connected but no reply"));
    assert_timely(&result);
}

#[tokio::test]
async fn a_slow_loris_ends_at_the_deadline() {
    let address = server(|mut stream| {
        read_request(&mut stream);
        for byte in b"HTTP/1.1 200 OK\r\nx-slow: ".iter().chain(std::iter::repeat(&b'z')) {
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    let result = http(address).await;
    assert_eq!(result.detail, "timeout after 500ms, connected but no reply");
    assert_timely(&result);
}

#[tokio::test]
async fn the_request_is_a_plain_get() {
    let (tx, rx) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        let _ = tx.send(read_request(&mut stream));
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
    });
    let result = http(address).await;
    assert_eq!((result.ok, result.detail.as_str()), (true, "204"));
    let request = rx.recv().expect("a request").to_ascii_lowercase();
    assert!(request.starts_with("get /health?x=1 http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: {address}\r\n")), "{request}");
    assert!(request.contains("\r\nconnection: close\r\n"), "{request}");
}

#[tokio::test]
async fn the_configured_host_is_sent() {
    let (tx, rx) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        let _ = tx.send(read_request(&mut stream));
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
    });
    let host = Some("www.example.com".to_owned());
    let kind = MonitorKind::Http { path: "/".to_owned(), host, expect: vec![(200, 200)] };
    let result = probe(kind, address).check().await.expect("no fault of this host");
    assert!(result.ok, "{result:?}");
    assert!(rx.recv().expect("a request").contains("\r\nhost: www.example.com\r\n"));
}

#[tokio::test]
async fn a_status_outside_the_ranges_fails_and_redirects_are_not_followed() {
    let unavailable = http(replies("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!((unavailable.ok, unavailable.detail.as_str()), (false, "status 503, expected 200-299"));
    let target = replies("HTTP/1.1 200 OK\r\n\r\n");
    let redirect = http(replies(format!("HTTP/1.1 302 Found\r\nlocation: http://{target}/\r\n\r\n"))).await;
    assert_eq!((redirect.ok, redirect.detail.as_str()), (false, "status 302, expected 200-299"));
}

#[tokio::test]
async fn interim_replies_are_not_the_reply() {
    let result = http(replies("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")).await;
    assert_eq!((result.ok, result.detail.as_str()), (true, "200"));
}

#[tokio::test]
async fn a_body_of_a_gigabyte_is_not_read() {
    let (tx, rx) = std::sync::mpsc::channel();
    let address = server(move |mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n");
        let chunk = vec![b'x'; 1 << 20];
        let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
        let _ = tx.send(sent);
    });
    let result = http(address).await;
    assert!(result.ok && result.took < TIMEOUT, "{result:?}");
    let sent = rx.recv_timeout(Duration::from_secs(5)).expect("the server was cut off");
    assert!(sent < 64, "{sent} MB of 1024 left the server");
}

#[tokio::test]
async fn garbage_fails_with_a_reason() {
    let endless_header = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 20));
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("nothing", Vec::new(), "closed before"),
        ("half a line", b"HTTP/1.1 2".to_vec(), "closed before"),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "not HTTP"),
        ("binary", vec![0, 255, 1, 254, 13, 10, 13, 10], "not HTTP"),
        ("no number", b"HTTP/1.1 abc OK\r\n\r\n".to_vec(), "not HTTP"),
        ("endless header", endless_header.into_bytes(), "not HTTP"),
        ("many headers", many_headers.into_bytes(), "not HTTP"),
    ];
    for (name, reply, expected) in cases {
        let result = http(replies(reply)).await;
        assert!(!result.ok && result.detail.starts_with(expected), "{name}: {result:?}");
        assert!(result.took < TIMEOUT, "{name}: {result:?}");
    }
}

#[tokio::test]
async fn a_stall_of_this_process_is_not_held_against_the_peer() {
    let address = server(|mut stream| {
        read_request(&mut stream);
        thread::sleep(Duration::from_millis(50));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    });
    let check = tokio::spawn(async move { http(address).await });
    tokio::task::yield_now().await;
    // The connection is on its way; now nothing of this runtime runs until long after the deadline.
    thread::sleep(TIMEOUT + Duration::from_millis(300));
    let result = check.await.expect("no panic");
    assert!(result.ok, "{result:?}");
}

#[tokio::test]
async fn no_socket_outlives_its_check() {
    let address = replies("HTTP/1.1 200 OK\r\n\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain = listener.local_addr().expect("bound");
    for _ in 0..20 {
        assert!(http(address).await.ok);
        assert!(tcp(plain).await.ok);
    }
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
        let ours = |line: &&str| {
            let remote = line.split_whitespace().nth(2).unwrap_or_default();
            [address, plain].iter().any(|a| remote.ends_with(&format!(":{:04X}", a.port())))
        };
        let left = table.lines().filter(ours).count();
        if left == 0 {
            return;
        }
        assert!(Instant::now() < until, "{left} sockets are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
