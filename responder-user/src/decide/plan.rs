//! Whose answers there are: owners, the names that they serve, and what a change of state touches (design section 4).

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::chain::{Owner, links};
use crate::model::{Domain, Model, RecordType, ServiceId, VserverId};

/// Index into [`Owners::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u32);

impl OwnerId {
    /// The index into the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One type of one domain: who answers it, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The type.
    pub rtype: RecordType,
    /// Who answers.
    pub owner: OwnerId,
    /// TTL of the answers in seconds.
    pub ttl: u32,
}

/// The distinct owners of a model. A million names behind one virtual server have one owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// By virtual server, then by backup addresses: the order of the names has no influence.
    pub list: Vec<Owner>,
    /// For every domain of the model its owner.
    of_domain: Vec<OwnerId>,
    /// For every virtual server the owners whose chain it is a link of.
    by_vserver: Vec<Vec<OwnerId>>,
    /// For every service the owners that can come to answer with it.
    by_service: Vec<Vec<OwnerId>>,
}

impl Owners {
    /// Collects the owners of all domains.
    pub fn of(model: &Model) -> Self {
        let mut ids: BTreeMap<(VserverId, &[IpAddr]), OwnerId> = BTreeMap::new();
        // Lists are shared: most domains are told apart from the one before by two words alone.
        let mut last: Option<(&Domain, (VserverId, &[IpAddr]))> = None;
        for domain in &model.domains {
            let key = (domain.vserver, &*domain.backup_ip);
            if !last.is_some_and(|(before, _)| same_owner(before, domain)) {
                ids.entry(key).or_insert(OwnerId(0));
            }
            last = Some((domain, key));
        }
        let mut list = Vec::with_capacity(ids.len());
        for (i, ((vserver, backup_ip), id)) in ids.iter_mut().enumerate() {
            *id = OwnerId(i as u32);
            list.push(Owner { vserver: *vserver, backup_ip: Arc::from(*backup_ip) });
        }
        let of_domain = model.domains.iter().map(|d| ids[&(d.vserver, &*d.backup_ip)]).collect();
        let (by_vserver, by_service) = reverse(model, &list);
        Self { list, of_domain, by_vserver, by_service }
    }

    /// An owner by id.
    pub fn owner(&self, id: OwnerId) -> &Owner {
        &self.list[id.index()]
    }

    /// The owner of a domain, by its index in [`Model::domains`].
    pub fn of_domain(&self, index: usize) -> OwnerId {
        self.of_domain[index]
    }

    /// The types that a domain answers, each with its owner. A dual-stack name may have two domains (3.9).
    pub fn served<'m>(&self, model: &'m Model, index: usize) -> impl Iterator<Item = Served> + use<'m> {
        let (owner, domain) = (self.of_domain(index), &model.domains[index]);
        let types = &model.vserver(domain.vserver).types;
        types.iter().map(move |rtype| Served { rtype: *rtype, owner, ttl: domain.ttl })
    }

    /// The owners whose answers a change of this service can change, in ascending order.
    pub fn owners_affected_by(&self, service: ServiceId) -> &[OwnerId] {
        self.by_service.get(service.index()).map_or(&[], Vec::as_slice)
    }

    /// The owners whose answers a change of this virtual server can change, in ascending order.
    pub fn owners_affected_by_vserver(&self, vserver: VserverId) -> &[OwnerId] {
        self.by_vserver.get(vserver.index()).map_or(&[], Vec::as_slice)
    }
}

fn same_owner(a: &Domain, b: &Domain) -> bool {
    a.vserver == b.vserver && Arc::ptr_eq(&a.backup_ip, &b.backup_ip)
}

type Reverse = (Vec<Vec<OwnerId>>, Vec<Vec<OwnerId>>);

fn reverse(model: &Model, list: &[Owner]) -> Reverse {
    let mut by_vserver = vec![Vec::new(); model.vservers.len()];
    let mut by_service: Vec<Vec<OwnerId>> = vec![Vec::new(); model.services.len()];
    for (i, owner) in list.iter().enumerate() {
        let id = OwnerId(i as u32);
        for link in links(model, owner.vserver) {
            by_vserver[link.index()].push(id);
            for bound in &model.vserver(link).services {
                let owners = &mut by_service[bound.service.index()];
                // A service may be bound to several links of one chain.
                if owners.last() != Some(&id) {
                    owners.push(id);
                }
            }
        }
    }
    (by_vserver, by_service)
}
