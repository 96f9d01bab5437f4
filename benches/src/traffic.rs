//! Queries for random names out of one end of the cable, replies counted and checked at the same end.

use std::{
    net::Ipv4Addr,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use aya::{
    Ebpf,
    maps::{Array, DevMap, MapData, PerCpuArray},
    programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode},
};
use bytemuck::Zeroable;
use nix::{
    errno::Errno,
    sys::pthread::{pthread_kill, pthread_self},
};
use responder_common::{
    checksum::Sum,
    load::{self, LOAD_WORDS, Load, QUESTION_TAIL, REPLIES, ROOM, Reply, UDP_AT, digits},
};

use crate::{
    error::{Error, Result},
    program,
    rig::{self, Rig},
    scene, signal,
};

/// Address of the clients (RFC 2544).
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Frames that the kernel makes before it hands them over; more gain nothing.
const BATCH: u32 = 64;

/// More than any run makes: a signal ends it.
const ENDLESS: u32 = 1 << 30;

/// The OPT of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opt {
    /// None.
    #[default]
    No,
    /// Without options.
    Plain,
    /// With a client cookie: each reply has a server cookie that was made for it.
    Cookie,
}

impl Opt {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::No, Self::Plain, Self::Cookie];

    /// For a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Plain => "yes",
            Self::Cookie => "cookie",
        }
    }

    /// For a sentence.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Plain => " with OPT",
            Self::Cookie => " with a cookie",
        }
    }
}

/// What went out and what came back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Queries sent.
    pub sent: u64,
    /// Right answers.
    pub right: u64,
    /// Queries sent back as they were.
    pub reflected: u64,
    /// Wrong answers.
    pub wrong: u64,
    /// Wrong answers by what is wrong: header, question, record, OPT.
    pub faults: [u64; 4],
}

impl Tally {
    /// What happened since an earlier one.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut faults = self.faults;
        faults.iter_mut().zip(earlier.faults).for_each(|(now, then)| *now -= then);
        Self {
            sent: self.sent - earlier.sent,
            right: self.right - earlier.right,
            reflected: self.reflected - earlier.reflected,
            wrong: self.wrong - earlier.wrong,
            faults,
        }
    }
}

/// Generator and counter.
pub struct Traffic {
    generate: Ebpf,
    count: Ebpf,
    cpu: usize,
}

impl Traffic {
    /// Loads both and attaches the counter.
    pub fn on(rig: &Rig) -> Result<Self> {
        let mut generate = program::load(program::GENERATE, "generate")?;
        let mut count = program::load(program::COUNT, "count")?;
        program::xdp(&mut count, "count")?
            .attach(&rig.near.name, XdpMode::Driver)
            .map_err(Error::bpf("count: attach"))?;
        let out = generate.map_mut("OUT").ok_or_else(|| no_map("OUT"))?;
        let mut out: DevMap<&mut MapData> = DevMap::try_from(out).map_err(Error::bpf("map OUT"))?;
        out.set(0, rig.near.index, None, 0).map_err(Error::bpf("map OUT"))?;
        let state = generate.map_mut("STATE").ok_or_else(|| no_map("STATE"))?;
        let mut state: PerCpuArray<&mut MapData, [u64; 2]> =
            PerCpuArray::try_from(state).map_err(Error::bpf("map STATE"))?;
        let cpus = aya::util::nr_cpus().map_err(|(what, e)| Error::file(what)(e))?;
        let seeds: Vec<[u64; 2]> = (0..cpus as u64).map(|cpu| [cpu + 1, 0]).collect();
        let seeds = aya::maps::PerCpuValues::try_from(seeds).map_err(Error::file("seeds"))?;
        state.set(0, seeds, 0).map_err(Error::bpf("map STATE"))?;
        Ok(Self { generate, count, cpu: rig.cpu })
    }

    /// From now on queries are for so many names, with such an OPT.
    pub fn aim(&mut self, rig: &Rig, names: u32, opt: Opt) -> Result {
        let words: [u64; LOAD_WORDS] = bytemuck::cast(load_of(rig, names, opt));
        for ebpf in [&mut self.generate, &mut self.count] {
            let map = ebpf.map_mut("LOAD").ok_or_else(|| no_map("LOAD"))?;
            let mut map: Array<&mut MapData, [u64; LOAD_WORDS]> =
                Array::try_from(map).map_err(Error::bpf("map LOAD"))?;
            map.set(0, words, 0).map_err(Error::bpf("map LOAD"))?;
        }
        Ok(())
    }

    /// Lets queries flow while `work` runs. It gets a function that reads the counters as they are. Returns what it
    /// returns, and what went out and came back in all.
    pub fn during<T>(
        &self,
        work: impl FnOnce(&dyn Fn() -> Result<Tally>) -> Result<T>,
    ) -> Result<(T, Tally)> {
        let before = self.tally()?;
        let generator: &Xdp = match self.generate.program("generate").map(TryInto::try_into) {
            Some(Ok(xdp)) => xdp,
            _ => return Err(Error::Wrong("the object has no program generate".to_owned())),
        };
        let result = flow(generator, ROOM, self.cpu, || work(&|| self.tally()))?;
        Ok((result, self.tally()?.since(&before)))
    }

    fn tally(&self) -> Result<Tally> {
        let made = sums::<2>(&self.generate, "STATE", |cpu| [0, cpu[1]])?;
        let replies = sums::<REPLIES>(&self.count, "COUNTS", |cpu| cpu)?;
        let of = |reply: Reply| replies[reply as usize];
        let faults = [Reply::WrongHeader, Reply::WrongQuestion, Reply::WrongRecord, Reply::WrongOpt].map(of);
        Ok(Tally {
            sent: made[1],
            right: of(Reply::Right),
            reflected: of(Reply::Reflected),
            wrong: faults.iter().sum(),
            faults,
        })
    }
}

/// Lets a generator run on one CPU while `work` does.
pub fn flow<T>(generator: &Xdp, room: usize, cpu: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let result = thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let sender = scope.spawn(move || {
            // The main thread waits for this.
            let _ = send.send(pthread_self());
            rig::pin(&[cpu])?;
            generate(generator, room)
        });
        let thread = receive.recv();
        let result = work();
        while let (Ok(thread), false) = (thread, sender.is_finished()) {
            // It may not have begun its system call yet, so once is not always enough.
            let _ = pthread_kill(thread, signal::STOP);
            thread::sleep(Duration::from_millis(2));
        }
        let ended = sender.join().unwrap_or_else(|_| Err(Error::Wrong("generator: panic".to_owned())));
        ended.and(result)
    })?;
    // What is under way arrives.
    thread::sleep(Duration::from_millis(10));
    Ok(result)
}

fn generate(generator: &Xdp, room: usize) -> Result {
    let frame = vec![0; room];
    let begin = Instant::now();
    let run = generator.test_run(TestRunOptions {
        data_in: Some(&frame),
        repeat: ENDLESS,
        attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
        ..TestRunOptions::default()
    });
    match run {
        Ok(_) => Err(Error::Wrong(format!("generator: ended by itself after {:?}", begin.elapsed()))),
        Err(ProgramError::SyscallError(error))
            if error.io_error.raw_os_error() == Some(Errno::EINTR as i32) =>
        {
            Ok(())
        }
        Err(error) => Err(Error::bpf("generator: BPF_PROG_TEST_RUN")(error)),
    }
}

fn no_map(name: &str) -> Error {
    Error::Wrong(format!("the object has no map {name}"))
}

/// The only element of a per-CPU array, summed.
fn sums<const N: usize>(ebpf: &Ebpf, name: &str, of: impl Fn([u64; N]) -> [u64; N]) -> Result<[u64; N]> {
    let map = ebpf.map(name).ok_or_else(|| no_map(name))?;
    let array: PerCpuArray<&MapData, [u64; N]> = PerCpuArray::try_from(map).map_err(Error::bpf(name))?;
    let mut out = [0; N];
    for cpu in array.get(&0, 0).map_err(Error::bpf(name))?.iter() {
        out.iter_mut().zip(of(*cpu)).for_each(|(sum, one)| *sum += one);
    }
    Ok(out)
}

/// The template of the frames.
fn load_of(rig: &Rig, names: u32, opt: Opt) -> Load {
    let mut header = [0_u8; 48];
    header[0..6].copy_from_slice(&rig.far.mac);
    header[6..12].copy_from_slice(&rig.near.mac);
    header[12..14].copy_from_slice(&[8, 0]);
    header[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    header[26..30].copy_from_slice(&CLIENT.octets());
    header[30..34].copy_from_slice(&scene::SERVER.octets());
    header[36..38].copy_from_slice(&[0, 53]);
    // RD, one question.
    header[44..48].copy_from_slice(&[1, 0, 0, 1]);
    let mut ip_sum = Sum::default();
    for (i, octets) in header[14..34].chunks(2).enumerate() {
        ip_sum.add_at(i * 2, u64::from(u16::from_le_bytes([octets[0], octets[1]])));
    }
    let mut tail = b"\x04gslb\x07example\x03com\0\0\x01\0\x01".to_vec();
    assert_eq!(tail.len(), QUESTION_TAIL, "the tail of the question");
    match opt {
        Opt::No => {}
        Opt::Plain => tail.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0"),
        Opt::Cookie => {
            tail.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\x0c");
            tail.extend(load::QUERY_COOKIE.to_le_bytes());
            tail.extend(load::CLIENT_COOKIE.to_le_bytes());
        }
    }
    let mut load = Load {
        header: bytemuck::cast(header),
        tail_len: tail.len() as u64,
        // The complement of a sum's checksum is the sum, folded.
        ip_sum: u64::from(!ip_sum.finish()),
        names: u64::from(names),
        pool_first: u64::from(scene::POOL_FIRST.to_bits()),
        pool_len: u64::from(scene::POOL_LEN),
        ..Load::zeroed()
    };
    bytemuck::bytes_of_mut(&mut load.tail)[..tail.len()].copy_from_slice(&tail);
    load
}

/// The frame of a query for one name, without OPT.
pub fn one_query(rig: &Rig, number: u32) -> Vec<u8> {
    let load = load_of(rig, 1, Opt::No);
    let (word, count) = digits(number);
    let mut frame = bytemuck::bytes_of(&load.header).to_vec();
    frame.extend([0; 6]);
    frame.extend([4 + count as u8]);
    frame.extend(b"host");
    frame.extend(&word.to_le_bytes()[..count as usize]);
    frame.extend(&bytemuck::bytes_of(&load.tail)[..load.tail_len as usize]);
    let len = frame.len();
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((len - UDP_AT) as u16).to_be_bytes());
    frame[34..36].copy_from_slice(&0x8000_u16.to_be_bytes());
    frame
}
