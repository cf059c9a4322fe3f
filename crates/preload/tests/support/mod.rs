//! A drive that this process serves, and programs that find it at `/where`.

#![allow(dead_code)] // each test file uses a part

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use wharf::files::{NewImage, Server, Serving, check, make};

/// An image, and a server of it.
pub struct Drive {
    place: tempfile::TempDir,
    server: Option<Server>,
    /// What programs keep, if that is said.
    pub keeping: Option<&'static str>,
}

/// A program that was compiled for a test.
pub struct Program {
    place: tempfile::TempDir,
}

impl Program {
    pub fn path(&self) -> PathBuf {
        self.place.path().join("program")
    }
}

/// A program of this folder.
pub fn compiled(name: &str) -> Program {
    compiled_with(name, &[]).expect("there is a C compiler")
}

/// The same with flags; nothing where that does not work.
pub fn compiled_with(name: &str, flags: &[&str]) -> Option<Program> {
    let place = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    let program = Program { place };
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    let made = Command::new(compiler)
        .args(["-O1", "-w"])
        .args(flags)
        .arg("-o")
        .arg(program.path())
        .arg(source)
        .arg("-lpthread")
        .output()
        .unwrap();
    if !made.status.success() {
        println!("{}", text(&made.stderr));
    }
    made.status.success().then_some(program)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The shared object, which Cargo has built for these tests.
pub fn object() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own
        .ancestors()
        .map(|place| place.join("libwharf_preload.so"));
    let found = found.into_iter().find(|object| object.is_file());
    found.expect("it is built beside the tests")
}

impl Drive {
    pub fn new() -> Drive {
        Drive::with_places(24)
    }

    /// One that so many processes use at a time.
    pub fn with_places(places: u32) -> Drive {
        Drive::served(&Serving {
            processes: places,
            ..Serving::default()
        })
    }

    /// One whose cache programs use beside their own.
    pub fn with_both_caches() -> Drive {
        Drive::keeping("omni:1048576")
    }

    /// One of which programs keep what is said.
    pub fn keeping(keeping: &'static str) -> Drive {
        let mut drive = Drive::served(&Serving {
            processes: 24,
            drive_cache_bytes: 1 << 20,
            ..Serving::default()
        });
        drive.keeping = Some(keeping);
        drive
    }

    /// One that is served so.
    pub fn served(how: &Serving) -> Drive {
        let place = tempfile::tempdir().unwrap();
        if how.socket_mode & 0o002 != 0 {
            // Others are to get at the socket.
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(place.path(), mode).unwrap();
        }
        let image = place.path().join("drive.img");
        make(&image, &NewImage::of_bytes(256 << 20)).unwrap();
        let server = Server::open_as(&image, place.path().join("drive.sock"), how).unwrap();
        Drive {
            place,
            server: Some(server),
            keeping: None,
        }
    }

    /// Ends the server, and serves the image anew at the same socket.
    pub fn serve_anew(&mut self) {
        self.end();
        let (image, socket) = (
            self.place.path().join("drive.img"),
            self.place.path().join("drive.sock"),
        );
        self.server = Some(Server::open(&image, socket, 24).unwrap());
    }

    /// A command that finds the drive.
    pub fn command(&self, command: &mut Command) -> Command {
        let mut found = Command::new(command.get_program());
        found.args(command.get_args());
        let socket = self.place.path().join("drive.sock");
        found.env("WHARF_DRIVE", format!("{}=/where", socket.display()));
        found.env("LD_PRELOAD", object());
        if let Some(keeping) = self.keeping {
            found.env("WHARF_CACHE", keeping);
        }
        found
    }

    pub fn run(&self, command: &mut Command) -> Output {
        self.command(command).output().unwrap()
    }

    /// What a shell prints.
    pub fn shell(&self, script: &str) -> String {
        let told = self.run(Command::new("sh").args(["-c", script]));
        assert!(told.stderr.is_empty(), "{}", text(&told.stderr));
        text(&told.stdout)
    }

    /// Ends the server; nothing is wrong on the image.
    pub fn check(mut self) {
        self.end();
        let checked = check(&self.place.path().join("drive.img")).unwrap();
        assert!(checked.is_sound(), "{:?}", checked.found.findings);
    }

    fn end(&mut self) {
        if let Some(server) = self.server.take() {
            server.close().unwrap();
        }
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}
