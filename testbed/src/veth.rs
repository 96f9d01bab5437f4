//! Pairs of virtual interfaces.

use std::path::Path;

use super::{Namespace, Result};

/// One end of a pair.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// Its name.
    pub interface: &'a str,
    /// Its addresses with prefix lengths.
    pub addresses: &'a [&'a str],
}

/// Makes a pair and brings it up. Addresses are usable at once.
pub fn connect(one: End<'_>, other: End<'_>) -> Result {
    one.namespace.ip(&format!(
        "link add {} type veth peer name {} netns {}",
        one.interface,
        other.interface,
        other.namespace.path().display()
    ))?;
    for end in [one, other] {
        for address in end.addresses {
            let no_detection = if address.contains(':') { "nodad" } else { "" };
            end.namespace.ip(&format!("address add {address} dev {} {no_detection}", end.interface))?;
        }
        end.namespace.ip(&format!("link set dev {} up", end.interface))?;
    }
    Ok(())
}

/// Attaches the first program of the object's section "xdp". On veth, answers that leave from the driver (XDP_TX)
/// arrive only where the other end has an XDP program too: give it [`crate::ebpf_object`]`("pass")`.
pub fn attach_xdp(namespace: &Namespace, interface: &str, object: &Path) -> Result {
    namespace.ip(&format!("link set dev {interface} xdpdrv object {} section xdp", object.display()))?;
    Ok(())
}
