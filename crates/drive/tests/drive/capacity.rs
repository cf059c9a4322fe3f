//! A thinly provisioned drive: what it answers when it is full, and after space was given back.

use wharf_drive::config::DriveConfig;
use wharf_wire::admin::Cns;
use wharf_wire::command::Command;
use wharf_wire::identify::IdentifyNamespace;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny;
use crate::support::rig::Rig;

/// 24 pages of namespace, 12 of which may hold data.
fn thin() -> DriveConfig {
    let mut config = tiny();
    config.ftl.capacity_share = 0.5;
    config
}

#[test]
fn a_full_thin_drive_says_so_and_takes_writes_after_deallocation() {
    let mut rig = Rig::new(thin());
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let namespace: IdentifyNamespace = host.identify(1, Cns::Namespace).await;
        let capacity = namespace.ncap;
        assert!(capacity < pages, "the drive is not thin");
        for lba in 0..capacity {
            assert_eq!(
                host.write(lba, 1, 100 + lba).await,
                StatusCode::Success,
                "page {lba}"
            );
        }
        assert_eq!(
            host.write(capacity, 1, 7).await,
            StatusCode::CapacityExceeded
        );
        assert_eq!(
            host.read(capacity).await,
            Ok(0),
            "a refused write changed its page"
        );
        for round in 1..20 {
            let lba = round % capacity;
            assert_eq!(
                host.write(lba, 1, 100 + lba).await,
                StatusCode::Success,
                "overwrite"
            );
        }
        assert_eq!(host.deallocate(&[(2, 3)]).await, StatusCode::Success);
        for lba in capacity..capacity + 3 {
            assert_eq!(
                host.write(lba, 1, 100 + lba).await,
                StatusCode::Success,
                "page {lba}"
            );
        }
        assert_eq!(
            host.write(capacity + 3, 1, 7).await,
            StatusCode::CapacityExceeded
        );
        let namespace: IdentifyNamespace = host.identify(1, Cns::Namespace).await;
        assert_eq!(namespace.nuse, capacity);
        for lba in 0..pages {
            let held = lba < 2 || (5..capacity + 3).contains(&lba);
            assert_eq!(
                host.read(lba).await,
                Ok(if held { 100 + lba } else { 0 }),
                "page {lba}"
            );
        }
    });
    rig.inspect(|_, _| {});
}

#[test]
fn write_zeroes_takes_no_capacity() {
    Rig::new(thin()).run(|mut host| async move {
        for lba in 0..12 {
            assert_eq!(host.write(lba, 1, 9).await, StatusCode::Success);
        }
        assert_eq!(
            host.io(Command::write_zeroes(1, 0, 24)).await,
            StatusCode::Success
        );
        assert_eq!(host.write(20, 2, 5).await, StatusCode::Success);
        // The others are allocated all the same.
        assert_eq!(host.statistics().await.mapped_pages, 24);
    });
}

/// Deallocations that were acknowledged but not flushed come back at a power cut, together with
/// the pages that took their place: more pages are mapped than the drive is made for. It must go
/// on taking overwrites all the same.
#[test]
fn deallocations_undone_by_a_power_cut_do_not_wedge_the_drive() {
    let mut config = thin();
    config.ftl.volatile_write_cache = true;
    let mut rig = Rig::new(config);
    rig.run(|mut host| async move {
        for lba in 0..12 {
            assert_eq!(host.write(lba, 1, 100 + lba).await, StatusCode::Success);
        }
        assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
        assert_eq!(host.deallocate(&[(0, 12)]).await, StatusCode::Success);
        for lba in 12..24 {
            assert_eq!(host.write(lba, 1, 100 + lba).await, StatusCode::Success);
        }
    });
    // The end of the run without a flush was a power cut.
    rig.run(|mut host| async move {
        for round in 0..60 {
            assert_eq!(
                host.write(12 + round % 12, 1, round).await,
                StatusCode::Success,
                "{round}"
            );
        }
        assert_eq!(host.deallocate(&[(0, 12)]).await, StatusCode::Success);
        assert_eq!(host.write(3, 1, 77).await, StatusCode::CapacityExceeded);
        assert_eq!(host.deallocate(&[(12, 1)]).await, StatusCode::Success);
        assert_eq!(host.write(3, 1, 77).await, StatusCode::Success);
    });
    rig.inspect(|_, _| {});
}
