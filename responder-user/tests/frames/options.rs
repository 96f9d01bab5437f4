//! Options of OPT that are answered: client subnet, cookie, server identifier. What must come back is made here by other
//! code than the product's.

use std::{
    hash::Hasher,
    net::IpAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use ipnet::IpNet;
use responder_common::counters::Counter;
use siphasher::sip::SipHasher24;

use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, Query, query},
        pin_to, read,
        run::Verdict,
        world::{self, COOKIE_SECRETS, NSID},
    },
    open,
};

const NSID_CODE: u16 = 3;
const SUBNET: u16 = 8;
const COOKIE: u16 = 10;

fn option(code: u16, data: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// An ECS option: a network, and the scope.
fn subnet(net: &str, scope: u8) -> Vec<u8> {
    let net: IpNet = net.parse().expect("a network");
    let (family, octets) = match net.network() {
        IpAddr::V4(a) => (1_u16, a.octets().to_vec()),
        IpAddr::V6(a) => (2, a.octets().to_vec()),
    };
    let len = usize::from(net.prefix_len()).div_ceil(8);
    let data = [&family.to_be_bytes()[..], &[net.prefix_len(), scope], &octets[..len]].concat();
    option(SUBNET, &data)
}

fn seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as u32
}

/// A server cookie by RFC 9018 4.
fn server_cookie(secret: [u8; 16], client: [u8; 8], source: IpAddr, at: u32) -> Vec<u8> {
    let mut out = vec![1, 0, 0, 0];
    out.extend(at.to_be_bytes());
    let mut hasher = SipHasher24::new_with_key(&secret);
    hasher.write(&client);
    hasher.write(&out);
    match source {
        IpAddr::V4(a) => hasher.write(&a.octets()),
        IpAddr::V6(a) => hasher.write(&a.octets()),
    }
    out.extend(hasher.finish().to_le_bytes());
    out
}

fn secret(which: usize) -> [u8; 16] {
    bytemuck::cast(COOKIE_SECRETS[which])
}

/// The options of the reply to a query, and its first address.
fn ask(lab: &mut Lab, query: &Query) -> Result<(Vec<u8>, Vec<u8>), String> {
    lab.rewind();
    let frame = query.build();
    let (verdict, out) = lab.runner().once(&frame);
    if verdict != Verdict::Tx {
        return Err(format!("{verdict:?}"));
    }
    read::check_frame(&frame, &out)?;
    let reply = read::reply(read::message(&out)?)?;
    let opt = reply.opt.ok_or("no OPT")?;
    let first = reply.answers.first().map(|record| record.data.clone()).unwrap_or_default();
    Ok((opt.options, first))
}

fn passes(lab: &mut Lab, query: &Query, counter: Counter) {
    lab.rewind();
    let before = lab.counters();
    let frame = query.build();
    let (verdict, out) = lab.runner().once(&frame);
    assert_eq!((verdict, &out), (Verdict::Pass, &frame));
    assert_eq!(Lab::risen(&before, &lab.counters()), [(counter.name(), 1)]);
}

fn one() -> Query {
    query("one.example.com", A)
}

#[test]
fn cookies_are_made_checked_and_renewed_as_rfc_9018_says() {
    let mut lab = open("cookies");
    let client = *b"\x24\x64\xc4\xab\xcf\x10\xc9\x57";
    for source in ["203.0.113.9", "2001:db8:ffff::9"] {
        let qtype = if source.contains(':') { AAAA } else { A };
        let frame = || query("one.example.com", qtype).from(source);
        let source: IpAddr = source.parse().expect("an address");
        let made = |which, at| [&client[..], &server_cookie(secret(which), client, source, at)].concat();
        // What comes, and how the reply's time may differ from now: None: it comes back as it is.
        let now = seconds();
        let cases: [(&str, Vec<u8>, bool); 12] = [
            ("a client cookie alone", client.to_vec(), false),
            ("a fresh cookie", made(0, now), true),
            ("29 minutes old", made(0, now - 29 * 60), true),
            ("31 minutes old", made(0, now - 31 * 60), false),
            ("two hours old", made(0, now - 7200), false),
            ("from the future", made(0, now + 200), false),
            ("far from the future", made(0, now + 400), false),
            ("of the secret before", made(1, now), false),
            (
                "of no secret of ours",
                [&client[..], &server_cookie([7; 16], client, source, now)].concat(),
                false,
            ),
            ("of another length", [&client[..], &[1; 8]].concat(), false),
            ("as long as can be", [&client[..], &[1; 32]].concat(), false),
            ("of version 2", [&client[..], &[2; 16]].concat(), false),
        ];
        for (rule, data, is_kept) in cases {
            let asked = frame().opt_with(1232, 0, &option(COOKIE, &data));
            let before = seconds();
            let (options, address) = ask(&mut lab, &asked).unwrap_or_else(|e| panic!("{rule}: {e}"));
            // The kernel's coarse clock may be a tick behind.
            let wanted = if is_kept {
                vec![option(COOKIE, &data)]
            } else {
                (before - 1..=seconds()).map(|at| option(COOKIE, &made(0, at))).collect()
            };
            assert!(wanted.contains(&options), "{rule}: {options:02x?}, wanted one of {wanted:02x?}");
            assert!(!address.is_empty(), "{rule}");
        }
        // Of two cookies the first counts (RFC 7873 5.2), and others stand around it.
        let two = [
            option(12, &[0; 5]),
            option(COOKIE, &made(0, now)),
            option(COOKIE, &[1; 7]),
            option(65001, &[1, 2, 3]),
        ];
        let (options, _) = ask(&mut lab, &frame().opt_with(1232, 0, &two.concat())).expect("answered");
        assert_eq!(options, option(COOKIE, &made(0, now)));
        for len in [0, 1, 7, 9, 15, 41, 60] {
            let asked = frame().opt_with(1232, 0, &option(COOKIE, &vec![1; len]));
            passes(&mut lab, &asked, Counter::PassCookie);
        }
    }
    lab.surround(Some(&|around| around.cookies = None));
    for len in [7, 8, 24] {
        let asked = one().opt_with(1232, 0, &option(COOKIE, &vec![1; len]));
        assert_eq!(ask(&mut lab, &asked).expect("answered").0, Vec::<u8>::new(), "cookies are off");
    }
}

#[test]
fn the_identifier_is_told_to_who_asks() {
    let mut lab = open("nsid");
    let wanted = option(NSID_CODE, NSID.as_bytes());
    for data in [&[][..], &[1, 2, 3]] {
        let asked = one().opt_with(1232, 0x8000, &option(NSID_CODE, data));
        assert_eq!(ask(&mut lab, &asked).expect("answered").0, wanted);
    }
    let asked = query("one.example.com", 15).opt_with(1232, 0, &option(NSID_CODE, &[]));
    assert_eq!(ask(&mut lab, &asked).expect("NODATA").0, wanted);
    for len in 0..=64_usize {
        lab.surround(Some(&|around| {
            around.nsid.len = len as u64;
            let words: &mut [u8] = bytemuck::bytes_of_mut(&mut around.nsid.words);
            words.iter_mut().enumerate().for_each(|(i, octet)| *octet = if i < len { b'a' } else { 0 });
        }));
        let asked = one().opt_with(1232, 0, &option(NSID_CODE, &[]));
        let wanted = if len == 0 { Vec::new() } else { option(NSID_CODE, &vec![b'a'; len]) };
        assert_eq!(ask(&mut lab, &asked).expect("answered").0, wanted, "{len} octets");
    }
}

/// Names by what ECS means to them, in a world without policies.
fn located() -> Lab {
    let lab = Lab::open("located", world::classless(), &world::snapshot);
    pin_to(0);
    lab
}

fn host(i: u8) -> Vec<u8> {
    world::octets(&world::host_v4(35, i))
}

#[test]
fn ecs_decides_where_it_is_on_and_says_for_whom() {
    ecs_decides(located());
}

/// The fault: one policy that fires for a name, for a type or for another virtual server set ECS of every name aside.
#[test]
fn policies_that_do_not_concern_a_name_s_source_leave_its_ecs_to_the_program() {
    let lab = Lab::open("unconcerned", world::unconcerned(), &world::snapshot);
    assert!(lab.compiled.classes.count() > 3 && lab.compiled.model.policies.len() == 3);
    pin_to(0);
    ecs_decides(lab);
}

fn ecs_decides(mut lab: Lab) {
    let near = |source: &str| query("near.example.com", A).from(source);
    // A source in Asia.HK, unless said otherwise: network that is asked for, scope, who answers.
    for (net, scope, server) in [
        ("192.0.2.0/24", 25, 4),
        ("192.0.2.7/32", 25, 4),
        ("192.0.2.128/25", 26, 2),
        ("192.0.2.129/32", 26, 2),
        ("192.0.2.192/26", 26, 1),
        ("198.51.100.0/24", 24, 1),
        ("100.64.0.0/16", 10, 3),
        ("100.64.0.0/10", 10, 3),
        ("2001:db8:a123::/48", 36, 4),
        ("2001:db8:b000::/56", 48, 2),
        ("2001:db8:b001::/64", 48, 1),
        // Prefixes of every length whose last octet is not full.
        ("192.0.2.0/25", 25, 4),
        ("192.0.2.128/27", 26, 2),
        ("2001:db8:a000::/37", 36, 4),
    ] {
        let asked = near("192.0.2.1").opt_with(1232, 0, &subnet(net, 0));
        let (options, address) = ask(&mut lab, &asked).unwrap_or_else(|e| panic!("{net}: {e}"));
        let scope = if net == "198.51.100.0/24" { scope_of_nowhere(&options) } else { scope };
        assert_eq!(options, subnet(net, scope), "{net}");
        assert_eq!(address, host(server), "{net}");
    }
    // No prefix: the client wants no answer of its own; the source decides, for all.
    for data in [&[0, 1, 0, 0][..], &[0, 2, 0, 0], &[0, 0, 0, 0]] {
        let asked = near("192.0.2.200").opt_with(1232, 0, &option(SUBNET, data));
        assert_eq!(ask(&mut lab, &asked).expect("answered"), (option(SUBNET, data), host(1)));
    }
    // Where the address does not matter.
    for name in ["alone.example.com", "near.example.com"] {
        let qtype = if name.starts_with("near") { 15 } else { A };
        let asked = query(name, qtype).opt_with(1232, 0, &subnet("192.0.2.0/24", 0));
        assert_eq!(ask(&mut lab, &asked).expect("answered").0, subnet("192.0.2.0/24", 0), "{name}");
    }
    // Off: ignored, malformed or not.
    for data in [&subnet("192.0.2.0/24", 0)[..], &option(SUBNET, &[1])] {
        let asked = query("far-from.example.com", A).from("192.0.2.200").opt_with(1232, 0, data);
        assert_eq!(ask(&mut lab, &asked).expect("answered"), (Vec::new(), host(1)));
    }
}

/// The scope that a reply has: what lies in no range gets the length at which that is known.
fn scope_of_nowhere(options: &[u8]) -> u8 {
    let scope = options[7];
    assert!((1..=24).contains(&scope), "{scope}");
    scope
}

#[test]
fn private_ecs_addresses_are_set_aside_where_the_vserver_says_so() {
    let mut lab = located();
    for (net, scope) in [
        ("10.1.2.0/24", 8),
        ("192.168.7.0/24", 16),
        ("172.31.0.0/16", 12),
        ("100.64.0.0/24", 10),
        ("127.0.0.1/32", 8),
        ("169.254.1.0/24", 16),
        ("224.0.0.0/24", 3),
        ("fd00:1::/48", 7),
        ("fe80::/64", 9),
        ("::1/128", 8),
        ("ff02::/64", 8),
    ] {
        let asked = query("checked.example.com", A).from("192.0.2.129").opt_with(1232, 0, &subnet(net, 0));
        assert_eq!(ask(&mut lab, &asked).expect("answered"), (subnet(net, scope), host(2)), "{net}");
    }
    let asked =
        query("checked.example.com", A).from("192.0.2.129").opt_with(1232, 0, &subnet("192.0.2.0/24", 0));
    assert_eq!(ask(&mut lab, &asked).expect("answered"), (subnet("192.0.2.0/24", 25), host(4)));
}

#[test]
fn malformed_ecs_passes_where_it_matters() {
    let mut lab = located();
    let bad: [&[u8]; 14] = [
        &[],
        &[0],
        &[0, 1, 24],
        &[0, 1, 24, 0],
        &[0, 1, 24, 0, 192, 0],
        &[0, 1, 24, 0, 192, 0, 2, 0],
        &[0, 1, 33, 0, 192, 0, 2, 0, 0],
        &[0, 1, 24, 1, 192, 0, 2],
        &[0, 1, 23, 0, 192, 0, 3],
        &[0, 2, 129, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17],
        &[0, 2, 9, 0, 0x20, 0x7f],
        &[0, 0, 8, 0, 1],
        &[0, 3, 0, 0],
        &[1, 0, 0, 0],
    ];
    for data in bad {
        let asked = query("near.example.com", A).opt_with(1232, 0, &option(SUBNET, data));
        passes(&mut lab, &asked, Counter::PassSubnet);
        let asked = query("near.example.com", 65).v6().opt_with(1232, 0, &option(SUBNET, data));
        passes(&mut lab, &asked, Counter::PassSubnet);
    }
}

#[test]
fn policies_and_proximity_together_are_a_worker_s() {
    let mut lab = open("both");
    for (name, server) in [("near.example.com", None), ("classes.example.com", Some(1))] {
        let asked = query(name, A).opt_with(1232, 0, &subnet("192.0.2.0/24", 0));
        match server {
            None => passes(&mut lab, &asked, Counter::PassSubnetPolicy),
            Some(i) => {
                let address = world::octets(&world::host_v4(34, i));
                assert_eq!(ask(&mut lab, &asked).expect("answered"), (Vec::new(), address));
            }
        }
    }
}

#[test]
fn all_options_stand_in_one_reply() {
    let mut lab = located();
    let client = *b"clientck";
    let now = seconds();
    for (net, scope) in [("192.0.2.0/24", 25), ("2001:db8:b000::/56", 48), ("192.0.2.129/32", 26)] {
        for qtype in [A, AAAA, 15] {
            let frame = || query("near.example.com", qtype).from("203.0.113.9");
            let source: IpAddr = "203.0.113.9".parse().expect("an address");
            let cookie = [&client[..], &server_cookie(secret(0), client, source, now)].concat();
            let scope = if qtype == A { scope } else { 0 };
            let mut sent =
                [subnet(net, 0), option(COOKIE, &cookie), option(NSID_CODE, &[]), option(12, &[0; 30])];
            let wanted =
                [subnet(net, scope), option(COOKIE, &cookie), option(NSID_CODE, NSID.as_bytes())].concat();
            for _ in 0..sent.len() {
                sent.rotate_left(1);
                let asked = frame().opt_with(1232, 0x8000, &sent.concat());
                assert_eq!(ask(&mut lab, &asked).expect("answered").0, wanted, "{net}, type {qtype}");
            }
        }
    }
}
