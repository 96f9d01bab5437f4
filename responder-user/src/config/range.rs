//! `location.custom`: ranges of addresses with their location.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    kind::{Number, Parsed},
    read::LOCATION,
    reader::Reader,
};
use crate::model::location::LocationRange;

const WHAT: &str = "a range \"first-last\", a prefix or an address";

const RANGE: Parsed<(IpAddr, IpAddr)> = Parsed { what: WHAT, parse: parse_range };

/// One entry.
pub(super) fn read(r: &Reader<'_>) -> Option<LocationRange> {
    let range = r.require("range", &RANGE);
    let location = r.require("location", &LOCATION);
    let longitude = r.get("longitude", &Number { min: -180.0, max: 180.0 });
    let latitude = r.get("latitude", &Number { min: -90.0, max: 90.0 });
    for (key, other) in [("longitude", "latitude"), ("latitude", "longitude")] {
        if r.has(key) && !r.has(other) {
            r.problem(r.key_at(key), key, &format!("needs {other} beside it"));
        }
    }
    r.finish();
    let (first, last) = range?.value;
    let coordinates = longitude.zip(latitude).map(|(x, y)| (x.value, y.value));
    Some(LocationRange { first, last, location: location?.value, coordinates })
}

fn parse_range(typed: &str) -> Result<(IpAddr, IpAddr), String> {
    if let Some((first, last)) = typed.split_once('-') {
        let (Ok(first), Ok(last)) = (first.trim().parse::<IpAddr>(), last.trim().parse::<IpAddr>()) else {
            return Err(format!("{typed:?} is not {WHAT}"));
        };
        if first.is_ipv4() != last.is_ipv4() {
            return Err(format!("{typed:?} mixes IPv4 and IPv6"));
        }
        if first > last {
            return Err(format!("{typed:?} ends before it begins"));
        }
        return Ok((first, last));
    }
    if let Ok(address) = typed.parse::<IpAddr>() {
        return Ok((address, address));
    }
    let net: IpNet = typed.parse().map_err(|_| format!("{typed:?} is not {WHAT}"))?;
    if net.trunc() != net {
        return Err(format!("{typed:?} has bits set behind its length; write \"{}\"", net.trunc()));
    }
    Ok((net.network(), net.broadcast()))
}
