//! Network namespaces.

use std::{fs::File, io, os::fd::AsRawFd, panic, path::PathBuf, process::Command, sync::Arc, thread};

use nix::sched::{CloneFlags, setns, unshare};

use super::{Result, TestbedError, spawn};

/// A network namespace without a name: it ends with its last process and its last open file.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Makes one, with its loopback interface up.
    pub fn new() -> Result<Self> {
        let made = in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.map_err(TestbedError::system("make a network namespace"))?;
        let namespace = Self { file: Arc::new(file) };
        namespace.ip("link set dev lo up")?;
        Ok(namespace)
    }

    /// A path by which other programs find it (`nsenter --net=PATH`) while this process lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Does something inside: sockets that are made there stay there, wherever they are used. The file systems are those
    /// outside, so /sys/class/net does not show the interfaces of the namespace, and pins are where they always are.
    pub fn run<T: Send>(&self, action: impl FnOnce() -> T + Send) -> Result<T> {
        in_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(action())
        })
        .map_err(TestbedError::system("enter a network namespace"))
    }

    /// A program that will run inside, and be killed when the thread that starts it ends.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        spawn::prepare(&mut command, self.file.clone());
        command
    }

    /// Runs a program inside to its end: what it wrote to standard output.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let out = self.command(program).args(arguments).output();
        let out = out.map_err(|source| TestbedError::Start { program: program.to_owned(), source })?;
        if out.status.success() {
            return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
        }
        let said = if out.stderr.is_empty() { out.stdout } else { out.stderr };
        Err(TestbedError::Failed {
            command: format!("{program} {}", arguments.join(" ")),
            status: out.status,
            output: String::from_utf8_lossy(&said).trim_end().to_owned(),
        })
    }

    /// Runs `ip` inside with the words of `line`.
    pub fn ip(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.output("ip", &words)
    }
}

/// Does something in a thread of its own, for a thread that has been in a namespace is of no other use.
fn in_thread<T: Send>(action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| scope.spawn(action).join()).unwrap_or_else(|fault| panic::resume_unwind(fault))
}
