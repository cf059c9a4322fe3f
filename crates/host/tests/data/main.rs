//! Every byte that a read returns is checked against a flat model, in random concurrent runs.
//!
//! Each task is an *owner* and keeps the model of its own bytes: an area of its own, with requests
//! of all sizes, and a slice of every page of an area shared by all, where the owners' writes fall
//! into the same pages. An update that gets lost, or a page that goes stale, is seen by its owner.
//! After the last flush the drives' pages are compared with all models.

#[path = "../common/mod.rs"]
mod common;
mod owners;

use std::rc::Rc;
use std::sync::Arc;

use common::{Rig, Shape, healthy};
use owners::{Case, Owner, PAGE, Told, random_case, redundant, run};
use wharf_host::kernel::{PageCache, WriteBack};
use wharf_host::scale::{DflushAlone, Scale, Variant, Whole};
use wharf_host::{
    Client, Clock, DesignConfig, Direct, Extent, Falcon, Hardware, Kernel, KernelDflush, Scala, Tri,
};
use wharf_runtime::{Cpu, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::{Fate, MockStore};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

fn verify_clock(design: &Clock, cpu: &Cpu) {
    design.cache().verify(cpu);
}

/// The same case for a design whose cache the drives keep.
fn pinning(mut case: Case, rng: &mut Rng) -> Case {
    let driver = &mut case.shape.driver;
    driver.cores = 1 + rng.below(3) as u32;
    driver.core_stripe_pages = [1, 4][rng.below(2) as usize];
    case.shape.pins = true;
    let shares_min = driver.cores * case.shape.clients * case.shape.drives;
    case.config.cache_bytes = case.config.cache_bytes.max(PAGE * u64::from(shares_min));
    case
}

#[test]
fn scala_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        let case = pinning(case, &mut rng);
        run::<Scala, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), |_, _| ());
    }
}

#[test]
fn scala_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        let case = pinning(impatient(case), &mut rng);
        run::<Scala, _>(case, |_| faulty(Seed(rng.next_u64()).rng()), |_, _| ());
    }
}

#[test]
fn hardware_keeps_every_byte() {
    for seed in 0..150 {
        let (case, mut rng) = random_case(seed);
        let case = pinning(case, &mut rng);
        run::<Hardware, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), |_, _| ());
    }
}

#[test]
fn hardware_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_040 {
        let (case, mut rng) = random_case(seed);
        let case = pinning(impatient(case), &mut rng);
        run::<Hardware, _>(case, |_| faulty(Seed(rng.next_u64()).rng()), |_, _| ());
    }
}

fn verify_kernel<W: WriteBack>(design: &PageCache<W>, cpu: &Cpu) {
    design.shared().verify(cpu);
}

#[test]
fn direct_keeps_every_byte() {
    for seed in 0..150 {
        let (case, mut rng) = random_case(seed);
        run::<Direct, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), |_, _| ());
    }
}

#[test]
fn clock_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        run::<Clock, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_clock);
    }
}

fn verify_tri(design: &Tri, cpu: &Cpu) {
    design.verify(cpu);
}

#[test]
fn tri_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        run::<Tri, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_tri);
    }
}

#[test]
fn kernel_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        run::<Kernel, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_kernel);
    }
}

#[test]
fn falcon_keeps_every_byte() {
    for seed in 0..200 {
        let (case, mut rng) = random_case(seed);
        run::<Falcon, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_kernel);
    }
}

#[test]
fn kernel_dflush_keeps_every_byte() {
    for seed in 0..300 {
        let (case, mut rng) = random_case(seed);
        run::<KernelDflush, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_kernel);
    }
}

#[test]
fn kernel_dflush_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<KernelDflush, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

fn verify_scale<V: Variant>(design: &Scale<V>, cpu: &Cpu) {
    design.shared().verify(cpu);
}

#[test]
fn scale_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        run::<Scale<Whole>, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_scale);
    }
}

#[test]
fn scale_dflush_keeps_every_byte() {
    for seed in 0..400 {
        let (case, mut rng) = random_case(seed);
        run::<Scale<DflushAlone>, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), verify_scale);
    }
}

/// Fails, is late, and is silent no longer than a timeout or two.
fn faulty(mut rng: Rng) -> impl FnMut(u64, &Command) -> Fate + Send + 'static {
    move |_, _| match rng.below(80) {
        0 => Fate::Failed(StatusCode::UnrecoveredReadError, 2_000),
        1 => Fate::Failed(StatusCode::CommandInterrupted, 2_000),
        2 => Fate::Done(150_000 + rng.below(400_000)),
        3 => Fate::Failed(StatusCode::WriteFault, 150_000 + rng.below(200_000)),
        _ => Fate::Done(1_000 + rng.below(20_000)),
    }
}

fn impatient(mut case: Case) -> Case {
    case.shape.driver.timeout_ns = 100_000;
    case.shape.driver.retry_delay_ns = 10_000;
    case.shape.driver.retries = 1;
    case
}

#[test]
fn direct_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_150 {
        let (case, mut rng) = random_case(seed);
        run::<Direct, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

#[test]
fn clock_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<Clock, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            verify_clock,
        );
    }
}

#[test]
fn tri_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<Tri, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            verify_tri,
        );
    }
}

#[test]
fn kernel_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<Kernel, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

#[test]
fn falcon_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_100 {
        let (case, mut rng) = random_case(seed);
        run::<Falcon, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

#[test]
fn scale_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<Scale<Whole>, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

#[test]
fn scale_dflush_keeps_every_byte_through_errors_and_timeouts() {
    for seed in 1_000..1_200 {
        let (case, mut rng) = random_case(seed);
        run::<Scale<DflushAlone>, _>(
            impatient(case),
            |_| faulty(Seed(rng.next_u64()).rng()),
            |_, _| (),
        );
    }
}

/// As the tests above, over mirrors and parity, which are looked at in the end; with faults in every second case.
fn keeps_redundancy<D: Told>(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (case, mut rng) = random_case(seed);
        let case = redundant(case, &mut rng);
        match seed % 2 {
            0 => run::<D, _>(case, |_| healthy(Seed(rng.next_u64()).rng()), |_, _| ()),
            _ => run::<D, _>(
                impatient(case),
                |_| faulty(Seed(rng.next_u64()).rng()),
                |_, _| (),
            ),
        }
    }
}

#[test]
fn direct_and_clock_keep_redundancy() {
    keeps_redundancy::<Direct>(2_000..2_080);
    keeps_redundancy::<Clock>(2_000..2_080);
}

#[test]
fn tri_keeps_redundancy() {
    keeps_redundancy::<Tri>(2_000..2_080);
}

#[test]
fn kernel_and_falcon_keep_redundancy() {
    keeps_redundancy::<Kernel>(2_000..2_080);
    keeps_redundancy::<Falcon>(2_000..2_040);
}

#[test]
fn scale_keeps_redundancy() {
    keeps_redundancy::<Scale<Whole>>(2_000..2_080);
}

#[test]
fn equal_seeds_send_the_drives_equal_commands() {
    let commands = |seed| {
        let (case, mut rng) = random_case(seed);
        let mut rig = Rig::new(case.shape, |_| healthy(Seed(rng.next_u64()).rng()));
        let design: Arc<Clock> = rig.design(case.config);
        for index in 0..case.shape.clients {
            let drives = (rig.layout(), rig.stores.clone());
            rig.spawn_client(index, &design, move |cpu, client| async move {
                let mut owner = Owner::new(case, u64::from(index) * case.tasks, drives);
                for _ in 0..100 {
                    owner.step(&cpu, &*client).await;
                }
            });
        }
        let stores = rig.stores.clone();
        rig.machine.run_virtual(Seed(seed)).unwrap();
        stores
            .iter()
            .map(|s: &Arc<MockStore>| s.seen())
            .collect::<Vec<_>>()
    };
    for seed in 0..10 {
        assert_eq!(commands(seed), commands(seed), "seed {seed}");
    }
}

#[test]
fn a_failed_write_back_keeps_the_page_and_is_reported_by_the_next_flush() {
    let mut failing = 2;
    let fate = move |_: u64, command: &Command| {
        let is_write = command.io_opcode() == Some(IoOpcode::Write);
        if is_write && command.slba() == 0 && failing > 0 {
            failing -= 1;
            return Fate::Failed(StatusCode::UnrecoveredReadError, 1_000);
        }
        Fate::Done(1_000)
    };
    let mut rig = Rig::new(Shape::default(), move |_| fate);
    let config = DesignConfig {
        cache_bytes: 2 * PAGE,
        ..DesignConfig::default()
    };
    let design: Arc<Clock> = rig.design(config);
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        client
            .write(Extent::of_pages(0, 1), &[7; 4096])
            .await
            .unwrap();
        let mut out = [0; 4096];
        // Page 0 cannot leave: the reads get the other frame, and succeed.
        for page in 1..4 {
            client
                .read(Extent::of_pages(page, 1), &mut out)
                .await
                .unwrap();
        }
        let error = client.flush().await.unwrap_err();
        assert!(matches!(
            error,
            wharf_host::IoError::WriteBack { .. } | wharf_host::IoError::Status { .. }
        ));
        client.flush().await.unwrap();
        assert_eq!(store.page(0).unwrap(), vec![7; 4096]);
        client.read(Extent::of_pages(0, 1), &mut out).await.unwrap();
        assert_eq!(out, [7; 4096]);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let mut rig = Rig::new(
        Shape {
            drive_pages: 10,
            ..Shape::default()
        },
        |_| healthy(Seed(1).rng()),
    );
    let design: Arc<Clock> = rig.design(DesignConfig::default());
    rig.spawn_client(0, &design, |_, client: Rc<_>| async move {
        let mut out = [0; 4096];
        let beyond = client
            .read(Extent::of_pages(10, 1), &mut out)
            .await
            .unwrap_err();
        assert!(
            beyond.to_string().contains("volume of 10 pages"),
            "{beyond}"
        );
        let huge = Extent::new(u64::MAX, 2);
        assert!(client.read(huge, &mut out[..2]).await.is_err());
        let short = client
            .write(Extent::new(0, 5), &out[..4])
            .await
            .unwrap_err();
        assert!(short.to_string().contains("buffer of 4 bytes"), "{short}");
        let touch = client.read(Extent::new(5, 0), &mut []).await.unwrap();
        assert_eq!(touch.pages, 0);
        assert_eq!(client.statistics().failures, 3);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
