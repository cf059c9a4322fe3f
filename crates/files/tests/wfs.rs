//! The journaling file system before the judges of file systems: random programs of several users
//! beside the model, power cuts behind every change of its media, and all short programs.
//!
//! All programs of one and of two operations are tried by default, of three some by their seeds. A
//! longer hunt, with so many times as many seeds:
//!
//! ```text
//! WHARF_CASES=100 cargo test --release -p wharf-files --test wfs
//! ```

use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;

use wharf_files::block::{Make, Wfs, check, make};
use wharf_files::block_on;
use wharf_files::model::ModelLimits;
use wharf_files::pages::{PAGE_BYTES, RamPages};
use wharf_files::testing::ace;
use wharf_files::testing::beside::{self, ROOT_MODE, Room, START_NS, assert_alike, new_model};
use wharf_files::testing::crash::{Judged, OnMedium, Thoroughness, assert_survives};
use wharf_files::testing::program::Step;
use wharf_files::testing::random::Steps;
use wharf_files::testing::recorded::RecordedPages;
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::Likeness;
use wharf_files::{FileError, FileSystem};
use wharf_runtime::Seed;

/// Makes file systems of so many pages.
struct Maker {
    pages: u64,
    made: OnceLock<RamPages>,
}

impl Maker {
    const fn new(pages: u64) -> Maker {
        let made = OnceLock::new();
        Maker { pages, made }
    }
}

/// Where there is room for every program.
static WIDE: Maker = Maker::new(1200);

/// Where there is not.
static NARROW: Maker = Maker::new(256);

/// Where there is room for short programs, and where little is to be looked through.
static SHORT: Maker = Maker::new(400);

impl OnMedium for Maker {
    type FileSystem = Wfs<RecordedPages>;
    type Recording = RecordedPages;

    async fn make(&self) -> RamPages {
        if let Some(made) = self.made.get() {
            return made.clone();
        }
        let pages = RecordedPages::new(&RamPages::new(self.pages));
        let new = Make {
            file_system: 0x5eed,
            hash_key: [1, 2],
            now_ns: START_NS,
            uid: 0,
            gid: 0,
            mode: ROOT_MODE,
        };
        make(&pages, new).await.expect("it can be made");
        self.made.get_or_init(|| pages.medium()).clone()
    }

    async fn open(&self, pages: &RecordedPages) -> Result<Rc<Self::FileSystem>, FileError> {
        let (fs, _) = Wfs::open(pages.clone(), 32 * PAGE_BYTES).await?;
        Ok(Rc::new(fs))
    }

    async fn check(&self, fs: &Self::FileSystem, pages: &RecordedPages) -> Result<(), String> {
        let said = |error: FileError| error.to_string();
        fs.settle().await.map_err(said)?;
        let checked = check(pages).await.map_err(|fault| fault.to_string())?;
        match checked.findings.is_empty() {
            true => Ok(()),
            false => Err(checked.findings.join("; ")),
        }
    }
}

fn program(seed: u64, steps: usize) -> Vec<Step> {
    Steps::new(Seed(seed).child("wfs").rng(), Taste::default()).program(steps)
}

/// How many times as much is tried as by default.
fn cases() -> u64 {
    let cases = std::env::var("WHARF_CASES").map_or(1, |text| text.parse().expect("a number"));
    println!("WHARF_CASES={cases}");
    cases
}

fn beside_the_model(maker: &Maker, seeds: Range<u64>, room: Room) {
    for seed in seeds {
        assert_alike(seed, &program(seed, 200), |program| {
            let model = new_model(ModelLimits::default());
            block_on(async {
                let pages = RecordedPages::new(&maker.make().await);
                let fs = maker.open(&pages).await.expect("it opens");
                let how = (Likeness::ALL, room);
                beside::run(&fs, &model, program, how).await?;
                let checked = maker.check(&fs, &pages).await;
                checked.map_err(beside::Difference::in_the_end)
            })
        });
    }
}

fn cuts(maker: &Maker, seeds: u64, room: Room) -> Judged {
    let mut all = Judged::default();
    for seed in 0..seeds {
        let how = Thoroughness {
            room,
            ..Thoroughness::default()
        };
        all += assert_survives(maker, &program(seed, 60), seed, how);
    }
    println!("{all:?}");
    all
}

#[test]
fn it_is_alike_to_the_model() {
    beside_the_model(&WIDE, 0..100 * cases(), Room::Enough);
}

/// A page that a transaction gave back and took again was noted as given back alone.
#[test]
fn a_page_given_back_and_taken_in_one_transaction_was_lost() {
    beside_the_model(&WIDE, 19_476..19_477, Room::Enough);
    beside_the_model(&NARROW, 19_476..19_477, Room::Little);
}

#[test]
fn it_is_alike_to_the_model_when_it_is_full() {
    beside_the_model(&NARROW, 0..100 * cases(), Room::Little);
}

#[test]
fn it_survives_power_cuts_behind_every_change() {
    let judged = cuts(&WIDE, 30 * cases(), Room::Enough);
    assert!(judged.cuts > 1_000 && judged.lost_steps > 100, "{judged:?}");
}

#[test]
fn it_survives_power_cuts_when_it_is_full() {
    cuts(&NARROW, 30 * cases(), Room::Little);
}

/// Cuts behind the changes of each program's last operation: those of the ones before are another program's.
fn cuts_of_short_programs(programs: impl Iterator<Item = ace::Program>) -> (u64, Judged) {
    let (mut count, mut all) = (0, Judged::default());
    for (seed, program) in programs.enumerate() {
        let how = Thoroughness {
            first_step: program.last_from,
            ..Thoroughness::default()
        };
        all += assert_survives(&SHORT, &program.steps, seed as u64, how);
        count += 1;
    }
    println!("{count} programs, {all:?}");
    (count, all)
}

#[test]
fn all_programs_of_one_operation_survive_power_cuts() {
    cuts_of_short_programs(ace::programs(1));
}

#[test]
fn all_programs_of_two_operations_survive_power_cuts() {
    let (programs, judged) = cuts_of_short_programs(ace::programs(2));
    assert!(
        programs > 18_000 && judged.cuts > 10 * programs,
        "{judged:?}"
    );
}

#[test]
fn programs_of_three_operations_survive_power_cuts() {
    let chosen = |seed| ace::chosen(3, Seed(seed).child("three").rng()).next();
    cuts_of_short_programs((0..40 * cases()).filter_map(chosen));
}
#[test]
fn what_an_opening_gives_back_is_said() {
    block_on(async {
        let pages = RecordedPages::new(&WIDE.make().await);
        let fs = WIDE.open(&pages).await.expect("it opens");
        fs.sync_all().await.expect("it is flushed");
        let again = Wfs::open(pages.clone(), 0).await.expect("it opens again");
        assert_eq!(again.1, Default::default(), "there was nothing to be done");
    });
}
