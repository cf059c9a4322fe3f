//! Where the drive's files appear, and which paths lead there.
//!
//! Problem: a path may lead to the drive or to the machine's own files, and only its text can tell before anybody is
//! asked.
//!
//! Idea: a *place* is an absolute path. What has it as a prefix, component by component, is on the drive: the rest is
//! the path there. `.` and empty components say nothing; `..` goes back one component, by text outside of the place,
//! and inside by the drive itself, but for one that leads out of the place.

use std::borrow::Cow;

/// Bytes that a path has at most.
pub(crate) const BYTES_MAX: usize = libc::PATH_MAX as usize;

/// An absolute path, and the components that it has. It is all in one piece: a program's `malloc` may ask for paths while it makes itself
/// ready, so to look where these lead must not ask it for memory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Place {
    bytes: [u8; BYTES_MAX],
    count: usize,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.text().escape_ascii())
    }
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leads<'a> {
    /// To the drive: a path there, from its root, without a `/` at its beginning; empty for the root itself.
    Inside(Cow<'a, [u8]>),
    /// To the machine's own files, by the path as it is.
    Outside,
    /// Out of the drive, to the machine's own files by this path.
    Out(Vec<u8>),
}

impl Place {
    /// A place of an absolute path other than `/`, without `.` and `..`.
    pub(crate) fn new(path: &[u8]) -> Option<Place> {
        let mut place = Place {
            bytes: [0; BYTES_MAX],
            count: 0,
        };
        if path.first() != Some(&b'/') {
            return None;
        }
        for component in components(path) {
            if component == b".." {
                return None;
            }
            let room = place.bytes.get_mut(place.count..)?;
            let room = room.get_mut(..1 + component.len())?;
            room[0] = b'/';
            room[1..].copy_from_slice(component);
            place.count += 1 + component.len();
        }
        (place.count > 0).then_some(place)
    }

    /// The path, without a `/` at its end.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.count]
    }

    /// Where an absolute path leads.
    pub(crate) fn of<'a>(&self, path: &'a [u8]) -> Leads<'a> {
        let mine = self.text();
        if is_plain(path) {
            // Nearly all paths: the text alone decides.
            return match path.strip_prefix(mine) {
                Some([]) => Leads::Inside(Cow::Borrowed(&[])),
                Some([b'/', rest @ ..]) if !has_parents(rest) => Leads::Inside(Cow::Borrowed(rest)),
                Some([b'/', ..]) => self.walk(path),
                _ => Leads::Outside,
            };
        }
        self.walk(path)
    }

    /// Where a path from a directory of the drive leads, whose path from the root is `directory`.
    pub(crate) fn inside_from<'a>(&self, directory: &[u8], path: &'a [u8]) -> Leads<'a> {
        if !has_parents(path) {
            return Leads::Inside(Cow::Borrowed(path));
        }
        let mut depth = components(directory).count() as i64;
        for component in components(path) {
            depth += if component == b".." { -1 } else { 1 };
            if depth < 0 {
                let whole = [self.text(), b"/", directory, b"/", path].concat();
                return match self.walk(&whole) {
                    // It came back.
                    Leads::Inside(rest) => Leads::Inside(Cow::Owned([b"/", &rest[..]].concat())),
                    Leads::Outside => Leads::Out(whole),
                    Leads::Out(path) => Leads::Out(path),
                };
            }
        }
        Leads::Inside(Cow::Borrowed(path))
    }

    /// Walks by components.
    fn walk<'a>(&self, path: &[u8]) -> Leads<'a> {
        let mine: Vec<&[u8]> = components(self.text()).collect();
        let mut outside: Vec<&[u8]> = Vec::new();
        // Components inside, and how deep they are.
        let mut inside: Vec<&[u8]> = Vec::new();
        let mut depth = 0;
        let mut has_been_in = false;
        for component in components(path) {
            let is_in = outside == mine;
            match (is_in, component == b"..") {
                (false, false) => outside.push(component),
                (false, true) => drop(outside.pop()),
                (true, true) if depth == 0 => {
                    outside.pop();
                    inside.clear();
                    has_been_in = true;
                }
                (true, is_parent) => {
                    depth += if is_parent { -1 } else { 1 };
                    inside.push(component);
                }
            }
        }
        let ends_in_slash = path.ends_with(b"/") || path.ends_with(b"/.");
        if outside == mine {
            let mut rest = inside.join(&b'/');
            if ends_in_slash && !rest.is_empty() {
                rest.push(b'/');
            }
            return Leads::Inside(Cow::Owned(rest));
        }
        match has_been_in {
            false => Leads::Outside,
            true => Leads::Out([b"/", &outside.join(&b'/')[..]].concat()),
        }
    }
}

/// The components of a path that say something.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = path.split(|byte| *byte == b'/');
    all.filter(|component| !component.is_empty() && *component != b".")
}

/// Whether a path has a component `..`.
pub(crate) fn has_parents(path: &[u8]) -> bool {
    // Nearly no path has two dots in a row.
    path.windows(2).any(|two| two == b"..") && components(path).any(|component| component == b"..")
}

/// Whether the beginning of a path has no empty component, `.` or `..`.
fn is_plain(path: &[u8]) -> bool {
    !path.windows(2).any(|two| two == b"//" || two == b"/.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> Leads<'_> {
        Leads::Inside(Cow::Borrowed(text.as_bytes()))
    }

    #[test]
    fn the_text_of_a_path_says_where_it_leads() {
        let place = Place::new(b"/mnt/drive").unwrap();
        for (path, leads) in [
            ("/mnt/drive", inside("")),
            ("/mnt/drive/", inside("")),
            ("/mnt/drive/a/b", inside("a/b")),
            ("//mnt/./drive//a/", inside("a/")),
            ("/mnt/x/../drive/a", inside("a")),
            ("/mnt/drive/a/../b", inside("a/../b")),
            ("/mnt/drive/.hidden", inside(".hidden")),
            ("/mnt/drive/..b", inside("..b")),
            ("/mnt/drives", Leads::Outside),
            ("/mnt", Leads::Outside),
            ("/", Leads::Outside),
            ("/etc/../mnt", Leads::Outside),
            ("/mnt/drive/../x", Leads::Out(b"/mnt/x".to_vec())),
            ("/mnt/drive/a/../../x", Leads::Out(b"/mnt/x".to_vec())),
            ("/mnt/drive/../drive/c", inside("c")),
        ] {
            assert_eq!(place.of(path.as_bytes()), leads, "{path}");
        }
    }

    #[test]
    fn a_path_inside_from_may_lead_out() {
        let place = Place::new(b"/mnt/drive/").unwrap();
        for (directory, path, leads) in [
            ("", "a", inside("a")),
            ("a/b", "../c", inside("../c")),
            ("a", "../../x", Leads::Out(b"/mnt/x".to_vec())),
            ("", "..", Leads::Out(b"/mnt".to_vec())),
            ("a", "../../../../etc", Leads::Out(b"/etc".to_vec())),
            ("a", "../../drive/q", inside("/q")),
        ] {
            let found = place.inside_from(directory.as_bytes(), path.as_bytes());
            assert_eq!(found, leads, "{directory} {path}");
        }
    }

    #[test]
    fn a_place_is_an_absolute_path_below_the_root() {
        for path in ["", "/", "a/b", "/a/../b", "//"] {
            assert_eq!(Place::new(path.as_bytes()), None, "{path}");
        }
        assert_eq!(Place::new(b"//a/./b/").unwrap().text(), b"/a/b");
        let long = [b"/", &[b'x'; BYTES_MAX - 1][..]].concat();
        assert_eq!(Place::new(&long).unwrap().text(), long);
        assert_eq!(Place::new(&[&long[..], b"x"].concat()), None);
    }
}
