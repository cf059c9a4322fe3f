//! Leases to write, by commands and by words in memory: what a host keeps is what others find, whatever becomes of it.

use wharf_files::{Caller, Errno};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaArea, of_guest};
use wharf_wire::file::write_area::Words;
use wharf_wire::file::{
    AttributeOperation, FileAttributes, FileHandle, HandleOperation, OpenMode, PathRequest,
};
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

use super::asker::{Asker, UPDATE, head, path};
use super::support::{config, new_rig};
use super::turns::{Turns, script};
use crate::support::rig::{Rig, Script};

/// Pages of an area, its entries, and the bit of a size, as the document has them.
const AREA_PAGES: usize = 4113;
const ENTRIES: usize = 4096;
const BUSY: u64 = 1 << 63;

const PAGE: usize = 4096;

/// The address of a guest's area, as the guest has it.
const GUEST_AREA: u64 = (1 << 40) + (crate::support::host::DATA_PAGES as u64 + 1) * 4096;

const BYTES: u32 = 8192;

fn rig() -> Rig {
    // Each host may keep 4096 pages.
    let mut config = config(2, 12_000);
    config.memory.bytes = 32 << 20;
    config.memory.metadata_bytes = 8 << 20;
    config.memory.journal_bytes = 8 << 20;
    let mut rig = new_rig(config);
    rig.has_guests = true;
    rig.whole_pages = 1 + AREA_PAGES;
    rig
}

fn run(mut rig: Rig, clients: Vec<Script>) {
    rig.run_clients(&wharf_drive::PowerSwitch::on(), clients);
}

/// A host that writes under leases, as the document says.
struct Area {
    area: DmaArea,
    address: u64,
}

impl Area {
    fn of(asker: &Asker) -> Area {
        let (area, address) = asker.host.whole.area(1, AREA_PAGES);
        Area { area, address }
    }

    async fn lease(&self, asker: &mut Asker, file: FileHandle, place: usize) -> u64 {
        let word = self.address + 8 * place as u64;
        let command = asker.aimed(Command::lease_writes(1, file, word, 128));
        let lease = asker.send(command).await.done().unwrap();
        assert_eq!(self.area.look(place), lease);
        lease
    }

    fn put(&self, entry: usize, lease: u64, (page, from): (u64, usize), data: &[u8]) {
        self.area.copy_in((17 + entry) * PAGE + from, data);
        self.area.tell(512 + ENTRIES + entry, page);
        let word = lease << 32 | (from as u64) << 16 | (from + data.len()) as u64;
        self.area.tell(512 + entry, word);
    }

    fn begin(&self, place: usize, bytes: u64) {
        self.area.swap(64 + place, bytes | BUSY);
    }

    fn end(&self, place: usize, before: u64, after: u64) -> bool {
        self.area.exchange(64 + place, before | BUSY, after)
    }

    /// Writes to a page of a file of `bytes` bytes.
    fn write(&self, place: usize, lease: u64, bytes: u64, at: (u64, usize), data: &[u8]) {
        self.begin(place, bytes);
        assert_eq!(self.area.look(place), lease);
        self.put(at.0 as usize % ENTRIES, lease, at, data);
        let end = at.0 * PAGE as u64 + (at.1 + data.len()) as u64;
        assert!(self.end(place, bytes, bytes.max(end)));
    }

    fn is_empty(&self) -> bool {
        (0..ENTRIES).all(|entry| self.area.look(512 + entry) == 0)
    }
}

impl Asker {
    async fn read(&mut self, file: FileHandle, offset: u64, bytes: u32) -> Vec<u8> {
        let read = self.aimed(Command::read_file(1, file, offset, bytes));
        let count = self.send(read).await.done().unwrap();
        self.got(count as usize)
    }

    async fn size(&mut self, name: &[u8]) -> u64 {
        self.stat(name).await.bytes
    }

    async fn stat(&mut self, name: &[u8]) -> FileAttributes {
        let (head, names) = (head(&Caller::root()), path(name));
        let stat = Command::path_request(1, PathRequest::Stat, BYTES);
        self.ask(stat, head, &names).await.done().unwrap();
        FileAttributes::read_from_bytes(&self.got(128)).unwrap()
    }
}

/// All ways in which another one wants `/f`, which it has open; each is told by its number.
const WAYS: u64 = 13;

async fn want(asker: &mut Asker, file: FileHandle, which: u64) {
    let operate = |what| Command::handle_operation(1, file, what, 0, 1);
    let (by_path, names) = (head(&Caller::root()), path(b"/f"));
    let aimed = match which {
        0 => Command::read_file(1, file, 0, 10),
        1 => Command::write_file(1, file, 90_000, 10),
        2 => Command::append_file(1, file, 10),
        3 => sync(file),
        4 => Command::sync_files(1),
        5 => operate(HandleOperation::SeekHole),
        6 => operate(HandleOperation::Zero),
        7 => operate(HandleOperation::AllocateKeepSize),
        8 => Command::lease_file(1, file, asker.host.whole.word(0).1, 128),
        9 => Command::lease_writes(1, file, asker.host.whole.area(1, AREA_PAGES).1, 128),
        10 => {
            assert!(asker.size(b"/f").await > 0);
            return;
        }
        11 => {
            let set = Command::set_file_attributes(1, AttributeOperation::Mode, BYTES).following();
            let mut head = by_path;
            head.mode = 0o600;
            asker.ask(set, head, &names).await.done().unwrap();
            return;
        }
        _ => {
            asker.open(UPDATE, b"/f").await;
            return;
        }
    };
    let command = match which {
        0..=2 | 8 | 9 => asker.aimed(aimed),
        _ => aimed,
    };
    asker.send(command).await.done().unwrap();
}

#[test]
fn whoever_wants_a_file_finds_what_its_holder_has_written() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        for which in 0..WAYS {
            own_turns.pass(2 * which + 1);
            own_turns.wait(&asker.host.cpu, 2 * which + 2).await;
            want(&mut asker, file, which).await;
            // It was taken for that, and not for what comes now.
            let word = of_guest(0, GUEST_AREA + 8 * (which % 64));
            assert_eq!(asker.host.dma.word(word).unwrap().look(), 0, "way {which}");
            let (bytes, end) = (70_000 + which, asker.size(b"/f").await);
            assert!(end >= bytes, "way {which}: {end} bytes");
            let found = asker.read(file, 17 * 4096 - 5, 400).await;
            assert_eq!(found[..5], [0; 5], "way {which}");
            let written = vec![which as u8 + 1; 368 + which as usize];
            assert_eq!(found[5..][..written.len()], written, "way {which}");
            let cut = operate_on(file, HandleOperation::Truncate);
            asker.send(cut).await.done().unwrap();
        }
        own_turns.pass(2 * WAYS + 1);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        assert_eq!(area.address, GUEST_AREA);
        let file = asker.file(UPDATE, b"/f").await;
        for which in 0..WAYS {
            its_turns.wait(&asker.host.cpu, 2 * which + 1).await;
            let place = which as usize % 64;
            let lease = area.lease(&mut asker, file, place).await;
            assert!(lease > 0, "way {which}");
            let data = vec![which as u8 + 1; 368 + which as usize];
            area.write(place, lease, 0, (17, 0), &data);
            its_turns.pass(2 * which + 2);
            its_turns.wait(&asker.host.cpu, 2 * which + 3).await;
            assert_eq!(area.area.look(place), 0, "way {which}");
            assert!(area.is_empty(), "way {which}");
        }
    });
    run(rig(), vec![owner, guest]);
}

fn sync(file: FileHandle) -> Command {
    Command::sync_file(1, file, 0, u64::MAX, false)
}

fn operate_on(file: FileHandle, what: HandleOperation) -> Command {
    Command::handle_operation(1, file, what, 0, 0)
}

#[test]
fn a_holders_own_commands_find_what_it_has_written_and_leave_the_lease() {
    let owner = script(|mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let lease = area.lease(&mut asker, file, 63).await;
        let mut bytes = 0;
        for which in 0..WAYS {
            if which == 9 {
                // Asking again is another lease.
                continue;
            }
            let page = 30 + which;
            area.write(63, lease, bytes, (page, 100), &[7; 50]);
            want(&mut asker, file, which).await;
            let at = page * PAGE as u64 + 100;
            // A name that is looked up is what wants it; one that is opened does too.
            assert_eq!(asker.read(file, at, 50).await, [7; 50], "way {which}");
            assert_eq!(area.area.look(63), lease, "way {which}");
            assert!(area.is_empty(), "way {which}");
            bytes = asker.size(b"/f").await;
        }
        // Another lease for the file, by another place; and another file by this place.
        let next = area.lease(&mut asker, file, 1).await;
        assert_eq!((area.area.look(63), next > lease), (0, true));
        area.write(1, next, bytes, (3, 0), b"first");
        let second = asker.file(UPDATE, b"/g").await;
        let other = area.lease(&mut asker, second, 1).await;
        assert!(other > next);
        assert_eq!(asker.read(file, 3 * PAGE as u64, 5).await, b"first");
        // Entries of a lease that has ended are nobody's.
        area.put(9, next, (4, 0), b"late");
        area.write(1, other, 0, (0, 0), b"second");
        let close = Command::close_file(1, second);
        asker.send(close).await.done().unwrap();
        assert_eq!(area.area.look(1), 0);
        let second = asker.file(UPDATE, b"/g").await;
        assert_eq!(asker.read(second, 0, 100).await, b"second");
        assert_ne!(asker.read(file, 4 * PAGE as u64, 4).await, b"late");
        assert_eq!(area.area.look(512 + 9) >> 32, next);
    });
    run(rig(), vec![owner]);
}

/// Clocks of hosts are not the drive's: a little later is what the holder has seen, and much later is no time of a write.
#[test]
fn a_holder_dates_what_it_writes_by_its_own_clock_which_is_about_right() {
    const SECOND_NS: u64 = 1_000_000_000;
    let owner = script(|mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let lease = area.lease(&mut asker, file, 5).await;
        let (mut bytes, mut earlier) = (0, 0);
        for (page, said) in [(0, SECOND_NS / 2), (1, 3 * SECOND_NS / 4), (2, u64::MAX)] {
            area.area.tell(128 + 5, said);
            area.write(5, lease, bytes, (page, 0), b"dated");
            asker.read(file, 0, 5).await;
            let found = asker.stat(b"/f").await;
            bytes = found.bytes;
            let is_as_said = found.modified_ns == said;
            let is_about_now = found.modified_ns > SECOND_NS && found.modified_ns < 2 * SECOND_NS;
            assert!(is_as_said || said == u64::MAX && is_about_now, "{found:?}");
            assert!(found.modified_ns > earlier);
            earlier = found.modified_ns;
        }
    });
    run(rig(), vec![owner]);
}

/// Whoever leaves, and whoever is gone, has lost nothing that it had written.
#[test]
fn what_a_host_has_written_stays_when_it_is_gone() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        for round in 0..2_u64 {
            own_turns.wait(&asker.host.cpu, round + 1).await;
            if round == 1 {
                let gone = {
                    let qid = asker.host.queues.len() as u16 + 1;
                    let delete = Command::delete_submission_queue(qid);
                    asker.host.admin_status(delete).await
                };
                assert_eq!(gone, StatusCode::Success);
            }
            let name = format!("/f{round}");
            let file = asker.file(UPDATE, name.as_bytes()).await;
            assert_eq!(asker.size(name.as_bytes()).await, 3 * 4096 + 9);
            let mut expected = vec![0; 9];
            expected.extend(b"inherited");
            assert_eq!(asker.read(file, 3 * 4096 - 9, 100).await, expected);
        }
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        for round in 0..2_u64 {
            let file = asker.file(UPDATE, format!("/f{round}").as_bytes()).await;
            let lease = area.lease(&mut asker, file, 5).await;
            area.write(5, lease, 0, (3, 0), b"inherited");
            if round == 0 {
                asker.send(Command::leave_files(1)).await.done().unwrap();
                assert_eq!(area.area.look(5), 0);
            }
            its_turns.pass(round + 1);
        }
    });
    run(rig(), vec![owner, guest]);
}

#[test]
fn a_holder_that_stops_amid_a_write_holds_others_up_for_a_limited_time() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        own_turns.pass(1);
        own_turns.wait(&asker.host.cpu, 2).await;
        let before_ns = asker.host.cpu.now();
        let found = asker.read(file, 0, 100).await;
        let waited_ns = asker.host.cpu.now() - before_ns;
        // What it had written is there; what it was amid of writing has not taken effect.
        assert_eq!(found, b"before");
        assert!(
            (20_000_000..200_000_000).contains(&waited_ns),
            "{waited_ns} ns"
        );
        own_turns.pass(3);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        its_turns.wait(&asker.host.cpu, 1).await;
        let file = asker.file(UPDATE, b"/f").await;
        let lease = area.lease(&mut asker, file, 0).await;
        area.write(0, lease, 0, (0, 0), b"before");
        area.begin(0, 6);
        area.put(0, lease, (0, 0), b"before and after");
        its_turns.pass(2);
        its_turns.wait(&asker.host.cpu, 3).await;
        assert_eq!(area.area.look(0), 0);
        // It is told, and writes it by a command.
        assert!(!area.end(0, 6, 16));
    });
    run(rig(), vec![owner, guest]);
}

#[test]
fn what_finds_no_room_is_told_to_who_has_written_it() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        own_turns.wait(&asker.host.cpu, 1).await;
        let file = asker.file(UPDATE, b"/all").await;
        let mut bytes = 1 << 20;
        while bytes >= PAGE as u32 {
            let append = asker.aimed(Command::append_file(1, file, bytes));
            match asker.send(append).await.done() {
                Ok(_) => {}
                Err(errno) => {
                    assert_eq!(errno, Errno::ENOSPC.number());
                    bytes /= 2;
                }
            }
        }
        own_turns.pass(2);
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let kept = asker.host.whole.word(0);
        let ask = asker.aimed(Command::lease_file(1, file, kept.1, 128));
        assert!(asker.send(ask).await.done().unwrap() > 0);
        let lease = area.lease(&mut asker, file, 0).await;
        assert!(lease > 0);
        for page in 0..64 {
            area.write(0, lease, page * PAGE as u64, (page, 0), &[9; PAGE]);
        }
        its_turns.pass(1);
        its_turns.wait(&asker.host.cpu, 2).await;
        let sync = sync(file);
        assert_eq!(asker.send(sync).await.done(), Err(Errno::ENOSPC.number()));
        // What it keeps of the file is not so.
        assert_eq!(kept.0.look(), 0);
        // Once.
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        // Now there is no room, and no lease any more.
        assert_eq!(area.lease(&mut asker, file, 0).await, 0);
    });
    run(rig(), vec![owner, guest]);
}

#[test]
fn what_is_no_lease_to_write_is_refused() {
    let owner = script(|mut asker| async move {
        let area = Area::of(&asker);
        let file = asker.file(UPDATE, b"/f").await;
        let wrong = [
            (8 * 64, 128, StatusCode::InvalidField),
            (4, 128, StatusCode::InvalidField),
            (0, 127, StatusCode::InvalidField),
            // The area does not fit there.
            (4096, 128, StatusCode::DataTransferError),
            (1 << 63, 128, StatusCode::DataTransferError),
            (u64::MAX << 40, 128, StatusCode::DataTransferError),
        ];
        for (at, bytes, status) in wrong {
            let word = area.address.wrapping_add(at);
            let command = asker.aimed(Command::lease_writes(1, file, word, bytes));
            assert_eq!(asker.send(command).await.status, status, "{at:#x}");
        }
        let read_only = OpenMode {
            read: true,
            ..OpenMode::default()
        };
        let file = asker.file(read_only, b"/f").await;
        let command = asker.aimed(Command::lease_writes(1, file, area.address, 128));
        assert_eq!(asker.send(command).await.done(), Err(Errno::EBADF.number()));
        // A write would take the bit away.
        let mut head = head(&Caller::root());
        head.mode = 0o4755;
        let set = Command::set_file_attributes(1, AttributeOperation::Mode, BYTES).following();
        asker.ask(set, head, &path(b"/f")).await.done().unwrap();
        let file = asker.file(UPDATE, b"/f").await;
        assert_eq!(area.lease(&mut asker, file, 0).await, 0);
    });
    run(rig(), vec![owner]);
}

/// A host that writes anything to its area changes its own file, and that to what it could have written.
#[test]
fn a_host_that_writes_anything_to_its_area_changes_its_own_files_alone() {
    const ROUNDS: u64 = 60;
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let (own, shared) = (
            asker.file(UPDATE, b"/own").await,
            asker.file(UPDATE, b"/f").await,
        );
        asker.put(0, &[5; PAGE]);
        let write = asker.aimed(Command::write_file(1, own, 0, PAGE as u32));
        asker.send(write).await.done().unwrap();
        for round in 0..ROUNDS {
            own_turns.pass(2 * round + 1);
            own_turns.wait(&asker.host.cpu, 2 * round + 2).await;
            let size = asker.size(b"/f").await;
            assert!(size <= i64::MAX as u64, "{size}");
            asker.read(shared, 0, 4096).await;
            assert_eq!(asker.read(own, 0, 8192).await, [5; PAGE]);
            let cut = operate_on(shared, HandleOperation::Truncate);
            asker.send(cut).await.done().unwrap();
        }
    });
    let guest = script(move |mut asker| async move {
        let area = Area::of(&asker);
        let mut state = 11_u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 20
        };
        for round in 0..ROUNDS {
            its_turns.wait(&asker.host.cpu, 2 * round + 1).await;
            let file = asker.file(UPDATE, b"/f").await;
            let lease = area.lease(&mut asker, file, 0).await;
            for _ in 0..200 {
                let entry = next() as usize % ENTRIES;
                let page = next() >> (next() % 64);
                area.area.tell(512 + ENTRIES + entry, page);
                area.area
                    .tell(512 + entry, lease << 32 | next() & 0x1fff_1fff);
            }
            let size = next() << (next() % 30);
            area.area.tell(64, size & !BUSY);
            area.area.tell(128, next() << 20);
            // It may also take it for lost.
            if round % 3 == 0 {
                area.area.tell(0, next());
            }
            if round % 5 == 0 {
                let sync = sync(file);
                let _ = asker.send(sync).await.status;
            }
            its_turns.pass(2 * round + 2);
        }
    });
    run(rig(), vec![owner, guest]);
}
