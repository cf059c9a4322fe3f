//! One operation on an open file: what it may answer, what it asks of the file client.

use wharf_host::design::Touch;
use wharf_host::files::{Errno, FileClient, FileError, Neighbour, OpenFlags, Query, crc32c};
use wharf_host::span::Extent;
use wharf_runtime::Seed;
use wharf_workload::files::{FileOp, FileOpKind, OpenHow};

use super::{FileFault, Open, State};
use crate::checker::names::{Answer, Change, Seen};

/// Bytes that a file is read at a time when it is read whole.
const WHOLE_READ_BYTES: u64 = 1 << 20;

/// How an operation ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Served {
    pub(super) bytes: u64,
    pub(super) touch: Touch,
    /// Whether it was answered with an error, as it may be.
    pub(super) is_failed: bool,
}

impl Served {
    /// One that was done.
    fn done(bytes: u64, touch: Touch) -> Served {
        Served {
            bytes,
            touch,
            is_failed: false,
        }
    }

    pub(super) const FAILED: Served = Served {
        bytes: 0,
        touch: Touch {
            pages: 0,
            hits: 0,
            read_ahead_hits: 0,
        },
        is_failed: true,
    };
}

impl<F: FileClient> State<F> {
    /// Serves an operation.
    pub(super) async fn serve(&self, op: &FileOp, data: &mut Vec<u8>) -> Result<Served, FileFault> {
        if !op.kind.needs_open() {
            return match op.kind {
                FileOpKind::Open => self.open(op, op.how).await,
                _ => self.serve_name(op).await,
            };
        }
        let key = (op.thread, op.file);
        if op.kind == FileOpKind::Close {
            let open = self.open.borrow_mut().remove(&key);
            return match open {
                Some(open) => {
                    self.files.close(open.handle).await?;
                    Ok(Served::default())
                }
                None => Ok(Served::FAILED),
            };
        }
        if !self.open.borrow().contains_key(&key) {
            let opened = self.open(op, OpenHow::EXISTING).await?;
            if opened.is_failed {
                return Ok(opened);
            }
        }
        let open = self.open.borrow()[&key].clone();
        self.serve_open(op, &open, data).await
    }

    /// Opens a file for a thread; what was open before under the name is closed.
    async fn open(&self, op: &FileOp, how: OpenHow) -> Result<Served, FileFault> {
        let shared = self.shared();
        let (creates, cuts) = (how.has(OpenHow::CREATE), how.has(OpenHow::TRUNCATE));
        let exclusive = how.has(OpenHow::EXCLUSIVE);
        // Of a file that others use, it is not known before which one it is that is cut: it is cut when that is known.
        let cuts_at_once = cuts && !shared.plan.shared[op.file as usize];
        let flags = OpenFlags {
            create: creates,
            exclusive: creates && exclusive,
            truncate: cuts_at_once,
            ..OpenFlags::UPDATE
        };
        let change = self.foreseen(op.file).then(|| match creates {
            true => Ok(shared.names().begin(op.file, Change::Create { exclusive })),
            false => Err(shared.names().begin_look(op.file)),
        });
        let path = &shared.plan.names.paths[op.file as usize];
        let opened = self.files.open(path.as_bytes(), flags, 0o644).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                match change {
                    Some(Ok(ticket)) => self.failed(ticket, error)?,
                    Some(Err(ticket)) => self.failed_look(ticket, error)?,
                    None => right_error(error)?,
                }
                return Ok(Served::FAILED);
            }
        };
        let number = opened.number;
        match change {
            Some(Ok(ticket)) => {
                let answer = match opened.is_new {
                    true => Answer::Made(number),
                    false => Answer::Found(number),
                };
                shared.names().end(ticket, answer)?;
            }
            Some(Err(ticket)) => shared.names().end_look(ticket, Seen::File(number))?,
            None => {}
        }
        let object = shared.object(number, op.file);
        if cuts && !opened.is_new {
            let change = shared.objects.begin_cut(&object, 0);
            if !cuts_at_once {
                self.files.set_len(opened.handle, 0).await?;
            }
            shared.objects.end_zeros(&object, &change, Some(0));
        }
        let open = Open {
            handle: opened.handle,
            object,
        };
        let before = self.open.borrow_mut().insert((op.thread, op.file), open);
        if let Some(before) = before {
            self.files.close(before.handle).await?;
        }
        Ok(Served::default())
    }

    async fn serve_open(
        &self,
        op: &FileOp,
        open: &Open,
        data: &mut Vec<u8>,
    ) -> Result<Served, FileFault> {
        let (objects, object) = (&self.shared().objects, &open.object);
        let extent = Extent::new(op.offset, op.bytes);
        let mut served = Served {
            bytes: if op.kind.is_write() { op.bytes } else { 0 },
            ..Served::default()
        };
        match op.kind {
            FileOpKind::Read => return self.read(open, extent, data).await,
            FileOpKind::CrcWrite => return self.crc_write(open, extent, data).await,
            FileOpKind::Nearest => return self.nearest(open, extent, data).await,
            FileOpKind::ReadWhole => {
                let mut at = 0;
                loop {
                    let part = Extent::new(at, WHOLE_READ_BYTES);
                    let read = self.read(open, part, data).await?;
                    served.bytes += read.bytes;
                    served.touch += read.touch;
                    at += read.bytes;
                    if read.bytes < WHOLE_READ_BYTES {
                        return Ok(served);
                    }
                }
            }
            FileOpKind::Write => {
                data.resize(objects.payload_bytes(op.bytes), 0);
                let change = objects.begin_write(object, op.offset, op.bytes, data);
                served.touch = self.files.write_at(open.handle, extent, data).await?;
                objects.end_write(object, &change, op.offset, op.bytes);
            }
            FileOpKind::Append => {
                data.resize(objects.payload_bytes(op.bytes), 0);
                let change = objects.begin_append(object, op.bytes, data);
                let appended = self.files.append(open.handle, op.bytes, data).await?;
                objects.end_append(object, &change, appended.offset, op.bytes)?;
                served.touch = appended.touch;
            }
            FileOpKind::Truncate => {
                let change = objects.begin_cut(object, op.offset);
                self.files.set_len(open.handle, op.offset).await?;
                objects.end_zeros(object, &change, Some(op.offset));
            }
            FileOpKind::Punch => {
                let change = objects.begin_hole(object, op.offset, op.bytes);
                self.files.punch(open.handle, extent).await?;
                objects.end_zeros(object, &change, None);
            }
            FileOpKind::Fsync | FileOpKind::Fdatasync => {
                let whole = Extent::new(0, u64::MAX);
                let data_only = op.kind == FileOpKind::Fdatasync;
                self.files.sync(open.handle, whole, data_only).await?;
            }
            other => unreachable!("{other} needs no open file"),
        }
        Ok(served)
    }

    async fn crc_write(
        &self,
        open: &Open,
        extent: Extent,
        data: &mut Vec<u8>,
    ) -> Result<Served, FileFault> {
        let (objects, object) = (&self.shared().objects, &open.object);
        data.resize(objects.payload_bytes(extent.bytes), 0);
        let look = objects.begin_look(object);
        let done = self
            .files
            .crc_write(&self.cpu, open.handle, extent, data)
            .await;
        let done = done.inspect_err(|_| objects.drop_look(object, look))?;
        let asked = (extent.offset, extent.bytes);
        let found = (done.bytes, format!("{:08x}", done.crc));
        let right = |data: &[u8]| format!("{:08x}", crc32c(data));
        objects.end_computed(object, look, asked, ("the checksum", found), right)?;
        Ok(Served::done(done.bytes, done.touch))
    }

    async fn nearest(
        &self,
        open: &Open,
        extent: Extent,
        data: &mut Vec<u8>,
    ) -> Result<Served, FileFault> {
        let (objects, object) = (&self.shared().objects, &open.object);
        data.resize(objects.payload_bytes(extent.bytes), 0);
        let vectors = vectors_for(extent.offset);
        let query = Query {
            vectors: &vectors,
            vector_bytes: 4 * DIMENSIONS,
            count: NEAREST,
        };
        let look = objects.begin_look(object);
        let done = self
            .files
            .nearest(&self.cpu, open.handle, extent, query, data)
            .await;
        let done = done.inspect_err(|_| objects.drop_look(object, look))?;
        let asked = (extent.offset, extent.bytes);
        let served = Served::done(done.bytes, done.touch);
        if objects.are_stamps() {
            objects.end_read(object, look, asked, done.bytes, data)?;
            return Ok(served);
        }
        let found = (done.bytes, told(&done.nearest));
        let right = |data: &[u8]| told(&query.nearest_of(data).unwrap_or_default());
        let names = "the nearest vectors";
        objects.end_computed(object, look, asked, (names, found), right)?;
        Ok(served)
    }

    async fn read(
        &self,
        open: &Open,
        extent: Extent,
        data: &mut Vec<u8>,
    ) -> Result<Served, FileFault> {
        let (objects, object) = (&self.shared().objects, &open.object);
        data.resize(objects.payload_bytes(extent.bytes), 0);
        let look = objects.begin_look(object);
        let read = self.files.read_at(open.handle, extent, data).await;
        let read = read.inspect_err(|_| objects.drop_look(object, look))?;
        let asked = (extent.offset, extent.bytes);
        objects.end_read(object, look, asked, read.bytes, data)?;
        Ok(Served::done(read.bytes, read.touch))
    }
}

/// Numbers of a vector of a workload.
const DIMENSIONS: usize = 128;

/// Vectors that are looked for at once, and how many of the nearest to each (as in the artifact of OmniCache).
const VECTORS: usize = 8;
const NEAREST: u32 = 10;

/// The vectors that those of a range are to be near to: numbers from -1 to 1, by the range's first byte.
fn vectors_for(offset: u64) -> Vec<u8> {
    let mut rng = Seed(offset).rng();
    let number = |_| (rng.below(2_001) as f32 - 1_000.0) / 1_000.0;
    let numbers = (0..VECTORS * DIMENSIONS).map(number);
    numbers.flat_map(f32::to_le_bytes).collect()
}

/// Neighbours for people.
fn told(nearest: &[Vec<Neighbour>]) -> String {
    let one = |one: &Neighbour| format!("{} at {}", one.number, one.distance);
    let all = |of_one: &Vec<Neighbour>| of_one.iter().map(one).collect::<Vec<_>>().join(", ");
    nearest.iter().map(all).collect::<Vec<_>>().join("; ")
}

/// An error that is no fault of a file client, of a name of which nothing is foreseen.
pub(super) fn right_error(error: FileError) -> Result<(), FileError> {
    use Errno::*;
    match error.errno() {
        ENOENT | EEXIST | ENOTDIR | EISDIR | ENOTEMPTY | EINVAL | ELOOP | EPERM | EBUSY => Ok(()),
        _ => Err(error),
    }
}
