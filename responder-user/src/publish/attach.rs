//! The XDP program: loaded from the embedded object over pinned maps, attached to interfaces by pinned links.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{LpmTrie, Map, MapData, PerCpuArray, lpm_trie::Key},
    programs::{
        ProgramInfo, Xdp, XdpMode as Flag,
        links::{FdLink, PinnedLink},
        xdp::XdpLink,
    },
};
use aya_log::EbpfLogger;
use ipnet::IpNet;
use responder_common::{
    counters::{LATENCIES, TYPES},
    layout::PerCpu,
    sample::Filter,
};

use super::{
    PublishError,
    interface::{self, AttachedMode},
    offload,
    pin::{Pins, SHARED_MAPS, WORLD_MAPS, pins_of, remove_file},
    region::Region,
    sessions::Sessions,
    table::{Memory, Sizes},
};
use crate::{compile::class::Classes, model::settings::XdpMode, publish::world::World};

/// The object, aligned as the loader wants it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/responder.o"));

/// Name of the program in the object and in the kernel.
pub const PROGRAM: &str = "responder";

/// The map of the counters.
const COUNTERS: &str = "PER_CPU";

/// The program over the maps of one world.
pub struct Program {
    ebpf: Ebpf,
    world: u32,
    /// Log records of a debug build of the object; the ordinary one has none.
    log: Option<EbpfLogger<&'static dyn log::Log>>,
    is_loaded: bool,
    /// The same program over the same maps, loaded and pinned by a former daemon: nothing has to be verified again.
    kept: Option<u32>,
}

/// What the program counts beside its verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers by [`responder_common::counters::type_place`].
    pub types: Vec<u64>,
    /// Answers by slot of the zone's SOA.
    pub zones: Vec<u64>,
    /// Runs that were timed: place n is for less than 2^n nanoseconds.
    pub latency: Vec<u64>,
    /// Samples for which there was no room.
    pub lost: u64,
}

/// What one CPU counted; Pod for the kernel's per-CPU array.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Counted(PerCpu);

#[expect(unsafe_code, reason = "aya's marker for map values")]
// SAFETY: `PerCpu` is bytemuck Pod: no padding, every bit pattern valid.
unsafe impl aya::Pod for Counted {}

impl Program {
    /// Loads the program over fresh maps of these sizes, pinned as a new world.
    pub fn create(pins: &Pins, sizes: &Sizes, classes: &Classes) -> Result<Self, PublishError> {
        let world = pins.make_world()?;
        let made = Self::load(pins, world, Some((sizes, classes))).and_then(|mut program| {
            program.fill_trie("CLASS6", World::class6_rows(classes))?;
            program.fill_trie("SCOPE6", World::scope6_rows(classes, sizes))?;
            program.make_sure_loaded(pins)?;
            Ok(program)
        });
        if made.is_err() {
            pins.remove_world(world)?;
        }
        made
    }

    /// The program of this daemon over the pinned maps of a world. Where a former daemon has loaded the same one, it is
    /// loaded again only if an interface turns out not to have it: the verifier takes most of the time of a start.
    pub fn over(pins: &Pins, world: u32) -> Result<Self, PublishError> {
        if let Some(missing) = WORLD_MAPS.iter().find(|map| !pins.map(world, map).exists()) {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(PublishError::Pin { path: pins.map(world, missing), source });
        }
        Self::load(pins, world, None)
    }

    fn load(pins: &Pins, world: u32, fresh: Option<(&Sizes, &Classes)>) -> Result<Self, PublishError> {
        let mut loader = EbpfLoader::new();
        for map in WORLD_MAPS {
            loader.map_pin_path(map, pins.map(world, map));
        }
        for map in SHARED_MAPS {
            loader.map_pin_path(map, pins.shared(map));
        }
        if let Some((sizes, classes)) = fresh {
            loader
                .map_max_entries("BUCKETS", sizes.buckets)
                .map_max_entries("NAMES", sizes.names)
                .map_max_entries("NAME_TAILS", sizes.names)
                .map_max_entries("REFERENCES", sizes.references)
                .map_max_entries("TURNS", sizes.references)
                .map_max_entries("ANSWERS", sizes.answers)
                .map_max_entries("SOAS", sizes.soas)
                .map_max_entries("ZONES", sizes.soas)
                .map_max_entries("CLASS4", sizes.class4)
                .map_max_entries("CLASS4_SPLIT", sizes.class4_split)
                .map_max_entries("CLASS6", classes.v6.len().max(1) as u32)
                .map_max_entries("SCOPE4", sizes.scope4)
                .map_max_entries("SCOPE4_SPLIT", sizes.scope4_split)
                .map_max_entries("SCOPE6", sizes.scope6(classes))
                .map_max_entries("RULES", sizes.rules)
                .map_max_entries("SESSIONS", sizes.sessions);
        }
        let mut ebpf = loader.load(OBJECT).map_err(|e| PublishError::Program(chain(&e)))?;
        let log = EbpfLogger::init(&mut ebpf).ok();
        let kept = kept_program(&ebpf, &pins.program(world, object_hash()));
        Ok(Self { ebpf, world, log, is_loaded: false, kept })
    }

    /// Loads the program and pins it for the next daemon.
    fn make_sure_loaded(&mut self, pins: &Pins) -> Result<(), PublishError> {
        if self.is_loaded {
            return Ok(());
        }
        self.xdp()?;
        let pin = pins.program(self.world, object_hash());
        remove_file(&pin)?;
        let pinned = xdp(&mut self.ebpf)?.pin(&pin);
        pinned.map_err(|e| PublishError::Pin { path: pin, source: root_cause(&e) })
    }

    fn fill_trie(
        &mut self,
        name: &str,
        rows: impl Iterator<Item = (u32, [u8; 16], u32)>,
    ) -> Result<(), PublishError> {
        let failed = |e: aya::maps::MapError| PublishError::Program(format!("map {name}: {}", chain(&e)));
        let Some(map) = self.ebpf.map_mut(name) else { return Ok(()) };
        let mut trie: LpmTrie<&mut MapData, [u8; 16], u32> = LpmTrie::try_from(map).map_err(failed)?;
        for (bits, address, value) in rows {
            trie.insert(&Key::new(bits, address), value, 0).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the prefixes that are never limited equal to these. The program may be running: a prefix that stays is never
    /// away in between.
    pub fn allow(&mut self, prefixes: &[IpNet]) -> Result<(), PublishError> {
        let failed = |e: aya::maps::MapError| PublishError::Program(format!("map ALLOWED: {}", chain(&e)));
        let Some(map) = self.ebpf.map_mut("ALLOWED") else { return Ok(()) };
        let mut trie: LpmTrie<&mut MapData, [u8; 16], u32> = LpmTrie::try_from(map).map_err(failed)?;
        let wanted: Vec<(u32, [u8; 16])> = prefixes.iter().map(mapped).collect();
        for (bits, address) in &wanted {
            trie.insert(&Key::new(*bits, *address), 1, 0).map_err(failed)?;
        }
        let there: Vec<Key<[u8; 16]>> = trie.keys().collect::<Result<_, _>>().map_err(failed)?;
        for key in there.iter().filter(|key| !wanted.contains(&(key.prefix_len(), key.data()))) {
            trie.remove(key).map_err(failed)?;
        }
        Ok(())
    }

    /// Number of the world in the pins.
    pub fn world(&self) -> u32 {
        self.world
    }

    /// The program, loaded.
    pub fn xdp(&mut self) -> Result<&mut Xdp, PublishError> {
        let program = xdp(&mut self.ebpf)?;
        if !self.is_loaded {
            program.load().map_err(|e| PublishError::Program(chain(&e)))?;
            self.is_loaded = true;
        }
        Ok(program)
    }

    /// Removes the pins of programs that were replaced.
    pub fn remove_other_pins(&self, pins: &Pins) -> Result<(), PublishError> {
        pins.remove_other_programs(self.world, object_hash())
    }

    /// Hands the program's log records on.
    pub fn flush_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    /// A map of the object, for tests and benches.
    pub fn map_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.ebpf.map_mut(name)
    }

    /// Maps the arrays into the memory of this process.
    pub fn memory(&self) -> Result<Memory, PublishError> {
        fn region<T: bytemuck::Pod>(ebpf: &Ebpf, name: &'static str) -> Result<Region<T>, PublishError> {
            match ebpf.map(name) {
                Some(Map::Array(data)) => Region::of_map(name, data),
                _ => Err(PublishError::Program(format!("map {name} is not an array of the object"))),
            }
        }
        Ok(Memory {
            control: region(&self.ebpf, "CONTROL")?,
            buckets: region(&self.ebpf, "BUCKETS")?,
            names: region(&self.ebpf, "NAMES")?,
            tails: region(&self.ebpf, "NAME_TAILS")?,
            references: region(&self.ebpf, "REFERENCES")?,
            answers: region(&self.ebpf, "ANSWERS")?,
            soas: region(&self.ebpf, "SOAS")?,
            class4: region(&self.ebpf, "CLASS4")?,
            class4_split: region(&self.ebpf, "CLASS4_SPLIT")?,
            scope4: region(&self.ebpf, "SCOPE4")?,
            scope4_split: region(&self.ebpf, "SCOPE4_SPLIT")?,
            rules: region(&self.ebpf, "RULES")?,
            sessions: Arc::new(self.sessions()?),
            limits: Arc::new(region(&self.ebpf, "LIMITS")?),
        })
    }

    /// The kernel's table of sessions.
    fn sessions(&self) -> Result<Sessions, PublishError> {
        match self.ebpf.map("SESSIONS") {
            Some(Map::LruHashMap(data)) => Sessions::of_map(data),
            _ => Err(PublishError::Program("map SESSIONS is no hash of the object".to_owned())),
        }
    }

    /// Counters summed over all CPUs, by slot.
    pub fn counters(&self) -> Result<Vec<u64>, PublishError> {
        let failed = |e: aya::maps::MapError| PublishError::Program(format!("map PER_CPU: {}", chain(&e)));
        let map =
            self.ebpf.map(COUNTERS).ok_or_else(|| PublishError::Program("no map PER_CPU".to_owned()))?;
        let array: PerCpuArray<&MapData, Counted> = PerCpuArray::try_from(map).map_err(failed)?;
        let cpus = array.get(&0, 0).map_err(failed)?;
        let slots = responder_common::counters::SLOTS;
        Ok((0..slots).map(|slot| cpus.iter().map(|cpu| cpu.0.counters[slot]).sum()).collect())
    }

    /// Everything that the program counts, summed over all CPUs.
    pub fn tally(&self) -> Result<Tally, PublishError> {
        let failed = |map: &'static str| {
            move |e: aya::maps::MapError| PublishError::Program(format!("map {map}: {}", chain(&e)))
        };
        let missing = |map: &str| PublishError::Program(format!("no map {map}"));
        let map = self.ebpf.map(COUNTERS).ok_or_else(|| missing(COUNTERS))?;
        let array: PerCpuArray<&MapData, Counted> = PerCpuArray::try_from(map).map_err(failed(COUNTERS))?;
        let cpus = array.get(&0, 0).map_err(failed(COUNTERS))?;
        let sum = |part: fn(&PerCpu, usize) -> u64, places: usize| -> Vec<u64> {
            (0..places).map(|place| cpus.iter().map(|cpu| part(&cpu.0, place)).sum()).collect()
        };
        let map = self.ebpf.map("ZONES").ok_or_else(|| missing("ZONES"))?;
        let array: PerCpuArray<&MapData, u64> = PerCpuArray::try_from(map).map_err(failed("ZONES"))?;
        let zones = (0..array.len()).map(|zone| Ok(array.get(&zone, 0)?.iter().sum()));
        Ok(Tally {
            types: sum(|cpu, place| cpu.types[place], TYPES),
            latency: sum(|cpu, place| cpu.latency[place], LATENCIES),
            lost: sum(|cpu, _| cpu.lost, 1)[0],
            zones: zones.collect::<Result<_, _>>().map_err(failed("ZONES"))?,
        })
    }

    /// Which packets are told from now on.
    pub fn filter(&self, filter: &Filter) -> Result<(), PublishError> {
        let Some(Map::Array(data)) = self.ebpf.map("FILTER") else {
            return Err(PublishError::Program("no map FILTER".to_owned()));
        };
        let region: Region<Filter> = Region::of_map("FILTER", data)?;
        let words: &[u64] = bytemuck::cast_slice(std::slice::from_ref(filter));
        for (word, value) in region.words(0).unwrap_or_default().iter().zip(words) {
            word.store(*value, std::sync::atomic::Ordering::Release);
        }
        Ok(())
    }

    /// Instructions that the verifier looked at, where the kernel tells.
    pub fn verified_instructions(&mut self) -> Option<u32> {
        self.xdp().ok()?.info().ok()?.verified_instruction_count()
    }

    /// Puts the program on an interface: into the link that is pinned there, atomically, else into a new one.
    ///
    /// A link without its interface (removed and made again) is replaced. Returns how it is attached.
    pub fn attach(&mut self, pins: &Pins, name: &str, mode: XdpMode) -> Result<AttachedMode, PublishError> {
        offload::refuse_stripped_tags(name, interface::named(name)?.index)?;
        let pin = pins.link(name);
        let mut before = None;
        if pin.exists() {
            let why = match self.replace(pins, &pin) {
                Ok(()) => match state(name)? {
                    Some((attached, _)) if fits(attached, mode) => return Ok(attached),
                    Some((attached, _)) => {
                        before = attached.flag();
                        format!("its mode is {}", attached.name())
                    }
                    None => "its interface is gone".to_owned(),
                },
                Err(error) => error.to_string(),
            };
            tracing::warn!(interface = name, why, "the pinned link is of no use any more: attaching anew");
            remove_file(&pin)?;
        }
        refuse_foreign(name)?;
        self.make_sure_loaded(pins)?;
        let tries: &[(Flag, &'static str)] = match mode {
            XdpMode::Native => &[(Flag::Driver, "native")],
            XdpMode::Generic => &[(Flag::Skb, "generic")],
            XdpMode::Auto => &[(Flag::Driver, "native"), (Flag::Skb, "generic")],
            XdpMode::Off => &[],
        };
        let mut last = None;
        for (flag, word) in tries {
            match self.attach_new(&pin, name, *flag) {
                Ok(()) => return Ok(state(name)?.map_or(AttachedMode::Other, |(mode, _)| mode)),
                Err(source) => {
                    if mode == XdpMode::Auto {
                        tracing::warn!(interface = name, mode = word, %source, "XDP mode is not possible: stepping down");
                    }
                    last = Some(PublishError::Mode { interface: name.to_owned(), mode: word, source });
                }
            }
        }
        if let Some(Err(error)) = before.map(|flag| self.attach_new(&pin, name, flag)) {
            tracing::error!(interface = name, %error, "the program could not be put back");
        }
        Err(last.unwrap_or_else(|| PublishError::Program("XDP is off".to_owned())))
    }

    /// How our link on this interface is attached, if it is alive: what the interface carries is what the link holds.
    pub fn is_on(pins: &Pins, name: &str, index: u32) -> Option<AttachedMode> {
        let (mode, id) = interface::xdp_on(index).ok().flatten()?;
        let link = PinnedLink::from_pin(pins.link(name)).ok().map(FdLink::from)?;
        (link.info().ok()?.program_id() == id).then_some(mode)
    }

    fn replace(&mut self, pins: &Pins, pin: &Path) -> Result<(), PublishError> {
        let failed = |call| {
            move |e: &(dyn std::error::Error + 'static)| PublishError::Bpf {
                call,
                object: pin.display().to_string(),
                source: root_cause(e),
            }
        };
        let link = PinnedLink::from_pin(pin).map_err(|e| failed("BPF_OBJ_GET")(&e))?;
        let link = FdLink::from(link);
        let attached = link.info().map_err(|e| failed("BPF_OBJ_GET_INFO_BY_FD")(&e))?.program_id();
        if self.kept == Some(attached) {
            return Ok(());
        }
        self.make_sure_loaded(pins)?;
        let link = XdpLink::try_from(link).map_err(|e| failed("link type")(&e))?;
        let program = xdp(&mut self.ebpf)?;
        let id = program.attach_to_link(link).map_err(|e| failed("BPF_LINK_UPDATE")(&e))?;
        // The pin keeps the link; our descriptor is not needed.
        program.take_link(id).map_err(|e| failed("link")(&e))?;
        Ok(())
    }

    fn attach_new(&mut self, pin: &Path, name: &str, flag: Flag) -> io::Result<()> {
        let program = xdp(&mut self.ebpf).map_err(io::Error::other)?;
        let id = program.attach(name, flag).map_err(|e| root_cause(&e))?;
        let link = program.take_link(id).map_err(|e| root_cause(&e))?;
        // An attachment by netlink cannot be pinned: it would die with this process, or outlive it uncontrolled.
        let link = FdLink::try_from(link).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        link.pin(pin).map_err(|e| root_cause(&e))?;
        Ok(())
    }
}

/// A prefix as the map of both families holds it.
fn mapped(prefix: &IpNet) -> (u32, [u8; 16]) {
    let bits = u32::from(prefix.prefix_len());
    match prefix.network() {
        IpAddr::V4(address) => (96 + bits, address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => (bits, address.octets()),
    }
}

fn xdp(ebpf: &mut Ebpf) -> Result<&mut Xdp, PublishError> {
    ebpf.program_mut(PROGRAM)
        .ok_or_else(|| PublishError::Program(format!("the object has no program {PROGRAM}")))?
        .try_into()
        .map_err(|e: aya::programs::ProgramError| PublishError::Program(chain(&e)))
}

/// Which object a pinned program came from.
fn object_hash() -> u64 {
    let mut hasher = DefaultHasher::new();
    OBJECT.hash(&mut hasher);
    hasher.finish()
}

/// The id of a pinned program, if it works on the maps that are open here: a map that was lost is made anew.
fn kept_program(ebpf: &Ebpf, pin: &Path) -> Option<u32> {
    let program = ProgramInfo::from_pin(pin).ok()?;
    let used = program.map_ids().ok().flatten()?;
    let has = |name: &str| match ebpf.map(name) {
        Some(Map::Array(data) | Map::PerCpuArray(data)) => {
            data.info().is_ok_and(|info| used.contains(&info.id()))
        }
        _ => false,
    };
    (has("CONTROL") && has(COUNTERS)).then(|| program.id())
}

impl AttachedMode {
    /// How to attach a program like this again.
    fn flag(self) -> Option<Flag> {
        match self {
            Self::Native => Some(Flag::Driver),
            Self::Generic => Some(Flag::Skb),
            Self::Other => None,
        }
    }
}

/// True if a program that is attached like this is attached as demanded.
fn fits(attached: AttachedMode, mode: XdpMode) -> bool {
    match mode {
        XdpMode::Native => attached != AttachedMode::Generic,
        XdpMode::Generic => attached != AttachedMode::Native,
        XdpMode::Auto | XdpMode::Off => true,
    }
}

fn state(name: &str) -> Result<Option<(AttachedMode, u32)>, PublishError> {
    let index = interface::named(name)?.index;
    interface::xdp_on(index).map_err(|source| PublishError::Bpf {
        call: "RTM_GETLINK",
        object: name.to_owned(),
        source,
    })
}

/// How long a program of ours may stay on its interface after its pin was removed: the kernel takes it off later.
const LEAVING: Duration = Duration::from_secs(2);

/// Err if the interface carries an XDP program; call it where none of ours is.
pub fn refuse_foreign(name: &str) -> Result<(), PublishError> {
    let deadline = Instant::now() + LEAVING;
    loop {
        let Some((_, id)) = state(name)? else { return Ok(()) };
        let mut programs = aya::programs::loaded_programs().flatten();
        let program = programs.find(|info| info.id() == id);
        let program = program.and_then(|p| p.name_as_str().map(str::to_owned)).unwrap_or_default();
        if program != PROGRAM || Instant::now() >= deadline {
            if let Some(pins) = pins_of(id).filter(|_| program == PROGRAM) {
                let (interface, path) = (name.to_owned(), pins.pin_path().to_owned());
                return Err(PublishError::Orphan { interface, path });
            }
            return Err(PublishError::Foreign { interface: name.to_owned(), program, id });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The world whose maps the program of a pinned link uses.
pub fn live_world(pins: &Pins) -> Option<u32> {
    let link = pins.linked().into_iter().find_map(|name| PinnedLink::from_pin(pins.link(&name)).ok())?;
    let program = FdLink::from(link).info().ok()?.program_id();
    let maps = aya::programs::loaded_programs()
        .flatten()
        .find(|info| info.id() == program)
        .and_then(|info| info.map_ids().ok().flatten())?;
    pins.worlds().into_iter().find(|world| {
        let control = MapData::from_pin(pins.map(*world, "CONTROL")).and_then(|map| map.info());
        control.is_ok_and(|info| maps.contains(&info.id()))
    })
}

/// Longest text of an error: the kernel's verifier explains itself in megabytes, and the reason stands at the end.
const LONGEST: usize = 1200;

/// An error with its causes; of a long one the beginning and the end.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    if text.len() > LONGEST && text.is_ascii() {
        text = format!("{} [...] {}", &text[..LONGEST / 4], &text[text.len() - LONGEST * 3 / 4..]);
    }
    text
}

/// The system's reason at the bottom of an error.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> io::Error {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        cause = inner.source();
    }
    io::Error::other(chain(error))
}
