//! The drive's pages, as its file system has them: asked for by the core that a file task runs on, of the cores that
//! they belong to.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use wharf_files::Fault;
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_runtime::{Ready, with_here};
use wharf_wire::command::Command;

use crate::config::TRANSFER_PAGES_MAX;
use crate::core::{ASK_PAGES_MAX, Core, Request, Serve, Unserved};
use crate::features::block::asked;

/// Pages of a drive, from one of them on. Only tasks of its cores may use them.
#[derive(Clone)]
pub struct FilePages {
    part: Run,
    drive: Rc<Shared>,
}

/// What all parts of a drive's pages share.
struct Shared {
    /// The cores keep the file system, so it does not keep them.
    cores: Box<[Weak<Core>]>,
    /// Requests that have changed pages of each core, and how many of them are durable.
    changes: Box<[Cell<(u64, u64)>]>,
}

impl std::fmt::Debug for FilePages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilePages")
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a page of the part.
type FaultOf = fn(u64) -> Fault;

fn unread(page: u64) -> Fault {
    Fault::Read { page }
}

fn unwritten(page: u64) -> Fault {
    Fault::Write { page }
}

impl FilePages {
    /// All `pages` pages of a drive.
    pub(super) fn whole(cores: &[Rc<Core>], pages: u64) -> FilePages {
        let shared = Shared {
            cores: cores.iter().map(Rc::downgrade).collect(),
            changes: cores.iter().map(|_| Cell::default()).collect(),
        };
        FilePages {
            part: Run::new(0, pages),
            drive: Rc::new(shared),
        }
    }

    /// A part of these pages, which must be among them.
    pub(super) fn part(&self, part: Run) -> FilePages {
        debug_assert!(part.end() <= self.part.pages, "{part:?} of {:?}", self.part);
        FilePages {
            part: Run::new(self.part.first + part.first, part.pages),
            drive: self.drive.clone(),
        }
    }

    /// The core that this is running on.
    fn core(&self) -> Rc<Core> {
        let mut cores = self.drive.cores.iter().filter_map(Weak::upgrade);
        let index = with_here(|cpu| cpu.map(|cpu| cpu.index()));
        let core = cores.find(|core| Some(core.cpu.index()) == index);
        core.expect("a file system of a drive runs in tasks of its cores alone")
    }

    /// Refuses runs that are not all there.
    fn check(&self, runs: &[Run], fault: FaultOf) -> Result<(), Fault> {
        match runs.iter().find(|run| run.end() > self.part.pages) {
            None => Ok(()),
            Some(run) => Err(fault(run.first.max(self.part.pages))),
        }
    }

    /// The fault of a request that failed.
    fn fault(&self, failed: Unserved, fault: FaultOf) -> Fault {
        fault(failed.page.saturating_sub(self.part.first))
    }

    /// Notes that pages of all cores that runs touch have changed: once the request has been answered, as a flush
    /// need not wait for those under way.
    fn note_changes(&self, core: &Core, runs: &[(u64, u32)]) {
        let striping = core.striping;
        for &(first, pages) in runs {
            let last = first + u64::from(pages) - 1;
            let stripe = u64::from(striping.stripe_pages);
            let stripes = (last / stripe - first / stripe + 1).min(u64::from(striping.cores));
            for nth in 0..stripes {
                let (core, _) = striping.locate(first + nth * stripe);
                let of_core = &self.drive.changes[core as usize];
                let (made, durable) = of_core.get();
                of_core.set((made + 1, durable));
            }
        }
    }

    /// Has the pages of some runs read or written, from or to addresses.
    async fn transfer(
        &self,
        core: &Core,
        handler: &'static dyn Serve,
        runs: &[(u64, u32)],
        addresses: &[u64],
        fault: FaultOf,
    ) -> Result<(), Fault> {
        let request = Request {
            handler,
            runs,
            addresses,
            command: Command::default(),
            data_ready_ns: 0,
        };
        core.ask(&request)
            .await
            .map_err(|failed| self.fault(failed, fault))
    }

    /// The runs of the drive that have the pages of these runs, `most` of them at a time.
    fn chunks<'a>(&'a self, runs: &'a [Run], most: u32) -> Chunks<'a> {
        Chunks {
            runs,
            first: self.part.first,
            done: 0,
            most,
        }
    }
}

/// See [`FilePages::chunks`].
struct Chunks<'a> {
    runs: &'a [Run],
    /// The page of the drive that is the part's first.
    first: u64,
    /// Pages of the first run that are done.
    done: u64,
    most: u32,
}

impl Iterator for Chunks<'_> {
    type Item = Vec<(u64, u32)>;

    fn next(&mut self) -> Option<Vec<(u64, u32)>> {
        let (mut chunk, mut room) = (Vec::new(), u64::from(self.most));
        while let Some((run, rest)) = self.runs.split_first()
            && room > 0
        {
            let pages = (run.pages - self.done).min(room);
            if pages > 0 {
                chunk.push((self.first + run.first + self.done, pages as u32));
            }
            (self.done, room) = (self.done + pages, room - pages);
            if self.done == run.pages {
                (self.runs, self.done) = (rest, 0);
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    }
}

fn pages_of(runs: &[(u64, u32)]) -> usize {
    runs.iter().map(|run| run.1 as usize).sum()
}

impl Pages for FilePages {
    fn pages(&self) -> u64 {
        self.part.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.check(runs, unread)?;
        let core = self.core();
        let memory = core.memory().expect("a drive that serves files has memory");
        let mut rest = buffer;
        for chunk in self.chunks(runs, TRANSFER_PAGES_MAX) {
            let count = pages_of(&chunk);
            let mut lent = memory.lend(&core.cpu, count).await;
            let addresses: Vec<u64> = lent.addresses().collect();
            self.transfer(&core, asked::READ, &chunk, &addresses, unread)
                .await?;
            let (out, more) = rest.split_at_mut(count * PAGE_BYTES);
            rest = more;
            for (nth, page) in out.chunks_exact_mut(PAGE_BYTES).enumerate() {
                page.copy_from_slice(lent.bytes(nth));
            }
        }
        Ok(())
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.check(runs, unwritten)?;
        let core = self.core();
        let memory = core.memory().expect("a drive that serves files has memory");
        let mut rest = bytes;
        for chunk in self.chunks(runs, TRANSFER_PAGES_MAX) {
            let count = pages_of(&chunk);
            let mut lent = memory.lend(&core.cpu, count).await;
            let (data, more) = rest.split_at(count * PAGE_BYTES);
            rest = more;
            for (nth, page) in data.chunks_exact(PAGE_BYTES).enumerate() {
                lent.bytes(nth).copy_from_slice(page);
            }
            let addresses: Vec<u64> = lent.addresses().collect();
            let written = self
                .transfer(&core, asked::WRITE, &chunk, &addresses, unwritten)
                .await;
            self.note_changes(&core, &chunk);
            written?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        let core = self.core();
        let mut cores = Ready::NONE;
        let mut made = Vec::with_capacity(self.drive.changes.len());
        for (index, changes) in (0..).zip(&self.drive.changes) {
            let (all, durable) = changes.get();
            if all > durable {
                cores.insert(index);
            }
            made.push(all);
        }
        let request = Request {
            handler: asked::FLUSH,
            runs: &[],
            addresses: &[],
            command: Command::default(),
            data_ready_ns: 0,
        };
        core.ask_cores(&request, cores)
            .await
            .map_err(|_| Fault::Flush)?;
        for (changes, made) in self.drive.changes.iter().zip(made) {
            let (all, durable) = changes.get();
            changes.set((all, durable.max(made)));
        }
        Ok(())
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.check(runs, unwritten)?;
        let core = self.core();
        // No pages are transferred: a request may be of as many as there are, but for its arithmetic.
        for chunk in self.chunks(runs, ASK_PAGES_MAX) {
            let done = self
                .transfer(&core, asked::DEALLOCATE, &chunk, &[], unwritten)
                .await;
            self.note_changes(&core, &chunk);
            done?;
        }
        Ok(())
    }
}
