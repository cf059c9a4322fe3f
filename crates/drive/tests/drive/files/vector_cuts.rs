//! The power goes amid a vector: what its steps made durable is there, in their order.

use std::cell::Cell;

use wharf_drive::PowerSwitch;
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::file::{OpenMode, STEP_DURABLE, VectorFunction, VectorHead, VectorStep};

use super::asker::{Asker, UPDATE};
use super::support::{Home, Programs, new_rig, run};
use super::turns::script;
use super::vector::{BYTES, buffer, file, read, step, text, write};
use crate::support::rig::Rig;

/// What the steps copy: two pieces and a part of a third.
const BYTES_OF_FILE: usize = 140_001;

/// Cuts of each kind of drive.
const CUTS: u64 = 40;

const READ: OpenMode = OpenMode {
    write: false,
    create: false,
    ..UPDATE
};

thread_local! {
    /// All has been prepared: media changes until then are no matter.
    static BEGUN: Cell<bool> = const { Cell::new(false) };
    /// The vector has been acknowledged.
    static ENDED: Cell<bool> = const { Cell::new(false) };
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Copies a file to three others, one after the other, each durable before the next.
fn play(rig: &mut Rig, power: &PowerSwitch) {
    BEGUN.set(false);
    ENDED.set(false);
    let changes = power.clone();
    let client = script(async move |mut asker: Asker| {
        let from = write(&mut asker, b"/from", &text(BYTES_OF_FILE)).await;
        let mut steps = Vec::new();
        for name in [b"/1", b"/2", b"/3"] {
            let to = asker.file(UPDATE, name).await;
            let copy = step(
                VectorFunction::Copy,
                file(from, 0, BYTES_OF_FILE),
                file(to, 0, BYTES_OF_FILE),
            );
            steps.push(VectorStep {
                flags: STEP_DURABLE,
                ..copy
            });
        }
        let sync = asker.aimed(Command::sync_files(1));
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        CHANGES.set(changes.changes());
        BEGUN.set(true);
        asker.put(0, &buffer(VectorHead::new(3), &steps, &[]));
        let vector = asker.aimed(Command::vector(1, BYTES as u32));
        assert_eq!(asker.send(vector).await.done(), Ok(3));
        ENDED.set(true);
    });
    rig.give_feature(&Programs);
    rig.run_clients(power, vec![client]);
}

/// How much of each copy is there.
fn found(rig: &mut Rig) -> [Vec<u8>; 3] {
    run(rig, async |host| {
        let mut asker = Asker::new(host);
        let mut all = [const { Vec::new() }; 3];
        for (name, bytes) in [b"/1", b"/2", b"/3"].into_iter().zip(&mut all) {
            let handle = asker.file(READ, name).await;
            *bytes = read(&mut asker, handle).await;
        }
        FOUND.set(all);
    });
    FOUND.take()
}

thread_local! {
    static FOUND: Cell<[Vec<u8>; 3]> = const { Cell::new([const { Vec::new() }; 3]) };
}

#[test]
fn a_step_begins_when_what_the_one_before_it_wrote_is_durable() {
    let whole = text(BYTES_OF_FILE);
    for home in Home::ALL {
        let new = || new_rig(home.config(2, 2_000));
        let power = PowerSwitch::cut_after(u64::MAX - 1);
        play(&mut new(), &power);
        let (begun, all) = (CHANGES.get(), power.changes());
        assert!(ENDED.get() && all > begun + 3, "{home:?}: {begun} of {all}");
        let mut rng = Seed(21).child("cuts").rng();
        let mut seen = [0; 4];
        for _ in 0..CUTS {
            let cut = begun + 1 + rng.below(all - begun);
            let mut rig = new();
            play(&mut rig, &PowerSwitch::cut_after(cut));
            assert!(BEGUN.get(), "{home:?}, cut after {cut}");
            let copies = found(&mut rig);
            let is_whole = |copy: &Vec<u8>| *copy == whole;
            let done = copies.iter().take_while(|copy| is_whole(copy)).count();
            seen[done] += 1;
            for copy in copies.iter().skip(done + 1) {
                let said = format!("{home:?}, cut after {cut}: {done} were durable");
                assert!(copy.is_empty(), "{said}, and a later one has bytes");
            }
            assert!(!ENDED.get() || done == 3, "{home:?}, cut after {cut}");
        }
        println!("{home:?}: {seen:?} of the cuts found so many copies");
        assert!(
            seen[..3].iter().all(|count| *count > 0),
            "{home:?}: {seen:?}"
        );
    }
}
