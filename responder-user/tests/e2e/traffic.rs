//! What is no DNS goes on as if there were no program, while that answers load: ARP, ICMP, TCP, fragments, IPv4 options,
//! IPv6 extension headers, broadcasts, frames of more than 1500 octets. What is sent comes, to the last one.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::{
    bed::Bed,
    daemon::{Daemon, rise},
    dns::{self, A, AAAA},
    is_full,
    load::{self, Load},
    say, tagged, text,
};

const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 1);
const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 2);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, 1);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, 2);

/// Ports of the peer that sends everything back, and of who asks it.
const ECHO: u16 = 9000;
const ASKS: u16 = 9001;

/// A reply that takes longer is none.
const LOST: Duration = Duration::from_secs(2);

const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The Internet checksum (RFC 1071) of parts of even length but the last.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 packet from client to server; options fill whole words.
fn ipv4(protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut out = vec![0x40 | (header / 4) as u8, 0];
    out.extend(((header + payload.len()) as u16).to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    out.extend(CLIENT_V4.octets());
    out.extend(SERVER_V4.octets());
    out.extend(options);
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum);
    out.extend(payload);
    out
}

/// An IPv6 packet; `headers` are extension headers in front of the payload, the first of type `next`.
fn ipv6(next: u8, headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend(((headers.len() + payload.len()) as u16).to_be_bytes());
    out.extend([next, 64]);
    out.extend(CLIENT_V6.octets());
    out.extend(SERVER_V6.octets());
    out.extend(headers);
    out.extend(payload);
    out
}

/// Puts the checksum of an upper protocol over IPv6 at an offset of its header.
fn sum_v6(protocol: u8, mut payload: Vec<u8>, at: usize) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let sum = checksum(&[&CLIENT_V6.octets(), &SERVER_V6.octets(), &length, &[0, 0, 0, protocol], &payload]);
    payload[at..at + 2].copy_from_slice(&sum);
    payload
}

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = [ASKS.to_be_bytes(), to.to_be_bytes()].concat();
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

/// An echo request with a number.
fn echo_request(kind: u8, number: u16) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0, 0x52, 0x53];
    out.extend(number.to_be_bytes());
    out.extend((0..56).map(|i| i ^ number as u8));
    out
}

/// Puts a payload into a packet.
type Wrap<'a> = &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync);

/// What was sent, and what of it came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    sent: u64,
    back: u64,
}

impl Count {
    fn note(&mut self, is_back: bool) {
        self.sent += 1;
        self.back += u64::from(is_back);
    }
}

/// Both ends of the cable, for frames made by hand.
#[derive(Clone, Copy)]
struct Cable<'a> {
    bed: &'a Bed,
    server: [u8; 6],
    client: [u8; 6],
}

impl Cable<'_> {
    fn socket(&self) -> OwnedFd {
        let socket = self.bed.in_client(|| tagged::packet_socket("cli0")).expect("a packet socket");
        // It sees all of the load, too, while its thread waits for a CPU.
        setsockopt(&socket, RcvBufForce, &(32 << 20)).expect("a large buffer");
        socket
    }

    fn frame(&self, to: [u8; 6], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        [&to[..], &self.client, &ethertype.to_be_bytes(), packet].concat()
    }

    /// Sends a frame and waits for the one that answers it.
    fn ask(&self, socket: &OwnedFd, frame: &[u8], is_answer: impl Fn(&[u8]) -> bool) -> bool {
        nix::unistd::write(socket, frame).expect("the frame is sent");
        let deadline = Instant::now() + LOST;
        let mut buffer = [0; 4096];
        while Instant::now() < deadline {
            let Ok(len) = nix::unistd::read(socket, &mut buffer) else { continue };
            // Our own frames are seen as well.
            if buffer[6..12] == self.server && is_answer(&buffer[..len]) {
                return true;
            }
        }
        false
    }

    fn arp(&self, times: u64) -> Count {
        let socket = self.socket();
        let mut count = Count::default();
        for _ in 0..times {
            let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
            packet.extend(self.client);
            packet.extend(CLIENT_V4.octets());
            packet.extend([0; 6]);
            packet.extend(SERVER_V4.octets());
            let wanted = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2][..], &self.server, &SERVER_V4.octets()].concat();
            let request = self.frame([0xff; 6], 0x0806, &packet);
            count.note(self.ask(&socket, &request, |reply| reply[12..].starts_with(&wanted)));
        }
        count
    }

    fn ping(&self, times: u64, is_v6: bool) -> Count {
        let socket = self.socket();
        let mut count = Count::default();
        for number in 0..times as u16 {
            let (frame, kind, at) = if is_v6 {
                let request = sum_v6(ICMPV6, echo_request(128, number), 2);
                (self.frame(self.server, 0x86dd, &ipv6(ICMPV6, &[], &request)), 129, 54)
            } else {
                let mut request = echo_request(8, number);
                let sum = checksum(&[&request]);
                request[2..4].copy_from_slice(&sum);
                (self.frame(self.server, 0x0800, &ipv4(ICMP, &[], &request)), 0, 34)
            };
            // Type, then id, number and data as they were sent.
            let asked = frame[at + 4..].to_vec();
            count.note(self.ask(&socket, &frame, |reply| {
                reply.get(at) == Some(&kind) && reply.get(at + 4..) == Some(&asked[..])
            }));
        }
        count
    }

    /// UDP in packets made by hand: to the peer that sends back, or a question to the responder.
    fn crafted(&self, times: u64, to: u16, packets: &[Wrap<'_>], is_v6: bool) -> Count {
        let out = self.socket();
        let from =
            if is_v6 { SocketAddr::from((CLIENT_V6, ASKS)) } else { SocketAddr::from((CLIENT_V4, ASKS)) };
        let socket = self.bed.in_client(|| UdpSocket::bind(from)).expect("a socket");
        socket.set_read_timeout(Some(LOST)).unwrap();
        let mut count = Count::default();
        let mut buffer = [0; 2048];
        for number in 0..times {
            for packet in packets {
                let payload = if to == ECHO {
                    (0..100).map(|i: u8| i ^ number as u8).collect()
                } else {
                    dns::with_opt(dns::query(number as u16, "s1.example.com", A), 0)
                };
                let ethertype = if is_v6 { 0x86dd } else { 0x0800 };
                let frame = self.frame(self.server, ethertype, &packet(&payload));
                nix::unistd::write(&out, &frame).expect("the frame is sent");
                let len = socket.recv(&mut buffer).unwrap_or(0);
                let is_back = if to == ECHO {
                    buffer[..len] == payload[..]
                } else {
                    len > 12 && buffer[..2] == payload[..2] && buffer[2] & 0x80 != 0 && buffer[7] == 1
                };
                count.note(is_back);
            }
        }
        count
    }
}

/// Sends datagrams back, until an empty one comes.
fn echo(socket: &UdpSocket) {
    let mut buffer = vec![0; 65_535];
    while let Ok((len @ 1.., from)) = socket.recv_from(&mut buffer) {
        socket.send_to(&buffer[..len], from).expect("sent back");
    }
}

/// Datagrams of this length to an address and back.
fn datagrams(bed: &Bed, server: SocketAddr, len: usize, times: u64) -> Count {
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = dns::socket_from(bed, any, &server.to_string());
    let (mut count, mut buffer) = (Count::default(), vec![0; 65_535]);
    for number in 0..times {
        let sent: Vec<u8> = (0..len).map(|i| (i as u64 * 31 + number) as u8).collect();
        socket.send(&sent).expect("sent");
        let back = socket.recv(&mut buffer).unwrap_or(0);
        count.note(buffer[..back] == sent[..]);
    }
    count
}

/// A transfer by TCP, block by block, each of which comes back: less is under way than the ring of a veth holds.
fn transfer(bed: &Bed, blocks: u64) -> Count {
    const BLOCK: usize = 16 * 1024;
    let stream = bed.in_client(|| TcpStream::connect((SERVER_V4, ECHO))).expect("TCP");
    stream.set_read_timeout(Some(LOST)).unwrap();
    let (mut read, mut write) = (&stream, &stream);
    let (mut count, mut back) = (Count::default(), vec![0; BLOCK]);
    for number in 0..blocks {
        let block: Vec<u8> = (0..BLOCK).map(|i| (i as u64).wrapping_mul(number + 7) as u8).collect();
        write.write_all(&block).expect("sent");
        count.note(read.read_exact(&mut back).is_ok() && back == block);
    }
    count
}

fn echo_by_tcp(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        stream.write_all(&buffer[..len]).expect("sent back");
    }
}

/// To everybody on the cable, as DHCP clients do.
fn broadcasts(bed: &Bed, times: u64) -> Count {
    let server = bed.in_server(|| UdpSocket::bind("0.0.0.0:67")).expect("port 67");
    server.set_read_timeout(Some(LOST)).unwrap();
    let client = bed.in_client(|| UdpSocket::bind("10.53.0.2:68")).expect("port 68");
    client.set_broadcast(true).unwrap();
    let (mut count, mut buffer) = (Count::default(), [0; 512]);
    for number in 0..times {
        let sent = [number as u8; 300];
        client.send_to(&sent, "10.53.0.255:67").expect("sent");
        let len = server.recv(&mut buffer).unwrap_or(0);
        count.note(buffer[..len] == sent);
    }
    count
}

/// Queries with a padding option, so long that they come in pieces: a worker answers them.
fn long_queries(bed: &Bed, times: u64) -> Count {
    let socket = dns::socket(bed);
    let mut count = Count::default();
    for number in 0..times {
        let mut query = dns::with_opt(dns::query(number as u16, "s2.example.com", AAAA), 0);
        let at = query.len() - 2;
        query[at..].copy_from_slice(&3004_u16.to_be_bytes());
        query.extend([0, 12]);
        query.extend(3000_u16.to_be_bytes());
        query.extend([0; 3000]);
        let reply = dns::exchange(&socket, &query);
        count.note(reply.is_some_and(|reply| dns::read(&query, &reply).answers == 1));
    }
    count
}

/// Frames into which a datagram of this length is cut by an MTU of 1500 (IPv4).
fn pieces(len: u64) -> u64 {
    (8 + len).div_ceil(1480)
}

#[test]
fn other_traffic_is_untouched_under_load() {
    let times = if is_full() { 2_000 } else { 60 };
    let bed = Bed::alone();
    let config = bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let cable = Cable {
        bed: &bed,
        server: tagged::mac(|line| bed.ip(line), "gslb0"),
        client: tagged::mac(|line| bed.client_ip(line), "cli0"),
    };
    let sockets = [SocketAddr::from((SERVER_V4, ECHO)), SocketAddr::from((SERVER_V6, ECHO))]
        .map(|address| bed.in_server(|| UdpSocket::bind(address)).expect("an echo socket"));
    let listener = bed.in_server(|| TcpListener::bind((SERVER_V4, ECHO))).expect("an echo listener");
    let nop: Wrap<'_> = &|p| ipv4(UDP, &[1, 1, 1, 0], &udp(ECHO, p));
    let record_route: Wrap<'_> = &|p| ipv4(UDP, &[7, 7, 4, 0, 0, 0, 0, 0], &udp(ECHO, p));
    // Hop-by-hop and destination options with padding; a fragment that is the whole.
    let padded = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let with = |first: u8, headers: Vec<u8>| {
        move |port: u16, p: &[u8]| ipv6(first, &headers, &sum_v6(UDP, udp(port, p), 6))
    };
    let hop_by_hop = with(0, padded(UDP).to_vec());
    let destination = with(60, padded(UDP).to_vec());
    let both = with(0, [padded(60), padded(UDP)].concat());
    let atomic = with(44, vec![UDP, 0, 0, 0, 1, 2, 3, 4]);

    let before = daemon.stats();
    let hits = Load::start(&bed, load::stable(), 4_000);
    let counts: Vec<(&str, Count)> = thread::scope(|scope| {
        for socket in &sockets {
            socket.set_read_timeout(Some(LOST * 10)).unwrap();
            scope.spawn(|| echo(socket));
        }
        scope.spawn(|| echo_by_tcp(&listener));
        let first = [
            ("ARP", scope.spawn(|| cable.arp(times))),
            ("ICMP", scope.spawn(|| cable.ping(times, false))),
            ("ICMPv6", scope.spawn(|| cable.ping(times, true))),
            ("TCP blocks of 16 KiB", scope.spawn(|| transfer(&bed, times * 2))),
            (
                "8,000 octets by UDP in pieces",
                scope.spawn(|| datagrams(&bed, (SERVER_V4, ECHO).into(), 8_000, times)),
            ),
            ("the same over IPv6", scope.spawn(|| datagrams(&bed, (SERVER_V6, ECHO).into(), 8_000, times))),
            ("broadcasts to port 67", scope.spawn(|| broadcasts(&bed, times))),
            ("queries in pieces", scope.spawn(|| long_queries(&bed, times))),
            ("IPv4 options", scope.spawn(|| cable.crafted(times, ECHO, &[nop, record_route], false))),
            (
                "IPv6 extension headers",
                scope.spawn(|| {
                    let to = |packet: &dyn Fn(u16, &[u8]) -> Vec<u8>, p: &[u8]| packet(ECHO, p);
                    cable.crafted(
                        times,
                        ECHO,
                        &[&|p| to(&hop_by_hop, p), &|p| to(&destination, p), &|p| to(&both, p), &|p| {
                            to(&atomic, p)
                        }],
                        true,
                    )
                }),
            ),
        ];
        let mut counts: Vec<(&str, Count)> =
            first.into_iter().map(|(what, thread)| (what, thread.join().expect(what))).collect();
        // Questions to the responder in the same clothes: a worker answers.
        let question = |p: &[u8]| ipv4(UDP, &[1, 1, 1, 0], &udp(53, p));
        counts.push(("queries with IPv4 options", cable.crafted(times, 53, &[&question], false)));
        let questions: [Wrap<'_>; 2] = [&|p| both(53, p), &|p| atomic(53, p)];
        counts.push(("queries with extension headers", cable.crafted(times, 53, &questions, true)));
        // As large as native XDP allows on veth: one page holds frame and headroom.
        bed.ip("link set dev gslb0 mtu 3400");
        bed.client_ip("link set dev cli0 mtu 3400");
        let large = datagrams(&bed, (SERVER_V4, ECHO).into(), 3_372, times);
        counts.push(("frames of 3,414 octets", large));
        for address in [SocketAddr::from((SERVER_V4, ECHO)), SocketAddr::from((SERVER_V6, ECHO))] {
            let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            dns::socket_from(&bed, any, &address.to_string()).send(&[]).expect("the end");
        }
        counts
    });
    let totals = hits.stop();
    let after = daemon.stats();
    totals.assert_clean(500, "hits beside other traffic");
    for (what, count) in &counts {
        assert!(count.sent >= times && count.back == count.sent, "{what}: {count:?}");
    }
    assert_eq!(rise(&before, &after, "xdp_answer"), totals.sent, "every hit from XDP, and nothing else");
    let asked: u64 =
        counts.iter().filter(|(what, _)| what.starts_with("queries")).map(|(_, count)| count.sent).sum();
    assert_eq!(rise(&before, &after, "worker_query_udp"), asked, "a worker answers what is unusual");
    // The program saw each of them as what it was.
    let risen = |name| rise(&before, &after, name);
    assert_eq!(risen("xdp_pass_ip_options"), 3 * times);
    assert_eq!(risen("xdp_pass_fragment"), times * (pieces(8_000) + pieces(3_000 + 4 + 11 + 32)));
    assert_eq!(risen("xdp_drop"), 0, "nothing is dropped");
    assert_eq!(daemon.status()["interfaces"][0]["mode"], "native");
    let list: Vec<String> = counts.iter().map(|(what, count)| format!("{} {what}", count.back)).collect();
    say!(
        "other traffic: {}; none lost, beside {} hits, slowest {:?}",
        list.join(", "),
        totals.sent,
        totals.slowest
    );
}
