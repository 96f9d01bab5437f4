//! The same inputs for gdnsd and for us: the sets of addresses are the same, but for the differences that are listed.
//!
//! | gdnsd | here |
//! |---|---|
//! | multifo | a virtual server with `multiple_ip_response` |
//! | weighted | round robin with weights |
//! | simplefo | a virtual server of the primary, with one of the secondary as its backup |
//! | metafo | a chain of virtual servers with `multiple_ip_response`, one for each datacenter |
//! | geoip with nets | preferred locations, one policy for each net; for ECS static proximity by coordinates |
//!
//! States are forced at both ends: by the file `admin_state` there, by `force service` here.
//!
//! Differences that are wanted:
//!
//! - All datacenters of a geoip resource are down: gdnsd gives the first of the list, we give all that are bound
//!   (netscaler.md 3.7). Compared as such: [`all_down`].
//! - `up_thresh`: gdnsd gives all addresses again when less than half of them are up. That is spillover by health, or
//!   `order_threshold`, and is asked for by name; here a usable service is never joined by one that is not. gdnsd runs with
//!   the smallest threshold.
//! - gdnsd halves the TTL while something is down; our TTL is the configured one. TTLs are not compared.
//! - With all of a weighted resource down, gdnsd gives one address a time, we give all in one reply. The sets over many
//!   replies are the same, and are what is compared.
//! - A client that nobody located gets gdnsd's default list; with static proximity we take turns over all. Not asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use super::stand::{Mode, Stand};
use crate::{daemon::PATIENCE, is_full, say, support::vectors::Question};

/// Where gdnsd listens.
const GDNSD: &str = "192.0.2.54:53";

/// Primary address of a name of gdnsd's alone.
const CANARY: &str = "203.0.113.250";

/// Queries of one question at most. Weights are 1 to 4 and addresses 2 to 5: one in 17 at the worst, which 800 random draws
/// miss once in 10^20 times.
const MOST: usize = 800;

/// Numbers that are the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % below
    }

    fn shuffled<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut out = items.to_vec();
        for i in (1..out.len()).rev() {
            out.swap(i, self.next(i + 1));
        }
        out
    }
}

/// One configuration in two languages.
#[derive(Default)]
struct Twin {
    ours: String,
    /// Parts of gdnsd's, by plugin.
    plugins: BTreeMap<&'static str, String>,
    maps: String,
    zone: String,
    addresses: Vec<String>,
    /// With the addresses of the datacenters, where the difference of [`all_down`] is to be looked for: first for this
    /// client first.
    questions: Vec<(String, Vec<String>)>,
}

/// With all datacenters of a geoip resource down: what gdnsd and we give.
fn all_down(datacenters: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    (datacenters.iter().take(1).cloned().collect(), datacenters.iter().cloned().collect())
}

impl Twin {
    /// A service of its own; its name is its address.
    fn service(&mut self, more: &str) -> String {
        let address = format!("198.51.100.{}", self.addresses.len() + 1);
        let _ = write!(self.ours, "[[service]]\nname = \"{address}\"\naddress = \"{address}\"\n{more}\n");
        self.addresses.push(address.clone());
        address
    }

    fn vserver(&mut self, name: &str, services: &[String], more: &str) {
        let method = if more.contains("method") { "" } else { "method = \"round-robin\"\n" };
        let services = services.join(", ");
        let _ =
            write!(self.ours, "[[vserver]]\nname = \"{name}\"\n{method}{more}services = [{services}]\n\n");
    }

    /// A name at both ends, and the question.
    fn name(&mut self, plugin: &str, resource: &str, clients: &[&str]) {
        let _ =
            write!(self.ours, "[[domain]]\nname = \"{resource}.example.com\"\nvserver = \"{resource}\"\n\n");
        let _ = writeln!(self.zone, "{resource} 30 DYNA {plugin}!{resource}");
        let questions =
            clients.iter().map(|who| (format!("{resource}.example.com A from {who}"), Vec::new()));
        self.questions.extend(questions);
    }

    fn plugin(&mut self, plugin: &'static str, text: &str) {
        *self.plugins.entry(plugin).or_default() += text;
    }

    fn multifo(&mut self, i: usize, random: &mut Random) {
        let count = 2 + random.next(4);
        let all: Vec<String> = (0..count).map(|_| self.service("")).collect();
        let name = format!("multi{i}");
        self.vserver(&name, &quoted(&all), "multiple_ip_response = true\n");
        self.plugin("multifo", &format!("{name} => {{ addrs_v4 => [ {} ] }}\n", all.join(", ")));
        self.name("multifo", &name, &["10.0.0.1"]);
    }

    fn weighted(&mut self, i: usize, random: &mut Random) {
        let all: Vec<(String, usize)> =
            (0..2 + random.next(3)).map(|_| (self.service(""), 1 + random.next(4))).collect();
        let name = format!("weighted{i}");
        let bound = all.iter().map(|(a, weight)| format!("{{ name = \"{a}\", weight = {weight} }}"));
        self.vserver(&name, &bound.collect::<Vec<_>>(), "");
        let theirs = all.iter().enumerate().map(|(i, (a, weight))| format!("a{i} => [ {a}, {weight} ]\n"));
        let theirs = theirs.collect::<Vec<_>>().concat();
        self.plugin("weighted", &format!("{name} => {{ {theirs} }}\n"));
        self.name("weighted", &name, &["10.0.0.1"]);
    }

    fn simplefo(&mut self, i: usize) {
        let (primary, secondary) = (self.service(""), self.service(""));
        let name = format!("simple{i}");
        self.vserver(&name, &quoted(std::slice::from_ref(&primary)), &format!("backup = \"{name}-b\"\n"));
        self.vserver(&format!("{name}-b"), &quoted(std::slice::from_ref(&secondary)), "");
        self.plugin("simplefo", &format!("{name} => {{ primary => {primary}, secondary => {secondary} }}\n"));
        self.name("simplefo", &name, &["10.0.0.1"]);
    }

    fn metafo(&mut self, i: usize, random: &mut Random) {
        let name = format!("meta{i}");
        let count = 2 + random.next(3);
        let mut map = String::new();
        for dc in 0..count {
            let all: Vec<String> = (0..=random.next(2)).map(|_| self.service("")).collect();
            let link = |dc: usize| if dc == 0 { name.clone() } else { format!("{name}-{dc}") };
            let backup =
                if dc + 1 < count { format!("backup = \"{}\"\n", link(dc + 1)) } else { String::new() };
            self.vserver(&link(dc), &quoted(&all), &format!("multiple_ip_response = true\n{backup}"));
            let _ = writeln!(map, "d{dc} => [ {} ]", all.join(", "));
        }
        let order: Vec<String> = (0..count).map(|dc| format!("d{dc}")).collect();
        self.plugin(
            "metafo",
            &format!("{name} => {{ datacenters => [ {} ], dcmap => {{ {map} }} }}\n", order.join(", ")),
        );
        self.name("metafo", &name, &["10.0.0.1"]);
    }

    /// A resource of geoip over three datacenters, and what its map says of a few nets and of all others.
    fn geoip(&mut self, name: &str, dcs: &[(String, String)], nets: &[(String, Vec<usize>)]) {
        let order = |list: &[usize]| list.iter().map(|i| dcs[*i].0.clone()).collect::<Vec<_>>().join(", ");
        let all: Vec<usize> = (0..dcs.len()).collect();
        let rows = nets.iter().map(|(net, list)| format!("{net} => [ {} ]\n", order(list)));
        let rows = rows.collect::<Vec<_>>().concat();
        let _ = writeln!(
            self.maps,
            "{name}-map => {{ datacenters => [ {} ], nets => {{ {rows} }} }}",
            order(&all)
        );
        let map = dcs.iter().map(|(dc, address)| format!("{dc} => {address}\n"));
        let map = map.collect::<Vec<_>>().concat();
        self.plugin("geoip", &format!("{name} => {{ map => {name}-map, dcmap => {{ {map} }} }}\n"));
    }

    fn by_source(&mut self, i: usize, random: &mut Random) {
        let name = format!("geo{i}");
        let dcs: Vec<(String, String)> =
            (0..3).map(|dc| (format!("d{dc}"), self.service(&format!("location = \"d{dc}\"\n")))).collect();
        let all: Vec<String> = dcs.iter().map(|(_, address)| address.clone()).collect();
        self.vserver(&name, &quoted(&all), "");
        let mut nets = Vec::new();
        for net in 1..=3 {
            nets.push((format!("10.{}{net}.0.0/16", i + 1), random.shuffled(&[0, 1, 2])));
        }
        self.geoip(&name, &dcs, &nets);
        let clients: Vec<String> = (1..=4).map(|net| format!("10.{}{net}.7.1", i + 1)).collect();
        self.name("geoip", &name, &clients.iter().map(String::as_str).collect::<Vec<_>>());
        let others = ("0.0.0.0/0".to_owned(), vec![0, 1, 2]);
        let asked = self.questions.len() - clients.len();
        for (k, (net, list)) in nets.iter().chain([&others]).enumerate() {
            let places: Vec<String> = list.iter().map(|dc| format!("\"d{dc}\"")).collect();
            let _ = write!(
                self.ours,
                "[[dns_action]]\nname = \"{name}-{k}\"\npreferred_locations = [{}]\n\n[[dns_policy]]\nname = \
                 \"{name}-{k}\"\nrule = 'CLIENT.IP.SRC.IN_SUBNET({net})'\naction = \"{name}-{k}\"\npriority = {}\nbind = \
                 {{ vserver = \"{name}\" }}\n\n",
                places.join(", "),
                (k + 1) * 10
            );
            self.questions[asked + k].1 = list.iter().map(|dc| dcs[*dc].1.clone()).collect();
        }
    }

    /// Datacenters and clients on one latitude (0, 0 is no place): the nearest first.
    fn by_subnet(&mut self, random: &mut Random) -> String {
        let name = "ecs".to_owned();
        let mut rows = String::new();
        let mut dcs = Vec::new();
        for dc in 0..3 {
            let address = self.service("");
            let longitude = dc * 40;
            let _ = writeln!(
                rows,
                "{{ range = \"{address}\", location = \"S.{dc}\", longitude = {longitude}, latitude = 10 }},"
            );
            dcs.push((format!("d{dc}"), address));
        }
        let all: Vec<String> = dcs.iter().map(|(_, address)| address.clone()).collect();
        self.vserver(&name, &quoted(&all), "method = \"static-proximity\"\necs = true\n");
        let mut nets = Vec::new();
        for net in 1..=4 {
            let longitude = random.next(90) as i32;
            if (0..3).any(|dc| (0..dc).any(|other| longitude * 2 == (dc + other) * 40)) {
                continue;
            }
            let mut list = vec![0_usize, 1, 2];
            list.sort_by_key(|dc| (longitude - *dc as i32 * 40).abs());
            let _ = writeln!(
                rows,
                "{{ range = \"203.0.{net}.0/24\", location = \"C.{net}\", longitude = {longitude}, latitude = 10 }},"
            );
            let nearest = list.iter().map(|dc| all[*dc].clone()).collect();
            self.questions.push((format!("ecs.example.com A from 10.0.0.1 ecs 203.0.{net}.0/24"), nearest));
            nets.push((format!("203.0.{net}.0/24"), list));
        }
        self.geoip(&name, &dcs, &nets);
        self.name("geoip", &name, &[]);
        rows
    }

    fn new(seed: u64) -> Self {
        let mut random = Random(seed | 1);
        let mut out = Self::default();
        for i in 0..3 {
            out.multifo(i, &mut random);
            out.weighted(i, &mut random);
            out.simplefo(i);
            out.metafo(i, &mut random);
        }
        for i in 0..2 {
            out.by_source(i, &mut random);
        }
        let rows = out.by_subnet(&mut random);
        let located = format!("[location]\ncustom = [\n{rows}]\n\n");
        out.ours.insert_str(0, &located);
        out
    }

    fn gdnsd(&self, folder: &str) -> String {
        let part = |plugin: &str| self.plugins[plugin].clone();
        format!(
            "options => {{ listen => [ 192.0.2.54 ], run_dir => \"{folder}/run\", state_dir => \"{folder}/state\" }}\n\
             plugins => {{\n\
             multifo => {{ service_types => up, up_thresh => 0.001\n{} }}\n\
             weighted => {{ service_types => up, up_thresh => 0.001\n{} }}\n\
             simplefo => {{ service_types => up\n{}canary => {{ primary => {CANARY}, secondary => 203.0.113.251 }} }}\n\
             metafo => {{ service_types => up, up_thresh => 0.001, resources => {{\n{} }} }}\n\
             geoip => {{ service_types => up, maps => {{\n{} }}, resources => {{\n{} }} }}\n\
             }}\n",
            part("multifo"),
            part("weighted"),
            part("simplefo"),
            part("metafo"),
            self.maps,
            part("geoip"),
        )
    }
}

fn quoted(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("\"{name}\"")).collect()
}

/// gdnsd in the responder's namespace.
struct Other {
    child: Child,
    folder: String,
    /// The primary of its own name is down.
    canary: bool,
}

impl Other {
    fn start(stand: &mut Stand, twin: &Twin, number: usize) -> Self {
        let folder = stand.bed.folder().join(format!("gdnsd{number}"));
        fs::create_dir_all(folder.join("zones")).unwrap();
        fs::create_dir_all(folder.join("state")).unwrap();
        let text = folder.to_str().expect("text").to_owned();
        fs::write(folder.join("config"), twin.gdnsd(&text)).unwrap();
        let zone = format!(
            "@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.54\ncanary 30 DYNA simplefo!canary\n{}",
            twin.zone
        );
        fs::write(folder.join("zones/example.com"), zone).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = stand
            .bed
            .server()
            .command("gdnsd")
            .args(["-c", &text, "start"])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("gdnsd: {error}; `cargo xtask setup` installs it"));
        let mut out = Self { child, folder: text, canary: true };
        out.tell(stand, twin, &BTreeSet::new());
        out
    }

    /// Forces states, and waits until they are in force: the file is looked at now and then, and what was found in it
    /// counts for queries a while after `states` says it. A name of its own turns over each time and shows it.
    fn tell(&mut self, stand: &mut Stand, twin: &Twin, down: &BTreeSet<String>) {
        self.canary = !self.canary;
        let row = |a: &String| format!("{a}/up => {}\n", if down.contains(a) { "DOWN" } else { "UP" });
        let rows = twin.addresses.iter().map(row).collect::<Vec<_>>().concat();
        let canary = if self.canary { "DOWN" } else { "UP" };
        let draft = format!("{}/draft", self.folder);
        fs::write(&draft, format!("{rows}{CANARY}/up => {canary}\n")).unwrap();
        fs::rename(draft, format!("{}/state/admin_state", self.folder)).unwrap();
        let started = Instant::now();
        loop {
            let said = stand.bed.server().output("gdnsdctl", &["-c", &self.folder, "states"]);
            let states: serde_json::Value =
                said.ok().and_then(|said| serde_json::from_str(&said).ok()).unwrap_or_default();
            // With ! for one that is forced.
            let is = |a: &String, state: &str| states[format!("{a}/up")]["state"] == state;
            let all = twin.addresses.iter().all(|a| is(a, if down.contains(a) { "DOWN!" } else { "UP!" }));
            let question = Question::parse("canary.example.com A from 10.0.0.1").expect("a question");
            if all && (stand.ask_other(GDNSD, &question).data[0] == CANARY) != self.canary {
                return;
            }
            let log = || fs::read_to_string(format!("{}/log", self.folder)).unwrap_or_default();
            let end = self.child.try_wait().unwrap();
            assert!(end.is_none(), "gdnsd ended in {end:?}:\n{}", log());
            assert!(started.elapsed() < PATIENCE, "gdnsd does not take states: {states}\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks both; None: the same.
fn compare(
    stand: &mut Stand,
    asked: &str,
    wanted: Option<(BTreeSet<String>, BTreeSet<String>)>,
) -> Option<String> {
    let question = Question::parse(asked).expect("a question");
    let expected = wanted.as_ref().map_or(1, |(_, ours)| ours.len());
    // Rotations are whole after as many queries as the sum of weights, for each CPU.
    let ours = stand.ask(&question, 40, |replies| expected > 1 && replies.len() >= 8).all();
    let theirs_wanted = wanted.as_ref().map_or(&ours, |(theirs, _)| theirs).clone();
    let mut theirs = BTreeSet::new();
    for i in 0..MOST {
        theirs.extend(stand.ask_other(GDNSD, &question).data);
        if i >= 20 && theirs == theirs_wanted {
            break;
        }
    }
    let ours_wanted = wanted.map_or_else(|| theirs.clone(), |(_, ours)| ours);
    (ours != ours_wanted || theirs != theirs_wanted || ours.is_empty()).then(|| {
        let why = stand.explain(&question)["reason"].to_string();
        format!("{asked}: we give {ours:?}, because {why}, gdnsd {theirs:?}")
    })
}

fn run(mode: Mode, configurations: usize, rounds: usize) {
    let mut stand = Stand::new(mode);
    stand.bed.ip("address add 192.0.2.54/32 dev gslb0");
    let (mut compared, mut known) = (0, 0);
    for number in 0..configurations {
        let twin = Twin::new(0x5eed + number as u64 * 7919);
        stand.load(&twin.ours).unwrap_or_else(|error| panic!("{error:?}\n{}", twin.ours));
        let mut other = Other::start(&mut stand, &twin, number);
        let mut random = Random(99 + number as u64);
        for round in 0..rounds {
            let share = [3, 10, 6, 0, 9][round % 5];
            let down: BTreeSet<String> =
                twin.addresses.iter().filter(|_| random.next(10) < share).cloned().collect();
            stand.reset();
            for address in &down {
                stand.order(&format!("force service {address} down")).expect("an order");
            }
            stand.settle();
            other.tell(&mut stand, &twin, &down);
            let mut wrong = Vec::new();
            for (asked, datacenters) in &twin.questions {
                let dead = !datacenters.is_empty() && datacenters.iter().all(|dc| down.contains(dc));
                known += usize::from(dead);
                compared += 1;
                wrong.extend(compare(&mut stand, asked, dead.then(|| all_down(datacenters))));
            }
            assert!(wrong.is_empty(), "down: {down:?}\n{}\n{}", wrong.join("\n"), twin.gdnsd(""));
        }
    }
    say!("gdnsd, {}: {compared} comparisons, {known} of them with a difference that is wanted", mode.word());
    assert!(compared >= 40 && known > 0);
    stand.stop();
}

#[test]
fn gdnsd_gives_the_same_addresses() {
    if is_full() {
        run(Mode::Native, 4, 15);
        run(Mode::Off, 2, 15);
    } else {
        run(Mode::Native, 1, 2);
    }
}
