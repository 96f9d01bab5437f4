//! Scripted scenarios: a script says what there is, what happens when, and what is asked; everything printed is
//! compared with the `.golden` file beside it. `RESPONDER_BLESS=1` writes those files anew.
//!
//! Time passes by script alone. One command a line, `#` begins a comment:
//!
//! ```text
//! service NAME LOCATION|- ADDRESS[,ADDRESS…] [monitored] [disabled]
//! range FIRST-LAST|PREFIX LOCATION [LONGITUDE LATITUDE]
//! vserver NAME METHOD [mir] [edr] [backup=VSERVER] [backup-method=METHOD] SERVICE[:WEIGHT[@ORDER]]…
//! domain NAME VSERVER [BACKUP_IP…]
//! wildcards no|yes|expression
//! policy NAME PRIORITY any|location PATTERN|subnet PREFIX prefer LOCATION…
//! warm-up DURATION                     undecided addresses count as down from then on
//! up|down|undecided SERVICE|ADDRESS…   what monitors say
//! force SERVICE up|down|auto
//! enable|disable service|vserver NAME
//! ask NAME TYPE from ADDRESS           the pool, its tier, the method and the reason
//! explain NAME TYPE from ADDRESS       all steps
//! forward DURATION                     lets time pass
//! at TIME COMMAND                      lets time pass until TIME, then does COMMAND
//! ```

mod support;

use std::{fmt::Write as _, fs, net::IpAddr, path::Path, time::Duration};

use responder_user::{
    decide::{
        AddressState, Decision, Give, Member, Outcome, Owner, Snapshot, decide,
        memory::{Change, ChangeKind},
        policy::name_bits,
    },
    model::{
        Bound, DnsName, Method, Model, RecordType, Rule, ServiceId, VserverId,
        location::{LocationRange, WildcardMatchesAny},
    },
};
use support::{add_preference, address, checked, domain, location, monitor, service, stage::Stage, vserver};

type Words<'a> = [&'a str];
type Done = Result<(), String>;

/// Time that passes only when told to.
#[derive(Default)]
struct FakeClock {
    now: Duration,
}

impl FakeClock {
    fn forward(&mut self, by: Duration) {
        self.now += by;
    }

    fn forward_to(&mut self, time: Duration) -> Done {
        if time < self.now {
            return Err(format!("{time:?} is over, it is {:?}", self.now));
        }
        self.now = time;
        Ok(())
    }
}

/// What a script has built and done so far.
#[derive(Default)]
struct World {
    clock: FakeClock,
    model: Model,
    /// Made when the first event or question comes: then the model is complete.
    snapshot: Option<Snapshot>,
    warm_up: Option<Duration>,
    out: String,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| format!("{text:?}: {e}"))
}

impl World {
    fn run(&mut self, words: &Words<'_>) -> Done {
        match *words {
            ["at", time, ref command @ ..] => {
                self.clock.forward_to(duration(time)?)?;
                self.run(command)
            }
            ["forward", by] => {
                self.clock.forward(duration(by)?);
                Ok(())
            }
            ["warm-up", limit] => {
                self.warm_up = Some(duration(limit)?);
                Ok(())
            }
            ["service" | "range" | "vserver" | "domain" | "policy" | "wildcards", ..] => self.build(words),
            _ => self.happen(words),
        }
    }

    fn build(&mut self, words: &Words<'_>) -> Done {
        if self.snapshot.is_some() {
            return Err("the model is complete".to_owned());
        }
        match *words {
            ["service", name, place, addresses, ref flags @ ..] => {
                let place = (place != "-").then_some(place);
                let mut new = service(name, place, &addresses.split(',').collect::<Vec<_>>());
                new.enabled = !flags.contains(&"disabled");
                if flags.contains(&"monitored") {
                    new.monitors = checked();
                }
                self.model.services.push(new);
            }
            ["range", addresses, place, ref coordinates @ ..] => {
                self.model.locations.custom.push(range_of(addresses, place, coordinates)?);
            }
            ["vserver", name, method, ref rest @ ..] => self.add_vserver(name, method, rest)?,
            ["domain", name, vserver, ref backup @ ..] => {
                let VserverId(vserver) = self.vserver(vserver)?;
                self.model.domains.push(domain(name, vserver, backup));
            }
            ["wildcards", how] => {
                self.model.locations.wildcard_matches_any = match how {
                    "no" => WildcardMatchesAny::No,
                    "yes" => WildcardMatchesAny::Yes,
                    "expression" => WildcardMatchesAny::Expression,
                    _ => return Err(format!("wildcards {how}?")),
                };
            }
            ["policy", name, priority, ref rest @ ..] => {
                let (rule, list) = match *rest {
                    ["any", "prefer", ref list @ ..] => (Rule::Constant(true), list),
                    ["location", at, "prefer", ref list @ ..] => (Rule::MatchesLocation(location(at)), list),
                    ["subnet", net, "prefer", ref list @ ..] => {
                        (Rule::InSubnet(net.parse().map_err(|e| format!("{net}: {e}"))?), list)
                    }
                    _ => return Err("no such rule".to_owned()),
                };
                let priority = priority.parse().map_err(|e| format!("{priority}: {e}"))?;
                add_preference(&mut self.model, name, priority, rule, list);
            }
            _ => return Err("no such object".to_owned()),
        }
        Ok(())
    }

    fn add_vserver(&mut self, name: &str, method: &str, rest: &Words<'_>) -> Done {
        let method_named = |m: &str| Method::from_name(m).ok_or_else(|| format!("no method {m}"));
        let mut new = vserver(name, method_named(method)?, Vec::new());
        for word in rest {
            match word.split_once('=') {
                Some(("backup", link)) => new.backup = Some(self.vserver(link)?),
                Some(("backup-method", method)) => new.backup_method = Some(method_named(method)?),
                Some(_) => return Err(format!("no option {word}")),
                None if *word == "mir" => new.multiple_ip_response = true,
                None if *word == "edr" => new.empty_down_response = true,
                None => new.services.push(self.bound(word)?),
            }
        }
        self.model.vservers.push(new);
        Ok(())
    }

    /// `NAME[:WEIGHT[@ORDER]]`
    fn bound(&self, word: &str) -> Result<Bound, String> {
        let (name, numbers) = word.split_once(':').unwrap_or((word, "1"));
        let (weight, order) = numbers.split_once('@').map_or((numbers, None), |(w, o)| (w, Some(o)));
        let number = |n: &str| n.parse::<u32>().map_err(|e| format!("{word}: {e}"));
        let order = order.map(number).transpose()?;
        Ok(Bound { service: self.service(name)?, weight: number(weight)?, order })
    }

    fn happen(&mut self, words: &Words<'_>) -> Done {
        self.settle();
        match *words {
            ["up", ref what @ ..] => self.report(what, AddressState::Up),
            ["down", ref what @ ..] => self.report(what, AddressState::Down),
            ["undecided", ref what @ ..] => self.report(what, AddressState::Undecided),
            ["force", name, how] => {
                let forced = match how {
                    "up" => Some(true),
                    "down" => Some(false),
                    "auto" => None,
                    _ => return Err(format!("force {how}?")),
                };
                let id = self.service(name)?;
                self.states().services[id.index()].forced = forced;
                self.say(&format!("force {name} {how}"));
                Ok(())
            }
            [verb @ ("enable" | "disable"), kind, name] => {
                let enabled = verb == "enable";
                match kind {
                    "service" => {
                        let id = self.service(name)?;
                        self.states().services[id.index()].admin = enabled;
                    }
                    "vserver" => {
                        let id = self.vserver(name)?;
                        self.states().vservers[id.index()].enabled = enabled;
                    }
                    _ => return Err(format!("{verb} {kind}?")),
                }
                self.say(&format!("{verb} {kind} {name}"));
                Ok(())
            }
            [verb @ ("ask" | "explain"), name, rtype, "from", client] => self.ask(verb, name, rtype, client),
            _ => Err("no such command".to_owned()),
        }
    }

    /// Makes the snapshot, and ends the warm-up when its time has come.
    fn settle(&mut self) {
        let (now, warm_up) = (self.clock.now, self.warm_up);
        let snapshot = self.states();
        if warm_up.is_some_and(|limit| now >= limit) {
            let addresses = snapshot.services.iter_mut().flat_map(|s| &mut s.addresses);
            addresses.filter(|a| **a == AddressState::Undecided).for_each(|a| *a = AddressState::Down);
        }
    }

    fn states(&mut self) -> &mut Snapshot {
        if self.snapshot.is_none() {
            self.model.monitors.push(monitor("script"));
        }
        self.snapshot.get_or_insert_with(|| Snapshot::initial(&self.model))
    }

    /// Monitors report on services, or on single addresses.
    fn report(&mut self, what: &Words<'_>, state: AddressState) -> Done {
        for word in what {
            let wanted: Option<IpAddr> = word.parse().ok();
            let named = if wanted.is_none() { Some(self.service(word)?) } else { None };
            for i in 0..self.model.services.len() {
                for (j, own) in self.model.services[i].addresses.clone().into_iter().enumerate() {
                    if wanted == Some(own) || named == Some(ServiceId(i as u32)) {
                        self.states().services[i].addresses[j] = state;
                    }
                }
            }
        }
        self.say(&format!("{} {state:?}", what.join(" ")).to_lowercase());
        Ok(())
    }

    fn ask(&mut self, verb: &str, name: &str, rtype: &str, client: &str) -> Done {
        let wanted = DnsName::parse(name).map_err(|e| e.to_string())?;
        let domain = self.model.domains.iter().find(|d| d.name == wanted).ok_or("no such domain")?;
        let names = name_bits(&self.model.name_tests, &domain.name).into();
        let owner =
            Owner { vserver: domain.vserver, backup_ip: domain.backup_ip.clone(), names, domain: None };
        let rtype = [RecordType::A, RecordType::Aaaa].into_iter().find(|t| t.name() == rtype);
        let rtype = rtype.ok_or("A or AAAA")?;
        let snapshot = self.snapshot.as_ref().expect("settled");
        let got = decide(&self.model, snapshot, &owner, rtype, address(client));
        self.say(&format!("{verb} {name} {rtype} from {client}"));
        let text = if verb == "explain" { explained(&got) } else { told(&self.model, &got) };
        self.out.push_str(&text);
        Ok(())
    }

    fn say(&mut self, what: &str) {
        let now = humantime::format_duration(self.clock.now);
        writeln!(self.out, "[{now}] {what}").expect("a string takes it");
    }

    fn service(&self, name: &str) -> Result<ServiceId, String> {
        self.model.service_named(name).ok_or_else(|| format!("no service {name}"))
    }

    fn vserver(&self, name: &str) -> Result<VserverId, String> {
        self.model.vserver_named(name).ok_or_else(|| format!("no vserver {name}"))
    }
}

fn range_of(addresses: &str, place: &str, coordinates: &Words<'_>) -> Result<LocationRange, String> {
    let (first, last) = if let Some((first, last)) = addresses.split_once('-') {
        (address(first), address(last))
    } else {
        let net: ipnet::IpNet = addresses.parse().map_err(|e| format!("{addresses}: {e}"))?;
        (net.network(), net.broadcast())
    };
    let number = |text: &str| text.parse::<f64>().map_err(|e| format!("{text}: {e}"));
    let coordinates = match *coordinates {
        [lon, lat] => Some((number(lon)?, number(lat)?)),
        _ => None,
    };
    Ok(LocationRange { first, last, location: location(place), coordinates })
}

fn told(model: &Model, got: &Decision) -> String {
    let member = |m: &Member| {
        let name = m.service.map_or("backup", |s| model.service(s).name.as_str());
        format!("{} ({name}, weight {})", m.address, m.weight)
    };
    let list = |members: &[Member]| members.iter().map(member).collect::<Vec<_>>().join(", ");
    let pool = match &got.outcome {
        Outcome::Undecided => "undecided".to_owned(),
        Outcome::Empty => "no records".to_owned(),
        Outcome::Answer(pool) => match pool.give {
            Give::One => format!("one of {}", list(&pool.rotate)),
            Give::All => format!("all of {}", list(&pool.rotate)),
            Give::BestFirst if pool.extras.is_empty() => format!("best of {}", list(&pool.rotate)),
            Give::BestFirst => format!("best of {}; then {}", list(&pool.rotate), list(&pool.extras)),
        },
        Outcome::Drop => "no reply".to_owned(),
        Outcome::Refused => "REFUSED".to_owned(),
        Outcome::NotOurs => "not ours".to_owned(),
        Outcome::Records(pool) => {
            pool.rotate.iter().map(|m| m.address.to_string()).collect::<Vec<_>>().join(", ")
        }
    };
    let lbrrreason = got.reason.lbrrreason().map_or_else(String::new, |n| format!(" (lbrrreason {n})"));
    let link = &model.vserver(got.link).name;
    format!(
        "  pool:   {pool}\n  from:   {link}, {}, {}\n  reason: {}{lbrrreason}\n",
        got.tier, got.method, got.reason
    )
}

fn explained(got: &Decision) -> String {
    got.steps.iter().fold(String::new(), |mut out, step| {
        writeln!(out, "  {:8} {} ({})", step.step, step.outcome, step.reason).expect("a string takes it");
        out
    })
}

/// Runs a script; an error names the line.
fn run(script: &str) -> Result<String, String> {
    let mut world = World::default();
    for (i, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            world.run(&words).map_err(|e| format!("line {}: {e}", i + 1))?;
        }
    }
    Ok(world.out)
}

/// Runs a script of a whole configuration: TOML, a line of three dashes, then commands as operators type them, `wait
/// DURATION`, `ask NAME TYPE from ADDRESS` and `explain NAME TYPE from ADDRESS`. What is remembered on the way is printed
/// as the events of the daemon are.
fn play(script: &str) -> Result<String, String> {
    let (config, commands) = script.split_once("\n---\n").ok_or("no line of three dashes")?;
    let mut stage = Stage::of(config)?;
    let mut out = String::new();
    for (i, line) in commands.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let failed = |e: String| format!("command {}: {line}: {e}", i + 1);
        let now = humantime::format_duration(stage.now).to_string();
        let _ = writeln!(out, "[{now}] {line}");
        if let Some(question) = line.strip_prefix("ask ").or(line.strip_prefix("explain ")) {
            let answer = stage.ask(question).map_err(failed)?;
            if line.starts_with("explain") {
                out.push_str(&explained(&answer.decision));
            } else {
                out.push_str(&told(&stage.model, &answer.decision));
                if let Some(first) = answer.first {
                    let _ = writeln!(out, "  first:  {first}");
                }
            }
            continue;
        }
        for Change { vserver, rtype, kind } in stage.run(line).map_err(failed)? {
            let name = &stage.model.vserver(vserver).name;
            let text = match kind {
                ChangeKind::Latched => "is held back from now on".to_owned(),
                ChangeKind::Spilled(level) => format!("is over its threshold: {level}"),
                ChangeKind::SpillEnded(level) => format!("is below its threshold: {level}"),
            };
            let _ = writeln!(out, "  event:  {name} {text} ({rtype})");
        }
    }
    Ok(out)
}

/// Compares what every script with this ending prints with its golden file.
fn compare(ending: &str, run: impl Fn(&str) -> Result<String, String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let bless = std::env::var_os("RESPONDER_BLESS").is_some();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    for script in scripts {
        let name = script.file_name().unwrap().to_string_lossy().into_owned();
        let got = run(&fs::read_to_string(&script).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let golden = script.with_extension("golden");
        if bless {
            fs::write(&golden, &got).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        let differs = got.lines().zip(expected.lines()).position(|(a, b)| a != b);
        let at = differs.unwrap_or(got.lines().count().min(expected.lines().count())) + 1;
        assert!(got == expected, "{name} differs from its golden file at line {at}; it printed:\n{got}");
    }
}

#[test]
fn scripts_print_what_they_printed_before() {
    compare("txt", run);
}

#[test]
fn whole_configurations_print_what_they_printed_before() {
    compare("script", play);
}

#[test]
fn a_bad_line_is_named() {
    assert_eq!(run("at 5s forward 1s\n\nat 2s forward 1s").unwrap_err(), "line 3: 2s is over, it is 6s");
    assert_eq!(run("# nothing\nsing a song").unwrap_err(), "line 2: no such command");
    assert!(run("service a - 192.0.2.1\nup a\nservice b - 192.0.2.2").unwrap_err().contains("complete"));
}
