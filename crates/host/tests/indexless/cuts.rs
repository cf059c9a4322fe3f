//! A cut after every command of either drive, of both and of each alone; what was not flushed is lost, kept, or some of it.
//!
//! After it the cache is opened again, and every sector is what it was at the last flush, or what it was given since. Then
//! all that is dirty is written back, and the disk alone must hold the same: no clean copy differs from it. Then the
//! cache goes on. Each rule is broken in turn, and the sweep must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use wharf_host::Client;
use wharf_host::indexless::planted::Fault;
use wharf_host::indexless::{Mode, Store};
use wharf_runtime::{Rng, Seed};
use wharf_wire::mock::MockStore;

use crate::rig::{
    Cut, Ended, Held, Model, Op, Pages, Session, Shape, Stops, play, random_ops, read, run,
};

/// Sectors that are used.
const SECTORS: u64 = 160;

/// What becomes of unflushed changes of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    All,
    None,
    Some,
}

const LOSSES: [(Loss, Loss); 5] = [
    (Loss::All, Loss::All),
    (Loss::Some, Loss::Some),
    (Loss::None, Loss::All),
    (Loss::All, Loss::None),
    (Loss::Some, Loss::None),
];

fn lost(store: &MockStore, loss: Loss, rng: &mut Rng) -> Pages {
    store.after_loss(|| match loss {
        Loss::All => false,
        Loss::None => true,
        Loss::Some => rng.chance(1, 2),
    })
}

type Shared<T> = Arc<Mutex<T>>;

/// A cache that was used and closed, and what it holds.
struct Base {
    shape: Shape,
    held: Held,
    model: Model,
    ops: Vec<Op>,
    seed: u64,
}

/// The length of a workload.
const OPS: u64 = 45;

fn random_base(shape: &Shape, seed: u64) -> Base {
    let mut rng = Seed(seed).child("cuts").rng();
    let mut before = random_ops(&mut rng, SECTORS, 60);
    before.push(Op::Flush);
    let mut ops = random_ops(&mut rng, SECTORS, OPS);
    ops.push(Op::Flush);
    ops.push(Op::Write(3, 7));
    base(shape, seed, before, ops)
}

fn base(shape: &Shape, seed: u64, before: Vec<Op>, ops: Vec<Op>) -> Base {
    let mut shape = shape.clone();
    // Of chunks and units; of plain pages there are none.
    shape.own.fill_neighbours_bytes = 64 << 10;
    let model = Arc::new(Mutex::new(Model::new(SECTORS)));
    let of_run = model.clone();
    let ended = run(
        Session::create(&shape),
        &Held::default(),
        move |cpu, client, cache| async move {
            client.opened().await.unwrap();
            play(&cpu, (&client, &cache), &of_run, &before)
                .await
                .unwrap();
            client.close().await.unwrap();
        },
    );
    let model = model.lock().unwrap().clone();
    Base {
        held: ended.held(),
        shape,
        model,
        ops,
        seed,
    }
}

/// Plays the workload on a cache that was closed.
fn played(base: &Base, fault: Fault, cut: Option<Cut>) -> (Ended<Result<(), String>>, Model) {
    let model: Shared<Model> = Arc::new(Mutex::new(base.model.clone()));
    let session = Session {
        fault,
        cut,
        seed: base.seed,
        ..Session::open(&base.shape)
    };
    let (of_run, ops) = (model.clone(), base.ops.clone());
    let ended = run(session, &base.held, move |cpu, client, cache| async move {
        let opened = client.opened().await;
        assert!(cut.is_some() || opened.is_ok(), "{opened:?}");
        play(&cpu, (&client, &cache), &of_run, &ops).await
    });
    let model = model.lock().unwrap().clone();
    (ended, model)
}

/// Opens a cache after a cut, and looks at everything.
fn check(base: &Base, fault: Fault, held: &Held, model: Model) -> Result<(), String> {
    let session = Session {
        fault,
        ..Session::open(&base.shape)
    };
    let seed = base.seed;
    let checked = run(session, held, move |cpu, client, cache| async move {
        let told = |error: &dyn std::fmt::Display| format!("after the cut: {error}");
        client.opened().await.map_err(|error| told(&error))?;
        let found = read(&client, 0, SECTORS)
            .await
            .map_err(|error| told(&error))?;
        let model = Arc::new(Mutex::new(model));
        model.lock().unwrap().settle(&found)?;
        client.drain().await.map_err(|error| told(&error))?;
        cache.set_mode(Mode::Bypass);
        let on_disk = read(&client, 0, SECTORS)
            .await
            .map_err(|error| told(&error))?;
        if let Some(at) = (0..SECTORS as usize).find(|at| found[*at] != on_disk[*at]) {
            let (cached, disk) = (found[at], on_disk[at]);
            return Err(format!(
                "sector {at} is {cached} in the cache, and {disk} on the disk"
            ));
        }
        cache.set_mode(Mode::WriteBack);
        let mut rng = Seed(seed).child("again").rng();
        let ops = random_ops(&mut rng, SECTORS, 12);
        play(&cpu, (&client, &cache), &model, &ops).await?;
        client.flush().await.map_err(|error| told(&error))?;
        let found = read(&client, 0, SECTORS)
            .await
            .map_err(|error| told(&error))?;
        model.lock().unwrap().check(0, &found)
    });
    checked.value
}

fn check_cut(base: &Base, fault: Fault, cut: Cut, losses: &[(Loss, Loss)]) -> Result<(), String> {
    let (ended, model) = played(base, fault, Some(cut));
    ended.value.clone()?;
    for (number, loss) in (0..).zip(losses) {
        let mut rng = Seed(base.seed)
            .child("loss")
            .index(cut.after * 8 + number)
            .rng();
        let held = Held {
            cache: lost(&ended.cache, loss.0, &mut rng),
            disk: lost(&ended.disk, loss.1, &mut rng),
        };
        let told = |wrong| format!("{loss:?}: {wrong}");
        check(base, fault, &held, model.clone()).map_err(told)?;
    }
    Ok(())
}

/// Sweeps every `step`th cut of a workload; gives what was found wrong first, or how many commands there are.
fn sweep(base: &Base, fault: Fault, step: u64) -> Result<u64, String> {
    let caught = |f: &mut dyn FnMut() -> Result<(), String>| {
        let caught = catch_unwind(AssertUnwindSafe(f));
        caught.unwrap_or_else(|_| Err("it panicked".into()))
    };
    let (store, seed) = (base.shape.own.store, base.seed);
    let (ended, model) = played(base, fault, None);
    let wrong = |wrong| format!("{store:?}, seed {seed}, no cut: {wrong}");
    ended.value.clone().map_err(wrong)?;
    caught(&mut || check(base, fault, &ended.held(), model.clone())).map_err(wrong)?;
    for after in (0..ended.commands).step_by(step as usize) {
        for stops in [Stops::Both, Stops::Cache, Stops::Disk] {
            let cut = Cut { after, stops };
            // One alone: of the other one nothing is lost, or it is cut later.
            let losses = match stops {
                Stops::Both => &LOSSES[..],
                Stops::Cache => &LOSSES[3..],
                Stops::Disk => &LOSSES[2..3],
            };
            caught(&mut || check_cut(base, fault, cut, losses)).map_err(|wrong| {
                let commands = ended.commands;
                format!("{store:?}, seed {seed}, {cut:?} of {commands}: {wrong}")
            })?;
        }
    }
    Ok(ended.commands)
}

/// How much is swept: `WHARF_CASES` seeds.
fn seeds() -> u64 {
    let told = std::env::var("WHARF_CASES").ok();
    told.and_then(|cases| cases.parse().ok()).unwrap_or(0)
}

fn sweep_all(shape: &Shape) {
    let store = shape.own.store;
    let (seeds, step) = match seeds() {
        0 => (1, 3),
        seeds => (seeds, 1),
    };
    for seed in 0..seeds {
        let commands = sweep(&random_base(shape, seed), Fault::Nothing, step);
        let commands = commands.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{store:?}, seed {seed}: {commands} commands");
        assert!(commands > 100, "{commands}");
    }
}

#[test]
fn a_cut_after_every_command_leaves_old_or_new_over_plain_pages() {
    sweep_all(&Shape::of(Store::Plain));
}

#[test]
fn a_cut_after_every_command_leaves_old_or_new_over_units() {
    sweep_all(&Shape::of(Store::Fixed));
}

#[test]
fn a_cut_after_every_command_leaves_old_or_new_over_chunks() {
    sweep_all(&Shape::of(Store::Chunks));
}

/// The rules are the same where an index says what is cached: it learns that from the drive, as the bitmap does.
#[test]
fn a_cut_after_every_command_leaves_old_or_new_behind_an_index() {
    sweep_all(&Shape {
        is_indexed: true,
        ..Shape::of(Store::Chunks)
    });
}

/// A short workload in which a rule matters.
fn scene(fault: Fault) -> Vec<Op> {
    // More than the cache holds.
    let others = || (0..10).map(|n| Op::Write(64 + 8 * n, 6));
    // The second write is beyond what is admitted.
    let sequence = [Op::Write(0, 8), Op::Write(8, 8)];
    let read = [Op::Read(0, 4), Op::Rest, Op::Flush];
    let mut ops = vec![Op::Write(0, 6), Op::Write(8, 6), Op::Flush];
    ops.extend([
        Op::Mode(Mode::WriteThrough),
        Op::Read(90, 1),
        Op::Rest,
        Op::Rest,
    ]);
    ops.extend([Op::Mode(Mode::WriteBack), Op::Flush]);
    match fault {
        Fault::Nothing | Fault::CleanWins => ops.extend(read.into_iter().chain([Op::Write(0, 4)])),
        Fault::KeepsClean | Fault::NoFlushOfClean => {
            ops.extend(read);
            ops.extend([Op::Write(0, 4), Op::Flush, Op::Mode(Mode::WriteThrough)]);
            ops.extend([Op::Read(90, 1), Op::Rest, Op::Rest, Op::Rest]);
        }
        Fault::FillUnlocked => {
            let races = (0..8).flat_map(|n| [Op::Read(n, 1), Op::Write(n, 1), Op::Read(n, 1)]);
            ops.extend(races.chain([Op::Rest, Op::Read(0, 8)]));
        }
        // This one is found out elsewhere (`neighbours.rs`).
        Fault::NeighboursOvertake => {}
        Fault::FillUnsettled => {
            ops.extend(sequence);
            ops.extend([Op::Read(10, 3), Op::Rest, Op::Rest]);
        }
        Fault::NoFlushOfDisk => {
            ops.extend(others());
            ops.extend([Op::Flush, Op::Rest, Op::Rest, Op::Flush]);
        }
        Fault::AroundClean => {
            ops.extend([Op::Read(9, 4), Op::Rest, Op::Flush]);
            ops.extend(sequence);
            ops.push(Op::Rest);
        }
        Fault::AroundDirty => ops.extend([
            Op::Write(20, 3),
            Op::Flush,
            Op::Mode(Mode::WriteThrough),
            Op::Write(20, 3),
            Op::Rest,
        ]),
    }
    ops.push(Op::Flush);
    ops
}

/// What is found wrong of a broken rule: nothing where none is broken.
fn broken(fault: Fault) {
    let swept = |planted| {
        let base = base(&Shape::of(Store::Plain), 5, Vec::new(), scene(fault));
        let found = sweep(&base, planted, 1);
        found.map_err(|found| found.chars().take(170).collect::<String>())
    };
    let sound = swept(Fault::Nothing);
    assert!(sound.is_ok(), "{sound:?}");
    let found = swept(fault);
    println!("{fault:?}: {found:?}");
    assert!(found.is_err(), "{fault:?} was not found out");
}

macro_rules! broken_rules {
    ($($name:ident: $fault:ident;)*) => {
        $(
            #[test]
            fn $name() {
                broken(Fault::$fault);
            }
        )*
    };
}

broken_rules! {
    clean_copies_that_win_are_found_out: CleanWins;
    clean_copies_that_are_kept_below_dirty_ones_are_found_out: KeepsClean;
    clean_copies_that_go_without_a_flush_are_found_out: NoFlushOfClean;
    a_fill_without_a_lock_is_found_out: FillUnlocked;
    a_fill_of_what_the_disk_may_lose_is_found_out: FillUnsettled;
    dirty_copies_that_go_before_the_disk_is_flushed_are_found_out: NoFlushOfDisk;
    a_write_around_clean_copies_that_may_come_back_is_found_out: AroundClean;
    a_write_around_that_gives_up_dirty_copies_first_is_found_out: AroundDirty;
}
