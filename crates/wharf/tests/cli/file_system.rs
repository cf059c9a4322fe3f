//! File systems in drive images: `wharf fs` and `wharf mount`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wharf_runtime::Seed;

use crate::support::{Place, code_and_stderr};

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Seed(seed).rng();
    (0..bytes).map(|_| rng.below(256) as u8).collect()
}

/// A place with an image of the smallest drive.
pub(crate) fn with_image() -> Place {
    with("wfs")
}

/// The same, with a file system of a format.
fn with(format: &str) -> Place {
    let place = Place::new();
    let make = ["fs", "make", "drive.img", "--size", "64MiB"];
    place.ok(&[&make[..], &["--format", format]].concat());
    place
}

#[test]
fn what_is_copied_in_comes_out_again() {
    for format in ["wfs", "wpm"] {
        comes_out_again(format);
    }
}

fn comes_out_again(format: &str) {
    let place = with(format);
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    let bytes = random(7, 3 << 20);
    fs::write(tree.join("a/large"), &bytes).unwrap();
    fs::write(tree.join("a/b/empty"), b"").unwrap();
    fs::write(tree.join("run"), b"#!/bin/sh\n").unwrap();
    fs::set_permissions(tree.join("run"), fs::Permissions::from_mode(0o4751)).unwrap();
    symlink("a/large", tree.join("link")).unwrap();

    place.ok(&["fs", "cp", "-r", "tree", "drive.img:/"]);
    let listed = place.ok(&["fs", "ls", "drive.img", "/tree"]);
    assert_eq!(listed, "a\nlink\nrun\n");
    let long = place.ok(&["fs", "ls", "-l", "drive.img", "/tree/run"]);
    // A copy runs as nobody else.
    assert!(long.starts_with("-rwxr-x--x    1 "), "{long}");
    place.ok(&["fs", "cp", "-r", "drive.img:/tree", "drive.img:/again"]);
    place.ok(&["fs", "cp", "-r", "drive.img:/again", "out"]);
    let out = place.path().join("out");
    assert_eq!(fs::read(out.join("a/large")).unwrap(), bytes);
    assert_eq!(fs::read(out.join("a/b/empty")).unwrap(), b"");
    assert_eq!(
        fs::read_link(out.join("link")).unwrap(),
        Path::new("a/large")
    );
    let mode = fs::metadata(out.join("run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);

    let checked = place.ok(&["fs", "check", "drive.img"]);
    assert!(checked.starts_with("6 files, 7 directories, 2 symbolic links, 0 special files, "));
    assert!(checked.ends_with(" 0 findings\n"), "{checked}");
    let json: serde_json::Value =
        serde_json::from_str(&place.ok(&["fs", "info", "drive.img", "--json"])).unwrap();
    let used = json["bytes"].as_u64().unwrap() - json["free_bytes"].as_u64().unwrap();
    // wpm counts what it has for itself.
    assert!((6 << 20..9 << 20).contains(&used), "{json}");
    assert_eq!(json["file_system"], format);
}

/// What a copy keeps if it is asked to, in both directions.
#[test]
fn a_copy_that_preserves_has_the_times_attributes_and_holes_of_what_was_copied() {
    let place = with_image();
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"amid", 40 << 20).unwrap();
    drop(sparse);
    let attributed = xattr(&tree.join("sparse"), Some(b"a value"));
    let old = |seconds| std::time::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    let times = fs::FileTimes::new().set_accessed(old(1_000_000_000));
    let times = times.set_modified(old(1_100_000_000));
    for path in [tree.join("sparse"), tree.clone()] {
        fs::File::open(path).unwrap().set_times(times).unwrap();
    }
    place.ok(&["fs", "cp", "-rp", "tree", "drive.img:/"]);
    let used = |place: &Place| {
        let json = place.ok(&["fs", "info", "drive.img", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["bytes"].as_u64().unwrap() - json["free_bytes"].as_u64().unwrap()
    };
    assert!(used(&place) < 1 << 20, "{}", used(&place));
    place.ok(&["fs", "cp", "-rp", "drive.img:/tree", "back"]);
    for name in ["back", "back/sparse"] {
        let found = fs::metadata(place.path().join(name)).unwrap();
        assert_eq!(found.modified().unwrap(), old(1_100_000_000), "{name}");
        assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    }
    let back = place.path().join("back/sparse");
    let found = fs::metadata(&back).unwrap();
    assert_eq!(found.len(), 64 << 20);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    let mut amid = [0; 8];
    let file = fs::File::open(&back).unwrap();
    file.read_exact_at(&mut amid, 40 << 20).unwrap();
    assert_eq!(&amid, b"amid\0\0\0\0");
    if attributed.is_some() {
        assert_eq!(xattr(&back, None), attributed);
    }
    // Without being asked to it has the times of the copy.
    place.ok(&["fs", "cp", "drive.img:/tree/sparse", "plain"]);
    let found = fs::metadata(place.path().join("plain")).unwrap();
    assert!(found.modified().unwrap() > old(1_600_000_000));
    place.ok(&["fs", "check", "drive.img"]);
}

/// The extended attribute of a file, which is set first if there is a value; none where there are no such attributes.
fn xattr(path: &Path, value: Option<&[u8]>) -> Option<Vec<u8>> {
    let name = "user.wharf";
    if let Some(value) = value {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, name, value, flags).ok()?;
    }
    let mut found = vec![0; 100];
    let length = rustix::fs::getxattr(path, name, &mut found[..]).ok()?;
    found.truncate(length);
    Some(found)
}

#[test]
fn each_mistake_with_an_image_is_told_in_one_line() {
    let place = with_image();
    place.write("file", b"x");
    place.ok(&["drive", "prepare", "tiny", "other.img", "--overwrite", "0"]);
    fs::create_dir(place.path().join("here")).unwrap();
    place.ok(&["fs", "cp", "file", "drive.img:/file"]);
    let cases: &[(&[&str], &str)] = &[
        (
            &["fs", "make", "drive.img", "--size", "64MiB"],
            "drive.img: it exists: remove it or give another name",
        ),
        (&["fs", "make", "new.img", "--size", "many"], "--size: "),
        (
            &["fs", "check", "none.img"],
            "no drive image at none.img: create it first, or correct the path",
        ),
        (&["fs", "info", "file"], "file is not a drive image: "),
        (
            &["mount", "drive.img", "nowhere"],
            "nowhere: is no directory: make it first",
        ),
        (
            &["fs", "cp", "file", "here"],
            "none of the paths is in an image: write IMAGE:/PATH for those that are",
        ),
        (
            &["fs", "cp", "drive.img:/a", "other.img:/a"],
            "the paths are in several images: copy by a directory of this machine",
        ),
        (
            &["fs", "cp", "drive.img:/a", "here"],
            "/a: no such file or directory",
        ),
        (
            &["fs", "cp", "here", "drive.img:/"],
            "here: is a directory: give --recursive to copy it",
        ),
        (
            &["fs", "cp", "file", "file", "drive.img:/a"],
            "/a: is no directory",
        ),
        (
            &["fs", "ls", "drive.img", "/a"],
            "drive.img:/a: No such file or directory",
        ),
    ];
    for (arguments, line) in cases {
        let told = place.refused(arguments);
        assert!(told.starts_with(line), "{arguments:?}: {told}");
    }
    assert_eq!(place.ok(&["fs", "ls", "drive.img"]), "file\n");
    place.ok(&["fs", "check", "drive.img"]);
}

#[test]
fn a_copy_onto_or_into_itself_is_refused_and_harms_nothing() {
    let place = with_image();
    place.write("file", b"some bytes");
    fs::create_dir(place.path().join("directory")).unwrap();
    place.ok(&["fs", "cp", "file", "drive.img:/file"]);
    place.ok(&["fs", "cp", "-r", "directory", "drive.img:/directory"]);
    let told = place.refused(&["fs", "cp", "drive.img:/file", "drive.img:/./file"]);
    assert_eq!(told, "/file: source and destination are the same file");
    let told = place.refused(&[
        "fs",
        "cp",
        "-r",
        "drive.img:/directory",
        "drive.img:/directory/x",
    ]);
    assert_eq!(told, "/directory: a directory cannot be copied into itself");
    place.ok(&["fs", "cp", "drive.img:/file", "back"]);
    assert_eq!(fs::read(place.path().join("back")).unwrap(), b"some bytes");
    assert_eq!(place.ok(&["fs", "ls", "drive.img", "/directory"]), "");
}

#[test]
fn a_copy_does_not_leave_its_directory_through_a_link() {
    let place = with_image();
    let inside = |name: &str| place.path().join(name);
    fs::create_dir_all(inside("tree/sub")).unwrap();
    fs::write(inside("tree/sub/file"), b"x").unwrap();
    place.ok(&["fs", "cp", "-r", "tree", "drive.img:/tree"]);
    fs::create_dir_all(inside("elsewhere")).unwrap();
    fs::create_dir_all(inside("out")).unwrap();
    symlink("../elsewhere", inside("out/sub")).unwrap();
    fs::create_dir_all(inside("into")).unwrap();
    fs::rename(inside("out"), inside("into/tree")).unwrap();
    let output = place.wharf(&["fs", "cp", "-r", "drive.img:/tree", "into"]);
    let (code, line) = code_and_stderr(&output);
    assert_eq!(code, Some(2));
    assert_eq!(line, "wharf: into/tree/sub: exists, and is no directory\n");
    assert_eq!(fs::read_dir(inside("elsewhere")).unwrap().count(), 0);
}

/// Whatever rots, a program is told so or gets what was written.
#[test]
fn no_rot_of_an_image_is_obeyed() {
    for format in ["wfs", "wpm"] {
        rots(format);
    }
}

fn rots(format: &str) {
    let place = with(format);
    let bytes = random(1, 200_000);
    fs::create_dir(place.path().join("tree")).unwrap();
    for name in 0..20 {
        place.write(&format!("tree/{name}"), &bytes);
    }
    place.ok(&["fs", "cp", "-r", "tree", "drive.img:/"]);
    let whole = fs::read(place.path().join("drive.img")).unwrap();
    let written: Vec<usize> = (0..whole.len() / 4096)
        .filter(|page| whole[page * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect();
    let mut told = 0;
    for seed in 0..20 {
        println!("{format}, seed {seed}");
        let mut rng = Seed(seed).rng();
        let mut rotten = whole.clone();
        for _ in 0..=rng.below(20) {
            let page = written[rng.below(written.len() as u64) as usize];
            rotten[page * 4096 + rng.below(4096) as usize] ^= 1 << rng.below(8);
        }
        place.write("rotten.img", &rotten);
        let out = place.path().join("out");
        let output = place.wharf(&["fs", "cp", "-r", "rotten.img:/tree", "out"]);
        let (code, line) = code_and_stderr(&output);
        assert!(matches!(code, Some(0..=2)), "{code:?}: {line}");
        assert_eq!(code == Some(0), line.is_empty(), "{line}");
        told += u32::from(code != Some(0));
        for entry in fs::read_dir(&out).into_iter().flatten() {
            let entry = entry.unwrap();
            let found = fs::read(entry.path()).unwrap();
            assert!(bytes.starts_with(&found), "{:?}", entry.path());
            assert!(code != Some(0) || found.len() == bytes.len());
        }
        if code == Some(0) {
            assert_eq!(fs::read_dir(&out).unwrap().count(), 20);
        }
        let _ = fs::remove_dir_all(&out);
        let (code, line) = code_and_stderr(&place.wharf(&["fs", "check", "rotten.img"]));
        assert!(matches!(code, Some(0..=2)), "{code:?}: {line}");
    }
    assert!(told > 0, "nothing that matters was hit");
}

/// An image that is mounted. It is unmounted at the end.
pub(crate) struct Mounted<'a> {
    place: &'a Place,
    served: Child,
}

impl Mounted<'_> {
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("here")
    }

    pub(crate) fn unmount(mut self) {
        assert!(detach(&self.directory(), false));
        assert!(self.served.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.served.kill().unwrap();
        self.served.wait().unwrap();
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.served.kill();
        detach(&self.directory(), true);
    }
}

fn detach(directory: &Path, lazily: bool) -> bool {
    let mut umount = Command::new("umount");
    umount.args(lazily.then_some("-l")).arg(directory);
    umount.stderr(Stdio::null());
    umount.status().is_ok_and(|status| status.success())
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let shown = directory.canonicalize().unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == shown.to_str())
}

/// Mounts the image, if anything can be mounted here.
fn mounted(place: &Place) -> Option<Mounted<'_>> {
    mounted_with(place, "drive.img", &[])
}

/// The same, of what has this name, with further options.
#[allow(clippy::disallowed_methods)] // another process is waited for
pub(crate) fn mounted_with<'a>(
    place: &'a Place,
    name: &str,
    options: &[&str],
) -> Option<Mounted<'a>> {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("skipped: mounting takes /dev/fuse, and root");
        return None;
    }
    let directory = place.path().join("here");
    let _ = fs::create_dir(&directory);
    let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
    command.args(["mount", name, "here"]).args(options);
    command.current_dir(place.path()).stdout(Stdio::null());
    let mut served = command.spawn().unwrap();
    while !is_mounted(&directory) {
        if let Some(status) = served.try_wait().unwrap() {
            println!("skipped: nothing can be mounted here: {status}");
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(Mounted { place, served })
}

#[test]
fn a_mount_keeps_what_was_synced_when_its_process_is_killed() {
    for format in ["wfs", "wpm"] {
        keeps_what_was_synced(format);
    }
}

fn keeps_what_was_synced(format: &str) {
    let place = with(format);
    let Some(mount) = mounted(&place) else { return };
    let bytes = random(3, 300_000);
    fs::create_dir(mount.directory().join("a")).unwrap();
    let path = mount.directory().join("a/file");
    fs::write(&path, &bytes).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    // Nobody else may have it meanwhile.
    let told = place.refused(&["fs", "check", "drive.img"]);
    assert!(
        told.starts_with("drive.img is in use by another drive"),
        "{told}"
    );
    mount.kill();
    place.ok(&["fs", "cp", "drive.img:/a/file", "back"]);
    assert!(fs::read(place.path().join("back")).unwrap() == bytes);
    place.ok(&["fs", "check", "drive.img"]);
    let mount = mounted(&place).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
    mount.unmount();
}

#[test]
fn a_mount_in_the_background_returns_when_it_is_there_and_ends_with_it() {
    let place = with_image();
    let Some(mount) = mounted(&place) else { return };
    mount.unmount();
    place.ok(&["mount", "drive.img", "here", "--background"]);
    let directory = place.path().join("here");
    assert!(is_mounted(&directory));
    fs::write(directory.join("file"), b"text").unwrap();
    assert!(detach(&directory, false));
    // At once: its process is waited for.
    assert_eq!(place.ok(&["fs", "ls", "drive.img"]), "file\n");
    let told = place.refused(&["mount", "none.img", "here", "--background"]);
    assert!(told.starts_with("no drive image at none.img"), "{told}");
}

/// What a small program asks is recorded, and a replay does as much of each kind, with all checked.
#[test]
fn a_program_that_is_recorded_is_replayed_operation_by_operation() {
    let place = with_image();
    let Some(mount) = mounted_with(&place, "drive.img", &["--record", "trace"]) else {
        return;
    };
    let here = mount.directory();
    fs::create_dir(here.join("a")).unwrap();
    fs::write(here.join("a/with blank"), random(3, 20_000)).unwrap();
    fs::rename(here.join("a/with blank"), here.join("a/file")).unwrap();
    let mut log = fs::File::options()
        .append(true)
        .create(true)
        .open(here.join("log"))
        .unwrap();
    for _ in 0..3 {
        log.write_all(&[1; 3000]).unwrap();
        log.sync_all().unwrap();
    }
    assert_eq!(fs::read(here.join("a/file")).unwrap().len(), 20_000);
    assert_eq!(fs::read_dir(here.join("a")).unwrap().count(), 1);
    log.set_len(100).unwrap();
    drop(log);
    fs::hard_link(here.join("log"), here.join("second")).unwrap();
    fs::remove_file(here.join("log")).unwrap();
    assert!(fs::metadata(here.join("none")).is_err());
    fs::remove_file(here.join("a/file")).unwrap();
    fs::remove_dir(here.join("a")).unwrap();
    mount.unmount();

    let trace = fs::read_to_string(place.path().join("trace")).unwrap();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let lines = trace.lines().skip(1);
    let words = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let mut appended_bytes = 0;
    for words in words.filter(|words| !matches!(words[0], "dir" | "file")) {
        *kinds.entry(words[2]).or_default() += 1;
        if words[2] == "append" {
            appended_bytes += words[4].parse::<u64>().unwrap();
        }
    }
    // The kernel may divide what a program writes at once, where a page ends.
    assert_eq!(appended_bytes, 9000);
    assert!(kinds["append"] >= 3, "{trace}");
    for (kind, count) in [
        ("fsync", 3),
        ("mkdir", 1),
        ("rename", 1),
        ("link", 1),
        ("remove", 2),
        ("rmdir", 1),
        ("list", 1),
        ("truncate", 1),
        ("open", 3),
        ("close", 3),
    ] {
        assert_eq!(kinds.get(kind), Some(&count), "{kind}: {trace}");
    }
    let replay = "compare trace --designs direct,kernel --clients 1 --depth 1 --json out.json";
    place.ok(&replay.split(' ').collect::<Vec<_>>());
    let json = fs::read_to_string(place.path().join("out.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for row in json["rows"].as_array().unwrap() {
        let operations = row["file_operations"].as_array().unwrap();
        let done = operations.iter().map(|of| {
            let kind = of["operation"].as_str().unwrap();
            (kind, of["count"].as_u64().unwrap())
        });
        assert_eq!(done.collect::<BTreeMap<_, _>>(), kinds);
    }
}
