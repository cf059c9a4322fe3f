//! The known name nearest to a mistyped one.

/// The candidate with the least edit distance to `given`; the first of several. Empty if there is
/// no candidate.
pub fn nearest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    candidates
        .min_by_key(|name| edit_distance(given.as_bytes(), name.as_bytes()))
        .unwrap_or("")
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    // Longer input than any name is no nearer for its length.
    let a = &a[..a.len().min(64)];
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let replace = previous[j] + usize::from(x.to_ascii_lowercase() != y);
            let mut best = replace.min(previous[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(edit_distance(b"", b"abc"), 3);
        assert_eq!(edit_distance(b"abc", b"abc"), 0);
        assert_eq!(edit_distance(b"acb", b"abc"), 1);
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(
            nearest("webmial", ["online", "webmail"].into_iter()),
            "webmail"
        );
    }
}
