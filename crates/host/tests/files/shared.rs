//! What several tasks share: a file that all append to, a file that is cut while others read and write it, and the
//! storage of files that go.

use std::rc::Rc;

use wharf_host::files::{FileClient, FilesOnBlocks, OpenFlags};
use wharf_host::scale::{Scale, Whole};
use wharf_host::{Client, Clock, Design, Direct, Extent};
use wharf_runtime::{Cpu, Seed};

use crate::common::Shape;
use crate::run;

fn three_clients() -> Shape {
    Shape {
        clients: 3,
        depth: 16,
        drive_pages: 2_000,
        ..Shape::default()
    }
}

/// Two appends that came at the same time would be at the same place, if the end was looked at before it was gone to.
async fn append<C: Client>(cpu: Cpu, files: Rc<FilesOnBlocks<C>>, number: u32) {
    const RECORDS: u64 = 20;
    let bytes = 200 + u64::from(number) * 100;
    let handle = files
        .open(b"/log", OpenFlags::CREATE, 0o644)
        .await
        .unwrap()
        .handle;
    let mut ends = Vec::new();
    for record in 0..RECORDS {
        cpu.yield_now().await;
        let data = vec![number as u8 * 20 + record as u8 + 1; bytes as usize];
        let appended = files.append(handle, bytes, &data).await.unwrap();
        ends.push((appended.offset, data));
    }
    for (offset, data) in ends {
        let mut out = vec![0; bytes as usize];
        let extent = Extent::new(offset, bytes);
        assert_eq!(
            files.read_at(handle, extent, &mut out).await.unwrap().bytes,
            bytes
        );
        assert!(out == data, "the record at {offset} of task {number}");
    }
    let size = files.attributes(handle).await.unwrap().bytes;
    assert!(size <= (0..6u64).map(|task| RECORDS * (200 + task * 100)).sum());
    files.close(handle).await.unwrap();
}

#[test]
fn no_append_is_lost_or_written_over() {
    for seed in 0..20 {
        run::<Direct, _>(seed, three_clients(), (10, 2), append);
        run::<Clock, _>(seed, three_clients(), (10, 2), append);
        run::<Scale<Whole>, _>(seed, three_clients(), (10, 2), append);
    }
}

/// Tasks write pages of their own colour to files that are made and removed all the time: whoever reads finds one
/// of the colours of that file, or zeros.
fn no_byte_is_another_files<D: Design>(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let shape = three_clients();
        run::<D, _>(seed, shape, (12, 2), move |cpu, files, number| async move {
            let mut rng = Seed(seed).child("task").index(number.into()).rng();
            for _ in 0..120 {
                cpu.yield_now().await;
                let file = rng.below(4);
                let path = format!("/f{file}");
                let colour = (1 + file) as u8;
                let Ok(opened) = files.open(path.as_bytes(), OpenFlags::CREATE, 0o644).await else {
                    continue;
                };
                let handle = opened.handle;
                let bytes = 1 + rng.below(9_000);
                let extent = Extent::new(rng.below(40_000), bytes);
                match rng.below(8) {
                    0..3 => {
                        let data = vec![colour; bytes as usize];
                        files.write_at(handle, extent, &data).await.unwrap();
                    }
                    3 => files.set_len(handle, extent.offset).await.unwrap(),
                    4 => files.punch(handle, extent).await.unwrap(),
                    5 => drop(files.remove(path.as_bytes()).await),
                    _ => {
                        let mut out = vec![0xff; bytes as usize];
                        let read = files.read_at(handle, extent, &mut out).await.unwrap();
                        let out = &out[..read.bytes as usize];
                        let wrong = out.iter().find(|byte| **byte != 0 && **byte != colour);
                        assert_eq!(wrong, None, "seed {seed}, {path}, {extent:?}");
                    }
                }
                files.close(handle).await.unwrap();
            }
        });
    }
}

#[test]
fn no_byte_over_direct_is_another_files() {
    no_byte_is_another_files::<Direct>(0..40);
}

#[test]
fn no_byte_over_clock_is_another_files() {
    no_byte_is_another_files::<Clock>(0..40);
}

#[test]
fn no_byte_over_scale_is_another_files() {
    no_byte_is_another_files::<Scale<Whole>>(0..40);
}

/// With stamps a payload has 8 bytes for each page, and files end with a page.
#[test]
fn files_of_stamps_hold_what_was_written() {
    let shape = Shape {
        page_bytes: 8,
        ..three_clients()
    };
    run::<Clock, _>(5, shape, (12, 1), |_, files, number| async move {
        let path = format!("/f{number}");
        let handle = files
            .open(path.as_bytes(), OpenFlags::CREATE, 0o644)
            .await
            .unwrap()
            .handle;
        let stamps = |from: u8| [[from; 8], [from + 1; 8], [from + 2; 8]].concat();
        let three = Extent::of_pages(0, 3);
        files.append(handle, 3 * 4096, &stamps(10)).await.unwrap();
        let appended = files.append(handle, 3 * 4096, &stamps(20)).await.unwrap();
        assert_eq!(appended.offset, 3 * 4096);
        files
            .write_at(handle, Extent::of_pages(8, 3), &stamps(30))
            .await
            .unwrap();
        files.set_len(handle, 4 * 4096).await.unwrap();
        files.set_len(handle, 6 * 4096).await.unwrap();
        let mut out = [1; 24];
        files.read_at(handle, three, &mut out).await.unwrap();
        assert_eq!(out, *stamps(10));
        let read = files
            .read_at(handle, Extent::of_pages(3, 4), &mut [1; 32])
            .await
            .unwrap();
        assert_eq!(read.bytes, 3 * 4096);
        let mut out = [1; 24];
        files
            .read_at(handle, Extent::of_pages(3, 3), &mut out)
            .await
            .unwrap();
        assert_eq!(out, *[[20; 8], [0; 8], [0; 8]].concat());
        // What does not end with a page has no place in stamps.
        assert!(files.append(handle, 100, &[9; 8]).await.is_ok());
        assert!(files.append(handle, 4096, &[9; 8]).await.is_err());
    });
}
