//! From the accounts of clients, drives and CPUs to a row of the report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;
use wharf_host::design::Statistics;
use wharf_host::driver::DriverStatistics;
use wharf_runtime::machine::RunSummary;
use wharf_runtime::{Op, Profile, Side as CpuSide};
use wharf_wire::statistics::DriveStatistics;

use super::{Run, RunError, Setup};
use crate::designs::Runnable;
use crate::input::Plan;
use crate::progress::Progress;
use crate::result::{
    CpuGroup, CpuPart, CpuShare, Drift, DriverAccount, GcAffected, ManagerAccount, Mode,
    OperationAccount, Row, Side, TimelineBuilder, cdf_from_histogram, latency_summary, ratio,
};

/// Everything a run left behind.
pub(crate) struct Outcome {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    flushes: Histogram<u64>,
    discards: Histogram<u64>,
    bytes: u64,
    verified: u64,
    drift_sum_ns: u64,
    drift_max_ns: u64,
    timeline: TimelineBuilder,
    statistics: Statistics,
    /// What the drivers of the design's services did; `None` if it has none.
    services: Option<DriverStatistics>,
    /// Latency of the requests that collection may have held up.
    affected: Histogram<u64>,
    elapsed_ns: u64,
    drive: DriveStatistics,
    host: Profile,
    firmware: Profile,
    groups: BTreeMap<CpuPart, (u32, Profile)>,
    /// The most nodes that the design's index had.
    index_nodes_max: Option<u64>,
    wall_ns: u64,
    complete: bool,
}

impl Outcome {
    /// Adds up what everyone did.
    pub(crate) fn gather(run: &Run, summary: &RunSummary, wall_ns: u64, setup: &Setup) -> Outcome {
        let mut accounts =
            std::mem::take(&mut *run.accounts.lock().unwrap_or_else(|p| p.into_inner()));
        let samples = run.samples.lock().unwrap_or_else(|p| p.into_inner());
        // Clients hand in when they end: by their begin and end the order is the same in every run.
        accounts.sort_by_key(|a| (a.start_ns, a.end_ns));
        let empty = || Histogram::new(3).expect("3 figures");
        let mut all = Outcome {
            reads: empty(),
            writes: empty(),
            flushes: empty(),
            discards: empty(),
            bytes: 0,
            verified: 0,
            drift_sum_ns: 0,
            drift_max_ns: 0,
            timeline: TimelineBuilder::new(setup.drives * setup.drive.firmware.cores),
            statistics: Statistics::default(),
            services: *run.services.lock().unwrap_or_else(|p| p.into_inner()),
            affected: empty(),
            elapsed_ns: 0,
            drive: samples
                .total
                .unwrap_or(DriveStatistics::new(DriveStatistics::WHOLE_DRIVE)),
            host: Profile::default(),
            firmware: Profile::default(),
            groups: BTreeMap::new(),
            index_nodes_max: samples.index_nodes_max,
            wall_ns,
            complete: run.done.load(std::sync::atomic::Ordering::Relaxed)
                == run.plan.requests.len() as u64,
        };
        all.timeline.merge(&samples.timeline);
        let start_ns = accounts.iter().map(|a| a.start_ns).min().unwrap_or(0);
        let end_ns = accounts.iter().map(|a| a.end_ns).max().unwrap_or(0);
        all.elapsed_ns = end_ns.saturating_sub(start_ns);
        for account in &accounts {
            for (sum, part) in [
                (&mut all.reads, &account.reads),
                (&mut all.writes, &account.writes),
                (&mut all.flushes, &account.flushes),
                (&mut all.discards, &account.discards),
                (&mut all.affected, &account.affected),
            ] {
                sum.add(part).expect("histograms of one kind");
            }
            all.bytes += account.bytes;
            all.verified += account.verified;
            all.drift_sum_ns += account.drift_sum_ns;
            all.drift_max_ns = all.drift_max_ns.max(account.drift_max_ns);
            all.timeline.merge(&account.timeline);
            all.statistics.merge(&account.statistics);
        }
        for (name, side, profile) in &summary.profiles {
            let Some(part) = part_of(name, *side) else {
                continue;
            };
            match side {
                CpuSide::Drive => all.firmware.add(profile),
                CpuSide::Host => all.host.add(profile),
            }
            let (count, sum) = all.groups.entry(part).or_default();
            *count += 1;
            sum.add(profile);
        }
        all
    }

    fn requests(&self) -> u64 {
        self.reads.len() + self.writes.len() + self.flushes.len() + self.discards.len()
    }

    /// Microseconds of host CPU for a request. Without a profile a polling thread's whole time is
    /// its cost.
    fn host_cpu_us_per_io(&self, setup: &Setup) -> f64 {
        let busy_ns = match setup.engine {
            super::Engine::Real {
                client_threads,
                profile: false,
            } => self.elapsed_ns * u64::from(client_threads),
            _ => self.host.total_ns(),
        };
        ratio(busy_ns as f64 / 1000.0, self.requests() as f64)
    }

    fn breakdown(&self) -> Vec<CpuShare> {
        let mut shares = Vec::new();
        for (side, profile) in [(Side::Host, &self.host), (Side::Drive, &self.firmware)] {
            for (category, busy_ns) in profile.by_category() {
                shares.push(CpuShare {
                    side,
                    category: format!("{category:?}").to_lowercase(),
                    us_per_io: ratio(busy_ns as f64 / 1000.0, self.requests() as f64),
                });
            }
        }
        shares
    }

    /// What the drivers of each part of the host did.
    fn drivers(&self) -> Vec<DriverAccount> {
        let clients = DriverAccount::new(CpuPart::Clients, &self.statistics.driver);
        let services = self
            .services
            .map(|did| DriverAccount::new(CpuPart::Services, &did));
        std::iter::once(clients).chain(services).collect()
    }

    fn cpu_groups(&self, setup: &Setup) -> Vec<CpuGroup> {
        if !setup.engine.is_profiled() {
            return Vec::new();
        }
        let group = |(part, (count, profile)): (&CpuPart, &(u32, Profile))| CpuGroup {
            part: *part,
            count: *count,
            busy_share: ratio(
                profile.total_ns() as f64,
                self.elapsed_ns as f64 * f64::from(*count),
            ),
            spin_share: ratio(
                profile.spun_ns as f64,
                self.elapsed_ns as f64 * f64::from(*count),
            ),
            operations: operations(profile),
        };
        self.groups.iter().map(group).collect()
    }

    fn into_row<D: Runnable>(self, setup: &Setup) -> Row {
        let requests = self.requests();
        let seconds = self.elapsed_ns as f64 / 1e9;
        let mut all = self.reads.clone();
        for others in [&self.writes, &self.flushes, &self.discards] {
            all.add(others).expect("histograms of one kind");
        }
        let some = |histogram: &Histogram<u64>| {
            (!histogram.is_empty()).then(|| latency_summary(histogram))
        };
        let drift = Drift {
            mean: ratio(self.drift_sum_ns as f64 / 1000.0, requests as f64),
            max: self.drift_max_ns as f64 / 1000.0,
        };
        let cores = u64::from(setup.drives * setup.drive.firmware.cores);
        let mut all_drivers = self.statistics.driver;
        all_drivers.merge(&self.services.unwrap_or_default());
        let commands = all_drivers.commands() as f64;
        let by_command_us = |sum_ns: u64| ratio(sum_ns as f64 / 1000.0, commands);
        let written = self.drive.write_amplification_host_pages;
        let under_way_ns =
            self.elapsed_ns as f64 * f64::from(setup.clients) * f64::from(setup.depth);
        let of_under_way = |ns: u64| ratio(ns as f64, under_way_ns).min(1.0);
        Row {
            design: D::NAME.into(),
            mode: if setup.engine.is_virtual() {
                Mode::Simulated
            } else {
                Mode::Measured
            },
            complete: self.complete,
            requests,
            reads: self.reads.len(),
            writes: self.writes.len(),
            flushes: self.flushes.len(),
            discards: self.discards.len(),
            elapsed_seconds: seconds,
            bandwidth_mb_s: ratio(self.bytes as f64 / 1e6, seconds),
            iops: ratio(requests as f64, seconds),
            latency_us: latency_summary(&all),
            read_latency_us: some(&self.reads),
            write_latency_us: some(&self.writes),
            flush_latency_us: some(&self.flushes),
            drift_us: setup.speed.map(|_| drift),
            hit_ratio: D::HAS_CACHE
                .then(|| ratio(self.statistics.hits as f64, self.statistics.touches as f64)),
            frame_hit_ratio: (self.drive.pinned_pages > 0)
                .then(|| ratio(self.drive.pin_hits as f64, self.drive.pinned_pages as f64)),
            host_cpu_us_per_io: self.host_cpu_us_per_io(setup),
            command_us: by_command_us(all_drivers.command_ns),
            command_service_us: by_command_us(self.drive.service_ns),
            drivers: self.drivers(),
            managers: ManagerAccount::new(&self.statistics, setup.clients, self.elapsed_ns),
            commands_per_io: ratio(commands, requests as f64),
            write_amplification: (written > 0).then(|| {
                ratio(
                    self.drive.write_amplification_programmed_pages as f64,
                    written as f64,
                )
            }),
            gc_share: ratio(
                self.drive.gc_busy_ns as f64,
                self.elapsed_ns as f64 * cores as f64,
            )
            .min(1.0),
            gc_affected: GcAffected {
                requests: self.affected.len(),
                latency_us: some(&self.affected),
            },
            throttled_share: of_under_way(self.statistics.throttled_ns),
            flushing_share: of_under_way(self.statistics.flushing_ns),
            index_nodes_max: self.index_nodes_max,
            verified_reads: self.verified,
            cpu_breakdown: self.breakdown(),
            cpus: self.cpu_groups(setup),
            latency_cdf: cdf_from_histogram(&all),
            timeline: self.timeline.finish(self.elapsed_ns),
            rounds: None,
            wall_seconds: self.wall_ns as f64 / 1e9,
        }
    }
}

/// The part of the machine that a CPU is of, by the name that `build` gave it; `None` for the boot
/// CPU, which is the lab's own.
fn part_of(name: &str, side: CpuSide) -> Option<CpuPart> {
    match side {
        CpuSide::Host if name.starts_with("client") => Some(CpuPart::Clients),
        CpuSide::Host if name.starts_with("service") => Some(CpuPart::Services),
        CpuSide::Host => None,
        CpuSide::Drive if name.ends_with("controller") => Some(CpuPart::Controllers),
        CpuSide::Drive => Some(CpuPart::Cores),
    }
}

/// The operations of a profile that ran at all.
fn operations(profile: &Profile) -> Vec<OperationAccount> {
    let account = |op: &Op| OperationAccount {
        operation: op.key().into(),
        category: format!("{:?}", op.category()).to_lowercase(),
        count: profile.count[*op as usize],
        busy_us: profile.busy_ns[*op as usize] as f64 / 1000.0,
    };
    let ran = Op::ALL.iter().filter(|op| profile.count[**op as usize] > 0);
    ran.map(account).collect()
}

/// Runs `plan` through design `D`: one row.
///
/// # Errors
/// As [`RunError`] says; a wrong read among them.
pub fn row<D: Runnable>(
    setup: &Setup,
    plan: &Arc<Plan>,
    progress: Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Row, RunError> {
    super::run::<D>(setup, plan, progress, stop).map(|outcome| outcome.into_row::<D>(setup))
}
