//! Leases, by commands: whoever knows of a change finds the leases of others ended, and one's own changes end nothing.

use wharf_files::Caller;
use wharf_wire::command::Command;
use wharf_wire::dma::of_guest;
use wharf_wire::file::{
    AttributeOperation, FileAttributes, FileHandle, HandleOperation, Names, OpenMode, PathChange,
    PathRequest, RequestHead, Start, XattrMode,
};
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

use super::asker::{Asker, Reply, UPDATE, head, path};
use super::support::{config, new_rig};
use super::turns::{Turns, script};
use crate::support::rig::Rig;

const BYTES: u32 = 8192;

/// A drive that serves its owner and a guest.
fn rig() -> Rig {
    let mut rig = new_rig(config(2, 2_000));
    rig.has_guests = true;
    rig
}

/// The address of a word, by the host's own addresses.
fn word(asker: &Asker, index: usize) -> u64 {
    asker.host.whole.word(index).1
}

impl Asker {
    async fn lease(&mut self, file: FileHandle, index: usize) -> (u64, FileAttributes) {
        let command = Command::lease_file(1, file, word(self, index), 128);
        let command = self.aimed(command);
        let lease = self.send(command).await.done().unwrap();
        let bytes = self.got(128);
        let found = FileAttributes::read_from_bytes(&bytes);
        (lease, found.expect("attributes"))
    }

    fn look(&self, index: usize) -> u64 {
        self.host.whole.word(index).0.look()
    }

    async fn change(&mut self, command: Command, head: RequestHead, names: &Names<'_>) -> Reply {
        self.ask(command, head, names).await
    }
}

fn two<'a>(from: &'a [u8], to: &'a [u8]) -> Names<'a> {
    Names {
        path2: (Start::ROOT, to),
        ..path(from)
    }
}

/// All ways to change `/f`, which is open; the last ones take its name. Each is told by its number.
const CHANGES: u64 = 19;

async fn change(asker: &mut Asker, file: FileHandle, which: u64) {
    let mut head = head(&Caller::root());
    let operate = |what| Command::handle_operation(1, file, what, 0, 4096);
    let set = |what| Command::set_file_attributes(1, what, BYTES).following();
    let sent = match which {
        0 => Some(Command::write_file(1, file, 5, 10)),
        1 => Some(Command::append_file(1, file, 10)),
        2 => Some(operate(HandleOperation::Truncate)),
        3 => Some(operate(HandleOperation::Allocate)),
        4 => Some(operate(HandleOperation::AllocateKeepSize)),
        5 => Some(operate(HandleOperation::Zero)),
        6 => Some(operate(HandleOperation::ZeroKeepSize)),
        7 => Some(operate(HandleOperation::Punch)),
        _ => None,
    };
    if let Some(command) = sent {
        let command = match which {
            0 | 1 => asker.aimed(command),
            _ => command,
        };
        asker.send(command).await.done().unwrap();
        return;
    }
    let path_change = |what| Command::path_change(1, what, BYTES);
    let xattr = two(b"/f", b"user.x");
    let reply = match which {
        8 => {
            let mode = OpenMode {
                truncate: true,
                ..UPDATE
            };
            asker.open(mode, b"/f").await;
            return;
        }
        9 => {
            head.size = 3;
            asker
                .change(path_change(PathChange::Truncate), head, &path(b"/f"))
                .await
        }
        10 => {
            head.mode = 0o600;
            asker
                .change(set(AttributeOperation::Mode), head, &path(b"/f"))
                .await
        }
        11 => {
            head.set_uid = 7;
            asker
                .change(set(AttributeOperation::Owner), head, &path(b"/f"))
                .await
        }
        12 => {
            head.modified_ns = 7;
            asker
                .change(set(AttributeOperation::Times), head, &path(b"/f"))
                .await
        }
        13 => {
            let set = set(AttributeOperation::SetXattr).with_xattr_mode(XattrMode::Put);
            let names = Names {
                value: b"value",
                ..xattr
            };
            asker.change(set, head, &names).await
        }
        14 => {
            asker
                .change(set(AttributeOperation::RemoveXattr), head, &xattr)
                .await
        }
        15 => {
            let link = Command::path_request(1, PathRequest::Link, BYTES);
            asker.change(link, head, &two(b"/f", b"/g")).await
        }
        16 => {
            let rename = path_change(PathChange::Rename);
            asker.change(rename, head, &two(b"/g", b"/h")).await
        }
        17 => {
            asker
                .change(path_change(PathChange::Remove), head, &path(b"/h"))
                .await
        }
        _ => {
            // Over it.
            asker.open(UPDATE, b"/new").await;
            let rename = path_change(PathChange::Rename);
            asker.change(rename, head, &two(b"/new", b"/f")).await
        }
    };
    reply
        .done()
        .unwrap_or_else(|errno| panic!("{which}: {errno}"));
}

#[test]
fn a_change_by_another_ends_a_lease_before_it_is_known() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        own_turns.pass(1);
        let at = of_guest(
            0,
            word(&asker, 0) - asker.host.whole.address(0) + GUEST_WHOLE,
        );
        for which in 0..CHANGES {
            own_turns.wait(&asker.host.cpu, 2 * which + 2).await;
            let seen = || asker.host.dma.word(at).unwrap().look();
            assert!(seen() > 0, "change {which}: there is a lease");
            change(&mut asker, file, which).await;
            // The completion has come just now.
            let seen = asker.host.dma.word(at).unwrap().look();
            assert_eq!(seen, 0, "change {which} is known");
            own_turns.pass(2 * which + 3);
        }
    });
    let guest = script(move |mut asker| async move {
        assert_eq!(word(&asker, 0), GUEST_WHOLE);
        its_turns.wait(&asker.host.cpu, 1).await;
        let file = asker.file(UPDATE, b"/f").await;
        let mut before = 0;
        for which in 0..CHANGES {
            let (lease, _) = asker.lease(file, 0).await;
            assert!(lease > before && asker.look(0) == lease);
            before = lease;
            its_turns.pass(2 * which + 2);
            its_turns.wait(&asker.host.cpu, 2 * which + 3).await;
            assert_eq!(asker.look(0), 0);
        }
    });
    rig().run_clients(&wharf_drive::PowerSwitch::on(), vec![owner, guest]);
}

/// Where a guest has its whole pages, by its own addresses: behind its pages of data.
const GUEST_WHOLE: u64 = (1 << 40) + (crate::support::host::DATA_PAGES as u64) * 4096;

#[test]
fn what_a_host_changes_itself_ends_nothing_and_reads_change_nothing() {
    let owner = script(|mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        let (lease, found) = asker.lease(file, 0).await;
        assert_eq!(found.bytes, 0);
        for which in 0..CHANGES {
            change(&mut asker, file, which).await;
            assert_eq!(asker.look(0), lease, "change {which}");
        }
        let (next, found) = asker.lease(file, 1).await;
        assert!(next > lease && found.links == 0);
        assert_eq!((asker.look(0), asker.look(1)), (0, next));
        let read = asker.aimed(Command::read_file(1, file, 0, 100));
        asker.send(read).await.done().unwrap();
        let close = Command::close_file(1, file);
        asker.send(close).await.done().unwrap();
        assert_eq!(asker.look(1), next);
        let leave = Command::leave_files(1);
        asker.send(leave).await.done().unwrap();
        assert_eq!(asker.look(1), 0);
    });
    rig().run_clients(&wharf_drive::PowerSwitch::on(), vec![owner]);
}

#[test]
fn what_is_no_lease_is_refused() {
    let owner = script(|mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        let directory = OpenMode {
            read: true,
            directory: true,
            ..OpenMode::default()
        };
        let root = asker.file(directory, b"/").await;
        assert_eq!(asker.lease(root, 0).await.0, 0);
        assert_eq!(asker.look(0), 0);
        let at = word(&asker, 0);
        let wrong = [
            (at + 4, 128, StatusCode::InvalidField),
            (at, 127, StatusCode::InvalidField),
            (8, 128, StatusCode::DataTransferError),
            (at + (1 << 30), 128, StatusCode::DataTransferError),
        ];
        for (at, bytes, status) in wrong {
            let command = asker.aimed(Command::lease_file(1, file, at, bytes));
            assert_eq!(asker.send(command).await.status, status);
        }
    });
    // What a guest names is its own memory, whatever it says.
    let guest = script(|mut asker| async move {
        let cpu = asker.host.cpu.clone();
        cpu.sleep_until(cpu.now() + 50_000_000).await;
        let file = asker.file(UPDATE, b"/f").await;
        let own = word(&asker, 0);
        for at in [own | 1 << 52, own | 2 << 52, 2 << 40, 0] {
            let command = asker.aimed(Command::lease_file(1, file, at, 128));
            let status = asker.send(command).await.status;
            assert_eq!(status, StatusCode::DataTransferError, "{at:#x}");
        }
        assert!(asker.lease(file, 0).await.0 > 0);
    });
    rig().run_clients(&wharf_drive::PowerSwitch::on(), vec![owner, guest]);
}

/// A guest that writes anything to its words, and asks for leases all the time, changes nothing for others.
#[test]
fn a_guest_that_writes_to_its_words_deceives_itself_alone() {
    const ROUNDS: u64 = 40;
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        for round in 0..ROUNDS {
            if round == 0 {
                let write = asker.aimed(Command::write_file(1, file, 0, 10));
                assert_eq!(asker.send(write).await.done(), Ok(10));
            }
            let (lease, found) = asker.lease(file, 0).await;
            assert!(lease > 0 && found.bytes == 10 + round);
            own_turns.pass(2 * round + 1);
            own_turns.wait(&asker.host.cpu, 2 * round + 2).await;
            assert_eq!(asker.look(0), 0, "the guest has appended");
            let (lease, found) = asker.lease(file, 0).await;
            assert!(lease > 0 && found.bytes == 11 + round);
            let write = asker.aimed(Command::write_file(1, file, 0, 10));
            assert_eq!(asker.send(write).await.done(), Ok(10));
            assert_eq!(asker.look(0), lease);
        }
    });
    let guest = script(move |mut asker| async move {
        let mut state = 7_u64;
        for round in 0..ROUNDS {
            its_turns.wait(&asker.host.cpu, 2 * round + 1).await;
            let file = asker.file(UPDATE, b"/f").await;
            for _ in 0..20 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let index = (state >> 33) as usize % 600;
                asker.host.whole.word(index).0.tell(state);
                asker.lease(file, index).await;
                asker.host.whole.word(index).0.tell(state);
            }
            let append = asker.aimed(Command::append_file(1, file, 1));
            asker.send(append).await.done().unwrap();
            its_turns.pass(2 * round + 2);
        }
    });
    rig().run_clients(&wharf_drive::PowerSwitch::on(), vec![owner, guest]);
}

/// Which of the changes are seen by paths.
fn is_of_names(which: u64) -> bool {
    which >= 10
}

#[test]
fn changes_of_names_end_leases_of_all_names_and_others_do_not() {
    let turns = Turns::default();
    let (own_turns, its_turns) = (turns.clone(), turns);
    let owner = script(move |mut asker| async move {
        let file = asker.file(UPDATE, b"/f").await;
        own_turns.pass(1);
        let at = of_guest(0, GUEST_WHOLE + 8 * 7);
        for which in 0..CHANGES + 2 {
            own_turns.wait(&asker.host.cpu, 2 * which + 2).await;
            let before = asker.host.dma.word(at).unwrap().look();
            assert!(before > 0);
            if which < CHANGES {
                change(&mut asker, file, which).await;
            } else if which == CHANGES {
                asker.open(UPDATE, b"/made").await;
            } else {
                let directory = Command::path_request(1, PathRequest::MakeDirectory, BYTES);
                let (head, names) = (head(&Caller::root()), path(b"/d"));
                asker.ask(directory, head, &names).await.done().unwrap();
            }
            let seen = asker.host.dma.word(at).unwrap().look();
            let expected = if is_of_names(which) { 0 } else { before };
            assert_eq!(seen, expected, "change {which}");
            own_turns.pass(2 * which + 3);
        }
    });
    let guest = script(move |mut asker| async move {
        its_turns.wait(&asker.host.cpu, 1).await;
        for which in 0..CHANGES + 2 {
            let names = asker.aimed(Command::lease_names(1, word(&asker, 7), 128));
            let lease = asker.send(names).await.done().unwrap();
            assert!(lease > 0 && asker.look(7) == lease);
            // Its own changes end nothing.
            asker.open(UPDATE, format!("/own{which}").as_bytes()).await;
            assert_eq!(asker.look(7), lease);
            its_turns.pass(2 * which + 2);
            its_turns.wait(&asker.host.cpu, 2 * which + 3).await;
        }
    });
    rig().run_clients(&wharf_drive::PowerSwitch::on(), vec![owner, guest]);
}
