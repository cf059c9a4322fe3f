//! `wharf designs`, `wharf workloads`, `wharf policies`: what there is, by name.

use wharf_lab::designs;
use wharf_policy::Kind;
use wharf_workload::named;

use super::{Failure, print};

/// What is listed.
pub(super) enum List {
    Designs,
    Workloads,
    Policies,
}

/// Runs the command.
pub(super) fn run(list: List) -> Result<(), Failure> {
    let rows: Vec<(&str, String)> = match list {
        List::Designs => {
            let all = designs::all().into_iter();
            all.map(|design| (design.name, design.summary.into()))
                .collect()
        }
        List::Workloads => named::names()
            .map(|name| (name, named::about(name).unwrap_or_default()))
            .collect(),
        List::Policies => {
            let all = Kind::ALL.iter();
            all.map(|(name, kind)| (*name, kind.about().into()))
                .collect()
        }
    };
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, about) in rows {
        print(&format!("{name:width$}  {about}"));
    }
    Ok(())
}
