//! Errors of operations on files, by the numbers that POSIX programs know.

use std::fmt;

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// Why an operation on a file failed: the names and numbers of Linux.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(clippy::upper_case_acronyms)] // as they are written everywhere
        #[repr(i32)]
        pub enum Errno {
            $(#[doc = $text] $name = $number,)*
        }

        impl Errno {
            /// All of them, by number.
            pub const ALL: &[Errno] = &[$(Errno::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Errno::$name => stringify!($name),)*
                }
            }

            /// What it means.
            pub fn text(self) -> &'static str {
                match self {
                    $(Errno::$name => $text,)*
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such address";
    E2BIG = 7, "argument too long";
    ENOEXEC = 8, "no program";
    EBADF = 9, "bad file handle";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "not enough memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "in use";
    EEXIST = 17, "file exists";
    EXDEV = 18, "on another file system";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files";
    EMFILE = 24, "too many open files of a process";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "out of range";
    EDEADLK = 35, "would wait for ever";
    ENAMETOOLONG = 36, "name too long";
    ENOLCK = 37, "no more locks";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute";
    EREMOTE = 66, "leads out of the file system";
    EPROTO = 71, "said what cannot be";
    EBADMSG = 74, "damaged data";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "not supported";
    ETIMEDOUT = 110, "took too long";
    ESTALE = 116, "stale file handle";
}

impl Errno {
    /// Its number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The one of this number.
    pub fn of_number(number: i32) -> Option<Errno> {
        let mut all = Errno::ALL.iter().copied();
        all.find(|errno| errno.number() == number)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

/// Why an operation on a file failed; `E` is what the storage below says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileError<E = Fault> {
    /// As POSIX says it.
    #[error("{0}")]
    Errno(Errno),
    /// The storage below failed: `EIO` for programs.
    #[error("input/output error (EIO): {0}")]
    Io(E),
}

impl<E> FileError<E> {
    /// The number for programs.
    pub fn errno(&self) -> Errno {
        match self {
            FileError::Errno(errno) => *errno,
            FileError::Io(_) => Errno::EIO,
        }
    }
}

impl<E> From<Errno> for FileError<E> {
    fn from(errno: Errno) -> FileError<E> {
        FileError::Errno(errno)
    }
}

/// What is wrong with the pages below a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A page could not be read.
    #[error("page {page} cannot be read")]
    Read {
        /// The page.
        page: u64,
    },
    /// A page could not be written.
    #[error("page {page} cannot be written")]
    Write {
        /// The page.
        page: u64,
    },
    /// The memory of whoever asks cannot be reached: `EFAULT` for programs.
    #[error("the memory of the caller cannot be reached")]
    Payload,
    /// What was written could not be made durable.
    #[error("pages cannot be made durable")]
    Flush,
    /// A page does not hold what belongs there: rot, a misplaced or an old page.
    #[error("page {page} is damaged: {what}")]
    Damaged {
        /// The page.
        page: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl From<Fault> for FileError {
    fn from(fault: Fault) -> FileError {
        match fault {
            Fault::Payload => Errno::EFAULT.into(),
            fault => FileError::Io(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_system() {
        let known = [
            (2, "ENOENT"),
            (17, "EEXIST"),
            (39, "ENOTEMPTY"),
            (40, "ELOOP"),
        ];
        for (number, name) in known {
            let errno = Errno::of_number(number).expect("it is known");
            assert_eq!((errno.name(), errno.number()), (name, number));
        }
        assert!(Errno::ALL.is_sorted());
        assert_eq!(Errno::of_number(0), None);
        let text = |error: FileError| error.to_string();
        assert_eq!(
            text(Errno::ENOENT.into()),
            "no such file or directory (ENOENT)"
        );
        let rot = Fault::Damaged {
            page: 7,
            what: "its checksum does not match",
        };
        assert_eq!(
            text(rot.into()),
            "input/output error (EIO): page 7 is damaged: its checksum does not match"
        );
    }
}
