//! `show domain [NAME | *.NAME]`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::bounded;
use crate::{
    control::{Refusal, View, command::ShowKind},
    model::{DnsName, Domain},
};

/// A name, all names below one, or all names.
pub(super) fn show(view: &View<'_>, name: Option<&str>) -> Result<Value, Refusal> {
    let Some(text) = name else { return list(view, |_| true) };
    let parse = |text: &str| DnsName::parse(text).map_err(|e| Refusal::new(e.to_string()));
    let found = view.names.find(view.model, &parse(text)?);
    if let Some(first) = found.first() {
        let bindings: Vec<&Domain> = found.iter().map(|i| &view.model.domains[*i]).collect();
        return Ok(value(view, &view.model.domains[*first].name, &bindings));
    }
    match text.strip_prefix("*.").map(parse) {
        Some(above) => above.and_then(|above| list(view, |d| d.name.is_under(&above) && d.name != above)),
        None => Err(Refusal::new(format!(
            "no domain \"{text}\"; `responderctl explain {text} A` says what is answered for it"
        ))),
    }
}

fn list(view: &View<'_>, wanted: impl Fn(&Domain) -> bool) -> Result<Value, Refusal> {
    let mut names: BTreeMap<&DnsName, Vec<&Domain>> = BTreeMap::new();
    let mut count = 0;
    for domain in view.model.domains.iter().filter(|d| wanted(d)) {
        count += 1;
        if count <= super::LIST_LIMIT {
            names.entry(&domain.name).or_default().push(domain);
        }
    }
    bounded(ShowKind::Domain, count)?;
    Ok(names.into_iter().map(|(name, bindings)| value(view, name, &bindings)).collect())
}

fn value(view: &View<'_>, name: &DnsName, bindings: &[&Domain]) -> Value {
    let bindings = bindings.iter().map(|domain| {
        let vserver = view.model.vserver(domain.vserver);
        json!({
            "vserver": vserver.name,
            "types": vserver.types.iter().map(|t| t.name()).collect::<Vec<_>>(),
            "ttl": domain.ttl,
            "backup_ip": *domain.backup_ip,
        })
    });
    json!({
        "name": name.to_string(),
        "zone": view.model.zone_of(name).map(|z| z.apex.to_string()),
        "bindings": bindings.collect::<Vec<_>>(),
    })
}
