//! Values of commands: what is allowed, and one spelling for each.

use std::net::{IpAddr, Ipv4Addr};

use super::table::{Arg, Value};
use crate::{
    config::rule,
    model::{DnsName, Location},
};

/// Reads one value; the error names the key, the value and what is allowed.
pub(super) fn read(arg: &Arg, typed: &str) -> Result<String, String> {
    one(arg.value, typed).map_err(|why| format!("{}: {why}", arg.key))
}

fn one(kind: Value, typed: &str) -> Result<String, String> {
    match kind {
        Value::Text | Value::Url => Ok(typed.to_owned()),
        Value::Name(_) => name(typed).map(|()| typed.to_owned()),
        Value::Word(words) => words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(typed))
            .map(|word| (*word).to_owned())
            .ok_or_else(|| format!("invalid value [{typed}]; allowed are {}", words.join(", "))),
        Value::Number(least, most) => number(typed, least, most),
        Value::Degrees(most) => match typed.parse::<f64>() {
            Ok(degrees) if degrees.abs() <= most as f64 => Ok(degrees.to_string()),
            _ => Err(format!("{typed} is not in the range -{most}..{most}")),
        },
        Value::Address => address(typed),
        Value::AddressOrServer => match typed.parse::<IpAddr>() {
            Ok(_) => address(typed),
            Err(_) => name(typed).map(|()| typed.to_owned()),
        },
        Value::Mask => mask(typed).map(|_| typed.to_owned()),
        // Case and the last dot say nothing.
        Value::Domain => DnsName::parse(typed).map(|name| name.to_string()).map_err(|e| e.to_string()),
        // Wildcards at the end say nothing.
        Value::Location => Location::parse(typed).map(|l| l.to_string()).map_err(|e| e.to_string()),
        Value::Rule => rule::parse(typed).map(|_| typed.to_owned()).map_err(|e| e.to_string()),
        Value::Goto => goto(typed),
        Value::Period => match typed.parse::<u64>() {
            Ok(n) if n <= 20_940_000 => Ok(n.to_string()),
            _ => Err(format!("{typed} is not in the range 0..20940000")),
        },
        Value::Codes => codes(typed)
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") }),
    }
}

fn number(typed: &str, least: u64, most: u64) -> Result<String, String> {
    let value = typed.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    value.map(|n| n.to_string()).ok_or_else(|| format!("{typed} is not in the range {least}..{most}"))
}

fn address(typed: &str) -> Result<String, String> {
    match typed.parse::<IpAddr>() {
        Ok(a) if a.is_unspecified() || a.is_multicast() || a == Ipv4Addr::BROADCAST => {
            Err(format!("{typed} is not the address of a host"))
        }
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err(format!("invalid IP address [{typed}]")),
    }
}

/// Names of objects (spec/netscaler.md 6.1); what TOML took for a name is let pass.
pub(super) fn name(typed: &str) -> Result<(), String> {
    let fits = (1..=127).contains(&typed.chars().count()) && !typed.contains(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(format!("invalid name [{}]; allowed are 1 to 127 characters", typed.escape_debug()))
    }
}

/// The first character and the others of a name that a command gives (spec/netscaler.md 6.1).
pub(super) fn new_name(typed: &str) -> Result<(), String> {
    name(typed)?;
    let is_first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = typed.starts_with(is_first) && typed.chars().all(|c| is_first(c) || "#. :@=-".contains(c));
    if fits {
        Ok(())
    } else {
        Err(format!(
            "invalid name [{typed}]; allowed are ASCII letters, digits and _ # . space : @ = -, beginning with a letter, a digit or _"
        ))
    }
}

/// Bits of a netmask.
pub(super) fn mask(typed: &str) -> Result<u8, String> {
    let wrong = || format!("invalid netmask [{typed}]");
    let bits = typed.parse::<Ipv4Addr>().map_err(|_| wrong())?.to_bits();
    if bits.leading_ones() == bits.count_ones() && bits != 0 {
        Ok(bits.count_ones() as u8)
    } else {
        Err(wrong())
    }
}

fn goto(typed: &str) -> Result<String, String> {
    if let Some(word) =
        ["END", "NEXT", "USE_INVOCATION_RESULT"].iter().find(|w| w.eq_ignore_ascii_case(typed))
    {
        return Ok((*word).to_owned());
    }
    number(typed, 1, 0x7fff_ffff).map_err(|_| {
        format!("invalid value [{typed}]; allowed are END, NEXT, USE_INVOCATION_RESULT and a priority")
    })
}

/// A status code or a range of them.
pub(super) fn codes(typed: &str) -> Result<(u16, u16), String> {
    let (first, last) = typed.split_once('-').unwrap_or((typed, typed));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if 100 <= first && first <= last && last <= 599 => Ok((first, last)),
        _ => {
            Err(format!("invalid status code [{typed}]; allowed are 100 to 599, and ranges such as 200-299"))
        }
    }
}

/// Milliseconds of a period: a number of seconds, or with a unit.
pub(super) fn milliseconds(values: &[String]) -> u64 {
    let number = values.first().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    match values.get(1).map(String::as_str) {
        Some("MSEC") => number,
        Some("MIN") => number.saturating_mul(60_000),
        _ => number.saturating_mul(1000),
    }
}

/// One spelling for a period: seconds where that is whole.
pub(super) fn period(values: &[String]) -> Vec<String> {
    let all = milliseconds(values);
    if all.is_multiple_of(1000) {
        vec![(all / 1000).to_string()]
    } else {
        vec![all.to_string(), "MSEC".to_owned()]
    }
}
