//! The known name that is nearest to a mistyped one.

/// The candidate that takes the fewest edits to reach from `typed`. Leading parts of a dotted name
/// that were left out count as one edit each: `read_ns` is near `timing.read_ns`.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    candidates
        .into_iter()
        .min_by_key(|candidate| distance(&typed, candidate))
}

fn distance(typed: &str, candidate: &str) -> usize {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let by_last = edits(&last(typed), &last(candidate)) + 3;
    let mut best = by_last.min(edits(typed, candidate));
    let mut rest = candidate;
    let mut left_out = 0;
    while let Some((_, shorter)) = rest.split_once('.') {
        (rest, left_out) = (shorter, left_out + 1);
        best = best.min(edits(typed, rest) + left_out);
    }
    best
}

/// Edit distance: insertions, deletions and replacements of one character (Levenshtein, 1966).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(edits("", ""), 0);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("scala", "skala"), 1);
    }

    #[test]
    fn finds_what_was_meant() {
        let keys = ["name", "ftl.gc_policy", "timing.read_ns", "timing.erase_ns"];
        for (typed, meant) in [
            ("timing.red_ns", "timing.read_ns"),
            ("read_ns", "timing.read_ns"),
            ("Timing.Read_NS", "timing.read_ns"),
            ("nand.erase_ns", "timing.erase_ns"),
            ("gc_polcy", "ftl.gc_policy"),
            ("nam", "name"),
        ] {
            assert_eq!(nearest(typed, keys), Some(meant), "{typed}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
