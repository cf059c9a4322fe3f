//! Files over block designs: names, sizes and bytes against a plain model, in random runs of several clients.
//!
//! Each task is an *owner* with a directory of its own, and a model of all in it. What several tasks share is tested by its own
//! rules: no append is lost, no byte is another file's.

#[path = "../common/mod.rs"]
mod common;
mod model;
mod names;
mod owner;
mod shared;

use std::rc::Rc;
use std::sync::Arc;

use common::{Rig, Shape, healthy};
use owner::Owner;
use wharf_host::files::{BlockOnFile, FileClient, FileTable, FilesOnBlocks, OpenFlags};
use wharf_host::scale::{Scale, Whole};
use wharf_host::{Client, Clock, Design, DesignConfig, Direct, Extent, Kernel};
use wharf_runtime::{Cpu, Seed};

/// Runs `task` several times on each client's CPU, each with the client's files and its own number.
fn run<D: Design, F>(
    seed: u64,
    shape: Shape,
    (regions, tasks): (u32, u32),
    task: impl Fn(Cpu, Rc<FilesOnBlocks<D::Client>>, u32) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let config = DesignConfig {
        cache_bytes: 64 * 4096,
        files: 4,
        ..DesignConfig::default()
    };
    let services = D::needs(&config, &D::Config::default()).services;
    let mut rng = Seed(seed).child("drives").rng();
    let mut rig = Rig::with_services(shape, services, |_| healthy(Seed(rng.next_u64()).rng()));
    let design = rig.design::<D>(config);
    rig.spawn_services(&design);
    let table = Arc::new(FileTable::new(regions, shape.drive_pages, shape.clients));
    for index in 0..shape.clients {
        let (table, task) = (table.clone(), task.clone());
        rig.spawn_client(index, &design, move |cpu, client| {
            let Ok(client) = Rc::try_unwrap(client) else {
                panic!("nobody else has the client");
            };
            let files = FilesOnBlocks::new(&table, &cpu, client, index, shape.page_bytes);
            let files = Rc::new(files);
            for number in 0..tasks {
                let number = index * tasks + number;
                cpu.spawn_main("task", task(cpu.clone(), files.clone(), number));
            }
            std::future::ready(())
        });
    }
    rig.machine.run_virtual(Seed(seed)).expect("it ends");
}

fn owners_keep_all<D: Design>(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let shape = Shape {
            clients: 1 + (seed % 3) as u32,
            drive_pages: 4_000,
            depth: 16,
            ..Shape::default()
        };
        run::<D, _>(seed, shape, (80, 2), move |cpu, files, number| async move {
            let mut owner = Owner::new(seed, number);
            owner.begin(&*files).await;
            for _ in 0..250 {
                cpu.yield_now().await;
                owner.step(&*files).await;
            }
            owner.finish(&*files).await;
        });
    }
}

#[test]
fn files_over_direct_are_what_the_model_says() {
    owners_keep_all::<Direct>(0..60);
}

#[test]
fn files_over_clock_are_what_the_model_says() {
    owners_keep_all::<Clock>(0..60);
}

#[test]
fn files_over_kernel_are_what_the_model_says() {
    owners_keep_all::<Kernel>(0..40);
}

#[test]
fn files_over_scale_are_what_the_model_says() {
    owners_keep_all::<Scale<Whole>>(0..60);
}

/// A volume in one file of a volume holds what was written.
#[test]
fn blocks_on_a_file_keep_every_byte() {
    const PAGES: u64 = 64;
    for seed in 0..30 {
        let shape = Shape {
            drive_pages: 100,
            ..Shape::default()
        };
        run::<Clock, _>(seed, shape, (1, 1), move |_, files, _| async move {
            let Ok(files) = Rc::try_unwrap(files) else {
                panic!("there is one task");
            };
            let handle = files
                .open(b"/disk", OpenFlags::CREATE, 0o600)
                .await
                .unwrap()
                .handle;
            let blocks = BlockOnFile::new(files, handle, PAGES * 4096).await.unwrap();
            let mut rng = Seed(seed).child("blocks").rng();
            let mut model = vec![0u8; (PAGES * 4096) as usize];
            for _ in 0..300 {
                let longest = [600, 4096, 20_000][rng.below(3) as usize];
                let bytes = 1 + rng.below(longest);
                let offset = rng.below(PAGES * 4096 - bytes);
                let extent = Extent::new(offset, bytes);
                let range = offset as usize..(offset + bytes) as usize;
                match rng.below(10) {
                    0..5 => {
                        model[range.clone()].fill_with(|| rng.next_u32() as u8);
                        blocks.write(extent, &model[range]).await.unwrap();
                    }
                    5..8 => {
                        let mut out = vec![1; bytes as usize];
                        blocks.read(extent, &mut out).await.unwrap();
                        assert!(out == model[range], "seed {seed}");
                    }
                    8 => blocks.flush_extent(extent).await.unwrap(),
                    _ => {
                        let whole = extent.whole_pages();
                        blocks.discard(extent).await.unwrap();
                        for page in whole.first_page()..whole.first_page() + whole.pages() {
                            // A hole of this file system: zeros.
                            model[page as usize * 4096..][..4096].fill(0);
                        }
                    }
                }
            }
            assert!(
                blocks
                    .read(Extent::new(PAGES * 4096, 1), &mut [0])
                    .await
                    .is_err()
            );
            blocks.flush().await.unwrap();
            assert!(blocks.statistics().reads > 0);
        });
    }
}
