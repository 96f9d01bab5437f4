//! `show location`, `show locationParameter`, `show locationFile` (spec/netscaler.md 7.3).

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::no_such;
use crate::{
    control::{Refusal, View, show::LIST_LIMIT},
    model::{
        Location,
        location::{LocationRange, Place, WildcardMatchesAny},
    },
};

/// Labels of the qualifiers in the geographic context.
const LABELS: [&str; 6] = ["Continent", "Country", "Region", "City", "ISP", "Organization"];

/// The custom ranges; for an address the range that begins there, else the row that holds it, of files too.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let table = &view.model.locations;
    let Some(text) = name else {
        if table.custom.len() > LIST_LIMIT {
            let count = table.custom.len();
            return Err(Refusal::new(format!("{count} ranges are more than one list holds ({LIST_LIMIT})")));
        }
        return Ok(table.custom.iter().map(of_range).collect());
    };
    let Ok(address) = text.parse::<IpAddr>() else { return Err(no_such("IPfrom", text)) };
    let begins: Vec<Value> =
        table.custom.iter().filter(|range| range.first == address).map(of_range).collect();
    if !begins.is_empty() {
        return Ok(begins);
    }
    let custom = table.custom_range(address).map(of_range);
    let of_file = || table.files.row(address).map(|(first, last, place)| row(first, last, place, "static"));
    custom.or_else(of_file).map(|row| vec![row]).ok_or_else(|| no_such("IPfrom", text))
}

fn of_range(range: &LocationRange) -> Value {
    row(range.first, range.last, range.place(), "custom")
}

fn row(first: IpAddr, last: IpAddr, place: Place<'_>, kind: &str) -> Value {
    let mut out = json!({
        "ipfrom": first,
        "ipto": last,
        "preferredlocation": place.location.to_string(),
        "longitude": place.coordinates.map(|c| c.0),
        "latitude": place.coordinates.map(|c| c.1),
        "kind": kind,
    });
    if let Value::Object(out) = &mut out {
        out.extend(qualifiers(place.location));
    }
    out
}

fn qualifiers(location: &Location) -> Map<String, Value> {
    let rows = location.qualifiers.iter().enumerate();
    rows.map(|(i, text)| (format!("q{}", i + 1), json!(text.as_deref().unwrap_or("*")))).collect()
}

/// How locations are kept.
pub(super) fn parameter(view: &View<'_>) -> Value {
    let table = &view.model.locations;
    let is_custom = table.is_custom_context;
    let mut out = json!({
        "context": if is_custom { "custom" } else { "geographic" },
        "matchwildcardtoany": match table.wildcard_matches_any {
            WildcardMatchesAny::No => "NO",
            WildcardMatchesAny::Yes => "YES",
            WildcardMatchesAny::Expression => "Expression",
        },
        "custom": table.custom.iter().filter(|range| range.first.is_ipv4()).count(),
        "custom6": table.custom.iter().filter(|range| range.first.is_ipv6()).count(),
        "static": table.files.v4.len(),
        "static6": table.files.v6.len(),
        "entries": table.files.v4.len(),
        "entries6": table.files.v6.len(),
        "locationfile": table.sources.first(),
        "databasemode": if table.files.is_empty() { "Not applicable" } else { "File" },
        // A table takes the place of the old one when it is whole.
        "flushing": "Idle",
        "loading": "Idle",
    });
    for (i, label) in LABELS.iter().enumerate() {
        let label = if is_custom { format!("Qualifier {}", i + 1) } else { (*label).to_owned() };
        out[format!("q{}label", i + 1)] = json!(label);
    }
    out
}

/// The location files, in the order in which they are searched.
pub(super) fn files(view: &View<'_>) -> Vec<Value> {
    view.model.locations.sources.iter().map(|path| json!({"locationfile": path})).collect()
}
