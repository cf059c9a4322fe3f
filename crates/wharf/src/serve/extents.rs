//! Where a file has data, as a server tells it.

use wharf_nbd::{Answer, Errno, Extent, Outcome};
use wharf_storage::{Holes, Target};

/// Extents from byte `offset` on, for at most `len` bytes, `extents_max` of them.
pub(super) fn extents(target: &dyn Target, offset: u64, len: u64, extents_max: usize) -> Outcome {
    let Some(holes) = target.holes() else {
        return Ok(Answer::Extents(vec![Extent::data(len)]));
    };
    find(holes, offset, offset + len, extents_max)
        .map(Answer::Extents)
        .map_err(|errno| Errno::of_system(errno.raw_os_error()))
}

fn find(
    holes: &dyn Holes,
    mut at: u64,
    end: u64,
    extents_max: usize,
) -> Result<Vec<Extent>, wharf_storage::Errno> {
    let mut extents = Vec::new();
    while at < end && extents.len() < extents_max {
        let (is_data, run_end) = holes.run(at)?;
        let upto = run_end.clamp(at + 1, end.max(at + 1));
        let extent = match is_data {
            true => Extent::data(upto - at),
            false => Extent::hole(upto - at),
        };
        extent.push(&mut extents);
        at = upto;
    }
    Ok(extents)
}
