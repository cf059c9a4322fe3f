//! A task with a directory of its own, and what it knows of it.

use wharf_host::Extent;
use wharf_host::files::{
    Attributes, Errno, FileClient, FileError, Handle, Kind, LIST_START, OpenFlags, Rename,
};
use wharf_runtime::{Rng, Seed};

use crate::model::{Model, Object};

/// The longest file of a test: regions are of 50 pages.
const BYTES_MAX: u64 = 60_000;

pub struct Owner {
    rng: Rng,
    model: Model,
    /// Its directory, as the model and the file system know it.
    home: String,
    /// Open files, with the contents that they are of.
    open: Vec<(Handle, usize)>,
    /// Whether it makes symbolic links.
    links: bool,
}

fn errno<T>(result: Result<T, FileError>) -> Result<T, Errno> {
    result.map_err(|error| error.errno())
}

impl Owner {
    pub fn new(seed: u64, number: u32) -> Owner {
        Owner {
            rng: Seed(seed).child("owner").index(number.into()).rng(),
            model: Model::new(),
            home: format!("/world{number}/home"),
            open: Vec::new(),
            links: true,
        }
    }

    /// One that makes no symbolic links, for file systems that have another reason than the model for refusing to make what
    /// ends with a slash.
    #[allow(dead_code)] // one of the test programs that have this file needs it
    pub fn without_links(self) -> Owner {
        Owner {
            links: false,
            ..self
        }
    }

    pub async fn begin(&mut self, files: &impl FileClient) {
        for path in [&self.home[..self.home.len() - 5], &self.home] {
            let made = files.mkdir(path.as_bytes(), 0o700).await;
            assert_eq!(errno(made), self.model.mkdir(path));
        }
    }

    /// A path of few names, so that operations meet; some are odd.
    fn path(&mut self) -> String {
        let mut path = self.home.clone();
        for _ in 0..1 + self.rng.below(3) {
            let odd = ["..", ".", "ln", "lm"];
            let name = match self.rng.below(12) {
                0..8 => ["a", "b", "c", "d"][self.rng.below(4) as usize],
                8 => odd[self.rng.below(2) as usize],
                _ => odd[2 + self.rng.below(2) as usize],
            };
            // Never above its own world, also if the name before is a link to its home.
            let letter = path[self.home.len()..]
                .strip_prefix('/')
                .is_some_and(|rest| {
                    let last = rest.rsplit('/').next();
                    last.is_some_and(|last| last.len() == 1 && last != ".")
                });
            if name == ".." && !letter {
                continue;
            }
            path = format!("{path}/{name}");
        }
        if self.rng.chance(1, 20) {
            path.push('/');
        }
        path
    }

    fn target(&mut self) -> String {
        let name = ["a", "b/c", "./d", "ln", "a/"][self.rng.below(5) as usize];
        match self.rng.below(2) {
            0 => name.into(),
            _ => format!("{}/{name}", self.home),
        }
    }

    fn extent(&mut self) -> Extent {
        let longest = [64, 4096, 9000][self.rng.below(3) as usize];
        let bytes = 1 + self.rng.below(longest);
        let mut offset = self.rng.below(BYTES_MAX - bytes);
        if self.rng.chance(1, 3) {
            offset = offset / 4096 * 4096;
        }
        Extent::new(offset, bytes)
    }

    pub async fn step(&mut self, files: &impl FileClient) {
        match self.rng.below(100) {
            0..16 => self.open(files).await,
            16..24 => self.close(files).await,
            24..70 if !self.open.is_empty() => self.use_open(files).await,
            _ => self.use_names(files).await,
        }
    }

    async fn open(&mut self, files: &impl FileClient) {
        let path = self.path();
        let choices = [true, false, false].map(|often| self.rng.below(if often { 3 } else { 5 }));
        let how = [choices[0] > 0, choices[1] == 0, choices[2] == 0];
        let flags = OpenFlags {
            create: how[0],
            exclusive: how[1],
            truncate: how[2],
            ..OpenFlags::UPDATE
        };
        let opened = errno(files.open(path.as_bytes(), flags, 0o644).await);
        let expected = self.model.open(&path, how);
        match (opened, expected) {
            (Ok(opened), Ok(file)) => self.open.push((opened.handle, file)),
            (Err(_), Err(_)) if !self.links && how[0] && path.ends_with('/') => {}
            (Err(found), Err(expected)) => assert_eq!(found, expected, "{path} {how:?}"),
            other => panic!("{path} {how:?}: {other:?}"),
        }
    }

    async fn close(&mut self, files: &impl FileClient) {
        if self.open.is_empty() {
            return;
        }
        let at = self.rng.below(self.open.len() as u64) as usize;
        let (handle, _) = self.open.swap_remove(at);
        files.close(handle).await.unwrap();
        assert_eq!(errno(files.close(handle).await), Err(Errno::EBADF));
    }

    async fn use_open(&mut self, files: &impl FileClient) {
        let (handle, file) = self.open[self.rng.below(self.open.len() as u64) as usize];
        let extent = self.extent();
        let (from, to) = (
            extent.offset as usize,
            (extent.offset + extent.bytes) as usize,
        );
        let mut data = vec![0; extent.bytes as usize];
        data.fill_with(|| self.rng.next_u32() as u8);
        let choice = self.rng.below(20);
        let bytes = &mut self.model.contents[file];
        match choice {
            0..5 => {
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(&data);
                if !files.write_now(handle, extent, &data) {
                    files.write_at(handle, extent, &data).await.unwrap();
                }
            }
            5..8 if bytes.len() + data.len() <= BYTES_MAX as usize => {
                let appended = files.append(handle, extent.bytes, &data).await.unwrap();
                assert_eq!(appended.offset, bytes.len() as u64);
                bytes.extend(&data);
            }
            8 => {
                bytes.resize(from, 0);
                files.set_len(handle, extent.offset).await.unwrap();
            }
            9 => {
                let end = to.min(bytes.len());
                bytes[from.min(end)..end].fill(0);
                files.punch(handle, extent).await.unwrap();
            }
            10 => files
                .sync(handle, extent, self.rng.chance(1, 2))
                .await
                .unwrap(),
            11 => {
                let attributes = files.attributes(handle).await.unwrap();
                assert_eq!(attributes.bytes, bytes.len() as u64);
            }
            _ => {
                let expected = &bytes[from.min(bytes.len())..to.min(bytes.len())];
                let now = files.read_now(handle, extent, &mut data);
                let read = match now {
                    Some(read) => read,
                    None => {
                        files
                            .read_at(handle, extent, &mut data)
                            .await
                            .unwrap()
                            .bytes
                    }
                };
                assert_eq!(read, expected.len() as u64);
                assert!(data[..expected.len()] == *expected, "{extent:?}");
            }
        }
    }

    async fn use_names(&mut self, files: &impl FileClient) {
        let (path, other) = (self.path(), self.path());
        let (bytes, others) = (path.as_bytes(), other.as_bytes());
        let model = &mut self.model;
        match self.rng.below(9) {
            0 => assert_eq!(
                errno(files.mkdir(bytes, 0o755).await),
                model.mkdir(&path),
                "{path}"
            ),
            1 => assert_eq!(
                errno(files.rmdir(bytes).await),
                model.rmdir(&path),
                "{path}"
            ),
            2 => assert_eq!(
                errno(files.remove(bytes).await),
                model.remove(&path),
                "{path}"
            ),
            3 | 4 => {
                let replaces = self.rng.chance(4, 5);
                let how = if replaces {
                    Rename::Replace
                } else {
                    Rename::NoReplace
                };
                // Which of two symbolic links is the same file the model does not know.
                let is_link =
                    |path| matches!(model.stat(path, false), Ok((Object::Symlink(_), ..)));
                if is_link(&path) && is_link(&other) {
                    return;
                }
                let renamed = errno(files.rename(bytes, others, how).await);
                let expected = model.rename(&path, &other, replaces);
                assert_eq!(renamed, expected, "{path} to {other}");
            }
            5 => {
                let linked = errno(files.link(bytes, others).await);
                assert_eq!(linked, model.link(&path, &other), "{path} as {other}");
            }
            6 if !self.links => {}
            6 => {
                let target = self.target();
                let made = errno(files.symlink(target.as_bytes(), bytes).await);
                assert_eq!(
                    made,
                    self.model.symlink(&target, &path),
                    "{path} to {target}"
                );
                let read = errno(files.readlink(bytes).await);
                let read = read.map(|target| String::from_utf8(target).unwrap());
                assert_eq!(read, self.model.readlink(&path), "{path}");
            }
            7 => self.list(files, &path).await,
            _ => {
                let follow = self.rng.chance(1, 2);
                let found = errno(files.stat(bytes, follow).await);
                let expected = self.model.stat(&path, follow);
                same_attributes(&path, &found, &expected);
            }
        }
    }

    async fn list(&mut self, files: &impl FileClient, path: &str) {
        let expected = self.model.list(path);
        let opened = errno(files.open(path.as_bytes(), OpenFlags::DIRECTORY, 0).await);
        let (handle, expected) = match (opened, expected) {
            (Ok(opened), Ok(expected)) => (opened.handle, expected),
            (Err(found), Err(expected)) => return assert_eq!(found, expected, "{path}"),
            (found, expected) => panic!("{path}: {found:?} {expected:?}"),
        };
        let (mut entries, mut cookie) = (Vec::new(), LIST_START);
        while !files.list(handle, cookie, 2, &mut entries).await.unwrap() {
            cookie = entries.last().expect("there are more").cookie;
        }
        files.close(handle).await.unwrap();
        let mut names: Vec<String> = entries
            .iter()
            .map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
            .collect();
        names.sort();
        assert_eq!(names, expected.into_iter().collect::<Vec<_>>(), "{path}");
    }

    /// All names and all bytes are the model's.
    pub async fn finish(&mut self, files: &impl FileClient) {
        let all: Vec<String> = self.model.objects.keys().cloned().collect();
        for path in all.iter().filter(|path| path.starts_with(&self.home)) {
            let found = errno(files.stat(path.as_bytes(), false).await);
            let expected = self.model.stat(path, false);
            same_attributes(path, &found, &expected);
            if let Ok((Object::File(file), bytes, _)) = expected {
                let handle = files
                    .open(path.as_bytes(), OpenFlags::READ, 0)
                    .await
                    .unwrap()
                    .handle;
                let mut data = vec![1; bytes as usize];
                let read = files
                    .read_at(handle, Extent::new(0, bytes), &mut data)
                    .await
                    .unwrap();
                assert_eq!(read.bytes, bytes, "{path}");
                let expected = &self.model.contents[file];
                let wrong = (0..expected.len()).find(|at| data[*at] != expected[*at]);
                assert_eq!(wrong, None, "{path}");
                files.close(handle).await.unwrap();
            }
        }
        for (handle, file) in std::mem::take(&mut self.open) {
            let bytes = self.model.contents[file].len();
            let mut data = vec![1; bytes];
            let whole = Extent::new(0, bytes as u64);
            files.read_at(handle, whole, &mut data).await.unwrap();
            assert!(data == self.model.contents[file]);
            files.close(handle).await.unwrap();
        }
    }
}

fn same_attributes(
    path: &str,
    found: &Result<Attributes, Errno>,
    expected: &Result<(Object, u64, usize), Errno>,
) {
    match (found, expected) {
        (Ok(found), Ok((object, bytes, names))) => {
            let kind = match object {
                Object::Directory => Kind::Directory,
                Object::File(_) => Kind::File,
                Object::Symlink(_) => Kind::Symlink,
            };
            assert_eq!((found.kind, found.bytes), (kind, *bytes), "{path}");
            assert!(
                kind == Kind::Symlink || found.links as usize == *names,
                "{path}: {found:?}"
            );
        }
        (Err(found), Err(expected)) => assert_eq!(found, expected, "{path}"),
        other => panic!("{path}: {other:?}"),
    }
}
