//! How file systems for persistent memory come to be in tests.

use std::rc::Rc;
use std::sync::OnceLock;

use wharf_files::FileError;
use wharf_files::bytes::{Make, Wpm, check, make};
use wharf_files::lines::RamLines;
use wharf_files::testing::beside::{ROOT_MODE, Room, START_NS};
use wharf_files::testing::crash::{OnMedium, Thoroughness};
use wharf_files::testing::recorded_lines::RecordedLines;

/// Makes file systems of so many pages.
pub struct Maker {
    pages: u64,
    made: OnceLock<RamLines>,
}

impl Maker {
    const fn new(pages: u64) -> Maker {
        let made = OnceLock::new();
        Maker { pages, made }
    }
}

/// Where there is room for every program.
pub static WIDE: Maker = Maker::new(1200);

/// Where there is not.
pub static NARROW: Maker = Maker::new(40);

/// Where there is room for short programs, and where little is to be looked through.
pub static SHORT: Maker = Maker::new(200);

impl OnMedium for Maker {
    type FileSystem = Wpm<RecordedLines>;
    type Recording = RecordedLines;

    async fn make(&self) -> RamLines {
        if let Some(made) = self.made.get() {
            return made.clone();
        }
        let lines = RamLines::new(self.pages);
        let new = Make {
            file_system: 0x5eed,
            now_ns: START_NS,
            uid: 0,
            gid: 0,
            mode: ROOT_MODE,
        };
        make(&lines, new).await.expect("it can be made");
        self.made.get_or_init(|| lines).clone()
    }

    async fn open(&self, lines: &RecordedLines) -> Result<Rc<Self::FileSystem>, FileError> {
        let (fs, recovered) = Wpm::open(lines.clone(), 8 << 10).await?;
        assert_eq!(recovered.damaged, 0);
        Ok(Rc::new(fs))
    }

    async fn check(&self, _: &Self::FileSystem, lines: &RecordedLines) -> Result<(), String> {
        let checked = check(lines).await.map_err(|fault| fault.to_string())?;
        match checked.findings.is_empty() {
            true => Ok(()),
            false => Err(checked.findings.join("; ")),
        }
    }
}

/// All that an operation does is durable when it ends, bytes of files too. Where no more than four
/// states can be left behind a change, all of them are judged.
pub const IMMEDIATE: Thoroughness = Thoroughness {
    first_step: 0,
    parts: 4,
    openings_one_of: 16,
    room: Room::Enough,
    is_immediate: true,
};
