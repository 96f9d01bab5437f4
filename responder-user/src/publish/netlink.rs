//! Questions to the kernel by netlink, and a socket that tells when something changed.
//!
//! What a notification says is not read: it is a reason to look again, so that a lost one costs nothing but time.

use std::{io, os::fd::AsRawFd, time::Duration};

use nix::{
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
    },
};
use tokio::{
    io::Interest,
    net::UdpSocket,
    time::{Instant, sleep_until},
};

/// `struct nlmsghdr`
const HEADER: usize = 16;

/// Longest datagram that the kernel sends us.
const DATAGRAM: usize = 64 * 1024;

/// The kernel's answer to one request: payloads of messages, without headers.
pub fn ask(protocol: SockProtocol, kind: u16, is_dump: bool, payload: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let flags = libc::NLM_F_REQUEST | if is_dump { libc::NLM_F_DUMP } else { 0 };
    let mut request = Vec::with_capacity(HEADER + payload.len());
    // Length, type, flags, sequence, port.
    request.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((flags as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(payload);
    sendto(fd.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut out = Vec::new();
    let mut datagram = vec![0; DATAGRAM];
    loop {
        let length = recv(fd.as_raw_fd(), &mut datagram, MsgFlags::empty())?;
        let mut rest = &datagram[..length];
        while let Some((kind, message, behind)) = message(rest) {
            rest = behind;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(out),
                libc::NLMSG_ERROR => {
                    let code = message.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return if code == 0 { Ok(out) } else { Err(io::Error::from_raw_os_error(-code)) };
                }
                _ => out.push(message.to_vec()),
            }
        }
        if !is_dump {
            return Ok(out);
        }
    }
}

/// The first message: type, payload, and what follows it.
fn message(rest: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes([*rest.get(4)?, *rest.get(5)?]);
    let payload = rest.get(HEADER..length)?;
    Some((kind, payload, rest.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Attributes: type and payload.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head: &[u8; 4] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let payload = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The first attribute of a type.
pub fn attribute(attributes_: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(attributes_).find(|(found, _)| *found == kind).map(|(_, payload)| payload)
}

/// An attribute that is a number.
pub fn number(attributes_: &[u8], kind: u16) -> Option<u32> {
    attribute(attributes_, kind)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

/// An attribute that is a text with a zero at its end.
pub fn text(attributes_: &[u8], kind: u16) -> Option<&str> {
    let octets = attribute(attributes_, kind)?;
    std::str::from_utf8(octets.strip_suffix(&[0]).unwrap_or(octets)).ok()
}

/// One attribute, padded.
pub fn put(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    out.extend(((4 + payload.len()) as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Changes that come within this are looked at together.
const TOGETHER: Duration = Duration::from_millis(20);

/// Tells when a link or an address of this network namespace changes.
#[derive(Debug)]
pub struct Watch {
    /// A netlink socket; to the reactor of tokio, which knows no such type, all sockets of datagrams are the same.
    socket: UdpSocket,
    /// When what was heard is to be told.
    due: Option<Instant>,
}

impl Watch {
    /// Needs a tokio runtime with I/O and time.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups as u32))?;
        Ok(Self { socket: UdpSocket::from_std(fd.into())?, due: None })
    }

    /// Waits for a change. Nothing is lost where the future is dropped. Err: the socket is broken.
    pub async fn changed(&mut self) -> io::Result<()> {
        let due = if let Some(due) = self.due {
            due
        } else {
            self.socket.readable().await?;
            self.drain()?;
            *self.due.insert(Instant::now() + TOGETHER)
        };
        sleep_until(due).await;
        self.due = None;
        self.drain()
    }

    fn drain(&self) -> io::Result<()> {
        let mut scraps = [0; 4096];
        let mut receive = || Ok(recv(self.socket.as_raw_fd(), &mut scraps, MsgFlags::empty())?);
        loop {
            match self.socket.try_io(Interest::READABLE, &mut receive) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // More than the buffer held: some are lost, but that there were some is known.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_damaged_ones_end_the_list() {
        let mut list = Vec::new();
        put(&mut list, 3, b"eth0\0");
        put(&mut list, 5, &7_u32.to_ne_bytes());
        assert_eq!((text(&list, 3), number(&list, 5), number(&list, 3 + 1)), (Some("eth0"), Some(7), None));
        for cut in 0..list.len() {
            assert!(attributes(&list[..cut]).count() <= 2);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0, "shorter than its own head");
    }

    #[test]
    fn messages_end_where_their_length_says() {
        let mut octets = 20_u32.to_ne_bytes().to_vec();
        octets.extend([2, 0]);
        octets.resize(20, 9);
        octets.extend([1, 2, 3, 4]);
        let (kind, payload, rest) = message(&octets).unwrap();
        assert_eq!((kind, payload, rest), (2, &[9; 4][..], &[1, 2, 3, 4][..]));
        assert!(message(rest).is_none());
        assert!(message(&octets[..19]).is_none());
    }

    /// Needs root. The loop of the daemon gives the wait up whenever something else happens.
    #[test]
    fn a_change_is_told_though_the_wait_for_it_is_given_up_all_the_time() {
        let namespace = responder_testbed::Namespace::new().expect("root");
        let told = namespace.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut watch = Watch::open().unwrap();
                let quiet = tokio::time::timeout(4 * TOGETHER, watch.changed()).await;
                assert!(quiet.is_err(), "nothing happened yet: {quiet:?}");
                namespace.ip("address add 192.0.2.1/32 dev lo").unwrap();
                for _ in 0..1000 {
                    if let Ok(told) = tokio::time::timeout(TOGETHER / 20, watch.changed()).await {
                        return told.is_ok();
                    }
                }
                false
            })
        });
        assert!(told.expect("a thread in the namespace"));
    }
}
