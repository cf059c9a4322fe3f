//! Clients that break rules, send halves, or do not read.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use wharf_nbd::{Limits, MemoryExport};

use crate::client::*;

/// The server still serves.
fn is_well(place: &Place) {
    let mut client = place.client(true, true);
    assert_eq!(client.write(0, b"well", 0), 0);
    assert_eq!(client.read(0, 4), b"well");
}

#[test]
fn a_request_of_another_magic_ends_the_connection() {
    let place = Place::memory(1 << 20);
    let mut client = place.client(true, false);
    client.send(&[0x25; 28]);
    assert!(client.is_closed());
    is_well(&place);
}

#[test]
fn a_payload_that_nobody_would_send_ends_the_connection() {
    let place = Place::memory(1 << 20);
    let mut client = place.client(true, false);
    client.request(WRITE, 0, 1, 0, u64::from(u32::MAX));
    assert!(client.is_closed());
    is_well(&place);
}

#[test]
fn halves_of_requests_and_payloads_are_given_up_when_the_client_goes() {
    let place = Place::memory(1 << 20);
    let mut whole = Vec::new();
    for n in [0x2560_9513u32, 1, 0, 7, 0, 0, 300_000] {
        whole.extend(n.to_be_bytes());
    }
    whole.extend(vec![9; 300_000]);
    for len in [1, 27, 28, 29, 28 + 4096, 28 + 150_000, 28 + 299_999] {
        let mut client = place.client(false, false);
        client.send(&whole[..len]);
        drop(client);
        is_well(&place);
    }
    // What of it is there is old or new, and the status says that there is something.
    let mut client = place.client(true, true);
    let bytes = client.read(4096, 200_000);
    assert!(bytes.iter().all(|byte| [0, 9].contains(byte)));
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let export = MemoryExport::new("", 1 << 20, false).expect("memory");
    let limits = Limits {
        handshake_ms: 200,
        ..Limits::default()
    };
    let place = Place::serving(Arc::new(export), limits);
    // One that says nothing, and one that says a byte now and then.
    let mut silent = place.connect();
    assert!(silent.is_closed());
    let mut slow = place.connect();
    slow.receive(18);
    let mut ended = false;
    for byte in 3u32.to_be_bytes().iter().chain(&[b'I'; 200]) {
        ended = slow.socket.write_all(&[*byte]).is_err();
        if ended {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert!(ended, "it was not closed");
    // Who has shaken hands may take any time.
    let mut patient = place.client(false, false);
    std::thread::park_timeout(Duration::from_millis(400));
    assert_eq!(patient.read(0, 1), [0]);
}

#[test]
fn more_connections_than_may_be_are_closed_and_others_take_their_place() {
    let export = MemoryExport::new("", 1 << 20, false).expect("memory");
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let place = Place::serving(Arc::new(export), limits);
    let mut one = place.client(false, false);
    let other = place.client(false, false);
    assert!(place.connect().is_closed());
    assert_eq!(one.read(0, 1), [0]);
    let metrics = place.server.as_ref().expect("it runs").metrics();
    assert!(metrics.text().contains("connections_refused_total 1"));
    drop(other);
    while metrics.text().contains("wharf_nbd_connections 2") {
        std::thread::yield_now();
    }
    is_well(&place);
}

/// Client and server each waited for the other to read.
#[test]
fn a_client_that_sends_without_reading_is_held_up_and_then_served() {
    let export = MemoryExport::new("", 64 << 20, false).expect("memory");
    let limits = Limits {
        requests: 16,
        ..Limits::default()
    };
    let place = Place::serving(Arc::new(export), limits);
    let mut client = place.client(false, false);
    let mut header = Vec::new();
    for n in [0x2560_9513u32, 0, 0, 7, 0, 0, 1 << 20] {
        header.extend(n.to_be_bytes());
    }
    client.socket.set_nonblocking(true).expect("a flag");
    let mut bytes = Vec::new();
    (0..20_000).for_each(|_| bytes.extend(&header));
    let mut sent = 0;
    let mut quiet = 0;
    // Sends until nobody takes any more.
    while quiet < 20 && sent < bytes.len() {
        match client.socket.write(&bytes[sent..]) {
            Ok(count) => (sent, quiet) = (sent + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                quiet += 1;
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < bytes.len(), "the server takes requests without end");
    client.socket.set_nonblocking(false).expect("a flag");
    is_well(&place);
    // Then it reads, and gets every reply.
    let whole = sent / header.len();
    let mut left = whole * ((1 << 20) + 16);
    let mut part = vec![0; 1 << 20];
    while left > 0 {
        let count = client.socket.read(&mut part).expect("a reply");
        assert!(count > 0);
        left = left.checked_sub(count).expect("no byte too many");
    }
}

#[test]
fn bytes_at_random_end_connections_and_nothing_else() {
    let place = Place::memory(1 << 20);
    let mut dice = Dice(0x1234_5678);
    for round in 0..200 {
        let count = 1 + dice.below(2000) as usize;
        let bytes = dice.bytes(count);
        let mut client = match round % 2 {
            0 => place.connect(),
            _ => place.client(true, true),
        };
        // The server may have closed it by now.
        let _ = client.socket.write_all(&bytes);
        drop(client);
    }
    is_well(&place);
}

#[test]
fn requests_cut_at_random_places_are_served_all_the_same() {
    let place = Place::memory(1 << 20);
    let mut dice = Dice(99);
    let mut client = place.client(true, false);
    for round in 0..50u64 {
        let mut bytes = Vec::new();
        let mut payloads = Vec::new();
        for cookie in 0..20u64 {
            let len = 1 + dice.below(40_000) as usize;
            let payload = dice.bytes(len);
            for n in [
                0x2560_9513u32,
                1,
                0,
                cookie as u32,
                0,
                (cookie * 50_000) as u32,
                len as u32,
            ] {
                bytes.extend(n.to_be_bytes());
            }
            bytes.extend(&payload);
            payloads.push(payload);
        }
        let mut at = 0;
        while at < bytes.len() {
            let count = (1 + dice.below(60_000) as usize).min(bytes.len() - at);
            client.send(&bytes[at..at + count]);
            at += count;
        }
        for _ in 0..20 {
            assert_eq!(client.reply().error, 0);
        }
        for (cookie, payload) in (0..).zip(&payloads) {
            assert!(
                client.read(cookie * 50_000, payload.len()) == *payload,
                "round {round}"
            );
        }
    }
}
