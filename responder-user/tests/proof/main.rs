//! The proof of publishing (spec/reliability.md T-M1, T-M2): a reader in the kernel looks names up through the code and
//! the maps of the responder, while the writer changes answers and names on another CPU with hardly a slot to spare.
//!
//! Nothing foreign, torn, missing or older than before may be read. The same reader must find faults in a naive hash
//! map, and in the same layout without the wait for readers: else it could not see one.
//!
//! At least 200 million reads; with `RESPONDER_FULL=1` two billion.

#[path = "../lab/mod.rs"]
mod lab;
#[path = "../support/mod.rs"]
mod support;

mod reader;
#[path = "../../../responder-ebpf/src/bin/proof/shape.rs"]
#[allow(dead_code, clippy::inline_always, reason = "the kernel's side uses the rest, and one function")]
mod shape;
mod writer;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use lab::pin_to;
use reader::Reader;
use responder_user::publish::table::Reuse;
use shape::Proof;
use writer::{Changes, Stage};

/// Names that are always there, names that come and go, owners: few, so that what is read is often what is changed.
const SIZE: Proof = Proof {
    names: 64,
    guests: 64,
    owners: 4,
    seed: 0x1234_5678_9abc_def1,
    naive: 0,
    reads: 0,
    guests_seen: 0,
    foreign: 0,
    torn: 0,
    missed: 0,
    backward: 0,
};

/// Reads that make a proof.
fn wanted() -> u64 {
    if std::env::var_os("RESPONDER_FULL").is_some() { 2_000_000_000 } else { 200_000_000 }
}

/// A harness that cannot see a fault within this time is broken.
const PATIENCE: Duration = Duration::from_mins(1);

/// Reader on one CPU, writer on the other, until `enough`.
fn race(
    reader: &mut Reader,
    write: impl FnOnce(&AtomicBool) -> Changes + Send,
    enough: impl Fn(&Proof, Duration) -> bool,
) -> (Proof, Changes) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            pin_to(1);
            write(&stop)
        });
        pin_to(0);
        let begin = Instant::now();
        let mut found = reader.read();
        while !enough(&found, begin.elapsed()) && !writing.is_finished() {
            found = reader.read();
        }
        stop.store(true, Ordering::Relaxed);
        (found, writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn report(what: &str, found: &Proof, changes: &Changes, time: Duration) {
    println!(
        "{what}: {} reads in {:.1} s ({} of guests that were there) against {changes}: {} foreign, {} torn, {} missed, {} backward",
        found.reads,
        time.as_secs_f64(),
        found.guests_seen,
        found.foreign,
        found.torn,
        found.missed,
        found.backward,
    );
}

/// One after the other: each needs both CPUs.
#[test]
fn what_is_published_is_read_whole_and_nothing_else_is() {
    lab::need_root();
    assert!(lab::cpus().len() > 1, "reader and writer need a CPU each");
    naive_map_gives_foreign_answers();
    reuse_at_once_gives_foreign_answers();
    reuse_after_the_wait_does_not();
}

fn has_fault(found: &Proof) -> bool {
    found.foreign + found.torn > 0
}

/// Runs until a fault is seen, and then on for a number that says how often it happens.
fn until_fault(found: &Proof, time: Duration) -> bool {
    time > PATIENCE || (has_fault(found) && time > Duration::from_secs(5))
}

fn naive_map_gives_foreign_answers() {
    let mut stage = Stage::open(&SIZE);
    let mut reader = stage.reader(&Proof { naive: 1, names: SIZE.owners, guests: 0, ..SIZE });
    let mut naive = reader.naive_map();
    writer::fill_naive(&mut naive, SIZE.owners as u32);
    let begin = Instant::now();
    let (found, changes) =
        race(&mut reader, |stop| writer::update_naive(&mut naive, SIZE.owners as u32, stop), until_fault);
    report("naive hash map", &found, &changes, begin.elapsed());
    assert!(has_fault(&found), "the harness does not see the faults of a hash map that is updated in place");
}

fn reuse_at_once_gives_foreign_answers() {
    let mut stage = Stage::open(&SIZE);
    let mut reader = stage.reader(&SIZE);
    stage.table().set_reuse(Reuse::AtOnce);
    let begin = Instant::now();
    let (found, changes) = race(&mut reader, |stop| writer::change(stage.table(), &SIZE, stop), until_fault);
    report("reuse at once", &found, &changes, begin.elapsed());
    assert!(has_fault(&found), "the harness does not see that slots are reused too early");
}

fn reuse_after_the_wait_does_not() {
    let mut stage = Stage::open(&SIZE);
    let mut reader = stage.reader(&SIZE);
    let begin = Instant::now();
    let (found, changes) = race(
        &mut reader,
        |stop| writer::change(stage.table(), &SIZE, stop),
        |found, _| found.reads >= wanted(),
    );
    report("reuse after the wait", &found, &changes, begin.elapsed());
    assert!(found.reads >= wanted());
    assert!(found.guests_seen > 0);
    let faults = (found.foreign, found.torn, found.missed, found.backward);
    assert_eq!(faults, (0, 0, 0, 0), "foreign, torn, missed, backward");
    assert!(changes.stalls > 100, "slots were not scarce: the writer waited {} times only", changes.stalls);
}
