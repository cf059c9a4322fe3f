//! Power cuts and the drive's cache of pages of files: with `memory.protected` what was written near is there afterwards, without it what was
//! synced is.
//!
//! The oracle: each page has a value in its first bytes, all values are different, and of each page it is known which one was begun last, which
//! one was acknowledged as kept near, and which one was synced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use wharf_drive::config::LinkKind;
use wharf_drive::{Drive, PowerSwitch};
use wharf_files::Caller;
use wharf_runtime::{Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::file::{
    DeviceCacheLog, Evict, FileHandle, HandleOperation, NearResult, OpenMode, PathChange,
};
use wharf_wire::log_page::LogPage;
use wharf_wire::window::FilePage;

use super::asker::{Asker, UPDATE, head, path};
use super::near::near_pages;
use super::support::{Home, Programs, new_rig, run};
use super::turns::script;
use crate::support::rig::Rig;

const PAGE: u64 = 4096;

/// Bytes of a page that are written.
const BYTES: usize = 1000;

const FILES: [&[u8]; 3] = [b"/0", b"/1", b"/2"];

const PAGES_MAX: u64 = 6;

/// A page of a file that there is.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    begun: u32,
    /// Kept near, by what the drive has said.
    near: u32,
    synced: u32,
}

/// A file, since it was made.
#[derive(Debug, Clone, Default)]
struct File {
    handle: Option<FileHandle>,
    pages: Vec<Page>,
}

/// What may be there.
#[derive(Debug, Default)]
struct World {
    files: [File; FILES.len()],
    /// File and page that each value was given to.
    given: BTreeMap<u32, (usize, u64)>,
    /// Pages that were lost though they were kept near.
    lost: u32,
    restored: u64,
}

type Shared = Arc<Mutex<World>>;

struct Player {
    asker: Asker,
    world: Shared,
    power: PowerSwitch,
    rng: Rng,
}

impl Player {
    fn world<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        f(&mut self.world.lock().unwrap())
    }

    fn file<R>(&self, file: usize, f: impl FnOnce(&mut File) -> R) -> R {
        self.world(|world| f(&mut world.files[file]))
    }

    /// Puts a new value into the buffer, for a page.
    fn begin(&self, file: usize, page: u64) -> u32 {
        let value = self.world(|world| {
            let value = world.given.len() as u32 + 1;
            world.given.insert(value, (file, page));
            let pages = &mut world.files[file].pages;
            pages.resize(pages.len().max(page as usize + 1), Page::default());
            pages[page as usize].begun = value;
            value
        });
        self.asker.put(0, &value.to_le_bytes().repeat(BYTES / 4));
        value
    }

    /// Sends a command; nothing is heard of it once the power is gone.
    async fn send(&mut self, command: Command) -> Option<u64> {
        let command = match command.file_bytes() {
            0 => command,
            _ => self.asker.aimed(command),
        };
        let done = self.asker.send(command).await.done();
        (!self.power.is_cut()).then(|| done.expect("it can be done"))
    }

    async fn write(&mut self, file: usize, page: u64) {
        let handle = self.file(file, |file| file.handle).expect("it is open");
        self.begin(file, page);
        let write = Command::write_file(1, handle, page * PAGE, BYTES as u32);
        self.send(write).await;
    }

    async fn write_near(&mut self, file: usize, page: u64) {
        let handle = self.file(file, |file| file.handle).expect("it is open");
        let value = self.begin(file, page);
        let write = Command::write_near(1, handle, page * PAGE, BYTES as u32);
        let done = self.send(write).await.map(NearResult::from_raw);
        if done.is_some_and(|done| done.kept == 1) {
            self.file(file, |file| file.pages[page as usize].near = value);
        }
    }

    async fn sync(&mut self, file: usize, handle: FileHandle) {
        let before = self.file(file, |file| file.pages.clone());
        let sync = Command::sync_file(1, handle, 0, u64::MAX, false);
        if self.send(sync).await.is_some() {
            self.file(file, |file| {
                for (page, before) in file.pages.iter_mut().zip(before) {
                    page.synced = before.begun;
                }
            });
        }
    }

    /// What takes a page away may be undone, or not.
    fn forget(&self, file: usize, pages: std::ops::Range<usize>) {
        self.file(file, |file| {
            let end = pages.end.min(file.pages.len());
            for page in &mut file.pages[pages.start.min(end)..end] {
                (page.near, page.synced) = (0, 0);
            }
        });
    }

    async fn make(&mut self, file: usize) {
        let handle = self.asker.file(UPDATE, FILES[file]).await;
        self.file(file, |file| {
            *file = File {
                handle: Some(handle),
                pages: Vec::new(),
            }
        });
        for page in 0..2 {
            self.write(file, page).await;
        }
    }

    async fn remove(&mut self, file: usize, handle: FileHandle) {
        self.file(file, |file| *file = File::default());
        let remove = Command::path_change(1, PathChange::Remove, 4096);
        let name = path(FILES[file]);
        let removed = self.asker.ask(remove, head(&Caller::root()), &name).await;
        assert!(self.power.is_cut() || removed.done() == Ok(0));
        self.send(Command::close_file(1, handle)).await;
    }

    async fn step(&mut self) {
        let file = self.rng.below(FILES.len() as u64) as usize;
        let (handle, pages) = self.file(file, |file| (file.handle, file.pages.len() as u64));
        let Some(handle) = handle else {
            return self.make(file).await;
        };
        let page = self.rng.below(pages);
        match self.rng.below(24) {
            0 => self.remove(file, handle).await,
            1 => self.sync(file, handle).await,
            2 => {
                let evict = Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX);
                self.send(evict).await;
            }
            3 => {
                let take = Command::read_near(1, handle, page * PAGE, 4096).taking();
                self.send(take).await;
            }
            4 if page > 0 => {
                self.forget(file, page as usize..usize::MAX);
                let cut = HandleOperation::Truncate;
                let cut = Command::handle_operation(1, handle, cut, page * PAGE, 0);
                self.send(cut).await;
                // What is there again later is written anew.
                let is_cut = self.power.is_cut();
                self.file(file, |file| {
                    if !is_cut {
                        file.pages.truncate(page as usize);
                    }
                });
            }
            5 => {
                self.forget(file, page as usize..page as usize + 1);
                let punch = HandleOperation::Punch;
                let punch = Command::handle_operation(1, handle, punch, page * PAGE, PAGE);
                self.send(punch).await;
            }
            6 if pages < PAGES_MAX => self.write(file, pages).await,
            7 | 8 => self.write(file, page).await,
            // The last page is not whole: it is written as far as it goes.
            _ => self.write_near(file, page).await,
        }
    }
}

/// Uses files until the power goes, or for so many steps.
fn play(rig: &mut Rig, world: &Shared, seed: u64, steps: u32, power: &PowerSwitch) {
    rig.give_feature(&Programs);
    let (world, of_player) = (world.clone(), power.clone());
    let client = script(async move |asker| {
        let mut player = Player {
            asker,
            world,
            power: of_player,
            rng: Seed(seed).child("steps").rng(),
        };
        for _ in 0..steps {
            player.step().await;
        }
        player.power.cut();
    });
    rig.run_clients(power, vec![client]);
}

/// Powers the drive on, and cuts the power again after so many changes of the media.
fn power_on_until(rig: &mut Rig, changes: u64) {
    rig.give_feature(&Programs);
    let client = script(async move |mut asker: Asker| {
        // It waits for the file system, which may not come.
        let sync = asker.aimed(Command::sync_files(1));
        asker.send(sync).await;
    });
    rig.run_clients(&PowerSwitch::cut_after(changes), vec![client]);
}

/// Looks at all files.
fn judge(rig: &mut Rig, world: &Shared, is_protected: bool, about: &str) {
    let (about, world) = (about.to_owned(), world.clone());
    run(rig, async move |host| {
        let mut asker = Asker::new(host);
        // It waits for the file system.
        assert_eq!(asker.send(Command::sync_files(1)).await.done(), Ok(0));
        assert_eq!(near_pages(&mut asker).await, (0, 0));
        let log: DeviceCacheLog = asker.host.log(LogPage::DeviceCache).await;
        assert_eq!(log.is_protected, u32::from(is_protected));
        assert_eq!(log.lost_pages, 0);
        world.lock().unwrap().restored += log.restored_pages;
        for (number, name) in FILES.iter().enumerate() {
            let all = contents(&mut asker, name).await;
            let mut world = world.lock().unwrap();
            judge_file(&mut world, number, &all, is_protected, &about);
        }
    });
}

/// Holds the values of a file's pages against what they may be.
fn judge_file(world: &mut World, number: usize, all: &[u32], is_protected: bool, about: &str) {
    for (nth, page) in world.files[number].pages.iter().enumerate() {
        let about = format!("{about}, file {number}, page {nth}: {page:?}");
        let value = all.get(nth).copied().unwrap_or(0);
        let of = (value > 0).then(|| world.given[&value]);
        let is_own = of.is_none_or(|of| of == (number, nth as u64));
        assert!(is_own, "{about}: {of:?}");
        assert!(
            page.synced <= value,
            "{about}: {value}, and more was synced"
        );
        assert!(!is_protected || page.near <= value, "{about}: {value}");
        world.lost += u32::from(value < page.near);
    }
}

/// The values of a file's pages; none if it is not there.
async fn contents(asker: &mut Asker, name: &[u8]) -> Vec<u32> {
    let read = OpenMode {
        write: false,
        ..UPDATE
    };
    let handle = asker.file(read, name).await;
    let read = asker.aimed(Command::read_file(1, handle, 0, 64 << 10));
    let bytes = asker.send(read).await.done().expect("it can be read");
    let all = asker.got(bytes as usize);
    let value = |page: &[u8]| {
        let (words, _) = page[..page.len().min(BYTES)].as_chunks::<4>();
        assert!(words.iter().all(|word| word == &words[0]), "torn");
        u32::from_le_bytes(words[0])
    };
    all.chunks(PAGE as usize).map(value).collect()
}

/// A drive with an empty file system.
fn rig(home: Home, is_protected: bool) -> Rig {
    let mut config = home.config(2, 2_000);
    // Full some of the time.
    config.memory.near_bytes = 5 * PAGE;
    config.memory.protected = is_protected;
    let mut rig = new_rig(config);
    judge(&mut rig, &Shared::default(), is_protected, "new");
    rig
}

#[test]
fn what_was_written_near_is_there_after_power_cuts_if_it_is_protected_and_else_what_was_synced() {
    for is_protected in [true, false] {
        let (mut lost, mut restored, mut twice) = (0, 0, 0);
        for seed in 0..36 {
            let home = Home::ALL[seed as usize % 3];
            let about = format!("seed {seed}, {home:?}, protected: {is_protected}");
            let world = Shared::default();
            let mut rig = rig(home, is_protected);
            let mut rng = Seed(seed).child("cuts").rng();
            // Amid a change of the media, or between commands.
            let power = match rng.below(2) {
                0 => PowerSwitch::cut_after(1 + rng.below(400)),
                _ => PowerSwitch::cut_after(u64::MAX - 1),
            };
            play(&mut rig, &world, seed, 40 + rng.below(160) as u32, &power);
            assert!(power.is_cut());
            // Again and again while it is written back.
            for _ in 0..rng.below(3) {
                power_on_until(&mut rig, 1 + rng.below(12));
                twice += 1;
            }
            judge(&mut rig, &world, is_protected, &about);
            let world = world.lock().unwrap();
            lost += world.lost;
            restored += world.restored;
        }
        println!("protected: {is_protected}: {lost} lost, {restored} restored, {twice} cuts more");
        assert!(twice > 10);
        match is_protected {
            true => assert!(lost == 0 && restored > 20, "{lost}, {restored}"),
            false => assert!(lost > 20 && restored == 0, "{lost}, {restored}"),
        }
    }
}

/// Pages of a file that was written near, after the power was switched off, and what the drive has kept then.
#[test]
fn a_drive_that_is_switched_off_keeps_what_is_dirty_and_gives_it_up_when_it_is_durable() {
    for is_protected in [true, false] {
        let mut drive = rig(Home::Pages, is_protected);
        let world = Shared::default();
        drive.give_feature(&Programs);
        let (of_player, power) = (world.clone(), PowerSwitch::on());
        let never = power.clone();
        let client = script(async move |asker| {
            let mut player = Player {
                asker,
                world: of_player,
                power: never,
                rng: Seed(1).rng(),
            };
            player.make(0).await;
            player.write_near(0, 0).await;
        });
        drive.run_clients(&power, vec![client]);
        let kept = |rig: &Rig| rig.drive().map(Drive::kept).map(|kept| kept.count());
        assert_eq!(kept(&drive), Some(usize::from(is_protected)));
        judge(&mut drive, &world, is_protected, "switched off");
        assert_eq!(kept(&drive), Some(0));
        assert_eq!(world.lock().unwrap().restored, u64::from(is_protected));
    }
}

/// What hosts store without a command is written near, too.
#[test]
fn what_was_stored_by_the_window_is_there_after_a_power_cut_if_it_is_protected() {
    for is_protected in [true, false] {
        let mut config = Home::Pages.config(2, 2_000);
        config.memory.near_bytes = 8 * PAGE;
        config.memory.protected = is_protected;
        config.link.kind = LinkKind::Cxl;
        let mut rig = new_rig(config);
        rig.give_feature(&Programs);
        let power = PowerSwitch::cut_after(u64::MAX - 1);
        let cut = power.clone();
        let client = script(async move |mut asker: Asker| {
            let opened = asker.open(UPDATE, b"/stored").await;
            let handle = FileHandle::from_raw(opened.handle);
            asker.put(0, &[1; 4096]);
            let write = asker.aimed(Command::write_file(1, handle, 0, 3000));
            assert_eq!(asker.send(write).await.done(), Ok(3000));
            let show = Command::write_near(1, handle, 0, 10).showing();
            let show = asker.aimed(show);
            asker.send(show).await.done().expect("it is shown");
            let sync = Command::sync_file(1, handle, 0, u64::MAX, false);
            assert_eq!(asker.send(sync).await.done(), Ok(0));
            let name = FilePage {
                number: opened.attributes.number,
                page: 0,
            };
            let window = asker.host.dma.window().expect("there is one");
            assert!(window.store(&asker.host.cpu, name, 100, &[7; 50]));
            cut.cut();
        });
        rig.run_clients(&power, vec![client]);
        run(&mut rig, async move |host| {
            let mut asker = Asker::new(host);
            let handle = asker.file(UPDATE, b"/stored").await;
            let read = asker.aimed(Command::read_file(1, handle, 0, 4096));
            assert_eq!(asker.send(read).await.done(), Ok(3000));
            let mut right = vec![1; 3000];
            if is_protected {
                right[100..150].fill(7);
            }
            assert_eq!(asker.got(3000), right);
        });
    }
}
