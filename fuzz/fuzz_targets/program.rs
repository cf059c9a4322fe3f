//! Any bytes as a program of a user's own: it is refused, stopped, or does what it says; it never panics, and no turn of it is long.

#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;
use wharf_compute::{PROGRAM_CALL_FUEL, PROGRAM_TURN_FUEL, Step, Work};
use wharf_fuzz::input::Input;

/// Instructions of a case, about.
const FUEL: u64 = 5_000_000;

/// Calls of a case.
const CALLS: u32 = 20_000;

/// A panic of the interpreter that is caught is what it should be: only those that are not end the run.
static CAUGHT: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    CAUGHT.call_once(|| std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
    let mut input = Input::new(data);
    let (argument_bytes, count) = (input.number(1) as usize % 16, input.number(1) as u32);
    let piece = vec![input.number(1) as u8; 1 + input.number(2) as usize % 10_000];
    let mut room = vec![0; 1 + input.number(2) as usize % 10_000];
    let argument = input.take(argument_bytes);
    let Ok(mut work) = Work::of_program(input.rest(), argument, count) else {
        return;
    };
    let (mut fuel, mut left) = (work.take_fuel(), 3 * piece.len());
    for _ in 0..CALLS {
        let given = &piece[..left.min(piece.len())];
        let done = match given.is_empty() {
            false => work.step(given, &mut room),
            true => work.finish(&mut room),
        };
        let turn = work.take_fuel();
        // One operation that takes more than a turn, as filling its memory does, has one that is as long.
        assert!(
            turn <= PROGRAM_TURN_FUEL.max(PROGRAM_CALL_FUEL / 64),
            "{turn}"
        );
        fuel += turn;
        let Ok(step) = done else { return };
        assert!(step.taken <= given.len() && step.made <= room.len());
        assert!(!step.is_pending || step.taken + step.made == 0);
        left -= step.taken;
        if fuel > FUEL || (given.is_empty() && step == Step::default()) {
            break;
        }
    }
});
