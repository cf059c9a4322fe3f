//! Faults of the past and faults that would be easy to make, each with the history that shows it.

use super::*;

fn stage(ftl: &mut Ftl, lpn: u32, value: u64) {
    let stamp = value.to_le_bytes();
    ftl.stage(0, lpn, NONE, |frame| frame.copy_from_slice(&stamp))
        .unwrap();
}

fn value(ftl: &mut Ftl, lpn: u32) -> u64 {
    let mut data = [0; 8];
    ftl.read(0, lpn, &mut data).unwrap();
    u64::from_le_bytes(data)
}

/// A page is written, deallocated while that is under way, and a checkpoint is taken: then the program
/// ends. The checkpoint of a sparse map does not name the page, and its copy must not come back.
#[test]
fn a_program_that_ends_after_the_checkpoint_does_not_bring_a_deallocated_page_back() {
    for make in [config, sparse_config] {
        let config = make(1000);
        let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
        stage(&mut ftl, 7, 70);
        stage(&mut ftl, 8, 80);
        ftl.deallocate(7, 1, &mut Finished::default());
        ftl.write_checkpoint().unwrap();
        ftl.finish_all();
        let mut ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
        ftl.verify();
        assert_eq!((value(&mut ftl, 7), value(&mut ftl, 8)), (0, 80));
        assert_eq!(ftl.mapped(), 1);
    }
}

/// The same of a page that was made zeros: it is allocated, and reads as zeros.
#[test]
fn a_program_that_ends_after_the_checkpoint_does_not_undo_zeros() {
    for make in [config, sparse_config] {
        let config = make(1000);
        let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
        stage(&mut ftl, 7, 70);
        ftl.zero(7, 1, &mut Finished::default());
        ftl.write_checkpoint().unwrap();
        ftl.finish_all();
        let mut ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
        ftl.verify();
        assert_eq!((value(&mut ftl, 7), ftl.place(7)), (0, Place::Zero));
        assert_eq!((ftl.mapped(), ftl.used_granules()), (1, 0));
    }
}

/// Durable zeros are written over, and the power goes before the program ends: zeros are found, allocated;
/// folded into deallocated pages they would be lost to whoever asks what is there.
#[test]
fn zeros_that_are_being_written_over_are_zeros_after_a_cut() {
    for (make, with_checkpoint) in [
        (config as fn(u64) -> _, false),
        (config, true),
        (sparse_config, false),
        (sparse_config, true),
    ] {
        let config = make(1000);
        let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
        ftl.zero(7, 2, &mut Finished::default());
        ftl.write_log().unwrap();
        stage(&mut ftl, 7, 70);
        if with_checkpoint {
            ftl.write_checkpoint().unwrap();
        }
        // The power goes: the frame is lost.
        let ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
        ftl.verify();
        assert_eq!(
            (ftl.place(7), ftl.place(8)),
            (Place::Zero, Place::Zero),
            "checkpoint: {with_checkpoint}"
        );
        assert_eq!((ftl.mapped(), ftl.used_granules()), (2, 0));
    }
}

/// A write over zeros that fails leaves zeros that are allocated.
#[test]
fn zeros_survive_a_program_over_them_and_are_gone_when_deallocated() {
    for make in [config, sparse_config] {
        let config = make(0);
        let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
        let mut finished = Finished::default();
        ftl.zero(7, 1, &mut finished);
        stage(&mut ftl, 7, 70);
        ftl.finish_all();
        assert_eq!(value(&mut ftl, 7), 70);
        ftl.zero(7, 1, &mut finished);
        ftl.deallocate(7, 1, &mut finished);
        ftl.write_log().unwrap();
        let ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
        assert_eq!((ftl.place(7).is_mapped(), ftl.mapped()), (false, 0));
        ftl.verify();
    }
}

/// Images of drives that show what they hold, from before there were zeros and sparse maps, open: their checkpoints
/// are what they always were.
#[test]
fn a_flat_checkpoint_is_written_as_it_always_was() {
    let config = config(1000);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    stage(&mut ftl, 0, 5);
    stage(&mut ftl, 2, 6);
    ftl.finish_all();
    let Place::Flash(ppn) = ftl.place(0) else {
        panic!("page 0 is on flash");
    };
    ftl.deallocate(2, 1, &mut Finished::default());
    stage(&mut ftl, 3, 7);
    ftl.write_checkpoint().unwrap();
    let log = ftl.media_mut().log_read().unwrap();
    let map = log.iter().find(|record| record[0] == 4).expect("a map");
    let entry = |lpn: usize| u32::from_le_bytes(map[8 + lpn * 4..][..4].try_into().unwrap());
    assert_eq!(
        [entry(0), entry(1), entry(2), entry(3)],
        [ppn + 2, 0, 1, u32::MAX]
    );
}
