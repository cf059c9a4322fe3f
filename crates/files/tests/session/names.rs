//! Paths that begin at open directories, and names that are none.

use wharf_files::Errno::*;
use wharf_files::block_on;
use wharf_files::vfs::{At, Start, Target};
use wharf_files::{Caller, FileSystem, OpenFlags};

use crate::{NEW, NOW_NS, errno, make, new_root, path, session, target};

#[test]
fn paths_begin_at_an_open_directory_also_where_it_is_moved_or_removed() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        root.mkdir(NOW_NS, path("/a"), 0o755).await.unwrap();
        root.mkdir(NOW_NS, path("/a/b"), 0o755).await.unwrap();
        make(&root, "/a/b/f", b"").await;
        make(&root, "/a/g", b"").await;
        let flags = OpenFlags::DIRECTORY;
        let opened = root.open(NOW_NS, path("/a/b"), flags, 0).await;
        let from = Start::Handle(opened.unwrap().handle);
        let at = |path: &'static [u8]| At { from, path };
        let stat = async |path| {
            let found = root.stat(Target::Path(at(path), true)).await;
            errno(found)
        };
        assert_eq!(stat(b"f").await, Ok(()));
        assert_eq!(stat(b"../g").await, Ok(()));
        // What begins with a slash begins at the root.
        assert_eq!(stat(b"/f").await, Err(ENOENT));
        assert_eq!(stat(b"f/").await, Err(ENOTDIR));
        assert_eq!(stat(b"").await, Err(ENOENT));
        root.mkdir(NOW_NS, path("/c"), 0o755).await.unwrap();
        let how = wharf_files::Rename::Replace;
        let moved = root.rename(NOW_NS, path("/a/b"), path("/c/b"), how).await;
        moved.unwrap();
        assert_eq!(
            (stat(b"f").await, stat(b"../g").await),
            (Ok(()), Err(ENOENT))
        );
        root.unlink(NOW_NS, at(b"f")).await.unwrap();
        root.rmdir(NOW_NS, path("/c/b")).await.unwrap();
        assert_eq!((stat(b".").await, stat(b"..").await), (Ok(()), Ok(())));
        let make = root.open(NOW_NS, at(b"new"), NEW, 0o600).await;
        assert_eq!(errno(make), Err(ENOENT));
        assert_eq!(errno(root.mkdir(NOW_NS, at(b"new"), 0).await), Err(ENOENT));
        // Then what it was in goes, too.
        root.rmdir(NOW_NS, path("/c")).await.unwrap();
        assert_eq!(stat(b"..").await, Err(ENOENT));
        let file = root.open(NOW_NS, path("/a/g"), OpenFlags::READ, 0).await;
        let from = Start::Handle(file.unwrap().handle);
        let path = b"g";
        let not_one = root.stat(Target::Path(At { from, path }, true)).await;
        assert_eq!(errno(not_one), Err(ENOTDIR));
    });
}

#[test]
fn bytes_that_are_no_path_or_name_are_refused() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        for (name, answer) in [
            (&b"/a\0b"[..], EINVAL),
            (b"", ENOENT),
            (&[b'/'; 4096], ENAMETOOLONG),
            (&[b'x'; 256], ENAMETOOLONG),
        ] {
            let made = root.mkdir(NOW_NS, name.into(), 0o755).await;
            assert_eq!(errno(made), Err(answer));
            let linked = root.symlink(NOW_NS, name, path("/s")).await;
            let answer = match name.len() {
                256 => Ok(()),
                _ => Err(answer),
            };
            assert_eq!(errno(linked), answer);
        }
        // Below the session, too.
        let by = wharf_files::By {
            caller: root.caller(),
            now_ns: NOW_NS,
        };
        let new = wharf_files::New {
            content: wharf_files::Content::File,
            mode: 0o600,
            owner: wharf_files::Owner::default(),
            is_open: false,
        };
        for (name, answer) in [
            (&b""[..], EINVAL),
            (b".", EINVAL),
            (b"..", EINVAL),
            (b"a/b", EINVAL),
            (b"a\0", EINVAL),
            (&[b'x'; 256], ENAMETOOLONG),
        ] {
            let entry = wharf_files::Entry::new(model.root(), name);
            assert_eq!(errno(model.create(by, entry, new).await), Err(answer));
        }
        let entry = wharf_files::Entry::new(77, b"a");
        assert_eq!(errno(model.create(by, entry, new).await), Err(ESTALE));
    });
}

#[test]
fn forty_links_are_followed_and_no_more() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        make(&root, "/0", b"").await;
        for link in 1..=41 {
            let (to, name) = (format!("{}", link - 1), format!("/{link}"));
            root.symlink(NOW_NS, to.as_bytes(), path(&name))
                .await
                .unwrap();
        }
        assert_eq!(errno(root.stat(target("/40")).await), Ok(()));
        assert_eq!(errno(root.stat(target("/41")).await), Err(ELOOP));
    });
}
