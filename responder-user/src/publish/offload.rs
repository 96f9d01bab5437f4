//! VLAN tags that the driver takes off before a program sees the frame.
//!
//! A driver with `rx-vlan-offload` puts the tag beside the frame, where no XDP program of today can read it; a reply that
//! leaves from there (XDP_TX) leaves without it, into another VLAN. So where VLANs live on an interface, the tags must
//! stay in the frame: that is looked up, and what mends it is said. Without VLANs on it nobody tags what is sent to us.

use std::io;

use nix::{libc, sys::socket::SockProtocol};

use super::{
    PublishError,
    netlink::{ask, attribute, attributes, number, put, text},
};

const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;

/// An interface, as far as it says who stands on whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    index: u32,
    name: String,
    /// The interface under it, if that is in this namespace.
    below: Option<u32>,
    /// The bridge or bond that it belongs to.
    master: Option<u32>,
    is_vlan: bool,
}

/// Err if VLANs live on an interface whose driver takes their tags off.
pub fn refuse_stripped_tags(name: &str, index: u32) -> Result<(), PublishError> {
    let failed = |call| move |source| PublishError::Bpf { call, object: format!("interface {name}"), source };
    let Some(vlan) = vlan_on(&links().map_err(failed("RTM_GETLINK"))?, index) else { return Ok(()) };
    let features = match stripping(index) {
        Ok(features) => features,
        // A kernel without this interface, or a driver without features: nothing is taken off.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOENT)) => Vec::new(),
        Err(error) => return Err(failed("ETHTOOL_MSG_FEATURES_GET")(error)),
    };
    refusal(name, vlan, &features)
}

fn refusal(name: &str, vlan: String, features: &[&str]) -> Result<(), PublishError> {
    if features.is_empty() {
        return Ok(());
    }
    let switches: Vec<String> = features.iter().map(|feature| format!("{feature} off")).collect();
    let mend = format!("ethtool -K {name} {}", switches.join(" "));
    Err(PublishError::StrippedTags { interface: name.to_owned(), vlan, mend })
}

fn links() -> io::Result<Vec<Link>> {
    // ifinfomsg: family, type, index, flags, change
    let messages = ask(SockProtocol::NetlinkRoute, libc::RTM_GETLINK, true, &[0; 16])?;
    Ok(messages.iter().filter_map(|message| link(message)).collect())
}

fn link(message: &[u8]) -> Option<Link> {
    let index = u32::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let list = message.get(16..)?;
    let kind = attribute(list, IFLA_LINKINFO).and_then(|info| text(info, IFLA_INFO_KIND));
    let is_here = attribute(list, IFLA_LINK_NETNSID).is_none();
    Some(Link {
        index,
        name: text(list, IFLA_IFNAME)?.to_owned(),
        below: number(list, IFLA_LINK).filter(|_| is_here),
        master: number(list, IFLA_MASTER),
        is_vlan: kind == Some("vlan"),
    })
}

/// A VLAN on an interface, or on the bridge or bond that it belongs to.
fn vlan_on(links: &[Link], index: u32) -> Option<String> {
    let own = links.iter().find(|link| link.index == index)?;
    let carriers = [Some(index), own.master];
    let vlan =
        links.iter().find(|link| link.is_vlan && link.below.is_some() && carriers.contains(&link.below));
    vlan.map(|vlan| vlan.name.clone())
}

const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const NESTED: u16 = 1 << 15;

/// The features that take tags off, by their names in the kernel and in `ethtool -K`.
const STRIPPING: [(&str, &str); 2] =
    [("rx-vlan-hw-parse", "rxvlan"), ("rx-vlan-stag-hw-parse", "rx-vlan-stag-hw-parse")];

/// Those of them that are on.
fn stripping(index: u32) -> io::Result<Vec<&'static str>> {
    let mut request = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    put(&mut request, CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let answer = ask(SockProtocol::NetlinkGeneric, libc::GENL_ID_CTRL as u16, false, &request)?;
    let id = answer.first().and_then(|a| attribute(a.get(4..)?, CTRL_ATTR_FAMILY_ID)?.first_chunk().copied());
    let family = u16::from_ne_bytes(id.ok_or(io::ErrorKind::InvalidData)?);
    let mut header = Vec::new();
    put(&mut header, ETHTOOL_A_HEADER_DEV_INDEX, &index.to_ne_bytes());
    let mut request = vec![ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
    put(&mut request, ETHTOOL_A_FEATURES_HEADER | NESTED, &header);
    let answer = ask(SockProtocol::NetlinkGeneric, family, false, &request)?;
    Ok(answer.first().and_then(|a| a.get(4..)).map(active).unwrap_or_default())
}

/// The answer lists the bits that are set, by name.
fn active(features: &[u8]) -> Vec<&'static str> {
    let bits =
        attribute(features, ETHTOOL_A_FEATURES_ACTIVE).and_then(|set| attribute(set, ETHTOOL_A_BITSET_BITS));
    let names: Vec<&str> = attributes(bits.unwrap_or_default())
        .filter_map(|(_, bit)| text(bit, ETHTOOL_A_BITSET_BIT_NAME))
        .collect();
    STRIPPING.iter().filter(|(name, _)| names.contains(name)).map(|(_, switch)| *switch).collect()
}

#[cfg(test)]
mod tests {
    use responder_testbed::{End, Namespace, veth::connect};

    use super::*;

    fn chain() -> Vec<Link> {
        let link = |index, name: &str, below, master, is_vlan| Link {
            index,
            name: name.to_owned(),
            below,
            master,
            is_vlan,
        };
        vec![
            link(1, "lo", None, None, false),
            link(2, "eth0", None, None, false),
            link(3, "eth1", None, Some(5), false),
            link(4, "eth0.100", Some(2), None, true),
            link(5, "bond0", None, None, false),
            link(6, "bond0.7", Some(5), None, true),
            link(7, "mac0", Some(1), None, false),
        ]
    }

    #[test]
    fn vlans_are_found_on_an_interface_and_on_its_bond() {
        let found = |index| vlan_on(&chain(), index);
        assert_eq!(
            (found(2), found(3), found(5)),
            (Some("eth0.100".into()), Some("bond0.7".into()), Some("bond0.7".into()))
        );
        assert_eq!(
            (found(1), found(4), found(9)),
            (None, None, None),
            "lo carries no VLAN, nor does a VLAN itself"
        );
    }

    #[test]
    fn the_refusal_names_the_line_that_mends_it() {
        assert!(refusal("eth0", "eth0.100".into(), &[]).is_ok());
        let error = refusal("eth0", "eth0.100".into(), &["rxvlan", "rx-vlan-stag-hw-parse"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "interface eth0: carries the VLAN eth0.100, and its driver takes the tags off: answers from XDP would leave \
             without them; switch that off: ethtool -K eth0 rxvlan off rx-vlan-stag-hw-parse off"
        );
    }

    /// Needs root and ethtool, as the end-to-end tests do.
    #[test]
    fn the_kernel_says_which_tags_are_taken_off() {
        let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let end = |namespace, interface| End { namespace, interface, addresses: &[] };
        connect(end(&one, "tag0"), end(&other, "tag1")).unwrap();
        let index = || one.run(|| nix::net::if_::if_nametoindex("tag0")).unwrap().unwrap();
        let on = || one.run(|| stripping(index())).unwrap().unwrap();
        assert_eq!(on(), ["rxvlan", "rx-vlan-stag-hw-parse"], "a veth can take them off");
        one.output("ethtool", &["-K", "tag0", "rxvlan", "off"]).unwrap();
        assert_eq!(on(), ["rx-vlan-stag-hw-parse"]);
        one.output("ethtool", &["-K", "tag0", "rx-vlan-stag-hw-parse", "off"]).unwrap();
        assert_eq!(on(), [""; 0]);
        let links = one.run(links).unwrap().unwrap();
        let tag0 = links.iter().find(|link| link.name == "tag0").expect("it is listed");
        assert_eq!(
            (tag0.index, tag0.below, tag0.is_vlan),
            (index(), None, false),
            "its other end is elsewhere"
        );
        assert!(one.run(|| refuse_stripped_tags("tag0", index())).unwrap().is_ok(), "no VLAN is on it");
    }
}
