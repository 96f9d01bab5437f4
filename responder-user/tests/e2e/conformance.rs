//! The probes of RFC 8906 section 8 and of ISC's genreport, as a client sends them: over UDP and TCP, IPv4 and IPv6, with
//! the answers from XDP and from the workers alone.

use crate::{
    bed::Bed,
    daemon::{Daemon, rise},
    dns::{self, A, SERVER},
    say, text,
};

const SOA: u16 = 6;
const SERVER_V6: &str = "[2001:db8:53::1]:53";

// Bits of the flag word.
const AA: u16 = 0x0400;
const TC: u16 = 0x0200;
const RD: u16 = 0x0100;
const RA: u16 = 0x0080;
const Z: u16 = 0x0040;
const AD: u16 = 0x0020;
const CD: u16 = 0x0010;

const NOERROR: u16 = 0;
const NOTIMP: u16 = 4;
const BADVERS: u16 = 16;

/// What a probe sends beside its question.
#[derive(Clone, Default)]
struct Probe {
    name: &'static str,
    flags: u16,
    opcode: u16,
    /// Another type than the one of the target.
    qtype: Option<u16>,
    /// Version, flags and options of OPT.
    opt: Option<(u8, u16, Vec<u8>)>,
    payload: u16,
    rcode: u16,
}

fn option(code: u16, data: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

fn probes() -> Vec<Probe> {
    let plain = |name, flags| Probe { name, flags, payload: 1232, ..Probe::default() };
    let edns = |name, flags: u16, options: &[u8]| Probe {
        name,
        opt: Some((0, flags, options.to_vec())),
        payload: 1232,
        ..Probe::default()
    };
    let later = |name, flags: u16, options: &[u8]| Probe {
        name,
        opt: Some((1, flags, options.to_vec())),
        payload: 1232,
        rcode: BADVERS,
        ..Probe::default()
    };
    let nsid = option(3, &[]);
    let cookie = option(10, b"\x01\x02\x03\x04\x05\x06\x07\x08");
    let expire = option(9, &[]);
    let subnet = option(8, &[0, 1, 24, 0, 192, 0, 2]);
    let unknown = option(100, &[]);
    let list = [&nsid[..], &subnet, &cookie, &expire, &unknown].concat();
    vec![
        plain("dns", 0),
        plain("aa", AA),
        plain("ad", AD),
        plain("cd", CD),
        plain("ra", RA),
        plain("rd", RD),
        plain("tc", TC),
        plain("zflag", Z),
        Probe { opcode: 15, rcode: NOTIMP, ..plain("opcode", 0) },
        Probe { opcode: 15, rcode: NOTIMP, ..plain("opcodeflg", AA | TC | RD | RA | Z | AD | CD) },
        Probe { qtype: Some(666), ..plain("type666", 0) },
        Probe { qtype: Some(48), ..plain("dnskey", 0) },
        edns("edns", 0, &[]),
        later("edns1", 0, &[]),
        Probe { payload: 512, ..edns("edns@512", 0x8000, &[]) },
        Probe { payload: 0, ..edns("edns@0", 0, &[]) },
        edns("ednsopt", 0, &unknown),
        later("edns1opt", 0, &unknown),
        edns("do", 0x8000, &[]),
        later("edns1do", 0x8000, &[]),
        edns("ednsflags", 0x0080, &[]),
        later("edns1flags", 0x0080, &[]),
        edns("docookie", 0x8000, &cookie),
        edns("ednsnsid", 0, &nsid),
        edns("ednscookie", 0, &cookie),
        edns("ednsexpire", 0, &expire),
        edns("ednssubnet", 0, &subnet),
        later("edns1nsid", 0, &nsid),
        later("edns1cookie", 0, &cookie),
        later("edns1expire", 0, &expire),
        later("edns1subnet", 0, &subnet),
        edns("optlist", 0x8000, &list),
        later("edns1optlist", 0x8000, &list),
        Probe { flags: RD | AD, ..edns("dig11", 0, &cookie) },
        Probe { flags: CD, ..edns("bind11", 0x8000, &[&nsid[..], &cookie].concat()) },
        edns("padding", 0, &option(12, &[0; 31])),
    ]
}

impl Probe {
    fn message(&self, id: u16, target: &str, qtype: u16) -> Vec<u8> {
        let mut out = dns::query(id, target, self.qtype.unwrap_or(qtype));
        let word = self.flags | (self.opcode << 11);
        out[2..4].copy_from_slice(&word.to_be_bytes());
        if let Some((version, flags, options)) = &self.opt {
            out[11] = 1;
            out.extend([0, 0, 41]);
            out.extend(self.payload.to_be_bytes());
            out.extend([0, *version]);
            out.extend(flags.to_be_bytes());
            out.extend((options.len() as u16).to_be_bytes());
            out.extend(options);
        }
        out
    }

    /// Err: what the reply says that it must not, or does not say.
    fn check(&self, query: &[u8], reply: &[u8]) -> Result<(), String> {
        let word = u16::from_be_bytes([reply[2], reply[3]]);
        let want = |what: &str, got: u16, wanted: u16| {
            if got == wanted { Ok(()) } else { Err(format!("{what}: {got:#x}, wanted {wanted:#x}")) }
        };
        want("id", u16::from_be_bytes([reply[0], reply[1]]), u16::from_be_bytes([query[0], query[1]]))?;
        want("QR", word >> 15, 1)?;
        want("opcode", (word >> 11) & 0xf, self.opcode)?;
        want("RA, Z, AD and TC", word & (RA | Z | AD | TC), 0)?;
        want("RD is as asked", word & RD, self.flags & RD)?;
        want("AA", word & AA, if self.rcode == NOERROR { AA } else { 0 })?;
        let question = query.len().min(reply.len());
        let end = 12 + query[12..].iter().position(|octet| *octet == 0).ok_or("no name")? + 5;
        if end <= question && reply[4..6] == [0, 1] && reply[12..end] != query[12..end] {
            return Err("another question".to_owned());
        }
        let message = hickory_proto::op::Message::from_vec(reply).map_err(|e| format!("unreadable: {e}"))?;
        want("response code", u16::from(message.metadata.response_code), self.rcode)?;
        if self.opcode != 0 {
            return Ok(());
        }
        let is_answered = self.rcode == NOERROR && self.qtype.is_none();
        want("answers", message.answers.len() as u16, u16::from(is_answered))?;
        let is_negative = self.rcode == NOERROR && self.qtype.is_some();
        want("SOA of a negative answer", message.authorities.len() as u16, u16::from(is_negative))?;
        let opt = opt_of(reply);
        want("OPT", u16::from(opt.is_some()), u16::from(self.opt.is_some()))?;
        let (Some((ttl, options)), Some((_, flags, asked))) = (opt, &self.opt) else { return Ok(()) };
        want("version", (ttl >> 16) as u16 & 0xff, 0)?;
        want("DO and no other flag", ttl as u16, flags & 0x8000)?;
        for code in [9_u16, 12, 100] {
            want(&format!("option {code} is not echoed"), u16::from(options.contains(&code)), 0)?;
        }
        let asks = |code: u16| asked.windows(2).any(|two| two == code.to_be_bytes());
        // What the options of a later version mean is not known.
        let has_cookie = self.rcode == NOERROR && asks(10);
        want("a cookie", u16::from(options.contains(&10)), u16::from(has_cookie))?;
        Ok(())
    }
}

/// TTL field and option codes of the OPT that ends a reply.
fn opt_of(reply: &[u8]) -> Option<(u32, Vec<u16>)> {
    let at = (12..reply.len().saturating_sub(10)).find(|at| {
        let len = usize::from(u16::from_be_bytes([reply[at + 9], reply[at + 10]]));
        reply[*at..at + 3] == [0, 0, 41] && at + 11 + len == reply.len()
    })?;
    let ttl = u32::from_be_bytes([reply[at + 5], reply[at + 6], reply[at + 7], reply[at + 8]]);
    let (mut options, mut codes) = (&reply[at + 11..], Vec::new());
    while let [a, b, c, d, rest @ ..] = options {
        codes.push(u16::from_be_bytes([*a, *b]));
        options = rest.get(usize::from(u16::from_be_bytes([*c, *d]))..)?;
    }
    Some((ttl, codes))
}

fn run(mode: &str) {
    let bed = Bed::new();
    let config = bed.write("responder.toml", &(text::head(&bed, mode) + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let before = daemon.stats();
    let udp4 = dns::socket(&bed);
    let udp6 = dns::socket_from(&bed, "[2001:db8:53::2]:0", SERVER_V6);
    let probes = probes();
    let mut wrong = Vec::new();
    for (i, probe) in probes.iter().enumerate() {
        for (target, qtype) in [("example.com", SOA), ("s1.example.com", A), ("S1.eXample.COM", 28)] {
            let query = probe.message(i as u16, target, qtype);
            let replies = [
                ("UDP over IPv4", dns::exchange(&udp4, &query)),
                ("UDP over IPv6", dns::exchange(&udp6, &query)),
                ("TCP over IPv4", Some(dns::exchange_tcp(&bed, SERVER, &query))),
                ("TCP over IPv6", Some(dns::exchange_tcp(&bed, SERVER_V6, &query))),
            ];
            for (how, reply) in replies {
                let result = reply.ok_or("no reply".to_owned()).and_then(|reply| probe.check(&query, &reply));
                if let Err(error) = result {
                    wrong.push(format!("{} {target} by {how}: {error}", probe.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} failures:\n{}", wrong.len(), wrong.join("\n"));
    let from_xdp = rise(&before, &daemon.stats(), "xdp_answer");
    say!("{} probes, 12 ways each, {mode}: all right, {from_xdp} from XDP", probes.len());
}

#[test]
fn a_query_for_a_cookie_alone_gets_one() {
    let bed = Bed::new();
    for mode in ["native", "off"] {
        let config =
            bed.write("responder.toml", &(text::head(&bed, &format!("mode = {mode:?}")) + &text::stable()));
        let daemon = Daemon::start(&bed, &config);
        for server in ["@10.53.0.1", "@2001:db8:53::1"] {
            for how in ["+notcp", "+tcp"] {
                let ask = |cookie: &str| {
                    let args = [
                        "+noall",
                        "+comments",
                        "+header-only",
                        "+norec",
                        "+nobadcookie",
                        server,
                        how,
                        cookie,
                    ];
                    bed.client_tool("dig", &args)
                };
                let field = |text: &str, name: &str| {
                    let rest = text.split_once(name).unwrap_or_else(|| panic!("{name} in {text}")).1;
                    rest.split([',', ' ', '\n']).next().unwrap_or_default().to_owned()
                };
                let first = ask("+cookie=0102030405060708");
                assert_eq!(field(&first, "status: "), "NOERROR", "{mode} {server} {how}: {first}");
                assert!(first.contains("QUERY: 0, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 1"), "{first}");
                let cookie = field(&first, "COOKIE: ");
                assert!(cookie.starts_with("0102030405060708") && cookie.len() == 48, "{first}");
                let again = ask(&format!("+cookie={cookie}"));
                assert_eq!(
                    (field(&again, "status: "), field(&again, "COOKIE: ")),
                    ("NOERROR".to_owned(), cookie.clone())
                );
                let other = ask(&format!(
                    "+cookie={}{}",
                    &cookie[..46],
                    if cookie.ends_with("00") { "01" } else { "00" }
                ));
                assert_eq!(field(&other, "status: "), "BADCOOKIE", "{other}");
            }
        }
        daemon.stop();
    }
}

#[test]
fn every_probe_is_answered_as_rfc_8906_says_with_xdp() {
    run("mode = \"native\"");
}

#[test]
fn every_probe_is_answered_as_rfc_8906_says_without_xdp() {
    run("mode = \"off\"");
}
