//! Every option, its replies and its refusals.

use std::sync::Arc;

use wharf_nbd::{Limits, MemoryExport};

use crate::client::*;

fn place() -> Place {
    let export = MemoryExport::new("disk", 1 << 20, false).expect("memory");
    Place::serving(Arc::new(export), Limits::default())
}

fn greeted(place: &Place) -> Client {
    let mut client = place.connect();
    client.greet(3);
    client
}

#[test]
fn the_export_is_listed_with_its_name_and_text() {
    let place = place();
    let mut client = greeted(&place);
    let replies = client.option(OPT_LIST, b"");
    let mut entry = string("disk");
    entry.extend(b"memory");
    assert_eq!(replies, [(REP_SERVER, entry), (REP_ACK, vec![])]);
    assert_eq!(client.option_error(OPT_LIST, b"x"), 3);
}

#[test]
fn info_and_go_tell_size_flags_blocks_name_and_text() {
    let place = place();
    let mut client = greeted(&place);
    for name in ["disk", ""] {
        let replies = client.option(OPT_INFO, &info(name, &[1, 2, 3, 999]));
        let facts: Vec<_> = replies.iter().map(|r| r.1.clone()).collect();
        assert_eq!(facts[0][..2], [0, 0]);
        assert_eq!(facts[0][2..10], (1u64 << 20).to_be_bytes());
        let blocks: Vec<u8> = [1u32, 4096, 32 << 20]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect();
        assert_eq!(facts[1], [&[0, 3][..], &blocks].concat());
        assert_eq!(facts[2], b"\0\x01disk");
        assert_eq!(facts[3], b"\0\x02memory");
        assert_eq!(replies.last(), Some(&(REP_ACK, vec![])));
    }
    assert_eq!(client.option_error(OPT_INFO, &info("other", &[])), 6);
    assert_eq!(client.option_error(OPT_GO, &info("other", &[])), 6);
    // After all these errors the connection is as good as new.
    let (size, flags) = client.go("disk");
    assert_eq!(size, 1 << 20);
    // Everything but read-only, rotational and DF, which comes with replies in chunks.
    assert_eq!(flags, 0b1101_0110_1101);
    assert_eq!(client.write(0, b"x", 0), 0);
}

#[test]
fn malformed_options_are_refused_and_the_next_one_is_answered() {
    let place = place();
    let mut client = greeted(&place);
    client.option(OPT_STRUCTURED, b"");
    let long = "x".repeat(5000);
    for option in [OPT_INFO, OPT_GO] {
        for data in [
            vec![],
            vec![0, 0, 0],
            vec![0xff; 8],
            string("disk"),
            [string("disk"), vec![0, 2, 0, 0]].concat(),
            [info("disk", &[]), vec![1]].concat(),
        ] {
            assert_eq!(client.option_error(option, &data), 3, "{option} {data:?}");
        }
        assert_eq!(client.option_error(option, &info(&long, &[])), 9);
    }
    for option in [OPT_LIST_META, OPT_SET_META] {
        for data in [
            vec![],
            string("disk"),
            [string("disk"), vec![0xff; 4]].concat(),
            [meta("disk", &["base:allocation"]), vec![0]].concat(),
        ] {
            assert_eq!(client.option_error(option, &data), 3, "{option} {data:?}");
        }
        assert_eq!(client.option_error(option, &meta("other", &[])), 6);
    }
    for option in [4, 12, 99, u32::MAX] {
        assert_eq!(client.option_error(option, b"whatever"), 1);
    }
    assert_eq!(client.option_error(OPT_STARTTLS, b""), 1);
    assert_eq!(client.option_error(OPT_STRUCTURED, b"x"), 3);
    assert_eq!(client.option_error(99, &vec![7; 70_000]), 9);
    assert_eq!(client.option(OPT_LIST, b"").len(), 2);
}

#[test]
fn contexts_need_chunks_and_are_those_of_the_last_choice() {
    let place = place();
    let mut client = greeted(&place);
    let wanted = meta("disk", &["base:allocation"]);
    assert_eq!(client.option_error(OPT_SET_META, &wanted), 3);
    assert_eq!(client.option_error(OPT_LIST_META, &wanted), 3);
    client.option(OPT_STRUCTURED, b"");
    client.structured = true;
    for queries in [
        &[][..],
        &["base:"],
        &["base:allocation"],
        &["qemu:", "base:allocation"],
    ] {
        let replies = client.option(OPT_LIST_META, &meta("disk", queries));
        assert_eq!(replies[0], (REP_META, b"\0\0\0\0base:allocation".to_vec()));
    }
    assert_eq!(
        client
            .option(OPT_LIST_META, &meta("disk", &["qemu:"]))
            .len(),
        1
    );
    let replies = client.option(OPT_SET_META, &wanted);
    assert_eq!(
        replies[0],
        (REP_META, b"\0\0\0\x01base:allocation".to_vec())
    );
    // The last choice counts: nothing.
    assert_eq!(
        client.option(OPT_SET_META, &meta("disk", &["base:"])).len(),
        1
    );
    client.go("disk");
    assert_eq!(client.ask(STATUS, 0, 0, 4096).error, EINVAL);
}

#[test]
fn contexts_of_another_name_do_not_count() {
    let place = place();
    let mut client = greeted(&place);
    client.option(OPT_STRUCTURED, b"");
    client.structured = true;
    client.option(OPT_SET_META, &meta("", &["base:allocation"]));
    client.go("disk");
    assert_eq!(client.ask(STATUS, 0, 0, 4096).error, EINVAL);
}

#[test]
fn old_clients_use_the_export_by_its_name() {
    let place = place();
    for (flags, padding) in [(1, 124), (3, 0), (0, 124)] {
        let mut client = place.connect();
        client.greet(flags);
        client.send_option(OPT_EXPORT_NAME, b"disk");
        assert_eq!(client.u64(), 1 << 20);
        assert_eq!(client.u16() & 1, 1);
        assert_eq!(client.receive(padding), vec![0; padding]);
        assert_eq!(client.write(7, b"old", 0), 0);
        assert_eq!(client.read(7, 3), b"old");
    }
}

#[test]
fn what_cannot_be_answered_ends_the_connection() {
    let place = place();
    let mut unknown = greeted(&place);
    unknown.send_option(OPT_EXPORT_NAME, b"other");
    assert!(unknown.is_closed());
    let mut flags = place.connect();
    flags.greet(4);
    assert!(flags.is_closed());
    let mut magic = greeted(&place);
    magic.send(b"IHAVENOT\0\0\0\x03\0\0\0\0");
    assert!(magic.is_closed());
    let mut huge = greeted(&place);
    huge.send(b"IHAVEOPT\0\0\0\x63\xff\xff\xff\xff");
    assert!(huge.is_closed());
    // Without the fixed protocol errors have no form.
    let mut old = place.connect();
    old.greet(0);
    old.send_option(OPT_LIST, b"");
    assert!(old.is_closed());
    let mut many = greeted(&place);
    for _ in 0..1024 {
        many.send_option(99, b"");
        many.option_reply(99);
    }
    many.send_option(99, b"");
    assert!(many.is_closed());
}

#[test]
fn abort_is_answered_and_ends_the_connection() {
    let place = place();
    let mut client = greeted(&place);
    assert_eq!(client.option(OPT_ABORT, b""), [(REP_ACK, vec![])]);
    assert!(client.is_closed());
}

#[test]
fn a_handshake_in_single_bytes_and_one_in_a_single_write_are_the_same() {
    let place = place();
    let mut bytes = 3u32.to_be_bytes().to_vec();
    for (option, data) in [(OPT_STRUCTURED, vec![]), (OPT_GO, info("disk", &[]))] {
        bytes.extend(b"IHAVEOPT");
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    }
    // And a write of "hi" behind it.
    bytes.extend(b"\x25\x60\x95\x13\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x02hi");
    for step in [1, bytes.len()] {
        let mut client = place.connect();
        for part in bytes.chunks(step) {
            client.send(part);
        }
        client.receive(18);
        client.structured = true;
        assert_eq!(client.option_reply(OPT_STRUCTURED).0, REP_ACK);
        assert_eq!(client.option_reply(OPT_GO).0, REP_INFO);
        assert_eq!(client.option_reply(OPT_GO).0, REP_INFO);
        assert_eq!(client.option_reply(OPT_GO).0, REP_ACK);
        let reply = client.reply();
        assert_eq!((reply.cookie, reply.error), (7, 0));
        assert_eq!(client.read(0, 2), b"hi");
    }
}
