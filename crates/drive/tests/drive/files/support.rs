//! Programs that run in file tasks: a command that names one, and a drive with a file system.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use wharf_drive::config::{
    DriveConfig, FileSystemKind, MediaKind, NewFiles, PersistentMemoryConfig,
};
use wharf_drive::controller::{Controller, Feature, IoCommand};
use wharf_drive::core::{Core, Serve, Step};
use wharf_drive::features::files::{
    At, FileAnswer, FileCommand, FileHandler, FilePages, FileSystemOfDrive, FileWork, start,
};
use wharf_files::FileError;
use wharf_files::block::{Make, check};
use wharf_files::bytes;
use wharf_files::gpt::Guid;
use wharf_files::testing::view::{View, view};
use wharf_files::volume::Volume;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny_timed;
use crate::support::host::Host;
use crate::support::rig::Rig;

/// A vendor opcode that moves no data and that no other feature has.
const RUN: u8 = 0x88;

/// A program, for the core that it comes to.
type Program = Box<dyn for<'a> FnOnce(At<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// Programs that have been named and have not begun.
static PROGRAMS: Mutex<BTreeMap<u32, Program>> = Mutex::new(BTreeMap::new());

/// The feature.
pub struct Programs;

/// The command: which program, on which core.
struct Run;

static HANDLER: FileHandler = FileHandler(&Run);

impl Feature for Programs {
    fn is_on(&self, _: &DriveConfig) -> bool {
        true
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        vec![(RUN, &Run)]
    }
}

impl IoCommand for Run {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start(controller, &HANDLER, qid, command, command.cdw13);
        Ok(())
    }
}

impl wharf_drive::controller::Handler for Run {}

impl Serve for Run {
    fn serve(&self, _: &Core, _: u32) -> Step {
        unreachable!("a file task serves it")
    }
}

impl FileCommand for Run {
    fn run<'a>(&'a self, at: At<'a>) -> FileWork<'a> {
        let name = at.command().cdw10;
        let mut programs = PROGRAMS.lock().unwrap();
        let program = programs.remove(&name);
        let program = program.expect("it was named");
        Box::pin(async move {
            program(at).await;
            FileAnswer::done(0)
        })
    }
}

/// Names a program; gives the command that runs it on a core.
pub fn command(
    core: u32,
    program: impl for<'a> FnOnce(At<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send + 'static,
) -> Command {
    let mut programs = PROGRAMS.lock().unwrap();
    let all = &mut *programs;
    let name = (0..)
        .find(|name| !all.contains_key(name))
        .expect("few are named");
    all.insert(name, Box::new(program));
    let mut command = Command::verify(1, 0, 1);
    (command.opcode, command.cdw10, command.cdw13) = (RUN, name, core);
    command
}

/// Runs a program in a file task of a core, to its end.
pub async fn run_on(
    host: &mut Host,
    core: u32,
    program: impl for<'a> FnOnce(At<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send + 'static,
) {
    let command = command(core, program);
    assert_eq!(host.io(command).await, StatusCode::Success);
}

/// What a drive's file system shows, which must be sound.
pub async fn seen_and_sound(host: &mut Host) -> Result<View, FileError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    run_on(host, 0, |at| {
        Box::pin(async move {
            let fs = at.file_system().await.unwrap();
            let _ = sender.send(view(&*fs).await);
            let found = findings(&fs).await;
            assert!(found.is_empty(), "{found:?}");
        })
    })
    .await;
    receiver.recv().expect("it was looked at")
}

/// Whether the file system is what it is to be.
pub async fn sound(host: &mut Host) {
    run_on(host, 0, |at| {
        Box::pin(async move {
            let fs = at.file_system().await.unwrap();
            let found = findings(&fs).await;
            assert!(found.is_empty(), "{found:?}");
        })
    })
    .await;
}

/// A drive of `cores` cores that shows about `pages` pages.
pub fn config(cores: u32, pages: u32) -> DriveConfig {
    let mut config = tiny_timed();
    config.file_system = Some(FileSystemKind::Wfs);
    config.media.kind = MediaKind::Ram;
    config.geometry.channels = cores;
    config.geometry.dies_per_channel = 2;
    config.geometry.pages_per_block = 16;
    config.geometry.blocks_per_plane = pages * 3 / 2 / 16 / (2 * cores);
    config.firmware.cores = cores;
    config.firmware.stripe_pages = 4;
    config.firmware.commands_max = 64;
    config.ftl.over_provisioning = 0.3;
    config.ftl.write_buffer_pages = 32;
    config.ftl.volatile_write_cache = true;
    config.host_memory.enabled = false;
    config.memory.bytes = 10 << 20;
    config.memory.metadata_bytes = 1 << 20;
    config.memory.journal_bytes = 1 << 20;
    config.memory.transfer_bytes = 1 << 20;
    config
}

/// Where a drive's file system is, and which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// wfs on pages.
    Pages,
    /// wpm in persistent memory.
    Modules,
    /// wpm on pages.
    Both,
}

impl Home {
    pub const ALL: [Home; 3] = [Home::Pages, Home::Modules, Home::Both];

    /// A drive with one here, of about so many pages.
    pub fn config(self, cores: u32, pages: u32) -> DriveConfig {
        let mut config = config(cores, pages);
        if self != Home::Pages {
            config.file_system = Some(FileSystemKind::Wpm);
        }
        if self == Home::Modules {
            config.persistent_memory = PersistentMemoryConfig {
                bytes: u64::from(pages) * 4096,
                load_ns: 300,
                store_ns: 90,
                load_mb_s: 6_600,
                store_mb_s: 2_300,
                modules: 2,
            };
        }
        config
    }
}

/// What is wrong with a drive's file system, after all of it was made durable.
pub async fn findings(fs: &FileSystemOfDrive) -> Vec<String> {
    fs.settle().await.unwrap();
    match fs {
        Volume::Wfs(wfs) => check(wfs.pages()).await.unwrap().findings,
        Volume::Wpm(wpm) => bytes::check(wpm.lines()).await.unwrap().findings,
    }
}

/// The pages below wfs.
pub fn pages_of(fs: &FileSystemOfDrive) -> &FilePages {
    match fs {
        Volume::Wfs(wfs) => wfs.pages(),
        Volume::Wpm(_) => panic!("it is wpm"),
    }
}

/// A file system of root's, for everybody.
pub const NEW: NewFiles = NewFiles {
    disk: Guid([1; 16]),
    partition: Guid([2; 16]),
    make: Make {
        file_system: 0x77,
        hash_key: [3, 4],
        now_ns: 1_000_000_000,
        uid: 0,
        gid: 0,
        mode: 0o777,
    },
};

/// A drive that gets a new file system when it is run first.
pub fn new_rig(config: DriveConfig) -> Rig {
    let mut rig = Rig::new(config);
    rig.make_files(NEW);
    rig.depth = 64;
    rig
}

/// Runs one client, on a drive that knows programs.
pub fn run<F: Future<Output = ()> + 'static>(
    rig: &mut Rig,
    script: impl FnOnce(Host) -> F + Send + 'static,
) {
    rig.give_feature(&Programs);
    rig.run(script);
}
