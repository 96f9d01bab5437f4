//! RFC 4592 (wildcards), RFC 1034 4.3.2 (referrals), RFC 6672 (DNAME), and GSLB names among them.

use std::fmt::Write as _;

use responder_common::{layout::NAME_ZONE_DATA, lookup::World};
use responder_user::worker::{Transport, Zones, testing};

use crate::bed::{Bed, model, name};

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const DNAME: u16 = 39;
const DS: u16 = 43;
const ANY: u16 = 255;

const NOERROR: u16 = 0;
const NXDOMAIN: u16 = 3;
const YXDOMAIN: u16 = 6;

/// The zone of RFC 4592 2.2.1, with a few names more.
const ZONE: &str = r#"
$TTL 3600
@           SOA   ns hostmaster 7 3600 600 86400 60
@           NS    ns
@           NS    ns.example.org.
ns          A     192.0.2.53
ns          AAAA  2001:db8::53
*           TXT   "this is a wildcard"
*           MX    10 host1
sub.*       TXT   "this is not a wildcard"
host1       A     192.0.2.1
_ssh._tcp.host1 SRV 0 0 22 host1
_ssh._tcp.host2 SRV 0 0 22 host1
_ssh._tcp.host2 SRV 0 1 22 host.subdel
subdel      NS    ns.subdel
subdel      NS    ns.example.org.
subdel      NS    host1
ns.subdel   A     192.0.2.54
ns.subdel   AAAA  2001:db8::54
host.subdel A     192.0.2.55
signed      NS    ns.example.org.
signed      DS    1 13 2 00ff
*.a         CNAME host1
*.b         CNAME x.a
*.c         CNAME c.c
*.d         CNAME ns.subdel
x.y.*.e     A     192.0.2.9
*.gslb      A     192.0.2.66
*.gslb      MX    10 host1
short       DNAME host1
short       A     192.0.2.77
away        DNAME example.org.
chain       DNAME hop
hop         DNAME a
long        DNAME llllllllllllllllllllllllllllllllllllllllllllllllllllllllllll.llllllllllllllllllllllllllllllllllllllllllllllllllllllllllll.llllllllllllllllllllllllllllllllllllllllllllllllllllllllllll
todeleg     CNAME x.subdel
"#;

const SOA: &str = "example. 60 in soa ns.example. hostmaster.example. 7 3600 600 86400 60";
const GSLB: [&str; 3] = ["www.gslb.example", "deep.in.gslb.example", "host3.example"];

fn bed() -> Bed {
    Bed::new(&[("example", ZONE)], &GSLB)
}

/// Name, type, response code, answers, authorities, additionals; AA is set but for a referral.
type Row<'a> = (&'a str, u16, u16, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

fn run(bed: &Bed, rows: &[Row<'_>]) {
    for (name, rtype, rcode, answers, authorities, additionals) in rows {
        let got = bed.get(name, *rtype);
        let what = format!("{name} {rtype}: {got:?}");
        let is_referral =
            answers.is_empty() && authorities.first().is_some_and(|line| line.contains(" in ns "));
        assert_eq!((got.rcode, got.is_authoritative), (*rcode, !is_referral), "{what}");
        assert_eq!(got.answers, *answers, "{what}");
        assert_eq!(got.authorities, *authorities, "{what}");
        assert_eq!(got.additionals, *additionals, "{what}");
    }
}

#[test]
fn wildcards_stand_for_what_does_not_exist() {
    let host1 = &["host1.example. 3600 in a 192.0.2.1"][..];
    run(
        &bed(),
        &[
            // The examples of RFC 4592 2.2.1, in their order.
            ("host3.example", MX, NOERROR, &[], &[SOA], &[]),
            ("host4.example", MX, NOERROR, &["host4.example. 3600 in mx 10 host1.example."], &[], host1),
            ("host4.example", A, NOERROR, &[], &[SOA], &[]),
            ("foo.bar.example", TXT, NOERROR, &["foo.bar.example. 3600 in txt this is a wildcard"], &[], &[]),
            ("host1.example", MX, NOERROR, &[], &[SOA], &[]),
            ("sub.*.example", MX, NOERROR, &[], &[SOA], &[]),
            ("_telnet._tcp.host1.example", SRV, NXDOMAIN, &[], &[SOA], &[]),
            (
                "host.subdel.example",
                A,
                NOERROR,
                &[],
                &[
                    "subdel.example. 3600 in ns host1.example.",
                    "subdel.example. 3600 in ns ns.example.org.",
                    "subdel.example. 3600 in ns ns.subdel.example.",
                ],
                &[
                    "host1.example. 3600 in a 192.0.2.1",
                    "ns.subdel.example. 3600 in a 192.0.2.54",
                    "ns.subdel.example. 3600 in aaaa 2001:db8::54",
                ],
            ),
            ("ghost.*.example", MX, NXDOMAIN, &[], &[SOA], &[]),
            // A wildcard is a name like any other.
            ("*.example", MX, NOERROR, &["*.example. 3600 in mx 10 host1.example."], &[], host1),
            ("*.example", A, NOERROR, &[], &[SOA], &[]),
            ("host4.example", ANY, NOERROR, &["host4.example. 3600 in hinfo rfc8482 "], &[], &[]),
            // Empty non-terminals exist, and are closest enclosers without a wildcard.
            ("_tcp.host1.example", MX, NOERROR, &[], &[SOA], &[]),
            ("y.*.e.example", TXT, NOERROR, &[], &[SOA], &[]),
            ("z.y.*.e.example", TXT, NXDOMAIN, &[], &[SOA], &[]),
            // A wildcard may be an empty non-terminal itself.
            ("q.e.example", TXT, NOERROR, &[], &[SOA], &[]),
            ("q.e.example", ANY, NOERROR, &[], &[SOA], &[]),
            ("e.example", ANY, NOERROR, &[], &[SOA], &[]),
        ],
    );
}

#[test]
fn a_wildcard_may_be_an_alias() {
    run(
        &bed(),
        &[
            (
                "q.a.example",
                A,
                NOERROR,
                &["host1.example. 3600 in a 192.0.2.1", "q.a.example. 3600 in cname host1.example."],
                &[],
                &[],
            ),
            ("q.a.example", CNAME, NOERROR, &["q.a.example. 3600 in cname host1.example."], &[], &[]),
            ("q.a.example", ANY, NOERROR, &["q.a.example. 3600 in cname host1.example."], &[], &[]),
            ("q.r.a.example", TXT, NOERROR, &["q.r.a.example. 3600 in cname host1.example."], &[SOA], &[]),
            (
                "q.b.example",
                A,
                NOERROR,
                &[
                    "host1.example. 3600 in a 192.0.2.1",
                    "q.b.example. 3600 in cname x.a.example.",
                    "x.a.example. 3600 in cname host1.example.",
                ],
                &[],
                &[],
            ),
            // A ring through a wildcard: each alias once.
            (
                "q.c.example",
                A,
                NOERROR,
                &["c.c.example. 3600 in cname c.c.example.", "q.c.example. 3600 in cname c.c.example."],
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn what_is_delegated_is_a_referral() {
    let signed = &["signed.example. 3600 in ns ns.example.org."][..];
    let subdel = &[
        "subdel.example. 3600 in ns host1.example.",
        "subdel.example. 3600 in ns ns.example.org.",
        "subdel.example. 3600 in ns ns.subdel.example.",
    ][..];
    let glue = &[
        "host1.example. 3600 in a 192.0.2.1",
        "ns.subdel.example. 3600 in a 192.0.2.54",
        "ns.subdel.example. 3600 in aaaa 2001:db8::54",
    ][..];
    let bed = bed();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for rtype in [A, NS, CNAME, 6, MX, TXT, AAAA, ANY, 65] {
        rows.push(("subdel.example", rtype, NOERROR, &[], subdel, glue));
        rows.push(("ns.subdel.example", rtype, NOERROR, &[], subdel, glue));
        rows.push(("x.y.subdel.example", rtype, NOERROR, &[], subdel, glue));
        rows.push(("x.signed.example", rtype, NOERROR, &[], signed, &[]));
    }
    // DS is the data of the zone above (RFC 4035 3.1.4.1).
    rows.push(("subdel.example", DS, NOERROR, &[], &[SOA], &[]));
    rows.push(("x.subdel.example", DS, NOERROR, &[], subdel, glue));
    // An alias into it: AA goes with the first owner.
    let alias = &["todeleg.example. 3600 in cname x.subdel.example."][..];
    rows.push(("todeleg.example", A, NOERROR, alias, subdel, glue));
    let got = bed.get("signed.example", DS);
    assert_eq!((got.rcode, got.is_authoritative, got.answers.len()), (NOERROR, true, 1), "{got:?}");
    run(&bed, &rows);
    // Addresses of a host in a delegated part are not the zone's to tell beside an answer.
    let got = bed.get("_ssh._tcp.host2.example", SRV);
    assert_eq!(
        (got.answers.len(), got.additionals),
        (2, vec!["host1.example. 3600 in a 192.0.2.1".to_owned()])
    );
}

#[test]
fn a_referral_without_room_for_its_glue_is_truncated() {
    let mut zone = "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for i in 0..12 {
        let _ = writeln!(zone, "in NS ns{i}.in\nns{i}.in AAAA 2001:db8::{i}");
        let _ = writeln!(zone, "out NS ns{i}.beside\nns{i}.beside AAAA 2001:db8::{i}");
    }
    let bed = Bed::new(&[("example", &zone)], &[]);
    let ask = |name| bed.ask(&testing::query(name, A, None), Transport::Udp);
    // RFC 9471 3.1: in-domain glue is not left out.
    let inside = ask("x.in.example");
    assert_eq!(inside[2..12], [0x83, 0, 0, 1, 0, 0, 0, 0, 0, 0], "TC, no AA, nothing else");
    let beside = ask("x.out.example");
    assert_eq!(beside[2..10], [0x81, 0, 0, 1, 0, 0, 0, 12]);
    assert!((1..12).contains(&beside[11]), "some addresses beside the part: {}", beside[11]);
}

#[test]
fn what_lies_below_a_dname_moved() {
    let short = "short.example. 3600 in dname host1.example.";
    run(
        &bed(),
        &[
            ("short.example", A, NOERROR, &["short.example. 3600 in a 192.0.2.77"], &[], &[]),
            ("short.example", DNAME, NOERROR, &[short], &[], &[]),
            ("short.example", TXT, NOERROR, &[], &[SOA], &[]),
            ("short.example", ANY, NOERROR, &["short.example. 3600 in hinfo rfc8482 "], &[], &[]),
            (
                "_ssh._tcp.short.example",
                SRV,
                NOERROR,
                &[
                    "_ssh._tcp.host1.example. 3600 in srv 0 0 22 host1.example.",
                    "_ssh._tcp.short.example. 3600 in cname _ssh._tcp.host1.example.",
                    short,
                ],
                &[],
                &["host1.example. 3600 in a 192.0.2.1"],
            ),
            (
                "x.short.example",
                A,
                NXDOMAIN,
                &[short, "x.short.example. 3600 in cname x.host1.example."],
                &[SOA],
                &[],
            ),
            (
                "a.b.away.example",
                A,
                NOERROR,
                &[
                    "a.b.away.example. 3600 in cname a.b.example.org.",
                    "away.example. 3600 in dname example.org.",
                ],
                &[],
                &[],
            ),
            // Two of them, then a wildcard alias.
            (
                "x.chain.example",
                A,
                NOERROR,
                &[
                    "chain.example. 3600 in dname hop.example.",
                    "hop.example. 3600 in dname a.example.",
                    "host1.example. 3600 in a 192.0.2.1",
                    "x.a.example. 3600 in cname host1.example.",
                    "x.chain.example. 3600 in cname x.hop.example.",
                    "x.hop.example. 3600 in cname x.a.example.",
                ],
                &[],
                &[],
            ),
        ],
    );
    let bed = bed();
    let label = "x".repeat(63);
    let fits = bed.get("x.long.example", A);
    assert_eq!((fits.rcode, fits.answers.len()), (NOERROR, 2), "the wildcard of the apex stands for its end");
    let too_long = bed.get(&format!("{label}.long.example"), A);
    assert_eq!((too_long.rcode, too_long.is_authoritative), (YXDOMAIN, true));
    assert_eq!((too_long.answers.len(), too_long.authorities.len()), (1, 0), "the DNAME alone: {too_long:?}");
}

#[test]
fn gslb_names_win_over_wildcards() {
    run(
        &bed(),
        &[
            ("www.gslb.example", A, NOERROR, &["www.gslb.example. 5 in a 192.0.2.80"], &[], &[]),
            ("www.gslb.example", MX, NOERROR, &[], &[SOA], &[]),
            ("other.gslb.example", A, NOERROR, &["other.gslb.example. 3600 in a 192.0.2.66"], &[], &[]),
            // A GSLB name is a closest encloser, and so is what lies above it.
            ("x.www.gslb.example", A, NXDOMAIN, &[], &[SOA], &[]),
            ("in.gslb.example", A, NOERROR, &[], &[SOA], &[]),
            ("x.in.gslb.example", A, NXDOMAIN, &[], &[SOA], &[]),
            ("x.host3.example", MX, NXDOMAIN, &[], &[SOA], &[]),
        ],
    );
}

#[test]
fn a_zone_with_wildcards_dname_or_delegations_is_never_complete() {
    let head = "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns.example.org.\nx A 192.0.2.1\n";
    let complete = |more: &str| {
        let bed = Bed::new(&[("example", &format!("{head}{more}"))], &["www.example"]);
        let slot = bed.compiled.names.fast.iter().find(|(n, _)| *n == name("www.example")).unwrap().1.soa;
        let listed = bed.compiled.complete.contains(&slot);
        assert_eq!(bed.writer.reader(1).is_complete(slot), listed);
        let has_data = bed.compiled.names.fast.iter().any(|(_, entry)| entry.more & NAME_ZONE_DATA != 0);
        assert_eq!(listed, has_data);
        listed
    };
    assert!(complete(""));
    for more in ["* A 192.0.2.2", "a.*.b A 192.0.2.2", "d DNAME x", "sub NS ns.example.org."] {
        assert!(!complete(more), "{more}");
    }
}

#[test]
fn a_gslb_name_that_nobody_would_reach_is_refused_with_its_place() {
    let zone =
        "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns.example.org.\nsub NS ns.example.org.\nd DNAME x\n";
    let refused = |zone: &str, gslb: &[&str]| -> Vec<String> {
        let (model, _files) = model(&[("example", zone)], gslb);
        Zones::load(&model).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    for (gslb, line, what) in [
        ("sub.example", 4, "delegates sub.example"),
        ("a.b.sub.example", 4, "delegates sub.example"),
        ("x.d.example", 5, "has a DNAME at d.example"),
    ] {
        let [problem] = &refused(zone, &[gslb, "www.example"])[..] else { panic!("{gslb}") };
        let said = format!(":{line}:1: {gslb} is bound to a vserver, but the zone example {what}");
        assert!(problem.ends_with(&said), "{problem}");
    }
    // The owner of a DNAME keeps its other data.
    assert!(refused(zone, &["d.example", "www.example", "example"]).is_empty());
    let whole = "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns.example.org.\n@ DNAME x.test.\n";
    assert!(refused(whole, &["example"]).is_empty());
    let [problem] = &refused(whole, &["www.example"])[..] else { panic!() };
    assert!(
        problem.ends_with(
            ":4:1: www.example is bound to a vserver, but the zone example has a DNAME at example"
        )
    );
}

#[test]
fn a_wildcard_ends_at_a_zone_of_ours() {
    let soa = "$TTL 60\n@ SOA ns h 7 3600 600 86400 60\n@ NS ns.example.org.\n";
    let parent = format!("{soa}* A 192.0.2.1\nchild NS ns.example.org.\nchild DS 1 13 2 00\n");
    let child = format!("{soa}x A 192.0.2.2\n");
    let bed = Bed::new(&[("example", &parent), ("child.example", &child)], &["child.example"]);
    let soa = "child.example. 60 in soa ns.child.example. h.child.example. 7 3600 600 86400 60";
    run(
        &bed,
        &[
            ("y.example", A, NOERROR, &["y.example. 60 in a 192.0.2.1"], &[], &[]),
            ("y.child.example", A, NXDOMAIN, &[], &[soa], &[]),
            ("child.example", A, NOERROR, &["child.example. 5 in a 192.0.2.80"], &[], &[]),
            ("child.example", TXT, NOERROR, &[], &[soa], &[]),
        ],
    );
    let ds = bed.get("child.example", DS);
    assert_eq!((ds.rcode, ds.answers.len()), (NOERROR, 1), "the zone above has it: {ds:?}");
}
