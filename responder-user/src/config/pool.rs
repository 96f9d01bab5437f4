//! Virtual servers: the services bound to them, their types and their backups.

use super::{
    file::{File, Vserver as Typed},
    problem::Notes,
    validate::{Index, chain, label},
};
use crate::model::{Bound, Model, RecordType, ServiceId, Vserver, VserverId, vserver::MAX_POOL};

/// All virtual servers, in the order of the file.
pub(super) fn vservers(
    notes: &Notes<'_>,
    file: &File,
    services: &Index<'_>,
    vservers: &Index<'_>,
) -> Vec<Vserver> {
    let out: Vec<Vserver> =
        file.vservers.iter().map(|typed| vserver(notes, file, typed, services, vservers)).collect();
    for (typed, made) in file.vservers.iter().zip(&out) {
        backup_types(notes, file, typed, made, &out);
    }
    loops(notes, file, &out);
    out
}

fn vserver(
    notes: &Notes<'_>,
    file: &File,
    typed: &Typed,
    services: &Index<'_>,
    vservers: &Index<'_>,
) -> Vserver {
    let label = label("vserver", &typed.head);
    let mut bound: Vec<Bound> = Vec::new();
    let mut places = Vec::new();
    let mut whole = !typed.head.broken;
    for one in &typed.services {
        let Some(found) = services.find(notes, &label, "services", &one.service) else {
            whole = false;
            continue;
        };
        let service = ServiceId(found as u32);
        if bound.iter().any(|earlier| earlier.service == service) {
            notes.problem(
                one.service.at,
                format!("{label}: services: {:?} is listed twice", one.service.value),
            );
            continue;
        }
        whole &= !file.services[found].head.broken;
        places.push(one.service.at);
        bound.push(Bound { service, weight: one.weight, order: one.order });
    }
    let types = types(file, typed, &bound);
    if whole {
        let placed: Vec<_> = bound.iter().map(|b| b.service.index()).zip(places).collect();
        fitting(notes, file, typed, &types, &placed);
    }
    if let Some(method) = &typed.backup_method {
        let main = typed.method.as_ref().map_or_else(Default::default, |m| m.value);
        if !matches!(main, crate::model::Method::StaticProximity | crate::model::Method::Rtt) {
            let text = format!("has no meaning with method {main}; it goes with static-proximity or rtt");
            notes.warning(method.at, format!("{label}: backup_method: {text}"));
        }
    }
    let backup = typed.backup.as_ref().and_then(|name| vservers.find(notes, &label, "backup", name));
    if types.contains(&RecordType::Cname) && types.len() > 1 && whole {
        let text = "CNAME goes with no other type: a name that is an alias has no other records";
        notes.problem(typed.head.at, format!("{label}: types: {text}"));
    }
    Vserver {
        name: typed.head.name.value.clone(),
        service_type: typed.service_type.clone().unwrap_or_else(|| "ANY".to_owned()),
        types,
        method: typed.method.as_ref().map_or_else(Default::default, |method| method.value),
        backup_method: typed.backup_method.as_ref().map(|method| method.value),
        services: bound,
        backup: backup.map(|i| VserverId(i as u32)),
        ..typed.plain.clone()
    }
}

/// As typed, else the kinds of answer that the services can give, else A as NetScaler.
fn types(file: &File, typed: &Typed, bound: &[Bound]) -> Vec<RecordType> {
    if let Some(types) = &typed.types {
        return types.iter().map(|t| t.value).collect();
    }
    let all = RecordType::ALL;
    let gives = |kind: &RecordType| bound.iter().any(|b| fits(file, b.service.index(), *kind));
    let found: Vec<_> = all.into_iter().filter(gives).collect();
    if found.is_empty() { vec![RecordType::A] } else { found }
}

/// True if a service has something to answer for a type.
fn fits(file: &File, service: usize, kind: RecordType) -> bool {
    let service = &file.services[service];
    service.addresses.iter().any(|a| kind.fits(a.value))
        || (kind == RecordType::Cname && service.cname.is_some())
        || (kind == RecordType::Naptr && service.naptr.is_some())
}

/// Services against types, and the size of the pool. `bound`: indexes of the services, and where each was typed.
fn fitting(notes: &Notes<'_>, file: &File, typed: &Typed, types: &[RecordType], bound: &[(usize, usize)]) {
    let label = label("vserver", &typed.head);
    let names = types.iter().map(|t| t.name()).collect::<Vec<_>>().join(" or ");
    for (service, at) in bound {
        if !types.iter().any(|kind| fits(file, *service, *kind)) {
            let name = &file.services[*service].head.name.value;
            let text = format!("service {name:?} has nothing of type {names}");
            notes.problem(*at, format!("{label}: services: {text}"));
        }
    }
    for kind in types.iter().filter(|t| matches!(t, RecordType::A | RecordType::Aaaa)) {
        let addresses = bound.iter().flat_map(|(service, _)| &file.services[*service].addresses);
        let count = addresses.filter(|a| kind.fits(a.value)).count();
        if count > MAX_POOL {
            let text = format!("{count} addresses of type {kind} are too many; allowed are {MAX_POOL}");
            notes.problem(typed.head.at, format!("{label}: services: {text}"));
        }
        if count == 0 && !bound.is_empty() {
            let text = format!("{kind} is answered empty: no service has an address of it");
            notes.warning(typed.head.at, format!("{label}: types: {text}"));
        }
    }
}

/// A backup must answer what its primary answers (spec/netscaler.md 3.6).
fn backup_types(notes: &Notes<'_>, file: &File, typed: &Typed, made: &Vserver, all: &[Vserver]) {
    let (Some(id), Some(name)) = (made.backup, &typed.backup) else { return };
    if typed.head.broken || file.vservers[id.index()].head.broken {
        return;
    }
    let backup = &all[id.index()];
    let lacking: Vec<_> = made.types.iter().filter(|t| !backup.types.contains(t)).map(|t| t.name()).collect();
    if !lacking.is_empty() {
        let text = format!("{:?} does not answer type {}", name.value, lacking.join(" and "));
        notes.problem(name.at, format!("{}: backup: {text}", label("vserver", &typed.head)));
    }
}

/// A service that stands for a virtual server takes its state; no state may depend on itself.
pub(super) fn circles(notes: &Notes<'_>, file: &File, model: &Model) {
    let mut walk = Walk { model, path: Vec::new(), done: vec![false; model.vservers.len()] };
    for start in 0..model.vservers.len() {
        walk.path.clear();
        if let Some(service) = walk.circle(start, None) {
            let label = label("service", &file.services[service].head);
            let at = file.services[service].behind.as_ref().map_or(0, |behind| behind.at);
            notes.problem(at, format!("{label}: behind: the state of the vserver depends on this service"));
        }
    }
}

/// A walk along backups and the virtual servers that services stand for.
struct Walk<'m> {
    model: &'m Model,
    /// Virtual servers, each with the service that led to it, if it was no backup.
    path: Vec<(usize, Option<usize>)>,
    done: Vec<bool>,
}

impl Walk<'_> {
    /// Some: a service on a circle.
    fn circle(&mut self, at: usize, by: Option<usize>) -> Option<usize> {
        if let Some(begin) = self.path.iter().position(|(vserver, _)| *vserver == at) {
            // Circles of backups alone are reported as loops of the chain.
            return by.or(self.path[begin + 1..].iter().find_map(|(_, service)| *service));
        }
        if self.done[at] {
            return None;
        }
        self.path.push((at, by));
        let vserver = &self.model.vservers[at];
        let mut steps: Vec<(usize, Option<usize>)> =
            vserver.backup.iter().map(|backup| (backup.index(), None)).collect();
        for bound in &vserver.services {
            let behind = self.model.service(bound.service).behind;
            steps.extend(behind.map(|behind| (behind.index(), Some(bound.service.index()))));
        }
        let found = steps.into_iter().find_map(|(next, service)| self.circle(next, service));
        self.path.pop();
        self.done[at] = true;
        found
    }
}

/// Reports every loop once, at its member that comes first in the file.
fn loops(notes: &Notes<'_>, file: &File, all: &[Vserver]) {
    // 0: not seen; else the number of the walk that saw it. A walk that meets itself has found a loop.
    let mut seen = vec![0; all.len()];
    for start in 0..all.len() {
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = start + 1;
            match all[at].backup {
                Some(next) => at = next.index(),
                None => break,
            }
        }
        if seen[at] == start + 1 && all[at].backup.is_some() {
            report_loop(notes, file, all, at);
        }
    }
}

fn report_loop(notes: &Notes<'_>, file: &File, all: &[Vserver], member: usize) {
    let next = |i: usize| all[i].backup.map(VserverId::index);
    let round: Vec<usize> =
        std::iter::successors(Some(member), |i| next(*i).filter(|n| *n != member)).collect();
    let first = round.iter().enumerate().min_by_key(|(_, i)| **i).map_or(0, |(position, _)| position);
    let names = round.iter().cycle().skip(first).take(round.len() + 1).map(|i| all[*i].name.as_str());
    let text = format!("vserver {}: backup chain is a loop", chain(names));
    notes.problem(file.vservers[round[first]].head.at, text);
}
