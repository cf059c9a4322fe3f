//! Running the program on a cache and a disk of a test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Bytes of the disk.
pub const DISK_BYTES: usize = 32 << 20;

/// A folder with a disk that holds something, and room for a cache.
pub struct Place {
    folder: tempfile::TempDir,
    pub fast: PathBuf,
    pub slow: PathBuf,
}

impl Place {
    /// With a disk, and no cache.
    pub fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place {
            fast: folder.path().join("fast"),
            slow: folder.path().join("slow"),
            folder,
        };
        std::fs::write(&place.slow, content(1)).expect("a disk");
        place
    }

    /// With a cache of 64 MiB in front of the disk.
    pub fn with_cache(more: &[&str]) -> Place {
        let place = Place::new();
        place.says(
            &[
                &["create", "FAST", "--backing", "SLOW", "--size", "64MiB"],
                more,
            ]
            .concat(),
        );
        place
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let known = |argument: &&str| match *argument {
            "FAST" => text(&self.fast).to_string(),
            "SLOW" => text(&self.slow).to_string(),
            other => match other.strip_prefix("./") {
                Some(name) => text(&self.path(name)).to_string(),
                None => other.to_string(),
            },
        };
        arguments.iter().map(known).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command.args(self.arguments(arguments)).stdin(Stdio::null());
        command
    }

    /// Runs `wharf cache` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let arguments = [&["cache"], arguments].concat();
        self.command(&arguments).output().expect("the program runs")
    }

    /// Runs any command to its end.
    pub fn run_any(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// A byte that the disk held at first.
    pub fn first_byte_at(&self, offset: usize) -> u8 {
        content(1)[offset]
    }

    /// What it says, if it succeeds.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "wharf cache {arguments:?}: {error}"
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// The one line that it refuses with, by exit code 2, having changed nothing.
    pub fn refuses(&self, arguments: &[&str]) -> String {
        let before = self.bytes();
        let output = self.run(arguments);
        assert!(
            self.bytes() == before,
            "wharf cache {arguments:?} has written something"
        );
        refusal(arguments, &output)
    }

    /// As [`Place::refuses`], of `wharf serve nbd`.
    pub fn refuses_to_serve(&self, arguments: &[&str]) -> String {
        let before = self.bytes();
        let arguments = [&["serve", "nbd", "--socket", "./s"], arguments].concat();
        let output = self.command(&arguments).output().expect("the program runs");
        assert!(
            self.bytes() == before,
            "wharf {arguments:?} has written something"
        );
        refusal(&arguments, &output)
    }

    /// All files with all their bytes.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
        files.sort();
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).expect("a file");
            (path, bytes)
        };
        files.into_iter().map(read).collect()
    }

    /// Serves the disk behind the cache.
    pub fn serve(&self) -> Server {
        self.serve_on(&["SLOW"], &[])
    }

    /// As [`Place::serve`], on these paths as the disk, with more arguments.
    pub fn serve_on(&self, slow: &[&str], more: &[&str]) -> Server {
        let socket = self.path("nbd");
        let _ = std::fs::remove_file(&socket);
        let pair = ["serve", "nbd", "--cache", "FAST", "--backing"];
        let mut command = self.command(&[&pair[..], slow, more].concat());
        command.arg("--socket").arg(&socket).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let _ = BufReader::new(stdout).read_line(&mut line);
        assert!(line.starts_with("serving"), "{line}");
        let told = line.split("http://").nth(1);
        let metrics = told.map(|told| told.split('/').next().unwrap_or_default().to_string());
        Server {
            child,
            socket,
            metrics,
        }
    }
}

fn refusal(arguments: &[&str], output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(
        error.trim_end().lines().count(),
        1,
        "{arguments:?}: {error}"
    );
    error
}

/// What a disk holds, by a number.
pub fn content(number: u64) -> Vec<u8> {
    let mut rng = wharf::runtime::Seed(number).rng();
    let mut bytes = vec![0; DISK_BYTES];
    // Half of each page is noise.
    for page in bytes.chunks_mut(4096) {
        for word in page[..2048].chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
    }
    bytes
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// A server, killed at its end.
pub struct Server {
    child: Child,
    pub socket: PathBuf,
    /// Where its metrics are, if they were asked for.
    pub metrics: Option<String>,
}

impl Server {
    /// A value of its metrics, by the name with its labels; `None` until it has it.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let address = self.metrics.as_deref().expect("they were asked for");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        let values = told.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = values.into_iter().find(|(told, _)| *told == name)?;
        value.parse().ok()
    }

    /// Ends it, which it must do well.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Ends it, whatever it says.
    pub fn end(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(self.child.wait().is_ok());
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().expect("it is there");
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
