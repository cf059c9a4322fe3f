//! Queues: creating and deleting them, taking turns, and completion queues that are full.

use wharf_drive::config::DriveConfig;
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::{Host, code, queue_address};
use crate::support::rig::Rig;

use StatusCode as S;

fn with(mut command: Command, change: impl FnOnce(&mut Command)) -> Command {
    change(&mut command);
    command
}

#[test]
fn a_wrong_create_or_delete_gets_its_status() {
    let mut rig = Rig::new(tiny_pair());
    // Queue 1 exists; 2 and 3 are offered; there is no queue 4; 5 is beyond the four allotted.
    rig.spare_queues = 2;
    let depth = rig.depth;
    rig.run(move |mut host| async move {
        let cq = |qid: u16, n| Command::create_completion_queue(qid, n, queue_address(qid));
        let sq = |qid: u16, n, cq| Command::create_submission_queue(qid, n, cq, queue_address(qid));
        let (del_cq, del_sq) = (
            Command::delete_completion_queue,
            Command::delete_submission_queue,
        );
        let cases = [
            ("completion queue 0", cq(0, depth), S::InvalidQueueId),
            ("completion queue 1 again", cq(1, depth), S::InvalidQueueId),
            ("completion queue 5", cq(5, depth), S::InvalidQueueId),
            (
                "one entry",
                with(cq(2, depth), |c| c.cdw10 = 2),
                S::InvalidQueueSize,
            ),
            ("65536 entries", cq(2, 65536), S::InvalidQueueSize),
            (
                "scattered memory",
                with(cq(2, depth), |c| c.cdw11 &= !1),
                S::InvalidField,
            ),
            (
                "interrupts",
                with(cq(2, depth), |c| c.cdw11 |= 2),
                S::InvalidInterruptVector,
            ),
            (
                "a crooked ring",
                with(cq(2, depth), |c| c.prp1 += 64),
                S::PrpOffsetInvalid,
            ),
            (
                "no completion queue yet",
                sq(2, depth, 2),
                S::CompletionQueueInvalid,
            ),
            ("completion queue 2", cq(2, depth), S::Success),
            ("completion queue 2 again", cq(2, depth), S::InvalidQueueId),
            ("submission queue 0", sq(0, depth, 2), S::InvalidQueueId),
            (
                "submission queue 1 again",
                sq(1, depth, 1),
                S::InvalidQueueId,
            ),
            (
                "into completion queue 0",
                sq(2, depth, 0),
                S::InvalidQueueId,
            ),
            (
                "into completion queue 9",
                sq(2, depth, 9),
                S::InvalidQueueId,
            ),
            (
                "into completion queue 3",
                sq(2, depth, 3),
                S::CompletionQueueInvalid,
            ),
            (
                "a crooked ring",
                with(sq(2, depth, 2), |c| c.prp1 += 64),
                S::PrpOffsetInvalid,
            ),
            ("delete of queue 0", del_sq(0), S::InvalidQueueId),
            ("delete of what is not there", del_sq(3), S::InvalidQueueId),
            (
                "delete of no completion queue",
                del_cq(3),
                S::InvalidQueueId,
            ),
            ("delete of completion queue 0", del_cq(0), S::InvalidQueueId),
            ("delete of one in use", del_cq(1), S::InvalidQueueDeletion),
            ("submission queue 2", sq(2, depth, 2), S::Success),
            ("delete of submission queue 2", del_sq(2), S::Success),
            ("delete of it again", del_sq(2), S::InvalidQueueId),
            ("delete of completion queue 2", del_cq(2), S::Success),
            ("queue 3 where nothing lies", cq(4, depth), S::Success),
            (
                "queue 4 where nothing lies",
                sq(4, depth, 4),
                S::DataTransferError,
            ),
        ];
        for (name, command, expected) in cases {
            assert_eq!(host.admin_status(command).await, expected, "{name}");
        }
        // The queue that was there all the time works, and the one still offered can be made.
        assert_eq!(host.write(0, 1, 5).await, S::Success);
        assert_eq!(host.create_queue(3, depth).await, S::Success);
        host.send(2, Command::flush(1));
        assert_eq!(code(&host.next(2).await), S::Success);
    });
}

#[test]
fn deleting_a_queue_answers_what_was_fetched_first() {
    let mut rig = Rig::new(tiny_timed());
    rig.depth = 8;
    rig.run(|mut host| async move {
        for lba in 0..6u64 {
            host.fill(lba as usize, 50 + lba);
            let command = host.aim(Command::write(1, lba, 1), 1, lba as usize, 0);
            host.send(0, command);
        }
        // Long enough for them to be fetched, not to be done.
        host.cpu.sleep_until(host.cpu.now() + 100).await;
        assert!(host.queues[0].poll(&host.cpu).is_none());
        assert_eq!(
            host.admin_status(Command::delete_submission_queue(1)).await,
            S::Success
        );
        let answered = std::iter::from_fn(|| host.queues[0].poll(&host.cpu));
        let answered: Vec<_> = answered.map(|found| code(&found)).collect();
        assert_eq!(answered, [S::Success; 6]);
        assert_eq!(
            host.admin_status(Command::delete_completion_queue(1)).await,
            S::Success
        );
    });
}

/// A pin waits for a frame, and the unpin that would give it one is not fetched any more.
#[test]
fn deleting_a_queue_answers_the_pins_that_wait() {
    for config in [tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.depth = 8;
        rig.run(|mut host| async move {
            let _lending = host.lend(&[2]).await;
            let mut pinned = 0;
            for lba in 0..12 {
                let pin = Command::pin(1, lba, Access::Read).without_waiting();
                pinned += u32::from(host.pin_command(pin).await.is_ok());
            }
            assert_eq!(pinned, 2, "every frame is held");
            let waiting = host.send(0, Command::pin(1, 13, Access::Read));
            host.cpu.sleep_until(host.cpu.now() + 1_000_000).await;
            assert!(host.queues[0].poll(&host.cpu).is_none());
            let deletion = Command::delete_submission_queue(1);
            assert_eq!(host.admin_status(deletion).await, S::Success);
            let end = host.queues[0]
                .poll(&host.cpu)
                .expect("the pin was answered");
            assert_eq!((end.cid, code(&end)), (waiting, S::AbortedQueueDeleted));
        });
    }
}

/// Two queues, one with 40 commands, one with one: the one is served within a burst, not after
/// the forty.
#[test]
fn a_flooding_queue_does_not_keep_another_waiting() {
    let mut config = tiny_timed();
    config.firmware.commands_max = 4;
    let mut rig = Rig::new(config);
    (rig.depth, rig.queues_per_client) = (64, 2);
    rig.run(|mut host| async move {
        // Bursts of one.
        let set = Command::set_feature(FeatureId::Arbitration, 0);
        assert_eq!(host.admin_status(set).await, S::Success);
        for _ in 0..40 {
            let command = host.aim(Command::write(1, 0, 1), 1, 0, 0);
            host.send(0, command);
        }
        host.send(1, Command::verify(1, 9, 1));
        assert_eq!(code(&host.next(1).await), S::Success);
        let served = std::iter::from_fn(|| host.queues[0].poll(&host.cpu)).count();
        assert!(
            served <= 8,
            "{served} commands of the flood were served first"
        );
        drain(&mut host, 40 - served).await;
    });
}

async fn drain(host: &mut Host, commands: usize) {
    for _ in 0..commands {
        assert_eq!(code(&host.next(0).await), S::Success);
    }
}

/// The host takes completions but does not give their slots back, so that the completion queue
/// fills up; nothing is lost, and the other queue goes on when it does.
#[test]
fn a_full_completion_queue_loses_nothing() {
    for config in [tiny(), tiny_timed()] {
        full_completion_queue(config);
    }
}

fn full_completion_queue(config: DriveConfig) {
    let mut rig = Rig::new(config);
    rig.depth = 4;
    rig.run(|mut host| async move {
        let (mut sent, mut seen) = (0u16, Vec::new());
        for round in 0..50 {
            while sent < (round + 1) * 6 {
                let full = host.queues[0]
                    .submit(&host.cpu, Command::flush(1).with_cid(sent))
                    .is_err();
                if full {
                    break;
                }
                sent += 1;
            }
            host.queues[0].ring_doorbell(&host.cpu);
            // Long enough for the drive to find no room, more than once.
            host.cpu.sleep_until(host.cpu.now() + 20_000).await;
            while let Some(found) = host.queues[0].poll(&host.cpu) {
                assert_eq!(code(&found), S::Success);
                seen.push(found.cid);
            }
            if round % 3 == 2 {
                host.queues[0].release();
            }
            host.cpu.progress();
        }
        host.queues[0].release();
        while seen.len() < usize::from(sent) {
            seen.push(host.next(0).await.cid);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..sent).collect::<Vec<_>>());
        assert!(sent > 40, "only {sent} commands were sent");
    });
}
