//! What threads of one process learn from the drive in another order than it answered them, and have it do side by side.

use std::sync::Arc;

use wharf_files::vfs::{At, Start};
use wharf_files::{Attributes, Caller, Handle, Kind, OpenFlags, Owner};
use wharf_host::stor::Leased;
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES};
use wharf_wire::file::{lock_area, write_area};

use super::super::keeping::Keeping;
use super::leased::FILES_MAX;
use super::near::Near;
use super::{Answer, Cache};

const FILE: Handle = Handle {
    index: 3,
    generation: 1,
};

fn of_bytes(bytes: u64) -> Attributes {
    Attributes {
        number: 77,
        kind: Kind::File,
        mode: 0o644,
        owner: Owner::default(),
        links: 1,
        bytes,
        device: 0,
        stored_bytes: 0,
        accessed_ns: 0,
        modified_ns: 0,
        changed_ns: 0,
    }
}

/// A cache with one open file, and the memory by which the drive tells it of changes.
fn with_a_file() -> (Cache, DmaRegion, Arc<DmaSpace>) {
    let space = DmaSpace::new(PAGE_BYTES);
    let pages = 1 + write_area::AREA_PAGES + lock_area::AREA_PAGES;
    let words = space.register_whole(pages).unwrap();
    let mut cache = Cache::new(Keeping::of_bytes(1 << 20), &words);
    let asked = cache.together.ask(None);
    cache.opened(FILE, &of_bytes(0), OpenFlags::READ, asked);
    cache.together.answered(asked);
    (cache, words, space)
}

/// The drive gives a lease of the file, which has `bytes` bytes.
fn give_lease(cache: &mut Cache, space: &Arc<DmaSpace>, lease: u64, bytes: u64) {
    let word = (0..9)
        .find_map(|_| cache.ask(FILE))
        .expect("no pause is longer");
    let asked = cache.together.ask(Some(77));
    space.word(word).unwrap().tell(lease);
    let attributes = of_bytes(bytes);
    cache.answered(FILE, &Leased { lease, attributes }, asked);
    cache.together.answered(asked);
}

/// One thread asks for attributes; the drive answers; another process appends; another thread gets a lease; the first one goes on.
#[test]
fn attributes_from_before_a_lease_are_not_kept_under_it() {
    let (mut cache, _words, space) = with_a_file();
    let by_handle = cache.together.ask(Some(77));
    let by_path = cache.together.ask(None);
    give_lease(&mut cache, &space, 5, 32);
    cache.learn(FILE, &of_bytes(16), by_handle);
    cache.learn_of(&of_bytes(16), by_path);
    cache.opened(FILE, &of_bytes(16), OpenFlags::READ, by_path);
    assert_eq!(cache.attributes(FILE).unwrap().bytes, 32);
    // What is asked for under the lease is kept.
    let asked = cache.together.ask(Some(77));
    cache.learn(FILE, &of_bytes(48), asked);
    assert_eq!(cache.attributes(FILE).unwrap().bytes, 48);
}

/// The same with two leases, whose answers are looked at in the other order.
#[test]
fn a_lease_from_before_another_one_is_not_used() {
    let (mut cache, _words, space) = with_a_file();
    let asked = cache.together.ask(Some(77));
    give_lease(&mut cache, &space, 6, 32);
    let attributes = of_bytes(16);
    cache.answered(
        FILE,
        &Leased {
            lease: 5,
            attributes,
        },
        asked,
    );
    assert_eq!(cache.attributes(FILE), None);
    give_lease(&mut cache, &space, 7, 32);
    assert_eq!(cache.attributes(FILE).unwrap().bytes, 32);
}

#[test]
fn a_name_from_before_a_lease_of_names_is_not_kept_under_it() {
    let (mut cache, words, _space) = with_a_file();
    let caller = Caller::root();
    let at = At {
        from: Start::Root,
        path: b"made",
    };
    let early = cache.together.ask(None);
    words.word(FILES_MAX).0.tell(9);
    cache.names.find(&caller, at, true, None);
    assert!((0..9).any(|_| cache.names.ask(&caller).is_some()));
    cache.names_answered(9);
    cache.learn_name(&caller, (at, true), None, Some(Answer::Nothing), early);
    assert!(cache.names.find(&caller, at, true, None).is_none());
    let asked = cache.together.ask(None);
    cache.learn_name(&caller, (at, true), None, Some(Answer::Nothing), asked);
    assert!(cache.names.find(&caller, at, true, None).is_some());
}

/// One thread has pages of a file leave the drive's cache, by the only handle of that; another closes it. If the drive closes it first, the
/// first thread's command fails.
#[test]
fn pages_that_are_leaving_leave_before_the_last_handle_is_closed() {
    for (is_leaving, has_left) in [(false, true), (true, true), (true, false)] {
        let (mut cache, _words, _space) = with_a_file();
        let near = cache.near.insert(Near::default());
        near.add(77, &(3..4));
        near.note_full();
        for nth in 0.. {
            if !cache.frames.has_room() {
                break;
            }
            cache.frames.put((0, nth));
        }
        let (by, leaving) = cache.next_leaving().expect("neither cache has room");
        assert_eq!((by, leaving.bytes()), (FILE, (0, 64 << 12)));
        if !is_leaving {
            cache.left(&leaving, has_left);
        }
        assert_eq!(cache.leaves_near(FILE), is_leaving);
        if is_leaving {
            cache.left(&leaving, has_left);
        }
        // Of a file that is not open nothing can leave.
        assert!(cache.next_leaving().is_none() && !cache.stays_near(77));
    }
}
