//! Random commands and power cuts on disks of every kind of media, and a cut after every sector that
//! chosen workloads write: as of flash drives, by the same model.

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_drive::{Drive, PowerSwitch};
use wharf_runtime::Seed;

use crate::random::{image_folder, one_run, small_costs};
use crate::support::configs::{random_disk, tiny_disk};
use crate::support::ops::Op;
use crate::support::player::{World, play};
use crate::support::rig::{Rig, compare};
use crate::sweep::sweep;

fn case(seed: u64, kind: MediaKind) {
    println!("seed {seed}");
    let seed = Seed(seed);
    let mut rng = seed.child("case").rng();
    let mut config = random_disk(&mut rng, kind);
    let folder = image_folder();
    config.media.path = (kind == MediaKind::File).then(|| folder.path().join("disk.img"));
    let mut rig = Rig::new(config);
    if rng.chance(1, 2) {
        small_costs(&mut rig.costs);
    }
    let world = World::new(rig.config());
    for run in 0..3 {
        rig.seed = seed.child("ties").index(run);
        one_run(&mut rig, &world, &mut rng, false);
        rig.reopen();
        compare(&mut rig, &world);
    }
}

#[test]
fn random_commands_and_power_cuts_on_a_disk() {
    (0..600).for_each(|seed| case(seed, MediaKind::Stamp));
    (1_000..1_100).for_each(|seed| case(seed, MediaKind::Ram));
    (2_000..2_050).for_each(|seed| case(seed, MediaKind::File));
}

fn write(lba: u64, pages: u32, fua: bool) -> Op {
    Op::Write { lba, pages, fua }
}

fn with_cache(write_cache: bool) -> DriveConfig {
    let mut config = tiny_disk();
    config.disk.as_mut().expect("it is a disk").write_cache = write_cache;
    config
}

#[test]
fn a_cut_after_every_sector_keeps_what_was_flushed_forced_or_written_through() {
    let workload = [
        write(0, 9, false),
        write(20, 9, false),
        Op::Flush,
        write(4, 3, true),
        write(2, 8, false),
        Op::Deallocate(vec![(21, 4), (40, 2)]),
        write(22, 1, false),
        Op::Flush,
        write(30, 6, false),
        Op::Drain,
    ];
    let before: Vec<Op> = (0..6).map(|n| write(8 * n, 8, true)).collect();
    for write_cache in [false, true] {
        for depth in [1, 4] {
            sweep(&with_cache(write_cache), &before, &workload, depth);
        }
    }
}

/// What is not flushed is in the buffer and nowhere else: a cut after its first sector loses the others.
#[test]
fn a_cut_loses_what_the_write_cache_holds() {
    let held = |write_cache| {
        let mut rig = Rig::new(with_cache(write_cache));
        let world = World::new(rig.config());
        let power = PowerSwitch::cut_after(1);
        let ops = vec![write(0, 4, false), write(10, 4, false), Op::Flush];
        rig.run_clients(&power, vec![play(&world, ops, 1)]);
        let written = rig.contents().iter().filter(|page| **page != Ok(0)).count();
        compare(&mut rig, &world);
        written
    };
    assert_eq!((held(true), held(false)), (1, 1));
    let mut rig = Rig::new(with_cache(true));
    let all = rig.run(|mut host| async move {
        for lba in [3, 9, 40] {
            host.write(lba, 2, 7 + lba).await;
        }
        (host.read(40).await, host.statistics().await.media_programs)
    });
    // Read from the buffer: the arm has not moved.
    assert_eq!(all, (Ok(47), 0));
}

#[test]
fn a_disk_refuses_what_is_done_with_flash_alone() {
    let disk = || Drive::new(tiny_disk()).unwrap();
    let folder = image_folder();
    let saved = disk().save(&folder.path().join("image")).unwrap_err();
    assert_eq!(
        saved.to_string(),
        "a disk cannot be kept in an image: only flash can"
    );
    let wrong = |change: fn(&mut DriveConfig)| {
        let mut config = tiny_disk();
        change(&mut config);
        Drive::new(config).map(drop).unwrap_err().to_string()
    };
    let of_disk = |c: &mut DriveConfig| {
        c.disk
            .as_mut()
            .map(|d| (d.heads, d.zones) = (0, 3))
            .unwrap()
    };
    assert_eq!(wrong(of_disk), "drive: disk.heads = 0 must be 1 to 64");
    assert_eq!(
        wrong(|c| c.firmware.cores = 2),
        "drive: firmware.cores must be 1 in a disk"
    );
    assert_eq!(
        wrong(|c| c.host_memory.enabled = true),
        "drive: host_memory.enabled must be false in a disk"
    );
    assert_eq!(
        wrong(|c| c.disk = None),
        "drive: kind is 'disk' but there is no table [disk]"
    );
}

/// The log page of space asked every core for its flash, and a disk has none: the drive's thread ended.
#[test]
fn a_disk_tells_of_space_that_it_counts_none_and_of_allocation_nothing() {
    use wharf_wire::command::Command;
    use wharf_wire::log_page::LogPage;
    use wharf_wire::space::{SpaceLevel, SpacePage};
    use wharf_wire::status::StatusCode;
    Rig::new(tiny_disk()).run(|mut host| async move {
        let page: SpacePage = host.log(LogPage::Space).await;
        assert_eq!((page.capacity, page.used), (0, 0));
        assert_eq!(page.level, SpaceLevel::Green.raw());
        let to = host.whole.address(0);
        let asked = Command::get_lba_status(1, 0, 0, 4096).with_prp(to, 0);
        assert_eq!(host.admin_status(asked).await, StatusCode::InvalidOpcode);
    });
}
