//! How long it is waited before a lease is asked for again that others have ended again and again: longer each time that one
//! was of no use.

/// Most uses without a lease before one is asked for again.
const PAUSE_MAX: u32 = 64;

/// See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pause {
    /// Uses without a lease that are still to come.
    left: u32,
    /// Those that came before the last time.
    before: u32,
}

impl Pause {
    /// One that lasts for so many uses.
    pub(super) fn of(uses: u32) -> Pause {
        Pause {
            left: uses,
            before: 0,
        }
    }

    /// It is used without a lease; gives whether it is time to ask for one.
    pub(super) fn is_over(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// Begins anew, behind a lease that was of use or not.
    pub(super) fn begin(&mut self, was_of_use: bool) {
        self.before = match was_of_use {
            true => 0,
            false => (2 * self.before + 1).min(PAUSE_MAX),
        };
        self.left = self.before;
    }

    /// It is to be asked for at once.
    pub(super) fn skip(&mut self) {
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pause: &mut Pause) -> u32 {
        (0..).find(|_| pause.is_over()).unwrap()
    }

    #[test]
    fn what_is_of_no_use_is_asked_for_less_and_less() {
        let mut pause = Pause::of(2);
        assert_eq!((uses(&mut pause), uses(&mut pause)), (2, 0));
        for expected in [1, 3, 7, 15, 31, 63, 64, 64] {
            pause.begin(false);
            assert_eq!((uses(&mut pause), uses(&mut pause)), (expected, 0));
        }
        pause.begin(true);
        assert_eq!(uses(&mut pause), 0);
        pause.begin(false);
        pause.skip();
        assert_eq!(uses(&mut pause), 0);
    }
}
