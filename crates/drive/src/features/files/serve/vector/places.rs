//! Where bytes of a step come from, and where they go.

use std::cell::RefCell;

use wharf_files::{Errno, FileError, Handle, In, Out, Place, Sync};
use wharf_wire::file::{FileHandle, PlaceKind, STEP_KEEP, VectorPlace};

use super::super::super::near::Kept;
use super::running::Running;

/// What is left of a place.
pub(super) struct Rest {
    kind: PlaceKind,
    name: u64,
    /// Where what is left begins.
    at: u64,
    pub(super) bytes: u64,
    /// The drive's cache keeps what is taken.
    keeps: bool,
}

impl Rest {
    pub(super) fn of(kind: PlaceKind, place: &VectorPlace, flags: u8) -> Rest {
        Rest {
            kind,
            name: place.name,
            at: place.offset,
            bytes: place.bytes,
            keeps: flags & STEP_KEEP != 0,
        }
    }

    fn handle(&self) -> Handle {
        let handle = FileHandle::from_raw(self.name);
        Handle {
            index: handle.index,
            generation: handle.generation,
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.bytes -= bytes as u64;
    }
}

impl Running<'_> {
    /// Takes the next bytes of a place, as many as there is room for; none at its end.
    pub(super) async fn take(&self, from: &mut Rest, piece: &mut [u8]) -> Result<usize, FileError> {
        let bytes = (piece.len() as u64).min(from.bytes) as usize;
        let piece = &mut piece[..bytes];
        let mut count = bytes;
        match from.kind {
            PlaceKind::Nothing | PlaceKind::End => return Ok(0),
            PlaceKind::File if bytes > 0 => {
                count = self.moving(self.read(from, piece)).await? as usize;
            }
            PlaceKind::File => {}
            PlaceKind::Buffer => {
                let buffer = self.buffer(from.name).borrow();
                let start = from.at as usize;
                piece.copy_from_slice(&buffer[start..start + bytes]);
            }
            PlaceKind::Host => {
                self.moving(self.call.carry(bytes)).await;
                let copied = self.call.copy_out(from.at as usize, piece);
                copied.map_err(|_| Errno::EFAULT)?;
            }
        }
        from.skip(count);
        Ok(count)
    }

    /// Reads bytes of a file: those that the drive's cache has from there.
    async fn read(&self, from: &Rest, piece: &mut [u8]) -> Result<u64, FileError> {
        let (files, near) = (&self.call.files, self.call.at.firmware.near());
        let out = Out::Bytes(piece);
        let (number, flags) = files.opened(from.handle())?;
        if !flags.read || !(from.keeps || near.has(number)) {
            return files
                .read(self.call.now_ns, from.handle(), from.at, out)
                .await;
        }
        let kept = match from.keeps {
            true => Kept::With(0),
            false => Kept::AsTheyAre,
        };
        let read = self.call.read_bytes_near(number, from.at, out, kept);
        let read = read.await?;
        self.kept.set(self.kept.get() + read.kept);
        Ok(read.bytes.into())
    }

    /// Puts results in a place; gives where they are, if that is a file.
    pub(super) async fn put(&self, to: &mut Rest, made: &[u8]) -> Result<u64, FileError> {
        if to.kind == PlaceKind::Nothing || made.is_empty() {
            return Ok(to.at);
        }
        if made.len() as u64 > to.bytes {
            return Err(Errno::ENOSPC.into());
        }
        let mut at = to.at;
        match to.kind {
            PlaceKind::Nothing => {}
            PlaceKind::File if to.keeps => {
                let write = self.call.write_bytes_near(to.handle(), to.at, made);
                let written = self.moving(write).await?;
                self.kept.set(self.kept.get() + written.kept);
                if u64::from(written.bytes) < made.len() as u64 {
                    return Err(Errno::ENOSPC.into());
                }
            }
            PlaceKind::File | PlaceKind::End => {
                let place = match to.kind {
                    PlaceKind::End => Place::End,
                    _ => Place::At(to.at),
                };
                let files = &self.call.files;
                let (now_ns, data) = (self.call.now_ns, In::Bytes(made));
                let written = self.moving(files.write(now_ns, to.handle(), place, data));
                let written = written.await?;
                if written.bytes < made.len() as u64 {
                    return Err(Errno::ENOSPC.into());
                }
                at = written.offset;
            }
            PlaceKind::Buffer => {
                let start = to.at as usize;
                let mut buffer = self.buffer(to.name).borrow_mut();
                buffer[start..start + made.len()].copy_from_slice(made);
            }
            PlaceKind::Host => {
                let copied = self.call.copy_in_at(to.at as usize, made);
                copied.map_err(|_| Errno::EFAULT)?;
                self.given.set(self.given.get() + made.len() as u32);
            }
        }
        to.skip(made.len());
        Ok(at)
    }

    /// What was written to a place is durable.
    pub(super) async fn sync(&self, to: &Rest) -> Result<(), FileError> {
        let files = &self.call.files;
        self.moving(files.sync(to.handle(), Sync::Data)).await
    }

    fn buffer(&self, name: u64) -> &RefCell<Vec<u8>> {
        &self.buffers.0[name as usize]
    }

    /// Counts the time that moving bytes takes.
    async fn moving<T>(&self, moves: impl Future<Output = T>) -> T {
        let cpu = &self.call.at.core.cpu;
        let begun_ns = cpu.now();
        let moved = moves.await;
        self.moved_ns
            .set(self.moved_ns.get() + cpu.now() - begun_ns);
        moved
    }
}
