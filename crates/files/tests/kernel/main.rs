//! The file systems of the system that tests run on judge the model: the same random programs give
//! the same answers and, in the end, the same files.
//!
//! As root each program runs in a folder that is the root of its thread, with three users. Anybody
//! else runs them as himself, within a folder and without `..` and absolute paths.

mod system;

use std::path::Path;

use system::System;
use wharf_files::block_on;
use wharf_files::model::{Model, ModelLimits};
use wharf_files::testing::beside::{
    Difference, Room, START_NS, assert_alike, compare_answers, compare_views,
};
use wharf_files::testing::program::{Step, callers};
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::Users;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::{Likeness, view};
use wharf_files::vfs::SessionLimits;
use wharf_files::{Allocate, Caller, FileError, Owner};
use wharf_runtime::Seed;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Who runs this test, and nobody else.
fn myself() -> Vec<Caller> {
    let groups = rustix::process::getgroups().expect("they are known");
    vec![Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.iter().map(|gid| gid.as_raw()).collect(),
    }]
}

/// The system's own settings.
fn limits() -> SessionLimits {
    let setting = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks");
    SessionLimits {
        protects_hard_links: setting.is_ok_and(|text| text.trim() == "1"),
        ..SessionLimits::default()
    }
}

/// Makes `folder` the root, and the working directory, of this thread alone.
fn move_in(folder: &Path) {
    let flags = rustix::thread::UnshareFlags::FS;
    // SAFETY: this thread's own root, working directory and mask; nothing of Rust's knows them.
    unsafe { rustix::thread::unshare_unsafe(flags) }.expect("root may");
    rustix::process::umask(rustix::fs::Mode::empty());
    if is_root() {
        rustix::process::chroot(folder).expect("root may");
        rustix::process::chdir("/").expect("it is there");
    } else {
        rustix::process::chdir(folder).expect("it is there");
    }
}

/// Runs a program in a folder of the system and on a model.
fn run(parent: &Path, program: &[Step], like: Likeness) -> Result<(), Difference> {
    let folder = tempfile::Builder::new()
        .prefix("wharf-files-")
        .tempdir_in(parent);
    let folder = folder.expect("a folder can be made");
    let callers = if is_root() { callers() } else { myself() };
    let mode = rustix::fs::Mode::from_raw_mode(0o777);
    rustix::fs::chmod(folder.path(), mode).expect("it is ours");
    let (path, limits) = (folder.path(), limits());
    let compared = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            move_in(path);
            let owner = Owner {
                uid: callers[0].uid,
                gid: callers[0].gid,
            };
            let model = Model::new(ModelLimits::default(), 0o777, owner, START_NS);
            let mut oracle = Users::new(&&model, &callers, limits);
            let mut system = System::new(&callers);
            let compared = block_on(compare_answers(
                &mut system,
                &mut oracle,
                program,
                Room::Enough,
            ));
            system.close_all();
            system.become_user(0);
            compared?;
            if !is_root() {
                // What nobody may read cannot be compared.
                return Ok(());
            }
            let seen = system::view(b"/").map_err(|errno| {
                let number = wharf_files::Errno::of_number(errno.raw_os_error());
                FileError::Errno(number.unwrap_or(wharf_files::Errno::EIO))
            });
            compare_views(&seen, &block_on(view(&model)), like)
        });
        run.join().expect("it does not panic")
    });
    open_up(path);
    compared
}

/// Opens folders that nobody may enter, so that they can be removed.
fn open_up(folder: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o700);
    let _ = rustix::fs::chmod(folder, mode);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

fn model_is_as(parent: &Path, name: &str, programs: u64, taste: Taste) {
    let taste = Taste {
        users: if is_root() { callers().len() } else { 1 },
        is_rooted: is_root(),
        ..taste
    };
    let like = Likeness {
        holes: taste.seeks,
        ..Likeness::NO_TIMES
    };
    for number in 0..programs {
        let seed = Seed(number).child(name);
        let mut steps = Steps::new(seed.rng(), taste);
        let program = steps.program(40 + 20 * (number % 10) as usize);
        assert_alike(number, &program, |program| run(parent, program, like));
    }
}

/// A folder of the file system that Cargo builds on.
fn target_folder() -> &'static Path {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(parent).expect("cargo's folder");
    parent
}

/// Storage without data is a hole of `ext4` until somebody has read it, or not.
#[test]
fn the_model_is_as_the_file_system_of_the_target_folder() {
    let taste = Taste {
        seeks: false,
        ..Taste::default()
    };
    model_is_as(target_folder(), "target", 300, taste);
}

#[test]
fn the_model_has_its_holes_where_the_file_system_of_the_target_folder_has_them() {
    let taste = Taste {
        allocates: &[Allocate::Punch],
        ..Taste::default()
    };
    model_is_as(target_folder(), "holes", 300, taste);
}

#[test]
fn the_model_is_as_tmpfs() {
    let parent = Path::new("/dev/shm");
    let taste = Taste {
        allocates: &[Allocate::Extend, Allocate::KeepSize, Allocate::Punch],
        seeks: false,
        ..Taste::default()
    };
    if parent.is_dir() {
        model_is_as(parent, "tmpfs", 300, taste);
    }
}
