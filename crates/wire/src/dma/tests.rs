//! Addresses find their pages, and nothing else.

use std::sync::Arc;

use super::*;
use crate::memory::SharedMemory;

#[test]
fn an_address_resolves_to_its_page_and_no_other() {
    let space = DmaSpace::new(STAMP_BYTES);
    let region = space.register(4).unwrap();
    for page in 0..4 {
        // SAFETY: no command is in flight and one reference is alive at a time.
        unsafe { region.page_mut(page) }.fill(page as u8 + 1);
    }
    for page in 0..4 {
        let mut bytes = [0; STAMP_BYTES];
        // SAFETY: nobody writes to the page.
        unsafe {
            space
                .page(region.address(page))
                .unwrap()
                .copy_out(&mut bytes)
        };
        assert_eq!(bytes, [page as u8 + 1; STAMP_BYTES]);
    }
}

#[test]
fn a_wrong_address_is_a_fault() {
    let space = DmaSpace::new(PAGE_BYTES);
    let region = space.register(2).unwrap();
    let end = region.address(1) + PAGE_BYTES as u64;
    for address in [
        0,
        1,
        end,
        region.address(0) + 8,
        7 << REGION_SHIFT,
        u64::MAX,
    ] {
        assert_eq!(space.page(address).err(), Some(DmaFault(address)));
    }
    assert!(space.read_u64(region.address(0) + 4).is_err());
    assert!(space.read_u64(region.address(0) + 8).is_ok());
}

#[test]
fn a_guest_names_its_own_region_and_nothing_else() {
    let space = DmaSpace::shareable(PAGE_BYTES);
    let owned = space.register(2).unwrap();
    let memory = Arc::new(SharedMemory::create(3 * PAGE_BYTES).unwrap());
    space.admit(5, &memory, PAGE_BYTES, 2);
    let guest = DmaSpace::within(&memory, PAGE_BYTES, 2);
    let (first, second) = (guest.register_whole(1).unwrap(), guest.register(1).unwrap());
    assert!(matches!(
        guest.register_whole(3),
        Err(RegisterError::Short { pages: 3 })
    ));
    // SAFETY: no command is in flight and one reference is alive at a time.
    unsafe { second.page_mut(0) }.fill(9);
    let named = of_guest(5, second.address(0));
    let mut bytes = [0; PAGE_BYTES];
    // SAFETY: nobody writes to the page.
    unsafe { space.page(named).unwrap().copy_out(&mut bytes) };
    assert_eq!(bytes, [9; PAGE_BYTES]);
    let end = second.address(0) + PAGE_BYTES as u64;
    for address in [
        0,
        owned.address(0) + (1 << REGION_SHIFT),
        end,
        u64::MAX,
        6 << GUEST_SHIFT,
    ] {
        assert!(space.page(of_guest(5, address)).is_err(), "{address:#x}");
    }
    assert!(space.page(of_guest(4, second.address(0))).is_err());
    // What a guest's list names is the guest's.
    let list = first.page_pointer(0).cast::<u64>();
    // SAFETY: the page of a region of whole pages, which nobody uses.
    unsafe { list.write(second.address(0)) };
    assert_eq!(space.read_prp(of_guest(5, first.address(0))), Ok(named));
    assert_eq!(
        space.read_u64(of_guest(5, first.address(0))),
        Ok(second.address(0))
    );
}

/// A page that a write names may be read by the host meanwhile, and written by another drive from the same
/// address: the drive had an exclusive reference to it.
#[test]
fn a_page_is_copied_while_others_look_at_it() {
    let space = DmaSpace::new(PAGE_BYTES);
    let region = space.register(2).unwrap();
    // SAFETY: nobody else has the page.
    unsafe { region.page_mut(0) }.fill(5);
    // SAFETY: nobody writes to the page from here on.
    let seen = unsafe { region.page_ref(0) };
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let (mut out, page) = ([0; PAGE_BYTES], space.page(region.address(0)).unwrap());
                // SAFETY: as above.
                unsafe { page.copy_out(&mut out) };
                assert_eq!(out, seen);
            });
        }
        let (page, to) = [0, 1]
            .map(|page| space.page(region.address(page)).unwrap())
            .into();
        // SAFETY: as above, and nobody else has the second page.
        unsafe { to.copy_from(page) };
        // A page onto itself.
        // SAFETY: as above.
        unsafe { to.copy_from(to) };
    });
    // SAFETY: nobody else has the page.
    assert_eq!(unsafe { region.page_mut(1) }, seen);
}
