//! How a file is opened: the options of the standard library, and what they may do together.

use std::path::Path;

use crate::{File, PageCache, PageCacheError};

/// How a file is opened, as by [`std::fs::OpenOptions`]: the same options with the same meaning, and the cache to open
/// it in.
///
/// ```
/// use wharf_cache::{OpenOptions, PageCache, PageCacheOptions};
///
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("log");
/// let cache = PageCache::new(&PageCacheOptions::default())?;
/// let file = OpenOptions::new().read(true).append(true).create(true).open(&cache, &path)?;
/// # drop(file);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

/// What a handle may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub read: bool,
    pub write: bool,
    /// What [`std::io::Write`] writes goes to the end of the file.
    pub append: bool,
}

impl Access {
    /// To read, and to write unless `read_only`.
    pub fn to_all(read_only: bool) -> Access {
        Access {
            read: true,
            write: !read_only,
            append: false,
        }
    }
}

impl OpenOptions {
    /// None is set: [`OpenOptions::read`], [`OpenOptions::write`] or [`OpenOptions::append`] has to be.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// The handle reads.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// The handle writes. Pages that are written in part are read: the file must be readable, too.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// The handle writes, and what [`std::io::Write`] writes goes to the end of the file: one write after the other, whichever
    /// threads and handles of this cache append. Writes at an offset go there.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self
    }

    /// The file is cut to no bytes. Wants `write`.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// The file is made, empty, if there is none. Wants `write` or `append`.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// The file is made, empty; one that is there is an error. Wants `write` or `append`.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Opens a file or a block device in `cache`. One that is open already, by whatever path, is the same file: its
    /// pages are in the cache once.
    ///
    /// The file is read and written around the kernel's page cache where the file system can (O_DIRECT). Other
    /// programs, and other ways of this one, should not write it meanwhile.
    ///
    /// # Errors
    /// Options that do not go together; if the file cannot be opened; too many files.
    pub fn open(&self, cache: &PageCache, path: impl AsRef<Path>) -> Result<File, PageCacheError> {
        self.check().map_err(PageCacheError::OpenOptions)?;
        let access = Access {
            read: self.read,
            write: self.write || self.append,
            append: self.append,
        };
        let makes = self.create || self.create_new;
        let file = cache.open_as(path.as_ref(), access, makes, self.create_new)?;
        if self.truncate && file.can_be_cut() {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// What the system would refuse with `EINVAL`, and why.
    fn check(&self) -> Result<(), &'static str> {
        let writes = self.write || self.append;
        if !self.read && !writes {
            return Err("choose read, write or append");
        }
        if !writes && (self.truncate || self.create || self.create_new) {
            return Err("truncate, create and create_new want write or append");
        }
        if self.truncate && self.append && !self.create_new {
            return Err("truncate and append exclude each other");
        }
        Ok(())
    }
}
