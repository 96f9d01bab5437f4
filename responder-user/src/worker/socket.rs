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

/// The sockets of one worker.
#[derive(Debug, Default)]
pub struct Sockets {
    /// One per address.
    pub udp: Vec<UdpSocket>,
    /// One per address, listening.
    pub tcp: Vec<TcpListener>,
}

/// Binds everything, for a worker per element of `cpus`. Returns the addresses as bound, which differ where a port was 0.
pub fn bind(
    addresses: &[SocketAddr],
    cpus: &[usize],
) -> Result<(Vec<SocketAddr>, Vec<Sockets>), WorkerError> {
    let mut sockets: Vec<Sockets> = cpus.iter().map(|_| Sockets::default()).collect();
    let mut bound = Vec::with_capacity(addresses.len());
    for address in addresses {
        bound.push(bind_address(*address, cpus, &mut sockets)?);
    }
    Ok((bound, sockets))
}

fn bind_address(
    mut address: SocketAddr,
    cpus: &[usize],
    sockets: &mut [Sockets],
) -> Result<SocketAddr, WorkerError> {
    let failed = |protocol, address| move |source| WorkerError::Bind { address, protocol, source };
    // Another server on the same port would get its share of the queries without a word: with SO_REUSEPORT the kernel
    // does not mind. So ask without it first.
    let probe = socket(address, Type::DGRAM, false)
        .and_then(|socket| socket.bind(&address.into()).map(|()| socket))
        .map_err(failed("UDP", address))?;
    drop(probe);
    for (index, of_worker) in sockets.iter_mut().enumerate() {
        let udp = udp(address).map_err(failed("UDP", address))?;
        if index == 0 {
            address = udp.local_addr().map_err(failed("UDP", address))?;
            steer(&udp, cpus, address);
        }
        of_worker.udp.push(udp);
    }
    for (index, of_worker) in sockets.iter_mut().enumerate() {
        let tcp = tcp(address).map_err(failed("TCP", address))?;
        if index == 0 {
            steer(&tcp, cpus, address);
        }
        of_worker.tcp.push(tcp);
    }
    Ok(address)
}

/// Without steering the kernel spreads by a hash of addresses and ports: right answers, colder caches.
fn steer(socket: &impl AsFd, cpus: &[usize], address: SocketAddr) {
    if cpus.len() > 1
        && let Err(error) = batch::steer(socket.as_fd(), cpus)
    {
        tracing::warn!(%address, %error, "packets are not steered to the worker of their CPU");
    }
}

fn socket(address: SocketAddr, kind: Type, share: bool) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // IPv4 clients have sockets of their own; mapped addresses would only confuse.
        socket.set_only_v6(true)?;
    }
    if share {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket(address, Type::DGRAM, true)?;
    // The kernel cuts what is more than it allows; that is no error.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    batch::prepare_udp(socket.as_fd(), address)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address, Type::STREAM, true)?;
    // A restart must not wait for connections of the last run to time out.
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
