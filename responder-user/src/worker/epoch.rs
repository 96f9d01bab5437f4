//! When may the memory that workers read be used again? (design section 4, publishing)
//!
//! A worker reads a word that leads to a slot, then the slot. The writer replaces the word, but a worker may still be on
//! its way to the old slot. So a worker says when it enters and when it leaves the shared memory, once per batch, and
//! the writer waits until every worker has been outside once before it writes to a slot that no word leads to any more.
//!
//! Each worker has a number of its own: odd inside, even outside. Nobody else writes it.
//!
//! Why a worker that enters while the writer waits cannot see an old word, in terms of the memory model. The worker
//! makes its number odd (W1), passes a fence (F1), reads words (R1). The writer stores words (W2), passes a fence (F2),
//! reads the number (R2). Both fences are sequentially consistent, so one comes first in their single order. F1 first:
//! R2 sees W1, and the writer waits for this worker. F2 first: R1 sees W2, and the worker goes to the new slot. The
//! store that makes the number even again is a Release and R2 an Acquire, so that everything the worker read comes
//! before whatever the writer does next.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering, fence},
    time::Duration,
};

use crossbeam::utils::CachePadded;

/// Times that the writer yields its core before it sleeps between two looks.
const YIELDS: u32 = 64;

/// Sleep of the writer between two looks. A batch takes about as long.
const PAUSE: Duration = Duration::from_micros(50);

/// One number per reader.
#[derive(Debug)]
pub struct Epochs {
    readers: Box<[CachePadded<AtomicU64>]>,
}

/// The reader is inside while this lives. Not Send: it must not cross an await that moves to another thread.
#[derive(Debug)]
pub struct Guard<'e> {
    number: &'e AtomicU64,
    inside: u64,
    thread_bound: PhantomData<*const ()>,
}

impl Epochs {
    /// For `readers` threads.
    pub fn new(readers: usize) -> Self {
        Self { readers: (0..readers).map(|_| CachePadded::new(AtomicU64::new(0))).collect() }
    }

    /// How many readers there are.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// True if nobody reads.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Enters as `reader`. None: there is no such reader, or it is inside already (one thread per number).
    ///
    /// Words read before this call lead nowhere safe: read them again.
    pub fn guard(&self, reader: usize) -> Option<Guard<'_>> {
        let number: &AtomicU64 = self.readers.get(reader)?;
        let outside = number.load(Ordering::Relaxed);
        if outside & 1 == 1 {
            return None;
        }
        let inside = outside.wrapping_add(1);
        number.compare_exchange(outside, inside, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        fence(Ordering::SeqCst);
        Some(Guard { number, inside, thread_bound: PhantomData })
    }

    /// Returns when every reader has been outside at least once since the call: none of them holds anything that it
    /// read before. Call it after the stores that unlink, before the stores that reuse; never while holding a guard.
    pub fn wait_quiescent(&self) {
        fence(Ordering::SeqCst);
        for number in &self.readers {
            let seen = number.load(Ordering::Acquire);
            if seen & 1 == 0 {
                continue;
            }
            let mut looks = 0;
            while number.load(Ordering::Acquire) == seen {
                looks += 1;
                if looks <= YIELDS {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.number.store(self.inside.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, atomic::AtomicBool},
        time::Instant,
    };

    use super::*;

    /// Two slots and a word that leads to one of them. The writer flips the word and then spoils the other slot; a
    /// reader that is still on its way there finds it spoilt. Returns how often that happened.
    fn spoilt_reads(wait: bool, flips: u32, patience: Duration) -> u64 {
        struct Shared {
            word: AtomicU64,
            slots: [AtomicU64; 2],
            stop: AtomicBool,
            spoilt: AtomicU64,
            reads: AtomicU64,
        }
        let shared = Arc::new(Shared {
            word: AtomicU64::new(0),
            slots: [AtomicU64::new(1), AtomicU64::new(1)],
            stop: AtomicBool::new(false),
            spoilt: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        });
        let epochs = Arc::new(Epochs::new(2));
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (shared, epochs) = (Arc::clone(&shared), Arc::clone(&epochs));
                std::thread::spawn(move || {
                    while !shared.stop.load(Ordering::Relaxed) {
                        let guard = epochs.guard(reader).unwrap();
                        let slot = shared.word.load(Ordering::Acquire) as usize;
                        if shared.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
                            std::thread::yield_now();
                        }
                        if shared.slots[slot].load(Ordering::Relaxed) == 0 {
                            shared.spoilt.fetch_add(1, Ordering::Relaxed);
                        }
                        drop(guard);
                    }
                })
            })
            .collect();
        let started = Instant::now();
        let mut flip = 0;
        while flip < flips
            && (wait || shared.spoilt.load(Ordering::Relaxed) == 0)
            && started.elapsed() < patience
        {
            let old = shared.word.load(Ordering::Relaxed) as usize;
            shared.slots[1 - old].store(1, Ordering::Relaxed);
            shared.word.store(1 - old as u64, Ordering::Release);
            if wait {
                epochs.wait_quiescent();
            }
            shared.slots[old].store(0, Ordering::Relaxed);
            flip += 1;
            std::thread::yield_now();
        }
        shared.stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(shared.reads.load(Ordering::Relaxed) > 0);
        shared.spoilt.load(Ordering::Relaxed)
    }

    #[test]
    fn nothing_is_reused_under_a_reader() {
        assert_eq!(spoilt_reads(true, 20_000, Duration::from_secs(2)), 0);
    }

    /// The same without the wait must fail, or the test above proves nothing.
    #[test]
    fn without_the_wait_readers_see_reused_slots() {
        assert!(spoilt_reads(false, u32::MAX, Duration::from_mins(1)) > 0);
    }

    #[test]
    fn a_number_is_entered_once_at_a_time() {
        let epochs = Epochs::new(1);
        assert!(epochs.guard(1).is_none());
        let first = epochs.guard(0).unwrap();
        assert!(epochs.guard(0).is_none());
        drop(first);
        assert!(epochs.guard(0).is_some());
    }

    #[test]
    fn the_writer_waits_for_those_inside_only() {
        let epochs = Arc::new(Epochs::new(3));
        epochs.wait_quiescent();
        let (enter, entered) = std::sync::mpsc::channel();
        let (leave, left) = std::sync::mpsc::channel::<()>();
        let inside = std::thread::spawn({
            let epochs = Arc::clone(&epochs);
            move || {
                let _guard = epochs.guard(1).unwrap();
                enter.send(()).unwrap();
                left.recv().unwrap();
            }
        });
        entered.recv().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (epochs, done) = (Arc::clone(&epochs), Arc::clone(&done));
            move || {
                epochs.wait_quiescent();
                done.store(true, Ordering::SeqCst);
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!done.load(Ordering::SeqCst));
        leave.send(()).unwrap();
        inside.join().unwrap();
        writer.join().unwrap();
    }
}
