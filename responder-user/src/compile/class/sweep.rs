//! Cuts the address space where a rule or a range begins or ends, and finds the range that holds each piece.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::model::{Model, Rule};

/// Addresses between which no rule and no range can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub first: u128,
    pub last: u128,
    /// The place of the range that holds it, as a number of the location table: of custom ranges the narrowest, then the
    /// newest, then that of a file (spec/netscaler.md 1.3).
    pub range: Option<u32>,
    /// Some rule or range names its addresses.
    pub mentioned: bool,
}

/// Something that begins and ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    first: u128,
    last: u128,
    /// None: a prefix in a rule.
    range: Option<u32>,
}

/// All of one family, in ascending order without gaps.
pub(super) fn pieces(model: &Model, v4: bool) -> Vec<Piece> {
    let end = if v4 { u128::from(u32::MAX) } else { u128::MAX };
    let mut spans = spans(model, v4);
    spans.sort_unstable();
    let mut cuts = vec![0];
    cuts.extend(spans.iter().map(|s| s.first));
    cuts.extend(spans.iter().filter(|s| s.last < end).map(|s| s.last + 1));
    cuts.sort_unstable();
    cuts.dedup();

    let mut coming = spans.into_iter().peekable();
    let customs = model.locations.custom.len() as u32;
    let mut ends: BinaryHeap<Reverse<(u128, u128, Option<u32>)>> = BinaryHeap::new();
    // Ranges that hold the current piece, the one that wins first. Rows of files do not overlap each other.
    let mut ranges: BTreeSet<(bool, u128, Reverse<u32>)> = BTreeSet::new();
    let rank = |number: u32, width| (number >= customs, width, Reverse(number));
    let mut out = Vec::with_capacity(cuts.len());
    for (i, &first) in cuts.iter().enumerate() {
        while let Some(Reverse((last, width, range))) = ends.peek().copied().filter(|e| e.0.0 < first) {
            debug_assert!(last < first);
            ends.pop();
            range.map(|number| ranges.remove(&rank(number, width)));
        }
        while let Some(span) = coming.next_if(|s| s.first <= first) {
            let width = span.last - span.first;
            ends.push(Reverse((span.last, width, span.range)));
            span.range.map(|number| ranges.insert(rank(number, width)));
        }
        let last = cuts.get(i + 1).map_or(end, |next| next - 1);
        let range = ranges.first().map(|(.., Reverse(number))| *number);
        out.push(Piece { first, last, range, mentioned: !ends.is_empty() });
    }
    out
}

fn spans(model: &Model, v4: bool) -> Vec<Span> {
    let mut out = Vec::new();
    for (i, range) in model.locations.custom.iter().enumerate() {
        if range.first.is_ipv4() == v4 {
            let (first, last) = (number(range.first), number(range.last));
            out.push(Span { first, last, range: Some(i as u32) });
        }
    }
    let files = &model.locations.files;
    let place = |place: u32| Some(model.locations.custom.len() as u32 + place);
    if v4 {
        let wide = |(first, last, p): &(u32, u32, u32)| Span {
            first: (*first).into(),
            last: (*last).into(),
            range: place(*p),
        };
        out.extend(files.v4.iter().map(wide));
    } else {
        out.extend(files.v6.iter().map(|(first, last, p)| Span {
            first: *first,
            last: *last,
            range: place(*p),
        }));
    }
    for policy in &model.policies {
        collect(&policy.rule, v4, &mut out);
    }
    out
}

fn collect(rule: &Rule, v4: bool, out: &mut Vec<Span>) {
    let (first, last) = match rule {
        Rule::Constant(_)
        | Rule::MatchesLocation(_)
        | Rule::Destination(_)
        | Rule::Name { .. }
        | Rule::Type { .. }
        | Rule::ResponseCode(_) => return,
        Rule::Not(inner) => return collect(inner, v4, out),
        Rule::And(a, b) | Rule::Or(a, b) => {
            collect(a, v4, out);
            return collect(b, v4, out);
        }
        Rule::Equals(address) => (*address, *address),
        Rule::InSubnet(IpNet::V4(net)) => (net.network().into(), net.broadcast().into()),
        Rule::InSubnet(IpNet::V6(net)) => (net.network().into(), net.broadcast().into()),
    };
    if first.is_ipv4() == v4 {
        out.push(Span { first: number(first), last: number(last), range: None });
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}
