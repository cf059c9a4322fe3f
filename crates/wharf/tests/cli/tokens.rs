//! Who uses an image that is served: what a process sends that keeps to nothing, users beside each other, sessions that end.
//! What the drive checks of claims and tokens is in its own tests; here it is seen from other processes.

#![allow(clippy::disallowed_methods)] // it waits as other programs do

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use wharf::files::{Mount, OpenFlags, Server, Serving};
use wharf::store::Terms;

use super::served::hostile::raw::{Raw, ask, command};
use crate::file_system::with_image;
use crate::support::{Place, code_and_stderr};

/// Entries of a queue pair of a drive that is served.
const DEPTH: u64 = 64;

const TOKEN_INVALID: u16 = 0x7d1;
const TOKEN_REVOKED: u16 = 0x7d3;
const ACCESS_DENIED: u16 = 0x286;

/// Somebody who is nobody here.
const OTHER: u32 = 65_534;

/// Makes everything durable: what anybody may send.
fn sync_all() -> [u8; 64] {
    let mut all = command(0xa4);
    all[60] = 2;
    all
}

fn serve(place: &Place, how: &Serving) -> (Server, String) {
    let socket = place.path().join("s");
    let server = Server::open_as(place.path().join("drive.img"), &socket, how).unwrap();
    (server, socket.to_str().unwrap().into())
}

#[test]
fn a_process_that_has_shown_nothing_or_reaches_for_pages_is_refused() {
    let place = with_image();
    let (server, socket) = serve(&place, &Serving::default());
    let mut stranger = Raw::attach(&socket, DEPTH);
    let blocks = [0x00, 0x01, 0x02, 0x08, 0x09, 0x0c, 0x81, 0x83, 0x86];
    let files: Vec<u8> = (0xa0..=0xa9).chain([0xab, 0xac]).collect();
    for round in 0..2 {
        for opcode in blocks {
            let ended = stranger.send(command(opcode)).status;
            // Commands that this drive does not have are none to anybody.
            let is_known = ended != 0x001;
            assert!(
                !is_known || ended == ACCESS_DENIED,
                "{opcode:x}h: {ended:x}h"
            );
            assert!(is_known || matches!(opcode, 0x81 | 0x83), "{opcode:x}h");
        }
        if round == 1 {
            break;
        }
        for opcode in &files {
            let mut command = command(*opcode);
            // Long enough, and with fields that have a meaning.
            (command[57], command[60]) = (16, 2);
            for token in [[0; 16], stranger.token, [7; 16]] {
                command[8..24].copy_from_slice(&token);
                let ended = stranger.send_as_is(command).status;
                let is_checked = ended == TOKEN_INVALID || ended == 0x002;
                assert!(is_checked, "{opcode:x}h: {ended:x}h");
            }
        }
        assert_eq!(stranger.send(sync_all()).status, TOKEN_INVALID);
        stranger.authenticate();
        assert_eq!(stranger.send(sync_all()).status, 0);
    }
    drop(stranger);
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);
}

#[test]
fn claims_of_another_process_are_none() {
    let place = with_image();
    let how = Serving {
        processes: 2,
        ..Serving::default()
    };
    let (server, socket) = serve(&place, &how);
    let (mut one, mut two) = (Raw::attach(&socket, DEPTH), Raw::attach(&socket, DEPTH));
    one.authenticate();
    let (claims, token) = (one.claims.clone(), one.token);
    assert_eq!(two.show(&claims, token).status, TOKEN_INVALID);
    // Its own, for the other's queue pair, with whichever token.
    let mut claims = two.claims.clone();
    claims[8..12].copy_from_slice(&one.claims[8..12]);
    assert_eq!(two.show(&claims, token).status, TOKEN_INVALID);
    assert_eq!(two.show(&claims, two.token).status, TOKEN_INVALID);
    two.authenticate();
    let mut stolen = sync_all();
    stolen[8..24].copy_from_slice(&token);
    assert_eq!(two.send_as_is(stolen).status, TOKEN_INVALID);
    assert_eq!(one.send(sync_all()).status, 0);
    // Who comes after one has its queue pair, and is not who that was.
    let (claims, token) = (one.claims.clone(), one.token);
    drop(one);
    let mut next = attach_when_free(&socket);
    assert_eq!(next.claims[8..12], claims[8..12], "the same guest");
    assert_eq!(next.show(&claims, token).status, TOKEN_REVOKED);
    next.authenticate();
    assert_eq!(next.show(&claims, token).status, TOKEN_REVOKED);
    assert_eq!(next.send(sync_all()).status, 0);
    drop((next, two));
    server.close().unwrap();
}

/// The end of a process is noticed a moment later.
fn attach_when_free(socket: &str) -> Raw {
    for _ in 0..1000 {
        let raw = Raw::attach(socket, DEPTH);
        if !raw.claims.is_empty() {
            return raw;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no place is free");
}

#[test]
fn a_restarted_server_knows_no_claims_of_before() {
    let place = with_image();
    let (server, socket) = serve(&place, &Serving::default());
    let old = Raw::attach(&socket, DEPTH);
    server.close().unwrap();
    let (server, socket) = serve(&place, &Serving::default());
    let mut new = Raw::attach(&socket, DEPTH);
    assert_eq!(new.show(&old.claims, old.token).status, TOKEN_INVALID);
    new.authenticate();
    drop(new);
    server.close().unwrap();
}

#[test]
fn new_claims_are_given_to_the_guest_itself_alone() {
    let place = with_image();
    let (server, socket) = serve(&place, &Serving::default());
    let mut guest = Raw::attach(&socket, DEPTH);
    guest.authenticate();
    let renew = |guest: u32, token| {
        let mut connection = UnixStream::connect(&socket).unwrap();
        connection.write_all(&ask(2, guest, token, 0)).unwrap();
        let mut told = Vec::new();
        connection.read_to_end(&mut told).unwrap();
        told
    };
    let mut wrong = guest.token;
    wrong[15] ^= 0x80;
    for (number, token) in [
        (0, wrong),
        (0, [0; 16]),
        (1, guest.token),
        (u32::MAX, guest.token),
    ] {
        assert!(renew(number, token).is_empty(), "guest {number}");
    }
    let told = renew(0, guest.token);
    assert!(told.len() >= 112);
    let (claims, rest) = told.split_at(96);
    let (token, groups) = rest.split_at(16);
    let claims = [claims, groups].concat();
    assert_eq!(guest.show(&claims, token.try_into().unwrap()).status, 0);
    // From then on the old ones are none.
    assert!(renew(0, guest.token).is_empty());
    assert_eq!(guest.send(sync_all()).status, TOKEN_INVALID);
    guest.token.copy_from_slice(token);
    assert_eq!(guest.send(sync_all()).status, 0);
    drop(guest);
    server.close().unwrap();
}

#[test]
fn claims_that_expire_are_renewed_and_nobody_notices() {
    let place = with_image();
    let how = Serving {
        terms: Terms {
            life_ns: 200_000_000,
            ..Terms::default()
        },
        ..Serving::default()
    };
    let (server, socket) = serve(&place, &how);
    let mount = Mount::attach(&socket).unwrap();
    let file = mount.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    let mut expected = Vec::new();
    for round in 0..5_u8 {
        // What is long takes several commands, each of which may be the one that comes too late.
        let bytes = vec![round; 3 << 20];
        let written = file.write_at(expected.len() as u64, &bytes).unwrap();
        assert_eq!(written, bytes.len());
        expected.extend_from_slice(&bytes);
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(mount.list("/").unwrap().len(), 1);
    }
    let mut back = vec![0; expected.len()];
    assert_eq!(file.read_at(0, &mut back).unwrap(), expected.len());
    assert!(back == expected);
    drop(file);
    mount.close().unwrap();
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);
}

#[test]
fn sessions_are_told_and_taken_back() {
    let place = with_image();
    let (server, socket) = serve(&place, &Serving::default());
    let mount = Mount::attach(&socket).unwrap();
    let file = mount.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    file.append(b"kept").unwrap();
    let listed: Value =
        serde_json::from_str(&place.ok(&["fs", "sessions", "s", "--json"])).unwrap();
    let own = &listed[0];
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(own["process"], std::process::id());
    assert_eq!(own["uid"], rustix::process::geteuid().as_raw());
    assert_eq!(
        (&own["acts_for_others"], &own["reads_only"]),
        (&true.into(), &false.into())
    );
    let session = own["session"].to_string();
    let table = place.ok(&["fs", "sessions", "s"]);
    assert_eq!(table.lines().count(), 2, "{table}");
    place.ok(&["fs", "sessions", "s", "--new-key"]);
    file.append(b" too").unwrap();
    place.ok(&["fs", "sessions", "s", "--revoke", &session]);
    let refused = file
        .append(b" no more")
        .map_err(|error| error.raw_os_error());
    assert_eq!(refused, Err(Some(13)), "EACCES");
    assert!(mount.list("/").is_err());
    drop(file);
    drop(mount);
    let again = Mount::attach(&socket).unwrap();
    let file = again.open_file("/file", OpenFlags::READ, 0).unwrap();
    let mut back = [0; 64];
    assert_eq!(file.read_at(0, &mut back).unwrap(), 8);
    assert_eq!(&back[..8], b"kept too");
    let own = rustix::process::geteuid().as_raw().to_string();
    place.ok(&["fs", "sessions", "s", "--revoke-user", &own]);
    assert!(again.list("/").is_err());
    drop(file);
    drop(again);
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);
    let told = place.refused(&["fs", "sessions", "drive.img"]);
    assert!(told.starts_with("drive.img: "), "{told}");
}

#[test]
fn a_server_that_lets_nobody_change_anything() {
    let place = with_image();
    let how = Serving {
        terms: Terms {
            reads_only: true,
            ..Terms::default()
        },
        ..Serving::default()
    };
    let (server, socket) = serve(&place, &how);
    let mount = Mount::attach(&socket).unwrap();
    let made = mount
        .mkdir("/a", 0o755)
        .map_err(|error| error.raw_os_error());
    assert_eq!(made, Err(Some(30)), "EROFS");
    assert!(mount.list("/").unwrap().is_empty());
    mount.close().unwrap();
    server.close().unwrap();
}

/// The program, as another user.
fn as_other(place: &Place, arguments: &[&str]) -> Output {
    // Where it is may be nobody else's to see.
    let program = place.path().join("program");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_wharf"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place.path());
    // The kernel forgets supplementary groups with that.
    command.uid(OTHER).gid(OTHER);
    command.output().unwrap()
}

#[test]
fn users_beside_each_other_do_what_permissions_let_them_do() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run programs as somebody else");
        return;
    }
    let place = with_image();
    let anybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.path(), anybody).unwrap();
    place.write("word", b"of root's");
    let how = Serving {
        socket_mode: 0o666,
        ..Serving::default()
    };
    let (server, socket) = serve(&place, &how);
    let root = Mount::attach(&socket).unwrap();
    root.mkdir("/pub", 0o777).unwrap();
    root.chmod("/pub", 0o777).unwrap();
    place.ok(&["fs", "cp", "word", "s:/secret"]);
    root.chmod("/secret", 0o600).unwrap();
    let output = as_other(&place, &["fs", "cp", "word", "s:/pub/word"]);
    assert_eq!(code_and_stderr(&output), (Some(0), String::new()));
    let made = root.stat("/pub/word", false).unwrap();
    assert_eq!((made.owner.uid, made.owner.gid), (OTHER, OTHER));
    for refused in [
        &["fs", "cp", "s:/secret", "out"][..],
        &["fs", "cp", "word", "s:/word"],
        &["fs", "cp", "word", "s:/secret"],
    ] {
        let (code, said) = code_and_stderr(&as_other(&place, refused));
        assert!(matches!(code, Some(1 | 2)), "{refused:?}: {said}");
        assert!(said.to_lowercase().contains("permission denied"), "{said}");
    }
    // Who is there, and taking it away from them, is for root and the server's user.
    for refused in [
        &["fs", "sessions", "s"][..],
        &["fs", "sessions", "s", "--revoke-user", "0"],
        &["fs", "sessions", "s", "--new-key"],
    ] {
        let (code, said) = code_and_stderr(&as_other(&place, refused));
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("only the user who serves the drive"),
            "{said}"
        );
    }
    assert_eq!(root.list("/").unwrap().len(), 2);
    root.close().unwrap();
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);

    // Nobody else gets at a socket that is its user's alone.
    let (server, _) = serve(&place, &Serving::default());
    let (code, said) = code_and_stderr(&as_other(&place, &["fs", "ls", "s"]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    server.close().unwrap();
}

#[test]
fn another_user_gets_half_of_the_places_at_most() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run programs as somebody else");
        return;
    }
    let place = with_image();
    let anybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.path(), anybody).unwrap();
    let how = Serving {
        processes: 4,
        socket_mode: 0o666,
        ..Serving::default()
    };
    let (server, socket) = serve(&place, &how);
    // Connections that ask to attach, and stay: as many as they like.
    let script = "import socket,sys,time\n\
        held=[]\n\
        for i in range(40):\n\
        \x20s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\n\
        \x20s.sendall(b'WHARFST3'+bytes([1])+bytes(31));held.append(s)\n\
        print('ready',flush=True);time.sleep(600)\n";
    let mut flood = Command::new("/usr/bin/python3");
    flood.args(["-c", script, &socket]).uid(OTHER).gid(OTHER);
    let Ok(mut flood) = flood.stdout(std::process::Stdio::piped()).spawn() else {
        println!("skipped: there is no python3");
        return;
    };
    let mut said = [0; 6];
    flood
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    let (one, two) = (attach(&socket), attach(&socket));
    assert!(one.list("/").unwrap().is_empty() && two.list("/").unwrap().is_empty());
    flood.kill().unwrap();
    flood.wait().unwrap();
    one.close().unwrap();
    two.close().unwrap();
    server.close().unwrap();
}

fn attach(socket: &str) -> Mount {
    Mount::attach(Path::new(socket)).unwrap_or_else(|error| panic!("{error}"))
}
