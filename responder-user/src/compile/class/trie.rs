//! The fewest prefixes that give every address its class by longest-prefix match.
//!
//! Draves, King, Venkatachary, Zill: "Constructing Optimal IP Routing Tables", INFOCOM 1999. Going up, every block
//! learns which classes it could carry at least cost: what both halves can carry, else what either can. Going down, a
//! block takes over what it inherits if that is among them, and writes a prefix only if not.

use std::collections::HashMap;

use super::Run;

/// Set in a child that is all of one class, whose number is in the other bits.
const LEAF: u32 = 1 << 31;

struct Trie {
    /// Set of classes, lower half, upper half.
    nodes: Vec<(u32, u32, u32)>,
    /// Sets in ascending order; the first ones hold one class each, of the same number.
    sets: Vec<Vec<u32>>,
    ids: HashMap<Vec<u32>, u32>,
    joined: HashMap<(u32, u32), u32>,
}

/// `runs` cover all 128-bit addresses in ascending order. Returns first address, length and class, outer prefixes
/// before those inside them.
pub(super) fn fewest_prefixes(runs: &[Run], classes: u32) -> Vec<(u128, u8, u32)> {
    let mut trie = Trie { nodes: Vec::new(), sets: Vec::new(), ids: HashMap::new(), joined: HashMap::new() };
    for class in 0..classes {
        trie.ids.insert(vec![class], class);
        trie.sets.push(vec![class]);
    }
    let root = trie.build(0, 0, runs);
    let mut out = Vec::new();
    trie.write(root, 0, 0, None, &mut out);
    out
}

impl Trie {
    /// The block of length `len` at `first`; `runs` are those that overlap it.
    fn build(&mut self, first: u128, len: u8, runs: &[Run]) -> u32 {
        if let [run] = runs {
            return LEAF | run.class;
        }
        let middle = first | half(len);
        let lower = self.build(first, len + 1, &runs[..runs.partition_point(|r| r.first < middle)]);
        let upper = self.build(middle, len + 1, &runs[runs.partition_point(|r| r.last < middle)..]);
        let set = self.join(self.set(lower), self.set(upper));
        self.nodes.push((set, lower, upper));
        self.nodes.len() as u32 - 1
    }

    fn set(&self, block: u32) -> u32 {
        if block & LEAF != 0 { block & !LEAF } else { self.nodes[block as usize].0 }
    }

    /// What both sets share, else all of both.
    fn join(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.joined.get(&key) {
            return *known;
        }
        let (a, b) = (&self.sets[a as usize], &self.sets[b as usize]);
        let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
        let mut set: Vec<u32> =
            few.iter().copied().filter(|class| many.binary_search(class).is_ok()).collect();
        if set.is_empty() {
            set = [few.as_slice(), many.as_slice()].concat();
            set.sort_unstable();
        }
        let next = self.sets.len() as u32;
        let id = *self.ids.entry(set.clone()).or_insert(next);
        if id == next {
            self.sets.push(set);
        }
        self.joined.insert(key, id);
        id
    }

    fn write(
        &self,
        block: u32,
        first: u128,
        len: u8,
        inherited: Option<u32>,
        out: &mut Vec<(u128, u8, u32)>,
    ) {
        let set = &self.sets[self.set(block) as usize];
        let kept = inherited.filter(|class| set.binary_search(class).is_ok());
        let class = kept.unwrap_or(set[0]);
        if kept.is_none() {
            out.push((first, len, class));
        }
        if block & LEAF == 0 {
            let (_, lower, upper) = self.nodes[block as usize];
            self.write(lower, first, len + 1, Some(class), out);
            self.write(upper, first | half(len), len + 1, Some(class), out);
        }
    }
}

/// The bit that parts a block of this length.
fn half(len: u8) -> u128 {
    1 << (127 - len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs from their first addresses to the next one.
    fn runs(starts: &[(u128, u32)]) -> Vec<Run> {
        let mut out: Vec<Run> = Vec::new();
        for (i, &(first, class)) in starts.iter().enumerate() {
            let last = starts.get(i + 1).map_or(u128::MAX, |next| next.0 - 1);
            out.push(Run { first, last, class });
        }
        out
    }

    fn lengths(starts: &[(u128, u32)]) -> Vec<(u8, u32)> {
        fewest_prefixes(&runs(starts), 9).into_iter().map(|(_, len, class)| (len, class)).collect()
    }

    #[test]
    fn prefixes_nest_and_siblings_merge() {
        assert_eq!(lengths(&[(0, 0)]), [(0, 0)]);
        assert_eq!(lengths(&[(0, 0), (1 << 64, 1), (2 << 64, 0)]), [(0, 0), (64, 1)], "a hole is one prefix");
        assert_eq!(lengths(&[(0, 0), (2 << 64, 1), (4 << 64, 0)]), [(0, 0), (63, 1)], "siblings are one");
        let nested = [(0, 0), (4 << 64, 1), (5 << 64, 2), (6 << 64, 1), (8 << 64, 0)];
        assert_eq!(lengths(&nested), [(0, 0), (62, 1), (64, 2)]);
        let three_of_four = [(0, 0), (4 << 64, 1), (7 << 64, 2), (8 << 64, 0)];
        assert_eq!(lengths(&three_of_four), [(0, 0), (62, 1), (64, 2)]);
        for starts in [[(4 << 64, 2), (7 << 64, 1)], [(4 << 64, 1), (5 << 64, 2)]] {
            let starts = [(0, 0), starts[0], starts[1], (8 << 64, 0)];
            assert_eq!(lengths(&starts), [(0, 0), (62, 2), (64, 1)], "the greater part is the outer prefix");
        }
        assert_eq!(lengths(&[(0, 0), (u128::MAX, 3)]), [(0, 0), (128, 3)]);
    }
}
