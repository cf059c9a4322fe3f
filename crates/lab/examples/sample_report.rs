//! Draws a report from sample data, to look at the page without running anything.
//!
//! ```text
//! cargo run -p wharf-lab --example sample_report -- report.html [DESIGNS | sparse]
//! ```

use std::process::ExitCode;

use wharf_lab::report::{html, json, sample, table};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .unwrap_or_else(|| "sample-report.html".to_owned());
    let comparison = match arguments.next().as_deref() {
        None => sample::comparison(4),
        Some("sparse") => sample::sparse_comparison(),
        Some(count) => match count.parse() {
            Ok(designs @ 1..=8) => sample::comparison(designs),
            _ => {
                eprintln!("{count}: give a number of designs from 1 to 8, or `sparse`");
                return ExitCode::from(2);
            }
        },
    };
    print!("{}", table::render(&comparison, table::stdout_width()));
    let json_path = std::path::Path::new(&path).with_extension("json");
    if let Err(error) = json::write(&json_path, &comparison) {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    if let Err(error) = std::fs::write(&path, html::render(&comparison)) {
        eprintln!("cannot write {path}: {error}");
        return ExitCode::from(2);
    }
    println!("\nwrote {path} and {}", json_path.display());
    ExitCode::SUCCESS
}
