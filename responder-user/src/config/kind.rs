//! The kinds of value that a key can have: what is allowed, and how it is read.

use std::{fmt::Display, net::IpAddr, net::SocketAddr, time::Duration};

use ipnet::IpNet;
use toml_edit::Value;

use super::reader::Node;
use crate::model::{DnsName, policy::Goto, settings::Workers};

/// A kind of value.
pub(super) trait Kind {
    /// What the program works with.
    type Out;
    /// What is allowed, to follow "allowed is".
    fn allowed(&self) -> String;
    /// Reads a value.
    fn read(&self, node: Node<'_>) -> Result<Self::Out, Wrong>;
}

/// Why a value cannot be used.
pub(super) enum Wrong {
    /// It is of a type that the kind does not take.
    Type,
    /// The message: the value and what is allowed.
    Value(String),
    /// A word outside the list of words.
    Word(String, Vec<String>),
}

/// Any text but the empty one.
pub(super) struct Text;
/// A name of an object.
pub(super) struct Name;
/// true or false.
pub(super) struct Bool;
/// A whole number in an inclusive range.
pub(super) struct Integer {
    pub(super) min: i64,
    pub(super) max: i64,
}
/// A number in an inclusive range, whole or not.
pub(super) struct Number {
    pub(super) min: f64,
    pub(super) max: f64,
}
/// A duration in an inclusive range, "250ms".
pub(super) struct Span {
    pub(super) min: Duration,
    pub(super) max: Duration,
}
/// One of some words, ASCII case ignored.
pub(super) struct Word<'w, T>(pub(super) &'w [(&'w str, T)]);
/// A string with a grammar of its own.
pub(super) struct Parsed<T> {
    /// What is allowed.
    pub(super) what: &'static str,
    /// The error is the whole message.
    pub(super) parse: fn(&str) -> Result<T, String>,
}

fn text(node: Node<'_>) -> Result<&str, Wrong> {
    node.as_value().and_then(Value::as_str).ok_or(Wrong::Type)
}

impl Kind for Text {
    type Out = String;
    fn allowed(&self) -> String {
        "a string".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<String, Wrong> {
        match text(node)? {
            "" => Err(Wrong::Value("is empty".to_owned())),
            text => Ok(text.to_owned()),
        }
    }
}

impl Kind for Name {
    type Out = String;
    fn allowed(&self) -> String {
        "a string of 1 to 127 characters".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<String, Wrong> {
        let name = text(node)?;
        let fits = (1..=127).contains(&name.chars().count()) && !name.contains(char::is_control);
        if fits {
            Ok(name.to_owned())
        } else {
            let allowed = "allowed are 1 to 127 characters without control characters";
            Err(Wrong::Value(format!("{name:?} is not a name; {allowed}")))
        }
    }
}

impl Kind for Bool {
    type Out = bool;
    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<bool, Wrong> {
        node.as_value().and_then(Value::as_bool).ok_or(Wrong::Type)
    }
}

impl Kind for Integer {
    type Out = i64;
    fn allowed(&self) -> String {
        format!("an integer from {} to {}", self.min, self.max)
    }
    fn read(&self, node: Node<'_>) -> Result<i64, Wrong> {
        let value = node.as_value().and_then(Value::as_integer).ok_or(Wrong::Type)?;
        within(&value, &self.min, &self.max, i64::to_string, i64::to_string).map(|()| value)
    }
}

impl Kind for Number {
    type Out = f64;
    fn allowed(&self) -> String {
        format!("a number from {} to {}", self.min, self.max)
    }
    fn read(&self, node: Node<'_>) -> Result<f64, Wrong> {
        let value = node.as_value().ok_or(Wrong::Type)?;
        let value = value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).ok_or(Wrong::Type)?;
        if value.is_nan() {
            return Err(Wrong::Value(format!("nan is not a number; allowed is {}", self.allowed())));
        }
        within(&value, &self.min, &self.max, f64::to_string, f64::to_string).map(|()| value)
    }
}

impl Kind for Span {
    type Out = Duration;
    fn allowed(&self) -> String {
        "a duration, such as \"250ms\" or \"5s\"".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<Duration, Wrong> {
        let typed = text(node)?;
        let value = humantime::parse_duration(typed.trim()).map_err(|_| {
            Wrong::Value(format!(
                "{typed:?} is not a duration; allowed is a number with a unit, such as \"250ms\" or \"5s\""
            ))
        })?;
        let unit = |d: &Duration| humantime::format_duration(*d).to_string();
        within(&value, &self.min, &self.max, |_| format!("{typed:?}"), unit).map(|()| value)
    }
}

impl<T: Copy> Kind for Word<'_, T> {
    type Out = T;
    fn allowed(&self) -> String {
        match self.0 {
            [one] => format!("{:?}", one.0),
            [first @ .., last] => {
                let first: Vec<_> = first.iter().map(|w| format!("{:?}", w.0)).collect();
                format!("{} or {:?}", first.join(", "), last.0)
            }
            [] => String::new(),
        }
    }
    fn read(&self, node: Node<'_>) -> Result<T, Wrong> {
        let typed = text(node)?;
        self.0.iter().find(|(word, _)| word.eq_ignore_ascii_case(typed)).map(|(_, value)| *value).ok_or_else(
            || Wrong::Word(typed.to_owned(), self.0.iter().map(|(word, _)| (*word).to_owned()).collect()),
        )
    }
}

impl<T> Kind for Parsed<T> {
    type Out = T;
    fn allowed(&self) -> String {
        self.what.to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<T, Wrong> {
        (self.parse)(text(node)?).map_err(Wrong::Value)
    }
}

/// `listen.workers`: "per-core", a count, or a list of CPU ids.
pub(super) struct WorkersKind;

impl Kind for WorkersKind {
    type Out = Workers;
    fn allowed(&self) -> String {
        "\"per-core\", a count from 1 to 1024, or a list of CPU ids".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<Workers, Wrong> {
        let refuse = |typed: String| Wrong::Value(format!("{typed}; allowed is {}", self.allowed()));
        match node.as_value().ok_or(Wrong::Type)? {
            Value::String(word) if word.value().eq_ignore_ascii_case("per-core") => Ok(Workers::PerCore),
            Value::String(word) => Err(refuse(format!("{:?} is not known", word.value()))),
            Value::Integer(count) => match *count.value() {
                count @ 1..=1024 => Ok(Workers::Count(count as u32)),
                count => Err(refuse(format!("{count} is not a count of workers"))),
            },
            Value::Array(list) => {
                let mut cpus = Vec::new();
                for cpu in list {
                    let id = cpu.as_integer().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < 65_536);
                    let id =
                        id.ok_or_else(|| refuse("a CPU id is a whole number from 0 to 65535".to_owned()))?;
                    if cpus.contains(&id) {
                        return Err(Wrong::Value(format!("CPU {id} is listed twice")));
                    }
                    cpus.push(id);
                }
                if cpus.is_empty() {
                    Err(refuse("the list is empty".to_owned()))
                } else {
                    Ok(Workers::Cpus(cpus))
                }
            }
            _ => Err(Wrong::Type),
        }
    }
}

/// `dns_policy.goto`: "END", "NEXT" or a priority.
pub(super) struct GotoKind;

impl Kind for GotoKind {
    type Out = Goto;
    fn allowed(&self) -> String {
        "\"END\", \"NEXT\", \"USE_INVOCATION_RESULT\" or a priority from 1 to 2147483647".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<Goto, Wrong> {
        let value = node.as_value().ok_or(Wrong::Type)?;
        let (typed, number) = match (value.as_str(), value.as_integer()) {
            (Some(word), _) if word.eq_ignore_ascii_case("END") => return Ok(Goto::End),
            (Some(word), _) if word.eq_ignore_ascii_case("NEXT") => return Ok(Goto::Next),
            (Some(word), _) if word.eq_ignore_ascii_case("USE_INVOCATION_RESULT") => {
                return Ok(Goto::UseInvocationResult);
            }
            (Some(word), _) => (format!("{word:?}"), word.parse().unwrap_or(0)),
            (_, Some(number)) => (number.to_string(), number),
            _ => return Err(Wrong::Type),
        };
        if (1..=0x7fff_ffff).contains(&number) {
            return Ok(Goto::Priority(number as u32));
        }
        Err(Wrong::Value(format!("{typed} is not known; allowed is {}", self.allowed())))
    }
}

/// One of `monitor.expect`: "200-299", "204" or 204, as an inclusive range.
pub(super) struct StatusKind;

impl Kind for StatusKind {
    type Out = (u16, u16);
    fn allowed(&self) -> String {
        "a status code or a range, such as \"200-299\", within 100 to 599".to_owned()
    }
    fn read(&self, node: Node<'_>) -> Result<(u16, u16), Wrong> {
        let value = node.as_value().ok_or(Wrong::Type)?;
        let typed = match (value.as_str(), value.as_integer()) {
            (Some(text), _) => text.to_owned(),
            (_, Some(code)) => code.to_string(),
            _ => return Err(Wrong::Type),
        };
        let (first, last) = typed.split_once('-').unwrap_or((&typed, &typed));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) if 100 <= first && first <= last && last <= 599 => Ok((first, last)),
            _ => Err(Wrong::Value(format!("{typed:?} is not known; allowed is {}", self.allowed()))),
        }
    }
}

fn within<T: PartialOrd>(
    value: &T,
    min: &T,
    max: &T,
    typed: impl Fn(&T) -> String,
    limit: impl Fn(&T) -> String,
) -> Result<(), Wrong> {
    if value < min {
        Err(Wrong::Value(format!("{} is below the minimum of {}", typed(value), limit(min))))
    } else if value > max {
        Err(Wrong::Value(format!("{} is above the maximum of {}", typed(value), limit(max))))
    } else {
        Ok(())
    }
}

/// `Err("value" is not WHAT)`.
fn refuse<T>(typed: &str, what: &str) -> Result<T, String> {
    Err(format!("{typed:?} is not {what}"))
}

/// An address of a host.
pub(super) const ADDRESS: Parsed<IpAddr> = Parsed {
    what: "an IPv4 or IPv6 address",
    parse: |typed| match typed.parse::<IpAddr>() {
        Ok(a) if a.is_unspecified() || a.is_multicast() || a == std::net::Ipv4Addr::BROADCAST => {
            refuse(typed, "the address of a host")
        }
        Ok(address) => Ok(address),
        Err(_) => refuse(typed, "an IPv4 or IPv6 address"),
    },
};

/// An address with a port.
pub(super) const SOCKET_ADDRESS: Parsed<SocketAddr> = Parsed {
    what: "an address with a port",
    parse: |typed| match (typed.parse::<SocketAddr>(), typed.parse::<IpAddr>()) {
        (Ok(address), _) if address.port() == 0 => {
            Err(format!("{typed:?} has port 0; allowed are 1 to 65535"))
        }
        (Ok(address), _) => Ok(address),
        (_, Ok(address)) => Err(format!("{typed:?} has no port; write \"{}\"", SocketAddr::new(address, 53))),
        _ => Err(format!(
            "{typed:?} is not an address with a port, such as \"192.0.2.53:53\" or \"[2001:db8::53]:53\""
        )),
    },
};

/// A prefix, or an address that stands for itself.
pub(super) const PREFIX: Parsed<IpNet> = Parsed {
    what: "a prefix, such as \"10.0.0.0/8\"",
    parse: |typed| {
        let alone = typed.parse::<IpAddr>().map(IpNet::from);
        typed.parse().or(alone).or_else(|_| refuse(typed, "a prefix, such as \"10.0.0.0/8\""))
    },
};

/// A domain name in presentation format.
pub(super) const DOMAIN_NAME: Parsed<DnsName> =
    Parsed { what: "a domain name", parse: |typed| DnsName::parse(typed).map_err(display) };

/// The message of an error that quotes the value itself.
pub(super) fn display(error: impl Display) -> String {
    error.to_string()
}
