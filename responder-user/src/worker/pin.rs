//! Which CPUs the workers run on.

use core_affinity::CoreId;

use super::WorkerError;
use crate::model::settings::Workers;

/// More workers than any machine has cores is a typing error.
const MAX_WORKERS: usize = 1024;

/// The CPU of each worker, from `listen.workers`.
pub fn cpus(workers: &Workers) -> Result<Vec<usize>, WorkerError> {
    let allowed: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    choose(workers, &allowed)
}

fn choose(workers: &Workers, allowed: &[usize]) -> Result<Vec<usize>, WorkerError> {
    if allowed.is_empty() {
        return Err(WorkerError::NoCpus);
    }
    match workers {
        Workers::PerCore => Ok(allowed.to_vec()),
        // More workers than cores share them, which tests want and nobody else.
        Workers::Count(count @ 1..) if (*count as usize) <= MAX_WORKERS => {
            Ok(allowed.iter().copied().cycle().take(*count as usize).collect())
        }
        Workers::Count(count) => Err(WorkerError::Count { count: *count, most: MAX_WORKERS }),
        Workers::Cpus(ids) if ids.is_empty() => Err(WorkerError::Count { count: 0, most: MAX_WORKERS }),
        Workers::Cpus(ids) => ids
            .iter()
            .map(|id| {
                let cpu = *id as usize;
                if allowed.contains(&cpu) {
                    Ok(cpu)
                } else {
                    Err(WorkerError::Cpu { cpu: *id, allowed: allowed.to_vec() })
                }
            })
            .collect(),
    }
}

/// Pins the calling thread. A worker that cannot be pinned works, on whichever core; that is worth a log line.
pub fn pin(cpu: usize) {
    if !core_affinity::set_for_current(CoreId { id: cpu }) {
        tracing::warn!(cpu, "a worker could not be pinned to its CPU");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_the_cpus_that_were_asked_for() {
        let on = |workers| choose(&workers, &[0, 2, 3]).map_err(|e| e.to_string());
        assert_eq!(on(Workers::PerCore).unwrap(), [0, 2, 3]);
        assert_eq!(on(Workers::Count(2)).unwrap(), [0, 2]);
        assert_eq!(on(Workers::Count(4)).unwrap(), [0, 2, 3, 0]);
        assert_eq!(on(Workers::Cpus(vec![3])).unwrap(), [3]);
        assert_eq!(
            on(Workers::Cpus(vec![1])).unwrap_err(),
            "listen.workers: CPU 1 is not one that this process may use: [0, 2, 3]"
        );
        assert!(on(Workers::Count(0)).is_err());
        assert!(on(Workers::Cpus(vec![])).is_err());
        assert!(choose(&Workers::PerCore, &[]).is_err());
    }
}
