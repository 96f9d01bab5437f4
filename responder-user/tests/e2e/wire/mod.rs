//! What is decided, on the wire: one daemon for many configurations, clients at any address, told by the control socket
//! and asked by real packets. See [`stand`].

mod examples;
mod gdnsd;
mod random;
mod stand;
mod vectors;
