#![allow(clippy::all, missing_docs)]
use wharf_drive::config::*;
use wharf_drive::*;
use std::time::Instant;
fn config(blocks: u32) -> DriveConfig {
    DriveConfig { name: "t".into(),
        geometry: Geometry { channels: 8, dies_per_channel: 4, planes_per_die: 1, blocks_per_plane: blocks, pages_per_block: 512 },
        timing: Timing { read_ns: 18000, program_ns: 35000, erase_ns: 2000000, channel_ns_per_page: 0 },
        link: LinkConfig { latency_ns: 0, to_host_mb_s: 0, from_host_mb_s: 0 },
        firmware: Firmware { cores: 4, slowness: 1.0, stripe_pages: 32, commands_max: 1024, parts_max: 64, queues_max: 64 },
        ftl: FtlConfig { over_provisioning: std::env::var("OP").ok().and_then(|s| s.parse().ok()).unwrap_or(0.11), capacity_share: 1.0, gc_policy: GcPolicy::Greedy, gc_foreground_share: 0.01, gc_background_share: 0.02, gc_background_invalid_min: 0.0, write_buffer_pages: 1024, volatile_write_cache: false, wear_gap_max: 0, endurance_cycles: 0,
            checkpoint_pages: std::env::var("CP").ok().and_then(|s| s.parse().ok()).unwrap_or(0) },
        media: MediaConfig { kind: MediaKind::Stamp, path: None, verify: false } }
}
fn main() {
    let cfg = config(std::env::args().nth(1).unwrap().parse().unwrap());
    let drive = Drive::new(cfg.clone()).unwrap();
    let t = Instant::now();
    let (drive, r) = drive.precondition(&Precondition { fill_share: 1.0, overwrite: Overwrite::UntilSteady, seed: wharf_runtime::Seed(1) }).unwrap();
    let s = t.elapsed().as_secs_f64();
    let programs: u64 = r.iter().map(|x| x.programs).sum();
    println!("precondition {s:.2} s, {programs} programs, {:.1} ns each; {:?}", s * 1e9 / programs as f64, r[0]);
    let path = std::path::Path::new("/tmp/ckpt_throwaway.img");
    let _ = std::fs::remove_file(path);
    let t = Instant::now();
    drive.save(path).unwrap();
    println!("save {:.2} s", t.elapsed().as_secs_f64());
    let t = Instant::now();
    let loaded = Drive::load(cfg.clone(), path).unwrap();
    println!("load {:.2} s", t.elapsed().as_secs_f64());
    for (i, m) in loaded.into_media().into_iter().enumerate() {
        let t = Instant::now();
        let ftl = wharf_drive::ftl::Ftl::open(&cfg, cfg.plan().unwrap(), m, PowerSwitch::on()).unwrap();
        println!("open core {i} {:.3} s {:?}", t.elapsed().as_secs_f64(), ftl.recovery());
        if i == 0 { let t = Instant::now(); ftl.verify(); println!("verify {:.2}", t.elapsed().as_secs_f64()); }
    }
    let _ = std::fs::remove_file(path);
}
