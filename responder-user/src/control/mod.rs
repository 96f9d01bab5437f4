//! What operators type and see: the control socket, and pure functions that put the state of the daemon into words.
//!
//! One engine owns the state. It receives a [`server::Request`] for every command, answers those that change
//! something itself, and the others with the functions of this module over a [`View`].
//!
//! | file | what |
//! |---|---|
//! | [`command`] | the commands, as JSON lines on the socket |
//! | [`events`] | what happened, numbered, for `events` and its followers |
//! | [`capture`] | single packets of the packet path |
//! | [`rate`] | queries per second |
//! | [`index`] | finds the bindings of a name among a million |
//! | [`target`] | from the name that an operator typed to the object |
//! | [`edit`] | `set`, `add`, `rm`, `diff` on the document of the configuration |
//! | [`told`] | load figures and states that are pushed |
//! | [`view`] | everything that can be shown, borrowed; `status` and `stats` |
//! | [`show`] | `show KIND [NAME]` |
//! | [`ns`] | commands of NetScaler |
//! | [`explain`] | `explain NAME TYPE` |
//! | [`server`] | the socket of the daemon |
//! | [`client`], [`cli`], [`render`] | `responderctl` |
//!
//! # Keys
//!
//! Keys are added, never renamed; what is not known or not set is null. `show` returns an object for a name and a
//! list without.
//!
//! | command | keys |
//! |---|---|
//! | `status` | version, generation, ready, uptime_seconds, interfaces [{name, mode, link}], queries {xdp, worker, dropped}, rates (the same, per second), services {total, up, down, undecided, disabled}, vservers {the same}, domains, journal {path, records, bytes, error}, problems |
//! | `show service` | name, admin, primary, effective, threshold, behind, cookie_redirect, load, max_connections, max_bandwidth, usable, reason, monitors [{name, address, state, enabled, forced, last, error, seconds_ago, consecutive}], addresses [{address, state}], port, cname, views, location, site, forced, vservers, last_change |
//! | `show vserver` | name, service_type, admin, primary, effective, threshold, types, method, backup_method, current_method, reason, reason_code, services_total, services_active, health, domains, backup, multiple_ip_response, empty_down_response, disable_primary_on_down, latched, spillover {method, threshold, persistence, timeout, action, redirect, over, level}, persistence {type, mask, mask6, timeout, id}, skip_persistency, effective_state, dynamic_weight, last_change; for a name also services, answers, classes_left_out |
//! | `show domain` | name, zone, bindings [{vserver, types, ttl, backup_ip}] |
//! | `show monitor` | name, type, http, enabled, runs, interval, timeout, rise, fall, port, up, down, undecided, checks |
//! | `show location` | first, last, location, longitude, latitude |
//! | `show policy` | name, priority, rule, action, bind, goto, invoke |
//! | `show action` | name, kind, effective, view, addresses, ttl, preferred_locations, policies |
//! | `explain` | name, type, client, class, source, source_reason, policy, owner, link, tier, method, reason, rcode, give, outcome, addresses, records, view, ttl, generation, steps [{step, outcome, reason}]; with `-v` wire {query, reply} |
//! | `enable`, `disable`, `force`, `load`, `report`, `set`, `add`, `rm`, `save`, `reload` | message, changed, generation, warnings |
//! | `diff` | file, changed_on_disk, differences [{object, field, file, running}]; field null: the whole object |
//! | `check` | file, errors, warnings |
//! | `ns` | as NITRO: errorcode, message, severity, warnings, and a list under the name of the resource; see [`ns`] |
//! | `events` | a list of {id, time, kind, object, text, fields} |
//! | `stats` | one number for each counter |
//! | `latency` | nanoseconds_below_power_of_two: place n counts the timed runs below 2^n ns |
//! | `capture` | interfaces, then `sample` lines, then lost |
//!
//! States are "up", "down", "undecided" and for administration "enabled", "disabled".
//!
//! # Protocol
//!
//! One JSON object a line. The client sends a [`Command`] and reads one [`command::Reply`]; after `events` with
//! `follow` it reads `event` and `missed` lines until it hangs up. After `capture` it reads a reply, `sample` and `missed`
//! lines until it sends anything, and a last reply.

pub mod capture;
pub mod cli;
pub mod client;
pub mod command;
pub mod edit;
pub mod events;
pub mod explain;
pub mod index;
pub mod ns;
pub mod rate;
pub mod render;
pub mod server;
pub mod session;
pub mod show;
pub mod target;
pub mod told;
pub mod view;

pub use command::{Command, Done, Refusal};
pub use events::{Event, EventKind, Events};
pub use index::NameIndex;
pub use rate::{Queries, RateMeter, Rates};
pub use server::{Request, Server};
pub use view::{InterfaceStatus, View};
