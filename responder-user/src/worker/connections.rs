//! Who is connected, and who goes when it is too many.

use std::{net::IpAddr, rc::Rc};

use tokio::{sync::Notify, time::Instant};

use super::tcp::{CONNECTIONS, PER_CLIENT};

/// The connections of one worker.
#[derive(Default)]
pub(super) struct Connections {
    open: Vec<Open>,
    last_id: u64,
}

struct Open {
    id: u64,
    client: u64,
    /// When the last reply went out, or the connection came in.
    heard: Instant,
    leave: Rc<Notify>,
}

/// A place for a new connection.
pub(super) struct Admission {
    pub id: u64,
    /// Notified when the connection has to go.
    pub leave: Rc<Notify>,
    /// Connections that had to go for it.
    pub evicted: u64,
}

impl Connections {
    pub fn admit(&mut self, client: IpAddr, now: Instant) -> Admission {
        let client = network(client);
        let mut evicted = 0;
        if self.open.iter().filter(|open| open.client == client).count() >= PER_CLIENT {
            evicted += self.evict(|open| open.client == client);
        }
        if self.open.len() >= CONNECTIONS {
            evicted += self.evict(|_| true);
        }
        self.last_id += 1;
        let leave = Rc::new(Notify::new());
        self.open.push(Open { id: self.last_id, client, heard: now, leave: Rc::clone(&leave) });
        Admission { id: self.last_id, leave, evicted }
    }

    fn evict(&mut self, which: impl Fn(&Open) -> bool) -> u64 {
        let silent =
            self.open.iter().enumerate().filter(|(_, open)| which(open)).min_by_key(|(_, o)| (o.heard, o.id));
        let Some((index, _)) = silent else { return 0 };
        self.open.swap_remove(index).leave.notify_one();
        1
    }

    /// The connection carried a reply.
    pub fn touch(&mut self, id: u64, now: Instant) {
        if let Some(open) = self.open.iter_mut().find(|open| open.id == id) {
            open.heard = now;
        }
    }

    /// The connection is closed.
    pub fn remove(&mut self, id: u64) {
        self.open.retain(|open| open.id != id);
    }
}

/// An IPv4 address or an IPv6 /64, as a number that differs between the families.
fn network(client: IpAddr) -> u64 {
    match client.to_canonical() {
        // Global IPv6 begins with 001, so the upper half cannot be all ones.
        IpAddr::V4(address) => u64::from(u32::from(address)) | 0xffff_ffff << 32,
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_silent_ones_go_first() {
        let mut connections = Connections::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let client = |i: u8| IpAddr::from([192, 0, 2, i]);
        let first = connections.admit(client(1), at(0));
        let second = connections.admit(client(1), at(1));
        connections.touch(first.id, at(2));
        for i in 2..PER_CLIENT as u64 {
            assert_eq!(connections.admit(client(1), at(10 + i)).evicted, 0);
        }
        assert_eq!(connections.admit(client(1), at(100)).evicted, 1);
        assert!(connections.open.iter().any(|o| o.id == first.id));
        assert!(!connections.open.iter().any(|o| o.id == second.id));
        let mut next = 0;
        while connections.open.len() < CONNECTIONS {
            next += 1;
            connections.admit(IpAddr::from([10, 0, 0, next]), at(200));
        }
        assert_eq!(connections.admit(client(9), at(300)).evicted, 1);
        assert_eq!(connections.open.len(), CONNECTIONS);
        assert!(!connections.open.iter().any(|o| o.id == first.id));
    }
}
