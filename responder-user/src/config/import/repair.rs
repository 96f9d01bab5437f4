//! Slips and damage that are repaired with a warning: what the vendor's pages do to the commands that they print
//! (spec/netscaler.md 0.1 no. 8, 6.2, 6.3).

use super::lexer::{self, LexError, Token};

/// The tokens of a line, and what was repaired to get them.
pub(super) fn tokens(line: &str, warnings: &mut Vec<String>) -> Result<Vec<Token>, LexError> {
    let line = prompt(line.trim_matches([' ', '\t', '\r', '\u{feff}', '\u{a0}']));
    let line = dash(line, warnings);
    let tokens = lexer::lex(line)?;
    let tokens = if tokens.iter().any(|token| token.is_glued) {
        match rule(line) {
            Some(whole) => {
                warnings.push(
                    "the quotes inside the expression were not escaped, and its wildcards were: repaired"
                        .to_owned(),
                );
                lexer::lex(&whole)?
            }
            None => tokens,
        }
    } else {
        tokens
    };
    Ok(marks(lone_dashes(tokens, warnings), warnings))
}

/// `> add …`, as a terminal shows it.
fn prompt(line: &str) -> &str {
    match line.strip_prefix('>') {
        Some(rest) => rest.trim_start_matches([' ', '\t']),
        None => line,
    }
}

/// `-  show gslb vserver x`: a bullet of a list.
fn dash<'l>(line: &'l str, warnings: &mut Vec<String>) -> &'l str {
    let Some(rest) = line.strip_prefix('-').filter(|rest| rest.starts_with([' ', '\t'])) else { return line };
    warnings.push("the dash before the command is dropped".to_owned());
    rest.trim_start_matches([' ', '\t'])
}

/// `add dns policy p "X("a.b") && Y("c")" act`: one quote around quotes. Some: the line with the expression as one token,
/// and without the backslashes that a page put before its asterisks.
fn rule(line: &str) -> Option<String> {
    let begin = line.find('"')?;
    let end = line.rfind("\")\"")? + 2;
    let inner = line.get(begin + 1..end)?;
    if !inner.contains("(\"") {
        return None;
    }
    let after = &line[end + 1..];
    if !after.is_empty() && !after.starts_with([' ', '\t']) {
        return None;
    }
    Some(format!("{}{}{after}", &line[..begin], lexer::write(&inner.replace("\\*", "*"))))
}

/// `- metricExchange DISABLED`: a keyword that lost its dash.
fn lone_dashes(tokens: Vec<Token>, warnings: &mut Vec<String>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let is_lone = |t: &Token| t.text == "-" && !t.is_quoted;
        match out.last_mut() {
            Some(last) if is_lone(last) && !token.is_quoted => {
                warnings.push(format!("white space between - and {} is dropped", token.text));
                last.text.push_str(&token.text);
            }
            _ => out.push(token),
        }
    }
    out
}

/// Marks of a synopsis: `<name>`, `[-keyword …]`, `(A | B)`, and of Markdown: `\*\*A\*\*`.
fn marks(tokens: Vec<Token>, warnings: &mut Vec<String>) -> Vec<Token> {
    let mut is_bracketed = false;
    let mut out = tokens;
    for token in out.iter_mut().filter(|token| !token.is_quoted) {
        let mut text = token.text.as_str();
        if text.starts_with("[-") {
            is_bracketed = true;
            text = &text[1..];
        }
        if is_bracketed && let Some(rest) = text.strip_suffix(']') {
            is_bracketed = false;
            text = rest;
        }
        if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
            && inner.contains('|')
        {
            text = inner.split('|').next().unwrap_or_default().trim();
        }
        if let Some(inner) = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            text = inner;
        }
        let plain = text.strip_prefix("\\*\\*").and_then(|rest| rest.strip_suffix("\\*\\*"));
        let plain = plain.or_else(|| text.strip_prefix("**").and_then(|rest| rest.strip_suffix("**")));
        let text = plain.unwrap_or(text).to_owned();
        if text != token.text {
            warnings.push(format!("{} is read as {text}", token.text));
            token.text = text;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Vec<String>, usize) {
        let mut warnings = Vec::new();
        let tokens = tokens(line, &mut warnings).unwrap();
        (tokens.into_iter().map(|token| token.text).collect(), warnings.len())
    }

    #[test]
    fn what_the_source_documents_print_is_read() {
        for (line, tokens, warnings) in [
            (
                r#"> add dns policy dnsPolPrefLoc "CLIENT.IP.SRC.MATCHES_LOCATION("\*.ZMB.\*.*")" prefLoc11"#,
                &[
                    "add",
                    "dns",
                    "policy",
                    "dnsPolPrefLoc",
                    r#"CLIENT.IP.SRC.MATCHES_LOCATION("*.ZMB.*.*")"#,
                    "prefLoc11",
                ][..],
                1,
            ),
            ("-  show gslb vserver <name>", &["show", "gslb", "vserver", "name"], 2),
            (
                "set x -soPersistence \\*\\*ENABLED\\*\\* y",
                &["set", "x", "-soPersistence", "ENABLED", "y"],
                1,
            ),
            ("set x ( \\*\\*ENABLED\\*\\* | \\*\\*DISABLED\\*\\* )", &["set", "x", "ENABLED"], 1),
            ("set x [-on (ENABLED | DISABLED)]", &["set", "x", "-on", "ENABLED"], 2),
            (
                "set gslb site x - metricExchange DISABLED",
                &["set", "gslb", "site", "x", "-metricExchange", "DISABLED"],
                1,
            ),
            ("add dns policy p (true) a", &["add", "dns", "policy", "p", "(true)", "a"], 0),
        ] {
            assert_eq!(read(line), (tokens.iter().map(|t| (*t).to_owned()).collect(), warnings), "{line}");
        }
    }

    #[test]
    fn expressions_that_are_whole_stay_as_they_are() {
        let line = r#"add dns policy p "A(\"x\") || B(\"y\")" act"#;
        assert_eq!(
            read(line),
            (
                vec![
                    "add".into(),
                    "dns".into(),
                    "policy".into(),
                    "p".into(),
                    r#"A("x") || B("y")"#.into(),
                    "act".into()
                ],
                0
            )
        );
    }
}
