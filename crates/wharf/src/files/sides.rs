//! Functions of bytes of files by the drive or by this process, whichever is expected to be done first.
//!
//! 1. How many pages the bytes are is asked, as what was measured is kept for a page.
//! 2. If nothing is known of the function, and the bytes are many, both sides compute a small part: what they took is known then.
//! 3. The side that is expected to be done first computes ([`Sides`]). What the drive refuses, for want of memory or of the function, this
//!    process computes.

use std::io;
use std::ops::Range;

use wharf_compute::Function;
use wharf_files::FileError;
use wharf_host::stor::{Load, Sides, StepResult, Vector};

use super::compute::{Answer, Job, Made, Took, What};
use super::drive::FileDrive;
use super::file::File;
use super::wait;

/// Bytes that both sides compute at first.
const TRIED_BYTES: u64 = 256 << 10;

/// If there are so many times as many.
const TRIED_OF: u64 = 16;

impl FileDrive {
    /// Of what nobody said who is to compute it: how often it was to be this process, and how often the drive.
    pub fn chosen_sides(&self) -> (u64, u64) {
        self.sides.chosen()
    }

    /// Has the drive do a vector whose one step is a function, if it is expected to be done first, or is to be `tried`; nothing if this
    /// process is to do it.
    fn step_if_first(
        &self,
        load: &Load,
        vector: &Vector,
        is_tried: bool,
    ) -> Result<Option<StepResult>, FileError> {
        let (client, sides): (_, &Sides) = (self.client(), &self.sides);
        // More than one command moves is for this process.
        if vector.bytes() > client.bytes_max() {
            return Ok(None);
        }
        let computed = self.done(async {
            match is_tried || sides.is_for_drive(&client, load) {
                true => sides.on_drive(&client, load, vector).await,
                false => Ok(None),
            }
        })?;
        self.note_written_by(vector);
        let last = computed.map(|computed| computed.last()).transpose()?;
        Ok(last)
    }
}

impl File<'_> {
    /// Computes something of bytes of this file, as far as it goes: as [`File::on_drive`] or as [`File::on_host`], whichever is expected
    /// to be done first by what both took before in this process. The answer is the same.
    ///
    /// # Errors
    /// As those.
    pub fn on_either(&self, job: Job<'_>, bytes: Range<u64>) -> io::Result<Answer> {
        let all = self.bytes_of(&bytes)?;
        let load = self.load_of(&job, all)?;
        if !self.drive().sides.knows(&load) && all >= TRIED_BYTES * TRIED_OF {
            self.try_both(&job, bytes.start)?;
        }
        let vector = self.vector_of(job, bytes.clone());
        match wait(async { self.drive().step_if_first(&load, &vector, false) })? {
            Some(done) => Ok(done.into()),
            None => {
                let (answer, took) = self.timed_on_host(job, bytes)?;
                self.note_host(&load, took);
                Ok(answer)
            }
        }
    }

    /// Puts what a function makes of bytes of this file into another one, as [`File::into_on_drive`] or as [`File::into_on_host`].
    ///
    /// # Errors
    /// As those.
    pub fn into_on_either(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<Made> {
        let load = self.load_of(&job, self.bytes_of(&bytes)?)?;
        let vector = self.vector_into(job, bytes.clone(), to, offset);
        match wait(async { self.drive().step_if_first(&load, &vector, false) })? {
            Some(done) => Ok(done.into()),
            None => {
                let (made, took) = self.timed_into_on_host(job, bytes, to, offset)?;
                self.note_host(&load, took);
                Ok(made)
            }
        }
    }

    fn note_host(&self, load: &Load, took: Took) {
        self.drive()
            .sides
            .host_ran(load, (took.moved_ns, took.computed_ns));
    }

    /// How many of the bytes this file has.
    fn bytes_of(&self, bytes: &Range<u64>) -> io::Result<u64> {
        let left = self.attributes()?.bytes.saturating_sub(bytes.start);
        Ok(left.min(bytes.end.saturating_sub(bytes.start)))
    }

    /// What a job is, as far as it says who is to do it.
    fn load_of(&self, job: &Job<'_>, bytes: u64) -> io::Result<Load> {
        Ok(match job.what {
            What::Function(function) => Load::of(function, bytes),
            What::Program(program) => Load::of_program(program.attributes()?.number, bytes),
        })
    }

    /// Has both sides compute a part of what is far more, from byte `from` on, so that what they take is known. What they find is thrown away, and so is why
    /// they do not find it: it may be that of the part.
    fn try_both(&self, job: &Job<'_>, from: u64) -> io::Result<()> {
        let part = match job.what {
            What::Function(Function::Nearest) if !job.argument.is_empty() => {
                TRIED_BYTES - TRIED_BYTES % job.argument.len() as u64
            }
            _ => TRIED_BYTES,
        };
        if part == 0 {
            return Ok(());
        }
        let load = self.load_of(job, part)?;
        let part = from..from + part;
        let vector = self.vector_of(*job, part.clone());
        let _ = wait(async { self.drive().step_if_first(&load, &vector, true) });
        if let Ok((_, took)) = self.timed_on_host(*job, part) {
            self.note_host(&load, took);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Codec, Mount, NewImage, OpenFlags};

    fn mount() -> Mount {
        Mount::in_memory(&NewImage::of_bytes(64 << 20)).expect("a drive in memory")
    }

    fn file_of<'a>(mount: &'a Mount, path: &str, bytes: &[u8]) -> File<'a> {
        let file = mount.open_file(path, OpenFlags::CREATE, 0o644).unwrap();
        let mut done = 0;
        while done < bytes.len() {
            done += file.write_at(done as u64, &bytes[done..]).unwrap();
        }
        file
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at * at % 251) as u8).collect()
    }

    #[test]
    fn the_answer_is_the_same_whoever_gives_it_and_both_are_tried() {
        let mount = mount();
        let file = file_of(&mount, "/f", &bytes(200_000));
        let query = bytes(400);
        let jobs = [
            Job::CHECKSUM,
            Job::search(b"\x01\x04", 10),
            Job::nearest(&query, 5),
        ];
        for part in [0..u64::MAX / 2, 4_000..4_000, 8_000..48_000] {
            for job in jobs {
                let right = file.on_host(job, part.clone()).unwrap();
                assert_eq!(file.on_drive(job, part.clone()).unwrap(), right);
                for _ in 0..4 {
                    assert_eq!(file.on_either(job, part.clone()).unwrap(), right);
                }
            }
        }
        let (host, drive) = file.drive().chosen_sides();
        assert_eq!(host + drive, 36);
        assert!(host >= 3 && drive >= 3, "{host}, {drive}");
        // The same where it goes into a file.
        let job = Job::of(Function::Compress(Codec::Lz4));
        let to = file_of(&mount, "/to", b"");
        let made = file.into_on_host(job, 0..1 << 20, &to, 0).unwrap();
        let sum = to.on_host(Job::CHECKSUM, 0..1 << 20).unwrap();
        for _ in 0..4 {
            to.set_len(0).unwrap();
            assert_eq!(file.into_on_either(job, 0..1 << 20, &to, 0).unwrap(), made);
            assert_eq!(to.on_host(Job::CHECKSUM, 0..1 << 20).unwrap(), sum);
        }
    }

    #[test]
    fn of_a_large_file_both_sides_compute_a_part_and_then_the_faster_one() {
        let mount = mount();
        let file = file_of(&mount, "/f", &bytes(5 << 20));
        let load = Load::of(Function::Checksum, 5 << 20);
        assert!(!file.drive().sides.knows(&load));
        let right = file.on_host(Job::CHECKSUM, 0..1 << 30).unwrap();
        assert_eq!(file.on_either(Job::CHECKSUM, 0..1 << 30).unwrap(), right);
        assert!(file.drive().sides.knows(&load));
        let (host, drive) = file.drive().chosen_sides();
        assert_eq!(host + drive, 1, "what was tried was not chosen");
        // Vectors that are not whole are refused by both, and the part is of whole ones.
        let query = bytes(1_000);
        let whole = 0..(5 << 20) / 1_000 * 1_000;
        let right = file
            .on_host(Job::nearest(&query, 3), whole.clone())
            .unwrap();
        assert_eq!(
            file.on_either(Job::nearest(&query, 3), whole).unwrap(),
            right
        );
        let partial = file.on_either(Job::nearest(&query, 3), 0..1 << 30);
        assert_eq!(partial.unwrap_err().raw_os_error(), Some(22));
    }

    #[test]
    fn what_the_drive_refuses_this_process_computes() {
        let mount = mount();
        // A frame of Zstandard with a window of 2 MiB, for which a drive has no memory, and a block as it is.
        let text = bytes(1_000);
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
        frame.extend_from_slice(&((1_000u32 << 3) | 1).to_le_bytes()[..3]);
        frame.extend_from_slice(&text);
        let (from, to) = (file_of(&mount, "/f", &frame), file_of(&mount, "/to", b""));
        let job = Job::of(Function::Decompress(Codec::Zstd));
        let all = 0..1 << 20;
        let refused = from.into_on_drive(job, all.clone(), &to, 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(12));
        for _ in 0..6 {
            let made = from.into_on_either(job, all.clone(), &to, 0).unwrap();
            assert_eq!(made.bytes, 1_000);
            let mut back = vec![0; 1_000];
            assert_eq!(to.read_at(0, &mut back).unwrap(), 1_000);
            assert_eq!(back, text);
        }
        let (host, drive) = from.drive().chosen_sides();
        assert!(
            (1..=3).contains(&drive) && host + drive == 6,
            "{host}, {drive}"
        );
        // More than a command moves is computed here too.
        let many = file_of(&mount, "/many", &bytes(400_000));
        let job = Job::nearest(&[1; 4], 65_536);
        let found = many.on_either(job, all.clone()).unwrap();
        assert_eq!(found, many.on_host(job, all).unwrap());
        assert!(many.on_drive(job, 0..1 << 20).is_err());
    }
}
