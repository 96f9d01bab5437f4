//! Queries and replies: encoded by hand, so that a test can send what no library would; replies read by hickory.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use hickory_proto::op::Message;

use crate::bed::Bed;

pub const A: u16 = 1;
pub const AAAA: u16 = 28;

/// Where the responder listens.
pub const SERVER: &str = "10.53.0.1:53";

/// A query with RD=0 and without OPT.
pub fn query(id: u16, name: &str, qtype: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend(id.to_be_bytes());
    out.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    out
}

/// The same with an OPT of this version.
pub fn with_opt(mut query: Vec<u8>, version: u8) -> Vec<u8> {
    query[11] = 1;
    query.extend([0, 0, 41, 0x04, 0xd0, 0, version, 0, 0, 0, 0]);
    query
}

/// A socket in the client's namespace, connected to the responder.
pub fn socket_from(bed: &Bed, source: &str, server: &str) -> UdpSocket {
    let source: SocketAddr = source.parse().unwrap();
    let server: SocketAddr = server.parse().unwrap();
    bed.in_client(|| {
        let socket = UdpSocket::bind(source).expect("a client socket");
        socket.connect(server).expect("a route");
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    })
}

/// Likewise, from the first client address.
pub fn socket(bed: &Bed) -> UdpSocket {
    socket_from(bed, "10.53.0.2:0", SERVER)
}

/// Sends octets and waits for a reply; None: there is none within the socket's time.
pub fn exchange(socket: &UdpSocket, message: &[u8]) -> Option<Vec<u8>> {
    socket.send(message).expect("send");
    let mut buffer = [0; 4096];
    let len = socket.recv(&mut buffer).ok()?;
    Some(buffer[..len].to_vec())
}

/// One message by TCP.
pub fn exchange_tcp(bed: &Bed, server: &str, message: &[u8]) -> Vec<u8> {
    let server: SocketAddr = server.parse().unwrap();
    bed.in_client(|| {
        let mut stream = TcpStream::connect(server).expect("TCP");
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(message).unwrap();
        let mut len = [0; 2];
        stream.read_exact(&mut len).expect("a reply by TCP");
        let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut reply).unwrap();
        reply
    })
}

/// What the tests look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub rcode: u16,
    pub aa: bool,
    pub tc: bool,
    pub addresses: Vec<IpAddr>,
    pub ttls: BTreeSet<u32>,
    pub answers: usize,
    pub authority: usize,
}

/// Reads a reply with hickory, an independent reader; it must answer `query`.
pub fn read(query: &[u8], reply: &[u8]) -> Reply {
    let message = Message::from_vec(reply).unwrap_or_else(|e| panic!("not a DNS message: {e}: {reply:02x?}"));
    assert_eq!(reply[..2], query[..2], "id");
    assert!(reply[2] & 0x80 != 0, "QR");
    let question = query.len().min(reply.len()).min(12 + 4);
    assert_eq!(reply.get(12..question), query.get(12..question), "the question is echoed");
    let answers = &message.answers;
    Reply {
        rcode: u16::from(message.metadata.response_code),
        aa: message.metadata.authoritative,
        tc: message.metadata.truncation,
        addresses: answers.iter().filter_map(|record| record.data.ip_addr()).collect(),
        ttls: answers.iter().map(|record| record.ttl).collect(),
        answers: answers.len(),
        authority: message.authorities.len(),
    }
}

/// Asks with OPT, as resolvers do, and reads.
pub fn ask(socket: &UdpSocket, name: &str, qtype: u16) -> Reply {
    let query = with_opt(query(rand_id(), name, qtype), 0);
    let reply = exchange(socket, &query).unwrap_or_else(|| panic!("no reply for {name} {qtype}"));
    read(&query, &reply)
}

/// An id that differs from query to query.
pub fn rand_id() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static ID: AtomicU16 = AtomicU16::new(1);
    ID.fetch_add(40_503, Ordering::Relaxed)
}
