//! The XDP program and a worker's code on the same octets: generated queries of every shape, no difference.
//!
//! Where the program answers, the worker's reply has the same octets. Where it passes, the frame is untouched, and the
//! worker does not crash on it; and it never passes what the shared code could have answered within its bounds.
//! Every message is read by hickory-proto, too, and by a reader of our own: they agree with `parse`. dnspython reads some
//! 20,000 replies, tshark their frames. One million frames; with `RESPONDER_FULL=1` ten million.

#[path = "../lab/mod.rs"]
mod lab;
#[path = "../support/mod.rs"]
mod support;

mod generate;
mod readers;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    thread,
    time::Instant,
};

use generate::{Generator, SHAPES};
use lab::{
    Lab, message,
    oracle::{self, Fate},
    pin_to,
    random::Random,
    read,
    run::{MOST, Runner, Verdict},
    second::{self, Second},
    world,
};
use readers::Kept;
use responder_common::{limits::FAST_NAME_WORDS, lookup::World, parse};
use responder_user::{
    decide::Snapshot,
    model::Model,
    publish::world::{Reader, set_reader},
    worker::{
        Beside, DeferredTable, Names, Outcome, Transport, Zones,
        answer::{self, Origin},
    },
};

/// Differences that are allowed. There are none.
const ALLOWED: [&str; 0] = [];

/// What one thread found.
#[derive(Default)]
struct Tally {
    compared: u64,
    answered: u64,
    dropped: u64,
    passed: u64,
    /// Passed, of those that are messages to us.
    messages: u64,
    /// Run once more.
    again: u64,
    /// Queries of the one shape that hickory-proto reads as we do, and those whose options it refuses.
    second: [u64; 2],
    /// For readers of others.
    kept: Kept,
    by_shape: [[u64; 2]; SHAPES],
    different: Vec<String>,
}

/// A worker's reply to what the program passes: silence for responses and less than a header, else a response.
fn is_sound(message: &[u8], outcome: Outcome, out: &[u8]) -> Result<(), String> {
    let deserves_silence = message.len() < 12 || message[2] & 0x80 != 0;
    match outcome {
        Outcome::Silent if deserves_silence => Ok(()),
        Outcome::Reply { len, .. }
            if !deserves_silence && len >= 12 && out[..2] == message[..2] && out[2] & 0x80 != 0 =>
        {
            Ok(())
        }
        outcome => Err(format!("a worker: {outcome:?} to {message:02x?}")),
    }
}

/// One thread on one CPU: its rotation counters and those of the kernel there go in step.
struct Side<'a> {
    runner: &'a Runner,
    world: &'a Reader,
    /// Whose rotation counters follow the kernel's, and whose do not matter.
    readers: (usize, usize),
    /// What workers know beside the table.
    beside: &'a Names,
    /// Every so many replies one is kept for readers of others.
    keep: u64,
    names: &'a [Vec<u8>],
}

impl Side<'_> {
    fn compare(&self, seed: u64, count: u64) -> Tally {
        let mut tally = Tally::default();
        let mut generator = Generator { random: Random(seed), names: self.names };
        let mut out = Box::new([0; MOST]);
        let mut expected = Box::new([0; MOST]);
        for _ in 0..count {
            let (shape, frame) = generator.frame();
            let mut verdict = Verdict::Aborted;
            let mut result = Ok(());
            // A cookie tells the second in which it was made, and that may end between the two.
            for _ in 0..2 {
                let len;
                (verdict, len) = self.runner.run(&frame, &mut out);
                result = self.judge(&frame, verdict, &out[..len], &mut expected[..], &mut tally);
                if result.is_ok() {
                    break;
                }
                tally.again += 1;
            }
            let result = result.and_then(|()| self.read_again(&frame, verdict, &mut tally));
            tally.compared += 1;
            tally.by_shape[shape][usize::from(verdict == Verdict::Tx)] += 1;
            if let Err(difference) = result {
                tally.different.push(format!("{difference}\n  shape {shape}, frame {frame:02x?}"));
                if tally.different.len() > 10 {
                    break;
                }
            }
        }
        tally
    }

    /// The host's `parse`, a reader of our own by the RFCs and hickory-proto read the same; and the program, which
    /// answers nothing else.
    fn read_again(&self, frame: &[u8], verdict: Verdict, tally: &mut Tally) -> Result<(), String> {
        let Fate::Message { dns, .. } = oracle::headers(frame) else { return Ok(()) };
        let dns = &frame[dns];
        let question = message::question(dns, message::FAST);
        let parsed = parse::parse::<[u8], FAST_NAME_WORDS>(dns, self.world.aside().control().key());
        let ours = parsed.as_ref().ok().map(|query| (query.qtype, query.question_end));
        let wanted = question.as_ref().filter(|q| !q.has_zero());
        if ours != wanted.map(|q| (q.qtype, q.end)) {
            return Err(format!("parse reads {parsed:02x?}, wanted {wanted:02x?}"));
        }
        if verdict == Verdict::Tx && question.is_none() {
            return Err("the program answers what is no query".to_owned());
        }
        match second::compare(dns, question.as_ref())? {
            Second::Agrees => tally.second[0] += 1,
            Second::RefusesOptions => tally.second[1] += 1,
            Second::NotCompared => {}
        }
        Ok(())
    }

    /// What a worker does with a message.
    fn worker(&self, message: &[u8], client: IpAddr, out: &mut [u8]) -> Outcome {
        let client = SocketAddr::new(client, 40_000);
        answer::reply(message, Transport::Udp, client, self.world, self.beside, out)
    }

    fn judge(
        &self,
        frame: &[u8],
        verdict: Verdict,
        out: &[u8],
        expected: &mut [u8],
        tally: &mut Tally,
    ) -> Result<(), String> {
        let fate = oracle::headers(frame);
        if verdict != Verdict::Tx && out != frame {
            return Err(format!("{verdict:?}, but the frame was changed"));
        }
        match (verdict, fate) {
            (Verdict::Tx, Fate::Message { dns, client }) => {
                tally.answered += 1;
                read::check_frame(frame, out)?;
                set_reader(self.readers.0);
                let outcome = self.worker(&frame[dns.clone()], client, expected);
                let Outcome::Reply { len, rcode: 0 | 3, origin: Origin::Table, .. } = outcome else {
                    return Err(format!("the program answers, a worker: {outcome:?}"));
                };
                let said = read::message(out)?;
                if said != &expected[..len] {
                    return Err(format!("program {said:02x?}\n  worker  {:02x?}", &expected[..len]));
                }
                if tally.answered.is_multiple_of(64) {
                    read::reply(said)?;
                }
                if tally.answered.is_multiple_of(self.keep) {
                    tally.kept.frame(&frame[dns], said, out);
                }
                Ok(())
            }
            (Verdict::Drop, Fate::Drop) => {
                tally.dropped += 1;
                Ok(())
            }
            (Verdict::Pass, Fate::Pass) => {
                tally.passed += 1;
                Ok(())
            }
            (Verdict::Pass, Fate::Message { dns, client }) => {
                (tally.passed, tally.messages) = (tally.passed + 1, tally.messages + 1);
                set_reader(self.readers.1);
                let message = &frame[dns];
                if self.world.aside().verdict(message, client).is_answer() {
                    return Err("the program passes what it could have answered".to_owned());
                }
                let outcome = self.worker(message, client, expected);
                if let Outcome::Reply { len, .. } = outcome
                    && tally.messages.is_multiple_of(self.keep)
                {
                    tally.kept.message(message, &expected[..len]);
                }
                is_sound(message, outcome, expected)
            }
            (verdict, fate) => Err(format!("{verdict:?}, but the headers say {fate:?}")),
        }
    }
}

#[test]
fn the_program_and_a_worker_give_the_same_octets() {
    compare("differential", world::model(), &Lab::open);
}

/// Where no policy concerns the source of a name, ECS decides in the program; and it knows all names of the zones.
#[test]
fn the_program_and_a_worker_give_the_same_octets_by_ecs() {
    compare("differential-ecs", world::unconcerned(), &Lab::open_complete);
}

type Open = dyn Fn(&str, Model, &dyn Fn(&Model) -> Snapshot) -> Lab;

fn compare(what: &str, mut model: Model, open: &Open) {
    // Two worlds share the frames.
    let total: u64 = if std::env::var_os("RESPONDER_FULL").is_some() { 5_000_000 } else { 500_000 };
    // Some replies are cut, some lose what is optional.
    model.settings.limits.max_amplification = 4.0;
    let mut lab = open(what, model, &world::snapshot);
    let names: Vec<Vec<u8>> = lab.compiled.model.domains.iter().map(|d| d.name.wire().to_vec()).collect();
    let long = lab.compiled.names.long.iter().map(|(name, entry)| (name.wire().into(), *entry)).collect();
    let zones = Zones::load(&lab.compiled.model).expect("zones without files");
    let table = Arc::new(DeferredTable::new(lab.compiled.numbering.count()));
    let beside = Beside::of(&lab.compiled, table);
    let beside = Names { long: Arc::new(long), zones: Arc::new(zones), beside, ..Names::default() };
    let cpus = lab::cpus().len().min(4);
    let reader = lab.writer().reader(cpus * 2);
    let before = lab.counters();
    let begin = Instant::now();
    let share = total.div_ceil(cpus as u64);
    // Some 10,000 of each world.
    let keep = total / 12_000;
    let mut tallies: Vec<Tally> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus)
            .map(|cpu| {
                let readers = (cpu, cpus + cpu);
                let side = Side {
                    runner: lab.runner(),
                    world: &reader,
                    readers,
                    beside: &beside,
                    keep,
                    names: &names,
                };
                scope.spawn(move || {
                    pin_to(cpu);
                    side.compare(0x5eed_0000 + cpu as u64, share)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    let (compared, answered) = (sum(|t| t.compared), sum(|t| t.answered));
    println!(
        "{compared} frames in {:.1} s: {answered} answered, {} passed ({} of them messages to us), {} dropped",
        begin.elapsed().as_secs_f64(),
        sum(|t| t.passed),
        sum(|t| t.messages),
        sum(|t| t.dropped),
    );
    let [agreed, refused] = [0, 1].map(|i| tallies.iter().map(|t| t.second[i]).sum::<u64>());
    println!("hickory-proto: {agreed} queries read alike, {refused} with options that it refuses");
    assert!(agreed * 3 > compared && refused * 5 < agreed, "the second reader sees too little");
    let risen = Lab::risen(&before, &lab.counters());
    println!("counters: {risen:?}");
    for shape in 0..SHAPES {
        let [passed, answered] = [0, 1].map(|i| tallies.iter().map(|t| t.by_shape[shape][i]).sum::<u64>());
        println!("shape {shape}: {answered} answered, {passed} not");
    }
    let different: Vec<&String> = tallies.iter().flat_map(|t| &t.different).collect();
    println!("{} differences outside the list of {}", different.len(), ALLOWED.len());
    assert!(different.is_empty(), "{}", different.iter().map(|d| d.as_str()).collect::<Vec<_>>().join("\n"));
    assert!(compared >= total);
    assert!(answered * 3 > compared, "the generator has become too wild");
    let again = sum(|t| t.again);
    assert!(again < compared / 1000, "{again} frames were run twice");
    assert_eq!(risen.iter().map(|(_, count)| count).sum::<u64>(), compared + again, "one counter a frame");
    assert!(risen.iter().all(|(name, _)| *name != "xdp_pass_broken" && *name != "xdp_pass_tailroom"));
    let mut kept = Kept::default();
    for tally in &mut tallies {
        kept.join(std::mem::take(&mut tally.kept));
    }
    kept.read(what, 10_000);
}
