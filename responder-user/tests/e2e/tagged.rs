//! A query with a VLAN tag is answered from XDP, and the answer carries the same tag.
//!
//! This kernel may have no 802.1Q devices, so the frame is made by hand and sent by a packet socket. The kernel takes the
//! tag off before a packet socket sees a frame, and tells it beside the data.

#![expect(unsafe_code, reason = "recvmsg with PACKET_AUXDATA, which nix does not know; a signal handler")]

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    libc,
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};

use crate::{
    bed::Bed,
    daemon::Daemon,
    dns::{self, A},
    text,
};

const TAG: u16 = 0x2064; // priority 1, VLAN 100

/// A packet socket on an interface of this thread's namespace.
pub fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain numbers.
    let fd =
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all octets zero are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = index as i32;
    let on: libc::c_int = 1;
    let second = libc::timeval { tv_sec: 0, tv_usec: 200_000 };
    // SAFETY: each pointer leads to a live value of the size that is given.
    let failed = unsafe {
        libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) != 0
            || libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, (&raw const on).cast(), 4) != 0
            || libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const second).cast(), 16) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Makes a signal end the system call of the thread that it is sent to, and do nothing else.
pub fn interrupt_by(signal: Signal) {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // Without SA_RESTART: the call ends with EINTR.
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing, so it may run at any moment.
    unsafe { sigaction(signal, &action) }.expect("sigaction");
}

/// The next frame and its tag; None after a while.
fn receive(socket: &OwnedFd) -> Option<(Vec<u8>, Option<u16>)> {
    let mut frame = vec![0_u8; 2048];
    let mut control = [0_u64; 16];
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: all octets zero are a valid msghdr; its pointers lead to buffers that outlive the calls; the kernel and
    // the CMSG functions stay within the lengths that are given.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let len = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
        frame.truncate(usize::try_from(len).ok()?);
        let mut tag = None;
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_PACKET && (*head).cmsg_type == libc::PACKET_AUXDATA {
                let auxiliary: libc::tpacket_auxdata =
                    libc::CMSG_DATA(head).cast::<libc::tpacket_auxdata>().read_unaligned();
                if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    tag = Some(auxiliary.tp_vlan_tci);
                }
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
        Some((frame, tag))
    }
}

/// The MAC address of an interface.
pub fn mac(namespace_of: impl Fn(&str) -> String, interface: &str) -> [u8; 6] {
    let text = namespace_of(&format!("-o link show dev {interface}"));
    let word = text.split("link/ether ").nth(1).expect("a MAC").split(' ').next().unwrap();
    let octets: Vec<u8> = word.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}

/// Ethernet with one tag, IPv4 and UDP around a message.
fn frame(to: [u8; 6], from: [u8; 6], message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(to);
    out.extend(from);
    out.extend([0x81, 0]);
    out.extend(TAG.to_be_bytes());
    out.extend([8, 0]);
    let total = 20 + 8 + message.len() as u16;
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 53, 0, 2, 10, 53, 0, 1]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    out.extend(header);
    out.extend(40_000_u16.to_be_bytes());
    out.extend(53_u16.to_be_bytes());
    out.extend((8 + message.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(message);
    out
}

#[test]
fn a_tagged_query_gets_a_tagged_answer_from_xdp() {
    let bed = Bed::new();
    let text = text::head(&bed, "mode = \"native\"") + &text::stable();
    let daemon = Daemon::start(&bed, &bed.write("responder.toml", &text));
    let server = mac(|line| bed.ip(line), "gslb0");
    let client = mac(|line| bed.client_ip(line), "cli0");
    let message = dns::query(0x4242, "s3.example.com", A);
    let sent = frame(server, client, &message);
    let socket = bed.in_client(|| packet_socket("cli0")).expect("a packet socket");
    let before = daemon.stats()["xdp_answer_a"];
    nix::unistd::write(&socket, &sent).expect("the frame is sent");
    let deadline = Instant::now() + Duration::from_secs(5);
    let (reply, tag) = loop {
        assert!(Instant::now() < deadline, "no answer");
        let Some((frame, tag)) = receive(&socket) else { continue };
        // Our own frame is seen as well.
        if frame.get(..6) == Some(&client)
            && frame.get(6..12) == Some(&server)
            && frame.ends_with(&[192, 0, 2, 3])
        {
            break (frame, tag);
        }
    };
    assert_eq!(tag, Some(TAG), "the answer carries the tag of the query");
    let reply = dns::read(&message, &reply[14 + 28..]);
    assert_eq!((reply.rcode, reply.answers, reply.aa), (0, 1, true));
    assert_eq!(daemon.stats()["xdp_answer_a"] - before, 1, "from XDP");
}
