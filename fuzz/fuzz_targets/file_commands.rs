//! Any bytes as commands for files, with requests that are right, or wrong somewhere: the drive never panics and
//! never hangs, every command gets exactly one completion, and the file system can be opened afterwards.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_drive::config::{DriveConfig, FileSystemKind, LinkKind, MediaKind, NewFiles};
use wharf_drive::{Drive, DriveHandle, PowerSwitch};
use wharf_files::block::Make;
use wharf_files::gpt::Guid;
use wharf_fuzz::host::IDLE_POLLS_MAX;
use wharf_fuzz::input::Input;
use wharf_host::DriverConfig;
use wharf_host::admin::offer_queues;
use wharf_host::boot::{PoweredOn, Spread, make_ready};
use wharf_host::gate::Gate;
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES};
use wharf_wire::file::{
    Caller, FileHandle, FileSystemState, Names, RequestHead, STEPS_MAX, Start, StartKind,
    VECTOR_HEAD_BYTES, VectorHead, VectorPlace, VectorStep,
};
use wharf_wire::identify::DriveFeature;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::queue::HostQueue;
use zerocopy::IntoBytes;

const NEW: NewFiles = NewFiles {
    disk: Guid([1; 16]),
    partition: Guid([2; 16]),
    make: Make {
        file_system: 9,
        hash_key: [3, 4],
        now_ns: 5,
        uid: 0,
        gid: 0,
        mode: 0o777,
    },
};

const PATHS: [&[u8]; 8] = [b"/", b"a", b"/b", b"a/b", b"", b"/../a/.", b"a/", b"/loop"];

/// Pages of the buffer.
const PAGES: usize = 8;

/// Commands in flight at most.
const DEPTH: u32 = 4;

fn config(flags: u64) -> DriveConfig {
    let mut config = wharf_fuzz::tiny();
    let (kind, persistent_bytes) = match flags >> 3 & 3 {
        2 => (FileSystemKind::Wpm, 4 << 20),
        3 => (FileSystemKind::Wpm, 0),
        _ => (FileSystemKind::Wfs, 0),
    };
    config.file_system = Some(kind);
    config.persistent_memory.bytes = persistent_bytes;
    config.media.kind = MediaKind::Ram;
    config.geometry.pages_per_block = 16;
    config.geometry.blocks_per_plane = 64;
    config.host_memory.enabled = false;
    config.firmware.commands_max = if flags & 1 != 0 { 2 } else { 32 };
    config.firmware.parts_max = if flags & 2 != 0 { 1 } else { 8 };
    config.ftl.write_buffer_pages = 32;
    config.memory.bytes = 4 << 20;
    config.memory.metadata_bytes = if flags & 4 != 0 { 64 << 10 } else { 1 << 20 };
    config.memory.journal_bytes = 2 << 20;
    config.memory.transfer_bytes = 256 << 10;
    config.memory.near_bytes = 64 << 10;
    config.link.kind = LinkKind::Cxl;
    config.memory.compute_bytes = 256 << 10;
    config
}

/// A host: its queue, its memory, the handles that it was given.
struct Host {
    cpu: Cpu,
    queue: HostQueue,
    data: DmaRegion,
    handles: Vec<u64>,
    owed: Vec<u16>,
    /// One of them may wait for a lock.
    may_wait: bool,
    cid: u16,
}

impl Host {
    async fn play(mut self, input: &mut Input<'_>) {
        while !input.is_empty() {
            while self.owed.len() as u32 >= DEPTH {
                self.end_waits();
                self.take().await;
            }
            let command = self.command(input);
            self.may_wait |= command.opcode == IoOpcode::LockFile.raw() && command.lock_waits();
            self.send(command);
            if input.number(1) % 4 != 0 {
                self.drain().await;
                if command.opcode == IoOpcode::OpenFile.raw() {
                    // SAFETY: no command is in flight.
                    let answer = unsafe { self.data.page_mut(0) };
                    let raw = answer[128..136].try_into().expect("8 bytes");
                    self.handles.push(u64::from_le_bytes(raw));
                }
            }
        }
        self.drain().await;
    }

    async fn drain(&mut self) {
        self.end_waits();
        while !self.owed.is_empty() {
            self.take().await;
        }
    }

    fn send(&mut self, command: Command) {
        self.cid = self.cid.wrapping_add(1);
        self.owed.push(self.cid);
        let sent = self.queue.submit(&self.cpu, command.with_cid(self.cid));
        assert!(sent.is_ok(), "the queue has room");
        self.queue.ring_doorbell(&self.cpu);
    }

    /// Has commands end that may wait for a lock: a host that leaves waits for nothing.
    fn end_waits(&mut self) {
        if std::mem::take(&mut self.may_wait) {
            self.send(Command::leave_files(1));
        }
    }

    async fn take(&mut self) {
        let notifier = self.queue.notifier().clone();
        loop {
            if let Some(found) = self.queue.poll(&self.cpu) {
                self.queue.release();
                let at = self.owed.iter().position(|cid| *cid == found.cid);
                self.owed
                    .swap_remove(at.expect("one completion for each command"));
                self.cpu.progress();
                return;
            }
            notifier.wait(&self.cpu).await;
        }
    }

    fn handle(&self, input: &mut Input) -> u64 {
        match input.number(1) {
            0 => input.number(8),
            _ if self.handles.is_empty() => 0,
            nth => self.handles[nth as usize % self.handles.len()],
        }
    }

    /// A request with some bytes that are anything.
    fn request(&self, input: &mut Input) -> Vec<u8> {
        let mut start = || {
            let kind = StartKind::ALL[input.number(1) as usize % 3];
            let value = match kind {
                StartKind::Handle => self.handle(input),
                _ => input.number(1),
            };
            Start { kind, value }
        };
        let (first, second) = (start(), start());
        let names = Names {
            path: (first, input.one_of(&PATHS)),
            path2: (second, input.one_of(&PATHS)),
            value: b"value",
        };
        let uid = input.number(1) as u32 & 1;
        let mut head = RequestHead::of(Caller {
            uid,
            gid: uid,
            groups: &[],
        });
        head.mode = 0o755;
        head.size = input.number(2);
        head.special = input.number(1) as u16 & 7;
        let mut bytes = head.with_names(&names).expect("it is short");
        for _ in 0..(input.number(1) as usize).saturating_sub(252) {
            let at = input.number(2) as usize % bytes.len();
            bytes[at] = input.number(1) as u8;
        }
        bytes
    }

    /// A vector of a few steps between open files, processing buffers and the command's own buffer.
    fn vector(&self, input: &mut Input) -> Vec<u8> {
        let count = input.number(1) as usize % (STEPS_MAX + 1);
        let mut head = VectorHead::new(count as u32);
        head.buffer_bytes = [input.number(2) as u32, input.number(1) as u32, 0, 0];
        let mut bytes = head.as_bytes().to_vec();
        for _ in 0..count {
            let kinds = input.number(1) as u8;
            let mut place = |kind: u8| VectorPlace {
                name: match kind {
                    1 | 2 => self.handle(input),
                    _ => input.number(1) & 1,
                },
                offset: input.number(if kinds >> 6 == 3 { 8 } else { 2 }),
                bytes: input.number(2),
            };
            let (from_kind, to_kind) = (kinds & 7, kinds >> 3 & 7);
            let (from, to) = (place(from_kind), place(to_kind));
            let step = VectorStep {
                function: input.number(1) as u8 % 7,
                from_kind,
                to_kind,
                flags: input.number(1) as u8 & 7,
                count: input.number(1) as u32 % 20,
                argument_offset: input.number(1) as u32 * 4,
                argument_bytes: input.number(1) as u32 % 64,
                from,
                to,
            };
            bytes.extend(step.as_bytes());
        }
        // Some bytes are anything, but not those that would have it scan for years.
        let steps_at = size_of::<VectorHead>();
        for _ in 0..(input.number(1) as usize).saturating_sub(252) {
            let step = input.number(1) as usize % (count + 1);
            let at = match step {
                0 => input.number(1) as usize % steps_at,
                nth => {
                    steps_at + (nth - 1) * size_of::<VectorStep>() + input.number(1) as usize % 16
                }
            };
            bytes[at] = input.number(1) as u8;
        }
        // What steps take from the command's buffer.
        bytes.resize(VECTOR_HEAD_BYTES, 0);
        bytes.extend(input.take(64));
        bytes
    }

    fn command(&mut self, input: &mut Input) -> Command {
        let mut command = Command::close_file(1, FileHandle::from_raw(self.handle(input)));
        command.opcode = match (input.number(1) % 18) as u8 {
            10 => IoOpcode::TestLock.raw(),
            11 => IoOpcode::LockFile.raw(),
            12 => IoOpcode::LeaseFile.raw(),
            13 => IoOpcode::Authenticate.raw(),
            14 => IoOpcode::WriteNear.raw(),
            15 => IoOpcode::ReadNear.raw(),
            16 => IoOpcode::EvictNear.raw(),
            17 => IoOpcode::Vector.raw(),
            low => IoOpcode::CloseFile.raw() + low,
        };
        let wild = input.number(1);
        let number = |input: &mut Input, bit: u64| match wild >> bit & 1 {
            0 => input.number(2),
            _ => input.number(8),
        };
        let mut offset = number(input, 0);
        if command.opcode == IoOpcode::LeaseFile.raw() && wild & 8 == 0 {
            // A word of its own.
            offset = self.data.address(PAGES - 1) + offset % 512 * 8;
        }
        if command.opcode == IoOpcode::Vector.raw() && wild & 8 == 0 {
            command = Command::vector(1, PAGE_BYTES as u32);
            offset = 0;
        }
        (command.cdw12, command.cdw13) = (offset as u32, (offset >> 32) as u32);
        command.cdw14 = match wild & 0x30 {
            0x30 => input.number(4) as u32,
            _ => PAGE_BYTES as u32,
        };
        command.cdw15 = match wild & 0x40 {
            0 => (input.number(1) % 20) as u32 | (input.number(1) as u32 & 15) << 8,
            _ => input.number(4) as u32,
        };
        let bytes = match command.opcode == IoOpcode::Vector.raw() {
            true => self.vector(input),
            false => self.request(input),
        };
        // SAFETY: it is the drive that must stand a request that changes while it is served.
        let buffer = unsafe { self.data.page_mut(0) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        let page = |nth: usize| self.data.address(nth % PAGES);
        match (command.opcode & 3, wild & 0x80) {
            (0, _) => command.with_prp(number(input, 1), offset & 3),
            (_, 0) => command.with_prp(page(0), page(1)),
            _ => command.with_prp(input.number(8), input.number(8)),
        }
    }
}

/// A drive that has power, with a client that plays once the file system is open.
fn power_on(
    drive: Drive,
    machine: &mut Machine,
    play: impl AsyncFnOnce(Host) + Send + 'static,
) -> DriveHandle {
    let space = DmaSpace::new(PAGE_BYTES);
    let handle = drive.power_on(machine, "drive", &space, &PowerSwitch::on());
    let mut handle = handle.unwrap_or_else(|error| panic!("{error}"));
    let spare = handle.new_queue(0, 2).0;
    let admin = std::mem::replace(&mut handle.admin, spare);
    let new_queue = |qid, entries| handle.new_queue(qid, entries);
    let made = offer_queues(&space, 1, 2 * DEPTH, new_queue).expect("memory");
    let (queue, offer) = made.into_iter().next().expect("one was made");
    let powered = PoweredOn {
        admin,
        offers: vec![offer],
        later: 0,
        features: &[DriveFeature::FileSystem],
        hmb: None,
    };
    let gate: Gate<()> = Gate::new(1);
    let boot = machine.add_cpu("boot", Side::Host, 1.0);
    let (of_boot, opens) = (space.clone(), gate.clone());
    machine.spawn(boot, "boot", async move |cpu| {
        let config = DriverConfig::default();
        let made = make_ready(&cpu, &of_boot, vec![powered], Spread::striped(1), config).await;
        let (admins, _) = made.expect("the drive is ready");
        while admins[0].file_system().await.expect("a log").state()
            == Some(FileSystemState::Opening)
        {
            cpu.sleep_until(cpu.now() + 1000).await;
        }
        let log = admins[0].file_system().await.expect("a log");
        assert_eq!(log.state(), Some(FileSystemState::Open), "{}", log.text());
        opens.open(&cpu, ());
        std::future::pending::<()>().await;
    });
    let client = machine.add_cpu("client", Side::Host, 1.0);
    machine.spawn_main(client, "client", async move |cpu: Cpu| {
        gate.pass(&cpu, 0).await;
        let data: DmaRegion = space.register(PAGES).expect("memory");
        play(Host {
            cpu,
            queue,
            data,
            handles: Vec::new(),
            owed: Vec::new(),
            may_wait: false,
            cid: 0,
        })
        .await;
        // Commands may name its pages until here.
        drop(space);
    });
    handle
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let config = config(input.number(1));
    let (seed, bytes) = (Seed(input.number(1)), input.rest().to_vec());
    let drive = Drive::new(config).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(CostTable::free(), false);
    let handle = power_on(drive.with_new_files(NEW), &mut machine, async move |host| {
        host.play(&mut Input::new(&bytes)).await;
    });
    let run = machine.run_virtual_bounded(seed, IDLE_POLLS_MAX);
    run.unwrap_or_else(|stall| panic!("the drive hangs: {stall}"));
    let mut machine = Machine::new(CostTable::free(), false);
    let handle = power_on(handle.power_off(), &mut machine, async |_| {});
    let run = machine.run_virtual_bounded(seed, IDLE_POLLS_MAX);
    run.unwrap_or_else(|stall| panic!("the drive hangs: {stall}"));
    drop(handle);
});
