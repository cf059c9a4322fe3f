//! Files with the cache of a process before them: what they hold is what a plain model holds, in every mode, with caches that
//! pages are pushed out of all the time, and with threads that share one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_files::{Errno, OpenFlags};
use wharf_host::files::{FileClient, Handle};
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Eviction, Placement, Stor, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{Cpu, Notify, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, run_in};
use crate::owner::Owner;

const MODES: [CacheMode; 4] = [
    CacheMode::WriteBack,
    CacheMode::WriteAround,
    CacheMode::WriteThrough,
    CacheMode::Near,
];

/// Who shares what.
#[derive(Clone, Copy)]
struct Shape {
    clients: u32,
    threads: u32,
    /// Frames of each process.
    frames: u32,
    cache_files: u32,
    /// Pages leave in two steps, and the drive brings some ahead.
    in_steps: bool,
}

const ALONE: Shape = Shape {
    clients: 1,
    threads: 1,
    frames: 32,
    cache_files: 64,
    in_steps: false,
};

/// Runs a task for each client, with its files.
fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    shape: Shape,
    cache: CacheMode,
    task: impl Fn(Cpu, Rc<StorFiles>, u32) -> F + Send + Sync + 'static,
) -> Vec<T> {
    let own = StorConfig {
        placement: Placement::ReadSpread,
        cache,
        threads: shape.threads,
        cache_files: shape.cache_files,
        eviction: match shape.in_steps {
            true => Eviction::TwoStep,
            false => Eviction::Clock,
        },
        inactive_ns: 100_000,
        prefetch_pages: if shape.in_steps { 512 } else { 0 },
        ..StorConfig::default()
    };
    let processes = shape.clients.div_ceil(shape.threads);
    let config = DesignConfig {
        cache_bytes: u64::from(shape.frames * processes) * PAGE_BYTES as u64,
        clients: shape.clients,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    run_in(&space, 2, shape.clients, own, move |one: OneClient| {
        let files = Rc::new(stor.files_of(one.client, one.index));
        task(one.cpu, files, one.index)
    })
}

/// Runs a task several times on each client, with its number among all.
fn run_tasks<F: Future<Output = ()> + 'static>(
    shape: Shape,
    cache: CacheMode,
    tasks: u32,
    task: impl Fn(Cpu, Rc<StorFiles>, u32) -> F + Clone + Send + Sync + 'static,
) {
    run(shape, cache, move |cpu, files, index| {
        let task = task.clone();
        async move {
            let (left, ended) = (Rc::new(Cell::new(tasks)), Rc::new(Notify::new()));
            for number in 0..tasks {
                let work = task(cpu.clone(), files.clone(), index * tasks + number);
                let (cpu_of, left, ended) = (cpu.clone(), left.clone(), ended.clone());
                cpu.spawn("task", async move {
                    work.await;
                    left.set(left.get() - 1);
                    ended.notify_all(&cpu_of);
                });
            }
            while left.get() > 0 {
                ended.wait(&cpu).await;
            }
            files.sync_all().await.expect("it is written");
        }
    });
}

/// Runs owners of directories, two on each client; what they see is what their models say.
fn owners(seed: u64, shape: Shape, cache: CacheMode) {
    run_tasks(shape, cache, 2, move |cpu, files, number| async move {
        let mut owner = Owner::new(seed, number).without_links();
        owner.begin(&*files).await;
        for _ in 0..250 {
            cpu.yield_now().await;
            owner.step(&*files).await;
        }
        owner.finish(&*files).await;
    });
}

#[test]
fn files_behind_a_cache_are_what_the_model_says() {
    for seed in 0..36 {
        let cache = MODES[seed as usize % 4];
        let frames = [16, 64, 400][seed as usize / 4 % 3];
        let shape = Shape {
            frames,
            in_steps: seed / 12 % 2 == 1,
            ..ALONE
        };
        owners(seed, shape, cache);
    }
}

#[test]
fn more_files_than_have_a_place_in_a_cache_are_what_the_model_says() {
    for seed in 100..124 {
        let shape = Shape {
            cache_files: 12,
            in_steps: seed / 4 % 2 == 1,
            ..ALONE
        };
        owners(seed, shape, MODES[seed as usize % 4]);
    }
}

#[test]
fn files_of_processes_and_their_threads_are_what_the_model_says() {
    for seed in 200..224 {
        let shape = Shape {
            clients: 4,
            threads: [1, 2, 4][seed as usize % 3],
            frames: 64,
            in_steps: seed / 12 % 2 == 1,
            ..ALONE
        };
        owners(seed, shape, MODES[seed as usize / 3 % 4]);
    }
}

/// Opens a file, which is made if need be.
async fn open(files: &StorFiles, path: &str, flags: OpenFlags) -> Handle {
    let opened = files.open(path.as_bytes(), flags, 0o644).await;
    opened.expect("it opens").handle
}

/// Tasks of threads of one process write pages of their own colour to files that are cut, punched, and removed all the time.
#[test]
fn no_byte_is_another_files_where_threads_share_a_cache() {
    for seed in 0..12 {
        let shape = Shape {
            clients: 3,
            threads: 3,
            frames: 24,
            cache_files: 8,
            in_steps: false,
        };
        let mode = MODES[seed as usize % 4];
        run_tasks(shape, mode, 2, move |cpu, files, number| async move {
            let mut rng = Seed(seed).child("task").index(number.into()).rng();
            for _ in 0..120 {
                cpu.yield_now().await;
                let file = rng.below(4);
                let (path, colour) = (format!("/f{file}"), 1 + file as u8);
                let handle = open(&files, &path, OpenFlags::CREATE).await;
                let bytes = 1 + rng.below(9_000);
                let extent = Extent::new(rng.below(40_000), bytes);
                match rng.below(8) {
                    0..3 => {
                        let data = vec![colour; bytes as usize];
                        files
                            .write_at(handle, extent, &data)
                            .await
                            .expect("it is written");
                    }
                    3 => files
                        .set_len(handle, extent.offset)
                        .await
                        .expect("it is cut"),
                    4 => files.punch(handle, extent).await.expect("it is punched"),
                    5 => drop(files.remove(path.as_bytes()).await),
                    _ => {
                        let mut out = vec![0xff; bytes as usize];
                        let read = files.read_at(handle, extent, &mut out).await;
                        let read = read.expect("it is read").bytes as usize;
                        let wrong = out[..read]
                            .iter()
                            .find(|byte| **byte != 0 && **byte != colour);
                        assert_eq!(wrong, None, "seed {seed}, {path}, {extent:?}");
                    }
                }
                files.close(handle).await.expect("it is open");
            }
        });
    }
}

#[test]
fn no_append_of_threads_is_lost_or_written_over() {
    const RECORDS: u64 = 20;
    let shape = Shape {
        clients: 3,
        threads: 3,
        ..ALONE
    };
    for mode in MODES {
        run_tasks(shape, mode, 2, |cpu, files, number| async move {
            let bytes = 200 + u64::from(number) * 100;
            let log = OpenFlags {
                append: number % 2 == 0,
                ..OpenFlags::CREATE
            };
            let handle = open(&files, "/log", log).await;
            let mut ends = Vec::new();
            for record in 0..RECORDS {
                cpu.yield_now().await;
                let data = vec![number as u8 * 20 + record as u8 + 1; bytes as usize];
                let appended = files.append(handle, bytes, &data).await;
                ends.push((appended.expect("there is room").offset, data));
            }
            for (offset, data) in ends {
                let mut out = vec![0; bytes as usize];
                let read = files
                    .read_at(handle, Extent::new(offset, bytes), &mut out)
                    .await;
                assert_eq!(read.expect("it is read").bytes, bytes);
                assert!(out == data, "the record at {offset} of task {number}");
            }
            files.close(handle).await.expect("it is open");
        });
    }
}

/// Threads open, append to, look at and close more files than have a place: no append is lost, whatever leaves the cache meanwhile.
#[test]
fn appends_to_files_that_come_and_go_are_kept() {
    for (seed, mode) in (0..4).flat_map(|seed| MODES.map(|mode| (seed, mode))) {
        let shape = Shape {
            clients: 4,
            threads: 4,
            frames: 200,
            cache_files: 10,
            in_steps: seed % 2 == 1,
        };
        let ends: Arc<Mutex<BTreeMap<u64, u64>>> = Arc::default();
        run_tasks(shape, mode, 2, move |cpu, files, number| {
            let ends = ends.clone();
            async move {
                let mut rng = Seed(seed).child("appends").index(number.into()).rng();
                for _ in 0..150 {
                    cpu.yield_now().await;
                    let file = rng.below(24);
                    let path = format!("/f{file}");
                    let end = || {
                        ends.lock()
                            .expect("no holder panics")
                            .get(&file)
                            .copied()
                            .unwrap_or(0)
                    };
                    let before = end();
                    if rng.chance(1, 4) {
                        if let Ok(found) = files.stat(path.as_bytes(), true).await {
                            assert!(
                                found.bytes >= before,
                                "seed {seed}, {mode:?}, {path}: {} of {before}",
                                found.bytes
                            );
                        }
                        continue;
                    }
                    let handle = open(&files, &path, OpenFlags::CREATE).await;
                    let bytes = 1 + rng.below(6_000);
                    let data = vec![7; bytes as usize];
                    let before = end();
                    let appended = files.append(handle, bytes, &data).await;
                    let offset = appended.expect("there is room").offset;
                    assert!(
                        offset >= before,
                        "seed {seed}, {mode:?}, {path}: at {offset} behind {before}"
                    );
                    {
                        let mut all = ends.lock().expect("no holder panics");
                        let end = all.entry(file).or_default();
                        *end = (*end).max(offset + bytes);
                    }
                    files.close(handle).await.expect("it is open");
                }
            }
        });
    }
}

/// What was written is on the drive after `sync`, and also, by and by, if its file was only closed.
#[test]
fn what_was_closed_dirty_is_there_for_who_comes_by_another_way() {
    run(ALONE, CacheMode::WriteBack, |_, files, _| async move {
        let handle = open(&files, "/a", OpenFlags::CREATE).await;
        let data = vec![7; 10_000];
        let extent = Extent::new(0, 10_000);
        files
            .write_at(handle, extent, &data)
            .await
            .expect("it is written");
        let on_drive = async || {
            let found = FileClient::stat(files.client(), b"/a", true).await;
            found.expect("it is there").bytes
        };
        assert_eq!(on_drive().await, 0);
        let found = files.stat(b"/a", true).await.expect("it is there");
        assert_eq!(found.bytes, 10_000);
        files.close(handle).await.expect("it is open");
        assert_eq!(on_drive().await, 0, "closing writes nothing");
        let again = open(&files, "/a", OpenFlags::READ).await;
        let mut out = vec![0; 12_000];
        let read = files.read_at(again, Extent::new(0, 12_000), &mut out).await;
        assert_eq!(read.expect("it is read").bytes, 10_000);
        assert!(out[..10_000] == data);
        files
            .sync(again, Extent::new(0, u64::MAX), true)
            .await
            .expect("it is durable");
        assert_eq!(on_drive().await, 10_000);
        let refused = files.write_at(again, extent, &data).await;
        assert_eq!(refused.expect_err("it reads only").errno(), Errno::EBADF);
        files.close(again).await.expect("it is open");
        let mut out = vec![0; 10_000];
        let opened = FileClient::open(files.client(), b"/a", OpenFlags::READ, 0).await;
        let past = opened.expect("it opens").handle;
        files
            .client()
            .read_at(past, extent, &mut out)
            .await
            .expect("it is read");
        assert!(out == data);
    });
}

/// Hits are ordinary functions, and send no command.
#[test]
fn what_is_in_the_cache_takes_no_command() {
    let shape = Shape {
        frames: 400,
        ..ALONE
    };
    run(shape, CacheMode::WriteBack, |_, files, _| async move {
        let handle = open(&files, "/a", OpenFlags::CREATE).await;
        let page = Extent::new(0, 4096);
        assert!(
            !files.write_now(handle, page, &[1; 4096]),
            "the file has no bytes"
        );
        files
            .write_at(handle, page, &[1; 4096])
            .await
            .expect("it is written");
        let commands = || files.statistics().blocks.driver.commands();
        let before = commands();
        let part = Extent::new(100, 50);
        assert!(files.write_now(handle, part, &[2; 50]));
        let mut out = [0; 4096];
        assert_eq!(files.read_now(handle, page, &mut out), Some(4096));
        assert_eq!((out[99], out[100], out[149], out[150]), (1, 2, 2, 1));
        let touch = files.read_at(handle, part, &mut out[..50]).await;
        let touch = touch.expect("it is read").touch;
        assert_eq!((touch.pages, touch.hits), (1, 1));
        assert_eq!(
            files.read_now(handle, Extent::new(5000, 10), &mut out[..10]),
            Some(0)
        );
        assert_eq!(commands(), before);
        files.close(handle).await.expect("it is open");
    });
}

/// Dirty pages of a file go in runs, not one by one.
#[test]
fn a_sync_writes_neighbours_together() {
    let shape = Shape {
        frames: 400,
        ..ALONE
    };
    run(shape, CacheMode::WriteBack, |_, files, _| async move {
        let handle = open(&files, "/a", OpenFlags::CREATE).await;
        for page in 0..32 {
            let extent = Extent::of_pages(page, 1);
            files
                .write_at(handle, extent, &[page as u8; 4096])
                .await
                .expect("it is written");
        }
        let before = files.statistics().blocks.driver.commands();
        files
            .sync(handle, Extent::new(0, u64::MAX), false)
            .await
            .expect("it is durable");
        let sent = files.statistics().blocks.driver.commands() - before;
        assert!(sent <= 4, "{sent} commands");
        files.close(handle).await.expect("it is open");
    });
}

/// A reader that reads in order waits for the drive less than once for each page.
#[test]
fn reading_in_order_brings_pages_before_they_are_wanted() {
    let shape = Shape {
        frames: 400,
        ..ALONE
    };
    run(shape, CacheMode::WriteBack, |_, files, _| async move {
        let client = files.client();
        let opened = FileClient::open(client, b"/a", OpenFlags::CREATE, 0o600).await;
        let made = opened.expect("it is made").handle;
        let data: Vec<u8> = (0..128 * 4096).map(|at| (at / 4096) as u8).collect();
        client.write(made, 0, &data).await.expect("there is room");
        let handle = open(&files, "/a", OpenFlags::READ).await;
        for page in 0..128 {
            let mut out = [0xff; 4096];
            let read = files
                .read_at(handle, Extent::of_pages(page, 1), &mut out)
                .await;
            read.expect("it is read");
            assert_eq!(out, [page as u8; 4096]);
        }
        let found = files.statistics().blocks;
        assert_eq!(found.touches, 128);
        let missed = found.touches - found.hits - found.read_ahead_hits;
        assert!(missed < 32, "{missed} misses");
        files.close(handle).await.expect("it is open");
    });
}

/// Who may write a file but not read it writes past the cache, which forgets what it had.
#[test]
fn a_file_that_one_may_only_write_is_written_past_the_cache() {
    run(ALONE, CacheMode::WriteBack, |_, files, _| async move {
        let all = open(&files, "/a", OpenFlags::CREATE).await;
        let page = Extent::new(0, 4096);
        files
            .write_at(all, page, &[1; 4096])
            .await
            .expect("it is written");
        let only_write = OpenFlags {
            read: false,
            ..OpenFlags::UPDATE
        };
        let writer = open(&files, "/a", only_write).await;
        let refused = files.read_at(writer, page, &mut [0; 4096]).await;
        assert_eq!(refused.expect_err("it writes only").errno(), Errno::EBADF);
        files
            .write_at(writer, Extent::new(10, 10), &[2; 10])
            .await
            .expect("it is written");
        let mut out = [0; 4096];
        assert_eq!(
            files.read_now(all, page, &mut out),
            Some(4096),
            "it is in the cache"
        );
        assert_eq!((out[9], out[10], out[20]), (1, 2, 1));
        files.close(writer).await.expect("it is open");
        files.close(all).await.expect("it is open");
    });
}

/// Without leases, processes that share a file do not see what others write: as in the paper.
#[test]
fn processes_that_share_a_file_see_old_bytes() {
    let shape = Shape {
        clients: 2,
        ..ALONE
    };
    let seen = run(
        shape,
        CacheMode::WriteBack,
        |cpu, files, index| async move {
            let page = Extent::new(0, 4096);
            let mut out = [0; 4096];
            if index == 0 {
                let handle = open(&files, "/a", OpenFlags::CREATE).await;
                files
                    .write_at(handle, page, &[1; 4096])
                    .await
                    .expect("it is written");
                files
                    .sync(handle, page, false)
                    .await
                    .expect("it is durable");
                cpu.sleep_until(cpu.now() + 50_000_000).await;
                files
                    .write_at(handle, page, &[2; 4096])
                    .await
                    .expect("it is written");
                files
                    .sync(handle, page, false)
                    .await
                    .expect("it is durable");
                cpu.sleep_until(cpu.now() + 100_000_000).await;
            } else {
                cpu.sleep_until(cpu.now() + 25_000_000).await;
                let again = open(&files, "/a", OpenFlags::READ).await;
                files
                    .read_at(again, page, &mut out)
                    .await
                    .expect("it is read");
                cpu.sleep_until(cpu.now() + 75_000_000).await;
                files
                    .read_at(again, page, &mut out)
                    .await
                    .expect("it is read");
            }
            out[0]
        },
    );
    assert_eq!(seen[1], 1, "it was 2 for long");
}

/// A write-back that the drive has no room for is told to every open file once, and tried again: its pages stay.
#[test]
fn a_write_back_that_fails_is_told_once_to_each_open_file_and_tried_again() {
    let shape = Shape {
        frames: 4_000,
        ..ALONE
    };
    run(shape, CacheMode::WriteBack, |_, files, _| async move {
        let client = files.client();
        let one = open(&files, "/a", OpenFlags::CREATE).await;
        let other = open(&files, "/a", OpenFlags::UPDATE).await;
        let full = FileClient::open(client, b"/full", OpenFlags::CREATE, 0o600).await;
        let (full, chunk) = (full.expect("it is made").handle, vec![3; 256 << 10]);
        let mut at = 0;
        while let Ok(written) = client.write(full, at, &chunk).await {
            at += written;
        }
        let extent = Extent::of_pages(0, 300);
        let data: Vec<u8> = (0..extent.bytes).map(|at| (at / 4096 + 1) as u8).collect();
        files
            .write_at(one, extent, &data)
            .await
            .expect("the cache has room");
        let all = Extent::new(0, u64::MAX);
        let sync = async |handle| {
            let synced = files.sync(handle, all, true).await;
            synced.map_err(|error| error.errno())
        };
        assert_eq!(sync(one).await, Err(Errno::ENOSPC));
        assert_eq!(
            sync(one).await,
            Err(Errno::ENOSPC),
            "the pages are there, and are tried again"
        );
        FileClient::remove(client, b"/full")
            .await
            .expect("it is there");
        client.close(full).await.expect("it is open");
        assert_eq!(
            sync(other).await,
            Err(Errno::EIO),
            "it is told of what failed before"
        );
        assert_eq!(sync(other).await, Ok(()));
        assert_eq!(sync(one).await, Ok(()));
        let past = FileClient::open(client, b"/a", OpenFlags::READ, 0).await;
        let mut out = vec![0; data.len()];
        let read = client
            .read(past.expect("it opens").handle, 0, &mut out)
            .await;
        assert_eq!(read.expect("it is read"), extent.bytes);
        assert!(out == data);
    });
}
