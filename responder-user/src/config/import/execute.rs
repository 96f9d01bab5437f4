//! What a command does to the objects. A command that is refused changes nothing.

use super::{
    kind::{Kind, Op},
    objects::{Bound, Object, Store, Values, fold},
    parse::{Command, Mode, Tied},
    read, refer,
    table::{self, Binding, Spec},
};

/// What became of a command.
pub(super) enum Done {
    /// It changed what it says.
    Changed,
    /// It asks for something to be printed.
    Show,
    /// It is about something without meaning here.
    Notice(String),
}

/// Runs a command on the objects. The error is the reason.
pub(super) fn execute(store: &mut Store, mode: Mode, command: &Command, line: usize) -> Result<Done, String> {
    let (Some(op), Some(kind)) = (command.op, command.kind) else { return Ok(Done::Changed) };
    let spec = table::spec_of(kind);
    match op {
        Op::Show | Op::Stat => return Ok(Done::Show),
        Op::Clear => {
            for kind in [Kind::Location, Kind::LocationFile, Kind::LocationFile6] {
                store.clear(kind);
            }
            return Ok(Done::Changed);
        }
        _ => {}
    }
    for parts in &command.names {
        let name = parts.join(" ");
        let said = match op {
            Op::Add => add(store, mode, spec, command, parts, line),
            Op::Rm => rm(store, spec, parts),
            Op::Rename => rename(store, spec, &name, command),
            Op::Enable | Op::Disable => switch(store, spec, &name, op == Op::Enable),
            _ => change(store, mode, spec, command, &name, line),
        }?;
        if let Done::Notice(text) = said {
            return Ok(Done::Notice(text));
        }
    }
    Ok(Done::Changed)
}

/// `No such resource [gslb vserver x]`
pub(super) fn missing(spec: &Spec, name: &str) -> String {
    format!("No such resource [{}{}{name}]", spec.words, if name.is_empty() { "" } else { " " })
}

fn add(
    store: &mut Store,
    mode: Mode,
    spec: &'static Spec,
    command: &Command,
    parts: &[String],
    line: usize,
) -> Result<Done, String> {
    let name = parts.join(" ");
    if let Some(earlier) = store.get(spec.kind, &name).filter(|_| mode != Mode::Kept) {
        // A second location file takes the place of the first.
        if spec.ids > 0 {
            let place = if earlier.line > 0 {
                format!("; it was added in line {}", earlier.line)
            } else {
                String::new()
            };
            return Err(format!("Resource already exists [{} {name}]{place}", spec.words));
        }
        store.remove(spec.kind, &name);
    }
    check_add(spec, command, parts)?;
    if let Some(owner) = parts.first().filter(|_| spec.is_record())
        && let Some(zone) = store.foreign_zones.iter().find(|zone| is_under(owner, zone))
    {
        return Err(format!("the zone {zone} has a master file of its own; put the record there and reload"));
    }
    let object = store.entry(spec.kind, &name);
    object.line = line;
    if spec.ids > 1 {
        for (arg, part) in spec.positionals.iter().zip(parts) {
            object.values.insert(arg.key, vec![part.clone()]);
        }
        if spec.kind == Kind::TxtRec {
            object.values.insert("String", parts[1..].to_vec());
        }
    }
    merge(spec, object, &command.values);
    object.lines.extend(command.values.keys().map(|key| (*key, line)));
    desugar(store, spec, &name);
    if spec.kind == Kind::Adns {
        rename_listener(store, &name);
    }
    Ok(Done::Changed)
}

/// A listener that no command had named has a name now.
fn rename_listener(store: &mut Store, name: &str) {
    let Some(new) = store.get(Kind::Adns, name) else { return };
    let made = read::listener_name(new);
    if fold(&made) != fold(name) && store.get(Kind::Adns, &made).is_some_and(|old| old.name == made) {
        store.remove(Kind::Adns, &made);
    }
}

fn is_under(owner: &str, zone: &str) -> bool {
    let (owner, zone) = (fold(owner), fold(zone));
    let (owner, zone) = (owner.trim_end_matches('.'), zone.trim_end_matches('.'));
    owner == zone || owner.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'))
}

/// What `add` alone asks for.
fn check_add(spec: &Spec, command: &Command, parts: &[String]) -> Result<(), String> {
    let has = |key: &str| command.values.contains_key(key);
    let need = |keys: &[&str]| match keys.iter().find(|key| !has(key)) {
        Some(key) => Err(format!("argument is missing [{key}]")),
        None => Ok(()),
    };
    match spec.kind {
        Kind::Service if has("cnameEntry") => {
            match ["IPAddress", "serviceType", "port"].into_iter().find(|key| has(key)) {
                Some(key) => Err(format!("cnameEntry excludes {key}")),
                None => Ok(()),
            }
        }
        // A NAPTR service may lack an address.
        Kind::Service if has("naptrReplacement") && !has("IPAddress") => Ok(()),
        Kind::Service => need(&["IPAddress", "serviceType", "port", "siteName"]),
        Kind::LocationFile | Kind::LocationFile6 => need(&["Locationfile"]),
        Kind::CnameRec => need(&["canonicalName"]),
        Kind::SoaRec => need(&["originServer", "contact"]),
        Kind::MxRec => need(&["pref"]),
        Kind::SrvRec => need(&["priority", "weight", "port"]),
        Kind::Location => {
            need(&["preferredLocation"])?;
            if has("latitude") && !has("longitude") {
                return Err("latitude needs longitude beside it".to_owned());
            }
            let address = |i: usize| parts.get(i).and_then(|a| a.parse::<std::net::IpAddr>().ok());
            match (address(0), address(1)) {
                (Some(from), Some(to)) if from.is_ipv4() != to.is_ipv4() => {
                    Err("IPfrom and IPto are of different families".to_owned())
                }
                (Some(from), Some(to)) if from > to => Err(format!("IPfrom above IPto: {from} > {to}")),
                _ => Ok(()),
            }
        }
        Kind::ARec | Kind::AaaaRec => match parts.get(1).and_then(|a| a.parse::<std::net::IpAddr>().ok()) {
            Some(address) if address.is_ipv4() != (spec.kind == Kind::ARec) => {
                Err(format!("{address} is of the wrong family for {}", spec.words))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

impl Spec {
    /// True for DNS records.
    pub(super) fn is_record(&self) -> bool {
        (Kind::SoaRec..=Kind::PtrRec).contains(&self.kind)
    }
}

/// Puts values in; what equals its default goes.
pub(super) fn merge(spec: &Spec, object: &mut Object, values: &Values) {
    for (key, list) in values {
        object.values.insert(key, list.clone());
    }
    object.values.retain(|key, list| {
        let default = spec.arg(key).and_then(|arg| arg.default);
        default != Some(list.join(" ").as_str())
    });
    match spec.kind {
        Kind::Vserver if object.given("ipType") == Some("IPV6") => {
            object.values.remove("ipType");
            object.values.entry("dnsRecordType").or_insert_with(|| vec!["AAAA".to_owned()]);
        }
        Kind::Service => {
            // Equal to what stands for them when they are not given.
            if object.given("publicIP").is_some() && object.given("publicIP") == object.given("IPAddress") {
                object.values.remove("publicIP");
            }
            let port = object.given("port").unwrap_or_default().to_owned();
            if object.given("publicPort") == Some(port.as_str()) || object.given("publicPort") == Some("0") {
                object.values.remove("publicPort");
            }
        }
        _ => {}
    }
}

/// A policy of older releases has its action in it (spec/netscaler.md 2.1).
fn desugar(store: &mut Store, spec: &Spec, name: &str) {
    if spec.kind != Kind::DnsPolicy {
        return;
    }
    let Some(policy) = store.get(Kind::DnsPolicy, name) else { return };
    let (mut values, policy_name, line) = (Values::new(), policy.name.clone(), policy.line);
    let list =
        policy.values.get("preferredLocList").or_else(|| policy.values.get("preferredLocation")).cloned();
    let kind = if let Some(list) = list {
        values.insert("preferredLocList", list);
        "GslbPrefLoc"
    } else if let Some(view) = policy.values.get("viewName").cloned() {
        values.insert("viewName", view);
        "ViewName"
    } else if policy.given("drop") == Some("YES") {
        "Drop"
    } else if policy.given("cacheBypass") == Some("YES") {
        "Cache_Bypass"
    } else {
        return;
    };
    values.insert("actionType", vec![kind.to_owned()]);
    let action = store.entry(Kind::DnsAction, &policy_name);
    (action.values, action.line) = (values, line);
    if let Some(policy) = store.get_mut(Kind::DnsPolicy, name) {
        for key in ["viewName", "preferredLocation", "preferredLocList", "drop", "cacheBypass"] {
            policy.values.remove(key);
        }
        policy.values.insert("actionName", vec![policy_name]);
    }
}

fn rm(store: &mut Store, spec: &Spec, parts: &[String]) -> Result<Done, String> {
    let name = parts.join(" ");
    if spec.ids > 1 && parts.len() == 1 && spec.is_record() {
        let prefix = format!("{name} ");
        let all: Vec<String> = store
            .all(spec.kind)
            .map(|object| object.name.clone())
            .filter(|full| fold(full).starts_with(&fold(&prefix)))
            .collect();
        if all.is_empty() {
            return Err(missing(spec, &name));
        }
        for full in all {
            store.remove(spec.kind, &full);
        }
        return Ok(Done::Changed);
    }
    if store.get(spec.kind, &name).is_none() {
        if spec.kind == Kind::Adns {
            return Ok(Done::Notice("rm service has no meaning here".to_owned()));
        }
        return Err(missing(spec, &name));
    }
    match spec.kind {
        Kind::Site => {
            let at = fold(&name);
            let services: Vec<String> = store
                .all(Kind::Service)
                .filter(|service| service.given("siteName").is_some_and(|site| fold(site) == at))
                .map(|service| service.name.clone())
                .collect();
            for service in services {
                untie_service(store, &service);
                store.remove(Kind::Service, &service);
            }
        }
        Kind::Service => untie_service(store, &name),
        Kind::Vserver => {
            let at = fold(&name);
            for other in store.all_mut(Kind::Vserver) {
                if other.given("backupVServer").is_some_and(|backup| fold(backup) == at) {
                    other.values.remove("backupVServer");
                }
            }
        }
        kind => {
            if let Some(user) = refer::user_of(store, kind, &name) {
                return Err(format!("{} {name} is in use by {user}", spec.words));
            }
        }
    }
    store.remove(spec.kind, &name);
    Ok(Done::Changed)
}

fn untie_service(store: &mut Store, service: &str) {
    let at = fold(service);
    for vserver in store.all_mut(Kind::Vserver) {
        vserver.bound.retain(|bound| bound.what != "serviceName" || fold(&bound.name) != at);
    }
}

fn rename(store: &mut Store, spec: &Spec, name: &str, command: &Command) -> Result<Done, String> {
    let new = command.values.get("newName").and_then(|list| list.first()).cloned().unwrap_or_default();
    if store.get(spec.kind, name).is_none() {
        return Err(missing(spec, name));
    }
    if fold(&new) != fold(name) && store.get(spec.kind, &new).is_some() {
        return Err(format!("Resource already exists [{} {new}]", spec.words));
    }
    store.rename(spec.kind, name, &new);
    refer::rename(store, spec.kind, name, &new);
    Ok(Done::Changed)
}

fn switch(store: &mut Store, spec: &Spec, name: &str, to: bool) -> Result<Done, String> {
    if spec.arg("state").is_none() {
        return Err(format!("{} cannot be enabled or disabled", spec.words));
    }
    let Some(object) = store.get_mut(spec.kind, name) else { return Err(missing(spec, name)) };
    if to {
        object.values.remove("state");
    } else {
        object.values.insert("state", vec!["DISABLED".to_owned()]);
    }
    Ok(Done::Changed)
}

/// set, unset, bind and unbind.
fn change(
    store: &mut Store,
    mode: Mode,
    spec: &'static Spec,
    command: &Command,
    name: &str,
    line: usize,
) -> Result<Done, String> {
    // Of a record the owner alone names all that it says.
    if spec.ids > 1 && command.names.first().is_some_and(|parts| parts.len() == 1) {
        let prefix = format!("{} ", fold(name));
        let all: Vec<String> = store
            .all(spec.kind)
            .map(|o| o.name.clone())
            .filter(|full| fold(full).starts_with(&prefix))
            .collect();
        if all.is_empty() {
            return Err(missing(spec, name));
        }
        for full in all {
            if let Some(object) = store.get_mut(spec.kind, &full) {
                alter(spec, object, command, line);
            }
        }
        return Ok(Done::Changed);
    }
    if let Some(tied) = &command.tied
        && let Some(text) = meaningless(store, spec, tied)?
    {
        return Ok(Done::Notice(text));
    }
    let is_there = store.get(spec.kind, name).is_some();
    if !is_there && spec.ids > 0 {
        return Err(missing(spec, name));
    }
    if let Some(tied) = &command.tied {
        let binding =
            spec.bindings.iter().find(|b| b.what.key == tied.what).ok_or_else(|| missing(spec, name))?;
        if command.op == Some(Op::Bind) {
            check_priority(store, spec, binding, tied, name, mode)?;
        }
        let object = store.entry(spec.kind, name);
        match command.op {
            Some(Op::Unbind) => untie(object, binding, tied)?,
            op => tie(
                object,
                spec,
                binding,
                tied,
                op == Some(Op::Set) && mode != Mode::Kept && tied.what != "viewName",
                line,
            )?,
        }
    }
    let object = store.entry(spec.kind, name);
    alter(spec, object, command, line);
    if spec.ids == 0 && object.values.is_empty() && object.bound.is_empty() {
        store.remove(spec.kind, name);
    }
    desugar(store, spec, name);
    Ok(Done::Changed)
}

fn alter(spec: &Spec, object: &mut Object, command: &Command, line: usize) {
    merge(spec, object, &command.values);
    object.lines.extend(command.values.keys().map(|key| (*key, line)));
    for key in &command.unset {
        object.values.remove(key);
        object.lines.insert(key, line);
    }
}

/// A binding that has no meaning here.
fn meaningless(store: &Store, spec: &Spec, tied: &Tied) -> Result<Option<String>, String> {
    if tied.what == "serviceGroupName" {
        return Err("gslb serviceGroup is not supported; bind each member as a gslb service".to_owned());
    }
    let is_foreign = tied.what == "policyName"
        && store.get(Kind::DnsPolicy, &tied.name).is_none()
        && store.foreign_policies.contains(&fold(&tied.name));
    Ok(is_foreign
        .then(|| format!("{} is no DNS policy: binding it to {} has no meaning here", tied.name, spec.words)))
}

/// Two policies may not share a priority at one bind point (spec/netscaler.md 2.3).
fn check_priority(
    store: &Store,
    spec: &Spec,
    binding: &Binding,
    tied: &Tied,
    name: &str,
    mode: Mode,
) -> Result<(), String> {
    let (Some(object), Some(priority)) = (store.get(spec.kind, name), tied.values.get("priority")) else {
        return Ok(());
    };
    let point = point(binding, &tied.values);
    let other = object.bound_of(tied.what).find(|bound| {
        bound.values.get("priority") == Some(priority)
            && fold(&bound.name) != fold(&tied.name)
            && self::point(binding, &bound.values) == point
    });
    match other.filter(|_| mode != Mode::Kept) {
        Some(bound) => Err(format!("priority {} is taken by {}", priority.join(" "), bound.name)),
        None => Ok(()),
    }
}

/// The bind point inside an object: `-type`, its default counted.
fn point<'v>(binding: &Binding, values: &'v Values) -> Option<&'v str> {
    let default = binding.arg("type").and_then(|arg| arg.default);
    values.get("type").and_then(|list| list.first()).map(String::as_str).or(default)
}

fn is_same(binding: &Binding, bound: &Bound, tied: &Tied) -> bool {
    bound.what == tied.what
        && fold(bound.name.trim_end_matches('.')) == fold(tied.name.trim_end_matches('.'))
        && point(binding, &bound.values) == point(binding, &tied.values)
}

fn tie(
    object: &mut Object,
    spec: &Spec,
    binding: &'static Binding,
    tied: &Tied,
    must_be_there: bool,
    line: usize,
) -> Result<(), String> {
    let at = object.bound.iter().position(|bound| is_same(binding, bound, tied));
    if at.is_none() && must_be_there {
        return Err(format!("{} {} is not bound to {} {}", tied.what, tied.name, spec.words, object.name));
    }
    let at = at.unwrap_or_else(|| {
        object.bound.push(Bound { what: tied.what, name: tied.name.clone(), values: Values::new(), line });
        object.bound.len() - 1
    });
    let highest = object.bound_of("policyName").filter_map(|b| b.number("priority")).max().unwrap_or(0);
    let bound = &mut object.bound[at];
    bound.line = line;
    for (key, list) in &tied.values {
        bound.values.insert(key, list.clone());
    }
    bound.values.retain(|key, list| {
        let default = binding.arg(key).and_then(|arg| arg.default);
        default != Some(list.join(" ").as_str())
    });
    if bound.what == "policyName" && !bound.values.contains_key("priority") {
        bound.values.insert("priority", vec![(highest / 10 * 10 + 10).to_string()]);
    }
    sort(spec, object);
    Ok(())
}

/// One order for what is tied: by kind, and policies by bind point and priority.
pub(super) fn sort(spec: &Spec, object: &mut Object) {
    let rank = |bound: &Bound| {
        let binding = spec.bindings.iter().position(|b| b.what.key == bound.what);
        let point = bound.given("type").unwrap_or_default().to_owned();
        let priority = if bound.what == "policyName" { bound.number("priority").unwrap_or(0) } else { 0 };
        (binding, point, priority)
    };
    object.bound.sort_by_key(rank);
}

fn untie(object: &mut Object, binding: &Binding, tied: &Tied) -> Result<(), String> {
    let Some(at) = object.bound.iter().position(|bound| is_same(binding, bound, tied)) else {
        return Err(format!("{} {} is not bound", tied.what, tied.name));
    };
    if tied.unset.is_empty() {
        object.bound.remove(at);
    }
    for key in &tied.unset {
        object.bound[at].values.remove(key);
    }
    Ok(())
}
