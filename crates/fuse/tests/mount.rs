//! A mount, used by the system's own calls. Skipped, saying so, where nothing can be mounted.

#![allow(missing_docs)]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use wharf_files::Owner;
use wharf_files::model::{Model, ModelLimits};
use wharf_fuse::{MountOptions, mount};

/// The reference file system on a directory of its own; unmounted at the end.
struct Mounted {
    folder: tempfile::TempDir,
    served: Option<JoinHandle<io::Result<()>>>,
}

impl Mounted {
    #[allow(clippy::disallowed_methods)] // it is served until it is unmounted
    fn new() -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: mounting takes /dev/fuse, and root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().to_owned();
        let options = MountOptions {
            source: "model".into(),
            allows_other: false,
            is_read_only: false,
        };
        let before = fs::metadata(&directory).unwrap().dev();
        let place = directory.clone();
        let served = std::thread::spawn(move || {
            let open = || {
                Ok(Model::new(
                    ModelLimits::default(),
                    0o755,
                    Owner::default(),
                    0,
                ))
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

    fn end(mut self) {
        let flags = rustix::mount::UnmountFlags::empty();
        rustix::mount::unmount(self.folder.path(), flags).unwrap();
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
