//! What lies on the drives before a run begins, for designs that have an order of their own there.
//!
//! Whoever builds the machine can fill plain drives by itself. Where a design keeps data in a store of its own,
//! only the design can bring it there: it is told of the pages and where their content comes from, one of its services
//! writes them, and says when that is done. Nobody counts or measures before that.

use std::fmt;
use std::sync::Arc;

use wharf_runtime::Cpu;

use crate::gate::Gate;

/// Gives the content of so many pages from a first one on.
type Content = dyn Fn(u64, u64) -> Vec<u8> + Send + Sync;

/// Pages that are there before a run. Clones are the same.
#[derive(Clone)]
pub struct Initial {
    ranges: Arc<[(u64, u64)]>,
    content: Arc<Content>,
    done: Gate<()>,
}

impl fmt::Debug for Initial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Initial({} ranges)", self.ranges.len())
    }
}

impl Initial {
    /// The pages of `ranges` (first and end of each, ascending), whose bytes, or stamps, `content` gives; `waiters`
    /// tasks wait until they are there.
    pub fn new(
        ranges: Vec<(u64, u64)>,
        waiters: u32,
        content: impl Fn(u64, u64) -> Vec<u8> + Send + Sync + 'static,
    ) -> Initial {
        Initial {
            ranges: ranges.into(),
            content: Arc::new(content),
            done: Gate::new(waiters),
        }
    }

    /// First and end of each range, ascending.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// The content of `count` pages from `first` on, which may lie beside the ranges. Asked for once for each page.
    pub fn pages(&self, first: u64, count: u64) -> Vec<u8> {
        (self.content)(first, count)
    }

    /// They are there, or cannot be brought there: requests will say why.
    pub fn end(&self, cpu: &Cpu) {
        self.done.open(cpu, ());
    }

    /// Waits for the end, as one of those that do, each number once.
    pub async fn wait(&self, cpu: &Cpu, waiter: u32) {
        self.done.pass(cpu, waiter).await;
    }
}
