//! What workers answer: every shape of a bad query octet by octet, zones, and properties that hold for any input.

use std::{
    collections::{HashMap, HashSet},
    io::Write,
    net::SocketAddr,
    sync::Arc,
};

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{RData, RecordType as T},
};
use proptest::prelude::*;
use responder_common::layout::{NAME_CLASSED_A, REFERENCE_NONE, REFERENCE_WORKER, SET_EXTRAS_OPTIONAL};
use responder_user::{
    model::{self, DnsName, Domain, Model, RecordType, VserverId, zone::Soa},
    worker::{
        Names, Transport, Zones,
        testing::{Addresses, MemoryWorld, ask, query, query_of},
    },
};

const ZONE: &str = r#"
$TTL 300
@       SOA ns1 hostmaster 42 3600 600 86400 60
@       NS  ns1
@       NS  ns2.example.org.
@       MX  10 mail
@       TXT "hello"
ns1     A   192.0.2.53
ns1     AAAA 2001:db8::53
mail    A   192.0.2.25
alias   CNAME www
far     CNAME www.example.org.
deep    CNAME alias
gone    CNAME missing
noaaaa  CNAME only4
ring    CNAME gnir
gnir    CNAME ring
wait    CNAME pending
a.b.c   A   192.0.2.7
www     TXT "beside the addresses"
mixed   AAAA 2001:db8::99
big     TXT ( "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
              "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
              "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
              "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
              "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee" )
"#;

struct Fixture {
    world: MemoryWorld,
    names: Names,
}

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn long_name() -> DnsName {
    name(&format!("{0}.{0}.example.com", "x".repeat(60)))
}

/// A zone with a master file, one without, GSLB names in both and in none.
fn fixture() -> Fixture {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ZONE.as_bytes()).unwrap();
    let com = name("example.com");
    let bare = name("bare.test");
    let soa = Soa::default_for(&com);
    let mut zones = vec![
        model::Zone {
            apex: com.clone(),
            file: Some(file.path().into()),
            soa: soa.clone(),
            ns: vec![],
            ns_addresses: vec![],
        },
        model::Zone {
            apex: bare.clone(),
            file: None,
            soa: Soa::default_for(&bare),
            ns: vec![name("ns1.bare.test"), name("ns.example.org")],
            ns_addresses: vec![
                (name("ns1.bare.test"), "192.0.2.77".parse().unwrap()),
                (name("ns1.bare.test"), "2001:db8::77".parse().unwrap()),
            ],
        },
    ];
    let child = name("child.bare.test");
    zones.push(model::Zone {
        apex: child.clone(),
        file: None,
        soa: Soa::default_for(&child),
        ns: vec![],
        ns_addresses: vec![],
    });
    let vserver = model::Vserver {
        name: "v".into(),
        types: vec![RecordType::A, RecordType::Aaaa],
        ..model::Vserver::default()
    };
    let gslb = [
        "www.example.com",
        "only4.example.com",
        "pending.example.com",
        "later.example.com",
        "mixed.example.com",
        "pool.example.com",
        "many.example.com",
        "classed.example.com",
        "x.y.example.com",
        "www.bare.test",
        "own.test",
        "a.b.own.test",
        "soon.test",
    ];
    let domain =
        |n: DnsName| Domain { name: n, vserver: VserverId(0), ttl: 5, backup_ip: Arc::from(Vec::new()) };
    let mut domains: Vec<Domain> = gslb.iter().map(|n| domain(name(n))).collect();
    domains.push(domain(long_name()));
    let model = Model { zones, vservers: vec![vserver], domains, ..Default::default() };
    let zones = Zones::load(&model).unwrap();
    let com_soa = zones.zone(&com).unwrap().soa().clone();

    let mut world = MemoryWorld::default();
    let soa = world.add_soa(&com_soa, &com);
    let two = [[198, 51, 100, 1], [198, 51, 100, 2]];
    let six = ["2001:db8::1".parse().unwrap()];
    let entry = |world: &mut MemoryWorld, n: &str, refs| {
        let mut entry = MemoryWorld::entry_of(&name(n), &com, soa, 5, refs);
        if zones.has_other_types(&name(n)) {
            entry.flags |= responder_common::layout::NAME_OTHER_TYPES;
        }
        world.add_entry(&name(n), entry);
    };
    let set4 = world.add_set(&Addresses::V4(&two));
    let set6 = world.add_set(&Addresses::V6(&six));
    let refs = [world.add_references(&[set4]), world.add_references(&[set6])];
    entry(&mut world, "www.example.com", refs);
    let refs = [world.add_references(&[set4]), REFERENCE_NONE];
    entry(&mut world, "only4.example.com", refs);
    entry(&mut world, "x.y.example.com", refs);
    let refs = [world.add_references(&[0]), REFERENCE_NONE];
    entry(&mut world, "pending.example.com", refs);
    let refs = [world.add_references(&[set4]), REFERENCE_WORKER];
    assert!(zones.has_type(&name("mixed.example.com"), 28));
    entry(&mut world, "mixed.example.com", refs);
    let all: Vec<[u8; 4]> = (0..64).map(|i| [203, 0, 113, i]).collect();
    let pool = world.add_set(&Addresses::V4(&all));
    let set = world.set_mut(pool);
    (set.rotate, set.flags) = (1, SET_EXTRAS_OPTIONAL);
    let refs = [world.add_references(&[pool]), REFERENCE_NONE];
    entry(&mut world, "pool.example.com", refs);
    let many = world.add_set(&Addresses::V4(&all));
    let refs = [world.add_references(&[many]), REFERENCE_NONE];
    entry(&mut world, "many.example.com", refs);
    let other = world.add_set(&Addresses::V4(&[[203, 0, 113, 200]]));
    let refs = [world.add_references(&[set4, other]), REFERENCE_NONE];
    let mut classed = MemoryWorld::entry_of(&name("classed.example.com"), &com, soa, 5, refs);
    classed.flags |= NAME_CLASSED_A;
    world.add_entry(&name("classed.example.com"), classed);
    world.set_class4([192, 0, 2, 0], 1);
    world.set_class6("2001:db8:1::".parse().unwrap(), 48, 1);
    world.add_name("www.bare.test", "bare.test", 5, &two, &[]);
    world.add_name("own.test", "own.test", 5, &two, &[]);
    world.add_name("a.b.own.test", "a.b.own.test", 5, &two, &[]);
    world.set_generation(77);

    let long = MemoryWorld::entry_of(&long_name(), &com, soa, 5, [refs[0], REFERENCE_NONE]);
    let names = Names {
        long: Arc::new(HashMap::from([(long_name().wire().into(), long)])),
        undecided: Arc::new(HashSet::from([
            name("later.example.com").wire().into(),
            name("soon.test").wire().into(),
        ])),
        zones: Arc::new(zones),
        ..Names::default()
    };
    Fixture { world, names }
}

fn client() -> SocketAddr {
    "198.51.100.77:40000".parse().unwrap()
}

impl Fixture {
    fn udp(&self, message: &[u8]) -> Option<Vec<u8>> {
        ask(message, Transport::Udp, client(), &self.world, &self.names)
    }

    fn tcp(&self, message: &[u8]) -> Option<Vec<u8>> {
        ask(message, Transport::Tcp, client(), &self.world, &self.names)
    }

    fn get(&self, name: &str, rtype: u16) -> Message {
        Message::from_vec(&self.udp(&query(name, rtype, Some((1232, false)))).unwrap()).unwrap()
    }

    /// Answers as text, in the order of the message.
    fn lines(&self, name: &str, rtype: u16) -> (ResponseCode, Vec<String>, Vec<String>, Vec<String>) {
        let message = self.get(name, rtype);
        assert!(
            message.metadata.authoritative || !matches!(u16::from(message.metadata.response_code), 0 | 3)
        );
        let text = |records: &[hickory_proto::rr::Record]| records.iter().map(ToString::to_string).collect();
        (
            message.metadata.response_code,
            text(&message.answers),
            text(&message.authorities),
            text(&message.additionals),
        )
    }
}

/// What a bad query gets: nothing, or third and fourth octet, whether the question stands in it, and OPT as
/// (extended code, DO).
type Wanted = Option<([u8; 2], bool, Option<(u8, bool)>)>;

fn expected(message: &[u8], question_end: usize, wanted: Wanted) -> Option<Vec<u8>> {
    let (flags, has_question, opt) = wanted?;
    let mut out = vec![message[0], message[1], flags[0], flags[1], 0, u8::from(has_question)];
    out.extend([0, 0, 0, 0, 0, u8::from(opt.is_some())]);
    if has_question {
        out.extend(&message[12..question_end]);
    }
    if let Some((extended, dnssec_ok)) = opt {
        out.extend([0, 0, 41, 0x04, 0xd0, extended, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
    }
    Some(out)
}

fn with(mut message: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (at, octet) in changes {
        message[*at] = *octet;
    }
    message
}

fn plus(mut message: Vec<u8>, tail: &[u8]) -> Vec<u8> {
    message.extend(tail);
    message
}

const FORMERR: [u8; 2] = [0x81, 1];
const NOTIMP: [u8; 2] = [0x81, 4];
const REFUSED: [u8; 2] = [0x81, 5];
const OPT: [u8; 11] = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];

fn bad_queries() -> Vec<(&'static str, Vec<u8>, Wanted)> {
    let q = || query("www.example.com", 1, None);
    let e = || query("www.example.com", 1, Some((1232, true)));
    let typed = |rtype| query("www.example.com", rtype, None);
    let opt = |tail: &[u8]| with(plus(q(), tail), &[(11, 1)]);
    let yes = |flags| Some((flags, true, None));
    let edns = |flags| Some((flags, true, Some((0, false))));
    let bare = |flags| Some((flags, false, None));
    let a_record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4];
    let tsig = [0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0];
    let two_questions = with(plus(q(), &q()[12..]), &[(5, 2)]);
    vec![
        ("empty", vec![], None),
        ("one octet", vec![0], None),
        ("eleven octets", q()[..11].to_vec(), None),
        ("a response", with(q(), &[(2, 0x81)]), None),
        ("a response with an error", with(q(), &[(2, 0x80), (3, 2)]), None),
        ("a response of another opcode", with(q(), &[(2, 0xa0)]), None),
        ("a header alone", q()[..12].to_vec(), bare(FORMERR)),
        ("a header alone without RD", with(q()[..12].to_vec(), &[(2, 0)]), bare([0x80, 1])),
        ("IQUERY", with(q(), &[(2, 0x09)]), yes([0x89, 4])),
        ("STATUS", with(q(), &[(2, 0x11)]), yes([0x91, 4])),
        ("NOTIFY", with(q(), &[(2, 0x20)]), yes([0xa0, 4])),
        ("UPDATE", with(q(), &[(2, 0x28)]), yes([0xa8, 4])),
        ("opcode 15", with(q(), &[(2, 0x79)]), yes([0xf9, 4])),
        ("opcode 15, header alone", with(q()[..12].to_vec(), &[(2, 0x78), (5, 0)]), bare([0xf8, 4])),
        ("opcode 15 with OPT", with(e(), &[(2, 0x78)]), Some(([0xf8, 4], true, Some((0, true))))),
        ("CD is copied, AD is not", with(typed(252), &[(3, 0x30)]), yes([0x81, 0x15])),
        ("Z is not copied", with(typed(252), &[(3, 0x40)]), yes(REFUSED)),
        ("TC and AA are not copied", with(typed(252), &[(2, 0x07)]), yes(REFUSED)),
        ("no question", with(q(), &[(5, 0)]), bare(FORMERR)),
        ("no question, nothing behind", with(q()[..12].to_vec(), &[(5, 0)]), bare(FORMERR)),
        ("two questions", two_questions, bare(FORMERR)),
        ("two announced, one there", with(q(), &[(5, 2)]), bare(FORMERR)),
        ("256 questions", with(q(), &[(4, 1), (5, 0)]), bare(FORMERR)),
        ("an answer in a query", with(plus(q(), &a_record), &[(7, 1)]), yes(FORMERR)),
        ("an answer announced", with(q(), &[(7, 1)]), yes(FORMERR)),
        ("an authority in a query", with(plus(q(), &a_record), &[(9, 1)]), yes(FORMERR)),
        ("an additional that is no OPT", with(plus(q(), &a_record), &[(11, 1)]), yes(FORMERR)),
        ("TSIG", opt(&tsig), yes(FORMERR)),
        ("OPT and TSIG", with(plus(e(), &tsig), &[(11, 2)]), Some((FORMERR, true, Some((0, true))))),
        ("name cut in a label", q()[..20].to_vec(), bare(FORMERR)),
        ("name without its root", q()[..28].to_vec(), bare(FORMERR)),
        ("type missing", q()[..29].to_vec(), bare(FORMERR)),
        ("class cut", q()[..32].to_vec(), bare(FORMERR)),
        ("a pointer to itself", query_of(&[0xc0, 12], 1, None), bare(FORMERR)),
        ("a pointer behind a label", query_of(&[1, b'a', 0xc0, 12], 1, None), bare(FORMERR)),
        ("a pointer into the header", query_of(&[0xc0, 0], 1, None), bare(FORMERR)),
        ("label type 01", query_of(&[0x41, 0, 0], 1, None), bare(FORMERR)),
        ("label type 10", query_of(&[0x80, 0], 1, None), bare(FORMERR)),
        (
            "a name of 256 octets",
            query_of(&[&[1, b'a'].repeat(126)[..], &[2, b'a', b'a', 0]].concat(), 1, None),
            bare(FORMERR),
        ),
        (
            "a name of 257 octets",
            query_of(&[&[1, b'a'].repeat(128)[..], &[0]].concat(), 1, None),
            bare(FORMERR),
        ),
        ("one octet too many", plus(q(), &[0]), yes(FORMERR)),
        ("one octet behind OPT", plus(e(), &[0]), Some((FORMERR, true, Some((0, true))))),
        ("another query behind", plus(q(), &q()), yes(FORMERR)),
        ("OPT announced and missing", with(q(), &[(11, 1)]), yes(FORMERR)),
        ("OPT cut in its head", opt(&OPT[..10]), yes(FORMERR)),
        ("OPT not announced", plus(q(), &OPT), yes(FORMERR)),
        ("two OPT", with(plus(e(), &OPT), &[(11, 2)]), Some((FORMERR, true, Some((0, true))))),
        ("OPT owned by a name", opt(&[&[1, b'a'][..], &OPT].concat()), edns(FORMERR)),
        ("OPT owned by a pointer", opt(&[&[0xc0, 28][..], &OPT[1..]].concat()), edns(FORMERR)),
        ("OPT longer than the message", with(e(), &[(43, 1)]), Some((FORMERR, true, Some((0, true))))),
        ("option cut", with(opt(&[&OPT[..], &[0, 3, 0]].concat()), &[(43, 3)]), edns(FORMERR)),
        ("option longer than OPT", with(opt(&[&OPT[..], &[0, 3, 0, 1]].concat()), &[(43, 4)]), edns(FORMERR)),
        ("OPT in the answer section", with(plus(q(), &OPT), &[(7, 1)]), yes(FORMERR)),
        ("EDNS version 1", with(e(), &[(39, 1)]), Some(([0x81, 0], true, Some((1, true))))),
        ("EDNS version 255", with(e(), &[(39, 255)]), Some(([0x81, 0], true, Some((1, true))))),
        (
            "version 1 and bad options",
            with(plus(e(), &[9]), &[(39, 1), (43, 1)]),
            Some(([0x81, 0], true, Some((1, true)))),
        ),
        ("class CH", with(q(), &[(32, 3)]), yes(REFUSED)),
        ("class HS", with(q(), &[(32, 4)]), yes(REFUSED)),
        ("class NONE", with(q(), &[(32, 254)]), yes(REFUSED)),
        ("class ANY", with(q(), &[(32, 255)]), yes(REFUSED)),
        ("version.bind", with(query("version.bind", 16, None), &[(29, 3)]), yes(REFUSED)),
        ("type 0", typed(0), yes(FORMERR)),
        ("type OPT", typed(41), yes(FORMERR)),
        ("type TKEY", typed(249), yes(FORMERR)),
        ("type TSIG", typed(250), yes(FORMERR)),
        ("type IXFR", typed(251), yes(REFUSED)),
        ("type IXFR with its SOA", with(plus(typed(251), &a_record), &[(9, 1)]), yes(REFUSED)),
        ("type AXFR", typed(252), yes(REFUSED)),
        ("type MAILB", typed(253), yes(NOTIMP)),
        ("type MAILA", typed(254), yes(NOTIMP)),
        ("not ours", query("www.example.net", 1, None), yes(REFUSED)),
        ("not ours, with OPT", query("www.example.net", 1, Some((512, false))), edns(REFUSED)),
        ("the root", query(".", 2, None), yes(REFUSED)),
        ("above a zone", query("com", 6, None), yes(REFUSED)),
        ("ANY of what is not ours", query("example.net", 255, None), yes(REFUSED)),
        ("undecided by its reference", query("pending.example.com", 1, None), yes([0x81, 2])),
        ("undecided, not in the table", query("later.example.com", 28, None), yes([0x81, 2])),
        ("undecided, its own apex", query("soon.test", 16, None), yes([0x81, 2])),
        ("below that", query("x.soon.test", 1, None), yes([0x81, 2])),
        ("an alias of an undecided name", query("wait.example.com", 1, None), yes([0x81, 2])),
    ]
}

#[test]
fn bad_queries_get_exactly_this() {
    let fixture = fixture();
    for (what, message, wanted) in bad_queries() {
        let mut end = 12;
        while message.get(end).is_some_and(|label| *label > 0 && *label < 64) {
            end += usize::from(message[end]) + 1;
        }
        let end = (end + 5).min(message.len());
        assert_eq!(fixture.udp(&message), expected(&message, end, wanted), "{what}: udp");
        assert_eq!(fixture.tcp(&message), expected(&message, end, wanted), "{what}: tcp");
    }
}

#[test]
fn gslb_names_rotate_and_echo_the_question() {
    let fixture = fixture();
    let ask = |message: &[u8]| fixture.udp(message).unwrap();
    let message = query("wWw.ExAmPlE.cOm", 1, None);
    let message = with(message, &[(13, b'w'), (14, b'W'), (17, b'E'), (3, 0x10)]);
    let first = ask(&message);
    assert_eq!(first[..12], [0x12, 0x34, 0x85, 0x10, 0, 1, 0, 2, 0, 0, 0, 0]);
    assert_eq!(first[12..33], message[12..33]);
    let record = |last| [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 198, 51, 100, last];
    assert_eq!(first[33..], [record(1), record(2)].concat());
    assert_eq!(ask(&message)[33..], [record(2), record(1)].concat());
    assert_eq!(ask(&message), first);
}

#[test]
fn a_name_too_long_for_the_table_is_answered_all_the_same() {
    let fixture = fixture();
    let (code, answers, ..) = fixture.lines(&long_name().to_string(), 1);
    assert_eq!((code, answers.len()), (ResponseCode::NoError, 2));
    let (code, answers, authorities, _) = fixture.lines(&long_name().to_string(), 28);
    assert_eq!((code, answers.len(), authorities.len()), (ResponseCode::NoError, 0, 1));
}

#[test]
fn the_class_of_the_client_decides() {
    let fixture = fixture();
    let message = query("classed.example.com", 1, None);
    for (client, is_other) in [
        ("192.0.2.9:5000", true),
        ("192.0.3.9:5000", false),
        ("[::ffff:192.0.2.9]:5000", true),
        ("[2001:db8:1::7]:5000", true),
        ("[2001:db8:2::7]:5000", false),
    ] {
        let client: SocketAddr = client.parse().unwrap();
        let reply = ask(&message, Transport::Udp, client, &fixture.world, &fixture.names).unwrap();
        assert_eq!(reply.ends_with(&[203, 0, 113, 200]), is_other, "{client}");
        assert_eq!(reply[7], if is_other { 1 } else { 2 }, "{client}");
    }
}

const SOA: &str = "example.com. 60 IN SOA ns1.example.com. hostmaster.example.com. 42 3600 600 86400 60";

/// name, type, response code, answers, authorities, additionals
type Row = (
    &'static str,
    u16,
    ResponseCode,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn zones_answer_as_rfc_1034_says() {
    use ResponseCode::{NXDomain, NoError};
    const APEX_SOA: &str =
        "example.com. 300 IN SOA ns1.example.com. hostmaster.example.com. 42 3600 600 86400 60";
    const BARE: &str = "bare.test. 5 IN SOA ns1.bare.test. hostmaster.bare.test. 77 3600 600 86400 5";
    const CHILD: &str =
        "child.bare.test. 5 IN SOA ns1.child.bare.test. hostmaster.child.bare.test. 77 3600 600 86400 5";
    const DEEP: &str =
        "a.b.own.test. 5 IN SOA ns1.a.b.own.test. hostmaster.a.b.own.test. 77 3600 600 86400 5";
    const OWN: &str = "own.test. 5 IN SOA ns1.own.test. hostmaster.own.test. 77 3600 600 86400 5";
    const HINFO: [&str; 3] = [
        "www.example.com. 3600 IN HINFO RFC8482 ",
        "example.com. 3600 IN HINFO RFC8482 ",
        "own.test. 3600 IN HINFO RFC8482 ",
    ];
    let rows: &[Row] = &[
        ("example.com", 6, NoError, &[APEX_SOA], &[], &[]),
        (
            "example.com",
            2,
            NoError,
            &["example.com. 300 IN NS ns1.example.com.", "example.com. 300 IN NS ns2.example.org."],
            &[],
            &["ns1.example.com. 300 IN A 192.0.2.53", "ns1.example.com. 300 IN AAAA 2001:db8::53"],
        ),
        (
            "EXAMPLE.com",
            15,
            NoError,
            &["example.com. 300 IN MX 10 mail.example.com."],
            &[],
            &["mail.example.com. 300 IN A 192.0.2.25"],
        ),
        ("example.com", 16, NoError, &["example.com. 300 IN TXT hello"], &[], &[]),
        ("example.com", 1, NoError, &[], &[SOA], &[]),
        ("example.com", 43, NoError, &[], &[SOA], &[]),
        ("mail.example.com", 1, NoError, &["mail.example.com. 300 IN A 192.0.2.25"], &[], &[]),
        ("mail.example.com", 65, NoError, &[], &[SOA], &[]),
        ("missing.example.com", 1, NXDomain, &[], &[SOA], &[]),
        ("x.mail.example.com", 1, NXDomain, &[], &[SOA], &[]),
        ("c.example.com", 1, NoError, &[], &[SOA], &[]),
        ("b.c.example.com", 16, NoError, &[], &[SOA], &[]),
        ("x.b.c.example.com", 16, NXDomain, &[], &[SOA], &[]),
        ("y.example.com", 1, NoError, &[], &[SOA], &[]),
        ("z.y.example.com", 1, NXDomain, &[], &[SOA], &[]),
        ("alias.example.com", 5, NoError, &["alias.example.com. 300 IN CNAME www.example.com."], &[], &[]),
        (
            "alias.example.com",
            28,
            NoError,
            &["alias.example.com. 300 IN CNAME www.example.com.", "www.example.com. 5 IN AAAA 2001:db8::1"],
            &[],
            &[],
        ),
        (
            "deep.example.com",
            28,
            NoError,
            &[
                "deep.example.com. 300 IN CNAME alias.example.com.",
                "alias.example.com. 300 IN CNAME www.example.com.",
                "www.example.com. 5 IN AAAA 2001:db8::1",
            ],
            &[],
            &[],
        ),
        (
            "alias.example.com",
            16,
            NoError,
            &[
                "alias.example.com. 300 IN CNAME www.example.com.",
                "www.example.com. 300 IN TXT beside the addresses",
            ],
            &[],
            &[],
        ),
        (
            "alias.example.com",
            15,
            NoError,
            &["alias.example.com. 300 IN CNAME www.example.com."],
            &[SOA],
            &[],
        ),
        (
            "noaaaa.example.com",
            28,
            NoError,
            &["noaaaa.example.com. 300 IN CNAME only4.example.com."],
            &[SOA],
            &[],
        ),
        ("far.example.com", 1, NoError, &["far.example.com. 300 IN CNAME www.example.org."], &[], &[]),
        (
            "gone.example.com",
            1,
            NXDomain,
            &["gone.example.com. 300 IN CNAME missing.example.com."],
            &[SOA],
            &[],
        ),
        ("alias.example.com", 255, NoError, &["alias.example.com. 300 IN CNAME www.example.com."], &[], &[]),
        ("www.example.com", 16, NoError, &["www.example.com. 300 IN TXT beside the addresses"], &[], &[]),
        ("www.example.com", 15, NoError, &[], &[SOA], &[]),
        ("www.example.com", 65535, NoError, &[], &[SOA], &[]),
        ("www.example.com", 255, NoError, &[HINFO[0]], &[], &[]),
        ("example.com", 255, NoError, &[HINFO[1]], &[], &[]),
        ("c.example.com", 255, NoError, &[], &[SOA], &[]),
        ("missing.example.com", 255, NXDomain, &[], &[SOA], &[]),
        ("mixed.example.com", 28, NoError, &["mixed.example.com. 300 IN AAAA 2001:db8::99"], &[], &[]),
        ("later.example.com", 16, NoError, &[], &[SOA], &[]),
        (
            "bare.test",
            2,
            NoError,
            &["bare.test. 3600 IN NS ns1.bare.test.", "bare.test. 3600 IN NS ns.example.org."],
            &[],
            &["ns1.bare.test. 3600 IN A 192.0.2.77", "ns1.bare.test. 3600 IN AAAA 2001:db8::77"],
        ),
        ("ns1.bare.test", 28, NoError, &["ns1.bare.test. 3600 IN AAAA 2001:db8::77"], &[], &[]),
        ("ns1.bare.test", 16, NoError, &[], &[BARE], &[]),
        ("bare.test", 6, NoError, &[BARE], &[], &[]),
        ("www.bare.test", 28, NoError, &[], &[BARE], &[]),
        ("www.bare.test", 16, NoError, &[], &[BARE], &[]),
        ("x.www.bare.test", 1, NXDomain, &[], &[BARE], &[]),
        ("own.test", 6, NoError, &[OWN], &[], &[]),
        ("own.test", 2, NoError, &[], &[OWN], &[]),
        ("own.test", 28, NoError, &[], &[OWN], &[]),
        ("own.test", 255, NoError, &[HINFO[2]], &[], &[]),
        ("x.own.test", 1, NXDomain, &[], &[OWN], &[]),
        ("b.own.test", 1, NoError, &[], &[OWN], &[]),
        ("a.b.own.test", 43, NoError, &[], &[DEEP], &[]),
        ("child.bare.test", 43, NoError, &[], &[BARE], &[]),
        ("child.bare.test", 1, NoError, &[], &[CHILD], &[]),
        ("x.child.bare.test", 43, NXDomain, &[], &[CHILD], &[]),
    ];
    let fixture = fixture();
    for (name, rtype, code, answers, authorities, additionals) in rows {
        let got = fixture.lines(name, *rtype);
        let own = |lines: &[&str]| lines.iter().map(|l| (*l).to_lowercase()).collect::<Vec<_>>();
        let low = |lines: Vec<String>| lines.iter().map(|l| l.to_lowercase()).collect::<Vec<_>>();
        let got = (got.0, low(got.1), low(got.2), low(got.3));
        assert_eq!(got, (*code, own(answers), own(authorities), own(additionals)), "{name} {rtype}");
    }
}

#[test]
fn an_alias_of_a_gslb_name_gets_its_addresses_in_turn() {
    let fixture = fixture();
    let get = || {
        let message = fixture.get("alias.example.com", 1);
        message.answers[1..].iter().map(|r| r.data.to_string()).collect::<Vec<_>>()
    };
    let first = get();
    assert_eq!(first.len(), 2);
    let second = get();
    assert_eq!((&first[0], &first[1]), (&second[1], &second[0]));
}

#[test]
fn the_compiler_hears_what_stands_beside_gslb_names() {
    let zones = fixture().names.zones;
    let other = |n: &str| zones.has_other_types(&name(n));
    assert!(other("www.example.com") && other("example.com"));
    // SOA and NS of an apex do not count.
    assert!(!other("bare.test") && !other("own.test") && !other("mixed.example.com"));
    assert!(zones.has_type(&name("mixed.example.com"), 28) && !zones.has_type(&name("mixed.example.com"), 1));
    let warnings: Vec<String> = zones.warnings().iter().map(ToString::to_string).collect();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let text = "zone example.com: the AAAA records of mixed.example.com in the master file are not used: a vserver decides";
    let (place, said) = warning.split_at(warning.len() - text.len());
    assert_eq!(said, text);
    let place: Vec<&str> = place.trim_end_matches(": ").rsplit(':').collect();
    assert_eq!(place[..2], ["1", "21"], "column and line of the record: {warning}");
}

#[test]
fn a_ring_of_aliases_ends() {
    let message = fixture().get("ring.example.com", 1);
    assert_eq!(message.metadata.response_code, ResponseCode::NoError);
    assert!(message.answers.iter().all(|r| r.record_type() == T::CNAME));
    assert_eq!(message.answers.len(), 2, "each alias once");
}

#[test]
fn what_does_not_fit_is_cut_or_truncated() {
    let fixture = fixture();
    let length = |name, edns| {
        let reply = fixture.udp(&query(name, 1, edns)).unwrap();
        let message = Message::from_vec(&reply).unwrap();
        (reply.len(), message.answers.len(), message.metadata.truncation)
    };
    // 12 + 22 + 29 * 16 = 498; extras are left out from the tail.
    assert_eq!(length("pool.example.com", None), (498, 29, false));
    assert_eq!(length("pool.example.com", Some((1232, false))), (12 + 22 + 11 + 64 * 16, 64, false));
    assert_eq!(length("pool.example.com", Some((100, false))), (12 + 22 + 11 + 29 * 16, 29, false));
    // A set that must not be cut is left out whole.
    assert_eq!(length("many.example.com", None), (34, 0, true));
    assert_eq!(length("many.example.com", Some((600, false))), (45, 0, true));
    let message = query("big.example.com", 16, None);
    let reply = fixture.udp(&message).unwrap();
    assert_eq!(reply[2..12], [0x87, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(reply.len(), message.len());
    let whole = Message::from_vec(&fixture.tcp(&message).unwrap()).unwrap();
    assert!(matches!(&whole.answers[0].data, RData::TXT(txt) if txt.txt_data.len() == 5));
}

#[test]
fn opt_stands_in_the_reply_if_in_the_query_and_options_do_not() {
    let fixture = fixture();
    let tail = |message: &[u8]| {
        let reply = fixture.udp(message).unwrap();
        (reply[11], reply[reply.len() - 11..].to_vec())
    };
    for name in ["www.example.com", "mail.example.com", "missing.example.com", "example.com"] {
        for dnssec_ok in [false, true] {
            let wanted = vec![0, 0, 41, 4, 0xd0, 0, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0];
            let message = query(name, 1, Some((4096, dnssec_ok)));
            assert_eq!(tail(&message), (1, wanted.clone()), "{name}");
            // Twelve unknown options, more than the XDP program walks.
            let mut options = message.clone();
            let at = options.len() - 1;
            options[at] = 12 * 6;
            options.extend([0xfd, 0xe9, 0, 2, 7, 7].repeat(12));
            assert_eq!(tail(&options), (1, wanted), "{name}");
        }
        assert_eq!(fixture.udp(&query(name, 1, None)).unwrap()[11], 0);
    }
}

/// RFC 7873 5.4: no question, a cookie.
#[test]
fn a_query_without_a_question_asks_for_a_cookie() {
    let mut fixture = fixture();
    let client_part = *b"\x01\x02\x03\x04\x05\x06\x07\x08";
    let ask = |fixture: &Fixture, options: &[u8]| {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        message.extend(&OPT[..10]);
        message.push(options.len() as u8);
        message.extend(options);
        let (udp, tcp) = (fixture.udp(&message).unwrap(), fixture.tcp(&message).unwrap());
        assert_eq!(udp, tcp);
        udp
    };
    let cookie = |data: &[u8]| [&[0, 10, 0, data.len() as u8], data].concat();
    // Header without any section but OPT, extended response code 0 or 1.
    let head = |rcode: u8| vec![0x12, 0x34, 0x81, rcode, 0, 0, 0, 0, 0, 0, 0, 1];
    let off = ask(&fixture, &cookie(&client_part));
    assert_eq!(off, [&head(1)[..], &OPT].concat(), "without cookies it is no query");

    fixture.world.cookies = Some(responder_common::cookie::Secrets { current: [1, 2], previous: [3, 4] });
    fixture.world.now = 1_700_000_000;
    let given = ask(&fixture, &cookie(&client_part));
    assert_eq!(given[..12], head(0));
    assert_eq!(given[12..23], [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 28]);
    assert_eq!(
        (&given[23..35], given.len()),
        (&cookie(&[&client_part[..], &[0; 16]].concat())[..12].to_vec()[..], 51)
    );
    let whole = given[27..].to_vec();
    // What was given is confirmed, whatever stands beside it.
    assert_eq!(ask(&fixture, &cookie(&whole)), given);
    assert_eq!(ask(&fixture, &[&[0xfd, 0xe9, 0, 1, 7][..], &cookie(&whole)].concat()), given);
    // Another server's part, of our length and of another: BADCOOKIE, and a good one.
    for wrong in
        [with(whole.clone(), &[(23, whole[23] ^ 1)]), whole[..20].to_vec(), [&whole[..], &[0; 8]].concat()]
    {
        let told = ask(&fixture, &cookie(&wrong));
        assert_eq!((&told[..12], told[17]), (&head(7)[..], 1), "BADCOOKIE is 23");
        assert_eq!(told[27..], whole[..]);
    }
    // A cookie of a length that there is not, and none at all.
    assert_eq!(ask(&fixture, &cookie(&client_part[..7])), [&head(1)[..], &OPT].concat());
    assert_eq!(ask(&fixture, &[]), [&head(1)[..], &OPT].concat());
    // With a question a foreign server's part is as good as none (RFC 7873 5.2.3).
    let mut asked = with(query("www.example.com", 1, Some((1232, false))), &[(43, 28)]);
    asked.extend(cookie(&with(whole.clone(), &[(23, whole[23] ^ 1)])));
    let reply = fixture.udp(&asked).unwrap();
    assert_eq!((reply[3], &reply[reply.len() - 24..]), (0, &whole[..]));
    // Later versions may say cookies otherwise: BADVERS has none, as in BIND and Knot.
    let later = fixture.udp(&with(asked, &[(39, 1)])).unwrap();
    assert_eq!((later.len(), later[38]), (33 + 11, 1));
}

/// T-P2: every type, every flag word.
#[test]
fn every_type_and_every_flag_word_gets_one_sound_reply() {
    let fixture = fixture();
    for rtype in 0..=u16::MAX {
        let reply = fixture.udp(&query("alias.example.com", rtype, None)).unwrap();
        assert_eq!(reply[2] & 0xf8, 0x80);
        let code = reply[3] & 0xf;
        let wanted = match rtype {
            0 | 41 | 249 | 250 => 1,
            251 | 252 => 5,
            253 | 254 => 4,
            _ => 0,
        };
        assert_eq!(code, wanted, "type {rtype}");
    }
    for word in 0..=u16::MAX {
        let [high, low] = word.to_be_bytes();
        let reply = fixture.udp(&with(query("www.example.com", 1, None), &[(2, high), (3, low)]));
        if high & 0x80 != 0 {
            assert!(reply.is_none());
            continue;
        }
        let reply = reply.unwrap();
        assert_eq!(reply[2] & 0x81, 0x80 | (high & 1));
        assert_eq!(reply[3], if high & 0x78 == 0 { low & 0x10 } else { (low & 0x10) | 4 });
    }
}

/// T-P2: every length and every change of one octet.
#[test]
fn every_cut_and_every_changed_octet_is_survived() {
    let fixture = fixture();
    for seed in bad_queries().into_iter().map(|row| row.1).chain(
        ["www.example.com", "alias.example.com", "a.b.c.example.com", "example.com", "x.own.test"]
            .map(|n| query(n, 1, Some((1232, true)))),
    ) {
        for cut in 0..=seed.len() {
            check(&fixture, &seed[..cut]).unwrap();
        }
        if seed.len() < 60 {
            for at in 0..seed.len() {
                for octet in 0..=255 {
                    check(&fixture, &with(seed.clone(), &[(at, octet)])).unwrap();
                }
            }
        }
    }
}

/// What holds for the reply to anything.
fn check(fixture: &Fixture, message: &[u8]) -> Result<(), TestCaseError> {
    for (transport, reply) in [(Transport::Udp, fixture.udp(message)), (Transport::Tcp, fixture.tcp(message))]
    {
        let answerable = message.len() >= 12 && message[2] & 0x80 == 0;
        prop_assert_eq!(reply.is_some(), answerable);
        let Some(reply) = reply else { continue };
        prop_assert_eq!(&reply[..2], &message[..2]);
        prop_assert!(reply[2] & 0x80 != 0 && reply[3] & 0xe0 == 0, "QR, no RA, Z or AD");
        let parsed = Message::from_vec(&reply);
        prop_assert!(parsed.is_ok(), "{:?} for {:?}: {:?}", reply, message, parsed);
        if transport == Transport::Udp {
            prop_assert!(reply.len() <= 1232);
            let asked =
                Message::from_vec(message).ok().and_then(|m| m.edns.map(|e| e.max_payload().max(512)));
            if reply[11] == 0 {
                prop_assert!(reply.len() <= 512);
            } else if let Some(payload) = asked {
                prop_assert!(reply.len() <= usize::from(payload).max(512));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_octets_panic(message in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(fixture_once(), &message)?;
    }

    #[test]
    fn headers_with_anything_behind(counts in proptest::array::uniform4(0u8..3), rest in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut message = vec![1, 2, 0, 0];
        for count in counts {
            message.extend([0, count]);
        }
        message.extend(rest);
        check(fixture_once(), &message)?;
    }

    #[test]
    fn names_below_ours(labels in proptest::collection::vec("[a-dwX]{1,8}", 0..6), zone in 0usize..4, rtype in 0u16..260, edns in proptest::option::of((0u16..2000, any::<bool>()))) {
        let zone = ["example.com", "bare.test", "own.test", "soon.test"][zone];
        let name = [labels, vec![zone.to_owned()]].concat().join(".");
        check(fixture_once(), &query(&name, rtype, edns))?;
    }

    #[test]
    fn changed_queries(which in 0usize..20, changes in proptest::collection::vec((0usize..80, any::<u8>()), 0..4)) {
        let names = ["www.example.com", "example.com", "alias.example.com", "big.example.com", "a.b.own.test"];
        let mut message = query(names[which % 5], [1, 28, 255, 6][which / 5], Some((1232, false)));
        for (at, octet) in changes {
            if let Some(place) = message.get_mut(at) {
                *place = octet;
            }
        }
        check(fixture_once(), &message)?;
    }
}

fn fixture_once() -> &'static Fixture {
    static FIXTURE: std::sync::OnceLock<Fixture> = std::sync::OnceLock::new();
    FIXTURE.get_or_init(fixture)
}

/// T-P7: the worst names cost no more than a few microseconds; the bound is generous because machines are busy.
#[test]
fn the_longest_names_are_cheap() {
    let fixture = fixture_once();
    let labels = [&[1, b'a'].repeat(120)[..], &b"\x07example\x03com\x00"[..]].concat();
    let message = query_of(&labels, 1, Some((1232, false)));
    let started = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(fixture.udp(&message).unwrap()[3] & 0xf, 3);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
}
