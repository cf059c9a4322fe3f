//! Opening and closing files of the cache.
//!
//! A file is opened in the drive in a way that pages can come and go by: to be read too if it is to be written, and neither to be cut nor
//! to be appended to, as the cache does that. Who may write a file and not read it writes past the cache.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::vfs::{Opened as OpenedInDrive, Target};
use wharf_files::{Errno, Handle, Kind, OpenFlags};
use wharf_runtime::rw_gate::Entry;

use super::near::Stream;
use super::node::DriveHandle;
use super::opened::{ALL, Open, OpenFile};
use super::table::Table;
use super::thread::Cached;
use crate::files::{FileError, Opened};
use crate::kit::index::{Index, Tag};

/// Files that are kept open for dirty pages after they were closed.
const LINGERING_MAX: usize = 64;

/// Of these, so many are looked at when one is opened or closed.
const LOOKS: usize = 2;

/// Closed files that are tried for a place.
const TRIES: usize = 8;

/// How a file is opened in the drive.
fn in_drive(flags: OpenFlags) -> OpenFlags {
    OpenFlags {
        read: flags.read || flags.write,
        write: flags.write || flags.truncate,
        truncate: false,
        append: false,
        ..flags
    }
}

impl Cached {
    /// Opens a file.
    pub(super) async fn open(
        &self,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Opened, FileError> {
        self.sweep().await?;
        let given_up = self.with_table(|table| table.given_up());
        let (mut asked, mut goes_around) = (in_drive(flags), false);
        let mut opened = self.client.open(path.into(), asked, mode).await;
        if matches!(opened, Err(FileError::Errno(Errno::EACCES))) && asked.read != flags.read {
            (asked.read, goes_around) = (false, true);
            opened = self.client.open(path.into(), asked, mode).await;
        }
        let opened = opened?;
        if opened.attributes.kind == Kind::File {
            let drive = Arc::new(DriveHandle {
                handle: opened.handle,
                can_read: asked.read,
                can_write: asked.write,
            });
            let file = match self.begin(path, &opened, &drive, given_up).await {
                Ok(slot) => self.enter_opened(slot, flags, goes_around, drive),
                Err(error) => {
                    self.client.release_handle(drive).await?;
                    return Err(error);
                }
            };
            if flags.truncate && !opened.is_new {
                let cut = self.cut(&file, 0).await;
                if cut.is_err() {
                    self.end(&file).await?;
                    cut?;
                }
            }
        } else {
            self.note_open(Open::Other(opened.handle));
        }
        Ok(Opened {
            handle: opened.handle,
            number: opened.attributes.number,
            is_new: opened.is_new,
        })
    }

    fn enter_opened(
        &self,
        slot: u32,
        flags: OpenFlags,
        goes_around: bool,
        drive: Arc<DriveHandle>,
    ) -> Rc<OpenFile> {
        let handle = drive.handle;
        let file = Rc::new(OpenFile {
            handle,
            slot,
            can_read: flags.read,
            can_write: flags.write,
            appends: flags.append,
            goes_around,
            told: self.process.shared.files[slot as usize].told(),
            stream: Stream::default(),
            drive: RefCell::new(Some(drive)),
        });
        self.note_open(Open::File(file.clone()));
        file
    }

    /// Gives a file that was opened its place in the cache.
    async fn begin(
        &self,
        path: &[u8],
        opened: &OpenedInDrive,
        drive: &Arc<DriveHandle>,
        given_up: u64,
    ) -> Result<u32, FileError> {
        let slot = self.attach(opened.attributes.number, path).await?;
        if let Some(ages) = &self.process.ages {
            ages.note_file(slot, self.cpu().now());
        }
        self.enter(slot, Entry::Alone).await;
        let checked = self.check(slot, opened, given_up).await;
        let unused = self.node(slot).offer(self.cpu(), drive);
        self.leave(slot, Entry::Alone);
        if let Some(unused) = unused {
            self.client.release_handle(unused).await?;
        }
        match checked {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.detach(slot).await?;
                Err(error)
            }
        }
    }

    /// Has what is known of a file be so, for one who is alone in it. `given_up` is what the table said before the drive was asked.
    async fn check(
        &self,
        slot: u32,
        opened: &OpenedInDrive,
        given_up: u64,
    ) -> Result<(), FileError> {
        let node = self.node(slot);
        if node.is_checked() {
            return Ok(());
        }
        let mut bytes = opened.attributes.bytes;
        if self.with_table(|table| table.given_up()) != given_up {
            // It may be this file that the drive has been told more of since.
            let found = self.client.stat(Target::Handle(opened.handle)).await?;
            bytes = found.bytes;
        }
        if node.bytes() != bytes {
            // Others have changed it since.
            self.local.cut(slot, 0).await;
        }
        node.set_all(bytes);
        node.set_checked();
        Ok(())
    }

    /// The place of a file, which one more has open from now on.
    async fn attach(&self, number: u64, path: &[u8]) -> Result<u32, FileError> {
        for _ in 0..TRIES {
            let attached = self.with_table(|table| {
                let attached = table.attach(number, path)?;
                let node = self.process.node(attached.slot);
                if attached.is_new {
                    node.begin(number);
                    self.process.shared.use_file(attached.slot);
                } else if attached.is_first && node.carrier(self.cpu()).is_none() {
                    node.doubt();
                }
                Some(attached.slot)
            });
            if let Some(slot) = attached {
                return Ok(slot);
            }
            self.make_place().await?;
        }
        Err(Errno::ENFILE.into())
    }

    /// Takes the file that was closed first out of the cache, if it can be written back.
    async fn make_place(&self) -> Result<(), FileError> {
        let taken = self.with_table(|table| table.take_closed());
        let Some(slot) = taken else {
            return Err(Errno::ENFILE.into());
        };
        let written = self.local.write_and_wait(slot, ALL).await;
        let is_out =
            written.is_ok() && self.with_table(|table| self.is_clean(slot) && table.take_out(slot));
        if !is_out {
            // It stays, and is the last to be tried again.
            return self.detach(slot).await;
        }
        let forgotten = self.local.forget(slot).await;
        let carrier = self.node(slot).take_carrier(self.cpu());
        if let Some(carrier) = carrier {
            self.client.release_handle(carrier).await?;
        }
        // Pages that are held are of nobody's file: the place is lost.
        forgotten?;
        self.with_table(|table| table.free(slot));
        Ok(())
    }

    /// Whether no page of a file has to be written back.
    fn is_clean(&self, slot: u32) -> bool {
        let (cpu, index) = (self.cpu(), self.process.shared.index_of(slot));
        let mut tags = [Tag::Dirty, Tag::Writeback].into_iter();
        tags.all(|tag| index.next_tagged(cpu, 0, tag).is_none())
    }

    /// One less has a file open.
    async fn detach(&self, slot: u32) -> Result<(), FileError> {
        let carrier = self.with_table(|table| {
            if !table.detach(slot) {
                return None;
            }
            if let Some(ages) = &self.process.ages {
                ages.look_again();
            }
            self.take_carrier_if_clean(table, slot)
        });
        match carrier {
            Some(carrier) => self.client.release_handle(carrier).await,
            None => Ok(()),
        }
    }

    /// The drive's open file of one that nobody has open and that is clean; one that is dirty lingers. Whoever opens it finds
    /// in the table that it is to be opened anew.
    fn take_carrier_if_clean(&self, table: &mut Table, slot: u32) -> Option<Arc<DriveHandle>> {
        if self.is_clean(slot) {
            table.note_given_up();
            table.end_lingering(slot);
            return self.node(slot).take_carrier(self.cpu());
        }
        table.linger(slot);
        None
    }

    /// Closes those of the drive's files that were kept open for dirty pages, as far as they are written; if there are too many,
    /// writes them.
    async fn sweep(&self) -> Result<(), FileError> {
        for _ in 0..LOOKS {
            let next = self.with_table(|table| {
                let too_many = table.lingering() > LINGERING_MAX;
                Some((table.next_lingering()?, too_many))
            });
            let Some((slot, too_many)) = next else {
                return Ok(());
            };
            if too_many {
                // If it fails it lingers on, and who opens it and syncs it hears of it.
                let _ = self.local.write_and_wait(slot, ALL).await;
            }
            let carrier = self.with_table(|table| match table.is_open(slot) {
                true => {
                    // If it is closed with dirty pages it lingers again.
                    table.end_lingering(slot);
                    None
                }
                false => self.take_carrier_if_clean(table, slot),
            });
            if let Some(carrier) = carrier {
                self.client.release_handle(carrier).await?;
            }
        }
        Ok(())
    }

    /// Closes what a handle stands for.
    pub(super) async fn close(&self, handle: Handle) -> Result<(), FileError> {
        match self.find(handle)? {
            Open::File(file) => self.end(&file).await,
            Open::Other(handle) => {
                self.note_closed(handle);
                self.client.close(handle).await
            }
        }
    }

    async fn end(&self, file: &OpenFile) -> Result<(), FileError> {
        self.note_closed(file.handle);
        let drive = file.drive.borrow_mut().take();
        let detached = self.detach(file.slot).await;
        let is_open = self.with_table(|table| table.is_open(file.slot));
        let left = match &drive {
            Some(drive) if !is_open => self.leave_near(file.slot, drive).await,
            _ => Ok(()),
        };
        let closed = match drive {
            Some(drive) => self.client.release_handle(drive).await,
            None => Ok(()),
        };
        let swept = self.sweep().await;
        left.and(detached).and(closed).and(swept)
    }

    /// A path has been removed: if that was the last name of a file that lingers, nobody wants its dirty pages.
    pub(super) async fn forget_removed(&self, path: &[u8]) -> Result<(), FileError> {
        let taken = self.with_table(|table| table.take_lingering_of(path));
        let Some(slot) = taken else {
            return Ok(());
        };
        let carrier = self.node(slot).carrier(self.cpu());
        if let Some(carrier) = carrier {
            let found = self.client.stat(Target::Handle(carrier.handle)).await;
            if found.is_ok_and(|found| found.links == 0) {
                self.enter(slot, Entry::Alone).await;
                self.local.cut(slot, 0).await;
                self.node(slot).set_all(0);
                self.leave(slot, Entry::Alone);
            }
            self.client.release_handle(carrier).await?;
        }
        self.detach(slot).await
    }
}
