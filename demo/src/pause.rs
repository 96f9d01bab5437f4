//! Waiting, until it is time or somebody wants us to stop.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{DemoError, Result};

/// Ears for SIGINT, SIGTERM and SIGHUP. Who waits here learns of them and goes home by the usual way, cleaning up.
pub struct Pause {
    stop: mpsc::Receiver<()>,
}

impl Pause {
    /// Begins to listen.
    pub fn begin() -> Result<Self> {
        let failed = || DemoError::system("listen to signals");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed())?;
        let ears = {
            let _inside = runtime.enter();
            let ears = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
            let ears: std::io::Result<Vec<Signal>> = ears.into_iter().collect();
            ears.map_err(failed())?
        };
        let (heard, stop) = mpsc::channel();
        thread::spawn(move || {
            let mut ears = ears;
            runtime.block_on(std::future::poll_fn(|context| {
                if ears.iter_mut().any(|ear| ear.poll_recv(context).is_ready()) {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            }));
            // Nobody waits any more when the demo is over.
            let _ = heard.send(());
        });
        Ok(Self { stop })
    }

    /// Waits until `deadline`.
    pub fn until(&self, deadline: Instant) -> Result {
        match self.stop.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(DemoError::Interrupted),
        }
    }

    /// Waits until `is_done` says so; false when it does not before `deadline`.
    pub fn watch(&self, deadline: Instant, mut is_done: impl FnMut() -> Result<bool>) -> Result<bool> {
        const GLANCE: Duration = Duration::from_millis(10);
        loop {
            if is_done()? {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.until(Instant::now() + GLANCE)?;
        }
    }
}
