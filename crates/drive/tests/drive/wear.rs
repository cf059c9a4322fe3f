//! Wear: a worn drive goes read-only and says so; levelling keeps erase counts together.

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_wire::admin::{Cns, SecureErase};
use wharf_wire::command::Command;
use wharf_wire::identify::IdentifyNamespace;
use wharf_wire::log_page::{CriticalWarning, LogPage, SmartHealth};
use wharf_wire::status::StatusCode;

use crate::support::configs::{all_packed, tiny, tiny_timed};
use crate::support::host::Host;
use crate::support::rig::Rig;

/// A drive of few cycles.
pub fn short_lived(mut config: DriveConfig) -> DriveConfig {
    config.ftl.endurance_cycles = 5;
    config
}

/// Overwrites until the drive refuses; gives what each page was written with last.
pub async fn wear_out(host: &mut Host, pages: u64) -> Vec<u64> {
    let mut held = vec![0; pages as usize];
    for round in 1..100_000 {
        let lba = round * 7 % pages;
        match host.write(lba, 1, round).await {
            StatusCode::Success => held[lba as usize] = round,
            StatusCode::NamespaceWriteProtected => return held,
            other => panic!("write {round} of page {lba}: {other:?}"),
        }
    }
    panic!("the drive does not wear out");
}

async fn expect_protected(host: &mut Host, held: &[u64]) {
    let protected = StatusCode::NamespaceWriteProtected;
    assert_eq!(host.write(0, 1, 1).await, protected);
    assert_eq!(host.io(Command::write_zeroes(1, 0, 1)).await, protected);
    assert_eq!(host.deallocate(&[(0, 1)]).await, protected);
    assert_eq!(
        host.admin_status(Command::format(1, SecureErase::None))
            .await,
        protected
    );
    assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
    assert_eq!(
        host.io(Command::verify(1, 0, held.len() as u32)).await,
        StatusCode::Success
    );
    for (lba, value) in (0..).zip(held) {
        assert_eq!(host.read(lba).await, Ok(*value), "page {lba}");
    }
    let smart: SmartHealth = host.log(LogPage::SmartHealth).await;
    assert!(smart.warns_of(CriticalWarning::ReadOnly));
    assert!(smart.warns_of(CriticalWarning::SpareLow));
    assert!(smart.percentage_used > 50, "{}", smart.percentage_used);
    let namespace: IdentifyNamespace = host.identify(1, Cns::Namespace).await;
    assert!(namespace.is_write_protected());
}

#[test]
fn a_worn_drive_goes_read_only_and_stays_so() {
    let packed = all_packed().into_iter();
    let packed = packed.filter(|config| config.media.kind != MediaKind::File);
    for config in [tiny(), tiny_timed()].into_iter().chain(packed) {
        let mut rig = Rig::new(short_lived(config));
        let pages = rig.config().namespace_pages();
        let held = rig.run(move |mut host| async move {
            let smart: SmartHealth = host.log(LogPage::SmartHealth).await;
            assert_eq!((smart.critical_warning, smart.available_spare), (0, 100));
            let held = wear_out(&mut host, pages).await;
            expect_protected(&mut host, &held).await;
            held
        });
        rig.run(move |mut host| async move { expect_protected(&mut host, &held).await });
        rig.inspect(|_, ftl| assert!(ftl.is_read_only()));
    }
}

#[test]
fn levelling_keeps_the_erase_counts_of_cold_blocks_near_the_others() {
    let spread = |wear_gap_max| {
        let mut config = tiny();
        config.ftl.wear_gap_max = wear_gap_max;
        let mut rig = Rig::new(config);
        let pages = rig.config().namespace_pages();
        rig.run(move |mut host| async move {
            for lba in 0..pages {
                assert_eq!(host.write(lba, 1, lba + 1).await, StatusCode::Success);
            }
            for round in 0..2_000 {
                assert_eq!(host.write(round % 3, 1, round).await, StatusCode::Success);
            }
            let all = host.statistics().await;
            let moved = all.gc_moved_pages + all.wear_moved_pages;
            assert_eq!(
                all.media_programs,
                all.host_write_pages + moved,
                "programs add up"
            );
            assert_eq!(all.wear_runs > 0, wear_gap_max > 0);
            assert_eq!(all.wear_moved_pages > 0, wear_gap_max > 0);
            for lba in 3..pages {
                assert_eq!(host.read(lba).await, Ok(lba + 1), "a cold page");
            }
        });
        let counts = rig.erase_counts();
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    };
    let (levelled, not_levelled) = (spread(4), spread(0));
    assert!(levelled <= 4 + 4, "a gap of {levelled} with levelling at 4");
    assert!(
        not_levelled > 3 * levelled,
        "{not_levelled} without, {levelled} with levelling"
    );
}
