//! Connections (RFC 7766), with a bound on everything that a client can make us hold.
//!
//! A worker holds [`CONNECTIONS`] at most, [`PER_CLIENT`] of one client. One more closes the one that has been silent
//! longest, of that client or of all: whoever opens connections and says nothing loses them first, and a client that
//! asks is served even while somebody holds everything else open (RFC 7766 6.2.3).

use std::{cell::RefCell, io, net::SocketAddr, rc::Rc, time::Duration};

use responder_common::{limits::HEADER, lookup::World};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::{connections::Connections, counters::Count, local::Local};

/// Connections of one worker.
pub const CONNECTIONS: usize = 150;
/// Of them, from one IPv4 address or one IPv6 /64.
pub const PER_CLIENT: usize = 20;
/// For a whole query to arrive, from the last reply or the start (RFC 7766 6.2.3: "on the order of a few seconds").
pub const IDLE: Duration = Duration::from_secs(10);
/// For the client to take replies.
pub const SLOW_READER: Duration = Duration::from_secs(10);
/// Octets of a query; a longer one gets FORMERR and the end.
pub const LONGEST_QUERY: usize = 4096;
/// Queries of one connection.
pub const QUERIES: u32 = 10_000;
/// Octets of replies after which a batch of pipelined queries is sent before more are answered.
const BATCH_OCTETS: usize = 16 * 1024;
/// Octets that are read and thrown away so that closing does not take a reply back (RFC 1122 4.2.2.13).
const DRAIN: usize = 128 * 1024;
/// And for how long.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Wait after the system had no descriptor for a connection.
const NO_DESCRIPTOR: Duration = Duration::from_millis(20);

/// What the connections of a worker share.
#[derive(Default)]
pub(super) struct Shared {
    connections: RefCell<Connections>,
    /// One reply; used without an await.
    scratch: RefCell<Vec<u8>>,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closed.
    Client,
    /// The client was too slow.
    Slow,
    /// Enough queries, or no query at all.
    Ours,
}

/// Accepts until the task is dropped.
pub(super) async fn serve<W: World + Send + Sync + 'static>(
    local: Rc<Local<W>>,
    shared: Rc<Shared>,
    listener: Rc<TcpListener>,
) -> io::Result<()> {
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                local.counters.add(Count::TcpRefused);
                tracing::debug!(%error, "accepting failed");
                tokio::time::sleep(NO_DESCRIPTOR).await;
                continue;
            }
        };
        local.counters.add(Count::TcpAccepted);
        let admission = shared.connections.borrow_mut().admit(client.ip(), Instant::now());
        local.counters.add_many(Count::TcpEvicted, admission.evicted);
        let (local, shared) = (Rc::clone(&local), Rc::clone(&shared));
        tokio::task::spawn_local(connection(local, shared, stream, client, admission.id, admission.leave));
    }
}

async fn connection<W: World>(
    local: Rc<Local<W>>,
    shared: Rc<Shared>,
    mut stream: TcpStream,
    client: SocketAddr,
    id: u64,
    leave: Rc<Notify>,
) {
    let _ = stream.set_nodelay(true);
    let end = tokio::select! {
        biased;
        () = leave.notified() => None,
        end = converse(&local, &shared, &mut stream, client, id) => Some(end),
    };
    shared.connections.borrow_mut().remove(id);
    match end {
        Some(Ok(End::Slow)) => local.counters.add(Count::TcpTimeout),
        Some(Ok(End::Ours)) => {
            local.counters.add(Count::TcpClosed);
            let _ = timeout(DRAIN_TIME, drain(&mut stream)).await;
        }
        Some(Ok(End::Client) | Err(_)) | None => {}
    }
}

/// Reads queries and writes replies, in order. While replies wait for the client, no query is read.
async fn converse<W: World>(
    local: &Local<W>,
    shared: &Shared,
    stream: &mut TcpStream,
    client: SocketAddr,
    id: u64,
) -> io::Result<End> {
    let mut input = vec![0; 2 + LONGEST_QUERY].into_boxed_slice();
    let mut filled = 0;
    let mut output = Vec::new();
    let mut left = QUERIES;
    let mut deadline = Instant::now() + IDLE;
    loop {
        let (used, ended) = answer(local, shared, &input[..filled], client, &mut output, &mut left);
        input.copy_within(used..filled, 0);
        filled -= used;
        if !output.is_empty() {
            match timeout(SLOW_READER, stream.write_all(&output)).await {
                Ok(written) => written?,
                Err(_) => return Ok(End::Slow),
            }
            // What one large reply needed is not held for a silent connection.
            output.clear();
            output.shrink_to(BATCH_OCTETS);
            let now = Instant::now();
            deadline = now + IDLE;
            shared.connections.borrow_mut().touch(id, now);
        }
        if ended {
            return Ok(End::Ours);
        }
        if used > 0 && whole(&input[..filled]).is_some() {
            continue;
        }
        match timeout_at(deadline, stream.read(&mut input[filled..])).await {
            Err(_) => return Ok(End::Slow),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(0)) => return Ok(End::Client),
            Ok(Ok(count)) => filled += count,
        }
    }
}

/// Octets of the first message with its length, once all of them are there.
fn whole(input: &[u8]) -> Option<usize> {
    let length = 2 + usize::from(u16::from_be_bytes(*input.first_chunk()?));
    (input.len() >= length).then_some(length)
}

/// Answers whole messages at the start of `input`. Returns the octets used up, and whether the connection ends.
fn answer<W: World>(
    local: &Local<W>,
    shared: &Shared,
    input: &[u8],
    client: SocketAddr,
    output: &mut Vec<u8>,
    left: &mut u32,
) -> (usize, bool) {
    let is_too_long =
        input.first_chunk().is_some_and(|b| usize::from(u16::from_be_bytes(*b)) > LONGEST_QUERY);
    if whole(input).is_none() && !(is_too_long && input.len() >= 2 + HEADER) {
        return (0, false);
    }
    let mut scratch = shared.scratch.borrow_mut();
    scratch.resize(usize::from(u16::MAX), 0);
    let mut used = 0;
    let ended = local.batch(|served| {
        while output.len() < BATCH_OCTETS {
            let rest = &input[used..];
            let Some(length) = rest.first_chunk().map(|b| usize::from(u16::from_be_bytes(*b))) else { break };
            let is_too_long = length > LONGEST_QUERY;
            // A header without its question is FORMERR, which is what a query of such a length gets.
            let length = if is_too_long { HEADER } else { length };
            let Some(query) = rest.get(2..2 + length) else { break };
            // Whoever sends responses or scraps does not speak DNS.
            let Some(len) = local.tcp(query, client, served, &mut scratch) else { return true };
            output.extend((len as u16).to_be_bytes());
            output.extend(&scratch[..len]);
            used += 2 + length;
            *left -= 1;
            if is_too_long || *left == 0 {
                return true;
            }
        }
        false
    });
    (used, ended.unwrap_or(true))
}

/// Says that no more comes, and reads what is under way: unread data would make the kernel reset the connection.
async fn drain(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut scraps = [0; 1024];
    let mut read = 0;
    while read < DRAIN {
        match stream.read(&mut scraps).await? {
            0 => break,
            count => read += count,
        }
    }
    Ok(())
}
