//! DNS records as zones: a zone that holds its SOA and NS alone stands in the configuration, any other has a master file
//! beside it, which is read back as it was written.

use std::collections::BTreeMap;

use super::{
    doc::{Row, V},
    kind::Kind,
    lexer,
    objects::{Object, Store},
    read::ADDRESSES,
    table,
    translate::Translated,
};
use crate::model::DnsName;

/// How a master file of ours begins. One that begins otherwise was written, or changed, by somebody else.
pub(super) const HEADER: &str =
    "; Records of ns.conf, written by responderctl. Take this line away to change them here.";

/// TTL of records that have none of their own (NetScaler's default).
const TTL: &str = "3600";

const KINDS: [Kind; 8] = [
    Kind::NsRec,
    Kind::ARec,
    Kind::AaaaRec,
    Kind::CnameRec,
    Kind::MxRec,
    Kind::TxtRec,
    Kind::SrvRec,
    Kind::PtrRec,
];

fn record_type(kind: Kind) -> &'static str {
    match kind {
        Kind::SoaRec => "SOA",
        Kind::NsRec => "NS",
        Kind::ARec => "A",
        Kind::AaaaRec => "AAAA",
        Kind::CnameRec => "CNAME",
        Kind::MxRec => "MX",
        Kind::TxtRec => "TXT",
        Kind::SrvRec => "SRV",
        _ => "PTR",
    }
}

/// The owner of a record.
fn owner(record: &Object) -> Option<DnsName> {
    let first = record.name.split(' ').next().unwrap_or_default();
    DnsName::parse(first).ok()
}

fn absolute(name: &str) -> String {
    DnsName::parse(name).map_or_else(|_| name.to_owned(), |name| dotted(&name))
}

fn dotted(name: &DnsName) -> String {
    let text = name.to_string();
    if text.ends_with('.') { text } else { text + "." }
}

/// The name of a mailbox, which is a domain name.
fn mailbox(contact: &str) -> Option<DnsName> {
    let text = match contact.split_once('@') {
        Some((user, host)) => format!("{}.{host}", user.replace('.', "\\.")),
        None => contact.to_owned(),
    };
    DnsName::parse(&text).ok()
}

/// Root hints that every saved configuration carries.
fn is_hint(name: &DnsName) -> bool {
    let text = name.to_string();
    text == "." || text.is_empty() || text.ends_with(".root-servers.net")
}

/// Zones with their records, and master files.
pub(super) fn zones(store: &Store, out: &mut Translated) {
    let mut apexes: BTreeMap<DnsName, Vec<(Kind, &Object)>> = BTreeMap::new();
    for soa in store.all(Kind::SoaRec) {
        if let Some(name) = owner(soa) {
            apexes.entry(name).or_default();
        }
    }
    let mut records: Vec<(DnsName, Kind, &Object)> = Vec::new();
    let mut hints = Vec::new();
    for kind in KINDS {
        for record in store.all(kind) {
            let Some(name) = owner(record) else { continue };
            if is_hint(&name) && !apexes.keys().any(|apex| name.is_under(apex)) {
                hints.push(record.line);
            } else {
                records.push((name, kind, record));
            }
        }
    }
    if let Some(line) = hints.first() {
        let text =
            format!("{} records of the root servers are left out: the resolver brings its own", hints.len());
        out.warnings.push((*line, text));
    }
    // NS records make a zone where no zone holds them; the shortest names first, so that the others lie in it. What lies in
    // no zone is a zone of its own: we answer for no name that nobody mentioned.
    for makes_zone in [true, false] {
        let mut owners: Vec<&DnsName> = records
            .iter()
            .filter(|(_, kind, _)| !makes_zone || *kind == Kind::NsRec)
            .map(|(name, ..)| name)
            .collect();
        owners.sort_by_key(|name| name.wire().len());
        for name in owners {
            if !apexes.keys().any(|apex| name.is_under(apex)) {
                apexes.insert(name.clone(), Vec::new());
            }
        }
    }
    for (name, kind, record) in records {
        let apex =
            apexes.keys().filter(|apex| name.is_under(apex)).max_by_key(|apex| apex.wire().len()).cloned();
        if let Some(list) = apex.and_then(|apex| apexes.get_mut(&apex)) {
            list.push((kind, record));
        }
    }
    // In the order in which zones were added.
    let position = |apex: &DnsName| {
        store.all(Kind::SoaRec).position(|soa| owner(soa).as_ref() == Some(apex)).unwrap_or(usize::MAX)
    };
    let mut apexes: Vec<(DnsName, Vec<(Kind, &Object)>)> = apexes.into_iter().collect();
    apexes.sort_by_key(|(apex, _)| position(apex));
    for (apex, records) in apexes {
        let row = zone(store, &apex, &records, out);
        out.doc.rows.push(row);
    }
}

fn zone(store: &Store, apex: &DnsName, records: &[(Kind, &Object)], out: &mut Translated) -> Row {
    let text = apex.to_string();
    let mut row = Row::new("zone", text.as_str());
    let soa = store.get(Kind::SoaRec, &text);
    let is_bare = records.iter().all(|(kind, record)| {
        *kind == Kind::NsRec && owner(record).as_ref() == Some(apex) && record.given("TTL").is_none()
    });
    if !is_bare {
        let file = format!("{}.zone", file_stem(&text));
        out.files.push((file.clone(), master(apex, soa, records)));
        row.set("file", file);
        return row;
    }
    if let Some(soa) = soa {
        let mut fields = Vec::new();
        fields.extend(soa.given("originServer").map(|name| ("mname", name.into())));
        fields.extend(soa.given("contact").and_then(mailbox).map(|name| ("rname", V::S(name.to_string()))));
        for key in ["serial", "refresh", "retry", "expire", "minimum"] {
            fields.extend(soa.number(key).map(|n| (key, n.into())));
        }
        fields.extend(soa.number("TTL").map(|n| ("ttl", n.into())));
        if !fields.is_empty() {
            row.set("soa", V::T(fields));
        }
    }
    let server = |(_, record): &(Kind, &Object)| {
        let name = record.given("nameServer")?;
        Some(match record.all(ADDRESSES) {
            [] => name.into(),
            [one] => V::T(vec![("name", name.into()), ("address", one.as_str().into())]),
            all => {
                let all = all.iter().map(|address| address.as_str().into()).collect();
                V::T(vec![("name", name.into()), ("address", V::L(all))])
            }
        })
    };
    let servers: Vec<V> = records.iter().filter_map(server).collect();
    if !servers.is_empty() {
        row.set("ns", V::L(servers));
    }
    row
}

fn file_stem(apex: &str) -> String {
    apex.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect()
}

/// A master file.
fn master(apex: &DnsName, given: Option<&Object>, records: &[(Kind, &Object)]) -> String {
    let mut out = format!("{HEADER}\n$TTL {TTL}\n{}\n", soa(apex, given));
    for (kind, record) in records {
        let Some(name) = owner(record) else { continue };
        let ttl = record.given("TTL").map_or_else(String::new, |ttl| format!(" {ttl}"));
        out.extend([
            &dotted(&name),
            ttl.as_str(),
            " IN ",
            record_type(*kind),
            " ",
            &data(*kind, record),
            "\n",
        ]);
        // What our configuration says beside the name of a server.
        let server = record.given("nameServer").and_then(|name| DnsName::parse(name).ok());
        for address in record.all(ADDRESSES) {
            let Some(server) = server.as_ref().filter(|server| server.is_under(apex)) else { continue };
            let kind = if address.contains(':') { "AAAA" } else { "A" };
            out.extend([&dotted(server), " IN ", kind, " ", address.as_str(), "\n"]);
        }
    }
    out
}

/// The SOA record of a zone; what is not given has its default.
fn soa(apex: &DnsName, given: Option<&Object>) -> String {
    let defaults = crate::model::zone::Soa::default_for(apex);
    let given = |key: &str| given.and_then(|soa| soa.given(key));
    let or_default = |key: &'static str| {
        given(key).or(table::spec_of(Kind::SoaRec).arg(key).and_then(|arg| arg.default)).unwrap_or("1")
    };
    let mname = given("originServer").map_or_else(|| dotted(&defaults.mname), absolute);
    let rname = given("contact").and_then(mailbox).unwrap_or(defaults.rname);
    let numbers = ["serial", "refresh", "retry", "expire", "minimum"].map(or_default).join(" ");
    format!("{} {} IN SOA {mname} {} {numbers}", dotted(apex), or_default("TTL"), dotted(&rname))
}

fn data(kind: Kind, record: &Object) -> String {
    let of = |key: &str| record.given(key).unwrap_or("0");
    match kind {
        Kind::NsRec => absolute(of("nameServer")),
        Kind::ARec => of("IPAddress").to_owned(),
        Kind::AaaaRec => of("IPv6Address").to_owned(),
        Kind::CnameRec => absolute(of("canonicalName")),
        Kind::MxRec => format!("{} {}", of("pref"), absolute(of("mx"))),
        Kind::TxtRec => record.all("String").iter().map(|text| quoted(text)).collect::<Vec<_>>().join(" "),
        Kind::SrvRec => {
            format!("{} {} {} {}", of("priority"), of("weight"), of("port"), absolute(of("target")))
        }
        _ => absolute(of("domain")),
    }
}

/// A character string (RFC 1035 5.1).
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            b' '..=b'~' => out.push(byte as char),
            _ => out.extend(["\\", &format!("{byte:03}")]),
        }
    }
    out + "\""
}

/// The strings of a TXT record that [`quoted`] wrote.
fn unquoted(text: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut bytes = text.bytes().peekable();
    while bytes.next_if_eq(&b'"').is_some() {
        let mut string = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => {
                    let first = bytes.next()?;
                    if first.is_ascii_digit() {
                        let rest =
                            [bytes.next()?, bytes.next()?].map(|digit| u32::from(digit.wrapping_sub(b'0')));
                        let code = u32::from(first - b'0') * 100 + rest[0] * 10 + rest[1];
                        string.push(u8::try_from(code).ok()?);
                    } else {
                        string.push(first);
                    }
                }
                byte => string.push(byte),
            }
        }
        out.push(String::from_utf8(string).ok()?);
        while bytes.next_if_eq(&b' ').is_some() {}
    }
    bytes.next().is_none().then_some(out)
}

/// The commands that make the records of a master file of ours; None for a file of somebody else.
pub(super) fn commands(text: &str) -> Option<Vec<String>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return None;
    }
    let bare = |name: &str| name.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned();
    let mut out = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(['$', ';'])) {
        let (head, tail) = line.split_once(" IN ")?;
        let (name, ttl) = head.split_once(' ').unwrap_or((head, ""));
        let (kind, data) = tail.split_once(' ')?;
        let words: Vec<&str> = data.split(' ').collect();
        let name = bare(name);
        // Nobody gave it one, or it says the same.
        if kind == "SOA" && DnsName::parse(&name).is_ok_and(|apex| soa(&apex, None) == line) {
            continue;
        }
        let ttl = if ttl.is_empty() { String::new() } else { format!(" -TTL {ttl}") };
        out.push(match (kind, &words[..]) {
            ("SOA", [mname, rname, serial, refresh, retry, expire, minimum]) => {
                let serial = if *serial == "1" { String::new() } else { format!(" -serial {serial}") };
                format!(
                    "add dns soaRec {name} -originServer {} -contact {}{serial} -refresh {refresh} -retry {retry} -expire {expire} -minimum {minimum}{ttl}",
                    bare(mname),
                    lexer::write(&bare(rname))
                )
            }
            ("NS", [server]) => format!("add dns nsRec {name} {}{ttl}", bare(server)),
            ("A", [address]) => format!("add dns aRec {name} {address}{ttl}"),
            ("AAAA", [address]) => format!("add dns aaaaRec {name} {address}{ttl}"),
            ("CNAME", [to]) => format!("add dns cnameRec {name} {}{ttl}", bare(to)),
            ("MX", [pref, mx]) => format!("add dns mxRec {name} {} -pref {pref}{ttl}", bare(mx)),
            ("SRV", [priority, weight, port, target]) => format!(
                "add dns srvRec {name} {} -priority {priority} -weight {weight} -port {port}{ttl}",
                bare(target)
            ),
            ("PTR", [to]) => format!("add dns ptrRec {name} {}{ttl}", bare(to)),
            ("TXT", _) => {
                let strings: Vec<String> = unquoted(data)?.iter().map(|text| lexer::write(text)).collect();
                format!("add dns txtRec {name} {}{ttl}", strings.join(" "))
            }
            _ => return None,
        });
    }
    Some(out)
}
