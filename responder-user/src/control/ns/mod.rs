//! Commands of NetScaler against a running daemon: `ns 'show gslb vserver www'`.
//!
//! | file | what |
//! |---|---|
//! | [`command`] | from a command that looks to a [`Wanted`] |
//! | [`word`] | NetScaler's words for methods, states, bind points |
//! | [`time`] | times as its show commands print them |
//! | [`vserver`], [`service`], [`domain`], [`dns`], [`location`] | what `show` and `stat` say |
//! | [`plain`] | what has no state, as it is configured |
//!
//! # Answers
//!
//! An answer has the shape of NITRO: `errorcode` 0, `message` "Done", `severity`, `warnings` where there are some, and
//! after `show` and `stat` one key with a list of objects (`gslbvserver`, `gslbservice`, …) whose keys are NITRO's.
//! Bindings stand inside the object that was asked for by name, under NITRO's name of the binding. Keys that NITRO lacks:
//!
//! | key | what |
//! |---|---|
//! | `effectivestate`, `threshold` | of a virtual server, as of its services |
//! | `latched` | disablePrimaryOnDown holds it back |
//! | `spilled`, `spillstate` | over its spillover threshold, and the figures |
//! | `currentmethod`, `currentmethodreason`, `preferredlocationtier` | how a client that no policy means is answered |
//! | `location` | of a service: where it is (`preferredlocation` says the same, as NITRO has it) |
//! | `dnsrecordtypes`, `ipaddresses` | where there is more than the one that NITRO has room for |
//!
//! What nothing counts is null: hits are counted by verdict, type and zone, not by virtual server or name.

pub mod command;
pub mod dns;
pub mod domain;
pub mod location;
pub mod plain;
pub mod service;
pub mod time;
pub mod vserver;
pub mod word;

use serde_json::{Map, Value, json};

pub use command::{Object, Wanted, Whole, whole};

use super::{Refusal, View};
use crate::config::import::Store;

/// The answer to `show` and `stat`. `store`: the objects of the configuration, if [`Wanted::needs_objects`].
pub fn look(view: &View<'_>, store: &Store, wanted: &Wanted, warnings: &[String]) -> Result<Value, Refusal> {
    let Wanted { object, name } = wanted;
    let name = name.as_deref();
    let (key, rows) = match object {
        Object::Plain(kind) => {
            let rows = plain::show(store, *kind, name)?;
            return Ok(done(Some((&plain::key(*kind), rows)), warnings));
        }
        Object::GslbVserver => ("gslbvserver", vserver::show(view, name)?),
        Object::GslbVserverStat => ("gslbvserver", vserver::stat(view, name)?),
        Object::GslbService => ("gslbservice", service::show(view, name)?),
        Object::GslbServiceStat => ("gslbservice", service::stat(view, name)?),
        Object::GslbDomain => ("gslbdomain", domain::show(view, name)?),
        Object::GslbDomainStat => ("gslbdomain", domain::stat(view, name)?),
        Object::GslbSite => ("gslbsite", domain::sites(view, store, name)?),
        Object::Location => ("location", location::show(view, name)?),
        Object::LocationParameter => ("locationparameter", vec![location::parameter(view)]),
        Object::LocationFile => ("locationfile", location::files(view)),
        Object::DnsPolicy => ("dnspolicy", dns::policies(view, store, name)?),
        Object::DnsAction => ("dnsaction", dns::actions(view, name)?),
        Object::DnsGlobal => ("dnsglobal", dns::global(view)),
        Object::DnsView => ("dnsview", dns::views(view, name)?),
        Object::LbVserver => ("lbvserver", vserver::show_lb(view, store, name)?),
    };
    Ok(done(Some((key, rows)), warnings))
}

/// NITRO's frame around what a command returns.
pub fn done(found: Option<(&str, Vec<Value>)>, warnings: &[String]) -> Value {
    let mut out = Map::new();
    out.insert("errorcode".to_owned(), json!(0));
    out.insert("message".to_owned(), json!("Done"));
    out.insert("severity".to_owned(), json!(if warnings.is_empty() { "NONE" } else { "WARNING" }));
    if !warnings.is_empty() {
        out.insert("warnings".to_owned(), json!(warnings));
    }
    if let Some((key, rows)) = found {
        out.insert(key.to_owned(), Value::Array(rows));
    }
    Value::Object(out)
}

/// What NetScaler says of a name that does not exist.
pub fn no_such(argument: &str, name: &str) -> Refusal {
    Refusal::new(format!("No such resource [{argument}, {name}]"))
}

/// Names have no case (spec/netscaler.md 6.1).
fn find<'a>(names: impl Iterator<Item = &'a str>, argument: &str, wanted: &str) -> Result<usize, Refusal> {
    let mut folded = None;
    for (i, name) in names.enumerate() {
        if name == wanted {
            return Ok(i);
        }
        if folded.is_none() && name.eq_ignore_ascii_case(wanted) {
            folded = Some(i);
        }
    }
    folded.ok_or_else(|| no_such(argument, wanted))
}

/// One object for a name, all without.
fn some_or_all(
    count: usize,
    found: Option<Result<usize, Refusal>>,
    row: impl Fn(usize, bool) -> Value,
) -> Result<Vec<Value>, Refusal> {
    match found {
        Some(found) => found.map(|i| vec![row(i, true)]),
        None if count > super::show::LIST_LIMIT => {
            let most = super::show::LIST_LIMIT;
            Err(Refusal::new(format!("{count} objects are more than one list holds ({most}); name one")))
        }
        None => Ok((0..count).map(|i| row(i, false)).collect()),
    }
}
