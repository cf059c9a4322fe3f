//! A page whose data rots is reported, never returned: through collection, power-off and reopening,
//! until it is written again.

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_wire::command::Command;
use wharf_wire::log_page::{ErrorLogEntry, LogPage, SmartHealth};
use wharf_wire::status::StatusCode;

use crate::support::configs::{all_packed, tiny};
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

const ROTTEN: u64 = 5;

fn with_media(kind: MediaKind, folder: &tempfile::TempDir) -> DriveConfig {
    let mut config = tiny();
    config.media.kind = kind;
    in_folder(config, folder)
}

fn in_folder(mut config: DriveConfig, folder: &tempfile::TempDir) -> DriveConfig {
    let kind = config.media.kind;
    config.media.path = (kind == MediaKind::File).then(|| folder.path().join("drive.img"));
    config
}

async fn expect_rot(host: &mut Host, pages: u64) {
    for lba in 0..pages {
        let expected = match lba {
            ROTTEN => Err(StatusCode::UnrecoveredReadError),
            // Page 0 is the one that others overwrite all the time.
            0 => continue,
            _ => Ok(1000 + lba),
        };
        assert_eq!(host.read(lba).await, expected, "page {lba}");
        let verified = host.io(Command::verify(1, lba, 1)).await;
        assert_eq!(
            verified,
            expected.err().unwrap_or(StatusCode::Success),
            "page {lba}"
        );
    }
}

#[test]
fn a_rotten_page_is_reported_until_it_is_written_again() {
    let plain = [MediaKind::Stamp, MediaKind::Ram, MediaKind::File].map(|kind| {
        let mut config = tiny();
        config.media.kind = kind;
        config
    });
    for config in plain.into_iter().chain(all_packed()) {
        let (kind, codec) = (config.media.kind, config.compression.codec);
        eprintln!(
            "{kind:?}, {codec:?}, units of {}",
            config.geometry.unit_pages
        );
        let folder = tempfile::tempdir().expect("a folder for the image");
        let mut rig = Rig::new(in_folder(config, &folder));
        let pages = rig.config().namespace_pages();
        rig.run(move |mut host| async move {
            for lba in 0..pages {
                assert_eq!(host.write(lba, 1, 1000 + lba).await, StatusCode::Success);
            }
            assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
        });
        rig.rot(ROTTEN);
        rig.reopen();
        rig.run(move |mut host| async move {
            expect_rot(&mut host, pages).await;
            for round in 0..200 {
                assert_eq!(
                    host.write(0, 1, round).await,
                    StatusCode::Success,
                    "{kind:?} {round}"
                );
            }
            // Collection has been over every block that it could collect.
            expect_rot(&mut host, pages).await;
        });
        rig.reopen();
        rig.run(move |mut host| async move {
            expect_rot(&mut host, pages).await;
            assert_eq!(
                host.write(ROTTEN, 1, 1000 + ROTTEN).await,
                StatusCode::Success
            );
            assert_eq!(host.read(ROTTEN).await, Ok(1000 + ROTTEN));
            for round in 0..200 {
                assert_eq!(
                    host.write(0, 1, round).await,
                    StatusCode::Success,
                    "{kind:?} {round}"
                );
            }
            assert_eq!(
                host.io(Command::verify(1, 0, pages as u32)).await,
                StatusCode::Success
            );
        });
        rig.inspect(|_, _| {});
    }
}

#[test]
fn the_error_log_names_the_rotten_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = Rig::new(with_media(MediaKind::Stamp, &folder));
    rig.run(|mut host| async move {
        assert_eq!(host.write(0, 9, 40).await, StatusCode::Success);
    });
    rig.rot(ROTTEN);
    rig.run(|mut host| async move {
        let command = host.aim(Command::read(1, 2, 6), 6, 0, 0);
        let cid = host.send(0, command);
        let found = host.next(0).await;
        assert_eq!(code(&found), StatusCode::UnrecoveredReadError);
        assert!(found.status().more() && found.status().do_not_retry());
        let entry: ErrorLogEntry = host.log(LogPage::ErrorInformation).await;
        assert_eq!((entry.error_count, entry.sqid, entry.cid), (1, 1, cid));
        assert_eq!((entry.lba, entry.nsid), (ROTTEN, 1));
        assert_eq!(
            entry.status().code(),
            Some(StatusCode::UnrecoveredReadError)
        );
        let smart: SmartHealth = host.log(LogPage::SmartHealth).await;
        assert_eq!((smart.media_errors, smart.error_log_entries), (1, 1));
        let all = host.statistics().await;
        assert_eq!((all.unrecovered_reads, all.rot_found), (1, 1));
        // A command's own fault is no entry.
        assert_eq!(
            host.io(Command::verify(1, 1 << 40, 1)).await,
            StatusCode::LbaOutOfRange
        );
        let entry: ErrorLogEntry = host.log(LogPage::ErrorInformation).await;
        assert_eq!(entry.error_count, 1);
    });
}
