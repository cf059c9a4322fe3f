//! Whether a call is about the drive.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_long};
use std::os::unix::ffi::OsStringExt;

use super::calls::{Call, Leads};
use super::{MEMORY_NAME, OWN_LEAST, text};

/// Bytes of a path at most.
const PATH_MAX: usize = 4096;

const PAGE: usize = 4096;

pub(super) struct Look {
    /// Where the drive is.
    place: Vec<u8>,
    object: Vec<u8>,
    link: Vec<u8>,
    /// Threads that are known to have the shared object, since a program was run last.
    has_object: BTreeSet<u32>,
}

impl Look {
    pub(super) fn new(place: &[u8], object: &[u8]) -> Look {
        Look {
            place: absolute(place),
            object: object.to_vec(),
            link: format!("/memfd:{MEMORY_NAME} (deleted)").into_bytes(),
            has_object: BTreeSet::new(),
        }
    }

    /// What a call of a thread's is about, if that is of the drive.
    pub(super) fn look(
        &mut self,
        thread: u32,
        call: &Call,
        arguments: &[u64; 6],
    ) -> Option<String> {
        if matches!(call.number, libc::SYS_execve | libc::SYS_execveat) {
            self.has_object.clear();
        }
        if call.number == libc::SYS_fcntl && !is_lock(arguments[1] as c_int) {
            return None;
        }
        let leads = call.leads.iter();
        leads.copied().find_map(|leads| match leads {
            Leads::Path(path) => self.path(thread, libc::AT_FDCWD, arguments[path]),
            Leads::At { directory, path } => {
                self.path(thread, arguments[directory] as c_int, arguments[path])
            }
            Leads::Descriptor(number) => self.descriptor(thread, arguments[number] as c_int),
        })
    }

    fn path(&mut self, thread: u32, directory: c_int, at: u64) -> Option<String> {
        let path = match at {
            0 => Vec::new(),
            _ => read_text(thread, at)?,
        };
        if path.is_empty() {
            return self.descriptor(thread, directory);
        }
        if path.starts_with(b"/") {
            return self.is_inside(&path).then(|| text(&path));
        }
        if directory != libc::AT_FDCWD && self.is_of_drive(thread, directory) {
            return Some(format!("{} from descriptor {directory}", text(&path)));
        }
        let from = match directory {
            libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
            _ => format!("/proc/{thread}/fd/{directory}"),
        };
        let whole = [&link(&from)?, &b"/"[..], &path].concat();
        if self.is_inside(&whole) {
            return Some(text(&whole));
        }
        // The kernel does not know that the process is in a directory of the drive.
        let is_there = directory == libc::AT_FDCWD
            && !self.has_object(thread)
            && self.is_in_directory_of_drive(thread);
        is_there.then(|| format!("{} from a directory of the drive", text(&path)))
    }

    fn is_inside(&self, path: &[u8]) -> bool {
        let path = absolute(path);
        let rest = path.strip_prefix(&self.place[..]);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    fn descriptor(&self, thread: u32, number: c_int) -> Option<String> {
        (number >= 0 && self.is_of_drive(thread, number)).then(|| format!("descriptor {number}"))
    }

    /// Whether a descriptor is one of the drive. The shared object opens the same memory for a moment, but not by `O_PATH`.
    fn is_of_drive(&self, thread: u32, number: c_int) -> bool {
        if link(&format!("/proc/{thread}/fd/{number}")).as_deref() != Some(&self.link[..]) {
            return false;
        }
        let told = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{number}"));
        let told = told.unwrap_or_default();
        let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| c_int::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_PATH != 0)
    }

    fn is_in_directory_of_drive(&self, thread: u32) -> bool {
        let Ok(all) = std::fs::read_dir(format!("/proc/{thread}/fd")) else {
            return false;
        };
        let numbers = all
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let own = numbers.filter(|number| *number >= OWN_LEAST);
        own.into_iter()
            .any(|number| self.is_of_drive(thread, number))
    }

    /// Whether a thread's program has the shared object.
    pub(super) fn has_object(&mut self, thread: u32) -> bool {
        if self.has_object.contains(&thread) {
            return true;
        }
        let maps = std::fs::read(format!("/proc/{thread}/maps")).unwrap_or_default();
        let mut lines = maps.split(|byte| *byte == b'\n');
        let has = lines.any(|line| line.ends_with(&self.object));
        if has {
            self.has_object.insert(thread);
        }
        has
    }
}

/// The path of a thread's program.
pub(super) fn program(thread: u32) -> String {
    link(&format!("/proc/{thread}/exe")).map_or_else(|| "?".into(), |path| text(&path))
}

fn is_lock(command: c_int) -> bool {
    let commands = [
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_OFD_GETLK,
        libc::F_OFD_SETLK,
        libc::F_OFD_SETLKW,
    ];
    commands.contains(&command)
}

fn link(path: &str) -> Option<Vec<u8>> {
    let link = std::fs::read_link(path).ok()?;
    Some(link.into_os_string().into_vec())
}

/// A path without `.`, `..` and empty components, by its text.
fn absolute(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
        .iter()
        .flat_map(|part| [b"/", *part].concat())
        .collect()
}

/// A text in the memory of a thread's process.
fn read_text(thread: u32, at: u64) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    let mut buffer = [0; PAGE];
    while found.len() < PATH_MAX {
        let from = at as usize + found.len();
        // Behind the page there may be nothing.
        let bytes = PAGE - from % PAGE;
        let here = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: bytes,
        };
        let there = libc::iovec {
            iov_base: from as *mut _,
            iov_len: bytes,
        };
        let (here, there) = (&raw const here, &raw const there);
        // SAFETY: a buffer of that size. What is there is another process's: it is read or is an error.
        let read = unsafe { libc::process_vm_readv(thread as libc::pid_t, here, 1, there, 1, 0) };
        let read = usize::try_from(read).ok().filter(|read| *read > 0)?;
        let now = &buffer[..read];
        match now.iter().position(|byte| *byte == 0) {
            Some(end) => {
                found.extend_from_slice(&now[..end]);
                return Some(found);
            }
            None => found.extend_from_slice(now),
        }
    }
    None
}

const _: () = assert!(size_of::<c_long>() == size_of::<u64>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_path_says_whether_it_is_inside() {
        let look = Look::new(b"/mnt/drive", b"/lib/object.so");
        for (path, is_inside) in [
            ("/mnt/drive", true),
            ("/mnt/drive/", true),
            ("/mnt//./drive/a", true),
            ("/mnt/x/../drive/a", true),
            ("/mnt/drive/../x", false),
            ("/mnt/drives", false),
            ("/mnt", false),
            ("/", false),
        ] {
            assert_eq!(look.is_inside(path.as_bytes()), is_inside, "{path}");
        }
    }

    #[test]
    fn texts_and_links_of_this_process_are_found() {
        let me = std::process::id();
        let path = std::ffi::CString::new("/mnt/drive/some/file").unwrap();
        let mut look = Look::new(b"/mnt/drive", b"/no/such/object.so");
        let at = path.as_ptr() as u64;
        assert_eq!(
            look.path(me, libc::AT_FDCWD, at).unwrap(),
            "/mnt/drive/some/file"
        );
        let relative = std::ffi::CString::new("some/file").unwrap();
        assert_eq!(
            look.path(me, libc::AT_FDCWD, relative.as_ptr() as u64),
            None
        );
        assert_eq!(look.path(me, libc::AT_FDCWD, 1), None);
        assert!(!look.has_object(me));
        assert_eq!(
            program(me),
            std::env::current_exe().unwrap().display().to_string()
        );
    }
}
