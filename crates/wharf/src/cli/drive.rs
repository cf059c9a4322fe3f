//! `wharf drive list`, `wharf drive show`, `wharf drive prepare`.

use std::path::{Path, PathBuf};

use wharf_drive::Drive;
use wharf_drive::ftl::{Overwrite, Precondition};
use wharf_lab::config::{DRIVES, Sets, load_drive};
use wharf_runtime::Seed;

use super::output::{self, Force};
use super::values::{count, share};
use super::{Failure, input, print, room};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Lists the drive presets.
    List,
    /// Shows a drive's parameters and what follows from them.
    Show {
        /// A preset or a TOML file.
        drive: String,
        /// Changes one parameter.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<String>,
    },
    /// Fills a drive, overwrites it at random, and saves the result as an image that
    /// `wharf compare --prepare IMAGE` starts from.
    Prepare {
        /// A preset or a TOML file.
        drive: String,
        /// The image to write.
        image: PathBuf,
        /// Share of the namespace to fill.
        #[arg(long, default_value = "100%", value_name = "SHARE", value_parser = share)]
        fill: f64,
        /// How many times to overwrite what was filled; until write amplification is steady if left
        /// out.
        #[arg(long, value_name = "TIMES")]
        overwrite: Option<f64>,
        /// Seed of the choice of pages.
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<u64>(0..=u64::MAX))]
        seed: u64,
        #[command(flatten)]
        force: Force,
        /// Changes one parameter.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<String>,
    },
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List => {
            for preset in DRIVES {
                print(&format!("{:16} {}", preset.name, preset.summary()));
            }
            Ok(())
        }
        Command::Show { drive, sets } => show(drive, sets),
        Command::Prepare {
            drive,
            image,
            fill,
            overwrite,
            seed,
            force,
            sets,
        } => {
            if output::is_stdout(image) {
                return Err(input("an image cannot go to standard output: name a file"));
            }
            output::check(&[("", image)], force.force)?;
            if *fill == 0.0 {
                return Err(input("--fill 0: give a share above 0, such as 50%"));
            }
            let overwrite = overwrite.map_or(Overwrite::UntilSteady, Overwrite::Share);
            prepare(
                drive,
                sets,
                image,
                &Precondition {
                    fill_share: *fill,
                    overwrite,
                    seed: Seed(*seed),
                },
            )
        }
    }
}

fn show(drive: &str, sets: &[String]) -> Result<(), Failure> {
    let (config, _) = load_drive(drive, &Sets::parse(sets).map_err(input)?).map_err(input)?;
    let plan = config.plan().map_err(input)?;
    print(&serde_json::to_string_pretty(&config).expect("plain data"));
    if let Some(disk) = config.as_disk() {
        let geometry = wharf_drive::disk::DiskGeometry::new(disk);
        print(&format!(
            "namespace {} sectors of 4 KiB ({:.1} GiB) on {} heads of {} cylinders, {} to {} sectors a track; a turn takes {:.3} ms",
            config.namespace_pages(),
            config.namespace_pages() as f64 * 4096.0 / (1u64 << 30) as f64,
            disk.heads,
            geometry.cylinders(),
            disk.track_sectors(disk.zones - 1),
            disk.track_sectors(0),
            geometry.turn_ns() as f64 / 1e6,
        ));
        return Ok(());
    }
    print(&format!(
        "namespace {} pages of 4 KiB ({:.1} GiB) on {} pages of flash; each of {} cores: {} planes, {} blocks, {} logical pages",
        config.namespace_pages(),
        config.namespace_pages() as f64 * 4096.0 / (1u64 << 30) as f64,
        config.geometry.pages(),
        config.firmware.cores,
        plan.planes,
        plan.blocks,
        plan.logical_pages,
    ));
    Ok(())
}

fn prepare(
    drive: &str,
    sets: &[String],
    image: &Path,
    options: &Precondition,
) -> Result<(), Failure> {
    let (config, _) = load_drive(drive, &Sets::parse(sets).map_err(input)?).map_err(input)?;
    let pages = (config.namespace_pages() as f64 * options.fill_share) as u64;
    let bytes = pages.saturating_mul(config.page_bytes() as u64);
    let advice = "give a smaller --fill or drive, or --set drive.media.kind=stamp";
    room::check_memory("a drive so full", bytes, advice)?;
    room::check_disk(image, bytes, advice)?;
    let (drive, results) = Drive::new(config)
        .map_err(input)?
        .precondition(options)
        .map_err(input)?;
    // An image that is there stays as it was until the new one is whole.
    let beside = output::beside(image);
    drive.save(&beside).map_err(input)?;
    std::fs::rename(&beside, image)
        .map_err(|error| input(format!("cannot write {}: {error}", image.display())))?;
    let cores = results.len() as f64;
    let amplification = results.iter().map(|r| r.write_amplification).sum::<f64>() / cores;
    let overwritten: u64 = results.iter().map(|r| r.overwritten_pages).sum();
    print(&format!(
        "{}: {overwritten} pages overwritten, write amplification {amplification:.2} at the end, seed {}",
        image.display(),
        options.seed.0
    ));
    Ok(())
}
