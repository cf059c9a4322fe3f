//! Points on threads.
//!
//! Points of one combination share its request, which is made by whoever comes first and let go after the last one: there are
//! not more of them than threads, and one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use wharf_runtime::worker::side_by_side;

use super::{Point, Sweep, SweepRow};
use crate::compare::Request;
use crate::designs;
use crate::progress::Bars;
use crate::replay::RunError;

/// How the points of a sweep are run, and what is done with their rows. Both are called from several threads.
pub trait Work: Sync {
    /// Why there is no row.
    type Failure: Clone + Send + Sync;

    /// Makes the request of a combination.
    ///
    /// # Errors
    /// The configuration cannot be run.
    fn request(&self, combination: usize) -> Result<Request, Self::Failure>;

    /// Says what a failed run means.
    fn failed(&self, error: &RunError) -> Self::Failure;

    /// Takes what came of a point, as soon as it is there.
    fn done(&self, point: &Point, row: Result<SweepRow, Self::Failure>);
}

/// The requests of combinations under way.
struct Requests<F> {
    open: Mutex<BTreeMap<usize, Open<F>>>,
}

struct Open<F> {
    /// Points that have not ended.
    left: usize,
    request: Arc<OnceLock<Result<Request, F>>>,
}

impl<F> Requests<F> {
    fn new(sweep: &Sweep, chosen: &[usize]) -> Requests<F> {
        let mut open: BTreeMap<usize, Open<F>> = BTreeMap::new();
        for at in chosen {
            let entry = open.entry(sweep.points[*at].combination);
            let request = || Open {
                left: 0,
                request: Arc::default(),
            };
            entry.or_insert_with(request).left += 1;
        }
        Requests {
            open: Mutex::new(open),
        }
    }

    fn get(&self, combination: usize) -> Arc<OnceLock<Result<Request, F>>> {
        let open = self.open.lock().unwrap_or_else(|p| p.into_inner());
        open[&combination].request.clone()
    }

    /// A point has ended.
    fn end(&self, combination: usize) {
        let mut open = self.open.lock().unwrap_or_else(|p| p.into_inner());
        let entry = open.get_mut(&combination).expect("it is under way");
        entry.left -= 1;
        if entry.left == 0 {
            open.remove(&combination);
        }
    }
}

/// Runs the `chosen` points, so many at a time. Once `stop` is set, no further one is begun, and those under way end without
/// a row.
pub fn run<W: Work>(
    sweep: &Sweep,
    chosen: &[usize],
    jobs: usize,
    work: &W,
    stop: &Arc<AtomicBool>,
) {
    let (requests, bars) = (Requests::new(sweep, chosen), Bars::of(0));
    side_by_side(chosen.len(), jobs, |number, _| {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let point = &sweep.points[chosen[number]];
        let request = requests.get(point.combination);
        let request = request.get_or_init(|| work.request(point.combination));
        let row = match request {
            Ok(request) => one(sweep, point, request, &bars, stop)
                .map_err(|error| work.failed(&error))
                .transpose(),
            Err(failure) => Some(Err(failure.clone())),
        };
        if let Some(row) = row {
            work.done(point, row);
        }
        requests.end(point.combination);
    });
}

/// Runs a point; nothing if it was stopped.
fn one(
    sweep: &Sweep,
    point: &Point,
    request: &Request,
    bars: &Bars,
    stop: &Arc<AtomicBool>,
) -> Result<Option<SweepRow>, RunError> {
    let design = designs::find(&point.design).expect("it was looked for before");
    let row = request.over_seeds(design, bars, stop)?;
    let row = row.filter(|row| row.complete);
    Ok(row.map(|row| SweepRow::new(sweep, point, request, row)))
}
