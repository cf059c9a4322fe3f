//! What the sectors of a disk hold: whole sectors of 4 KiB, or stamps of 8 bytes, in memory or in a
//! file. What was never written takes nothing, in memory or in the file, and reads as zeros.
//!
//! A sector is written whole or not at all; a file is as long as the disk, sector after sector,
//! with nothing else in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::media::HostFault;

/// Sectors whose memory is taken together.
const CHUNK_SECTORS: u32 = 64;

/// The surfaces of a disk.
#[derive(Debug)]
pub struct Platters {
    sectors: u32,
    sector_bytes: usize,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    /// By the number of the chunk.
    Memory(BTreeMap<u32, Box<[u8]>>),
    File {
        file: File,
        path: PathBuf,
    },
}

/// An error of the machine that keeps the file.
type Outcome = Result<(), Box<HostFault>>;

impl Platters {
    /// Blank platters in memory.
    pub fn in_memory(sectors: u32, sector_bytes: usize) -> Platters {
        Platters {
            sectors,
            sector_bytes,
            kept: Kept::Memory(BTreeMap::new()),
        }
    }

    /// Platters in a file, which is made if there is none, and must else be as long as they are.
    ///
    /// # Errors
    /// A file that cannot be used, is in use, or has another length.
    pub fn in_file(
        path: &Path,
        sectors: u32,
        sector_bytes: usize,
    ) -> Result<Platters, Box<HostFault>> {
        let fault = |action| move |cause| fault(action, path, cause);
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(fault("open"))?;
        file.try_lock()
            .map_err(|error| fault("lock")(error.into()))?;
        let length = u64::from(sectors) * sector_bytes as u64;
        let found = file.metadata().map_err(fault("look at"))?.len();
        if found == 0 {
            file.set_len(length).map_err(fault("make"))?;
        } else if found != length {
            let what = format!("it has {found} bytes, the disk {length}");
            return Err(fault("use")(std::io::Error::other(what)));
        }
        Ok(Platters {
            sectors,
            sector_bytes,
            kept: Kept::File {
                file,
                path: path.into(),
            },
        })
    }

    /// A second disk with the same contents; `None` of a file.
    pub fn copy(&self) -> Option<Platters> {
        match &self.kept {
            Kept::Memory(chunks) => Some(Platters {
                kept: Kept::Memory(chunks.clone()),
                ..*self
            }),
            Kept::File { .. } => None,
        }
    }

    /// Bytes of memory that hold data.
    pub fn memory_bytes(&self) -> u64 {
        match &self.kept {
            Kept::Memory(chunks) => chunks.values().map(|chunk| chunk.len() as u64).sum(),
            Kept::File { .. } => 0,
        }
    }

    fn assert_sector(&self, sector: u32, bytes: usize) {
        assert!(sector < self.sectors, "sector {sector} of {}", self.sectors);
        assert!(bytes == self.sector_bytes, "{bytes} bytes are no sector");
    }

    /// Copies a sector to `out`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, sector: u32, out: &mut [u8]) -> Outcome {
        self.assert_sector(sector, out.len());
        match &self.kept {
            Kept::Memory(chunks) => match chunks.get(&(sector / CHUNK_SECTORS)) {
                Some(chunk) => out.copy_from_slice(&chunk[span(sector, self.sector_bytes)]),
                None => out.fill(0),
            },
            Kept::File { file, path } => {
                let at = u64::from(sector) * self.sector_bytes as u64;
                let read = file.read_exact_at(out, at);
                read.map_err(|cause| fault("read a sector of", path, cause))?;
            }
        }
        Ok(())
    }

    /// Writes a sector.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, sector: u32, data: &[u8]) -> Outcome {
        self.assert_sector(sector, data.len());
        let bytes = self.sector_bytes;
        match &mut self.kept {
            Kept::Memory(chunks) => {
                let blank = || vec![0; CHUNK_SECTORS as usize * bytes].into();
                let chunk = chunks.entry(sector / CHUNK_SECTORS).or_insert_with(blank);
                chunk[span(sector, bytes)].copy_from_slice(data);
            }
            Kept::File { file, path } => {
                let at = u64::from(sector) * bytes as u64;
                let written = file.write_all_at(data, at);
                written.map_err(|cause| fault("write a sector to", path, cause))?;
            }
        }
        Ok(())
    }

    /// Forgets `count` sectors from `first` on: they read as zeros and take nothing.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub fn forget(&mut self, first: u32, count: u32) -> Outcome {
        let end = first + count;
        assert!(
            end <= self.sectors,
            "sectors up to {end} of {}",
            self.sectors
        );
        let bytes = self.sector_bytes;
        match &mut self.kept {
            Kept::Memory(chunks) => {
                let held: Vec<u32> = chunks
                    .range(first / CHUNK_SECTORS..end.div_ceil(CHUNK_SECTORS))
                    .map(|(number, _)| *number)
                    .collect();
                for number in held {
                    let begins = number * CHUNK_SECTORS;
                    let (from, to) = (first.max(begins), end.min(begins + CHUNK_SECTORS));
                    if to - from == CHUNK_SECTORS {
                        chunks.remove(&number);
                    } else if let Some(chunk) = chunks.get_mut(&number) {
                        let within =
                            (from - begins) as usize * bytes..(to - begins) as usize * bytes;
                        chunk[within].fill(0);
                    }
                }
            }
            Kept::File { file, path } => {
                use rustix::fs::{FallocateFlags, fallocate};
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let (at, length) = (
                    u64::from(first) * bytes as u64,
                    u64::from(count) * bytes as u64,
                );
                if length > 0 {
                    let punched = fallocate(&*file, flags, at, length);
                    punched.map_err(|cause| fault("forget sectors of", path, cause.into()))?;
                }
            }
        }
        Ok(())
    }

    /// Has what was written survive a crash of the machine that keeps the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn sync(&self) -> Outcome {
        match &self.kept {
            Kept::Memory(_) => Ok(()),
            Kept::File { file, path } => file
                .sync_data()
                .map_err(|cause| fault("make durable", path, cause)),
        }
    }
}

/// The bytes of a sector within its chunk.
fn span(sector: u32, bytes: usize) -> std::ops::Range<usize> {
    let at = (sector % CHUNK_SECTORS) as usize * bytes;
    at..at + bytes
}

fn fault(action: &'static str, path: &Path, cause: std::io::Error) -> Box<HostFault> {
    Box::new(HostFault {
        action,
        path: path.into(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(check: impl Fn(Platters, u32)) {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [8, 4096] {
            check(Platters::in_memory(1000, bytes), bytes as u32);
            let path = folder.path().join(format!("disk-{bytes}"));
            check(Platters::in_file(&path, 1000, bytes).unwrap(), bytes as u32);
        }
    }

    #[test]
    fn sectors_hold_what_was_written_and_else_zeros() {
        each(|mut platters, bytes| {
            let mut out = vec![7; bytes as usize];
            platters.read(999, &mut out).unwrap();
            assert!(out.iter().all(|b| *b == 0));
            for sector in [0, 63, 64, 200, 999] {
                platters
                    .write(sector, &vec![sector as u8 + 1; bytes as usize])
                    .unwrap();
            }
            platters.forget(64, 136).unwrap();
            for (sector, value) in [(0, 1), (63, 64), (64, 0), (199, 0), (200, 201), (999, 232)] {
                platters.read(sector, &mut out).unwrap();
                assert!(out.iter().all(|b| *b == value), "{sector}");
            }
        });
    }

    #[test]
    fn memory_is_taken_for_what_was_written_alone() {
        let two_terabytes = 488_378_646;
        let mut platters = Platters::in_memory(two_terabytes, 8);
        assert_eq!(platters.memory_bytes(), 0);
        for sector in (0..two_terabytes).step_by(50_000_000) {
            platters.write(sector, &[1; 8]).unwrap();
        }
        assert_eq!(platters.memory_bytes(), 10 * 64 * 8);
        platters.forget(0, two_terabytes).unwrap();
        assert_eq!(platters.memory_bytes(), 0);
    }

    #[test]
    fn a_file_keeps_its_sectors_and_is_refused_when_it_is_no_such_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let mut first = Platters::in_file(&path, 100, 8).unwrap();
        first.write(40, &[3; 8]).unwrap();
        first.sync().unwrap();
        let busy = Platters::in_file(&path, 100, 8).unwrap_err().to_string();
        assert!(busy.starts_with("cannot lock "), "{busy}");
        drop(first);
        let mut out = [0; 8];
        let again = Platters::in_file(&path, 100, 8).unwrap();
        again.read(40, &mut out).unwrap();
        assert_eq!(out, [3; 8]);
        drop(again);
        let other = Platters::in_file(&path, 200, 8).unwrap_err().to_string();
        assert!(
            other.ends_with("it has 800 bytes, the disk 1600"),
            "{other}"
        );
    }
}
