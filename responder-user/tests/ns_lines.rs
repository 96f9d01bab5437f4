//! Whatever is typed at `ns`: the daemon answers and lives, and what comes of it is a configuration or a refusal.

use std::path::Path;

use proptest::{prelude::*, sample::select};
use responder_user::config::{
    self,
    import::{Outcome, Session},
};

const TEXT: &str = include_str!("control/ns.toml");

const WORDS: &[&str] = &[
    "add",
    "set",
    "unset",
    "bind",
    "unbind",
    "rm",
    "enable",
    "disable",
    "rename",
    "show",
    "stat",
    "clear",
    "link",
    "gslb",
    "dns",
    "lb",
    "ns",
    "server",
    "location",
    "locationFile",
    "locationParameter",
    "locationData",
    "service",
    "vserver",
    "site",
    "domain",
    "policy",
    "action",
    "global",
    "view",
    "policylabel",
    "monitor",
    "metricTable",
    "aRec",
    "soaRec",
    "txtRec",
    "cnameRec",
    "parameter",
    "profile",
    "www",
    "hk",
    "uk",
    "spare",
    "dr",
    "tcp",
    "busy",
    "london",
    "prefLoc11",
    "actInside",
    "polInside",
    "inside",
    "new",
    "HTTP",
    "SSL",
    "ANY",
    "LOCAL",
    "GslbPrefLoc",
    "Drop",
    "www.example.com",
    "192.0.2.1",
    "10.0.0.0",
    "10.255.255.255",
    "2001:db8::1",
    "*",
    "80",
    "1",
    "0",
    "-1",
    "*.ZMB",
    "-MIR",
    "-ECS",
    "-lbMethod",
    "-serviceName",
    "-domainName",
    "-policyName",
    "-monitorName",
    "-viewName",
    "-weight",
    "-TTL",
    "-siteName",
    "-backupVServer",
    "-backupIP",
    "-priority",
    "-type",
    "-gotoPriorityExpression",
    "-state",
    "-longitude",
    "-latitude",
    "-preferredLocList",
    "-persistenceType",
    "-soMethod",
    "-soThreshold",
    "-publicIP",
    "-metric",
    "-invoke",
    "-format",
    "-context",
    "-matchWildcardtoany",
    "ENABLED",
    "DISABLED",
    "ROUNDROBIN",
    "SOURCEIP",
    "HEALTH",
    "YES",
    "custom",
    "REQUEST",
    "END",
    "-",
    "#",
    "\"",
    "'a b'",
    "\"x\\\"y\"",
    "q/z/",
    "vs[1-3]",
    "<x>",
    "(",
    ")",
    "vserver<www>",
    "é",
    "--",
    "\\*\\*ENABLED\\*\\*",
];

const HEADS: &[&str] = &[
    "add gslb vserver new HTTP",
    "set gslb vserver www",
    "unset gslb vserver www",
    "bind gslb vserver www",
    "unbind gslb vserver www",
    "rm gslb vserver",
    "rename gslb vserver www",
    "set gslb vserver dr",
    "bind gslb vserver dr",
    "add gslb service new 192.0.2.9 HTTP 80 -siteName london",
    "set gslb service hk",
    "unset gslb service hk",
    "bind gslb service hk",
    "unbind gslb service hk",
    "rm gslb service",
    "rename gslb service uk",
    "add gslb site",
    "set gslb site london",
    "rm gslb site",
    "add dns action new",
    "set dns action prefLoc11",
    "rm dns action",
    "add dns policy new true",
    "set dns policy polInside",
    "rm dns policy",
    "bind dns global loose",
    "unbind dns global",
    "add location",
    "rm location",
    "set locationParameter",
    "add lb monitor new",
    "set lb monitor tcp",
    "bind lb monitor busy",
    "rm lb monitor",
    "add lb vserver new",
    "set lb vserver kept",
    "add dns aRec",
    "add dns soaRec",
    "add server new",
    "show",
    "stat",
    "clear",
    "",
    "add",
    "set gslb",
    "bind gslb vserver",
];

/// Every run of the suite tries a few; `--full` many.
fn cases() -> u32 {
    if std::env::var_os("RESPONDER_FULL").is_some_and(|value| value != "0") { 2_000 } else { 30 }
}

fn line() -> impl Strategy<Value = String> {
    (select(HEADS), prop::collection::vec(select(WORDS), 0..6))
        .prop_map(|(head, words)| format!("{head} {}", words.join(" ")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_line_ends_the_daemon(lines in prop::collection::vec(line(), 1..6)) {
        let path = Path::new("ns.toml");
        let mut text = TEXT.to_owned();
        for line in lines {
            let mut session = Session::of(&text, path).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let reply = session.run(&line);
            if reply.outcome != Outcome::Done {
                continue;
            }
            let output = session.output().unwrap_or_else(|error| panic!("{line}: {error}"));
            // What cannot run is refused as a whole, and the text before it goes on.
            if config::parse(&output.toml, path).is_ok() {
                text = output.toml;
            }
        }
    }
}
