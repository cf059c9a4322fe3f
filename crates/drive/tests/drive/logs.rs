//! Log pages and identify data tell what happened.

use wharf_drive::config::DriveConfig;
use wharf_wire::admin::Cns;
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::identify::{IdentifyController, IdentifyNamespace};
use wharf_wire::log_page::{LogPage, SmartHealth};
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::rig::Rig;

use StatusCode::Success;

#[test]
fn statistics_count_what_the_host_did() {
    Rig::new(tiny_pair()).run(|mut host| async move {
        assert_eq!(host.write(0, 9, 1).await, Success);
        assert_eq!(host.write(20, 1, 1).await, Success);
        let read = host.aim(Command::read(1, 3, 7), 7, 0, 0);
        assert_eq!(host.io(read).await, Success);
        assert_eq!(host.io(Command::verify(1, 0, 9)).await, Success);
        assert_eq!(host.io(Command::write_zeroes(1, 5, 3)).await, Success);
        assert_eq!(host.deallocate(&[(0, 2), (30, 6)]).await, Success);
        assert_eq!(host.io(Command::flush(1)).await, Success);
        let all = host.statistics().await;
        assert_eq!((all.host_read_commands, all.host_read_pages), (1, 7));
        assert_eq!((all.host_write_commands, all.host_write_pages), (2, 10));
        assert_eq!(
            (all.flush_commands, all.zeroed_pages, all.trimmed_pages),
            (1, 3, 8)
        );
        assert_eq!((all.media_programs, all.mapped_pages), (10, 8));
        let smart: SmartHealth = host.log(LogPage::SmartHealth).await;
        assert_eq!(
            (smart.host_read_commands, smart.host_write_commands),
            (1, 2)
        );
        assert_eq!((smart.data_units_read, smart.data_units_written), (1, 1));
        assert_eq!(smart.critical_warning, 0);
        let namespace: IdentifyNamespace = host.identify(1, Cns::Namespace).await;
        assert_eq!(namespace.nuse, 8);
        assert!(!namespace.is_write_protected());
    });
}

#[test]
fn the_cores_add_up_to_the_drive() {
    Rig::new(tiny_pair()).run(|mut host| async move {
        for round in 0..60 {
            assert_eq!(host.write(round * 5 % 30, 4, round).await, Success);
        }
        let all = host.statistics().await;
        let cores: [DriveStatistics; 2] = host.log(LogPage::CoreStatistics).await;
        assert_eq!(cores.map(|core| core.core), [0, 1]);
        let sum = DriveStatistics::total(&cores);
        assert!(all.values().eq(sum.values()), "{all:?}\n{sum:?}");
        assert!(
            cores.iter().all(|core| core.media_erases > 0),
            "no collection: {cores:?}"
        );
    });
}

/// What was programmed is what the host wrote and what collection moved, once all is drained.
#[test]
fn programs_are_host_writes_and_moves() {
    for mut config in [tiny(), tiny_timed(), tiny_pair()] {
        config.ftl.wear_gap_max = 3;
        Rig::new(config).run(|mut host| async move {
            for round in 0..500u64 {
                assert_eq!(host.write(round * round % 20, 3, round).await, Success);
            }
            assert_eq!(host.io(Command::flush(1)).await, Success);
            host.cpu.sleep_until(host.cpu.now() + 1_000_000).await;
            let all = host.statistics().await;
            let moved = all.gc_moved_pages + all.wear_moved_pages;
            assert_eq!(all.media_programs, all.host_write_pages + moved);
            assert_eq!(all.write_amplification_programmed_pages, all.media_programs);
            assert_eq!(all.write_amplification_host_pages, all.host_write_pages);
            assert_eq!(all.erase_count_sum, all.media_erases);
            assert!(all.erase_count_min <= all.erase_count_sum / all.blocks);
            assert!(all.erase_count_max >= all.erase_count_sum / all.blocks);
            let runs = all.gc_runs_foreground + all.gc_runs_background + all.wear_runs;
            assert!(
                runs.abs_diff(all.media_erases) <= 1,
                "{runs} runs, {}",
                all.media_erases
            );
        });
    }
}

#[test]
fn a_log_page_is_read_in_pieces_and_padded_with_zeros() {
    Rig::new(tiny()).run(|mut host| async move {
        assert_eq!(host.write(0, 9, 1).await, Success);
        let whole: DriveStatistics = host.log(LogPage::DriveStatistics).await;
        for offset in [0u64, 4, 64, 508, 512] {
            host.whole_page(0).fill(0xaa);
            let command = Command::get_log_page(LogPage::DriveStatistics, offset, 600);
            let command = command.with_prp(host.whole.address(0), 0);
            assert_eq!(host.admin_status(command).await, Success, "{offset}");
            let mut expected = [0xaa; 4096];
            expected[..600].fill(0);
            let bytes = zerocopy::IntoBytes::as_bytes(&whole);
            let rest = &bytes[offset as usize..];
            expected[..rest.len()].copy_from_slice(rest);
            assert!(host.whole_page(0) == expected, "from offset {offset} on");
        }
    });
}

#[test]
fn identify_tells_the_configuration() {
    let mut config: DriveConfig = tiny_pair();
    config.ftl.volatile_write_cache = true;
    Rig::new(config.clone()).run(move |mut host| async move {
        let controller: IdentifyController = host.identify(0, Cns::Controller).await;
        controller.check().expect("a controller that hosts can use");
        let info = controller.drive_info().expect("a Wharf drive");
        assert_eq!(u32::from(info.firmware_cores), config.firmware.cores);
        assert_eq!(info.stripe_pages, config.firmware.stripe_pages);
        assert_eq!(info.physical_pages, config.geometry.pages());
        assert_eq!(info.block_pages, config.geometry.pages_per_block);
        assert_eq!(controller.max_transfer_pages(), Some(256));
        let namespace: IdentifyNamespace = host.identify(1, Cns::Namespace).await;
        namespace.check().expect("a namespace that hosts can use");
        assert_eq!(
            (namespace.nsze, namespace.nuse),
            (config.namespace_pages(), 0)
        );
        // A frame for each page, and no fewer than one for each core.
        let sizes = (u64::from(controller.hmpre), controller.hmmin);
        assert_eq!(sizes, (namespace.nsze, config.firmware.cores));
        for (after, expected) in [(0, 1), (1, 0), (77, 0)] {
            let list: [u32; 1024] = host.identify(after, Cns::ActiveNamespaces).await;
            assert_eq!((list[0], list[1]), (expected, 0), "after {after}");
        }
    });
}

#[test]
fn features_keep_what_they_are_set_to() {
    use wharf_wire::admin::FeatureSelect as Select;
    Rig::new(tiny()).run(|mut host| async move {
        let (burst, cache) = (FeatureId::Arbitration, FeatureId::VolatileWriteCache);
        for (feature, default, value) in [(burst, 3, 0x0403_0206), (cache, 0, 1)] {
            let get = |select| Command::get_feature(feature, select);
            assert_eq!(host.admin(get(Select::Current)).await.dw0, default);
            assert_eq!(
                host.admin_status(Command::set_feature(feature, value))
                    .await,
                Success
            );
            assert_eq!(host.admin(get(Select::Current)).await.dw0, value);
            assert_eq!(host.admin(get(Select::Default)).await.dw0, default);
            assert_eq!(host.admin(get(Select::Saved)).await.dw0, default);
            assert_eq!(
                host.admin(get(Select::Capabilities)).await.dw0,
                4,
                "it can be changed"
            );
        }
        let queues = Command::get_feature(FeatureId::NumberOfQueues, Select::Current);
        assert_eq!(host.admin(queues).await.dw0, 0x0003_0003, "four of each");
    });
}

/// The error information log has 64 entries, all unused on a drive that never failed.
#[test]
fn an_untouched_error_log_is_empty() {
    Rig::new(tiny()).run(|mut host| async move {
        let log: ErrorLog = host.log(LogPage::ErrorInformation).await;
        assert!(log.0.iter().all(|byte| *byte == 0 || *byte == 0xff));
        let smart: SmartHealth = host.log(LogPage::SmartHealth).await;
        assert_eq!(smart.error_log_entries, 0);
    });
}

#[derive(FromBytes)]
struct ErrorLog([u8; 4096]);
