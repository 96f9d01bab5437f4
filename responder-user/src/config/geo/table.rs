//! Rows of all files to one table: ascending, without overlaps, each place once.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    net::IpAddr,
};

use crate::model::location::{FileTable, OwnedPlace};

/// Gathers rows.
#[derive(Default)]
pub(super) struct Builder {
    file: u32,
    v4: Vec<Row>,
    v6: Vec<Row>,
    places: Vec<OwnedPlace>,
    known: HashMap<Key, u32>,
}

/// What tells places apart: the spelling, and the bits of the coordinates.
type Key = (String, Option<(u64, u64)>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    first: u128,
    last: u128,
    file: u32,
    place: u32,
}

impl Builder {
    /// Rows that follow are of another file.
    pub(super) fn next_file(&mut self) {
        self.file += 1;
    }

    /// The number of a place.
    pub(super) fn place(&mut self, place: OwnedPlace) -> u32 {
        let bits = place.coordinates.map(|(lon, lat)| (lon.to_bits(), lat.to_bits()));
        let next = self.places.len() as u32;
        let number = *self.known.entry((place.location.to_string(), bits)).or_insert(next);
        if number == next {
            self.places.push(place);
        }
        number
    }

    /// A row. Both addresses are of one family, in order.
    pub(super) fn row(&mut self, first: IpAddr, last: IpAddr, place: u32) {
        let file = self.file;
        match (first, last) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                self.v4.push(Row { first: a.to_bits().into(), last: b.to_bits().into(), file, place });
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                self.v6.push(Row { first: a.to_bits(), last: b.to_bits(), file, place });
            }
            _ => {}
        }
    }

    /// The table.
    pub(super) fn finish(mut self, is_geographic: bool) -> FileTable {
        if is_geographic {
            self.add_continents();
        }
        let v4 = flat(self.v4).into_iter().map(|r| (r.0 as u32, r.1 as u32, r.2)).collect();
        FileTable { v4, v6: flat(self.v6), places: self.places }
    }

    /// In geographic context a place without a continent gets that of its country (spec/netscaler.md 1.1).
    fn add_continents(&mut self) {
        let mut continents: HashMap<String, String> = HashMap::new();
        for place in &self.places {
            if let [Some(continent), Some(country), ..] = &place.location.qualifiers {
                continents.entry(country.to_ascii_lowercase()).or_insert_with(|| continent.clone());
            }
        }
        for place in &mut self.places {
            if let [continent @ None, Some(country), ..] = &mut place.location.qualifiers {
                *continent = continents.get(&country.to_ascii_lowercase()).cloned();
            }
        }
    }
}

/// Cuts rows so that none overlaps: of those that hold an address the one of the first file counts, then the narrowest,
/// then the one that stands last. Neighbours of one place become one.
fn flat(mut rows: Vec<Row>) -> Vec<(u128, u128, u32)> {
    let is_in_order = rows.windows(2).all(|pair| pair[0].last < pair[1].first);
    if is_in_order {
        return join(rows.into_iter().map(|r| (r.first, r.last, r.place)));
    }
    let order: Vec<u32> = (0..rows.len() as u32).collect();
    let mut by_first = order;
    by_first.sort_by_key(|i| rows[*i as usize].first);
    let mut cuts: Vec<u128> = rows.iter().map(|r| r.first).collect();
    cuts.extend(rows.iter().filter_map(|r| r.last.checked_add(1)));
    cuts.sort_unstable();
    cuts.dedup();
    let mut coming = by_first.into_iter().peekable();
    let mut active: BTreeSet<(u32, u128, Reverse<u32>)> = BTreeSet::new();
    let mut ends: BinaryHeap<Reverse<(u128, u32)>> = BinaryHeap::new();
    let rank = |rows: &[Row], i: u32| {
        let row = rows[i as usize];
        (row.file, row.last - row.first, Reverse(i))
    };
    let mut out = Vec::new();
    for (i, &first) in cuts.iter().enumerate() {
        while let Some(Reverse((_, row))) = ends.peek().copied().filter(|Reverse((last, _))| *last < first) {
            ends.pop();
            active.remove(&rank(&rows, row));
        }
        while let Some(row) = coming.next_if(|row| rows[*row as usize].first <= first) {
            active.insert(rank(&rows, row));
            ends.push(Reverse((rows[row as usize].last, row)));
        }
        if let Some((.., Reverse(row))) = active.first() {
            let last = cuts.get(i + 1).map_or(u128::MAX, |next| next - 1);
            let last = last.min(rows[*row as usize].last);
            out.push((first, last, rows[*row as usize].place));
        }
    }
    rows.clear();
    join(out.into_iter())
}

fn join(rows: impl Iterator<Item = (u128, u128, u32)>) -> Vec<(u128, u128, u32)> {
    let mut out: Vec<(u128, u128, u32)> = Vec::new();
    for (first, last, place) in rows {
        match out.last_mut() {
            Some(before) if before.2 == place && before.1.checked_add(1) == Some(first) => before.1 = last,
            _ => out.push((first, last, place)),
        }
    }
    out
}
