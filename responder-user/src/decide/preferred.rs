//! Preferred locations: tiers of services (spec/netscaler.md 2.5).

use super::{candidate::Candidate, reason::Tier};
use crate::model::{
    Location, Model,
    location::{QUALIFIERS, same_qualifier},
};

/// How a service's location meets a preferred location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Every given qualifier of the preferred location equals the service's.
    Perfect,
    /// Some, but not all of them do.
    Partial,
    /// None does.
    None,
}

/// Compares by the qualifiers that the preferred location gives; its wildcards are skipped, the service's equal
/// nothing. A service without a location meets no preferred location, not even one of wildcards alone.
pub fn classify(preferred: &Location, service: Option<&Location>) -> Match {
    let Some(service) = service.filter(|location| !location.is_all_wildcards()) else {
        return Match::None;
    };
    let (mut want, mut hit) = (0, 0);
    for i in 0..QUALIFIERS {
        if let Some(wanted) = &preferred.qualifiers[i] {
            want += 1;
            hit += usize::from(service.qualifiers[i].as_ref().is_some_and(|q| same_qualifier(q, wanted)));
        }
    }
    match hit {
        _ if hit == want => Match::Perfect,
        0 => Match::None,
        _ => Match::Partial,
    }
}

/// Puts every candidate into the first tier that takes it: perfect matches of all preferred locations in their order,
/// then partial matches in the same order, then the rest. Empty tiers are left out, so the first one wins.
///
/// Candidates are usable ones: a perfect match that is down is not found (2.5, point 1).
pub fn tiers<'c>(
    model: &Model,
    list: &[Location],
    candidates: &[&'c Candidate],
) -> Vec<(Tier, Vec<&'c Candidate>)> {
    let mut left = candidates.to_vec();
    let mut out = Vec::new();
    for kind in [Match::Perfect, Match::Partial] {
        for (i, preferred) in list.iter().enumerate() {
            let meets =
                |c: &&Candidate| classify(preferred, model.service(c.service).location.as_ref()) == kind;
            let (taken, others): (Vec<&Candidate>, Vec<&Candidate>) = left.into_iter().partition(meets);
            left = others;
            if !taken.is_empty() {
                let tier = if kind == Match::Perfect { Tier::Perfect } else { Tier::Partial };
                out.push((tier(i + 1), taken));
            }
        }
    }
    if !left.is_empty() {
        out.push((Tier::Rest, left));
    }
    out
}
