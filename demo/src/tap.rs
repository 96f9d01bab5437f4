//! Reads every frame of the load off the client's interface.
//!
//! A packet socket sees queries and answers in one queue, in the order in which they cross the interface; that gives the
//! judge "asked after the change was seen" without any clock.

use std::{
    net::Ipv4Addr,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket,
            sockopt,
        },
        time::TimeVal,
    },
};

use super::{
    DemoError, Result,
    judge::{Frame, Judge},
    stage::{CLIENT_INTERFACE, Stage},
};

/// Frames wait here while we are not running: more than a second of them.
const BUFFER: usize = 96 << 20;

/// The thread that reads, and what it has found out.
pub struct Tap {
    judge: Arc<Mutex<Judge>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tap {
    /// Begins to read what the load's address sends and receives.
    pub fn start(stage: &Stage, judge: Judge) -> Result<Self> {
        let opened = stage.client.run(open)?;
        let socket = opened.map_err(DemoError::system("open a packet socket"))?;
        let judge = Arc::new(Mutex::new(judge));
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, shared, stop) = (stage.load_address, judge.clone(), is_over.clone());
        let thread = thread::spawn(move || read(&socket, address, &shared, &stop));
        Ok(Self { judge, is_over, thread: Some(thread) })
    }

    /// What it has found out so far.
    pub fn judge(&self) -> MutexGuard<'_, Judge> {
        lock(&self.judge)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(judge: &Mutex<Judge>) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket that gets all frames of the client's interface, sent and received.
fn open() -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
    // Now and then the reader looks whether it is over.
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 100_000))?;
    let interface = getifaddrs()?
        .filter(|entry| entry.interface_name == CLIENT_INTERFACE)
        .find_map(|entry| entry.address.filter(|address| address.as_link_addr().is_some()))
        .ok_or(Errno::ENODEV)?;
    bind(socket.as_raw_fd(), &interface)?;
    Ok(socket)
}

fn read(socket: &OwnedFd, client: Ipv4Addr, judge: &Mutex<Judge>, is_over: &AtomicBool) {
    let mut frame = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        let Ok(length) = recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()) else { continue };
        if let Some(seen) = parse(&frame[..length], client) {
            lock(judge).see(&seen);
        }
    }
}

/// A DNS message over UDP and IPv4 from or to `client`.
fn parse(frame: &[u8], client: Ipv4Addr) -> Option<Frame<'_>> {
    const DNS: u16 = 53;
    let number = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let address = |at: usize| frame.get(at..)?.first_chunk().map(|octets| Ipv4Addr::from_octets(*octets));
    let is_plain = number(12)? == 0x0800 && *frame.get(14)? == 0x45 && *frame.get(23)? == 17;
    if !is_plain {
        return None;
    }
    let (source, destination) = ((address(26)?, number(34)?), (address(30)?, number(36)?));
    let end = 34 + usize::from(number(38)?);
    let message = frame.get(42..end)?;
    let seen = |is_query, port| Some(Frame { is_query, port, message, at: Instant::now() });
    match (source, destination) {
        ((from, port), (_, DNS)) if from == client => seen(true, port),
        ((_, DNS), (to, port)) if to == client => seen(false, port),
        _ => None,
    }
}
