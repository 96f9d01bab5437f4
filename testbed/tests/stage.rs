//! Two namespaces, a pair, and what becomes of processes. Needs root.

use std::{net::UdpSocket, path::Path, process::Stdio, thread, time::Duration};

use nix::sys::signal::Signal;
use responder_testbed::{End, Namespace, Process, Scratch, veth};

fn pair() -> (Namespace, Namespace) {
    let (one, other) = (Namespace::new().expect("needs root"), Namespace::new().expect("needs root"));
    let end = |namespace, interface, addresses| End { namespace, interface, addresses };
    veth::connect(
        end(&one, "one0", &["10.1.1.1/24", "fd01::1/64"]),
        end(&other, "other0", &["10.1.1.2/24", "fd01::2/64"]),
    )
    .expect("a pair");
    (one, other)
}

#[test]
fn sockets_of_two_namespaces_talk_over_the_pair() {
    let (one, other) = pair();
    for (here, there) in [("10.1.1.1:700", "10.1.1.2:0"), ("[fd01::1]:700", "[fd01::2]:0")] {
        let server = one.run(|| UdpSocket::bind(here)).expect("inside").expect("a socket");
        let client = other.run(|| UdpSocket::bind(there)).expect("inside").expect("a socket");
        client.send_to(b"hello", here).expect("sent");
        server.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        assert_eq!(server.recv(&mut [0; 16]).expect("received"), 5);
    }
}

#[test]
fn a_process_ends_with_its_owner_and_with_the_thread_that_started_it() {
    let scratch = Scratch::new("testbed-stage").expect("a folder");
    let space = Namespace::new().expect("needs root");
    let alive = |id: u32| Path::new(&format!("/proc/{id}")).exists();
    let process = Process::start("sleep", space.command("sleep").arg("60"), scratch.file("log"));
    let process = process.expect("started").with_farewell(Signal::SIGTERM);
    let id = process.id();
    assert!(alive(id));
    drop(process);
    assert!(!alive(id));

    let mut orphan = thread::scope(|scope| {
        let start = || space.command("sleep").arg("60").stdout(Stdio::null()).spawn().expect("started");
        scope.spawn(start).join().expect("no panic")
    });
    let status = orphan.wait().expect("it ended");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn a_line_is_waited_for_and_an_early_end_is_told() {
    let scratch = Scratch::new("testbed-line").expect("a folder");
    let space = Namespace::new().expect("needs root");
    let start = |line: &str, log: &str| {
        let mut shell = space.command("sh");
        Process::start("shell", shell.args(["-c", line]), scratch.file(log)).expect("started")
    };
    let patience = Duration::from_secs(10);
    start("echo; sleep 0.1; echo ready; sleep 60", "a").wait_for_line("ready", patience).expect("it says so");
    let fault = start("echo not ready; exit 3", "b").wait_for_line("ready", patience).expect_err("it ends");
    assert!(fault.to_string().contains("shell ended (exit status: 3) before it said `ready`"), "{fault}");
}
