//! Tokens of a NetScaler command line (spec/netscaler.md 6.2), and how a value is written so that it is one token again.

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it says, without quotes and escapes.
    pub text: String,
    /// It stood in quotes: never a keyword, never a comment.
    pub is_quoted: bool,
    /// No white space stands between it and the token before.
    pub is_glued: bool,
}

impl Token {
    /// `-keyword`: a dash that opens an unquoted token.
    pub fn is_keyword(&self) -> bool {
        !self.is_quoted && self.text.starts_with('-')
    }
}

/// Why a line has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quote {quote} in column {column} is not closed")]
pub struct LexError {
    /// The quote.
    pub quote: char,
    /// Where it opens, in characters from 1.
    pub column: usize,
}

/// What can follow `q` to open a quote without escapes, and what closes it.
const Q_QUOTES: [(char, char); 15] = [
    ('/', '/'),
    ('{', '}'),
    ('<', '>'),
    ('|', '|'),
    ('~', '~'),
    ('$', '$'),
    ('^', '^'),
    ('+', '+'),
    ('=', '='),
    ('&', '&'),
    ('%', '%'),
    ('@', '@'),
    ('`', '`'),
    ('?', '?'),
    ('!', '!'),
];

/// Splits a line. `#` at the start of a token begins a comment.
pub fn lex(line: &str) -> Result<Vec<Token>, LexError> {
    let mut out: Vec<Token> = Vec::new();
    let mut at = 0;
    let mut end_of_last = None;
    loop {
        at += line[at..].len() - line[at..].trim_start_matches(is_space).len();
        let rest = &line[at..];
        let Some(first) = rest.chars().next() else { return Ok(out) };
        let is_glued = end_of_last == Some(at);
        let (text, taken, is_quoted) = match first {
            '#' if !is_glued => return Ok(out),
            '"' | '\'' => {
                let (text, taken) = quoted(&rest[1..], first)
                    .ok_or_else(|| LexError { quote: first, column: line[..at].chars().count() + 1 })?;
                (text, taken + 1, true)
            }
            _ => {
                if let Some((text, taken)) = q_quoted(rest) {
                    (text, taken, true)
                } else {
                    let taken = bare(rest);
                    (rest[..taken].to_owned(), taken, false)
                }
            }
        };
        out.push(Token { text, is_quoted, is_glued });
        at += taken;
        end_of_last = Some(at);
    }
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// The text up to the quote, and the octets up to behind it.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some((out, at + 1)),
            '\\' => match chars.next()?.1 {
                't' => out.push('\t'),
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                c @ ('\'' | '"' | '\\') => out.push(c),
                c => out.extend(['\\', c]),
            },
            _ => out.push(c),
        }
    }
    None
}

/// `q{…}`; the closing character ends the token. Without one it is no quote.
fn q_quoted(rest: &str) -> Option<(String, usize)> {
    let inner = rest.strip_prefix('q')?;
    let opening = inner.chars().next()?;
    let (_, closing) = Q_QUOTES.into_iter().find(|(open, _)| *open == opening)?;
    let body = &inner[1..];
    let (end, _) = body
        .match_indices(closing)
        .find(|(at, found)| body[at + found.len()..].chars().next().is_none_or(is_space))?;
    Some((body[..end].to_owned(), 2 + end + 1))
}

/// Octets of an unquoted token: to white space that stands in no parenthesis.
fn bare(rest: &str) -> usize {
    let mut depth = 0_u32;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_space(c) => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Writes a value as one token.
pub fn write(value: &str) -> String {
    let opens_q = value.strip_prefix('q').and_then(|rest| rest.chars().next());
    let is_plain = !value.is_empty()
        && !value.contains([' ', '\t', '\n', '\r', '"', '\'', '\\', '(', ')'])
        && !value.starts_with(['-', '#'])
        && !opens_q.is_some_and(|c| Q_QUOTES.iter().any(|(open, _)| *open == c));
    if is_plain {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '"' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(line: &str) -> Vec<String> {
        lex(line).unwrap().into_iter().map(|token| token.text).collect()
    }

    /// The verified cases of spec/netscaler.md 6.2.
    #[test]
    fn lines_split_as_the_vendor_splits_them() {
        let rule = r#"CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")"#;
        for line in [
            r#""CLIENT.IP.SRC.MATCHES_LOCATION(\"*.ZMB.*.*\")""#,
            r#"'CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")'"#,
            r#"q/CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")/"#,
            rule,
        ] {
            assert_eq!(texts(line), [rule], "{line}");
        }
        let broken = r#""CLIENT.IP.SRC.MATCHES_LOCATION("\*.ZMB.\*.*")" prefLoc11"#;
        assert_eq!(texts(broken), ["CLIENT.IP.SRC.MATCHES_LOCATION(", r#"\*.ZMB.\*.*")""#, "prefLoc11"]);
        assert!(lex(broken).unwrap()[1].is_glued);
        for (line, tokens) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            ("a # b", &["a"]),
            ("vs#1 x", &["vs#1", "x"]),
            ("-longitude -122", &["-longitude", "-122"]),
            ("CLIENT.IP.SRC.IN_SUBNET(10.0.0.0/8) act", &["CLIENT.IP.SRC.IN_SUBNET(10.0.0.0/8)", "act"]),
            ("SYS.X(\"a b\") c", &["SYS.X(\"a b\")", "c"]),
            ("*.us.ca.san jose", &["*.us.ca.san", "jose"]),
            (r#""*.us.ca.\"San Jose\"""#, &["*.us.ca.\"San Jose\""]),
            (r#""" x"#, &["", "x"]),
            (r#""a\tb\d""#, &["a\tb\\d"]),
            ("q{a b} c", &["a b", "c"]),
            ("query q=x", &["query", "q=x"]),
        ] {
            assert_eq!(texts(line), tokens, "{line}");
        }
        assert_eq!(lex("a 'b").unwrap_err().to_string(), "the quote ' in column 3 is not closed");
    }

    proptest! {
        #[test]
        fn what_is_written_is_one_token_again(value in any::<String>()) {
            let tokens = lex(&write(&value)).unwrap();
            prop_assert_eq!(tokens.len(), 1);
            prop_assert_eq!(&tokens[0].text, &value);
            prop_assert!(!tokens[0].is_keyword());
        }

        #[test]
        fn values_beside_each_other_stay_apart(values in proptest::collection::vec("[-q#{}()\"'\\\\ a\t]{0,6}", 0..6)) {
            let line = values.iter().map(|value| write(value)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(texts(&line), values);
        }

        #[test]
        fn no_line_panics(line in any::<String>()) {
            let _ = lex(&line);
        }
    }
}
