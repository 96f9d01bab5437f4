//! Starts that fail, and starts with other settings over what an earlier daemon kept: nothing is lost, and whoever
//! refuses to start changes nothing.

use std::{fs, net::UdpSocket, thread, time::Duration};

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, Start},
    dns::{self, A},
    load::{self, Load},
    pins::{link_id, xdp_of},
    say, text,
};

/// Runs a daemon that keeps its program, and ends it.
fn kept(bed: &Bed) {
    let text = text::head(bed, "on_exit = \"keep\"") + &text::stable();
    Daemon::start(bed, &bed.write("responder.toml", &text)).stop();
}

/// Starts a daemon that must refuse; returns what it says.
fn refused(bed: &Bed, text: &str) -> String {
    let config = bed.write("responder.toml", text);
    let mut daemon = Start::new(bed, &config).spawn();
    assert_eq!(daemon.wait_exit().code(), Some(1), "{}", daemon.log());
    let log = daemon.log();
    let complaint: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("responderd: ")).collect();
    assert_eq!(complaint.len(), 1, "one line: {log}");
    complaint[0].to_owned()
}

/// Closes a socket on the responder's port. A child of another test, forked a moment ago, may hold it until its exec.
fn vacate(bed: &Bed, occupant: UdpSocket) {
    drop(occupant);
    let began = std::time::Instant::now();
    while bed.in_server(|| UdpSocket::bind("10.53.0.1:53")).is_err() {
        assert!(began.elapsed() < Duration::from_secs(5), "the port is not free again");
        thread::sleep(Duration::from_millis(10));
    }
    // The same is true of the socket that tried.
    thread::sleep(Duration::from_millis(300));
}

fn is_answered(bed: &Bed) -> bool {
    let socket = dns::socket(bed);
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    dns::exchange(&socket, &dns::query(1, "s1.example.com", A)).is_some()
}

#[test]
fn xdp_turned_off_by_a_restart_after_keep_loses_no_query() {
    let bed = Bed::new();
    let on = text::head(&bed, "on_exit = \"keep\"") + &text::stable();
    let offs = [
        text::head(&bed, "mode = \"off\"") + &text::stable(),
        text::head(&bed, "").replace("interfaces = [\"gslb0\"]", "interfaces = []") + &text::stable(),
    ];
    Daemon::start(&bed, &bed.write("responder.toml", &on)).stop();
    for off in &offs {
        let load = Load::start(&bed, load::stable(), 8_000);
        thread::sleep(Duration::from_millis(200));
        let daemon = Daemon::start(&bed, &bed.write("responder.toml", off));
        assert!(!bed.pins().exists(), "once it is ready nothing is left in the kernel");
        // The kernel takes a program off some time after its pin is gone.
        let began = std::time::Instant::now();
        while daemon.stats()["worker_answer_noerror"] < 500 {
            assert!(began.elapsed() < PATIENCE, "the workers answer nothing");
            thread::sleep(Duration::from_millis(20));
        }
        let totals = load.stop();
        totals.assert_clean(1_000, "XDP off after keep");
        assert_eq!(daemon.stats()["worker_answer_servfail"], 0);
        say!("XDP off after keep: {} queries, 0 lost", totals.sent);
        // And on again, with the sockets of the former daemon gone for a moment: what is lost then is not looked at.
        daemon.stop();
        Daemon::start(&bed, &bed.write("responder.toml", &on)).stop();
    }
}

#[test]
fn a_failed_start_without_xdp_leaves_the_kept_program_where_it_is() {
    let bed = Bed::new();
    kept(&bed);
    let link = link_id(&bed);
    let occupant = bed.in_server(|| UdpSocket::bind("10.53.0.1:53")).unwrap();
    let off = text::head(&bed, "mode = \"off\"") + &text::stable();
    let complaint = refused(&bed, &off);
    let place = format!("{}:6:14: ", bed.folder().join("responder.toml").display());
    assert!(complaint.starts_with(&(place + "listen.addresses: 10.53.0.1:53 (UDP): ")), "{complaint}");
    assert_eq!(link_id(&bed), link);
    assert!(is_answered(&bed), "the kernel goes on");
    vacate(&bed, occupant);
    let _daemon = Daemon::start(&bed, &bed.folder().join("responder.toml"));
    assert!(!bed.pins().exists() && is_answered(&bed));
}

#[test]
fn a_failed_start_changes_no_kept_answer() {
    let bed = Bed::new();
    kept(&bed);
    let _occupant = bed.in_server(|| UdpSocket::bind("10.53.0.1:53")).unwrap();
    // The same numbers, another name in the place of the first: the pinned names would be made equal to it.
    let other =
        text::head(&bed, "on_exit = \"keep\"") + &text::stable().replace("s1.example.com", "t1.example.com");
    refused(&bed, &other);
    assert!(is_answered(&bed), "the old names are there");
}

#[test]
fn a_refused_start_leaves_neither_pins_nor_a_lock() {
    let bed = Bed::new();
    let occupant = bed.in_server(|| UdpSocket::bind("10.53.0.1:53")).unwrap();
    refused(&bed, &(text::head(&bed, "") + &text::stable()));
    vacate(&bed, occupant);
    bed.occupy();
    let complaint = refused(&bed, &(text::head(&bed, "mode = \"native\"") + &text::stable()));
    let place = format!("{}:9:15: ", bed.folder().join("responder.toml").display());
    assert!(
        complaint.starts_with(&(place + "interface gslb0: carries the XDP program \"pass\"")),
        "{complaint}"
    );
    assert!(!bed.pins().exists(), "no folder of pins");
    let left: Vec<_> = fs::read_dir(bed.folder().join("run")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn pins_that_the_configuration_no_longer_names_are_refused_and_named() {
    let bed = Bed::new();
    kept(&bed);
    let bare = text::server(&bed, "\"10.53.0.1:53\", \"[2001:db8:53::1]:53\"") + &text::stable();
    let complaint = refused(&bed, &bare);
    assert!(
        complaint.contains("interface gslb0") && complaint.contains(bed.pins().to_str().unwrap()),
        "{complaint}"
    );
    assert!(is_answered(&bed) && xdp_of(&bed).contains("prog"), "untouched");
    // Nor are they taken for a stranger's where XDP goes on under another path.
    // (A BPF file system takes no dots.)
    let other = bed.pins().with_file_name(format!("{}-other", bed.pins().file_name().unwrap().display()));
    let moved = text::head(&bed, "") + &text::stable();
    let complaint = refused(&bed, &moved.replace(bed.pins().to_str().unwrap(), other.to_str().unwrap()));
    assert!(complaint.contains(bed.pins().to_str().unwrap()), "{complaint}");
    assert!(!other.exists(), "what was refused leaves no pins");
    // On other addresses there is nothing to fear from it.
    let elsewhere = bare.replace(":53\"", ":5353\"");
    Daemon::start(&bed, &bed.write("responder.toml", &elsewhere)).stop();
    assert!(is_answered(&bed));
    // Named and switched off, it goes.
    let off = text::head(&bed, "mode = \"off\"") + &text::stable();
    let _daemon = Daemon::start(&bed, &bed.write("responder.toml", &off));
    assert!(!bed.pins().exists() && is_answered(&bed));
}

#[test]
fn a_check_sees_what_a_start_would_see_of_the_host() {
    let bed = Bed::new();
    let check = |text: &str| {
        let path = bed.write("responder.toml", text);
        let mut command = bed.server().command(crate::daemon::RESPONDERD);
        let output = command.arg("--config").arg(&path).arg("--check").output().unwrap();
        let folder = format!("{}/", bed.folder().display());
        (output.status.code(), String::from_utf8(output.stdout).unwrap().replace(&folder, ""))
    };
    let good = text::head(&bed, "") + &text::stable();
    assert_eq!(check(&good), (Some(0), String::new()));
    let bad = good.replace("10.53.0.1:53", "192.0.2.200:53").replace("\"gslb0\"", "\"gslb7\", \"gslb8\"");
    let lines =
        "responder.toml:6:14: listen.addresses: \"192.0.2.200:53\": this host does not have the address\n";
    let missing = "responder.toml:9:15: xdp.interfaces: \"gslb7\" does not exist\nresponder.toml:9:24: xdp.interfaces: \"gslb8\" does not exist\n";
    assert_eq!(check(&bad), (Some(1), format!("{missing}{lines}")));
    let config = bed.write("responder.toml", &bad);
    let mut daemon = Start::new(&bed, &config).spawn();
    assert_eq!(daemon.wait_exit().code(), Some(1));
    assert_eq!(daemon.log().matches("responderd: ").count(), 3, "the start says the same: {}", daemon.log());
    let one = good.replace("\"gslb0\"", "\"gslb0\", \"gslb8\"");
    let warning = "warning: responder.toml:9:24: xdp.interfaces: \"gslb8\" does not exist; it is served when it comes\n";
    assert_eq!(check(&one), (Some(0), warning.to_owned()));
}
