//! Bad files: each is refused with one line that names it and says what to do, and stays as it is.

use std::path::Path;

use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::media::file::format::{ALIGN, Header, SLOT_AT, Sealed};

const GEOMETRY: ImageGeometry = ImageGeometry {
    cores: 2,
    core: CoreGeometry {
        blocks: 4,
        pages_per_block: 4,
        page_bytes: 4096,
        unit_pages: 0,
        log_bytes: 1024,
    },
};

/// An image, closed, in a directory of its own.
fn image() -> (tempfile::TempDir, PathBuf) {
    let directory = disk_directory();
    let path = image_path(&directory);
    FileImage::create(&path, &GEOMETRY, 7, FileOptions::default()).unwrap();
    (directory, path)
}

/// The error of `open`, which must be this line with the path in the place of `{}`.
fn assert_refused(path: &Path, line: &str) {
    let before = std::fs::read(path).ok();
    let error = FileImage::open(path, FileOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        line.replace("{}", path.to_str().unwrap())
    );
    assert_eq!(
        std::fs::read(path).ok(),
        before,
        "a refused file stays as it is"
    );
}

fn create_error(path: &Path, geometry: &ImageGeometry) -> String {
    let error = FileImage::create(path, geometry, 7, FileOptions::default()).unwrap_err();
    error.to_string().replace(path.to_str().unwrap(), "{}")
}

fn names_in(directory: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_missing_file_is_named() {
    let directory = disk_directory();
    let line = "no drive image at {}: create it first, or correct the path";
    assert_refused(&image_path(&directory), line);
    assert!(names_in(&directory).is_empty());
}

#[test]
fn what_is_no_image_is_refused() {
    let (directory, path) = image();
    let line = "{} is not a drive image: check the path, or create an image elsewhere";
    for content in [&b""[..], b"short", &[0; 100_000]] {
        std::fs::write(&path, content).unwrap();
        assert_refused(&path, line);
    }
    let line = "{} is neither a regular file nor a block device: a drive image needs one";
    assert_refused(directory.path(), line);
    assert_refused(Path::new("/dev/null"), line);
}

#[test]
fn an_unknown_version_is_refused() {
    let (_directory, path) = image();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, bytes).unwrap();
    let line = "{} is a drive image of version 9, and this program knows versions 1 and 2 only: \
                use the program that made it";
    assert_refused(&path, line);
}

#[test]
fn a_truncated_image_is_refused() {
    let (_directory, path) = image();
    let whole = std::fs::metadata(&path).unwrap().len();
    assert_eq!(whole, GEOMETRY.file_bytes().unwrap());
    for (left, expected) in [
        (whole - 1, whole),
        (ALIGN, whole),
        (72, whole),
        (71, ALIGN),
        (8, ALIGN),
    ] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        let line = format!(
            "{{}} is truncated, {left} bytes of {expected}: restore it from a copy or create it anew"
        );
        assert_refused(&path, &line);
    }
}

#[test]
fn a_damaged_header_is_refused() {
    let (_directory, path) = image();
    let good = std::fs::read(&path).unwrap();
    let line = "the header of {} is damaged: restore it from a copy or create it anew";
    for at in 12..size_of::<Header>() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&path, bad).unwrap();
        assert_refused(&path, line);
    }
    // A sound checksum over an impossible drive.
    let mut bad = good.clone();
    let mut header = Header::read_from_prefix(&good).unwrap().0;
    header.page_bytes = 1000.into();
    header.sealed().write_to_prefix(&mut bad).unwrap();
    std::fs::write(&path, bad).unwrap();
    assert_refused(&path, line);
}

#[test]
fn a_core_without_its_log_is_refused() {
    let (_directory, path) = image();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(ALIGN + SLOT_AT[0]) as usize] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let image = FileImage::open(&path, FileOptions::default()).unwrap();
    let line = format!(
        "the log headers of core 0 in {} cannot be trusted: restore it from a copy or create it anew",
        path.display()
    );
    assert_eq!(image.core(0).unwrap_err().to_string(), line);
    // The error is not the end of the other core, nor does it change on a second look.
    assert_eq!(image.core(0).unwrap_err().to_string(), line);
    assert!(image.core(1).is_ok());
}

#[test]
fn another_drives_image_is_refused() {
    let (_directory, path) = image();
    let image = FileImage::open(&path, FileOptions::default()).unwrap();
    image.require(&GEOMETRY).unwrap();
    let core = |core| ImageGeometry { core, ..GEOMETRY };
    for (wanted, difference) in [
        (
            ImageGeometry {
                cores: 3,
                ..GEOMETRY
            },
            "cores = 2, and the configuration 3",
        ),
        (
            core(CoreGeometry {
                pages_per_block: 8,
                ..GEOMETRY.core
            }),
            "pages_per_block = 4, and the configuration 8",
        ),
        (
            core(CoreGeometry {
                log_bytes: 0,
                ..GEOMETRY.core
            }),
            "log_bytes = 1024, and the configuration 0",
        ),
    ] {
        let line = format!(
            "{} has {difference}: use its own configuration or another image",
            path.display()
        );
        assert_eq!(image.require(&wanted).unwrap_err().to_string(), line);
    }
}

#[test]
fn an_image_in_use_is_refused_until_it_is_dropped() {
    let (_directory, path) = image();
    let image = FileImage::open(&path, FileOptions::default()).unwrap();
    let media = image.core(0).unwrap();
    drop(image);
    let line = "{} is in use by another drive: stop that one, or use another image";
    assert_refused(&path, line);
    let overwrite = FileOptions {
        overwrite: true,
        ..FileOptions::default()
    };
    let error = FileImage::create(&path, &GEOMETRY, 7, overwrite).unwrap_err();
    assert_eq!(
        error.to_string(),
        line.replace("{}", path.to_str().unwrap())
    );
    drop(media);
    FileImage::open(&path, FileOptions::default()).unwrap();
}

#[test]
fn creation_overwrites_only_when_asked() {
    let (directory, path) = image();
    let line = "{} exists already: open it, remove it, or ask for it to be overwritten";
    assert_eq!(create_error(&path, &GEOMETRY), line);
    std::fs::write(&path, b"precious").unwrap();
    assert_eq!(create_error(&path, &GEOMETRY), line);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let overwrite = FileOptions {
        overwrite: true,
        ..FileOptions::default()
    };
    let image = FileImage::create(&path, &GEOMETRY, 8, overwrite).unwrap();
    Model::default().assert_is(&image.core(0).unwrap());
    assert_eq!(names_in(&directory), [path.file_name().unwrap()]);
}

#[test]
fn a_failed_creation_leaves_nothing_behind() {
    let directory = disk_directory();
    let path = image_path(&directory);
    let shape = |cores, core| ImageGeometry { cores, core };
    let core = GEOMETRY.core;
    let huge = CoreGeometry {
        blocks: 1 << 20,
        pages_per_block: 1 << 11,
        ..core
    };
    for (geometry, line) in [
        (
            shape(0, core),
            "cannot create {}: cores must be at least 1, and is 0",
        ),
        (
            shape(1, CoreGeometry { blocks: 0, ..core }),
            "cannot create {}: blocks must be at least 1, and is 0",
        ),
        (
            shape(
                1,
                CoreGeometry {
                    page_bytes: 512,
                    ..core
                },
            ),
            "cannot create {}: a page of 512 bytes cannot be kept: use 4096 (data) or 8 (stamps)",
        ),
        (
            shape(
                1,
                CoreGeometry {
                    blocks: 1 << 31,
                    ..core
                },
            ),
            "cannot create {}: 2147483648 blocks of 4 pages are more than the 4294967295 pages of a \
             core; use more cores",
        ),
        (
            shape(u32::MAX, huge),
            "cannot create {}: 4294967295 cores of this geometry are larger than any file; \
             use fewer blocks",
        ),
    ] {
        assert_eq!(create_error(&path, &geometry), line);
    }
    // A file system refuses this one (ext4 and tmpfs hold files of some TiB), after a start was made.
    let line = create_error(&path, &shape(1 << 19, huge));
    assert!(
        line.starts_with("cannot create {}: ") && line.contains("os error"),
        "{line}"
    );
    assert!(names_in(&directory).is_empty());
    let line = create_error(&directory.path().join("no/such/drive"), &GEOMETRY);
    assert_eq!(
        line,
        "cannot create {}: No such file or directory (os error 2)"
    );
}

#[test]
fn an_unfinished_creation_is_no_obstacle() {
    let directory = disk_directory();
    let path = image_path(&directory);
    let mut unfinished = path.clone().into_os_string();
    unfinished.push(".unfinished");
    std::fs::write(&unfinished, vec![0xff; 300_000]).unwrap();
    let image = FileImage::create(&path, &GEOMETRY, 7, FileOptions::default()).unwrap();
    Model::default().assert_is(&image.core(1).unwrap());
    assert_eq!(names_in(&directory), [path.file_name().unwrap()]);
}

#[test]
fn an_id_follows_from_its_seed_alone() {
    let ids: std::collections::BTreeSet<_> = (0..100)
        .map(|seed| {
            let directory = disk_directory();
            let path = image_path(&directory);
            let image = FileImage::create(&path, &GEOMETRY, seed % 50, UNORDERED).unwrap();
            let id = image.id();
            drop(image);
            assert_eq!(FileImage::open(&path, UNORDERED).unwrap().id(), id);
            id
        })
        .collect();
    assert_eq!(ids.len(), 50);
}

/// A read that does not wait says that a page is on its way until it is there.
#[test]
fn a_page_that_is_not_near_comes() {
    let (_directory, path) = image();
    let image = FileImage::open(&path, FileOptions::default()).unwrap();
    let mut media = image.core(0).unwrap();
    let page: Vec<u8> = (0..4096).map(|at| at as u8).collect();
    media.program(3, Oob { lpn: 5, seq: 9 }, &page).unwrap();
    media.sync().unwrap();
    // Out of the system's cache, where the file system lets go of it.
    let file = std::fs::File::open(&path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut out = vec![0; 4096];
    let found = (0..1_000_000).find_map(|_| {
        std::thread::yield_now();
        media.read_if_near(3, &mut out).unwrap()
    });
    assert_eq!(found, Some(Oob { lpn: 5, seq: 9 }));
    assert!(out == page);
    let error = media.read_if_near(2, &mut out).unwrap_err();
    assert!(matches!(error, MediaError::Erased { ppn: 2 }), "{error}");
}

/// A file that was cut is an error, not a page that is on its way for ever.
#[test]
fn a_page_behind_the_end_of_a_cut_file_is_an_error() {
    let (_directory, path) = image();
    let image = FileImage::open(&path, FileOptions::default()).unwrap();
    let mut media = image.core(0).unwrap();
    media
        .program(3, Oob { lpn: 5, seq: 9 }, &[7; 4096])
        .unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    let mut out = vec![0; 4096];
    let read = (0..1_000_000).find_map(|_| media.read_if_near(3, &mut out).transpose());
    assert!(matches!(read, Some(Err(MediaError::Host(_)))), "{read:?}");
}
