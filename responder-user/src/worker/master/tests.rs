use std::path::Path;

use super::*;

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn load(text: &str) -> Result<Contents, Vec<String>> {
    parse(text.as_bytes(), Path::new("example.zone"), &name("example.com"), &[])
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

const SOA: &str = "$TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n";

fn sets<'c>(contents: &'c Contents, owner: &str) -> &'c [RrSet] {
    &contents.names[name(owner).wire()]
}

#[test]
fn a_file_as_people_write_it() {
    let text = r#"
$ORIGIN example.com.
$TTL 1h ; an hour
@       IN SOA ns1.example.com. host\.master.example.com. (
              2024010101 ; serial
              1h 10m 1d
              1m )
        NS  ns1
        IN 600 NS ns2.example.net.
        MX  10 mail
        TXT "v=spf1 -all; \"x\"" second\ word \200
ns1     A   192.0.2.1
        AAAA 2001:db8::1
WWW 60  IN  A 192.0.2.3
www     IN 30 A 192.0.2.2
        A 192.0.2.3
$ORIGIN sub
alias   CNAME www.example.com.
here    CNAME @
x       TYPE65534 \# 3 0102 03
_s._tcp SRV 0 5 443 www.example.com.
@       CAA 0 issue "ca.example"
"#;
    let contents = load(text).unwrap();
    assert_eq!(contents.soa.serial, Some(2_024_010_101));
    assert_eq!((contents.soa.refresh, contents.soa.minimum, contents.soa.ttl), (3600, 60, 3600));
    assert_eq!(contents.soa.rname, name(r"host\.master.example.com"));
    let apex = sets(&contents, "example.com");
    assert_eq!(apex.iter().map(|s| (s.rtype, s.ttl)).collect::<Vec<_>>(), [(2, 600), (15, 3600), (16, 3600)]);
    assert_eq!(&*apex[0].records[1], name("ns2.example.net").wire());
    assert_eq!(&*apex[2].records[0], b"\x10v=spf1 -all; \"x\"\x0bsecond word\x01\xc8");
    let www = &sets(&contents, "www.example.com")[0];
    assert_eq!((www.ttl, &www.records[..]), (30, &[[192, 0, 2, 3].into(), [192, 0, 2, 2].into()][..]));
    assert_eq!(&*sets(&contents, "alias.sub.example.com")[0].records[0], name("www.example.com").wire());
    assert_eq!(&*sets(&contents, "here.sub.example.com")[0].records[0], name("sub.example.com").wire());
    assert_eq!(
        sets(&contents, "x.sub.example.com")[0],
        RrSet { rtype: 65534, ttl: 3600, records: vec![[1, 2, 3].into()] }
    );
    assert_eq!(sets(&contents, "_s._tcp.sub.example.com")[0].rtype, 33);
    assert_eq!(sets(&contents, "sub.example.com")[0].rtype, 257);
}

#[test]
fn every_problem_has_its_place() {
    let rows = [
        ("a A 192.0.2.300\n", "3:3: "),
        ("a A\n", "3:3: "),
        ("a A 192.0.2.1 192.0.2.2\n", "3:3: "),
        ("a FOO bar\n", "3:3: "),
        ("a CH TXT x\n", "3:3: class CH is not served, only IN"),
        ("a..b A 192.0.2.1\n", "3:1: \"a..b\" has an empty label"),
        ("a.example.net. A 192.0.2.1\n", "3:1: a.example.net lies outside the zone example.com"),
        ("*.a NS b\n", "3:1: *.a.example.com: a wildcard delegates nothing (RFC 4592 4.2)"),
        ("*.a DNAME b\n", "3:1: *.a.example.com: a wildcard has no DNAME (RFC 4592 4.4)"),
        ("a DNAME b\na DNAME c\n", "3:1: a.example.com has more than one DNAME (RFC 6672 2.4)"),
        ("a DNAME b\na NS c\n", "3:1: a.example.com has a DNAME and is delegated (RFC 6672 2.4)"),
        ("a DNAME b\na CNAME c\n", "4:1: a.example.com has a CNAME and other data (RFC 1034 3.6.2)"),
        (
            "a DNAME b\nx.y.a A 192.0.2.1\n",
            "4:1: x.y.a.example.com lies below the DNAME of a.example.com, which takes its place (RFC 6672 2.4)",
        ),
        (
            "@ DNAME b.test.\nx A 192.0.2.1\n",
            "4:1: x.example.com lies below the DNAME of example.com, which takes its place (RFC 6672 2.4)",
        ),
        ("a DS 1 13 2 00\n", "3:1: a.example.com has a DS and no NS: it is not delegated (RFC 4035 2.4)"),
        (
            "@ DS 1 13 2 00\n",
            "3:1: example.com: the DS of an apex stands in the zone above it (RFC 4035 2.4)",
        ),
        ("a SOA ns1 hm 1 2 3 4 5\n", "3:1: a.example.com: the SOA belongs to example.com"),
        ("@ SOA ns1 hm 1 2 3 4 5\n", "3:1: a second SOA"),
        ("a CNAME b\na A 192.0.2.1\n", "3:1: a.example.com has a CNAME and other data (RFC 1034 3.6.2)"),
        ("@ CNAME b\n", "3:1: example.com has a CNAME and other data (RFC 1034 3.6.2)"),
        ("a CNAME b\na CNAME c\n", "3:1: a.example.com has more than one CNAME (RFC 2181 10.1)"),
        ("a TXT \"open\n", "3:7: the quote is not closed in its line"),
        ("a TXT (\"x\"\n", "3:7: the parenthesis is not closed"),
        ("a TXT x)\n", "3:8: nothing to close here"),
        ("$FOO bar\n", "3:1: $FOO is not known"),
        ("$TTL\n", "3:1: $TTL wants a value"),
        ("$TTL x\n", "3:6: \"x\" is not a TTL"),
        ("a 3000000000 A 192.0.2.1\n", "3:1: a TTL of 3000000000 is above 2147483647 (RFC 2181 8)"),
        ("$INCLUDE missing.zone\n", "3:10: missing.zone cannot be read: "),
        ("a TYPE65534 \\# 2 01\n", "3:13: \"01\" is not 2 octets in hexadecimal"),
        ("a TXT \\300\n", "3:3: \"\\\\300\" has a bad escape"),
        ("a RRSIG \\# 1 00\n", "3:1: a.example.com: signed zones are not served yet"),
        ("a TYPE41 \\# 0\n", "3:1: type 41 is no data"),
        ("a 60\n", "3:1: the record has no type"),
    ];
    for (text, wanted) in rows {
        let problems = load(&format!("{SOA}{text}")).unwrap_err();
        let wanted = format!("example.zone:{wanted}");
        assert!(problems.iter().any(|p| p.starts_with(&wanted)), "{text:?}: {problems:?}");
    }
}

#[test]
fn problems_are_listed_together() {
    let problems = load(" A 192.0.2.1\na A 1\nb A 2\nc 5 A 192.0.2.1\n").unwrap_err();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert_eq!(problems[0], "example.zone:1:2: the record has no owner, and none stands before it");
    assert_eq!(problems[3], "example.zone:1:1: there is no SOA of example.com");
    assert_eq!(load("a A 192.0.2.1\n").unwrap_err().len(), 2);
    assert!(load("\u{0}\u{1}\n\"").is_err());
    let latin = parse(b"\n\xff", Path::new("z"), &name("example.com"), &[]).unwrap_err();
    assert_eq!(latin[0].to_string(), "z:2:1: is not UTF-8 text");
}

#[test]
fn files_may_include_others() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("inner"), "$ORIGIN deep\nb A 192.0.2.1\n").unwrap();
    std::fs::write(folder.path().join("loop"), "$INCLUDE loop\n").unwrap();
    let text = format!("{SOA}$INCLUDE inner sub\na A 192.0.2.2\n");
    let contents = parse(text.as_bytes(), &folder.path().join("z"), &name("example.com"), &[]).unwrap();
    assert!(contents.names.contains_key(name("b.deep.sub.example.com").wire()));
    assert!(contents.names.contains_key(name("a.example.com").wire()));
    let text = format!("{SOA}$INCLUDE loop\n");
    let problems = parse(text.as_bytes(), &folder.path().join("z"), &name("example.com"), &[]).unwrap_err();
    assert!(problems[0].message.contains("files inside each other"));
}

#[test]
fn what_a_delegation_takes_out_of_the_zone_is_told_and_left_out() {
    let text = format!(
        "{SOA}sub NS ns.sub\nsub NS lost.sub\nsub DS 1 13 2 00\nsub TXT x\nns.sub A 192.0.2.1\nns.sub TXT y\n\
         deep.sub NS ns.deep.sub\nns.deep.sub A 192.0.2.2\n"
    );
    let contents = load(&text).unwrap();
    let types = |owner| sets(&contents, owner).iter().map(|set| set.rtype).collect::<Vec<_>>();
    assert_eq!(types("sub.example.com"), [2, 43]);
    assert_eq!((types("ns.sub.example.com"), types("deep.sub.example.com")), (vec![1], vec![]));
    assert_eq!(types("ns.deep.sub.example.com"), [1], "an address may be glue");
    let warnings: Vec<String> = contents.warnings.iter().map(ToString::to_string).collect();
    let unused = "of type 16 are not in the zone, and are not used";
    assert_eq!(
        warnings,
        [
            "example.zone:3:1: sub.example.com is delegated to lost.sub.example.com, which lies in it and has no address here".to_owned(),
            format!("example.zone:6:1: sub.example.com is delegated: its records {unused}"),
            format!("example.zone:8:1: ns.sub.example.com is delegated with sub.example.com: its records {unused}"),
            "example.zone:9:1: deep.sub.example.com is delegated with sub.example.com: its records of type 2 are not in the \
             zone, and are not used".to_owned(),
        ]
    );
}

#[test]
fn a_child_zone_of_ours_keeps_its_own_records() {
    let child = name("sub.example.com");
    let text = format!("{SOA}sub NS ns.sub\nns.sub A 192.0.2.1\n");
    let load = |text: &str| parse(text.as_bytes(), Path::new("z"), &name("example.com"), &[&child]);
    assert!(load(&text).unwrap().names.is_empty());
    let signed = load(&format!("{text}sub DS 1 13 2 00\n")).unwrap();
    assert_eq!(sets(&signed, "sub.example.com")[0].rtype, 43, "the DS is the zone's above");
    assert!(load(&format!("{text}x.sub TXT y\n")).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-c@ \t\n\"();\\\\0-9.$*A-Z#]{0,120}") {
        let _ = load(&text);
        let _ = load(&format!("{SOA}{text}"));
    }

    #[test]
    fn no_octets_panic(octets: Vec<u8>) {
        let _ = parse(&octets, Path::new("z"), &name("example.com"), &[]);
    }
}
