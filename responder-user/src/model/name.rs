//! Domain names in wire format, folded to lower case.

use std::fmt;

/// A domain name: wire format with the root label, ASCII letters in lower case, 1 to 255 octets (RFC 1035 3.1, RFC 4343).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsName(Box<[u8]>);

/// Why a text is not a domain name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A label between dots is empty.
    #[error("{0:?} has an empty label")]
    EmptyLabel(String),
    /// A label has more than 63 octets.
    #[error("{0:?} has a label of more than 63 octets")]
    LabelTooLong(String),
    /// The whole name has more than 255 octets on the wire.
    #[error("{0:?} has more than 255 octets")]
    TooLong(String),
    /// A backslash that is not followed by a character or three digits up to 255.
    #[error("{0:?} has a bad escape")]
    BadEscape(String),
    /// White space, control characters or letters outside ASCII, which must be written as `\DDD`.
    #[error("{0:?} has a character that must be escaped")]
    BadCharacter(String),
}

impl DnsName {
    /// The root.
    pub fn root() -> Self {
        Self(Box::new([0]))
    }

    /// Reads presentation format (RFC 1035 5.1): labels with dots, `\.` and `\DDD` escapes, one optional trailing dot.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "." {
            return Ok(Self::root());
        }
        let mut wire = Vec::with_capacity(text.len() + 2);
        let mut label_at = 0;
        wire.push(0);
        let mut bytes = text.bytes();
        while let Some(b) = bytes.next() {
            match b {
                b'.' => {
                    close_label(&mut wire, label_at, text)?;
                    label_at = wire.len();
                    wire.push(0);
                }
                b'\\' => wire.push(escape(&mut bytes, text)?.to_ascii_lowercase()),
                0..=0x20 | 0x7f.. => return Err(NameError::BadCharacter(text.to_owned())),
                _ => wire.push(b.to_ascii_lowercase()),
            }
        }
        if wire.len() > label_at + 1 {
            close_label(&mut wire, label_at, text)?;
            wire.push(0);
        } else if label_at == 0 {
            return Err(NameError::EmptyLabel(text.to_owned()));
        }
        if wire.len() > 255 {
            return Err(NameError::TooLong(text.to_owned()));
        }
        Ok(Self(wire.into_boxed_slice()))
    }

    /// Takes a whole name in uncompressed wire format; None if it is malformed.
    pub fn from_wire(wire: &[u8]) -> Option<Self> {
        let mut at = 0;
        loop {
            match *wire.get(at)? {
                0 => break,
                length @ 1..=63 => at += usize::from(length) + 1,
                _ => return None,
            }
        }
        (at + 1 == wire.len() && wire.len() <= 255)
            .then(|| Self(wire.to_ascii_lowercase().into_boxed_slice()))
    }

    /// Wire format, root label included.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// True if this is `ancestor` or lies below it.
    pub fn is_under(&self, ancestor: &Self) -> bool {
        let (name, tail) = (&self.0, &ancestor.0);
        let mut at = 0;
        while name.len() - at > tail.len() {
            at += usize::from(name[at]) + 1;
        }
        name[at..] == tail[..]
    }

    /// The name one label up; None for the root.
    pub fn parent(&self) -> Option<Self> {
        let first = usize::from(self.0[0]);
        (first > 0).then(|| Self(self.0[first + 1..].into()))
    }

    /// `label` put in front. Err when the result is too long.
    pub fn child(&self, label: &str) -> Result<Self, NameError> {
        if self.0.len() == 1 { Self::parse(label) } else { Self::parse(&format!("{label}.{self}")) }
    }
}

fn close_label(wire: &mut [u8], label_at: usize, text: &str) -> Result<(), NameError> {
    match wire.len() - label_at - 1 {
        0 => Err(NameError::EmptyLabel(text.to_owned())),
        length @ 1..=63 => {
            wire[label_at] = length as u8;
            Ok(())
        }
        _ => Err(NameError::LabelTooLong(text.to_owned())),
    }
}

fn escape(bytes: &mut std::str::Bytes<'_>, text: &str) -> Result<u8, NameError> {
    let bad = || NameError::BadEscape(text.to_owned());
    let first = bytes.next().ok_or_else(bad)?;
    if !first.is_ascii_digit() {
        return if first.is_ascii_graphic() { Ok(first) } else { Err(bad()) };
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit).ok_or_else(bad)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| bad())
}

/// Presentation format without a trailing dot (`.` for the root).
impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() == 1 {
            return f.write_str(".");
        }
        let mut at = 0;
        while self.0[at] != 0 {
            if at > 0 {
                f.write_str(".")?;
            }
            let end = at + 1 + usize::from(self.0[at]);
            for &b in &self.0[at + 1..end] {
                match b {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(b))?;
                    }
                    0x21..=0x7e => write!(f, "{}", char::from(b))?,
                    _ => write!(f, "\\{b:03}")?,
                }
            }
            at = end;
        }
        Ok(())
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_and_print() {
        let name = DnsName::parse("WWW.Example.com.").unwrap();
        assert_eq!(name.wire(), b"\x03www\x07example\x03com\x00");
        assert_eq!(name.to_string(), "www.example.com");
        assert_eq!(DnsName::parse(r"a\.b\000.c").unwrap().to_string(), r"a\.b\000.c");
        assert_eq!(DnsName::parse(".").unwrap(), DnsName::root());
    }

    #[test]
    fn bad_names_are_refused() {
        for text in
            ["", "a..b", ".a", "a\\", r"\999", r"\1x1", "a b", "ä", &"a".repeat(64), &"a.".repeat(128)]
        {
            assert!(DnsName::parse(text).is_err(), "{text:?}");
        }
        assert!(DnsName::parse(&"a.".repeat(127)).is_ok());
    }

    #[test]
    fn ancestors_are_compared_by_label() {
        let zone = DnsName::parse("example.com").unwrap();
        assert!(DnsName::parse("a.example.com").unwrap().is_under(&zone));
        assert!(zone.is_under(&zone));
        assert!(!DnsName::parse("badexample.com").unwrap().is_under(&zone));
        assert!(!DnsName::parse("com").unwrap().is_under(&zone));
        assert!(zone.is_under(&DnsName::root()));
    }
}
