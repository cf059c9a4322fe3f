//! Arithmetic on the rows of a group: which chunk holds which of 256 sectors.
//!
//! Rows do not overlap and are in the order of their sectors. A row is the whole of a chunk, or what is left
//! of it: a write over its middle leaves two rows of one chunk.

/// Neighbouring sectors of a group whose data is in one chunk. Numbers of sectors count within the
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// First sector of the row.
    pub first: u32,
    /// Sectors of the row, 1 to 256.
    pub count: u32,
    /// First sector of the chunk.
    pub chunk_first: u32,
    /// Sectors of the chunk, 1 to 256.
    pub chunk_sectors: u32,
    /// Where the chunk begins on the disk, in granules; never 0.
    pub granule: u64,
    /// Bytes of its payload.
    pub bytes: u32,
}

impl Row {
    /// The row of a chunk that is whole.
    pub fn whole(first: u32, count: u32, granule: u64, bytes: u32) -> Row {
        Row {
            first,
            count,
            chunk_first: first,
            chunk_sectors: count,
            granule,
            bytes,
        }
    }

    /// The sector after the last.
    pub fn end(&self) -> u32 {
        self.first + self.count
    }

    fn cut(&self, first: u32, end: u32) -> Row {
        Row {
            first,
            count: end - first,
            ..*self
        }
    }

    /// Whether the numbers are possible.
    pub fn is_sound(&self) -> bool {
        let in_chunk =
            self.first >= self.chunk_first && self.end() <= self.chunk_first + self.chunk_sectors;
        self.count >= 1
            && in_chunk
            && self.chunk_first + self.chunk_sectors <= 256
            && self.granule > 0
    }
}

/// Takes the sectors from `first` to `end` out of `rows`, and puts `new` there, which covers them all;
/// gives the parts of rows that have gone.
pub fn replace(rows: &mut Vec<Row>, first: u32, end: u32, new: Row) -> Vec<Row> {
    debug_assert!(new.first == first && new.end() == end);
    let from = rows.partition_point(|row| row.end() <= first);
    let to = rows.partition_point(|row| row.first < end);
    let mut gone = Vec::with_capacity(to - from);
    let mut kept = Vec::with_capacity(3);
    for row in &rows[from..to] {
        if row.first < first {
            kept.push(row.cut(row.first, first));
        }
        gone.push(row.cut(row.first.max(first), row.end().min(end)));
        if row.end() > end {
            kept.push(row.cut(end, row.end()));
        }
    }
    let place = kept.partition_point(|row| row.first < first);
    kept.insert(place, new);
    rows.splice(from..to, kept);
    gone
}

/// The parts of rows that hold sectors from `first` to `end`.
pub fn within(rows: &[Row], first: u32, end: u32) -> impl Iterator<Item = Row> {
    let from = rows.partition_point(|row| row.end() <= first);
    let held = rows[from..].iter().take_while(move |row| row.first < end);
    held.map(move |row| row.cut(row.first.max(first), row.end().min(end)))
}

/// Whether rows are sound, in order, and apart.
pub fn are_sound(rows: &[Row]) -> bool {
    rows.iter().all(Row::is_sound) && rows.windows(2).all(|two| two[0].end() <= two[1].first)
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    /// Random writes against a vector that knows of each sector which write it holds.
    #[test]
    fn rows_say_what_a_flat_vector_says() {
        for seed in 0..300 {
            println!("seed {seed}");
            let mut rng = Seed(seed).child("rows").rng();
            let (mut rows, mut flat) = (Vec::new(), [None; 256]);
            for number in 1..=200u64 {
                let first = rng.below(256) as u32;
                let longest = [1, 4, 256][rng.below(3) as usize];
                let count = 1 + rng.below(longest.min(u64::from(256 - first))) as u32;
                let end = first + count;
                let new = Row::whole(first, count, number, 7);
                let gone = replace(&mut rows, first, end, new);
                let lost: Vec<_> = gone
                    .iter()
                    .flat_map(|r| (r.first..r.end()).map(|s| (s, r.granule)))
                    .collect();
                let held = (first..end).filter_map(|s| Some((s, flat[s as usize]?)));
                assert!(lost.into_iter().eq(held));
                flat[first as usize..end as usize].fill(Some(number));
                assert!(are_sound(&rows));
                let asked = rng.below(256) as u32;
                let until = asked + 1 + rng.below(u64::from(256 - asked)) as u32;
                let mut found = [None; 256];
                for part in within(&rows, asked, until) {
                    assert!(part.is_sound() && part.first >= asked && part.end() <= until);
                    found[part.first as usize..part.end() as usize].fill(Some(part.granule));
                }
                assert_eq!(
                    found[asked as usize..until as usize],
                    flat[asked as usize..until as usize]
                );
            }
        }
    }

    #[test]
    fn the_most_rows_are_one_for_each_sector() {
        let mut rows = vec![Row::whole(0, 256, 1, 99)];
        // Every second sector, then the others: each a chunk of its own.
        for first in (0..256).step_by(2).chain((1..256).step_by(2)) {
            replace(
                &mut rows,
                first,
                first + 1,
                Row::whole(first, 1, 2 + u64::from(first), 9),
            );
            assert!(rows.len() <= 256);
        }
        assert_eq!(rows.len(), 256);
    }
}
