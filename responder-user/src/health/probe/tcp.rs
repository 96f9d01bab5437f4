//! TCP: a connection that is accepted is a success.

use std::{io, net::SocketAddr};

use tokio::{
    net::{TcpSocket, TcpStream},
    time::Instant,
};

use super::{Failure, io_failure, within};

pub(super) async fn check(target: SocketAddr, deadline: Instant) -> Result<String, Failure> {
    connect(target, deadline).await.map(|_| "connected".to_owned())
}

/// A connection that ends with a reset when it is dropped: the check is over, and thousands of them a second would
/// fill the host with sockets in TIME_WAIT.
pub(super) async fn connect(target: SocketAddr, deadline: Instant) -> Result<TcpStream, Failure> {
    let stream = within(deadline, "", async {
        let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_zero_linger()?;
        socket.connect(target).await
    })
    .await?
    .map_err(io_failure)?;
    // With nobody listening on a port of this host's ephemeral range, TCP may choose that very port as the source
    // and connect to itself.
    if stream.local_addr().map_err(io_failure)? == target {
        return Err(io_failure(io::ErrorKind::ConnectionRefused.into()));
    }
    Ok(stream)
}
