//! Where a task of a client takes its requests from.
//!
//! * From a list that was made beforehand, in order. Then what comes later is brought near.
//! * From the generator, where a time bounds the run: threads make a request when the one before it has ended, so that those
//!   that are fast make more. In virtual time, and so with equal seeds, they always ask in the same order.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wharf_host::design::{Approach, Client};
use wharf_host::span::Extent;
use wharf_runtime::{Cpu, prefetch};
use wharf_workload::Request;

use super::Run;

/// Requests between one that is served and those that are brought near, by how near they are.
const LOOK_AHEAD: [(usize, Approach); 2] = [(20, Approach::Far), (8, Approach::Near)];

/// Requests between one that is served and one that is itself brought near: those of a client lie far apart.
const REQUEST_AHEAD: usize = 40;

/// A request as a task takes it.
pub(super) struct Taken {
    /// Its number in the workload, or among those made.
    pub(super) number: u64,
    pub(super) request: Request,
    /// When it may be made, in nanoseconds from the beginning.
    pub(super) due_ns: u64,
}

/// See the module.
pub(super) enum RequestQueue {
    /// Indices of requests of the plan.
    Listed {
        requests: Arc<[u32]>,
        next: Cell<usize>,
    },
    /// Threads of the generator, which take turns.
    Asked {
        threads: Vec<u32>,
        turn: Cell<usize>,
    },
}

impl RequestQueue {
    fn listed(requests: impl Into<Arc<[u32]>>) -> RequestQueue {
        RequestQueue::Listed {
            requests: requests.into(),
            next: Cell::new(0),
        }
    }

    /// What the tasks of client `index` take from: one request queue for all of them, or where streams are to stay in
    /// order a request queue for each, which has all requests of its streams.
    pub(super) fn all(run: &Run, index: u32) -> Vec<RequestQueue> {
        let plan = &run.plan;
        let clients = plan.by_client.len();
        let lane_of = |stream: u32| stream as usize / clients % run.tasks as usize;
        if let Some(timed) = &plan.timed {
            let mut request_queues = vec![Vec::new(); run.tasks as usize];
            let own = (index..timed.threads).step_by(clients);
            own.for_each(|thread| request_queues[lane_of(thread)].push(thread));
            let asked = |threads| RequestQueue::Asked {
                threads,
                turn: Cell::new(0),
            };
            return request_queues.into_iter().map(asked).collect();
        }
        let own = &plan.by_client[index as usize];
        if !plan.in_order || run.tasks == 1 {
            return vec![RequestQueue::listed(own.clone())];
        }
        let mut request_queues = vec![Vec::new(); run.tasks as usize];
        for &request in own.iter() {
            let stream = plan.requests[request as usize].stream;
            request_queues[lane_of(stream)].push(request);
        }
        request_queues
            .into_iter()
            .map(RequestQueue::listed)
            .collect()
    }

    /// The next request; nothing if there are no more.
    #[inline]
    pub(super) fn take<C: Client>(&self, cpu: &Cpu, run: &Run, client: &C) -> Option<Taken> {
        match self {
            RequestQueue::Listed { requests, next } => {
                let position = next.get();
                let index = *requests.get(position)?;
                next.set(position + 1);
                look_ahead(cpu, run, client, &requests[position..]);
                Some(Taken {
                    number: index.into(),
                    request: run.plan.requests[index as usize],
                    due_ns: 0,
                })
            }
            RequestQueue::Asked { threads, turn } => {
                let thread = *threads.get(turn.get())?;
                turn.set((turn.get() + 1) % threads.len());
                let mut generator = run
                    .generator
                    .as_ref()?
                    .lock()
                    .unwrap_or_else(|p| p.into_inner());
                let (request, due_ns) = generator.request_of(thread)?;
                Some(Taken {
                    number: run.made.fetch_add(1, Relaxed),
                    request,
                    due_ns,
                })
            }
        }
    }
}

/// Brings near what the requests after the first of `own` are going to look at. The design is told of them in
/// virtual time alone: there its speed is what its costs say, while in real time it is to be
/// measured as programs see it, and they do not know their future.
#[inline]
fn look_ahead<C: Client>(cpu: &Cpu, run: &Run, client: &C, own: &[u32]) {
    let request_of = |ahead: usize| {
        let index = own.get(ahead);
        index.map(|index| &run.plan.requests[*index as usize])
    };
    if let Some(later) = request_of(REQUEST_AHEAD) {
        prefetch(later);
    }
    let knows_future = cpu.is_virtual();
    for (distance, approach) in LOOK_AHEAD {
        let Some(later) = request_of(distance) else {
            continue;
        };
        if approach == Approach::Near {
            run.checker.prefetch(later.offset);
        }
        if knows_future {
            client.prefetch(Extent::new(later.offset, u64::from(later.bytes)), approach);
        }
    }
}
