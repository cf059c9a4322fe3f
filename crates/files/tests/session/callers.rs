//! One session that speaks for several callers.

use wharf_files::Errno::*;
use wharf_files::vfs::SessionLimits;
use wharf_files::vfs::{Session, Target};
use wharf_files::{Caller, Handle, OpenFlags, block_on};

use crate::{NEW, NOW_NS, errno, new_root, path, target};

#[test]
fn open_files_are_shared_and_keep_who_opened_them() {
    block_on(async {
        let limits = SessionLimits {
            first_generation: 77,
            ..SessionLimits::default()
        };
        let all = Session::new(new_root(), Caller::root(), limits);
        let (one, two) = (Caller::user(5, 5), Caller::user(6, 6));
        let (one, two) = (all.as_caller(one, 100), all.as_caller(two, u64::MAX));
        let opened = one.open(NOW_NS, path("/f"), NEW, 0o600).await.unwrap();
        assert_eq!(opened.attributes.owner.uid, 5);
        assert_eq!(opened.handle.generation, 77);
        // By its path it is the first one's alone; by its handle it is what it was opened for.
        let by_path = two.open(NOW_NS, path("/f"), OpenFlags::READ, 0).await;
        assert_eq!(errno(by_path), Err(EACCES));
        assert!(two.is_open(opened.handle) && all.is_open(opened.handle));
        let longer = two.truncate_open(NOW_NS, opened.handle, 101).await;
        assert_eq!(errno(longer), Err(EFBIG), "the limit of who opened it");
        assert_eq!(
            errno(two.truncate_open(NOW_NS, opened.handle, 100).await),
            Ok(())
        );
        let other = Handle {
            generation: 78,
            ..opened.handle
        };
        assert!(!two.is_open(other));
        assert_eq!(errno(two.stat(Target::Handle(other)).await), Err(EBADF));
        two.close(opened.handle).await.unwrap();
        assert!(!one.is_open(opened.handle));
        assert_eq!(all.handles_count(), 0);
        assert_eq!(one.stat(target("/f")).await.unwrap().bytes, 100);
    });
}
