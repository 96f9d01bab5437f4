//! The writer: one world in force, in the kernel's maps or in plain memory, and the flip to the next one.

use std::sync::Arc;

use responder_common::{edns::Nsid, layout::Control};

use super::{
    PublishError,
    attach::{self, Program},
    follow::{Attached, Change},
    grace::{KernelGrace, Reclaimer},
    interface::{self, AttachedMode, HostInterface},
    leftover::{self, Leftover},
    offload,
    pin::{Held, Pins, remove_file},
    region::Region,
    secrets,
    sessions::Sessions,
    table::Memory,
    world::{self, Reader, Surroundings, World, sizes},
};
use crate::{
    compile::{Columns, Compiled, number::Side},
    model::{
        Settings,
        settings::{OnExit, XdpMode},
    },
};

/// Returns when no worker holds anything that it read before the call.
pub type WorkersDone = Arc<dyn Fn() + Send + Sync>;

/// How a writer began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With an empty world.
    Fresh,
    /// With the world of a former daemon, whose answers hold until decisions replace them.
    Adopted {
        /// Names put in or changed.
        put: usize,
        /// Names taken out.
        removed: usize,
    },
}

/// A world and, in the kernel lane, its program.
pub(super) struct Lane {
    pub(super) world: World,
    pub(super) program: Option<Program>,
}

/// The one writer.
pub struct Writer {
    pub(super) lane: Lane,
    /// Packets are sampled, runs are timed.
    pub(super) watched: (bool, bool),
    attached: Vec<Attached>,
    workers_done: WorkersDone,
    /// A former daemon's world with other numbers, which answers until ours is attached.
    old: Option<Before>,
    /// The world answers somewhere, so its pins are of use to the next daemon.
    is_in_force: bool,
    /// What a former daemon pinned and this one has no use for; it answers until the workers have answers.
    leftover: Leftover,
    /// The pins have one writer. Goes last.
    held: Option<Held>,
}

/// What goes on in a world that answers until ours does.
struct Before {
    control: Region<Control>,
    sessions: Option<Sessions>,
}

impl Before {
    fn at(pins: &Pins) -> Option<Self> {
        Some(Self { control: leftover::control(pins)?, sessions: leftover::sessions(pins) })
    }

    /// Its sessions go on in this world.
    fn hand_over(&self, world: &World) {
        if let Some(sessions) = &self.sessions {
            world.sessions().take_over(sessions);
        }
    }
}

/// A world that is filled but not in force yet.
pub struct Next(Lane);

impl Writer {
    /// Takes over the pinned world, if there is one with the same numbering; else fills a new one. Nothing is attached
    /// that was not attached before, and nothing is taken off an interface.
    pub fn open(
        settings: &Settings,
        compiled: &Compiled,
        workers_done: WorkersDone,
    ) -> Result<(Self, Start), PublishError> {
        if !settings.xdp.is_on() {
            let leftover = Leftover::at(&settings.xdp.pin_path)?;
            return Self::in_memory(settings, compiled, workers_done, leftover);
        }
        let held = match Held::open(&settings.xdp.pin_path) {
            Err(PublishError::InUse { path }) => return Err(PublishError::InUse { path }),
            Err(error) if settings.xdp.mode == XdpMode::Auto => {
                tracing::warn!(%error, "XDP is not possible: stepping down to sockets only");
                return Self::in_memory(settings, compiled, workers_done, Leftover::default());
            }
            held => held?,
        };
        let pins = held.pins();
        make_sure_free(pins, settings, &[])?;
        if let Some((lane, start)) = adopt(pins, compiled, settings, &workers_done)? {
            return Ok((Self::new(lane, workers_done, None, true, Leftover::default(), Some(held)), start));
        }
        let old = Before::at(pins);
        match fresh(Some(pins), settings, compiled, &workers_done, 0) {
            Ok(lane) => {
                if let Some(old) = &old {
                    old.hand_over(&lane.world);
                }
                let writer = Self::new(lane, workers_done, old, false, Leftover::default(), Some(held));
                Ok((writer, Start::Fresh))
            }
            Err(error) if settings.xdp.mode == XdpMode::Auto => {
                tracing::warn!(%error, "XDP is not possible: stepping down to sockets only");
                Self::in_memory(settings, compiled, workers_done, Leftover::one(held))
            }
            Err(error) => Err(error),
        }
    }

    /// Without the kernel.
    fn in_memory(
        settings: &Settings,
        compiled: &Compiled,
        workers_done: WorkersDone,
        leftover: Leftover,
    ) -> Result<(Self, Start), PublishError> {
        leftover::refuse_orphans(settings)?;
        let lane = fresh(None, settings, compiled, &workers_done, 0)?;
        Ok((Self::new(lane, workers_done, None, false, leftover, None), Start::Fresh))
    }

    fn new(
        lane: Lane,
        workers_done: WorkersDone,
        old: Option<Before>,
        is_in_force: bool,
        leftover: Leftover,
        held: Option<Held>,
    ) -> Self {
        Self {
            lane,
            watched: (false, false),
            attached: Vec::new(),
            workers_done,
            old,
            is_in_force,
            leftover,
            held,
        }
    }

    pub(super) fn pins(&self) -> Option<&Pins> {
        self.held.as_ref().map(Held::pins)
    }

    /// The world in force.
    pub fn world(&self) -> &World {
        &self.lane.world
    }

    /// The world in force, to write.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.lane.world
    }

    /// Secrets of cookies as they are now: another day has another one.
    pub fn follow_secrets(&mut self, settings: &Settings) {
        self.lane.world.set_secrets(settings.cookies.then(|| secrets::current(&settings.state_dir)));
    }

    /// A sign of life for `xdp.max_stale`, in every world that answers.
    pub fn beat(&mut self) {
        self.lane.world.beat();
        if let Some(old) = &self.old {
            world::beat_old(&old.control);
        }
        self.leftover.beat();
    }

    /// The program, in the kernel lane.
    pub fn program_mut(&mut self) -> Option<&mut Program> {
        self.lane.program.as_mut()
    }

    /// True if packets can be answered by XDP.
    pub fn is_kernel(&self) -> bool {
        self.lane.program.is_some()
    }

    /// Follows other limits in the world in force.
    pub fn limit(&mut self, settings: &Settings) -> Result<(), PublishError> {
        if let Some(program) = &mut self.lane.program {
            program.allow(&settings.limits.allow)?;
        }
        self.lane.world.limit(settings.switches());
        Ok(())
    }

    /// How the program is attached.
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// How the interface with this index carries a program of ours, as the kernel says. None: it does not.
    pub fn mode_on(&self, name: &str, index: u32) -> Option<&'static str> {
        Program::is_on(self.pins()?, name, index).map(AttachedMode::name)
    }

    /// Puts the program on every interface of the configuration that is there, and takes it off every other one. Without
    /// XDP, takes away what a former daemon left: the workers have the answers now.
    pub fn attach(&mut self, settings: &Settings) -> Result<(), PublishError> {
        let (Some(held), Some(program)) = (&self.held, &mut self.lane.program) else {
            return self.leftover.remove();
        };
        let pins = held.pins();
        let mut attached = Vec::new();
        for name in &settings.xdp.interfaces {
            let index = match interface::named(name) {
                Ok(host) => host.index,
                Err(PublishError::NoInterface { .. }) => {
                    tracing::warn!(interface = name, "the interface is missing; the others are served");
                    attached.push(Attached::missing(name));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let result = program.attach(pins, name, settings.xdp.mode).map(AttachedMode::name);
            self.is_in_force |= result.is_ok();
            if let Err(error) = &result {
                let is_refusal = matches!(
                    error,
                    PublishError::Foreign { .. }
                        | PublishError::Orphan { .. }
                        | PublishError::StrippedTags { .. }
                );
                let is_known_off = is_known_off(&self.attached, name);
                if !is_known_off && (is_refusal || settings.xdp.mode != XdpMode::Auto) {
                    return result.map(|_| ());
                }
                tracing::warn!(interface = name, %error, "XDP is not possible on this interface: sockets answer");
            }
            attached.push(Attached::new(name, index, result));
        }
        for name in pins.linked() {
            if !settings.xdp.interfaces.contains(&name) {
                remove_file(&pins.link(&name))?;
            }
        }
        // Every link has this program now: what other worlds are pinned nobody answers from.
        for world in pins.worlds() {
            if world != program.world() {
                pins.remove_world(world)?;
            }
        }
        program.remove_other_pins(pins)?;
        // Those that began while ours was attached here and the old one still answered there.
        if let Some(old) = self.old.take() {
            old.hand_over(&self.lane.world);
        }
        self.attached = attached;
        Ok(())
    }

    /// Looks at every interface of the configuration, of those that are there (`found`), and puts the program back where
    /// it is missing. Returns what happened.
    pub fn follow(&mut self, settings: &Settings, found: &[HostInterface]) -> Vec<Change> {
        let (Some(held), Some(program)) = (&self.held, &mut self.lane.program) else { return Vec::new() };
        let mut changes = Vec::new();
        for row in &mut self.attached {
            let host = found.iter().find(|host| host.name == row.name);
            changes.extend(row.follow(held.pins(), program, settings.xdp.mode, host));
            self.is_in_force |= row.mode.is_some();
        }
        changes
    }

    /// A new world for a configuration with another numbering. Publish its answers, then [`Writer::flip`].
    pub fn prepare(&self, settings: &Settings, compiled: &Compiled) -> Result<Next, PublishError> {
        let generation = self.lane.world.generation();
        fresh(self.pins(), settings, compiled, &self.workers_done, generation).map(Next)
    }

    /// Follows other settings with the same world. On an error everything is as it was under the settings `before`.
    pub fn attach_or_stay(&mut self, before: &Settings, settings: &Settings) -> Result<(), PublishError> {
        let result = self.attach(settings);
        if result.is_err() {
            self.attach_again(before);
        }
        result
    }

    /// Puts a prepared world in force: each link gets the new program in one atomic step. On an error the old world is
    /// in force again on the interfaces of `before`; meanwhile both answer from a whole plan.
    pub fn flip(&mut self, next: Next, before: &Settings, settings: &Settings) -> Result<(), PublishError> {
        let old = std::mem::replace(&mut self.lane, next.0);
        self.lane.world.watch(self.watched.0, self.watched.1);
        let (before_it, now) = (old.world.sessions(), self.lane.world.sessions());
        now.take_over(&before_it);
        let result = self.attach(settings);
        // Those that began meanwhile.
        now.take_over(&before_it);
        if result.is_err() {
            let new = std::mem::replace(&mut self.lane, old);
            // Links that have the new program already go back.
            self.attach_again(before);
            self.discard(&new);
        }
        result
    }

    fn attach_again(&mut self, before: &Settings) {
        if let Err(error) = self.attach(before) {
            tracing::error!(%error, "cannot go back to the old program everywhere");
        }
    }

    /// Err if an interface of these settings carries a foreign program, or listens on more than the program compares.
    pub fn make_sure_possible(&self, settings: &Settings) -> Result<(), PublishError> {
        let Some(pins) = self.pins() else { return Ok(()) };
        surroundings(settings)?;
        make_sure_free(pins, settings, &self.attached)
    }

    /// Takes a prepared world in the place of one that waits for its answers; what is attached goes on answering until
    /// [`Writer::attach`].
    pub fn exchange(&mut self, next: Next) {
        if self.is_in_force {
            self.old = self.pins().and_then(Before::at);
        }
        let waited = std::mem::replace(&mut self.lane, next.0);
        self.lane.world.sessions().take_over(&waited.world.sessions());
        self.lane.world.watch(self.watched.0, self.watched.1);
        if !self.is_in_force {
            self.discard(&waited);
        }
        self.is_in_force = false;
    }

    /// Gives up a prepared world.
    pub fn abandon(&self, next: &Next) {
        self.discard(&next.0);
    }

    /// Removes the pins of a world that is not in force. The kernel frees its maps when the last program is done.
    fn discard(&self, lane: &Lane) {
        if let (Some(pins), Some(program)) = (self.pins(), &lane.program)
            && let Err(error) = pins.remove_world(program.world())
        {
            tracing::warn!(%error, "cannot remove the pins of the old world");
        }
    }

    /// Publishes what differs of one owner and type in the world in force.
    pub fn publish(&mut self, side: Side, columns: &Columns, generation: u64) -> Result<usize, PublishError> {
        self.lane.world.publish(side, columns, generation)
    }

    /// Counters of the program by slot; none without it.
    pub fn counters(&self) -> Vec<u64> {
        self.lane.program.as_ref().and_then(|program| program.counters().ok()).unwrap_or_default()
    }

    /// A reader of the world in force.
    pub fn reader(&self, readers: usize) -> Reader {
        self.lane.world.reader(readers)
    }

    /// Ends: with `detach` everything is removed from the kernel, with `keep` it goes on answering.
    pub fn close(mut self, on_exit: OnExit) -> Result<(), PublishError> {
        match (on_exit, &self.held) {
            (OnExit::Detach, Some(held)) => held.remove(),
            (OnExit::Keep, _) => {
                self.lane.world.beat();
                Ok(())
            }
            (OnExit::Detach, None) => Ok(()),
        }
    }
}

/// A start that failed leaves no world behind.
impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_in_force {
            self.discard(&self.lane);
        }
    }
}

impl Next {
    /// Publishes into the prepared world.
    pub fn publish(&mut self, side: Side, columns: &Columns, generation: u64) -> Result<usize, PublishError> {
        self.0.world.publish(side, columns, generation)
    }

    /// Ends the batch.
    pub fn end_batch(&mut self, generation: u64) {
        self.0.world.end_batch(generation);
    }
}

/// Err if an interface carries somebody else's program, or VLANs whose tags are taken off. Where the program is off
/// already, that is no news.
fn make_sure_free(pins: &Pins, settings: &Settings, attached: &[Attached]) -> Result<(), PublishError> {
    for name in &settings.xdp.interfaces {
        let host = match interface::named(name) {
            Err(PublishError::NoInterface { .. }) => continue,
            host => host?,
        };
        if is_known_off(attached, name) {
            continue;
        }
        if !pins.link(name).exists() {
            attach::refuse_foreign(name)?;
        }
        offload::refuse_stripped_tags(name, host.index)?;
    }
    Ok(())
}

fn is_known_off(attached: &[Attached], name: &str) -> bool {
    attached.iter().any(|row| row.name == name && row.is_known_off())
}

/// Addresses and interfaces as they are now. Interfaces that are missing are left out.
pub fn surroundings(settings: &Settings) -> Result<Surroundings, PublishError> {
    let all = interface::all().map_err(|source| PublishError::Bpf {
        call: "getifaddrs",
        object: "interfaces".to_owned(),
        source,
    })?;
    let named = |name: &String| all.iter().find(|interface| interface.name == *name).cloned();
    let ours: Vec<HostInterface> = settings.xdp.interfaces.iter().filter_map(named).collect();
    surroundings_of(settings, &ours)
}

/// Likewise, with these interfaces.
pub fn surroundings_of(settings: &Settings, ours: &[HostInterface]) -> Result<Surroundings, PublishError> {
    let listening = interface::listening(&settings.listen, ours);
    let (listen4, listen6) = interface::listen_words(&listening.addresses)?;
    let interfaces = interface::interface_words(ours)?;
    Ok(Surroundings { listen4, listen6, interfaces, ..surroundings_without(settings) })
}

fn reclaimer(is_kernel: bool, workers_done: &WorkersDone) -> Result<Reclaimer, PublishError> {
    let workers_done = workers_done.clone();
    if !is_kernel {
        return Reclaimer::start(move || {
            workers_done();
            Ok(())
        });
    }
    let grace = KernelGrace::new()?;
    Reclaimer::start(move || {
        grace.wait()?;
        workers_done();
        Ok(())
    })
}

/// A name that finds no place asks for another key and more buckets; that often is enough for anything.
const TRIES: u32 = 4;

fn fresh(
    pins: Option<&Pins>,
    settings: &Settings,
    compiled: &Compiled,
    workers_done: &WorkersDone,
    generation: u64,
) -> Result<Lane, PublishError> {
    let around = if pins.is_some() { surroundings(settings)? } else { surroundings_without(settings) };
    let mut grow = 0;
    loop {
        let sizes = sizes(compiled, grow);
        let mut program = pins.map(|pins| Program::create(pins, &sizes, &compiled.classes)).transpose()?;
        let allowed = program.as_mut().map_or(Ok(()), |program| program.allow(&settings.limits.allow));
        let memory = program.as_ref().map_or_else(|| Memory::plain(&sizes), Program::memory);
        let filled = allowed.and(memory).and_then(|memory| {
            let reclaimer = reclaimer(program.is_some(), workers_done)?;
            World::fill(memory, compiled, &around, reclaimer, generation)
        });
        match filled {
            Ok(world) => return Ok(Lane { world, program }),
            Err(error) => {
                if let (Some(pins), Some(program)) = (pins, &program) {
                    pins.remove_world(program.world())?;
                }
                grow += 1;
                if !matches!(error, PublishError::NoPlace { .. }) || grow == TRIES {
                    return Err(error);
                }
            }
        }
    }
}

fn nsid_words(text: &str) -> Nsid {
    let mut nsid = Nsid { len: text.len() as u64, ..Nsid::default() };
    let room: &mut [u8] = bytemuck::bytes_of_mut(&mut nsid.words);
    room.iter_mut().zip(text.bytes()).for_each(|(to, octet)| *to = octet);
    nsid
}

/// Without XDP nobody compares addresses.
fn surroundings_without(settings: &Settings) -> Surroundings {
    use bytemuck::Zeroable;
    Surroundings {
        listen4: Zeroable::zeroed(),
        listen6: Zeroable::zeroed(),
        interfaces: Zeroable::zeroed(),
        max_stale: settings.xdp.max_stale,
        cookies: settings.cookies.then(|| secrets::current(&settings.state_dir)),
        nsid: nsid_words(&settings.nsid),
        limits: settings.switches(),
    }
}

fn adopt(
    pins: &Pins,
    compiled: &Compiled,
    settings: &Settings,
    workers_done: &WorkersDone,
) -> Result<Option<(Lane, Start)>, PublishError> {
    let live = attach::live_world(pins);
    // Worlds that were prepared by a daemon that died, and all of them when nothing answers from any.
    for world in pins.worlds() {
        if live != Some(world) {
            pins.remove_world(world)?;
        }
    }
    let Some(live) = live else { return Ok(None) };
    let mut program = match Program::over(pins, live) {
        Ok(program) => program,
        Err(error) => {
            tracing::warn!(%error, "cannot take over the pinned maps: building a new world");
            return Ok(None);
        }
    };
    // Slots that the former daemon had retired may still be read.
    KernelGrace::new()?.wait()?;
    let reclaimer = reclaimer(true, workers_done)?;
    let Some(mut world) = World::adopt(program.memory()?, compiled, reclaimer) else { return Ok(None) };
    world.beat();
    match world.reconcile_names(compiled) {
        Ok((put, removed)) => {
            program.allow(&settings.limits.allow)?;
            // Nobody listens to what a former daemon let the program tell.
            world.watch(false, false);
            world.surround(&surroundings(settings)?);
            Ok(Some((Lane { world, program: Some(program) }, Start::Adopted { put, removed })))
        }
        Err(error) => {
            tracing::info!(%error, "the pinned maps are too small: building a new world");
            Ok(None)
        }
    }
}
