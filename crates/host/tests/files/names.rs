//! What each operation on names answers, case by case.

use wharf_host::files::{Errno, FileClient, LIST_START, OpenFlags, Rename, SetAttributes};
use wharf_host::{Direct, Extent};

use crate::common::Shape;
use crate::run;
use Errno::*;

const NEW: OpenFlags = OpenFlags {
    exclusive: true,
    ..OpenFlags::CREATE
};

async fn make(files: &impl FileClient, path: &str) {
    let handle = files
        .open(path.as_bytes(), NEW, 0o644)
        .await
        .unwrap()
        .handle;
    files.close(handle).await.unwrap();
}

async fn open(files: &impl FileClient, path: &str, flags: OpenFlags) -> Result<(), Errno> {
    let handle = files.open(path.as_bytes(), flags, 0o644).await;
    match handle {
        Ok(opened) => files
            .close(opened.handle)
            .await
            .map_err(|error| error.errno()),
        Err(error) => Err(error.errno()),
    }
}

macro_rules! fails {
    ($call:expr, $errno:expr) => {
        assert_eq!(
            $call.await.map(|_| ()).map_err(|error| error.errno()),
            Err($errno)
        )
    };
}

#[test]
fn names_fail_as_posix_and_linux_say() {
    run::<Direct, _>(1, Shape::default(), (10, 1), |_, files, _| async move {
        let files = &*files;
        files.mkdir(b"/d", 0o755).await.unwrap();
        make(files, "/f").await;
        make(files, "/d/g").await;
        files.symlink(b"loop", b"/loop").await.unwrap();
        files.symlink(b"/d", b"/to-d").await.unwrap();
        files.symlink(b"nowhere", b"/dangling").await.unwrap();
        let long = [b"/", &[b'x'; 256][..]].concat();

        for (path, errno) in [
            ("", ENOENT),
            ("/x", ENOENT),
            ("/x/y", ENOENT),
            ("/f/y", ENOTDIR),
            ("/f/", ENOTDIR),
            ("/loop", ELOOP),
            ("/loop/x", ELOOP),
            ("/dangling", ENOENT),
            ("/a\0b", EINVAL),
        ] {
            fails!(files.stat(path.as_bytes(), true), errno);
        }
        fails!(files.stat(&long, true), ENAMETOOLONG);
        fails!(files.stat(&b"/d".repeat(2100), true), ENAMETOOLONG);
        files.stat(b"/dangling", false).await.unwrap();
        files.stat(b"/to-d/../d/./g", true).await.unwrap();
        files.stat(b"/../../d/", true).await.unwrap();

        let no_follow = OpenFlags {
            no_follow: true,
            ..OpenFlags::READ
        };
        let nothing = OpenFlags {
            read: false,
            ..OpenFlags::READ
        };
        for (path, flags, answer) in [
            ("/f", NEW, Err(EEXIST)),
            ("/dangling", NEW, Err(EEXIST)),
            ("/d", OpenFlags::UPDATE, Err(EISDIR)),
            ("/d", OpenFlags::CREATE, Err(EISDIR)),
            ("/new/", OpenFlags::CREATE, Err(EISDIR)),
            ("/f", OpenFlags::DIRECTORY, Err(ENOTDIR)),
            ("/to-d", no_follow, Err(ELOOP)),
            ("/to-d/", no_follow, Ok(())),
            ("/f", nothing, Err(EINVAL)),
            ("/d", OpenFlags::READ, Ok(())),
        ] {
            assert_eq!(open(files, path, flags).await, answer, "{path} {flags:?}");
        }
        // What a link leads to is made.
        open(files, "/dangling", OpenFlags::CREATE).await.unwrap();
        files.stat(b"/nowhere", false).await.unwrap();

        fails!(files.mkdir(b"/", 0), EEXIST);
        fails!(files.mkdir(b"/f", 0), EEXIST);
        fails!(files.rmdir(b"/"), EBUSY);
        fails!(files.rmdir(b"/d/."), EINVAL);
        fails!(files.rmdir(b"/d/.."), ENOTEMPTY);
        fails!(files.rmdir(b"/d"), ENOTEMPTY);
        fails!(files.rmdir(b"/f"), ENOTDIR);
        fails!(files.rmdir(b"/to-d"), ENOTDIR);
        fails!(files.remove(b"/d"), EISDIR);
        fails!(files.remove(b"/f/"), ENOTDIR);
        fails!(files.link(b"/d", b"/e"), EPERM);
        fails!(files.link(b"/f", b"/d"), EEXIST);
        fails!(files.symlink(b"", b"/s"), ENOENT);
        fails!(files.readlink(b"/f"), EINVAL);

        let replace = Rename::Replace;
        files.mkdir(b"/d/e", 0o755).await.unwrap();
        fails!(files.rename(b"/d", b"/d/e/d", replace), EINVAL);
        fails!(files.rename(b"/d/e", b"/d", replace), ENOTEMPTY);
        fails!(files.rename(b"/d", b"/f", replace), ENOTDIR);
        fails!(files.rename(b"/f", b"/d", replace), EISDIR);
        fails!(files.rename(b"/f", b"/d/g", Rename::NoReplace), EEXIST);
        fails!(files.rename(b"/", b"/z", replace), EBUSY);
        files.rename(b"/f", b"/d/g", replace).await.unwrap();
        fails!(files.stat(b"/f", false), ENOENT);
        let statistics = files.statistics();
        assert!(statistics.failures > 30 && !files.is_durable());
    });
}

#[test]
fn permission_bits_of_the_owner_count() {
    run::<Direct, _>(1, Shape::default(), (10, 1), |_, files, _| async move {
        let files = &*files;
        files.mkdir(b"/d", 0o755).await.unwrap();
        make(files, "/d/f").await;
        let mode = |mode| SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        files.set_attributes(b"/d/f", mode(0o200)).await.unwrap();
        fails!(files.open(b"/d/f", OpenFlags::READ, 0), EACCES);
        files.set_attributes(b"/d/f", mode(0o444)).await.unwrap();
        fails!(files.open(b"/d/f", OpenFlags::UPDATE, 0), EACCES);
        files.set_attributes(b"/d", mode(0o555)).await.unwrap();
        fails!(files.remove(b"/d/f"), EACCES);
        fails!(files.open(b"/d/new", OpenFlags::CREATE, 0o644), EACCES);
        fails!(files.mkdir(b"/d/e", 0o755), EACCES);
        fails!(files.rename(b"/d/f", b"/f", Rename::Replace), EACCES);
        files.set_attributes(b"/d", mode(0o600)).await.unwrap();
        fails!(files.stat(b"/d/f", true), EACCES);
        files.set_attributes(b"/d", mode(0o755)).await.unwrap();
        let attributes = files.stat(b"/d/f", true).await.unwrap();
        assert_eq!(attributes.mode, 0o444);
        files.remove(b"/d/f").await.unwrap();
    });
}

#[test]
fn a_handle_does_what_it_was_opened_for() {
    run::<Direct, _>(1, Shape::default(), (10, 1), |_, files, _| async move {
        let files = &*files;
        let one = Extent::new(0, 1);
        let write = files
            .open(b"/f", OpenFlags { read: false, ..NEW }, 0o644)
            .await
            .unwrap()
            .handle;
        let read = files.open(b"/f", OpenFlags::READ, 0).await.unwrap().handle;
        let root = files.open(b"/", OpenFlags::READ, 0).await.unwrap().handle;
        fails!(files.read_at(write, one, &mut [0]), EBADF);
        fails!(files.write_at(read, one, &[0]), EBADF);
        fails!(files.set_len(read, 0), EBADF);
        fails!(files.read_at(root, one, &mut [0]), EISDIR);
        fails!(files.write_at(write, one, &[0, 1]), EINVAL);
        fails!(
            files.write_at(write, Extent::new(u64::MAX, 1), &[0]),
            EINVAL
        );
        fails!(files.list(read, LIST_START, 1, &mut Vec::new()), ENOTDIR);
        let append = OpenFlags {
            append: true,
            ..OpenFlags::UPDATE
        };
        let append = files.open(b"/f", append, 0).await.unwrap().handle;
        for _ in 0..3 {
            files.write_at(append, one, &[7]).await.unwrap();
        }
        assert_eq!(files.attributes(read).await.unwrap().bytes, 3);
        for handle in [write, read, root, append] {
            files.close(handle).await.unwrap();
            fails!(files.attributes(handle), EBADF);
        }
        // The place is another file's: the old handle does not lead to it.
        let again = files.open(b"/f", OpenFlags::READ, 0).await.unwrap().handle;
        assert_ne!(again, append);
        fails!(files.read_at(append, one, &mut [0]), EBADF);
    });
}

#[test]
fn what_has_no_room_says_so_and_comes_back_when_files_go() {
    // 100 pages in 4 regions.
    let shape = Shape {
        drive_pages: 100,
        ..Shape::default()
    };
    run::<Direct, _>(1, shape, (4, 1), |_, files, _| async move {
        let files = &*files;
        let page = vec![1; 4096];
        let first = Extent::of_pages(0, 1);
        for round in 0..3 {
            let mut open = Vec::new();
            for name in ["/a", "/b", "/c", "/d"] {
                let handle = files
                    .open(name.as_bytes(), OpenFlags::CREATE, 0o644)
                    .await
                    .unwrap()
                    .handle;
                files.write_at(handle, first, &page).await.unwrap();
                open.push(handle);
            }
            let fifth = files
                .open(b"/e", OpenFlags::CREATE, 0o644)
                .await
                .unwrap()
                .handle;
            fails!(files.write_at(fifth, first, &page), ENOSPC);
            // Its size may be anything up to a region's.
            files.set_len(fifth, 25 * 4096).await.unwrap();
            fails!(files.set_len(fifth, 25 * 4096 + 1), EFBIG);
            fails!(
                files.write_at(open[0], Extent::of_pages(25, 1), &page),
                EFBIG
            );
            // A name that goes gives nothing back while the file is open.
            files.remove(b"/a").await.unwrap();
            fails!(files.write_at(fifth, first, &page), ENOSPC);
            let mut out = vec![0; 4096];
            files.read_at(open[0], first, &mut out).await.unwrap();
            assert!(out == page, "round {round}");
            files.close(open[0]).await.unwrap();
            files.write_at(fifth, first, &page).await.unwrap();
            for (handle, name) in open[1..].iter().zip(["/b", "/c", "/d"]) {
                files.close(*handle).await.unwrap();
                files.remove(name.as_bytes()).await.unwrap();
            }
            files.close(fifth).await.unwrap();
            files.remove(b"/e").await.unwrap();
        }
    });
}

#[test]
fn a_listing_goes_on_while_entries_come_and_go() {
    run::<Direct, _>(1, Shape::default(), (10, 1), |_, files, _| async move {
        let files = &*files;
        for number in 0..20 {
            make(files, &format!("/stays{number:02}")).await;
            make(files, &format!("/goes{number:02}")).await;
        }
        let root = files
            .open(b"/", OpenFlags::DIRECTORY, 0)
            .await
            .unwrap()
            .handle;
        let (mut entries, mut cookie, mut round) = (Vec::new(), LIST_START, 0);
        while !files.list(root, cookie, 3, &mut entries).await.unwrap() {
            cookie = entries.last().expect("there are more").cookie;
            files
                .remove(format!("/goes{round:02}").as_bytes())
                .await
                .unwrap();
            make(files, &format!("/aaa{round:02}")).await;
            let (old, new) = (format!("/goes{:02}", 19 - round), format!("/zzz{round:02}"));
            let _ = files
                .rename(old.as_bytes(), new.as_bytes(), Rename::Replace)
                .await;
            round += 1;
            if round == 10 {
                break;
            }
        }
        while !files.list(root, cookie, 100, &mut entries).await.unwrap() {}
        for number in 0..20 {
            let name = format!("stays{number:02}");
            let found = entries
                .iter()
                .filter(|entry| *entry.name == *name.as_bytes());
            assert_eq!(found.count(), 1, "{name}");
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        assert!(entries.windows(2).all(|pair| pair[0].name != pair[1].name));
    });
}
