//! How well pages compress: the table, its file, and measuring one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Codec, CodecError, Compressor, PAGE_BYTES};

/// Bytes that a bucket of the table spans.
const BUCKET_BYTES: u32 = 64;

/// Buckets: the last is of pages that are kept as they are.
const BUCKETS: usize = (PAGE_BYTES / BUCKET_BYTES) as usize;

/// Pages of a chunk by which the gain of chunks is measured: 64 KiB.
const CHUNK_PAGES: usize = 16;

/// What pages of 4 KiB compress to, one by one: how many take how many bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What was measured, or what was assumed.
    pub source: String,
    /// The codec that was measured.
    pub codec: Codec,
    /// Its level.
    pub level: u32,
    /// How many times smaller a chunk of 64 KiB is than its pages one by one.
    chunk_gain: f64,
    /// Pages of zeros only, which are in no bucket.
    #[serde(default)]
    pub zero_pages: u64,
    /// Pages that take 1 to 64 bytes, 65 to 128 and so on; the last bucket has those that a drive
    /// keeps as they are.
    counts: Vec<u64>,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A name that is none.
    #[error(
        "{0:?} names no sizes: use system, incompressible, ratio=R (or ratio=R,spread=S), or table=FILE"
    )]
    Name(String),
    /// A number out of its range.
    #[error("{name} = {value} of compressed sizes must be {rule}")]
    Range {
        /// Which number.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        rule: &'static str,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        cause: std::io::Error,
    },
    /// A file that holds no table.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Table {
    /// An empty table, to be filled by [`Table::measure`].
    fn empty(source: String, codec: Codec, level: u32) -> Table {
        Table {
            source,
            codec,
            level,
            chunk_gain: 1.0,
            zero_pages: 0,
            counts: vec![0; BUCKETS],
        }
    }

    /// Sizes spread evenly around `4096 / ratio`, by `spread` of it to both sides.
    fn even(ratio: f64, spread: f64) -> Result<Table, TableError> {
        let range = |name, value, rule| TableError::Range { name, value, rule };
        if !(1.0..=64.0).contains(&ratio) {
            return Err(range("ratio", ratio, "between 1 and 64"));
        }
        if !(0.0..=1.0).contains(&spread) {
            return Err(range("spread", spread, "between 0 and 1"));
        }
        let mean = f64::from(PAGE_BYTES) / ratio;
        let (from, to) = (mean * (1.0 - spread), mean * (1.0 + spread));
        if to > f64::from(PAGE_BYTES) {
            let rule = "so small that no page is above 4096 bytes: at most ratio - 1";
            return Err(range("spread", spread, rule));
        }
        let source = format!("even between {from:.0} and {to:.0} bytes");
        let mut table = Table::empty(source, Codec::None, 0);
        // As many pages as make the share of every bucket exact to a thousandth.
        const PAGES: u32 = 64_000;
        for page in 0..PAGES {
            let share = (f64::from(page) + 0.5) / f64::from(PAGES);
            let bytes = (from + share * (to - from)).round() as u32;
            table.counts[bucket_of(bytes)] += 1;
        }
        Ok(table)
    }

    /// Measures pages, one chunk after another: `chunks` calls what it is given with each, of any
    /// number of whole pages. Returns the table and how many pages it is of.
    ///
    /// # Errors
    /// A codec that is not built in, or a level that it has not.
    pub fn measure(
        source: String,
        codec: Codec,
        level: u32,
        chunks: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> Result<Table, CodecError> {
        let mut compressor = Compressor::new(codec, level)?;
        let mut table = Table::empty(source, codec, level);
        let page_bytes = PAGE_BYTES as usize;
        let mut out = vec![0; CHUNK_PAGES * page_bytes];
        let (mut singly, mut together) = (0u64, 0u64);
        chunks(&mut |data| {
            for chunk in data.chunks(CHUNK_PAGES * page_bytes) {
                let mut of_pages = 0;
                for page in chunk.chunks_exact(page_bytes) {
                    if page.iter().all(|byte| *byte == 0) {
                        table.zero_pages += 1;
                        continue;
                    }
                    let room = (PAGE_BYTES - BUCKET_BYTES) as usize;
                    let bytes = compressor.compress(page, &mut out[..room]);
                    let bytes = bytes.map_or(PAGE_BYTES, |bytes| bytes as u32);
                    table.counts[bucket_of(bytes)] += 1;
                    of_pages += u64::from(bytes);
                }
                if chunk.len() == CHUNK_PAGES * page_bytes {
                    singly += of_pages;
                    let whole = compressor.compress(chunk, &mut out);
                    together += whole.unwrap_or(chunk.len()) as u64;
                }
            }
        });
        if together > 0 && singly > 0 {
            table.chunk_gain = (singly as f64 / together as f64).max(1.0);
        }
        Ok(table)
    }

    /// Reads the text of a table.
    fn read(text: &str) -> Result<Table, String> {
        let table: Table = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        if table.counts.len() != BUCKETS {
            let found = table.counts.len();
            return Err(format!("counts has {found} buckets and needs {BUCKETS}"));
        }
        if table.pages() == 0 {
            return Err("counts has no page".to_owned());
        }
        if !(1.0..=64.0).contains(&table.chunk_gain) {
            return Err(format!("chunk_gain = {} must be 1 to 64", table.chunk_gain));
        }
        Ok(table)
    }

    /// The table as the text of a file.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a table has nothing that TOML has not")
    }

    /// Pages that are not zeros.
    pub fn pages(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many times smaller a chunk of 64 KiB is than its pages one by one.
    pub fn chunk_gain(&self) -> f64 {
        self.chunk_gain
    }

    /// Mean bytes of a page that is not zeros.
    pub fn mean_bytes(&self) -> f64 {
        let sum: f64 = (0..BUCKETS)
            .map(|b| self.counts[b] as f64 * middle(b))
            .sum();
        sum / self.pages() as f64
    }

    /// Share of the pages that do not compress.
    pub fn raw_share(&self) -> f64 {
        self.counts[BUCKETS - 1] as f64 / self.pages() as f64
    }

    /// Pages by the bytes they take: upper end of each bucket, and how many are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, u64)> {
        (1..)
            .map(|b| b * BUCKET_BYTES)
            .zip(self.counts.iter().copied())
    }

    /// The size that `share` of the pages are below.
    pub(crate) fn quantile(&self, share: f64) -> u32 {
        let wanted = share * self.pages() as f64;
        let mut before = 0.0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = count as f64;
            if before + count > wanted {
                if bucket == BUCKETS - 1 {
                    return PAGE_BYTES;
                }
                let within = (wanted - before) / count * f64::from(BUCKET_BYTES);
                return bucket as u32 * BUCKET_BYTES + 1 + within as u32;
            }
            before += count;
        }
        PAGE_BYTES
    }
}

fn bucket_of(bytes: u32) -> usize {
    (bytes.clamp(1, PAGE_BYTES) - 1) as usize / BUCKET_BYTES as usize
}

/// The bytes that a page of the bucket takes on average.
fn middle(bucket: usize) -> f64 {
    match bucket {
        _ if bucket == BUCKETS - 1 => f64::from(PAGE_BYTES),
        _ => (bucket as f64 + 0.5) * f64::from(BUCKET_BYTES) + 0.5,
    }
}

/// Which table: its name in configurations and on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TableName {
    /// `system`: programs, libraries and texts of a Linux system, by zlib.
    System,
    /// `ratio=R,spread=S`: even around a mean.
    Even {
        /// Mean bytes of a page are 4096 by this.
        ratio: f64,
        /// How far sizes are from the mean, as a share of it.
        spread: f64,
    },
    /// `table=FILE`.
    File(PathBuf),
}

impl TableName {
    /// Pages that do not compress: `ratio=1`.
    pub const INCOMPRESSIBLE: TableName = TableName::Even {
        ratio: 1.0,
        spread: 0.0,
    };

    /// The table of this name.
    ///
    /// # Errors
    /// A file that cannot be read or holds no table.
    pub fn load(&self) -> Result<Table, TableError> {
        match self {
            TableName::System => {
                let read = Table::read(include_str!("system.toml"));
                Ok(read.expect("a test reads the table that comes with the program"))
            }
            TableName::Even { ratio, spread } => Table::even(*ratio, *spread),
            TableName::File(path) => load_file(path),
        }
    }
}

fn load_file(path: &Path) -> Result<Table, TableError> {
    let text = std::fs::read_to_string(path).map_err(|cause| TableError::Read {
        path: path.to_owned(),
        cause,
    })?;
    Table::read(&text).map_err(|why| TableError::File {
        path: path.to_owned(),
        why,
    })
}

impl FromStr for TableName {
    type Err = TableError;

    fn from_str(name: &str) -> Result<TableName, TableError> {
        let unknown = || TableError::Name(name.to_owned());
        match name {
            "system" => return Ok(TableName::System),
            "incompressible" => return Ok(TableName::INCOMPRESSIBLE),
            _ => {}
        }
        if let Some(path) = name.strip_prefix("table=") {
            return Ok(TableName::File(path.into()));
        }
        let mut parts = name.split(',');
        let number = |part: Option<&str>, key: &str| {
            let value = part?.strip_prefix(key)?.parse::<f64>().ok()?;
            value.is_finite().then_some(value)
        };
        let ratio = number(parts.next(), "ratio=").ok_or_else(unknown)?;
        let spread = match parts.next() {
            None => 0.0,
            part => number(part, "spread=").ok_or_else(unknown)?,
        };
        if parts.next().is_some() {
            return Err(unknown());
        }
        Table::even(ratio, spread)?;
        Ok(TableName::Even { ratio, spread })
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableName::System => f.write_str("system"),
            TableName::Even { ratio, .. } if *ratio == 1.0 => f.write_str("incompressible"),
            TableName::Even { ratio, spread: 0.0 } => write!(f, "ratio={ratio}"),
            TableName::Even { ratio, spread } => write!(f, "ratio={ratio},spread={spread}"),
            TableName::File(path) => write!(f, "table={}", path.display()),
        }
    }
}

impl TryFrom<String> for TableName {
    type Error = TableError;

    fn try_from(name: String) -> Result<TableName, TableError> {
        name.parse()
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> String {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_system_is_there_and_compresses_to_about_a_half() {
        let table = TableName::System.load().unwrap();
        assert!(table.pages() > 1000);
        let ratio = f64::from(PAGE_BYTES) / table.mean_bytes();
        assert!((1.5..3.0).contains(&ratio), "{ratio}");
        assert_eq!(Table::read(&table.to_text()).unwrap(), table);
    }

    #[test]
    fn names_come_back_and_wrong_ones_say_what_there_is() {
        for name in [
            "system",
            "incompressible",
            "ratio=2",
            "ratio=2,spread=0.5",
            "table=/a/b",
        ] {
            assert_eq!(name.parse::<TableName>().unwrap().to_string(), name);
        }
        for name in [
            "",
            "Ratio=2",
            "ratio=",
            "ratio=2,",
            "ratio=nan",
            "ratio=2,spread=.1,x",
        ] {
            let error = name.parse::<TableName>().unwrap_err().to_string();
            assert!(error.contains("use system"), "{error}");
        }
        for name in [
            "ratio=0.5",
            "ratio=65",
            "ratio=2,spread=1.1",
            "ratio=1.5,spread=1",
        ] {
            let error = name.parse::<TableName>().unwrap_err().to_string();
            assert!(error.contains("must be"), "{error}");
        }
    }

    #[test]
    fn quantiles_grow_and_are_as_the_counts() {
        let mut table = Table::empty(String::new(), Codec::Zlib, 1);
        table.counts[0] = 1;
        table.counts[BUCKETS - 1] = 3;
        assert!(table.quantile(0.0) == 1 && table.quantile(0.24) <= 64);
        assert_eq!(table.quantile(0.26), PAGE_BYTES);
        assert_eq!(table.raw_share(), 0.75);
    }

    #[test]
    fn pages_are_measured_one_by_one_and_chunks_together() {
        let zeros = vec![0u8; 4096];
        let text: Vec<u8> = b"a page of text "
            .iter()
            .copied()
            .cycle()
            .take(16 * 4096)
            .collect();
        let measured = Table::measure("test".into(), Codec::Zlib, 1, |each| {
            each(&zeros);
            each(&text);
        });
        let table = measured.unwrap();
        assert_eq!((table.zero_pages, table.pages()), (1, 16));
        assert!(table.mean_bytes() < 100.0);
        assert!(table.chunk_gain() > 1.2, "{}", table.chunk_gain());
    }

    #[test]
    fn files_that_hold_no_table_are_refused_in_words() {
        let error = TableName::File("/nowhere/table.toml".into())
            .load()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nowhere/table.toml")
        );
        assert!(Table::read("counts = [1]").is_err());
        let few = "source = \"\"\ncodec = \"zlib\"\nlevel = 1\nchunk_gain = 1.0\ncounts = [1]\n";
        assert_eq!(
            Table::read(few).unwrap_err(),
            "counts has 1 buckets and needs 64"
        );
    }
}
