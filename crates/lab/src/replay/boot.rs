//! The boot CPU: makes the drives ready, opens the gate, then samples the drives until the end.

use std::sync::Arc;

use wharf_drive::Book;
use wharf_host::admin::{Admin, AdminError};
use wharf_host::boot::{PoweredOn, Ready, Spread, make_ready};
use wharf_host::design::{Gauges, Initial, Role};
use wharf_host::driver::DriverConfig;
use wharf_host::gate::Gate;
use wharf_runtime::{Cpu, Notifier, Receiver};
use wharf_wire::dma::DmaSpace;
use wharf_wire::statistics::DriveStatistics;

use super::connection::Go;
use super::{Run, RunError};
use crate::result::{Sampled, TimelineBuilder};

/// Time between the first samples of the drives' statistics, in nanoseconds.
const FIRST_SAMPLE_NS: u64 = 500_000;

/// Samples after which the time between them doubles: a run of any length has a few hundred.
const SAMPLES_PER_DOUBLING: u32 = 128;

/// The drives of a role.
pub(crate) struct Group {
    pub(crate) role: Role,
    pub(crate) drives: Vec<PoweredOn>,
    pub(crate) spread: Spread,
}

/// What the boot task is made of.
pub(crate) struct Parts {
    pub(crate) groups: Vec<Group>,
    /// What memory the drives take.
    pub(crate) books: Vec<Book>,
    pub(crate) driver: DriverConfig,
    /// What the design reports of itself now.
    pub(crate) gauges: Box<dyn Fn() -> Gauges + Send>,
    pub(crate) gate: Gate<Option<Go>>,
    /// The gate of services that bring the drives' initial content there, and that.
    pub(crate) first: Option<(Gate<Option<Go>>, Initial)>,
    /// The gate of clients that make files before the run begins, which tells them when it does.
    pub(crate) begin: Option<Gate<u64>>,
    pub(crate) done: (Notifier, Vec<Receiver<u32>>),
}

/// What the drives did, over the run.
pub(crate) struct Samples {
    /// The difference between end and beginning, of the drives of each role.
    pub(crate) total: Vec<DriveStatistics>,
    /// Garbage collection and what was programmed over time.
    pub(crate) timeline: TimelineBuilder,
    /// The most of what the design reported of itself.
    pub(crate) gauges: Gauges,
}

impl Samples {
    pub(crate) fn new(gc_cores: u32) -> Samples {
        Samples {
            total: Vec::new(),
            timeline: TimelineBuilder::new(gc_cores),
            gauges: Gauges::none(),
        }
    }
}

/// The boot task.
pub(crate) async fn run(cpu: Cpu, run: Arc<Run>, space: Arc<DmaSpace>, mut parts: Parts) {
    let (mut admins, mut ready) = (Vec::new(), Vec::new());
    for group in std::mem::take(&mut parts.groups) {
        match make_ready(&cpu, &space, group.drives, group.spread, parts.driver).await {
            Ok((admins_of_group, drives)) => {
                admins.push(admins_of_group);
                ready.push((group.role, drives));
            }
            Err(error) => return give_up(&cpu, &run, &mut parts, error),
        }
    }
    if let (Some(key), Some(files)) = (run.key, admins.first().and_then(|group| group.first()))
        && let Err(error) = files.set_key(key).await
    {
        return give_up(&cpu, &run, &mut parts, error.into());
    }
    run.note_books(&parts.books);
    let mut start_ns = bring_initial(&cpu, &ready, parts.first.take()).await;
    let mut before = match statistics(&admins).await {
        Ok(before) => before,
        Err(error) => return give_up(&cpu, &run, &mut parts, error),
    };
    parts.done.0.attach(&cpu);
    parts.gate.open(&cpu, Some(Go { ready, start_ns }));
    if let Some(begin) = parts.begin.take() {
        all_made(&cpu, &mut parts).await;
        match statistics(&admins).await {
            Ok(then) => before = then,
            Err(error) => run.fail(RunError::Boot(error)),
        }
        cpu.begin_profiles();
        start_ns = cpu.now();
        begin.open(&cpu, start_ns);
    }
    if let Err(error) = watch(&cpu, &run, &admins, &mut parts, before, start_ns).await {
        run.fail(RunError::Boot(error));
    }
}

/// Waits until every client has the files that are there when the run begins, or cannot have them.
async fn all_made(cpu: &Cpu, parts: &mut Parts) {
    let (notifier, done) = &mut parts.done;
    let mut left = done.len();
    loop {
        let told = done.iter_mut().filter_map(|told| told.try_pop(cpu));
        left -= told.count();
        if left == 0 {
            return;
        }
        let _ = notifier.wait(cpu).await;
    }
}

/// Waits until the drives hold what they are to hold at first; gives when the run begins. Nothing before counts.
async fn bring_initial(
    cpu: &Cpu,
    ready: &[(Role, Ready)],
    first: Option<(Gate<Option<Go>>, Initial)>,
) -> u64 {
    if let Some((gate, initial)) = first {
        let (ready, start_ns) = (ready.to_vec(), cpu.now());
        gate.open(cpu, Some(Go { ready, start_ns }));
        initial.wait(cpu, 0).await;
        cpu.begin_profiles();
    }
    cpu.now()
}

fn give_up(cpu: &Cpu, run: &Run, parts: &mut Parts, error: AdminError) {
    run.fail(RunError::Boot(error));
    parts.gate.open(cpu, None);
}

/// Statistics of the drives of each role.
async fn statistics(admins: &[Vec<Admin>]) -> Result<Vec<DriveStatistics>, AdminError> {
    let mut groups = Vec::new();
    for admins in admins {
        let mut all = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
        for admin in admins {
            all.merge(&admin.statistics().await?);
        }
        groups.push(all);
    }
    Ok(groups)
}

/// Those of all drives.
pub(crate) fn over_all(groups: &[DriveStatistics]) -> DriveStatistics {
    let mut all = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
    groups.iter().for_each(|group| all.merge(group));
    all
}

/// Samples the drives until every client has ended.
async fn watch(
    cpu: &Cpu,
    run: &Run,
    admins: &[Vec<Admin>],
    parts: &mut Parts,
    before: Vec<DriveStatistics>,
    start_ns: u64,
) -> Result<(), AdminError> {
    let (notifier, done) = &mut parts.done;
    let cores = u64::from(run.cores);
    let mut left = done.len();
    let (mut step_ns, mut samples) = (FIRST_SAMPLE_NS, 0);
    let (mut latest, mut latest_ns) = (over_all(&before), start_ns);
    loop {
        notifier.wait_until(cpu, latest_ns + step_ns).await;
        left -= done
            .iter_mut()
            .filter_map(|receiver| receiver.try_pop(cpu))
            .count();
        if left > 0 && cpu.now() < latest_ns + step_ns {
            continue;
        }
        let (groups, now_ns) = (statistics(admins).await?, cpu.now());
        let now = over_all(&groups);
        let mut all = run.samples.lock().unwrap_or_else(|p| p.into_inner());
        all.gauges.keep_most(&(parts.gauges)());
        let did = now.since(&latest);
        let busy_ns = did.gc_busy_ns / cores;
        // Collection is accounted when a block is done: it may have begun before this interval.
        let from_ns = now_ns.saturating_sub(busy_ns).max(start_ns);
        for _ in 0..cores {
            all.timeline
                .record_gc(from_ns - start_ns, now_ns - start_ns);
        }
        all.timeline.record_sampled(
            latest_ns - start_ns,
            now_ns - start_ns,
            Sampled {
                frame_hits: did.pin_hits,
                programmed_pages: did.write_amplification_programmed_pages,
                host_pages: did.write_amplification_host_pages,
                gc_moved_pages: did.gc_moved_pages,
            },
        );
        if left == 0 {
            let since = groups.iter().zip(&before);
            all.total = since.map(|(now, before)| now.since(before)).collect();
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
