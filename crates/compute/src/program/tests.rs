use super::*;
use crate::{Work, all_of};

/// A program that has what all have, and `more`.
fn program(more: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (memory (export "memory") 1)
            (global (export "wharf_input") i32 (i32.const 1024))
            (global (export "wharf_output") i32 (i32.const 16384))
            {more})"#
    );
    wat::parse_str(&text).expect("the text has a meaning")
}

/// One whose step is `body`.
fn stepping(body: &str) -> Vec<u8> {
    program(&format!(
        r#"(func (export "wharf_step") (param $bytes i32) (param $room i32) (result i64) {body})"#
    ))
}

/// Gives bytes one larger than they are, as many as fit; the value is the sum of all that it took, its argument begins the sum, and it
/// ends with `count` bytes of value 7.
fn adder() -> Vec<u8> {
    program(
        r#"
        (global $sum (mut i64) (i64.const 0))
        (global $left (mut i32) (i32.const 0))
        (func (export "wharf_begin") (param $bytes i32) (param $count i32) (result i64)
            (if (i32.gt_u (local.get $bytes) (i32.const 1)) (then (return (i64.const 1))))
            (if (local.get $bytes) (then (global.set $sum (i64.load8_u (i32.const 1024)))))
            (global.set $left (local.get $count))
            (i64.const 0))
        (func (export "wharf_step") (param $bytes i32) (param $room i32) (result i64)
            (local $at i32)
            (local $byte i32)
            (if (i32.lt_u (local.get $room) (local.get $bytes)) (then (local.set $bytes (local.get $room))))
            (loop $each
                (local.set $byte (i32.load8_u offset=1024 (local.get $at)))
                (global.set $sum (i64.add (global.get $sum) (i64.extend_i32_u (local.get $byte))))
                (i32.store8 offset=16384 (local.get $at) (i32.add (local.get $byte) (i32.const 1)))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br_if $each (i32.lt_u (local.get $at) (local.get $bytes))))
            (i64.mul (i64.extend_i32_u (local.get $bytes)) (i64.const 0x100000001)))
        (func (export "wharf_finish") (param $room i32) (result i64)
            (local $made i32)
            (if (i32.gt_u (local.get $room) (i32.const 5)) (then (local.set $room (i32.const 5))))
            (if (i32.gt_u (local.get $room) (global.get $left)) (then (local.set $room (global.get $left))))
            (global.set $left (i32.sub (global.get $left) (local.get $room)))
            (memory.fill (i32.const 16384) (i32.const 7) (local.get $room))
            (i64.extend_i32_u (local.get $room)))
        (func (export "wharf_value") (result i64) (global.get $sum))"#,
    )
}

fn bytes(count: usize) -> Vec<u8> {
    let mut word = count as u64 | 1;
    let next = |_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 24) as u8
    };
    (0..count).map(next).collect()
}

fn refusal(program: &[u8], input: &[u8]) -> Refused {
    let work = Work::of_program(program, &[], 0);
    work.and_then(|work| all_of(work, input))
        .expect_err("it is refused")
}

#[test]
fn a_program_computes_the_same_however_its_input_is_cut() {
    let adder = adder();
    assert_eq!(check_program(&adder), Ok(()));
    for (count, piece, room) in [
        (0, 1, 64),
        (1, 1, 1),
        (100, 7, 3),
        (8_192, 8_192, 8_192),
        (50_000, 50_000, 20_000),
        (50_000, 8_191, 8_193),
    ] {
        let input = bytes(count);
        let mut work = Work::of_program(&adder, &[200], 12).unwrap();
        let (mut out, mut room) = (Vec::new(), vec![0; room]);
        for piece in input.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                let step = work.step(rest, &mut room).unwrap();
                rest = &rest[step.taken..];
                out.extend_from_slice(&room[..step.made]);
            }
        }
        loop {
            let step = work.finish(&mut room).unwrap();
            if step == Step::default() {
                break;
            }
            out.extend_from_slice(&room[..step.made]);
        }
        let mut expected: Vec<u8> = input.iter().map(|byte| byte.wrapping_add(1)).collect();
        expected.extend([7; 12]);
        assert!(out == expected, "{count} bytes in pieces of {piece}");
        let sum: u64 = input.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(work.value(), sum + 200);
    }
}

#[test]
fn what_is_no_program_is_refused_with_a_reason() {
    let step = r#"(func (export "wharf_step") (param i32 i32) (result i64) (i64.const 1))"#;
    let whole = |text: &str| wat::parse_str(text).unwrap();
    let long = program(&format!("(data \"{}\") {step}", "a".repeat(70_000)));
    let cases = [
        (Vec::new(), "unexpected"),
        (b"\0asm\x01\0\0\0".to_vec(), "no memory named memory"),
        (b"#!/bin/sh\necho".to_vec(), "magic header"),
        (long, "a program has 65536 at most"),
        (program(""), "no function named wharf_step"),
        (
            program(r#"(func (export "wharf_step") (param i32) (result i64) (i64.const 1))"#),
            "wharf_step is to take 2 numbers",
        ),
        (
            program(&format!(
                r#"{step} (func (export "wharf_value") (result i32) (i32.const 1))"#
            )),
            "wharf_value is to take 0 numbers",
        ),
        (
            whole(r#"(module (import "env" "exit" (func)) (memory (export "memory") 1))"#),
            "it imports env.exit",
        ),
        (
            whole(&format!(r#"(module (memory (export "memory") 9) {step})"#)),
            "524288 bytes of memory",
        ),
        (
            whole(&format!(r#"(module (memory (export "memory") 1) {step})"#)),
            "named wharf_input",
        ),
        (
            whole(&format!(
                r#"(module (memory (export "memory") 1) {step}
                    (global (export "wharf_input") i32 (i32.const 57344))
                    (global (export "wharf_output") i32 (i32.const 57345)))"#
            )),
            "wharf_output is 57345",
        ),
        // A section of code with bytes, and no function: the interpreter's own limits would divide by zero.
        (
            [&b"\0asm\x01\0\0\0\x0a\xd0\x0f\0"[..], &[0; 1_999]].concat(),
            "",
        ),
        (
            program(&format!("(func $start unreachable) (start $start) {step}")),
            "start",
        ),
        (
            program(&format!("(data (i32.const 65535) \"ab\") {step}")),
            "out of bounds",
        ),
    ];
    for (bytes, reason) in cases {
        let said = check_program(&bytes).expect_err(reason);
        assert!(said.contains(reason), "{said}");
        assert_eq!(refusal(&bytes, b"abc"), Refused::NoProgram, "{reason}");
    }
    // This one adds a number of another type.
    let mut wrong = stepping("(i64.add (i64.const 1) (i64.const 2))");
    let at = wrong.windows(2).rposition(|two| two == [0x42, 2]).unwrap();
    wrong[at] = 0x41;
    assert!(check_program(&wrong).is_err());
    assert_eq!(refusal(&wrong, b"abc"), Refused::NoProgram);
}

#[test]
fn a_program_that_misbehaves_is_stopped() {
    let cases = [
        (
            "(loop $for_ever (br $for_ever)) unreachable",
            Refused::Endless,
        ),
        ("unreachable", Refused::Failed),
        ("(i64.load (i32.const 65529))", Refused::Failed),
        ("(i64.div_u (i64.const 1) (i64.const 0))", Refused::Failed),
        (
            "(memory.fill (i32.const 0) (i32.const 1) (i32.const 65537)) (i64.const 1)",
            Refused::Failed,
        ),
        // More than it was given, than it has room for, and nothing.
        ("(i64.const 4)", Refused::Unruly),
        ("(i64.const 0x200100000000)", Refused::Unruly),
        ("(i64.const 0x7fffffff00000001)", Refused::Unruly),
        ("(i64.const 0)", Refused::Unruly),
        ("(i64.const -1)", Refused::Damaged),
        // It has as much memory as it may, and then no more: 7 pages came, so an eighth does not.
        (
            "(if (i32.ne (memory.grow (i32.const 7)) (i32.const 1)) (then unreachable)) (i64.extend_i32_s (memory.grow (i32.const 1)))",
            Refused::Damaged,
        ),
    ];
    for (body, refused) in cases {
        assert_eq!(refusal(&stepping(body), b"abc"), refused, "{body}");
    }
    let deep = program(
        r#"(func $deep (param i32 i32) (result i64) (call $deep (local.get 0) (local.get 1)))
           (export "wharf_step" (func $deep))"#,
    );
    assert_eq!(refusal(&deep, b"abc"), Refused::Failed);
    let takes_all = "(i64.extend_i32_u (local.get $bytes))";
    let ends = |finish: &str| {
        program(&format!(
            r#"(func (export "wharf_step") (param $bytes i32) (param i32) (result i64) {takes_all})
               (func (export "wharf_finish") (param $room i32) (result i64) {finish})"#
        ))
    };
    for (finish, refused) in [
        ("(i64.const -1)", Refused::Damaged),
        ("(i64.const 8193)", Refused::Unruly),
        ("(i64.const 0x100000000)", Refused::Unruly),
        ("unreachable", Refused::Failed),
    ] {
        assert_eq!(refusal(&ends(finish), b"abc"), refused, "{finish}");
    }
}

#[test]
fn an_argument_is_taken_or_refused() {
    let none = stepping("(i64.const 1)");
    for (argument, count) in [(&b"a"[..], 0), (b"", 1)] {
        let begun = Work::of_program(&none, argument, count);
        assert_eq!(begun.err(), Some(Refused::ProgramArgument));
    }
    let long = Work::of_program(&adder(), &[0; PROGRAM_PIECE_BYTES + 1], 0);
    assert_eq!(long.err(), Some(Refused::ProgramArgument));
    let two = Work::of_program(&adder(), b"ab", 0).unwrap();
    assert_eq!(all_of(two, b""), Err(Refused::ProgramArgument));
}

/// What others wait for is one turn of it.
#[test]
fn a_program_has_turns() {
    let slow = stepping(
        "(local $left i32) (local.set $left (i32.const 300000))
         (loop $each (br_if $each (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
         (i64.extend_i32_u (local.get $bytes))",
    );
    let mut work = Work::of_program(&slow, &[], 0).unwrap();
    let (mut turns, mut fuel) = (1, 0);
    let begun = work.take_fuel();
    assert!((BEGIN_FUEL..2 * BEGIN_FUEL).contains(&begun), "{begun}");
    let mut room = [0; 8];
    while work.step(b"abc", &mut room).unwrap().is_pending {
        let taken = work.take_fuel();
        assert!((1..=PROGRAM_TURN_FUEL).contains(&taken), "{taken}");
        (turns, fuel) = (turns + 1, fuel + taken);
    }
    fuel += work.take_fuel();
    assert!(turns > 5, "{turns}");
    assert!((600_000..2_000_000).contains(&fuel), "{fuel}");
    assert_eq!(work.finish(&mut room), Ok(Step::default()));
}

/// Programs that were damaged do anything, and harm nobody.
#[test]
fn damaged_programs_do_no_harm() {
    let (good, input) = (adder(), bytes(300));
    let mut ran = 0;
    for seed in 0..3_000 {
        let mut bad = good.clone();
        for change in bytes(2 + 3 * (1 + seed % 3) + 97 * seed)
            .chunks_exact(3)
            .take(1 + seed % 3)
        {
            let at = usize::from(change[0]) << 8 | usize::from(change[1]);
            bad[at % good.len()] ^= change[2];
        }
        let work = Work::of_program(&bad, &[1], 3);
        ran += u32::from(work.and_then(|work| all_of(work, &input)).is_ok());
    }
    assert!(ran > 100, "{ran} of them could run");
}
