//! `wharf drive list`, `wharf drive show`.

use wharf_lab::config::{DRIVES, Sets, load_drive};

use super::{Failure, input, print};

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
    }
}

fn show(drive: &str, sets: &[String]) -> Result<(), Failure> {
    let (config, _) = load_drive(drive, &Sets::parse(sets).map_err(input)?).map_err(input)?;
    let plan = config.plan().map_err(input)?;
    print(&serde_json::to_string_pretty(&config).expect("plain data"));
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
