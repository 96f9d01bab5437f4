//! What is pinned, and what a start makes of pins and interfaces that are not as they should be.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use aya::programs::links::{FdLink, PinnedLink};
use nix::sys::signal::Signal;

use crate::{
    bed::Bed,
    daemon::{Daemon, Start},
    dns::{self, A},
    text,
};

/// Folder of this layout.
pub fn folder(bed: &Bed) -> PathBuf {
    let version = responder_common::layout::LAYOUT_VERSION;
    bed.pins().join(format!("v{version}"))
}

fn link_pin(bed: &Bed) -> PathBuf {
    folder(bed).join("link-gslb0")
}

fn link(bed: &Bed) -> FdLink {
    PinnedLink::from_pin(link_pin(bed)).expect("the pinned link").into()
}

/// The kernel's id of the pinned link.
pub fn link_id(bed: &Bed) -> u32 {
    link(bed).info().expect("the link").id()
}

/// The kernel's id of the program in the pinned link.
pub fn live_program(bed: &Bed) -> u32 {
    link(bed).info().expect("the link").program_id()
}

/// What `ip link` says of XDP on the interface.
pub fn xdp_of(bed: &Bed) -> String {
    let text = bed.ip("-d link show dev gslb0");
    text.lines().filter(|line| line.contains("xdp")).collect()
}

/// The worlds that are pinned.
pub fn worlds(bed: &Bed) -> Vec<String> {
    let entries = fs::read_dir(folder(bed)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut out: Vec<String> = names.filter(|name| name.starts_with("world-")).collect();
    out.sort();
    out
}

fn works(bed: &Bed) {
    let reply = dns::ask(&dns::socket(bed), "s1.example.com", A);
    assert_eq!((reply.rcode, reply.answers), (0, 1));
}

#[test]
fn a_foreign_program_is_refused_by_name_and_left_alone() {
    let bed = Bed::new();
    bed.occupy();
    let before = xdp_of(&bed);
    assert!(before.contains("xdp"), "{before}");
    for mode in ["auto", "native", "generic"] {
        let text = text::head(&bed, &format!("mode = {mode:?}")) + &text::stable();
        let config = bed.write("responder.toml", &text);
        let mut daemon = Start::new(&bed, &config).spawn();
        let status = daemon.wait_exit();
        assert_eq!(status.code(), Some(1), "{mode}: {}", daemon.log());
        let log = daemon.log();
        assert!(log.contains("gslb0") && log.contains("\"pass\""), "{mode}: named: {log}");
        assert!(!log.contains("\nready\n"), "{mode}: {log}");
        assert_eq!(xdp_of(&bed), before, "{mode}: untouched");
    }
    // Gone, and the start succeeds.
    bed.ip("link set dev gslb0 xdp off");
    let config = bed.folder().join("responder.toml");
    let _daemon = Daemon::start(&bed, &config);
    works(&bed);
}

/// Kills a daemon, spoils its pins, starts another one; returns its log.
fn restart_over(bed: &Bed, spoil: impl FnOnce()) -> String {
    let text = text::head(bed, "on_exit = \"keep\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    Daemon::start(bed, &config).kill();
    spoil();
    let daemon = Daemon::start(bed, &config);
    works(bed);
    assert_eq!(worlds(bed).len(), 1, "one world is left: {:?}\n{}", worlds(bed), daemon.log());
    assert!(daemon.status()["problems"].as_array().unwrap().is_empty(), "{}", daemon.status());
    daemon.log()
}

#[test]
fn with_whole_pins_the_answers_are_taken_over() {
    let bed = Bed::new();
    let mut id = 0;
    let log = restart_over(&bed, || id = link_id(&bed));
    assert!(log.contains("taken over (0 names changed, 0 removed)"), "{log}");
    assert_eq!(link_id(&bed), id);
}

#[test]
fn with_a_map_missing_a_new_world_is_built_and_said() {
    let bed = Bed::new();
    let log = restart_over(&bed, || {
        fs::remove_file(folder(&bed).join("world-0/REFERENCES")).unwrap();
    });
    assert!(log.contains("REFERENCES") && log.contains("a new world"), "{log}");
}

#[test]
fn with_the_control_map_missing_a_new_world_is_built_and_said() {
    let bed = Bed::new();
    let log = restart_over(&bed, || {
        fs::remove_file(folder(&bed).join("world-0/CONTROL")).unwrap();
    });
    assert!(log.contains("a new world"), "{log}");
}

#[test]
fn with_the_counters_missing_a_new_world_is_built_and_said() {
    let bed = Bed::new();
    let log = restart_over(&bed, || {
        fs::remove_file(folder(&bed).join("PER_CPU")).unwrap();
    });
    assert!(log.contains("ready"), "{log}");
}

#[test]
fn with_the_link_gone_the_program_is_attached_anew() {
    let bed = Bed::new();
    let log = restart_over(&bed, || fs::remove_file(link_pin(&bed)).unwrap());
    assert!(log.contains("XDP program attached"), "{log}");
}

#[test]
fn pins_of_another_layout_are_no_hindrance() {
    let bed = Bed::new();
    let other = bed.pins().join("v999");
    let log = restart_over(&bed, || {
        fs::create_dir_all(other.join("world-0")).unwrap();
    });
    assert!(log.contains("taken over"), "{log}");
}

#[test]
fn a_pin_that_is_removed_stops_xdp_until_a_reload() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let mode = || daemon.status()["interfaces"][0]["mode"].as_str().unwrap().to_owned();
    assert_eq!(mode(), "native");
    // The emergency stop of an operator (README): nobody undoes it.
    fs::remove_file(link_pin(&bed)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(mode(), "off");
    let problems = daemon.status()["problems"].to_string();
    let line =
        "interface gslb0: XDP mode is off, not native: its pin was removed; a reload attaches it again";
    assert!(problems.contains(line), "{problems}");
    works(&bed);
    daemon.reload().expect("the same file");
    assert_eq!(mode(), "native");
}

#[test]
fn an_interface_made_anew_gets_a_new_link() {
    let bed = Bed::new();
    let log = restart_over(&bed, || {
        bed.ip("link delete gslb0");
        bed.wire_pair();
    });
    assert!(log.contains("attaching anew") && log.contains("XDP program attached, mode native"), "{log}");
}

#[test]
fn started_again_at_once_after_detach_it_does_not_take_its_own_program_for_a_foreign_one() {
    let bed = Bed::new();
    let text = text::head(&bed, "on_exit = \"detach\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    for _ in 0..3 {
        let daemon = Daemon::start(&bed, &config);
        works(&bed);
        daemon.stop();
    }
}

#[test]
fn a_pinned_link_of_another_mode_is_not_passed_off_as_the_mode_that_was_asked_for() {
    let bed = Bed::new();
    for mode in ["generic", "native", "generic"] {
        let text = text::head(&bed, &format!("mode = {mode:?}\non_exit = \"keep\"")) + &text::stable();
        let daemon = Daemon::start(&bed, &bed.write("responder.toml", &text));
        assert_eq!(daemon.status()["interfaces"][0]["mode"], mode);
        works(&bed);
        daemon.stop();
    }
}

#[test]
fn xdp_switched_off_removes_what_was_kept() {
    let bed = Bed::new();
    let keep = text::head(&bed, "on_exit = \"keep\"") + &text::stable();
    Daemon::start(&bed, &bed.write("responder.toml", &keep)).stop();
    assert!(xdp_of(&bed).contains("prog"));
    let off = text::head(&bed, "mode = \"off\"") + &text::stable();
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &off));
    works(&bed);
    assert!(!bed.pins().exists());
    assert!(daemon.stats()["worker_answer_noerror"] > 0);
}

#[test]
fn two_daemons_never_share_pins() {
    let bed = Bed::new();
    let text = text::head(&bed, "") + &text::stable();
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    // Another control socket, state folder and other addresses, but the same pins.
    let text = text
        .replace("control.sock", "other.sock")
        .replace("/state\"", "/other\"")
        .replace(":53\"", ":5353\"");
    let other = bed.write("other.toml", &text);
    // Nor while the first one is stopped in whatever it does (T-C2): it would go on with an old plan.
    for is_stopped in [false, true] {
        if is_stopped {
            daemon.signal(Signal::SIGSTOP);
        }
        let mut second = Start::new(&bed, &other).spawn();
        let status = second.wait_exit();
        assert_eq!(status.code(), Some(1), "{}", second.log());
        assert!(second.log().contains("pin_path"), "{}", second.log());
        works(&bed);
    }
    daemon.signal(Signal::SIGCONT);
    assert!(daemon.stats()["xdp_answer_a"] > 0);
}

#[test]
fn a_link_that_goes_down_is_reported_and_comes_back_with_the_same_answers() {
    let bed = Bed::new();
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &(text::head(&bed, "") + &text::stable())));
    let link = |daemon: &Daemon| daemon.status()["interfaces"][0]["link"].as_str().unwrap().to_owned();
    for state in ["down", "up"] {
        bed.ip(&format!("link set gslb0 {state}"));
        let since = Instant::now();
        while link(&daemon) != state {
            // spec/reliability.md T-X7; the margin is for a busy machine.
            assert!(since.elapsed() < Duration::from_secs(3), "{state}: not seen");
            thread::sleep(Duration::from_millis(20));
        }
        let problems = daemon.status()["problems"].to_string();
        assert_eq!(problems.contains("link is down"), state == "down", "{problems}");
    }
    let before = daemon.stats()["xdp_answer_a"];
    works(&bed);
    bed.ip("link set gslb0 mtu 1400");
    works(&bed);
    assert_eq!(daemon.stats()["xdp_answer_a"] - before, 2, "from XDP");
}

#[test]
fn without_a_bpf_file_system_the_start_says_so() {
    let bed = Bed::new();
    let pins = bed.folder().join("no-bpffs");
    let text = text::head(&bed, "mode = \"native\"") + &text::stable();
    let text = text.replace(bed.pins().to_str().unwrap(), pins.to_str().unwrap());
    let config = bed.write("responder.toml", &text);
    let mut daemon = Start::new(&bed, &config).spawn();
    assert_eq!(daemon.wait_exit().code(), Some(1));
    assert!(daemon.log().contains("is not on a BPF file system"), "{}", daemon.log());
    // "auto" steps down, loudly, and answers.
    let config = bed.write("responder.toml", &text.replace("\"native\"", "\"auto\""));
    let daemon = Daemon::start(&bed, &config);
    works(&bed);
    assert!(daemon.log().contains("stepping down"), "{}", daemon.log());
    let problems = daemon.status()["problems"].to_string();
    assert!(problems.contains("gslb0"), "status says so: {problems}");
}
