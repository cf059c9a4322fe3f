//! What section 5 says of memory: figures of its text, which has no picture of them.

use super::analysis::over_hash_table;
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use crate::reproduce::metric::{Book, Metric};
use crate::reproduce::run::{CLIENTS, SCALA, Workloads};

/// The cache of the paper's example, in MB.
const EXAMPLE_MB: f64 = 4096.0;

pub(super) fn memory(workloads: &Workloads) -> Figure {
    let workload = workloads.one("mds");
    let run = SCALA.clients(&workload, CLIENTS);
    let fusion = Cell::plain(Metric::BookShare(Book::Drives), run.clone());
    let table = Cell::plain(Metric::BookShare(Book::Drives), over_hash_table(&workload));
    let queue = Cell::plain(Metric::BookShare(Book::Clients), run.clone());
    let rings = Cell::plain(Metric::RingKib, run.clone());
    let panel = |title: &str, cells: &[(&str, &Cell)]| Panel {
        title: title.into(),
        points: cells.iter().map(|(name, _)| (*name).into()).collect(),
        series: vec![Series {
            name: "here".into(),
            cells: cells
                .iter()
                .map(|(_, cell)| Some((*cell).clone()))
                .collect(),
        }],
    };
    let of = |id, metric| Claim::new(id, Formula::value(metric, run.clone()));
    let example = fusion.clone().times(EXAMPLE_MB);
    Figure {
        name: "memory",
        plot: Plot::Bars,
        points: "what for",
        axis: "memory".into(),
        panels: vec![
            panel(
                "share of the cache",
                &[
                    ("FusionFTL", &fusion),
                    ("hash table in the drive", &table),
                    ("Queue Indexes", &queue),
                ],
            ),
            panel("KiB", &[("rings from controller to cores", &rings)]),
        ],
        claims: vec![
            of("fusion", Metric::WithBook(Book::Drives)),
            Claim::new("fusion-of-4-gb", Formula::Mean(vec![Term::of(example)])),
            of("request-buffers", Metric::RingKib),
            of("queue-index", Metric::WithBook(Book::Clients)),
        ],
        notes: vec![
            "bytes that were allocated, by those of the cache; the indexes' tables are mapped for the case that no two pages are neighbours, \
             and take memory only as far as they are used",
            "the frame table, by which drive and host agree who writes to a frame, is hmb by the host and in neither: 4 bytes and a bit \
             for each frame",
        ],
    }
}
