//! All short programs (the rule of ACE) by way of both caches: when the power of the drive goes, or the process is killed, behind a
//! program, what it had made durable is there, whichever cache had it.
//!
//! The drive's cache is volatile, and the process's goes with it. So this may be lost: bytes that were written and not made durable since,
//! with the size of the file that they gave it. The tree is the drive's, and is that of some moment since it was made durable.
//!
//! The files of a client have no word for three of the four kinds of `fallocate`: programs with these are left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_files::model::ModelLimits;
use wharf_files::testing::ace;
use wharf_files::testing::beside::{new_model, time_of};
use wharf_files::testing::history::{History, State};
use wharf_files::testing::program::{Operation, Step, callers, listing};
use wharf_files::testing::subject::{Answer, Look, Subject, Users};
use wharf_files::testing::view::{PagesSeen, Seen, View, look as look_at, view};
use wharf_files::vfs::{SessionLimits, Target};
use wharf_files::{Allocate, Handle, Kind, LIST_START, OpenFlags, SetAttributes, block_on};
use wharf_host::files::{FileClient, FileError};
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Compute, Stor, StorClient, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive_of, run_on, run_until_cut};

/// How a program ends, and begins.
#[derive(Debug, Clone, Copy)]
struct How {
    /// The power of the drive goes; else the process is killed, and another one looks.
    is_cut: bool,
    /// The files that are there from the beginning are in the process's cache; else in none.
    is_warm: bool,
    /// What a program closes stays open, and so its pages stay in the drive's cache; else they leave it.
    keeps_open: bool,
}

fn all_ways() -> impl Iterator<Item = How> {
    (0..8).map(|bits| How {
        is_cut: bits & 1 == 0,
        keeps_open: bits & 2 == 0,
        is_warm: bits & 4 != 0,
    })
}

/// Pages of flash of a drive: there is room for each program.
const DRIVE_PAGES: u32 = 2_000;

/// The only slot that these programs use.
const SLOT: usize = 0;

/// Whether a client has a word for a step.
fn has_word(step: &Step) -> bool {
    !matches!(step.operation, Operation::Allocate { what, .. } if what != Allocate::Punch)
}

/// A program by files of a client.
struct ByFiles {
    files: StorFiles,
    open: Option<Handle>,
    keeps_open: bool,
}

impl ByFiles {
    async fn run(&mut self, steps: &[Step]) {
        for step in steps {
            let done = self.step(&step.operation).await;
            done.unwrap_or_else(|error| panic!("{step} fails: {error}\n{}", listing(steps)));
        }
    }

    async fn step(&mut self, operation: &Operation) -> Result<(), FileError> {
        use Operation::*;
        let files = &self.files;
        let handle = || self.open.expect("it is open");
        match operation {
            Open {
                path, flags, mode, ..
            } => self.open = Some(files.open(path, *flags, *mode).await?.handle),
            Close { .. } if self.keeps_open => {}
            Close { .. } => files.close(handle()).await?,
            Write { offset, fill, .. } => {
                let extent = Extent::new(*offset, fill.bytes);
                files.write_at(handle(), extent, &fill.make()).await?;
            }
            Sync { .. } => {
                let whole = Extent::new(0, u64::MAX);
                files.sync(handle(), whole, false).await?;
            }
            SyncAll => files.sync_all().await?,
            Truncate { path, bytes } => {
                let opened = files.open(path, OpenFlags::UPDATE, 0).await?;
                files.set_len(opened.handle, *bytes).await?;
                files.close(opened.handle).await?;
            }
            Allocate { offset, bytes, .. } => {
                let extent = Extent::new(*offset, *bytes);
                files.punch(handle(), extent).await?;
            }
            Mkdir { path, mode } => files.mkdir(path, *mode).await?,
            Rmdir { path } => files.rmdir(path).await?,
            Unlink { path } => files.remove(path).await?,
            Rename { from, to, how } => files.rename(from, to, *how).await?,
            Link { from, to, .. } => files.link(from, to).await?,
            Symlink { target, path } => files.symlink(target, path).await?,
            Chmod { path, mode } => {
                let set = SetAttributes {
                    mode: Some(*mode),
                    ..SetAttributes::default()
                };
                files.set_attributes(path, set).await?;
            }
            SetXattr {
                path,
                follow,
                name,
                value,
                how,
            } => {
                let target = Target::Path(path[..].into(), *follow);
                let client = files.client();
                client.set_xattr(target, name, value, *how).await?;
            }
            other => unreachable!("{other:?} is in no short program"),
        }
        Ok(())
    }
}

/// All that can be seen by a client without a cache.
async fn look(client: &StorClient) -> Result<View, FileError> {
    let mut view = View::default();
    let mut first_paths: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut todo = vec![b"/".to_vec()];
    while let Some(path) = todo.pop() {
        let target = || Target::Path(path[..].into(), false);
        let found = client.stat(target()).await?;
        let mut xattrs = BTreeMap::new();
        for name in client.xattrs(target()).await? {
            let value = client.xattr(target(), &name).await?;
            xattrs.insert(name.into_vec(), value);
        }
        let first = first_paths.entry(found.number).or_insert(path.clone());
        let mut seen = Seen {
            look: Look::of(&found),
            times_ns: (0, 0),
            first_path: first.clone(),
            entries: 0,
            target: Vec::new(),
            xattrs,
            pages: PagesSeen::new(),
            number: found.number,
        };
        match found.kind {
            Kind::Directory => {
                seen.entries = found.bytes;
                let mut names = names(client, &path).await?;
                names.sort_by(|a, b| b.cmp(a));
                let slash: &[u8] = if path == b"/" { b"" } else { b"/" };
                todo.extend(names.iter().map(|name| [&path, slash, name].concat()));
            }
            Kind::File => {
                let opened = client.open(path[..].into(), OpenFlags::READ, 0).await?;
                let mut bytes = vec![0xee; found.bytes as usize];
                let read = client.read(opened.handle, 0, &mut bytes).await?;
                assert_eq!(read, found.bytes);
                client.close(opened.handle).await?;
                seen.pages = (0..)
                    .zip(bytes.chunks(PAGE_BYTES).map(<[u8]>::to_vec))
                    .collect();
            }
            _ => seen.target = client.read_link(path[..].into()).await?,
        }
        view.0.insert(path, seen);
    }
    Ok(view)
}

async fn names(client: &StorClient, path: &[u8]) -> Result<Vec<Vec<u8>>, FileError> {
    let opened = client.open(path.into(), OpenFlags::DIRECTORY, 0).await?;
    let (mut entries, mut cookie, mut is_end) = (Vec::new(), LIST_START, false);
    while !is_end {
        is_end = client.list(opened.handle, cookie, 7, &mut entries).await?;
        cookie = entries.last().map_or(cookie, |entry| entry.cookie);
    }
    client.close(opened.handle).await?;
    let names = entries.into_iter().map(|entry| entry.name.into_vec());
    Ok(names.collect())
}

/// A size that all files are said to have where trees are compared.
const ANY_SIZE: u64 = 64 << 10;

fn without_sizes(mut view: View) -> View {
    for seen in view.0.values_mut() {
        if seen.look.kind == Kind::File {
            seen.look.bytes = ANY_SIZE;
        }
    }
    view
}

/// What there was after each step of a program.
struct Expected {
    history: History,
    views: Vec<View>,
    /// From which step on everything is durable, and each file, by its number.
    all_from: usize,
    files_from: BTreeMap<u64, usize>,
}

async fn expected(program: &[Step]) -> Expected {
    let model = new_model(ModelLimits::default());
    let mut users = Users::new(&&model, &callers(), SessionLimits::default());
    let before = view(&model).await.expect("it is a model");
    let mut expected = Expected {
        history: History::new(without_sizes(before.clone())),
        views: vec![before],
        all_from: 0,
        files_from: BTreeMap::new(),
    };
    for (at, step) in program.iter().enumerate() {
        let number = match step.operation {
            Operation::Sync { .. } => users.number(step.user, SLOT).await,
            _ => None,
        };
        let answer = users.step(step, time_of(at)).await;
        assert!(!matches!(answer, Answer::Failed(_)), "{step}: {answer:?}");
        let after = view(&model).await.expect("it is a model");
        let mut state = State {
            view: without_sizes(after.clone()),
            nameless: Vec::new(),
        };
        for open in users.nameless().await {
            let seen = look_at(&model, &open).await;
            state.nameless.push(seen.expect("it is a model"));
        }
        expected.history.push(step, true, number, state);
        expected.views.push(after);
        if let Some(number) = number {
            expected.files_from.insert(number, at + 1);
        } else if step.operation == Operation::SyncAll {
            (expected.all_from, expected.files_from) = (at + 1, BTreeMap::new());
        }
    }
    expected
}

impl Expected {
    /// Whether this may be there in the end; gives whether anything is lost.
    fn judge(&self, found: &View) -> Result<bool, String> {
        let last = self.history.steps();
        let sizeless = without_sizes(found.clone());
        let steps = self.history.judge(&sizeless, last, last)?;
        let mut is_lost = steps < last;
        for (path, seen) in &found.0 {
            let Some(right) = self.views[steps].0.get(path) else {
                return Err(format!("{} is not there", path.escape_ascii()));
            };
            let from = self.files_from.get(&right.number);
            let since = &self.views[*from.unwrap_or(&self.all_from)..];
            let size_of = |view: &View| {
                let mut all = view.0.values();
                let seen = all.find(|seen| seen.number == right.number);
                seen.map(|seen| seen.look.bytes)
            };
            let bytes = seen.look.bytes;
            if !since.iter().any(|view| size_of(view) == Some(bytes)) {
                return Err(format!("{} has {bytes} bytes", path.escape_ascii()));
            }
            is_lost |= seen.look.bytes != right.look.bytes;
            let whole = |pages: &PagesSeen| {
                let mut bytes = vec![0; ANY_SIZE as usize];
                for (page, data) in pages {
                    let at = *page as usize * PAGE_BYTES;
                    bytes[at..at + data.len()].copy_from_slice(data);
                }
                bytes
            };
            is_lost |= whole(&seen.pages) != whole(&right.pages);
        }
        Ok(is_lost)
    }
}

/// Runs the steps of a program by way of both caches, of which the first are those of its setup.
async fn run_program(client: StorClient, stor: &Stor, steps: &[Step], how: How) {
    let (setup, program) = steps.split_at(ace::setup().len());
    let by = |files| ByFiles {
        files,
        open: None,
        keeps_open: false,
    };
    let mut user = by(stor.files_of(client.clone(), 0));
    match how.is_warm {
        true => user.run(setup).await,
        false => {
            by(StorFiles::uncached(client, Compute::Host))
                .run(setup)
                .await
        }
    }
    user.keeps_open = how.keeps_open;
    user.run(program).await;
    std::mem::forget(user);
}

/// What is there behind a program.
fn found_after(program: &[Step], how: How) -> View {
    let own = StorConfig {
        cache: CacheMode::Near,
        device_share: 0.5,
        ..StorConfig::default()
    };
    let config = DesignConfig {
        cache_bytes: 40 * PAGE_BYTES as u64,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let (ended, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(program.to_vec()));
    let ends = ended.clone();
    let run = move |client: StorClient| {
        let (stor, steps, ends) = (stor.clone(), steps.clone(), ends.clone());
        async move {
            run_program(client, &stor, &steps, how).await;
            ends.store(true, Ordering::Relaxed);
        }
    };
    let plain = StorConfig::default();
    let drive = new_drive_of(2, DRIVE_PAGES);
    let (_, mut views) = match how.is_cut {
        true => {
            let script = move |one: OneClient| {
                let run = run(one.client);
                async move {
                    run.await;
                    std::future::pending().await
                }
            };
            let drive = run_until_cut(drive, &space, 1, own, (ended, 0), script);
            let look = |one: OneClient| async move { look(&one.client).await };
            run_on(drive, &space, 1, plain, look)
        }
        false => run_on(drive, &space, 2, plain, move |one: OneClient| {
            let (run, ended) = (run.clone(), ended.clone());
            async move {
                if one.index == 0 {
                    run(one.client).await;
                    return Ok(View::default());
                }
                while !ended.load(Ordering::Relaxed) {
                    one.cpu.sleep_until(one.cpu.now() + 20_000).await;
                }
                look(&one.client).await
            }
        }),
    };
    let view = views.pop().expect("somebody looked");
    view.expect("it can be looked at")
}

/// Runs programs; gives how many there were, and how many lost something.
fn judge(programs: impl Iterator<Item = ace::Program>, how: How) -> (u64, u64) {
    let (mut count, mut lost) = (0, 0);
    for program in programs {
        let steps = program.steps;
        if !steps.iter().all(has_word) {
            continue;
        }
        let found = found_after(&steps, how);
        let judged = block_on(expected(&steps)).judge(&found);
        let is_lost = judged.unwrap_or_else(|what| panic!("{how:?}: {what}\n{}", listing(&steps)));
        count += 1;
        lost += u64::from(is_lost);
    }
    println!("{how:?}: {count} programs, of which {lost} lost something");
    (count, lost)
}

#[test]
fn what_programs_of_one_operation_made_durable_is_there_whichever_cache_had_it() {
    let lost = all_ways().map(|how| {
        let (count, lost) = judge(ace::programs(1), how);
        assert!(count > 100 && lost > 5, "{how:?}: {count}, {lost}");
        lost
    });
    let lost: Vec<u64> = lost.collect();
    // What the drive's cache alone has goes with its power, and is in the file when it has left the cache.
    assert!(lost[0] > lost[2], "{lost:?}");
}

#[test]
fn what_programs_of_two_operations_made_durable_is_there_whichever_cache_had_it() {
    for (at, how) in all_ways().enumerate() {
        let some = ace::programs(2).skip(at).step_by(307);
        let (count, lost) = judge(some, how);
        assert!(count > 30 && lost > 1, "{how:?}: {count}, {lost}");
    }
}
