//! Every form against a plain array of words.

use wharf_runtime::Seed;

use super::*;

/// The words of a part, one by one.
type Model = Vec<Word>;

fn words_of(part: &Part) -> Model {
    (0..SECTORS).map(|sector| part.get(sector)).collect()
}

fn counts_of(model: &[Word]) -> Counts {
    let count = |what: fn(&Word) -> bool| model.iter().filter(|w| what(w)).count() as u16;
    Counts {
        cached: count(|w| w.is_cached()),
        dirty: count(|w| w.is_dirty()),
        cold_clean: count(|w| w.is_cached() && !w.is_dirty() && w.heat() == 0),
        cold_dirty: count(|w| w.is_dirty() && !w.is_leaving() && w.heat() == 0),
    }
}

fn check(part: &Part, model: &[Word], what: &str) {
    assert!(words_of(part) == model, "{what}: words");
    let some = 100..SECTORS - 77;
    let (mut found, mut at) = (Vec::new(), some.start);
    part.each_in(some.clone(), |sectors, word| {
        assert_eq!(sectors.start, at);
        at = sectors.end;
        found.extend(sectors.map(|_| word));
    });
    assert!(
        found == model[some.start as usize..some.end as usize],
        "{what}: in a range"
    );
    assert_eq!(part.counts(), counts_of(model), "{what}");
    let mut runs = Vec::new();
    part.runs(&mut runs);
    let mut of_runs = vec![Word::ABSENT; SECTORS as usize];
    for run in &runs {
        assert!(run.count > 0 && run.word.is_cached());
        of_runs[usize::from(run.first)..usize::from(run.end())].fill(run.word);
    }
    assert!(of_runs == model, "{what}: runs");
    let ordered = runs.windows(2).all(|two| {
        two[0].end() < two[1].first || two[0].end() == two[1].first && two[0].word != two[1].word
    });
    assert!(ordered, "{what}: runs that touch differ");
}

/// A word that packed forms have.
fn some_word(rng: &mut wharf_runtime::Rng) -> Word {
    let heat = rng.below(4) as u8;
    match rng.below(2) {
        0 => Word::clean(heat),
        _ => Word::dirty(heat),
    }
}

/// A part of about `share` cached sectors in runs of up to `run_max`.
fn fill(rng: &mut wharf_runtime::Rng, share: f64, run_max: u64) -> Model {
    let mut model = vec![Word::ABSENT; SECTORS as usize];
    let wanted = (share * f64::from(SECTORS)) as u64;
    let mut left = wanted;
    while left > 0 {
        let count = (1 + rng.below(run_max)).min(left);
        let first = rng.below(u64::from(SECTORS) - count + 1);
        model[first as usize..(first + count) as usize].fill(some_word(rng));
        left -= count;
    }
    model
}

#[test]
fn every_form_holds_any_words_and_changes_them() {
    for seed in 0..40 {
        let mut rng = Seed(seed).rng();
        let shares = [0.0, 0.0002, 0.01, 0.03, 0.2, 0.6, 1.0];
        let share = shares[rng.below(7) as usize];
        let run_max = [1, 1, 4, 64, 8192][rng.below(5) as usize];
        let mut model = fill(&mut rng, share, run_max.min((share * 8192.0) as u64 + 1));
        let (mut part, mut pages) = (Part::default(), Pages::default());
        for (sector, word) in (0..).zip(&model) {
            part.change(sector, 1, &mut pages, |_| *word);
        }
        check(&part, &model, "raw");
        let mut room = Vec::new();
        for step in 0..60 {
            let what = format!("seed {seed}, step {step}");
            let count = 1 + rng.below(20);
            let first = rng.below(u64::from(SECTORS) - count + 1) as u32;
            let range = first as usize..(first as usize + count as usize);
            match rng.below(7) {
                0 => part.pack(&mut room, &mut pages),
                1 => part.unpack(&mut pages),
                2 => {
                    part.change(first, count as u32, &mut pages, Word::warmer);
                    model[range].iter_mut().for_each(|w| *w = w.warmer());
                }
                3 => {
                    let word = some_word(&mut rng);
                    part.change(first, count as u32, &mut pages, |_| word);
                    model[range].fill(word);
                }
                4 => {
                    part.change(first, count as u32, &mut pages, |_| Word::ABSENT);
                    model[range].fill(Word::ABSENT);
                }
                5 => {
                    let (clean, dirty) = (rng.chance(1, 2), rng.chance(1, 2));
                    let mut runs = Vec::new();
                    part.runs(&mut runs);
                    match part.cool(clean, dirty) {
                        None => assert!(!part.is_raw()),
                        Some(visited) => {
                            assert_eq!(visited as usize, runs.len(), "{what}");
                            let chosen = |word: &Word| if word.is_dirty() { dirty } else { clean };
                            let those = model.iter_mut().filter(|word| chosen(word));
                            those.for_each(|word| *word = word.cooler());
                        }
                    }
                }
                _ => {
                    room.clear();
                    part.runs(&mut room);
                    room.iter_mut().for_each(|run| run.word = run.word.cooler());
                    part.replace(&merged(&room), &mut pages);
                    model.iter_mut().for_each(|w| *w = w.cooler());
                }
            }
            check(&part, &model, &what);
        }
    }
}

/// Runs as they are once neighbours of one word are one.
fn merged(runs: &[Run]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if last.end() == run.first && last.word == run.word => {
                last.count += run.count;
            }
            _ => out.push(*run),
        }
    }
    out
}

#[test]
fn scattered_sectors_take_ten_bits_each_and_runs_a_few_bytes() {
    let mut rng = Seed(5).rng();
    let (mut part, mut pages) = (Part::default(), Pages::default());
    for _ in 0..256 {
        let (sector, word) = (rng.below(u64::from(SECTORS)) as u32, some_word(&mut rng));
        part.change(sector, 1, &mut pages, |_| word);
    }
    let cached = usize::from(part.counts().cached);
    part.pack(&mut Vec::new(), &mut pages);
    assert!(
        part.bytes() * 8 < cached * 10 + 64,
        "{} for {cached}",
        part.bytes()
    );

    let (mut part, mut pages) = (Part::default(), Pages::default());
    (0..8).for_each(|i| part.change(i * 1000, 500, &mut pages, |_| Word::clean(0)));
    part.pack(&mut Vec::new(), &mut pages);
    assert!(part.bytes() <= 8 * 5 + 1, "{}", part.bytes());
}

#[test]
fn heat_changes_in_place_where_positions_are_kept() {
    let (mut part, mut pages) = (Part::default(), Pages::default());
    (0..100).for_each(|i| part.change(i * 70, 1, &mut pages, |_| Word::dirty(0)));
    part.pack(&mut Vec::new(), &mut pages);
    let bytes = part.bytes();
    assert!(!part.is_raw() && part.change_in_place(70, 1, Word::warmer));
    assert_eq!((part.get(70), part.bytes()), (Word::dirty(1), bytes));
    assert!(
        part.change_in_place(71, 1, Word::warmer),
        "nothing is there to be warmer"
    );
    assert!(!part.change_in_place(71, 1, |_| Word::clean(0)));
    assert_eq!(
        part.counts(),
        Counts {
            cached: 100,
            dirty: 100,
            cold_clean: 0,
            cold_dirty: 99
        }
    );
}

#[test]
fn a_part_with_sectors_that_leave_stays_raw_until_they_have_left() {
    let (mut part, mut pages) = (Part::default(), Pages::default());
    part.change(9, 3, &mut pages, |_| Word::dirty(0));
    part.change(10, 1, &mut pages, Word::leaving);
    part.pack(&mut Vec::new(), &mut pages);
    assert!(part.is_raw());
    let counts = Counts {
        cached: 3,
        dirty: 3,
        cold_clean: 0,
        cold_dirty: 2,
    };
    assert_eq!(part.counts(), counts);
    part.change(9, 3, &mut pages, |word| {
        if word.is_leaving() {
            Word::ABSENT
        } else {
            word
        }
    });
    part.pack(&mut Vec::new(), &mut pages);
    assert!(!part.is_raw() && part.counts().cached == 2);
}
