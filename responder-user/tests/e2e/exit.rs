//! What the kernel does when the daemon has ended: `xdp.on_exit` and `xdp.max_stale`.

use std::{
    thread,
    time::{Duration, Instant},
};

use aya::maps::{MapData, PerCpuArray};
use responder_common::{counters::Counter, layout::LAYOUT_VERSION, layout::PerCpu};

use crate::{
    bed::Bed,
    daemon::{Daemon, PATIENCE, Start},
    dns::{self, A},
    load::{self, Load},
    pins::{link_id, live_program, xdp_of},
    say, text,
};

#[test]
fn on_exit_keep_goes_on_answering_and_is_taken_over() {
    let bed = Bed::new();
    let text = text::head(&bed, "on_exit = \"keep\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    let load = Load::start(&bed, load::stable(), 2_000);
    let (link, program) = (link_id(&bed), live_program(&bed));
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(50));
    }
    daemon.stop();
    // Nobody is there, and everybody is answered.
    thread::sleep(Duration::from_millis(300));
    assert_eq!((link_id(&bed), live_program(&bed)), (link, program));
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(link_id(&bed), link);
    let totals = load.stop();
    totals.assert_clean(300, "keep");
    assert!(daemon.stats()["xdp_answer_a"] >= totals.sent / 2, "the counters outlive the daemon");
}

#[test]
fn on_exit_detach_leaves_nothing_behind() {
    let bed = Bed::new();
    let text = text::head(&bed, "on_exit = \"detach\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    assert!(xdp_of(&bed).contains("xdp"));
    let program = live_program(&bed);
    daemon.stop();
    assert!(!bed.pins().exists(), "the pins are gone");
    assert!(!xdp_of(&bed).contains("prog"), "{}", xdp_of(&bed));
    let deadline = Instant::now() + PATIENCE;
    // The kernel frees a program after its last reader.
    while aya::programs::loaded_programs().flatten().any(|info| info.id() == program) {
        assert!(Instant::now() < deadline, "the program is gone");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!bed.socket().exists(), "the control socket is gone");
}

/// What one CPU counted.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Counted(PerCpu);

#[expect(unsafe_code, reason = "aya's marker for map values")]
// SAFETY: `PerCpu` is bytemuck Pod: no padding, every bit pattern valid.
unsafe impl aya::Pod for Counted {}

/// A counter, read from the pinned map while no daemon lives, as an operator would with bpftool.
fn pinned_counter(bed: &Bed, counter: Counter) -> u64 {
    let pin = bed.pins().join(format!("v{LAYOUT_VERSION}/PER_CPU"));
    let map = aya::maps::Map::PerCpuArray(MapData::from_pin(pin).expect("the pinned counters"));
    let array: PerCpuArray<MapData, Counted> = PerCpuArray::try_from(map).unwrap();
    array.get(&0, 0).unwrap().iter().map(|cpu| cpu.0.counters[counter.slot()]).sum()
}

#[test]
fn max_stale_passes_queries_up_and_a_restart_answers_again() {
    let bed = Bed::new();
    let text = text::head(&bed, "on_exit = \"keep\"\nmax_stale = \"2s\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    // Longer than max_stale: a daemon that lives is not stale.
    let socket = dns::socket(&bed);
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let query = dns::query(1, "s1.example.com", A);
    let is_answered = || dns::exchange(&socket, &query).is_some();
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        assert!(is_answered(), "a daemon that lives is not stale");
        thread::sleep(Duration::from_millis(20));
    }
    let killed = Instant::now();
    daemon.kill();
    assert_eq!(pinned_counter(&bed, Counter::PassStale), 0);
    while is_answered() {
        assert!(killed.elapsed() < Duration::from_secs(4), "stale answers go on");
        thread::sleep(Duration::from_millis(10));
    }
    let stale = killed.elapsed();
    // The sign of life is up to a second old when the daemon dies.
    assert!(stale > Duration::from_millis(900) && stale < Duration::from_secs(3), "stale after {stale:?}");
    assert!(pinned_counter(&bed, Counter::PassStale) > 0, "visible without the daemon");
    let daemon = Daemon::start(&bed, &config);
    let before = daemon.stats();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!((0..20).all(|_| is_answered()));
    let after = daemon.stats();
    assert_eq!(after["xdp_answer_a"] - before["xdp_answer_a"], 20, "from XDP again");
    assert_eq!(after["xdp_pass_stale"], before["xdp_pass_stale"]);
    say!("max_stale = 2s: passed up {:.1} s after kill -9", stale.as_secs_f64());
}

#[test]
fn a_world_that_waits_to_be_replaced_does_not_go_stale() {
    let bed = Bed::new();
    let xdp = "on_exit = \"keep\"\nmax_stale = \"2s\"";
    let old = text::head(&bed, xdp) + &text::stable();
    let config = bed.write("responder.toml", &old);
    Daemon::start(&bed, &config).stop();
    // The new world has a name that is decided after five seconds only: much later than max_stale.
    let slow = "[[monitor]]\nname = \"slow\"\ntype = \"tcp\"\ninterval = \"10s\"\ntimeout = \"5s\"\n\n"
        .to_owned()
        + &text::service("slow", "10.53.0.99").replace("port = 80", "port = 80\nmonitors = [\"slow\"]")
        + &text::vserver("slow", &["slow"], "");
    bed.write("responder.toml", &(old + &slow));
    let daemon = Start::new(&bed, &config).spawn();
    daemon.wait_line("a new world", |line| line.contains("a new world"));
    // What had gone stale before may need a moment until it is alive again.
    thread::sleep(Duration::from_millis(1200));
    let before = daemon.stats();
    let load = Load::start(&bed, load::stable(), 500);
    let ready = daemon.wait_ready();
    load.stop().assert_clean(100, "while the new world waits");
    assert!(ready > Duration::from_millis(2500), "ready after {ready:?}: nothing could go stale");
    assert_eq!(daemon.stats()["xdp_pass_stale"], before["xdp_pass_stale"], "nothing went stale");
}
