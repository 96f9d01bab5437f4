//! The one file with system calls that have no safe wrapper: many datagrams per call, with the address each came to.
#![expect(unsafe_code, reason = "recvmmsg, sendmmsg and setsockopt take raw pointers")]

use std::{
    io,
    mem::{offset_of, size_of},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use nix::libc;
use responder_common::limits::EDNS_PAYLOAD;

/// Datagrams of one call.
pub const BATCH: usize = 64;

/// Octets of a query that are read. A query has at most 271 but for its options; a longer message is cut, which
/// [`Exchange::is_cut`] tells.
pub const QUERY_ROOM: usize = 4096;

/// Octets of a reply.
pub const REPLY_ROOM: usize = EDNS_PAYLOAD as usize;

/// Room for one IPV6_PKTINFO, the longer of the two control messages, aligned as `cmsghdr` wants it.
const CONTROL_ROOM: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; CONTROL_ROOM]);

const _: () = {
    // SAFETY: CMSG_SPACE computes with its argument alone.
    assert!(unsafe { libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32) } as usize <= CONTROL_ROOM);
    assert!(align_of::<libc::cmsghdr>() <= align_of::<Control>());
};

/// Buffers for one socket. Everything is allocated once.
pub struct Batch {
    input: Box<[u8]>,
    output: Box<[u8]>,
    names: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
    received: Box<[libc::mmsghdr]>,
    /// Which datagram is answered with how many octets.
    replies: Vec<(usize, usize)>,
}

/// A received datagram and the room for its reply.
pub struct Exchange<'b> {
    /// Who sent it; None: an address of no family of ours.
    pub client: Option<SocketAddr>,
    /// The message.
    pub query: &'b [u8],
    /// The message was longer than [`QUERY_ROOM`].
    pub is_cut: bool,
    /// The reply goes here.
    pub reply: &'b mut [u8],
}

impl Batch {
    /// Empty buffers.
    pub fn new() -> Self {
        // SAFETY: all-zero is a value of both types: integers, null pointers and arrays of them.
        let (name, header): (libc::sockaddr_storage, libc::mmsghdr) = unsafe { std::mem::zeroed() };
        Self {
            input: vec![0; BATCH * QUERY_ROOM].into(),
            output: vec![0; BATCH * REPLY_ROOM].into(),
            names: vec![name; BATCH].into(),
            controls: vec![Control([0; CONTROL_ROOM]); BATCH].into(),
            received: vec![header; BATCH].into(),
            replies: Vec::with_capacity(BATCH),
        }
    }

    /// Takes what waits at the socket, at most [`BATCH`] datagrams. Err(WouldBlock): nothing.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.replies.clear();
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        for (i, header) in self.received.iter_mut().enumerate() {
            let room = &mut self.input[i * QUERY_ROOM..][..QUERY_ROOM];
            parts[i] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: QUERY_ROOM };
            header.msg_hdr.msg_name = (&raw mut self.names[i]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_hdr.msg_iov = &raw mut parts[i];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut self.controls[i]).cast();
            header.msg_hdr.msg_controllen = CONTROL_ROOM as _;
            header.msg_hdr.msg_flags = 0;
            header.msg_len = 0;
        }
        // SAFETY:
        // - there are BATCH headers; each points to one iovec, one name and one control buffer of the stated sizes;
        // - no two point to the same memory, and all of it outlives the call;
        // - the descriptor is borrowed, so it is open.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.received.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// The `i`th datagram of the last [`Self::receive`]; `i` is below what that returned.
    pub fn exchange(&mut self, i: usize) -> Exchange<'_> {
        let header = &self.received[i];
        let len = (header.msg_len as usize).min(QUERY_ROOM);
        Exchange {
            client: address(&self.names[i], header.msg_hdr.msg_namelen),
            query: &self.input[i * QUERY_ROOM..][..len],
            is_cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            reply: &mut self.output[i * REPLY_ROOM..][..REPLY_ROOM],
        }
    }

    /// The reply to the `i`th datagram has `len` octets and goes out with the next [`Self::send`].
    pub fn queue(&mut self, i: usize, len: usize) {
        if self.replies.len() < BATCH {
            self.replies.push((i, len.min(REPLY_ROOM)));
        }
    }

    /// Sends what is queued, each reply from the address that its query came to. Returns how many the kernel did not
    /// take: a full buffer or an unreachable client costs that reply, as on any network.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> usize {
        let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all-zero is a value of the type: integers and null pointers.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = self.replies.len();
        for (slot, &(i, len)) in self.replies.iter().enumerate() {
            let reply = &mut self.output[i * REPLY_ROOM..][..len];
            parts[slot] = libc::iovec { iov_base: reply.as_mut_ptr().cast(), iov_len: len };
            let from = &self.received[i].msg_hdr;
            let to = &mut headers[slot].msg_hdr;
            to.msg_name = (&raw mut self.names[i]).cast();
            to.msg_namelen = from.msg_namelen;
            to.msg_iov = &raw mut parts[slot];
            to.msg_iovlen = 1;
            let used = forget_interface(&mut self.controls[i], from.msg_controllen);
            if used > 0 {
                to.msg_control = (&raw mut self.controls[i]).cast();
                to.msg_controllen = used as _;
            }
        }
        self.replies.clear();
        let (mut at, mut failed) = (0, 0);
        while at < count {
            // SAFETY:
            // - `headers[at..count]` are filled in above; each points to one iovec, one name and one control buffer,
            //   all of which outlive the call and are only read;
            // - the descriptor is borrowed, so it is open.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    headers[at..].as_mut_ptr(),
                    (count - at) as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => at += sent,
                _ => match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return failed + (count - at),
                    // The first of the rest is what it could not send: leave it out.
                    _ => (at, failed) = (at + 1, failed + 1),
                },
            }
        }
        failed
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes of the received packet information what a reply needs: the same local address, any interface (the way back
/// may be another one; a link-local client carries its scope in its address). Returns the octets of control data.
fn forget_interface(control: &mut Control, used: usize) -> usize {
    let header_len = size_of::<libc::cmsghdr>();
    if used < header_len || used > CONTROL_ROOM {
        return 0;
    }
    // SAFETY: the buffer is as long and as aligned as a cmsghdr, and any octets are a value of it.
    let header: libc::cmsghdr = unsafe { ptr::read(control.0.as_ptr().cast()) };
    // Data begin behind the header, which is already aligned for them on every target of ours.
    let index_at = header_len
        + match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => offset_of!(libc::in_pktinfo, ipi_ifindex),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => offset_of!(libc::in6_pktinfo, ipi6_ifindex),
            _ => return 0,
        };
    let Some(index) = control.0.get_mut(index_at..index_at + 4) else { return 0 };
    index.fill(0);
    used
}

/// A socket address of the kernel.
fn address(storage: &libc::sockaddr_storage, len: libc::socklen_t) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: sockaddr_storage is made to hold and to align every kind of address; the kernel wrote this kind.
            let v4 = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Options of a UDP socket: which address a datagram came to, if the socket is bound to all of them; and never a path
/// MTU below the payload that we promise, which forged ICMP would lower to fragment our replies (RFC 9715 3.1).
pub fn prepare_udp(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let (level, info, discover, omit) = match address {
        SocketAddr::V4(_) => {
            (libc::IPPROTO_IP, libc::IP_PKTINFO, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
        }
        SocketAddr::V6(_) => {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)
        }
    };
    set(socket, level, discover, &omit)?;
    if address.ip().is_unspecified() { set(socket, level, info, &1) } else { Ok(()) }
}

fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: &libc::c_int) -> io::Result<()> {
    // SAFETY:
    // - the pointer and the length describe `value`, which the kernel only reads, and which holds no pointer;
    // - the descriptor is borrowed, so it is open.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
