//! What the host says of its interfaces: index, MAC, addresses, and which XDP program they carry.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
};

use nix::{
    ifaddrs::getifaddrs,
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrLike, recv, sendto,
        socket,
    },
};
use responder_common::{
    layout::{Interface, Listen6},
    limits::{MAX_INTERFACES, MAX_LISTEN},
};

use super::PublishError;

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

/// The control words for listening addresses: what the program compares packets with. Wildcards mean the addresses of
/// the given interfaces.
pub fn listen_words(
    listen: &[SocketAddr],
    interfaces: &[HostInterface],
) -> Result<([u64; MAX_LISTEN], [Listen6; MAX_LISTEN]), PublishError> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in listen {
        let own = interfaces.iter().flat_map(|i| i.addresses.iter().copied());
        let all: Vec<IpAddr> = if address.ip().is_unspecified() {
            own.filter(|a| a.is_ipv4() == address.is_ipv4()).collect()
        } else {
            vec![address.ip()]
        };
        let port = u64::from(address.port().to_be());
        for ip in all {
            match ip {
                IpAddr::V4(a) => v4.push((u64::from(u32::from_ne_bytes(a.octets())) << 16) | port),
                IpAddr::V6(a) => v6.push(Listen6 { address: bytemuck::cast(a.octets()), port }),
            }
        }
    }
    v4.dedup();
    v6.dedup();
    Ok((array("listen.addresses (IPv4)", &v4)?, array("listen.addresses (IPv6)", &v6)?))
}

/// The control words for interfaces.
pub fn interface_words(interfaces: &[HostInterface]) -> Result<[Interface; MAX_INTERFACES], PublishError> {
    let words: Vec<Interface> = interfaces
        .iter()
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
    let fd =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    let mut request = Vec::with_capacity(32);
    // nlmsghdr: length, RTM_GETLINK, NLM_F_REQUEST, sequence, port
    request.extend(32_u32.to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    // ifinfomsg: family, type, index, flags, change
    request.extend([0; 4]);
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]);
    sendto(fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = vec![0; 65_536];
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    debug_assert_eq!(NetlinkAddr::size() as usize, size_of::<libc::sockaddr_nl>());
    let kind = answer.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    if kind == Some(libc::NLMSG_ERROR as u16) {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    Ok(attributes(answer.get(32..).unwrap_or_default()).find(|(kind, _)| *kind == IFLA_XDP).and_then(
        |(_, xdp)| {
            let attached =
                attributes(xdp).find(|(kind, _)| *kind == IFLA_XDP_ATTACHED)?.1.first().copied()?;
            let id = attributes(xdp).find(|(kind, _)| *kind == IFLA_XDP_PROG_ID)?.1.first_chunk()?;
            let mode = match attached {
                0 => return None,
                1 => AttachedMode::Native,
                2 => AttachedMode::Generic,
                _ => AttachedMode::Other,
            };
            Some((mode, u32::from_ne_bytes(*id)))
        },
    ))
}

/// Netlink attributes: type and payload.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head: &[u8; 4] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let payload = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}
