//! What is known of files under a lease, each with the word that says whether that is so.

use rustc_hash::FxHashMap;
use wharf_files::Attributes;
use wharf_host::stor::Leased;
use wharf_wire::dma::{DmaRegion, DmaWord, PAGE_WORDS};

use super::super::keeping::Coherence;
use super::ahead::Ahead;
use super::pause::Pause;

/// Files with leases; the last word is of all names.
pub(super) const FILES_MAX: usize = PAGE_WORDS - 1;

/// A file.
#[derive(Default)]
pub(super) struct Known {
    pub(super) number: u64,
    /// The number of its lease; 0 if it has none.
    lease: u64,
    /// What its pages go by: it is another one whenever they are forgotten.
    pub(super) version: u64,
    pub(super) bytes: u64,
    /// None if this process has changed them since.
    pub(super) attributes: Option<Attributes>,
    pub(super) ahead: Ahead,
    /// The byte behind what was read last by way of the drive's cache.
    pub(super) near_end: u64,
    /// Whether its lease was of use.
    pub(super) is_used: bool,
    pause: Pause,
}

impl Known {
    /// It is to be asked for anew, which is nobody else's fault.
    fn end(&mut self) {
        self.lease = 0;
        self.is_used = true;
    }
}

/// See the [module](self). There are as many as there are words.
pub(super) struct Files {
    words: Vec<(DmaWord, u64)>,
    pub(super) coherence: Coherence,
    files: Vec<Known>,
    places: FxHashMap<u64, u16>,
    hand: usize,
    versions: u64,
}

impl Files {
    /// None yet, with the words of a page.
    pub(super) fn new(words: &DmaRegion, coherence: Coherence) -> Files {
        Files {
            words: (0..FILES_MAX).map(|index| words.word(index)).collect(),
            coherence,
            files: Vec::new(),
            places: FxHashMap::default(),
            hand: 0,
            versions: 0,
        }
    }

    /// Where a file is, if it is known.
    #[inline]
    pub(super) fn place(&self, number: u64) -> Option<u16> {
        self.places.get(&number).copied()
    }

    /// Where a file is; the one that is known longest makes room for a new one.
    pub(super) fn place_or_new(&mut self, number: u64) -> u16 {
        if let Some(place) = self.place(number) {
            return place;
        }
        let place = match self.files.len() < self.words.len() {
            true => {
                self.files.push(Known::default());
                self.files.len() - 1
            }
            false => {
                self.hand = (self.hand + 1) % self.files.len();
                self.hand
            }
        };
        self.places.remove(&self.files[place].number);
        self.files[place] = Known {
            number,
            ..Known::default()
        };
        self.places.insert(number, place as u16);
        place as u16
    }

    /// A file at a place.
    #[inline]
    pub(super) fn at(&mut self, place: u16) -> &mut Known {
        &mut self.files[usize::from(place)]
    }

    /// The file at a place, if it is this one and has a lease now; without coherence, if anything was asked of it.
    #[inline]
    pub(super) fn valid(&mut self, place: u16, number: u64) -> Option<&mut Known> {
        let file = self.files.get_mut(usize::from(place))?;
        let (word, _) = &self.words[usize::from(place)];
        let is_so = match self.coherence {
            Coherence::Leases => word.look() == file.lease,
            Coherence::None => true,
        };
        (file.number == number && file.lease != 0 && is_so).then_some(file)
    }

    /// The address of the word by which a lease of the file is to be asked for; none if it is no time for that: others change
    /// it again and again.
    pub(super) fn ask(&mut self, place: u16) -> Option<u64> {
        let is_time = self.at(place).pause.is_over();
        is_time.then(|| self.words[usize::from(place)].1)
    }

    /// What was answered.
    pub(super) fn answered(&mut self, place: u16, answer: &Leased) {
        self.versions += 1;
        let version = self.versions;
        let file = self.at(place);
        file.pause.begin(file.is_used);
        if file.version == 0 {
            // It is not known yet whether it is of use.
            file.pause.skip();
        }
        file.lease = answer.lease;
        file.version = version;
        file.bytes = answer.attributes.bytes;
        file.attributes = Some(answer.attributes);
        file.is_used = false;
    }

    /// The attributes of a file were asked for just now.
    pub(super) fn learn(&mut self, place: u16, found: &Attributes) {
        self.versions += 1;
        let (version, coherence) = (self.versions, self.coherence);
        let Some(file) = self.valid(place, found.number) else {
            return;
        };
        file.attributes = Some(*found);
        if coherence == Coherence::None && file.bytes != found.bytes {
            // Others have changed it: its pages are forgotten.
            (file.version, file.bytes) = (version, found.bytes);
        }
    }

    /// This process has changed a file in a way that is not followed here: what is known of its bytes is forgotten.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            self.at(place).end();
        }
    }

    /// It has changed nobody knows which.
    pub(super) fn forget_all(&mut self) {
        self.files.iter_mut().for_each(Known::end);
    }

    /// It has changed attributes of nobody knows which.
    pub(super) fn forget_attributes(&mut self) {
        self.files
            .iter_mut()
            .for_each(|file| file.attributes = None);
    }
}
