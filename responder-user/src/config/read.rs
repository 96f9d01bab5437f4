//! From the document to the [`File`]: which key of which table takes what.

use std::time::Duration;

use responder_common::{
    limits::{MAX_ALLOWED, MAX_INTERFACES},
    switches::{MAX_AMPLIFICATION, MAX_SLIP},
};
use toml_edit::TableLike;

use super::{
    file::{Action, Bind, Domain, DomainList, File, Head, Payload, Point, Policy, Soa, Zone},
    geo::{self, Source},
    import, inert,
    kind::{
        ADDRESS, Bool, DOMAIN_NAME, GotoKind, Integer, Name, Number, PREFIX, Parsed, SOCKET_ADDRESS, Span,
        Text, Word, WorkersKind, display,
    },
    problem::{At, Notes},
    range, read_pool,
    reader::Reader,
    rule,
};
use crate::model::{
    DnsName, Location,
    location::WildcardMatchesAny,
    policy::{BindPoint, Goto, REWRITE_TTL},
    settings::{OnExit, XdpMode},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const DAY: Duration = Duration::from_hours(24);

/// Least `xdp.max_stale`: two signs of life.
const LEAST_STALE: Duration = Duration::from_secs(2);

/// TTL of an answer in seconds.
pub(super) const TTL: Integer = Integer { min: 1, max: 0x7fff_ffff };
/// Seconds of a SOA record (RFC 2181 8).
const SECONDS: Integer = Integer { min: 0, max: 0x7fff_ffff };

pub(super) const STATE: Word<'_, bool> = Word(&[("enabled", true), ("disabled", false)]);

pub(super) const LOCATION: Parsed<Location> = Parsed {
    what: "a location, such as \"Europe.UK\"",
    parse: |typed| Location::parse(typed).map_err(display),
};

/// Reads a whole document; what is wrong goes to the notes.
pub(super) fn read(notes: &Notes<'_>, document: &dyn TableLike) -> File {
    let root = Reader::root(notes, document);
    let mut file = File::default();
    server(&root, &mut file);
    listen(&root, &mut file);
    xdp(&root, &mut file);
    limits(&root, &mut file);
    root.inert_table("observer", inert::OBSERVER);
    root.inert_table("resolver", inert::RESOLVER);
    root.inert_table("metrics", inert::METRICS);
    locations(&root, &mut file);
    file.zones = root.objects("zone", "name", zone);
    file.monitors = root.objects("monitor", "name", read_pool::monitor);
    file.services = root.objects("service", "name", read_pool::service);
    file.vservers = root.objects("vserver", "name", read_pool::vserver);
    file.domains = root.objects("domain", "name", domain);
    file.domain_lists = root.objects("domain_list", "file", domain_list);
    file.actions = root.objects("dns_action", "name", action);
    file.policies = root.objects("dns_policy", "name", policy);
    file.scenarios = root.objects("scenario", "name", scenario);
    file.records = root.objects("record", "name", record);
    file.kept = kept(&root);
    for kind in ["scenario", "record"] {
        if root.has(kind) {
            root.inert(kind);
        }
    }
    root.finish();
    file
}

/// `netscaler.kept`: commands that the import keeps, each checked on its own.
fn kept(root: &Reader<'_>) -> Vec<At<String>> {
    let Some(r) = root.table("netscaler") else { return Vec::new() };
    let kept = r.list("kept", &KEPT).unwrap_or_default();
    r.finish();
    kept
}

const KEPT: Parsed<String> = Parsed {
    what: "a NetScaler command",
    parse: |typed| match import::check_kept(typed) {
        Ok(()) => Ok(typed.to_owned()),
        Err(why) => Err(format!("{typed:?} is no command to keep: {why}")),
    },
};

/// Ends the reading of an object: reports what is unknown, and marks it if anything in it was wrong. Nothing can refer
/// to an object without a name, but what it refers to is checked.
pub(super) fn close(r: &Reader<'_>, name: Option<At<String>>) -> Head {
    r.finish();
    let is_named = name.is_some();
    let name = name.unwrap_or_else(|| At { value: r.typed("name"), at: r.at });
    Head { name, at: r.at, broken: r.is_broken(), is_named }
}

/// The name of an object that is a domain name: as typed, and read.
fn named(r: &Reader<'_>) -> (Option<At<String>>, Option<DnsName>) {
    let kind = Parsed {
        what: DOMAIN_NAME.what,
        parse: |typed| (DOMAIN_NAME.parse)(typed).map(|name| (typed.to_owned(), name)),
    };
    r.require("name", &kind).map(|at| (At { value: at.value.0, at: at.at }, at.value.1)).unzip()
}

fn server(root: &Reader<'_>, file: &mut File) {
    let Some(r) = root.table("server") else { return };
    let settings = &mut file.settings;
    if let Some(path) = r.get("control_socket", &Text) {
        file.places.push(("server.control_socket", path.clone()));
        settings.control_socket = path.value.into();
    }
    if let Some(path) = r.get("state_dir", &Text) {
        settings.state_dir = path.value.into();
    }
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
    if let Some(level) = r.get("log", &Word(&levels)) {
        level.value.clone_into(&mut settings.log);
    }
    if let Some(warm_up) = r.get("warm_up", &Span { min: Duration::ZERO, max: 3600 * SECOND }) {
        settings.warm_up = warm_up.value;
    }
    if let Some(hold) = r.get("load_hold", &Span { min: SECOND, max: DAY }) {
        settings.load_hold = hold.value;
    }
    if let Some(nsid) = r.get("nsid", &NSID) {
        settings.nsid = nsid.value;
    }
    r.finish();
}

/// RFC 5001 sets no bound; the packet path does.
const NSID: Parsed<String> = Parsed {
    what: "a text of at most 64 octets",
    parse: |typed| {
        let fits = typed.len() <= responder_common::limits::MAX_NSID_WORDS * 8;
        fits.then(|| typed.to_owned())
            .ok_or_else(|| format!("{} octets are too many; at most 64 fit", typed.len()))
    },
};

fn listen(root: &Reader<'_>, file: &mut File) {
    let Some(r) = root.table("listen") else {
        root.notes.problem(0, "listen.addresses: is missing; at least one address is needed");
        return;
    };
    match r.list("addresses", &SOCKET_ADDRESS) {
        Some(addresses) if !addresses.is_empty() || r.is_broken() => file.listen = addresses,
        None if r.is_broken() => {}
        _ => r.problem(r.key_at("addresses"), "addresses", "is missing; at least one address is needed"),
    }
    for address in &file.listen {
        file.places.push(("listen.addresses", At { value: address.value.to_string(), at: address.at }));
    }
    if let Some(count) = r.get("workers", &WorkersKind) {
        file.places.push(("listen.workers", At { value: String::new(), at: count.at }));
        file.settings.workers = count.value;
    }
    r.finish();
}

fn xdp(root: &Reader<'_>, file: &mut File) {
    let Some(r) = root.table("xdp") else { return };
    let xdp = &mut file.settings.xdp;
    let mut surplus = None;
    for interface in r.one_or_list("interfaces", &INTERFACE).unwrap_or_default() {
        if xdp.interfaces.contains(&interface.value) {
            r.problem(interface.at, "interfaces", &format!("{:?} is listed twice", interface.value));
        } else {
            if xdp.interfaces.len() == MAX_INTERFACES {
                surplus = Some(interface.at);
            }
            file.places.push(("xdp.interfaces", interface.clone()));
            xdp.interfaces.push(interface.value);
        }
    }
    let modes = [
        ("auto", XdpMode::Auto),
        ("native", XdpMode::Native),
        ("generic", XdpMode::Generic),
        ("off", XdpMode::Off),
    ];
    if let Some(mode) = r.get("mode", &Word(&modes)) {
        xdp.mode = mode.value;
        file.places.push(("xdp.mode", At { value: String::new(), at: mode.at }));
        if xdp.interfaces.is_empty() && matches!(mode.value, XdpMode::Native | XdpMode::Generic) {
            let text = "asks for the kernel program, but xdp.interfaces names no interface";
            r.notes.warning(mode.at, r.say("mode", text));
        }
    }
    if let Some(at) = surplus.filter(|_| xdp.mode != XdpMode::Off) {
        let count = xdp.interfaces.len();
        let text =
            format!("{count} interfaces are more than the {MAX_INTERFACES} that the XDP program compares");
        r.problem(at, "interfaces", &text);
    }
    if let Some(exit) = r.get("on_exit", &Word(&[("detach", OnExit::Detach), ("keep", OnExit::Keep)])) {
        xdp.on_exit = exit.value;
    }
    if let Some(stale) = r.get("max_stale", &Span { min: Duration::ZERO, max: 365 * DAY }) {
        xdp.max_stale = stale.value;
        if !stale.value.is_zero() && stale.value < LEAST_STALE {
            // The daemon gives a sign of life once a second.
            let text = format!("{:?} is below the minimum of 2s; 0s is never", r.typed("max_stale"));
            r.problem(stale.at, "max_stale", &text);
        }
    }
    if let Some(check) = r.get("route_check", &Bool) {
        xdp.route_check = check.value;
        file.places.push(("xdp.route_check", At { value: String::new(), at: check.at }));
    }
    if let Some(path) = r.get("pin_path", &Text) {
        file.places.push(("xdp.pin_path", At { value: String::new(), at: path.at }));
        xdp.pin_path = path.value.into();
    }
    r.finish();
}

/// Replies a second that the program can tell from one more: its clock counts in 16 ns.
const MOST_RESPONSES: i64 = 10_000_000;

fn limits(root: &Reader<'_>, file: &mut File) {
    let Some(r) = root.table("limits") else { return };
    if let Some(cookies) = r.get("cookies", &Bool) {
        file.settings.cookies = cookies.value;
    }
    let limits = &mut file.settings.limits;
    if let Some(rate) = r.get("responses_per_second", &Integer { min: 0, max: MOST_RESPONSES }) {
        limits.responses_per_second = rate.value as u32;
    }
    if let Some(most) = r.get("max_amplification", &Number { min: 0.0, max: MAX_AMPLIFICATION as f64 }) {
        limits.max_amplification = most.value;
        if most.value > 0.0 && most.value <= 1.0 {
            let text = "truncates every answer, for none is shorter than its query; 0 sets no bound";
            r.notes.warning(most.at, r.say("max_amplification", text));
        }
    }
    if let Some(slip) = r.get("slip", &Integer { min: 0, max: MAX_SLIP as i64 }) {
        limits.slip = slip.value as u16;
    }
    let allow = r.one_or_list("allow", &PREFIX).unwrap_or_default();
    if let Some(first) = allow.get(MAX_ALLOWED) {
        let text = format!("has {} prefixes; allowed are at most {MAX_ALLOWED}", allow.len());
        r.problem(first.at, "allow", &text);
    }
    limits.allow = allow.into_iter().map(|prefix| prefix.value.trunc()).collect();
    limits.allow.sort_unstable();
    limits.allow.dedup();
    r.finish();
}

const INTERFACE: Parsed<String> = Parsed {
    what: "the name of an interface",
    parse: |typed| {
        // IFNAMSIZ, and what the kernel refuses in a name.
        let fits = (1..=15).contains(&typed.len())
            && !typed.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
        let is_name = fits && typed != "." && typed != "..";
        is_name.then(|| typed.to_owned()).ok_or_else(|| {
            format!("{typed:?} is not the name of an interface; allowed are 1 to 15 characters without / : and spaces")
        })
    },
};

fn locations(root: &Reader<'_>, file: &mut File) {
    let Some(r) = root.table("location") else { return };
    let context = r.get("context", &Word(&[("geographic", false), ("custom", true)]));
    file.custom_context = context.is_some_and(|context| context.value);
    let words = [
        ("no", WildcardMatchesAny::No),
        ("yes", WildcardMatchesAny::Yes),
        ("expression", WildcardMatchesAny::Expression),
    ];
    if let Some(word) = r.get("wildcard_matches_any", &Word(&words)) {
        file.wildcard_matches_any = word.value;
    }
    for entry in r.tables("files") {
        let path = entry.require("path", &Text);
        let format = entry.get("format", &Word(&geo::FORMATS)).map(|format| format.value);
        entry.finish();
        file.location_files.extend(path.map(|path| Source { path, format }));
    }
    file.ranges = r.tables("custom").iter().filter_map(range::read).collect();
    r.finish();
}

fn zone(r: &Reader<'_>) -> Zone {
    let (name, apex) = named(r);
    let file = r.get("file", &Text);
    let soa = r.table("soa").map(|soa| At { at: soa.at, value: read_soa(&soa) });
    let ns = r.list("ns", &DOMAIN_NAME);
    Zone { head: close(r, name), apex, file, soa, ns }
}

fn read_soa(r: &Reader<'_>) -> Soa {
    let seconds = |key| r.get(key, &SECONDS).map(|s| s.value as u32);
    let soa = Soa {
        mname: r.get("mname", &DOMAIN_NAME).map(|name| name.value),
        rname: r.get("rname", &MAILBOX).map(|name| name.value),
        serial: r.get("serial", &Integer { min: 0, max: u32::MAX.into() }).map(|s| s.value as u32),
        refresh: seconds("refresh"),
        retry: seconds("retry"),
        expire: seconds("expire"),
        minimum: seconds("minimum"),
        ttl: seconds("ttl"),
    };
    r.finish();
    soa
}

const MAILBOX: Parsed<DnsName> = Parsed {
    what: "a mailbox as a domain name",
    parse: |typed| match typed.split_once('@') {
        Some((user, host)) => {
            Err(format!("{typed:?} is not a domain name; write \"{}.{host}\"", user.replace('.', "\\\\.")))
        }
        None => DnsName::parse(typed).map_err(display),
    },
};

fn domain(r: &Reader<'_>) -> Option<Domain> {
    let (name, dns) = named(r);
    let vserver = r.require("vserver", &Name);
    let ttl = r.get("ttl", &TTL).map(|ttl| ttl.value as u32);
    let backup_ip = r.one_or_list("backup_ip", &ADDRESS).unwrap_or_default();
    Some(Domain { head: close(r, name), dns, vserver: vserver?, ttl, backup_ip })
}

fn domain_list(r: &Reader<'_>) -> Option<DomainList> {
    let file = r.require("file", &Text);
    let vserver = r.require("vserver", &Name);
    let ttl = r.get("ttl", &TTL).map(|ttl| ttl.value as u32);
    r.finish();
    Some(DomainList { file, vserver: vserver?, ttl })
}

fn action(r: &Reader<'_>) -> Action {
    let name = r.require("name", &Name);
    let keys = ["preferred_locations", "view", "drop", "rewrite", "cache_bypass", "noop"];
    let given: Vec<_> = keys.into_iter().filter(|key| r.has(key)).collect();
    let choice = "one of preferred_locations, view, drop, rewrite, cache_bypass and noop";
    match given[..] {
        [] => r.problem(r.at, "", &format!("does nothing; give {choice}")),
        [_] => {}
        [.., last] => r.problem(r.key_at(last), last, &format!("is one payload too many; give {choice}")),
    }
    let preferred = r.one_or_list("preferred_locations", &LOCATION);
    if let Some(list) = preferred.as_ref().filter(|list| !(1..=8).contains(&list.len()) && !r.is_broken()) {
        let text = format!("has {} locations; allowed are 1 to 8", list.len());
        r.problem(r.key_at("preferred_locations"), "preferred_locations", &text);
    }
    let view = r.get("view", &Name);
    let rewrite = r.one_or_list("rewrite", &ADDRESS);
    let ttl = r.get("ttl", &TTL).map(|ttl| ttl.value as u32);
    if ttl.is_some() && rewrite.is_none() {
        r.problem(r.key_at("ttl"), "ttl", "has a meaning with rewrite alone");
    }
    for key in ["drop", "cache_bypass", "noop"] {
        if r.get(key, &Bool).is_some_and(|flag| !flag.value) {
            r.problem(r.key_at(key), key, "false does nothing; allowed is true");
        }
    }
    let head = close(r, name);
    let payload = match (preferred, view, rewrite) {
        (Some(list), ..) => Payload::Preferred(list),
        (_, Some(view), _) => Payload::View(view),
        (.., Some(list)) => {
            Payload::Rewrite(list.into_iter().map(|a| a.value).collect(), ttl.unwrap_or(REWRITE_TTL))
        }
        _ if given.contains(&"drop") => Payload::Drop,
        _ if given.contains(&"cache_bypass") => Payload::CacheBypass,
        _ => Payload::Noop,
    };
    Action { head, payload }
}

fn policy(r: &Reader<'_>) -> Option<Policy> {
    let name = r.require("name", &Name);
    let rule_text = r.require("rule", &Text);
    let rule = rule_text.as_ref().and_then(|text| match rule::parse(&text.value) {
        Ok(rule) => Some(rule),
        Err(error) => {
            let at = r.notes.inside_string(text.at, error.at);
            r.problem(at, "rule", &error.text);
            None
        }
    });
    let action = r.require("action", &Name);
    let own = Own {
        priority: r.get("priority", &Integer { min: 1, max: 0x7fff_ffff }),
        goto: r.get("goto", &GotoKind),
        invoke: r.get("invoke", &Name),
    };
    let binds = if r.has("bind") {
        r.tables_or_table("bind").iter().filter_map(|table| bind(r, table, &own)).collect()
    } else {
        own.bind(r, None, Point::Global(BindPoint::Request)).into_iter().collect()
    };
    let head = close(r, name);
    Some(Policy { head, rule, rule_text: rule_text?, action: action?, binds })
}

/// What a policy says for all its bind points.
struct Own {
    priority: Option<At<i64>>,
    goto: Option<At<Goto>>,
    invoke: Option<At<String>>,
}

impl Own {
    /// A bind point; what `table` says goes before what the policy says.
    fn bind(&self, r: &Reader<'_>, table: Option<&Reader<'_>>, point: Point) -> Option<Bind> {
        let most = if matches!(point, Point::Vserver(..)) { 0x7fff_ffff } else { 65_534 };
        let priority = table.and_then(|t| t.get("priority", &Integer { min: 1, max: most }));
        let Some(priority) = priority.or(self.priority) else {
            if !r.has("priority") {
                table.unwrap_or(r).missing("priority");
            }
            return None;
        };
        if priority.value > most {
            let text = format!("{} is above the maximum of {most}", priority.value);
            r.problem(priority.at, "priority", &text);
        }
        Some(Bind {
            point,
            priority: At { value: priority.value as u32, at: priority.at },
            goto: table.and_then(|t| t.get("goto", &GotoKind)).or(self.goto),
            invoke: table.and_then(|t| t.get("invoke", &Name)).or_else(|| self.invoke.clone()),
        })
    }
}

/// `{ global = "request" }`, `{ vserver = "www", on = "response" }` or `{ label = "more" }`.
fn bind(r: &Reader<'_>, table: &Reader<'_>, own: &Own) -> Option<Bind> {
    let points = [
        ("request", BindPoint::Request),
        ("request-override", BindPoint::RequestOverride),
        ("response", BindPoint::Response),
        ("response-override", BindPoint::ResponseOverride),
    ];
    let global = table.get("global", &Word(&points));
    let vserver = table.get("vserver", &Name);
    let label = table.get("label", &Name);
    let on = table.get("on", &Word(&[("request", false), ("response", true)]));
    let given = ["global", "vserver", "label"].into_iter().filter(|key| table.has(key)).count();
    if given != 1 {
        r.problem(table.at, "bind", "names no bind point; give one of global, vserver and label");
    }
    if on.is_some() && !table.has("vserver") {
        table.problem(table.key_at("on"), "on", "has a meaning with vserver alone");
    }
    let point = match (global, vserver, label) {
        (Some(global), ..) => Some(Point::Global(global.value)),
        (_, Some(vserver), _) => Some(Point::Vserver(vserver, on.is_some_and(|on| on.value))),
        (.., Some(label)) => Some(Point::Label(label.value)),
        _ => None,
    };
    // An unknown bind point keeps its other keys known.
    let known = point.is_some();
    let bind = own.bind(r, Some(table), point.unwrap_or(Point::Global(BindPoint::Request)));
    table.finish();
    bind.filter(|_| known)
}

fn scenario(r: &Reader<'_>) -> Head {
    let name = r.require("name", &Name);
    r.check(inert::CONDITION);
    r.check(inert::SCENARIO);
    if !["all", "any", "unless"].into_iter().any(|key| r.has(key)) {
        r.problem(r.at, "", "has no condition; give all, any or unless");
    }
    close(r, name)
}

fn record(r: &Reader<'_>) -> Option<Head> {
    let (name, _) = named(r);
    let types = ["A", "AAAA", "CNAME", "MX", "NS", "PTR", "SRV", "TXT"].map(|name| (name, name));
    let rtype = r.require("type", &Word(&types));
    r.check(inert::RECORD);
    let mut head = close(r, name);
    // One name may have a record of each type: both together are the name of the object.
    head.name.value = format!("{} {}", head.name.value.to_ascii_lowercase(), rtype?.value);
    Some(head)
}
