//! Small limits: one part at a time, one command at a time, a buffer of the least size, the most
//! ranges of one command, and operations on nothing.

use wharf_drive::config::DriveConfig;
use wharf_wire::admin::SecureErase;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

use StatusCode::Success;

/// Sends 60 commands of all kinds as fast as the queue takes them, then reads everything back.
async fn busy_hour(host: &mut Host, pages: u64) {
    let mut in_flight = 0;
    for round in 0..60u64 {
        let slot = (round % 12) as usize * 8;
        (0..8).for_each(|page| host.fill(slot + page, 5000 + page as u64));
        let lba = round * 8 % (pages - 8);
        let command = match round % 5 {
            0 => Command::flush(1),
            1 => Command::verify(1, lba, 8),
            _ => host.aim(Command::write(1, lba, 8), 8, slot, (round % 12) as usize),
        };
        host.send(0, command);
        in_flight += 1;
        if in_flight == 12 {
            assert_eq!(code(&host.next(0).await), Success);
            in_flight -= 1;
        }
    }
    for _ in 0..in_flight {
        assert_eq!(code(&host.next(0).await), Success);
    }
    for lba in 0..pages {
        let value = host.read(lba).await.expect("a readable page");
        assert!(
            value == 0 || (5000..5008).contains(&value),
            "page {lba} holds {value}"
        );
    }
}

fn survive(config: DriveConfig) {
    let pages = config.namespace_pages();
    let mut rig = Rig::new(config);
    rig.depth = 13;
    rig.run(move |mut host| async move { busy_hour(&mut host, pages).await });
    rig.inspect(|_, _| {});
}

#[test]
fn one_part_at_a_time_is_enough() {
    for mut config in [tiny(), tiny_timed(), tiny_pair()] {
        config.firmware.parts_max = 1;
        survive(config);
    }
}

#[test]
fn commands_beyond_the_drives_slots_wait_their_turn() {
    for mut config in [tiny(), tiny_timed(), tiny_pair()] {
        config.firmware.commands_max = 1;
        survive(config);
    }
}

#[test]
fn the_smallest_write_buffer_is_enough() {
    for mut config in [tiny_timed(), tiny_pair()] {
        config.ftl.write_buffer_pages = 4;
        config.ftl.volatile_write_cache = true;
        survive(config);
    }
}

#[test]
fn the_most_ranges_of_one_command() {
    for mut config in [tiny(), tiny_pair()] {
        config.geometry.blocks_per_plane = 256;
        let mut rig = Rig::new(config);
        rig.run(|mut host| async move {
            for lba in (0..512).step_by(256) {
                assert_eq!(host.write(lba, 256, 1 + lba).await, Success);
            }
            let ranges: Vec<(u64, u32)> = (0..256).map(|i| (2 * i, 1)).collect();
            assert_eq!(host.deallocate(&ranges).await, Success);
            for lba in 0..512 {
                let expected = if lba % 2 == 0 { 0 } else { 1 + lba };
                assert_eq!(host.read(lba).await, Ok(expected), "page {lba}");
            }
            assert_eq!(host.statistics().await.mapped_pages, 256);
        });
        rig.inspect(|_, ftl| assert!(ftl.mapped() > 0));
    }
}

#[test]
fn operations_on_nothing_succeed() {
    Rig::new(tiny_pair()).run(|mut host| async move {
        assert_eq!(host.io(Command::flush(1)).await, Success);
        assert_eq!(host.io(Command::flush(u32::MAX)).await, Success);
        assert_eq!(host.deallocate(&[(3, 0)]).await, Success);
        assert_eq!(host.deallocate(&[(0, 24), (0, 24), (7, 0)]).await, Success);
        assert_eq!(host.io(Command::write_zeroes(1, 0, 24)).await, Success);
        assert_eq!(host.io(Command::verify(1, 0, 24)).await, Success);
        let mut hint = host.deallocate_command(&[(0, 24)], 0);
        hint.cdw11 = 1;
        assert_eq!(host.write(3, 1, 5).await, Success);
        assert_eq!(host.io(hint).await, Success, "a hint without deallocate");
        assert_eq!(host.read(3).await, Ok(5), "a hint deallocated");
    });
}

#[test]
fn format_forgets_everything_and_erases_if_asked() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        for erase in [SecureErase::None, SecureErase::UserData] {
            let pages = config.namespace_pages();
            let mut rig = Rig::new(config.clone());
            rig.run(move |mut host| async move {
                for round in 0..80 {
                    assert_eq!(host.write(round * 3 % pages, 1, 1 + round).await, Success);
                }
                assert_eq!(host.admin_status(Command::format(1, erase)).await, Success);
                for lba in 0..pages {
                    assert_eq!(host.read(lba).await, Ok(0), "page {lba}");
                }
                assert_eq!(host.statistics().await.mapped_pages, 0);
            });
            let written = rig.written_pages();
            assert_eq!(
                written == 0,
                erase == SecureErase::UserData,
                "{written} pages"
            );
            rig.run(move |mut host| async move {
                assert_eq!(
                    host.admin_status(Command::format(u32::MAX, erase)).await,
                    Success
                );
                for lba in 0..pages {
                    assert_eq!(host.read(lba).await, Ok(0), "page {lba} after reopening");
                    assert_eq!(host.write(lba, 1, 7 + lba).await, Success);
                }
            });
            let contents = rig.contents();
            assert!((0..pages).all(|lba| contents[lba as usize] == Ok(7 + lba)));
        }
    }
}
