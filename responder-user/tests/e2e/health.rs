//! Real HTTP endpoints for the health checks: eight services that can be stopped and started one by one.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::bed::Bed;

/// Services of the eight-site example, in the order of their addresses.
pub const SITES: [&str; 8] = ["in", "jpn", "hk", "uk", "ru", "eg", "sd", "zmb"];

/// The endpoints.
pub struct Health {
    up: Arc<[AtomicBool; 8]>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Health {
    /// Listens on 10.77.0.1 to .8, port 80.
    pub fn start(bed: &Bed) -> Self {
        let up: Arc<[AtomicBool; 8]> = Arc::new(std::array::from_fn(|_| AtomicBool::new(true)));
        let stop = Arc::new(AtomicBool::new(false));
        let (is_up, is_over) = (up.clone(), stop.clone());
        // The thread inherits the namespace of the one that starts it.
        let thread = bed.in_server(move || {
            let mut listeners: Vec<_> = (0..8).map(|site| Some(listen(site))).collect();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    for (site, listener) in listeners.iter_mut().enumerate() {
                        serve(site, is_up[site].load(Ordering::Relaxed), listener);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            })
        });
        Self { up, stop, thread: Some(thread) }
    }

    /// Stops or starts one; within a few milliseconds its port is closed or open.
    pub fn set(&self, site: &str, up: bool) {
        let index = SITES.iter().position(|name| *name == site).expect("a site");
        self.up[index].store(up, Ordering::Relaxed);
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(site: usize) -> TcpListener {
    let listener = TcpListener::bind(format!("10.77.0.{}:80", site + 1)).expect("a service address");
    listener.set_nonblocking(true).unwrap();
    listener
}

fn serve(site: usize, up: bool, listener: &mut Option<TcpListener>) {
    match (up, listener.as_ref()) {
        (true, None) => *listener = Some(listen(site)),
        (false, Some(_)) => *listener = None,
        (true, Some(open)) => {
            while let Ok((stream, _)) = open.accept() {
                let _ = greet(stream);
            }
        }
        (false, None) => {}
    }
}

fn greet(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut request = [0; 1024];
    let _ = stream.read(&mut request)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
}
