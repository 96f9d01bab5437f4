//! The reader's object, loaded over the maps of a world.

#![expect(unsafe_code, reason = "aya's marker for map values")]

use std::path::Path;

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData},
    programs::Xdp,
};
use responder_user::publish::pin::{Pins, SHARED_MAPS, WORLD_MAPS};

use crate::{
    lab::run::{MOST, Runner, Verdict},
    shape::{NaiveAnswer, Proof, READS},
};

/// System calls between two looks at what was found. Each runs the program once: for more, the kernel patches its
/// dispatcher and waits for a grace period before and after.
const CALLS: u32 = 64;

/// Map values of the reader.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Plain<T>(pub T);

// SAFETY: eleven words without padding, every bit pattern valid.
unsafe impl aya::Pod for Plain<Proof> {}
// SAFETY: two words and 32 half words without padding, every bit pattern valid.
unsafe impl aya::Pod for Plain<NaiveAnswer> {}

/// The naive map.
pub type NaiveMap = HashMap<MapData, [u64; 2], Plain<NaiveAnswer>>;

/// The loaded reader.
pub struct Reader {
    ebpf: Ebpf,
    runner: Runner,
    proof: Array<MapData, Plain<Proof>>,
}

impl Reader {
    /// Loads the object over the maps of a world.
    pub fn over(pins: &Pins, world: u32, told: &Proof) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bpf/bpfel-unknown-none/release/proof");
        let mut loader = EbpfLoader::new();
        for map in WORLD_MAPS {
            loader.map_pin_path(map, pins.map(world, map));
        }
        for map in SHARED_MAPS {
            loader.map_pin_path(map, pins.shared(map));
        }
        let mut ebpf = loader.load_file(&path).unwrap_or_else(|error| {
            panic!("{}: {error:?}. Build it first: cargo xtask build --ebpf-only", path.display())
        });
        let program: &mut Xdp =
            ebpf.program_mut("proof").expect("program proof").try_into().expect("an XDP program");
        program.load().unwrap_or_else(|error| panic!("{error:?}"));
        let runner = Runner::new(program);
        let mut proof: Array<MapData, Plain<Proof>> =
            Array::try_from(ebpf.take_map("PROOF").expect("map PROOF")).expect("an array");
        proof.set(0, Plain(*told), 0).expect("map PROOF");
        Self { ebpf, runner, proof }
    }

    /// Some thousand reads; what was found since the beginning.
    pub fn read(&mut self) -> Proof {
        let mut out = Box::new([0; MOST]);
        for _ in 0..CALLS {
            let (verdict, _) = self.runner.run(&[0; 64], &mut out);
            assert_eq!(verdict, Verdict::Pass, "all {READS} reads of a run");
        }
        self.proof.get(&0, 0).expect("map PROOF").0
    }

    /// The naive map, to write.
    pub fn naive_map(&mut self) -> NaiveMap {
        HashMap::try_from(self.ebpf.take_map("NAIVE").expect("map NAIVE")).expect("a hash map")
    }
}
