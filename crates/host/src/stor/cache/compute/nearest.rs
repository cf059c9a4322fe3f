//! The nearest of a file's vectors: part of a range in the host, part of it in the drive, both at the same time.
//!
//! 1. A range is cut into chunks, as the drive computes on so much at once at most. Of each, where its pages are is looked up.
//! 2. `model.rs` says which pages of it are the drive's, so that both sides are expected to end at the same time: none of them, all, or those
//!    of one end.
//! 3. The drive's part is a task of its own, and one command, which brings back the nearest of that part alone. The host's part are reads by way
//!    of the caches as always, and their distances: the next piece is read while one is searched.
//! 4. Both answers are put together.
//!
//! The drive's part changes nothing of where pages are: what the host's cache has of it, and the drive has not yet, is written before.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use wharf_compute::{NEIGHBOUR_BYTES, Neighbour, merge};
use wharf_files::{Errno, Handle};
use wharf_runtime::Op;
use wharf_runtime::rw_gate::Entry;
use wharf_runtime::wake::Pause;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{STEPS_MAX, VECTOR_HEAD_BYTES, VectorFunction};

use super::model::Place;
use super::refusals::{Asked, Function};
use super::{Compute, DRIVE_BYTES_MAX, DriveRan, HostRan, Places, Refusals};
use crate::design::Touch;
use crate::files::{FileError, Found, Query};
use crate::span::Extent;
use crate::stor::StorClient;
use crate::stor::cache::opened::OpenFile;
use crate::stor::cache::thread::Cached;
use crate::stor::near::LONG_BYTES;
use crate::stor::vector::{Computed, Source, Target, Vector};

/// Bytes of a page.
const PAGE: u64 = PAGE_BYTES as u64;

/// Vectors of a query that the drive looks for as one command.
const VECTORS_MAX: usize = STEPS_MAX - 1;

/// A query that a task keeps.
#[derive(Clone)]
struct OwnQuery {
    vectors: Rc<[u8]>,
    vector_bytes: usize,
    count: u32,
}

impl OwnQuery {
    fn new(query: Query<'_>) -> OwnQuery {
        OwnQuery {
            vectors: query.vectors.into(),
            vector_bytes: query.vector_bytes,
            count: query.count,
        }
    }

    fn as_query(&self) -> Query<'_> {
        Query {
            vectors: &self.vectors,
            vector_bytes: self.vector_bytes,
            count: self.count,
        }
    }

    fn vector_bytes(&self) -> u64 {
        self.vector_bytes as u64
    }

    /// How many vectors it has.
    fn len(&self) -> usize {
        self.vectors.len() / self.vector_bytes
    }

    /// Whether the drive can look for all of it at once: a command has room for its vectors and for the answers.
    fn is_for(&self, client: &StorClient) -> bool {
        let answer = NEIGHBOUR_BYTES.saturating_mul(self.count as usize);
        let each = self.vector_bytes.next_multiple_of(8).saturating_add(answer);
        let bytes = each
            .saturating_mul(self.len())
            .saturating_add(VECTOR_HEAD_BYTES);
        self.len() <= VECTORS_MAX && bytes <= client.bytes_max()
    }

    /// What the drive is asked for with it, of so many bytes.
    fn asked(&self, bytes: u64) -> Asked {
        let of_several = self.len() > 1;
        Asked::new(Function::Nearest { of_several }, bytes)
    }

    /// Puts what was found of another part beside what was found of one. In that, vectors have numbers from `before` on.
    fn merge(&self, one: Nearest, other: Nearest, before: u64) -> Nearest {
        let mut one = one;
        one.resize(self.len(), Vec::new());
        for (one, mut other) in one.iter_mut().zip(other) {
            other.iter_mut().for_each(|found| found.number += before);
            *one = merge(one, &other, self.count as usize);
        }
        one
    }
}

/// The nearest to each vector of a query.
type Nearest = Vec<Vec<Neighbour>>;

/// What a part came to.
type Part = Result<(Nearest, Touch), FileError>;

impl Cached {
    /// Finds the vectors that are nearest to one.
    pub(in crate::stor::cache) async fn nearest(
        self: &Rc<Cached>,
        file: &Rc<OpenFile>,
        extent: Extent,
        query: Query<'_>,
        room: &mut [u8],
    ) -> Result<Found, FileError> {
        if !file.can_read {
            return Err(Errno::EBADF.into());
        }
        // What is no query is refused before anything is read.
        query.nearest_of(&[])?;
        let left = self.node(file.slot).bytes().saturating_sub(extent.offset);
        let bytes = extent.bytes.min(left);
        let own = OwnQuery::new(query);
        let (mut found, mut touch) = (vec![Vec::new(); own.len()], Touch::default());
        let mut done = 0;
        while done < bytes {
            let chunk = chunk_bytes(bytes - done, own.vector_bytes());
            let there = Extent::new(extent.offset + done, chunk);
            let room = &mut room[done as usize..][..chunk as usize];
            let (nearest, touched) = self.nearest_of_chunk(file, there, &own, room).await?;
            found = own.merge(found, nearest, done / own.vector_bytes());
            touch += touched;
            done += chunk;
        }
        Ok(Found {
            bytes,
            nearest: found,
            touch,
        })
    }

    /// The same of what either side can do at once.
    async fn nearest_of_chunk(
        self: &Rc<Cached>,
        file: &Rc<OpenFile>,
        there: Extent,
        query: &OwnQuery,
        room: &mut [u8],
    ) -> Part {
        let drives = self.drives_part(file, there, query);
        let before = |part: Extent| (part.offset - there.offset) / query.vector_bytes();
        let asked = query.asked(there.bytes);
        let begun = drives.map(|part| (part, self.begin_on_drive(file, part, (query, asked))));
        if begun.is_some() {
            // The command goes first: the drive is not to wait while the host looks for its own pages.
            self.cpu().yield_now().await;
        }
        let hosts = match drives {
            None => there,
            Some(part) => without(there, part),
        };
        let is_apart = drives.is_some();
        let own = self.nearest_on_host(file, hosts, (query, is_apart), room);
        let own = own.await;
        let Some((part, begun)) = begun else {
            return own;
        };
        let before = (before(hosts), before(part));
        let other = begun.wait().await;
        let (own, own_touch) = own?;
        let (other, other_touch) = match other? {
            Some(found) => found,
            // The drive's file is shorter than the host knows it to be, or it refuses so much.
            None => {
                let room = &mut room[..part.bytes as usize];
                let found = self.nearest_on_host(file, part, (query, true), room);
                found.await?
            }
        };
        let mut touch = own_touch;
        touch += other_touch;
        let own = query.merge(Nearest::new(), own, before.0);
        Ok((query.merge(own, other, before.1), touch))
    }

    /// The drive's part of a chunk, if it has one.
    fn drives_part(&self, file: &OpenFile, there: Extent, query: &OwnQuery) -> Option<Extent> {
        let compute = self.process.compute;
        let step = split_bytes(query.vector_bytes());
        let can = there.bytes <= DRIVE_BYTES_MAX
            && there.bytes >= query.vector_bytes()
            && query.is_for(&self.client);
        if compute == Compute::Host || !can {
            return None;
        }
        let cpu = self.cpu();
        let asked = query.asked(there.bytes);
        if !self.process.refusals.may_ask(asked, cpu.now()) {
            let decide = || self.nearest_model.borrow_mut().host_alone();
            cpu.work(Op::CacheLookup, decide);
            return None;
        }
        let first = there.first_page();
        let places: Vec<Place> = (first..first + there.pages())
            .map(|page| self.place_of(file.slot, page))
            .collect();
        // Only where a vector and a page begin together is a range cut.
        let step_pages = match there.offset.is_multiple_of(PAGE) {
            true => (step / PAGE) as usize,
            false => places.len(),
        };
        let decide = || {
            let model = &mut *self.nearest_model.borrow_mut();
            model.split(compute, &places, step_pages)
        };
        let pages = cpu.work(Op::CacheLookup, decide);
        if pages.is_empty() {
            return None;
        }
        let from = there.offset.max((first + pages.start as u64) * PAGE);
        let end = (there.offset + there.bytes).min((first + pages.end as u64) * PAGE);
        Some(Extent::new(from, end - from))
    }

    async fn nearest_on_host(
        &self,
        file: &OpenFile,
        there: Extent,
        (query, is_apart): (&OwnQuery, bool),
        room: &mut [u8],
    ) -> Part {
        if there.bytes == 0 {
            return Ok(Default::default());
        }
        let cpu = self.cpu();
        let places = self.places_of(file.slot, there);
        let begun_ns = cpu.now();
        let data = &mut room[..there.bytes as usize];
        let (found, touch, computed_ns) = match is_apart {
            true => self.find_in_pieces(file, there, query, data).await?,
            false => {
                let read = self.read(file, there, data).await?;
                let (found, computed_ns) = self.search(query, &data[..read.bytes as usize]);
                (found?, read.touch, computed_ns)
            }
        };
        let ran = HostRan {
            read_ns: cpu.now() - begun_ns - computed_ns,
            computed_ns,
            written_ns: 0,
        };
        self.nearest_model.borrow_mut().host_ran(places, ran);
        Ok((found, touch))
    }

    /// Reads a part, and searches it, piece by piece: the next one is read while one is searched.
    async fn find_in_pieces(
        &self,
        file: &OpenFile,
        there: Extent,
        query: &OwnQuery,
        data: &mut [u8],
    ) -> Result<(Nearest, Touch, u64), FileError> {
        let piece = piece_bytes(there.bytes, query.vector_bytes());
        let offsets = (there.offset..).step_by(piece);
        let mut pieces = data.chunks_mut(piece).zip(offsets).map(|(room, at)| {
            Begun::new(async move {
                let there = Extent::new(at, room.len() as u64);
                let read = self.read_apart(file, there, room).await?;
                Ok::<_, FileError>((&room[..read.bytes as usize], at, read))
            })
        });
        let (mut found, mut touch, mut all_ns) = (Nearest::new(), Touch::default(), 0);
        let mut reading = pieces.next();
        while let Some(piece) = reading {
            let (data, at, read) = piece.end().await?;
            reading = pieces.next();
            if let Some(next) = &mut reading {
                next.begin().await;
            }
            let (nearest, computed_ns) = self.search(query, data);
            match nearest {
                Ok(nearest) => {
                    let before = (at - there.offset) / query.vector_bytes();
                    found = query.merge(found, nearest, before);
                }
                Err(error) => {
                    // What is under way comes to its end: its room is here.
                    if let Some(next) = reading {
                        let _ = next.end().await;
                    }
                    return Err(error);
                }
            }
            touch += read.touch;
            all_ns += computed_ns;
        }
        Ok((found, touch, all_ns))
    }

    /// Searches bytes; gives how long that took, too, in nanoseconds.
    fn search(&self, query: &OwnQuery, data: &[u8]) -> (Result<Nearest, FileError>, u64) {
        let cpu = self.cpu();
        let begun_ns = cpu.now();
        let pages = (data.len().div_ceil(PAGE_BYTES) * query.len()) as u32;
        let found = cpu.work_n(Op::DistancePage, pages, || {
            query.as_query().nearest_of(data)
        });
        (found.map_err(FileError::from), cpu.now() - begun_ns)
    }

    /// Has the drive begin with a part.
    fn begin_on_drive(
        self: &Rc<Cached>,
        file: &Rc<OpenFile>,
        part: Extent,
        (query, asked): (&OwnQuery, Asked),
    ) -> OfDrive {
        let answer: Rc<Cell<Option<Answer>>> = Rc::default();
        let (own, file, query) = (self.clone(), file.clone(), query.clone());
        let (to, waits) = (answer.clone(), self.cpu().current());
        self.cpu().spawn("nearest in the drive", async move {
            let found = own.nearest_on_drive(&file, part, (&query, asked)).await;
            to.set(Some(found));
            own.cpu().wake(waits);
        });
        OfDrive(answer)
    }

    async fn nearest_on_drive(
        &self,
        file: &OpenFile,
        part: Extent,
        asked: (&OwnQuery, Asked),
    ) -> Answer {
        self.enter(file.slot, Entry::Shared).await;
        let found = self.nearest_inside(file, part, asked).await;
        self.leave(file.slot, Entry::Shared);
        let touch = Touch::no_hits(part.pages());
        found.map(|found| found.map(|found| (found, touch)))
    }

    /// The same for one who is inside.
    async fn nearest_inside(
        &self,
        file: &OpenFile,
        part: Extent,
        (query, asked): (&OwnQuery, Asked),
    ) -> Result<Option<Nearest>, FileError> {
        let (cpu, slot) = (self.cpu(), file.slot);
        let first = part.first_page();
        let pages = first..first + part.pages();
        let begun_ns = cpu.now();
        // Nobody moves these pages between the caches until the drive has read them.
        let _guard = match self.process.mode.is_near() {
            true => Some(self.lock_pages(slot, &pages, true).await),
            false => None,
        };
        let places = self.places_of(slot, part);
        if places.here > 0 {
            self.write_pages(slot, (first, pages.end - 1)).await?;
        }
        let written_ns = cpu.now();
        let refusals = &self.process.refusals;
        let asking = self.client.nearest_on_drive(file.handle, part, query);
        let done = refusals.note(cpu, asked, asking).await?;
        let Some((computed, found)) = done.flatten() else {
            return Ok(None);
        };
        let ran = DriveRan {
            dropped_ns: written_ns - begun_ns,
            all_ns: cpu.now() - written_ns,
            // Each turn waits, so it is as much as there is to compute.
            waited_ns: 0,
            computed_ns: computed.waited_ns + computed.computed_ns,
            moved_ns: computed.moved_ns,
            queued: 0,
        };
        self.nearest_model.borrow_mut().drive_ran(places, ran);
        Ok(Some(found))
    }

    fn places_of(&self, slot: u32, extent: Extent) -> Places {
        let first = extent.first_page();
        self.places(slot, &(first..first + extent.pages()))
    }

    /// Which sides computed, for each chunk: one alone, or both.
    pub(in crate::stor::cache) fn splits(&self) -> [u64; 3] {
        let model = self.nearest_model.borrow();
        let both = model.splits();
        let all = model.decisions();
        [all.host - both, all.drive - both, both]
    }
}

/// What the drive found; nothing if its file is shorter, or it refuses.
type Answer = Result<Option<(Nearest, Touch)>, FileError>;

/// A part that the drive has begun.
struct OfDrive(Rc<Cell<Option<Answer>>>);

impl OfDrive {
    async fn wait(self) -> Answer {
        loop {
            if let Some(answer) = self.0.take() {
                return answer;
            }
            Pause::default().await;
        }
    }
}

/// What may have begun, and goes on while this task does something else.
struct Begun<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    ended: Option<T>,
}

impl<'a, T> Begun<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Begun<'a, T> {
        Begun {
            future: Box::pin(future),
            ended: None,
        }
    }

    /// Does as much as can be done without waiting.
    async fn begin(&mut self) {
        self.ended = poll_fn(|context| {
            Poll::Ready(match self.future.as_mut().poll(context) {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            })
        })
        .await;
    }

    async fn end(self) -> T {
        match self.ended {
            Some(ended) => ended,
            None => self.future.await,
        }
    }
}

/// Bytes from the beginning of a vector and a page to the next such place; very many if there is none near.
fn split_bytes(vector_bytes: u64) -> u64 {
    let mut bytes = vector_bytes;
    while !bytes.is_multiple_of(PAGE) && bytes < DRIVE_BYTES_MAX {
        bytes += vector_bytes;
    }
    bytes.next_multiple_of(PAGE)
}

/// Bytes of the next chunk: whole vectors, as far as the drive can do them at once; all that is left where it can do none.
fn chunk_bytes(left: u64, vector_bytes: u64) -> u64 {
    let step = split_bytes(vector_bytes);
    let step = match step <= DRIVE_BYTES_MAX {
        true => step,
        false => vector_bytes,
    };
    match DRIVE_BYTES_MAX / step * step {
        0 => left,
        most => left.min(most),
    }
}

/// Pieces that the host has a part of: the first one is read before anything is computed.
const PIECES: u64 = 4;

/// The least that is read at once of a part: what is less goes to the core of the file, where all wait for each other.
const PIECE_BYTES_MIN: u64 = LONG_BYTES as u64;

/// Bytes of a piece of a part of so many: whole vectors.
fn piece_bytes(bytes: u64, vector_bytes: u64) -> usize {
    let step = split_bytes(vector_bytes);
    let bytes = bytes.div_ceil(PIECES).max(PIECE_BYTES_MIN);
    bytes.next_multiple_of(step) as usize
}

/// What is left of an extent without one of its ends.
fn without(all: Extent, part: Extent) -> Extent {
    match part.offset == all.offset {
        true => Extent::new(part.offset + part.bytes, all.bytes - part.bytes),
        false => Extent::new(all.offset, part.offset - all.offset),
    }
}

impl StorClient {
    /// Has the drive find the nearest of an extent; nothing if its file ends before that.
    async fn nearest_on_drive(
        &self,
        handle: Handle,
        part: Extent,
        query: &OwnQuery,
    ) -> Result<Option<(Computed, Nearest)>, FileError> {
        let bytes = part.bytes - part.bytes % query.vector_bytes();
        let mut vector = Vector::new();
        let file = Source::File(handle, part.offset..part.offset + bytes);
        let to = Target::Host(query.count * NEIGHBOUR_BYTES as u32);
        // Of one vector the drive needs to keep nothing; of several it reads once what it looks at for each.
        let mut from = file.clone();
        if query.len() > 1 {
            let buffer = vector.buffer(bytes as u32);
            vector.step(VectorFunction::Copy, file, Target::Buffer(buffer, 0, bytes));
            vector.whole();
            from = Source::Buffer(buffer, 0, bytes);
        }
        for one in query.as_query().each()? {
            let about = (one, query.count);
            vector.step_with(VectorFunction::Nearest, about, from.clone(), to);
            vector.whole();
        }
        let computed = self.vector(&vector).await?;
        match computed.steps.iter().find_map(|step| step.failed) {
            None => {}
            Some(Errno::ENODATA) => return Ok(None),
            Some(errno) => return Err(errno.into()),
        }
        let of_query = computed
            .steps
            .iter()
            .skip(computed.steps.len() - query.len());
        let nearest = of_query.map(|step| Neighbour::all_of(&step.bytes));
        let nearest = nearest.collect();
        Ok(Some((computed, nearest)))
    }

    /// Has the drive find all of it, part by part; nothing if its file ends before that, or it refuses a part, or has lately.
    pub(in crate::stor::cache) async fn nearest_past(
        &self,
        handle: Handle,
        extent: Extent,
        query: Query<'_>,
        refusals: &Refusals,
    ) -> Result<Option<Found>, FileError> {
        query.nearest_of(&[])?;
        let own = OwnQuery::new(query);
        let (mut found, mut done) = (vec![Vec::new(); own.len()], 0);
        while done < extent.bytes {
            let chunk = chunk_bytes(extent.bytes - done, own.vector_bytes());
            let part = Extent::new(extent.offset + done, chunk);
            if chunk < own.vector_bytes() {
                break;
            }
            if chunk > DRIVE_BYTES_MAX || !own.is_for(self) {
                return Ok(None);
            }
            let (cpu, asked) = (&self.inner.cpu, own.asked(chunk));
            if !refusals.may_ask(asked, cpu.now()) {
                return Ok(None);
            }
            let asking = self.nearest_on_drive(handle, part, &own);
            let found_there = refusals.note(cpu, asked, asking).await?;
            let Some((_, nearest)) = found_there.flatten() else {
                return Ok(None);
            };
            found = own.merge(found, nearest, done / own.vector_bytes());
            done += chunk;
        }
        Ok(Some(Found {
            bytes: extent.bytes,
            nearest: found,
            touch: Touch::no_hits(extent.pages()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_vectors_and_pages_begin() {
        for (vector_bytes, step) in [(4, 4_096), (512, 4_096), (384, 12_288), (6_000, 1_536_000)] {
            let of_split = split_bytes(vector_bytes);
            assert_eq!(of_split, step.min(of_split), "{vector_bytes}");
            assert!(of_split == step || of_split > DRIVE_BYTES_MAX);
            let chunk = chunk_bytes(1 << 30, vector_bytes);
            assert!(chunk <= DRIVE_BYTES_MAX && chunk.is_multiple_of(vector_bytes));
            assert_eq!(chunk_bytes(100, vector_bytes), 100);
        }
        assert_eq!(chunk_bytes(1 << 30, DRIVE_BYTES_MAX + 4), 1 << 30);
    }
}
