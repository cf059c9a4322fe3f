//! Tests of the accounts of cached frames.

use super::*;
use crate::config::FrameIndex;
use crate::ftl::{Entry, Fill, Place};

#[test]
fn what_a_cache_costs_is_below_three_thousandths_of_it() {
    let config = config(0);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    let none = ftl.cached().bytes();
    for frames in [1 << 12, 1 << 20] {
        ftl.set_cached_frames(frames).unwrap();
        let bytes = ftl.cached().bytes() + size_of::<crate::core::hmb::Hmb>();
        let cache = u64::from(frames) * 4096;
        assert!(bytes as u64 * 1000 < cache * 3, "{bytes} bytes for {cache}");
        assert_eq!((bytes - none) / frames as usize, 12, "bytes a frame");
    }
}

/// A drive whose cached pages are found so.
fn found_by(index: FrameIndex) -> DriveConfig {
    let mut config = config(0);
    config.host_memory.index = index;
    config
}

#[test]
fn a_hash_table_beside_the_map_takes_memory_of_its_own() {
    let config = found_by(FrameIndex::Hash);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    let none = ftl.cached().bytes();
    for (frames, bytes) in [(1 << 12, 20), (3 << 10, 12 + 8 * 4 / 3)] {
        ftl.set_cached_frames(frames).unwrap();
        let each = (ftl.cached().bytes() - none) / frames as usize;
        assert_eq!(each, bytes, "bytes a frame");
    }
}

#[test]
fn a_cached_page_is_below_its_frame_what_it_was() {
    for index in [FrameIndex::Merged, FrameIndex::Hash] {
        stays_what_it_was_below(&found_by(index));
    }
}

fn stays_what_it_was_below(config: &DriveConfig) {
    let mut ftl = open(config, new_media(config), &PowerSwitch::on());
    ftl.set_cached_frames(2).unwrap();
    let write = |ftl: &mut Ftl, lpn: u32, value: u64| {
        let fill = |page: &mut [u8]| page.copy_from_slice(&value.to_le_bytes());
        ftl.stage(0, lpn, NONE, fill).unwrap();
    };
    write(&mut ftl, 5, 1);
    let frame = ftl.give_frame(5, Fill::Done).unwrap();
    assert!(
        matches!(ftl.place(5), Place::Frame(_)),
        "its program is under way"
    );
    ftl.verify();
    ftl.finish_all();
    let Place::Flash(first) = ftl.place(5) else {
        panic!("the program has ended: {:?}", ftl.place(5));
    };
    // Written again below its frame: the map still names the frame.
    write(&mut ftl, 5, 2);
    ftl.finish_all();
    assert_eq!(ftl.entry(5), Entry::Cached(frame));
    assert!(matches!(ftl.place(5), Place::Flash(second) if second != first));
    ftl.verify();
    assert_eq!(ftl.deallocate(5, 1, &mut Finished::default()), 1);
    assert_eq!((ftl.place(5), ftl.mapped()), (Place::Trimmed, 0));
    assert_eq!(ftl.cached_mut().release(frame), 0);
    ftl.take_frame_back(frame);
    assert_eq!(ftl.entry(5), Entry::Uncached(Place::Trimmed));
    ftl.verify();
}

#[test]
fn clock_gives_pinned_pages_a_second_chance_and_held_ones_none() {
    let config = config(0);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    ftl.set_cached_frames(4).unwrap();
    for lpn in 0..4 {
        let frame = ftl.give_frame(lpn, Fill::Done);
        assert_eq!(frame, Some(lpn));
    }
    assert_eq!(ftl.give_frame(9, Fill::Done), None);
    assert_eq!(ftl.cached_mut().next_victim().0, None, "all are held");
    for frame in [0, 1, 3] {
        ftl.cached_mut().release(frame);
    }
    // Once round clears the marks; then the first one that nobody refers to.
    assert_eq!(ftl.cached_mut().next_victim(), (Some(0), 5));
    ftl.cached_mut().hold(1);
    ftl.cached_mut().release(1);
    assert_eq!(ftl.cached_mut().next_victim().0, Some(3));
    ftl.take_frame_back(3);
    ftl.verify();
    assert_eq!(ftl.give_frame(9, Fill::Done), Some(3));
}
