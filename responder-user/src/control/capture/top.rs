//! The names that are asked for most, from a stream of samples and in bounded memory (Misra and Gries).

use std::collections::HashMap;

/// Names that are counted at once. Whatever has a larger share than one in so many is among them.
pub const KEPT: usize = 10_000;

/// Counts names.
#[derive(Debug, Default)]
pub struct Top {
    counts: HashMap<String, u64>,
    total: u64,
    /// By how much a count may be too low.
    short: u64,
}

impl Top {
    /// One more query.
    pub fn add(&mut self, name: String) {
        self.total += 1;
        if let Some(count) = self.counts.get_mut(&name) {
            *count += 1;
        } else if self.counts.len() < KEPT {
            self.counts.insert(name, 1);
        } else {
            self.short += 1;
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// Queries in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// By how much a count may be too low.
    pub fn short(&self) -> u64 {
        self.short
    }

    /// The names with the highest counts; of equal ones the first by name.
    pub fn list(&self, most: usize) -> Vec<(&str, u64)> {
        let mut list: Vec<(&str, u64)> =
            self.counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        list.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        list.truncate(most);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_counted_exactly() {
        let mut top = Top::default();
        for (name, count) in [("b", 3), ("a", 3), ("c", 9)] {
            (0..count).for_each(|_| top.add(name.to_owned()));
        }
        assert_eq!(top.list(2), [("c", 9), ("a", 3)]);
        assert_eq!((top.total(), top.short()), (15, 0));
    }

    #[test]
    fn a_flood_of_names_does_not_hide_a_frequent_one() {
        let mut top = Top::default();
        for i in 0..5 * KEPT {
            top.add(format!("random-{i}"));
            if i % 10 == 0 {
                top.add("www".to_owned());
            }
        }
        assert!(top.counts.len() <= KEPT);
        let (name, count) = top.list(1)[0];
        assert_eq!(name, "www");
        assert!(count + top.short() >= 5 * KEPT as u64 / 10);
    }
}
