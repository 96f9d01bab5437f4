//! How long a change of health takes until the last changed entry is in the kernel.

use std::{
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use aya::programs::{TestRun, TestRunOptions};
use responder_user::{decide::AddressState, model::ServiceId};

use crate::{
    cost::{Floor, Series, none_wrong},
    error::{Error, Result},
    report::Progress,
    rig::Rig,
    scene::{POOL_FIRST, Scene},
    traffic::{Opt, Tally, Traffic, one_query},
};

/// The daemon publishes so often at most (design section 5): changes that follow each other sooner are one.
const PACE: Duration = Duration::from_millis(10);

/// Every so many changes the kernel is asked.
const CHECK_EVERY: usize = 25;

/// XDP_TX.
const TX: u32 = 3;

/// What was measured for one number of names.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Names.
    pub names: u32,
    /// Milliseconds of each change.
    pub took: Series,
    /// Reference words changed by each.
    pub references: usize,
    /// How often the kernel was asked and had the new answer.
    pub checked: usize,
    /// How often the writer waited for a free slot.
    pub stalls: u64,
    /// Queries that flowed meanwhile.
    pub tally: Tally,
}

/// Takes one service down and up again, while queries flow. Only that service and one other are up.
pub fn changes(
    rig: &Rig,
    traffic: &mut Traffic,
    floor: &mut Floor,
    scene: &mut Scene,
    count: usize,
    progress: &Progress,
) -> Result<Changes> {
    let (changing, other) = (ServiceId(0), ServiceId(1));
    for service in &mut scene.snapshot.services[2..] {
        service.addresses.fill(AddressState::Down);
    }
    let owners = scene.compiled.owners.owners_affected_by(changing).to_vec();
    scene.publish(&owners)?;
    scene.writer.world_mut().beat();
    let stalls = scene.writer.world().table().stalls();
    floor.show(scene)?;
    traffic.aim(rig, scene.names, Opt::No)?;

    let mut out = Changes { names: scene.names, ..Changes::default() };
    let ((), tally) = traffic.during(|_| {
        for i in 0..count {
            if i % 100 == 0 {
                progress.line(&format!("health changes, {} names: {i} of {count}", scene.names));
            }
            let up = i % 2 == 1;
            let begin = Instant::now();
            let state = if up { AddressState::Up } else { AddressState::Down };
            scene.snapshot.services[changing.index()].addresses.fill(state);
            let owners = scene.compiled.owners.owners_affected_by(changing).to_vec();
            out.references = scene.publish(&owners)?;
            let took = begin.elapsed();
            out.took.0.push(took.as_secs_f64() * 1e3);
            if i % CHECK_EVERY < 2 {
                let expected: &[ServiceId] = if up { &[changing, other] } else { &[other] };
                in_kernel(rig, scene, expected)?;
                out.checked += 1;
            }
            thread::sleep(PACE.saturating_sub(begin.elapsed()));
        }
        Ok(())
    })?;
    none_wrong(&tally)?;
    out.tally = tally;
    out.stalls = scene.writer.world().table().stalls() - stalls;
    Ok(out)
}

/// Asks the program in the kernel until every expected address was seen once; an error if it gives another.
fn in_kernel(rig: &Rig, scene: &mut Scene, expected: &[ServiceId]) -> Result {
    let frame = one_query(rig, 0);
    let program =
        scene.writer.program_mut().ok_or_else(|| Error::Wrong("the responder has no XDP".to_owned()))?;
    let xdp = program.xdp()?;
    // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let context = [0, frame.len() as u32, 0, rig.far.index, 0, 0];
    let expected: Vec<Ipv4Addr> =
        expected.iter().map(|service| Ipv4Addr::from_bits(POOL_FIRST.to_bits() + service.0)).collect();
    let mut seen = Vec::new();
    for _ in 0..expected.len() {
        let mut out = vec![0; 2048];
        let run = xdp
            .test_run(TestRunOptions {
                data_in: Some(&frame),
                data_out: Some(&mut out),
                ctx_in: Some(bytemuck::cast_slice(&context)),
                ..TestRunOptions::default()
            })
            .map_err(Error::bpf("BPF_PROG_TEST_RUN"))?;
        out.truncate(run.data_size_out as usize);
        let address = out.last_chunk::<4>().filter(|_| run.return_value == TX).map(|a| Ipv4Addr::from(*a));
        seen.extend(address);
    }
    seen.sort();
    if seen == expected {
        return Ok(());
    }
    Err(Error::Wrong(format!("after a health change the kernel answers {seen:?}, expected {expected:?}")))
}
