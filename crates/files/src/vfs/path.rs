//! Paths: their components, and where a walk along one ends.

use std::borrow::Cow;
use std::ops::Range;

use crate::attributes::Attributes;
use crate::errno::Errno;
use crate::flags::Handle;
use crate::limits::PATH_BYTES_MAX;

/// Where a path begins that does not begin with `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The root.
    #[default]
    Root,
    /// An open directory.
    Handle(Handle),
    /// What has this number; the path may be empty, and is it itself then. For front ends that know
    /// numbers, such as FUSE: nobody has looked whether the caller may walk to it.
    Number(u64),
}

/// A path, and where it begins if it does not begin with `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At<'a> {
    /// Where it begins.
    pub from: Start,
    /// The path, as bytes.
    pub path: &'a [u8],
}

impl<'a> From<&'a [u8]> for At<'a> {
    fn from(path: &'a [u8]) -> At<'a> {
        At {
            from: Start::Root,
            path,
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for At<'a> {
    fn from(path: &'a [u8; N]) -> At<'a> {
        At {
            from: Start::Root,
            path,
        }
    }
}

/// What the last component of a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Name,
    Root,
    Dot,
    DotDot,
}

/// How a walk treats a symbolic link at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// It is followed.
    Always,
    /// It is followed where the path ends in `/`.
    IfDirectory,
    /// It is what is meant.
    Never,
    /// Nobody looks what is there.
    Unseen,
}

impl Follow {
    /// As `stat` does, or `lstat`.
    pub(super) fn always_if(follows: bool) -> Follow {
        match follows {
            true => Follow::Always,
            false => Follow::IfDirectory,
        }
    }
}

/// Where a walk ended.
pub(super) struct Found<'a> {
    pub(super) directory: Attributes,
    pub(super) last: Last,
    /// What is there.
    pub(super) target: Option<Attributes>,
    /// Whether the path ended in `/`.
    pub(super) slash: bool,
    pub(super) path: Cow<'a, [u8]>,
    pub(super) name: Range<usize>,
}

impl Found<'_> {
    /// The last component.
    pub(super) fn name(&self) -> &[u8] {
        &self.path[self.name.clone()]
    }

    /// What is there, as a path to something has it.
    pub(super) fn existing(&self) -> Result<Attributes, Errno> {
        let target = self.target.ok_or(Errno::ENOENT)?;
        match self.slash && !target.is_directory() {
            true => Err(Errno::ENOTDIR),
            false => Ok(target),
        }
    }
}

impl<'a> At<'a> {
    /// What has a number.
    pub fn number(number: u64) -> At<'static> {
        At::within(number, b"")
    }

    /// A name in the directory of a number.
    pub fn within(directory: u64, name: &'a [u8]) -> At<'a> {
        At {
            from: Start::Number(directory),
            path: name,
        }
    }

    /// Whether it is what it begins with.
    pub(super) fn is_start(&self) -> bool {
        self.path.is_empty() && matches!(self.from, Start::Number(_))
    }
}

/// Refuses what is no path.
pub(super) fn check_path(at: &At<'_>) -> Result<(), Errno> {
    let path = at.path;
    match path {
        [] if at.is_start() => Ok(()),
        [] => Err(Errno::ENOENT),
        _ if path.len() > PATH_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        _ if path.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Where the component at byte `at` or behind it lies; nothing if there are only slashes.
pub(super) fn component(path: &[u8], at: usize) -> Option<Range<usize>> {
    let is_name = |byte: &u8| *byte != b'/';
    let start = at + path[at..].iter().position(is_name)?;
    let bytes = path[start..].iter().position(|byte| *byte == b'/');
    Some(start..bytes.map_or(path.len(), |bytes| start + bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_lie_between_slashes() {
        let all = |path: &[u8]| {
            let (mut at, mut found) = (0, Vec::new());
            while let Some(range) = component(path, at) {
                at = range.end;
                found.push(path[range].to_vec());
            }
            found
        };
        assert_eq!(all(b"//a/../b//"), [&b"a"[..], b"..", b"b"]);
        assert_eq!(all(b"a"), [b"a"]);
        assert!(all(b"///").is_empty() && all(b"").is_empty());
    }
}
