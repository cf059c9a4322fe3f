//! `wharf fs cp`: files into an image, out of one, or within one.
//!
//! Both sides are a [`Side`], this machine's files or those of an image; the copy itself knows only
//! that. What is in an image is not trusted: a name that would lead elsewhere is refused, and no
//! directory is entered through a symbolic link that a copy has made.

mod kept;
mod side;

use std::io;
use std::path::PathBuf;

use kept::Kept;
use side::{Entry, Side, Target};

use super::{Failure, close, input, open};
use crate::files::Mount;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes that are a hole in the copy, if all of them are zeros.
const HOLE_BYTES: usize = 64 << 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to copy, and last where to. IMAGE:/PATH is in an image, all else on this machine. An
    /// existing directory is copied into.
    #[arg(required = true, num_args = 2.., value_name = "SOURCE... DESTINATION")]
    paths: Vec<String>,
    /// Directories too, with all that is in them.
    #[arg(short, long)]
    recursive: bool,
    /// Files and directories keep their times and extended attributes (user.*), and their owners where whoever runs this
    /// may give files away.
    #[arg(short, long)]
    preserve: bool,
}

/// A path of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    image: Option<PathBuf>,
    path: Vec<u8>,
}

fn place(text: &str) -> Place {
    match text.find(":/") {
        Some(at) if at > 0 => Place {
            image: Some(text[..at].into()),
            path: text[at + 1..].into(),
        },
        _ => Place {
            image: None,
            path: text.into(),
        },
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let places: Vec<Place> = args.paths.iter().map(|text| place(text)).collect();
    let mut images = places.iter().filter_map(|place| place.image.as_ref());
    let Some(image) = images.next() else {
        return Err(input(
            "none of the paths is in an image: write IMAGE:/PATH for those that are",
        ));
    };
    if images.any(|other| other != image) {
        return Err(input(
            "the paths are in several images: copy by a directory of this machine",
        ));
    }
    let mount = open(image)?;
    let copied = copy_all(&mount, &places, args);
    let synced = mount.sync_all();
    close(image, mount)?;
    copied?;
    synced.map_err(|error| Failure::Run(format!("{}: {error}", image.display())))
}

fn copy_all(mount: &Mount, places: &[Place], args: &Args) -> Result<(), Failure> {
    let side = |place: &Place| match place.image {
        Some(_) => Side::Image(mount),
        None => Side::Machine,
    };
    let (to, sources) = places.split_last().expect("there are two at least");
    let to_side = side(to);
    let into = match to_side.look(&to.path, true) {
        Ok(Some(there)) => there.is_directory(),
        Ok(None) => false,
        Err(error) => return Err(told(&to.path, &error)),
    };
    if sources.len() > 1 && !into {
        let shown = String::from_utf8_lossy(&to.path);
        return Err(input(format!("{shown}: is no directory")));
    }
    for from in sources {
        let mut target = to.path.clone();
        if into {
            let name = from
                .path
                .rsplit(|byte| *byte == b'/')
                .find(|n| !n.is_empty());
            let name = name.filter(|name| *name != b"." && *name != b"..");
            target.push(b'/');
            target.extend_from_slice(name.unwrap_or_default());
        }
        let copy = Copy {
            from: side(from),
            to: to_side,
            recursive: args.recursive,
            preserve: args.preserve,
        };
        let source = copy.from.look(&from.path, true);
        match source.map_err(|error| told(&from.path, &error))? {
            Some(entry) => copy.one(&from.path, &entry, &target)?,
            None => {
                let shown = String::from_utf8_lossy(&from.path);
                return Err(input(format!("{shown}: no such file or directory")));
            }
        }
    }
    Ok(())
}

/// An error of one path.
fn told(path: &[u8], error: &std::io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", String::from_utf8_lossy(path)))
}

struct Copy<'a> {
    from: Side<'a>,
    to: Side<'a>,
    recursive: bool,
    preserve: bool,
}

impl Copy<'_> {
    fn one(&self, from: &[u8], entry: &Entry, to: &[u8]) -> Result<(), Failure> {
        match entry {
            Entry::File { mode } => self.file(from, *mode, to),
            Entry::Symlink => {
                let target = self.from.read_link(from).map_err(|e| told(from, &e))?;
                self.to.symlink(&target, to).map_err(|e| told(to, &e))
            }
            Entry::Directory { mode } if self.recursive => self.directory(from, *mode, to),
            Entry::Directory { .. } => Err(input(format!(
                "{}: is a directory: give --recursive to copy it",
                String::from_utf8_lossy(from)
            ))),
            Entry::Other => Err(input(format!(
                "{}: is no file, directory or symbolic link",
                String::from_utf8_lossy(from)
            ))),
        }
    }

    fn directory(&self, from: &[u8], mode: u16, to: &[u8]) -> Result<(), Failure> {
        if self.from.is_same(self.to) && is_within(to, from) {
            return Err(input(format!(
                "{}: a directory cannot be copied into itself",
                String::from_utf8_lossy(from)
            )));
        }
        // The link itself: nothing is written where one that was copied before leads.
        match self.to.look(to, false).map_err(|e| told(to, &e))? {
            Some(Entry::Directory { .. }) => {}
            Some(_) => {
                let shown = String::from_utf8_lossy(to);
                return Err(input(format!("{shown}: exists, and is no directory")));
            }
            None => self.to.mkdir(to).map_err(|e| told(to, &e))?,
        }
        for name in self.from.names(from).map_err(|e| told(from, &e))? {
            if matches!(&name[..], b"" | b"." | b"..") || name.contains(&b'/') {
                return Err(Failure::Run(format!(
                    "{}: has an entry whose name leads elsewhere",
                    String::from_utf8_lossy(from)
                )));
            }
            let child = |directory: &[u8]| [directory, b"/", &name].concat();
            let (from, to) = (child(from), child(to));
            let entry = self.from.look(&from, false).map_err(|e| told(&from, &e))?;
            // What has gone meanwhile is not copied.
            if let Some(entry) = entry {
                self.one(&from, &entry, &to)?;
            }
        }
        self.finish(from, mode, to)
    }

    /// What is copied, bytes and entries, gets its permission bits, and what it is to keep.
    fn finish(&self, from: &[u8], mode: u16, to: &[u8]) -> Result<(), Failure> {
        let kept = match self.preserve {
            true => Some(Kept::of(self.from, from).map_err(|e| told(from, &e))?),
            false => None,
        };
        if let Some(kept) = &kept {
            kept.give_before_mode(self.to, to)
                .map_err(|e| told(to, &e))?;
        }
        self.to.set_mode(to, mode).map_err(|e| told(to, &e))?;
        match kept {
            Some(kept) => kept.give_times(self.to, to).map_err(|e| told(to, &e)),
            None => Ok(()),
        }
    }

    fn file(&self, from: &[u8], mode: u16, to: &[u8]) -> Result<(), Failure> {
        if self.from.is_same(self.to) && self.from.is_one(from, to).map_err(|e| told(from, &e))? {
            return Err(input(format!(
                "{}: source and destination are the same file",
                String::from_utf8_lossy(from)
            )));
        }
        let mut source = self.from.open(from).map_err(|e| told(from, &e))?;
        let target = self.to.create(to).map_err(|e| told(to, &e))?;
        let (mut chunk, mut end) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let bytes = source.read(&mut chunk).map_err(|e| told(from, &e))?;
            if bytes == 0 {
                break;
            }
            write_but_zeros(&*target, end, &chunk[..bytes]).map_err(|e| told(to, &e))?;
            end += bytes as u64;
        }
        target.set_bytes(end).map_err(|e| told(to, &e))?;
        drop(target);
        self.finish(from, mode, to)
    }
}

/// Writes what is not zeros: the rest are holes.
fn write_but_zeros(target: &dyn Target, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut at = at;
    for pages in bytes.chunks(HOLE_BYTES) {
        if pages.iter().any(|byte| *byte != 0) {
            target.write(at, pages)?;
        }
        at += pages.len() as u64;
    }
    Ok(())
}

/// Whether a path lies in a directory, or is it, as the names say.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let names = |path: &'_ [u8]| -> Vec<Vec<u8>> {
        let names = path.split(|byte| *byte == b'/');
        let names = names.filter(|name| !name.is_empty() && *name != b".");
        names.map(<[u8]>::to_vec).collect()
    };
    names(path).starts_with(&names(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_an_image_begins_with_a_slash() {
        let inside = |image: &str, path: &str| Place {
            image: Some(image.into()),
            path: path.into(),
        };
        let outside = |path: &str| Place {
            image: None,
            path: path.into(),
        };
        assert_eq!(place("a.img:/b/c"), inside("a.img", "/b/c"));
        assert_eq!(place("/x/a.img:/"), inside("/x/a.img", "/"));
        assert_eq!(place("a:b"), outside("a:b"));
        assert_eq!(place("./a"), outside("./a"));
        assert_eq!(place(":/a"), outside(":/a"));
    }

    #[test]
    fn a_directory_is_within_itself_and_what_leads_to_it() {
        for (path, directory, is) in [
            ("/a/b", "/a", true),
            ("/a//./b", "/a/", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/", "/a", false),
        ] {
            assert_eq!(
                is_within(path.as_bytes(), directory.as_bytes()),
                is,
                "{path}"
            );
        }
    }
}
