//! Datagrams, many per call.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
    rc::Rc,
};

use responder_common::{limits::HEADER, lookup::World};
use socket2::SockRef;
use tokio::{io::Interest, net::UdpSocket};

use super::{batch::Batch, counters::Count, local::Local};

/// Batches that are answered before other tasks of the worker get their turn.
const BATCHES: usize = 4;

/// Batches that are answered before a socket is closed: as much as its buffer holds.
const LAST_BATCHES: usize = 64;

/// Serves a socket until the task is dropped. Err: the socket is broken.
pub(super) async fn serve<W: World>(local: Rc<Local<W>>, socket: Rc<UdpSocket>) -> io::Result<()> {
    let mut batch = Batch::new();
    loop {
        socket.readable().await?;
        for _ in 0..BATCHES {
            match socket.try_io(Interest::READABLE, || batch.receive(socket.as_fd())) {
                Ok(count) => {
                    answer(&local, &mut batch, count);
                    let failed = batch.send(socket.as_fd());
                    local.counters.add_many(Count::SendFailed, failed as u64);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error of an earlier reply, or a signal.
                Err(e) => tracing::debug!(error = %e, "receiving failed"),
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Takes a socket out of its group without closing it: the kernel gives a connected one nothing from others. What comes
/// from now on goes to the other sockets of the group.
pub(super) fn leave_group(socket: &UdpSocket) -> io::Result<()> {
    let mut nobody = socket.local_addr()?;
    if nobody.ip().is_unspecified() {
        nobody.set_ip(if nobody.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    SockRef::from(socket).connect(&nobody.into())
}

/// Answers what waits at a socket that is about to be closed, within reason.
pub(super) fn finish<W: World>(local: &Local<W>, socket: &UdpSocket) {
    let mut batch = Batch::new();
    for _ in 0..LAST_BATCHES {
        // Not by readiness: the runtime may not have looked at the socket since the last datagram came.
        let Ok(count @ 1..) = batch.receive(socket.as_fd()) else { return };
        answer(local, &mut batch, count);
        batch.send(socket.as_fd());
    }
}

fn answer<W: World>(local: &Local<W>, batch: &mut Batch, count: usize) {
    local.batch(|served| {
        for i in 0..count {
            let exchange = batch.exchange(i);
            let Some(client) = exchange.client else { continue };
            // What follows the header of a cut message is not what was sent: it gets FORMERR.
            let query = if exchange.is_cut { &exchange.query[..HEADER] } else { exchange.query };
            if let Some(len) = local.udp(query, client, served, exchange.reply) {
                batch.queue(i, len);
            }
        }
    });
}
