//! The services: one nginx for each.

use std::fs;

use nix::sys::signal::Signal;
use responder_testbed::{Process, Scratch};

use super::{
    DemoError, Result,
    example::{Example, Site},
    stage::Stage,
};

/// All of them, by the number of their site; None: killed.
pub struct Services {
    running: Vec<Option<Process>>,
}

impl Services {
    /// Starts all.
    pub fn start_all(example: &Example, stage: &Stage, scratch: &Scratch) -> Result<Self> {
        let running: Result<Vec<Option<Process>>> =
            example.sites.iter().map(|site| start(site, stage, scratch).map(Some)).collect();
        Ok(Self { running: running? })
    }

    /// Starts one that was killed.
    pub fn start(&mut self, number: usize, site: &Site, stage: &Stage, scratch: &Scratch) -> Result {
        self.running[number] = Some(start(site, stage, scratch)?);
        Ok(())
    }

    /// Kills some at once, as a power failure does: no farewell to anybody.
    pub fn kill(&mut self, numbers: &[usize]) {
        for &number in numbers {
            self.running[number].iter().for_each(|process| process.signal(Signal::SIGKILL));
        }
        for &number in numbers {
            self.running[number] = None;
        }
    }
}

/// One process without children, so that it can be killed whole by its own id.
fn start(site: &Site, stage: &Stage, scratch: &Scratch) -> Result<Process> {
    let Site { label, address, port } = site;
    let file = |kind: &str| scratch.file(format!("nginx-{label}.{kind}"));
    let (config, errors) = (file("conf"), file("errors.log"));
    let text = format!(
        "daemon off;
master_process off;
pid {pid};
error_log {errors};
events {{ worker_connections 64; }}
http {{
    access_log {access};
    server {{
        listen {address}:{port};
        location = /health {{ return 200 \"{label} is well\\n\"; }}
        location / {{ return 200 \"{label}\\n\"; }}
    }}
}}
",
        pid = file("pid").display(),
        errors = errors.display(),
        access = file("access.log").display(),
    );
    fs::write(&config, text).map_err(DemoError::system(config.display().to_string()))?;
    let mut command = stage.server.command("nginx");
    // -e: without it, nginx opens the log file of the machine's own nginx before it reads the configuration.
    command.arg("-e").arg(&errors).arg("-c").arg(&config);
    Ok(Process::start(format!("nginx of {label}"), &mut command, file("log"))?)
}
