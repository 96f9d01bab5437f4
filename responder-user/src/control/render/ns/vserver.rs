//! `show` and `stat` of virtual servers.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    bound_policy, cell, change, columns, endpoint, figure, line, more_addresses, or_none, rows, yes,
};

pub(super) fn vserver(number: usize, row: &Value) -> String {
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

pub(super) fn vserver_stat(row: &Value) -> String {
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

/// Document 003 prints the head of it.
pub(super) fn lb_vserver(number: usize, row: &Value) -> String {
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
