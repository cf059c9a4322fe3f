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
        // SAFETY: as above.
        let bytes = unsafe { space.page_mut(region.address(page)) }.unwrap();
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
        // SAFETY: no reference to any page is alive.
        let page = unsafe { space.page_mut(address) };
        assert_eq!(page.err(), Some(DmaFault(address)));
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
    // SAFETY: as above.
    assert_eq!(unsafe { space.page_mut(named) }.unwrap(), [9; PAGE_BYTES]);
    let end = second.address(0) + PAGE_BYTES as u64;
    for address in [
        0,
        owned.address(0) + (1 << REGION_SHIFT),
        end,
        u64::MAX,
        6 << GUEST_SHIFT,
    ] {
        assert!(
            space.page_pointer(of_guest(5, address)).is_err(),
            "{address:#x}"
        );
    }
    assert!(space.page_pointer(of_guest(4, second.address(0))).is_err());
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
