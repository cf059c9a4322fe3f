//! How a server ends, and what it leaves.

use std::sync::Arc;

use wharf_nbd::{Limits, Listener, Placement, Server, ServerOptions};

use crate::client::*;
use crate::slow::{ALL, SlowExport};

#[test]
fn a_server_that_stops_answers_what_has_come_and_removes_its_socket() {
    for placement in [Placement::ThreadPerConnection, Placement::OneThread] {
        let (export, control) = SlowExport::placed(1 << 20, 1, ALL, placement);
        let place = Place::serving(export, Limits::default());
        let path = place.path();
        let mut client = place.client(true, false);
        client.request(READ, 0, 5, 512, 512);
        control.wait_for(1);
        std::thread::scope(|scope| {
            let stopping = scope.spawn(move || place.stop());
            // It has seen the end of its input by now, or sees it later: both must do.
            std::thread::park_timeout(std::time::Duration::from_millis(50));
            assert!(!stopping.is_finished(), "a request is under way");
            control.end(0, None);
            assert_eq!(client.reply().bytes(512, 512), vec![1; 512]);
            assert!(client.is_closed());
            stopping.join().expect("no panic").expect("it stops");
        });
        assert!(!path.exists());
    }
}

#[test]
fn idle_clients_and_clients_in_their_handshake_do_not_hold_up_the_end() {
    let place = Place::memory(1 << 20);
    let mut idle = place.client(true, false);
    let mut shaking = place.connect();
    shaking.receive(18);
    place.stop().expect("it stops");
    assert!(idle.is_closed());
    assert!(shaking.is_closed());
}

#[test]
fn a_client_that_does_not_take_its_replies_is_cut_off_in_the_end() {
    let export = wharf_nbd::MemoryExport::new("", 64 << 20, false).expect("memory");
    let limits = Limits {
        stop_ms: 300,
        ..Limits::default()
    };
    let place = Place::serving(Arc::new(export), limits);
    let mut client = place.client(false, false);
    for cookie in 0..4 {
        client.request(READ, 0, cookie, 0, 16 << 20);
    }
    assert_eq!(client.u32(), 0x67446698);
    place.stop().expect("it stops");
}

#[test]
fn a_socket_of_a_dead_server_is_replaced_and_that_of_a_living_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "nobody has removed it");
    let listener = Listener::unix(&path).expect("the dead one's place");
    assert!(Listener::unix(&path).is_err(), "somebody listens there");
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").expect("a file");
    assert!(Listener::unix(&file).is_err());
    assert_eq!(
        std::fs::read_to_string(&file).expect("it is there"),
        "precious"
    );
    let (export, _) = SlowExport::new(1 << 20, 1, ALL);
    let server = Server::start(ServerOptions::new(vec![listener], export)).expect("a server");
    server.stop().expect("it stops");
    assert!(!path.exists());
}
