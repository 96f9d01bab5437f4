//! MaxMind databases: every network with its continent code, country code, first subdivision, city, provider and
//! organisation, and its coordinates. Names are the English ones.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

use maxminddb::{MaxMindDbError, Reader, WithinOptions};
use serde::Deserialize;

use super::{Findings, table::Builder};
use crate::model::location::{Location, OwnedPlace};

/// What is taken from a record. Databases of one kind have some of it, those of another kind the rest.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record<'a> {
    #[serde(borrow)]
    continent: Coded<'a>,
    #[serde(borrow)]
    country: Coded<'a>,
    #[serde(borrow)]
    registered_country: Coded<'a>,
    #[serde(borrow)]
    subdivisions: Vec<Coded<'a>>,
    #[serde(borrow)]
    city: Coded<'a>,
    location: Point,
    isp: Option<&'a str>,
    organization: Option<&'a str>,
    autonomous_system_organization: Option<&'a str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Coded<'a> {
    code: Option<&'a str>,
    iso_code: Option<&'a str>,
    #[serde(borrow)]
    names: Names<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Names<'a> {
    en: Option<&'a str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Point {
    longitude: Option<f64>,
    latitude: Option<f64>,
}

/// Reads a whole database.
pub(super) fn read(bytes: Vec<u8>, builder: &mut Builder, findings: &mut Findings) {
    if let Err(error) = networks(bytes, builder) {
        findings.wrong.push(1, 1, format!("is no MaxMind database that can be read: {error}"));
    }
}

fn networks(bytes: Vec<u8>, builder: &mut Builder) -> Result<(), MaxMindDbError> {
    let reader = Reader::from_source(bytes)?;
    reader.verify()?;
    // Networks share their records.
    let mut places: HashMap<usize, Option<u32>> = HashMap::new();
    for found in reader.networks(WithinOptions::default())? {
        let found = found?;
        let Some(offset) = found.offset() else { continue };
        let known = places.get(&offset).copied();
        let place = if let Some(place) = known {
            place
        } else {
            let place = found.decode::<Record<'_>>()?.as_ref().and_then(place).map(|p| builder.place(p));
            places.insert(offset, place);
            place
        };
        let (Some(place), network) = (place, found.network()?) else { continue };
        let (first, last) = (network.network(), network.broadcast());
        match (first, last) {
            // IPv4 stands in the lower 32 bits of a tree of IPv6.
            (IpAddr::V6(a), IpAddr::V6(b)) if b.to_bits() >> 32 == 0 => {
                let v4 = |a: Ipv6Addr| IpAddr::from(std::net::Ipv4Addr::from_bits(a.to_bits() as u32));
                builder.row(v4(a), v4(b), place);
            }
            _ => builder.row(first, last, place),
        }
    }
    Ok(())
}

/// None: the record names no place.
fn place(record: &Record<'_>) -> Option<OwnedPlace> {
    let country = record.country.iso_code.or(record.registered_country.iso_code);
    let region = record.subdivisions.first().and_then(|s| s.names.en.or(s.iso_code));
    let organization = record.organization.or(record.autonomous_system_organization);
    let cut = |text: &str| text.chars().take(31).collect::<String>();
    let qualifiers = [record.continent.code, country, region, record.city.names.en, record.isp, organization]
        .map(|q| q.map(cut));
    let in_range = |(lon, lat): &(f64, f64)| lon.abs() <= 180.0 && lat.abs() <= 90.0;
    let coordinates = record.location.longitude.zip(record.location.latitude).filter(in_range);
    let location = Location { qualifiers };
    (!location.is_all_wildcards() || coordinates.is_some()).then_some(OwnedPlace { location, coordinates })
}
