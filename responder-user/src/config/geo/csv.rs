//! Text formats: rows of fields with commas between them, the first two of which are a range of addresses.

use std::{
    borrow::Cow,
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
};

use super::{Findings, table::Builder};
use crate::model::location::{Location, OwnedPlace, QUALIFIERS};

/// What a column behind the two addresses holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The nth qualifier, from 0.
    Qualifier(usize),
    /// Degrees, -180 to 180.
    Longitude,
    /// Degrees, -90 to 90.
    Latitude,
    /// Nothing that we use.
    Skip,
}

/// The columns of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    name: &'static str,
    is_v6: bool,
    /// Begins with NSGEO1.0 and has its rows behind Start.
    is_tagged: bool,
    /// Columns that a row must have, addresses not counted.
    least: usize,
    columns: &'static [Column],
}

use Column::{Latitude, Longitude, Qualifier, Skip};

const ALL: [Column; 8] =
    [Qualifier(0), Qualifier(1), Qualifier(2), Qualifier(3), Qualifier(4), Qualifier(5), Longitude, Latitude];

const fn layout(name: &'static str, columns: &'static [Column]) -> Layout {
    Layout { name, is_v6: false, is_tagged: false, least: columns.len(), columns }
}

/// The vendor's own.
pub(super) const NETSCALER: Layout =
    Layout { name: "netscaler", is_v6: false, is_tagged: true, least: 1, columns: &ALL };
/// The same for IPv6.
pub(super) const NETSCALER6: Layout = Layout { name: "netscaler6", is_v6: true, ..NETSCALER };
/// Country code, country name.
pub(super) const IP_COUNTRY: Layout = layout("ip-country", &[Qualifier(1), Skip]);
/// The same with the provider.
pub(super) const IP_COUNTRY_ISP: Layout = layout("ip-country-isp", &[Qualifier(1), Skip, Qualifier(4)]);
/// The same with region and city.
pub(super) const IP_COUNTRY_REGION_CITY: Layout =
    layout("ip-country-region-city", &[Qualifier(1), Skip, Qualifier(2), Qualifier(3)]);
/// All of these.
pub(super) const IP_COUNTRY_REGION_CITY_ISP: Layout =
    layout("ip-country-region-city-isp", &[Qualifier(1), Skip, Qualifier(2), Qualifier(3), Qualifier(4)]);
/// The range once more as numbers, country code, country name.
pub(super) const GEOIP_COUNTRY: Layout = layout("geoip-country", &[Skip, Skip, Qualifier(1), Skip]);
/// The same for IPv6.
pub(super) const GEOIP_COUNTRY6: Layout = Layout { name: "geoip-country6", is_v6: true, ..GEOIP_COUNTRY };
/// Country code, region.
pub(super) const GEOIP_REGION: Layout = layout("geoip-region", &[Skip, Skip, Qualifier(1), Qualifier(2)]);
/// Country code, region, city, postal code, latitude, longitude, and two that may be absent.
pub(super) const GEOIP_CITY: Layout = Layout {
    least: 6,
    ..layout("geoip-city", &[Qualifier(1), Qualifier(2), Qualifier(3), Skip, Latitude, Longitude, Skip, Skip])
};
/// The range once more as numbers, country code, country name, organisation.
pub(super) const GEOIP_COUNTRY_ORG: Layout =
    layout("geoip-country-org", &[Skip, Skip, Qualifier(1), Skip, Qualifier(5)]);
/// The same with the provider.
pub(super) const GEOIP_COUNTRY_ISP: Layout =
    layout("geoip-country-isp", &[Skip, Skip, Qualifier(1), Skip, Qualifier(4)]);
/// As a city, with provider and organisation behind it.
pub(super) const GEOIP_CITY_ISP_ORG: Layout = layout(
    "geoip-city-isp-org",
    &[
        Qualifier(1),
        Qualifier(2),
        Qualifier(3),
        Skip,
        Latitude,
        Longitude,
        Skip,
        Skip,
        Qualifier(4),
        Qualifier(5),
    ],
);

/// The first line of the vendor's formats.
const TAG: &str = "NSGEO1.0";
/// Behind it the rows begin.
const START: &str = "Start";
/// Significant characters of a qualifier (spec/netscaler.md 1.1).
const SIGNIFICANT: usize = 31;
/// Codes of continents, as the vendor's converter writes them.
const CONTINENTS: [&str; 7] = ["AF", "AN", "AS", "EU", "NA", "OC", "SA"];

/// A row of which something is wrong: column in characters, from 1, and what.
type Wrong = (u32, String);

/// True if the first range of a tagged text is of IPv6.
pub(super) fn begins_with_v6(bytes: &[u8]) -> bool {
    let rows =
        bytes.split(|b| *b == b'\n').map(text).skip_while(|line| !line.trim().eq_ignore_ascii_case(START));
    let first = rows.skip(1).find(|line| !is_empty(line));
    first.is_some_and(|line| line.split(',').next().is_some_and(|field| field.contains(':')))
}

/// UTF-8, else each octet a character: old files are written so.
fn text(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(line.iter().map(|b| char::from(*b)).collect()),
    }
}

fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], layout: Layout, builder: &mut Builder, findings: &mut Findings) {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let mut reading = Reading { layout, known: HashMap::new(), cut: 0, shifted: 0, has_continent: true };
    let mut in_rows = !layout.is_tagged;
    let mut is_first = true;
    for (i, raw) in bytes.split(|b| *b == b'\n').enumerate() {
        let (line, number) = (text(raw), i as u32 + 1);
        if is_empty(&line) {
            continue;
        }
        if in_rows {
            if let Err((column, text)) = reading.row(line.trim_end_matches('\r'), builder) {
                findings.wrong.push(number, column, text);
            }
            continue;
        }
        if std::mem::take(&mut is_first) && line.trim() != TAG {
            let text =
                format!("a file of format {} begins with {TAG}; is it of another format?", layout.name);
            findings.wrong.push(number, 1, text);
            return;
        }
        in_rows = reading.head(line.trim(), number, findings);
    }
    if !in_rows && findings.wrong.is_empty() {
        findings.wrong.push(1, 1, format!("has no line {START}, behind which the rows begin"));
    }
    reading.finish(findings);
}

struct Reading {
    layout: Layout,
    /// Places by what stands behind the addresses of a row: big files repeat few of them.
    known: HashMap<String, u32>,
    /// Qualifiers that were longer than is significant.
    cut: usize,
    /// Rows whose continent is a country.
    shifted: usize,
    /// The first qualifier is that of continents.
    has_continent: bool,
}

impl Reading {
    /// A line before the rows; true for the one behind which they begin.
    fn head(&mut self, line: &str, number: u32, findings: &mut Findings) -> bool {
        if line.eq_ignore_ascii_case(START) {
            return true;
        }
        if let Some((key, label)) = line.split_once('=') {
            if key.trim().eq_ignore_ascii_case("Qualifier1") {
                self.has_continent = label.trim().eq_ignore_ascii_case("Continent");
            }
        } else if line != TAG {
            findings.wrong.push(number, 1, format!("expected KEY=VALUE or {START}, found {line:?}"));
        }
        false
    }

    fn row(&mut self, line: &str, builder: &mut Builder) -> Result<(), Wrong> {
        let (first, rest) = field(line, 0)?;
        let Some(at) = rest else { return Err((1, "a row needs two addresses and a place".to_owned())) };
        let (last, rest) = field(line, at)?;
        let Some(rest) = rest else { return Err((1, "a row needs two addresses and a place".to_owned())) };
        let (first, last) = (self.address(&first, line, 0)?, self.address(&last, line, at)?);
        if first > last {
            return Err((1, format!("the range ends before it begins: {first} to {last}")));
        }
        let known = self.known.get(&line[rest..]).copied();
        let place = if let Some(place) = known {
            place
        } else {
            let place = builder.place(self.place(line, rest)?);
            self.known.insert(line[rest..].to_owned(), place);
            place
        };
        builder.row(first, last, place);
        Ok(())
    }

    fn address(&self, typed: &str, line: &str, at: usize) -> Result<IpAddr, Wrong> {
        let wrong = |text: String| (column(line, at), text);
        // Some exports write addresses as numbers.
        let number = || typed.parse::<u32>().ok().map(|n| IpAddr::from(Ipv4Addr::from_bits(n)));
        let Some(address) = typed.parse::<IpAddr>().ok().or_else(number) else {
            return Err(wrong(format!("{typed:?} is not an address; is it of format {}?", self.layout.name)));
        };
        if address.is_ipv6() == self.layout.is_v6 {
            return Ok(address);
        }
        let family = if self.layout.is_v6 { "IPv6" } else { "IPv4" };
        Err(wrong(format!("{address} is no address of {family}, of which format {} is", self.layout.name)))
    }

    fn place(&mut self, line: &str, at: usize) -> Result<OwnedPlace, Wrong> {
        let mut location = Location::default();
        let (mut longitude, mut latitude) = (None, None);
        let mut next = Some(at);
        let mut count = 0;
        while let Some(at) = next {
            let (value, rest) = field(line, at)?;
            let Some(what) = self.layout.columns.get(count) else {
                let (most, name) = (self.layout.columns.len() + 2, self.layout.name);
                return Err((column(line, at), format!("more than the {most} columns of format {name}")));
            };
            let wrong = |text: String| (column(line, at), text);
            match what {
                Column::Skip => {}
                Column::Qualifier(n) => {
                    location.qualifiers[*n] = self.qualifier(*n, &value).map_err(wrong)?;
                }
                Column::Longitude => longitude = degrees("longitude", &value, 180.0).map_err(wrong)?,
                Column::Latitude => latitude = degrees("latitude", &value, 90.0).map_err(wrong)?,
            }
            (next, count) = (rest, count + 1);
        }
        if count < self.layout.least {
            let (least, name) = (self.layout.least + 2, self.layout.name);
            return Err((1, format!("{} columns are fewer than the {least} of format {name}", count + 2)));
        }
        if location.is_all_wildcards() && longitude.is_none() {
            return Err((column(line, at), "names no place".to_owned()));
        }
        let first = location.qualifiers[0].as_deref();
        let is_country = |code: &str| code.len() == 2 && !CONTINENTS.contains(&code);
        self.shifted +=
            usize::from(self.layout.is_tagged && self.has_continent && first.is_some_and(is_country));
        Ok(OwnedPlace { location, coordinates: longitude.zip(latitude) })
    }

    fn qualifier(&mut self, n: usize, value: &str) -> Result<Option<String>, String> {
        debug_assert!(n < QUALIFIERS);
        // Exports write `-` for what they do not know.
        if matches!(value, "" | "*" | "-") {
            return Ok(None);
        }
        if n == 1 && !self.layout.is_tagged && !(2..=3).contains(&value.chars().count()) {
            let name = self.layout.name;
            return Err(format!("{value:?} is no country code; is the file of format {name}?"));
        }
        if value.chars().count() <= SIGNIFICANT {
            return Ok(Some(value.to_owned()));
        }
        self.cut += 1;
        Ok(Some(value.chars().take(SIGNIFICANT).collect()))
    }

    fn finish(self, findings: &mut Findings) {
        if self.cut > 0 {
            let text = format!("{} names of places are cut to {SIGNIFICANT} characters", self.cut);
            findings.odd.push(text);
        }
        if self.shifted > 0 {
            findings.odd.push(format!(
                "{} places have a country where the file says that the continent stands; the vendor's converter \
                 leaves the continent out for IPv6",
                self.shifted
            ));
        }
    }
}

/// Degrees; None for an empty field.
fn degrees(what: &str, value: &str, most: f64) -> Result<Option<f64>, String> {
    if matches!(value, "" | "*" | "-") {
        return Ok(None);
    }
    match value.parse::<f64>() {
        Ok(number) if number.abs() <= most => Ok(Some(number)),
        Ok(number) if what == "latitude" && number.abs() <= 180.0 => Err(format!(
            "latitude {number} is beyond {most}; do longitude and latitude stand in each other's place?"
        )),
        Ok(number) if number.is_finite() => Err(format!("{what} {number} is beyond {most}")),
        _ => Err(format!("{value:?} is no {what}")),
    }
}

/// The field that begins at an offset, and where the next one begins. Quotes are taken off, blanks around it too.
fn field(line: &str, at: usize) -> Result<(Cow<'_, str>, Option<usize>), Wrong> {
    let rest = &line[at..];
    let begin = at + (rest.len() - rest.trim_start().len());
    let Some(quoted) = line[begin..].strip_prefix('"') else {
        let end = rest.find(',').map(|end| at + end);
        let value = line[at..end.unwrap_or(line.len())].trim();
        return Ok((Cow::Borrowed(value), end.map(|end| end + 1)));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        match c {
            '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => {
                let behind = begin + 1 + offset + 1;
                let tail = line[behind..].trim_start();
                let skipped = line.len() - tail.len();
                return match tail.chars().next() {
                    None => Ok((Cow::Owned(value), None)),
                    Some(',') => Ok((Cow::Owned(value), Some(skipped + 1))),
                    Some(_) => {
                        Err((column(line, skipped), "expected a comma behind the quoted field".to_owned()))
                    }
                };
            }
            _ => value.push(c),
        }
    }
    Err((column(line, begin), "this quote is not closed".to_owned()))
}

/// The column of a byte offset, from 1.
fn column(line: &str, at: usize) -> u32 {
    line[..line.floor_char_boundary(at)].chars().count() as u32 + 1
}
