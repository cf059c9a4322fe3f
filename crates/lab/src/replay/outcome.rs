//! From the accounts of clients, drives and CPUs to a row of the report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use wharf_host::design::{Amount, Design, Gauges, Statistics};
use wharf_host::driver::DriverStatistics;
use wharf_runtime::machine::RunSummary;
use wharf_runtime::{Op, Profile, Side as CpuSide};
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::statistics::DriveStatistics;

use super::boot::over_all;
use super::files::FileAccounts;
use super::{Run, RunError, Setup};
use crate::input::Plan;
use crate::progress::Progress;
use crate::result::{
    CpuGroup, CpuPart, CpuShare, DeviceAccount, Drift, DriverAccount, Gauge, GcAffected, Latencies,
    MemoryAccount, Mode, OperationAccount, Row, RunTime, Side, TimelineBuilder, cdf_from_histogram,
    ratio,
};

/// What a row measured in real time stands for whose design is in the operating system: only its work in memory was done.
const IN_KERNEL: &str = "a model of a part of the operating system, whose system calls, block layer, interrupts and \
    switches of threads took no time";

/// Everything a run left behind.
pub(crate) struct Outcome {
    reads: Latencies,
    writes: Latencies,
    flushes: Latencies,
    discards: Latencies,
    names: Latencies,
    file_operations: FileAccounts,
    bytes: u64,
    verified: u64,
    drift_sum_ns: u64,
    drift_max_ns: u64,
    timeline: TimelineBuilder,
    statistics: Statistics,
    /// What the drivers of the design's services did; `None` if it has none.
    services: Option<DriverStatistics>,
    /// Latency of the requests that collection may have held up.
    affected: Latencies,
    elapsed_ns: u64,
    drive: DriveStatistics,
    /// The same of the drives of each role.
    devices: Vec<DriveStatistics>,
    host: Profile,
    firmware: Profile,
    groups: BTreeMap<CpuPart, (u32, Profile)>,
    /// What the design and its clients reported of themselves.
    gauges: Gauges,
    memory: MemoryAccount,
    wall_ns: u64,
    complete: bool,
}

impl Outcome {
    /// Adds up what everyone did.
    ///
    /// # Errors
    /// [`RunError::Accounting`].
    pub(crate) fn gather(
        run: &Run,
        summary: &RunSummary,
        wall_ns: u64,
        setup: &Setup,
    ) -> Result<Outcome, RunError> {
        let mut accounts =
            std::mem::take(&mut *run.accounts.lock().unwrap_or_else(|p| p.into_inner()));
        let samples = run.samples.lock().unwrap_or_else(|p| p.into_inner());
        // Clients hand in when they end: by their begin and end the order is the same in every run.
        accounts.sort_by_key(|a| (a.start_ns, a.end_ns));
        let mut all = Outcome {
            reads: Latencies::default(),
            writes: Latencies::default(),
            flushes: Latencies::default(),
            discards: Latencies::default(),
            names: Latencies::default(),
            file_operations: FileAccounts::default(),
            bytes: 0,
            verified: 0,
            drift_sum_ns: 0,
            drift_max_ns: 0,
            timeline: TimelineBuilder::new(setup.cores()),
            statistics: Statistics::default(),
            services: *run.services.lock().unwrap_or_else(|p| p.into_inner()),
            affected: Latencies::default(),
            elapsed_ns: 0,
            drive: over_all(&samples.total),
            devices: samples.total.clone(),
            host: Profile::default(),
            firmware: Profile::default(),
            groups: BTreeMap::new(),
            gauges: samples.gauges.clone(),
            memory: *run.memory.lock().unwrap_or_else(|p| p.into_inner()),
            wall_ns,
            complete: match run.plan.request_count() {
                Some(requests) => run.done.load(Relaxed) == requests,
                None => !run.stop.load(Relaxed),
            },
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
                (&mut all.names, &account.names),
                (&mut all.affected, &account.affected),
            ] {
                sum.add(part);
            }
            all.file_operations.merge(&account.file_operations);
            all.bytes += account.bytes;
            all.verified += account.verified;
            all.drift_sum_ns += account.drift_sum_ns;
            all.drift_max_ns = all.drift_max_ns.max(account.drift_max_ns);
            all.timeline.merge(&account.timeline);
            all.statistics.merge(&account.statistics);
            all.gauges.merge(&account.gauges);
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
        if run.speed.is_none() {
            let slots_ns = accounts.iter().map(|account| account.slots_ns).sum();
            check_latencies(&run.design, all.latencies().sum_ns(), slots_ns)?;
        }
        Ok(all)
    }

    /// Of requests of all kinds.
    fn latencies(&self) -> Latencies {
        let mut all = self.reads.clone();
        for others in [&self.writes, &self.flushes, &self.discards, &self.names] {
            all.add(others);
        }
        all
    }

    fn requests(&self) -> u64 {
        let moved = [&self.reads, &self.writes, &self.flushes, &self.discards];
        moved.map(Latencies::count).iter().sum::<u64>() + self.names.count()
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

    /// Pages that the host had drives read.
    fn drive_pages_read(&self) -> u64 {
        let mut drivers = self.statistics.driver;
        drivers.merge(&self.services.unwrap_or_default());
        drivers.read_bytes / PAGE_BYTES as u64 + self.drive.pin_fills
    }

    /// What the drivers of each part of the host did.
    fn drivers(&self) -> Vec<DriverAccount> {
        let clients = DriverAccount::new(CpuPart::Clients, &self.statistics.driver);
        let services = self
            .services
            .map(|did| DriverAccount::new(CpuPart::Services, &did));
        std::iter::once(clients).chain(services).collect()
    }

    /// What the drives of each role did.
    fn devices(&self, setup: &Setup) -> Vec<DeviceAccount> {
        let accounts = setup.devices.iter().zip(&self.devices);
        accounts
            .map(|(group, did)| DeviceAccount::new(group, did, self.elapsed_ns))
            .collect()
    }

    /// What the services polled, by the design's account.
    fn services_polled_ns(&self) -> u64 {
        let polled_ns = |(_, amount)| match amount {
            Amount::OfServicesNs(ns) => ns,
            _ => 0,
        };
        self.gauges.iter().map(polled_ns).sum()
    }

    /// What the design reports of itself.
    fn reported(&self, setup: &Setup, services: u32) -> BTreeMap<String, Gauge> {
        let time_ns = |many: u32| self.elapsed_ns as f64 * f64::from(many);
        let time = RunTime {
            requests_ns: time_ns(setup.clients) * f64::from(setup.tasks()),
            clients_ns: time_ns(setup.clients),
            services_ns: time_ns(services),
        };
        let gauges = self.gauges.iter();
        gauges
            .map(|(name, amount)| (name.to_string(), Gauge::new(amount, time)))
            .collect()
    }

    fn cpu_groups(&self, setup: &Setup) -> Vec<CpuGroup> {
        if !setup.engine.is_profiled() {
            return Vec::new();
        }
        let group = |(part, (count, profile)): (&CpuPart, &(u32, Profile))| {
            let polled_ns = match part {
                CpuPart::Services => self.services_polled_ns(),
                _ => 0,
            };
            let time_ns = self.elapsed_ns as f64 * f64::from(*count);
            CpuGroup {
                part: *part,
                count: *count,
                busy_share: ratio((profile.total_ns() + polled_ns) as f64, time_ns),
                spin_share: ratio(profile.spun_ns as f64, time_ns),
                operations: operations(profile, polled_ns),
            }
        };
        self.groups.iter().map(group).collect()
    }

    /// Bytes on the links by bytes that were asked for.
    fn link_bytes_per_byte(&self) -> Option<f64> {
        let carried = self.drive.link_to_host_bytes + self.drive.link_from_host_bytes;
        // A drive that was asked for something has carried the command.
        (self.bytes > 0).then(|| ratio(carried as f64, self.bytes as f64))
    }

    fn into_row<D: Design>(self, setup: &Setup) -> Row {
        let requests = self.requests();
        let seconds = self.elapsed_ns as f64 / 1e9;
        let all = self.latencies();
        let drift = Drift {
            mean: ratio(self.drift_sum_ns as f64 / 1000.0, requests as f64),
            max: self.drift_max_ns as f64 / 1000.0,
        };
        let cores = u64::from(setup.cores());
        let mut all_drivers = self.statistics.driver;
        all_drivers.merge(&self.services.unwrap_or_default());
        let commands = all_drivers.commands() as f64;
        let touches = self.statistics.touches as f64;
        let has_cache = D::has_cache(&setup.host.design.of::<D>());
        let of_touches = |pages: u64| has_cache.then(|| ratio(pages as f64, touches));
        let by_command_us = |sum_ns: u64| ratio(sum_ns as f64 / 1000.0, commands);
        let written = self.drive.write_amplification_host_pages;
        let needs = D::needs(&setup.design_config(), &setup.host.design.of::<D>());
        Row {
            design: D::NAME.into(),
            mode: if setup.engine.is_virtual() {
                Mode::Simulated
            } else {
                Mode::Measured
            },
            complete: self.complete,
            requests,
            reads: self.reads.count(),
            writes: self.writes.count(),
            flushes: self.flushes.count(),
            discards: self.discards.count(),
            names: self.names.count(),
            file_operations: self.file_operations.rows(seconds),
            elapsed_seconds: seconds,
            bandwidth_mb_s: ratio(self.bytes as f64 / 1e6, seconds),
            iops: ratio(requests as f64, seconds),
            latency_us: all.summary().unwrap_or_default(),
            read_latency_us: self.reads.summary(),
            write_latency_us: self.writes.summary(),
            flush_latency_us: self.flushes.summary(),
            drift_us: setup.speed.map(|_| drift),
            model: (!setup.engine.is_virtual() && needs.in_kernel).then(|| IN_KERNEL.to_string()),
            hit_ratio: of_touches(
                self.statistics.hits + self.statistics.near_hits + self.drive.pin_hits,
            ),
            no_command_hit_ratio: of_touches(self.statistics.hits + self.statistics.window_hits),
            read_ahead_hit_ratio: of_touches(self.statistics.read_ahead_hits),
            pages_read_per_page: (touches > 0.0)
                .then(|| ratio(self.drive_pages_read() as f64, touches)),
            link_bytes_per_byte: self.link_bytes_per_byte(),
            frame_hit_ratio: (self.drive.pinned_pages > 0)
                .then(|| ratio(self.drive.pin_hits as f64, self.drive.pinned_pages as f64)),
            host_cpu_us_per_io: self.host_cpu_us_per_io(setup),
            command_us: by_command_us(all_drivers.command_ns),
            command_service_us: by_command_us(self.drive.service_ns),
            drivers: self.drivers(),
            devices: self.devices(setup),
            gauges: self.reported(setup, needs.services),
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
                requests: self.affected.count(),
                latency_us: self.affected.summary(),
            },
            memory: self.memory,
            verified_reads: self.verified,
            cpu_breakdown: self.breakdown(),
            cpus: self.cpu_groups(setup),
            latency_cdf: cdf_from_histogram(all.histogram_ns()),
            timeline: self.timeline.finish(self.elapsed_ns),
            rounds: None,
            spread: BTreeMap::new(),
            wall_seconds: self.wall_ns as f64 / 1e9,
        }
    }
}

/// In a closed loop the latencies of a client's slots fill their time: between a request and the next there is nothing.
fn check_latencies(design: &str, latencies_ns: u128, slots_ns: u128) -> Result<(), RunError> {
    match latencies_ns == slots_ns {
        true => Ok(()),
        false => Err(RunError::Accounting {
            design: design.into(),
            latencies_ns,
            slots_ns,
        }),
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

/// The operations of a profile that ran at all, and the empty polls of queue pairs, which nobody counts.
fn operations(profile: &Profile, polled_ns: u64) -> Vec<OperationAccount> {
    let account = |op: &Op| OperationAccount {
        operation: op.key().into(),
        category: format!("{:?}", op.category()).to_lowercase(),
        count: profile.count[*op as usize],
        busy_us: profile.busy_ns[*op as usize] as f64 / 1000.0,
    };
    let ran = Op::ALL.iter().filter(|op| profile.count[**op as usize] > 0);
    let polls = (polled_ns > 0).then(|| OperationAccount {
        operation: "empty_polls".into(),
        category: "driver".into(),
        count: 0,
        busy_us: polled_ns as f64 / 1000.0,
    });
    ran.map(account).chain(polls).collect()
}

/// Runs `plan` through design `D`: one row.
///
/// # Errors
/// As [`RunError`] says; a wrong read among them.
pub fn row<D: Design>(
    setup: &Setup,
    plan: &Arc<Plan>,
    progress: Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Row, RunError> {
    super::run::<D>(setup, plan, progress, stop).map(|outcome| outcome.into_row::<D>(setup))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_that_leave_something_out_fail_the_run() {
        assert!(check_latencies("clock", 7, 7).is_ok());
        let error = check_latencies("clock", 6, 7).unwrap_err().to_string();
        assert!(error.contains("clock: latencies add up to 6 ns"), "{error}");
        assert!(error.contains("under way for 7 ns"), "{error}");
    }
}
