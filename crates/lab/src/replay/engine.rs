//! Which engine a run uses, and how CPUs become threads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_runtime::machine::RunSummary;
use wharf_runtime::{CpuId, Idle, Machine, Seed, Stall};

/// Virtual or real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Simulated time.
    Virtual,
    /// Real time on polling threads: one for the drives, the others for the clients. Where processors are
    /// too few for that, and services have a thread of their own, the drives share it.
    Real {
        /// Threads for the clients, and for the services of designs that have such.
        client_threads: u32,
        /// Time every operation, for the CPU breakdown; costs speed.
        profile: bool,
    },
}

impl Engine {
    /// True if CPU time per category is known.
    pub fn is_profiled(self) -> bool {
        match self {
            Engine::Virtual => true,
            Engine::Real { profile, .. } => profile,
        }
    }

    /// True in virtual time.
    pub fn is_virtual(self) -> bool {
        self == Engine::Virtual
    }
}

/// The CPUs of a machine by their part in the run.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) boot: Option<CpuId>,
    pub(crate) clients: super::Cpus,
    /// CPUs that work for all clients.
    pub(crate) services: super::Cpus,
    pub(crate) drives: Vec<super::Cpus>,
}

/// Runs the machine to its end.
pub(crate) fn run(
    machine: Machine,
    engine: &Engine,
    layout: Layout,
    seed: Seed,
    stop: &Arc<AtomicBool>,
    idle: Idle,
) -> Result<RunSummary, Stall> {
    match engine {
        Engine::Virtual => machine.run_virtual(seed),
        Engine::Real { client_threads, .. } => {
            let mut groups = vec![layout.drives.into_iter().flatten().collect::<Vec<_>>()];
            let clients = layout.clients.len();
            let users = clients + layout.services.len();
            let threads = (*client_threads).clamp(1, users as u32) as usize;
            groups.extend((0..threads).map(|_| Vec::new()));
            let users = layout.clients.into_iter().chain(layout.services);
            for (index, cpu) in users.enumerate() {
                groups[1 + index % threads].push(cpu);
            }
            groups[1].extend(layout.boot);
            let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
            if groups.len() > processors && threads > clients {
                let drives = groups.remove(0);
                groups[threads - 1].extend(drives);
            }
            // The signal's flag stops the clients; the run then ends by itself, with its account.
            let _ = stop;
            Ok(machine.run_threads(&groups, idle, Arc::new(AtomicBool::new(false))))
        }
    }
}
