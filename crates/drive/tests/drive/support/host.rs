//! The script's hands: commands out, completions in, pages filled and read.

use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::admin::Cns;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::dsm::{DsmRange, write_ranges};
use wharf_wire::log_page::LogPage;
use wharf_wire::prp::prp_for;
use wharf_wire::queue::HostQueue;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

/// Pages of data that a host has.
pub const DATA_PAGES: usize = 600;

/// Whole pages that a host has: lists, ranges, log pages.
pub const WHOLE_PAGES: usize = 40;

/// The address at which the queue pair `qid` is offered.
pub fn queue_address(qid: u16) -> u64 {
    u64::from(qid) << 12
}

/// One client: a CPU, its I/O queues, its memory. The first has the admin queue too.
pub struct Host {
    pub cpu: Cpu,
    pub dma: Arc<DmaSpace>,
    pub admin: Option<HostQueue>,
    pub queues: Vec<HostQueue>,
    pub data: DmaRegion,
    pub whole: DmaRegion,
    pub next_cid: u16,
}

/// Waits for the next completion on a queue.
pub async fn completion(cpu: &Cpu, queue: &mut HostQueue) -> Completion {
    let notifier = queue.notifier().clone();
    loop {
        if let Some(found) = queue.poll(cpu) {
            queue.release();
            cpu.progress();
            return found;
        }
        notifier.wait(cpu).await;
    }
}

impl Host {
    fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// Sends an admin command and waits for its answer.
    pub async fn admin(&mut self, command: Command) -> Completion {
        let cid = self.cid();
        let queue = self.admin.as_mut().expect("this host has the admin queue");
        queue
            .submit(&self.cpu, command.with_cid(cid))
            .expect("the admin queue has room");
        queue.ring_doorbell(&self.cpu);
        let found = completion(&self.cpu, queue).await;
        assert_eq!(found.cid, cid, "the answer to another admin command");
        found
    }

    /// Sends an admin command; gives its status.
    pub async fn admin_status(&mut self, command: Command) -> StatusCode {
        code(&self.admin(command).await)
    }

    /// Sends a command on I/O queue `queue` (from 0) and rings the doorbell; gives its identifier.
    pub fn send(&mut self, queue: usize, command: Command) -> u16 {
        let cid = self.cid();
        let queue = &mut self.queues[queue];
        queue
            .submit(&self.cpu, command.with_cid(cid))
            .expect("the queue has room");
        queue.ring_doorbell(&self.cpu);
        cid
    }

    /// The next completion on I/O queue `queue`.
    pub async fn next(&mut self, queue: usize) -> Completion {
        completion(&self.cpu, &mut self.queues[queue]).await
    }

    /// Sends an I/O command on the first queue and waits for its answer: nothing else is in flight.
    pub async fn io(&mut self, command: Command) -> StatusCode {
        let cid = self.send(0, command);
        let found = self.next(0).await;
        assert_eq!(found.cid, cid, "the answer to another command");
        code(&found)
    }

    /// Reads the start of a log page.
    pub async fn log<T: FromBytes>(&mut self, page: LogPage) -> T {
        let bytes = size_of::<T>() as u32;
        let command = Command::get_log_page(page, 0, bytes).with_prp(self.whole.address(0), 0);
        assert_eq!(
            self.admin_status(command).await,
            StatusCode::Success,
            "{page:?}"
        );
        T::read_from_prefix(self.whole_page(0))
            .expect("a page holds it")
            .0
    }

    /// The statistics of the whole drive.
    pub async fn statistics(&mut self) -> DriveStatistics {
        self.log(LogPage::DriveStatistics).await
    }

    /// The same after `refused` commands, which are counted as on the link, and nowhere else: that is what they had before.
    pub async fn statistics_before(&mut self, refused: u64) -> DriveStatistics {
        let mut statistics = self.statistics().await;
        statistics.link_from_host_bytes -= 64 * refused;
        statistics.link_to_host_bytes -= 16 * refused;
        statistics
    }

    /// Makes everything durable.
    pub async fn flush(&mut self) -> StatusCode {
        self.io(Command::flush(1)).await
    }

    /// Writes a page with force unit access.
    pub async fn write_forced(&mut self, lba: u64, value: u64) -> StatusCode {
        self.fill(0, value);
        let command = self.aim(Command::write(1, lba, 1).with_fua(), 1, 0, 0);
        self.io(command).await
    }

    /// Reads identify data.
    pub async fn identify<T: FromBytes>(&mut self, nsid: u32, what: Cns) -> T {
        let command = Command::identify(nsid, what).with_prp(self.whole.address(0), 0);
        assert_eq!(
            self.admin_status(command).await,
            StatusCode::Success,
            "{what:?}"
        );
        T::read_from_prefix(self.whole_page(0))
            .expect("a page holds it")
            .0
    }

    /// Creates the I/O queue pair `qid`, which is offered already.
    pub async fn create_queue(&mut self, qid: u16, depth: u32) -> StatusCode {
        let at = queue_address(qid);
        let status = self
            .admin_status(Command::create_completion_queue(qid, depth, at))
            .await;
        if status != StatusCode::Success {
            return status;
        }
        self.admin_status(Command::create_submission_queue(qid, depth, qid, at))
            .await
    }

    /// Points `command`, of `pages` pages, at data pages from `first` on; a list, if it takes one,
    /// goes to the whole page `list` and those after it.
    pub fn aim(&self, command: Command, pages: u32, first: usize, list: usize) -> Command {
        let data: Vec<u64> = (first..first + pages as usize)
            .map(|page| self.data.address(page))
            .collect();
        let lists: Vec<u64> = (list..self.whole.pages())
            .map(|p| self.whole.address(p))
            .collect();
        let write = |at: u64, value: u64| self.poke(at, value);
        let (prp1, prp2) = prp_for(&data, &lists, write).expect("the transfer can be described");
        command.with_prp(prp1, prp2)
    }

    /// Writes a word of a whole page, by its address.
    pub fn poke(&self, at: u64, value: u64) {
        // SAFETY: the host writes lists before it sends the command that names them.
        unsafe { self.dma.write_bytes(at, &value.to_le_bytes()) }.expect("a whole page");
    }

    /// Writes `pages` pages of `value + offset` from `lba` on, and waits.
    pub async fn write(&mut self, lba: u64, pages: u32, value: u64) -> StatusCode {
        for page in 0..pages as usize {
            self.fill(page, value + page as u64);
        }
        let command = self.aim(Command::write(1, lba, pages), pages, 0, 0);
        self.io(command).await
    }

    /// Reads one page, and waits.
    pub async fn read(&mut self, lba: u64) -> Result<u64, StatusCode> {
        self.fill(0, u64::MAX);
        let command = self.aim(Command::read(1, lba, 1), 1, 0, 0);
        match self.io(command).await {
            StatusCode::Success => Ok(self.value(0).expect("a whole page")),
            status => Err(status),
        }
    }

    /// Deallocates ranges, and waits.
    pub async fn deallocate(&mut self, ranges: &[(u64, u32)]) -> StatusCode {
        let command = self.deallocate_command(ranges, 0);
        self.io(command).await
    }

    /// A command that deallocates ranges, whose list goes to the whole page `list`.
    pub fn deallocate_command(&self, ranges: &[(u64, u32)], list: usize) -> Command {
        let ranges: Vec<DsmRange> = ranges
            .iter()
            .map(|(at, n)| DsmRange::new(*at, *n))
            .collect();
        let count = write_ranges(&ranges, self.whole_page(list)).expect("1 to 256 ranges");
        Command::deallocate(1, count).with_prp(self.whole.address(list), 0)
    }

    /// Fills a data page so that every word of it tells a mixture from the whole.
    pub fn fill(&self, page: usize, value: u64) {
        // SAFETY: no command in flight names the page, no other reference to it is alive.
        let bytes = unsafe { self.data.page_mut(page) };
        fill_page(bytes, value);
    }

    /// The value that fills a data page; an error if it is a mixture.
    pub fn value(&self, page: usize) -> Result<u64, String> {
        // SAFETY: as in `fill`.
        whole_value(unsafe { self.data.page_mut(page) })
    }

    /// A whole page's bytes.
    #[allow(clippy::mut_from_ref)] // pages are hmb one by one
    pub fn whole_page(&self, page: usize) -> &mut [u8] {
        // SAFETY: as in `fill`.
        unsafe { self.whole.page_mut(page) }
    }
}

/// Words of a page of `value`, of 512, that do not compress.
pub fn random_words(value: u64) -> u64 {
    mix(value) % 640
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 29)
}

/// Word number `index` of a page of `value`: the value itself in the first, then a share of words that
/// do not compress, which depends on the value as they do; the rest repeats it. Zeros are zeros.
fn word_of(value: u64, index: usize) -> u64 {
    match index {
        0 => value,
        _ if value != 0 && (index as u64) < random_words(value) => mix(value ^ mix(index as u64)),
        _ => value,
    }
}

/// Fills a page with what follows from `value`.
pub fn fill_page(bytes: &mut [u8], value: u64) {
    for (index, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = word_of(value, index).to_le_bytes();
    }
}

/// The value that a page follows from.
pub fn whole_value(bytes: &[u8]) -> Result<u64, String> {
    let words = bytes.as_chunks::<8>().0;
    let value = u64::from_le_bytes(words[0]);
    let mut numbered = words.iter().enumerate();
    match numbered.position(|(index, word)| *word != word_of(value, index).to_le_bytes()) {
        None => Ok(value),
        Some(at) => Err(format!(
            "a torn page: word 0 is {value:x?}, word {at} is {:x?}",
            words[at]
        )),
    }
}

/// The status of a completion; panics on one that the command set does not have.
pub fn code(completion: &Completion) -> StatusCode {
    completion
        .status()
        .code()
        .expect("a status of the command set")
}
