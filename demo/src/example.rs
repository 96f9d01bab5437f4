//! The example that is shown: a copy of examples/eight-sites.toml with paths of its own, and what it says.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use responder_testbed::Scratch;
use responder_user::{config, model::Model};

use super::{
    DemoError, Result,
    pool::{Expect, Pool},
};

/// Where the example is, in the repository.
pub const EXAMPLE: &str = "examples/eight-sites.toml";

/// A service of the example.
#[derive(Clone, Debug)]
pub struct Site {
    /// Last part of its location: "HK".
    pub label: String,
    /// Where it listens.
    pub address: Ipv4Addr,
    /// Port of its health check.
    pub port: u16,
}

/// What the example says.
pub struct Example {
    /// The copy that runs.
    pub file: PathBuf,
    /// Control socket of the daemon.
    pub socket: PathBuf,
    /// The interface that answers.
    pub interface: String,
    /// Address that answers.
    pub server: Ipv4Addr,
    /// Name that is asked.
    pub name: String,
    /// TTL of its answers.
    pub ttl: u32,
    /// The services, in the order of the file.
    pub sites: Vec<Site>,
}

impl Example {
    /// Copies the example into the folder of this run and reads it as the daemon will.
    pub fn prepare(scratch: &Scratch) -> Result<Self> {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(EXAMPLE);
        let text = fs::read_to_string(&original).map_err(DemoError::system(EXAMPLE))?;
        let socket = scratch.file("control.sock");
        let file = scratch.file("eight-sites.toml");
        let copy = with_paths(&text, &socket, &scratch.file("state"), scratch.pins())?;
        fs::write(&file, copy).map_err(DemoError::system(file.display().to_string()))?;
        let loaded = config::load(&file).map_err(|problems| DemoError::Unexpected(problems.to_string()))?;
        Self::read(&loaded.model, file, socket).ok_or_else(|| {
            DemoError::Unexpected(format!("{EXAMPLE} is not what the demo shows: one name, IPv4, XDP"))
        })
    }

    fn read(model: &Model, file: PathBuf, socket: PathBuf) -> Option<Self> {
        let domain = model.domains.first()?;
        let sites: Option<Vec<Site>> = model
            .services
            .iter()
            .map(|service| {
                let location = service.location.as_ref()?.to_string();
                let label = location.rsplit('.').next()?.to_owned();
                Some(Site { label, address: v4(*service.addresses.first()?)?, port: service.port })
            })
            .collect();
        Some(Self {
            file,
            socket,
            interface: model.settings.xdp.interfaces.first()?.clone(),
            server: v4(model.settings.listen.first()?.ip())?,
            name: domain.name.to_string(),
            ttl: domain.ttl,
            sites: sites?,
        })
    }

    /// Number of a site.
    pub fn site(&self, label: &str) -> Result<usize> {
        let found = self.sites.iter().position(|site| site.label == label);
        found.ok_or_else(|| DemoError::Unexpected(format!("{EXAMPLE} has no service at {label}")))
    }

    /// One of these in turn, or all sites at once when none is named.
    pub fn expect(&self, labels: &[&str]) -> Result<Expect> {
        if labels.is_empty() {
            return Ok(Expect { pool: (0..self.sites.len()).collect(), all: true });
        }
        let pool: Result<Pool> = labels.iter().map(|label| self.site(label)).collect();
        Ok(Expect { pool: pool?, all: false })
    }

    /// The site with this address.
    pub fn site_of(&self, address: Ipv4Addr) -> Option<usize> {
        self.sites.iter().position(|site| site.address == address)
    }

    /// "IN JPN", or "all eight" where that is what they are.
    pub fn labels(&self, pool: Pool) -> String {
        if pool.len() as usize == self.sites.len() {
            return "all eight".to_owned();
        }
        let labels: Vec<&str> = pool.sites().map(|site| self.sites[site].label.as_str()).collect();
        labels.join(" ")
    }
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// The text with the paths of this run; all else stays as it is written.
fn with_paths(text: &str, socket: &Path, state: &Path, pins: &Path) -> Result<String> {
    let mut changed = 0;
    let lines = text.lines().map(|line| {
        let key = line.split('=').next().unwrap_or_default().trim();
        let replaced = match key {
            "control_socket" => format!("control_socket = \"{}\"", socket.display()),
            "state_dir" => format!("state_dir = \"{}\"", state.display()),
            "[xdp]" => format!("[xdp]\npin_path = \"{}\"", pins.display()),
            _ => return format!("{line}\n"),
        };
        changed += 1;
        replaced + "\n"
    });
    let out: String = lines.collect();
    if changed == 3 {
        return Ok(out);
    }
    Err(DemoError::Unexpected(format!(
        "{EXAMPLE}: control_socket, state_dir and [xdp] must be there, once each"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_what_the_demo_shows() {
        let scratch = Scratch::new("demo-example").expect("a folder");
        let example = Example::prepare(&scratch).expect("the example");
        let labels: Vec<&str> = example.sites.iter().map(|site| site.label.as_str()).collect();
        assert_eq!(labels, ["IN", "JPN", "HK", "UK", "RU", "EG", "SD", "ZMB"]);
        assert_eq!(example.name, "www.example.com");
        let loaded = config::load(&example.file).expect("valid");
        assert_eq!(loaded.model.settings.control_socket, example.socket);
        assert_eq!(loaded.model.settings.xdp.pin_path, scratch.pins());
    }
}
