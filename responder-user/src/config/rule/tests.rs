use proptest::prelude::*;

use super::*;

fn location(text: &str) -> Rule {
    Rule::MatchesLocation(Location::parse(text).unwrap())
}

#[test]
fn the_conditions_of_this_version_parse() {
    let subnet = |text: &str| Rule::InSubnet(text.parse().unwrap());
    let rows = [
        (r#"CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")"#, location("*.ZMB")),
        (r#"client.ip.src.matches_location( "Asia.HK" )"#, location("Asia.HK")),
        (r#"CLIENT.IP.SRC.MATCHES_LOCATION("NA.US.\"New York\"")"#, location(r#"NA.US."New York""#)),
        ("CLIENT.IP.SRC.IN_SUBNET(1.1.1.1/24)", subnet("1.1.1.0/24")),
        ("CLIENT.IPV6.SRC.IN_SUBNET( 2001:db8::/32 )", subnet("2001:db8::/32")),
        ("CLIENT.IP.SRC.EQ(192.0.2.1)", Rule::Equals("192.0.2.1".parse().unwrap())),
        ("CLIENT.IPV6.SRC.EQ(2001:db8::1)", Rule::Equals("2001:db8::1".parse().unwrap())),
        ("TRUE", Rule::Constant(true)),
        (" ( false ) ", Rule::Constant(false)),
    ];
    for (text, rule) in rows {
        assert_eq!(parse(text), Ok(rule), "{text}");
    }
}

#[test]
fn names_types_and_codes_parse() {
    let name = |op, text: &str, of_response| Rule::Name { test: NameTest::new(op, text), id: 0, of_response };
    let not = |rule| Rule::Not(Box::new(rule));
    let net = |text: &str| Rule::Destination(text.parse().unwrap());
    let rows = [
        (r#"DNS.REQ.QUESTION.DOMAIN.EQ("www.Example.com.")"#, name(TextOp::Equals, "www.example.com", false)),
        (r#"dns.req.question.domain.ne("a")"#, not(name(TextOp::Equals, "a", false))),
        (r#"CLIENT.UDP.DNS.DOMAIN.CONTAINS("a" + "b")"#, name(TextOp::Contains, "ab", false)),
        (r#"CLIENT.UDP.DNS.DOMAIN.STARTSWITH("a")"#, name(TextOp::StartsWith, "a", false)),
        (r#"DNS.RES.QUESTION.DOMAIN.ENDSWITH("a")"#, name(TextOp::EndsWith, "a", true)),
        ("DNS.REQ.QUESTION.TYPE.EQ(A)", Rule::Type { code: 1, of_response: false }),
        ("dns.req.question.type.ne(aaaa)", not(Rule::Type { code: 28, of_response: false })),
        ("DNS.RES.QUESTION.TYPE.EQ( MX )", Rule::Type { code: 15, of_response: true }),
        ("DNS.RES.HEADER.RCODE.NE(NXDOMAIN)", not(Rule::ResponseCode(3))),
        ("CLIENT.IP.DST.EQ(192.0.2.53)", net("192.0.2.53/32")),
        ("CLIENT.IPV6.DST.IN_SUBNET(2001:db8::1/32)", net("2001:db8::/32")),
        (r#"CLIENT.IP.SRC.MATCHES_LOCATION("Asia" + ".HK")"#, location("Asia.HK")),
    ];
    for (text, rule) in rows {
        assert_eq!(parse(text), Ok(rule), "{text}");
    }
}

#[test]
fn and_binds_tighter_than_or_and_not_tighter_than_both() {
    let (t, f) = (|| Box::new(Rule::Constant(true)), || Box::new(Rule::Constant(false)));
    let not = |rule| Box::new(Rule::Not(rule));
    let rows = [
        ("true || false && true", Rule::Or(t(), Box::new(Rule::And(f(), t())))),
        ("(true || false) && true", Rule::And(Box::new(Rule::Or(t(), f())), t())),
        ("!true && false", Rule::And(not(t()), f())),
        ("true.NOT||!false.not", Rule::Or(not(t()), not(not(f())))),
        ("(true && false).NOT", Rule::Not(Box::new(Rule::And(t(), f())))),
        ("true && false && true", Rule::And(Box::new(Rule::And(t(), f())), t())),
    ];
    for (text, rule) in rows {
        assert_eq!(parse(text), Ok(rule), "{text}");
    }
}

#[test]
fn mistakes_have_their_column() {
    let rows = [
        ("", "column 1: expected a condition, found the end of the rule"),
        ("true &&", "column 8: expected a condition, found the end of the rule"),
        ("true & false", "column 6: a single & is no operator; write &&"),
        ("true | false", "column 6: a single | is no operator; write ||"),
        ("true false", "column 6: expected && or ||, found 'f'"),
        ("(true", "column 1: this parenthesis is not closed"),
        ("true)", "column 5: this parenthesis closes nothing"),
        ("true.AND", "column 6: only NOT can follow a condition, found \"AND\""),
        ("CLIENT.IP.DST.EQ(::1)", "column 18: ::1 is an IPv6 address; write CLIENT.IPV6.SRC for it"),
        ("HTTP.REQ.URL.EQ(\"x\")", "column 1: not supported yet: HTTP.REQ.URL.EQ"),
        ("!CLIENT.UDP.DNS.DOMAIN.LT(\"x\")", "column 2: not supported yet: CLIENT.UDP.DNS.DOMAIN.LT"),
        (
            "DNS.REQ.QUESTION.TYPE.EQ(B)",
            "column 26: \"B\" is no type; allowed are A, NS, CNAME, SOA, PTR, MX, AAAA, SRV, NAPTR, ANY",
        ),
        (
            "dns.res.header.rcode.eq(YES)",
            "column 25: \"YES\" is no response code; allowed are NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, \
             REFUSED",
        ),
        (
            "CLIENT.VLAN.ID.EQ(1)",
            "column 1: CLIENT.VLAN.ID.EQ is not supported: a name server that is asked from afar does not see it",
        ),
        (
            "CLIENT.ETHER.SRCMAC.EQ(a)",
            "column 1: CLIENT.ETHER.SRCMAC.EQ is not supported: a name server that is asked from afar does not \
             see it",
        ),
        ("DNS.REQ.QUESTION.DOMAIN.EQ(\"a\" + b)", "column 34: expected a text in double quotes, found 'b'"),
        ("CLIENT.", "column 8: expected a word after the dot, found the end of the rule"),
        (
            "maybe",
            "column 1: \"maybe\" is not a condition; write one such as \
             CLIENT.IP.SRC.MATCHES_LOCATION(\"Asia.HK\")",
        ),
        (
            "CLIENT.IP.SRC.MATCHES_LOCATION",
            "column 31: expected ( after CLIENT.IP.SRC.MATCHES_LOCATION, found the end of the rule",
        ),
        ("CLIENT.IP.SRC.MATCHES_LOCATION(Asia)", "column 32: expected a text in double quotes, found 'A'"),
        ("CLIENT.IP.SRC.MATCHES_LOCATION(\"a", "column 32: this text has no closing quote"),
        ("CLIENT.IP.SRC.MATCHES_LOCATION(\"\\*.a\")", "column 33: \\* is no escape; only \\\" and \\\\ are"),
        (
            "CLIENT.IP.SRC.MATCHES_LOCATION(\"a..b\")",
            "column 32: \"a..b\" has an empty qualifier; write * for an omitted one",
        ),
        (
            "CLIENT.IP.SRC.MATCHES_LOCATION(\"a\"",
            "column 35: expected ) after the location, found the end of the rule",
        ),
        ("CLIENT.IP.SRC.IN_SUBNET(10.0.0.0)", "column 25: \"10.0.0.0\" is not a subnet, such as 10.0.0.0/8"),
        (
            "CLIENT.IP.SRC.IN_SUBNET(2001:db8::/32)",
            "column 25: 2001:db8:: is an IPv6 address; write CLIENT.IPV6.SRC for it",
        ),
        ("CLIENT.IP.SRC.IN_SUBNET(", "column 25: expected an argument and )"),
        ("CLIENT.IPV6.SRC.EQ(1.2.3.4)", "column 20: 1.2.3.4 is an IPv4 address; write CLIENT.IP.SRC for it"),
        ("CLIENT.IP.SRC.EQ(x)", "column 18: \"x\" is not an address"),
    ];
    for (text, message) in rows {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
    let long = format!("CLIENT.IP.SRC.MATCHES_LOCATION(\"{}\")", "x".repeat(256));
    assert!(parse(&long).unwrap_err().text.contains("more than 255 characters"));
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |n: usize| format!("{}true{}", "(".repeat(n), ")".repeat(n));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert!(parse(&nested(MAX_DEPTH + 1)).unwrap_err().text.contains("deeper than 64"));
    assert!(parse(&"!".repeat(1_000_000)).unwrap_err().text.contains("deeper than 64"));
    assert!(parse(&format!("true{}", ".NOT".repeat(1_000_000))).unwrap_err().text.contains("1000 parts"));
    assert!(parse(&"true && ".repeat(1_000_000)).unwrap_err().text.contains("1000 parts"));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_mixture_of_tokens_panics(tokens in proptest::collection::vec(proptest::sample::select(vec![
        "CLIENT", ".IP", ".SRC", ".IN_SUBNET", ".MATCHES_LOCATION", "(", ")", "\"", "*.ZMB", "\\", "!", "&&",
        "||", "&", "true", "false", ".NOT", " ", "10.0.0.0/8", "ä", "+", ".",
    ]), 0..40)) {
        let _ = parse(&tokens.concat());
    }
}
