//! The steps of a file system, timed where they happen.
//!
//! wfs runs on memory, and wpm, with a session above it: files in many directories are made, opened, written, read, renamed and
//! removed at random, and made durable now and then. Every step that it charges is between two looks at the clock; what
//! the looks themselves take is what a step that does nothing seems to take.

use wharf_files::block::{Make, Wfs, make};
use wharf_files::bytes::{self, Wpm};
use wharf_files::lines::RamLines;
use wharf_files::pages::RamPages;
use wharf_files::vfs::{At, Session, SessionLimits};
use wharf_files::volume::{Format, Volume};
use wharf_files::{Caller, FileError, OpenFlags, Place, Rename};
use wharf_runtime::{CostTable, Machine, OnCpu, Op, Rng, Seed, Side};

use super::CalibrateError;
use super::costs::Costs;
use super::sample::Sampler;

/// Pages of the file system: 256 MiB.
const PAGES: u64 = 1 << 16;

/// Memory for metadata.
const CACHE_BYTES: usize = 16 << 20;

/// Directories, and files in each.
const DIRECTORIES: u64 = 20;
const FILES: u64 = 50;

/// Rounds of all operations in a run.
const ROUNDS: u64 = 2000;

/// What is timed in wfs.
const OPS: &[Op] = &[
    Op::PathComponent,
    Op::MetadataLookup,
    Op::InodeLookup,
    Op::ExtentLookup,
    Op::DirectoryUpdate,
    Op::JournalPage,
    Op::PermissionCheck,
    Op::HandleLookup,
];

/// What is timed in wpm.
const WPM_OPS: &[Op] = &[Op::LogRecord];

/// Times all of it.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    const IN_WFS: &str = "timed in its place, in wfs on memory";
    const IN_WPM: &str = "timed in its place, in wpm on memory";
    let all = [(Format::Wfs, OPS, IN_WFS), (Format::Wpm, WPM_OPS, IN_WPM)];
    for (format, ops, how) in all {
        let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); ops.len()];
        for seed in 0..(2 * sampler.groups + 1) as u64 {
            for (op_ns, rounds) in means(format, ops, seed).zip(&mut rounds) {
                rounds.push(op_ns);
            }
        }
        for (op, rounds) in ops.iter().zip(rounds) {
            costs.set(*op, sampler.figure(&rounds), how);
        }
    }
    Ok(())
}

/// What each of `ops` takes in a run, in nanoseconds.
fn means(format: Format, ops: &[Op], seed: u64) -> impl Iterator<Item = f64> {
    let mut machine = Machine::new(CostTable::free(), true);
    let id = machine.add_cpu("calibrate", Side::Host, 1.0);
    let inline = machine.inline();
    let done = inline.block_on(id, |cpu| {
        let own = cpu.clone();
        async move {
            (0..ROUNDS).for_each(|_| cpu.work(Op::ClientRequest, || ()));
            OnCpu::new(&own, run(format, seed)).await
        }
    });
    done.expect("nothing fails in memory");
    let profiles = inline.profiles();
    let (_, _, profile) = &profiles[0];
    let mean = |op: Op| {
        let (count, busy_ns) = (profile.count[op as usize], profile.busy_ns[op as usize]);
        busy_ns as f64 / count.max(1) as f64
    };
    let means = ops.iter().map(|op| mean(*op) - mean(Op::ClientRequest));
    means.map(|ns| ns.max(0.0)).collect::<Vec<_>>().into_iter()
}

/// A file at random.
fn path(rng: &mut Rng) -> String {
    format!("/{}/{}", rng.below(DIRECTORIES), rng.below(FILES))
}

/// All operations, some thousand times.
async fn run(format: Format, seed: u64) -> Result<(), FileError> {
    let (pages, lines) = (RamPages::new(PAGES), RamLines::new(PAGES));
    let new = Make {
        file_system: 1,
        hash_key: [2, 3],
        now_ns: 1,
        uid: 0,
        gid: 0,
        mode: 0o755,
    };
    let fs: Volume<RamPages, RamLines> = match format {
        Format::Wfs => {
            make(&pages, new).await.expect("there are enough pages");
            Volume::Wfs(Wfs::open(pages, CACHE_BYTES).await?.0)
        }
        Format::Wpm => {
            let made = bytes::make(&lines, new.into()).await;
            made.expect("there are enough pages");
            Volume::Wpm(Wpm::open(lines, CACHE_BYTES).await?.0)
        }
    };
    let session = Session::new(&fs, Caller::root(), SessionLimits::default());
    for directory in 0..DIRECTORIES {
        let path = format!("/{directory}");
        session.mkdir(1, At::from(path.as_bytes()), 0o755).await?;
    }
    let mut rng = Seed(seed).child("calibrate files").rng();
    let mut page = vec![7; 4096];
    for round in 0..ROUNDS {
        let (one, two) = (path(&mut rng), path(&mut rng));
        let flags = OpenFlags::CREATE;
        let opened = session
            .open(1, At::from(one.as_bytes()), flags, 0o644)
            .await?;
        let at = Place::At(rng.below(40) * 8192);
        session.write(1, opened.handle, at, &page).await?;
        session
            .read(1, opened.handle, rng.below(40) * 4096, &mut page)
            .await?;
        session.close(opened.handle).await?;
        if rng.chance(1, 3) {
            session
                .rename(
                    1,
                    At::from(one.as_bytes()),
                    At::from(two.as_bytes()),
                    Rename::Replace,
                )
                .await?;
        } else if rng.chance(1, 3) {
            session.unlink(1, At::from(one.as_bytes())).await?;
        }
        if round % 32 == 31 {
            session.sync_all().await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_timed() {
        let mut costs = Costs::default();
        measure(Sampler::new(true), &mut costs).unwrap();
        for op in OPS.iter().chain(WPM_OPS) {
            let sample = costs.get(*op);
            println!("{} = {:.1} # {:.1}", op.key(), sample.ns, sample.spread_ns);
            assert!(sample.ns < 1e6);
        }
        assert!(costs.get(Op::JournalPage).ns > costs.get(Op::HandleLookup).ns);
    }
}
