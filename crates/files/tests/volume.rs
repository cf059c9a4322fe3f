//! Volumes of each format on pages, before the judges: random programs beside the model, and power
//! cuts behind every change of the pages. wpm keeps there what it keeps in memory.

use std::rc::Rc;

use wharf_files::block::Make;
use wharf_files::model::ModelLimits;
use wharf_files::pages::RamPages;
use wharf_files::testing::ace;
use wharf_files::testing::beside::{self, ROOT_MODE, Room, START_NS, assert_alike, new_model};
use wharf_files::testing::crash::{OnMedium, Thoroughness, assert_survives};
use wharf_files::testing::program::Step;
use wharf_files::testing::random::Steps;
use wharf_files::testing::recorded::RecordedPages;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::Likeness;
use wharf_files::volume::{Format, Volume, check, make};
use wharf_files::{
    By, Caller, Content, Entry, Errno, FileError, FileSystem, New, Owner, Remove, Rename, Seen,
    block_on,
};
use wharf_runtime::Seed;

struct Maker(Format);

impl OnMedium for Maker {
    type FileSystem = Volume<RecordedPages>;
    type Recording = RecordedPages;

    async fn make(&self) -> RamPages {
        let pages = RecordedPages::new(&RamPages::new(1200));
        let new = Make {
            file_system: 0x5eed,
            hash_key: [1, 2],
            now_ns: START_NS,
            uid: 0,
            gid: 0,
            mode: ROOT_MODE,
        };
        make(&pages, self.0, new).await.expect("it can be made");
        pages.medium()
    }

    async fn open(&self, pages: &RecordedPages) -> Result<Rc<Self::FileSystem>, FileError> {
        let opened = Volume::open(pages.clone(), self.0, 1 << 17).await;
        Ok(Rc::new(opened?.0))
    }

    async fn check(&self, fs: &Self::FileSystem, pages: &RecordedPages) -> Result<(), String> {
        fs.settle().await.map_err(|error| error.to_string())?;
        let found = check(pages, fs.format()).await;
        match found.map_err(|fault| fault.to_string())?.findings {
            findings if findings.is_empty() => Ok(()),
            findings => Err(findings.join("; ")),
        }
    }
}

fn program(seed: u64, steps: usize) -> Vec<Step> {
    Steps::new(Seed(seed).child("volume").rng(), Taste::default()).program(steps)
}

#[test]
fn formats_are_known_by_their_numbers() {
    for format in Format::ALL {
        assert_eq!(Format::of_number(format.number()), Some(format));
    }
    assert_eq!(Format::of_number(0), None);
}

#[test]
fn volumes_are_alike_to_the_model() {
    for format in Format::ALL {
        for seed in 0..20 {
            assert_alike(seed, &program(seed, 200), |program| {
                let (model, maker) = (new_model(ModelLimits::default()), Maker(format));
                block_on(async {
                    let pages = RecordedPages::new(&maker.make().await);
                    let fs = maker.open(&pages).await.expect("it opens");
                    let how = (Likeness::ALL, Room::Enough);
                    beside::run(&fs, &model, program, how).await?;
                    let checked = maker.check(&fs, &pages).await;
                    checked.map_err(beside::Difference::in_the_end)
                })
            });
        }
    }
}

#[test]
fn volumes_survive_power_cuts_and_wpm_loses_nothing_in_them() {
    for format in Format::ALL {
        let how = Thoroughness {
            is_immediate: format == Format::Wpm,
            ..Thoroughness::default()
        };
        for seed in 0..5 {
            assert_survives(&Maker(format), &program(seed, 40), seed, how);
        }
        let how = Thoroughness {
            first_step: ace::setup().len(),
            ..how
        };
        for (seed, program) in ace::programs(1).enumerate() {
            assert_survives(&Maker(format), &program.steps, seed as u64, how);
        }
    }
}

/// What comes of a remove, and of a rename, of a name that led elsewhere when it was looked at.
async fn stale_names(fs: &impl FileSystem) -> Result<Vec<Result<(), Errno>>, FileError> {
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: START_NS,
    };
    let new = New {
        content: Content::File,
        mode: 0o600,
        owner: Owner { uid: 0, gid: 0 },
        is_open: false,
    };
    let name = |name: &'static [u8], seen| Entry {
        seen,
        ..Entry::new(fs.root(), name)
    };
    let a = fs.create(by, name(b"a", Seen::Nothing), new).await?.number;
    let b = fs.create(by, name(b"b", Seen::Any), new).await?.number;
    let mut ended = Vec::new();
    for (victim, seen) in [
        (b"a", Seen::Number(b)),
        (b"a", Seen::Nothing),
        (b"c", Seen::Number(a)),
        (b"c", Seen::Nothing),
    ] {
        let removed = fs.remove(by, name(victim, seen), Remove::Name).await;
        ended.push(removed.map_err(|error| error.errno()));
    }
    for (from, to) in [
        (Seen::Number(b), Seen::Number(b)),
        (Seen::Number(a), Seen::Number(a)),
        (Seen::Number(a), Seen::Nothing),
        (Seen::Number(a), Seen::Number(b)),
    ] {
        let (from, to) = (name(b"a", from), name(b"b", to));
        let renamed = fs.rename(by, from, to, Rename::Replace).await;
        ended.push(renamed.map_err(|error| error.errno()));
    }
    assert_eq!(fs.lookup(fs.root(), b"b").await?.number, a);
    Ok(ended)
}

#[test]
fn a_name_that_leads_elsewhere_than_it_did_is_said_to_and_nothing_is_done() {
    let right = block_on(stale_names(&new_model(ModelLimits::default()))).unwrap();
    let stale = Err(Errno::ESTALE);
    let none = Err(Errno::ENOENT);
    assert_eq!(right[..4], [stale, stale, none, none]);
    assert_eq!(right[4..], [stale, stale, stale, Ok(())]);
    for format in Format::ALL {
        let found = block_on(async {
            let maker = Maker(format);
            let pages = RecordedPages::new(&maker.make().await);
            let fs = maker.open(&pages).await.expect("it opens");
            stale_names(&*fs).await.expect("it runs")
        });
        assert_eq!(found, right, "{format:?}");
    }
}
