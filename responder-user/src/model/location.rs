//! Locations: up to six qualifiers, and the table that gives an address its location (spec/netscaler.md 1).

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// Number of qualifiers: continent, country, region, city, ISP, organisation.
pub const QUALIFIERS: usize = 6;

/// A location, padded to six qualifiers; None is the wildcard `*` (spec/netscaler.md 1.1, 1.2).
///
/// Qualifiers keep their spelling; compare them with [`same_qualifier`], which ignores ASCII case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Most general first.
    pub qualifiers: [Option<String>; QUALIFIERS],
}

/// What `location.wildcard_matches_any` says (NetScaler's matchWildcardtoany, spec/netscaler.md 1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WildcardMatchesAny {
    /// `*` matches only `*`.
    #[default]
    No,
    /// `*` on either side matches anything.
    Yes,
    /// `*` in the pattern matches anything.
    Expression,
}

/// One custom range of addresses with its location.
#[derive(Clone, Debug, PartialEq)]
pub struct LocationRange {
    /// First address of the range.
    pub first: IpAddr,
    /// Last address, same family, not below `first`.
    pub last: IpAddr,
    /// Where it is.
    pub location: Location,
    /// Longitude and latitude in degrees, -180 to 180 and -90 to 90.
    pub coordinates: Option<(f64, f64)>,
}

/// A place as decisions see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place<'m> {
    /// Its qualifiers.
    pub location: &'m Location,
    /// Longitude and latitude in degrees.
    pub coordinates: Option<(f64, f64)>,
}

/// A place as tables hold it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnedPlace {
    /// Its qualifiers.
    pub location: Location,
    /// Longitude and latitude in degrees.
    pub coordinates: Option<(f64, f64)>,
}

/// What location files say: rows that do not overlap, ascending, each with an index into the places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileTable {
    /// First and last address and place.
    pub v4: Vec<(u32, u32, u32)>,
    /// First and last address and place.
    pub v6: Vec<(u128, u128, u32)>,
    /// Each different place once.
    pub places: Vec<OwnedPlace>,
}

/// All ranges: custom ones are searched first, then those of files. Of custom ranges that overlap the narrowest wins,
/// then the one added last (spec/netscaler.md 1.3).
#[derive(Clone, Debug, Default)]
pub struct LocationTable {
    /// In the order of the configuration.
    pub custom: Vec<LocationRange>,
    /// What the location files say.
    pub files: Arc<FileTable>,
    /// How patterns of policies treat wildcards.
    pub wildcard_matches_any: WildcardMatchesAny,
    /// `location.context` is "custom": the qualifiers have no labels.
    pub is_custom_context: bool,
    /// The location files, as typed.
    pub sources: Vec<String>,
}

/// Why a text is not a location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// No qualifier at all.
    #[error("a location needs at least one qualifier")]
    Empty,
    /// More than six qualifiers.
    #[error("{0:?} has more than 6 qualifiers")]
    TooMany(String),
    /// `a..b`; an omitted qualifier is written `*`.
    #[error("{0:?} has an empty qualifier; write * for an omitted one")]
    EmptyQualifier(String),
    /// A double quote that opens inside a qualifier or never closes.
    #[error("{0:?} has a misplaced double quote")]
    Quote(String),
    /// A qualifier of more than 31 characters.
    #[error("{0:?} has a qualifier of more than 31 characters")]
    TooLong(String),
}

/// Qualifiers are compared without ASCII case (spec/netscaler.md 1.1).
pub fn same_qualifier(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

impl Location {
    /// Reads dotted notation: `Asia.HK`, `*.ZMB.*.*`, `NA.US."New York"`.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        if text.is_empty() {
            return Err(LocationError::Empty);
        }
        let mut out = Self::default();
        for (i, part) in split(text)?.into_iter().enumerate() {
            let slot = out.qualifiers.get_mut(i).ok_or_else(|| LocationError::TooMany(text.to_owned()))?;
            if part.chars().count() > 31 {
                return Err(LocationError::TooLong(text.to_owned()));
            }
            *slot = (part != "*").then_some(part);
        }
        Ok(out)
    }

    /// True if no qualifier is given.
    pub fn is_all_wildcards(&self) -> bool {
        self.qualifiers.iter().all(Option::is_none)
    }
}

fn split(text: &str) -> Result<Vec<String>, LocationError> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, tail) = if let Some(quoted) = rest.strip_prefix('"') {
            let (part, tail) = quoted.split_once('"').ok_or_else(|| LocationError::Quote(text.to_owned()))?;
            if !tail.is_empty() && !tail.starts_with('.') {
                return Err(LocationError::Quote(text.to_owned()));
            }
            (part, tail.strip_prefix('.').or((!tail.is_empty()).then_some(tail)))
        } else {
            rest.split_once('.').map_or((rest, None), |(part, tail)| (part, Some(tail)))
        };
        if part.is_empty() {
            return Err(LocationError::EmptyQualifier(text.to_owned()));
        }
        if part.contains('"') {
            return Err(LocationError::Quote(text.to_owned()));
        }
        parts.push(part.to_owned());
        match tail {
            Some(tail) => rest = tail,
            None => return Ok(parts),
        }
    }
}

/// Dotted notation up to the last given qualifier; `*` when there is none.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.qualifiers.iter().rposition(Option::is_some).unwrap_or(0);
        for (i, qualifier) in self.qualifiers[..=last].iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            match qualifier {
                None => f.write_str("*")?,
                Some(text) if text.contains(['.', ' ']) => write!(f, "\"{text}\"")?,
                Some(text) => f.write_str(text)?,
            }
        }
        Ok(())
    }
}

impl LocationTable {
    /// The place of an address.
    pub fn find(&self, address: IpAddr) -> Option<Place<'_>> {
        self.custom_range(address).map(LocationRange::place).or_else(|| self.files.find(address))
    }

    /// The custom range that an address belongs to: the narrowest, then the newest.
    pub fn custom_range(&self, address: IpAddr) -> Option<&LocationRange> {
        self.custom.iter().rev().filter(|r| r.contains(address)).min_by_key(|r| r.width())
    }

    /// A place by number: custom ranges first, then the places of the files.
    pub fn place(&self, number: u32) -> Option<Place<'_>> {
        let number = number as usize;
        match self.custom.get(number) {
            Some(range) => Some(range.place()),
            None => self.files.places.get(number - self.custom.len()).map(OwnedPlace::as_place),
        }
    }
}

impl OwnedPlace {
    /// Borrowed.
    pub fn as_place(&self) -> Place<'_> {
        Place { location: &self.location, coordinates: self.coordinates }
    }
}

impl FileTable {
    /// The place of an address.
    pub fn find(&self, address: IpAddr) -> Option<Place<'_>> {
        self.row(address).map(|(.., place)| place)
    }

    /// The row that holds an address: first, last, place.
    pub fn row(&self, address: IpAddr) -> Option<(IpAddr, IpAddr, Place<'_>)> {
        let (first, last, place) = match address {
            IpAddr::V4(a) => {
                let (first, last, place) = row(&self.v4, a.to_bits())?;
                (Ipv4Addr::from_bits(first).into(), Ipv4Addr::from_bits(last).into(), place)
            }
            IpAddr::V6(a) => {
                let (first, last, place) = row(&self.v6, a.to_bits())?;
                (Ipv6Addr::from_bits(first).into(), Ipv6Addr::from_bits(last).into(), place)
            }
        };
        Some((first, last, self.places.get(place as usize)?.as_place()))
    }

    /// Rows of both families.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn row<N: Copy + Ord>(rows: &[(N, N, u32)], address: N) -> Option<(N, N, u32)> {
    let at = rows.partition_point(|(first, ..)| *first <= address).checked_sub(1)?;
    Some(rows[at]).filter(|(_, last, _)| address <= *last)
}

impl LocationRange {
    /// Where it is.
    pub fn place(&self) -> Place<'_> {
        Place { location: &self.location, coordinates: self.coordinates }
    }

    /// True if the address lies in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Number of addresses less one.
    pub fn width(&self) -> u128 {
        number(self.last) - number(self.first)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_notation_round_trips() {
        for text in ["Asia.HK", "*.ZMB", r#"NA.US."New York""#, "a.b.c.d.e.f", "*"] {
            assert_eq!(Location::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Location::parse("*.ZMB.*.*").unwrap(), Location::parse("*.ZMB").unwrap());
        for text in ["", "a..b", "a.b.c.d.e.f.g", "\"a", "a\"b", "\"a\"b", "a.", &"x".repeat(32)] {
            assert!(Location::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn narrowest_then_newest_range_wins() {
        let range = |a: &str, b: &str, l: &str| LocationRange {
            first: a.parse().unwrap(),
            last: b.parse().unwrap(),
            location: Location::parse(l).unwrap(),
            coordinates: None,
        };
        let table = LocationTable {
            custom: vec![
                range("10.0.0.0", "10.0.0.255", "narrow"),
                range("10.0.0.0", "10.255.255.255", "wide"),
                range("10.0.0.0", "10.0.0.255", "newest"),
            ],
            ..LocationTable::default()
        };
        let found = |a: &str| table.find(a.parse().unwrap()).map(|p| p.location.to_string());
        assert_eq!(found("10.0.0.7").as_deref(), Some("newest"));
        assert_eq!(found("10.1.0.7").as_deref(), Some("wide"));
        assert_eq!(found("::a00:7"), None);
    }
}
