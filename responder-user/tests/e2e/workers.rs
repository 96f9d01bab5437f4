//! What the kernel passes: TCP, zones, errors; asked by dig, by kdig, and by octets that no tool sends.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use crate::{
    bed::Bed,
    daemon::{Daemon, Start, rise, risen},
    dns::{self, A},
    say, text,
};

const ZONE: &str = "$ORIGIN example.com.
$TTL 3600
@     IN SOA ns1 hostmaster 7 3600 600 86400 5
      IN NS  ns1
      IN NS  ns2
      IN MX  10 mail
ns1   IN A   192.0.2.53
ns2   IN A   198.51.100.53
mail  IN A   192.0.2.25
      IN AAAA 2001:db8::25
      IN TXT \"mail\" \"here\"
alias IN CNAME s1
far   IN CNAME www.example.net.
chain IN CNAME alias
deep.in.the IN TXT \"deep\"
";

const SOA: &str = "example.com. 5 IN SOA ns1.example.com. hostmaster.example.com. 7 3600 600 86400 5";

/// Question, status, answer, authority; fields of records are separated by one space.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const ROWS: &[Row] = &[
    (
        "example.com",
        "SOA",
        "NOERROR",
        &["example.com. 3600 IN SOA ns1.example.com. hostmaster.example.com. 7 3600 600 86400 5"],
        &[],
    ),
    (
        "example.com",
        "NS",
        "NOERROR",
        &["example.com. 3600 IN NS ns1.example.com.", "example.com. 3600 IN NS ns2.example.com."],
        &[],
    ),
    ("example.com", "MX", "NOERROR", &["example.com. 3600 IN MX 10 mail.example.com."], &[]),
    ("example.com", "A", "NOERROR", &[], &[SOA]),
    ("mail.example.com", "A", "NOERROR", &["mail.example.com. 3600 IN A 192.0.2.25"], &[]),
    ("MAIL.Example.Com", "AAAA", "NOERROR", &["MAIL.Example.Com. 3600 IN AAAA 2001:db8::25"], &[]),
    ("mail.example.com", "TXT", "NOERROR", &["mail.example.com. 3600 IN TXT \"mail\" \"here\""], &[]),
    ("mail.example.com", "SRV", "NOERROR", &[], &[SOA]),
    // Empty non-terminals exist.
    ("in.the.example.com", "A", "NOERROR", &[], &[SOA]),
    ("the.example.com", "TXT", "NOERROR", &[], &[SOA]),
    ("deep.in.the.example.com", "TXT", "NOERROR", &["deep.in.the.example.com. 3600 IN TXT \"deep\""], &[]),
    ("no.example.com", "A", "NXDOMAIN", &[], &[SOA]),
    ("no.in.the.example.com", "A", "NXDOMAIN", &[], &[SOA]),
    // GSLB names in the zone, directly and by alias.
    ("s1.example.com", "A", "NOERROR", &["s1.example.com. 5 IN A 192.0.2.1"], &[]),
    ("s2.example.com", "AAAA", "NOERROR", &["s2.example.com. 5 IN AAAA 2001:db8::2"], &[]),
    ("s1.example.com", "TXT", "NOERROR", &[], &[SOA]),
    (
        "alias.example.com",
        "A",
        "NOERROR",
        &["alias.example.com. 3600 IN CNAME s1.example.com.", "s1.example.com. 5 IN A 192.0.2.1"],
        &[],
    ),
    (
        "chain.example.com",
        "AAAA",
        "NOERROR",
        &[
            "alias.example.com. 3600 IN CNAME s1.example.com.",
            "chain.example.com. 3600 IN CNAME alias.example.com.",
            "s1.example.com. 5 IN AAAA 2001:db8::1",
        ],
        &[],
    ),
    ("alias.example.com", "CNAME", "NOERROR", &["alias.example.com. 3600 IN CNAME s1.example.com."], &[]),
    ("far.example.com", "A", "NOERROR", &["far.example.com. 3600 IN CNAME www.example.net."], &[]),
    ("mail.example.com", "ANY", "NOERROR", &["mail.example.com. 3600 IN HINFO \"RFC8482\" \"\""], &[]),
    ("s1.example.com", "ANY", "NOERROR", &["s1.example.com. 3600 IN HINFO \"RFC8482\" \"\""], &[]),
];

fn config(bed: &Bed, xdp: &str) -> std::path::PathBuf {
    bed.write("example.com.zone", ZONE);
    let zone =
        format!("name = \"example.com\"\nfile = \"{}\"", bed.folder().join("example.com.zone").display());
    let stable = text::stable().replace("name = \"example.com\"", &zone);
    bed.write("responder.toml", &(text::head(bed, xdp) + &stable))
}

/// What a tool printed, in words that both tools share.
#[derive(Debug, PartialEq)]
struct Said {
    status: String,
    flags: BTreeSet<String>,
    answer: BTreeSet<String>,
    authority: BTreeSet<String>,
}

fn said(text: &str) -> Said {
    let (mut status, mut flags) = (String::new(), BTreeSet::new());
    let (mut answer, mut authority) = (BTreeSet::new(), BTreeSet::new());
    let mut is_answer = true;
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        if let Some((_, rest)) = line.split_once("status: ") {
            rest.split([',', ';']).next().unwrap_or_default().clone_into(&mut status);
        } else if let Some((_, rest)) = lower.split_once("flags: ")
            && flags.is_empty()
        {
            flags = rest.split(';').next().unwrap().split_whitespace().map(str::to_owned).collect();
        } else if lower.contains("authority section") {
            is_answer = false;
        } else if lower.contains("answer section") {
            is_answer = true;
        } else if !line.starts_with(';') && !line.trim().is_empty() {
            // kdig folds the names that it asks for.
            let record = lower.split_whitespace().collect::<Vec<_>>().join(" ");
            if is_answer {
                answer.insert(record)
            } else {
                authority.insert(record)
            };
        }
    }
    Said { status, flags, answer, authority }
}

fn asked(bed: &Bed, tool: &str, how: &[&str], name: &str, qtype: &str) -> Said {
    let sections = match tool {
        "dig" => ["+noall", "+comments", "+answer", "+authority"].as_slice(),
        _ => &["+noall", "+header", "+comments", "+answer", "+authority"],
    };
    let args = [&["-t", qtype, "-q", name], sections, how].concat();
    said(&bed.client_tool(tool, &args))
}

#[test]
fn dig_and_kdig_get_what_the_zone_says() {
    let bed = Bed::new();
    let daemon = Daemon::start(&bed, &config(&bed, "mode = \"native\""));
    let mut count = 0;
    for (tool, how) in [
        ("dig", ["@10.53.0.1", "+norec", "+notcp"]),
        ("dig", ["@2001:db8:53::1", "+norec", "+tcp"]),
        ("kdig", ["@10.53.0.1", "+norec", "+tcp"]),
        ("kdig", ["@2001:db8:53::1", "+norec", "+notcp"]),
    ] {
        for (name, qtype, status, answer, authority) in ROWS {
            // dig asks for ANY by TCP unless told otherwise; kdig takes ANY as a type as it is.
            let got = asked(&bed, tool, &how, name, qtype);
            let set =
                |list: &[&str]| list.iter().map(|line| line.to_ascii_lowercase()).collect::<BTreeSet<_>>();
            let what = format!("{tool} {how:?} {name} {qtype}: {got:?}");
            assert_eq!(got.status, *status, "{what}");
            assert_eq!(got.answer, set(answer), "{what}");
            assert_eq!(got.authority, set(authority), "{what}");
            assert!(got.flags.contains("qr") && got.flags.contains("aa"), "{what}");
            assert!(!got.flags.contains("ra") && !got.flags.contains("ad"), "{what}");
            count += 1;
        }
        // Not ours.
        let got = asked(&bed, tool, &how, "www.example.org", "A");
        assert_eq!((got.status.as_str(), got.flags.contains("aa")), ("REFUSED", false));
    }
    let stats = daemon.stats();
    assert!(stats["worker_query_tcp"] >= 2 * ROWS.len() as u64 && stats["worker_restarted"] == 0);
    assert!(stats["xdp_answer_a"] > 0, "what XDP can answer it does");
    say!("workers: {count} answers to dig and kdig, UDP and TCP, IPv4 and IPv6");
}

#[test]
fn a_name_that_a_wildcard_a_dname_or_others_answer_for_is_never_denied_by_the_kernel() {
    const MORE: &str = "*.w IN A 192.0.2.7\nmoved IN DNAME w\nsub IN NS ns.sub\nns.sub IN A 192.0.2.8\n";
    let bed = Bed::new();
    let daemon = Daemon::start(&bed, &config(&bed, "mode = \"native\""));
    let names = ["q.w.example.com", "q.moved.example.com", "a.b.sub.example.com"];
    let ask = |name| {
        let got = asked(&bed, "kdig", &["@10.53.0.1", "+norec", "+notcp"], name, "A");
        (got.status, got.flags.contains("aa"), got.answer.len(), got.authority.len())
    };
    let before = daemon.stats();
    for name in names {
        assert_eq!(ask(name), ("NXDOMAIN".to_owned(), true, 0, 1), "{name}: all names are known");
    }
    assert_eq!(rise(&before, &daemon.stats(), "xdp_answer_nxdomain"), 3, "the kernel says so");
    bed.write("example.com.zone", &format!("{ZONE}{MORE}"));
    daemon.reload().unwrap();
    let before = daemon.stats();
    let wanted = [(true, 1, 0), (true, 3, 0), (false, 0, 1)];
    for (name, (aa, answers, authorities)) in names.into_iter().zip(wanted) {
        assert_eq!(ask(name), ("NOERROR".to_owned(), aa, answers, authorities), "{name}");
    }
    assert_eq!(ask("nowhere.example.com"), ("NXDOMAIN".to_owned(), true, 0, 1));
    assert_eq!(ask("s1.example.com"), ("NOERROR".to_owned(), true, 1, 0));
    let after = daemon.stats();
    assert_eq!(rise(&before, &after, "xdp_answer_nxdomain"), 0, "{}", risen(&before, &after));
    assert_eq!(rise(&before, &after, "xdp_answer_a"), 1, "GSLB names of the zone stay in the kernel");
}

/// A message that is no ordinary query, and the response code; None: no reply.
fn shapes() -> Vec<(&'static str, Vec<u8>, Option<u16>)> {
    let plain = || dns::query(77, "s1.example.com", A);
    let changed = |at: usize, value: u8| {
        let mut query = plain();
        query[at] = value;
        query
    };
    let mut twice = dns::with_opt(plain(), 0);
    twice.extend_from_within(plain().len()..);
    twice[11] = 2;
    vec![
        ("an OPT", dns::with_opt(plain(), 0), Some(0)),
        ("EDNS version 1", dns::with_opt(plain(), 1), Some(16)),
        ("EDNS version 255", dns::with_opt(plain(), 255), Some(16)),
        ("two OPTs", twice, Some(1)),
        ("opcode STATUS", changed(2, 2 << 3), Some(4)),
        ("opcode NOTIFY", changed(2, 4 << 3), Some(4)),
        ("opcode UPDATE", changed(2, 5 << 3), Some(4)),
        ("two questions promised", changed(5, 2), Some(1)),
        ("no question", dns::query(77, "", A)[..12].to_vec(), Some(1)),
        ("a question cut short", plain()[..20].to_vec(), Some(1)),
        ("a pointer as a name", changed(12, 0xc0), Some(1)),
        ("class CH", changed(plain().len() - 1, 3), Some(5)),
        ("a response", changed(2, 0x80), None),
        ("less than a header", plain()[..11].to_vec(), None),
    ]
}

#[test]
fn queries_of_odd_shape_get_the_error_that_fits_or_silence() {
    let bed = Bed::new();
    for mode in ["native", "off"] {
        let daemon = Daemon::start(&bed, &config(&bed, &format!("mode = {mode:?}")));
        let socket = dns::socket(&bed);
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for (what, message, expected) in shapes() {
            let reply = dns::exchange(&socket, &message);
            let rcode = reply.as_deref().map(|reply| {
                assert_eq!((reply[0..2].to_vec(), reply[2] & 0x80), (message[..2].to_vec(), 0x80), "{what}");
                extended_rcode(reply)
            });
            assert_eq!(rcode, expected, "{mode}: {what}: {reply:02x?}");
        }
        assert_eq!(dns::ask(&socket, "s1.example.com", A).rcode, 0, "{mode}: and goes on");
        daemon.stop();
    }
}

/// The code of the header, with the upper bits of an OPT at the end of the message.
fn extended_rcode(reply: &[u8]) -> u16 {
    let low = u16::from(reply[3] & 0xf);
    let has_opt = reply[11] == 1 && reply.len() >= 11 && reply[reply.len() - 11..][..3] == [0, 0, 41];
    let high = if has_opt { u16::from(reply[reply.len() - 6]) } else { 0 };
    high << 4 | low
}

#[test]
fn error_replies_are_rate_limited_and_answers_are_not() {
    const QUERIES: u64 = 600;
    let bed = Bed::new();
    let daemon = Daemon::start(&bed, &config(&bed, "mode = \"off\""));
    let socket = dns::socket(&bed);
    let before = daemon.stats();
    let started = std::time::Instant::now();
    for id in 0..QUERIES {
        socket.send(&dns::query(id as u16, "www.example.org", A)).unwrap();
        if id % 16 == 15 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let settled = || rise(&before, &daemon.stats(), "worker_query_udp") == QUERIES;
    while !settled() {
        assert!(started.elapsed() < crate::daemon::PATIENCE, "{}", risen(&before, &daemon.stats()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    // One client prefix may have 50 at once and 20 a second, at each worker.
    let most = workers * (50 + 20 * (started.elapsed().as_secs() + 1));
    let after = daemon.stats();
    let (refused, limited) =
        (rise(&before, &after, "worker_answer_refused"), rise(&before, &after, "worker_limited"));
    assert_eq!(refused + limited, QUERIES, "{}", risen(&before, &after));
    assert!((50..=most).contains(&refused), "{refused} of {QUERIES} refused aloud, at most {most}");
    // Replies that wait in the socket are no answers to what comes now.
    let fresh = dns::socket(&bed);
    assert!(
        (0..200).all(|_| dns::ask(&fresh, "s1.example.com", A).rcode == 0),
        "good answers are not limited"
    );
    let query = dns::query(3, "www.example.org", A);
    assert_eq!(dns::read(&query, &dns::exchange_tcp(&bed, dns::SERVER, &query)).rcode, 5, "nor is TCP");
    say!("error replies: {refused} of {QUERIES} REFUSED sent, {limited} limited");
}

#[test]
fn a_name_without_a_decision_gets_servfail_until_there_is_one() {
    let bed = Bed::new();
    let mut text = text::head(&bed, "") + &text::stable();
    let _ = write!(
        text,
        "[[monitor]]\nname = \"slow\"\ntype = \"tcp\"\ninterval = \"5s\"\ntimeout = \"1s\"\n\n[[service]]\nname = \"slow\"\n\
         address = \"10.53.0.99\"\nport = 80\nmonitors = [\"slow\"]\n\n{}",
        text::vserver("slow", &["slow"], "")
    );
    let daemon = Start::new(&bed, &bed.write("responder.toml", &text)).spawn();
    daemon.wait_line("a new world", |line| line.contains("a new world"));
    let socket = dns::socket(&bed);
    assert_eq!(dns::ask(&socket, "slow.example.com", A).rcode, 2);
    daemon.wait_ready();
    let reply = dns::ask(&socket, "slow.example.com", A);
    assert_eq!((reply.rcode, reply.answers), (0, 1), "down: the ladder gives all that are bound");
}

#[test]
fn many_addresses_are_cut_to_what_the_client_takes() {
    let bed = Bed::new();
    let mut text = text::head(&bed, "mode = \"off\"") + "[[zone]]\nname = \"example.com\"\n\n";
    let names: Vec<String> = (0..40).map(|i| format!("m{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        text += &text::service(name, &format!("2001:db8:77::{i}"));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    text += &text::vserver("many", &names, "multiple_ip_response = true");
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &text));
    let socket = dns::socket(&bed);
    // 512 octets without OPT: extras are dropped from the tail, which is no truncation.
    let reply = dns::ask(&socket, "many.example.com", dns::AAAA);
    assert!(!reply.tc && (1..=18).contains(&reply.answers), "{} answers", reply.answers);
    let query = dns::query(9, "many.example.com", dns::AAAA);
    let reply = dns::read(&query, &dns::exchange_tcp(&bed, dns::SERVER, &query));
    assert_eq!((reply.answers, reply.tc), (40, false), "all of them by TCP");
    drop(daemon);
}
