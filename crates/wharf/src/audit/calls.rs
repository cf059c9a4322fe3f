//! System calls that lead to files, by paths or by descriptors.

use std::ffi::c_long;

/// An argument that leads to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    /// A path, from the working directory.
    Path(usize),
    /// A path, from the directory of a descriptor. An empty one, or none, is the descriptor itself.
    At { directory: usize, path: usize },
    /// A descriptor.
    Descriptor(usize),
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) name: &'static str,
    pub(super) leads: &'static [Leads],
}

const fn at(directory: usize) -> Leads {
    Leads::At {
        directory,
        path: directory + 1,
    }
}

macro_rules! calls {
    ($( $number:ident $name:literal $leads:expr; )*) => {
        &[ $( Call { number: libc::$number, name: $name, leads: &$leads } ),* ]
    };
}

use Leads::{Descriptor, Path};

/// Those of all machines. What duplicates, closes and waits for descriptors is not among them: the shared object has the kernel do
/// it for the drive's too.
const CALLS: &[Call] = calls! {
    SYS_openat "openat" [at(0)];
    SYS_openat2 "openat2" [at(0)];
    SYS_newfstatat "newfstatat" [at(0)];
    SYS_statx "statx" [at(0)];
    SYS_faccessat "faccessat" [at(0)];
    SYS_faccessat2 "faccessat2" [at(0)];
    SYS_readlinkat "readlinkat" [at(0)];
    SYS_mkdirat "mkdirat" [at(0)];
    SYS_mknodat "mknodat" [at(0)];
    SYS_unlinkat "unlinkat" [at(0)];
    SYS_renameat "renameat" [at(0), at(2)];
    SYS_renameat2 "renameat2" [at(0), at(2)];
    SYS_linkat "linkat" [at(0), at(2)];
    SYS_symlinkat "symlinkat" [at(1)];
    SYS_fchmodat "fchmodat" [at(0)];
    SYS_fchmodat2 "fchmodat2" [at(0)];
    SYS_fchownat "fchownat" [at(0)];
    SYS_utimensat "utimensat" [at(0)];
    SYS_execveat "execveat" [at(0)];
    SYS_name_to_handle_at "name_to_handle_at" [at(0)];
    SYS_fanotify_mark "fanotify_mark" [at(3)];
    SYS_inotify_add_watch "inotify_add_watch" [Path(1)];
    SYS_execve "execve" [Path(0)];
    SYS_truncate "truncate" [Path(0)];
    SYS_statfs "statfs" [Path(0)];
    SYS_chdir "chdir" [Path(0)];
    SYS_chroot "chroot" [Path(0)];
    SYS_setxattr "setxattr" [Path(0)];
    SYS_lsetxattr "lsetxattr" [Path(0)];
    SYS_getxattr "getxattr" [Path(0)];
    SYS_lgetxattr "lgetxattr" [Path(0)];
    SYS_listxattr "listxattr" [Path(0)];
    SYS_llistxattr "llistxattr" [Path(0)];
    SYS_removexattr "removexattr" [Path(0)];
    SYS_lremovexattr "lremovexattr" [Path(0)];
    SYS_read "read" [Descriptor(0)];
    SYS_write "write" [Descriptor(0)];
    SYS_pread64 "pread64" [Descriptor(0)];
    SYS_pwrite64 "pwrite64" [Descriptor(0)];
    SYS_readv "readv" [Descriptor(0)];
    SYS_writev "writev" [Descriptor(0)];
    SYS_preadv "preadv" [Descriptor(0)];
    SYS_pwritev "pwritev" [Descriptor(0)];
    SYS_preadv2 "preadv2" [Descriptor(0)];
    SYS_pwritev2 "pwritev2" [Descriptor(0)];
    SYS_lseek "lseek" [Descriptor(0)];
    SYS_mmap "mmap" [Descriptor(4)];
    SYS_fstat "fstat" [Descriptor(0)];
    SYS_fstatfs "fstatfs" [Descriptor(0)];
    SYS_ftruncate "ftruncate" [Descriptor(0)];
    SYS_fallocate "fallocate" [Descriptor(0)];
    SYS_fadvise64 "fadvise64" [Descriptor(0)];
    SYS_readahead "readahead" [Descriptor(0)];
    SYS_fsync "fsync" [Descriptor(0)];
    SYS_fdatasync "fdatasync" [Descriptor(0)];
    SYS_sync_file_range "sync_file_range" [Descriptor(0)];
    SYS_syncfs "syncfs" [Descriptor(0)];
    SYS_getdents64 "getdents64" [Descriptor(0)];
    SYS_fchdir "fchdir" [Descriptor(0)];
    SYS_fchmod "fchmod" [Descriptor(0)];
    SYS_fchown "fchown" [Descriptor(0)];
    SYS_flock "flock" [Descriptor(0)];
    SYS_fcntl "fcntl" [Descriptor(0)];
    SYS_fsetxattr "fsetxattr" [Descriptor(0)];
    SYS_fgetxattr "fgetxattr" [Descriptor(0)];
    SYS_flistxattr "flistxattr" [Descriptor(0)];
    SYS_fremovexattr "fremovexattr" [Descriptor(0)];
    SYS_sendfile "sendfile" [Descriptor(0), Descriptor(1)];
    SYS_copy_file_range "copy_file_range" [Descriptor(0), Descriptor(2)];
    SYS_splice "splice" [Descriptor(0), Descriptor(2)];
};

/// Those that older kinds of machines have besides.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Call] = calls! {
    SYS_open "open" [Path(0)];
    SYS_creat "creat" [Path(0)];
    SYS_stat "stat" [Path(0)];
    SYS_lstat "lstat" [Path(0)];
    SYS_access "access" [Path(0)];
    SYS_readlink "readlink" [Path(0)];
    SYS_mkdir "mkdir" [Path(0)];
    SYS_rmdir "rmdir" [Path(0)];
    SYS_mknod "mknod" [Path(0)];
    SYS_unlink "unlink" [Path(0)];
    SYS_rename "rename" [Path(0), Path(1)];
    SYS_link "link" [Path(0), Path(1)];
    SYS_symlink "symlink" [Path(1)];
    SYS_chmod "chmod" [Path(0)];
    SYS_chown "chown" [Path(0)];
    SYS_lchown "lchown" [Path(0)];
    SYS_utime "utime" [Path(0)];
    SYS_utimes "utimes" [Path(0)];
    SYS_futimesat "futimesat" [at(0)];
    SYS_getdents "getdents" [Descriptor(0)];
};

#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Call] = &[];

/// All.
pub(super) fn all() -> impl Iterator<Item = &'static Call> + Clone {
    CALLS.iter().chain(OLDER)
}

/// The call of a number.
pub(super) fn of(number: c_long) -> Option<&'static Call> {
    all().find(|call| call.number == number)
}
