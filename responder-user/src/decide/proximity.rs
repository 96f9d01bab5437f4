//! Static proximity: how near a service is to a client (spec/netscaler.md 1.6).

use std::fmt;

use super::{candidate::Candidate, client::Client};
use crate::model::{
    Location, Method, Model, Service, Vserver,
    location::{Place, QUALIFIERS, same_qualifier},
};

/// Mean radius of the earth in metres.
const EARTH: f64 = 6_371_008.8;

/// Length of the leading run of qualifiers that client and service share; a wildcard on both sides neither helps nor
/// breaks, on one side it ends the run.
pub fn score(client: &Location, service: &Location) -> u32 {
    let mut run = 0;
    for i in 0..QUALIFIERS {
        match (&client.qualifiers[i], &service.qualifiers[i]) {
            (None, None) => {}
            (Some(a), Some(b)) if same_qualifier(a, b) => run += 1,
            _ => break,
        }
    }
    run
}

/// Great-circle distance in whole metres, so that equal distances compare equal in spite of rounding.
pub fn metres((lon_a, lat_a): (f64, f64), (lon_b, lat_b): (f64, f64)) -> u64 {
    let (lat_a, lat_b) = (lat_a.to_radians(), lat_b.to_radians());
    let lon = (lon_b - lon_a).to_radians();
    let haversine =
        ((lat_b - lat_a) / 2.0).sin().powi(2) + lat_a.cos() * lat_b.cos() * (lon / 2.0).sin().powi(2);
    (2.0 * EARTH * haversine.min(1.0).sqrt().asin()).round() as u64
}

/// How candidates were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Great-circle distance.
    Coordinates,
    /// Qualifiers.
    Qualifiers,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coordinates => "coordinates",
            Self::Qualifiers => "qualifiers",
        })
    }
}

/// Why static proximity cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDecision {
    /// The client is in no range.
    ClientNotLocated,
    /// Not even the first qualifier of any service matches.
    NoServiceMatches,
}

/// Candidates in groups of equal nearness, nearest first.
pub type Groups<'c> = Vec<Vec<&'c Candidate>>;

/// Orders candidates by nearness. Those without a location come behind every real match and before those that do
/// not match; behind all others where coordinates decide.
pub fn rank<'c>(
    model: &Model,
    client: &Client<'_>,
    candidates: &[&'c Candidate],
) -> Result<(Measure, Groups<'c>), NoDecision> {
    let place = client.place.ok_or(NoDecision::ClientNotLocated)?;
    let service = |c: &Candidate| model.service(c.service);
    let (located, anywhere): (Vec<&Candidate>, Vec<&Candidate>) =
        candidates.iter().copied().partition(|c| is_located(service(c)));
    if let Some(distances) = all_distances(place, located.iter().map(|c| service(c))) {
        let mut keyed: Vec<(u64, &Candidate)> = distances.into_iter().zip(located).collect();
        keyed.sort_by_key(|(distance, _)| *distance);
        let mut groups = group(&keyed);
        groups.extend((!anywhere.is_empty()).then_some(anywhere));
        return Ok((Measure::Coordinates, groups));
    }
    let graded =
        |c: &Candidate| service(c).location.as_ref().map_or(0, |location| score(place.location, location));
    let mut keyed: Vec<(u32, &Candidate)> = located.into_iter().map(|c| (graded(c), c)).collect();
    if anywhere.is_empty() && keyed.iter().all(|(score, _)| *score == 0) {
        return Err(NoDecision::NoServiceMatches);
    }
    keyed.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let strangers = keyed.split_off(keyed.partition_point(|(score, _)| *score > 0));
    let mut groups = group(&keyed);
    groups.extend((!anywhere.is_empty()).then_some(anywhere));
    groups.extend(group(&strangers));
    Ok((Measure::Qualifiers, groups))
}

/// A service that has qualifiers or coordinates; `*` alone says nothing.
fn is_located(service: &Service) -> bool {
    service.coordinates.is_some() || service.location.as_ref().is_some_and(|l| !l.is_all_wildcards())
}

/// Distances to all services, if there are any and the client and all of them have coordinates.
fn all_distances<'m>(place: Place<'_>, located: impl Iterator<Item = &'m Service>) -> Option<Vec<u64>> {
    let from = place.coordinates?;
    let distances: Vec<u64> =
        located.map(|s| s.coordinates.map(|to| metres(from, to))).collect::<Option<_>>()?;
    (!distances.is_empty()).then_some(distances)
}

/// Splits a sorted list where its key changes.
fn group<'c, K: PartialEq>(sorted: &[(K, &'c Candidate)]) -> Groups<'c> {
    sorted.chunk_by(|a, b| a.0 == b.0).map(|chunk| chunk.iter().map(|(_, c)| *c).collect()).collect()
}

/// True if the virtual server can come to ask for static proximity.
pub fn is_used_by(vserver: &Vserver) -> bool {
    vserver.method == Method::StaticProximity || vserver.backup_method == Some(Method::StaticProximity)
}

/// All that [`rank`] can take from a place, for any set of candidates of the virtual servers that use proximity:
/// two places with equal views are never told apart. This is the rank order that client classes are made of.
pub fn view(model: &Model, place: Option<Place<'_>>) -> Vec<u32> {
    let Some(place) = place else { return Vec::new() };
    let mut out = vec![1];
    for vserver in model.vservers.iter().filter(|v| is_used_by(v)) {
        let located: Vec<&Service> = vserver
            .services
            .iter()
            .map(|b| model.service(b.service))
            .filter(|service| is_located(service))
            .collect();
        let scores =
            located.iter().map(|service| service.location.as_ref().map_or(0, |l| score(place.location, l)));
        let Some(from) = place.coordinates else {
            out.extend(scores);
            continue;
        };
        let distances: Vec<Option<u64>> =
            located.iter().map(|s| s.coordinates.map(|to| metres(from, to))).collect();
        let mut order: Vec<u64> = distances.iter().copied().flatten().collect();
        order.sort_unstable();
        order.dedup();
        if order.is_empty() {
            out.extend(scores);
            continue;
        }
        // Qualifiers count only while a candidate without coordinates can be among the usable ones.
        if distances.contains(&None) {
            out.extend(scores);
        }
        // Offset so that a place with coordinates never looks like one without.
        out.extend(
            distances
                .iter()
                .map(|d| d.map_or(u32::MAX, |d| 100 + order.partition_point(|other| *other < d) as u32)),
        );
    }
    out
}
