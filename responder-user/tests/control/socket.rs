//! The server against clients that misbehave, and against other daemons.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};

use responder_user::control::{
    Command, Events, Server,
    capture::{SampleFeed, Wanted},
    client::{Client, ClientError, News},
    command::{MAX_REQUEST, SwitchKind},
    events::LAG,
    server::{BindError, CONNECTIONS, FOLLOWERS},
};

use crate::fake::{Daemon, noon};

const STATUS: &[u8] = b"{\"command\":\"status\"}\n";

fn raw(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn line(stream: &mut UnixStream) -> String {
    let (mut out, mut octet) = (Vec::new(), [0]);
    while stream.read(&mut octet).unwrap() == 1 && octet[0] != b'\n' {
        out.push(octet[0]);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_socket_is_for_owner_and_group() {
    let daemon = Daemon::start();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(daemon.socket()), 0o660);
    assert_eq!(
        mode(daemon.socket().parent().unwrap()) & 0o027,
        0,
        "the folder that was made is closed to others"
    );
}

#[test]
fn a_live_daemon_keeps_its_socket_and_a_dead_one_does_not() {
    let daemon = Daemon::start();
    assert!(matches!(Server::bind(daemon.socket()), Err(BindError::InUse(_))));
    Client::connect(daemon.socket()).unwrap().call(&Command::Status).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind by one that died");
    let server = Server::bind(&path).unwrap();
    drop(server);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "neither the socket nor its lock is left");
    let stranger = UnixListener::bind(&path).unwrap();
    assert!(matches!(Server::bind(&path), Err(BindError::InUse(_))), "somebody else listens");
    drop(stranger);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    let error = Server::bind(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("exists and is no socket; remove it, or choose another server.control_socket")
    );
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_socket_that_was_replaced_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = Server::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
}

#[test]
fn many_clients_are_served_at_once() {
    let daemon = Daemon::start();
    let socket = daemon.socket();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = Client::connect(socket).unwrap();
                for _ in 0..20 {
                    assert_eq!(client.call(&Command::Status).unwrap()["generation"], 7);
                }
            });
        }
    });
}

#[test]
fn a_line_without_end_is_refused_and_half_a_line_is_forgotten() {
    let daemon = Daemon::start();
    let mut long = raw(daemon.socket());
    long.write_all(&vec![b'x'; MAX_REQUEST + 10]).unwrap();
    assert_eq!(line(&mut long), r#"{"error":{"message":"a request is at most 65536 octets long"}}"#);
    assert_eq!(line(&mut long), "", "and hung up on");
    let mut half = raw(daemon.socket());
    half.write_all(b"{\"command\":\"dis").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(line(&mut half), "");
    let mut split = raw(daemon.socket());
    for part in STATUS.chunks(5) {
        split.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(line(&mut split).starts_with(r#"{"ok":{"#));
}

#[test]
fn nonsense_is_refused_and_the_connection_goes_on() {
    let daemon = Daemon::start();
    let mut client = raw(daemon.socket());
    for nonsense in [&b"\n"[..], b"{}\n", b"\xff\xfe\n", b"{\"command\":\"format\"}\n", b"[[[[[[[[\n"] {
        client.write_all(nonsense).unwrap();
        let reply = line(&mut client);
        assert!(reply.starts_with(r#"{"error":{"message":"not a command of this version: "#), "{reply}");
    }
    client.write_all(STATUS).unwrap();
    assert!(line(&mut client).starts_with(r#"{"ok":{"#));
}

#[test]
fn sixty_four_silent_connections_do_not_lock_operators_out() {
    let daemon = Daemon::start();
    let mut spoken = raw(daemon.socket());
    spoken.write_all(STATUS).unwrap();
    assert!(line(&mut spoken).starts_with(r#"{"ok":{"#));
    let mut silent: Vec<UnixStream> = (0..2 * CONNECTIONS).map(|_| raw(daemon.socket())).collect();
    for _ in 0..10 {
        Client::connect(daemon.socket()).unwrap().call(&Command::Status).unwrap();
    }
    // The oldest of those that never said anything had to go; who has spoken is let wait.
    assert_eq!(line(&mut silent[0]), "", "hung up on");
    silent[2 * CONNECTIONS - 1].write_all(STATUS).unwrap();
    assert!(line(&mut silent[2 * CONNECTIONS - 1]).starts_with(r#"{"ok":{"#));
    spoken.write_all(STATUS).unwrap();
    assert!(line(&mut spoken).starts_with(r#"{"ok":{"#));
}

#[test]
fn connections_that_are_served_are_never_hung_up_on() {
    let daemon = Daemon::start();
    let follow = Command::Events { follow: true, kind: None, last: Some(1) };
    let mut followers: Vec<Client> = (0..FOLLOWERS)
        .map(|_| {
            let mut client = Client::connect(daemon.socket()).unwrap();
            client.follow(&follow).unwrap();
            client.news().unwrap();
            client
        })
        .collect();
    let _silent: Vec<UnixStream> = (0..2 * CONNECTIONS).map(|_| raw(daemon.socket())).collect();
    Client::connect(daemon.socket())
        .unwrap()
        .call(&Command::Disable { kind: SwitchKind::Service, name: "uk".to_owned() })
        .unwrap();
    for follower in &mut followers {
        assert!(matches!(follower.news(), Ok(News::Event(_))), "it still follows");
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let daemon = Daemon::start();
    let mut deaf = raw(daemon.socket());
    deaf.set_nonblocking(true).unwrap();
    // More requests than socket buffers hold replies to.
    while deaf.write(STATUS).is_ok_and(|n| n == STATUS.len()) {}
    let mut client = Client::connect(daemon.socket()).unwrap();
    for _ in 0..50 {
        client.call(&Command::Status).unwrap();
    }
}

#[test]
fn a_follower_that_does_not_read_is_told_what_it_missed() {
    let daemon = Daemon::start();
    let mut follower = Client::connect(daemon.socket()).unwrap();
    let follow = Command::Events { follow: true, kind: None, last: Some(1) };
    follower.follow(&follow).unwrap();
    assert!(matches!(follower.news(), Ok(News::Event(e)) if e.id == 2), "the past, as asked");
    let mut client = Client::connect(daemon.socket()).unwrap();
    let count = LAG as u64 * 8;
    for _ in 0..count {
        client.call(&Command::Disable { kind: SwitchKind::Service, name: "uk".to_owned() }).unwrap();
    }
    let (mut next, mut missed) = (3, 0);
    while next < 3 + count {
        match follower.news().unwrap() {
            News::Event(event) => {
                assert_eq!(event.id, next, "in order, each once, gaps announced");
                next += 1;
            }
            News::Missed(n) => {
                missed += n;
                next += n;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(missed > 0 && missed < count, "{missed} of {count}");
}

#[test]
fn one_captures_at_a_time_and_the_next_one_after_it() {
    let daemon = Daemon::start();
    let wanted = Wanted { name: None, client: None, every: 1, answers: true };
    let mut first = Client::connect(daemon.socket()).unwrap();
    assert_eq!(first.capture(&wanted).unwrap(), serde_json::json!({"interfaces": ["gslb0"]}));
    let mut second = Client::connect(daemon.socket()).unwrap();
    let refusal = second.capture(&wanted).unwrap_err().to_string();
    assert!(refusal.contains("somebody captures already"), "{refusal}");
    first.wait(Some(Duration::from_millis(50))).unwrap();
    assert!(matches!(first.news(), Err(ClientError::Silent(..))), "nothing is told");
    first.end_capture().unwrap();
    assert_eq!(first.news().unwrap(), News::End(serde_json::json!({"lost": 3})));
    // One that hangs up makes room as well.
    for _ in 0..2 {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let mut next = Client::connect(daemon.socket()).unwrap();
            if next.capture(&wanted).is_ok() {
                break;
            }
            assert!(Instant::now() < deadline, "the place is not given back");
        }
    }
}

#[test]
fn a_daemon_that_stops_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = Server::bind(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (requests, inbox) = tokio::sync::mpsc::channel(1);
    drop(inbox);
    let thread = std::thread::spawn(move || {
        let mut client = Client::connect(&path).unwrap();
        client.call(&Command::Reload).unwrap_err().to_string()
    });
    let mut events = Events::default();
    events.record(noon(), responder_user::control::EventKind::Attach, "x", "y", serde_json::Map::new());
    runtime.block_on(async {
        let serving = server.run(requests, events.feed(), SampleFeed::default());
        let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    });
    assert_eq!(thread.join().unwrap(), "responderd is stopping");
}

#[test]
fn a_daemon_that_hangs_up_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = Client::connect(&path).unwrap();
    drop(listener.accept().unwrap());
    assert!(matches!(client.call(&Command::Status), Err(ClientError::HungUp(_))));
}
