//! Which side is chosen, and where a range is cut.

use super::*;

const STORED: Places = Places {
    here: 0,
    near: 0,
    stored: 1,
};

const HERE: Places = Places {
    here: 1,
    near: 0,
    stored: 0,
};

/// Runs decisions over two sides that take these times; gives how many went to the drive.
fn run(
    model: &mut Model,
    compute: Compute,
    (places, count): (Places, u64),
    host: HostRan,
    drive: DriveRan,
) -> u64 {
    let before = model.decisions().drive;
    for _ in 0..count {
        match model.choose(compute, places) {
            Side::Host => model.host_ran(places, host),
            Side::Drive => model.drive_ran(places, drive),
        }
    }
    model.decisions().drive - before
}

fn host(read_ns: u64) -> HostRan {
    HostRan {
        read_ns,
        computed_ns: 100,
        written_ns: 50,
    }
}

fn drive(moved_ns: u64, around_ns: u64) -> DriveRan {
    DriveRan {
        moved_ns,
        computed_ns: 300,
        all_ns: moved_ns + 300 + around_ns,
        ..DriveRan::default()
    }
}

#[test]
fn the_faster_side_is_found_and_found_anew_when_that_changes() {
    let mut model = Model::default();
    let slow = (STORED, 640);
    let on_drive = run(
        &mut model,
        Compute::Dynamic,
        slow,
        host(9_000),
        drive(2_000, 1_000),
    );
    assert!(on_drive > 600, "{on_drive} of 640");
    // The drive is busy now.
    let on_drive = run(
        &mut model,
        Compute::Dynamic,
        slow,
        host(9_000),
        drive(2_000, 20_000),
    );
    assert!(on_drive < 40, "{on_drive} of 640");
    // And is not any more: one of 64 finds that out.
    let on_drive = run(
        &mut model,
        Compute::Dynamic,
        (STORED, 6_400),
        host(9_000),
        drive(2_000, 1_000),
    );
    assert!(on_drive > 5_000, "{on_drive} of 6400");
}

/// The drive has much to do, and the drive's side is a tenth faster; but the host's has the drive do half as much.
#[test]
fn who_holds_others_up_for_less_is_chosen() {
    for (compute, is_on_drive) in [(Compute::Exec, true), (Compute::Dynamic, false)] {
        let mut model = Model::default();
        let alone = (STORED, 200);
        run(&mut model, compute, alone, host(4_000), drive(4_000, 2_000));
        let busy = (STORED, 2_000);
        let on_drive = run(
            &mut model,
            compute,
            busy,
            host(40_000),
            drive(34_000, 2_000),
        );
        assert_eq!(on_drive > 1_000, is_on_drive, "{compute:?}: {on_drive}");
    }
}

#[test]
fn where_the_pages_are_decides() {
    let mut model = Model::default();
    for _ in 0..200 {
        run(
            &mut model,
            Compute::Dynamic,
            (STORED, 4),
            host(9_000),
            drive(2_000, 1_000),
        );
        let dropped = DriveRan {
            dropped_ns: 5_000,
            ..drive(2_000, 1_000)
        };
        run(&mut model, Compute::Dynamic, (HERE, 4), host(100), dropped);
    }
    let mut on_drive = |places| {
        run(
            &mut model,
            Compute::Dynamic,
            (places, 50),
            host(100),
            drive(2_000, 1_000),
        )
    };
    assert!(on_drive(HERE) <= 2);
}

#[test]
fn terms_that_are_left_out_do_not_count() {
    // It moves as fast as the host, but computes and waits for longer.
    for (compute, is_on_drive) in [
        (Compute::Data, true),
        (Compute::Exec, false),
        (Compute::Dynamic, false),
    ] {
        let mut model = Model::default();
        let computing = DriveRan {
            computed_ns: 5_000,
            all_ns: 6_900,
            ..drive(1_900, 0)
        };
        let all = 1_000;
        let on_drive = run(&mut model, compute, (STORED, all), host(2_000), computing);
        assert_eq!(on_drive > all / 2, is_on_drive, "{compute:?}: {on_drive}");
    }
    // It moves and computes as fast, and is behind others.
    for (compute, is_on_drive) in [(Compute::Exec, true), (Compute::Dynamic, false)] {
        let mut model = Model::default();
        let waiting = drive(1_000, 5_000);
        let on_drive = run(&mut model, compute, (STORED, 1_000), host(2_000), waiting);
        assert_eq!(on_drive > 500, is_on_drive, "{compute:?}: {on_drive}");
    }
}

#[test]
fn a_range_is_cut_where_both_sides_end_at_the_same_time() {
    let pages = [Place::Stored; 60];
    for (host_ns, drive_ns, expected) in [
        (1_000, 1_000, 28..=31),
        (3_000, 1_000, 43..=46),
        (1_000, 3_000, 13..=16),
        (1_000, 200_000, 0..=0),
    ] {
        let mut model = Model::default();
        let mut last = 0..0;
        for _ in 0..100 {
            last = model.split(Compute::Dynamic, &pages, 1);
            let (on_drive, on_host) = (last.len() as u64, 60 - last.len() as u64);
            let stored = |stored| Places {
                stored,
                ..Places::default()
            };
            if on_host > 0 {
                let read_ns = host_ns * on_host;
                let ran = HostRan {
                    read_ns,
                    ..HostRan::default()
                };
                model.host_ran(stored(on_host), ran);
            }
            if on_drive > 0 {
                let moved_ns = drive_ns * on_drive;
                let ran = DriveRan {
                    moved_ns,
                    all_ns: moved_ns + 2_000,
                    ..DriveRan::default()
                };
                model.drive_ran(stored(on_drive), ran);
            }
        }
        assert!(
            expected.contains(&last.len()),
            "{host_ns} {drive_ns}: {last:?}"
        );
    }
}

#[test]
fn the_end_that_the_host_has_is_the_hosts() {
    let mut model = Model::default();
    for _ in 0..KNOWN {
        model.host_ran(HERE, host(100));
        model.host_ran(STORED, host(1_000));
        model.drive_ran(STORED, drive(1_000, 100));
    }
    model.decisions = Decisions {
        host: KNOWN,
        drive: KNOWN + 1,
    };
    for is_first in [true, false] {
        let mut pages = [Place::Stored; 16];
        let own = if is_first { 0..8 } else { 8..16 };
        pages[own.clone()].fill(Place::Here);
        let drives = model.split(Compute::Dynamic, &pages, 1);
        assert!((4..=8).contains(&drives.len()), "{drives:?}");
        assert!(
            drives.end <= own.start || drives.start >= own.end,
            "{drives:?}"
        );
    }
    // Only after each four of them.
    let drives = model.split(Compute::Dynamic, &[Place::Stored; 10], 4);
    assert!([4, 8].contains(&drives.len()) || drives.len() == 6 || drives.len() == 2);
    assert_eq!(
        (drives.start == 0) as usize + (drives.end == 10) as usize,
        1
    );
}

#[test]
fn forced_sides_and_presence_need_no_model() {
    let mut model = Model::default();
    assert_eq!(model.choose(Compute::Host, STORED), Side::Host);
    assert_eq!(model.choose(Compute::Drive, HERE), Side::Drive);
    assert_eq!(model.choose(Compute::Presence, HERE), Side::Host);
    assert_eq!(model.choose(Compute::Presence, STORED), Side::Drive);
    assert_eq!(model.decisions(), Decisions { host: 2, drive: 2 });
}

/// What a decision takes, with what becomes of it: printed, as a time is nothing to be tested.
#[test]
fn many_decisions() {
    const COUNT: u64 = 1_000_000;
    let host = HostRan {
        read_ns: 900,
        computed_ns: 150,
        written_ns: 300,
    };
    let drive = DriveRan {
        all_ns: 1_500,
        moved_ns: 700,
        computed_ns: 160,
        waited_ns: 200,
        ..DriveRan::default()
    };
    let mut model = Model::default();
    let clock = wharf_runtime::clock::Clock::start();
    let near = Places {
        here: 0,
        near: 1,
        stored: 0,
    };
    let of_drive = run(&mut model, Compute::Dynamic, (near, COUNT), host, drive);
    let took_ns = clock.now_ns() as f64 / COUNT as f64;
    println!("{took_ns:.0} ns for a decision and its outcome, {of_drive} of {COUNT} the drive's");
    let Decisions { host, drive } = model.decisions();
    assert_eq!(host + drive, COUNT);
    assert!(
        host >= COUNT / EXPLORES / 2 && drive >= COUNT / EXPLORES / 2,
        "both are tried"
    );
}
