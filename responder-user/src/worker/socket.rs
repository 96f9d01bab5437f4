//! The sockets of all workers: one UDP and one TCP socket per address and worker, in SO_REUSEPORT groups that are steered
//! by CPU.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::AsFd,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{WorkerError, batch};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Octets of queries that may wait at a UDP socket: about 2,000 of them. As far as `net.core.rmem_max` allows.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Ports that are tried where the configuration leaves the choice to the system.
const FREE_PORTS: u32 = 32;

/// The sockets of one worker.
#[derive(Debug, Default)]
pub struct Sockets {
    /// One per address.
    pub udp: Vec<UdpSocket>,
    /// One per address, listening.
    pub tcp: Vec<TcpListener>,
}

/// Binds everything, for a worker per element of `cpus`. `ours` are addresses that this process serves already. Returns
/// the addresses as bound, which differ where a port was 0.
pub fn bind(
    addresses: &[SocketAddr],
    cpus: &[usize],
    ours: &[SocketAddr],
) -> Result<(Vec<SocketAddr>, Vec<Sockets>), WorkerError> {
    let mut sockets: Vec<Sockets> = cpus.iter().map(|_| Sockets::default()).collect();
    let mut bound = Vec::with_capacity(addresses.len());
    for address in addresses {
        let is_ours = ours.iter().chain(&bound).any(|own| overlap(*own, *address));
        let (address, pairs) = bind_address(*address, cpus, is_ours)?;
        bound.push(address);
        for (of_worker, (udp, tcp)) in sockets.iter_mut().zip(pairs) {
            of_worker.udp.push(udp);
            of_worker.tcp.push(tcp);
        }
    }
    Ok((bound, sockets))
}

/// True if the kernel sees two sockets of these addresses in each other's way: a wildcard covers every address of its
/// family, and is served beside one of them only where both share their port.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_covered = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && is_covered
}

/// What one address gives: itself as bound, and a pair per worker.
type Bound = (SocketAddr, Vec<(UdpSocket, TcpListener)>);

fn bind_address(address: SocketAddr, cpus: &[usize], is_ours: bool) -> Result<Bound, WorkerError> {
    let mut tries = if address.port() == 0 { FREE_PORTS } else { 1 };
    loop {
        tries -= 1;
        match bind_group(address, cpus, is_ours) {
            // The port that was free for UDP is not for TCP.
            Err(WorkerError::Bind { source, .. })
                if tries > 0 && source.kind() == io::ErrorKind::AddrInUse => {}
            done => return done,
        }
    }
}

fn bind_group(mut address: SocketAddr, cpus: &[usize], is_ours: bool) -> Result<Bound, WorkerError> {
    let failed = |protocol, address| move |source| WorkerError::Bind { address, protocol, source };
    let mut pairs = Vec::with_capacity(cpus.len());
    for (index, cpu) in cpus.iter().enumerate() {
        let seat = Seat { cpu: *cpu, is_founder: index == 0 && !is_ours };
        let udp = udp(address, seat).map_err(failed("UDP", address))?;
        // Where the port was 0, all others get what the first one got.
        address = udp.local_addr().map_err(failed("UDP", address))?;
        let tcp = tcp(address, seat).map_err(failed("TCP", address))?;
        pairs.push((udp, tcp));
    }
    Ok((address, pairs))
}

/// The place of a socket in its SO_REUSEPORT group.
#[derive(Clone, Copy)]
struct Seat {
    cpu: usize,
    /// The first of a new group. It binds alone and then opens the group to the others: a socket that shares from the
    /// start would join the group of another server without a word, and take its share of the queries.
    is_founder: bool,
}

impl Seat {
    fn take(self, socket: &Socket, address: SocketAddr) -> io::Result<()> {
        if !self.is_founder {
            socket.set_reuse_port(true)?;
        }
        // The socket is for packets that arrive on this CPU (design section 6), which Linux 6.1 follows for whole
        // groups; a CPU without a worker gets one by hash. A program attached to the group would do the same by the
        // order of its sockets, which changes whenever one of them closes.
        if let Err(error) = socket.set_cpu_affinity(self.cpu) {
            tracing::warn!(%address, cpu = self.cpu, %error, "packets are not steered to the worker of their CPU");
        }
        socket.bind(&address.into())?;
        socket.set_reuse_port(true)
    }
}

fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // IPv4 clients have sockets of their own; mapped addresses would only confuse.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn udp(address: SocketAddr, seat: Seat) -> io::Result<UdpSocket> {
    let socket = socket(address, Type::DGRAM)?;
    // The kernel cuts what is more than it allows; that is no error.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    batch::prepare_udp(socket.as_fd(), address)?;
    seat.take(&socket, address)?;
    Ok(socket.into())
}

fn tcp(address: SocketAddr, seat: Seat) -> io::Result<TcpListener> {
    let socket = socket(address, Type::STREAM)?;
    // A restart must not wait for connections of the last run to time out.
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    seat.take(&socket, address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
