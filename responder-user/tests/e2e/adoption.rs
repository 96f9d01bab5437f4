//! The daemon may die at any moment: no query is lost, no answer changes (spec/reliability.md T-C1).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use responder_user::control::{
    Command as Order,
    client::Client,
    command::{ForceKind, ForceState},
};

use crate::{
    bed::Bed,
    daemon::{Daemon, RESPONDERD, Start, copy_of_binary},
    is_full,
    load::{self, Load},
    pins::{link_id, live_program},
    say, text,
};

/// Queries a second while the daemon dies and comes back.
const RATE: u32 = 6_000;

/// Rounds of the normal run and of the long one.
fn rounds() -> u32 {
    if is_full() { 1_000 } else { 200 }
}

/// Numbers that look random and repeat for a seed.
pub struct Random(u64);

impl Random {
    /// From the clock; the seed is printed.
    pub fn new(what: &str) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 | 1);
        say!("{what}: seed {now}");
        Self(now)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Publishes as fast as the daemon does it, until told to end or until the daemon is gone.
fn publish_until(
    is_over: &AtomicBool,
    socket: &std::path::Path,
    config: &std::path::Path,
    texts: &[String; 2],
) {
    let Ok(mut client) = Client::connect(socket) else { return };
    let force = |name: &str, state| Order::Force { kind: ForceKind::Service, name: name.to_owned(), state };
    for round in 0.. {
        for (name, state) in [
            ("p1", ForceState::Down),
            ("p3", ForceState::Down),
            ("p1", ForceState::Auto),
            ("p3", ForceState::Auto),
        ] {
            if is_over.load(Ordering::Relaxed) || client.call(&force(name, state)).is_err() {
                return;
            }
        }
        // Names come and go.
        if round % 8 == 3 {
            let _ = std::fs::write(config, &texts[round / 8 % 2]);
            if client.call(&Order::Reload).is_err() {
                return;
            }
        }
    }
}

/// Two files with the same numbers and other names beside those that are asked for.
fn two_texts(bed: &Bed) -> [String; 2] {
    let body = text::head(bed, "mode = \"native\"\non_exit = \"keep\"") + &text::stable() + &text::flapping();
    let with = |prefix: &str| {
        (0..100).fold(body.clone(), |all, i| all + &text::domain(&format!("{prefix}{i}.example.com"), "s1"))
    };
    [with("x"), with("y")]
}

#[test]
fn killed_and_started_again_no_query_is_lost_and_no_answer_changes() {
    let bed = Bed::alone();
    let texts = two_texts(&bed);
    let config = bed.write("responder.toml", &texts[0]);
    let daemon = Daemon::start(&bed, &config);
    let id = link_id(&bed);
    let before = daemon.stats()["xdp_answer_a"] + daemon.stats()["xdp_answer_aaaa"];
    let load = Load::start(&bed, load::stable().into_iter().chain(load::flapping()).collect(), RATE);
    let mut random = Random::new("kill -9");
    let mut readiness = Vec::new();
    let mut early = 0;
    let started = Instant::now();
    let mut running = Some(daemon);
    for round in 0..rounds() {
        let daemon = running.take().unwrap_or_else(|| {
            let daemon = Start::new(&bed, &config).spawn();
            // One in four dies at a random moment of its start.
            if round % 4 == 0 {
                thread::sleep(Duration::from_micros(random.below(120_000)));
                early += 1;
            } else {
                readiness.push(daemon.wait_ready());
            }
            daemon
        });
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| publish_until(&is_over, &bed.socket(), &config, &texts));
            thread::sleep(Duration::from_micros(20_000 + random.below(230_000)));
            daemon.kill();
            is_over.store(true, Ordering::Relaxed);
        });
        std::fs::write(&config, &texts[0]).unwrap();
        assert_eq!(link_id(&bed), id, "round {round}: the same link all the time");
    }
    let daemon = Daemon::start(&bed, &config);
    let totals = load.stop();
    let stats = daemon.stats();
    let answered = stats["xdp_answer_a"] + stats["xdp_answer_aaaa"] - before;
    readiness.sort_unstable();
    let slowest = readiness.last().copied().unwrap_or_default();
    say!(
        "kill -9: {} times ({early} during start) in {:.0} s; {} publishes, {} queries, {} lost, {} wrong, slowest reply {:.1} ms; {} answers from XDP; ready in {:.0} ms (median), {:.0} ms (slowest)",
        rounds(),
        started.elapsed().as_secs_f64(),
        stats["publish_generation"],
        totals.sent,
        totals.lost,
        totals.wrong.len(),
        totals.slowest.as_secs_f64() * 1e3,
        answered,
        readiness[readiness.len() / 2].as_secs_f64() * 1e3,
        slowest.as_secs_f64() * 1e3,
    );
    totals.assert_clean(10_000, "kill -9");
    assert!(stats["publish_generation"] > u64::from(rounds()), "publishes went on");
    assert_eq!(answered, totals.sent, "every answer left from XDP");
    assert!(slowest < Duration::from_secs(2), "ready after {slowest:?}");
}

#[test]
fn killed_while_one_world_replaces_another_no_query_is_lost() {
    let bed = Bed::new();
    let base =
        text::head(&bed, "mode = \"native\"\non_exit = \"keep\"") + &text::stable() + &text::flapping();
    let texts = [base.clone(), base + &text::policy("10.53.0.0/24")];
    let config = bed.write("responder.toml", &texts[0]);
    let mut daemon = Daemon::start(&bed, &config);
    let id = link_id(&bed);
    let load = Load::start(&bed, load::stable().into_iter().chain(load::flapping()).collect(), 2_000);
    let mut random = Random::new("kill -9 during a flip");
    let rounds = if is_full() { 200 } else { 12 };
    for round in 0..rounds {
        let mut client = daemon.client();
        thread::scope(|scope| {
            scope.spawn(|| {
                for text in texts.iter().rev().cycle() {
                    bed.write("responder.toml", text);
                    if client.call(&Order::Reload).is_err() {
                        return;
                    }
                }
            });
            thread::sleep(Duration::from_micros(random.below(1_200_000)));
            daemon.signal(Signal::SIGKILL);
            daemon.wait_exit();
        });
        assert_eq!(link_id(&bed), id, "round {round}: the same link all the time");
        daemon = Daemon::start(&bed, &config);
    }
    let totals = load.stop();
    totals.assert_clean(1_000, "kill -9 during a flip");
    let worker = daemon.stats()["worker_query_udp"];
    assert_eq!(worker, 0, "every answer left from XDP");
    assert_eq!(crate::pins::worlds(&bed).len(), 1, "worlds that were never in force are gone");
    say!("kill -9 while worlds change: {rounds} times, {} queries, 0 lost", totals.sent);
}

/// A copy of the daemon whose XDP object is another one: an octet of ELF's padding differs.
fn with_another_object(bed: &Bed) -> std::path::PathBuf {
    let copy = copy_of_binary(bed);
    let mut octets = std::fs::read(&copy).unwrap();
    let object = std::fs::read(responder_testbed::ebpf_object("responder")).unwrap();
    let at = octets.windows(64).position(|window| window == &object[..64]).expect("the embedded object");
    octets[at + 15] ^= 1;
    std::fs::write(&copy, octets).unwrap();
    copy
}

#[test]
fn an_upgrade_replaces_the_program_in_the_same_link() {
    let bed = Bed::new();
    let text = text::head(&bed, "on_exit = \"keep\"") + &text::stable();
    let config = bed.write("responder.toml", &text);
    let daemon = Daemon::start(&bed, &config);
    let (link, program) = (link_id(&bed), live_program(&bed));
    let load = Load::start(&bed, load::stable(), 2_000);
    let copy = with_another_object(&bed);
    let mut programs = vec![program];
    let mut old = daemon;
    // spec/reliability.md T-C10: to the other one and back, 100 times each.
    let upgrades = if is_full() { 200 } else { 3 };
    for binary in [&copy, std::path::Path::new(RESPONDERD)].into_iter().cycle().take(upgrades) {
        thread::sleep(Duration::from_millis(100));
        old.stop();
        old = Start::new(&bed, &config).binary(binary).ready();
        assert_eq!(link_id(&bed), link, "the same link");
        programs.push(live_program(&bed));
    }
    let totals = load.stop();
    totals.assert_clean(300, "upgrade");
    programs.dedup();
    assert_eq!(programs.len(), upgrades + 1, "each daemon brings its own program: {programs:?}");
    assert!(old.log().contains("taken over"), "{}", old.log());
    assert_eq!(crate::pins::worlds(&bed).len(), 1, "old pins are gone");
    say!("upgrade: {upgrades} times, {} queries, 0 lost", totals.sent);
}

#[test]
fn a_restart_with_other_numbers_answers_the_old_way_until_it_is_ready() {
    let bed = Bed::new();
    let old = text::head(&bed, "on_exit = \"keep\"") + &text::stable() + &text::flapping();
    let config = bed.write("responder.toml", &old);
    let daemon = Daemon::start(&bed, &config);
    let link = link_id(&bed);
    let load = Load::start(&bed, load::stable(), 2_000);
    thread::sleep(Duration::from_millis(100));
    daemon.signal(Signal::SIGKILL);
    drop(daemon);
    // Other owners and other classes, and a name whose only service is checked against a port that never answers: the
    // new world waits for it, up to a second.
    let slow = "[[monitor]]\nname = \"slow\"\ntype = \"tcp\"\ninterval = \"5s\"\ntimeout = \"500ms\"\n\n[[service]]\nname = \"slow\"\naddress = \"10.53.0.99\"\nport = 80\nmonitors = [\"slow\"]\n\n".to_owned()
        + &text::vserver("slow", &["slow"], "");
    let new =
        text::head(&bed, "on_exit = \"keep\"") + &text::stable() + &slow + &text::policy("10.53.0.2/32");
    bed.write("responder.toml", &new);
    let daemon = Start::new(&bed, &config).spawn();
    let socket = crate::dns::socket(&bed);
    // The old world still answers a name that the new file does not have.
    daemon.wait_line("a new world", |line| line.contains("a new world"));
    let reply = crate::dns::ask(&socket, "f1.example.com", crate::dns::A);
    assert_eq!(reply.answers, 1, "the old answers hold until the new ones are there");
    let ready = daemon.wait_ready();
    assert!(ready >= Duration::from_millis(400), "ready after {ready:?}, before the slow check spoke");
    assert_eq!(crate::dns::ask(&socket, "f1.example.com", crate::dns::A).rcode, 3, "gone with the new world");
    assert_eq!(crate::dns::ask(&socket, "slow.example.com", crate::dns::A).answers, 1);
    let totals = load.stop();
    totals.assert_clean(300, "restart with other numbers");
    assert_eq!(link_id(&bed), link);
    say!(
        "restart with another world: ready in {:.0} ms, {} queries, 0 lost",
        ready.as_secs_f64() * 1e3,
        totals.sent
    );
}
