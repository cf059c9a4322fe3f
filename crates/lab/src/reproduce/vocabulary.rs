//! The words for metrics in the figures' data: a name, and what it is of, with a space between them.
//!
//! | words | the metric |
//! |---|---|
//! | `bandwidth`, `p999` and all of [`PLAIN`] | one that needs no more |
//! | `waiting PART`, `waiting_share PART`, `busy PART` | of a part of the machine |
//! | `cpu PART WORK`, `cpus …`, `time_share …`, `busy_share …` | of some work of a part |
//! | `cost PART WORK`, `rate PART WORK` | of operations of a part |
//! | `cost_share PART WHOLE SOME` | the share of the whole work that some of it takes |
//! | `capacity PART WORK SERVER` | what the server's CPUs could do of that work |
//! | `latency LAYER`, `latency_share LAYERS` | of mean latency |
//! | `latency_in_tenth N` | mean latency in the first to tenth part of a run, 1 to 10 |
//! | `book_share BOOK`, `with_book BOOK` | of the memory that keeps book of pages |

use super::layers::{Layer, LayerSet};
use super::metric::{Book, CACHE, CLIENT, ENGINE, LOCK, MESSAGES, Metric, Work};
use super::over_time::TENTHS;
use crate::config::nearest::nearest;
use crate::result::CpuPart;

/// Metrics that are a word.
const PLAIN: [(&str, Metric); 37] = [
    ("bandwidth", Metric::Bandwidth),
    ("mean_latency", Metric::MeanLatency),
    ("read_mean", Metric::ReadMean),
    ("write_mean", Metric::WriteMean),
    ("latency_spread", Metric::LatencySpread),
    ("unaligned", Metric::Unaligned),
    ("link_bytes", Metric::LinkBytes),
    ("drive_computed", Metric::DriveComputed),
    ("stalled", Metric::Stalled),
    ("read_p99", Metric::ReadP99),
    ("disk_write_amplification", Metric::DiskWriteAmplification),
    ("seeks_per_read", Metric::SeeksPerRead),
    ("p999", Metric::P999),
    ("p9999", Metric::P9999),
    ("commands", Metric::Commands),
    ("gc_affected", Metric::GcAffected),
    ("gc_affected_latency", Metric::GcAffectedLatency),
    ("gc_affected_p9999", Metric::GcAffectedP9999),
    ("host_cpu", Metric::HostCpu),
    ("engine_polled", Metric::EnginePolled),
    ("host_busy", Metric::HostBusy),
    ("throttled", Metric::Throttled),
    ("writing_back", Metric::WritingBack),
    ("index_wait", Metric::IndexWait),
    ("array_driver", Metric::ArrayDriver),
    ("other_time", Metric::OtherTime),
    ("host_gib", Metric::HostGib),
    ("drive_map_gib", Metric::DriveMapGib),
    ("hit_ratio", Metric::HitRatio),
    ("collecting", Metric::Collecting),
    ("index_mib", Metric::IndexMib),
    ("ring_kib", Metric::RingKib),
    ("requests", Metric::Requests),
    ("mean_kib", Metric::MeanKib),
    ("data_gib", Metric::DataGib),
    ("randomness", Metric::Randomness),
    ("reuse_gib", Metric::ReuseGib),
];

/// Metrics that are followed by what they are of.
const OF_MORE: [&str; 16] = [
    "latency_in_tenth",
    "waiting",
    "waiting_share",
    "busy",
    "cpu",
    "cpus",
    "time_share",
    "busy_share",
    "cost",
    "cost_share",
    "rate",
    "capacity",
    "latency",
    "latency_share",
    "book_share",
    "with_book",
];

/// Parts of the machine.
const PARTS: [(&str, CpuPart); 4] = [
    ("clients", CpuPart::Clients),
    ("services", CpuPart::Services),
    ("controllers", CpuPart::Controllers),
    ("cores", CpuPart::Cores),
];

/// Work: categories of operations, or operations where a metric is of these.
const WORKS: [(&str, Work); 12] = [
    ("cache", CACHE),
    ("engine", ENGINE),
    ("lock", LOCK),
    ("messages", MESSAGES),
    ("client", CLIENT),
    // Finding pages, and noting where they are.
    ("index", &["index"]),
    // Work on the kernel's cache with its locks: what would move into a drive.
    (
        "kernel_manager",
        &["index", "replacement", "copy", "contention"],
    ),
    // An access to the merged index, with taking and giving a frame and the choice of a victim.
    ("fusion", &["fusion_lookup", "frame_update", "clock_step"]),
    // An access to the merged index alone.
    ("fusion_lookup", &["fusion_lookup"]),
    // The choice of a victim: the replacement policy.
    ("fusion_policy", &["clock_step"]),
    // An access to the kernel's index, with updates and lists.
    ("tree", &["tree_lookup", "tree_update", "list_update"]),
    // Commands that a drive takes.
    ("commands", &["command_fetch"]),
];

/// Layers of mean latency.
const LAYERS: [(&str, Layer); 9] = [
    ("own_cache", Layer::Own(CACHE)),
    ("own_engine", Layer::Own(ENGINE)),
    ("own_lock", Layer::Own(LOCK)),
    ("own_messages", Layer::Own(MESSAGES)),
    ("own_client", Layer::Own(CLIENT)),
    ("manager_queue", Layer::ManagerQueue),
    ("drive_queue", Layer::DriveQueue),
    ("drive", Layer::Drive),
    ("other", Layer::Other),
];

/// Several layers.
const LAYER_SETS: [(&str, LayerSet); 5] = [
    // The kernel's I/O engine: its own work, and the drive.
    (
        "kernel_engine",
        &[Layer::Own(ENGINE), Layer::DriveQueue, Layer::Drive],
    ),
    // The kernel's page cache: its own work, locks, and waiting for other requests and write-back.
    (
        "kernel_cache",
        &[Layer::Own(CACHE), Layer::Own(LOCK), Layer::Other],
    ),
    ("manager_queue", &[Layer::ManagerQueue]),
    ("drive_queue", &[Layer::DriveQueue]),
    ("queues", &[Layer::ManagerQueue, Layer::DriveQueue]),
];

const BOOKS: [(&str, Book); 2] = [("drives", Book::Drives), ("clients", Book::Clients)];

/// What a word means.
///
/// # Errors
/// The nearest word, if this one means nothing.
pub fn meaning<T: Copy>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<T, String> {
    let known: Vec<(&str, T)> = known.into_iter().collect();
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let nearest = nearest(word, known.iter().map(|(name, _)| *name));
        format!(
            "no {kind} '{word}', the nearest is '{}'",
            nearest.unwrap_or_default()
        )
    })
}

/// The words after a metric's name.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn next<T: Copy>(
        &mut self,
        kind: &str,
        known: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Result<T, String> {
        let word = self
            .0
            .next()
            .ok_or_else(|| format!("a {kind} is missing"))?;
        meaning(kind, word, known)
    }

    fn part(&mut self) -> Result<CpuPart, String> {
        self.next("part", PARTS)
    }

    fn work(&mut self) -> Result<Work, String> {
        self.next("work", WORKS)
    }

    fn book(&mut self) -> Result<Book, String> {
        self.next("book", BOOKS)
    }

    fn tenth(&mut self) -> Result<u32, String> {
        let number = self.0.next().and_then(|word| word.parse().ok());
        let tenth = number.filter(|number| (1..=TENTHS).contains(number));
        tenth.ok_or_else(|| format!("a number from 1 to {TENTHS} is missing"))
    }

    fn metric(&mut self, name: &str) -> Result<Metric, String> {
        Ok(match name {
            "latency_in_tenth" => Metric::TenthLatency(self.tenth()?),
            "waiting" => Metric::Waiting(self.part()?),
            "waiting_share" => Metric::WaitingShare(self.part()?),
            "busy" => Metric::Busy(self.part()?),
            "cpu" => Metric::Cpu(self.part()?, self.work()?),
            "cpus" => Metric::Cpus(self.part()?, self.work()?),
            "time_share" => Metric::TimeShare(self.part()?, self.work()?),
            "busy_share" => Metric::BusyShare(self.part()?, self.work()?),
            "cost" => Metric::Cost(self.part()?, self.work()?),
            "cost_share" => Metric::CostShare(self.part()?, self.work()?, self.work()?),
            "rate" => Metric::Rate(self.part()?, self.work()?),
            "capacity" => Metric::Capacity(self.part()?, self.work()?, self.part()?),
            "latency" => Metric::Latency(self.next("layer", LAYERS)?),
            "latency_share" => Metric::LatencyShare(self.next("set of layers", LAYER_SETS)?),
            "book_share" => Metric::BookShare(self.book()?),
            "with_book" => Metric::WithBook(self.book()?),
            _ => {
                let more = OF_MORE.into_iter().map(|n| (n, None));
                let known = PLAIN.map(|(n, metric)| (n, Some(metric)));
                let found = meaning("metric", name, known.into_iter().chain(more))?;
                found.expect("the others are above")
            }
        })
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Metric, String> {
        let mut words = Words(text.split_whitespace());
        let name = words.0.next().unwrap_or_default();
        let metric = words.metric(name);
        let metric = metric.map_err(|cause| format!("metric '{text}': {cause}"))?;
        match words.0.next() {
            Some(word) => Err(format!(
                "metric '{text}': nothing is known of '{word}' here"
            )),
            None => Ok(metric),
        }
    }
}
