//! t
use wharf_workload::profiles::Profile;
fn main() {
    let div: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let it: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let only = std::env::args().nth(3);
    for p in Profile::ALL {
        if only
            .as_ref()
            .is_some_and(|o| !o.split(',').any(|n| n == p.table.name))
        {
            continue;
        }
        let mut p = *p;
        for i in 0..it {
            let m = p.measure(p.table.requests / div, 1).unwrap();
            println!(
                "{} it{} c={:.4} H={} hit {:.4}/{:.2} reuse {:.3}/{:.2} rnd {:.3} mean {:.2} foot {:.1} wr {:.2}",
                p.table.name,
                i,
                p.cold_share,
                p.hot_bytes >> 20,
                m.hit_ratio,
                p.table.hit_ratio,
                m.reuse_gib,
                p.table.reuse_gib,
                m.randomness,
                m.mean_kib,
                m.footprint_gib,
                m.write_share
            );
            p.cold_share = (p.cold_share + (m.hit_ratio - p.table.hit_ratio)).max(0.0001);
            p.hot_bytes =
                ((p.hot_bytes as f64) * (p.table.reuse_gib / m.reuse_gib)) as u64 >> 20 << 20;
        }
    }
}
