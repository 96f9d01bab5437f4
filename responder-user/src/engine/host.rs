//! What only the host can say of a configuration: the same for start, reload and check.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use crate::{config::Places, model::Settings, publish::interface};

/// Lines with their places.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Holds the settings against the interfaces and addresses of the host. What is in force already (`before`) may be gone
/// for a while and is followed; what is new must be there, of the interfaces at least one.
pub(super) fn check(settings: &Settings, places: &Places, before: Option<&Settings>) -> Report {
    let mut report = Report::default();
    if settings.xdp.is_on() {
        interfaces(settings, places, before, &mut report);
    }
    for address in &settings.listen {
        let element = address.to_string();
        if let Some(what) = plight(*address) {
            let text = format!("listen.addresses: \"{address}\": {what}");
            let is_known = before.is_some_and(|before| before.listen.contains(address));
            let list = if is_known { &mut report.warnings } else { &mut report.errors };
            list.push(places.say("listen.addresses", &element, &text));
        }
    }
    report
}

fn interfaces(settings: &Settings, places: &Places, before: Option<&Settings>, report: &mut Report) {
    let names = &settings.xdp.interfaces;
    let all = match interface::all() {
        Ok(all) => all,
        Err(error) => {
            return report.errors.push(format!("the interfaces of this host are not known: {error}"));
        }
    };
    let missing: Vec<&String> = names.iter().filter(|name| !all.iter().any(|i| i.name == **name)).collect();
    let is_known = before.is_some_and(|before| before.xdp.interfaces == *names);
    let is_error = missing.len() == names.len() && !is_known;
    if settings.xdp.route_check {
        for line in names.iter().flat_map(|name| interface::without_forwarding(name, &settings.listen)) {
            report.warnings.push(places.say("xdp.route_check", "", &line));
        }
    }
    for name in missing {
        let text = format!("xdp.interfaces: {name:?} does not exist");
        if is_error {
            report.errors.push(places.say("xdp.interfaces", name, &text));
        } else {
            let text = format!("{text}; it is served when it comes");
            report.warnings.push(places.say("xdp.interfaces", name, &text));
        }
    }
}

/// Why nothing can listen on an address of this host. The port is not looked at: we may hold it ourselves.
pub(super) fn plight(address: SocketAddr) -> Option<String> {
    let error = UdpSocket::bind(SocketAddr::new(address.ip(), 0)).err()?;
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => Some("this host does not have the address".to_owned()),
        // Out of descriptors, or of ports: nothing that the file could mend.
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => None,
        _ => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    /// The lines of a check, warnings marked.
    fn lines(text: &str, before: Option<&str>) -> Vec<String> {
        let load = |text: &str| config::parse(text, Path::new("r.toml")).expect("a valid text");
        let loaded = load(text);
        let before = before.map(|text| load(text).model.settings);
        let report = check(&loaded.model.settings, &loaded.places, before.as_ref());
        let warnings = report.warnings.iter().map(|line| format!("warning: {line}"));
        report.errors.iter().cloned().chain(warnings).collect()
    }

    #[test]
    fn an_address_that_is_not_on_the_host_is_found_by_a_check() {
        let text =
            "[listen]\naddresses = [\"127.0.0.1:53\",\n  \"192.0.2.77:53\", \"[::]:53\", \"0.0.0.0:5353\"]\n";
        let line = "r.toml:3:3: listen.addresses: \"192.0.2.77:53\": this host does not have the address";
        assert_eq!(lines(text, None), [line]);
        assert_eq!(lines(text, Some(text)), [format!("warning: {line}")], "it was there and is followed");
    }

    #[test]
    fn a_missing_interface_is_found_by_a_check() {
        let text =
            |list: &str| format!("[listen]\naddresses = [\"127.0.0.1:53\"]\n[xdp]\ninterfaces = [{list}]\n");
        let none = "r.toml:4:15: xdp.interfaces: \"nothere\" does not exist";
        assert_eq!(lines(&text("\"nothere\""), None), [none]);
        assert_eq!(lines(&text("\"nothere\""), Some(&text("\"lo\""))), [none], "nothing would be served");
        let warning = |column: u32| {
            format!(
                "warning: r.toml:4:{column}: xdp.interfaces: \"nothere\" does not exist; it is served when it comes"
            )
        };
        assert_eq!(lines(&text("\"nothere\""), Some(&text("\"nothere\""))), [warning(15)]);
        assert_eq!(lines(&text("\"lo\", \"nothere\""), None), [warning(21)]);
        assert_eq!(lines(&(text("\"nothere\"") + "mode = \"off\"\n"), None), [""; 0]);
    }
}
