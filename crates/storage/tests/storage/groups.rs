//! Files that a thread waits for together.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wharf_runtime::Seed;
use wharf_storage::{
    AlignedBuffer, Channel, Engine, Errno, FileOptions, Io, PollGroup, Segment, Target, open,
};

use crate::targets::{engines, folder};

const PAGE: usize = 4096;

fn files(folder: &std::path::Path, engine: Engine, count: usize) -> Vec<Arc<dyn Target>> {
    let options = FileOptions {
        create_bytes: Some(64 * PAGE as u64),
        engine,
        ..FileOptions::default()
    };
    let file = |n| open(&folder.join(format!("{engine:?}-{n}")), &options).expect("a file");
    (0..count).map(file).collect()
}

/// Each file had a ring of its own, and waiting entered one of them: what was in the others began
/// when that had ended.
#[test]
fn an_io_was_not_begun_while_its_thread_waited_for_another_file() {
    let folder = folder();
    for engine in engines() {
        let targets = files(folder.path(), engine, 2);
        let group = PollGroup::new();
        let open = |target: &Arc<dyn Target>| target.channel_in(&group, 4).expect("a channel");
        let mut channels: Vec<Box<dyn Channel>> = targets.iter().map(open).collect();
        let mut memory = AlignedBuffer::new(2 * PAGE);
        memory.fill(7);
        let (first, second) = memory.split_at_mut(PAGE);
        let segments = [[Segment::of(first)], [Segment::of(second)]];
        // SAFETY: the memory outlives the channels' I/Os, which are waited for.
        unsafe { channels[0].submit(Io::write(0, &segments[0], 0)) }.expect("there is room");
        // SAFETY: as above.
        unsafe { channels[1].submit(Io::write(0, &segments[1], 1)) }.expect("there is room");
        channels[1].wait(1, &mut |ended| ended.result.expect("a write"));
        // The first channel is not touched: nobody but the kernel, or a thread, can write this.
        let path = folder.path().join(format!("{engine:?}-0"));
        let is_written = || std::fs::read(&path).expect("the file")[..PAGE] == [7; PAGE];
        let begun = (0..20_000).any(|_| {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
            is_written()
        });
        assert!(begun, "{engine:?}: not within 20 seconds");
        channels[0].wait(1, &mut |ended| ended.result.expect("a write"));
    }
}

/// More I/Os than a ring has places for, on several files, in an order of chance.
#[test]
fn files_of_a_group_hold_what_was_written() {
    const DEPTH: usize = 64;
    let folder = folder();
    for engine in engines() {
        let targets = files(folder.path(), engine, 8);
        let group = PollGroup::new();
        let open = |target: &Arc<dyn Target>| {
            let channel = target.channel_in(&group, DEPTH as u32);
            channel.expect("a channel")
        };
        let mut channels: Vec<Box<dyn Channel>> = targets.iter().map(open).collect();
        let mut rng = Seed(5).rng();
        for round in 0..4u8 {
            let mut memory = AlignedBuffer::new(8 * DEPTH * PAGE);
            for (index, page) in memory.chunks_mut(PAGE).enumerate() {
                page.fill(round ^ (index * 7) as u8);
            }
            let mut left: Vec<usize> = (0..8 * DEPTH).collect();
            while !left.is_empty() {
                let index = left.swap_remove(rng.below(left.len() as u64) as usize);
                let page = &mut memory[index * PAGE..][..PAGE];
                let (file, number) = (index / DEPTH, index % DEPTH);
                let segment = [Segment::of(page)];
                let io = Io::write((number * PAGE) as u64, &segment, index as u64);
                // SAFETY: the memory outlives the I/Os, all of which are waited for below.
                unsafe { channels[file].submit(io) }.expect("as many as its depth");
            }
            let mut ended = vec![false; 8 * DEPTH];
            while ended.contains(&false) {
                group.wait(1 + rng.below(5) as usize);
                for channel in &mut channels {
                    // Threads' channels are waited for one by one.
                    let min = usize::from(!channel.is_grouped() && channel.in_flight() > 0);
                    channel.wait(min, &mut |end| {
                        end.result.expect("a write");
                        let before = std::mem::replace(&mut ended[end.tag as usize], true);
                        assert!(!before, "it ends once");
                    });
                }
            }
            assert_eq!(group.in_flight(), 0);
            for file in 0..8 {
                let path = folder.path().join(format!("{engine:?}-{file}"));
                let bytes = std::fs::read(path).expect("the file");
                assert!(bytes == memory[file * DEPTH * PAGE..][..DEPTH * PAGE]);
            }
        }
    }
}

#[test]
fn a_channel_of_a_group_ends_with_its_target() {
    let folder = folder();
    for engine in engines() {
        let mut targets = files(folder.path(), engine, 2);
        let group = PollGroup::new();
        let mut channel = targets[0].channel_in(&group, 1).expect("a channel");
        let mut other = targets[1].channel_in(&group, 1).expect("a channel");
        targets.remove(0);
        let mut memory = AlignedBuffer::new(PAGE);
        let segment = [Segment::of(&mut memory)];
        let read = |channel: &mut dyn Channel| {
            // SAFETY: the memory outlives the I/O, which is waited for.
            unsafe { channel.submit(Io::read(0, &segment, 3)) }.expect("there is room");
            let mut result = None;
            channel.wait(1, &mut |end| result = Some(end.result.map_err(|e| e.errno)));
            result
        };
        assert_eq!(read(&mut *channel), Some(Err(Errno::BADF)), "{engine:?}");
        assert_eq!(read(&mut *other), Some(Ok(())), "{engine:?}");
    }
}

/// A server slept for ever: the ring's own descriptor says nothing of completions that are left until they are asked
/// for.
#[test]
fn a_thread_that_waits_for_the_descriptor_of_a_group_hears_of_every_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = FileOptions {
        create_bytes: Some(1 << 20),
        ..FileOptions::default()
    };
    let target = open(&folder.path().join("file"), &options).expect("a file");
    let group = PollGroup::new();
    let mut channel = target.channel_in(&group, 8).expect("a channel");
    let mut memory = AlignedBuffer::new(64 << 10);
    let segments = [Segment::of(&mut memory)];
    for round in 0..50u64 {
        let io = match round % 3 {
            0 => Io::write((round % 16) << 16, &segments, round),
            1 => Io::flush(round),
            _ => Io::read((round % 16) << 16, &segments, round),
        };
        // SAFETY: nobody touches the memory, which outlives the channel's use of it.
        unsafe { channel.submit(io) }.expect("there is room");
        let mut ended = 0;
        while ended == 0 {
            ended = channel.poll(&mut |c| {
                assert_eq!((c.tag, c.result), (round, Ok(())));
            });
            let Some(descriptor) = group.descriptor().filter(|_| ended == 0) else {
                continue;
            };
            // SAFETY: the group keeps it open.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
            let limit = Timespec {
                tv_sec: 20,
                tv_nsec: 0,
            };
            let ready = poll(&mut set, Some(&limit)).expect("it can be waited for");
            assert_eq!(ready, 1, "round {round}: nobody has rung");
        }
    }
}

/// A connection's first request was never answered: its I/O had ended before the descriptor was asked for, and
/// that had rung nothing.
#[test]
fn an_io_that_ends_before_anybody_asks_for_the_descriptor_is_heard_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = FileOptions {
        create_bytes: Some(1 << 20),
        ..FileOptions::default()
    };
    let path = folder.path().join("file");
    std::fs::write(&path, vec![7; 1 << 20]).expect("a file with data");
    let target = open(&path, &options).expect("a file");
    let limit = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    for _ in 0..5 {
        let group = PollGroup::new();
        let mut channel = target.channel_in(&group, 8).expect("a channel");
        let mut memory = AlignedBuffer::new(1 << 20);
        let segments = [Segment::of(&mut memory)];
        // SAFETY: nobody touches the memory, which outlives the channel's use of it.
        unsafe { channel.submit(Io::read(0, &segments, 1)) }.expect("there is room");
        if channel.poll(&mut |_| {}) > 0 {
            continue;
        }
        // Long enough for the kernel to be done with it.
        poll(&mut [], Some(&limit(0, 30_000_000))).expect("a rest");
        let Some(descriptor) = group.descriptor() else {
            println!("skipped: there are no rings here");
            return;
        };
        // SAFETY: the group keeps it open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
        let ready = poll(&mut set, Some(&limit(20, 0))).expect("it can be waited for");
        assert_eq!(ready, 1, "nobody has rung");
        while channel.poll(&mut |end| assert_eq!(end.result, Ok(()))) == 0 {}
    }
}
