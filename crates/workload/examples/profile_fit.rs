//! Prints how near each profile comes to the paper's Table 2. Full size by default (some minutes and
//! several GB); a divisor of the number of requests may be given: `profile_fit 64`.

use wharf_workload::profiles::Profile;

fn main() {
    let divisor = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 1,
        Some(Ok(divisor)) if divisor > 0 => divisor,
        Some(_) => {
            eprintln!("usage: profile_fit [DIVISOR], a whole number above 0");
            std::process::exit(2);
        }
    };
    println!("table / fitted, requests and cache divided by {divisor}\n");
    println!(
        "{:<10}{:>10}{:>18}{:>16}{:>16}{:>16}{:>10}{:>8}",
        "", "requests", "size KiB", "hit ratio", "randomness", "reuse GiB", "footprint", "writes"
    );
    for profile in Profile::ALL {
        let table = profile.table;
        let requests = (table.requests / divisor).max(1);
        let fit = match profile.measure(requests, 1) {
            Ok(fit) => fit,
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        };
        println!(
            "{:<10}{:>10}{:>9.2} /{:>7.2}{:>8.2} /{:>6.3}{:>8.2} /{:>6.3}{:>8.2} /{:>6.3}{:>10.1}{:>8.2}",
            table.name,
            requests,
            table.mean_kib,
            fit.mean_kib,
            table.hit_ratio,
            fit.hit_ratio,
            table.randomness,
            fit.randomness,
            table.reuse_gib,
            fit.reuse_gib,
            fit.footprint_gib,
            fit.write_share
        );
    }
}
