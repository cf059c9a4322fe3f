//! The shortest program that still fails: steps are left out, many at once first.

use super::program::Step;

/// Leaves steps out of a program as long as it still fails.
pub fn shrink(program: &[Step], fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut shortest = program.to_vec();
    let mut size = shortest.len().div_ceil(2);
    while size > 0 {
        let (mut at, mut is_shorter) = (0, false);
        while at < shortest.len() {
            let end = (at + size).min(shortest.len());
            let without = [&shortest[..at], &shortest[end..]].concat();
            if fails(&without) {
                shortest = without;
                is_shorter = true;
            } else {
                at = end;
            }
        }
        size = match is_shorter && size == 1 {
            true => 1,
            false => size / 2,
        };
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::super::program::Operation;
    use super::*;

    #[test]
    fn what_is_left_is_what_it_takes() {
        let steps = (0..100).map(|slot| Step::of_root(Operation::Close { slot }));
        let program: Vec<_> = steps.collect();
        let has = |program: &[Step], slot: usize| {
            program.contains(&Step::of_root(Operation::Close { slot }))
        };
        let left = shrink(&program, |program| has(program, 13) && has(program, 77));
        assert_eq!(left, [program[13].clone(), program[77].clone()]);
    }
}
