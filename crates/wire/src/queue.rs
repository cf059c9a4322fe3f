//! Queue pairs: a submission ring of 64-byte commands and a completion ring of 16-byte entries.
//!
//! As in NVMe: the host writes commands and rings the tail doorbell; the drive learns of them from
//! the doorbell alone. The drive writes completions whose phase bit changes with every round of
//! the ring; the host learns of them from that bit alone, and gives slots back by the head
//! doorbell. The submission head comes back inside completions.
//!
//! Each ring also carries the virtual time at which an entry can be seen by the other side; real
//! time does not use it.
//!
//! Orderings: doorbells are `Release` stores, read by `Acquire` loads of the other side. A
//! completion is two words; the second, which holds the phase, is stored with `Release` after the
//! first and loaded with `Acquire` before it.

use std::ops::Deref;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;
use wharf_runtime::notifier::Kind;
use wharf_runtime::sync::{Arc, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use wharf_runtime::{Cpu, Notifier};
use zerocopy::IntoBytes;

use crate::command::Command;
use crate::completion::Completion;
use crate::dma::of_guest;
use crate::memory::SharedMemory;
use crate::opcode::DataDirection;
use crate::queue_lines::QueueLines;

/// The largest number of entries of a ring.
pub const DEPTH_MAX: u32 = 4096;

/// A run of slots, in memory of their own or in memory that is shared.
pub(crate) struct View<T> {
    slots: NonNull<[T]>,
    is_own: bool,
}

impl<T> View<T> {
    fn own(slots: Box<[T]>) -> View<T> {
        View {
            slots: NonNull::from(Box::leak(slots)),
            is_own: true,
        }
    }

    /// `count` slots at `start`.
    ///
    /// # Safety
    /// They are valid slots, aligned, for as long as the view is used.
    pub(crate) unsafe fn shared(start: NonNull<u8>, count: usize) -> View<T> {
        View {
            slots: NonNull::slice_from_raw_parts(start.cast(), count),
            is_own: false,
        }
    }
}

impl<T> Deref for View<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: valid while the view is used: its own, or by the contract of `shared`.
        unsafe { self.slots.as_ref() }
    }
}

impl<T> Drop for View<T> {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: the box that `own` leaked.
            drop(unsafe { Box::from_raw(self.slots.as_ptr()) });
        }
    }
}

/// How each side tells the other how far it is.
#[repr(C)]
pub(crate) struct Doorbells {
    submission_tail: CachePadded<AtomicU32>,
    completion_head: CachePadded<AtomicU32>,
}

/// The rings of a queue pair. In shared memory the rings of times have no entries: they are for virtual time.
pub(crate) struct Memory {
    pub(crate) depth: u32,
    pub(crate) commands: View<UnsafeCell<Command>>,
    pub(crate) command_visible_ns: Box<[AtomicU64]>,
    pub(crate) completions: View<[AtomicU64; 2]>,
    pub(crate) completion_visible_ns: Box<[AtomicU64]>,
    pub(crate) doorbells: View<Doorbells>,
    /// The lines of all this, where both ends are processors of one machine.
    pub(crate) lines: Option<Box<QueueLines>>,
    /// Keeps what is shared.
    pub(crate) _shared: Option<std::sync::Arc<SharedMemory>>,
}

impl Memory {
    #[inline(always)]
    fn doorbells(&self) -> &Doorbells {
        &self.doorbells[0]
    }
}

// SAFETY: a command slot is written by the host only between the drive's head (known from
// completions) and its own tail, and read by the drive only before the tail doorbell it has seen.
// Where the host is another process that does not keep to this, the drive gets a command that is
// mixed of several, as it might have been sent.
unsafe impl Send for Memory {}
// SAFETY: as above; all else is atomic.
unsafe impl Sync for Memory {}

/// A host in another process, as the drive's end of its queue pair knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// Its number, from 0.
    pub number: u32,
    /// Most frames of the host memory buffer that it may hold of each firmware core.
    pub frames_max: u32,
}

/// The submission queue has no free slot: completions must be taken first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the submission queue is full")]
pub struct QueueFull;

/// The host's end of a queue pair.
pub struct HostQueue {
    memory: Arc<Memory>,
    drive_notifier: Notifier,
    source: u32,
    completion_notifier: Notifier,
    tail: u32,
    rung_tail: u32,
    head: u32,
    completion_head: u32,
    phase: bool,
    head_dirty: bool,
}

/// The drive's end of a queue pair.
pub struct DriveQueue {
    memory: Arc<Memory>,
    drive_notifier: Notifier,
    source: u32,
    completion_notifier: Notifier,
    head: u32,
    completion_tail: u32,
    /// The host's head when it was looked at last.
    completion_head_seen: u32,
    phase: bool,
    guest: Option<Guest>,
}

/// Makes a queue pair of `depth` entries: the host notifies `drive_notifier`, the drive notifies it
/// that [`HostQueue::notifier`] gives.
///
/// Where `drive_notifier` is no [wire](Kind::Wire), both ends are processors of one machine, and the rings' lines
/// move between them.
/// `source` tells the pair apart from others that notify the same notifier.
pub fn queue_pair(depth: u32, drive_notifier: &Notifier, source: u32) -> (HostQueue, DriveQueue) {
    assert!(
        (2..=DEPTH_MAX).contains(&depth),
        "a queue has 2 to {DEPTH_MAX} entries"
    );
    let times = || (0..depth).map(|_| AtomicU64::new(0)).collect();
    let notifiers = Doorbells {
        submission_tail: CachePadded::new(AtomicU32::new(0)),
        completion_head: CachePadded::new(AtomicU32::new(0)),
    };
    let commands = (0..depth).map(|_| UnsafeCell::new(Command::default()));
    let completions = (0..depth).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]);
    let memory = Arc::new(Memory {
        depth,
        commands: View::own(commands.collect()),
        command_visible_ns: times(),
        completions: View::own(completions.collect()),
        completion_visible_ns: times(),
        doorbells: View::own(Box::new([notifiers])),
        lines: (drive_notifier.kind() != Kind::Wire).then(|| Box::new(QueueLines::new(depth))),
        _shared: None,
    });
    let completion_notifier = Notifier::of_kind(drive_notifier.kind());
    let host = HostQueue::on(memory.clone(), drive_notifier, source, &completion_notifier);
    let drive = DriveQueue::on(memory, drive_notifier, source, &completion_notifier, None);
    (host, drive)
}

#[inline]
fn next(index: u32, depth: u32) -> u32 {
    if index + 1 == depth { 0 } else { index + 1 }
}

impl HostQueue {
    /// The host's end of rings that are new.
    pub(crate) fn on(
        memory: Arc<Memory>,
        drive_notifier: &Notifier,
        source: u32,
        completion_notifier: &Notifier,
    ) -> HostQueue {
        HostQueue {
            memory,
            drive_notifier: drive_notifier.clone(),
            source,
            completion_notifier: completion_notifier.clone(),
            tail: 0,
            rung_tail: 0,
            head: 0,
            completion_head: 0,
            phase: true,
            head_dirty: false,
        }
    }

    /// Entries of each ring; one less can be in flight.
    pub fn depth(&self) -> u32 {
        self.memory.depth
    }

    /// The notifier that the drive notifies when it completes commands.
    pub fn notifier(&self) -> &Notifier {
        &self.completion_notifier
    }

    /// Writes a command into the ring. The drive does not see it before the doorbell.
    #[inline]
    pub fn submit(&mut self, cpu: &Cpu, command: Command) -> Result<(), QueueFull> {
        let after = next(self.tail, self.memory.depth);
        if after == self.head {
            return Err(QueueFull);
        }
        // SAFETY: the slot lies between the tail and the drive's head: the drive is done with it.
        self.memory.commands[self.tail as usize].with_mut(|slot| unsafe { *slot = command });
        if cpu.is_virtual() {
            self.memory.command_visible_ns[self.tail as usize].store(cpu.now(), Ordering::Relaxed);
            if let Some(lines) = &self.memory.lines {
                lines.submit(cpu, self.tail as usize);
            }
        }
        self.tail = after;
        Ok(())
    }

    /// Tells the drive of all commands written so far.
    #[inline]
    pub fn ring_doorbell(&mut self, cpu: &Cpu) {
        if self.rung_tail != self.tail {
            self.rung_tail = self.tail;
            // Release: partner of the load in `DriveQueue::fetch`.
            self.memory
                .doorbells()
                .submission_tail
                .store(self.tail, Ordering::Release);
            self.drive_notifier.notify(cpu, self.source, cpu.stamp_ns());
        }
    }

    /// Takes the next completion, if one is there.
    #[inline]
    pub fn poll(&mut self, cpu: &Cpu) -> Option<Completion> {
        let index = self.completion_head as usize;
        let words = &self.memory.completions[index];
        // Acquire: partner of the store in `DriveQueue::complete`.
        let second = words[1].load(Ordering::Acquire);
        if ((second >> 48) & 1 == 1) != self.phase {
            return None;
        }
        if cpu.is_virtual() {
            let visible_ns = self.memory.completion_visible_ns[index].load(Ordering::Relaxed);
            if visible_ns > cpu.now() {
                self.completion_notifier.note_pending(0, visible_ns);
                return None;
            }
            if let Some(lines) = &self.memory.lines {
                lines.poll(cpu, index);
            }
        }
        let first = words[0].load(Ordering::Relaxed);
        self.completion_head = next(self.completion_head, self.memory.depth);
        self.phase ^= self.completion_head == 0;
        self.head_dirty = true;
        let entry = completion_from_words(first, second);
        self.head = u32::from(entry.sqhd);
        Some(entry)
    }

    /// Gives the completions taken so far back to the drive.
    #[inline]
    pub fn release(&mut self) {
        if std::mem::take(&mut self.head_dirty) {
            // Release: partner of the load in `DriveQueue::has_room`.
            self.memory
                .doorbells()
                .completion_head
                .store(self.completion_head, Ordering::Release);
        }
    }
}

impl DriveQueue {
    /// The drive's end of rings that are new.
    pub(crate) fn on(
        memory: Arc<Memory>,
        drive_notifier: &Notifier,
        source: u32,
        completion_notifier: &Notifier,
        guest: Option<Guest>,
    ) -> DriveQueue {
        DriveQueue {
            memory,
            drive_notifier: drive_notifier.clone(),
            source,
            completion_notifier: completion_notifier.clone(),
            head: 0,
            completion_tail: 0,
            completion_head_seen: 0,
            phase: true,
            guest,
        }
    }

    /// The same, of a host in another process.
    #[must_use]
    pub fn with_guest(self, guest: Guest) -> DriveQueue {
        DriveQueue {
            guest: Some(guest),
            ..self
        }
    }

    /// The host, if it is in another process: it may write anything to the rings at any time.
    #[inline]
    pub fn guest(&self) -> Option<Guest> {
        self.guest
    }

    /// Entries of each ring.
    pub fn depth(&self) -> u32 {
        self.memory.depth
    }

    /// The number by which the pair notify the drive's notifier.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The notifier that the host notifies.
    pub fn notifier(&self) -> &Notifier {
        &self.drive_notifier
    }

    /// Takes the next command that the doorbell has announced.
    #[inline]
    pub fn fetch(&mut self, cpu: &Cpu) -> Option<Command> {
        // Acquire: partner of the store in `HostQueue::ring_doorbell`.
        let tail = self
            .memory
            .doorbells()
            .submission_tail
            .load(Ordering::Acquire);
        if tail == self.head || tail >= self.memory.depth {
            return None;
        }
        let index = self.head as usize;
        if cpu.is_virtual() {
            let visible_ns = self.memory.command_visible_ns[index].load(Ordering::Relaxed);
            if visible_ns > cpu.now() {
                self.drive_notifier.note_pending(self.source, visible_ns);
                return None;
            }
            if let Some(lines) = &self.memory.lines {
                lines.fetch(cpu, index);
            }
        }
        // SAFETY: the slot was published by the doorbell and is not written again before a
        // completion carries a head beyond it.
        // Volatile: what is checked must be what is used, whatever a guest writes meanwhile.
        let mut command = self.memory.commands[index].with(|slot| unsafe { slot.read_volatile() });
        // Commands without data have no addresses there.
        if let Some(guest) = self.guest
            && DataDirection::of(command.opcode) != DataDirection::None
        {
            command.prp1 = of_guest(guest.number, command.prp1);
            command.prp2 = of_guest(guest.number, command.prp2);
        }
        self.head = next(self.head, self.memory.depth);
        Some(command)
    }

    /// True if the completion ring has room for another entry.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        let after = next(self.completion_tail, self.memory.depth);
        if after == self.completion_head_seen {
            // Only now: the line is the host's, and far away.
            // Acquire: partner of the store in `HostQueue::release`.
            self.completion_head_seen = self
                .memory
                .doorbells()
                .completion_head
                .load(Ordering::Acquire);
        }
        after != self.completion_head_seen
    }

    /// Posts a completion, which fills in queue head and phase, and notify the host's notifier.
    /// In virtual time the host sees it at `visible_ns`.
    ///
    /// # Panics
    /// If the ring had no room when it was looked at last: see [`DriveQueue::has_room`].
    #[inline]
    pub fn complete(&mut self, cpu: &Cpu, sqid: u16, completion: Completion, visible_ns: u64) {
        assert!(self.has_room(), "a completion queue overflowed");
        let entry = completion
            .with_queue(sqid, self.head as u16)
            .with_phase(self.phase);
        let index = self.completion_tail as usize;
        if cpu.is_virtual() {
            self.memory.completion_visible_ns[index].store(visible_ns, Ordering::Relaxed);
            if let Some(lines) = &self.memory.lines {
                lines.complete(cpu, index);
            }
        }
        let (first, second) = completion_to_words(&entry);
        self.memory.completions[index][0].store(first, Ordering::Relaxed);
        // Release: partner of the load in `HostQueue::poll`.
        self.memory.completions[index][1].store(second, Ordering::Release);
        self.completion_tail = next(self.completion_tail, self.memory.depth);
        self.phase ^= self.completion_tail == 0;
        self.completion_notifier.notify(cpu, 0, visible_ns);
    }
}

#[inline]
fn completion_to_words(entry: &Completion) -> (u64, u64) {
    let bytes: &[u8; 16] = entry
        .as_bytes()
        .try_into()
        .expect("a completion is 16 bytes");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    (word(0), word(8))
}

#[inline]
fn completion_from_words(first: u64, second: u64) -> Completion {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    zerocopy::transmute!(bytes)
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::status::Status;
    use wharf_runtime::{CostTable, Inline, Machine, Side};

    fn machine() -> (Inline, Cpu) {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        let cpu = inline.cpu(cpu).clone();
        (inline, cpu)
    }

    #[test]
    fn commands_and_completions_arrive_whole_and_in_order_over_the_wrap() {
        loom::model(|| {
            let (mut host, mut drive) = queue_pair(2, &Notifier::new(), 0);
            let server = loom::thread::spawn(move || {
                let (_machine, cpu) = machine();
                let mut served = 0;
                while served < 2 {
                    let Some(command) = drive.fetch(&cpu) else {
                        loom::thread::yield_now();
                        continue;
                    };
                    assert_eq!(command.slba(), u64::from(command.cid) * 1000);
                    assert!(drive.has_room());
                    let completion = Completion::new(command.cid, Status::SUCCESS);
                    let result = u32::from(command.cid) + 7;
                    drive.complete(&cpu, 1, completion.with_result(result), 0);
                    served += 1;
                }
            });
            let (_machine, cpu) = machine();
            for cid in 1..=2u16 {
                let command = Command::read(1, u64::from(cid) * 1000, 1).with_cid(cid);
                host.submit(&cpu, command)
                    .expect("the one before is answered");
                host.ring_doorbell(&cpu);
                let completion = loop {
                    match host.poll(&cpu) {
                        Some(completion) => break completion,
                        None => loom::thread::yield_now(),
                    }
                };
                host.release();
                assert_eq!((completion.cid, completion.dw0), (cid, u32::from(cid) + 7));
            }
            server.join().unwrap();
        });
    }
}
