//! Bytes: ends, limits, holes, handles.

use wharf_files::Errno::*;
use wharf_files::block_on;
use wharf_files::vfs::{Session, SessionLimits, Target};
use wharf_files::{
    Allocate, Caller, FILE_BYTES_MAX, Handle, OpenFlags, PAGE_BYTES, Place, Seek, Sync,
};

use crate::{NEW, NOW_NS, errno, make, new_root, path, session, target};

#[test]
fn nothing_is_written_at_or_beyond_the_callers_limit() {
    block_on(async {
        let model = new_root();
        let limits = SessionLimits {
            file_bytes: 100,
            ..SessionLimits::default()
        };
        let all = session(&model, Caller::root());
        let limited = Session::new(model.clone(), Caller::root(), limits);
        make(&all, "/long", &[1; 200]).await;
        let flags = OpenFlags::CREATE;
        let handle = limited.open(NOW_NS, path("/f"), flags, 0o600).await;
        let handle = handle.unwrap().handle;
        let write = async |place, bytes: usize| {
            let written = limited.write(NOW_NS, handle, place, &vec![7; bytes]).await;
            written
                .map(|written| (written.offset, written.bytes))
                .map_err(|error| error.errno())
        };
        assert_eq!(write(Place::At(90), 20).await, Ok((90, 10)));
        assert_eq!(write(Place::At(100), 1).await, Err(EFBIG));
        assert_eq!(write(Place::End, 1).await, Err(EFBIG));
        // Of nothing there is never too much.
        assert_eq!(write(Place::At(100), 0).await, Ok((100, 0)));
        let cut = async |bytes| errno(limited.truncate_open(NOW_NS, handle, bytes).await);
        assert_eq!((cut(101).await, cut(100).await), (Err(EFBIG), Ok(())));
        let what = Allocate::Extend;
        let grown = limited.allocate(NOW_NS, handle, 0, 101, what).await;
        assert_eq!(errno(grown), Err(EFBIG));
        let kept = limited.allocate(NOW_NS, handle, 0, 101, Allocate::KeepSize);
        assert_eq!(errno(kept.await), Ok(()));
        // What is long already may be shortened.
        let short = async |bytes| errno(limited.truncate(NOW_NS, path("/long"), bytes).await);
        assert_eq!((short(150).await, short(151).await), (Ok(()), Err(EFBIG)));
    });
}

#[test]
fn what_was_unlinked_stays_for_those_who_have_it_open() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        make(&root, "/f", b"bytes").await;
        let one = root.open(NOW_NS, path("/f"), OpenFlags::UPDATE, 0).await;
        let one = one.unwrap().handle;
        let two = root.open(NOW_NS, path("/f"), OpenFlags::READ, 0).await;
        let two = two.unwrap();
        root.unlink(NOW_NS, path("/f")).await.unwrap();
        assert_eq!(errno(root.stat(target("/f")).await), Err(ENOENT));
        let written = root.write(NOW_NS, one, Place::End, b" more").await;
        assert_eq!(written.unwrap().offset, 5);
        root.sync(one, Sync::All).await.unwrap();
        root.close(one).await.unwrap();
        let mut out = [0; 20];
        let read = root.read(NOW_NS, two.handle, 0, &mut out).await.unwrap();
        assert_eq!(&out[..read as usize], b"bytes more");
        let left = root.stat(Target::Handle(two.handle)).await.unwrap();
        assert_eq!((left.links, left.bytes), (0, 10));
        root.close(two.handle).await.unwrap();
        let gone = model_attributes(&root, two.attributes.number).await;
        assert_eq!(gone, Err(ESTALE));
    });
}

async fn model_attributes(
    session: &Session<std::rc::Rc<wharf_files::model::Model>>,
    number: u64,
) -> Result<(), wharf_files::Errno> {
    use wharf_files::FileSystem;
    errno(session.file_system().attributes(number).await)
}

#[test]
fn handles_do_what_they_were_opened_for_and_nothing_when_they_are_closed() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        make(&root, "/f", b"bytes").await;
        root.mkdir(NOW_NS, path("/d"), 0o755).await.unwrap();
        let open = async |name, flags| root.open(NOW_NS, path(name), flags, 0).await.unwrap();
        let read = open("/f", OpenFlags::READ).await.handle;
        let only_write = OpenFlags {
            read: false,
            ..OpenFlags::UPDATE
        };
        let write = open("/f", only_write).await.handle;
        let directory = open("/d", OpenFlags::DIRECTORY).await.handle;
        let mut out = [0; 4];
        let mut all = Vec::new();
        for (result, answer) in [
            (
                errno(root.read(NOW_NS, write, 0, &mut out).await),
                Err(EBADF),
            ),
            (
                errno(root.read(NOW_NS, directory, 0, &mut out).await),
                Err(EISDIR),
            ),
            (
                errno(root.write(NOW_NS, read, Place::End, b"x").await),
                Err(EBADF),
            ),
            (
                errno(root.write(NOW_NS, directory, Place::End, b"x").await),
                Err(EBADF),
            ),
            (
                errno(root.truncate_open(NOW_NS, read, 0).await),
                Err(EINVAL),
            ),
            (
                errno(root.truncate_open(NOW_NS, directory, 0).await),
                Err(EINVAL),
            ),
            (
                errno(root.seek(directory, 0, Seek::Data).await),
                Err(EINVAL),
            ),
            (errno(root.list(read, 0, 9, &mut all).await), Err(ENOTDIR)),
            (errno(root.sync(directory, Sync::All).await), Ok(())),
        ] {
            assert_eq!(result, answer);
        }
        root.rmdir(NOW_NS, path("/d")).await.unwrap();
        assert_eq!(
            errno(root.list(directory, 0, 9, &mut all).await),
            Err(ENOENT)
        );
        for handle in [read, write, directory] {
            root.close(handle).await.unwrap();
            assert_eq!(errno(root.close(handle).await), Err(EBADF));
            let stat = root.stat(Target::Handle(handle)).await;
            assert_eq!(errno(stat), Err(EBADF));
        }
        // The same place, another handle.
        let again = open("/f", OpenFlags::READ).await.handle;
        assert_eq!(
            errno(root.read(NOW_NS, read, 0, &mut out).await),
            Err(EBADF)
        );
        let guessed = Handle {
            generation: again.generation.wrapping_add(1),
            ..again
        };
        assert_eq!(errno(root.close(guessed).await), Err(EBADF));
        assert_eq!(root.handles_count(), 1);
    });
}

#[test]
fn a_session_opens_no_more_than_it_may_and_closes_all() {
    block_on(async {
        let model = new_root();
        let limits = SessionLimits {
            handles: 2,
            ..SessionLimits::default()
        };
        let root = Session::new(model.clone(), Caller::root(), limits);
        for name in ["/a", "/b"] {
            root.open(NOW_NS, path(name), NEW, 0o600).await.unwrap();
        }
        let third = root.open(NOW_NS, path("/c"), NEW, 0o600).await;
        assert_eq!(errno(third), Err(ENFILE));
        assert_eq!(errno(root.stat(target("/c")).await), Err(ENOENT));
        root.unlink(NOW_NS, path("/a")).await.unwrap();
        root.close_all().await.unwrap();
        assert_eq!(root.handles_count(), 0);
        root.open(NOW_NS, path("/c"), NEW, 0o600).await.unwrap();
    });
}

#[test]
fn offsets_beyond_what_a_file_can_have_are_refused() {
    block_on(async {
        let model = new_root();
        let root = session(&model, Caller::root());
        let handle = root.open(NOW_NS, path("/f"), NEW, 0o600).await;
        let handle = handle.unwrap().handle;
        let last = FILE_BYTES_MAX;
        let out = [0; 8];
        let read = async |offset| {
            let mut out = out;
            errno(root.read(NOW_NS, handle, offset, &mut out).await)
        };
        for offset in [last - 7, last, last + 1, u64::MAX] {
            assert_eq!(read(offset).await, Err(EINVAL), "{offset}");
            let write = root.write(NOW_NS, handle, Place::At(offset), &out).await;
            assert_eq!(errno(write), Err(EINVAL), "{offset}");
        }
        let allocate = async |offset, bytes| {
            let what = Allocate::Punch;
            errno(root.allocate(NOW_NS, handle, offset, bytes, what).await)
        };
        assert_eq!(allocate(u64::MAX, 1).await, Err(EINVAL));
        assert_eq!(allocate(0, u64::MAX).await, Err(EINVAL));
        assert_eq!(allocate(last, last).await, Err(EFBIG));
        assert_eq!(allocate(0, 0).await, Err(EINVAL));
        let cut = async |bytes| errno(root.truncate_open(NOW_NS, handle, bytes).await);
        assert_eq!(cut(last + 1).await, Err(EINVAL));
        // The longest file there is, of which nothing is stored.
        assert_eq!(cut(last).await, Ok(()));
        let write = root.write(NOW_NS, handle, Place::End, b"x").await;
        assert_eq!(errno(write), Err(EFBIG));
        let end = root.seek(handle, 0, Seek::Hole).await;
        assert_eq!(end, Ok(0));
        let write = root.write(NOW_NS, handle, Place::At(last - 8), &out).await;
        assert_eq!(write.unwrap().bytes, 8);
        let data = root.seek(handle, 1, Seek::Data).await;
        assert_eq!(data, Ok(last / PAGE_BYTES * PAGE_BYTES));
    });
}
