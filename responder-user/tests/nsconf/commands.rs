//! One command at a time, on configurations that came from TOML or from ns.conf.

use std::path::{Path, PathBuf};

use responder_user::config::{
    self,
    import::{Asked, Kind, Op, Outcome, Reply, Session, Weight},
};

use super::{files::imported, fragment};

fn example(name: &str) -> (String, PathBuf) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    (std::fs::read_to_string(&path).unwrap(), path)
}

fn session() -> Session {
    let (text, path) = example("complete.toml");
    Session::of(&text, &path).unwrap()
}

fn error(reply: &Reply) -> &str {
    match &reply.outcome {
        Outcome::Error(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_without_commands_changes_no_byte() {
    for name in ["complete.toml", "eight-sites.toml"] {
        let (text, path) = example(name);
        assert_eq!(Session::of(&text, &path).unwrap().output().unwrap().toml, text, "{name}");
    }
}

/// Each command, and the lines that the configuration has more and fewer afterwards.
#[test]
fn a_command_changes_what_it_says_and_nothing_else() {
    let (text, path) = example("complete.toml");
    for (command, more, fewer) in [
        (
            "set gslb vserver www -MIR ENABLED",
            &["multiple_ip_response    = true # MIR"][..],
            &["multiple_ip_response    = false # MIR"][..],
        ),
        (
            "set gslb vserver WWW -toggleOrder descending",
            &["toggle_order            = \"descending\" # or \"descending\": which order serves first"],
            &["toggle_order            = \"ascending\" # or \"descending\": which order serves first"],
        ),
        (
            "bind gslb vserver www -serviceName SPARE -weight 3",
            &[
                "services                = [",
                "  \"hk\",",
                "  { name = \"uk\", weight = 2, order = 1 },",
                "  { name = \"spare\", weight = 3 },",
            ],
            &["services                = [\"hk\", { name = \"uk\", weight = 2, order = 1 }]"],
        ),
        ("unset gslb vserver www -backupVServer", &[], &["backup                  = \"www-backup\""]),
        ("disable gslb service uk", &["state = \"disabled\""], &[]),
        ("set gslb vserver www -domainName www.example.com -TTL 60", &["ttl       = 60"], &["ttl       = 5"]),
        (
            "bind gslb vserver www-backup -domainName spare.example.com",
            &["[[domain]]", "name = \"spare.example.com\"", "vserver = \"www-backup\""],
            &[],
        ),
        (
            "add location 192.0.2.0 192.0.2.255 Europe.UK",
            &["  { range = \"192.0.2.0-192.0.2.255\", location = \"Europe.UK\" },"],
            &[],
        ),
        (
            "rm location 198.51.100.0 198.51.100.255",
            &[],
            &["  { range = \"198.51.100.0-198.51.100.255\", location = \"Asia.HK\" },"],
        ),
        (
            "set locationParameter -matchWildcardtoany YES",
            &[
                "wildcard_matches_any = \"yes\"         # no | yes | expression (NetScaler's matchWildcardtoany)",
            ],
            &[
                "wildcard_matches_any = \"no\"         # no | yes | expression (NetScaler's matchWildcardtoany)",
            ],
        ),
        (
            "set dns action prefLoc11 -preferredLocList NA.US",
            &["preferred_locations = [\"NA.US\"]"],
            &["preferred_locations = [\"Asia.HK\", \"NA.US\"]"],
        ),
        ("bind dns global unwanted 7 -type REQ_OVERRIDE", &["bind     = ["], &[]),
        (
            "set lb monitor web -interval 500 MSEC -resptimeout 300 MSEC",
            &["interval = \"500ms\"", "timeout  = \"300ms\""],
            &["interval = \"5s\"", "timeout  = \"2s\""],
        ),
        ("set gslb service hk -sitePrefix a.", &["  'set gslb service hk -sitePrefix a.',"], &[]),
        (
            "add dns nsRec example.net ns3.example.net",
            // The addresses of the others stay.
            &[
                "  { name = \"ns1.example.net\", address = [\"192.0.2.53\", \"2001:db8::53\"] },",
                "  \"ns2.example.org\",",
                "  \"ns3.example.net\",",
            ],
            &[],
        ),
    ] {
        let mut session = session();
        let reply = session.run(command);
        assert_eq!(reply.outcome, Outcome::Done, "{command}: {reply:?}");
        let output = session.output().unwrap().toml;
        config::parse(&output, &path).unwrap_or_else(|error| panic!("{command}: {error}"));
        let gone = |line: &&str| !output.lines().any(|other| other == *line);
        let lost: Vec<&str> = text.lines().filter(gone).collect();
        for line in fewer {
            assert!(lost.contains(line), "{command}: {line} stays");
        }
        let fresh: Vec<&str> =
            output.lines().filter(|line| !text.lines().any(|other| other == *line)).collect();
        for line in more.iter().filter(|line| !text.lines().any(|other| other == **line)) {
            assert!(fresh.contains(line), "{command}: {line} is missing: {fresh:#?}");
        }
        // Lists of one kind are written anew, with the comment behind a rewritten key; all else stays.
        let kept = lost.iter().filter(|line| !fewer.contains(line)).count();
        assert!(kept <= 2, "{command}: {lost:#?}");
    }
}

#[test]
fn a_command_that_is_refused_says_why_and_changes_nothing() {
    for (command, why) in [
        ("frobnicate gslb vserver www", "No such command [frobnicate]"),
        ("add gslb vserver www HTTP", "Resource already exists [gslb vserver www]"),
        ("set gslb vserver nowhere -MIR ENABLED", "No such resource [gslb vserver nowhere]"),
        ("set gslb vserver www -frobnicate 1", "No such argument [-frobnicate]"),
        ("set gslb vserver www -MIR MAYBE", "MIR: invalid value [MAYBE]; allowed are ENABLED, DISABLED"),
        ("set gslb vserver www -MIR", "argument is missing behind -MIR"),
        ("set gslb vserver www -timeout 1", "timeout: 1 is not in the range 2..1440"),
        ("set gslb vserver www -backupVServer www", "backupVServer: the backup chain is a loop: www -> www"),
        (
            "set gslb vserver www-backup -backupVServer www",
            "backupVServer: the backup chain is a loop: www -> www-backup -> www",
        ),
        (
            "set gslb vserver www -skippersistency ReLb",
            "gslb vserver www: skippersistency is for the types ANY and UDP, not HTTP",
        ),
        (
            "set gslb vserver www-backup -soMethod CONNECTION",
            "gslb vserver www-backup: soMethod CONNECTION needs soThreshold",
        ),
        (
            "bind gslb vserver www -serviceName nowhere",
            "gslb vserver www: No such resource [serviceName, nowhere]",
        ),
        ("bind gslb vserver www -serviceName alias", "gslb vserver www: service alias has nothing of type A"),
        ("bind gslb vserver www -serviceName hk -weight 101", "weight: 101 is not in the range 1..100"),
        (
            "bind gslb vserver www -serviceName hk -domainName a.example.com",
            "domainName excludes serviceName",
        ),
        ("bind gslb vserver www", "argument is missing: what to bind"),
        ("unbind gslb vserver www -serviceName spare", "serviceName spare is not bound"),
        (
            "bind gslb vserver www-backup -domainName www.example.com",
            "gslb vserver www-backup: domainName www.example.com is bound to www already",
        ),
        ("add gslb service x 192.0.2.1 HTTP 80", "argument is missing [siteName]"),
        (
            "add gslb service x 192.0.2.1 HTTP 80 -siteName nowhere",
            "gslb service x: No such resource [siteName, nowhere]",
        ),
        ("add gslb service x 192.0.2.1 HTTP 80 extra -siteName hongkong", "extra argument [extra]"),
        ("add location 10.0.0.9 10.0.0.1 EU.DE", "IPfrom above IPto: 10.0.0.9 > 10.0.0.1"),
        ("add location 192.168.100.1 192.168.100.100 *.us.ca.san jose", "extra argument [jose]"),
        (
            "add dns action a9 GslbPrefLoc -preferredLocList A B C D E F G H I",
            "more than 8 preferred locations",
        ),
        ("add dns action a9 ViewName -preferredLocList A", "dns action a9: argument is missing [viewName]"),
        (
            "add dns policy p \"CLIENT.IP.SRC.EQ(nothing)\" drop",
            "rule: column 18: \"nothing\" is not an address",
        ),
        ("bind dns global unwanted 110", "priority 110 is taken by office"),
        ("rm dns action drop", "dns action drop is in use by dns policy unwanted"),
        (
            "add dns aRec www.example.com 192.0.2.1",
            "the zone example.com has a master file of its own; put the record there and reload",
        ),
        ("add gslb vserver \"a\tb\" HTTP", "name: invalid name [a\\tb]; allowed are 1 to 127 characters"),
        ("add gslb vserver 'open HTTP", "the quote ' in column 18 is not closed"),
        (
            "add spillover policy p -rule true -action a",
            "spillover by policy is not supported; use -soMethod and -soThreshold",
        ),
    ] {
        let mut session = session();
        let before = session.store().clone();
        assert_eq!(error(&session.run(command)), why, "{command}");
        assert!(*session.store() == before, "{command}");
        assert_eq!(session.output().unwrap().toml, example("complete.toml").0, "{command}");
    }
}

#[test]
fn words_may_be_cut_short_as_people_type_them() {
    let mut session = session();
    assert_eq!(session.run("dis gslb vs www").outcome, Outcome::Done);
    let www = |session: &Session| {
        session.store().get(Kind::Vserver, "www").unwrap().given("state").map(str::to_owned)
    };
    assert_eq!(www(&session).as_deref(), Some("DISABLED"));
    let reply = session.run("en gslb vserver www");
    assert_eq!((reply.outcome, www(&session)), (Outcome::Done, None));
    assert_eq!(
        reply.asked,
        Some(Asked { op: Op::Enable, kind: Kind::Vserver, name: Some("www".to_owned()) })
    );
    let reply = session.run("sh gslb vs");
    assert_eq!(reply.outcome, Outcome::Show);
    assert_eq!(reply.asked, Some(Asked { op: Op::Show, kind: Kind::Vserver, name: None }));
    for command in [
        "show locationParameter",
        "sh location",
        "show dns policy unwanted",
        "stat gslb vserver www -detail",
        "show gslb domain",
    ] {
        assert_eq!(session.run(command).outcome, Outcome::Show, "{command}");
    }
    for command in
        ["add vlan 5", "save ns config", "enable ns feature GSLB", "add lb policy p -rule true -action a"]
    {
        assert!(matches!(session.run(command).outcome, Outcome::Notice(_)), "{command}");
    }
    assert!(matches!(
        session.run("bind gslb vserver www -policyName P -priority 1").outcome,
        Outcome::Notice(_)
    ));
    assert_eq!(session.run("# a comment").outcome, Outcome::Nothing);
    assert_eq!(session.run("").outcome, Outcome::Nothing);
}

#[test]
fn a_range_of_names_is_several_objects() {
    let mut session = session();
    assert_eq!(session.run("add gslb vserver vs[1-3] HTTP -lbMethod ROUNDROBIN").outcome, Outcome::Done);
    assert_eq!(
        session.run("add gslb service s[1-3] 10.0.0.[1-3] HTTP 80 -siteName hongkong").outcome,
        Outcome::Done
    );
    assert_eq!(session.store().get(Kind::Service, "s2").unwrap().given("IPAddress"), Some("10.0.0.2"));
    assert_eq!(error(&session.run("rm gslb vserver vs[2-4]")), "No such resource [gslb vserver vs4]");
    assert!(session.store().get(Kind::Vserver, "vs2").is_some(), "all or nothing");
    assert_eq!(session.run("rm gslb vserver vs[1-3]").outcome, Outcome::Done);
    assert_eq!(session.output().unwrap().toml.matches("name = \"vs").count(), 0);
    assert_eq!(
        error(&session.run("add gslb vserver v[1-5000] HTTP")),
        "range [1-5000]: allowed are up to 1000 names"
    );
}

#[test]
fn rename_and_rm_take_references_along() {
    let scratch = tempfile::tempdir().unwrap();
    let mut session = imported("D.conf", scratch.path()).session;
    assert_eq!(session.run("rename gslb vserver vs_dr vs_rescue").outcome, Outcome::Done);
    assert_eq!(session.run("rename gslb service svc_nyc svc_ny").outcome, Outcome::Done);
    let prod = session.store().get(Kind::Vserver, "vs_prod").unwrap();
    assert_eq!(prod.given("backupVServer"), Some("vs_rescue"));
    let rescue = session.store().get(Kind::Vserver, "vs_rescue").unwrap();
    assert_eq!(rescue.bound[0].name, "svc_ny");
    assert_eq!(session.run("rm gslb vserver vs_rescue").outcome, Outcome::Done);
    assert_eq!(session.store().get(Kind::Vserver, "vs_prod").unwrap().given("backupVServer"), None);
    assert_eq!(session.run("rm gslb site site_fra").outcome, Outcome::Done);
    assert!(session.store().get(Kind::Service, "svc_fra").is_none(), "its services go with a site");
    let output = session.output().unwrap();
    config::parse(&output.toml, &scratch.path().join("responder.toml")).unwrap();
}

/// What the configuration says of an object beside NetScaler's options stays with it under its new name.
#[test]
fn a_renamed_object_keeps_its_row() {
    let mut session = session();
    for command in [
        "rename gslb service hk hongkong",
        "rename gslb vserver www shop",
        "rename gslb vserver lb-vserver lb",
    ] {
        assert_eq!(session.run(command).outcome, Outcome::Done, "{command}");
    }
    assert_eq!(
        error(&session.run("rename gslb vserver shop www-backup")),
        "Resource already exists [gslb vserver www-backup]"
    );
    let (text, path) = example("complete.toml");
    let output = session.output().unwrap().toml;
    let rows = |text: &str| {
        text.lines().filter(|line| line.starts_with("[[")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows(&output), rows(&text), "no row moved");
    let loaded = config::parse(&output, &path).unwrap();
    let service = loaded.model.service(loaded.model.service_named("hongkong").unwrap());
    assert_eq!(
        (service.addresses.len(), service.location.as_ref().unwrap().to_string().as_str()),
        (2, "Asia.HK")
    );
    assert_eq!(service.behind, loaded.model.vserver_named("lb"));
    let shop = loaded.model.vserver_named("shop").unwrap();
    assert_eq!(loaded.model.vserver(shop).types.len(), 2);
    assert!(loaded.model.domains.iter().all(|domain| domain.vserver == shop), "a list of names among them");
}

#[test]
fn records_come_and_go_with_their_zones() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("responder.toml");
    let mut session = Session::of("[listen]\naddresses = [\"127.0.0.1:53\"]\n", &path).unwrap();
    let mut run = |command: &str| {
        let reply = session.run(command);
        assert_eq!(reply.outcome, Outcome::Done, "{command}: {reply:?}");
        let output = session.output().unwrap();
        for (name, text) in &output.files {
            std::fs::write(scratch.path().join(name), text).unwrap();
        }
        config::parse(&output.toml, &path).unwrap();
        session = Session::of(&output.toml, &path).unwrap();
        output
    };
    let output = run("add dns soaRec Example.com -originServer ns1.example.com -contact admin@example.com");
    assert!(output.toml.contains("[[zone]]\nname = \"example.com\"\nsoa = { mname = \"ns1.example.com\", rname = \"admin.example.com\" }\n"));
    run("add dns nsRec example.com ns1.example.com");
    let output = run("add dns aRec ns1.example.com 192.0.2.53 192.0.2.54 -TTL 60");
    assert!(output.toml.contains("file = \"example.com.zone\""), "{}", output.toml);
    assert!(output.files[0].1.contains("ns1.example.com. 60 IN A 192.0.2.54\n"), "{}", output.files[0].1);
    run("add dns mxRec example.com -pref 10 -mx mail.example.com");
    run("add dns txtRec example.com \"v=spf1 \\\"-all\\\"\" 'two\\words'");
    let output = run("set dns aRec ns1.example.com -TTL 90");
    assert_eq!(output.files[0].1.matches(" 90 IN A ").count(), 2);
    run("rm dns aRec ns1.example.com 192.0.2.54");
    run("rm dns aRec ns1.example.com");
    run("rm dns mxRec example.com mail.example.com");
    let output = run("rm dns txtRec example.com");
    assert!(output.files.is_empty() && output.toml.contains("ns = [\"ns1.example.com\"]"), "{}", output.toml);
    run("rm dns nsRec example.com ns1.example.com");
    let output = run("rm dns soaRec example.com");
    assert_eq!(output.toml, "[listen]\naddresses = [\"127.0.0.1:53\"]\n");
}

/// What the source documents print, one command after the other, as in a terminal.
#[test]
fn the_commands_of_the_source_documents_work_as_printed() {
    for name in ["000.conf", "001.conf", "002.conf", "003.conf"] {
        let (text, _) = fragment(name);
        let mut session = Session::new(Path::new("responder.toml"));
        for line in text.lines() {
            let is_output = [" Done", "Done", "<!--", "mylbvserver", ". . .", "Skip Persistency", ">"]
                .iter()
                .any(|begin| line.starts_with(begin))
                && !line.starts_with("> ");
            if is_output {
                continue;
            }
            let reply = session.run(line);
            assert!(
                !matches!(reply.outcome, Outcome::Error(_) | Outcome::Notice(_)),
                "{name}: {line}: {reply:?}"
            );
            let is_damaged = line.contains('\\')
                || line.contains("vserver<")
                || line.starts_with("- ")
                || line.contains('|');
            let is_warned = reply.remarks.iter().any(|remark| remark.weight == Weight::Warning);
            assert!(is_warned || !is_damaged, "{line}: {reply:?}");
        }
    }
}

/// The fault: a record that made a zone a master file left the addresses of its name servers behind.
#[test]
fn a_zone_that_becomes_a_master_file_keeps_the_addresses_of_its_name_servers() {
    let mut session = session();
    let reply = session.run("add dns aRec foo.example.net 198.51.100.1");
    assert_eq!(reply.outcome, Outcome::Done, "{reply:?}");
    let output = session.output().unwrap();
    let (_, file) = output.files.iter().find(|(name, _)| name == "example.net.zone").expect("a master file");
    for line in ["ns1.example.net. IN A 192.0.2.53\n", "ns1.example.net. IN AAAA 2001:db8::53\n"] {
        assert!(file.contains(line), "{file}");
    }
    assert!(file.contains("foo.example.net. IN A 198.51.100.1\n"), "{file}");
}
