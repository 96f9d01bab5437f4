//! The thread of a worker.

use std::{
    future::Future,
    io,
    rc::Rc,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwap;
use responder_common::lookup::World;
use tokio::{
    net::{TcpListener, UdpSocket},
    runtime,
    sync::Notify,
    task::{self, LocalSet},
};

use super::{
    Local, Served,
    counters::{Count, Counters},
    epoch::Epochs,
    pin,
    socket::Sockets,
    tcp, udp,
};
use crate::publish;

/// Longer than the kernel takes from choosing a socket to filling it.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// What a thread gets.
pub(super) struct Parts<W> {
    pub served: Arc<ArcSwap<Served<W>>>,
    pub epochs: Arc<Epochs>,
    pub counters: Arc<Counters>,
    pub stop: Arc<Notify>,
    pub sockets: Sockets,
}

/// Starts worker `index` on a CPU. Returns when its sockets are registered, or why they could not be.
pub(super) fn start<W: World + Send + Sync + 'static>(
    index: usize,
    cpu: usize,
    parts: Parts<W>,
) -> io::Result<JoinHandle<()>> {
    let (report, reported) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
        pin::pin(cpu);
        publish::world::set_reader(index);
        match runtime::Builder::new_current_thread().enable_io().enable_time().build() {
            Ok(runtime) => LocalSet::new().block_on(&runtime, run(index, parts, &report)),
            Err(error) => {
                let _ = report.send(Err(error));
            }
        }
    })?;
    match reported.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("its thread ended at once")),
    }
}

async fn run<W: World + Send + Sync + 'static>(
    index: usize,
    parts: Parts<W>,
    report: &mpsc::SyncSender<io::Result<()>>,
) {
    let Parts { served, epochs, counters, stop, sockets } = parts;
    let local = Rc::new(Local::new(index, served, epochs, counters));
    match serve(&local, sockets) {
        Ok(udp) => {
            let _ = report.send(Ok(()));
            stop.notified().await;
            end(&local, &udp);
        }
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

/// Answers what came before the end. Where successors share the addresses, nothing is lost between us and them.
fn end<W: World>(local: &Local<W>, sockets: &[Rc<UdpSocket>]) {
    for socket in sockets {
        if let Err(error) = udp::leave_group(socket) {
            tracing::debug!(%error, "a socket did not leave its group");
        }
    }
    // For datagrams that the kernel is just about to put into one of them.
    std::thread::sleep(UNDER_WAY);
    for socket in sockets {
        udp::finish(local, socket);
    }
}

/// Starts a task per socket. They end with the runtime. Returns the UDP sockets.
fn serve<W: World + Send + Sync + 'static>(
    local: &Rc<Local<W>>,
    sockets: Sockets,
) -> io::Result<Vec<Rc<UdpSocket>>> {
    let mut udp = Vec::with_capacity(sockets.udp.len());
    for socket in sockets.udp {
        let (socket, local) = (Rc::new(UdpSocket::from_std(socket)?), Rc::clone(local));
        udp.push(Rc::clone(&socket));
        task::spawn_local(keep(Rc::clone(&local), move || udp::serve(Rc::clone(&local), Rc::clone(&socket))));
    }
    let shared = Rc::new(tcp::Shared::default());
    for listener in sockets.tcp {
        let listener = Rc::new(TcpListener::from_std(listener)?);
        let (local, shared) = (Rc::clone(local), Rc::clone(&shared));
        task::spawn_local(keep(Rc::clone(&local), move || {
            tcp::serve(Rc::clone(&local), Rc::clone(&shared), Rc::clone(&listener))
        }));
    }
    Ok(udp)
}

/// Runs a task for ever: a panic or an error of one must not silence a socket. It costs what was in the batch.
async fn keep<W, F>(local: Rc<Local<W>>, task: impl Fn() -> F)
where
    W: World,
    F: Future<Output = io::Result<()>> + 'static,
{
    loop {
        let ended = task::spawn_local(task()).await;
        local.counters.add(Count::Restarted);
        tracing::error!(worker = local.index, ?ended, "a task of a worker ended; starting it again");
        // Whatever it was may be there still.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
