//! The memory export against a plain vector, by many clients and at the size of a terabyte.

use crate::client::*;

#[test]
fn random_requests_do_what_they_do_to_a_vector() {
    const SIZE: u64 = 1 << 18;
    for seed in [1, 2, 3] {
        let mut dice = Dice(seed * 0x9e37_79b9);
        // A size that ends within a page.
        let size = SIZE - 1000;
        let place = Place::memory(size);
        let mut clients = [place.client(true, true), place.client(false, false)];
        let mut model = vec![0u8; size as usize];
        let mut written = vec![false; SIZE as usize / 4096];
        for step in 0..2000 {
            let client = &mut clients[dice.below(2) as usize];
            let offset = dice.below(size);
            let len = 1 + dice.below((size - offset).min(20_000));
            let range = offset as usize..(offset + len) as usize;
            let pages = offset as usize / 4096..(offset + len).div_ceil(4096) as usize;
            match dice.below(5) {
                0 | 1 => {
                    let data = dice.bytes(len as usize);
                    assert_eq!(client.write(offset, &data, 0), 0);
                    model[range].copy_from_slice(&data);
                    written[pages].fill(true);
                }
                2 => {
                    let (command, flags) =
                        [(TRIM, 0), (ZEROES, 0), (ZEROES, FAST_ZERO)][dice.below(3) as usize];
                    assert_eq!(client.ask(command, flags, offset, len).error, 0);
                    model[range].fill(0);
                    let end = match offset + len == size {
                        true => SIZE,
                        false => offset + len,
                    };
                    let whole = offset.div_ceil(4096) as usize..(end / 4096) as usize;
                    written[whole.start..whole.end.max(whole.start)].fill(false);
                }
                _ => {
                    let got = client.read(offset, len as usize);
                    assert!(got == model[range], "seed {seed} step {step}");
                }
            }
            if step % 50 == 0 {
                let mut at = 0;
                for (len, flags) in clients[0].ask(STATUS, 0, 0, size).extents {
                    for page in at / 4096..(at + len).div_ceil(4096) {
                        let expected = if written[page as usize] { 0 } else { 3 };
                        assert_eq!(flags, expected, "seed {seed} step {step} page {page}");
                    }
                    at += len;
                }
                assert_eq!(at, size);
            }
        }
    }
}

#[test]
fn clients_side_by_side_keep_their_own_bytes() {
    let place = Place::memory(64 << 20);
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let place = &place;
            scope.spawn(move || {
                let mut client = place.client(number % 2 == 0, false);
                let mut dice = Dice(number + 1);
                let mut model = vec![0; 1 << 20];
                for _ in 0..300 {
                    let offset = dice.below(1 << 20) as usize;
                    let len = (1 + dice.below(100_000) as usize).min(model.len() - offset);
                    let data = dice.bytes(len);
                    // Every fourth page is this client's, and the parts of it too.
                    for (at, byte) in (offset..).zip(&data) {
                        model[at] = *byte;
                    }
                    let own = |at: usize| (at as u64) + number * (16 << 20);
                    assert_eq!(client.write(own(offset), &data, 0), 0);
                    assert!(client.read(own(0), model.len()) == model);
                }
            });
        }
    });
}

#[test]
fn long_zeros_let_others_have_their_turn_and_are_all_done() {
    let place = Place::memory(1 << 30);
    let mut client = place.client(false, false);
    client.write((256 << 20) - 3, b"abcdef", 0);
    // Two long ones and a read, all under way at a time.
    let mut bytes = Vec::new();
    for (command, flags, cookie, offset, len) in [
        (ZEROES, NO_HOLE, 1u64, 5u64, 128u32 << 20),
        (TRIM, 0, 2, 128 << 20, 512 << 20),
        (READ, 0, 3, 1 << 29, 4),
    ] {
        bytes.extend(0x2560_9513u32.to_be_bytes());
        bytes.extend([flags, command].map(u16::to_be_bytes).concat());
        bytes.extend([cookie, offset].map(u64::to_be_bytes).concat());
        bytes.extend(len.to_be_bytes());
    }
    client.send(&bytes);
    let mut order = Vec::new();
    for _ in 0..3 {
        assert_eq!(client.u32(), 0x67446698);
        assert_eq!(client.u32(), 0);
        let cookie = client.u64();
        if cookie == 3 {
            client.receive(4);
        }
        order.push(cookie);
    }
    let place_of = |cookie: u64| order.iter().position(|c| *c == cookie);
    assert!(
        place_of(3) < place_of(1),
        "the read has waited for the zeros: {order:?}"
    );
    order.sort_unstable();
    assert_eq!(order, [1, 2, 3]);
    assert_eq!(client.read((256 << 20) - 3, 6), [0; 6]);
}
