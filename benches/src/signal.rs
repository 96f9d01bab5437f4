//! Ending a system call of another thread.

#![expect(unsafe_code, reason = "installing a signal handler")]

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::error::{Error, Result};

/// The signal that ends a run of the generator.
pub const STOP: Signal = Signal::SIGUSR1;

extern "C" fn nothing(_signal: nix::libc::c_int) {}

/// Makes [`STOP`] interrupt system calls, and do nothing else.
pub fn install() -> Result {
    // Without SA_RESTART: the call ends with EINTR.
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing, so it may run at any moment.
    unsafe { sigaction(STOP, &action) }.map_err(Error::system("sigaction"))?;
    Ok(())
}
