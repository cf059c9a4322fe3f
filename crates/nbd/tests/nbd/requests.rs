//! Every command, its flags and its refusals, with simple replies and with chunks.

use std::sync::Arc;

use wharf_nbd::{Can, Limits, MemoryExport};

use crate::client::*;
use crate::slow::SlowExport;

const SIZE: u64 = 1 << 20;

#[test]
fn what_was_written_is_read_with_simple_replies_and_with_chunks() {
    let place = Place::memory(SIZE);
    for structured in [false, true] {
        let mut client = place.client(structured, false);
        for (offset, len) in [(0, 1), (5, 4096), (4095, 2), (123, 300_000), (SIZE - 1, 1)] {
            let data = Dice(offset + 1).bytes(len);
            assert_eq!(client.write(offset, &data, FUA), 0);
            assert!(
                client.read(offset, len) == data,
                "{structured} {offset} {len}"
            );
        }
        assert_eq!(client.ask(FLUSH, 0, 0, 0).error, 0);
        assert_eq!(client.ask(CACHE, 0, 0, SIZE).error, 0);
        assert_eq!(client.read(0, 0), b"");
    }
}

#[test]
fn holes_are_told_as_such_unless_one_chunk_was_asked_for() {
    let place = Place::memory(SIZE);
    let mut client = place.client(true, false);
    client.write(8192, &[7; 4096], 0);
    let mut expected = vec![0; 20_000];
    expected[8192..12288].fill(7);
    let reply = client.ask(READ, 0, 0, 20_000);
    assert_eq!((reply.data.len(), reply.holes), (3, 2));
    assert!(reply.bytes(0, 20_000) == expected);
    let reply = client.ask(READ, DF, 0, 20_000);
    assert_eq!((reply.data.len(), reply.holes), (1, 0));
    assert!(reply.bytes(0, 20_000) == expected);
}

#[test]
fn status_follows_writes_trims_and_zeros() {
    let place = Place::memory(SIZE);
    let mut client = place.client(true, true);
    let hole = |len| (len, 3);
    let data = |len| (len, 0);
    let status = |client: &mut Client, flags, offset, len| {
        let reply = client.ask(STATUS, flags, offset, len);
        assert_eq!(reply.error, 0);
        reply.extents
    };
    assert_eq!(status(&mut client, 0, 0, SIZE), [hole(SIZE)]);
    client.write(4096 * 3 + 5, b"x", 0);
    let all = [hole(4096 * 3), data(4096), hole(SIZE - 4096 * 4)];
    assert_eq!(status(&mut client, 0, 0, SIZE), all);
    assert_eq!(status(&mut client, REQ_ONE, 0, SIZE), [hole(4096 * 3)]);
    assert_eq!(status(&mut client, 0, 4096 * 3 + 1, 2), [data(2)]);
    // A part of a page becomes zeros, and keeps its room.
    assert_eq!(client.ask(TRIM, 0, 4096 * 3, 4095).error, 0);
    assert_eq!(client.read(4096 * 3, 4096), vec![0; 4096]);
    assert_eq!(status(&mut client, 0, 0, SIZE), all);
    assert_eq!(client.ask(TRIM, FUA, 4096 * 3, 4096).error, 0);
    assert_eq!(status(&mut client, 0, 0, SIZE), [hole(SIZE)]);
    assert_eq!(client.ask(ZEROES, NO_HOLE | FUA, 0, 8192).error, 0);
    assert_eq!(
        status(&mut client, 0, 0, SIZE),
        [data(8192), hole(SIZE - 8192)]
    );
    assert_eq!(client.ask(ZEROES, FAST_ZERO, 0, 4096).error, 0);
    assert_eq!(status(&mut client, 0, 0, 8192), [hole(4096), data(4096)]);
    // Room of its own is not to be had without writing.
    assert_eq!(
        client.ask(ZEROES, FAST_ZERO | NO_HOLE, 0, 4096).error,
        ENOTSUP
    );
    assert_eq!(client.ask(STATUS, 0, 0, 0).error, EINVAL);
}

#[test]
fn requests_that_are_wrong_get_their_error_and_the_connection_goes_on() {
    let place = Place::memory(SIZE);
    for structured in [false, true] {
        let mut client = place.client(structured, structured);
        let far = u64::MAX - 4095;
        for (command, flags, offset, len, error) in [
            (READ, 0, SIZE, 1, EINVAL),
            (READ, 0, SIZE - 1, 2, EINVAL),
            (READ, 0, far, 4096, EINVAL),
            (READ, 0, 0, (32 << 20) + 1, EINVAL),
            (READ, NO_HOLE, 0, 1, EINVAL),
            (READ, 1 << 9, 0, 1, EINVAL),
            (TRIM, 0, SIZE, 1, EINVAL),
            (TRIM, REQ_ONE, 0, 1, EINVAL),
            (ZEROES, 0, SIZE - 1, 2, ENOSPC),
            (ZEROES, 0, far, 4096, ENOSPC),
            (ZEROES, DF, 0, 1, EINVAL),
            (CACHE, 0, SIZE, 1, EINVAL),
            (CACHE, DF, 0, 1, EINVAL),
            (FLUSH, 0, 1, 0, EINVAL),
            (FLUSH, 0, 0, 1, EINVAL),
            (STATUS, 0, SIZE, 1, EINVAL),
            (STATUS, FUA | NO_HOLE, 0, 1, EINVAL),
            (8, 0, 0, 0, EINVAL),
            (99, 0, 0, 4096, EINVAL),
            (u16::MAX, 0, 0, 0, EINVAL),
        ] {
            let reply = client.ask(command, flags, offset, len);
            assert_eq!(
                reply.error, error,
                "command {command} {flags} {offset} {len}"
            );
        }
        // Payloads of refused writes are taken out of the way.
        assert_eq!(client.write(SIZE - 1, b"ab", 0), ENOSPC);
        assert_eq!(client.write(u64::MAX, b"ab", 0), ENOSPC);
        assert_eq!(client.write(0, b"ab", DF), EINVAL);
        assert_eq!(client.write(0, &vec![1; (32 << 20) + 1], 0), ENOSPC);
        assert_eq!(client.read(0, 2), [0, 0], "nothing was written");
        if !structured {
            assert_eq!(client.ask(READ, DF, 0, 1).error, EINVAL, "DF is for chunks");
            assert_eq!(
                client.ask(STATUS, 0, 0, 1).error,
                EINVAL,
                "no context was chosen"
            );
        }
    }
}

#[test]
fn a_write_longer_than_any_is_refused_also_where_it_fits() {
    let place = Place::memory(1 << 30);
    let mut client = place.client(true, false);
    assert_eq!(client.write(0, &vec![1; (32 << 20) + 1], 0), EINVAL);
    assert_eq!(client.write(0, &vec![1; 32 << 20], 0), 0);
    assert!(client.read(0, 32 << 20) == vec![1; 32 << 20]);
}

#[test]
fn a_read_only_export_says_so_and_refuses_changes() {
    let export = MemoryExport::new("", SIZE, true).expect("memory");
    let place = Place::serving(Arc::new(export), Limits::default());
    let mut client = place.connect();
    client.greet(3);
    let (_, flags) = client.go("");
    assert_eq!(flags & (1 << 1), 1 << 1, "read-only");
    assert_eq!(
        flags & (0b11 << 5 | 1 << 11),
        0,
        "nothing that changes is offered"
    );
    assert_eq!(client.write(0, b"x", 0), EPERM);
    assert_eq!(client.ask(TRIM, 0, 0, 1).error, EPERM);
    assert_eq!(client.ask(ZEROES, 0, 0, 1).error, EPERM);
    assert_eq!(client.ask(FLUSH, 0, 0, 0).error, 0);
    assert_eq!(client.read(0, 1), [0]);
}

#[test]
fn commands_that_are_not_offered_and_blocks_that_are_cut_are_refused() {
    let can = Can {
        write: true,
        ..Can::default()
    };
    let (export, _) = SlowExport::new(SIZE, 512, can);
    let place = Place::serving(export, Limits::default());
    let mut client = place.client(false, false);
    for (command, flags) in [(FLUSH, 0), (TRIM, 0), (ZEROES, 0), (CACHE, 0), (READ, FUA)] {
        let len = if command == FLUSH { 0 } else { 512 };
        assert_eq!(
            client.ask(command, flags, 0, len).error,
            EINVAL,
            "{command}"
        );
    }
    for (offset, len) in [(1, 512), (512, 511), (256, 256)] {
        assert_eq!(client.ask(READ, 0, offset, len).error, EINVAL);
        assert_eq!(client.write(offset, &vec![0; len as usize], 0), EINVAL);
    }
    let mut contexts = place.connect();
    contexts.greet(3);
    contexts.option(OPT_STRUCTURED, b"");
    let replies = contexts.option(OPT_SET_META, &meta("", &["base:allocation"]));
    assert_eq!(
        replies,
        [(REP_ACK, vec![])],
        "an export without status has no context"
    );
}

#[test]
fn extended_headers_carry_lengths_of_64_bits() {
    let size = 8u64 << 40;
    let place = Place::memory(size);
    let mut client = place.connect();
    client.greet(3);
    assert_eq!(client.option(OPT_EXTENDED, b""), [(REP_ACK, vec![])]);
    (client.structured, client.extended) = (true, true);
    assert_eq!(client.option_error(OPT_STRUCTURED, b""), 10);
    assert_eq!(client.option_error(OPT_EXTENDED, b""), 3);
    client.option(OPT_SET_META, &meta("", &["base:allocation"]));
    client.go("");
    assert_eq!(client.write(size - 3, b"end", 0), 0);
    assert_eq!(client.read(size - 3, 3), b"end");
    let reply = client.ask(STATUS, 0, 0, size);
    assert_eq!(reply.extents, [(size - 4096, 3), (4096, 0)]);
    // Eight terabytes in one request.
    assert_eq!(client.ask(TRIM, 0, 0, size).error, 0);
    assert_eq!(client.ask(STATUS, 0, 0, size).extents, [(size, 3)]);
    assert_eq!(client.read(size - 3, 3), [0; 3]);
    // A write says that it has a payload, which follows in any case; nothing else has one.
    client.request(WRITE, 0, 5, 0, 4);
    client.send(b"data");
    assert_eq!(client.reply().error, EINVAL);
    client.request(TRIM, PAYLOAD_LEN, 6, 0, 4);
    client.send(b"data");
    assert_eq!(client.reply().error, EINVAL);
    assert_eq!(client.ask(99, 0, 0, 0).error, EINVAL);
    assert_eq!(client.ask(FLUSH, 0, 0, 0).error, 0);
}
