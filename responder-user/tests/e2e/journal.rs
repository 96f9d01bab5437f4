//! What the daemon knows again after it died (ARCHITECTURE.md, "What survives a crash"): orders, latches, spilled and
//! checked states hold, natively and without XDP; what was acknowledged is in force; a full or damaged disk is said.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::signal::Signal,
};
use responder_user::{
    control::{
        Command as Order,
        client::Client,
        command::{ForceKind, ForceState, ShowKind, SwitchKind},
    },
    journal::{Record, record::Key, replay::replay},
};
use serde_json::Value;

use crate::{
    adoption::Random,
    bed::{Bed, tool},
    daemon::{Daemon, PATIENCE, Start},
    dns::{self, A},
    health::Health,
    is_full,
    load::{Load, Target},
    say, text,
};

/// Every kind of state that a restart must not change: each name has one right answer, and another one without the state.
const HELD: &str = r#"
[[zone]]
name = "example.com"

[[monitor]]
name = "slow"
type = "http"
path = "/"
expect = [200]
interval = "1h"
timeout = "2s"
fall = 3

[[service]]
name = "down"
address = "10.77.0.2"
port = 80
monitors = ["slow"]

[[service]]
name = "checked"
address = "10.77.0.1"
port = 80
monitors = ["slow"]

[[service]]
name = "a"
address = "198.51.100.1"

[[service]]
name = "b"
address = "198.51.100.2"

[[service]]
name = "c"
address = "198.51.100.3"

[[service]]
name = "l"
address = "198.51.100.4"

[[service]]
name = "spare"
address = "198.51.100.9"

[[vserver]]
name = "disabled"
method = "round-robin"
services = ["a", "b"]

[[vserver]]
name = "off"
method = "round-robin"
services = ["b"]
backup = "spare"

[[vserver]]
name = "forced"
method = "round-robin"
services = ["c", "b"]

[[vserver]]
name = "latched"
method = "round-robin"
services = ["l"]
backup = "spare"
disable_primary_on_down = true

[[vserver]]
name = "spilled"
method = "round-robin"
services = ["b"]
backup = "spare"
spillover = { method = "connection", threshold = 10 }

[[vserver]]
name = "reported"
method = "round-robin"
services = ["l", "b"]

[[vserver]]
name = "held"
method = "round-robin"
services = ["checked", "down"]

[[vserver]]
name = "spare"
method = "round-robin"
services = ["spare"]
"#;

const NAMES: [(&str, &str); 7] = [
    ("disabled", "198.51.100.2"),
    ("off", "198.51.100.9"),
    ("forced", "198.51.100.2"),
    ("latched", "198.51.100.9"),
    ("spilled", "198.51.100.9"),
    ("reported", "198.51.100.2"),
    ("held", "10.77.0.1"),
];

fn held(bed: &Bed, xdp: &str) -> String {
    let names: String =
        NAMES.iter().map(|(name, _)| text::domain(&format!("{name}.example.com"), name)).collect();
    text::head(bed, xdp).replace("[server]\n", "[server]\nload_hold = \"1h\"\n") + HELD + &names
}

fn targets() -> Vec<Target> {
    NAMES.iter().map(|(name, address)| Target::new(&format!("{name}.example.com"), &[address])).collect()
}

/// Gives the orders and lets the things happen that make the answers of [`NAMES`].
fn bring_about(daemon: &Daemon) {
    for line in [
        "disable service a",
        "disable vserver off",
        "force service c down",
        "load b connections=10",
        // Down for a moment, and its virtual server is latched.
        "force service l down",
        "force service l auto",
        // What is reported lies upon that, and latches nothing any more.
        "report l primary=down",
    ] {
        daemon.ctl_ok(&line.split(' ').collect::<Vec<_>>());
    }
}

/// A client as resolvers are: it asks again until it is answered.
struct Patient {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<(u64, u64)>>,
}

impl Patient {
    fn start(bed: &Bed) -> Self {
        let socket = dns::socket(bed);
        socket.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let (mut asked, mut again) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                for (name, address) in NAMES {
                    let right: IpAddr = address.parse().unwrap();
                    let query = dns::query(dns::rand_id(), &format!("{name}.example.com"), A);
                    let began = Instant::now();
                    let reply = loop {
                        // A port that nobody listens on is an error of the send that follows.
                        if socket.send(&query).is_ok() {
                            let mut reply = [0; 512];
                            match socket.recv(&mut reply) {
                                Ok(len) if reply[..2] == query[..2] => {
                                    break dns::read(&query, &reply[..len]);
                                }
                                _ => {}
                            }
                        }
                        assert!(began.elapsed() < Duration::from_secs(10), "{name}: lost");
                        thread::sleep(Duration::from_millis(1));
                        again += 1;
                    };
                    assert_eq!((reply.rcode, &reply.addresses[..]), (0, &[right][..]), "{name}");
                    asked += 1;
                }
                thread::sleep(Duration::from_micros(200));
            }
            (asked, again)
        });
        Self { is_over, thread: Some(thread) }
    }

    fn stop(mut self) -> (u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().expect("0 lost, 0 changed")
    }
}

/// What the operator sees of it.
fn assert_shown(daemon: &Daemon) {
    let show = |kind: &str, name: &str| daemon.ctl_json(&["show", kind, name]);
    assert_eq!(show("service", "a")["admin"], "disabled");
    assert_eq!(show("vserver", "off")["admin"], "disabled");
    assert_eq!(show("service", "c")["forced"], "down");
    assert_eq!(show("vserver", "latched")["latched"], true);
    assert_eq!(show("vserver", "spilled")["spillover"]["over"], true);
    assert_eq!(show("service", "b")["load"]["connections"], 10.0);
    assert_eq!(show("service", "l")["primary"], "down");
    assert_eq!(show("service", "checked")["primary"], "up");
}

#[test]
fn a_restart_changes_no_answer_with_xdp() {
    let bed = Bed::new();
    let health = Health::start(&bed);
    health.set("jpn", false);
    let native = "mode = \"native\"\non_exit = \"keep\"";
    let config = bed.write("responder.toml", &held(&bed, native));
    let daemon = Daemon::start(&bed, &config);
    bring_about(&daemon);
    // From now on a check would say that all is down: it has to say so three times.
    health.set("in", false);
    let generation = daemon.status()["generation"].as_u64().unwrap();
    let load = Load::start(&bed, targets(), 2_000);
    thread::sleep(Duration::from_millis(100));
    daemon.kill();
    let daemon = Daemon::start(&bed, &config);
    assert_shown(&daemon);
    assert_eq!(daemon.status()["generation"], generation, "nothing was published: nothing changed");
    daemon.stop();
    // Other numbers of everything: another world.
    let moved =
        held(&bed, native).replacen("[[service]]", &(text::service("z", "198.51.100.77") + "[[service]]"), 1)
            + &text::vserver("z", &["z"], "")
            + &text::policy("10.53.0.3/32");
    let config = bed.write("responder.toml", &moved);
    let daemon = Daemon::start(&bed, &config);
    assert!(daemon.log().contains("a new world"), "{}", daemon.log());
    assert_shown(&daemon);
    assert!(daemon.status()["generation"].as_u64().unwrap() > generation, "generations never go back");
    daemon.kill();
    let daemon = Daemon::start(&bed, &config);
    thread::sleep(Duration::from_millis(200));
    let totals = load.stop();
    totals.assert_clean(500, "restarts with every kind of state in force");
    assert_eq!(daemon.log().matches(" is DOWN").count(), 0, "no state is news: {}", daemon.log());
    say!("restarts with states in force, XDP: {} queries, 0 lost, 0 changed", totals.sent);
    // And the way back is open.
    daemon.ctl_ok(&["report", "l", "primary=auto"]);
    daemon.ctl_ok(&["enable", "vserver", "latched"]);
    assert_eq!(
        dns::ask(&dns::socket(&bed), "latched.example.com", A).addresses[0].to_string(),
        "198.51.100.4"
    );
    daemon.kill();
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(daemon.ctl_json(&["show", "vserver", "latched"])["latched"], false);
}

#[test]
fn a_restart_changes_no_answer_without_xdp() {
    let bed = Bed::new();
    let health = Health::start(&bed);
    health.set("jpn", false);
    let config = bed.write("responder.toml", &held(&bed, "mode = \"off\""));
    let mut daemon = Daemon::start(&bed, &config);
    bring_about(&daemon);
    health.set("in", false);
    let generation = daemon.status()["generation"].as_u64().unwrap();
    let client = Patient::start(&bed);
    let restarts = 6;
    for round in 0..restarts {
        thread::sleep(Duration::from_millis(100));
        match round % 2 {
            0 => daemon.kill(),
            _ => drop(daemon.stop()),
        }
        daemon = Daemon::start(&bed, &config);
        assert_shown(&daemon);
        assert!(daemon.status()["generation"].as_u64().unwrap() > generation, "generations never go back");
    }
    thread::sleep(Duration::from_millis(100));
    let (asked, again) = client.stop();
    assert_eq!(daemon.stats()["worker_answer_servfail"], 0);
    assert!(asked > 500, "{asked} queries prove little");
    say!(
        "{restarts} restarts with states in force, no XDP: {asked} queries, 0 lost, 0 changed, {again} asked again"
    );
}

/// What a client knows of one object: the last word that was acknowledged, and the one that was under way when the daemon
/// died.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Option<Value>,
    under_way: Option<Value>,
    count: u64,
}

/// Orders, one after the other, until the daemon is gone.
fn order_until_death(socket: &std::path::Path, who: usize, known: &Mutex<BTreeMap<String, Known>>) {
    let Ok(mut client) = Client::connect(socket) else { return };
    // What is reported of a service shows only while it is up: that is the affair of another one.
    let (service, other) = (format!("s{}", who + 1), format!("s{}", who + 5));
    for round in 0_u64.. {
        let is_on = round % 2 == 1;
        let (object, order, value) = match round / 2 % 4 {
            0 => {
                let (kind, name) = (SwitchKind::Service, service.clone());
                let order = if is_on { Order::Enable { kind, name } } else { Order::Disable { kind, name } };
                (format!("{service} admin"), order, Value::from(if is_on { "enabled" } else { "disabled" }))
            }
            1 => {
                let state = if is_on { ForceState::Auto } else { ForceState::Down };
                let value = if is_on { Value::Null } else { Value::from("down") };
                (
                    format!("{service} forced"),
                    Order::Force { kind: ForceKind::Service, name: service.clone(), state },
                    value,
                )
            }
            2 => {
                let figures = vec![format!("connections={round}")];
                (
                    format!("{service} load"),
                    Order::Load { service: service.clone(), figures },
                    serde_json::json!({"connections": round as f64}),
                )
            }
            _ => {
                let states = vec![format!("threshold={}", if is_on { "above" } else { "below" })];
                let value = Value::from(if is_on { "above" } else { "below" });
                (format!("{other} threshold"), Order::Report { service: other.clone(), states }, value)
            }
        };
        let put = |known: &mut Known, is_done: bool| {
            known.under_way = (!is_done).then(|| value.clone());
            if is_done {
                known.acknowledged = Some(value.clone());
                known.count += 1;
            }
        };
        put(known.lock().unwrap().entry(object.clone()).or_default(), false);
        if client.call(&order).is_err() {
            return;
        }
        put(known.lock().unwrap().entry(object).or_default(), true);
    }
}

#[test]
fn what_was_acknowledged_is_in_force_after_kill_9() {
    let bed = Bed::new();
    let text = text::head(&bed, "mode = \"off\"").replace("[server]\n", "[server]\nload_hold = \"1h\"\n");
    let config = bed.write("responder.toml", &(text + &text::stable()));
    let mut daemon = Daemon::start(&bed, &config);
    let mut random = Random::new("kill -9 while orders are acknowledged");
    let known = Mutex::new(BTreeMap::new());
    let rounds = if is_full() { 500 } else { 30 };
    let (mut acknowledged, mut unsaid) = (0, 0);
    for round in 0..rounds {
        thread::scope(|scope| {
            for who in 0..4 {
                let (socket, known) = (daemon.socket_path().to_owned(), &known);
                scope.spawn(move || order_until_death(&socket, who, known));
            }
            thread::sleep(Duration::from_micros(random.below(120_000)));
            daemon.signal(Signal::SIGKILL);
            daemon.wait_exit();
        });
        daemon = Daemon::start(&bed, &config);
        assert!(!daemon.log().contains("damaged"), "round {round}: {}", daemon.log());
        let mut client = daemon.client();
        let mut all = known.lock().unwrap();
        for (object, known) in all.iter_mut() {
            let (service, key) = object.split_once(' ').unwrap();
            let show = Order::Show { kind: ShowKind::Service, name: Some(service.to_owned()) };
            let found = client.call(&show).unwrap()[key].clone();
            let is = |wanted: &Option<Value>| wanted.as_ref() == Some(&found);
            let is_fresh = known.acknowledged.is_none();
            assert!(
                is(&known.acknowledged) || is(&known.under_way) || is_fresh,
                "round {round}: {object}: {known:?}, found {found}"
            );
            if known.under_way.is_some() && is(&known.under_way) && !is(&known.acknowledged) {
                unsaid += 1;
            }
            acknowledged += std::mem::take(&mut known.count);
            // What is found now is what holds from here on.
            *known = Known { acknowledged: Some(found), ..Known::default() };
        }
    }
    say!(
        "kill -9 while orders are acknowledged: {rounds} times, {acknowledged} acknowledged, 0 lost, {unsaid} done unsaid"
    );
    assert!(acknowledged > rounds * 4, "{acknowledged} orders prove little");
}

/// Limits the size of the files of a process: for its writes that is a full disk, at any octet that one likes.
fn limit_files(pid: u32, octets: &str) {
    let output = tool("prlimit", &["--pid", &pid.to_string(), &format!("--fsize={octets}:")]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_full_disk_refuses_orders_and_the_daemon_goes_on() {
    let bed = Bed::new();
    let health = Health::start(&bed);
    let body = HELD
        .replace("\"1h\"", "\"250ms\"")
        .replace("\"2s\"", "\"250ms\"")
        .replace("fall = 3", "fall = 1")
        .replace("services = [\"l\"]", "services = [\"checked\"]");
    let names: String =
        NAMES.iter().map(|(name, _)| text::domain(&format!("{name}.example.com"), name)).collect();
    let config = bed.write("responder.toml", &(text::head(&bed, "mode = \"off\"") + &body + &names));
    let daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let asked = |name: &str| dns::ask(&socket, &format!("{name}.example.com"), A).addresses[0].to_string();
    assert_eq!(asked("latched"), "10.77.0.1");
    let journal: PathBuf = bed.folder().join("state/journal");
    // So that one order fits and the next is cut.
    daemon.ctl_ok(&["force", "service", "c", "down"]);
    let bytes = || daemon.status()["journal"]["bytes"].as_u64().unwrap();
    let mut len = 0;
    // What follows from the order is written after it.
    while len != bytes() {
        len = bytes();
        thread::sleep(Duration::from_millis(50));
    }
    limit_files(daemon.pid(), &(len + 10).to_string());
    let refused = daemon.ctl(&["disable", "service", "a"]);
    assert_eq!(refused.status.code(), Some(1));
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains("nothing is changed") && complaint.contains("journal"), "{complaint}");
    assert_eq!(daemon.ctl_json(&["show", "service", "a"])["admin"], "enabled");
    let status = daemon.ctl_ok(&["status"]);
    assert!(status.contains("cannot be written"), "{status}");
    // What happens by itself goes on.
    health.set("in", false);
    let began = Instant::now();
    while asked("latched") != "198.51.100.9" {
        assert!(began.elapsed() < PATIENCE, "the backup does not answer");
        thread::sleep(Duration::from_millis(5));
    }
    health.set("in", true);
    assert!(daemon.ctl_ok(&["events"]).contains("journal"));
    let file = fs::metadata(&journal).unwrap().len();
    assert!(file <= len + 10, "{file}");
    // With room it catches up by itself, and says so.
    limit_files(daemon.pid(), "unlimited");
    while !daemon.status()["journal"]["error"].is_null() {
        assert!(began.elapsed() < PATIENCE, "it does not heal");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!daemon.ctl_ok(&["status"]).contains("cannot be written"));
    daemon.ctl_ok(&["disable", "service", "a"]);
    daemon.kill();
    let daemon = Daemon::start(&bed, &config);
    assert_eq!(asked("latched"), "198.51.100.9", "the latch that the disk did not take at first");
    assert_eq!(daemon.ctl_json(&["show", "vserver", "latched"])["latched"], true);
    assert_eq!(daemon.ctl_json(&["show", "service", "a"])["admin"], "disabled");
    assert_eq!(daemon.ctl_json(&["show", "service", "c"])["forced"], "down");
}

#[test]
fn a_journal_that_is_damaged_or_in_use_is_said() {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, "mode = \"off\"") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    daemon.ctl_ok(&["disable", "service", "s1"]);
    daemon.ctl_ok(&["disable", "service", "s2"]);
    // Another one with the same folder does not start.
    let second = text::head(&bed, "mode = \"off\"")
        .replace(bed.socket().to_str().unwrap(), bed.second_socket().to_str().unwrap())
        .replace(":53\"", ":5353\"");
    let second = bed.write("second.toml", &(second + &text::stable()));
    let mut other = Start::new(&bed, &second).spawn();
    assert_eq!(other.wait_exit().code(), Some(1));
    let log = other.log();
    let complaint: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("responderd: ")).collect();
    assert_eq!(complaint.len(), 1, "{log}");
    assert!(complaint[0].contains("server.state_dir: another responderd keeps its journal in"), "{log}");
    daemon.kill();
    let path = bed.folder().join("state/journal");
    let mut octets = fs::read(&path).unwrap();
    let at = octets.windows(3).rposition(|window| window == [2, b's', b'1']).expect("the order of s1");
    octets[at] ^= 1;
    fs::write(&path, &octets).unwrap();
    let daemon = Daemon::start(&bed, &config);
    let problems = daemon.status()["problems"].to_string();
    assert!(problems.contains("damaged at octet"), "{problems}");
    assert_eq!(
        daemon.ctl_json(&["show", "service", "s1"])["admin"],
        "enabled",
        "as if it had never been said"
    );
    assert_eq!(daemon.ctl_json(&["show", "service", "s2"])["admin"], "disabled", "what came after stands");
    assert_eq!(fs::read(bed.folder().join("state/journal.damaged")).unwrap(), octets);
    // A tail that was never finished is cut, and that is no problem.
    daemon.kill();
    let octets = fs::read(&path).unwrap();
    fs::write(&path, &octets[..octets.len() - 3]).unwrap();
    let daemon = Daemon::start(&bed, &config);
    assert!(daemon.log().contains("never finished"), "{}", daemon.log());
    let problems = daemon.status()["problems"].to_string();
    assert!(!problems.contains("journal"), "{problems}");
    assert_eq!(daemon.ctl_json(&["show", "service", "s2"])["admin"], "disabled");
}

/// A disk of its own for the daemon's state, seen by this thread and what it starts, that can be made to hang.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    fn mount(bed: &Bed) -> Self {
        let must = |program: &str, args: &[&str]| {
            let output = tool(program, args);
            assert!(
                output.status.success(),
                "{program} {args:?}: {output:?}; `cargo xtask setup` installs what is missing"
            );
        };
        let folder = bed.folder().join("state");
        let image = bed.folder().join("disk");
        fs::create_dir(&folder).unwrap();
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        must("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
        must("mount", &["-o", "loop", image.to_str().unwrap(), folder.to_str().unwrap()]);
        Self { folder }
    }

    /// It hangs until this is dropped.
    fn hang(&self) -> Hung<'_> {
        let output = tool("fsfreeze", &["-f", self.folder.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        Hung(self)
    }
}

/// A disk that hangs: nothing that is written to it ends.
struct Hung<'a>(&'a Disk);

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        tool("fsfreeze", &["-u", self.0.folder.to_str().unwrap_or_default()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        tool("umount", &["-l", self.folder.to_str().unwrap_or_default()]);
    }
}

#[test]
fn a_disk_that_hangs_holds_up_orders_and_no_answer() {
    let bed = Bed::new();
    let disk = Disk::mount(&bed);
    let health = Health::start(&bed);
    health.set("jpn", false);
    let body =
        HELD.replace("\"1h\"", "\"250ms\"").replace("\"2s\"", "\"250ms\"").replace("fall = 3", "fall = 1");
    let held = "[[domain]]\nname = \"held.example.com\"\nvserver = \"held\"\n\n";
    let head = text::head(&bed, "mode = \"off\"").replace("[server]\n", "[server]\nload_hold = \"1s\"\n");
    let config = bed.write("responder.toml", &(head + &body + held));
    let daemon = Daemon::start(&bed, &config);
    daemon.ctl_ok(&["load", "b", "connections=1"]);
    let socket = dns::socket(&bed);
    let is_given = |address: &str| {
        let began = Instant::now();
        let wanted: IpAddr = address.parse().unwrap();
        while dns::ask(&socket, "held.example.com", A).addresses != [wanted] {
            assert!(began.elapsed() < PATIENCE, "{address} is not answered");
            thread::sleep(Duration::from_millis(2));
        }
    };
    is_given("10.77.0.1");
    let asked = Instant::now();
    thread::scope(|scope| {
        let hung = disk.hang();
        let order = scope.spawn(|| {
            daemon.ctl_ok(&["load", "b", "connections=7"]);
            asked.elapsed()
        });
        thread::sleep(Duration::from_millis(100));
        // Each of these would hang if anything but orders waited.
        for _ in 0..3 {
            health.set("jpn", true);
            health.set("in", false);
            is_given("10.77.0.2");
            health.set("in", true);
            health.set("jpn", false);
            is_given("10.77.0.1");
            let began = Instant::now();
            let load = &daemon.ctl_json(&["show", "service", "b"])["load"];
            assert_ne!(load["connections"], 7.0, "not before it is on the disk");
            assert!(began.elapsed() < Duration::from_secs(1), "status waits for the disk");
        }
        // What was found out meanwhile of the same object: the old figure is over.
        while !daemon.ctl_json(&["show", "service", "b"])["load"].is_null() {
            assert!(asked.elapsed() < PATIENCE, "the old figure stays");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!order.is_finished(), "an order was acknowledged without the disk");
        drop(hung);
        let took = order.join().unwrap();
        say!(
            "a disk that hung: the order took {:.1} s, 6 changes of health did not wait",
            took.as_secs_f64()
        );
    });
    daemon.kill();
    let state = replay(&fs::read(disk.folder.join("journal")).unwrap()).state;
    let Some(Record::Load { figures, .. }) = state.get(&Key::Load("b".to_owned())) else {
        panic!("the end of the old figure stands behind the order: {state:?}")
    };
    assert_eq!(figures.iter().map(|figure| figure.value).collect::<Vec<_>>(), [7.0]);
}

/// The faults: an order in the journal came back after the configuration had said something new; what was ordered in
/// NetScaler's words was not in the journal; orders went into a file that somebody had removed.
#[test]
fn the_last_word_counts_after_a_restart_whoever_said_it() {
    let bed = Bed::new();
    let service = |state: &str| {
        text::service("a", "198.51.100.1")
            + &format!("state = \"{state}\"\n")
            + &text::service("b", "198.51.100.2")
    };
    let rest = text::vserver("www", &["a", "b"], "");
    let write = |state: &str| {
        bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"") + &service(state) + &rest))
    };
    let config = write("enabled");
    let mut daemon = Daemon::start(&bed, &config);
    let socket = dns::socket(&bed);
    let given = || {
        let all: std::collections::BTreeSet<IpAddr> =
            (0..16).flat_map(|_| dns::ask(&socket, "www.example.com", A).addresses).collect();
        all.into_iter().map(|address| address.to_string()).collect::<Vec<_>>().join(" ")
    };
    let (both, second) = ("198.51.100.1 198.51.100.2", "198.51.100.2");
    daemon.ctl_ok(&["disable", "service", "a"]);
    daemon.ctl_ok(&["enable", "service", "a"]);
    write("disabled");
    daemon.reload().expect("a valid file");
    assert_eq!(given(), second);
    daemon.kill();
    daemon = Daemon::start(&bed, &config);
    assert_eq!(given(), second, "the file was the last word");
    daemon.ctl_ok(&["ns", "enable gslb service a"]);
    assert_eq!(given(), both);
    daemon.kill();
    daemon = Daemon::start(&bed, &config);
    assert_eq!(given(), both, "ns was the last word");
    let journal = PathBuf::from(daemon.status()["journal"]["path"].as_str().expect("a path"));
    fs::remove_file(&journal).unwrap();
    daemon.ctl_ok(&["disable", "service", "a"]);
    daemon.kill();
    daemon = Daemon::start(&bed, &config);
    assert_eq!(given(), second, "the order is in a file that is there");
    daemon.stop();
}
