//! RAID-5: reads, writes, and what they do without a member.
//!
//! A write to a window:
//!
//! 1. locks it;
//! 2. reads what its [`Plan`] needs, and computes the new parity of the range that changes;
//! 3. takes a record of the journal, stores it on the members concerned, makes it durable;
//! 4. writes data and parity in place.
//!
//! A member that fails a write is left out from then on; before step 4 the write begins again without it, after
//! that the others have all there is to know. A member that fails a read is gone around. A read without its
//! member adds up the others of the stripe under the window's lock.

use std::ops::Range;
use std::rc::Rc;

use rustix::io::Errno;

use crate::array::journal::{Record, Slot, Take};
use crate::array::layout::HEADER_BYTES;
use crate::array::member_channels::{MemberChannels, Scratch, failures};
use crate::array::memory::{copy_in, copy_out, crc_of, cut, xor_segments};
use crate::array::plan::{Lost, Plan, Situation};
use crate::io::{IoError, Op, Segment};
use wharf_runtime::xor_into;

/// A write of one chunk within a window.
pub(super) struct Part {
    pub(super) k: u32,
    /// Where in the window.
    pub(super) begin: u64,
    pub(super) len_bytes: u64,
    pub(super) segments: Vec<Segment>,
}

impl Part {
    fn range(&self) -> Range<u64> {
        self.begin..self.begin + self.len_bytes
    }
}

/// What one member is to store of a write.
struct Change {
    member: u32,
    begin: u64,
    segments: Vec<Segment>,
}

/// A write to one window.
struct Write<'a> {
    member_channels: &'a Rc<MemberChannels>,
    window: u64,
    parts: &'a [Part],
    /// The range that parity changes in.
    hull: Range<u64>,
    /// A member that could not be read.
    unreadable: Option<u32>,
}

/// Why a write did not come to its end at once.
enum Stop {
    /// A member is out, or cannot be read: another attempt goes around it.
    Again,
    /// It cannot be done.
    Failed(IoError),
}

fn failed(op: Op) -> IoError {
    IoError {
        op,
        offset: 0,
        errno: Errno::IO,
    }
}

/// Writes `parts`, at most one of each chunk, to a window.
pub(super) async fn write(
    member_channels: Rc<MemberChannels>,
    window: u64,
    parts: Vec<Part>,
) -> Result<(), IoError> {
    let _guard = member_channels.lock(window).await;
    let begin = parts.iter().map(|p| p.begin).min().unwrap_or(0);
    let end = parts.iter().map(|p| p.range().end).max().unwrap_or(0);
    let mut write = Write {
        member_channels: &member_channels,
        window,
        parts: &parts,
        hull: begin..end,
        unreadable: None,
    };
    loop {
        match write.attempt().await {
            Ok(()) => return Ok(()),
            Err(Stop::Again) => {}
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
}

impl Write<'_> {
    async fn attempt(&mut self) -> Result<(), Stop> {
        let shared = &self.member_channels.shared;
        shared.check_intact(Op::Write).map_err(Stop::Failed)?;
        let usable = shared.usable_members(self.window);
        let mut parity = self.new_parity(usable).await?;
        let mut changes: Vec<Change> = Vec::new();
        for part in self.parts {
            let member = self
                .member_channels
                .shared
                .shape
                .data_member(self.window, part.k);
            changes.push(Change {
                member,
                begin: part.begin,
                segments: part.segments.clone(),
            });
        }
        if let Some(parity) = &mut parity {
            changes.push(Change {
                member: self.member_channels.shared.shape.parity_member(self.window),
                begin: self.hull.start,
                segments: vec![parity.segment()],
            });
        }
        changes.retain(|change| usable & (1 << change.member) != 0);
        let slot = self.slot().await?;
        self.log(&slot, &changes).await?;
        self.store(changes).await
    }

    /// The parity of the hull as it will be; none if it is not to be written.
    async fn new_parity(&mut self, usable: u64) -> Result<Option<Scratch>, Stop> {
        let shape = self.member_channels.shared.shape;
        let parity_member = shape.parity_member(self.window);
        let everyone = u64::MAX >> (64 - shape.members);
        let readable = self.unreadable.map_or(usable, |m| usable & !(1 << m));
        let lost = everyone & !readable;
        if lost.count_ones() > 1 || (everyone & !usable).count_ones() > 1 {
            return Err(Stop::Failed(failed(Op::Write)));
        }
        let covers = |part: &Part| part.range() == self.hull;
        let lost_chunk = (0..shape.data_chunks())
            .find(|k| lost & (1 << shape.data_member(self.window, *k)) != 0);
        let situation = Situation {
            data_chunks: shape.data_chunks(),
            touched: self.parts.len() as u32,
            partly: self.parts.iter().filter(|p| !covers(p)).count() as u32,
            parity_writable: usable & (1 << parity_member) != 0,
            parity_readable: readable & (1 << parity_member) != 0,
            lost: lost_chunk.map(|k| match self.parts.iter().find(|p| p.k == k) {
                None => Lost::Untouched,
                Some(part) if covers(part) => Lost::Whole,
                Some(_) => Lost::Partly,
            }),
        };
        match situation.plan() {
            None => Err(Stop::Failed(failed(Op::Write))),
            Some(Plan::NoParity) => Ok(None),
            Some(Plan::Modify) => self.modify(parity_member).await.map(Some),
            Some(Plan::Reconstruct) => self.reconstruct(None).await.map(Some),
            Some(Plan::Rescue) => self.reconstruct(lost_chunk).await.map(Some),
        }
    }

    /// Old parity, with what is overwritten taken out and the new put in.
    async fn modify(&mut self, parity_member: u32) -> Result<Scratch, Stop> {
        let shape = self.member_channels.shared.shape;
        let mut parity = self
            .member_channels
            .scratch(self.hull.end - self.hull.start);
        let mut old: Vec<Scratch> = Vec::new();
        let mut tickets = vec![self.read(parity_member, self.hull.start, &mut parity)];
        for part in self.parts {
            let mut scratch = self.member_channels.scratch(part.len_bytes);
            let member = shape.data_member(self.window, part.k);
            tickets.push(self.read(member, part.begin, &mut scratch));
            old.push(scratch);
        }
        self.all_read(tickets).await?;
        for (part, old) in self.parts.iter().zip(&old) {
            let at = (part.begin - self.hull.start) as usize;
            let range = &mut parity[at..at + old.len()];
            xor_into(range, old);
            xor_segments(range, &part.segments);
        }
        Ok(parity)
    }

    /// The sum of all data chunks as they will be. What `rescue` holds now is the sum of parity and the others.
    async fn reconstruct(&mut self, rescue: Option<u32>) -> Result<Scratch, Stop> {
        let shape = self.member_channels.shared.shape;
        let len = self.hull.end - self.hull.start;
        let mut chunks: Vec<(u32, Scratch)> = Vec::new();
        let mut tickets = Vec::new();
        for k in 0..shape.data_chunks() {
            let part = self.parts.iter().find(|p| p.k == k);
            let whole = part.is_some_and(|p| p.range() == self.hull);
            if Some(k) == rescue || (whole && rescue.is_none()) {
                continue;
            }
            let mut scratch = self.member_channels.scratch(len);
            let member = shape.data_member(self.window, k);
            tickets.push(self.read(member, self.hull.start, &mut scratch));
            chunks.push((k, scratch));
        }
        let mut rescued = None;
        if let Some(k) = rescue {
            let mut scratch = self.member_channels.scratch(len);
            let member = shape.parity_member(self.window);
            tickets.push(self.read(member, self.hull.start, &mut scratch));
            rescued = Some((k, scratch));
        }
        self.all_read(tickets).await?;
        if let Some((k, mut sum)) = rescued {
            chunks
                .iter()
                .for_each(|(_, chunk)| xor_into(&mut sum, chunk));
            chunks.push((k, sum));
        }
        let mut parity = self.member_channels.scratch(len);
        parity.fill(0);
        for (k, chunk) in &mut chunks {
            if let Some(part) = self.parts.iter().find(|p| p.k == *k) {
                let at = (part.begin - self.hull.start) as usize;
                copy_in(&mut chunk[at..at + part.len_bytes as usize], &part.segments);
            }
            xor_into(&mut parity, chunk);
        }
        for part in self.parts {
            if !chunks.iter().any(|(k, _)| *k == part.k) {
                xor_segments(&mut parity, &part.segments);
            }
        }
        Ok(parity)
    }

    fn read(
        &self,
        member: u32,
        begin: u64,
        into: &mut Scratch,
    ) -> (u32, crate::array::member_channels::Ticket) {
        let offset = self.member_channels.shared.shape.window_offset(self.window) + begin;
        let segments = vec![into.segment()];
        (
            member,
            self.member_channels
                .start(member, Op::Read, offset, segments),
        )
    }

    async fn all_read(
        &mut self,
        tickets: Vec<(u32, crate::array::member_channels::Ticket)>,
    ) -> Result<(), Stop> {
        let failed = failures(tickets).await;
        match failed.first() {
            None => Ok(()),
            Some((member, _)) if self.unreadable.is_none() => {
                self.unreadable = Some(*member);
                Err(Stop::Again)
            }
            Some((_, error)) => Err(Stop::Failed(*error)),
        }
    }

    /// A slot of the journal; begins another epoch if there is none.
    async fn slot(&self) -> Result<Slot<'_>, Stop> {
        let shared = &self.member_channels.shared;
        loop {
            match shared.journal.take() {
                Take::Slot(slot) => return Ok(slot),
                Take::Wait => self.member_channels.stall().await,
                Take::Turn => {
                    let turned = shared.journal.turned(shared.checkpoint(false));
                    turned.map_err(Stop::Failed)?;
                }
            }
        }
    }

    /// Stores the record, and makes it durable.
    async fn log(&self, slot: &Slot<'_>, changes: &[Change]) -> Result<(), Stop> {
        let shared = &self.member_channels.shared;
        let members = changes.iter().fold(0, |mask, c| mask | 1u64 << c.member);
        let mut headers: Vec<Scratch> = Vec::new();
        let mut tickets = Vec::new();
        for change in changes {
            let len: usize = change.segments.iter().map(|s| s.len_bytes).sum();
            let record = Record {
                epoch: slot.epoch,
                slot: slot.index,
                member: change.member,
                window: self.window,
                members,
                begin: change.begin as u32,
                len_bytes: len as u32,
                payload_crc: crc_of(&change.segments),
            };
            let mut header = self.member_channels.scratch(HEADER_BYTES);
            record.encode(shared.uuid, &mut header);
            let mut segments = vec![header.segment()];
            segments.extend_from_slice(&change.segments);
            let offset = shared.shape.slot_offset(slot.index);
            let ticket = self
                .member_channels
                .start(change.member, Op::Write, offset, segments);
            tickets.push((change.member, ticket));
            headers.push(header);
        }
        self.all_stored(failures(tickets).await)?;
        let flush = |change: &Change| {
            let target = shared.target(change.member);
            let needed = target.is_none_or(|target| target.info().needs_flush);
            needed.then(|| {
                let ticket = self
                    .member_channels
                    .start(change.member, Op::Flush, 0, Vec::new());
                (change.member, ticket)
            })
        };
        self.all_stored(failures(changes.iter().filter_map(flush).collect()).await)
    }

    /// Members that fail before anything is in place are left out of another attempt.
    fn all_stored(&self, failed: Vec<(u32, IoError)>) -> Result<(), Stop> {
        if failed.is_empty() {
            return Ok(());
        }
        for (member, error) in failed {
            self.member_channels
                .shared
                .fail(member, error)
                .map_err(Stop::Failed)?;
        }
        Err(Stop::Again)
    }

    /// Writes in place. A member that fails is left out; the others have all there is to know.
    async fn store(&self, changes: Vec<Change>) -> Result<(), Stop> {
        let shared = &self.member_channels.shared;
        let place = shared.shape.window_offset(self.window);
        let begin = |change: Change| {
            let offset = place + change.begin;
            let start =
                self.member_channels
                    .start(change.member, Op::Write, offset, change.segments);
            (change.member, start)
        };
        for (member, error) in failures(changes.into_iter().map(begin).collect()).await {
            shared.fail(member, error).map_err(Stop::Failed)?;
        }
        Ok(())
    }
}

/// Reads a piece of one data chunk, which may span several windows of it.
pub(super) async fn read(
    member_channels: Rc<MemberChannels>,
    window: u64,
    k: u32,
    begin: u64,
    segments: Vec<Segment>,
) -> Result<(), IoError> {
    let shape = member_channels.shared.shape;
    let len: u64 = segments.iter().map(|s| s.len_bytes as u64).sum();
    let member = shape.data_member(window, k);
    if member_channels
        .read(member, window, begin, &segments)
        .await
        .is_ok()
    {
        return Ok(());
    }
    let mut done = 0;
    while done < len {
        let at = begin + done;
        let within = at % shape.window_bytes();
        let part = (len - done).min(shape.window_bytes() - within);
        let pieces = cut(&segments, done, part);
        read_from_others(
            &member_channels,
            window + at / shape.window_bytes(),
            k,
            within,
            pieces,
        )
        .await?;
        done += part;
    }
    Ok(())
}

/// Reads a piece within one window from the others of its stripe.
async fn read_from_others(
    member_channels: &Rc<MemberChannels>,
    window: u64,
    k: u32,
    begin: u64,
    segments: Vec<Segment>,
) -> Result<(), IoError> {
    let shape = member_channels.shared.shape;
    let _guard = member_channels.lock(window).await;
    let missing = shape.data_member(window, k);
    let len: u64 = segments.iter().map(|s| s.len_bytes as u64).sum();
    let mut chunks: Vec<Scratch> = Vec::new();
    let mut tickets = Vec::new();
    for member in (0..shape.members).filter(|m| *m != missing) {
        if !member_channels.shared.usable(member, window) {
            // Awaited all the same: the scratch memory of those that were begun is in use.
            failures(tickets).await;
            return Err(failed(Op::Read));
        }
        let mut chunk = member_channels.scratch(len);
        let offset = shape.window_offset(window) + begin;
        let ticket = member_channels.start(member, Op::Read, offset, vec![chunk.segment()]);
        tickets.push((member, ticket));
        chunks.push(chunk);
    }
    if let Some((_, error)) = failures(tickets).await.first() {
        return Err(*error);
    }
    let (sum, others) = chunks.split_first_mut().expect("there are others");
    others.iter().for_each(|chunk| xor_into(sum, chunk));
    copy_out(sum, &segments);
    Ok(())
}
