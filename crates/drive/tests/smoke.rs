//! smoke
use std::sync::Arc;
use wharf_drive::config::*;
use wharf_drive::{Drive, PowerSwitch};
use wharf_runtime::*;
use wharf_wire::command::Command;
use wharf_wire::dma::DmaSpace;

fn config(blocks: u32) -> DriveConfig {
    DriveConfig {
        name: "t".into(),
        geometry: Geometry {
            channels: 8,
            dies_per_channel: 4,
            planes_per_die: 1,
            blocks_per_plane: blocks,
            pages_per_block: 512,
        },
        timing: Timing {
            read_ns: 18000,
            program_ns: 35000,
            erase_ns: 2000000,
            channel_ns_per_page: 0,
        },
        link: LinkConfig {
            latency_ns: 0,
            to_host_mb_s: 0,
            from_host_mb_s: 0,
        },
        firmware: Firmware {
            cores: 4,
            slowness: 1.0,
            stripe_pages: 32,
            commands_max: 1024,
            parts_max: 64,
            queues_max: 64,
        },
        ftl: FtlConfig {
            over_provisioning: 0.11,
            capacity_share: 1.0,
            gc_policy: GcPolicy::Greedy,
            gc_foreground_share: 0.01,
            gc_background_share: 0.02,
            gc_background_invalid_min: 0.0,
            write_buffer_pages: 1024,
            volatile_write_cache: false,
            wear_gap_max: 0,
            endurance_cycles: 0,
            checkpoint_pages: 0,
        },
        media: MediaConfig {
            kind: MediaKind::Stamp,
            path: None,
            verify: false,
        },
    }
}

async fn wait_completion(
    cpu: &Cpu,
    q: &mut wharf_wire::queue::HostQueue,
) -> wharf_wire::completion::Completion {
    loop {
        if let Some(c) = q.poll(cpu) {
            q.release();
            return c;
        }
        let bell = q.bell().clone();
        bell.wait(cpu).await;
    }
}

#[test]
fn smoke() {
    let ios: u64 = std::env::var("IOS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20000);
    let blocks: u32 = std::env::var("BLOCKS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(64);
    let read_pct: u64 = std::env::var("RP")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(50);
    let cfg = config(blocks);
    let pages = cfg.namespace_pages();
    let drive = Drive::new(cfg).unwrap();
    let dma = DmaSpace::new(8);
    let table = include_str!("../../../configs/costs/default.toml");
    let mut m = Machine::new(CostTable::parse(table).unwrap(), false);
    let handle = drive
        .power_on(&mut m, "d", &dma, &PowerSwitch::on())
        .unwrap();
    let clients = 8u32;
    let mut ends = Vec::new();
    for i in 0..clients {
        let (h, d) = handle.new_queue(i as u16 + 1, 128);
        dma.offer((1000 + i as u64) << 12, d);
        ends.push(h);
    }
    let host0 = m.add_cpu("boot", Side::Host, 1.0);
    let mut admin = handle.admin;
    let mut gates = Vec::new();
    let mut gate_rx = Vec::new();
    for _ in 0..clients {
        let b = Bell::new();
        let (s, r) = ring::<u32>(2, &b, 0);
        gates.push(s);
        gate_rx.push((b, r));
    }
    m.spawn_main(host0, "boot", move |cpu| async move {
        admin.bell().attach(&cpu);
        for i in 0..clients {
            admin
                .submit(
                    &cpu,
                    Command::create_completion_queue(i as u16 + 1, 128, (1000 + i as u64) << 12)
                        .with_cid(1),
                )
                .unwrap();
            admin.ring_doorbell(&cpu);
            let c = wait_completion(&cpu, &mut admin).await;
            assert!(c.status().is_success(), "{:?}", c.status());
            admin
                .submit(
                    &cpu,
                    Command::create_submission_queue(
                        i as u16 + 1,
                        128,
                        i as u16 + 1,
                        (1000 + i as u64) << 12,
                    )
                    .with_cid(1),
                )
                .unwrap();
            admin.ring_doorbell(&cpu);
            let c = wait_completion(&cpu, &mut admin).await;
            assert!(c.status().is_success(), "{:?}", c.status());
        }
        for g in &mut gates {
            g.push(&cpu, 1).unwrap();
        }
    });
    let per = ios / clients as u64;
    for (i, (mut q, (gb, mut gr))) in ends.into_iter().zip(gate_rx).enumerate() {
        let c = m.add_cpu(&format!("client{i}"), Side::Host, 1.0);
        let region = dma.register(128).unwrap();
        m.spawn_main(c, "client", move |cpu| async move {
            gb.attach(&cpu);
            while gr.try_pop(&cpu).is_none() {
                gb.wait(&cpu).await;
            }
            let bell = q.bell().clone();
            bell.attach(&cpu);
            let mut rng = Seed(i as u64).rng();
            let (mut sent, mut done) = (0u64, 0u64);
            let mut free: Vec<u16> = (0..32).collect();
            // fill
            let share = pages / clients as u64;
            let mut fill = 0u64;
            while fill < share || free.len() < 32 {
                while fill < share && !free.is_empty() {
                    let cid = free.pop().unwrap();
                    q.submit(
                        &cpu,
                        Command::write(1, share * i as u64 + fill, 1)
                            .with_cid(cid)
                            .with_prp(region.address(cid as usize), 0),
                    )
                    .unwrap();
                    fill += 1;
                }
                q.ring_doorbell(&cpu);
                while let Some(c) = q.poll(&cpu) {
                    assert!(c.status().is_success(), "{}", c.status());
                    free.push(c.cid);
                    cpu.progress();
                }
                q.release();
                if fill < share && !free.is_empty() {
                    continue;
                }
                if free.len() == 32 {
                    break;
                }
                bell.wait(&cpu).await;
            }
            while done < per {
                while sent < per && !free.is_empty() {
                    let cid = free.pop().unwrap();
                    let lba = rng.below(pages);
                    let cmd = if rng.below(100) < read_pct {
                        Command::read(1, lba, 1)
                    } else {
                        Command::write(1, lba, 1)
                    };
                    cpu.work(Op::DriverSubmit, || {
                        q.submit(
                            &cpu,
                            cmd.with_cid(cid).with_prp(region.address(cid as usize), 0),
                        )
                    })
                    .unwrap();
                    sent += 1;
                }
                q.ring_doorbell(&cpu);
                while let Some(c) = q.poll(&cpu) {
                    cpu.work(Op::DriverComplete, || ());
                    assert!(c.status().is_success(), "{}", c.status());
                    free.push(c.cid);
                    done += 1;
                    cpu.progress();
                }
                q.release();
                if done < per && (sent == per || free.is_empty()) {
                    bell.wait(&cpu).await;
                }
            }
        });
    }
    let clock = wharf_runtime::clock::Clock::start();
    let s = m.run_virtual(Seed(1)).unwrap();
    let wall = clock.now_ns();
    println!(
        "elapsed virtual {} ms, wall {} ms, total ios {}  ({} ns/io)",
        s.elapsed_ns / 1_000_000,
        wall / 1_000_000,
        ios + pages,
        wall / (ios + pages)
    );
    let _ = Arc::new(());
    for (n, _, p) in &s.profiles {
        println!(
            "{n}: busy {} ms  {:?}",
            p.total_ns() / 1_000_000,
            p.by_category()
        );
    }
}
