//! Leases to write and the drive's cache: whoever keeps what it writes to a file does so of no page that is near.

use wharf_wire::command::Command;
use wharf_wire::file::write_area::Words;
use wharf_wire::file::{Evict, FileHandle};
use wharf_wire::status::StatusCode;

use super::asker::{Asker, UPDATE};
use super::near::near_pages;
use super::support::{config, new_rig, run};
use crate::support::host::code;

const PAGE: u64 = 4096;

/// Pages of an area of a host that writes under leases, as the document has it.
const AREA_PAGES: usize = 4113;

/// Pages of each file, and files.
const PAGES: u64 = 12;
const FILES: u64 = 60;

/// How much later the third reader comes each time.
const STEP_NS: u64 = 5_000;

/// A new file of which the drive's cache has a dirty page, and its media the others.
async fn half_near(asker: &mut Asker, name: &[u8]) -> FileHandle {
    let file = asker.file(UPDATE, name).await;
    let bytes = PAGES * PAGE;
    let write = Command::write_file(1, file, 0, bytes as u32);
    let write = asker.aimed(write);
    assert_eq!(asker.send(write).await.done(), Ok(bytes));
    let sync = Command::sync_file(1, file, 0, u64::MAX, false);
    assert_eq!(asker.send(sync).await.done(), Ok(0));
    let near = asker.aimed(Command::write_near(1, file, 0, PAGE as u32));
    asker.send(near).await.done().expect("there is room");
    file
}

/// Sends commands, each by its own queue and so many nanoseconds after the first, and gives their results.
async fn side_by_side(asker: &mut Asker, commands: &[(u64, Command)]) -> Vec<u64> {
    let cpu = asker.host.cpu.clone();
    let began = cpu.now();
    let mut sent = Vec::new();
    for (lane, (after_ns, command)) in commands.iter().enumerate() {
        cpu.sleep_until(began + after_ns).await;
        sent.push(asker.host.send(lane, *command));
    }
    let mut results = Vec::new();
    for (lane, cid) in sent.into_iter().enumerate() {
        let found = asker.host.next(lane).await;
        assert_eq!((found.cid, code(&found)), (cid, StatusCode::Success));
        results.push(found.wide_result());
    }
    results
}

/// Who wants the lease writes back the dirty page, behind the first reader, and waits for the second to be alone. The third comes
/// then: it has been told that nobody writes the file, and may not have a page come once somebody does.
#[test]
fn a_lease_to_write_is_not_given_while_a_page_comes_near() {
    let mut config = config(2, 24_000);
    config.timing.read_ns = 40_000;
    config.memory.near_bytes = 2 * PAGES * PAGE;
    config.memory.bytes = 32 << 20;
    config.memory.metadata_bytes = 8 << 20;
    config.memory.journal_bytes = 8 << 20;
    let mut rig = new_rig(config);
    rig.queues_per_client = 4;
    rig.whole_pages = 1 + AREA_PAGES;
    run(&mut rig, async |host| {
        let mut asker = Asker::new(host);
        let (words, area) = asker.host.whole.area(1, AREA_PAGES);
        let (mut given, mut kept) = (0, 0);
        for nth in 0..FILES {
            let name = format!("/{nth}");
            let file = half_near(&mut asker, name.as_bytes()).await;
            let read = |page: u64, pages: u64, first: usize| {
                let bytes = (pages * PAGE) as u32;
                let read = Command::read_near(1, file, page * PAGE, bytes).keeping(0);
                asker.host.aim(read, pages as u32, first, first)
            };
            let lease = Command::lease_writes(1, file, area, 128);
            let lease = asker.host.aim(lease, 1, 40, 40);
            let step = nth * STEP_NS;
            let commands = [
                (0, read(1, 9, 0)),
                (100, lease),
                (20_000, read(10, 1, 16)),
                (20_000 + step, read(11, 1, 20)),
            ];
            let results = side_by_side(&mut asker, &commands).await;
            let (there, _) = near_pages(&mut asker).await;
            // A lease that has ended since is no more in its word.
            let writes = results[1] > 0 && words.look(0) == results[1];
            assert!(!writes || there == 0, "{step} ns after");
            given += u64::from(writes);
            kept += u64::from(there > 0);
            asker
                .send(Command::evict_near(1, file, Evict::WriteBack, 0, u64::MAX))
                .await
                .done()
                .unwrap();
        }
        assert!(given > 0 && kept > 0, "{given} leases, {kept} times kept");
    });
}
