//! Answers of `ns` in the layout of NetScaler's command line (spec/netscaler.md 7). The shape is NetScaler's, not every
//! blank: scripts that want to be sure take `--output json`.

use std::fmt::Write as _;

use serde_json::Value;

use super::{cell, clean};

/// What was found, then ` Done`.
pub fn ns(value: &Value) -> String {
    let mut out = String::new();
    for warning in value["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "Warning: {}", cell(warning));
    }
    for (key, print) in LAYOUTS {
        let Some(rows) = value[*key].as_array() else { continue };
        for (i, row) in rows.iter().enumerate() {
            out += &print(i + 1, row);
        }
    }
    let is_known = |key: &str| LAYOUTS.iter().any(|(known, _)| *known == key);
    for (key, rows) in value.as_object().into_iter().flatten().filter(|(key, _)| !is_known(key)) {
        let rows = rows.as_array().filter(|_| key != "warnings").map_or(&[][..], Vec::as_slice);
        rows.iter().enumerate().for_each(|(i, row)| out += &plain(i + 1, row));
    }
    out + " Done\n"
}

/// Commands as they are typed, one a line.
fn running(row: &Value) -> String {
    row["response"].as_str().unwrap_or_default().lines().map(|line| clean(line) + "\n").collect()
}

/// What has no layout of its own: a key a line, what is bound to it last.
fn plain(number: usize, row: &Value) -> String {
    let mut out =
        if row["name"].is_null() { String::new() } else { format!("{number})\t{}\n", cell(&row["name"])) };
    let fields = row.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| !["name", "bound"].contains(&key.as_str())) {
        line(&mut out, "\t", &[(key, cell(value))]);
    }
    for (i, bound) in rows(&row["bound"]).iter().enumerate() {
        let fields = bound.as_object().into_iter().flatten();
        let parts: Vec<(&str, String)> = fields.map(|(key, value)| (key.as_str(), cell(value))).collect();
        line(&mut out, &format!("\t{})\t", i + 1), &parts);
    }
    out
}

/// How the objects of a resource are printed, with their number.
type Layout = fn(usize, &Value) -> String;

const LAYOUTS: &[(&str, Layout)] = &[
    ("gslbvserver", |n, row| if row.get("tothits").is_some() { vserver_stat(row) } else { vserver(n, row) }),
    ("gslbservice", |n, row| if row.get("tothits").is_some() { service_stat(row) } else { service(n, row) }),
    ("gslbdomain", |n, row| if row.get("dnsqueries").is_some() { domain_stat(row) } else { domain(n, row) }),
    ("gslbsite", site),
    ("location", location),
    ("locationparameter", |_, row| parameter(row)),
    ("locationfile", |n, row| format!("{n})\tLocation file: {}\n", cell(&row["locationfile"]))),
    ("dnspolicy", policy),
    ("dnsaction", action),
    ("dnsglobal", global),
    ("dnsview", view),
    ("lbvserver", lb_vserver),
    ("nsrunningconfig", |_, row| running(row)),
];

/// Labels and values beside each other in one line, indented.
fn line(out: &mut String, indent: &str, parts: &[(&str, String)]) {
    let parts: Vec<String> = parts.iter().map(|(label, value)| format!("{label}: {value}")).collect();
    // Writing into a String cannot fail.
    let _ = writeln!(out, "{indent}{}", parts.join("\t"));
}

/// 42 and not 42.0.
fn short(value: &Value) -> String {
    value.as_f64().map_or_else(|| cell(value), |number| number.to_string())
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `NONE` for what is not set.
fn or_none(value: &Value) -> String {
    if value.is_null() { "NONE".to_owned() } else { cell(value) }
}

fn change(out: &mut String, row: &Value) {
    let _ = writeln!(out, "\tLast state change was at {}", cell(&row["statechangetime"]));
    let _ = writeln!(out, "\tTime since last state change: {}", cell(&row["timesincelaststatechange"]));
}

fn yes(value: &Value) -> String {
    if value == true { "SET" } else { "NOT SET" }.to_owned()
}

fn vserver(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!("{number})\t{} - {}\tState: {}\n", of("name"), of("servicetype"), of("curstate"));
    change(&mut out, row);
    line(&mut out, "\t", &[("Effective State", of("effectivestate")), ("Threshold", of("threshold"))]);
    line(&mut out, "\t", &[("DNS Record Type", of("dnsrecordtypes"))]);
    line(
        &mut out,
        "\t",
        &[("Configured Method", of("lbmethod")), ("BackupMethod", or_none(&row["backuplbmethod"]))],
    );
    let _ = writeln!(out, "\tCurrent Method: {}, Reason: {}", of("currentmethod"), of("currentmethodreason"));
    let mut tier = vec![("Preferred Location Tier", of("preferredlocationtier"))];
    if !row["currentactiveorder"].is_null() {
        tier.push(("Current Active Order", of("currentactiveorder")));
    }
    line(&mut out, "\t", &tier);
    let (total, active) = (of("totalservices"), of("activeservices"));
    let _ = writeln!(
        out,
        "\tNo. of Bound Services :  {total} (Total)\t {active} (Active)\tHealth: {}%",
        of("health")
    );
    settings(&mut out, row);
    for (i, bound) in rows(&row["gslbvserver_gslbservice_binding"]).iter().enumerate() {
        out += &bound_service(i + 1, bound);
    }
    for (i, domain) in rows(&row["gslbvserver_domain_binding"]).iter().enumerate() {
        let of = |key: &str| cell(&domain[key]);
        let backup = match rows(&domain["backupips"]) {
            [] => String::new(),
            _ => format!("\tBackup IP: {}", of("backupips")),
        };
        let _ = writeln!(
            out,
            "\n{})\t{}\tTTL: {} secn{backup}\tCookie Timeout: {} min\tSite domain TTL: {} sec",
            i + 1,
            of("domainname"),
            of("ttl"),
            of("cookietimeout"),
            of("sitedomainttl"),
        );
    }
    if let Some(left @ 1..) = row["domainsleftout"].as_u64() {
        let _ = writeln!(out, "\n\tand {left} more domains");
    }
    for (i, policy) in rows(&row["gslbvserver_gslbpolicy_binding"]).iter().enumerate() {
        out.push('\n');
        out += &bound_policy(i + 1, policy);
    }
    out
}

fn settings(out: &mut String, row: &Value) {
    let of = |key: &str| cell(&row[key]);
    let mut persistence = vec![("Persistence", of("persistencetype"))];
    if row["persistencetype"] != "NONE" {
        persistence.extend([
            ("Persistence ID", or_none(&row["persistenceid"])),
            ("Persistence Mask", of("persistmask")),
            ("IPv6MaskLength", of("v6persistmasklen")),
            ("Persistence Timeout", format!("{} min", of("timeout"))),
        ]);
    }
    line(out, "\t", &persistence);
    line(
        out,
        "\t",
        &[
            ("Disable Primary Vserver on Down", of("disableprimaryondown")),
            ("Site Persistence", of("sitepersistence")),
            ("Backup Session Timeout", of("backupsessiontimeout")),
        ],
    );
    line(
        out,
        "\t",
        &[("Backup Vserver", or_none(&row["backupvserver"])), ("Primary Latch", yes(&row["latched"]))],
    );
    line(
        out,
        "\t",
        &[
            ("Empty Down Response", of("edr")),
            ("Multi IP Response", of("mir")),
            ("Dynamic Weights", of("dynamicweight")),
            ("Cname Flag", of("iscname")),
            ("Effective State Considered", of("considereffectivestate")),
        ],
    );
    line(out, "\t", &[("ECS", of("ecs")), ("ECS Address Validation", of("ecsaddrvalidation"))]);
    let mut spillover = vec![("Spillover Method", of("somethod"))];
    if row["somethod"] == "NONE" {
        line(out, "\t", &spillover);
    } else {
        spillover.extend([
            ("Spillover Threshold", of("sothreshold")),
            ("Spillover Persistence", of("sopersistence")),
            ("Spillover Backup Action", of("sobackupaction")),
        ]);
        line(out, "\t", &spillover);
        let state = if row["spilled"] == true { "SPILLED" } else { "NOT SPILLED" };
        let _ = writeln!(out, "\tSpillover State: {state} ({})", of("spillstate"));
    }
    if row["orderthreshold"] != 0 || row["toggleorder"] != "ASCENDING" {
        line(out, "\t", &[("Toggle Order", of("toggleorder")), ("Order Threshold", of("orderthreshold"))]);
    }
}

/// `(192.0.2.1: 80)`, or the alias.
fn endpoint(row: &Value) -> String {
    if !row["cnameentry"].is_null() {
        return cell(&row["cnameentry"]);
    }
    format!("{}: {}", cell(&row["ipaddress"]), cell(&row["port"]))
}

fn more_addresses(out: &mut String, row: &Value) {
    if let [_, more @ ..] = rows(&row["ipaddresses"])
        && !more.is_empty()
    {
        let list: Vec<String> = more.iter().map(cell).collect();
        let _ = writeln!(out, "\tMore Addresses: {}", list.join(" "));
    }
}

fn bound_service(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let order = if row["order"].is_null() { String::new() } else { format!("\tOrder: {}", of("order")) };
    let mut out = format!(
        "\n{number})\t{} ({}) - {}\tState: {}\tWeight: {}{order}\n",
        of("servicename"),
        endpoint(row),
        of("gslbboundsvctype"),
        of("curstate"),
        of("weight"),
    );
    more_addresses(&mut out, row);
    line(
        &mut out,
        "\t",
        &[("Dynamic Weight", of("dynamicconfwt")), ("Cumulative Weight", of("cumulativeweight"))],
    );
    line(&mut out, "\t", &[("Effective State", of("svreffgslbstate"))]);
    line(&mut out, "\t", &[("Threshold ", of("gslbthreshold"))]);
    if row["thresholdvalue"] == "ABOVE" {
        line(&mut out, "\t", &[("Load Monitor Threshold ", of("thresholdvalue"))]);
    }
    line(&mut out, "\t", &[("Location", of("location"))]);
    out
}

fn bound_policy(number: usize, row: &Value) -> String {
    let mut out = String::new();
    let goto = &row["gotopriorityexpression"];
    let mut parts = vec![("Policy Name", cell(&row["policyname"])), ("Priority", cell(&row["priority"]))];
    if !row["type"].is_null() {
        parts.push(("Type", cell(&row["type"])));
    }
    if !goto.is_null() {
        parts.push(("GotoPriorityExpression", cell(goto)));
    }
    if !row["labelname"].is_null() {
        parts.push(("Invoke", format!("policylabel {}", cell(&row["labelname"]))));
    }
    line(&mut out, &format!("{number})\t"), &parts);
    out
}

/// Headers over columns, each as wide as it needs.
fn columns(header: &[&str], row: &[String]) -> String {
    let widths: Vec<usize> =
        header.iter().zip(row).map(|(h, v)| h.len().max(v.chars().count()) + 2).collect();
    let put = |words: &mut dyn Iterator<Item = &str>| {
        let text = words.zip(&widths).fold(String::new(), |mut out, (word, width)| {
            let _ = write!(out, "{word:width$}");
            out
        });
        text.trim_end().to_owned() + "\n"
    };
    put(&mut header.iter().copied()) + &put(&mut row.iter().map(String::as_str))
}

/// `Hits                      -` for what nothing counts.
fn figure(out: &mut String, label: &str, value: &Value) {
    let _ = writeln!(out, "{label:<34}{:>16}", short(value));
}

fn vserver_stat(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = columns(
        &["Name", "vsvrIP", "port", "Protocol", "State", "Health", "actSvcs", "inactSvcs"],
        &[
            of("name"),
            of("primaryipaddress"),
            of("primaryport"),
            of("type"),
            of("state"),
            of("vslbhealth"),
            of("actsvcs"),
            of("inactsvcs"),
        ],
    );
    figure(&mut out, "Effective State", &row["effectivestate"]);
    figure(&mut out, "Hits", &row["tothits"]);
    figure(&mut out, "Client connections", &row["curclntconnections"]);
    figure(&mut out, "Bandwidth (kbit/s)", &row["bandwidth"]);
    figure(&mut out, "Persistence sessions", &row["curpersistencesessions"]);
    figure(&mut out, "Spillover threshold", &row["sothreshold"]);
    figure(&mut out, "Spillovers", &row["totspillovers"]);
    let state = if row["spilled"] == true { "SPILLED" } else { "NOT SPILLED" };
    figure(&mut out, "Spillover state", &Value::from(state));
    figure(&mut out, "Primary latch", &Value::from(yes(&row["latched"])));
    out + "\n"
}

fn service(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "{number})\t{} ({}) - {}\n\tState: {}\n",
        of("servicename"),
        endpoint(row),
        of("servicetype"),
        of("svrstate"),
    );
    more_addresses(&mut out, row);
    change(&mut out, row);
    line(&mut out, "\t", &[("Effective State", of("svreffgslbstate"))]);
    line(
        &mut out,
        "\t",
        &[("Threshold ", of("gslbthreshold")), ("Load Monitor Threshold ", of("thresholdvalue"))],
    );
    line(&mut out, "\t", &[("Location", of("location"))]);
    line(&mut out, "\t", &[("Site Name", or_none(&row["sitename"]))]);
    line(&mut out, "\t", &[("Public IP", of("publicip")), ("Public Port", of("publicport"))]);
    line(
        &mut out,
        "\t",
        &[("Max Conn", of("maxclient")), ("Max Bandwidth", format!("{} kbits", of("maxbandwidth")))],
    );
    line(
        &mut out,
        "\t",
        &[("Health Monitoring", of("healthmonitor")), ("Monitor Threshold", of("monthreshold"))],
    );
    line(&mut out, "\t", &[("Reason", of("reason"))]);
    if !row["behind"].is_null() {
        line(&mut out, "\t", &[("Stands for Vserver", of("behind"))]);
    }
    for (i, view) in rows(&row["gslbservice_dnsview_binding"]).iter().enumerate() {
        let parts = [("View Name", cell(&view["viewname"])), ("View IP", cell(&view["viewip"]))];
        line(&mut out, &format!("\n{})\t", i + 1), &parts);
    }
    for (i, monitor) in rows(&row["gslbservice_lbmonitor_binding"]).iter().enumerate() {
        out += &bound_monitor(i + 1, monitor);
    }
    out
}

fn bound_monitor(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = String::new();
    let parts = [("Monitor Name", of("monitor_name")), ("Address", of("ipaddress"))];
    line(&mut out, &format!("\n{number})\t"), &parts);
    let parts = [
        ("State", of("monitor_state")),
        ("Weight", of("weight")),
        ("Monitoring", of("monstate")),
        ("Failed probes in a row", of("failedprobes")),
    ];
    line(&mut out, "\t", &parts);
    line(&mut out, "\t", &[("Last response", of("lastresponse"))]);
    out
}

fn service_stat(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = columns(
        &["Name", "IP", "port", "Type", "State", "Effective", "Threshold"],
        &[
            of("servicename"),
            of("primaryipaddress"),
            of("primaryport"),
            of("servicetype"),
            of("state"),
            of("svreffgslbstate"),
            of("gslbthreshold"),
        ],
    );
    let load = if row["curload"] == true { "ABOVE" } else { "BELOW" };
    figure(&mut out, "Load monitor threshold", &Value::from(load));
    figure(&mut out, "Hits", &row["tothits"]);
    figure(&mut out, "Client connections", &row["curclntconnections"]);
    figure(&mut out, "Bandwidth (kbit/s)", &row["bandwidth"]);
    let known = ["connections", "bandwidth"];
    for (name, value) in row["load"].as_object().into_iter().flatten() {
        if !known.contains(&name.as_str()) {
            figure(&mut out, &clean(name), value);
        }
    }
    out + "\n"
}

fn domain(number: usize, row: &Value) -> String {
    let mut out = format!("{number})\t{}\n", cell(&row["name"]));
    for bound in rows(&row["gslbdomain_gslbvserver_binding"]) {
        let of = |key: &str| cell(&bound[key]);
        let _ = writeln!(
            out,
            "\tgslb vserver: {} - {}\tState: {}\tEffective State: {}\tDNS Record Type: {}",
            of("vservername"),
            of("servicetype"),
            of("state"),
            of("effectivestate"),
            of("dnsrecordtypes"),
        );
        let _ = writeln!(
            out,
            "\t    Configured Method: {}\tCurrent Method: {}, Reason: {}",
            of("lbmethod"),
            of("currentmethod"),
            of("currentmethodreason"),
        );
        let _ = writeln!(out, "\t    TTL: {} secn\tBackup IP: {}", of("ttl"), of("backupips"));
        for service in rows(&bound["gslbservice"]) {
            let of = |key: &str| cell(&service[key]);
            let _ = writeln!(
                out,
                "\t    gslb service: {} ({})\tState: {}\tEffective State: {}\tThreshold : {}\tLocation: {}",
                of("servicename"),
                endpoint(service),
                of("curstate"),
                of("svreffgslbstate"),
                of("gslbthreshold"),
                of("location"),
            );
        }
    }
    for policy in rows(&row["gslbdomain_dnspolicy_binding"]) {
        let of = |key: &str| cell(&policy[key]);
        let _ = writeln!(
            out,
            "\tdns policy: {}\tPriority: {}\tType: {}",
            of("policyname"),
            of("priority"),
            of("type")
        );
    }
    out
}

fn domain_stat(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = columns(&["Domain", "Rec_Type"], &[of("name"), of("rectype")]);
    figure(&mut out, "Hits", &row["dnsqueries"]);
    let zone = format!("Answers of zone {} by XDP", of("zone"));
    if !row["zone"].is_null() {
        figure(&mut out, &zone, &row["zonexdpanswers"]);
    }
    out + "\n"
}

fn site(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!("{number})\tSite Name: {}\tState: {}\n", of("sitename"), of("sitestate"));
    if !row["siteipaddress"].is_null() {
        let parts = [
            ("Site Type", of("sitetype")),
            ("Site IP Address", of("siteipaddress")),
            ("Public IP", or_none(&row["publicip"])),
        ];
        line(&mut out, "\t", &parts);
    }
    line(
        &mut out,
        "\t",
        &[
            ("Metric Exchange", of("metricexchange")),
            ("Network Metric Exchange", of("nwmetricexchange")),
            ("MEP", of("status")),
        ],
    );
    let (total, active) = (of("totalservices"), of("activeservices"));
    let _ = writeln!(out, "\tNo. of Services :  {total} (Total)\t {active} (Active)");
    for (i, bound) in rows(&row["gslbsite_gslbservice_binding"]).iter().enumerate() {
        let of = |key: &str| cell(&bound[key]);
        let _ = writeln!(
            out,
            "\n{})\t{} ({})\tState: {}\tEffective State: {}\tLocation: {}",
            i + 1,
            of("servicename"),
            endpoint(bound),
            of("curstate"),
            of("svreffgslbstate"),
            of("location"),
        );
    }
    out
}

fn location(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let coordinates = if row["longitude"].is_null() {
        String::new()
    } else {
        format!("\tLongitude: {}\tLatitude: {}", short(&row["longitude"]), short(&row["latitude"]))
    };
    format!(
        "{number})\tIP From: {}\tIP To: {}\tLocation: {}{coordinates}\n",
        of("ipfrom"),
        of("ipto"),
        of("preferredlocation")
    )
}

fn parameter(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "\tStatic Proximity Database Mode: {}\n\tFlushing: {}; Loading: {};\n\tContext: {}\n",
        of("databasemode"),
        of("flushing"),
        of("loading"),
        of("context")
    );
    for i in 1..=6 {
        let _ = writeln!(out, "\tQualifier {i} label: {}", of(&format!("q{i}label")));
    }
    let _ = writeln!(out, "\tMatch wildcard to any: {}", of("matchwildcardtoany"));
    let _ = writeln!(out, "\tLocation file: {}", of("locationfile"));
    let _ =
        writeln!(out, "\tCurrent static entries: {}  Current custom entries: {}", of("static"), of("custom"));
    let _ = writeln!(
        out,
        "\tCurrent static entries (IPv6): {}  Current custom entries (IPv6): {}",
        of("static6"),
        of("custom6")
    );
    out
}

fn policy(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "{number})\tName: {}\n\tRule: {}\n\tAction Name: {}\n\tHits: {}\tUndef Hits: {}\n",
        of("name"),
        of("rule"),
        of("actionname"),
        of("hits"),
        of("undefhits")
    );
    for bound in rows(&row["dnspolicy_binding"]) {
        let of = |key: &str| cell(&bound[key]);
        let parts = [
            ("Bound to", of("boundto")),
            ("Type", of("type")),
            ("Priority", of("priority")),
            ("GotoPriorityExpression", of("gotopriorityexpression")),
        ];
        line(&mut out, "\t", &parts);
    }
    out
}

fn action(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out =
        format!("{number})\tAction Name: {}\tAction Type: {}\n", of("actionname"), of("actiontype"));
    for (label, key) in [
        ("Preferred Location List", "preferredloclist"),
        ("View Name", "viewname"),
        ("IP Address", "ipaddress"),
        ("TTL", "ttl"),
    ] {
        if !row[key].is_null() {
            line(&mut out, "\t", &[(label, of(key))]);
        }
    }
    out
}

fn global(number: usize, row: &Value) -> String {
    let mut out = format!(
        "{number})\tBind Point: {}\tNumber of policies: {}\n",
        cell(&row["type"]),
        cell(&row["numpol"])
    );
    for (i, bound) in rows(&row["dnsglobal_dnspolicy_binding"]).iter().enumerate() {
        let _ = write!(out, "\t{}", bound_policy(i + 1, bound));
    }
    out
}

fn view(number: usize, row: &Value) -> String {
    let mut out = format!("{number})\tView Name: {}\n", cell(&row["viewname"]));
    for bound in rows(&row["dnsview_gslbservice_binding"]) {
        let parts =
            [("GSLB Service", cell(&bound["gslbservicename"])), ("View IP", cell(&bound["ipaddress"]))];
        line(&mut out, "\t", &parts);
    }
    for name in rows(&row["dnsview_dnspolicy_binding"]) {
        line(&mut out, "\t", &[("DNS Policy", cell(name))]);
    }
    out
}

/// Document 003 prints the head of it.
fn lb_vserver(number: usize, row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = format!(
        "{number})\t{} ({}:{}) - {}\tType: {}\n\tState: {}\n",
        of("name"),
        of("ipv46"),
        of("port"),
        of("servicetype"),
        of("type"),
        of("curstate")
    );
    if !row["statechangetime"].is_null() {
        change(&mut out, row);
        line(&mut out, "\t", &[("Effective State", of("effectivestate")), ("Threshold", of("threshold"))]);
    }
    let (total, active) = (of("totalservices"), of("activeservices"));
    let _ = writeln!(out, "\tNo. of Bound Services :  {total} (Total)\t {active} (Active)");
    line(&mut out, "\t", &[("Configured Method", of("lbmethod"))]);
    line(&mut out, "\t", &[("Persistence", of("persistencetype"))]);
    line(&mut out, "\t", &[("Skip Persistency", of("skippersistency"))]);
    line(&mut out, "\t", &[("Backup", or_none(&row["backupvserver"]))]);
    out
}
