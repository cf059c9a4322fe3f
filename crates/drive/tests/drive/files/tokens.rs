//! Who a host is: claims that it shows, tokens of its commands, and what is refused to whom. The host is the drive's owner,
//! whose claims are for guest 0: what is checked of guests is the same.

use wharf_drive::config::TokenCheck;
use wharf_files::{Caller, Errno};
use wharf_wire::command::Command;
use wharf_wire::file::{
    ACTS_FOR_OTHERS, AttributeOperation, Claims, DriveKey, FileHandle, HandleOperation,
    LockOperation, LockWords, OpenAnswer, OpenMode, PathChange, PathRequest, READS_ONLY, Revoke,
    Token,
};
use wharf_wire::status::StatusCode;
use wharf_wire::timestamp::Timestamp;
use zerocopy::{FromBytes, IntoBytes};

use super::asker::{Asker, Reply, UPDATE, head, path};
use super::support::{config, new_rig, run};

use StatusCode as S;

/// When everything happens, in milliseconds since 1970.
const DAY_MS: u64 = 1_780_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;

const READ: OpenMode = OpenMode {
    write: false,
    create: false,
    ..UPDATE
};

/// A broker, and the host that it makes claims for.
struct World {
    asker: Asker,
    key: DriveKey,
    token: Token,
    user: Caller,
}

fn user(uid: u32) -> Caller {
    Caller {
        groups: vec![70, 71],
        ..Caller::user(uid, uid)
    }
}

impl World {
    /// A drive with a key, at a known time; the root directory is everybody's.
    async fn new(mut asker: Asker) -> World {
        let timestamp = Timestamp::of_milliseconds(DAY_MS);
        asker.host.whole_page(1)[..8].copy_from_slice(timestamp.as_bytes());
        let set = Command::set_timestamp(asker.host.whole.address(1));
        assert_eq!(asker.host.admin_status(set).await, S::Success);
        let mut world = World {
            asker,
            key: DriveKey::new([7; 32], 1),
            token: Token::NONE,
            user: user(1000),
        };
        assert_eq!(world.give(world.key).await, S::Success);
        world
    }

    async fn give(&mut self, key: DriveKey) -> StatusCode {
        let host = &mut self.asker.host;
        host.whole_page(1)[..64].copy_from_slice(key.as_bytes());
        let set = Command::set_key(host.whole.address(1));
        host.admin_status(set).await
    }

    /// Claims of the user that hold for a minute.
    fn claims(&self) -> Claims {
        Claims {
            session: 5,
            guest: 0,
            uid: self.user.uid,
            gid: self.user.gid,
            group_count: self.user.groups.len() as u32,
            epoch: self.key.epoch,
            not_before_ns: DAY_MS * 1_000_000 - SECOND_NS,
            expires_ns: DAY_MS * 1_000_000 + 60 * SECOND_NS,
            ..Claims::new()
        }
    }

    /// Shows claims, with their token.
    async fn show(&mut self, claims: Claims) -> StatusCode {
        let token = self.key.token(&claims, &self.user.groups);
        self.show_with(claims, token).await
    }

    async fn show_with(&mut self, claims: Claims, token: Token) -> StatusCode {
        let bytes = [claims.as_bytes(), self.user.groups.as_bytes()].concat();
        self.asker.put(0, &bytes);
        let show = Command::authenticate(1, bytes.len() as u32).with_token(token);
        let status = self.asker.send(self.asker.aimed(show)).await.status;
        if status == S::Success {
            self.token = token;
        }
        status
    }

    /// Sends a command with the token.
    async fn send(&mut self, command: Command) -> Reply {
        self.asker.send(command.with_token(self.token)).await
    }

    /// The same, with a path and the user.
    async fn ask(&mut self, command: Command, name: &[u8]) -> Reply {
        let user = self.user.clone();
        self.ask_as(&user, command, name).await
    }

    async fn ask_as(&mut self, caller: &Caller, command: Command, name: &[u8]) -> Reply {
        let mut head = head(caller);
        (head.mode, head.size) = (0o640, 0);
        let command = command.with_token(self.token);
        self.asker.ask(command, head, &path(name)).await
    }

    async fn open(&mut self, mode: OpenMode, name: &[u8]) -> Result<FileHandle, Reply> {
        let opened = self.ask(Command::open_file(1, mode, 8192), name).await;
        if opened.status != S::Success {
            return Err(opened);
        }
        let bytes = self.asker.got(size_of::<OpenAnswer>());
        let answer = OpenAnswer::read_from_bytes(&bytes).expect("an answer");
        Ok(FileHandle::from_raw(answer.handle))
    }

    /// How a command ends that anybody may send.
    async fn is_let_in(&mut self) -> StatusCode {
        self.send(Command::sync_files(1)).await.status
    }

    async fn revoke(&mut self, kind: Revoke, which: u64) -> StatusCode {
        let revoke = Command::revoke(kind, which);
        self.asker.host.admin_status(revoke).await
    }
}

fn with_check<F: Future<Output = ()> + 'static>(
    check: TokenCheck,
    script: impl FnOnce(World) -> F + Send + 'static,
) {
    let mut config = config(2, 2_000);
    config.firmware.token_check = check;
    run(&mut new_rig(config), |host| async move {
        script(World::new(Asker::new(host)).await).await;
    });
}

fn in_world<F: Future<Output = ()> + 'static>(script: impl FnOnce(World) -> F + Send + 'static) {
    with_check(TokenCheck::Cached, script);
}

#[test]
fn claims_and_tokens_that_were_changed_are_refused() {
    in_world(|mut world| async move {
        let claims = world.claims();
        let token = world.key.token(&claims, &world.user.groups);
        for bit in 0..128 {
            let mut forged = token;
            forged.0[bit / 8] ^= 1 << (bit % 8);
            let told = world.show_with(claims, forged).await;
            assert_eq!(told, S::TokenInvalid, "bit {bit} of the token");
        }
        for bit in 0..96 * 8 {
            // With another count of groups they are as long as they are not.
            let expected = match (160..192).contains(&bit) {
                true => S::InvalidField,
                false => S::TokenInvalid,
            };
            let mut forged = claims;
            forged.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            let told = world.show_with(forged, token).await;
            assert_eq!(told, expected, "bit {bit} of the claims");
        }
        let groups = std::mem::replace(&mut world.user.groups, vec![70, 0]);
        assert_eq!(world.show_with(claims, token).await, S::TokenInvalid);
        world.user.groups = groups;
        // The owner has shown nothing until now, and is believed.
        assert_eq!(world.is_let_in().await, S::Success);
        assert_eq!(world.show(claims).await, S::Success);
        assert_eq!(world.is_let_in().await, S::Success);
    });
}

#[test]
fn claims_for_another_guest_of_another_key_or_with_unknown_rights_are_refused() {
    in_world(|mut world| async move {
        let claims = world.claims();
        let other = Claims { guest: 1, ..claims };
        assert_eq!(world.show(other).await, S::TokenInvalid);
        let other = Claims { epoch: 2, ..claims };
        assert_eq!(world.show(other).await, S::TokenInvalid);
        let other = Claims {
            rights: 4,
            ..claims
        };
        assert_eq!(world.show(other).await, S::InvalidField);
        let own = std::mem::replace(&mut world.key, DriveKey::new([8; 32], 1));
        assert_eq!(world.show(claims).await, S::TokenInvalid);
        world.key = own;
        for bytes in [0, 95, 4097] {
            let show = Command::authenticate(1, bytes).with_token(Token([1; 16]));
            let told = world.asker.send(world.asker.aimed(show)).await;
            assert_eq!(told.status, S::InvalidField, "{bytes} bytes");
        }
        assert_eq!(world.show(claims).await, S::Success);
    });
}

#[test]
fn a_command_without_its_hosts_token_is_not_done() {
    in_world(|mut world| async move {
        assert_eq!(world.show(world.claims()).await, S::Success);
        let file = world.open(UPDATE, b"/a").await.unwrap();
        let good = world.token;
        for bit in 0..128 {
            world.token = good;
            world.token.0[bit / 8] ^= 1 << (bit % 8);
            let lock = LockWords {
                handle: file,
                operation: LockOperation::LockShared,
                first: 0,
                last: 9,
                owner: 1,
                whole_file: false,
            };
            for command in [
                world.asker.aimed(Command::write_file(1, file, 0, 4096)),
                world.asker.aimed(Command::read_file(1, file, 0, 4096)),
                Command::close_file(1, file),
                Command::sync_files(1),
                Command::lock_file(1, lock),
                Command::handle_operation(1, file, HandleOperation::Truncate, 9, 0),
            ] {
                let told = world.send(command).await;
                assert_eq!(told.status, S::TokenInvalid, "bit {bit}: {command:?}");
            }
            let told = world.ask(Command::path_change(1, PathChange::Remove, 8192), b"/a");
            assert_eq!(told.await.status, S::TokenInvalid);
        }
        // That of before it showed claims is none either.
        world.token = Token::NONE;
        assert_eq!(world.is_let_in().await, S::TokenInvalid);
        world.token = good;
        let read = world.asker.aimed(Command::read_file(1, file, 0, 4096));
        assert_eq!(world.send(read).await.done(), Ok(0), "nothing was written");
    });
}

#[test]
fn claims_hold_from_their_first_nanosecond_to_their_last() {
    in_world(|mut world| async move {
        let now_ns = DAY_MS * 1_000_000;
        let claims = world.claims();
        // It is a little later than the host has said, and never a second.
        let late = Claims {
            not_before_ns: now_ns + SECOND_NS,
            ..claims
        };
        assert_eq!(world.show(late).await, S::TokenExpired);
        let over = Claims {
            expires_ns: now_ns,
            ..claims
        };
        assert_eq!(world.show(over).await, S::TokenExpired);
        let never = Claims {
            expires_ns: 0,
            not_before_ns: u64::MAX,
            ..claims
        };
        assert_eq!(world.show(never).await, S::TokenExpired);
        let short = Claims {
            expires_ns: now_ns + SECOND_NS,
            ..claims
        };
        assert_eq!(world.show(short).await, S::Success);
        let file = world.open(UPDATE, b"/a").await.unwrap();
        let cpu = world.asker.host.cpu.clone();
        cpu.sleep_until(cpu.now() + SECOND_NS).await;
        assert_eq!(world.is_let_in().await, S::TokenExpired);
        assert_eq!(world.show(short).await, S::TokenExpired);
        // New claims, and what was open is still open.
        let new = Claims {
            session: 6,
            ..claims
        };
        assert_eq!(world.show(new).await, S::Success);
        assert_eq!(world.send(Command::close_file(1, file)).await.done(), Ok(0));
    });
}

#[test]
fn who_is_revoked_has_nothing_open_and_does_not_come_back() {
    for kind in Revoke::ALL {
        in_world(move |mut world| async move {
            let claims = world.claims();
            assert_eq!(world.show(claims).await, S::Success);
            let file = world.open(UPDATE, b"/a").await.unwrap();
            let lock = LockWords {
                handle: file,
                operation: LockOperation::LockExclusive,
                first: 0,
                last: u64::MAX,
                owner: 1,
                whole_file: false,
            };
            assert_eq!(world.send(Command::lock_file(1, lock)).await.done(), Ok(0));
            // Somebody else is nobody here.
            let (other, own) = match kind {
                Revoke::Session => (6, 5),
                Revoke::User => (1001, 1000),
                Revoke::Epoch => (0, 1),
            };
            assert_eq!(world.revoke(*kind, other).await, S::Success);
            assert_eq!(world.is_let_in().await, S::Success);
            assert_eq!(world.revoke(*kind, own).await, S::Success);
            assert_eq!(world.is_let_in().await, S::TokenRevoked);
            assert_eq!(world.show(claims).await, S::TokenRevoked);
            // Under a new key it may come again, by claims that begin later; and finds nothing open, and no locks.
            world.key = DriveKey::new([9; 32], 2);
            assert_eq!(world.give(world.key).await, S::Success);
            let new = Claims {
                session: 7,
                not_before_ns: claims.not_before_ns + SECOND_NS + SECOND_NS / 2,
                ..world.claims()
            };
            let cpu = world.asker.host.cpu.clone();
            cpu.sleep_until(cpu.now() + SECOND_NS).await;
            assert_eq!(world.show(new).await, S::Success, "{kind:?}");
            let closed = world.send(Command::close_file(1, file)).await;
            assert_eq!(closed.status, S::HandleInvalid);
            let file = world.open(UPDATE, b"/a").await.unwrap();
            let lock = LockWords {
                handle: file,
                owner: 2,
                ..lock
            };
            assert_eq!(world.send(Command::lock_file(1, lock)).await.done(), Ok(0));
        });
    }
}

#[test]
fn nobody_goes_back_to_who_it_was() {
    in_world(|mut world| async move {
        let old = Claims {
            session: 6,
            rights: ACTS_FOR_OTHERS,
            ..world.claims()
        };
        assert_eq!(world.show(old).await, S::Success);
        let new = Claims {
            session: 7,
            ..world.claims()
        };
        assert_eq!(world.show(new).await, S::Success);
        assert_eq!(world.show(old).await, S::TokenRevoked);
        assert_eq!(world.show(new).await, S::Success);
        assert_eq!(world.is_let_in().await, S::Success);
    });
}

#[test]
fn a_key_gives_way_to_newer_ones_alone() {
    in_world(|mut world| async move {
        let old = world.claims();
        assert_eq!(world.show(old).await, S::Success);
        for epoch in [0, 1] {
            let told = world.give(DriveKey::new([1; 32], epoch)).await;
            assert_eq!(told, S::InvalidField);
        }
        assert_eq!(world.is_let_in().await, S::Success);
        let old_key = std::mem::replace(&mut world.key, DriveKey::new([1; 32], 2));
        assert_eq!(world.give(world.key).await, S::Success);
        // Who is there goes on until its claims expire; nobody comes with the old key.
        assert_eq!(world.is_let_in().await, S::Success);
        let token = old_key.token(&old, &world.user.groups);
        assert_eq!(world.show_with(old, token).await, S::TokenInvalid);
        let host = &mut world.asker.host;
        let nowhere = host.admin_status(Command::set_key(0x7000_0000_0000)).await;
        assert_eq!(nowhere, S::DataTransferError);
        let odd = Command::set_key(host.whole.address(1) + 4);
        assert_eq!(host.admin_status(odd).await, S::PrpOffsetInvalid);
        let mut unknown = Command::revoke(Revoke::User, 1);
        unknown.cdw10 = 3;
        assert_eq!(host.admin_status(unknown).await, S::InvalidField);
        let wide = Command::revoke(Revoke::User, 1 << 32);
        assert_eq!(host.admin_status(wide).await, S::InvalidField);
    });
}

#[test]
fn a_request_that_names_somebody_else_is_refused() {
    in_world(|mut world| async move {
        // Root's, for the group 70.
        let root = Caller::root();
        let open = Command::open_file(1, UPDATE, 8192);
        assert_eq!(world.ask_as(&root, open, b"/g").await.done(), Ok(0));
        let mut head = head(&root);
        head.set_gid = 70;
        let give = Command::set_file_attributes(1, AttributeOperation::Owner, 8192);
        let given = world.asker.ask(give, head, &path(b"/g")).await;
        assert_eq!(given.done(), Ok(0));
        assert_eq!(world.show(world.claims()).await, S::Success);
        for named in [root, Caller::user(1000, 0), Caller::user(1001, 1000)] {
            for command in [
                Command::open_file(1, UPDATE, 8192),
                Command::path_request(1, PathRequest::Stat, 8192),
                Command::path_request(1, PathRequest::MakeDirectory, 8192),
                Command::path_change(1, PathChange::Remove, 8192),
                Command::set_file_attributes(1, AttributeOperation::Mode, 8192),
            ] {
                let told = world.ask_as(&named, command, b"/g").await;
                assert_eq!(told.status, S::AccessDenied, "{named:?} {command:?}");
            }
        }
        // Its groups are those of the claims, whatever the request says.
        let liar = Caller {
            groups: vec![0],
            ..user(1000)
        };
        let open = Command::open_file(1, READ, 8192);
        assert_eq!(world.ask_as(&liar, open, b"/g").await.done(), Ok(0));
        world.user.groups = vec![];
        let claims = Claims {
            session: 6,
            ..world.claims()
        };
        assert_eq!(world.show(claims).await, S::Success);
        let liar = user(1000);
        let told = world.ask_as(&liar, open, b"/g").await;
        assert_eq!(told.done(), Err(Errno::EACCES.number()));
        // Who acts for others names whom it likes.
        let claims = Claims {
            session: 7,
            rights: ACTS_FOR_OTHERS,
            ..world.claims()
        };
        assert_eq!(world.show(claims).await, S::Success);
        assert_eq!(world.ask_as(&liar, open, b"/g").await.done(), Ok(0));
    });
}

#[test]
fn who_may_only_read_changes_nothing() {
    in_world(|mut world| async move {
        assert_eq!(world.show(world.claims()).await, S::Success);
        let file = world.open(UPDATE, b"/a").await.unwrap();
        let claims = Claims {
            rights: READS_ONLY,
            ..world.claims()
        };
        assert_eq!(world.show(claims).await, S::Success);
        let rofs = Err(Errno::EROFS.number());
        for command in [
            Command::write_file(1, file, 0, 4096),
            Command::handle_operation(1, file, HandleOperation::Truncate, 9, 0),
            Command::handle_operation(1, file, HandleOperation::Allocate, 0, 9),
        ] {
            let command = match command.file_bytes() {
                0 => command,
                _ => world.asker.aimed(command),
            };
            assert_eq!(world.send(command).await.done(), rofs, "{command:?}");
        }
        for command in [
            Command::open_file(1, UPDATE, 8192),
            Command::open_file(
                1,
                OpenMode {
                    truncate: true,
                    ..READ
                },
                8192,
            ),
            Command::path_request(1, PathRequest::MakeDirectory, 8192),
            Command::path_request(1, PathRequest::MakeSymlink, 8192),
            Command::path_request(1, PathRequest::MakeSpecial, 8192),
            Command::path_request(1, PathRequest::Link, 8192),
            Command::path_change(1, PathChange::Remove, 8192),
            Command::path_change(1, PathChange::Truncate, 8192),
            Command::set_file_attributes(1, AttributeOperation::Mode, 8192),
        ] {
            assert_eq!(world.ask(command, b"/a").await.done(), rofs, "{command:?}");
        }
        assert!(world.open(READ, b"/a").await.is_ok());
        let stat = Command::path_request(1, PathRequest::Stat, 8192);
        assert_eq!(world.ask(stat, b"/a").await.done(), Ok(0));
        let seek = Command::handle_operation(1, file, HandleOperation::SeekHole, 0, 0);
        assert_eq!(world.send(seek).await.done(), Err(Errno::ENXIO.number()));
        assert_eq!(world.is_let_in().await, S::Success);
    });
}

#[test]
fn with_every_command_computed_anew_a_new_key_ends_what_was_made_with_the_old_one() {
    with_check(TokenCheck::Every, |mut world| async move {
        assert_eq!(world.show(world.claims()).await, S::Success);
        assert_eq!(world.is_let_in().await, S::Success);
        let good = world.token;
        world.token.0[3] ^= 1;
        assert_eq!(world.is_let_in().await, S::TokenInvalid);
        world.token = good;
        world.key = DriveKey::new([1; 32], 2);
        assert_eq!(world.give(world.key).await, S::Success);
        assert_eq!(world.is_let_in().await, S::TokenExpired);
        let new = Claims {
            session: 6,
            ..world.claims()
        };
        assert_eq!(world.show(new).await, S::Success);
        assert_eq!(world.is_let_in().await, S::Success);
    });
}

#[test]
fn where_nothing_is_checked_everybody_is_believed() {
    with_check(TokenCheck::Off, |mut world| async move {
        assert_eq!(world.show(world.claims()).await, S::Success);
        world.token = Token([9; 16]);
        assert_eq!(world.is_let_in().await, S::Success);
        let root = Caller::root();
        let open = Command::open_file(1, UPDATE, 8192);
        assert_eq!(world.ask_as(&root, open, b"/a").await.done(), Ok(0));
    });
}
