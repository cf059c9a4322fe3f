//! Who syncs a file waits for what was dirty when it began, however busily others write meanwhile.

use std::sync::{Arc, Mutex};

use wharf_drive::PowerSwitch;
use wharf_wire::command::Command;
use wharf_wire::file::{DeviceCacheLog, Evict, FileHandle, NearResult};
use wharf_wire::log_page::LogPage;

use super::asker::{Asker, UPDATE};
use super::support::{Programs, config, new_rig};
use super::turns::{Turns, script};

const PAGE: u64 = 4096;

/// Pages of the file, of which the first ones are dirty when the other begins.
const PAGES: u64 = 12;
const DIRTY: u64 = 6;

/// What happened from the begin of a command until its end.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Pages that went to the media.
    written: u64,
    /// Requests of the one who writes all the time.
    writes: u64,
}

async fn written_and_writes(asker: &mut Asker) -> (u64, u64) {
    let log: DeviceCacheLog = asker.host.log(LogPage::DeviceCache).await;
    (log.written_pages, log.writes)
}

async fn write_near(asker: &mut Asker, handle: FileHandle, page: u64) {
    let write = asker.aimed(Command::write_near(1, handle, page * PAGE, 100));
    let done = asker.send(write).await.done();
    let done = NearResult::from_raw(done.expect("it can be written"));
    assert_eq!(done.kept, 1, "there is room");
}

/// Sends a command about a file with dirty pages while another writes to all of its pages, one after the other, without an end.
fn beside_a_writer(
    is_protected: bool,
    command: impl Fn(FileHandle) -> Command + Send + 'static,
) -> Seen {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 2 * PAGES * PAGE;
    config.memory.mb_s = 4_000;
    // What is written takes far longer than writing near.
    config.timing.program_ns = 1_000_000;
    config.ftl.volatile_write_cache = false;
    config.memory.protected = is_protected;
    let mut rig = new_rig(config);
    rig.give_feature(&Programs);
    let (turns, file) = (Turns::default(), Arc::new(Mutex::new(None)));
    let (of_writer, shared) = (turns.clone(), file.clone());
    let writer = script(async move |mut asker: Asker| {
        let cpu = asker.host.cpu.clone();
        of_writer.wait(&cpu, 1).await;
        let handle = shared.lock().unwrap().expect("it is open");
        let mut page = 0;
        while !of_writer.is_past(1) {
            write_near(&mut asker, handle, page % PAGES).await;
            page += 1;
            cpu.sleep_until(cpu.now() + 500).await;
        }
    });
    let seen = Arc::new(Mutex::new(Seen::default()));
    let found = seen.clone();
    let syncer = script(async move |mut asker: Asker| {
        let handle = asker.file(UPDATE, b"/busy").await;
        let write = asker.aimed(Command::write_file(1, handle, 0, (PAGES * PAGE) as u32));
        asker.send(write).await.done().expect("there is room");
        for page in 0..DIRTY {
            write_near(&mut asker, handle, page).await;
        }
        *file.lock().unwrap() = Some(handle);
        let before = written_and_writes(&mut asker).await;
        turns.pass(1);
        let done = asker.send(command(handle)).await.done();
        assert_eq!(done, Ok(0));
        let after = written_and_writes(&mut asker).await;
        turns.pass(2);
        *seen.lock().unwrap() = Seen {
            written: after.0 - before.0,
            writes: after.1 - before.1,
        };
    });
    rig.run_clients(&PowerSwitch::on(), vec![syncer, writer]);
    let seen = *found.lock().unwrap();
    println!("{seen:?}");
    seen
}

#[test]
fn a_sync_of_a_busy_file_ends_and_writes_what_was_dirty_when_it_began() {
    for is_protected in [false, true] {
        let seen = beside_a_writer(is_protected, |handle| {
            Command::sync_file(1, handle, 0, u64::MAX, false)
        });
        assert_eq!(seen.written, DIRTY);
        assert!(seen.writes > DIRTY, "the writer was busy");
    }
}

#[test]
fn pages_that_are_made_clean_and_stay_are_written_once() {
    let clean = |handle| Command::evict_near(1, handle, Evict::Clean, 0, u64::MAX);
    let seen = beside_a_writer(false, clean);
    assert_eq!(seen.written, DIRTY);
    assert!(seen.writes > DIRTY, "the writer was busy");
}
