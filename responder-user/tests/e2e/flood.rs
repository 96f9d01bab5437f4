//! A flood of random names at half of the measured ceiling: hits go on, and no worker sees one of them.
//!
//! A client with sockets does not come near what the program answers, so the flood is made by a BPF program (`flood`),
//! at the far end of the cable, from one CPU; the hits are asked for by a real client from the others.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, DevMap, MapData, PerCpuArray},
    programs::{TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode},
};
use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::pthread::{pthread_kill, pthread_self},
    sys::signal::Signal,
    unistd::Pid,
};
use responder_testbed::ebpf_object;

use crate::{
    bed::Bed,
    daemon::{Daemon, rise},
    dns::{self, A},
    is_full,
    load::{self, Load},
    say, tagged, text,
};

/// Octets of a frame before it is cut.
const ROOM: usize = 512;

/// Frames that the kernel makes at a time.
const BATCH: u32 = 64;

/// The source of the flood: an address that nobody has.
const ATTACKER: [u8; 4] = [10, 53, 0, 66];

/// Whatever comes back, in all.
#[derive(Clone, Copy, Debug)]
struct Tally {
    made: u64,
    denied: u64,
    other: u64,
}

/// Generator and sink at the clients' end.
struct Flood {
    ebpf: Ebpf,
    frame: Vec<u8>,
}

impl Flood {
    fn new(bed: &Bed) -> Self {
        let object = fs::read(ebpf_object("flood")).expect("cargo xtask build");
        let server = tagged::mac(|line| bed.ip(line), "gslb0");
        let client = tagged::mac(|line| bed.client_ip(line), "cli0");
        bed.client_ip("link set dev cli0 xdpdrv off");
        let ebpf = bed.in_client(|| {
            let mut ebpf = EbpfLoader::new().load(&object).expect("the object");
            for name in ["flood", "sink"] {
                xdp(&mut ebpf, name).load().unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            xdp(&mut ebpf, "sink").attach("cli0", XdpMode::Driver).expect("the sink is attached");
            let index = if_nametoindex("cli0").expect("an interface");
            let mut out: DevMap<&mut MapData> = ebpf.map_mut("OUT").unwrap().try_into().unwrap();
            out.set(0, index, None, 0).expect("the way out");
            ebpf
        });
        Self { ebpf, frame: frame(server, client) }
    }

    /// Sets so many frames a second; 0: as many as there can be.
    fn pace(&mut self, rate: u64) {
        let mut words = [0_u64; ROOM / 8 + 3];
        for (word, octets) in words.iter_mut().zip(self.frame.chunks(8)) {
            let mut eight = [0; 8];
            eight[..octets.len()].copy_from_slice(octets);
            *word = u64::from_le_bytes(eight);
        }
        // Length, nanoseconds between two frames, letters of the name by chance.
        words[ROOM / 8..].copy_from_slice(&[
            self.frame.len() as u64,
            1_000_000_000_u64.checked_div(rate).unwrap_or(0),
            1,
        ]);
        let mut map: Array<&mut MapData, [u64; ROOM / 8 + 3]> =
            self.ebpf.map_mut("FLOOD").unwrap().try_into().unwrap();
        map.set(0, words, 0).expect("what is sent");
    }

    fn tally(&self) -> Tally {
        let made = sum::<3>(&self.ebpf, "STATE")[1];
        let [denied, other] = sum::<2>(&self.ebpf, "BACK");
        Tally { made, denied, other }
    }

    /// Floods for so long from one CPU; what was made and came back meanwhile, and the time that it really took.
    fn run(&self, cpu: usize, how_long: Duration) -> (Tally, Duration) {
        let before = self.tally();
        let program: &Xdp = self.ebpf.program("flood").unwrap().try_into().unwrap();
        let took = thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let generator = scope.spawn(move || {
                pin(&[cpu]);
                send.send(pthread_self()).expect("somebody waits");
                let begin = Instant::now();
                generate(program);
                begin.elapsed()
            });
            let thread = receive.recv().expect("the generator");
            thread::sleep(how_long);
            while !generator.is_finished() {
                // It may not have begun its system call yet, so once is not always enough.
                let _ = pthread_kill(thread, Signal::SIGUSR2);
                thread::sleep(Duration::from_millis(2));
            }
            generator.join().expect("the generator")
        });
        // What is under way arrives.
        thread::sleep(Duration::from_millis(50));
        let after = self.tally();
        let tally = Tally {
            made: after.made - before.made,
            denied: after.denied - before.denied,
            other: after.other - before.other,
        };
        (tally, took)
    }
}

fn xdp<'e>(ebpf: &'e mut Ebpf, name: &str) -> &'e mut Xdp {
    ebpf.program_mut(name).expect("a program of the object").try_into().expect("an XDP program")
}

/// The only element of a per-CPU array, summed.
fn sum<const N: usize>(ebpf: &Ebpf, name: &str) -> [u64; N] {
    let array: PerCpuArray<&MapData, [u64; N]> = ebpf.map(name).unwrap().try_into().unwrap();
    let mut out = [0; N];
    for cpu in array.get(&0, 0).expect("the element").iter() {
        out.iter_mut().zip(cpu).for_each(|(sum, one)| *sum += one);
    }
    out
}

/// The CPUs of this process: those of clients, and the last one, that of the flood. The same where there is one alone.
fn cpus() -> (Vec<usize>, usize) {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("CPUs");
    let mut list: Vec<usize> = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false)).collect();
    let last = list.pop().expect("a CPU");
    if list.is_empty() {
        list.push(last);
    }
    (list, last)
}

/// Keeps this thread, and those that it starts, on some CPUs.
fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).expect("a CPU");
    }
    sched_setaffinity(Pid::from_raw(0), &set).expect("CPUs of ours");
}

/// Runs until a signal comes.
fn generate(program: &Xdp) {
    let frame = [0; ROOM];
    let run = program.test_run(TestRunOptions {
        data_in: Some(&frame),
        repeat: 1 << 30,
        attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
        ..TestRunOptions::default()
    });
    match run {
        Ok(_) => panic!("the generator ended by itself"),
        Err(aya::programs::ProgramError::SyscallError(error))
            if error.io_error.raw_os_error() == Some(Errno::EINTR as i32) => {}
        Err(error) => panic!("BPF_PROG_TEST_RUN: {error}"),
    }
}

/// A query for a name of 16 letters below example.com; letters and id are the program's.
fn frame(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let message = dns::query(0, "aaaaaaaaaaaaaaaa.example.com", A);
    let mut out = [&to[..], &from, &[8, 0]].concat();
    let mut header = vec![0x45, 0];
    header.extend((28 + message.len() as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    header.extend(ATTACKER);
    header.extend([10, 53, 0, 1]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    out.extend(header);
    out.extend(40_000_u16.to_be_bytes());
    out.extend(53_u16.to_be_bytes());
    out.extend((8 + message.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(message);
    out
}

/// As a NIC has: what a CPU sends is answered on that CPU, however busy the machine is. On one queue, a CPU that waits
/// for its turn would hold up the flood of another until the ring of the cable overflows, and that is no loss of ours.
fn queue_for_each_cpu(bed: &Bed) {
    let cpus = aya::util::nr_cpus().expect("CPUs").to_string();
    for kind in ["rx", "tx"] {
        let queues = |interface| ["-L", interface, kind, &cpus];
        bed.client_tool("ethtool", &queues("cli0"));
        bed.server().output("ethtool", &queues("gslb0")).unwrap_or_else(|error| panic!("{error}"));
    }
    // Sockets too keep to the queue of their CPU. /sys shows the interfaces of the namespace that mounts it.
    let steer = "mount -t sysfs none /sys && cd /sys/class/net/cli0/queues && i=1 && for q in $(ls -d tx-* | sort -V); do \
                 printf %x $i > $q/xps_cpus || exit 1; i=$((i * 2)); done";
    bed.client_tool("unshare", &["--mount", "sh", "-c", steer]);
}

#[test]
fn hits_go_on_beside_a_flood_at_half_of_the_ceiling() {
    // Ends the generator's system call, and does nothing else.
    tagged::interrupt_by(Signal::SIGUSR2);
    let (measured, flooded) = if is_full() {
        (Duration::from_secs(3), Duration::from_secs(30))
    } else {
        (Duration::from_millis(500), Duration::from_secs(2))
    };
    let bed = Bed::alone();
    queue_for_each_cpu(&bed);
    let (clients, attacker) = cpus();
    let config = bed.write("responder.toml", &(text::head(&bed, "mode = \"native\"") + &text::stable()));
    let daemon = Daemon::start(&bed, &config);
    let mut flood = Flood::new(&bed);

    flood.pace(0);
    let (alone, took) = flood.run(attacker, measured);
    let ceiling = alone.denied as f64 / took.as_secs_f64();
    assert_eq!(alone.other, 0, "{alone:?}");
    assert!(alone.denied > 0, "{alone:?}");

    flood.pace(ceiling as u64 / 2);
    let before = daemon.stats();
    // A socket keeps its queue; where its thread came to another CPU, the two would share one.
    pin(&clients);
    let hits = Load::start(&bed, load::stable(), 4_000);
    thread::sleep(Duration::from_millis(50));
    let (half, took) = flood.run(attacker, flooded);
    let totals = hits.stop();
    let after = daemon.stats();

    let rate = half.made as f64 / took.as_secs_f64();
    let lost = half.made - half.denied - half.other;
    say!(
        "flood: ceiling {:.2} M/s; {:.2} M/s for {:.1} s ({} names, {} denied by XDP, {lost} lost), beside {} hits: {} lost, \
         slowest {:?}",
        ceiling / 1e6,
        rate / 1e6,
        took.as_secs_f64(),
        half.made,
        half.denied,
        totals.sent,
        totals.lost,
        totals.slowest
    );
    assert!(rate > ceiling * 0.3 && rate < ceiling * 0.55, "half of the ceiling: {rate:.0} of {ceiling:.0}");
    assert!(totals.wrong.is_empty(), "{:?}", totals.wrong);
    assert!(totals.sent > 1_000, "{} hits prove little", totals.sent);
    assert!(totals.lost * 10_000 <= totals.sent, "{} of {} hits are lost", totals.lost, totals.sent);
    assert_eq!(rise(&before, &after, "worker_query"), 0, "no worker sees the flood");
    assert_eq!(half.other, 0, "{half:?}");
    assert!(lost * 1_000 <= half.made, "{half:?}");
}
