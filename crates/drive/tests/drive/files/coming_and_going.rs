//! What a host says and is told when it comes, and what it says before it goes.

use wharf_files::Caller;
use wharf_wire::admin::{Cns, FeatureSelect};
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::file::{FileAttributes, FileHandle, FileSystemLog, FileSystemState, PathChange};
use wharf_wire::identify::{IdentifyController, OptionalIoCommand};
use wharf_wire::log_page::LogPage;
use wharf_wire::status::StatusCode;
use wharf_wire::timestamp::Timestamp;
use zerocopy::{FromBytes, IntoBytes};

use super::asker::{Asker, UPDATE, head, path};
use super::support::{config, new_rig, run};
use crate::support::configs::tiny_timed;
use crate::support::host::Host;
use crate::support::rig::Rig;

/// A day in 2026.
const DAY_MS: u64 = 1_780_000_000_000;

async fn set_time(host: &mut Host, milliseconds: u64) -> StatusCode {
    let timestamp = Timestamp::of_milliseconds(milliseconds);
    host.whole_page(1)[..8].copy_from_slice(timestamp.as_bytes());
    let set = Command::set_timestamp(host.whole.address(1));
    host.admin_status(set).await
}

async fn time(host: &mut Host) -> Timestamp {
    let get = Command::get_feature(FeatureId::Timestamp, FeatureSelect::Current)
        .with_prp(host.whole.address(1), 0);
    assert_eq!(host.admin_status(get).await, StatusCode::Success);
    Timestamp::read_from_prefix(host.whole_page(1)).unwrap().0
}

#[test]
fn times_of_files_are_those_that_the_host_has_set() {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        let before = time(&mut asker.host).await;
        assert!(!before.is_set_by_host() && before.milliseconds() < 1000);
        assert_eq!(set_time(&mut asker.host, DAY_MS).await, StatusCode::Success);
        let FileAttributes { changed_ns, .. } = asker.open(UPDATE, b"/a").await.attributes;
        let later = changed_ns.checked_sub(DAY_MS * 1_000_000);
        assert!(later.is_some_and(|later_ns| later_ns < 1_000_000_000));
        let after = time(&mut asker.host).await;
        assert!(after.is_set_by_host() && after.milliseconds() >= DAY_MS);
        // It may go back, too.
        assert_eq!(set_time(&mut asker.host, 5_000).await, StatusCode::Success);
        let FileAttributes { changed_ns, .. } = asker.open(UPDATE, b"/b").await.attributes;
        assert!((5_000_000_000..6_000_000_000).contains(&changed_ns));
    });
}

#[test]
fn a_time_from_nowhere_is_refused_and_the_clock_goes_on() {
    let mut rig = new_rig(config(1, 2_000));
    run(&mut rig, |mut host| async move {
        assert_eq!(set_time(&mut host, DAY_MS).await, StatusCode::Success);
        let set = |address| Command::set_timestamp(address);
        let nowhere = host.admin_status(set(0x7000_0000_0000)).await;
        assert_eq!(nowhere, StatusCode::DataTransferError);
        let own = host.admin_status(set(1 << 63)).await;
        assert_eq!(own, StatusCode::DataTransferError);
        let odd = host.whole.address(1) + 4;
        let odd = host.admin_status(set(odd)).await;
        assert_eq!(odd, StatusCode::PrpOffsetInvalid);
        assert!(time(&mut host).await.milliseconds() >= DAY_MS);
    });
}

#[test]
fn a_drive_without_a_file_system_has_no_time_and_no_log_of_it() {
    Rig::new(tiny_timed()).run(|mut host| async move {
        let set = set_time(&mut host, DAY_MS).await;
        assert_eq!(set, StatusCode::InvalidField);
        let get = Command::get_feature(FeatureId::Timestamp, FeatureSelect::Current)
            .with_prp(host.whole.address(1), 0);
        assert_eq!(host.admin_status(get).await, StatusCode::InvalidField);
        let log =
            Command::get_log_page(LogPage::FileSystem, 0, 256).with_prp(host.whole.address(0), 0);
        assert_eq!(host.admin_status(log).await, StatusCode::InvalidLogPage);
        let identify: IdentifyController = host.identify(0, Cns::Controller).await;
        assert!(!identify.supports(OptionalIoCommand::Timestamp));
    });
}

#[test]
fn who_leaves_has_nothing_open_and_leaves_nothing_to_be_replayed() {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        for name in [&b"/a"[..], b"/b", b"/gone"] {
            asker.open(UPDATE, name).await;
        }
        let handle = asker.open(UPDATE, b"/gone").await.handle;
        let remove = Command::path_change(1, PathChange::Remove, 4096);
        let gone = path(b"/gone");
        let removed = asker.ask(remove, head(&Caller::root()), &gone).await;
        assert_eq!(removed.done(), Ok(0));
        // Without WHOLE it has no meaning.
        let mut half = Command::leave_files(1);
        half.cdw15 &= !2;
        assert_eq!(asker.send(half).await.status, StatusCode::InvalidField);
        assert_eq!(asker.send(Command::leave_files(1)).await.done(), Ok(0));
        let handle = FileHandle::from_raw(handle);
        let closed = asker.send(Command::close_file(1, handle)).await;
        assert_eq!(closed.status, StatusCode::HandleInvalid);
    });
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        assert!(!asker_opens_old(&mut asker).await);
        let log: FileSystemLog = asker.host.log(LogPage::FileSystem).await;
        assert_eq!(log.state(), Some(FileSystemState::Open));
        let found = (log.kind, log.replayed_groups, log.orphans, log.errno);
        assert_eq!(found, (1, 0, 0, 0));
    });
}

/// Opens a file that there is; whether it is new.
async fn asker_opens_old(asker: &mut Asker) -> bool {
    asker.open(UPDATE, b"/a").await.is_new != 0
}

#[test]
fn who_does_not_leave_has_its_changes_replayed_and_the_log_says_so() {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        asker.open(UPDATE, b"/a").await;
        assert_eq!(asker.send(Command::sync_files(1)).await.done(), Ok(0));
    });
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        assert!(!asker_opens_old(&mut asker).await);
        let log: FileSystemLog = asker.host.log(LogPage::FileSystem).await;
        assert_eq!(log.state(), Some(FileSystemState::Open));
        assert!(log.replayed_groups > 0 && log.replayed_pages > 0);
    });
}

#[test]
fn a_drive_that_has_no_table_says_so() {
    let mut rig = Rig::new(config(1, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        let mut head = head(&Caller::root());
        head.mode = 0o600;
        let command = Command::open_file(1, UPDATE, 8192);
        let opened = asker.ask(command, head, &path(b"/a")).await;
        let enxio = wharf_files::Errno::ENXIO.number();
        assert_eq!(opened.done(), Err(enxio));
        let log: FileSystemLog = asker.host.log(LogPage::FileSystem).await;
        assert_eq!(log.state(), Some(FileSystemState::NoTable));
        assert!(!log.text().is_empty());
    });
}
