//! Leases to write: hosts that keep what they write to a file, until somebody wants to see it.
//!
//! Problem: a write that is a command costs more than a write to memory. A host that keeps what it writes, as kernels do, must
//! hand it over before others see the file; to ask it, and to wait for its answer, would put everybody into its hands, and
//! what a killed process has written would be lost.
//!
//! Idea: the host keeps it in memory that the drive reaches (`wharf_wire::file::write_area`), and the drive *takes* it, whatever
//! becomes of the host.
//!
//! 1. One host has the lease of a file, and nobody else any lease of it ([`Writers::grant`]).
//! 2. Whoever is about to see the file or to change it has the drive [settle](Writers::settle) it first. If that is the holder, the lease
//!    stays; else it ends. What has been written is copied out of the host's memory, and then written to the file.
//! 3. While that is under way all others who want the file wait.
//! 4. When a host leaves, or its process is gone, its bytes are copied at once ([`Writers::take_all`]), as its memory goes to somebody else.
//!
//! What a holder has written takes effect when it says so in its memory, and by then its lease lasted; so whoever began to look at the file
//! later has it taken first. If it cannot be written to the file (no room, an error of the media), the holder is told when it syncs or
//! closes the file, as kernels do.
//!
//! A host that says that it is amid a write holds others up for a limited time. What it says is looked at once, and checked:
//! its bytes go to its own file, below the size that a file can have.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wharf_files::{By, Caller, Errno, FILE_BYTES_MAX, FileError, FileSystem, In, Write};
use wharf_runtime::here;
use wharf_wire::dma::{DmaArea, PAGE_BYTES};
use wharf_wire::file::write_area::{
    BUSY, ENTRIES, ENTRY_WORDS_AT, Entry, Words, bytes_at, cut_short, entry_word, is_still,
    lease_word, page_word, size_word, stop, time_word,
};

use super::time::Clock;

const PAGE: u64 = PAGE_BYTES as u64;

/// Looks at a host that says that it is amid a write, and pauses between them: 20 ms in all.
const LOOKS: u32 = 1_000;
const PAUSE_NS: u64 = 20_000;

/// How far ahead of the drive's clock a host's may be: the drive is told the time in milliseconds, and again where both
/// have drifted apart.
const AHEAD_NS: u64 = 1_000_000_000;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Writers {
    files: RefCell<FxHashMap<u64, Writer>>,
    /// Of each host that has leases their places, with the files.
    hosts: RefCell<FxHashMap<u32, Places>>,
    /// What hosts have not been told yet: that a file of theirs has lost bytes.
    lost: RefCell<FxHashMap<(u32, u64), FileError>>,
    clock: Rc<Clock>,
}

/// Places of a host's leases, with the files.
type Places = SmallVec<[(usize, u64); 4]>;

/// Who has the lease of a file.
struct Writer {
    grant: Rc<Grant>,
    /// What happens to it.
    phase: Phase,
    /// Those who wait for that to end.
    waiting: Vec<Waker>,
}

enum Phase {
    Held,
    /// The host is amid a write.
    Stopping,
    /// What there was has been copied, as the host is gone.
    Copied(Taken),
    Written,
}

/// A lease that is given.
pub(super) struct Grant {
    pub(super) host: u32,
    /// Who opened the file: its changes are made as that one.
    pub(super) caller: Rc<Caller>,
    pub(super) area: DmaArea,
    pub(super) place: usize,
    pub(super) lease: u64,
}

/// What was copied.
#[derive(Default)]
pub(super) struct Taken {
    /// Bytes by where they begin.
    runs: Vec<(u64, Vec<u8>)>,
    time_ns: u64,
}

/// What one who wants a file has to do.
enum Turn {
    Nothing,
    Wait,
    /// Take it; and whether the lease ends.
    Take(Rc<Grant>, bool),
}

impl Writers {
    /// Nobody has a lease.
    pub(super) fn new(clock: Rc<Clock>) -> Writers {
        Writers {
            clock,
            ..Writers::default()
        }
    }

    /// Whether nobody has a lease.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.files.borrow().is_empty()
    }

    /// All files that somebody has a lease of.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.files.borrow().keys().copied().collect()
    }

    /// Those that a host has leases of.
    pub(super) fn of_host(&self, host: u32) -> SmallVec<[u64; 4]> {
        let hosts = self.hosts.borrow();
        let own = hosts.get(&host).into_iter().flatten();
        own.map(|(_, number)| *number).collect()
    }

    /// How many hosts have leases, this one counted in.
    pub(super) fn hosts_with(&self, host: u32) -> u64 {
        let hosts = self.hosts.borrow();
        (hosts.len() + usize::from(!hosts.contains_key(&host))) as u64
    }

    /// The file of which a host has the lease by a place.
    pub(super) fn of_place(&self, host: u32, place: usize) -> Option<u64> {
        let hosts = self.hosts.borrow();
        let mut own = hosts.get(&host)?.iter();
        let (_, number) = own.find(|(own_place, _)| *own_place == place)?;
        Some(*number)
    }

    /// Whether a host has the lease of a file.
    #[inline]
    pub(super) fn is_of(&self, number: u64, host: u32) -> bool {
        let files = self.files.borrow();
        let writer = files.get(&number);
        writer.is_some_and(|writer| writer.grant.host == host)
    }

    /// Whether somebody has the lease of a file.
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        self.files.borrow().contains_key(&number)
    }

    /// Gives the lease of a file, of which nobody has any.
    pub(super) fn grant(&self, number: u64, grant: Grant) {
        grant.area.tell(lease_word(grant.place), grant.lease);
        let mut hosts = self.hosts.borrow_mut();
        hosts
            .entry(grant.host)
            .or_default()
            .push((grant.place, number));
        let writer = Writer {
            grant: Rc::new(grant),
            phase: Phase::Held,
            waiting: Vec::new(),
        };
        let before = self.files.borrow_mut().insert(number, writer);
        assert!(before.is_none(), "one host writes a file");
    }

    /// Has the file as all have written it, for host `host`; the lease ends if that is another's, or if it `ends`. Gives the
    /// holder if what that has written could not be written to the file: what it keeps of it is not so.
    pub(super) async fn settle(
        &self,
        fs: &impl FileSystem,
        number: u64,
        host: u32,
        ends: bool,
    ) -> Option<u32> {
        loop {
            match self.turn(number, host, ends) {
                Turn::Nothing => return None,
                Turn::Wait => self.ended(number).await,
                Turn::Take(grant, ends) => {
                    if ends {
                        still(&grant.area, grant.place).await;
                    }
                    let (taken, is_gone) = self.copied(number, &grant);
                    let written = taken.write(fs, number, &grant.caller, self.now_ns()).await;
                    let lost = written.err().filter(|_| !is_gone);
                    if let Some(error) = lost {
                        self.lost.borrow_mut().insert((grant.host, number), error);
                    }
                    self.done(number, ends);
                    return lost.map(|_| grant.host);
                }
            }
        }
    }

    fn turn(&self, number: u64, host: u32, ends: bool) -> Turn {
        let mut files = self.files.borrow_mut();
        let Some(writer) = files.get_mut(&number) else {
            return Turn::Nothing;
        };
        let Phase::Held = writer.phase else {
            return Turn::Wait;
        };
        let ends = ends || writer.grant.host != host;
        if ends {
            stop(&writer.grant.area, writer.grant.place);
        }
        writer.phase = Phase::Stopping;
        Turn::Take(writer.grant.clone(), ends)
    }

    /// What is to be written of a file whose host has stopped; and whether that is gone.
    fn copied(&self, number: u64, grant: &Grant) -> (Taken, bool) {
        let mut files = self.files.borrow_mut();
        let writer = files
            .get_mut(&number)
            .expect("it stays until it is written");
        match std::mem::replace(&mut writer.phase, Phase::Written) {
            Phase::Copied(taken) => (taken, true),
            _ => (grant.take(), false),
        }
    }

    /// What was taken of a file is written: the lease ends, or is the holder's again.
    fn done(&self, number: u64, ends: bool) {
        let mut files = self.files.borrow_mut();
        let waiting = match ends {
            true => files.remove(&number).map(|writer| {
                self.forget(writer.grant.host, number);
                writer.waiting
            }),
            false => files.get_mut(&number).map(|writer| {
                writer.phase = Phase::Held;
                std::mem::take(&mut writer.waiting)
            }),
        };
        drop(files);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// A host's lease of a file has ended.
    fn forget(&self, host: u32, number: u64) {
        let mut hosts = self.hosts.borrow_mut();
        if let Some(own) = hosts.get_mut(&host) {
            own.retain(|(_, file)| *file != number);
            if own.is_empty() {
                hosts.remove(&host);
            }
        }
    }

    /// Waits until what is under way with a file has ended.
    async fn ended(&self, number: u64) {
        let mut is_noted = false;
        poll_fn(|context| {
            let mut files = self.files.borrow_mut();
            match files.get_mut(&number) {
                Some(writer) if !matches!(writer.phase, Phase::Held) && !is_noted => {
                    is_noted = true;
                    writer.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// A host is gone: copies what it has written, before its memory is another's. What this gives is to be
    /// [written](Writers::write_all).
    pub(super) fn take_all(&self, host: u32) -> Vec<(u64, Rc<Grant>)> {
        let mut own = Vec::new();
        let mut files = self.files.borrow_mut();
        for number in self.of_host(host) {
            let Some(writer) = files.get_mut(&number) else {
                continue;
            };
            stop(&writer.grant.area, writer.grant.place);
            match writer.phase {
                Phase::Held => own.push((number, writer.grant.clone())),
                // Who waits for the host to stop writes it.
                Phase::Stopping => {}
                Phase::Copied(_) | Phase::Written => continue,
            }
            writer.phase = Phase::Copied(writer.grant.take());
        }
        own
    }

    /// Writes what was copied of a host that is gone: nobody is there who could be told of errors.
    pub(super) async fn write_all(&self, fs: &impl FileSystem, own: Vec<(u64, Rc<Grant>)>) {
        for (number, grant) in own {
            let (taken, _) = self.copied(number, &grant);
            let _ = taken.write(fs, number, &grant.caller, self.now_ns()).await;
            self.done(number, true);
        }
    }

    /// What a host has to be told of a file.
    pub(super) fn tell_lost(&self, host: u32, number: u64) -> Result<(), FileError> {
        match self.lost.borrow_mut().remove(&(host, number)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Nobody is there any more who could be told.
    pub(super) fn forget_lost(&self, host: u32) {
        self.lost.borrow_mut().retain(|(of, _), _| *of != host);
    }

    fn now_ns(&self) -> u64 {
        let cpu = here().expect("a drive's tasks run on its cores");
        self.clock.now_ns(cpu.now())
    }
}

/// Waits until a host whose lease by a place has ended is not amid a write, or a change of its locks; not for ever.
pub(super) async fn still(area: &DmaArea, place: usize) {
    for _ in 0..LOOKS {
        if is_still(area, place) {
            return;
        }
        let cpu = here().expect("a drive's tasks run on its cores");
        cpu.sleep_until(cpu.now() + PAUSE_NS).await;
    }
    // It is stopped, or gone. What it is about to do it does by a command then.
    cut_short(area, place);
}

impl Grant {
    /// Copies what was written under the lease, and makes its entries free.
    fn take(&self) -> Taken {
        let bytes = (self.area.look(size_word(self.place)) & !BUSY).min(FILE_BYTES_MAX);
        let mut words = vec![0_u8; ENTRIES * size_of::<u64>()];
        self.area.copy_out(ENTRY_WORDS_AT, &mut words);
        let mut pages = BTreeMap::new();
        for (entry, word) in words.as_chunks::<8>().0.iter().enumerate() {
            let Some(found) = Entry::from_raw(u64::from_le_bytes(*word)) else {
                continue;
            };
            if found.lease != self.lease as u32 {
                continue;
            }
            let page = self.area.look(page_word(entry));
            // Of a page that has two entries nobody says which is the newer one: no host that keeps to the rules has that.
            if page < FILE_BYTES_MAX / PAGE
                && let Some((other, _)) = pages.insert(page, (entry, found))
            {
                self.area.tell(entry_word(other), 0);
            }
        }
        let mut taken = Taken {
            runs: Vec::new(),
            time_ns: self.area.look(time_word(self.place)),
        };
        for (page, (entry, found)) in pages {
            let (from, to) = (
                page * PAGE + u64::from(found.from),
                (page * PAGE + u64::from(found.to)).min(bytes),
            );
            if from < to {
                let count = (to - from) as usize;
                let at = bytes_at(entry) + usize::from(found.from);
                self.area.copy_out(at, taken.room(from, count));
            }
            self.area.tell(entry_word(entry), 0);
        }
        taken
    }
}

impl Taken {
    /// Room for so many bytes of the file from byte `from` on.
    fn room(&mut self, from: u64, count: usize) -> &mut [u8] {
        let follows = |(start, bytes): &(u64, Vec<u8>)| start + bytes.len() as u64 == from;
        if !self.runs.last().is_some_and(follows) {
            self.runs.push((from, Vec::new()));
        }
        let (_, bytes) = self.runs.last_mut().expect("there is one now");
        let before = bytes.len();
        bytes.resize(before + count, 0);
        &mut bytes[before..]
    }

    /// Writes it to a file.
    async fn write(
        &self,
        fs: &impl FileSystem,
        number: u64,
        caller: &Caller,
        now_ns: u64,
    ) -> Result<(), FileError> {
        let by = By {
            caller,
            // The holder has seen that time already, by its own clock; nobody dates what is to come.
            now_ns: self.time_ns.min(now_ns.saturating_add(AHEAD_NS)),
        };
        for (from, bytes) in &self.runs {
            write_bytes(fs, by, number, *from, bytes).await?;
        }
        Ok(())
    }
}

/// Writes bytes to a file, all of them.
pub(super) async fn write_bytes(
    fs: &impl FileSystem,
    by: By<'_>,
    number: u64,
    from: u64,
    bytes: &[u8],
) -> Result<(), FileError> {
    let mut done = 0;
    while done < bytes.len() {
        let write = Write::at(from + done as u64);
        let data = In::Bytes(&bytes[done..]);
        let written = fs.write(by, number, write, data).await?;
        if written.bytes == 0 {
            return Err(Errno::ENOSPC.into());
        }
        done += written.bytes as usize;
    }
    Ok(())
}
