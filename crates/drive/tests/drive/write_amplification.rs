//! Write amplification in steady state, as a table under review, beside what theory says of it.
//!
//! A drive of 64 MiB in stamps is filled, overwritten at random until the amplification settles, and
//! measured. For uniform writes the yardstick is cleaning in order of age, for which Desnoyers
//! ("Analytic modeling of SSD write performance", SYSTOR 2012) gives `A = a / (a + W(-a e^-a))`, with
//! `a` the ratio of flash in rotation to logical pages and `W` Lambert's function: greedy cleaning
//! is never worse, and not much better.

use wharf_drive::config::{DriveConfig, GcPolicy};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny;
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

/// Commands in flight.
const DEPTH: usize = 16;

/// How far a measured value may lie from the table.
const TOLERANCE: f64 = 0.03;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    /// Every page alike.
    Uniform,
    /// Nine of ten writes go to a tenth of the pages.
    HotCold,
}

use GcPolicy::{CostBenefit, Greedy};
use Pattern::{HotCold, Uniform};

/// Policy, pattern, over-provisioning, pages programmed for each page written.
const TABLE: &[(GcPolicy, Pattern, f64, f64)] = &[
    (Greedy, Uniform, 0.07, 8.63),
    (Greedy, Uniform, 0.12, 4.67),
    (Greedy, Uniform, 0.25, 2.27),
    (Greedy, HotCold, 0.07, 9.45),
    (Greedy, HotCold, 0.12, 5.32),
    (Greedy, HotCold, 0.25, 2.73),
    (CostBenefit, Uniform, 0.07, 8.84),
    (CostBenefit, Uniform, 0.12, 4.75),
    (CostBenefit, Uniform, 0.25, 2.28),
    (CostBenefit, HotCold, 0.07, 6.61),
    (CostBenefit, HotCold, 0.12, 3.47),
    (CostBenefit, HotCold, 0.25, 1.78),
];

fn drive(policy: GcPolicy, over_provisioning: f64) -> DriveConfig {
    let mut config = tiny();
    config.geometry.dies_per_channel = 2;
    config.geometry.blocks_per_plane = 128;
    config.geometry.pages_per_block = 64;
    config.firmware.stripe_pages = 32;
    config.firmware.commands_max = 64;
    config.firmware.parts_max = 32;
    config.ftl.over_provisioning = over_provisioning;
    config.ftl.gc_policy = policy;
    config.ftl.gc_foreground_share = 0.008;
    config.ftl.gc_background_share = 0.012;
    config.ftl.write_buffer_pages = 64;
    config
}

fn measure(policy: GcPolicy, pattern: Pattern, over_provisioning: f64) -> f64 {
    let mut rig = Rig::new(drive(policy, over_provisioning));
    rig.depth = 32;
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let mut rng = Seed(5).child("lba").rng();
        overwrite(&mut host, pages, |i| i).await;
        let mut any = |_| match pattern {
            HotCold if rng.chance(9, 10) => rng.below(pages / 10),
            HotCold => pages / 10 + rng.below(pages - pages / 10),
            Uniform => rng.below(pages),
        };
        overwrite(&mut host, 5 * pages, &mut any).await;
        let before = host.statistics().await;
        overwrite(&mut host, 4 * pages, &mut any).await;
        let run = host.statistics().await.since(&before);
        run.write_amplification().expect("pages were written")
    })
}

/// Writes `count` single pages, several at once.
async fn overwrite(host: &mut Host, count: u64, mut lba: impl FnMut(u64) -> u64) {
    for index in 0..count {
        if index >= DEPTH as u64 {
            assert_eq!(code(&host.next(0).await), StatusCode::Success);
        }
        let command = Command::write(1, lba(index), 1);
        host.send(0, command.with_prp(host.data.address(0), 0));
    }
    for _ in 0..DEPTH {
        assert_eq!(code(&host.next(0).await), StatusCode::Success);
    }
}

/// The branch of Lambert's function above -1, by Newton's method: `w e^w = x`, `-1/e < x < 0`.
fn lambert(x: f64) -> f64 {
    let step = |w: f64, _| w - (w * w.exp() - x) / (w.exp() * (w + 1.0));
    (0..100).fold(-0.2, step)
}

/// The amplification of cleaning in order of age, of blocks that are neither free nor open.
fn cleaning_by_age(over_provisioning: f64) -> f64 {
    let config = drive(Greedy, over_provisioning);
    let plan = config.plan().expect("it can be built");
    // Free blocks are kept at the threshold, and each plane has two open ones, half written.
    let in_rotation = plan.blocks - plan.foreground_blocks - plan.planes;
    let ratio = f64::from(in_rotation * plan.pages_per_block) / f64::from(plan.logical_pages);
    ratio / (ratio + lambert(-ratio * (-ratio).exp()))
}

#[test]
fn write_amplification_is_as_reviewed() {
    let mut wrong = String::new();
    for (policy, pattern, over_provisioning, expected) in TABLE {
        let found = measure(*policy, *pattern, *over_provisioning);
        let theory = cleaning_by_age(*over_provisioning);
        let near = (found / expected - 1.0).abs() < TOLERANCE;
        let plausible = *pattern != Uniform
            || *policy != Greedy
            || (0.85 * theory..1.03 * theory).contains(&found);
        if !near || !plausible {
            wrong += &format!(
                "({policy:?}, {pattern:?}, {over_provisioning}): {found:.3}, not {expected}; \
                 cleaning by age: {theory:.3}\n"
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn lambert_inverts() {
    for x in [-0.36, -0.2, -0.05] {
        let w = lambert(x);
        assert!((w * w.exp() - x).abs() < 1e-9 && w > -1.0, "{x}: {w}");
    }
}
