//! The control socket of the daemon: bounded lines, bounded connections, and nobody who can hold it up.
//!
//! Every connection is a task of its own that talks to the engine through a channel. A client that does not read its
//! reply costs a place among [`CONNECTIONS`] until its time is over; one that sends nothing keeps its place only until
//! somebody else needs it; a follower that does not read misses events and is told how many.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::sys::stat::{Mode, fchmod};
use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{
        Notify, OwnedSemaphorePermit, Semaphore,
        broadcast::{
            Receiver,
            error::{RecvError, TryRecvError},
        },
        mpsc, oneshot,
    },
    time::timeout,
};

use super::{
    Command, Event, Refusal,
    capture::{Sample, SampleFeed},
    command::{MAX_REQUEST, Reply},
    events::Feed,
};

/// Clients at a time.
pub const CONNECTIONS: usize = 64;

/// Followers among them, so that a command always finds a place.
pub const FOLLOWERS: usize = 32;

/// A client that has not sent its first command within this is hung up on.
const FIRST: Duration = Duration::from_secs(10);

/// A client that sends nothing more for so long is hung up on.
const IDLE: Duration = Duration::from_mins(1);

/// For a client that was hung up on to be gone.
const LEAVING: Duration = Duration::from_secs(5);

/// A client that does not take its reply within this is hung up on.
const WRITE: Duration = Duration::from_secs(10);

/// How long an overlong request is read to its end, so that the client gets to read the refusal.
const DRAIN: Duration = Duration::from_secs(1);

/// Past events that a follower begins with.
const BACKLOG: usize = 10;

/// A command for the engine.
#[derive(Debug)]
pub struct Request {
    /// What is wanted. Never `events` with `follow`: the server asks for the past and follows by itself.
    pub command: Command,
    /// Who wants it.
    pub uid: Option<u32>,
    /// Where the answer goes. The client may have hung up.
    pub reply: oneshot::Sender<Result<Value, Refusal>>,
}

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another daemon listens there.
    #[error(
        "another responderd is in charge of {0}; stop it, or give this one another server.control_socket"
    )]
    InUse(PathBuf),
    /// Something else stands there.
    #[error("{0} exists and is no socket; remove it, or choose another server.control_socket")]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("control socket {path}: {what}: {source}")]
    Io {
        /// The path in question.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A bound socket.
#[derive(Debug)]
pub struct Server {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
    /// Device and inode, so that nobody else's socket is removed.
    identity: (u64, u64),
    /// Held as long as the daemon lives; the kernel releases it, whatever ends the daemon. Goes last.
    _lock: Lock,
}

/// The lock beside the socket. Its file goes with it.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: nobody else can have it, and whoever waits for it looks again for the file (see `lock`).
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("control socket: remove {}: {error}", self.path.display());
        }
    }
}

impl Server {
    /// Binds the socket: mode 0660, its folder 0750 if it has to be made. The socket of a dead daemon is replaced.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let fail = |what| {
            let path = path.to_owned();
            move |source| BindError::Io { path, what, source }
        };
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o750)
                .create(folder)
                .map_err(fail("create its folder"))?;
        }
        let lock = lock(path)?;
        make_room(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail("socket"))?;
        // The mode of an unbound socket becomes that of the file: there is no moment in which others could connect.
        fchmod(&socket, Mode::from_bits_truncate(0o660)).map_err(|e| fail("chmod")(e.into()))?;
        socket.bind(&SockAddr::unix(path).map_err(fail("bind"))?).map_err(fail("bind"))?;
        // The umask may have taken from it.
        fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(fail("chmod"))?;
        socket.listen(128).map_err(fail("listen"))?;
        socket.set_nonblocking(true).map_err(fail("set non-blocking"))?;
        let found = fs::symlink_metadata(path).map_err(fail("stat"))?;
        let identity = (found.dev(), found.ino());
        Ok(Self { listener: socket.into(), path: path.to_owned(), identity, _lock: lock })
    }

    /// Serves until the future is dropped, which removes the socket. Needs a tokio runtime with I/O and time.
    pub async fn run(
        self,
        requests: mpsc::Sender<Request>,
        feed: Feed,
        samples: SampleFeed,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let followers = Arc::new(Semaphore::new(FOLLOWERS));
        let capture = Arc::new(Semaphore::new(1));
        let engine = Engine { requests, feed, samples, followers, capture, silent: Arc::default() };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        let seat = Silent::enter(&engine.silent, false);
                        tokio::spawn(engine.clone().serve(stream, seat, place));
                    }
                    Err(_) if engine.silent.hang_up_on_one() => {
                        let seat = Silent::enter(&engine.silent, false);
                        tokio::spawn(engine.clone().wait_for_place(stream, seat, Arc::clone(&places)));
                    }
                    Err(_) => turn_away(&stream),
                },
                Err(error) => {
                    // Out of descriptors, most likely. Connections that end give some back.
                    tracing::warn!("control socket: accept: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("control socket: remove {}: {error}", self.path.display());
        }
    }
}

/// One daemon a socket, decided by a lock beside it: two that start at once cannot both find it free.
fn lock(path: &Path) -> Result<Lock, BindError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let io = |what| {
        let path = name.clone();
        move |source| BindError::Io { path, what, source }
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    loop {
        let file = options.open(&name).map_err(io("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BindError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        // A daemon that just ended may have removed the file that we opened: its lock would keep nobody away.
        let ours = file.metadata().map_err(io("stat"))?;
        if fs::symlink_metadata(&name).is_ok_and(|m| (m.dev(), m.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Lock { path: name, _file: file });
        }
    }
}

/// Removes the socket of a daemon that is dead.
fn make_room(path: &Path) -> Result<(), BindError> {
    let io = |what, source| BindError::Io { path: path.to_owned(), what, source };
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io("stat", e)),
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match StdStream::connect(path) {
        Ok(_) => Err(BindError::InUse(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|e| io("remove the socket of a dead daemon", e))
        }
        Err(e) => Err(io("connect", e)),
    }
}

/// All places are taken.
fn turn_away(stream: &UnixStream) {
    let refusal = Refusal::new(format!("all {CONNECTIONS} control connections are taken; try again"));
    // One line fits into an empty socket buffer; if it does not, the client sees us hang up.
    let _ = stream.try_write(&line(&Reply::Error(refusal)));
}

fn line(reply: &Reply) -> Vec<u8> {
    // Only maps with keys that are no strings fail, and no reply has one.
    let mut out = serde_json::to_vec(reply).unwrap_or_else(|_| br#"{"error":{"message":"reply"}}"#.to_vec());
    out.push(b'\n');
    out
}

/// What a connection needs.
#[derive(Clone)]
struct Engine {
    requests: mpsc::Sender<Request>,
    feed: Feed,
    samples: SampleFeed,
    followers: Arc<Semaphore>,
    /// There is one ring buffer with one filter.
    capture: Arc<Semaphore>,
    silent: Arc<Silent>,
}

/// Clients that we wait for. They give their place to whoever comes: first those that never said anything, and of those
/// that were silent longest the first.
#[derive(Debug, Default)]
struct Silent(Mutex<(u64, BTreeMap<Place, Arc<Notify>>)>);

/// Whether the client has spoken, and since when it is silent, as a number that rises.
type Place = (bool, u64);

/// One of them, until it speaks or goes.
struct Seat {
    silent: Arc<Silent>,
    key: Place,
    leave: Arc<Notify>,
}

impl Silent {
    fn enter(silent: &Arc<Self>, has_spoken: bool) -> Seat {
        let leave = Arc::new(Notify::new());
        let mut all = silent.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        let key = (has_spoken, all.0);
        all.1.insert(key, Arc::clone(&leave));
        Seat { silent: Arc::clone(silent), key, leave }
    }

    /// False: everybody is being served.
    fn hang_up_on_one(&self) -> bool {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).1.pop_first();
        first.is_some_and(|(_, leave)| {
            leave.notify_one();
            true
        })
    }
}

impl Seat {
    /// What the client sends. None: it was silent for too long, or its place is needed. While it is served nobody takes
    /// its place: take another seat afterwards.
    async fn listen(self, read: &mut BufReader<OwnedReadHalf>) -> Option<io::Result<Input>> {
        let patience = if self.key.0 { IDLE } else { FIRST };
        tokio::select! {
            input = timeout(patience, next(read)) => input.ok(),
            () = self.leave.notified() => None,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.silent.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.key);
    }
}

/// What a client sent.
enum Input {
    Line(Vec<u8>),
    /// No newline within the bound.
    TooLong,
    /// The end, perhaps in the middle of a line: whoever hangs up does not want an answer.
    End,
}

impl Engine {
    /// Serves a client whose place somebody else is just giving up.
    async fn wait_for_place(self, stream: UnixStream, seat: Seat, places: Arc<Semaphore>) {
        let place = tokio::select! {
            place = timeout(LEAVING, places.acquire_owned()) => place,
            () = seat.leave.notified() => return,
        };
        match place {
            Ok(Ok(place)) => self.serve(stream, seat, place).await,
            _ => turn_away(&stream),
        }
    }

    async fn serve(self, stream: UnixStream, seat: Seat, _place: OwnedSemaphorePermit) {
        let uid = stream.peer_cred().ok().map(|c| c.uid());
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        // A client that is gone is no fault of ours, and there is nobody to tell.
        let _ = self.converse(uid, seat, &mut read, &mut write).await;
    }

    async fn converse(
        &self,
        uid: Option<u32>,
        mut seat: Seat,
        read: &mut BufReader<OwnedReadHalf>,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        loop {
            let Some(input) = seat.listen(read).await else { return Ok(()) };
            let command = match input? {
                Input::End => return Ok(()),
                Input::TooLong => {
                    let refusal = format!("a request is at most {MAX_REQUEST} octets long");
                    send(write, &Reply::Error(Refusal::new(refusal))).await?;
                    write.shutdown().await?;
                    let _ = timeout(DRAIN, discard(read)).await;
                    return Ok(());
                }
                Input::Line(line) => serde_json::from_slice::<Command>(&line),
            };
            match command {
                Ok(Command::Events { follow: true, kind, last }) => {
                    let past = Command::Events { follow: false, kind, last: last.or(Some(BACKLOG)) };
                    return self.follow(uid, past, read, write).await;
                }
                Ok(command @ Command::Capture(_)) => return self.capture(uid, command, read, write).await,
                Ok(command) => {
                    let reply = self.ask(command, uid).await.map_or_else(Reply::Error, Reply::Ok);
                    send(write, &reply).await?;
                }
                Err(error) => {
                    let refusal = Refusal::new(format!("not a command of this version: {error}"));
                    send(write, &Reply::Error(refusal)).await?;
                }
            }
            seat = Silent::enter(&self.silent, true);
        }
    }

    /// Tells of packets until the client says anything or hangs up.
    async fn capture(
        &self,
        uid: Option<u32>,
        command: Command,
        read: &mut BufReader<OwnedReadHalf>,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let Ok(_place) = Arc::clone(&self.capture).try_acquire_owned() else {
            let refusal = Refusal::new("somebody captures already; there is one ring buffer with one filter");
            return send(write, &Reply::Error(refusal)).await;
        };
        let mut coming = self.samples.subscribe();
        let started = match self.ask(command, uid).await {
            Ok(started) => started,
            Err(refusal) => return send(write, &Reply::Error(refusal)).await,
        };
        let told = async {
            send(write, &Reply::Ok(started)).await?;
            tell(&mut coming, read, write).await
        };
        let told = told.await;
        let last = self.ask(Command::CaptureEnd, uid).await.map_or_else(Reply::Error, Reply::Ok);
        told?;
        send(write, &last).await
    }

    async fn ask(&self, command: Command, uid: Option<u32>) -> Result<Value, Refusal> {
        let stopping = || Refusal::new("responderd is stopping");
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request { command, uid, reply }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// The past from the engine, then whatever comes. Subscribes first, so that nothing falls between.
    async fn follow(
        &self,
        uid: Option<u32>,
        past: Command,
        read: &mut BufReader<OwnedReadHalf>,
        write: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let Ok(_place) = Arc::clone(&self.followers).try_acquire_owned() else {
            let refusal = Refusal::new(format!("{FOLLOWERS} others follow already"));
            return send(write, &Reply::Error(refusal)).await;
        };
        let Command::Events { kind: wanted, .. } = past else { return Ok(()) };
        let mut coming = self.feed.subscribe();
        let past = match self.ask(past, uid).await {
            Ok(past) => serde_json::from_value::<Vec<Event>>(past).unwrap_or_default(),
            Err(refusal) => return send(write, &Reply::Error(refusal)).await,
        };
        let newest = past.last().map_or(0, |e| e.id);
        for event in past {
            send(write, &Reply::Event(event)).await?;
        }
        let mut scratch = [0; 256];
        loop {
            let event = tokio::select! {
                event = coming.recv() => event,
                // What a follower says is not heard; that it hangs up is.
                heard = read.read(&mut scratch) => if heard? == 0 { return Ok(()) } else { continue },
            };
            let reply = match event {
                Ok(event) if event.id <= newest || wanted.is_some_and(|k| k != event.kind) => continue,
                Ok(event) => Reply::Event(event),
                Err(RecvError::Lagged(missed)) => Reply::Missed(missed),
                Err(RecvError::Closed) => return Ok(()),
            };
            // No time limit: a follower may be stopped for an hour, and costs nobody anything.
            write.write_all(&line(&reply)).await?;
        }
    }
}

/// Samples as they come, many to a write. Ends when the client says anything.
async fn tell(
    coming: &mut Receiver<Arc<Sample>>,
    read: &mut BufReader<OwnedReadHalf>,
    write: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut heard = [0; 64];
    let mut lines = Vec::new();
    loop {
        let first = tokio::select! {
            sample = coming.recv() => sample,
            heard = read.read(&mut heard) => {
                // Whoever hangs up wants no last reply, and gets none for it goes nowhere.
                return heard.map(|_| ());
            }
        };
        lines.clear();
        match first {
            Ok(sample) => lines.extend(line(&Reply::Sample(sample))),
            Err(RecvError::Lagged(missed)) => lines.extend(line(&Reply::Missed(missed))),
            Err(RecvError::Closed) => return Ok(()),
        }
        while lines.len() < MAX_REQUEST {
            match coming.try_recv() {
                Ok(sample) => lines.extend(line(&Reply::Sample(sample))),
                Err(TryRecvError::Lagged(missed)) => lines.extend(line(&Reply::Missed(missed))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        timeout(WRITE, write.write_all(&lines)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    }
}

async fn next(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Input> {
    let mut out = Vec::new();
    (&mut *read).take(MAX_REQUEST as u64).read_until(b'\n', &mut out).await?;
    Ok(match out.last() {
        Some(b'\n') => Input::Line(out),
        _ if out.len() >= MAX_REQUEST => Input::TooLong,
        _ => Input::End,
    })
}

async fn discard(read: &mut BufReader<OwnedReadHalf>) -> io::Result<()> {
    let mut scratch = [0; 4096];
    while read.read(&mut scratch).await? > 0 {}
    Ok(())
}

async fn send(write: &mut OwnedWriteHalf, reply: &Reply) -> io::Result<()> {
    timeout(WRITE, write.write_all(&line(reply))).await.map_err(|_| io::ErrorKind::TimedOut)?
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::control::Events;

    /// Time goes by at once where everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_client_without_a_command_is_hung_up_on_after_ten_seconds_and_a_follower_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (requests, mut inbox) = mpsc::channel::<Request>(1);
        let events = Events::default();
        let serving =
            tokio::spawn(Server::bind(&path).unwrap().run(requests, events.feed(), SampleFeed::default()));
        tokio::spawn(async move {
            while let Some(request) = inbox.recv().await {
                let _ = request.reply.send(Ok(Value::Array(Vec::new())));
            }
        });
        let mut follower = UnixStream::connect(&path).await.unwrap();
        follower.write_all(b"{\"command\":\"events\",\"follow\":true}\n").await.unwrap();
        let started = Instant::now();
        let mut silent = UnixStream::connect(&path).await.unwrap();
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
        assert!((FIRST..FIRST + LEAVING).contains(&started.elapsed()), "{:?}", started.elapsed());
        let mut spoken = UnixStream::connect(&path).await.unwrap();
        spoken.write_all(b"{\"command\":\"status\"}\n").await.unwrap();
        let mut reply = [0; 10];
        spoken.read_exact(&mut reply).await.unwrap();
        let started = Instant::now();
        assert!(spoken.read_to_end(&mut Vec::new()).await.is_ok());
        assert!(started.elapsed() >= IDLE, "{:?}", started.elapsed());
        let heard = timeout(Duration::from_hours(1), follower.read(&mut [0])).await;
        assert!(heard.is_err(), "a follower may listen for ever: {heard:?}");
        serving.abort();
    }
}
