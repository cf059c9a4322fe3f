//! Log page C3h: what has become of the file system at power-up.

use crate::bits::wire_enum;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

wire_enum! {
    /// What has become of a drive's file system.
    pub enum FileSystemState: u32 {
        /// It is being opened, or made: commands for files wait.
        Opening = 0 => "being opened",
        /// It is open.
        Open = 1 => "open",
        /// The drive has no table of partitions, or one that is damaged.
        NoTable = 2 => "no table of partitions",
        /// No partition has a file system that the drive knows.
        None = 3 => "no file system",
        /// It could not be made.
        NotMade = 4 => "not made",
        /// It is damaged, or its pages cannot be read or written.
        Damaged = 5 => "damaged",
        /// It needs more memory than the drive has for it.
        NoMemory = 6 => "not enough memory",
    }
}

/// Bytes of a text in the log.
pub const LOG_TEXT_BYTES: usize = 192;

/// The log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileSystemLog {
    /// Version of this structure: [`FileSystemLog::VERSION`].
    pub version: u32,
    /// A [`FileSystemState`].
    pub state: u32,
    /// Number of the kind of file system; 0 if none is open.
    pub kind: u32,
    /// Error number of what failed; 0 for none.
    pub errno: u32,
    /// Groups of changes that were replayed from the journal.
    pub replayed_groups: u64,
    /// Pages that were written to their places by that.
    pub replayed_pages: u64,
    /// Superblocks and headers that were damaged, and mended from their copies.
    pub mended: u64,
    /// Files that were cut, or removed: nobody has them open any more.
    pub orphans: u64,
    pub(crate) reserved: [u64; 2],
    /// What failed, for people: UTF-8, with zeros behind it.
    pub text: [u8; LOG_TEXT_BYTES],
}

const _: () = assert!(size_of::<FileSystemLog>() == 256);

impl FileSystemLog {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;

    /// A log of a file system in this state.
    pub fn new(state: FileSystemState) -> FileSystemLog {
        FileSystemLog {
            version: FileSystemLog::VERSION,
            state: state.raw(),
            ..FromZeros::new_zeroed()
        }
    }

    /// The state, if it is one that is known.
    pub fn state(&self) -> Option<FileSystemState> {
        FileSystemState::from_raw(self.state)
    }

    /// The same, with a text; one that is too long is cut.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> FileSystemLog {
        let bytes = text.floor_char_boundary(LOG_TEXT_BYTES);
        self.text = [0; LOG_TEXT_BYTES];
        self.text[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
        self
    }

    /// The text.
    pub fn text(&self) -> String {
        let bytes = self.text.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.text[..bytes.unwrap_or(LOG_TEXT_BYTES)]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let log = FileSystemLog::new(FileSystemState::Damaged);
        assert_eq!(log.with_text("page 9 is wrong").text(), "page 9 is wrong");
        let long = "ä".repeat(LOG_TEXT_BYTES / 2) + "b";
        assert_eq!(log.with_text(&long).text().len(), LOG_TEXT_BYTES);
        let odd = "a".to_string() + &"ä".repeat(LOG_TEXT_BYTES);
        assert_eq!(log.with_text(&odd).text().len(), LOG_TEXT_BYTES - 1);
        assert_eq!(log.text(), "");
    }
}
