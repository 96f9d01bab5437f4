//! What a child does between fork and exec.

#![expect(unsafe_code, reason = "pre_exec")]

use std::{fs::File, io, os::unix::process::CommandExt, process::Command, sync::Arc};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
    sys::{
        prctl::set_pdeathsig,
        signal::{SigSet, Signal},
    },
    unistd::{getpid, getppid},
};

/// Lets the child enter a namespace, and die with the thread that starts it. Its process group is its own: Ctrl-C in a
/// terminal reaches its owner alone, who knows in which order things end.
pub fn prepare(command: &mut Command, namespace: Arc<File>) {
    let owner = getpid();
    let before_exec = move || -> io::Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != owner {
            // The owner died before the line above.
            return Err(Errno::ESRCH.into());
        }
        SigSet::empty().thread_set_mask()?;
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        Ok(())
    };
    command.process_group(0);
    // SAFETY:
    // - the closure runs in a forked child of a process with threads, so it may only do what is safe in a signal handler;
    // - it makes four system calls and allocates nothing: errors are plain numbers, `namespace` is only borrowed;
    // - it touches no memory that another thread could have left half-written.
    unsafe { command.pre_exec(before_exec) };
}
