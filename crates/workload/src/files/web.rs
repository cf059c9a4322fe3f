//! filebench's web server and web proxy, as published (`workloads/webserver.f` and `webproxy.f` of filebench 1.4.9 and 1.5).
//!
//! | | `webserver` | `webproxy` |
//! |---|---|---|
//! | files | 1,000 and a log | 10,000, of which 80 % are there |
//! | directories (`dirwidth`) | 20 names in each | one flat one (1,000,000) |
//! | sizes | gamma with shape 1.5 around 16 KiB (filebench's own default for a size) | the same |
//! | threads | 100 | 100 |
//! | a thread's loop | ten times: open any file, read it whole, close it; append up to 16 KiB to the log | delete a file; create one, append up to 16 KiB, close; five times: open one, read it whole, close it |
//! | size of a read (`iosize`) | 1 MiB | 1 MiB |
//!
//! Ours are:
//!
//! * Sizes are whole pages, one at least, and no longer than a region.
//! * The log is a file of the same region as the others; a full one is cut to nothing. Each thread keeps it open.
//! * A thread of the proxy has files of its own, as in the other personalities, all in one directory. Any thread of the server
//!   reads any file: nobody writes them.

use crate::files::flow::{Act, Pick, Step};
use crate::files::{Personality, Regions};
use crate::generate::SeededRng;
use crate::request::PAGE_BYTES;

/// Mean size of a file.
const FILE_BYTES_MEAN: f64 = 16384.0;

/// Names in a directory of the server.
const SERVER_WIDTH: u32 = 20;

/// Bytes of a region if nothing is said: room for all but one file of a hundred, and for more of a log.
pub(super) fn region_bytes(personality: Personality) -> Option<u64> {
    match personality {
        Personality::Webserver => Some(256 << 10),
        Personality::Webproxy => Some(64 << 10),
        _ => None,
    }
}

const READ: Step = (Pick::Existing, Act::ReadFresh);

const PROXY: &[Step] = &[
    (Pick::Existing, Act::Delete),
    (Pick::New, Act::Create),
    (Pick::Same, Act::Append),
    READ,
    READ,
    READ,
    READ,
    READ,
];

const PAGE: Step = (Pick::Any, Act::ReadFresh);

const SERVER: &[Step] = &[
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    PAGE,
    (Pick::Log, Act::Append),
];

/// What a thread does, if it is one of these.
pub(super) fn steps(personality: Personality) -> Option<&'static [Step]> {
    match personality {
        Personality::Webserver => Some(SERVER),
        Personality::Webproxy => Some(PROXY),
        _ => None,
    }
}

/// Sizes of all files of one of these.
pub(super) fn sizes(regions: &Regions, rng: &mut SeededRng) -> Vec<u64> {
    let size = |_| {
        let pages = gamma(rng) * FILE_BYTES_MEAN / 1.5 / PAGE_BYTES as f64;
        let pages = libm::round(pages) as u64;
        (pages.max(1) * PAGE_BYTES).min(regions.bytes)
    };
    (0..regions.files).map(size).collect()
}

/// A draw of the gamma distribution with shape 1.5 and scale 1: an exponential one, and half the square of a normal one.
fn gamma(rng: &mut SeededRng) -> f64 {
    let mut unit = || ((rng.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (whole, half, angle) = (unit(), unit(), unit());
    let cos = libm::cos(std::f64::consts::TAU * angle);
    -libm::log(whole) - libm::log(half) * cos * cos
}

/// The directories that a file is in, from the first on, and its name.
pub(super) fn path(personality: Personality, regions: &Regions, file: u32) -> Option<Vec<String>> {
    let name = format!("f{file:06}");
    match personality {
        Personality::Webproxy => Some(vec!["bigfileset".into(), name]),
        Personality::Webserver if file + 1 == regions.files => Some(vec!["logfiles".into(), name]),
        Personality::Webserver => {
            // As many levels as leave no more than the width in any directory.
            let mut parts = vec![name];
            let (mut number, mut count) = (file, regions.files - 1);
            while count > SERVER_WIDTH {
                number /= SERVER_WIDTH;
                count = count.div_ceil(SERVER_WIDTH);
                parts.push(format!("d{:02}", number % SERVER_WIDTH));
            }
            parts.push("bigfileset".into());
            parts.reverse();
            Some(parts)
        }
        _ => None,
    }
}
