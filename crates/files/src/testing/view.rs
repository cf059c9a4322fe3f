//! All that can be seen of a file system, without handles: a tree by paths.

use std::collections::BTreeMap;
use std::fmt;

use super::subject::Look;
use crate::Out;
use crate::arguments::Seek;
use crate::attributes::{Attributes, Kind};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::limits::{LIST_START, PAGE_BYTES};

/// The pages of a file that are data.
pub type PagesSeen = BTreeMap<u64, Vec<u8>>;

/// What can be seen of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Attributes.
    pub look: Look,
    /// When its bytes or entries changed, and its attributes.
    pub times_ns: (u64, u64),
    /// The first path that leads to it.
    pub first_path: Vec<u8>,
    /// Entries of a directory: of any other thing none.
    pub entries: u64,
    /// Where a symbolic link leads.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Data of a file: 4096 bytes a page, but for the last one.
    pub pages: PagesSeen,
    /// Its number, which is another in every file system.
    pub number: u64,
}

/// What can be seen, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View(pub BTreeMap<Vec<u8>, Seen>);

/// How much of two views is to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    /// Times of changes.
    pub times: bool,
    /// Which pages are holes: else a hole is as good as zeros.
    pub holes: bool,
    /// Bytes of files at all.
    pub bytes: bool,
}

impl Likeness {
    /// All of it.
    pub const ALL: Likeness = Likeness {
        times: true,
        holes: true,
        bytes: true,
    };
    /// All but times.
    pub const NO_TIMES: Likeness = Likeness {
        times: false,
        ..Likeness::ALL
    };
    /// What does not change by writing alone.
    pub const TREE: Likeness = Likeness {
        times: false,
        holes: false,
        bytes: false,
    };
}

/// What two views have that is not alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlike {
    /// Where.
    pub path: Vec<u8>,
    /// What.
    pub what: String,
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.escape_ascii(), self.what)
    }
}

impl View {
    /// The first thing that is not alike; `self` is called the first.
    pub fn unlike(&self, other: &View, like: Likeness) -> Option<Unlike> {
        for (path, seen) in &self.0 {
            let what = match other.0.get(path) {
                None => Some("is only in the first".to_string()),
                Some(found) => seen.unlike(found, like),
            };
            if let Some(what) = what {
                let path = path.clone();
                return Some(Unlike { path, what });
            }
        }
        let only = other.0.keys().find(|path| !self.0.contains_key(*path))?;
        Some(Unlike {
            path: only.clone(),
            what: "is only in the second".to_string(),
        })
    }
}

impl Seen {
    fn unlike(&self, other: &Seen, like: Likeness) -> Option<String> {
        let pair = |name: &str, a: &dyn fmt::Debug, b: &dyn fmt::Debug| {
            let (a, b) = (format!("{a:?}"), format!("{b:?}"));
            (a != b).then(|| format!("{name} {a}, not {b}"))
        };
        pair("it is", &self.look, &other.look)
            .or_else(|| pair("entries", &self.entries, &other.entries))
            .or_else(|| pair("the same as", &self.first_path, &other.first_path))
            .or_else(|| pair("leads to", &self.target, &other.target))
            .or_else(|| pair("extended attributes", &self.xattrs, &other.xattrs))
            .or_else(|| match like.times {
                true => pair("times", &self.times_ns, &other.times_ns),
                false => None,
            })
            .or_else(|| match like.bytes {
                true => pages_unlike(&self.pages, &other.pages, like.holes),
                false => None,
            })
    }
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn pages_unlike(first: &PagesSeen, second: &PagesSeen, holes: bool) -> Option<String> {
    let mut pages: Vec<_> = first.keys().chain(second.keys()).collect();
    pages.sort();
    let is_unlike = |page: &u64| match (first.get(page), second.get(page)) {
        (Some(a), Some(b)) => a != b,
        (Some(bytes), None) | (None, Some(bytes)) => holes || !is_zeros(bytes),
        (None, None) => false,
    };
    let page = pages.into_iter().find(|page| is_unlike(page))?;
    let say = |pages: &PagesSeen| match pages.get(page) {
        None => "a hole".to_string(),
        Some(bytes) if is_zeros(bytes) => "zeros".to_string(),
        Some(bytes) => format!(
            "{} bytes from {:?}",
            bytes.len(),
            &bytes[..bytes.len().min(8)]
        ),
    };
    Some(format!("page {page}: {}, not {}", say(first), say(second)))
}

/// Looks at a whole file system.
///
/// # Errors
/// Of the first look that fails.
pub async fn view<F: FileSystem + ?Sized>(fs: &F) -> Result<View, FileError> {
    let root = fs.attributes(fs.root()).await?;
    let mut view = View::default();
    let mut first_paths: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut todo = vec![(b"/".to_vec(), root)];
    // In order of the paths, so that first paths are the same everywhere.
    while let Some((path, attributes)) = todo.pop() {
        let first = first_paths.entry(attributes.number).or_insert(path.clone());
        let mut seen = look(fs, &attributes).await?;
        seen.first_path = first.clone();
        if attributes.is_directory() {
            let mut below = entries(fs, &attributes).await?;
            seen.entries = attributes.bytes;
            below.sort_by(|a, b| b.0.cmp(&a.0));
            for (name, attributes) in below {
                let slash = path.last().filter(|byte| **byte != b'/').map(|_| b'/');
                let below = path.iter().copied().chain(slash).chain(name);
                todo.push((below.collect(), attributes));
            }
        }
        view.0.insert(path, seen);
    }
    Ok(view)
}

async fn entries<F: FileSystem + ?Sized>(
    fs: &F,
    directory: &Attributes,
) -> Result<Vec<(Vec<u8>, Attributes)>, FileError> {
    let (mut entries, mut cookie, mut is_end) = (Vec::new(), LIST_START, false);
    while !is_end {
        is_end = fs.list(directory.number, cookie, 7, &mut entries).await?;
        cookie = entries.last().map_or(cookie, |entry| entry.cookie);
    }
    let mut found = Vec::new();
    for entry in entries {
        let attributes = fs.lookup(directory.number, &entry.name).await?;
        let is_same = (attributes.number, attributes.kind) == (entry.number, entry.kind);
        assert!(is_same, "{entry:?} is listed, and leads to {attributes:?}");
        found.push((entry.name.into_vec(), attributes));
    }
    Ok(found)
}

/// Looks at one thing; its path and its entries are not known.
///
/// # Errors
/// Of the first look that fails.
pub async fn look<F: FileSystem + ?Sized>(
    fs: &F,
    attributes: &Attributes,
) -> Result<Seen, FileError> {
    let number = attributes.number;
    let mut xattrs = BTreeMap::new();
    for name in fs.xattrs(number).await? {
        let value = fs.xattr(number, &name).await?;
        xattrs.insert(name.into_vec(), value);
    }
    Ok(Seen {
        look: Look::of(attributes),
        times_ns: (attributes.modified_ns, attributes.changed_ns),
        first_path: Vec::new(),
        entries: 0,
        target: match attributes.kind {
            Kind::Symlink => fs.read_link(number).await?,
            _ => Vec::new(),
        },
        xattrs,
        pages: match attributes.kind {
            Kind::File => pages(fs, number).await?,
            _ => PagesSeen::new(),
        },
        number,
    })
}

/// The pages of a file that are data.
///
/// # Errors
/// Of the first look that fails.
pub async fn pages<F: FileSystem + ?Sized>(fs: &F, number: u64) -> Result<PagesSeen, FileError> {
    let (mut pages, mut at) = (PagesSeen::new(), 0);
    loop {
        let first = match fs.seek(number, at, Seek::Data).await {
            Ok(first) => first,
            Err(FileError::Errno(Errno::ENXIO)) => return Ok(pages),
            Err(error) => return Err(error),
        };
        let end = fs.seek(number, first, Seek::Hole).await?;
        assert!(first >= at && end > first, "data lies before a hole");
        at = first;
        while at < end {
            let mut bytes = vec![0; PAGE_BYTES as usize];
            let read = fs.read(number, at, Out::from(&mut bytes), 0).await?;
            bytes.truncate(read as usize);
            pages.insert(at / PAGE_BYTES, bytes);
            at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        }
    }
}
