//! What happened at power-on (C3h), and the cache in the drive's memory (C4h), as log pages for the host.

use wharf_files::volume::{Format, Recovered};
use wharf_wire::file::{FileSystemLog, FileSystemState};
use zerocopy::IntoBytes;

use super::find::OpenError;
use super::firmware::Firmware;

/// The log page.
pub(super) fn page(firmware: &Firmware) -> Vec<u8> {
    log(firmware).as_bytes().to_vec()
}

/// The log page of the cache, if there is one.
pub(super) fn device_cache(firmware: &Firmware) -> Option<Vec<u8>> {
    let log = firmware.near().log()?;
    Some(log.as_bytes().to_vec())
}

fn log(firmware: &Firmware) -> FileSystemLog {
    if let Some(error) = firmware.failed() {
        return failed(&error);
    }
    let Some(recovered) = firmware.recovered() else {
        return FileSystemLog::new(FileSystemState::Opening);
    };
    let mut log = FileSystemLog::new(FileSystemState::Open);
    match recovered {
        Recovered::Wfs(wfs) => {
            log.kind = Format::Wfs.number().into();
            log.replayed_groups = wfs.replayed.groups;
            log.replayed_pages = wfs.replayed.images;
            log.mended = wfs.replayed.mended;
            log.orphans = wfs.orphans;
        }
        Recovered::Wpm(wpm) => {
            log.kind = Format::Wpm.number().into();
            log.replayed_groups = wpm.notes;
            log.orphans = wpm.orphans;
        }
    }
    log
}

fn failed(error: &OpenError) -> FileSystemLog {
    let state = match error {
        OpenError::Table(_) => FileSystemState::NoTable,
        OpenError::None => FileSystemState::None,
        OpenError::Make(_) => FileSystemState::NotMade,
        OpenError::Memory(_) => FileSystemState::NoMemory,
        OpenError::Files(_) => FileSystemState::Damaged,
    };
    let mut log = FileSystemLog::new(state).with_text(&error.to_string());
    if let OpenError::Files(error) = error {
        log.errno = error.errno().number().unsigned_abs();
    }
    log
}
