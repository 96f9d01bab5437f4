//! What the costliest queries cost that somebody can make up, and hot names with all options that resolvers send.
//!
//! Frames come from a template. Their replies are not looked at one by one: the program's own counters must say that
//! every one of them became what was expected.

use std::time::Duration;

use aya::{
    Ebpf,
    maps::{Array, DevMap, MapData},
    sys::{Stats, enable_stats},
};
use responder_common::counters::Counter;

use crate::{
    cost::{self, Effort, Floor, Series},
    error::{Error, Result},
    program,
    report::Progress,
    rig::Rig,
    scene::Scene,
    traffic::{flow, one_query},
};

/// Octets of a frame before it is cut.
const ROOM: usize = 512;

/// Octets in front of the message.
const HEADERS: usize = 42;

/// What chance writes into a template.
#[derive(Clone, Copy)]
enum Chance {
    /// Nothing.
    No = 0,
    /// A first label of 16 letters.
    Letters = 1,
    /// Three digits of the first label, host100 to host999.
    Digits = 2,
}

/// What was measured of one query.
#[derive(Clone, Debug)]
pub struct Crafted {
    /// Names of the table.
    pub names: u32,
    /// The query, for a sentence.
    pub what: &'static str,
    /// What became of all of them.
    pub counter: Counter,
    /// Nanoseconds of the responder, as the kernel counts them.
    pub responder: Series,
    /// Of the program that swaps the addresses, on the same frames.
    pub swap: Series,
    /// Responder against swap, each round by itself.
    pub ratio: Series,
    /// Queries to the responder.
    pub sent: u64,
}

/// A query to measure.
struct Template {
    what: &'static str,
    message: Vec<u8>,
    chance: Chance,
    counter: Counter,
}

fn option(code: u16, data: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A query of type A with these options.
fn message(name: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    out.extend(name);
    out.extend([0, 1, 0, 1, 0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0]);
    out.extend((options.len() as u16).to_be_bytes());
    out.extend(options);
    out
}

/// As many options as the program walks: a subnet, a cookie that neither secret has made, the identifier, five unknown.
fn all_options() -> Vec<u8> {
    let subnet = [&[0, 2, 128, 0][..], &[0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]].concat();
    let cookie = [&b"clientck"[..], &[1, 0, 0, 0, 0x6b, 0x49, 0xd2, 0, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let unknown = (0..5).flat_map(|i| option(65_001 + i, &[]));
    let mut out: Vec<u8> = unknown.collect();
    out.extend([option(8, &subnet), option(10, &cookie), option(3, &[])].concat());
    out
}

/// Labels of the apex.
const APEX: &[u8] = b"\x04gslb\x07example\x03com\0";

/// A first label that chance writes, labels of these lengths, and the apex.
fn name(labels: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let mut out = vec![16];
    out.extend([b'a'; 16]);
    for length in labels {
        out.push(length as u8);
        out.extend(std::iter::repeat_n(b'x', length));
    }
    out.extend(APEX);
    out
}

/// The costliest queries that we know of, each at another bound of the program.
fn templates() -> Vec<Template> {
    // 104 octets are the most that the program compares: 17 and 18 of them are the first label and the apex.
    let many_labels = name(std::iter::repeat_n(1, 33).chain([2]));
    let many_ends = name([13, 13, 13, 13, 12]);
    let longest = [&[1, b'x'].repeat(127)[..], &[0]].concat();
    let options = all_options();
    vec![
        Template {
            what: "255 octets, 127 labels, 8 options",
            message: message(&longest, &options),
            chance: Chance::No,
            counter: Counter::PassLongName,
        },
        Template {
            what: "104 octets, 38 labels, 8 options, unknown",
            message: message(&many_labels, &options),
            chance: Chance::Letters,
            counter: Counter::PassUnknownName,
        },
        Template {
            what: "104 octets, 6 ends to the apex, 8 options, denied",
            message: message(&many_ends, &options),
            chance: Chance::Letters,
            counter: Counter::AnswerNxdomain,
        },
        Template {
            what: "a name of the table, 8 options",
            message: message(&[&b"\x07host100"[..], APEX].concat(), &options),
            chance: Chance::Digits,
            counter: Counter::AnswerA,
        },
    ]
}

/// The costliest queries.
pub fn worst(
    rig: &Rig,
    floor: &mut Floor,
    scene: &mut Scene,
    effort: Effort,
    progress: &Progress,
) -> Result<Vec<Crafted>> {
    templates().iter().map(|template| measure(rig, floor, scene, template, effort, progress)).collect()
}

/// Names of a small table with OPT, a cookie and a subnet.
pub fn hot(
    rig: &Rig,
    floor: &mut Floor,
    scene: &mut Scene,
    effort: Effort,
    progress: &Progress,
) -> Result<Crafted> {
    let options = [option(8, &[0, 1, 24, 0, 198, 18, 7]), option(10, b"clientck")].concat();
    let template = Template {
        what: " with OPT, cookie and subnet",
        message: message(&[&b"\x07host100"[..], APEX].concat(), &options),
        chance: Chance::Digits,
        counter: Counter::AnswerA,
    };
    measure(rig, floor, scene, &template, effort, progress)
}

fn measure(
    rig: &Rig,
    floor: &mut Floor,
    scene: &mut Scene,
    template: &Template,
    effort: Effort,
    progress: &Progress,
) -> Result<Crafted> {
    let mut generator = program::load(program::FLOOD, "flood")?;
    aim(&mut generator, rig, template)?;
    let generator = program::xdp(&mut generator, "flood")?;
    let mut out = Crafted {
        names: scene.names,
        what: template.what,
        counter: template.counter,
        responder: Series::default(),
        swap: Series::default(),
        ratio: Series::default(),
        sent: 0,
    };
    let _stats = enable_stats(Stats::RunTime).map_err(Error::bpf("BPF_ENABLE_STATS"))?;
    scene.writer.world_mut().beat();
    for round in 0..effort.rounds {
        progress.line(&format!("{}: round {} of {}", template.what.trim(), round + 1, effort.rounds));
        let timed = |xdp: &aya::programs::Xdp, run: Duration| {
            flow(generator, ROOM, rig.cpu, || cost::spent(xdp, run))
        };
        let swap = program::xdp(&mut floor.swap, "swap")?;
        floor.stage.show(swap)?;
        let swap = timed(swap, effort.run)?;
        let before = scene.writer.counters();
        let responder = cost::responder(scene)?;
        floor.stage.show(responder)?;
        let responder = timed(responder, effort.run)?;
        out.sent += only(template, &before, &scene.writer.counters())?;
        out.swap.0.push(swap);
        out.responder.0.push(responder);
        out.ratio.0.push(responder / swap);
    }
    Ok(out)
}

/// How many packets became what was expected. Err: one became something else.
fn only(template: &Template, before: &[u64], after: &[u64]) -> Result<u64> {
    let mut wanted = 0;
    for (counter, (before, after)) in Counter::ALL.iter().zip(before.iter().zip(after)) {
        let rise = after - before;
        // Before the first query and behind the last the host sends frames of its own.
        let is_own =
            matches!(counter, Counter::PassMac | Counter::PassNotIp | Counter::PassNotUdp) && rise < 100;
        match rise {
            0 => {}
            rise if *counter == template.counter => wanted = rise,
            _ if is_own => {}
            rise => {
                return Err(Error::Wrong(format!(
                    "{}: {rise} queries became {}, not {}",
                    template.what.trim(),
                    counter.name(),
                    template.counter.name()
                )));
            }
        }
    }
    if wanted == 0 {
        return Err(Error::Wrong(format!(
            "{}: none became {}",
            template.what.trim(),
            template.counter.name()
        )));
    }
    Ok(wanted)
}

/// Says what the generator makes, and where it goes.
fn aim(generator: &mut Ebpf, rig: &Rig, template: &Template) -> Result {
    let mut frame = one_query(rig, 0);
    frame.truncate(HEADERS);
    frame.extend(&template.message);
    let len = frame.len();
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    frame[40..42].fill(0);
    frame.resize(ROOM, 0);
    let mut words = [0_u64; ROOM / 8 + 3];
    for (word, octets) in words.iter_mut().zip(frame.chunks_exact(8)) {
        *word = octets.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet));
    }
    words[ROOM / 8..].copy_from_slice(&[len as u64, 0, template.chance as u64]);
    let no_map = |name: &str| Error::Wrong(format!("the object has no map {name}"));
    let map = generator.map_mut("FLOOD").ok_or_else(|| no_map("FLOOD"))?;
    let mut map: Array<&mut MapData, [u64; ROOM / 8 + 3]> =
        Array::try_from(map).map_err(Error::bpf("map FLOOD"))?;
    map.set(0, words, 0).map_err(Error::bpf("map FLOOD"))?;
    let out = generator.map_mut("OUT").ok_or_else(|| no_map("OUT"))?;
    let mut out: DevMap<&mut MapData> = DevMap::try_from(out).map_err(Error::bpf("map OUT"))?;
    out.set(0, rig.near.index, None, 0).map_err(Error::bpf("map OUT"))
}
