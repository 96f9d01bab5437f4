//! What the host says of its interfaces: index, MAC, addresses, and which XDP program they carry.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use nix::{ifaddrs::getifaddrs, libc, sys::socket::SockProtocol};
use responder_common::{
    layout::{Interface, Listen6},
    limits::{MAX_INTERFACES, MAX_LISTEN},
};

use super::{
    PublishError,
    netlink::{ask, attribute, number},
};

/// An interface of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInterface {
    /// Name.
    pub name: String,
    /// Index; 0: it does not exist.
    pub index: u32,
    /// MAC address.
    pub mac: [u8; 6],
    /// IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    /// Up and with a carrier.
    pub is_up: bool,
}

/// All interfaces of this network namespace.
pub fn all() -> io::Result<Vec<HostInterface>> {
    let mut out: Vec<HostInterface> = Vec::new();
    for entry in getifaddrs()? {
        let at = out.iter().position(|i| i.name == entry.interface_name).unwrap_or_else(|| {
            out.push(HostInterface { name: entry.interface_name.clone(), ..HostInterface::default() });
            out.len() - 1
        });
        let interface = &mut out[at];
        let flags = nix::net::if_::InterfaceFlags::IFF_UP | nix::net::if_::InterfaceFlags::IFF_RUNNING;
        interface.is_up |= entry.flags.contains(flags);
        let Some(address) = entry.address else { continue };
        if let Some(link) = address.as_link_addr() {
            interface.index = link.ifindex() as u32;
            interface.mac = link.addr().unwrap_or_default();
        } else if let Some(v4) = address.as_sockaddr_in() {
            interface.addresses.push(IpAddr::V4(v4.ip()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            interface.addresses.push(IpAddr::V6(v6.ip()));
        }
    }
    Ok(out)
}

/// One interface by name.
pub fn named(name: &str) -> Result<HostInterface, PublishError> {
    all()
        .map_err(|source| PublishError::Bpf { call: "getifaddrs", object: name.to_owned(), source })?
        .into_iter()
        .find(|interface| interface.name == name)
        .ok_or_else(|| PublishError::NoInterface { name: name.to_owned() })
}

/// What the program answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// The listed addresses, and in the place of wildcards those of the interfaces.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of wildcards that found no place; workers answer for them.
    pub left_out: Vec<SocketAddr>,
}

/// What keeps `xdp.route_check` from finding any way on an interface: bpf_fib_lookup asks only where the kernel forwards. One
/// line for each family that is listened to, with what mends it.
pub fn without_forwarding(name: &str, listen: &[SocketAddr]) -> Vec<String> {
    let families = [("ipv4", "IPv4", true), ("ipv6", "IPv6", false)];
    let lacking = families.into_iter().filter(|(folder, _, is_ipv4)| {
        let switch = format!("/proc/sys/net/{folder}/conf/{name}/forwarding");
        listen.iter().any(|address| address.is_ipv4() == *is_ipv4)
            && std::fs::read_to_string(switch).is_ok_and(|word| word.trim() == "0")
    });
    let say = |(folder, family, _)| {
        format!(
            "xdp.route_check: interface {name} does not forward {family}, so the kernel tells no way back and XDP answers no \
             {family} query there: sysctl -w net.{folder}.conf.{name}.forwarding=1"
        )
    };
    lacking.map(say).collect()
}

/// Wildcards mean the addresses of the given interfaces, link-local ones last: of each family there is room for so many.
pub fn listening(listen: &[SocketAddr], interfaces: &[HostInterface]) -> Listening {
    let is_local = |address: &IpAddr| matches!(address, IpAddr::V6(a) if a.is_unicast_link_local());
    let mut own: Vec<IpAddr> = interfaces.iter().flat_map(|i| i.addresses.iter().copied()).collect();
    own.sort_by_key(is_local);
    let (wild, listed): (Vec<SocketAddr>, Vec<SocketAddr>) =
        listen.iter().partition(|address| address.ip().is_unspecified());
    let of_wild = wild.iter().flat_map(|wild| {
        let fits = own.iter().filter(|address| address.is_ipv4() == wild.is_ipv4());
        fits.map(|address| SocketAddr::new(*address, wild.port()))
    });
    let mut out = Listening::default();
    for (address, is_listed) in listed.iter().map(|a| (*a, true)).chain(of_wild.map(|a| (a, false))) {
        let of_family = out.addresses.iter().filter(|a| a.is_ipv4() == address.is_ipv4()).count();
        if out.addresses.contains(&address) {
            continue;
        }
        // Too many that are listed are refused by `listen_words`.
        if is_listed || of_family < MAX_LISTEN {
            out.addresses.push(address);
        } else {
            out.left_out.push(address);
        }
    }
    out
}

/// The control words for listening addresses: what the program compares packets with.
pub fn listen_words(
    addresses: &[SocketAddr],
) -> Result<([u64; MAX_LISTEN], [Listen6; MAX_LISTEN]), PublishError> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in addresses {
        let port = u64::from(address.port().to_be());
        match address.ip() {
            IpAddr::V4(a) => v4.push((u64::from(u32::from_ne_bytes(a.octets())) << 16) | port),
            IpAddr::V6(a) => v6.push(Listen6 { address: bytemuck::cast(a.octets()), port }),
        }
    }
    Ok((array("listen.addresses (IPv4)", &v4)?, array("listen.addresses (IPv6)", &v6)?))
}

/// The control words for interfaces. One without a MAC address gets no frames to compare it with.
pub fn interface_words(interfaces: &[HostInterface]) -> Result<[Interface; MAX_INTERFACES], PublishError> {
    let words: Vec<Interface> = interfaces
        .iter()
        .filter(|interface| interface.mac != [0; 6])
        .map(|interface| {
            let mut mac = [0; 8];
            mac[..6].copy_from_slice(&interface.mac);
            Interface { mac: u64::from_ne_bytes(mac), ifindex: u64::from(interface.index) }
        })
        .collect();
    array("xdp.interfaces", &words)
}

fn array<T: bytemuck::Zeroable + Copy, const N: usize>(
    what: &'static str,
    list: &[T],
) -> Result<[T; N], PublishError> {
    let mut out = [T::zeroed(); N];
    out.get_mut(..list.len())
        .ok_or(PublishError::TooMany { what, count: list.len(), limit: N })?
        .copy_from_slice(list);
    Ok(out)
}

/// The rows that are wanted, each where it is now if it is there already, and without a gap: the program reads up to the
/// first row that is unused. The control words say the same to every packet while other rows come and go.
pub fn arrange<T: bytemuck::Pod + PartialEq, const N: usize>(now: &[T; N], wanted: &[T; N]) -> [T; N] {
    let is_used = |row: &T| *row != T::zeroed();
    let count = wanted.iter().filter(|row| is_used(row)).count();
    let stays = |row: &T| is_used(row) && wanted.contains(row);
    let mut out = [T::zeroed(); N];
    for (place, row) in out.iter_mut().zip(now).take(count).filter(|(_, row)| stays(row)) {
        *place = *row;
    }
    let placed = out;
    let mut others = wanted.iter().filter(|row| is_used(row) && !placed.contains(row));
    for place in out.iter_mut().take(count).filter(|place| !is_used(place)) {
        if let Some(row) = others.next() {
            *place = *row;
        }
    }
    out
}

/// How a program is attached (IFLA_XDP_ATTACHED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedMode {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In hardware, or several at once.
    Other,
}

impl AttachedMode {
    /// The word of `status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Other => "other",
        }
    }
}

const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// The XDP program on an interface, if there is one: how, and its id.
pub fn xdp_on(index: u32) -> io::Result<Option<(AttachedMode, u32)>> {
    // ifinfomsg: family, type, index, flags, change
    let mut request = vec![0; 16];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(SockProtocol::NetlinkRoute, libc::RTM_GETLINK, false, &request)?;
    let link = answer.first().and_then(|message| message.get(16..)).unwrap_or_default();
    Ok(attribute(link, IFLA_XDP).and_then(|xdp| {
        let mode = match *attribute(xdp, IFLA_XDP_ATTACHED)?.first()? {
            0 => return None,
            1 => AttachedMode::Native,
            2 => AttachedMode::Generic,
            _ => AttachedMode::Other,
        };
        Some((mode, number(xdp, IFLA_XDP_PROG_ID)?))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(addresses: &[&str]) -> HostInterface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        HostInterface { addresses, ..HostInterface::default() }
    }

    #[test]
    fn wildcards_mean_the_addresses_of_the_interfaces_each_once() {
        let listen =
            ["0.0.0.0:53", "[::]:5353", "192.0.2.1:53", "198.51.100.1:53"].map(|a| a.parse().unwrap());
        let interfaces = [interface(&["fe80::1", "2001:db8::1", "192.0.2.1"]), interface(&["192.0.2.2"])];
        let found = listening(&listen, &interfaces);
        let shown: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["192.0.2.1:53", "198.51.100.1:53", "192.0.2.2:53", "[2001:db8::1]:5353", "[fe80::1]:5353"]
        );
        assert!(found.left_out.is_empty());
    }

    #[test]
    fn wildcards_of_many_addresses_fill_what_there_is_and_the_rest_is_named() {
        let many: Vec<String> = (0..20).map(|i| format!("192.0.2.{i}")).collect();
        let interfaces = [interface(&many.iter().map(String::as_str).collect::<Vec<_>>())];
        let listen = ["0.0.0.0:53", "198.51.100.1:53"].map(|a| a.parse().unwrap());
        let found = listening(&listen, &interfaces);
        assert_eq!(found.addresses[0], listen[1], "what is listed comes first");
        assert_eq!((found.addresses.len(), found.left_out.len()), (MAX_LISTEN, 5));
        assert!(listen_words(&found.addresses).is_ok());
    }

    #[test]
    fn an_interface_without_a_mac_does_not_hide_the_others() {
        let with =
            |name: &str, index, mac| HostInterface { name: name.into(), index, mac, ..Default::default() };
        let words = interface_words(&[with("lo", 1, [0; 6]), with("eth0", 2, [2, 0, 0, 0, 0, 1])]).unwrap();
        assert_eq!((words[0].ifindex, words[1].mac), (2, 0));
    }

    #[test]
    fn rows_that_stay_keep_their_place_and_there_is_no_gap() {
        assert_eq!(arrange(&[1_u64, 2, 3, 0], &[9, 1, 2, 3]), [1, 2, 3, 9], "one more");
        assert_eq!(arrange(&[1_u64, 2, 3, 0], &[1, 3, 0, 0]), [1, 3, 0, 0], "the last one fills the gap");
        assert_eq!(arrange(&[1_u64, 2, 3, 0], &[3, 7, 2, 0]), [7, 2, 3, 0], "one for another");
        assert_eq!(arrange(&[0_u64; 4], &[3, 2, 1, 0]), [3, 2, 1, 0]);
        assert_eq!(arrange(&[1_u64, 2, 3, 4], &[0; 4]), [0; 4]);
    }
}
