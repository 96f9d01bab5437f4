//! `show` and `stat` of services, names and sites.

use std::fmt::Write as _;

use serde_json::Value;

use super::{cell, change, clean, columns, endpoint, figure, line, more_addresses, or_none, rows};

pub(super) fn service(number: usize, row: &Value) -> String {
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

pub(super) fn service_stat(row: &Value) -> String {
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

pub(super) fn domain(number: usize, row: &Value) -> String {
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

pub(super) fn domain_stat(row: &Value) -> String {
    let of = |key: &str| cell(&row[key]);
    let mut out = columns(&["Domain", "Rec_Type"], &[of("name"), of("rectype")]);
    figure(&mut out, "Hits", &row["dnsqueries"]);
    let zone = format!("Answers of zone {} by XDP", of("zone"));
    if !row["zone"].is_null() {
        figure(&mut out, &zone, &row["zonexdpanswers"]);
    }
    out + "\n"
}

pub(super) fn site(number: usize, row: &Value) -> String {
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
