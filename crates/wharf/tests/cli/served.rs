//! An image that one process serves to others: `wharf serve drive`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use wharf::files::{self, ImageError, Mount, OpenFlags, Rename, Server};
use wharf::runtime::clock::Clock;
use wharf::store::StoreError;

use crate::file_system::{mounted_with, with_image};
use crate::support::{Place, code_and_stderr};

#[path = "../guests/hostile.rs"]
pub(crate) mod hostile;

/// What a hostile process tries: all commands for files, and some for blocks.
const SCRIBBLED: hostile::Target = hostile::Target {
    depth: 64,
    has_tokens: true,
    opcodes: &[
        0x00, 0x01, 0x02, 0x08, 0x09, 0x83, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        0xa9, 0xaa, 0xab, 0xac, 0xad, 0xaf, 0xb1, 0xb2, 0xb4, 0xbb,
    ],
};

/// How often a hostile process comes.
const ROUNDS: u64 = 6;

/// A process that serves `drive.img` at `drive.sock`.
pub(crate) struct Serving<'a> {
    place: &'a Place,
    child: Child,
}

impl Serving<'_> {
    pub(crate) fn start<'a>(place: &'a Place, options: &[&str]) -> Serving<'a> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wharf"))
            .args(["serve", "drive", "drive.img", "--socket", "drive.sock"])
            .args(options)
            .current_dir(place.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "serving drive.img at drive.sock\n");
        Serving { place, child }
    }

    /// Ends it as a person does; all is durable and whole then.
    pub(crate) fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.place.path().join("drive.sock").exists());
        self.place.ok(&["fs", "check", "drive.img"])
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn several_processes_use_one_image() {
    let place = with_image();
    for tree in 0..4 {
        let directory = place.path().join(format!("tree{tree}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..30_usize {
            let bytes = vec![b'a' + tree; file * 1_777];
            fs::write(directory.join(file.to_string()), bytes).unwrap();
        }
    }
    let serving = Serving::start(&place, &[]);
    let told = place.refused(&["fs", "ls", "drive.img"]);
    assert!(
        told.starts_with("drive.img is in use by another drive"),
        "{told}"
    );
    let copy = |tree: usize| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command.args(["fs", "cp", "-r", &format!("tree{tree}"), "drive.sock:/"]);
        command.current_dir(place.path()).spawn().unwrap()
    };
    for mut copying in (0..4).map(copy).collect::<Vec<_>>() {
        assert!(copying.wait().unwrap().success());
    }
    assert_eq!(
        place.ok(&["fs", "ls", "drive.sock"]),
        "tree0\ntree1\ntree2\ntree3\n"
    );
    place.ok(&["fs", "cp", "-r", "drive.sock:/tree2", "back"]);
    for file in 0..30_usize {
        let back = fs::read(place.path().join("back").join(file.to_string())).unwrap();
        assert!(back == vec![b'c'; file * 1_777]);
    }
    let told = place.refused(&["fs", "check", "drive.sock"]);
    assert_eq!(
        told,
        "drive.sock: another process serves it: end that, and check the image itself"
    );
    let checked = serving.end();
    assert!(checked.starts_with("120 files, 5 directories"), "{checked}");
}

#[test]
fn what_a_killed_process_had_open_is_closed() {
    let place = with_image();
    let serving = Serving::start(&place, &[]);
    let free = || {
        let told = place.ok(&["fs", "info", "drive.sock", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&told).unwrap();
        json["free_bytes"].as_u64().unwrap()
    };
    let before = free();
    let Some(mount) = mounted_with(&place, "drive.sock", &[]) else {
        return;
    };
    let path = mount.directory().join("removed");
    let file = fs::File::create_new(&path).unwrap();
    file.write_all_at(&vec![7; 8 << 20], 0).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(free() <= before - (8 << 20));
    mount.kill();
    // Its end is noticed by its connection.
    let clock = Clock::start();
    while free() < before - (1 << 20) {
        assert!(clock.now_ns() < 60_000_000_000, "it is not given back");
    }
    drop(file);
    let checked = serving.end();
    assert!(checked.starts_with("0 files, 1 directories"), "{checked}");
}

/// A mount of an image that others use too remembers nothing that they may change.
#[test]
fn a_mount_sees_what_other_processes_do() {
    let place = with_image();
    let serving = Serving::start(&place, &[]);
    let Some(mount) = mounted_with(&place, "drive.sock", &[]) else {
        return;
    };
    let here = mount.directory();
    let other = Mount::attach(place.path().join("drive.sock")).unwrap();
    let file = other.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    for round in 0..20_u64 {
        let bytes = vec![b'a' + round as u8; 10_000 + 100 * round as usize];
        assert_eq!(file.write_at(0, &bytes).unwrap(), bytes.len());
        let seen = fs::read(here.join("file")).unwrap();
        assert!(seen == bytes, "round {round}: {} bytes", seen.len());
        let (old, new) = (format!("/name{round}"), format!("name{}", round + 1));
        if round == 0 {
            other.mkdir(&old, 0o755).unwrap();
        }
        assert!(here.join(&old[1..]).is_dir() && !here.join(&new).exists());
        other
            .rename(&old, format!("/{new}"), Rename::NoReplace)
            .unwrap();
        assert!(!here.join(&old[1..]).exists() && here.join(&new).is_dir());
        fs::write(here.join("mine"), round.to_string()).unwrap();
        let mine = other.open_file("/mine", OpenFlags::READ, 0).unwrap();
        let mut found = [0; 8];
        let length = mine.read_at(0, &mut found).unwrap();
        assert_eq!(found[..length], *round.to_string().as_bytes());
    }
    // Also while it is open.
    let open = fs::File::open(here.join("file")).unwrap();
    for round in 0..20_u8 {
        assert_eq!(file.write_at(5_000, &[round; 100]).unwrap(), 100);
        let mut seen = [255; 100];
        open.read_exact_at(&mut seen, 5_000).unwrap();
        assert_eq!(seen, [round; 100]);
    }
    drop(open);
    mount.unmount();
    drop(file);
    other.close().unwrap();
    serving.end();
}

#[test]
fn a_server_that_is_killed_leaves_what_was_synced() {
    let place = with_image();
    let serving = Serving::start(&place, &[]);
    let socket = place.path().join("drive.sock");
    let mount = Mount::attach(&socket).unwrap();
    let mut file = mount.open_file("/kept", OpenFlags::CREATE, 0o644).unwrap();
    file.write_all(b"some bytes").unwrap();
    file.sync().unwrap();
    drop(serving);
    // The image is free, and another may be served at the socket that was left.
    let serving = Serving::start(&place, &[]);
    place.ok(&["fs", "cp", "drive.sock:/kept", "back"]);
    assert_eq!(fs::read(place.path().join("back")).unwrap(), b"some bytes");
    serving.end();
    let written = file
        .write_all(b"more")
        .map_err(|error| error.raw_os_error());
    assert_eq!(written, Err(Some(5)), "EIO: who served it is gone");
}

#[test]
fn each_mistake_with_a_server_is_told_in_one_line() {
    let place = with_image();
    place.write("file", b"x");
    let serve = |arguments: &[&str]| place.refused(&[&["serve", "drive"], arguments].concat());
    let told = serve(&["file", "--socket", "s"]);
    assert!(told.starts_with("file is not a drive image: "), "{told}");
    let told = serve(&["drive.img", "--socket", "none/s"]);
    assert!(told.contains("cannot share a store at none/s"), "{told}");
    let output = place.wharf(&[
        "serve",
        "drive",
        "drive.img",
        "--socket",
        "s",
        "--processes-max",
        "2001",
    ]);
    assert_eq!(code_and_stderr(&output).0, Some(2));
    let limited = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -n 100; exec \"$0\" serve drive drive.img --socket s --processes-max 500",
        ])
        .arg(env!("CARGO_BIN_EXE_wharf"))
        .current_dir(place.path())
        .output()
        .unwrap();
    let (code, told) = code_and_stderr(&limited);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("500 guests take ") && told.contains("the system lets this process have 100"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");

    let socket = place.path().join("s");
    let server = Server::open(place.path().join("drive.img"), &socket, 1).unwrap();
    let first = Mount::attach(&socket).unwrap();
    let refused = Mount::attach(&socket).err();
    assert!(
        matches!(
            refused,
            Some(ImageError::Drive(StoreError::NoSlotLeft { guests: 1, .. }))
        ),
        "{refused:?}"
    );
    first.close().unwrap();
    server.close().unwrap();
    assert!(!socket.exists());
    assert!(Mount::attach(&socket).is_err());
    place.ok(&["fs", "check", "drive.img"]);
}

/// Whatever a process writes to what it shares with the drive, the files of others are as they were.
#[test]
#[allow(clippy::disallowed_methods)] // the thread stands for another process
fn a_hostile_process_harms_no_other() {
    let place = with_image();
    let socket = place.path().join("s");
    // The place of one that has gone is free when that is noticed.
    let how = files::Serving {
        processes: 1 + ROUNDS as u32,
        drive_cache_bytes: 256 << 10,
        ..files::Serving::default()
    };
    let server = Server::open_as(place.path().join("drive.img"), &socket, &how).unwrap();
    let good = Mount::attach(&socket).unwrap();
    good.mkdir("/good", 0o700).unwrap();
    for round in 0..ROUNDS {
        println!("round {round}");
        let path = socket.to_str().unwrap().to_string();
        let hostile = std::thread::spawn(move || {
            hostile::Scribbler::attach(&path, SCRIBBLED).run(round * 7_919 + 1, 300_000);
        });
        work(&good, round);
        hostile.join().unwrap();
    }
    good.close().unwrap();
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);
    let good = Mount::open(place.path().join("drive.img")).unwrap();
    let names = good.list("/good").unwrap();
    assert_eq!(names.len() as u64, ROUNDS * 20);
}

/// Files that are made, and hold what was written.
fn work(mount: &Mount, round: u64) {
    for file in 0..20_u64 {
        let path = Path::new("/good").join(format!("{round}-{file}"));
        let path = path.to_str().unwrap();
        let bytes = vec![(round * 20 + file) as u8; 3 * 4096 + 17];
        let open = mount.open_file(path, OpenFlags::CREATE, 0o600).unwrap();
        assert_eq!(open.write_at(0, &bytes).unwrap(), bytes.len());
        open.sync().unwrap();
        let mut back = vec![0; bytes.len()];
        assert_eq!(open.read_at(0, &mut back).unwrap(), bytes.len());
        assert!(back == bytes, "{path}");
    }
}
