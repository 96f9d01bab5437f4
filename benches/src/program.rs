//! The programs of the benches, and which of all programs is on the far end of the cable.

use aya::{
    Ebpf, EbpfLoader,
    programs::{Xdp, XdpMode, xdp::XdpLink},
};

use crate::error::{Error, Result};

/// Makes queries.
pub static GENERATE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/generate.o"));
/// Checks replies.
pub static COUNT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/count.o"));
/// Swaps the addresses.
pub static SWAP: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/swap.o"));
/// Makes frames of a template.
pub static FLOOD: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/flood.o"));
/// Sends back.
pub static EMPTY: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/empty.o"));

/// Loads an object and its program of this name.
pub fn load(object: &[u8], name: &str) -> Result<Ebpf> {
    let mut ebpf = EbpfLoader::new().load(object).map_err(Error::bpf(name))?;
    xdp(&mut ebpf, name)?.load().map_err(Error::bpf(name))?;
    Ok(ebpf)
}

/// The program of an object.
pub fn xdp<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp> {
    ebpf.program_mut(name)
        .ok_or_else(|| Error::Wrong(format!("the object has no program {name}")))?
        .try_into()
        .map_err(Error::bpf(name))
}

/// The place of the program under test. Changing the program is one atomic step, so that the driver's rings stay as
/// they are between the runs of an interleaved comparison.
pub struct Stage {
    link: Option<XdpLink>,
}

impl Stage {
    /// Takes the place, in the driver.
    pub fn take(first: &mut Xdp, interface: &str) -> Result<Self> {
        let id = first.attach(interface, XdpMode::Driver).map_err(Error::bpf("attach in the driver"))?;
        Ok(Self { link: Some(first.take_link(id).map_err(Error::bpf("link"))?) })
    }

    /// Puts another program there.
    pub fn show(&mut self, next: &mut Xdp) -> Result {
        let Some(link) = self.link.take() else { return Err(Error::Wrong("the link is lost".to_owned())) };
        let id = next.attach_to_link(link).map_err(Error::bpf("BPF_LINK_UPDATE"))?;
        self.link = Some(next.take_link(id).map_err(Error::bpf("link"))?);
        Ok(())
    }
}
