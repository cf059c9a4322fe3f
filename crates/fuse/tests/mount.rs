//! A mount, used by the system's own calls. Skipped, saying so, where nothing can be mounted.

#![allow(missing_docs)]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use wharf_files::Owner;
use wharf_files::model::{Model, ModelLimits};
use wharf_files::vfs::{SessionLimits, Sessions};
use wharf_fuse::{MountOptions, mount};

/// The reference file system on a directory of its own; unmounted at the end.
struct Mounted {
    folder: tempfile::TempDir,
    served: Option<JoinHandle<io::Result<()>>>,
}

impl Mounted {
    fn new() -> Option<Mounted> {
        Mounted::with(false)
    }

    #[allow(clippy::disallowed_methods)] // it is served until it is unmounted
    fn with(allows_other: bool) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: mounting takes /dev/fuse, and root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().to_owned();
        let options = MountOptions {
            source: "model".into(),
            allows_other,
            is_read_only: false,
        };
        let before = fs::metadata(&directory).unwrap().dev();
        let place = directory.clone();
        let served = std::thread::spawn(move || {
            let open = || {
                let model = Model::new(ModelLimits::default(), 0o755, Owner::default(), 0);
                Ok(Sessions::new(Rc::new(model), SessionLimits::default()))
            };
            mount(&place, &options, open, || (), |_| Ok(()))
        });
        while fs::metadata(&directory).unwrap().dev() == before {
            if served.is_finished() {
                println!("skipped: {:?}", served.join().unwrap());
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Mounted {
            folder,
            served: Some(served),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[allow(clippy::disallowed_methods)] // the kernel is waited for
    fn end(mut self) {
        let flags = rustix::mount::UnmountFlags::empty();
        let mut left = 500;
        // The kernel may be about to let go of what was just closed.
        while let Err(error) = rustix::mount::unmount(self.folder.path(), flags) {
            assert_eq!(error, rustix::io::Errno::BUSY);
            left -= 1;
            assert!(left > 0, "something uses it");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.served.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.served.is_some() {
            // A test has failed: nobody is to wait for it.
            let flags = rustix::mount::UnmountFlags::DETACH;
            let _ = rustix::mount::unmount(self.folder.path(), flags);
        }
    }
}

#[test]
fn files_directories_and_links_are_what_programs_expect() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let at = |name: &str| mounted.path(name);
    fs::create_dir(at("d")).unwrap();
    let data: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(at("d/file"), &data).unwrap();
    assert!(fs::read(at("d/file")).unwrap() == data);
    symlink("file", at("d/link")).unwrap();
    fs::hard_link(at("d/file"), at("other")).unwrap();
    assert_eq!(fs::metadata(at("d/link")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(at("d/link")).unwrap(), Path::new("file"));
    fs::rename(at("other"), at("d/third")).unwrap();
    fs::set_permissions(at("d/third"), fs::Permissions::from_mode(0o4711)).unwrap();
    let found = fs::metadata(at("d/file")).unwrap();
    assert_eq!((found.len(), found.mode() & 0o7777), (1_200_000, 0o4711));
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(at("d/file"))
        .unwrap();
    file.write_all(b"end").unwrap();
    file.sync_all().unwrap();
    fs::remove_file(at("d/file")).unwrap();
    fs::remove_file(at("d/third")).unwrap();
    // It is open, and so it is there.
    assert_eq!(file.metadata().unwrap().len(), 1_200_003);
    file.set_len(5).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    assert_eq!(
        fs::read(at("d/link")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let full = fs::remove_dir(at("d")).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::DirectoryNotEmpty);
    fs::remove_file(at("d/link")).unwrap();
    fs::remove_dir(at("d")).unwrap();
    assert_eq!(fs::read_dir(mounted.folder.path()).unwrap().count(), 0);
    mounted.end();
}

/// More entries than one answer holds, while others are removed.
#[test]
fn a_long_directory_is_listed_once_each() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    for number in 0..1500 {
        fs::write(
            mounted.path(&format!("a name of some length {number}")),
            b"",
        )
        .unwrap();
    }
    let mut seen = Vec::new();
    for (number, entry) in fs::read_dir(mounted.folder.path()).unwrap().enumerate() {
        seen.push(entry.unwrap().file_name().into_string().unwrap());
        if number % 3 == 0 {
            fs::remove_file(mounted.path(&seen[number])).unwrap();
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1500);
    assert_eq!(fs::read_dir(mounted.folder.path()).unwrap().count(), 1000);
    mounted.end();
}

/// What another user's shell says to a line; it must be one that knows no root.
fn as_nobody(line: &str) -> bool {
    use std::os::unix::process::CommandExt;
    let mut shell = std::process::Command::new("/bin/sh");
    let shell = shell.args(["-c", line]).uid(65534).gid(65534);
    let shell = shell.stdout(std::process::Stdio::null());
    shell
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
        .success()
}

/// The kernel walks along the names that it remembers without asking: whoever may not go through a
/// directory any more is stopped all the same, also at names that are known not to be there.
#[test]
fn a_name_that_is_remembered_lets_nobody_through() {
    let Some(mounted) = Mounted::with(true) else {
        return;
    };
    let at = |name: &str| mounted.path(name);
    let mode = |name: &str, mode| {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    for name in ["d", "d/e", "closed"] {
        fs::create_dir(at(name)).unwrap();
        mode(name, 0o755);
    }
    mode("closed", 0o700);
    for name in ["d/e/file", "d/moved"] {
        fs::write(at(name), b"1").unwrap();
        mode(name, 0o644);
    }
    let stat = |name: &str| as_nobody(&format!("stat {}", at(name).display()));
    for closed in [0o700, 0o754, 0o655] {
        assert!(stat("d/e/file") && stat("d/moved") && !stat("d/none"));
        assert!(fs::metadata(at("d/e/file")).is_ok() && fs::metadata(at("d/none")).is_err());
        mode("d", closed);
        // Of what is not there, root is told so, and nobody that it may not look.
        let known = fs::metadata(at("d/none")).unwrap_err().kind();
        assert_eq!(known, io::ErrorKind::NotFound);
        let line = format!("stat {} 2>&1 | grep -q 'No such'", at("d/none").display());
        assert_eq!(as_nobody(&line), closed == 0o655, "{closed:o}");
        assert_eq!(stat("d/e/file"), closed == 0o655, "{closed:o}");
        assert_eq!(stat("d/moved"), closed == 0o655, "{closed:o}");
        mode("d", 0o755);
    }
    assert!(stat("d/e/file") && stat("d/moved"));
    // What is moved into a closed directory takes no remembered name with it.
    fs::rename(at("d/moved"), at("closed/moved")).unwrap();
    fs::rename(at("d/e"), at("closed/e")).unwrap();
    assert!(fs::metadata(at("closed/moved")).is_ok() && fs::metadata(at("closed/e/file")).is_ok());
    assert!(!stat("closed/moved") && !stat("closed/e/file") && !stat("d/moved"));
    mounted.end();
}

/// What the kernel remembers of a file is what it is, whichever way it was changed.
#[test]
fn remembered_attributes_follow_each_change() {
    let Some(mounted) = Mounted::with(true) else {
        return;
    };
    let at = |name: &str| mounted.path(name);
    let stat = |name: &str| fs::metadata(at(name)).unwrap();
    fs::set_permissions(at(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(at("file"), b"12345").unwrap();
    fs::hard_link(at("file"), at("other")).unwrap();
    assert_eq!((stat("file").nlink(), stat("other").nlink()), (2, 2));
    let file = fs::File::options().append(true).open(at("other")).unwrap();
    rustix::io::write(&file, b"678").unwrap();
    assert_eq!((stat("file").len(), stat("other").len()), (8, 8));
    fs::rename(at("other"), at("third")).unwrap();
    fs::remove_file(at("file")).unwrap();
    assert_eq!((stat("third").nlink(), at("file").exists()), (1, false));
    // A write of somebody else takes the bits away that would run as the owner.
    fs::set_permissions(at("third"), fs::Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(stat("third").mode() & 0o7777, 0o6777);
    let line = format!("printf x >>{}", at("third").display());
    assert!(as_nobody(&line));
    assert_eq!(
        (stat("third").mode() & 0o7777, stat("third").len()),
        (0o777, 9)
    );
    // To cut a file that is opened to read takes the right to write it.
    fs::set_permissions(at("third"), fs::Permissions::from_mode(0o644)).unwrap();
    let line = format!(
        "perl -e 'use Fcntl; exit !sysopen(F, \"{}\", O_RDONLY|O_TRUNC)'",
        at("third").display()
    );
    assert!(!as_nobody(&line));
    assert_eq!(stat("third").len(), 9);
    let before = stat("").nlink();
    fs::create_dir(at("d")).unwrap();
    assert_eq!(stat("").nlink(), before + 1);
    fs::remove_dir(at("d")).unwrap();
    assert_eq!(stat("").nlink(), before);
    drop(file);
    mounted.end();
}
