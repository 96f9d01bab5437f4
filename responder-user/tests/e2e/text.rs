//! Configuration files of the tests.

use std::fmt::Write;

use crate::bed::Bed;

/// `[server]`, `[listen]` and `[xdp]`; `xdp` holds further lines of the latter.
pub fn head(bed: &Bed, xdp: &str) -> String {
    let addresses = "\"10.53.0.1:53\", \"[2001:db8:53::1]:53\"";
    format!("{}{}", server(bed, addresses), xdp_table(bed, xdp))
}

/// `[server]` and `[listen]`
pub fn server(bed: &Bed, addresses: &str) -> String {
    format!(
        "[server]\ncontrol_socket = \"{}\"\nstate_dir = \"{}\"\n\n[listen]\naddresses = [{addresses}]\n\n",
        bed.socket().display(),
        bed.folder().join("state").display(),
    )
}

fn xdp_table(bed: &Bed, more: &str) -> String {
    format!("[xdp]\ninterfaces = [\"gslb0\"]\npin_path = \"{}\"\n{more}\n\n", bed.pins().display())
}

/// The eight-site example of `examples/`, on the paths of this test.
pub fn eight_sites(bed: &Bed, xdp: &str) -> String {
    let example = include_str!("../../../examples/eight-sites.toml");
    let (_, body) = example.split_once("[location]").expect("the example has [location]");
    format!("{}[location]{body}", head(bed, xdp))
}

/// A service without a monitor: up while enabled.
pub fn service(name: &str, address: &str) -> String {
    format!("[[service]]\nname = {name:?}\naddress = {address:?}\nport = 80\n\n")
}

/// A service at a place.
pub fn service_at(name: &str, address: &str, location: &str) -> String {
    format!("[[service]]\nname = {name:?}\naddress = {address:?}\nport = 80\nlocation = {location:?}\n\n")
}

/// A round-robin vserver and its one name `NAME.example.com`.
pub fn vserver(name: &str, services: &[&str], more: &str) -> String {
    format!(
        "[[vserver]]\nname = {name:?}\nmethod = \"round-robin\"\nservices = {services:?}\n{more}\n\n{}",
        domain(&format!("{name}.example.com"), name)
    )
}

/// A name.
pub fn domain(name: &str, vserver: &str) -> String {
    format!("[[domain]]\nname = {name:?}\nvserver = {vserver:?}\nttl = 5\n\n")
}

/// How many names of [`stable`] there are.
pub const STABLE: u8 = 8;

/// Names `s1` to `s8` under example.com, one address each: 192.0.2.1 to 192.0.2.8, and 2001:db8::1 to 8.
pub fn stable() -> String {
    let mut out = "[[zone]]\nname = \"example.com\"\n\n".to_owned();
    for i in 1..=STABLE {
        let _ = write!(
            out,
            "[[service]]\nname = \"s{i}\"\naddress = [\"192.0.2.{i}\", \"2001:db8::{i}\"]\nport = 80\n\n{}",
            vserver(&format!("s{i}"), &[&format!("s{i}")], "")
        );
    }
    out
}

/// Names `f1` and `f2`, each with two services that can be forced down: 198.51.100.1 to 4.
pub fn flapping() -> String {
    let mut out = String::new();
    for i in 1..=4 {
        out += &service(&format!("p{i}"), &format!("198.51.100.{i}"));
    }
    out + &vserver("f1", &["p1", "p2"], "") + &vserver("f2", &["p3", "p4"], "")
}

/// A policy that concerns some clients and changes no answer of the other names here: other classes, so another world.
pub fn policy(clients: &str) -> String {
    format!(
        "[[dns_action]]\nname = \"near\"\npreferred_locations = [\"Asia\"]\n\n[[dns_policy]]\nname = \"near\"\n\
         rule = 'CLIENT.IP.SRC.IN_SUBNET({clients})'\naction = \"near\"\npriority = 1\n\n"
    )
}
