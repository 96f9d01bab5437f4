//! Who asks: an address and the place that the location table gives it (spec/netscaler.md 1.3).

use std::net::IpAddr;

use crate::model::{Location, Model, location::Place};

/// A client, or any other address of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client<'m> {
    /// Its address.
    pub address: IpAddr,
    /// Where it is; None: its location is not known.
    pub place: Option<Place<'m>>,
}

impl<'m> Client<'m> {
    /// Looks the address up. Takes time in proportion to the number of custom ranges.
    pub fn locate(model: &'m Model, address: IpAddr) -> Self {
        Self { address, place: model.locations.find(address) }
    }

    /// Its location, if known.
    pub fn location(&self) -> Option<&'m Location> {
        self.place.map(|place| place.location)
    }
}
