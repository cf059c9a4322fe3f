//! The drive's own memory is nobody else's, and its budgets are walls; queues that are deleted amid commands.

use wharf_drive::features::files::At;
use wharf_files::Errno;
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::support::{command, config, new_rig, pages_of, run, run_on};
use crate::support::host::code;

/// Addresses in the drive's own memory, as the drive has them.
const OWN: [u64; 3] = [1 << 63, 1 << 63 | 1 << 40, u64::MAX << 12];

#[test]
fn no_host_names_the_drives_own_memory() {
    let mut rig = new_rig(config(2, 1_600));
    run(&mut rig, |mut host| async move {
        // While it is in use.
        run_on(&mut host, 0, |at| {
            Box::pin(async move { drop(at.file_system().await.unwrap()) })
        })
        .await;
        assert_eq!(host.write(1_000, 3, 5).await, StatusCode::Success);
        for own in OWN {
            for make in [Command::read, Command::write] {
                let one = host.aim(make(1, 1_000, 1), 1, 0, 0);
                let mut first = one;
                first.prp1 = own;
                let mut second = host.aim(make(1, 1_000, 2), 2, 0, 0);
                second.prp2 = own;
                let mut list = host.aim(make(1, 1_000, 3), 3, 0, 0);
                list.prp2 = own;
                let in_list = host.aim(make(1, 1_000, 3), 3, 0, 0);
                for (what, command) in [("first", first), ("second", second), ("list", list)] {
                    let status = host.io(command).await;
                    assert_eq!(status, StatusCode::DataTransferError, "{what} {own:#x}");
                }
                host.poke(host.whole.address(0) + 8, own);
                let status = host.io(in_list).await;
                assert_eq!(status, StatusCode::DataTransferError, "in a list {own:#x}");
            }
        }
        for page in 0..3 {
            assert_eq!(host.read(1_000 + page).await, Ok(5 + page));
        }
    });
}

#[test]
fn a_file_system_that_needs_more_memory_than_it_has_is_not_served() {
    let mut config = config(1, 1_600);
    config.memory.journal_bytes = 16 << 10;
    let mut rig = new_rig(config);
    run(&mut rig, |mut host| async move {
        run_on(&mut host, 0, |at| {
            Box::pin(async move {
                let errno = at.file_system().await.map(drop).unwrap_err().errno();
                assert_eq!(errno, Errno::ENXIO);
                let why = at.firmware.failed().unwrap().to_string();
                assert!(why.contains("device memory"), "{why}");
            })
        })
        .await;
        // Blocks are.
        assert_eq!(host.write(1_000, 1, 5).await, StatusCode::Success);
        assert_eq!(host.read(1_000).await, Ok(5));
    });
}

/// Writes and reads some pages of its own, a few times.
async fn works(at: At<'_>, nth: u64) {
    let fs = at.file_system().await.unwrap();
    let (run, stamp) = ([Run::new(300 + 4 * nth, 4)], nth as u8 + 1);
    for _ in 0..20 {
        let mut bytes = vec![stamp; 4 * PAGE_BYTES];
        pages_of(&fs).write(&run, &bytes).await.unwrap();
        bytes.fill(0);
        pages_of(&fs).read(&run, &mut bytes).await.unwrap();
        assert!(bytes.iter().all(|byte| *byte == stamp));
    }
}

#[test]
fn a_queue_that_is_deleted_amid_commands_goes_when_they_have_ended() {
    let mut rig = new_rig(config(2, 1_600));
    rig.queues_per_client = 2;
    run(&mut rig, |mut host| async move {
        for nth in 0..20 {
            let on = nth as u32 % 2;
            let command = command(on, move |at| Box::pin(works(at, nth)));
            host.send(1, command);
        }
        let deleted = host.admin_status(Command::delete_submission_queue(2)).await;
        assert_eq!(deleted, StatusCode::Success);
        // What was fetched has ended by then; the rest nobody has seen.
        let mut ended = 0;
        while let Some(found) = host.queues[1].poll(&host.cpu) {
            host.queues[1].release();
            assert_eq!(code(&found), StatusCode::Success);
            ended += 1;
        }
        assert!(ended > 0, "the test deletes no queue amid commands");
        // The drive goes on.
        run_on(&mut host, 1, |at| Box::pin(works(at, 30))).await;
    });
}
