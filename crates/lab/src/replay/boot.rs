//! The boot CPU: makes the drives ready, opens the gate, then samples the drives until the end.

use std::sync::Arc;

use wharf_host::admin::{Admin, AdminError, QueueOffer};
use wharf_host::driver::DriverConfig;
use wharf_host::gate::Gate;
use wharf_host::lend::LentMemory;
use wharf_runtime::{Bell, Cpu, Receiver};
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::HostQueue;
use wharf_wire::statistics::DriveStatistics;

use super::client::Go;
use super::{Run, RunError};
use crate::result::TimelineBuilder;

/// Time between the first samples of the drives' statistics, in nanoseconds.
const FIRST_SAMPLE_NS: u64 = 500_000;

/// Samples after which the time between them doubles: a run of any length has a few hundred.
const SAMPLES_PER_DOUBLING: u32 = 128;

/// What the boot task is made of.
pub(crate) struct Parts {
    pub(crate) admins: Vec<HostQueue>,
    /// The memory to lend, by drive.
    pub(crate) lent: Vec<Option<LentMemory>>,
    /// The queue pairs to create, by drive.
    pub(crate) offers: Vec<Vec<QueueOffer>>,
    pub(crate) driver: DriverConfig,
    pub(crate) gate: Gate<Option<Go>>,
    pub(crate) done: (Bell, Vec<Receiver<u32>>),
}

/// What the drives did, over the run.
pub(crate) struct Samples {
    /// The difference between end and beginning, over all drives.
    pub(crate) total: Option<DriveStatistics>,
    /// Garbage collection over time.
    pub(crate) timeline: TimelineBuilder,
}

impl Samples {
    pub(crate) fn new(gc_cores: u32) -> Samples {
        Samples {
            total: None,
            timeline: TimelineBuilder::new(gc_cores),
        }
    }
}

/// The boot task.
pub(crate) async fn run(cpu: Cpu, run: Arc<Run>, space: Arc<DmaSpace>, mut parts: Parts) {
    match make_ready(&cpu, &space, &mut parts).await {
        Ok((admins, go)) => {
            let before = match statistics(&admins).await {
                Ok(before) => before,
                Err(error) => return give_up(&cpu, &run, &mut parts, error),
            };
            parts.gate.open(&cpu, Some(go));
            if let Err(error) = watch(&cpu, &run, &admins, &mut parts, before, go.start_ns).await {
                run.fail(RunError::Boot(error));
            }
        }
        Err(error) => give_up(&cpu, &run, &mut parts, error),
    }
}

fn give_up(cpu: &Cpu, run: &Run, parts: &mut Parts, error: AdminError) {
    run.fail(RunError::Boot(error));
    parts.gate.open(cpu, None);
}

/// Identifies the drives, creates every queue pair and lends the drives their memory.
async fn make_ready(
    cpu: &Cpu,
    space: &Arc<DmaSpace>,
    parts: &mut Parts,
) -> Result<(Vec<Admin>, Go), AdminError> {
    let mut admins = Vec::new();
    let (mut drive_pages, mut max_transfer_pages) = (u64::MAX, u32::MAX);
    let (mut cores, mut core_stripe_pages) = (1, 1);
    for (drive, queue) in parts.admins.drain(..).enumerate() {
        let config = DriverConfig {
            drive: drive as u16,
            ..parts.driver
        };
        let admin = Admin::start(cpu, queue, space, config)?;
        let facts = admin.identify().await?;
        drive_pages = drive_pages.min(facts.pages);
        max_transfer_pages = max_transfer_pages.min(facts.max_transfer_pages);
        // The drives of a run are all alike.
        (cores, core_stripe_pages) = (facts.cores, facts.core_stripe_pages);
        admin.allot_queues(parts.offers[drive].len() as u32).await?;
        for offer in &parts.offers[drive] {
            admin.create_queue(offer).await?;
        }
        if let Some(memory) = &parts.lent[drive] {
            admin.lend_memory(memory).await?;
        }
        admins.push(admin);
    }
    Ok((
        admins,
        Go {
            drive_pages,
            max_transfer_pages,
            cores,
            core_stripe_pages,
            start_ns: cpu.now(),
        },
    ))
}

async fn statistics(admins: &[Admin]) -> Result<DriveStatistics, AdminError> {
    let mut all = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
    for admin in admins {
        all.merge(&admin.statistics().await?);
    }
    Ok(all)
}

/// Samples the drives until every client has ended.
async fn watch(
    cpu: &Cpu,
    run: &Run,
    admins: &[Admin],
    parts: &mut Parts,
    before: DriveStatistics,
    start_ns: u64,
) -> Result<(), AdminError> {
    let (bell, done) = &mut parts.done;
    bell.attach(cpu);
    let cores = u64::from(run.drives * run.cores);
    let mut left = done.len();
    let (mut step_ns, mut samples) = (FIRST_SAMPLE_NS, 0);
    let (mut latest, mut latest_ns) = (before, start_ns);
    loop {
        bell.wait_until(cpu, latest_ns + step_ns).await;
        left -= done
            .iter_mut()
            .filter_map(|receiver| receiver.try_pop(cpu))
            .count();
        if left > 0 && cpu.now() < latest_ns + step_ns {
            continue;
        }
        let (now, now_ns) = (statistics(admins).await?, cpu.now());
        let mut all = run.samples.lock().unwrap_or_else(|p| p.into_inner());
        let busy_ns = (now.gc_busy_ns - latest.gc_busy_ns) / cores;
        // Collection is accounted when a block is done: it may have begun before this interval.
        let from_ns = now_ns.saturating_sub(busy_ns).max(start_ns);
        for _ in 0..cores {
            all.timeline
                .record_gc(from_ns - start_ns, now_ns - start_ns);
        }
        if left == 0 {
            all.total = Some(now.since(&before));
            return Ok(());
        }
        drop(all);
        (latest, latest_ns) = (now, now_ns);
        samples += 1;
        if samples % SAMPLES_PER_DOUBLING == 0 {
            step_ns *= 2;
        }
    }
}
