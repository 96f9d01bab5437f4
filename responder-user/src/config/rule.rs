//! The expressions of DNS policies (spec/netscaler.md 2.2).
//!
//! ```text
//! or      = and { "||" and }
//! and     = unary { "&&" unary }
//! unary   = "!" unary | postfix
//! postfix = ( "(" or ")" | "true" | "false" | call ) { "." "NOT" }
//! call    = word { "." word } "(" argument ")"
//! ```
//!
//! Keywords ignore case. `&&` binds tighter than `||`.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::model::{
    Location, Rule,
    policy::{NameTest, TextOp},
};

/// Parentheses and `!` inside each other: the parser and everything that walks a rule recurse so deep.
const MAX_DEPTH: usize = 64;
/// Parts of one rule; operators of one kind nest to the left, so this bounds the recursion of a long chain too.
const MAX_PARTS: usize = 1000;
/// Characters of a string literal (spec/netscaler.md 2.2).
const MAX_LITERAL: usize = 255;

/// Why a text is not a rule that this version can evaluate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {}: {text}", at + 1)]
pub struct RuleError {
    /// Byte offset in the rule.
    pub at: usize,
    /// What is wrong there.
    pub text: String,
}

/// Reads a rule. No input panics or recurses deeper than a fixed bound.
pub fn parse(text: &str) -> Result<Rule, RuleError> {
    let mut parser = Parser { text, at: 0, depth: 0, parts: 0 };
    let rule = parser.or()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(rule),
        Some(')') => fail(parser.at, "this parenthesis closes nothing"),
        Some(_) => fail(parser.at, format!("expected && or ||, found {}", parser.found())),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    parts: usize,
}

/// What the grammar of NetScaler has and this version does not, by how it begins.
const NOT_YET: [&str; 6] = ["CLIENT", "DNS", "HTTP", "SERVER", "SYS", "TEXT"];

/// What a name server cannot see.
const UNSEEN: [&str; 2] = ["CLIENT.ETHER", "CLIENT.VLAN"];

/// The calls that work, without those of names.
const CALLS: [(&str, Call); 15] = [
    ("CLIENT.IP.SRC.MATCHES_LOCATION", Call::Location),
    ("CLIENT.IP.SRC.IN_SUBNET", Call::Subnet(Family::V4)),
    ("CLIENT.IPV6.SRC.IN_SUBNET", Call::Subnet(Family::V6)),
    ("CLIENT.IP.SRC.EQ", Call::Equals(Family::V4)),
    ("CLIENT.IPV6.SRC.EQ", Call::Equals(Family::V6)),
    ("CLIENT.IP.DST.IN_SUBNET", Call::Destination(Family::V4)),
    ("CLIENT.IPV6.DST.IN_SUBNET", Call::Destination(Family::V6)),
    ("CLIENT.IP.DST.EQ", Call::DestinationEquals(Family::V4)),
    ("CLIENT.IPV6.DST.EQ", Call::DestinationEquals(Family::V6)),
    ("DNS.REQ.QUESTION.TYPE.EQ", Call::Type { equal: true, of_response: false }),
    ("DNS.REQ.QUESTION.TYPE.NE", Call::Type { equal: false, of_response: false }),
    ("DNS.RES.QUESTION.TYPE.EQ", Call::Type { equal: true, of_response: true }),
    ("DNS.RES.QUESTION.TYPE.NE", Call::Type { equal: false, of_response: true }),
    ("DNS.RES.HEADER.RCODE.EQ", Call::ResponseCode { equal: true }),
    ("DNS.RES.HEADER.RCODE.NE", Call::ResponseCode { equal: false }),
];

/// Names that can be tested, and whether they are those of a response.
const NAMES: [(&str, bool); 3] =
    [("CLIENT.UDP.DNS.DOMAIN", false), ("DNS.REQ.QUESTION.DOMAIN", false), ("DNS.RES.QUESTION.DOMAIN", true)];

/// Tests of a text; None: the negation of EQ.
const TEXT_OPS: [(&str, Option<TextOp>); 5] = [
    ("EQ", Some(TextOp::Equals)),
    ("NE", None),
    ("CONTAINS", Some(TextOp::Contains)),
    ("STARTSWITH", Some(TextOp::StartsWith)),
    ("ENDSWITH", Some(TextOp::EndsWith)),
];

/// Types that can be tested (spec/netscaler.md 2.2).
const TYPES: [(&str, u16); 10] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("AAAA", 28),
    ("SRV", 33),
    ("NAPTR", 35),
    ("ANY", 255),
];

/// Response codes that can be tested.
const CODES: [(&str, u16); 6] =
    [("NOERROR", 0), ("FORMERR", 1), ("SERVFAIL", 2), ("NXDOMAIN", 3), ("NOTIMP", 4), ("REFUSED", 5)];

#[derive(Clone, Copy)]
enum Call {
    Location,
    Subnet(Family),
    Equals(Family),
    Destination(Family),
    DestinationEquals(Family),
    Type { equal: bool, of_response: bool },
    ResponseCode { equal: bool },
}

#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn check(self, address: IpAddr) -> Result<(), String> {
        match (self, address) {
            (Self::V4, IpAddr::V6(a)) => Err(format!("{a} is an IPv6 address; write CLIENT.IPV6.SRC for it")),
            (Self::V6, IpAddr::V4(a)) => Err(format!("{a} is an IPv4 address; write CLIENT.IP.SRC for it")),
            _ => Ok(()),
        }
    }
}

type Parsed<T> = Result<T, RuleError>;

fn fail<T>(at: usize, text: impl Into<String>) -> Parsed<T> {
    Err(RuleError { at, text: text.into() })
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// The character at hand for a message.
    fn found(&self) -> String {
        self.peek().map_or_else(|| "the end of the rule".to_owned(), |c| format!("{c:?}"))
    }

    /// Counts a part of the rule.
    fn part(&mut self) -> Parsed<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return fail(self.at, format!("the rule has more than {MAX_PARTS} parts"));
        }
        Ok(())
    }

    /// Runs a step one level deeper.
    fn deeper(&mut self, at: usize, step: fn(&mut Self) -> Parsed<Rule>) -> Parsed<Rule> {
        if self.depth == MAX_DEPTH {
            return fail(at, format!("the rule is nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let rule = step(self)?;
        self.depth -= 1;
        Ok(rule)
    }

    fn or(&mut self) -> Parsed<Rule> {
        let mut left = self.and()?;
        while self.operator('|')? {
            left = Rule::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Rule> {
        let mut left = self.unary()?;
        while self.operator('&')? {
            left = Rule::And(Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    /// Takes the doubled character; a single one is a mistake.
    fn operator(&mut self, c: char) -> Parsed<bool> {
        self.skip_space();
        let at = self.at;
        if !self.take(&c.to_string()) {
            return Ok(false);
        }
        if self.peek() != Some(c) {
            return fail(at, format!("a single {c} is no operator; write {c}{c}"));
        }
        self.at += 1;
        self.part()?;
        Ok(true)
    }

    fn unary(&mut self) -> Parsed<Rule> {
        self.skip_space();
        let at = self.at;
        if self.take("!") {
            self.part()?;
            return Ok(Rule::Not(Box::new(self.deeper(at, Self::unary)?)));
        }
        let mut rule = self.primary()?;
        while self.take(".") {
            let (at, word) = self.word();
            if !word.eq_ignore_ascii_case("NOT") {
                return fail(at, format!("only NOT can follow a condition, found {word:?}"));
            }
            self.part()?;
            rule = Rule::Not(Box::new(rule));
        }
        Ok(rule)
    }

    fn primary(&mut self) -> Parsed<Rule> {
        self.skip_space();
        self.part()?;
        let open = self.at;
        if self.take("(") {
            let rule = self.deeper(open, Self::or)?;
            if !self.take(")") {
                return fail(open, "this parenthesis is not closed");
            }
            return Ok(rule);
        }
        let (at, word) = self.word();
        match word {
            "" => fail(at, format!("expected a condition, found {}", self.found())),
            _ if word.eq_ignore_ascii_case("true") => Ok(Rule::Constant(true)),
            _ if word.eq_ignore_ascii_case("false") => Ok(Rule::Constant(false)),
            _ => self.call(at),
        }
    }

    /// A word and where it begins; empty if there is none.
    fn word(&mut self) -> (usize, &'a str) {
        self.skip_space();
        let at = self.at;
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        (at, &rest[..end])
    }

    /// The rest of a call whose first word is taken.
    fn call(&mut self, start: usize) -> Parsed<Rule> {
        while self.rest().starts_with('.') {
            self.at += 1;
            if self.word().1.is_empty() {
                return fail(self.at, format!("expected a word after the dot, found {}", self.found()));
            }
        }
        let path = &self.text[start..self.at];
        let call = CALLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(path));
        match call {
            Some((name, call)) => {
                if !self.take("(") {
                    return fail(self.at, format!("expected ( after {name}, found {}", self.found()));
                }
                self.skip_space();
                match call {
                    Call::Location => self.location(),
                    Call::Subnet(family) => self.subnet(*family),
                    Call::Equals(family) => self.equals(*family),
                    Call::Destination(family) => self.net(*family).map(Rule::Destination),
                    Call::DestinationEquals(family) => {
                        self.address(*family).map(|address| Rule::Destination(address.into()))
                    }
                    Call::Type { equal, of_response } => {
                        let code = self.one_of("type", &TYPES)?;
                        Ok(negated(Rule::Type { code, of_response: *of_response }, !equal))
                    }
                    Call::ResponseCode { equal } => {
                        Ok(negated(Rule::ResponseCode(self.one_of("response code", &CODES)?), !equal))
                    }
                }
            }
            None => self.name_test(start, path),
        }
    }

    /// `DNS.REQ.QUESTION.DOMAIN.CONTAINS("x")`, whose path is taken.
    fn name_test(&mut self, start: usize, path: &str) -> Parsed<Rule> {
        let found = path.rsplit_once('.').and_then(|(subject, op)| {
            let (_, of_response) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(subject))?;
            let (_, op) = TEXT_OPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(op))?;
            Some((*of_response, *op))
        });
        let Some((of_response, op)) = found else { return fail(start, unknown(path)) };
        if !self.take("(") {
            return fail(self.at, format!("expected ( after {path}, found {}", self.found()));
        }
        self.skip_space();
        let text = self.text()?;
        self.close("the text")?;
        let test = NameTest::new(op.unwrap_or(TextOp::Equals), &text);
        Ok(negated(Rule::Name { test, id: 0, of_response }, op.is_none()))
    }

    /// An argument that is one of some words.
    fn one_of(&mut self, what: &str, words: &[(&str, u16)]) -> Parsed<u16> {
        let (at, typed) = self.argument()?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(typed));
        found.map(|(_, number)| *number).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            RuleError { at, text: format!("{typed:?} is no {what}; allowed are {}", known.join(", ")) }
        })
    }

    /// Texts joined by `+`.
    fn text(&mut self) -> Parsed<String> {
        let mut out = self.literal()?;
        while self.take("+") {
            self.part()?;
            self.skip_space();
            out += &self.literal()?;
        }
        Ok(out)
    }

    fn location(&mut self) -> Parsed<Rule> {
        let at = self.at;
        let literal = self.text()?;
        let location = Location::parse(&literal).map_err(|e| RuleError { at, text: e.to_string() })?;
        self.close("the location")?;
        Ok(Rule::MatchesLocation(location))
    }

    fn subnet(&mut self, family: Family) -> Parsed<Rule> {
        self.net(family).map(Rule::InSubnet)
    }

    fn net(&mut self, family: Family) -> Parsed<IpNet> {
        let (at, typed) = self.argument()?;
        let Ok(net) = typed.parse::<IpNet>() else {
            return fail(at, format!("{typed:?} is not a subnet, such as 10.0.0.0/8"));
        };
        family.check(net.addr()).map_err(|text| RuleError { at, text })?;
        Ok(net.trunc())
    }

    fn equals(&mut self, family: Family) -> Parsed<Rule> {
        self.address(family).map(Rule::Equals)
    }

    fn address(&mut self, family: Family) -> Parsed<IpAddr> {
        let (at, typed) = self.argument()?;
        let Ok(address) = typed.parse::<IpAddr>() else {
            return fail(at, format!("{typed:?} is not an address"));
        };
        family.check(address).map_err(|text| RuleError { at, text })?;
        Ok(address)
    }

    /// Everything up to the closing parenthesis, which is taken.
    fn argument(&mut self) -> Parsed<(usize, &'a str)> {
        let (at, rest) = (self.at, self.rest());
        let Some(end) = rest.find(')') else {
            return fail(at, "expected an argument and )");
        };
        self.at += end + 1;
        Ok((at, rest[..end].trim()))
    }

    fn close(&mut self, what: &str) -> Parsed<()> {
        if self.take(")") {
            return Ok(());
        }
        fail(self.at, format!("expected ) after {what}, found {}", self.found()))
    }

    /// A text in double quotes; `\"` and `\\` stand for themselves without the backslash.
    fn literal(&mut self) -> Parsed<String> {
        let at = self.at;
        if !self.take("\"") {
            return fail(at, format!("expected a text in double quotes, found {}", self.found()));
        }
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    if out.chars().count() > MAX_LITERAL {
                        return fail(at, format!("this text has more than {MAX_LITERAL} characters"));
                    }
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, c @ ('"' | '\\'))) => out.push(c),
                    Some((_, c)) => {
                        return fail(self.at + offset, format!("\\{c} is no escape; only \\\" and \\\\ are"));
                    }
                    None => break,
                },
                _ => out.push(c),
            }
        }
        fail(at, "this text has no closing quote")
    }
}

fn negated(rule: Rule, is_negated: bool) -> Rule {
    if is_negated { Rule::Not(Box::new(rule)) } else { rule }
}

/// The message about a call that does not work.
fn unknown(path: &str) -> String {
    let first = path.split('.').next().unwrap_or_default();
    let upper = path.to_ascii_uppercase();
    if UNSEEN.iter().any(|start| upper.starts_with(start)) {
        return format!("{path} is not supported: a name server that is asked from afar does not see it");
    }
    if path.contains('.') && NOT_YET.iter().any(|name| name.eq_ignore_ascii_case(first)) {
        return format!("not supported yet: {path}");
    }
    format!("{path:?} is not a condition; write one such as CLIENT.IP.SRC.MATCHES_LOCATION(\"Asia.HK\")")
}

#[cfg(test)]
mod tests;
