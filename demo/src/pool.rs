//! Sets of sites, and what an answer may be made of.

/// Sites by their number, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool(u32);

impl Pool {
    /// Adds a site; false when it was in.
    pub fn add(&mut self, site: usize) -> bool {
        let before = self.0;
        self.0 |= 1 << site;
        self.0 != before
    }

    /// How many.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Numbers of the sites.
    pub fn sites(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |site| self.0 & (1 << site) != 0)
    }

    fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl FromIterator<usize> for Pool {
    fn from_iter<I: IntoIterator<Item = usize>>(sites: I) -> Self {
        let mut pool = Self::default();
        for site in sites {
            pool.add(site);
        }
        pool
    }
}

/// What is right at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Sites that answers are made of.
    pub pool: Pool,
    /// Each answer holds all of them; else one, in turn.
    pub all: bool,
}

impl Expect {
    /// True if these may be the addresses of one answer.
    pub fn allows(self, answer: Pool) -> bool {
        if self.all { answer == self.pool } else { answer.len() == 1 && answer.is_within(self.pool) }
    }

    /// True if every right answer of ours is a right answer of `other`.
    pub fn is_within(self, other: Self) -> bool {
        if self.all || other.all { self == other } else { self.pool.is_within(other.pool) }
    }
}
