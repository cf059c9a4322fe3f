//! Any bytes as a drive image: opened or refused, never a panic; what opens is a sound drive. The
//! first byte chooses what the bytes are: a whole file, a header with a right checksum, or
//! changes of a good image.

#![no_main]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use support::input::Input;
use wharf_drive::config::MediaKind;
use wharf_drive::ftl::{Ftl, Overwrite, Precondition};
use wharf_drive::media::{FileImage, FileOptions};
use wharf_drive::{Drive, DriveConfig, PowerSwitch};
use wharf_lab::config::{Sets, load_drive};
use wharf_runtime::Seed;

/// Bytes of the header; its checksum is the last four.
const HEADER_BYTES: usize = 80;

/// A header may speak of a file as large as this: larger ones would only be slow.
const FILE_BYTES_MAX: u64 = 64 << 20;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let path = path("image");
    match input.number(1) % 3 {
        0 => std::fs::write(&path, input.rest()).expect("a directory for temporary files"),
        1 => with_sound_header(&path, &mut input),
        _ => changed(&path, &mut input),
    }
    open(&path);
    run(&path);
});

fn path(name: &str) -> PathBuf {
    let shm = Path::new("/dev/shm");
    let directory = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
    directory.join(format!("wharf-fuzz-{name}-{}.img", std::process::id()))
}

/// A header of any content with the checksum that belongs to it, in a file as long as it says.
fn with_sound_header(path: &Path, input: &mut Input) {
    let mut header = good()[..HEADER_BYTES].to_vec();
    while !input.is_empty() {
        let at = input.number(1) as usize % HEADER_BYTES;
        header[at] = input.number(1) as u8;
    }
    sign(&mut header);
    let bytes = u64::from_le_bytes(header[64..72].try_into().expect("8 bytes"));
    std::fs::write(path, &header).expect("a directory for temporary files");
    let file = File::options().write(true).open(path).expect("just written");
    file.set_len(bytes.clamp(HEADER_BYTES as u64, FILE_BYTES_MAX)).expect("a sparse file");
}

/// Puts the checksum of what is before it into a structure's last four bytes.
fn sign(structure: &mut [u8]) {
    let at = structure.len() - 4;
    let crc = wharf_drive::media::crc32c(&structure[..at]);
    structure[at..].copy_from_slice(&crc.to_le_bytes());
}

/// A good image with other bytes in some places.
fn changed(path: &Path, input: &mut Input) {
    std::fs::write(path, good()).expect("a directory for temporary files");
    let file = File::options().write(true).open(path).expect("just written");
    let end = good().len() as u64;
    while !input.is_empty() {
        let (at, length) = (input.number(4) % end, input.number(1) as usize % 64);
        file.write_all_at(input.take(length), at).expect("within the file");
    }
    if end != good().len() as u64 {
        file.set_len(end).expect("a shorter file");
    }
}

/// Opens the image for what it is.
fn open(path: &Path) {
    let Ok(image) = FileImage::open(path, FileOptions::default()) else { return };
    for core in 0..image.geometry().cores {
        let _ = image.core(core);
    }
}

/// Runs the tiny drive on it.
fn run(path: &Path) {
    let config = config(path);
    let plan = config.plan().expect("a preset");
    let Ok(drive) = Drive::new(config.clone()) else { return };
    for media in drive.into_media() {
        if let Ok(ftl) = Ftl::open(&config, plan.clone(), media, PowerSwitch::on()) {
            ftl.verify();
        }
    }
}

fn config(path: &Path) -> DriveConfig {
    let (mut config, _) = load_drive("tiny", &Sets::default()).expect("a preset");
    config.media.kind = MediaKind::File;
    config.media.path = Some(path.into());
    config
}

/// The bytes of an image with pages, a checkpoint and worn blocks.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = path("good");
        let _ = std::fs::remove_file(&path);
        let options = Precondition { fill_share: 0.6, overwrite: Overwrite::Share(1.0), seed: Seed(1) };
        let drive = Drive::new(config(&path)).unwrap_or_else(|error| panic!("{error}"));
        drop(drive.precondition(&options).unwrap_or_else(|error| panic!("{error}")));
        let bytes = std::fs::read(&path).expect("an image");
        let _ = std::fs::remove_file(&path);
        bytes
    })
}
