//! Links and addresses come, go and change under the daemon (spec/reliability.md T-X7): answers go on, the program is put
//! back, and `status` and `events` say what happened within two seconds.

use std::{
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    bed::Bed,
    daemon::Daemon,
    dns::{self, A},
    pins::{folder, live_program, xdp_of},
    say, text,
};

/// Longer than this nobody may wait to hear of a change, or to be answered from XDP again.
const TOLD: Duration = Duration::from_secs(2);

/// For a busy machine, on which nothing is on time.
const MARGIN: Duration = Duration::from_secs(2);

/// Waits until something is true; returns how long it took, which must not be too long.
fn within(what: &str, mut is_true: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < TOLD + MARGIN, "{what}: not within {TOLD:?}, and a margin");
        thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

fn interface(daemon: &Daemon, key: &str) -> String {
    daemon.status()["interfaces"][0][key].as_str().unwrap().to_owned()
}

fn problems(daemon: &Daemon) -> String {
    daemon.status()["problems"].to_string()
}

/// True if an event of this text was recorded.
fn has_event(daemon: &Daemon, text: &str) -> bool {
    daemon.ctl_json(&["events", "--kind", "attach"]).to_string().contains(text)
}

/// One query by dig; true if the right answer came.
fn dig(bed: &Bed, server: &str) -> bool {
    dig_tries(bed, server, 1)
}

/// Likewise, asked again where there is no answer within a second.
fn dig_tries(bed: &Bed, server: &str, tries: u32) -> bool {
    let (server, tries) = (format!("@{server}"), format!("+tries={tries}"));
    let args = [&server, "+short", "+norec", &tries, "+timeout=1", "s1.example.com", "A"];
    bed.in_client(|| Command::new("dig").args(args).output())
        // Before it asks again it complains, on standard output.
        .is_ok_and(|output| output.stdout.split(|octet| *octet == b'\n').any(|line| line == b"192.0.2.1"))
}

/// True if a query is answered by XDP.
fn is_from_xdp(bed: &Bed, daemon: &Daemon, server: &str) -> bool {
    let before = daemon.stats()["xdp_answer_a"];
    dig(bed, server) && daemon.stats()["xdp_answer_a"] == before + 1
}

/// Ends the client with itself.
struct Over<'f>(&'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// dig asks all the time, while something is done. Returns how many queries there were; each was answered.
fn under_dig(bed: &Bed, servers: &[&str], tries: u32, act: impl FnOnce()) -> u32 {
    let is_over = AtomicBool::new(false);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) || asked < 20 {
                let server = servers[asked as usize % servers.len()];
                if !dig_tries(bed, server, tries) {
                    failed.lock().unwrap().push((asked, server.to_owned()));
                }
                asked += 1;
                thread::sleep(Duration::from_millis(10));
            }
            asked
        });
        // Also where something fails: the scope waits for the client.
        let over = Over(&is_over);
        act();
        drop(over);
        let asked = client.join().unwrap();
        let failed = failed.lock().unwrap();
        assert!(failed.is_empty(), "of {asked} queries: {failed:?}");
        asked
    })
}

fn start(bed: &Bed, addresses: &str) -> Daemon {
    let text = text::head(bed, "mode = \"native\"") + &text::stable();
    let text = text.replace("\"10.53.0.1:53\", \"[2001:db8:53::1]:53\"", addresses);
    Daemon::start(bed, &bed.write("responder.toml", &text))
}

const LISTED: &str = "\"10.53.0.1:53\", \"[2001:db8:53::1]:53\"";
const WILDCARDS: &str = "\"0.0.0.0:53\", \"[::]:53\"";

#[test]
fn an_interface_removed_and_made_again_is_attached_again() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    for round in 0..3 {
        let before = daemon.stats()["xdp_answer_a"];
        bed.ip("link delete gslb0");
        let missing = within("status says that it is missing", || {
            interface(&daemon, "link") == "missing"
                && problems(&daemon).contains("interface gslb0: link is missing")
        });
        let absent = "listen.addresses: 10.53.0.1:53: this host does not have the address";
        within("status says that the address is missing", || problems(&daemon).contains(absent));
        assert_eq!(interface(&daemon, "mode"), "off");
        bed.wire_pair();
        let back = within("XDP answers again", || interface(&daemon, "mode") == "native");
        assert!(is_from_xdp(&bed, &daemon, "10.53.0.1") && is_from_xdp(&bed, &daemon, "2001:db8:53::1"));
        assert!(daemon.stats()["xdp_answer_a"] > before, "the counters go on");
        within("nothing is wrong any more", || problems(&daemon) == "[]");
        assert!(
            has_event(&daemon, "link is missing") && has_event(&daemon, "XDP program attached, mode native")
        );
        say!(
            "interface removed and made again, round {round}: missing after {} ms, answering after {} ms",
            missing.as_millis(),
            back.as_millis()
        );
    }
    // So fast that nobody sees it missing.
    bed.ip("link delete gslb0");
    bed.wire_pair();
    within("XDP answers again", || is_from_xdp(&bed, &daemon, "10.53.0.1"));
    daemon.stop();
    assert!(!bed.pins().exists());
}

#[test]
fn an_interface_that_is_renamed_is_missing_until_it_has_its_name_again() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    for name in ["gslb9", "gslb0"] {
        let other = if name == "gslb9" { "gslb0" } else { "gslb9" };
        bed.ip(&format!("link set dev {other} down"));
        bed.ip(&format!("link set dev {other} name {name}"));
        bed.ip(&format!("link set dev {name} up"));
        // Going down takes IPv6 addresses away.
        bed.ip(&format!("address replace 2001:db8:53::1/64 dev {name} nodad"));
        let (link, mode) = if name == "gslb9" { ("missing", "off") } else { ("up", "native") };
        within("status follows the name", || {
            interface(&daemon, "link") == link && interface(&daemon, "mode") == mode
        });
        // By sockets, where the program is not to be.
        within("answers go on", || dig(&bed, "10.53.0.1"));
        assert_eq!(is_from_xdp(&bed, &daemon, "10.53.0.1"), name == "gslb0");
    }
}

#[test]
fn a_new_mac_address_is_followed() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    // What was sent to the old address before the neighbour knew the new one is lost, as on any host: asked again.
    let asked = under_dig(&bed, &["10.53.0.1", "2001:db8:53::1"], 4, || {
        for last in 1..=5 {
            let mac = format!("02:00:00:00:53:{last:02x}");
            bed.ip(&format!("link set dev gslb0 address {mac}"));
            // As the neighbour would learn it from an announcement.
            for address in ["10.53.0.1", "2001:db8:53::1"] {
                bed.client_ip(&format!("neigh replace {address} lladdr {mac} dev cli0"));
            }
            within("XDP answers under the new address", || {
                let before = daemon.stats()["xdp_answer_a"];
                thread::sleep(Duration::from_millis(50));
                daemon.stats()["xdp_answer_a"] > before
            });
            thread::sleep(Duration::from_millis(200));
        }
    });
    say!("5 MAC addresses: {asked} queries by dig, each answered");
}

#[test]
fn addresses_of_wildcards_come_and_go_without_a_lost_query() {
    let bed = Bed::new();
    let daemon = start(&bed, WILDCARDS);
    assert!(is_from_xdp(&bed, &daemon, "10.53.0.1") && is_from_xdp(&bed, &daemon, "2001:db8:53::1"));
    let asked = under_dig(&bed, &["10.53.0.1", "2001:db8:53::1"], 1, || {
        for (address, length) in [("10.53.0.9", 24), ("2001:db8:53::9", 64)] {
            for _ in 0..2 {
                let nodad = if length == 64 { "nodad" } else { "" };
                bed.ip(&format!("address add {address}/{length} dev gslb0 {nodad}"));
                let shown = if length == 64 { format!("[{address}]:53") } else { format!("{address}:53") };
                let heard = within("an event names the address", || {
                    let events = daemon.ctl_json(&["events", "--kind", "attach"]);
                    let last = events.as_array().unwrap().last().unwrap()["text"].to_string();
                    last.contains("XDP answers for") && last.contains(&shown)
                });
                // The other stream raises the same counter.
                let before = daemon.stats();
                assert!(dig(&bed, address), "{address} is answered at once");
                let after = daemon.stats();
                assert_eq!(after["worker_query_udp"], before["worker_query_udp"], "from XDP");
                bed.ip(&format!("address del {address}/{length} dev gslb0"));
                within("an event says that it is gone", || {
                    let events = daemon.ctl_json(&["events", "--kind", "attach"]);
                    !events.as_array().unwrap().last().unwrap()["text"].to_string().contains(&shown)
                });
                say!("address {address}: followed after {} ms", heard.as_millis());
            }
        }
    });
    say!("addresses of wildcards: {asked} queries by dig, 0 lost");
    assert_eq!(problems(&daemon), "[]");
}

#[test]
fn more_addresses_than_xdp_has_room_for_are_answered_by_workers_and_said() {
    let bed = Bed::new();
    for last in 100..120 {
        bed.ip(&format!("address add 10.53.0.{last}/24 dev gslb0"));
    }
    let daemon = start(&bed, WILDCARDS);
    let problem = problems(&daemon);
    assert!(
        problem.contains("workers answer for 5 addresses that XDP has no room for: 10.53.0.115:53"),
        "{problem}"
    );
    assert!(is_from_xdp(&bed, &daemon, "10.53.0.1") && is_from_xdp(&bed, &daemon, "10.53.0.110"));
    assert!(dig(&bed, "10.53.0.119") && !is_from_xdp(&bed, &daemon, "10.53.0.119"));
    bed.ip("address del 10.53.0.100/24 dev gslb0");
    within("the next one has its place", || is_from_xdp(&bed, &daemon, "10.53.0.115"));
}

#[test]
fn a_program_that_somebody_detaches_is_attached_again() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    let pin = folder(&bed).join("link-gslb0");
    let mut slowest = Duration::ZERO;
    let asked = under_dig(&bed, &["10.53.0.1", "2001:db8:53::1"], 1, || {
        for _ in 0..3 {
            let program = live_program(&bed);
            let output = crate::bed::tool("bpftool", &["link", "detach", "pinned", pin.to_str().unwrap()]);
            assert!(output.status.success(), "{output:?}");
            let took = within("XDP answers again", || {
                interface(&daemon, "mode") == "native" && xdp_of(&bed).contains("prog")
            });
            slowest = slowest.max(took);
            assert_eq!(live_program(&bed), program, "the same program");
            assert!(has_event(&daemon, "attached again: somebody had detached it"));
        }
    });
    say!(
        "detached by somebody: attached again after {} ms at most, {asked} queries by dig, 0 lost",
        slowest.as_millis()
    );
}

#[test]
fn a_foreign_program_is_said_and_left_alone_until_it_is_gone() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    bed.ip("link delete gslb0");
    within("status says that it is missing", || interface(&daemon, "link") == "missing");
    // Somebody else is faster: the program is there before the name.
    bed.wire_pair_as("early0");
    bed.occupy_as("early0");
    bed.ip("link set dev early0 down");
    bed.ip("link set dev early0 name gslb0");
    bed.ip("link set dev gslb0 up");
    bed.ip("address replace 2001:db8:53::1/64 dev gslb0 nodad");
    let foreign = within("status names the program", || {
        problems(&daemon)
            .contains("interface gslb0: XDP mode is off, not native: carries the XDP program \\\"pass\\\"")
    });
    assert!(has_event(&daemon, "XDP is off, sockets answer: carries the XDP program \\\"pass\\\""));
    assert!(dig(&bed, "10.53.0.1"), "sockets answer");
    daemon.reload().expect("what is known to be off hinders no reload");
    assert!(problems(&daemon).contains("pass"), "it is still there");
    bed.ip("link set dev gslb0 xdp off");
    let back = within("XDP answers again", || is_from_xdp(&bed, &daemon, "10.53.0.1"));
    within("nothing is wrong any more", || problems(&daemon) == "[]");
    say!(
        "foreign program: said after {} ms, ours is back after {} ms",
        foreign.as_millis(),
        back.as_millis()
    );
}

#[test]
fn a_listed_address_that_goes_is_said_and_served_when_it_comes_back() {
    let bed = Bed::new();
    let daemon = start(&bed, LISTED);
    for (address, length, nodad) in [("10.53.0.1", 24, ""), ("2001:db8:53::1", 64, "nodad")] {
        bed.ip(&format!("address del {address}/{length} dev gslb0"));
        within("status says that it is gone", || problems(&daemon).contains(address));
        bed.ip(&format!("address add {address}/{length} dev gslb0 {nodad}"));
        within("nothing is wrong any more", || problems(&daemon) == "[]");
        assert!(is_from_xdp(&bed, &daemon, address));
    }
    assert_eq!(dns::ask(&dns::socket(&bed), "s2.example.com", A).answers, 1);
}

#[test]
fn an_interface_that_was_missing_at_the_start_is_attached_when_it_comes() {
    let bed = Bed::new();
    let text = text::head(&bed, "mode = \"native\"").replace("[\"gslb0\"]", "[\"gslb0\", \"late0\"]");
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &(text + &text::stable())));
    let late = || daemon.status()["interfaces"][1].clone();
    assert_eq!((&late()["link"], &late()["mode"]), (&"missing".into(), &"off".into()));
    bed.ip("link add late0 type veth peer name late1");
    within("it is attached", || late()["mode"] == "native");
    bed.ip("link set late0 up");
    bed.ip("link set late1 up");
    within("it is up", || late()["link"] == "up");
}
