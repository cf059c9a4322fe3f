//! Queue pairs between two processes: the same rings, in shared memory.
//!
//! The drive's process owns the memory. A host in another process, a *guest*, has its end of the queue
//! pair there, and is notified and rings by [notifiers across](Notifier::across) processes, which to the drive are
//! [`Bells`]. The rings'
//! entries are those of [`queue`](crate::queue); what differs is trust:
//!
//! 1. Whatever the drive's end reads is read once, and checked: indexes against the depth, commands as
//!    all commands are.
//! 2. Pointers of commands are the guest's ([`of_guest`](crate::dma::of_guest)).
//! 3. A guest that gives no completions back loses those for which there is no room.
//!
//! A guest that waits for long sleeps by a futex, which is the word that says so ([`SharedQueue::sleep`]); the drive's end wakes it.
//!
//! A ring can be used once more after a guest: its memory is [renewed](SharedMemory::renew), and both
//! ends are made anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

use wharf_runtime::notifier::Wake;
use wharf_runtime::sync::{AtomicU64, UnsafeCell};
use wharf_runtime::{Bells, Notifier, NotifierWords};

use crate::command::Command;
use crate::dma::PAGE_BYTES;
use crate::memory::SharedMemory;
use crate::queue::{DEPTH_MAX, Doorbells, DriveQueue, Guest, HostQueue, Memory, View};

/// Offset of the notifier that the host rings.
const TO_DRIVE: usize = 512;

/// Offset of the notifier that the drive rings, on a cache line of its own.
const TO_HOST: usize = TO_DRIVE + 128;

/// Offset of the completions, after which the commands begin.
const COMPLETIONS: usize = TO_HOST + 128;

// The atomics of shuttle are larger than what they stand for, and never in shared memory.
const _: () = assert!(
    cfg!(shuttle) || size_of::<Doorbells>() <= TO_DRIVE && size_of::<NotifierWords>() <= 128
);

/// Where a queue pair lies in shared memory.
#[derive(Debug, Clone)]
pub struct SharedQueue {
    memory: Arc<SharedMemory>,
    offset: usize,
    depth: u32,
}

/// Bytes of shared memory that a queue pair of `depth` entries takes: whole pages.
pub const fn shared_queue_bytes(depth: u32) -> usize {
    let entries = depth as usize * (size_of::<Command>() + 16);
    (COMPLETIONS + entries).next_multiple_of(PAGE_BYTES)
}

impl SharedQueue {
    /// The queue pair of `depth` entries at byte `offset`, a multiple of 4096.
    ///
    /// # Panics
    /// If it is not such, or does not lie inside the memory.
    pub fn new(memory: &Arc<SharedMemory>, offset: usize, depth: u32) -> SharedQueue {
        assert!(
            (2..=DEPTH_MAX).contains(&depth) && offset.is_multiple_of(PAGE_BYTES),
            "a queue has 2 to {DEPTH_MAX} entries, from a page on"
        );
        memory.at(offset, shared_queue_bytes(depth));
        SharedQueue {
            memory: memory.clone(),
            offset,
            depth,
        }
    }

    fn rings(&self) -> wharf_runtime::sync::Arc<Memory> {
        let count = self.depth as usize;
        let at = |offset| self.memory.at(self.offset + offset, 0);
        let commands = COMPLETIONS + 16 * count;
        // SAFETY: each run lies inside, as `new` has checked, in its own part, aligned to 16 bytes at
        // least; plain bytes and atomics, for which any bytes are valid. `_shared` keeps the memory.
        wharf_runtime::sync::Arc::new(unsafe {
            Memory {
                depth: self.depth,
                commands: View::<UnsafeCell<Command>>::shared(at(commands), count),
                command_visible_ns: Box::default(),
                completions: View::<[AtomicU64; 2]>::shared(at(COMPLETIONS), count),
                completion_visible_ns: Box::default(),
                doorbells: View::shared(at(0), 1),
                lines: None,
                _shared: Some(self.memory.clone()),
            }
        })
    }

    fn notifier(&self, offset: usize, wake: Option<Wake>) -> Notifier {
        let words = self.memory.at(self.offset + offset, 128).cast();
        // SAFETY: words inside the memory, which the notifier keeps; any bytes are valid words.
        unsafe { Notifier::across(words, self.memory.clone(), wake) }
    }

    /// Puts what the host notifies among `bells`, as number `number`: the drive's process waits for these, and notifies the
    /// drive's own notifier.
    pub fn ring_among(&self, bells: &Bells, number: u32) {
        let words = self.memory.at(self.offset + TO_DRIVE, 128).cast();
        // SAFETY: words inside the memory, which the bell keeps; any bytes are valid words.
        unsafe { bells.put(number, words, self.memory.clone()) };
    }

    /// What the drive notifies the host by.
    fn to_host(&self) -> &NotifierWords {
        let words = self.memory.at(self.offset + TO_HOST, 128).cast();
        // SAFETY: words inside the memory, which all of both processes use as atomics; any bytes are valid words.
        unsafe { words.as_ref() }
    }

    /// The word by which the host says that it sleeps, and sleeps.
    fn host_sleeps(&self) -> &AtomicU32 {
        let word = self
            .memory
            .at(self.offset + TO_HOST + NotifierWords::PARKED_AT, 4);
        // SAFETY: an aligned word inside the memory, which all of both processes use as an atomic.
        unsafe { word.cast().as_ref() }
    }

    /// In the host's process, on any thread: whether the drive has completed something since the host looked last.
    #[inline]
    pub fn has_completed(&self) -> bool {
        self.to_host().is_rung()
    }

    /// Has one thread of the host sleep, in its process, until the drive has completed something, but for `most` at most.
    pub fn sleep(&self, most: Duration) {
        let words = self.to_host();
        words.set_parked(true);
        // Whoever notifies from now on sees that it sleeps.
        if !words.is_rung() {
            let most = most.try_into().ok();
            // It clears the word before it wakes: then this ends at once.
            let _ = futex::wait(self.host_sleeps(), futex::Flags::empty(), 1, most.as_ref());
        }
        words.set_parked(false);
    }

    /// Wakes the host, from the drive's process.
    fn wake(&self) {
        // Relaxed: what it is woken for it finds by the notifier's flag. It may not sleep yet: then it does not begin to.
        self.host_sleeps().store(0, Ordering::Relaxed);
        let _ = futex::wake(self.host_sleeps(), futex::Flags::empty(), 1);
    }

    /// The drive's end, of whose arrivals `drive_notifier` is notified as `source`.
    pub fn drive_end(&self, drive_notifier: &Notifier, source: u32, guest: Guest) -> DriveQueue {
        let host = self.clone();
        let completed = self.notifier(TO_HOST, Some(Box::new(move || host.wake())));
        DriveQueue::on(
            self.rings(),
            drive_notifier,
            source,
            &completed,
            Some(guest),
        )
    }

    /// The host's end, in the other process; `wake` wakes the drive's process if it sleeps.
    pub fn host_end(&self, wake: Wake) -> HostQueue {
        let (arrivals, completed) = (
            self.notifier(TO_DRIVE, Some(wake)),
            self.notifier(TO_HOST, None),
        );
        HostQueue::on(self.rings(), &arrivals, 0, &completed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::{CostTable, Cpu, Inline, Machine, Side};

    use super::*;
    use crate::completion::Completion;
    use crate::opcode::DataDirection;
    use crate::status::Status;

    const DEPTH: u32 = 8;

    fn machine() -> (Inline, Cpu) {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        let cpu = inline.cpu(cpu).clone();
        (inline, cpu)
    }

    fn queue() -> (Arc<SharedMemory>, SharedQueue) {
        let bytes = PAGE_BYTES + shared_queue_bytes(DEPTH);
        let memory = Arc::new(SharedMemory::create(bytes).unwrap());
        let queue = SharedQueue::new(&memory, PAGE_BYTES, DEPTH);
        (memory, queue)
    }

    const GUEST: Guest = Guest {
        number: 3,
        frames_max: 1,
    };

    #[test]
    fn commands_and_completions_go_through_shared_memory_over_the_wrap() {
        let ((_inline, cpu), (_memory, queue)) = (machine(), queue());
        let mut host = queue.host_end(Box::new(|| panic!("nobody sleeps")));
        let mut drive = queue.drive_end(&Notifier::new(), 0, GUEST);
        for cid in 0..30u16 {
            let command = Command::read(1, u64::from(cid), 1).with_cid(cid);
            host.submit(&cpu, command.with_prp(1 << 40, 5)).unwrap();
            assert!(drive.fetch(&cpu).is_none());
            host.ring_doorbell(&cpu);
            let fetched = drive.fetch(&cpu).unwrap();
            assert_eq!((fetched.cid, fetched.slba()), (cid, u64::from(cid)));
            assert_eq!(fetched.prp1, crate::dma::of_guest(3, 1 << 40));
            assert!(drive.has_room());
            drive.complete(&cpu, 1, Completion::new(cid, Status::SUCCESS), 0);
            assert_eq!(host.poll(&cpu).unwrap().cid, cid);
            host.release();
        }
    }

    #[test]
    fn a_host_that_writes_anything_anywhere_is_survived() {
        let ((_inline, cpu), (memory, queue)) = (machine(), queue());
        let mut drive = queue.drive_end(&Notifier::new(), 0, GUEST);
        let (mut state, mut fetched) = (88172645463325252u64, 0);
        let bytes = shared_queue_bytes(DEPTH);
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = PAGE_BYTES + state as usize % bytes;
            // SAFETY: inside; nobody holds a reference.
            unsafe { memory.at(at, 1).write((state >> 32) as u8 % 9) };
            // The doorbell at the start, whole: else it is hardly ever below the depth.
            if state >> 60 == 0 {
                let tail = (state >> 40) as u32 % (DEPTH + 2);
                // SAFETY: as above, and aligned.
                unsafe { memory.at(PAGE_BYTES, 4).cast::<u32>().write(tail) };
            }
            if let Some(command) = drive.fetch(&cpu)
                && DataDirection::of(command.opcode) != DataDirection::None
            {
                assert_eq!(command.prp1 >> 52, 4);
                fetched += 1;
            }
            if drive.has_room() {
                drive.complete(&cpu, 1, Completion::new(1, Status::SUCCESS), 0);
            }
        }
        assert!(fetched > 100, "only {fetched} commands came through");
    }
}
