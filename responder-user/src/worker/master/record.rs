//! One record of a master file.

use hickory_proto::{
    rr::Name,
    serialize::{
        binary::{BinEncodable, BinEncoder, NameEncoding},
        txt::{Parser, parse_ttl},
    },
};

use super::{
    DNAME, DS,
    entry::{Entry, Fault, Token},
};
use crate::model::DnsName;

/// Types whose data are character strings (RFC 1035 3.3.14; SPF, RFC 7208 3.1).
const STRINGS: [u16; 2] = [16, 99];

/// A record up to its data.
#[derive(Debug)]
pub struct Head<'e, 't> {
    pub owner: DnsName,
    pub ttl: Option<u32>,
    pub rtype: u16,
    /// The type as it was written, in upper case.
    word: String,
    place: (u32, u32),
    data: Vec<&'e Token<'t>>,
}

/// `[owner] [ttl] [class] type data`, ttl and class in any order.
pub fn head<'e, 't>(
    entry: &'e Entry<'t>,
    last_owner: Option<&DnsName>,
    origin: &DnsName,
) -> Result<Head<'e, 't>, Fault> {
    let mut tokens = entry.tokens.iter();
    let start = entry.tokens.first().map_or((1, 1), |t| t.place);
    let owner = if entry.is_blank {
        last_owner.cloned().ok_or((start, "the record has no owner, and none stands before it".to_owned()))?
    } else {
        let token = tokens.next().ok_or((start, "the record is empty".to_owned()))?;
        name(&token.text, origin).map_err(|message| (token.place, message))?
    };
    let (mut ttl_given, mut class_given) = (None, false);
    for token in tokens.by_ref() {
        let (word, place) = (token.text.to_ascii_uppercase(), token.place);
        if ttl_given.is_none() && word.starts_with(|c: char| c.is_ascii_digit()) {
            ttl_given = Some(ttl(&word).map_err(|message| (place, message))?);
        } else if !class_given && word == "IN" {
            class_given = true;
        } else if ["CH", "HS", "CS", "ANY", "NONE"].contains(&word.as_str()) || word.starts_with("CLASS") {
            return Err((place, format!("class {word} is not served, only IN")));
        } else {
            let rtype = number(&word).map_err(|message| (place, message))?;
            return Ok(Head { owner, ttl: ttl_given, rtype, word, place, data: tokens.collect() });
        }
    }
    Err((start, "the record has no type".to_owned()))
}

/// The number of a type: a mnemonic, or `TYPE` and digits (RFC 3597 5).
fn number(word: &str) -> Result<u16, String> {
    if let Some(number) = word.strip_prefix("TYPE").and_then(|digits| digits.parse().ok()) {
        return Ok(number);
    }
    match word.parse::<hickory_proto::rr::RecordType>() {
        Ok(rtype) => Ok(rtype.into()),
        Err(_) if word == "SPF" => Ok(99),
        Err(error) => Err(error.to_string()),
    }
}

/// A name, relative to the origin unless it ends in a dot.
pub fn name(text: &str, origin: &DnsName) -> Result<DnsName, String> {
    let is_absolute = text.ends_with('.') && !ends_in_escape(text);
    let whole = match text {
        "@" => return Ok(origin.clone()),
        _ if is_absolute || origin == &DnsName::root() => DnsName::parse(text),
        _ => DnsName::parse(text).and_then(|_| DnsName::parse(&format!("{text}.{origin}"))),
    };
    whole.map_err(|e| e.to_string())
}

/// True for `a\.`, whose dot belongs to the label.
fn ends_in_escape(text: &str) -> bool {
    let slashes = text[..text.len() - 1].bytes().rev().take_while(|b| *b == b'\\').count();
    slashes % 2 == 1
}

/// Seconds, or numbers with units.
pub fn ttl(text: &str) -> Result<u32, String> {
    parse_ttl(text).map_err(|_| format!("{text:?} is not a TTL"))
}

impl Head<'_, '_> {
    /// The data in wire format, names uncompressed.
    pub fn data(&self, origin: &DnsName) -> Result<Box<[u8]>, Fault> {
        if let [marker, rest @ ..] = &self.data[..]
            && &*marker.text == "\\#"
        {
            return generic(rest).map_err(|message| (marker.place, message));
        }
        if self.word.strip_prefix("TYPE").is_some() {
            return Err((self.place, format!("data of {} are written as \\# (RFC 3597 5)", self.word)));
        }
        match self.rtype {
            DNAME => target(&self.data, origin),
            DS => signer(&self.data),
            rtype if STRINGS.contains(&rtype) => strings(&self.data),
            _ => known(&self.word, &self.data, origin),
        }
        .map_err(|message| (self.place, message))
    }
}

/// `\# length hex...` (RFC 3597 5).
fn generic(tokens: &[&Token<'_>]) -> Result<Box<[u8]>, String> {
    let [length, hex @ ..] = tokens else { return Err("\\# wants a length".to_owned()) };
    let length: u16 = length.text.parse().map_err(|_| format!("{:?} is not a length", length.text))?;
    let digits: String = hex.iter().map(|t| &*t.text).collect();
    octets(&digits)
        .filter(|data| data.len() == usize::from(length))
        .map(Into::into)
        .ok_or_else(|| format!("{digits:?} is not {length} octets in hexadecimal"))
}

/// A DNAME (RFC 6672 2.1), which `hickory_proto` does not read.
fn target(tokens: &[&Token<'_>], origin: &DnsName) -> Result<Box<[u8]>, String> {
    match tokens {
        [only] => name(&only.text, origin).map(|target| target.wire().into()),
        _ => Err(format!("DNAME has 1 field(s), not {}", tokens.len())),
    }
}

/// `tag algorithm digest-type hex...` (RFC 4034 5.3), which `hickory_proto` does not read. Algorithms are numbers or the
/// mnemonics of RFC 4034 appendix A.1 and its successors.
fn signer(tokens: &[&Token<'_>]) -> Result<Box<[u8]>, String> {
    const ALGORITHMS: [(&str, u8); 9] = [
        ("DSA", 3),
        ("RSASHA1", 5),
        ("DSA-NSEC3-SHA1", 6),
        ("RSASHA256", 8),
        ("RSASHA512", 10),
        ("ECDSAP256SHA256", 13),
        ("ECDSAP384SHA384", 14),
        ("ED25519", 15),
        ("ED448", 16),
    ];
    let [tag, algorithm, digest, hex @ ..] = tokens else {
        return Err("DS has at least 4 fields".to_owned());
    };
    let named = ALGORITHMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&algorithm.text));
    let octet =
        |text: &str| text.parse::<u8>().map_err(|_| format!("{text:?} is not a number from 0 to 255"));
    let tag = tag.text.parse::<u16>().map_err(|_| format!("{:?} is not a key tag", tag.text))?;
    let algorithm = named.map_or_else(|| octet(&algorithm.text), |(_, number)| Ok(*number))?;
    let digits: String = hex.iter().map(|t| &*t.text).collect();
    let digest_octets = octets(&digits).filter(|digest| !digest.is_empty());
    let digest_octets = digest_octets.ok_or_else(|| format!("{digits:?} is not a digest in hexadecimal"))?;
    let [high, low] = tag.to_be_bytes();
    Ok([&[high, low, algorithm, octet(&digest.text)?], &digest_octets[..]].concat().into())
}

fn octets(digits: &str) -> Option<Vec<u8>> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let octet = |i: usize| digits.get(i..i + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// Character strings: `hickory_proto` keeps text, and octets above 127 would become two.
fn strings(tokens: &[&Token<'_>]) -> Result<Box<[u8]>, String> {
    if tokens.is_empty() {
        return Err("at least one string is needed".to_owned());
    }
    let mut data = Vec::new();
    for token in tokens {
        let string = unescape(&token.text)?;
        let length =
            u8::try_from(string.len()).map_err(|_| "a string has more than 255 octets".to_owned())?;
        data.push(length);
        data.extend(string);
    }
    if data.len() > usize::from(u16::MAX) { Err("the data are too long".to_owned()) } else { Ok(data.into()) }
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let (octet, after) = match (first, tail) {
            (b'\\', [a, b, c, after @ ..]) if a.is_ascii_digit() => {
                let digits = [*a, *b, *c];
                let number = std::str::from_utf8(&digits).ok().and_then(|d| d.parse::<u8>().ok());
                (number.ok_or_else(|| format!("{text:?} has a bad escape"))?, after)
            }
            (b'\\', [escaped, after @ ..]) if !escaped.is_ascii_digit() => (*escaped, after),
            (b'\\', _) => return Err(format!("{text:?} has a bad escape")),
            (octet, after) => (*octet, after),
        };
        octets.push(octet);
        rest = after;
    }
    Ok(octets)
}

/// Fields of the data of a type, where their number is fixed: `hickory_proto` ignores what is too much, which a missing
/// semicolon before a comment makes.
fn fields(word: &str) -> Option<usize> {
    Some(match word {
        "A" | "AAAA" | "NS" | "CNAME" | "PTR" => 1,
        "MX" | "HINFO" => 2,
        "CAA" | "SSHFP" => 3,
        "SRV" => 4,
        "NAPTR" => 6,
        "SOA" => 7,
        _ => return None,
    })
}

/// Data that `hickory_proto` reads, given as one line.
fn known(word: &str, tokens: &[&Token<'_>], origin: &DnsName) -> Result<Box<[u8]>, String> {
    if let Some(wanted) = fields(word).filter(|wanted| *wanted != tokens.len()) {
        return Err(format!("{word} has {wanted} field(s), not {}", tokens.len()));
    }
    let dotted = if origin == &DnsName::root() { ".".to_owned() } else { format!("{origin}.") };
    let mut line = format!(". 0 IN {word}");
    for token in tokens {
        line.push(' ');
        match (&*token.text, token.quoted) {
            ("@", false) => line.push_str(&dotted),
            (text, false) => line.push_str(text),
            (text, true) => {
                line.push('"');
                line.push_str(text);
                line.push('"');
            }
        }
    }
    line.push('\n');
    let origin = Name::from_ascii(&dotted).map_err(|e| e.to_string())?;
    let (_, sets) = Parser::new(line, None, Some(origin)).parse().map_err(|e| e.to_string())?;
    let set = sets.values().next().ok_or("the data are missing")?;
    let record = set.records_without_rrsigs().next().ok_or("the data are missing")?;
    let mut data = Vec::new();
    let mut encoder = BinEncoder::new(&mut data);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    record.data.emit(&mut encoder).map_err(|e| e.to_string())?;
    Ok(data.into())
}
