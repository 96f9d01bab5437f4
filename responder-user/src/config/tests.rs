//! The whole way from text to model: a table of mistakes with their messages, the examples, and any text at all.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::model::{
    DnsActionKind, Method, MonitorKind, RecordType, Rule, ServiceId,
    location::WildcardMatchesAny,
    policy::Goto,
    settings::{OnExit, Workers, XdpMode},
};

const LISTEN: &str = "[listen]\naddresses = [\"192.0.2.53:53\"]\n";

/// Rows of `testdata/problems.txt`: title, text, expected lines.
fn rows() -> Vec<(&'static str, &'static str, &'static str)> {
    include_str!("testdata/problems.txt")
        .split("=== ")
        .skip(1)
        .map(|row| {
            let (title, rest) = row.split_once('\n').expect("a title");
            let (text, expected) = rest.split_once("---\n").expect("a line of three dashes");
            (title, text, expected.split("\n\n").next().unwrap_or_default().trim())
        })
        .collect()
}

/// What a check prints, without the file in front.
fn shown(text: &str) -> String {
    let file = Path::new("responder.toml");
    let (prefix, lines) = match parse(text, file) {
        Ok(loaded) => ("warning: ", loaded.warnings),
        Err(ConfigError::Problems(problems)) => ("", problems),
        Err(ConfigError::Io { .. }) => panic!("nothing is read"),
    };
    lines.iter().fold(String::new(), |mut out, line| {
        let line = line.to_string();
        let _ = writeln!(out, "{prefix}{}", line.strip_prefix("responder.toml:").unwrap_or(&line));
        out
    })
}

#[test]
fn every_mistake_has_its_message_and_place() {
    let rows = rows();
    assert!(rows.len() >= 90, "only {} rows", rows.len());
    let mut written = include_str!("testdata/problems.txt").to_owned();
    let mut wrong = Vec::new();
    for (title, text, expected) in rows {
        let listen = if text.contains("[listen]") { "" } else { LISTEN };
        let got = shown(&format!("{text}{listen}"));
        let row = |lines: &str| format!("=== {title}\n{text}---\n{lines}");
        written = written.replacen(&row(expected), &row(got.trim()), 1);
        if got.trim() != expected {
            wrong.push(format!("{title}\n  expected {expected}\n  got      {}", got.trim()));
        }
    }
    if std::env::var_os("RESPONDER_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/problems.txt");
        return fs::write(path, written).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn titles_of_the_rows_are_unique() {
    let titles: Vec<_> = rows().iter().map(|row| row.0).collect();
    assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len());
}

fn example(name: &str) -> Loaded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    load(&path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_example_of_eight_sites_is_the_model_of_the_source_documents() {
    let Loaded { model, warnings, .. } = example("eight-sites.toml");
    assert_eq!(warnings.len(), 1, "the wildcard pattern alone: {warnings:?}");
    let sites: Vec<_> = model.services.iter().map(|s| s.location.as_ref().unwrap().to_string()).collect();
    assert_eq!(
        sites,
        ["Asia.IN", "Asia.JPN", "Asia.HK", "Europe.UK", "Europe.RU", "Europe.EG", "Africa.SD", "Africa.ZMB"]
    );
    let client = model.locations.find("10.53.0.2".parse().unwrap()).unwrap();
    assert_eq!(client.location.to_string(), "*.ZMB");
    assert_eq!(model.policies[0].rule, Rule::MatchesLocation(client.location.clone()));
    assert_eq!(model.settings.xdp.interfaces, ["gslb0"]);
    let monitor = &model.monitors[0];
    assert_eq!((monitor.interval, monitor.timeout), (Duration::from_millis(250), Duration::from_millis(200)));
    assert_eq!((monitor.rise, monitor.fall), (1, 1));
    let vserver = &model.vservers[0];
    assert_eq!((vserver.method, &vserver.types[..]), (Method::StaticProximity, &[RecordType::A][..]));
    assert_eq!(vserver.services.len(), 8);
    let domain = &model.domains[0];
    assert_eq!((domain.name.to_string().as_str(), domain.ttl), ("www.example.com", 5));
    let zone = model.zone_of(&domain.name).unwrap();
    assert_eq!((zone.ns.len(), zone.ns_addresses.len()), (2, 2), "every name server has an address");
}

#[test]
fn the_complete_example_has_every_key_and_warnings_alone() {
    let Loaded { model, warnings, .. } = example("complete.toml");
    let kinds: BTreeSet<_> = warnings.iter().map(|w| w.text.clone()).collect();
    assert_eq!(kinds.len(), warnings.len(), "one warning a kind");
    for key in ["observer", "resolver", "metrics", "scenario", "record"] {
        assert!(kinds.contains(&format!("{key} has no effect yet")), "{key}");
    }

    assert_eq!(model.domains.len(), 3, "one by one and two in the list");
    assert_eq!(model.domains[2].ttl, 30);
    let hk = model.service(ServiceId(0));
    assert_eq!((hk.monitors.iter().map(|m| m.1).sum::<u32>(), hk.monitor_threshold), (3, 2));
    let uk = model.service(ServiceId(1));
    assert_eq!(uk.location.as_ref().unwrap().to_string(), r#"NA.US."New York""#, "looked up by address");
    assert_eq!(uk.coordinates, Some((-74.0, 41.0)));
    let www = &model.vservers[0];
    assert_eq!(www.backup, model.vserver_named("www-backup"));
    assert_eq!((www.services[1].weight, www.services[1].order), (2, Some(1)));
    assert_eq!(model.vservers[1].types, [RecordType::A, RecordType::Aaaa], "the families of its services");
    assert_eq!(
        model.policies.iter().map(|p| p.priority).collect::<Vec<_>>(),
        [10, 100, 110, 130, 120],
        "by bind point"
    );
    assert_eq!(model.policies[1].goto, Goto::Next);
    assert_eq!(model.actions[2].kind, DnsActionKind::Drop);
    assert_eq!(model.zones[0].file.as_ref().unwrap().file_name().unwrap(), "example.com.zone");
}

#[test]
fn every_default_is_the_one_of_the_table() {
    let text = format!(
        "{LISTEN}[xdp]\n[location]\n[[monitor]]\nname = \"m\"\ntype = \"http\"\n[[zone]]\nname = \"example.com\"\n\
         [[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\n[[vserver]]\nname = \"v\"\nservices = [\"s\"]\n\
         [[domain]]\nname = \"a.example.com\"\nvserver = \"v\"\n"
    );
    let Loaded { model, .. } = parse(&text, Path::new("responder.toml")).unwrap();
    let settings = &model.settings;
    assert_eq!(settings.control_socket, Path::new("/run/responder/control.sock"));
    assert_eq!(settings.state_dir, Path::new("/var/lib/responder"));
    assert_eq!((settings.log.as_str(), settings.warm_up), ("info", Duration::from_secs(30)));
    assert_eq!(settings.workers, Workers::PerCore);
    assert_eq!((settings.xdp.mode, settings.xdp.on_exit), (XdpMode::Auto, OnExit::Detach));
    assert_eq!(settings.xdp.max_stale, Duration::from_mins(10));
    assert_eq!(settings.xdp.pin_path, Path::new("/sys/fs/bpf/responder"));
    let monitor = &model.monitors[0];
    assert_eq!((monitor.interval, monitor.timeout), (Duration::from_secs(5), Duration::from_secs(2)));
    assert_eq!((monitor.rise, monitor.fall, monitor.port), (1, 3, None));
    let http = MonitorKind::Http { path: "/".to_owned(), host: None, expect: vec![(200, 299)] };
    assert_eq!(monitor.kind, http);
    let vserver = &model.vservers[0];
    assert_eq!((vserver.method, vserver.service_type.as_str()), (Method::LeastConnection, "ANY"));
    assert_eq!((vserver.services[0].weight, vserver.services[0].order), (1, None));
    assert!(vserver.enabled && !vserver.multiple_ip_response && !vserver.empty_down_response);
    assert_eq!((model.domains[0].ttl, model.domains[0].backup_ip.len()), (5, 0));
    let soa = &model.zones[0].soa;
    assert_eq!((soa.mname.to_string(), soa.serial), ("ns1.example.com".to_owned(), None));
    assert_eq!((soa.refresh, soa.retry, soa.expire, soa.minimum, soa.ttl), (3600, 600, 86400, 5, 5));
    assert_eq!(model.locations.wildcard_matches_any, WildcardMatchesAny::No);
}

#[test]
fn a_short_interval_shortens_the_default_timeout() {
    let text = format!("{LISTEN}[[monitor]]\nname = \"m\"\ntype = \"tcp\"\ninterval = \"250ms\"\n");
    let model = parse(&text, Path::new("responder.toml")).unwrap().model;
    assert_eq!(model.monitors[0].timeout, Duration::from_millis(250));
}

#[test]
fn one_name_may_have_a_virtual_server_for_each_type() {
    let text = format!(
        "{LISTEN}[[service]]\nname = \"s4\"\naddress = \"192.0.2.1\"\n[[service]]\nname = \"s6\"\naddress = \
         \"2001:db8::1\"\n[[vserver]]\nname = \"v4\"\nservices = [\"s4\"]\n[[vserver]]\nname = \"v6\"\nservices = \
         [\"s6\"]\n[[domain]]\nname = \"a.example\"\nvserver = \"v4\"\n[[domain]]\nname = \"A.example\"\nvserver = \
         \"v6\"\n"
    );
    let model = parse(&text, Path::new("responder.toml")).unwrap().model;
    assert_eq!(model.domains_by_name().len(), 1);
    assert_eq!(model.domains.len(), 2);
}

#[test]
fn more_than_64_addresses_of_a_family_are_refused() {
    let services = |count: usize| {
        let mut text = LISTEN.to_owned();
        for i in 0..count {
            let _ = writeln!(
                text,
                "[[service]]\nname = \"s{i}\"\naddress = [\"192.0.2.{i}\", \"2001:db8::{i}\"]"
            );
        }
        let names: Vec<_> = (0..count).map(|i| format!("\"s{i}\"")).collect();
        let _ = writeln!(text, "[[vserver]]\nname = \"v\"\nservices = [{}]", names.join(", "));
        text
    };
    assert!(parse(&services(64), Path::new("x")).is_ok());
    let error = parse(&services(65), Path::new("x")).unwrap_err().to_string();
    assert_eq!(
        error,
        "x:198:1: vserver \"v\": services: 65 addresses of type A are too many; allowed are 64\n\
         x:198:1: vserver \"v\": services: 65 addresses of type AAAA are too many; allowed are 64"
    );
}

/// A folder with a configuration that names one list.
fn with_list(names: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("names.txt"), names).unwrap();
    let text = format!(
        "{LISTEN}[[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\n[[vserver]]\nname = \"v\"\nservices = [\"s\"]\n\
         [[domain]]\nname = \"www.example.com\"\nvserver = \"v\"\n[[domain_list]]\nfile = \"names.txt\"\nvserver = \
         \"v\"\nttl = 7\n"
    );
    let path = folder.path().join("responder.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn a_list_is_read_beside_the_configuration() {
    let (_folder, path) = with_list(b"# names\na.example.com\nB.example.com 60\n");
    let model = load(&path).unwrap().model;
    let found: Vec<_> = model.domains.iter().map(|d| format!("{} {}", d.name, d.ttl)).collect();
    assert_eq!(found, ["www.example.com 5", "a.example.com 7", "b.example.com 60"]);
}

#[test]
fn problems_of_a_list_have_the_lines_of_the_list() {
    let (folder, path) = with_list(b"a.example.com\na..com\n\nA.example.com\nwww.example.com 9\n");
    let error = load(&path).unwrap_err().to_string();
    let error = error.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(
        error,
        "names.txt:2:1: \"a..com\" has an empty label\n\
         names.txt:4:1: domain \"a.example.com\": name: is already bound to vserver \"v\" for type A in names.txt:1\n\
         names.txt:5:1: domain \"www.example.com\": name: is already bound to vserver \"v\" for type A in line 10"
    );
}

#[test]
fn a_hundred_thousand_names_load_while_one_waits() {
    let names: String = (0..100_000).fold(String::new(), |mut out, i| {
        let _ = writeln!(out, "host{i}.shop.example.com");
        out
    });
    let (_folder, path) = with_list(names.as_bytes());
    let start = std::time::Instant::now();
    assert_eq!(load(&path).unwrap().model.domains.len(), 100_001);
    // A million in about a second is measured with `--release --example check`; this catches a square.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_file_that_is_not_there_or_not_text_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("responder.toml");
    assert!(matches!(load(&path), Err(ConfigError::Io { .. })));
    fs::write(&path, b"a = 1\nb\xff").unwrap();
    let error = load(&path).unwrap_err().to_string();
    assert!(error.ends_with("responder.toml:2:2: is not UTF-8 text"), "{error}");
}

#[test]
fn a_problem_prints_and_travels() {
    let problem = Problem { file: "responder.toml".into(), line: 41, column: 14, text: "x".to_owned() };
    assert_eq!(problem.to_string(), "responder.toml:41:14: x");
    let json = serde_json::to_string(&problem).unwrap();
    assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
}

/// Pieces of configurations, put together at random.
fn piece() -> impl Strategy<Value = String> {
    let complete = include_str!("../../../examples/complete.toml");
    let lines: Vec<String> = complete.lines().map(str::to_owned).collect();
    let values =
        ["1", "-1", "true", "\"\"", "\"x\"", "[]", "[1]", "{}", "[{}]", "1.5", "nan", "\"1m\"", "2020-01-01"];
    let keys: Vec<String> =
        lines.iter().filter_map(|l| l.split_once(" =")).map(|(k, _)| k.to_owned()).collect();
    prop_oneof![
        3 => proptest::sample::select(lines),
        1 => (proptest::sample::select(keys), proptest::sample::select(values.to_vec()))
            .prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse(&text, Path::new("x"));
    }

    #[test]
    fn no_mixture_of_lines_panics(pieces in proptest::collection::vec(piece(), 0..30)) {
        let _ = parse(&pieces.join("\n"), Path::new("x"));
    }

    /// Each value of the example replaced by another one: every type at every key.
    #[test]
    fn no_value_of_another_type_panics(line in 0usize..300, value in proptest::sample::select(vec![
        "1", "-1", "true", "\"\"", "\"x\"", "[]", "[1, \"a\", {}]", "{}", "[{ name = 1 }]", "1.5", "inf", "\"1m\"",
    ])) {
        let complete = include_str!("../../../examples/complete.toml");
        let mut lines: Vec<String> = complete.lines().map(str::to_owned).collect();
        if let Some(line) = lines.get_mut(line) && let Some((key, _)) = line.clone().split_once(" =") {
            *line = format!("{key} = {value}");
        }
        let _ = parse(&lines.join("\n"), Path::new("../examples/complete.toml"));
    }
}

/// The fault: the example named its name servers, and had no addresses for them.
#[test]
fn name_servers_inside_a_zone_want_addresses() {
    let head = "[listen]\naddresses = [\"192.0.2.53:53\"]\n[[zone]]\nname = \"example.com\"\n";
    let bound = "[[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\n[[vserver]]\nname = \"v\"\nmethod = \"round-robin\"\n\
                 services = [\"s\"]\n[[domain]]\nname = \"ns2.example.com\"\nvserver = \"v\"\n";
    let read = |ns: &str| match parse(&format!("{head}ns = {ns}\n{bound}"), Path::new("c.toml")) {
        Ok(loaded) => {
            let warnings: Vec<String> = loaded.warnings.iter().map(|w| w.text.clone()).collect();
            Ok((loaded.model.zones[0].clone(), warnings))
        }
        Err(error) => Err(error.to_string()),
    };
    let (zone, warnings) =
        read(r#"["ns.example.org", { name = "ns1.example.com", address = ["192.0.2.5", "2001:db8::5"] }, "ns2.example.com"]"#)
            .unwrap();
    assert_eq!((zone.ns.len(), zone.ns_addresses.len(), warnings.len()), (3, 2, 0), "{warnings:?}");
    let (_, warnings) = read(r#"["ns1.example.com"]"#).unwrap();
    let text = "zone \"example.com\": ns: ns1.example.com lies in the zone and has no address; write { name = \"ns1.example.com\", \
                address = \"...\" }";
    assert_eq!(warnings, [text]);
    let (_, warnings) = read(r#"[{ name = "ns2.example.com", address = "192.0.2.5" }]"#).unwrap();
    let text = "zone \"example.com\": ns: ns2.example.com is bound to a vserver, which answers instead of these addresses";
    assert_eq!(warnings, [text]);
    for (ns, said) in [
        (
            r#"[{ name = "ns.example.org", address = "192.0.2.5" }]"#,
            "ns: ns.example.org lies outside the zone, which has no addresses for it",
        ),
        (r#"["a..b"]"#, "ns: \"a..b\" has an empty label"),
        (r"[7]", "ns: 7 is an integer; allowed is a list of strings and tables"),
        (r#"[{ address = "192.0.2.5" }]"#, "ns.name: is missing"),
    ] {
        let error = read(ns).unwrap_err();
        assert!(error.contains(said), "{ns}: {error}");
    }
}
