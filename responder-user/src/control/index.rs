//! Finds the bindings of a name among a million, without a second copy of the names.

use std::{collections::hash_map::RandomState, hash::BuildHasher};

use crate::model::{DnsName, Model, VserverId};

/// Twelve octets a name. Belongs to the model that it was made of.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    hasher: RandomState,
    /// Hash of the name and index into [`Model::domains`], ascending.
    places: Vec<(u64, u32)>,
    /// Domains by virtual server.
    counts: Vec<u32>,
}

impl NameIndex {
    /// Of all domains of a model.
    pub fn of(model: &Model) -> Self {
        let hasher = RandomState::new();
        let place = |(i, d): (usize, &crate::model::Domain)| (hasher.hash_one(&d.name), i as u32);
        let mut places: Vec<_> = model.domains.iter().enumerate().map(place).collect();
        places.sort_unstable();
        let mut counts = vec![0; model.vservers.len()];
        for domain in &model.domains {
            counts[domain.vserver.index()] += 1;
        }
        Self { hasher, places, counts }
    }

    /// Indices into [`Model::domains`] of the bindings of a name, ascending.
    pub fn find(&self, model: &Model, name: &DnsName) -> Vec<usize> {
        let hash = self.hasher.hash_one(name);
        let from = self.places.partition_point(|(h, _)| *h < hash);
        let same = self.places[from..].iter().take_while(|(h, _)| *h == hash);
        same.map(|(_, i)| *i as usize).filter(|i| model.domains[*i].name == *name).collect()
    }

    /// How many names are bound to a virtual server.
    pub fn count(&self, vserver: VserverId) -> u32 {
        self.counts.get(vserver.index()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Domain;

    #[test]
    fn all_bindings_of_a_name_are_found() {
        let domain = |name: &str, vserver| Domain {
            name: DnsName::parse(name).unwrap(),
            vserver: VserverId(vserver),
            ttl: 5,
            backup_ip: [].into(),
        };
        let mut model =
            Model { domains: vec![domain("a.b", 0), domain("c.b", 1), domain("A.b", 1)], ..Model::default() };
        let vserver =
            |name: &str| crate::model::Vserver { name: name.to_owned(), ..crate::model::Vserver::default() };
        model.vservers = vec![vserver("v4"), vserver("v6")];
        let index = NameIndex::of(&model);
        let find = |name: &str| index.find(&model, &DnsName::parse(name).unwrap());
        assert_eq!(find("a.b"), [0, 2]);
        assert_eq!(find("c.b"), [1]);
        assert!(find("b").is_empty());
        assert_eq!((index.count(VserverId(0)), index.count(VserverId(1))), (1, 2));
    }
}
