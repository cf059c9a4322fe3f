//! The journal: words that have to be stored together.
//!
//! An operation on several inodes stores several words. It notes them in a slot of the journal,
//! makes the note durable, marks it by one word, stores the words themselves, makes these durable,
//! and takes the mark away. A mark that is found at opening is a note to be carried out again.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{Geometry, JOURNAL_PAGE, PAGE, TABLE_PAGE, crc32c, damaged};
use crate::errno::Fault;
use crate::lines::Lines;

/// Words that can be stored together: those of four inodes.
pub const WORDS_MAX: usize = 4;

/// Bytes of a slot of the journal.
pub const NOTE_BYTES: u64 = size_of::<Note>() as u64;

/// Slots of the journal: operations on several inodes that can be under way.
pub const NOTES: u64 = PAGE / NOTE_BYTES;

/// A slot of the journal: two lines.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Note {
    /// A word: 2^32 and the checksum of the rest, if the note is to be carried out; else 0.
    pub mark: U64,
    /// How many words there are.
    pub count: U32,
    /// 0.
    pub reserved: U32,
    /// Addresses of words, each with what is to be there.
    pub words: [[U64; 2]; WORDS_MAX],
    /// 0.
    pub reserved_2: [U64; 6],
}

/// Above the checksum, so that a mark is never 0.
const MARK: u64 = 1 << 32;

fn note_at(slot: u64) -> u64 {
    JOURNAL_PAGE * PAGE + slot * NOTE_BYTES
}

fn mark_of(note: &Note) -> u64 {
    MARK | u64::from(crc32c(&[note.body()]))
}

/// A note that is stored and not marked.
#[derive(Debug)]
pub struct Noted {
    at: u64,
    mark: u64,
}

/// A note of words in a slot of the journal: what is to be stored, and where. It counts once it is
/// durable and marked.
pub fn note(slot: u64, words: &[(u64, u64)]) -> (Noted, u64, Note) {
    let mut note = Note {
        mark: 0.into(),
        count: (words.len() as u32).into(),
        reserved: 0.into(),
        words: [[0.into(); 2]; WORDS_MAX],
        reserved_2: [0.into(); 6],
    };
    for (place, (at, word)) in note.words.iter_mut().zip(words) {
        *place = [U64::new(*at), U64::new(*word)];
    }
    let (at, mark) = (note_at(slot), mark_of(&note));
    (Noted { at, mark }, at + 8, note)
}

impl Note {
    /// All behind the mark.
    pub fn body(&self) -> &[u8] {
        &self.as_bytes()[8..]
    }
}

impl Noted {
    /// The word of the mark, and its address. When it is durable, the words are stored whatever
    /// happens.
    pub fn mark(&self, geometry: &Geometry) -> (u64, u64) {
        (self.at, geometry.word(self.at, self.mark))
    }

    /// The word that takes the mark away, when the words are durable.
    pub fn no_mark(&self) -> (u64, u64) {
        (self.at, 0)
    }
}

/// Stores a word, which the next fence makes durable.
///
/// # Errors
/// Of the media.
pub async fn store_word<L: Lines>(lines: &L, at: u64, word: u64) -> Result<(), Fault> {
    lines.store(at, &word.to_le_bytes()).await?;
    lines.persist(at, 8).await
}

/// Carries out what is marked; how many notes that were.
///
/// # Errors
/// Of the media; damage.
pub async fn recover<L: Lines>(lines: &L, geometry: &Geometry) -> Result<u64, Fault> {
    let mut done = 0;
    for slot in 0..NOTES {
        let at = note_at(slot);
        let mut bytes = [0; NOTE_BYTES as usize];
        lines.load(at, &mut bytes).await?;
        let note = Note::read_from_bytes(&bytes[..]);
        let note = note.map_err(|_| damaged(at, "it is no note"))?;
        let mark = geometry.value(at, note.mark.get())?;
        if mark == 0 {
            continue;
        }
        let words = note.words.get(..note.count.get() as usize);
        let words = words.filter(|_| mark == mark_of(&note));
        let words = words.ok_or(damaged(at, "a note does not match its mark"))?;
        for [at, word] in words {
            let (at, word) = (at.get(), word.get());
            let table = TABLE_PAGE * PAGE..geometry.data_first() * PAGE;
            if !table.contains(&at) || at % 8 != 0 {
                return Err(damaged(note_at(slot), "a note leads out of the table"));
            }
            store_word(lines, at, word).await?;
        }
        lines.fence().await?;
        store_word(lines, at, 0).await?;
        lines.fence().await?;
        done += 1;
    }
    Ok(done)
}
