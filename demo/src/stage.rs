//! Two network namespaces and a pair of interfaces between them.

use std::net::Ipv4Addr;

use responder_testbed::{End, Namespace, ebpf_object, veth};

use super::{DemoError, Result, example::Example};

/// The client's end of the pair.
pub const CLIENT_INTERFACE: &str = "client0";

/// Where everything happens.
pub struct Stage {
    /// The responder and the services.
    pub server: Namespace,
    /// Those who ask.
    pub client: Namespace,
    /// Address of single questions.
    pub client_address: Ipv4Addr,
    /// Address of the load.
    pub load_address: Ipv4Addr,
}

impl Stage {
    /// The responder's address and its neighbours on one link, the services' addresses behind it.
    pub fn set_up(example: &Example) -> Result<Self> {
        let beside = |n| Ipv4Addr::from_bits(example.server.to_bits() + n);
        let (client_address, load_address) = (beside(1), beside(2));
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        let with_length = |address: Ipv4Addr| format!("{address}/24");
        veth::connect(
            End {
                namespace: &server,
                interface: &example.interface,
                addresses: &[&with_length(example.server)],
            },
            End {
                namespace: &client,
                interface: CLIENT_INTERFACE,
                addresses: &[&with_length(client_address), &with_length(load_address)],
            },
        )?;
        let pass = ebpf_object("pass");
        if !pass.exists() {
            return Err(DemoError::Unexpected(format!(
                "{}: not built; run `cargo xtask demo`",
                pass.display()
            )));
        }
        veth::attach_xdp(&client, CLIENT_INTERFACE, &pass)?;
        for site in &example.sites {
            server.ip(&format!("address add {}/32 dev lo", site.address))?;
        }
        Ok(Self { server, client, client_address, load_address })
    }
}
