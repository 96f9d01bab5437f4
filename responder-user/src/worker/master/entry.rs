//! Entries of a master file: tokens with their places; comments, parentheses and line ends are gone.

use std::borrow::Cow;

/// A token. Escapes stand as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// What was written, without quotes.
    pub text: Cow<'t, str>,
    /// It stood in quotes.
    pub quoted: bool,
    /// Line and column, from 1.
    pub place: (u32, u32),
}

/// One entry: a record or a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// It begins with white space: the owner is that of the entry before.
    pub is_blank: bool,
    /// At least one.
    pub tokens: Vec<Token<'t>>,
}

/// A place and what is wrong there.
pub type Fault = ((u32, u32), String);

/// Splits a file. After a fault it goes on with the next line.
pub fn entries(text: &str) -> impl Iterator<Item = Result<Entry<'_>, Fault>> {
    let mut scanner = Scanner { text, at: 0, line: 1, line_at: 0 };
    std::iter::from_fn(move || scanner.next_entry())
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_at: usize,
}

impl<'t> Scanner<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn place(&self) -> (u32, u32) {
        (self.line, self.text[self.line_at..self.at].chars().count() as u32 + 1)
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_at = self.at;
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|b| b != b'\n') {
            self.at += 1;
        }
    }

    fn next_entry(&mut self) -> Option<Result<Entry<'t>, Fault>> {
        loop {
            let is_blank = matches!(self.peek()?, b' ' | b'\t');
            match self.tokens() {
                Ok(tokens) if tokens.is_empty() => {}
                Ok(tokens) => return Some(Ok(Entry { is_blank, tokens })),
                Err(fault) => {
                    self.skip_line();
                    return Some(Err(fault));
                }
            }
        }
    }

    /// Up to the end of the line, or of the line in which the last parenthesis closes.
    fn tokens(&mut self) -> Result<Vec<Token<'t>>, Fault> {
        let mut tokens = Vec::new();
        let mut open: Option<(u32, u32)> = None;
        loop {
            match self.peek() {
                None => break,
                Some(b'\n') => {
                    self.newline();
                    if open.is_none() {
                        break;
                    }
                }
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b';') => self.skip_line(),
                Some(b'(') if open.is_some() => {
                    return Err((self.place(), "a parenthesis inside another".into()));
                }
                Some(b'(') => {
                    open = Some(self.place());
                    self.at += 1;
                }
                Some(b')') if open.is_none() => return Err((self.place(), "nothing to close here".into())),
                Some(b')') => {
                    open = None;
                    self.at += 1;
                }
                Some(b'"') => tokens.push(self.quoted()?),
                Some(_) => tokens.push(self.word()?),
            }
        }
        match open {
            None => Ok(tokens),
            Some(place) => Err((place, "the parenthesis is not closed".into())),
        }
    }

    fn quoted(&mut self) -> Result<Token<'t>, Fault> {
        let place = self.place();
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek() {
                None | Some(b'\n') => return Err((place, "the quote is not closed in its line".into())),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => self.at += 1,
            }
        }
        let text = Cow::Borrowed(&self.text[from..self.at]);
        self.at += 1;
        Ok(Token { text, quoted: true, place })
    }

    fn word(&mut self) -> Result<Token<'t>, Fault> {
        let place = self.place();
        let from = self.at;
        while let Some(octet) = self.peek() {
            match octet {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' => break,
                b'\\' => self.escape()?,
                _ => self.at += 1,
            }
        }
        Ok(Token { text: Cow::Borrowed(&self.text[from..self.at]), quoted: false, place })
    }

    /// A backslash and the character behind it, which loses its meaning.
    fn escape(&mut self) -> Result<(), Fault> {
        let rest = &self.text[self.at + 1..];
        match rest.chars().next() {
            None | Some('\n' | '\r') => Err((self.place(), "a backslash at the end of the line".into())),
            Some(c) => {
                self.at += 1 + c.len_utf8();
                Ok(())
            }
        }
    }
}
