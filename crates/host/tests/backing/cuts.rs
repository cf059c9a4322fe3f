use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use wharf_host::backing::{Backing, BackingError, ChunkConfig, DiskZones, rebuild};
use wharf_runtime::Seed;

use crate::support::{
    Device, Loss, Model, Op, Power, Shape, contents_of, created, open, play, random_ops, run,
};

fn shape() -> Shape {
    Shape {
        zones: 6,
        pages: 40,
        config: ChunkConfig {
            chunk_pages_max: 4,
            mapping_groups: 2,
        },
        ..Shape::default()
    }
}

/// Which devices lose power, and what of their unflushed writes.
#[derive(Debug, Clone, Copy)]
struct Cut {
    disk: Loss,
    metadata: Loss,
}

const CUTS: [Cut; 6] = [
    Cut {
        disk: Loss::All,
        metadata: Loss::All,
    },
    Cut {
        disk: Loss::None,
        metadata: Loss::None,
    },
    // One alone: the other has time to finish.
    Cut {
        disk: Loss::All,
        metadata: Loss::None,
    },
    Cut {
        disk: Loss::None,
        metadata: Loss::All,
    },
    Cut {
        disk: Loss::Some,
        metadata: Loss::Some,
    },
    Cut {
        disk: Loss::Some,
        metadata: Loss::None,
    },
];

/// What is wrong with the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    DiskDoesNotFlush,
    MetadataDoesNotFlush,
}

/// The workload: enough writes that zones are collected in it.
fn workload(seed: u64) -> (Vec<Op>, Vec<Op>) {
    let mut rng = Seed(seed).child("cuts").rng();
    let before = random_ops(&mut rng, shape().pages, 120);
    let mut ops = random_ops(&mut rng, shape().pages, 200);
    ops.push(Op::Flush);
    ops.push(Op::Write(0, 9));
    (before, ops)
}

/// Plays a workload until the cut, which comes after `cut_at` events of its second part; gives the number of events
/// if there was none.
fn played(
    seed: u64,
    cut_at: Option<u64>,
    fault: Fault,
) -> (Device, Device, Arc<Mutex<Model>>, u64) {
    let (shape, power) = (shape(), Power::on());
    let (disk, metadata) = created(shape, &power);
    let model = Arc::new(Mutex::new(Model::new(shape.pages)));
    let (before, ops) = workload(seed);
    let (d, m, held, switch) = (disk.clone(), metadata.clone(), model.clone(), power.clone());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &d, &m).await.unwrap();
        play(&store, &shape, &held, &before).await.unwrap();
        play(&store, &shape, &held, &[Op::Flush]).await.unwrap();
        match fault {
            Fault::None => {}
            Fault::DiskDoesNotFlush => d.lie(),
            Fault::MetadataDoesNotFlush => m.lie(),
        }
        {
            let mut power = switch.lock().unwrap();
            power.events = 0;
            power.cut_at = cut_at.unwrap_or(u64::MAX);
        }
        let done = play(&store, &shape, &held, &ops).await;
        assert!(cut_at.is_some() || done.is_ok(), "{done:?}");
    });
    let events = power.lock().unwrap().events;
    (disk, metadata, model, events)
}

/// After the cut, the store opens and holds what it may; the mapping made anew from the disk holds what it may
/// too; and the store goes on.
fn check(seed: u64, cut_at: u64, cut: Cut, fault: Fault) -> Result<(), String> {
    let (disk, metadata, model, _) = played(seed, Some(cut_at), fault);
    let mut rng = Seed(seed).child("loss").index(cut_at).rng();
    disk.settle(cut.disk, &mut rng);
    metadata.settle(cut.metadata, &mut rng);
    let (shape, power) = (shape(), Power::on());
    let (lost, alone) = (Device::new(2, &power), disk.copy(&power));
    let rebuilt_model = model.clone();
    run(move |cpu| async move {
        let zones = DiskZones::new(alone.clone(), shape.zone_sectors);
        let told = |error: BackingError| format!("rebuilding: {error}");
        rebuild(&zones, &lost, [3; 16]).await.map_err(told)?;
        let store = open(&cpu, shape, &alone, &lost).await.map_err(told)?;
        let found = contents_of(&store, &shape, 0, shape.pages)
            .await
            .map_err(told)?;
        let mut model = rebuilt_model.lock().unwrap().clone();
        model
            .settle(&found)
            .map_err(|wrong| format!("rebuilt: {wrong}"))
    })?;
    let (disk, metadata) = (disk.copy(&power), metadata.copy(&power));
    run(move |cpu| async move {
        let told = |error: BackingError| format!("after the cut: {error}");
        let store = open(&cpu, shape, &disk, &metadata).await.map_err(told)?;
        let found = contents_of(&store, &shape, 0, shape.pages)
            .await
            .map_err(told)?;
        model.lock().unwrap().settle(&found)?;
        store.verify().await.map_err(told)?;
        let mut rng = Seed(seed).child("again").rng();
        let ops = random_ops(&mut rng, shape.pages, 60);
        play(&store, &shape, &model, &ops).await.map_err(told)?;
        store.flush().await.map_err(told)?;
        store.verify().await.map_err(told)
    })
}

/// Sweeps all cuts of a seed; gives what was found wrong first.
fn sweep(seed: u64, fault: Fault, step: u64) -> Result<u64, String> {
    let (_, _, _, events) = played(seed, None, fault);
    for cut_at in (0..events).step_by(step as usize) {
        for cut in CUTS {
            let checked = catch_unwind(AssertUnwindSafe(|| check(seed, cut_at, cut, fault)));
            let checked = checked.unwrap_or_else(|_| Err("it panicked".into()));
            checked.map_err(|wrong| {
                format!("seed {seed}, cut {cut_at} of {events}, {cut:?}: {wrong}")
            })?;
        }
    }
    Ok(events)
}

#[test]
fn a_cut_after_every_write_and_flush_leaves_old_or_new() {
    let mut events = 0;
    for seed in 0..2 {
        println!("seed {seed}");
        events += sweep(seed, Fault::None, 1).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("{events} events, {} cuts each", CUTS.len());
    assert!(events > 100, "{events}");
}

/// The order of writes stands on both flushes: without one of them some cut loses data.
#[test]
fn a_device_that_does_not_flush_is_found_out() {
    for fault in [Fault::DiskDoesNotFlush, Fault::MetadataDoesNotFlush] {
        let found = (0..4).find_map(|seed| sweep(seed, fault, 3).err());
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} was not found out");
    }
}
