//! The writer: changes answers and names as fast as slots come back.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use responder_common::layout::{AnswerSet, NameEntry, REFERENCE_NONE};
use responder_user::{
    compile::{Compiled, name::StaticTypes},
    model::{Model, settings::XdpMode},
    publish::{
        attach::Program,
        grace::{KernelGrace, Reclaimer},
        pin::Pins,
        table::{Sizes, Table},
        world::World,
        writer::surroundings,
    },
};

use crate::{
    lab::{pin_path, random::Random},
    reader::{NaiveMap, Plain, Reader},
    shape::{NAME_LEN, NaiveAnswer, Proof, TIED, name_words, tie},
};

/// Slots beyond those in use, of answers and of names: a few milliseconds' worth, each reused as soon as it comes back.
const SPARE: u32 = 32;

/// What a writer did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Answers replaced.
    pub answers: u64,
    /// Names replaced.
    pub names: u64,
    /// Guests put in or taken out.
    pub guests: u64,
    /// Times that it had to wait for a slot.
    pub stalls: u64,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, names, guests, stalls } = self;
        write!(f, "{answers} new answers, {names} new names, {guests} guests, {stalls} stalls")
    }
}

/// A world with hardly a slot to spare. Dropping it removes everything from the kernel.
pub struct Stage {
    world: World,
    program: Program,
    pins: Pins,
}

impl Stage {
    /// Makes the maps and fills them.
    pub fn open(size: &Proof) -> Self {
        let mut model = Model::default();
        model.settings.xdp.interfaces = vec!["lo".to_owned()];
        model.settings.xdp.mode = XdpMode::Generic;
        model.settings.xdp.pin_path = pin_path("proof");
        let settings = model.settings.clone();
        let compiled = Compiled::of(Arc::new(model), &|_| StaticTypes::default(), &|_| None, &|_| None)
            .unwrap_or_else(|error| panic!("{error}"));
        let (names, guests, owners) = (size.names as u32, size.guests as u32, size.owners as u32);
        let sizes = Sizes {
            // Guests often share a line with names that stay, and every one of them finds a place.
            buckets: (names + guests).div_ceil(2).next_power_of_two(),
            names: names + guests + 1 + SPARE,
            references: owners,
            answers: owners + 1 + SPARE,
            soas: 2,
            class4: 1,
            class4_split: 1,
            scope4: 1,
            scope4_split: 1,
            rules: 1,
            sessions: 1,
        };
        let pins = Pins::open(&settings.xdp.pin_path).unwrap_or_else(|error| panic!("{error}"));
        let program =
            Program::create(&pins, &sizes, &compiled.classes).unwrap_or_else(|error| panic!("{error}"));
        let memory = program.memory().unwrap_or_else(|error| panic!("{error}"));
        let grace = KernelGrace::new().unwrap_or_else(|error| panic!("{error}"));
        let reclaimer = Reclaimer::start(move || grace.wait()).unwrap_or_else(|error| panic!("{error}"));
        let around = surroundings(&settings).unwrap_or_else(|error| panic!("{error}"));
        let world = World::fill(memory, &compiled, &around, reclaimer, 0).unwrap_or_else(|e| panic!("{e}"));
        let mut stage = Self { world, program, pins };
        for owner in 0..owners {
            publish(stage.table(), owner, 1);
        }
        for number in 0..names {
            put(stage.table(), number, owners, 1);
        }
        stage
    }

    /// The table, to write.
    pub fn table(&mut self) -> &mut Table {
        self.world.table_mut()
    }

    /// A reader over these maps.
    pub fn reader(&mut self, told: &Proof) -> Reader {
        Reader::over(&self.pins, self.program.world(), told)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = self.pins.remove() {
            eprintln!("pins are left behind: {error}");
        }
    }
}

/// The answer of an owner in a generation.
fn answer(owner: u32, generation: u64) -> AnswerSet {
    let mut addresses = [0; 256];
    for (place, address) in addresses.iter_mut().take(TIED).enumerate() {
        *address = tie(owner, generation, place as u32);
    }
    AnswerSet {
        generation,
        made_for: owner,
        flags: 0,
        ring_len: 1,
        rotate: 8,
        total: 8,
        give: 8,
        reserved: [0; 5],
        hold: 0,
        addresses,
        ring: [tie(owner, generation, 99) as u8; 1024],
        choices: [0; 64],
        tail: [0; 32],
    }
}

/// The same for the naive map.
fn naive_answer(owner: u32, generation: u64) -> NaiveAnswer {
    let mut addresses = [0; TIED];
    for (place, address) in addresses.iter_mut().enumerate() {
        *address = tie(owner, generation, place as u32);
    }
    NaiveAnswer { generation, made_for: owner as u64, addresses }
}

/// What is said of a name in one of its versions.
fn entry(number: u32, owners: u32, version: u32) -> NameEntry {
    NameEntry {
        references: [number & (owners - 1), REFERENCE_NONE],
        ttls: [version, tie(number, version as u64, 7)],
        soa: tie(number, version as u64, 8),
        name_len: 0,
        apex_at: version as u8,
        flags: 0,
        more: 0,
        name: [0; 5],
    }
}

fn publish(table: &mut Table, owner: u32, generation: u64) {
    let slot = table.stage_answer(&answer(owner, generation)).unwrap_or_else(|error| panic!("{error}"));
    table.point(owner, slot);
}

fn wire(number: u32) -> [u8; NAME_LEN] {
    let words: [u8; 16] = bytemuck::cast(name_words(number));
    *words.first_chunk().expect("a name has 15 octets")
}

fn put(table: &mut Table, number: u32, owners: u32, version: u32) {
    let entry = entry(number, owners, version);
    table.put_name(&wire(number), entry).unwrap_or_else(|error| panic!("{error}"));
}

/// Changes answers and names until it is told to stop.
pub fn change(table: &mut Table, size: &Proof, stop: &AtomicBool) -> Changes {
    let (names, guests, owners) = (size.names as u32, size.guests as u32, size.owners as u32);
    let mut random = Random(7);
    let mut changes = Changes::default();
    let stalls = table.stalls();
    let mut generation = 1;
    while !stop.load(Ordering::Relaxed) {
        generation += 1;
        publish(table, random.below(owners as usize) as u32, generation);
        changes.answers += 1;
        match random.below(4) {
            0 => {
                put(table, random.below(names as usize) as u32, owners, generation as u32);
                changes.names += 1;
            }
            1 => {
                let guest = names + random.below(guests as usize) as u32;
                if !table.remove_name(&wire(guest)) {
                    put(table, guest, owners, generation as u32);
                }
                changes.guests += 1;
            }
            _ => {}
        }
        table.end_batch();
    }
    changes.stalls = table.stalls() - stalls;
    changes
}

/// Fills the naive map.
pub fn fill_naive(map: &mut NaiveMap, names: u32) {
    for number in 0..names {
        map.insert(name_words(number), Plain(naive_answer(number, 1)), 0).expect("map NAIVE");
    }
}

/// Updates the naive map in place until it is told to stop.
pub fn update_naive(map: &mut NaiveMap, names: u32, stop: &AtomicBool) -> Changes {
    let mut random = Random(7);
    let mut changes = Changes::default();
    while !stop.load(Ordering::Relaxed) {
        let number = random.below(names as usize) as u32;
        let answer = naive_answer(number, changes.answers + 2);
        map.insert(name_words(number), Plain(answer), 0).expect("map NAIVE");
        changes.answers += 1;
    }
    changes
}
