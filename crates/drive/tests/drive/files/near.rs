//! The drive's cache of pages of files.

use wharf_drive::PowerSwitch;
use wharf_drive::config::LinkKind;
use wharf_files::Errno;
use wharf_files::model::ModelLimits;
use wharf_files::testing::beside::{
    Difference, Room, assert_alike, compare_answers, compare_views, new_model,
};
use wharf_files::testing::program::{Step, callers};
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::Users;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::{Likeness, view};
use wharf_files::vfs::SessionLimits;
use wharf_runtime::Seed;
use wharf_wire::admin::Cns;
use wharf_wire::command::Command;
use wharf_wire::file::{DeviceCacheLog, Evict, FileHandle, HandleOperation, NearResult, OpenMode};
use wharf_wire::identify::{DriveFeature, IdentifyController};
use wharf_wire::log_page::LogPage;
use wharf_wire::status::StatusCode;

use super::asker::{Asker, UPDATE};
use super::subject::ByCommands;
use super::support::{Home, config, new_rig, run, run_on, seen_and_sound, sound};
use super::turns::{Turns, script};

const PAGE: u64 = 4096;

/// Pages that the drive has in its cache, and those of them that are dirty. It must be in order.
pub async fn near_pages(asker: &mut Asker) -> (u32, u32) {
    let (sender, receiver) = std::sync::mpsc::channel();
    run_on(&mut asker.host, 0, |at| {
        Box::pin(async move {
            let _ = sender.send(at.firmware.near_pages());
        })
    })
    .await;
    receiver.recv().expect("it was looked at")
}

async fn send(asker: &mut Asker, command: Command) -> NearResult {
    let command = asker.aimed(command);
    let reply = asker.send(command).await;
    NearResult::from_raw(reply.done().expect("it can be done"))
}

async fn read(asker: &mut Asker, handle: FileHandle, from: u64, bytes: u32) -> Vec<u8> {
    let read = Command::read_file(1, handle, from, bytes);
    let read = asker.aimed(read);
    let count = asker.send(read).await.done().expect("it can be read");
    asker.got(count as usize)
}

async fn send_number(asker: &mut Asker, command: Command) -> u64 {
    asker.send(command).await.done().expect("it can be done")
}

/// A file of so many pages of ones, on the media.
async fn file(asker: &mut Asker, pages: u64) -> FileHandle {
    file_of(asker, b"/near", pages).await
}

/// The same by this name.
async fn file_of(asker: &mut Asker, name: &[u8], pages: u64) -> FileHandle {
    let handle = asker.file(UPDATE, name).await;
    let data = vec![1; (pages * PAGE) as usize];
    asker.put(0, &data);
    let write = Command::write_file(1, handle, 0, data.len() as u32);
    let write = asker.aimed(write);
    assert_eq!(asker.send(write).await.done(), Ok(pages * PAGE));
    let sync = Command::sync_file(1, handle, 0, u64::MAX, false);
    assert_eq!(asker.send(sync).await.done(), Ok(0));
    handle
}

/// Runs a test on a drive with so many pages of cache.
fn with_cache<F: Future<Output = ()> + 'static>(
    pages: u64,
    test: impl FnOnce(Asker) -> F + Send + 'static,
) {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = pages * PAGE;
    let mut rig = new_rig(config);
    run(&mut rig, move |host| test(Asker::new(host)));
}

pub fn alike(program: &[Step], home: Home, pages: u64, seed: u64) -> Result<(), Difference> {
    let mut config = home.config(1 + seed as u32 % 3, 4_000);
    config.memory.near_bytes = pages * PAGE;
    config.memory.protected = seed % 5 == 2;
    let has_window = (seed / 9).is_multiple_of(2);
    if has_window {
        config.link.kind = LinkKind::Cxl;
    }
    let mut rig = new_rig(config);
    rig.queues_per_client = 2;
    let program = program.to_vec();
    let (sender, receiver) = std::sync::mpsc::channel();
    run(&mut rig, move |host| async move {
        let model = new_model(ModelLimits::default());
        let mut oracle = Users::new(&&model, &callers(), SessionLimits::default());
        let mut subject = ByCommands::new(Asker::new(host)).near(Seed(seed).rng());
        let compared = compare_answers(&mut subject, &mut oracle, &program, Room::Enough).await;
        let hits = subject.window.as_ref().map(|window| window.hits);
        assert_eq!(hits.is_some(), has_window);
        hits.inspect(|hits| println!("{hits} requests without a command"));
        let (all, _) = near_pages(&mut subject.asker).await;
        assert!(u64::from(all) <= pages, "a budget is a wall");
        let synced = subject.asker.send(Command::sync_files(1)).await;
        assert_eq!(synced.done(), Ok(0));
        let (_, dirty) = near_pages(&mut subject.asker).await;
        assert_eq!(dirty, 0, "all is on the media");
        subject.close_all().await;
        oracle.close_all().await.expect("it forgets all");
        let left = subject.asker.send(Command::leave_files(1)).await;
        assert_eq!(left.done(), Ok(0));
        let nothing = near_pages(&mut subject.asker).await;
        assert_eq!(nothing, (0, 0), "who leaves leaves nothing");
        let right = view(&model).await;
        let seen = seen_and_sound(&mut subject.asker.host).await;
        let result = compared.and_then(|()| compare_views(&seen, &right, Likeness::NO_TIMES));
        let _ = sender.send(result);
    });
    receiver.recv().expect("it has ended")
}

#[test]
fn random_programs_answer_by_way_of_the_cache_as_the_model_does() {
    for seed in 0..18 {
        let mut steps = Steps::new(Seed(seed).rng(), Taste::default());
        let program = steps.program(120);
        let home = Home::ALL[seed as usize / 3 % 3];
        // Full most of the time, sometimes, and never.
        let pages = [3, 40, 1_000][seed as usize % 3];
        println!("{home:?}, {pages} pages");
        assert_alike(seed, &program, |program| alike(program, home, pages, seed));
    }
}

#[test]
fn a_drive_says_whether_it_has_a_cache_and_refuses_its_commands_without() {
    for pages in [0, 8] {
        with_cache(pages, move |mut asker| async move {
            let identify: IdentifyController = asker.host.identify(0, Cns::Controller).await;
            let has = identify.drive.features.contains(DriveFeature::DeviceCache);
            assert_eq!(has, pages > 0);
            let handle = file(&mut asker, 1).await;
            let read = asker.aimed(Command::read_near(1, handle, 0, 10));
            let status = asker.send(read).await.status;
            let right = match has {
                true => StatusCode::Success,
                false => StatusCode::InvalidOpcode,
            };
            assert_eq!(status, right);
        });
    }
}

#[test]
fn what_is_written_near_is_dirty_until_somebody_else_looks_or_syncs() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 4).await;
        asker.put(0, &[2; 1024]);
        let written = send(&mut asker, Command::write_near(1, handle, 100, 1024)).await;
        assert_eq!((written.bytes, written.hits, written.kept), (1024, 0, 1));
        assert!(!written.is_full);
        assert_eq!(near_pages(&mut asker).await, (1, 1));
        // By way of the cache it is there, and stays dirty.
        asker.put(0, &[0; 4096]);
        let found = send(&mut asker, Command::read_near(1, handle, 99, 1026)).await;
        assert_eq!((found.bytes, found.hits, found.kept), (1026, 1, 1));
        let mut right = vec![2; 1026];
        (right[0], right[1025]) = (1, 1);
        assert_eq!(asker.got(1026), right);
        assert_eq!(near_pages(&mut asker).await, (1, 1));
        // Others have it from the file.
        assert_eq!(read(&mut asker, handle, 99, 1026).await, right);
        assert_eq!(near_pages(&mut asker).await, (1, 0));
        asker.put(0, &[3; 4096]);
        send(&mut asker, Command::write_near(1, handle, PAGE, 4096)).await;
        assert_eq!(near_pages(&mut asker).await, (2, 1));
        let sync = Command::sync_file(1, handle, 0, u64::MAX, true);
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        assert_eq!(near_pages(&mut asker).await, (2, 0));
    });
}

#[test]
fn a_log_page_tells_what_the_cache_has_and_did() {
    with_cache(3, |mut asker| async move {
        let handle = file(&mut asker, 6).await;
        asker.put(0, &[2; 8192]);
        send(&mut asker, Command::write_near(1, handle, 100, 8)).await;
        send(&mut asker, Command::write_near(1, handle, PAGE, 4096)).await;
        let kept = Command::read_near(1, handle, 100, 8).keeping(0);
        send(&mut asker, kept).await;
        // Of three pages one finds no room.
        let more = Command::read_near(1, handle, 3 * PAGE, 8192).keeping(0);
        assert!(send(&mut asker, more).await.is_full);
        send(&mut asker, Command::read_near(1, handle, 0, 4096).taking()).await;
        let evict = Command::evict_near(1, handle, Evict::WriteBack, PAGE, 4096);
        assert_eq!(send_number(&mut asker, evict).await, 1);
        let write = asker.aimed(Command::write_file(1, handle, 3 * PAGE, 4096));
        assert_eq!(asker.send(write).await.done(), Ok(4096));
        let last = Command::write_near(1, handle, 5 * PAGE, 4096);
        send(&mut asker, last).await;
        let log: DeviceCacheLog = asker.host.log(LogPage::DeviceCache).await;
        assert_eq!((log.pages, log.host_pages), (3, 3));
        assert_eq!((log.used_pages, log.dirty_pages), (1, 1));
        assert_eq!((log.reads, log.writes, log.hits), (3, 3, 2));
        assert_eq!((log.brought_pages, log.written_pages), (2, 2));
        let left = (log.evicted_pages, log.taken_pages, log.displaced_pages);
        assert_eq!((left, log.no_room), ((1, 1, 1), 1));
    });
}

/// It counted as a hit of the page that the file ends within, and took that one away.
#[test]
fn a_read_behind_the_end_is_of_no_page() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 2).await;
        asker.put(0, &[3; 100]);
        let write = asker.aimed(Command::write_file(1, handle, 2 * PAGE, 100));
        assert_eq!(asker.send(write).await.done(), Ok(100));
        let last = Command::read_near(1, handle, 2 * PAGE, 10).keeping(0);
        assert_eq!(send(&mut asker, last).await.kept, 1);
        let behind = Command::read_near(1, handle, 5 * PAGE, 8);
        let nothing = NearResult::default();
        assert_eq!(send(&mut asker, behind).await, nothing);
        assert_eq!(send(&mut asker, behind.keeping(0)).await, nothing);
        assert_eq!(send(&mut asker, behind.taking()).await, nothing);
        assert_eq!(near_pages(&mut asker).await, (1, 0));
    });
}

#[test]
fn what_is_written_near_goes_to_the_media_in_the_end() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 4).await;
        let cpu = asker.host.cpu.clone();
        for round in 0..3 {
            asker.put(0, &[round; 1024]);
            send(&mut asker, Command::write_near(1, handle, 100, 1024)).await;
            send(&mut asker, Command::write_near(1, handle, 3 * PAGE, 10)).await;
            assert_eq!(near_pages(&mut asker).await, (2, 2));
            cpu.sleep_until(cpu.now() + 6_000_000_000).await;
            assert_eq!(near_pages(&mut asker).await, (2, 0), "round {round}");
        }
    });
}

#[test]
fn who_writes_past_the_cache_finds_no_old_bytes_in_it() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 3).await;
        asker.put(0, &[2; 8192]);
        send(&mut asker, Command::write_near(1, handle, 0, 8192)).await;
        asker.put(0, &[4; 100]);
        let write = asker.aimed(Command::write_file(1, handle, 4090, 100));
        assert_eq!(asker.send(write).await.done(), Ok(100));
        let found = send(&mut asker, Command::read_near(1, handle, 4000, 300)).await;
        assert_eq!(
            (found.bytes, found.hits),
            (300, 0),
            "both pages were changed"
        );
        let mut right = vec![2; 300];
        right[90..190].fill(4);
        assert_eq!(asker.got(300), right);
    });
}

#[test]
fn what_finds_no_room_goes_past_the_cache_and_nothing_fails() {
    with_cache(2, |mut asker| async move {
        let handle = file(&mut asker, 4).await;
        asker.put(0, &[7; 16_384]);
        let written = send(&mut asker, Command::write_near(1, handle, 0, 16_384)).await;
        assert_eq!((written.bytes, written.kept), (16_384, 2));
        assert!(written.is_full);
        assert_eq!(near_pages(&mut asker).await, (2, 2));
        let kept = Command::read_near(1, handle, 0, 16_384).keeping(0);
        let found = send(&mut asker, kept).await;
        assert_eq!((found.bytes, found.hits, found.kept), (16_384, 2, 2));
        assert!(found.is_full);
        assert_eq!(asker.got(16_384), [7; 16_384]);
        let evict = Command::evict_near(1, handle, Evict::WriteBack, 0, PAGE);
        assert_eq!(asker.send(evict).await.done(), Ok(1));
        assert_eq!(near_pages(&mut asker).await, (1, 1));
        // Now there is room for another one.
        let kept = Command::read_near(1, handle, 3 * PAGE, 1).keeping(0);
        let found = send(&mut asker, kept).await;
        assert_eq!((found.hits, found.kept, found.is_full), (0, 1, false));
    });
}

#[test]
fn what_is_dropped_is_lost_and_nothing_else() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 2).await;
        asker.put(0, &[9; 8192]);
        send(&mut asker, Command::write_near(1, handle, 0, 8192)).await;
        let drop = Command::evict_near(1, handle, Evict::Drop, 0, PAGE);
        assert_eq!(asker.send(drop).await.done(), Ok(1));
        let mut right = vec![1; 4096];
        right.extend([9; 4096]);
        assert_eq!(read(&mut asker, handle, 0, 8192).await, right);
    });
}

#[test]
fn pages_that_are_kept_ahead_are_hits_and_none_lie_behind_the_end() {
    with_cache(64, |mut asker| async move {
        let handle = file(&mut asker, 6).await;
        let ahead = Command::read_near(1, handle, PAGE, 0).keeping(100);
        send(&mut asker, ahead).await;
        assert_eq!(near_pages(&mut asker).await, (5, 0));
        let found = send(&mut asker, Command::read_near(1, handle, 0, 24_576)).await;
        assert_eq!((found.bytes, found.hits), (24_576, 5));
        assert_eq!(asker.got(24_576), [1; 24_576]);
    });
}

#[test]
fn pages_that_are_taken_leave_and_what_was_changed_is_written_before() {
    with_cache(64, |mut asker| async move {
        let handle = file(&mut asker, 4).await;
        asker.put(0, &[9; 100]);
        send(&mut asker, Command::write_near(1, handle, PAGE + 7, 100)).await;
        send(
            &mut asker,
            Command::read_near(1, handle, 2 * PAGE, 1).keeping(0),
        )
        .await;
        assert_eq!(near_pages(&mut asker).await, (2, 1));
        let take = Command::read_near(1, handle, 0, 3 * PAGE as u32).taking();
        let found = send(&mut asker, take).await;
        assert_eq!((found.bytes, found.hits, found.kept), (3 * 4096, 2, 0));
        let mut right = vec![1; 3 * 4096];
        right[4096 + 7..4096 + 107].fill(9);
        assert_eq!(asker.got(3 * 4096), right);
        assert_eq!(
            near_pages(&mut asker).await,
            (0, 0),
            "they are the host's now"
        );
        assert_eq!(read(&mut asker, handle, 0, 3 * 4096).await, right);
        let both = Command::read_near(1, handle, 0, 4096).taking().keeping(0);
        let both = asker.aimed(both);
        assert_eq!(asker.send(both).await.status, StatusCode::InvalidField);
    });
}

/// A guest that means harm, with a cache of its own beside the owner's: it names the owner's open file, floods the cache, evicts, takes
/// and drops what is not its own. The owner loses no byte, and no page that it was promised room for.
#[test]
fn a_hostile_guest_neither_reads_nor_loses_nor_pushes_out_what_is_another_hosts() {
    const SHARE: u64 = 6;
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 8 * PAGE;
    config.memory.near_host_bytes = SHARE * PAGE;
    let mut rig = new_rig(config);
    rig.has_guests = true;
    let turns = Turns::default();
    let its_turns = turns.clone();
    let owner = script(move |mut asker| async move {
        let handle = file(&mut asker, 4).await;
        asker.put(0, &[9; 100]);
        send(&mut asker, Command::write_near(1, handle, PAGE + 7, 100)).await;
        send(&mut asker, Command::read_near(1, handle, 0, 1).keeping(0)).await;
        turns.pass(1);
        turns.wait(&asker.host.cpu, 2).await;
        let found = send(&mut asker, Command::read_near(1, handle, 0, 8192)).await;
        assert_eq!((found.hits, found.bytes), (2, 8192), "its pages are there");
        let mut right = vec![1; 8192];
        right[4096 + 7..4096 + 107].fill(9);
        assert_eq!(asker.got(8192), right);
        turns.pass(3);
        turns.wait(&asker.host.cpu, 4).await;
        // What was taken was written before.
        assert_eq!(read(&mut asker, handle, 0, 8192).await, right);
        turns.pass(5);
        turns.wait(&asker.host.cpu, 6).await;
        let evict = Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX);
        send_number(&mut asker, evict).await;
        // Who leaves leaves nothing: all of the owner's share is free again.
        let handle = file_of(&mut asker, b"/more", SHARE).await;
        let bytes = (SHARE * PAGE) as u32;
        let all = Command::read_near(1, handle, 0, bytes).keeping(0);
        let found = send(&mut asker, all).await;
        assert_eq!((u64::from(found.kept), found.is_full), (SHARE, false));
    });
    let guest = script(move |mut asker| async move {
        its_turns.wait(&asker.host.cpu, 1).await;
        // Handles are those of whoever opened them: it tries what it can guess.
        for (index, generation) in (0..4).flat_map(|index| (0..4).map(move |of| (index, of))) {
            let guessed = FileHandle { index, generation };
            for command in [
                Command::read_near(1, guessed, 0, 4096).taking(),
                Command::write_near(1, guessed, 0, 4096),
                Command::evict_near(1, guessed, Evict::Drop, 0, u64::MAX),
            ] {
                let command = asker.aimed(command);
                assert_eq!(asker.send(command).await.done(), Err(9), "{guessed:?}");
            }
        }
        // A flood of its own.
        let flood = asker.file(UPDATE, b"/flood").await;
        asker.put(0, &[5; 4096]);
        for page in 0..12 {
            let write = asker.aimed(Command::write_file(1, flood, page * PAGE, 4096));
            assert_eq!(asker.send(write).await.done(), Ok(PAGE));
        }
        let mut kept = 0;
        for page in 0..12 {
            let write = Command::write_near(1, flood, page * PAGE + 1, 9);
            kept += send(&mut asker, write).await.kept;
        }
        assert_eq!(u64::from(kept), SHARE, "it has its share, and no more");
        // It may open the owner's file, and have its own pages of it leave: there are none.
        let only_read = OpenMode {
            read: true,
            ..OpenMode::default()
        };
        let shared = asker.file(only_read, b"/near").await;
        let evict = Command::evict_near(1, shared, Evict::WriteBack, 0, u64::MAX);
        assert_eq!(asker.send(evict).await.done(), Ok(0));
        let dropped = Command::evict_near(1, shared, Evict::Drop, 0, u64::MAX);
        assert_eq!(asker.send(dropped).await.done(), Err(9), "it may only read");
        let write = asker.aimed(Command::write_near(1, shared, 0, 1));
        assert_eq!(asker.send(write).await.done(), Err(9));
        its_turns.pass(2);
        its_turns.wait(&asker.host.cpu, 3).await;
        // Who may read a file may take its pages along: they are the owner's bytes.
        let found = send(
            &mut asker,
            Command::read_near(1, shared, 4096, 4096).taking(),
        )
        .await;
        assert_eq!(found.hits, 1);
        let got = asker.got(4096);
        assert!(got[7..107].iter().all(|byte| *byte == 9));
        its_turns.pass(4);
        its_turns.wait(&asker.host.cpu, 5).await;
        let left = asker.send(Command::leave_files(1)).await;
        assert_eq!(left.done(), Ok(0));
        its_turns.pass(6);
    });
    rig.run_clients(&PowerSwitch::on(), vec![owner, guest]);
}

#[test]
fn a_file_that_is_removed_leaves_the_cache_and_the_media() {
    with_cache(8, |mut asker| async move {
        let handle = file(&mut asker, 2).await;
        asker.put(0, &[9; 4096]);
        send(&mut asker, Command::write_near(1, handle, 0, 4096)).await;
        let close = Command::close_file(1, handle);
        assert_eq!(asker.send(close).await.done(), Ok(0));
        assert_eq!(
            near_pages(&mut asker).await,
            (1, 1),
            "it may be wanted again"
        );
        let head = super::asker::head(&wharf_files::Caller::root());
        let remove = Command::path_change(1, wharf_wire::file::PathChange::Remove, 8192);
        let removed = asker.ask(remove, head, &super::asker::path(b"/near")).await;
        assert_eq!(removed.done(), Ok(0));
        assert_eq!(near_pages(&mut asker).await, (0, 0));
        sound(&mut asker.host).await;
    });
}

/// Bytes of each page that are a lane's own.
const OWN: u64 = 700;

/// Queues, each with one command on its way.
const LANES: usize = 4;

/// What a lane asks for, what it wrote where, and what it must read.
async fn race(mut asker: Asker, seed: u64) {
    let handle = file(&mut asker, 6).await;
    let mut rng = Seed(seed).rng();
    let mut right = [[1_u8; 6]; LANES];
    for round in 0..250_u64 {
        let mut sent = Vec::new();
        for (lane, own) in right.iter_mut().enumerate() {
            let (page, kind) = (rng.below(6), rng.below(9));
            let from = page * PAGE + lane as u64 * OWN;
            let (first, value) = (lane * 2, (round * 4 + lane as u64) as u8);
            let bytes = OWN as u32;
            let command = match kind {
                0 | 1 => Command::write_near(1, handle, from, bytes),
                2 => Command::write_file(1, handle, from, bytes),
                3 => Command::read_near(1, handle, from, bytes).keeping(2),
                4 => Command::read_near(1, handle, from, bytes),
                5 => Command::read_file(1, handle, from, bytes),
                8 => Command::read_near(1, handle, from, bytes).taking(),
                6 => Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX),
                _ => Command::sync_file(1, handle, 0, u64::MAX, true),
            };
            // SAFETY: no command in flight names the page: each lane has its own.
            let buffer = unsafe { asker.host.data.page_mut(first) };
            let is_write = kind < 3;
            buffer.fill(if is_write { value } else { 0xee });
            if is_write {
                own[page as usize] = value;
            }
            let command = match kind {
                0..=5 | 8 => asker.host.aim(command, 1, first, 0),
                _ => command,
            };
            let cid = asker.host.send(lane, command);
            let reads = matches!(kind, 3..=5 | 8);
            sent.push((cid, reads.then_some((page as usize, first))));
        }
        for (lane, (cid, reads)) in sent.into_iter().enumerate() {
            let found = asker.host.next(lane).await;
            assert_eq!(found.cid, cid);
            assert_eq!(crate::support::host::code(&found), StatusCode::Success);
            if let Some((page, first)) = reads {
                // SAFETY: the command has ended.
                let buffer = unsafe { asker.host.data.page_mut(first) };
                let value = right[lane][page];
                let own = &buffer[..OWN as usize];
                assert!(
                    own.iter().all(|byte| *byte == value),
                    "round {round}: {value}"
                );
            }
        }
    }
    let all = read(&mut asker, handle, 0, 6 * PAGE as u32).await;
    for (lane, pages) in right.iter().enumerate() {
        for (page, value) in pages.iter().enumerate() {
            let from = page * PAGE as usize + lane * OWN as usize;
            let own = &all[from..from + OWN as usize];
            assert!(own.iter().all(|byte| byte == value));
        }
    }
    near_pages(&mut asker).await;
}

#[test]
fn who_writes_parts_of_the_same_pages_by_every_way_at_once_loses_none() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut config = config(1 + seed as u32 % 3, 2_000);
        config.memory.near_bytes = [2, 8][seed as usize % 2] * PAGE;
        let mut rig = new_rig(config);
        rig.queues_per_client = LANES as u16;
        run(&mut rig, move |host| race(Asker::new(host), seed));
    }
}

#[test]
fn what_was_synced_outlives_a_power_cut_whichever_memory_it_was_in() {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 8 * PAGE;
    let mut rig = new_rig(config);
    run(&mut rig, move |host| async move {
        let mut asker = Asker::new(host);
        let handle = file(&mut asker, 3).await;
        asker.put(0, &[2; 1000]);
        send(&mut asker, Command::write_near(1, handle, 50, 1000)).await;
        let sync = Command::sync_file(1, handle, 0, u64::MAX, true);
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        asker.put(0, &[3; 4096]);
        send(&mut asker, Command::write_near(1, handle, PAGE, 4096)).await;
        // It is changed once more, and nobody has synced that.
        asker.put(0, &[4; 1000]);
        send(&mut asker, Command::write_near(1, handle, 50, 1000)).await;
        assert_eq!(near_pages(&mut asker).await, (2, 2));
    });
    run(&mut rig, move |host| async move {
        let mut asker = Asker::new(host);
        assert_eq!(near_pages(&mut asker).await, (0, 0), "memory is empty");
        let handle = asker.file(UPDATE, b"/near").await;
        let found = read(&mut asker, handle, 0, 3 * PAGE as u32).await;
        let mut right = vec![1; 3 * PAGE as usize];
        right[50..1050].fill(2);
        assert!(found == right, "what was synced, and no more");
    });
}

#[test]
fn what_cannot_be_written_to_the_file_stays_until_it_can() {
    with_cache(8, |mut asker| async move {
        let handle = asker.file(UPDATE, b"/holes").await;
        let cut = HandleOperation::Truncate;
        let cut = Command::handle_operation(1, handle, cut, 2 * PAGE, 0);
        assert_eq!(asker.send(cut).await.done(), Ok(0));
        let filler = asker.file(UPDATE, b"/filler").await;
        asker.put(0, &[8; 256 << 10]);
        let mut offset = 0;
        loop {
            let write = Command::write_file(1, filler, offset, 256 << 10);
            let write = asker.aimed(write);
            match asker.send(write).await.done() {
                Ok(count) => offset += count,
                Err(errno) => break assert_eq!(errno, Errno::ENOSPC.number()),
            }
        }
        asker.put(0, &[9; 4096]);
        send(&mut asker, Command::write_near(1, handle, PAGE, 4096)).await;
        let sync = Command::sync_file(1, handle, 0, u64::MAX, false);
        let evict = Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX);
        for command in [sync, evict] {
            let failed = asker.send(command).await.done();
            assert_eq!(failed, Err(Errno::ENOSPC.number()));
            assert_eq!(near_pages(&mut asker).await, (1, 1), "it is not lost");
        }
        // A file goes all the same, with what it had there.
        let gone = asker.file(UPDATE, b"/gone").await;
        let cut = Command::handle_operation(1, gone, HandleOperation::Truncate, PAGE, 0);
        assert_eq!(asker.send(cut).await.done(), Ok(0));
        send(&mut asker, Command::write_near(1, gone, 0, 100)).await;
        assert_eq!(near_pages(&mut asker).await, (2, 2));
        let head = super::asker::head(&wharf_files::Caller::root());
        let remove = Command::path_change(1, wharf_wire::file::PathChange::Remove, 8192);
        let removed = asker.ask(remove, head, &super::asker::path(b"/gone")).await;
        assert_eq!(removed.done(), Ok(0));
        assert_eq!(near_pages(&mut asker).await, (1, 1));
        let cut = Command::handle_operation(1, filler, HandleOperation::Truncate, 0, 0);
        assert_eq!(asker.send(cut).await.done(), Ok(0));
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        assert_eq!(near_pages(&mut asker).await, (1, 0));
        let found = read(&mut asker, handle, PAGE, 4096).await;
        assert_eq!(found, [9; 4096]);
    });
}
