//! What the program tells beside its verdicts: what it counts, how long it takes, single packets.

use aya::maps::{Map, MapData, RingBuf};
use responder_common::sample::Filter;

use super::{PublishError, attach::Tally, writer::Writer};

impl Writer {
    /// What the program counts beside its verdicts; None without a program.
    pub fn tally(&self) -> Option<Tally> {
        let tally = self.lane.program.as_ref()?.tally();
        tally.inspect_err(|error| tracing::warn!(%error, "cannot read what the program counts")).ok()
    }

    /// Samples packets that fit the filter from now on, or none; in every world that follows, too.
    pub fn sample(&mut self, filter: Option<&Filter>) -> Result<(), PublishError> {
        let Some(program) = &self.lane.program else { return Ok(()) };
        // Off first: what a packet meets half changed is told to nobody.
        self.lane.world.watch(false, self.watched.1);
        if let Some(filter) = filter {
            program.filter(filter)?;
        }
        self.watched.0 = filter.is_some();
        self.lane.world.watch(self.watched.0, self.watched.1);
        Ok(())
    }

    /// Times runs from now on, or not; in every world that follows, too.
    pub fn time(&mut self, times: bool) {
        self.watched.1 = times;
        self.lane.world.watch(self.watched.0, times);
    }

    /// What is told of single packets, for one reader.
    pub fn samples(&self) -> Result<RingBuf<MapData>, PublishError> {
        let pins = self.pins().ok_or_else(|| PublishError::Program("XDP is off".to_owned()))?;
        let failed = |e: aya::maps::MapError| PublishError::Program(format!("map SAMPLES: {e}"));
        let data = MapData::from_pin(pins.shared("SAMPLES")).map_err(failed)?;
        RingBuf::try_from(Map::RingBuf(data)).map_err(failed)
    }
}
