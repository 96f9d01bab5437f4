//! The other end of the control socket, for `responderctl` and tests. Blocking.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{
    Command, Event, Refusal,
    capture::{Sample, Wanted},
    command::Reply,
};

/// How long a command may take. Only a daemon that hangs takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a command may take that reads a configuration file.
const LONG_PATIENCE: Duration = Duration::from_mins(2);

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or we are not let in.
    #[error("cannot reach responderd at {}: {}; {}", .path.display(), plain(.source), hint(.source))]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon takes too long.
    #[error("responderd at {} does not answer within {} s; see its log", .0.display(), .1.as_secs())]
    Silent(PathBuf, Duration),
    /// The connection broke.
    #[error("responderd at {} hung up; see its log", .0.display())]
    HungUp(PathBuf),
    /// What came is no reply.
    #[error("{} speaks another language than this responderctl: {}", .path.display(), .what)]
    Garbled {
        /// The socket.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The daemon says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What the system said, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        "only root and the group of the socket may use it"
    } else {
        "is it running, and is --socket right?"
    }
}

/// What a follower gets.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Something happened.
    Event(Event),
    /// A packet.
    Sample(Arc<Sample>),
    /// So many events or samples were missed.
    Missed(u64),
    /// The last reply of a capture.
    End(Value),
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    read: BufReader<UnixStream>,
    /// A line that has not ended when the wait was over.
    begun: Vec<u8>,
}

impl Client {
    /// Connects to a daemon.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).map_err(unreachable)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
        Ok(Self { path: path.to_owned(), read: BufReader::new(stream), begun: Vec::new() })
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, command: &Command) -> Result<Value, ClientError> {
        let slow = matches!(
            command,
            Command::Reload
                | Command::Set { .. }
                | Command::Add { .. }
                | Command::Remove { .. }
                | Command::Diff
                | Command::Save { .. }
                | Command::Ns { .. }
        );
        self.send(command, Some(if slow { LONG_PATIENCE } else { PATIENCE }))?;
        match self.receive()? {
            Reply::Ok(value) => Ok(value),
            Reply::Error(refusal) => Err(refusal.into()),
            other => Err(self.garbled(&format!("{other:?}"))),
        }
    }

    /// Sends `events` with `follow`; [`Self::news`] then waits for each event.
    pub fn follow(&mut self, command: &Command) -> Result<(), ClientError> {
        self.send(command, None)
    }

    /// Sends `capture`; [`Self::news`] then waits for each packet.
    pub fn capture(&mut self, wanted: &Wanted) -> Result<Value, ClientError> {
        let value = self.call(&Command::Capture(wanted.clone()))?;
        self.wait(None)?;
        Ok(value)
    }

    /// Ends a capture: what is under way still comes, then [`News::End`].
    pub fn end_capture(&mut self) -> Result<(), ClientError> {
        self.wait(Some(PATIENCE))?;
        self.read.get_mut().write_all(b"\n").map_err(|error| self.broken(&error))
    }

    /// How long [`Self::news`] waits; None: for ever. A wait that is over is [`ClientError::Silent`].
    pub fn wait(&mut self, patience: Option<Duration>) -> Result<(), ClientError> {
        let set = self.read.get_ref().set_read_timeout(patience);
        set.map_err(|_| ClientError::HungUp(self.path.clone()))
    }

    /// The next event.
    pub fn news(&mut self) -> Result<News, ClientError> {
        match self.receive()? {
            Reply::Event(event) => Ok(News::Event(event)),
            Reply::Missed(count) => Ok(News::Missed(count)),
            Reply::Error(refusal) => Err(refusal.into()),
            Reply::Sample(sample) => Ok(News::Sample(sample)),
            Reply::Ok(value) => Ok(News::End(value)),
        }
    }

    fn send(&mut self, command: &Command, patience: Option<Duration>) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(command).map_err(|e| self.garbled(&e.to_string()))?;
        line.push(b'\n');
        let stream = self.read.get_mut();
        stream.set_read_timeout(patience).map_err(|_| ClientError::HungUp(self.path.clone()))?;
        match stream.write_all(&line) {
            // A daemon that has no place for us says so and hangs up: read what it said.
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(self.broken(&e)),
            _ => Ok(()),
        }
    }

    fn receive(&mut self) -> Result<Reply, ClientError> {
        if let Err(error) = self.read.read_until(b'\n', &mut self.begun) {
            return Err(self.broken(&error));
        }
        let line = std::mem::take(&mut self.begun);
        if !line.ends_with(b"\n") {
            return Err(ClientError::HungUp(self.path.clone()));
        }
        serde_json::from_slice(&line).map_err(|e| self.garbled(&e.to_string()))
    }

    fn broken(&self, error: &io::Error) -> ClientError {
        let patience = self.read.get_ref().read_timeout().ok().flatten();
        match (error.kind(), patience) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(patience)) => {
                ClientError::Silent(self.path.clone(), patience)
            }
            _ => ClientError::HungUp(self.path.clone()),
        }
    }

    fn garbled(&self, what: &str) -> ClientError {
        ClientError::Garbled { path: self.path.clone(), what: what.to_owned() }
    }
}
