//! `show location [ADDRESS | LOCATION]`: custom ranges; an address is looked for in the location files, too.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::bounded;
use crate::{
    control::{Refusal, View, command::ShowKind},
    model::{
        Location,
        location::{LocationRange, Place},
    },
};

/// All ranges, the range that holds an address, or the ranges of a location.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Value, Refusal> {
    let table = &view.model.locations;
    let Some(text) = name else {
        bounded(ShowKind::Location, table.custom.len())?;
        return Ok(table.custom.iter().map(value).collect());
    };
    if let Ok(address) = text.parse::<IpAddr>() {
        let custom = table.custom_range(address).map(value);
        let of_file = || table.files.row(address).map(|(first, last, place)| row(first, last, place));
        return custom
            .or_else(of_file)
            .ok_or_else(|| Refusal::new(format!("no range of locations holds {address}")));
    }
    let wanted = Location::parse(text).map_err(|e| Refusal::new(e.to_string()))?;
    let spelled = |l: &Location| l.to_string().to_ascii_lowercase();
    let matching: Vec<_> = table.custom.iter().filter(|r| spelled(&r.location) == spelled(&wanted)).collect();
    if matching.is_empty() {
        return Err(Refusal::new(format!("no range has the location \"{wanted}\"")));
    }
    bounded(ShowKind::Location, matching.len())?;
    Ok(matching.into_iter().map(value).collect())
}

fn value(range: &LocationRange) -> Value {
    row(range.first, range.last, range.place())
}

fn row(first: IpAddr, last: IpAddr, place: Place<'_>) -> Value {
    json!({
        "first": first,
        "last": last,
        "location": place.location.to_string(),
        "longitude": place.coordinates.map(|c| c.0),
        "latitude": place.coordinates.map(|c| c.1),
    })
}
