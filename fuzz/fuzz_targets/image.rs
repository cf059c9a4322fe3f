//! Any bytes as a drive image: opened or refused, never a panic; a drive on what
//! opens answers every command, be it with an error. The first byte chooses what the bytes are: a whole
//! file, a header with a right checksum, or changes of a good image.

#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wharf_drive::config::MediaKind;
use wharf_drive::ftl::{Overwrite, Precondition};
use wharf_drive::media::{FileImage, FileOptions};
use wharf_drive::{Drive, DriveConfig, PowerSwitch};
use wharf_fuzz::host::{Host, IDLE_POLLS_MAX};
use wharf_fuzz::input::Input;
use wharf_runtime::{CostTable, Machine, Seed, Side};
use wharf_wire::dma::DmaSpace;

/// Bytes of the header: `docs/media-format.md`. Its checksum is the last four.
const HEADER_BYTES: usize = 72;

/// Where in it the length of the file is.
const FILE_BYTES_AT: usize = 56;

const PAGE_BYTES: usize = 4096;

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
    let directory = if shm.is_dir() {
        shm.into()
    } else {
        std::env::temp_dir()
    };
    directory.join(format!("wharf-fuzz-{name}-{}.img", std::process::id()))
}

/// A header of any content with the checksum that belongs to it, in a file as long as it says.
fn with_sound_header(path: &Path, input: &mut Input) {
    let mut header = good().pages[0].1[..HEADER_BYTES].to_vec();
    while !input.is_empty() {
        let at = input.number(1) as usize % HEADER_BYTES;
        header[at] = input.number(1) as u8;
    }
    sign(&mut header);
    let said = header[FILE_BYTES_AT..][..8].try_into().expect("8 bytes");
    let bytes = u64::from_le_bytes(said);
    std::fs::write(path, &header).expect("a directory for temporary files");
    let file = File::options()
        .write(true)
        .open(path)
        .expect("just written");
    file.set_len(bytes.clamp(HEADER_BYTES as u64, FILE_BYTES_MAX))
        .expect("a sparse file");
}

/// Puts the checksum of what is before it into a structure's last four bytes.
fn sign(structure: &mut [u8]) {
    let at = structure.len() - 4;
    let crc = crc_fast::crc32_iscsi(&structure[..at]);
    structure[at..].copy_from_slice(&crc.to_le_bytes());
}

/// A good image with other bytes in some places, some of them with a right checksum.
fn changed(path: &Path, input: &mut Input) {
    let good = good();
    let _ = std::fs::remove_file(path);
    let file = File::options()
        .write(true)
        .read(true)
        .create_new(true)
        .open(path);
    let file = file.expect("a directory for temporary files");
    file.set_len(good.bytes).expect("a sparse file");
    for (at, page) in &good.pages {
        file.write_all_at(page, *at).expect("room for an image");
    }
    while !input.is_empty() {
        let (page, _) = good.pages[input.number(2) as usize % good.pages.len()];
        let at = page + input.number(2) % PAGE_BYTES as u64;
        let (kind, length) = (input.number(1), 1 + input.number(1) as usize % 128);
        let mut bytes = vec![0; length.min((good.bytes - at) as usize)];
        file.read_exact_at(&mut bytes, at).expect("within the file");
        match kind % 3 {
            0 if length >= 8 => sign(&mut bytes),
            1 => bytes.fill(input.number(1) as u8),
            _ => {
                let new = input.take(bytes.len());
                bytes[..new.len()].copy_from_slice(new);
            }
        }
        file.write_all_at(&bytes, at).expect("within the file");
    }
}

/// Opens the image for what it is.
fn open(path: &Path) {
    let Ok(image) = FileImage::open(path, FileOptions::default()) else {
        return;
    };
    for core in 0..image.geometry().cores {
        let _ = image.core(core);
    }
}

/// Runs the tiny drive on it: whatever was damaged, it answers every command.
fn run(path: &Path) {
    let Ok(drive) = Drive::new(config(path)) else {
        return;
    };
    let dma = DmaSpace::new(drive.config().page_bytes());
    let mut machine = Machine::new(CostTable::free(), false);
    let Ok(mut handle) = drive.power_on(&mut machine, "drive", &dma, &PowerSwitch::on()) else {
        return;
    };
    let queues = wharf_fuzz::host::queues(&mut handle, &dma);
    let cpu = machine.add_cpu("host", Side::Host, 1.0);
    machine.spawn_main(cpu, "host", move |cpu| async move {
        Host::new(cpu, dma, queues, None)
            .read_and_write_everything()
            .await;
    });
    let run = machine.run_virtual_bounded(Seed(1), IDLE_POLLS_MAX);
    run.unwrap_or_else(|stall| panic!("the drive hangs: {stall}"));
}

fn config(path: &Path) -> DriveConfig {
    let mut config = wharf_fuzz::tiny();
    config.media.kind = MediaKind::File;
    config.media.path = Some(path.into());
    config
}

/// An image, without the holes in it.
struct Good {
    bytes: u64,
    /// Its pages that are not zeros, and where they lie.
    pages: Vec<(u64, Vec<u8>)>,
}

/// An image with data, a checkpoint and worn blocks.
fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = path("good");
        let _ = std::fs::remove_file(&path);
        let options = Precondition {
            fill_share: 0.6,
            overwrite: Overwrite::Share(1.0),
            seed: Seed(1),
        };
        let drive = Drive::new(config(&path)).unwrap_or_else(|error| panic!("{error}"));
        drop(
            drive
                .precondition(&options)
                .unwrap_or_else(|error| panic!("{error}")),
        );
        let all = std::fs::read(&path).expect("an image");
        let _ = std::fs::remove_file(&path);
        let pages = (0..).step_by(PAGE_BYTES).zip(all.chunks(PAGE_BYTES));
        let pages = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        Good {
            bytes: all.len() as u64,
            pages: pages.map(|(at, page)| (at, page.to_vec())).collect(),
        }
    })
}
