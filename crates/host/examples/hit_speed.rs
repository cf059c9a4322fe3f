#[path = "../tests/common/mod.rs"]
mod common;
use std::sync::Arc;
use common::{Rig, Shape};
use wharf_host::{Client, Clock, Direct, Design, DesignConfig, Extent};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;

#[allow(clippy::disallowed_methods)]
fn run<D: Design>(cache_pages: u64, range: u64, requests: u64, write: bool, name: &str) {
    let shape = Shape { page_bytes: 8, drive_pages: range, depth: 64, ..Shape::default() };
    let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(5_000));
    let design: Arc<D> = rig.design(DesignConfig { cache_bytes: cache_pages * 4096, ..DesignConfig::default() });
    let name = name.to_string();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let mut rng = Seed(1).rng();
        let mut buf = [0u8; 8];
        for page in 0..cache_pages.min(range) {
            client.read(Extent::of_pages(page, 1), &mut buf).await.unwrap();
        }
        let t = std::time::Instant::now();
        let mut hits = 0;
        for _ in 0..requests {
            let e = Extent::of_pages(rng.below(range), 1);
            let touch = if write { client.write(e, &buf).await } else { client.read(e, &mut buf).await };
            hits += touch.unwrap().hits;
            cpu.progress();
        }
        let ns = t.elapsed().as_nanos() as f64 / requests as f64;
        println!("{name}: {ns:.1} ns per request, {:.1} % hits", hits as f64 * 100.0 / requests as f64);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
fn main() {
    run::<Clock>(1 << 18, 1 << 18, 20_000_000, false, "hit read 1 GiB");
    run::<Clock>(1 << 18, 1 << 18, 20_000_000, true, "hit write 1 GiB");
    run::<Clock>(1 << 10, 1 << 10, 20_000_000, false, "hit read 4 MiB");
    run::<Clock>(1 << 18, (1 << 18) * 100 / 95, 10_000_000, false, "95% read 1 GiB");
    run::<Clock>(1 << 10, 1 << 18, 1_000_000, false, "miss read");
    run::<Clock>(1 << 10, 1 << 18, 1_000_000, true, "miss write");
    run::<Direct>(1 << 10, 1 << 18, 1_000_000, false, "direct read");
    run::<Direct>(1 << 10, 1 << 18, 1_000_000, true, "direct write");
}
