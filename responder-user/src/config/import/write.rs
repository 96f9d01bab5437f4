//! Objects as commands: a whole configuration as a saved ns.conf, and the commands that lead from one to another.

use super::{
    kind::Kind,
    lexer,
    objects::{Bound, Object, Store, Values, fold},
    table::{self, Binding, Spec},
};

/// A whole configuration, in an order in which an appliance can run it.
pub(super) fn export(store: &Store) -> Vec<String> {
    let (mut adds, mut later, mut binds) = (Vec::new(), Vec::new(), Vec::new());
    for spec in table::specs() {
        for object in store.all(spec.kind) {
            let mut plain = object.clone();
            // The backup may be added behind its primary.
            if let Some(backup) = plain.values.remove("backupVServer").filter(|_| spec.kind == Kind::Vserver)
            {
                later.push(format!(
                    "set {} {} -backupVServer {}",
                    spec.words,
                    lexer::write(&object.name),
                    words(&backup)
                ));
            }
            if spec.kind == Kind::LbVserver {
                plain.values.clone_from(&object.values);
            }
            adds.extend(whole(spec, &plain));
            binds.extend(object.bound.iter().map(|bound| bind(spec, object, bound)));
        }
    }
    adds.into_iter().chain(later).chain(binds).collect()
}

fn words(list: &[String]) -> String {
    list.iter().map(|value| lexer::write(value)).collect::<Vec<_>>().join(" ")
}

/// The command that makes an object; None where objects are always there and this one says nothing.
fn whole(spec: &Spec, object: &Object) -> Option<String> {
    let is_added = spec.ids > 0 || spec.ops.contains(&super::Op::Add);
    if !is_added && object.values.is_empty() {
        return None;
    }
    let mut line = format!("{} {}", if is_added { "add" } else { "set" }, spec.words);
    let mut said: Vec<&str> = Vec::new();
    for (i, arg) in spec.positionals.iter().enumerate() {
        said.push(arg.key);
        if i == 0 && spec.ids == 1 {
            line = format!("{line} {}", lexer::write(&object.name));
            continue;
        }
        let list = object.all(arg.key);
        if list.is_empty() {
            continue;
        }
        if arg.key == "mx" {
            line += " -mx";
        }
        // An appliance knows one address of a service.
        let list = if spec.kind == Kind::Service { &list[..1] } else { list };
        line = format!("{line} {}", words(list));
    }
    let filled = filled(spec, object);
    let object = filled.as_ref().unwrap_or(object);
    let rest: Vec<&str> = object.values.keys().filter(|key| !said.contains(key)).copied().collect();
    Some(
        line + &options(
            spec.options.iter().map(|arg| arg.key).filter(|key| rest.contains(key)),
            &object.values,
        ),
    )
}

/// A zone of ours may leave to its defaults what `add dns soaRec` asks for.
fn filled(spec: &Spec, object: &Object) -> Option<Object> {
    if spec.kind != Kind::SoaRec {
        return None;
    }
    let defaults = crate::model::zone::Soa::default_for(&crate::model::DnsName::parse(&object.name).ok()?);
    let mut filled = object.clone();
    filled.values.entry("originServer").or_insert_with(|| vec![defaults.mname.to_string()]);
    filled.values.entry("contact").or_insert_with(|| vec![defaults.rname.to_string()]);
    Some(filled)
}

fn options<'k>(keys: impl Iterator<Item = &'k str>, values: &Values) -> String {
    let mut out = String::new();
    for key in keys {
        if let Some(list) = values.get(key) {
            out.extend([" -", key, if list.is_empty() { "" } else { " " }, &words(list)]);
        }
    }
    out
}

/// `gslb vserver v`
fn subject(spec: &Spec, object: &Object) -> String {
    match spec.ids {
        0 => spec.words.to_owned(),
        1 => format!("{} {}", spec.words, lexer::write(&object.name)),
        _ => {
            let ids = spec.positionals[..spec.ids].iter().map(|arg| words(object.all(arg.key)));
            format!("{} {}", spec.words, ids.collect::<Vec<_>>().join(" "))
        }
    }
}

fn tied(binding: &Binding, bound: &Bound) -> String {
    let dash = if binding.is_positional { "" } else { "-" };
    let key = if binding.is_positional { String::new() } else { format!("{} ", binding.what.key) };
    format!("{dash}{key}{}", lexer::write(&bound.name))
}

fn binding_of(spec: &'static Spec, bound: &Bound) -> Option<&'static Binding> {
    spec.bindings.iter().find(|binding| binding.what.key == bound.what)
}

fn bind(spec: &'static Spec, object: &Object, bound: &Bound) -> String {
    let Some(binding) = binding_of(spec, bound) else { return String::new() };
    let mut line = format!("bind {} {}", subject(spec, object), tied(binding, bound));
    for arg in binding.positionals {
        if let Some(list) = bound.values.get(arg.key) {
            line = format!("{line} {}", words(list));
        }
    }
    let is_positional = |key: &str| binding.positionals.iter().any(|arg| arg.key == key);
    let keys = binding.options.iter().map(|arg| arg.key).filter(|key| !is_positional(key));
    line + &options(keys, &bound.values)
}

fn unbind(spec: &'static Spec, object: &Object, bound: &Bound) -> String {
    let Some(binding) = binding_of(spec, bound) else { return String::new() };
    let point = bound.given("type").map_or_else(String::new, |point| format!(" -type {point}"));
    format!("unbind {} {}{point}", subject(spec, object), tied(binding, bound))
}

/// The commands that make `to` of `from`.
pub(super) fn between(from: &Store, to: &Store) -> Vec<String> {
    let (mut adds, mut binds, mut rms) = (Vec::new(), Vec::new(), Vec::new());
    for spec in table::specs() {
        for object in to.all(spec.kind) {
            let Some(earlier) = from.get(spec.kind, &object.name) else {
                adds.extend(whole(spec, object));
                binds.extend(object.bound.iter().map(|bound| bind(spec, object, bound)));
                continue;
            };
            adds.extend(changes(spec, earlier, object));
            for bound in &earlier.bound {
                if !object.bound.iter().any(|other| is_same(bound, other)) {
                    binds.push(unbind(spec, object, bound));
                }
            }
            for bound in &object.bound {
                match earlier.bound.iter().find(|other| is_same(bound, other)) {
                    Some(other) if other.values == bound.values => {}
                    Some(other) => {
                        if other.values.keys().any(|key| !bound.values.contains_key(key)) {
                            binds.push(unbind(spec, object, other));
                        }
                        binds.push(bind(spec, object, bound));
                    }
                    None => binds.push(bind(spec, object, bound)),
                }
            }
        }
        for object in from.all(spec.kind) {
            if to.get(spec.kind, &object.name).is_some() {
                continue;
            }
            if spec.ops.contains(&super::Op::Rm) {
                rms.push(format!("rm {}", subject(spec, object)));
            } else {
                rms.extend(object.values.keys().map(|key| format!("unset {} -{key}", spec.words)));
                rms.extend(object.bound.iter().map(|bound| unbind(spec, object, bound)));
            }
        }
    }
    adds.into_iter().chain(binds).chain(rms).collect()
}

fn is_same(a: &Bound, b: &Bound) -> bool {
    a.what == b.what && fold(&a.name) == fold(&b.name) && a.given("type") == b.given("type")
}

/// `set` and `unset` of one object, or `add` where only that can say it.
fn changes(spec: &'static Spec, from: &Object, to: &Object) -> Vec<String> {
    let differs = |key: &&'static str| from.values.get(key) != to.values.get(key);
    let set: Vec<&'static str> = to.values.keys().copied().filter(differs).collect();
    let gone: Vec<&'static str> =
        from.values.keys().copied().filter(|key| !to.values.contains_key(key)).collect();
    let mut out = Vec::new();
    let takes = |key: &&str| spec.options.iter().any(|arg| arg.key == *key);
    if !set.iter().all(takes) || (!set.is_empty() && !spec.ops.contains(&super::Op::Set)) {
        out.extend(whole(spec, to));
    } else if !set.is_empty() {
        let keys = spec.options.iter().map(|arg| arg.key).filter(|key| set.contains(key));
        out.push(format!("set {}{}", subject(spec, to), options(keys, &to.values)));
    }
    if !gone.is_empty() {
        let keys: String = gone.iter().flat_map(|key| [" -", key]).collect();
        out.push(format!("unset {}{keys}", subject(spec, to)));
    }
    out
}
