//! What has a configuration and no state: `show lb monitor`, `show dns aRec`, `show gslb parameter`.

use serde_json::{Map, Value, json};

use super::no_such;
use crate::{
    config::import::{Bound, Kind, Object, Store, Values},
    control::Refusal,
};

/// NITRO's name of a kind: `lbmonitor`.
pub(super) fn key(kind: Kind) -> String {
    kind.words().replace(' ', "").to_ascii_lowercase()
}

/// One or all.
pub(super) fn show(store: &Store, kind: Kind, name: Option<&str>) -> Result<Vec<Value>, Refusal> {
    let Some(name) = name else { return Ok(store.all(kind).map(row).collect()) };
    store.get(kind, name).map(|object| vec![row(object)]).ok_or_else(|| no_such("name", name))
}

fn row(object: &Object) -> Value {
    let mut out = Map::new();
    if !object.name.is_empty() {
        out.insert("name".to_owned(), json!(object.name));
    }
    out.extend(fields(&object.values));
    if !object.bound.is_empty() {
        out.insert("bound".to_owned(), object.bound.iter().map(bound).collect());
    }
    Value::Object(out)
}

fn bound(bound: &Bound) -> Value {
    let mut out = Map::from_iter([(bound.what.to_ascii_lowercase(), json!(bound.name))]);
    out.extend(fields(&bound.values));
    Value::Object(out)
}

fn fields(values: &Values) -> impl Iterator<Item = (String, Value)> {
    values.iter().map(|(key, list)| {
        let value = if let [one] = list.as_slice() { json!(one) } else { json!(list) };
        (key.to_ascii_lowercase(), value)
    })
}
