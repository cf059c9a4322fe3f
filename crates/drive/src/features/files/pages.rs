//! The drive's pages, as its file system has them: asked for by the core that a file task runs on, of the cores that
//! they belong to.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use wharf_files::pages::{Pages, Run};
use wharf_files::{Fault, In, Out};
use wharf_runtime::{Ready, with_here};
use wharf_wire::command::Command;

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
pub(super) type FaultOf = fn(u64) -> Fault;

pub(super) fn unread(page: u64) -> Fault {
    Fault::Read { page }
}

pub(super) fn unwritten(page: u64) -> Fault {
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
    pub(super) fn core(&self) -> Rc<Core> {
        let mut cores = self.drive.cores.iter().filter_map(Weak::upgrade);
        let index = with_here(|cpu| cpu.map(|cpu| cpu.index()));
        let core = cores.find(|core| Some(core.cpu.index()) == index);
        core.expect("a file system of a drive runs in tasks of its cores alone")
    }

    /// Refuses runs that are not all there.
    pub(super) fn check(&self, runs: &[Run], fault: FaultOf) -> Result<(), Fault> {
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
    pub(super) async fn transfer(
        &self,
        core: &Core,
        handler: &'static dyn Serve,
        runs: &[(u64, u32)],
        addresses: &[u64],
        data_ready_ns: u64,
        fault: FaultOf,
    ) -> Result<(), Fault> {
        let request = Request {
            handler,
            runs,
            addresses,
            command: Command::default(),
            data_ready_ns,
        };
        core.ask(&request)
            .await
            .map_err(|failed| self.fault(failed, fault))
    }

    /// Has the pages of some runs changed.
    pub(super) async fn change(
        &self,
        core: &Core,
        handler: &'static dyn Serve,
        runs: &[(u64, u32)],
        addresses: &[u64],
        data_ready_ns: u64,
    ) -> Result<(), Fault> {
        let changed = self.transfer(core, handler, runs, addresses, data_ready_ns, unwritten);
        let changed = changed.await;
        self.note_changes(core, runs);
        changed
    }

    /// The runs of the drive that have the pages of these runs, `most` of them at a time.
    pub(super) fn chunks<'a>(&'a self, runs: &'a [Run], most: u32) -> Chunks<'a> {
        Chunks {
            runs,
            first: self.part.first,
            done: 0,
            most,
        }
    }
}

/// See [`FilePages::chunks`].
pub(super) struct Chunks<'a> {
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

pub(super) fn pages_of(runs: &[(u64, u32)]) -> usize {
    runs.iter().map(|run| run.1 as usize).sum()
}

impl Pages for FilePages {
    fn pages(&self) -> u64 {
        self.part.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.read_to(runs, 0, Out::Bytes(buffer)).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.write_from(runs, In::Bytes(bytes)).await
    }

    async fn read_bytes(&self, runs: &[Run], skip: u64, out: Out<'_>) -> Result<(), Fault> {
        self.read_to(runs, skip, out).await
    }

    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        self.write_from(runs, data).await
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        self.clear(out)
    }

    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        self.put_to(bytes, out)
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        self.take(&self.core(), data, into).await
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
            self.change(&core, asked::DEALLOCATE, &chunk, &[], 0)
                .await?;
        }
        Ok(())
    }
}
