//! What a process has written and keeps is what others find, whatever becomes of it.

use wharf_files::Sync;

use super::*;

/// Numbers that look random (SplitMix64; Steele, Lea, Flood 2014).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }

    /// Mostly few, at times many.
    fn bytes(&mut self) -> usize {
        let most = [20, 300, 5_000, 30_000][self.below(4) as usize];
        1 + self.below(most) as usize
    }
}

#[test]
fn many_writes_take_no_command_and_all_are_there() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    let mut expected = Vec::new();
    for n in 0..3_000_u32 {
        let line = format!("line {n}\n");
        one.write(mine, expected.len() as u64, line.as_bytes());
        expected.extend_from_slice(line.as_bytes());
        assert_eq!(one.bytes(mine), expected.len() as u64);
    }
    // A lease lasts 5 seconds at most, and a machine may be busy.
    let kept = one.counts().writes;
    assert!(kept > 1_000, "{:?}", one.counts());
    let found = block_on(one.0.stat(by(), Target::Handle(mine))).unwrap();
    assert_eq!(other.stat("/f"), Ok(expected.len() as u64));
    // Times are those that the writer has seen already.
    let its_found = block_on(other.0.stat(by(), Target::Handle(its))).unwrap();
    assert_eq!(its_found.modified_ns, found.modified_ns);
    assert!(other.read(its, 0, 100_000) == expected);
    // More than fits.
    let page = [7; PAGE];
    for n in 0..5_000 {
        one.write(mine, n * PAGE as u64, &page);
    }
    assert!(other.read(its, 4_000 * PAGE as u64, 1_000 * PAGE) == vec![7; 1_000 * PAGE]);
    served_ends(served, [one, other]);
}

/// What is known of a file is forgotten then, and asked for again: the lease to write it stays.
#[test]
fn writes_are_kept_again_after_a_change_of_another_kind() {
    let served = Served::new();
    let one = served.process(1 << 20);
    let (mine, other) = (one.open("/f"), one.open("/g"));
    one.write(other, 0, b"something");
    // Nothing else is asked of it: that would have it known again.
    let mut bytes = 0;
    for round in 0..6_u64 {
        match round % 2 {
            0 => {
                one.cut(mine, 0);
                bytes = 0;
            }
            _ => block_on(one.0.truncate(by(), At::from("/g".as_bytes()), round)).unwrap(),
        }
        let kept = one.counts().writes;
        for _ in 0..100 {
            one.write(mine, bytes, b"ten bytes.");
            bytes += 10;
        }
        // The first ones may go by commands, and a lease may end meanwhile.
        let kept = one.counts().writes - kept;
        assert!(kept > 80, "{kept} in round {round}");
    }
    assert_eq!(one.bytes(mine), bytes);
    served_ends(served, [one]);
}

/// A write of no bytes changes nothing, wherever it is.
#[test]
fn a_write_of_nothing_behind_the_end_makes_no_file_longer() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    for round in 1..10 {
        one.write(mine, 10 * round - 10, b"ten bytes.");
        one.write(mine, 1 << 20, b"");
        assert_eq!(one.0.bytes_kept(mine).unwrap_or(10 * round), 10 * round);
        assert_eq!(one.bytes(mine), 10 * round);
    }
    assert!(one.counts().writes > 0, "{:?}", one.counts());
    assert_eq!(other.bytes(its), 90);
    served_ends(served, [one, other]);
}

#[test]
fn a_process_that_is_gone_has_lost_nothing() {
    let served = Served::new();
    let other = served.process(1 << 20);
    let its = other.open("/f");
    let mut expected = Vec::new();
    for round in 0..20_u8 {
        let one = served.process(1 << 20);
        let mine = one.open("/f");
        for _ in 0..20 {
            let data = vec![round; 1_000 + usize::from(round)];
            one.write(mine, expected.len() as u64, &data);
            expected.extend_from_slice(&data);
        }
        assert!(one.counts().writes > 0, "{:?}", one.counts());
        // Its connection ends, and its memory is given to the next one.
        one.0.abandon();
        if round % 2 == 0 {
            assert!(
                other.read(its, 0, expected.len() + 1) == expected,
                "{round}"
            );
        }
    }
    assert!(other.read(its, 0, expected.len() + 1) == expected);
    served_ends(served, [other]);
}

/// What several processes do to some files, and what is in them then.
pub(super) struct World {
    served: Served,
    /// What each process keeps.
    keep: [Keeping; PROCESSES],
    processes: Vec<(Process, Vec<Handle>)>,
    files: Vec<Vec<u8>>,
    numbers: Numbers,
    kept: u64,
    /// Reads and writes by way of the drive's cache.
    pub(super) near: u64,
}

const FILES: usize = 3;
pub(super) const PROCESSES: usize = 3;

fn name(file: usize) -> String {
    format!("/f{file}")
}

fn newcomer(served: &Served, keeping: Keeping) -> (Process, Vec<Handle>) {
    let process = served.keeping(keeping);
    let handles = (0..FILES).map(|file| process.open(&name(file))).collect();
    (process, handles)
}

impl World {
    fn new(seed: u64) -> World {
        World::keeping(Served::new(), [Keeping::of_bytes(1 << 20); PROCESSES], seed)
    }

    /// With a drive that has a cache.
    pub(super) fn of(served: Served, seed: u64) -> World {
        let (own, both) = (Keeping::of_bytes(1 << 20), omni(1 << 20));
        World::keeping(served, [own, both, both], seed)
    }

    /// With processes that keep what they are told to.
    pub(super) fn keeping(served: Served, keep: [Keeping; PROCESSES], seed: u64) -> World {
        let new = |keeping| newcomer(&served, keeping);
        let processes = keep.into_iter().map(new).collect();
        World {
            keep,
            near: 0,
            served,
            processes,
            files: vec![Vec::new(); FILES],
            numbers: Numbers(seed),
            kept: 0,
        }
    }

    fn write(&mut self, who: usize, which: usize) {
        let data = vec![self.numbers.below(255) as u8 + 1; self.numbers.bytes()];
        let bytes = self.files[which].len() as u64;
        let appends = self.numbers.below(3) == 0;
        let at = match appends {
            true => bytes,
            false => self.numbers.below(bytes.min(80_000) + 3_000),
        };
        let place = if appends { Place::End } else { Place::At(at) };
        let (process, handles) = &self.processes[who];
        let written = block_on(process.0.write(now_ns(), handles[which], place, &data)).unwrap();
        assert_eq!((written.offset, written.bytes), (at, data.len() as u64));
        let (file, end) = (&mut self.files[which], at as usize + data.len());
        file.resize(file.len().max(end), 0);
        file[at as usize..end].copy_from_slice(&data);
    }

    pub(super) fn step(&mut self) {
        let who = self.numbers.below(PROCESSES as u64) as usize;
        let which = self.numbers.below(FILES as u64) as usize;
        // Mostly one process has a file for a while.
        let who = if self.numbers.below(10) > 0 {
            which
        } else {
            who
        };
        let (process, handles) = &mut self.processes[who];
        let (handle, file) = (handles[which], &mut self.files[which]);
        match self.numbers.below(100) {
            0..60 => self.write(who, which),
            60..80 => {
                let at = self.numbers.below(file.len() as u64 + 10);
                let bytes = [9_000, 20, 700][self.numbers.below(3) as usize];
                let before = process.counts();
                let found = process.read(handle, at, bytes);
                let from = file.len().min(at as usize);
                assert!(found == file[from..file.len().min(from + bytes)]);
                self.near += process.counts().near_reads - before.near_reads;
            }
            80..88 => assert_eq!(process.bytes(handle), file.len() as u64),
            88..91 => {
                let bytes = self.numbers.below(file.len() as u64 + 5_000);
                process.cut(handle, bytes);
                file.resize(bytes as usize, 0);
            }
            91..93 => {
                block_on(process.0.sync(handle, Sync::Data)).unwrap();
            }
            93..95 => assert_eq!(process.stat(&name(which)), Ok(file.len() as u64)),
            95..99 => {
                block_on(process.0.close(handle)).unwrap();
                handles[which] = process.open(&name(which));
            }
            _ => {
                self.kept += process.counts().writes;
                let new = newcomer(&self.served, self.keep[who]);
                let (gone, _) = std::mem::replace(&mut self.processes[who], new);
                gone.0.abandon();
            }
        }
    }

    pub(super) fn end(self) {
        let World {
            served,
            processes,
            files,
            mut kept,
            ..
        } = self;
        let (last, handles) = newcomer(&served, Keeping::of_bytes(1 << 20));
        for (which, file) in files.iter().enumerate() {
            assert!(last.read(handles[which], 0, file.len() + 1) == *file);
        }
        block_on(last.0.sync_all()).unwrap();
        for (process, _) in processes {
            kept += process.counts().writes;
            process.0.end().unwrap();
        }
        assert!(kept > 50, "{kept} writes were kept");
        last.0.end().unwrap();
        let image = served.image();
        served.server.close().unwrap();
        let mount = wharf::files::Mount::open(&image).unwrap();
        for (which, file) in files.iter().enumerate() {
            let mut found = vec![0; file.len() + 1];
            let open = mount.open_file(name(which), OpenFlags::READ, 0).unwrap();
            let bytes = open.read_at(0, &mut found).unwrap();
            assert!(found[..bytes] == *file, "what the next one finds");
        }
        mount.close().unwrap();
    }
}

/// Random work of three processes on three files is as one after the other, also where some are gone at any time.
#[test]
fn random_work_of_processes_is_what_one_would_have_done() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..1_500 {
            world.step();
        }
        world.end();
    }
}
