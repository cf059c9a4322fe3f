//! The operations, by each way to do them. What a way has no such operation for is `None`, and is not timed.

use std::fs::{File as SystemFile, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::OFlags;
use wharf::files::{File, Mount, OpenFlags, Rename};
use wharf::host::direct::Direct;
use wharf::store::Client;

/// Operations on one file that is open, and on names.
pub trait Way {
    /// Reads from byte `at` on.
    fn read(&self, at: u64, out: &mut [u8]) -> Option<()>;
    /// Writes from byte `at` on.
    fn write(&self, at: u64, data: &[u8]) -> Option<()>;
    /// Asks for the attributes of the open file.
    fn fstat(&self) -> Option<()>;
    /// Makes a file, and closes it.
    fn create(&self, name: &str) -> Option<()>;
    /// Opens a file, and closes it.
    fn open(&self, name: &str) -> Option<()>;
    /// Asks for attributes by name.
    fn stat(&self, name: &str) -> Option<()>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> Option<()>;
    /// Removes a name.
    fn unlink(&self, name: &str) -> Option<()>;
    /// Appends a page to another open file, and makes it durable.
    fn append(&self) -> Option<()>;
    /// Reads a page past all caches.
    fn read_uncached(&self, at: u64, out: &mut [u8; 4096]) -> Option<()>;
    /// Writes a page past all caches.
    fn write_uncached(&self, at: u64, data: &[u8; 4096]) -> Option<()>;
    /// Leaves nothing behind.
    fn clean(&self) {}
}

const FAILED: &str = "the operation succeeds";

/// `wharf::files`, in this process.
pub struct Library<'a> {
    mount: &'a Mount,
    data: File<'a>,
    log: File<'a>,
}

impl<'a> Library<'a> {
    /// With a file of so many bytes.
    pub fn new(mount: &'a Mount, bytes: u64) -> Library<'a> {
        let open = |name: &str, flags| mount.open_file(name, flags, 0o644).expect(FAILED);
        let data = open("data", OpenFlags::CREATE);
        for at in (0..bytes).step_by(1 << 20) {
            assert_eq!(data.write_at(at, &vec![1; 1 << 20]).expect(FAILED), 1 << 20);
        }
        data.sync().expect(FAILED);
        let append = OpenFlags {
            append: true,
            ..OpenFlags::CREATE
        };
        let log = open("log", append);
        Library { mount, data, log }
    }
}

impl Way for Library<'_> {
    fn read(&self, at: u64, out: &mut [u8]) -> Option<()> {
        assert_eq!(self.data.read_at(at, out).expect(FAILED), out.len());
        Some(())
    }

    fn write(&self, at: u64, data: &[u8]) -> Option<()> {
        assert_eq!(self.data.write_at(at, data).expect(FAILED), data.len());
        Some(())
    }

    fn fstat(&self) -> Option<()> {
        self.data.attributes().expect(FAILED);
        Some(())
    }

    fn create(&self, name: &str) -> Option<()> {
        let made = self.mount.open_file(name, OpenFlags::CREATE, 0o644);
        drop(made.expect(FAILED));
        Some(())
    }

    fn open(&self, name: &str) -> Option<()> {
        let opened = self.mount.open_file(name, OpenFlags::UPDATE, 0);
        drop(opened.expect(FAILED));
        Some(())
    }

    fn stat(&self, name: &str) -> Option<()> {
        self.mount.stat(name, true).expect(FAILED);
        Some(())
    }

    fn rename(&self, from: &str, to: &str) -> Option<()> {
        self.mount.rename(from, to, Rename::Replace).expect(FAILED);
        Some(())
    }

    fn unlink(&self, name: &str) -> Option<()> {
        self.mount.unlink(name).expect(FAILED);
        Some(())
    }

    fn append(&self) -> Option<()> {
        self.log.write_at(0, &[5; 4096]).expect(FAILED);
        self.log.sync().expect(FAILED);
        Some(())
    }

    fn read_uncached(&self, at: u64, out: &mut [u8; 4096]) -> Option<()> {
        self.read(at, out)
    }

    fn write_uncached(&self, at: u64, data: &[u8; 4096]) -> Option<()> {
        self.write(at, data)
    }
}

/// A directory of this machine.
pub struct Directory {
    path: PathBuf,
    data: SystemFile,
    log: SystemFile,
    direct: Option<SystemFile>,
}

impl Directory {
    /// With a file of so many bytes in a directory, which must be there.
    pub fn new(directory: PathBuf, bytes: u64) -> Directory {
        let path = directory.join("wharf-files-bench");
        std::fs::create_dir(&path)
            .expect("a directory that can be written, without one of an earlier run");
        let options = || OpenOptions::new().read(true).write(true).clone();
        let mut data = options()
            .create(true)
            .open(path.join("data"))
            .expect(FAILED);
        for _ in (0..bytes).step_by(1 << 20) {
            data.write_all(&vec![1; 1 << 20]).expect(FAILED);
        }
        data.sync_all().expect(FAILED);
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path.join("log"));
        let mut direct = options();
        direct.custom_flags(OFlags::DIRECT.bits() as i32);
        Directory {
            direct: direct.open(path.join("data")).ok(),
            log: log.expect(FAILED),
            data,
            path,
        }
    }
}

impl Way for Directory {
    fn read(&self, at: u64, out: &mut [u8]) -> Option<()> {
        self.data.read_exact_at(out, at).expect(FAILED);
        Some(())
    }

    fn write(&self, at: u64, data: &[u8]) -> Option<()> {
        self.data.write_all_at(data, at).expect(FAILED);
        Some(())
    }

    fn fstat(&self) -> Option<()> {
        self.data.metadata().expect(FAILED);
        Some(())
    }

    fn create(&self, name: &str) -> Option<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        drop(options.open(self.path.join(name)).expect(FAILED));
        Some(())
    }

    fn open(&self, name: &str) -> Option<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        drop(options.open(self.path.join(name)).expect(FAILED));
        Some(())
    }

    fn stat(&self, name: &str) -> Option<()> {
        std::fs::metadata(self.path.join(name)).expect(FAILED);
        Some(())
    }

    fn rename(&self, from: &str, to: &str) -> Option<()> {
        std::fs::rename(self.path.join(from), self.path.join(to)).expect(FAILED);
        Some(())
    }

    fn unlink(&self, name: &str) -> Option<()> {
        std::fs::remove_file(self.path.join(name)).expect(FAILED);
        Some(())
    }

    fn append(&self) -> Option<()> {
        (&self.log).write_all(&[5; 4096]).expect(FAILED);
        self.log.sync_all().expect(FAILED);
        Some(())
    }

    fn read_uncached(&self, at: u64, out: &mut [u8; 4096]) -> Option<()> {
        self.direct.as_ref()?.read_exact_at(out, at).ok()
    }

    fn write_uncached(&self, at: u64, data: &[u8; 4096]) -> Option<()> {
        self.direct.as_ref()?.write_all_at(data, at).ok()
    }

    /// A pass-through gives what is open another name when it is removed, for as long as it is open: what is left
    /// goes with the place that the measurement was given.
    fn clean(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Blocks of a drive in this process, by commands that know no files.
pub struct Blocks {
    client: Client<Direct>,
}

impl Blocks {
    /// With so many bytes that were written.
    pub fn new(client: Client<Direct>, bytes: u64) -> Blocks {
        for at in (0..bytes).step_by(1 << 20) {
            client.write_at(at, &vec![1; 1 << 20]).expect(FAILED);
        }
        client.flush().expect(FAILED);
        Blocks { client }
    }
}

impl Way for Blocks {
    fn read(&self, _: u64, _: &mut [u8]) -> Option<()> {
        None
    }

    fn write(&self, _: u64, _: &[u8]) -> Option<()> {
        None
    }

    fn fstat(&self) -> Option<()> {
        None
    }

    fn create(&self, _: &str) -> Option<()> {
        None
    }

    fn open(&self, _: &str) -> Option<()> {
        None
    }

    fn stat(&self, _: &str) -> Option<()> {
        None
    }

    fn rename(&self, _: &str, _: &str) -> Option<()> {
        None
    }

    fn unlink(&self, _: &str) -> Option<()> {
        None
    }

    fn append(&self) -> Option<()> {
        None
    }

    fn read_uncached(&self, at: u64, out: &mut [u8; 4096]) -> Option<()> {
        self.client.read_at(at, out).ok()
    }

    fn write_uncached(&self, at: u64, data: &[u8; 4096]) -> Option<()> {
        self.client.write_at(at, data).ok()
    }
}
