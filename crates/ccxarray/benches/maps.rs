//! The tree beside concurrent maps: look-ups by one thread, mixes by one and two.
//!
//! `cargo bench -p ccxarray`. All candidates take turns, round by round, so that a machine with other
//! things to do disturbs them alike; what is printed is the median of the rounds, and the best.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use ccxarray::locked::{Changes, Control, Tree};
use ccxarray::{Guard, XArray, pin};

/// Indices in use: a file of 400 MB.
const KEYS: u64 = 100_000;
const OPS: u64 = 400_000;
const ROUNDS: usize = 15;
const THREADS: u64 = 2;

/// A map as the benchmark sees it. `Pin` is what a thread holds for a batch of operations.
trait Map: Sync {
    type Pin;
    const NAME: &str;
    fn make() -> Self;
    fn pin(&self) -> Self::Pin;
    fn get(&self, key: u64, pin: &Self::Pin) -> Option<u64>;
    fn insert(&self, key: u64, pin: &Self::Pin);
    fn remove(&self, key: u64, pin: &Self::Pin);
}

impl Map for XArray {
    type Pin = Guard;
    const NAME: &str = "ccxarray";

    fn make() -> Self {
        XArray::new()
    }

    fn pin(&self) -> Guard {
        pin()
    }

    #[inline]
    fn get(&self, key: u64, pin: &Guard) -> Option<u64> {
        XArray::get(self, key, pin)
    }

    fn insert(&self, key: u64, pin: &Guard) {
        let _ = XArray::insert(self, key, key, pin);
    }

    fn remove(&self, key: u64, pin: &Guard) {
        XArray::remove(self, key, pin);
    }
}

/// The tree with a guard for every operation.
struct PinEach(XArray);

impl Map for PinEach {
    type Pin = ();
    const NAME: &str = "ccxarray, a pin each";

    fn make() -> Self {
        PinEach(XArray::new())
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        self.0.get(key, &pin())
    }

    fn insert(&self, key: u64, (): &()) {
        let _ = self.0.insert(key, key, &pin());
    }

    fn remove(&self, key: u64, (): &()) {
        self.0.remove(key, &pin());
    }
}

/// The tree with one lock for writers, and readers without.
#[derive(Default)]
struct Locked {
    tree: Tree,
    control: std::sync::Mutex<Control>,
}

impl Map for Locked {
    type Pin = ();
    const NAME: &str = "ccxarray::locked";

    fn make() -> Self {
        Locked::default()
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        self.tree.load(key)
    }

    fn insert(&self, key: u64, (): &()) {
        Changes::new(&self.tree, &mut self.control.lock().unwrap()).insert(key, key);
    }

    fn remove(&self, key: u64, (): &()) {
        Changes::new(&self.tree, &mut self.control.lock().unwrap()).remove(key);
    }
}

impl Map for scc::HashMap<u64, u64> {
    type Pin = ();
    const NAME: &str = "scc::HashMap";

    fn make() -> Self {
        scc::HashMap::new()
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }

    fn insert(&self, key: u64, (): &()) {
        let _ = self.insert_sync(key, key);
    }

    fn remove(&self, key: u64, (): &()) {
        self.remove_sync(&key);
    }
}

impl Map for scc::TreeIndex<u64, u64> {
    type Pin = scc::Guard;
    const NAME: &str = "scc::TreeIndex";

    fn make() -> Self {
        scc::TreeIndex::new()
    }

    fn pin(&self) -> scc::Guard {
        scc::Guard::new()
    }

    #[inline]
    fn get(&self, key: u64, pin: &scc::Guard) -> Option<u64> {
        self.peek(&key, pin).copied()
    }

    fn insert(&self, key: u64, _: &scc::Guard) {
        let _ = self.insert_sync(key, key);
    }

    fn remove(&self, key: u64, _: &scc::Guard) {
        self.remove_sync(&key);
    }
}

impl Map for dashmap::DashMap<u64, u64> {
    type Pin = ();
    const NAME: &str = "dashmap";

    fn make() -> Self {
        dashmap::DashMap::new()
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        dashmap::DashMap::get(self, &key).map(|value| *value)
    }

    fn insert(&self, key: u64, (): &()) {
        dashmap::DashMap::insert(self, key, key);
    }

    fn remove(&self, key: u64, (): &()) {
        dashmap::DashMap::remove(self, &key);
    }
}

/// A guard of this map cannot be kept beside the map in a trait, so it pins each time.
struct Papaya(papaya::HashMap<u64, u64>);

impl Map for Papaya {
    type Pin = ();
    const NAME: &str = "papaya, a pin each";

    fn make() -> Self {
        Papaya(papaya::HashMap::new())
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }

    fn insert(&self, key: u64, (): &()) {
        self.0.pin().insert(key, key);
    }

    fn remove(&self, key: u64, (): &()) {
        self.0.pin().remove(&key);
    }
}

impl Map for crossbeam_skiplist::SkipMap<u64, u64> {
    type Pin = ();
    const NAME: &str = "crossbeam-skiplist";

    fn make() -> Self {
        crossbeam_skiplist::SkipMap::new()
    }

    fn pin(&self) {}

    #[inline]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        crossbeam_skiplist::SkipMap::get(self, &key).map(|entry| *entry.value())
    }

    fn insert(&self, key: u64, (): &()) {
        crossbeam_skiplist::SkipMap::insert(self, key, key);
    }

    fn remove(&self, key: u64, (): &()) {
        crossbeam_skiplist::SkipMap::remove(self, &key);
    }
}

impl Map for congee::Congee<usize, usize> {
    type Pin = crossbeam_epoch::Guard;
    const NAME: &str = "congee";

    fn make() -> Self {
        congee::Congee::default()
    }

    fn pin(&self) -> crossbeam_epoch::Guard {
        congee::Congee::pin(self)
    }

    #[inline]
    fn get(&self, key: u64, pin: &crossbeam_epoch::Guard) -> Option<u64> {
        congee::Congee::get(self, &(key as usize), pin).map(|value| value as u64)
    }

    fn insert(&self, key: u64, pin: &crossbeam_epoch::Guard) {
        congee::Congee::insert(self, key as usize, key as usize, pin).expect("memory");
    }

    fn remove(&self, key: u64, pin: &crossbeam_epoch::Guard) {
        congee::Congee::remove(self, &(key as usize), pin);
    }
}

/// Xorshift: random numbers for less than the cost of what is measured.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A key of the whole, evenly.
fn key(random: u64) -> u64 {
    ((u128::from(random) * u128::from(KEYS)) >> 64) as u64
}

fn filled<M: Map>(share: u64) -> M {
    let map = M::make();
    let pin = map.pin();
    let keys = (0..KEYS).filter(|key| key % 4 < share);
    keys.for_each(|key| map.insert(key, &pin));
    drop(pin);
    map
}

/// Nanoseconds of a look-up.
fn gets<M: Map>(map: &M, seed: u64) -> f64 {
    let mut rng = Rng(seed);
    let pin = map.pin();
    let start = Instant::now();
    let mut sum = 0;
    for _ in 0..OPS {
        sum += map
            .get(black_box(key(rng.next())), &pin)
            .expect("a key in use");
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / OPS as f64
}

/// Nanoseconds of wall time for each of a thread's operations: 90 look-ups, 5 inserts and 5
/// removals of 100.
fn mix<M: Map>(map: &M, threads: u64, seed: u64) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let run = |thread: u64| {
        let mut rng = Rng(seed + thread * 7919);
        barrier.wait();
        let start = Instant::now();
        for _ in 0..OPS / 64 {
            let pin = map.pin();
            for _ in 0..64 {
                let random = rng.next();
                let key = key(random);
                match random % 100 {
                    0..5 => map.insert(key, &pin),
                    5..10 => map.remove(key, &pin),
                    _ => drop(black_box(map.get(key, &pin))),
                }
            }
        }
        start.elapsed().as_nanos() as f64 / OPS as f64
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let own = run(0);
        let times = others
            .into_iter()
            .map(|other| other.join().expect("a thread's time"));
        times.fold(own, f64::max)
    })
}

/// One candidate, with what it took in each round.
struct Candidate {
    name: &'static str,
    run: Box<dyn Fn(u64) -> [f64; 3]>,
    rounds: Vec<[f64; 3]>,
}

fn candidate<M: Map + 'static>() -> Candidate {
    let (full, half) = (filled::<M>(4), filled::<M>(2));
    let run = move |seed| {
        [
            gets(&full, seed),
            mix(&half, 1, seed),
            mix(&half, THREADS, seed),
        ]
    };
    Candidate {
        name: M::NAME,
        run: Box::new(run),
        rounds: Vec::new(),
    }
}

impl Candidate {
    /// Median and best of a column.
    fn summary(&self, column: usize) -> (f64, f64) {
        let mut times: Vec<f64> = self.rounds.iter().map(|round| round[column]).collect();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    }
}

fn main() {
    let mut candidates = [
        candidate::<XArray>(),
        candidate::<PinEach>(),
        candidate::<Locked>(),
        candidate::<congee::Congee<usize, usize>>(),
        candidate::<dashmap::DashMap<u64, u64>>(),
        candidate::<scc::HashMap<u64, u64>>(),
        candidate::<scc::TreeIndex<u64, u64>>(),
        candidate::<Papaya>(),
        candidate::<crossbeam_skiplist::SkipMap<u64, u64>>(),
    ];
    for round in 0..ROUNDS {
        for candidate in &mut candidates {
            let times = (candidate.run)(round as u64 * 1_000_003 + 1);
            candidate.rounds.push(times);
        }
    }
    println!(
        "{KEYS} dense keys, {ROUNDS} interleaved rounds of {OPS} operations; ns: median (best)\n"
    );
    println!("| map | get, 1 thread | 90/5/5, 1 thread | 90/5/5, {THREADS} threads | speed-up |");
    println!("|---|--:|--:|--:|--:|");
    for candidate in &candidates {
        let [get, one, two] = [0, 1, 2].map(|column| candidate.summary(column));
        let cell = |(median, best): (f64, f64)| format!("{median:.1} ({best:.1})");
        let speed_up = |one: f64, two: f64| one * THREADS as f64 / two;
        println!(
            "| {} | {} | {} | {} | {:.2} ({:.2}) |",
            candidate.name,
            cell(get),
            cell(one),
            cell(two),
            speed_up(one.0, two.0),
            speed_up(one.1, two.1)
        );
    }
}
