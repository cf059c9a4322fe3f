//! A file that is written on one core is there on another one, and after power-on.

use std::rc::Rc;

use wharf_drive::features::files::FileSystemOfDrive;
use wharf_files::vfs::{Session, SessionLimits};
use wharf_files::{Caller, OpenFlags, Place};

use super::support::{config, findings, new_rig, run, run_on};

/// Somebody who uses the file system.
pub fn session(fs: &Rc<FileSystemOfDrive>) -> Session<Rc<FileSystemOfDrive>> {
    Session::new(fs.clone(), Caller::root(), SessionLimits::default())
}

const PATH: &[u8] = b"/file";

fn content() -> Vec<u8> {
    (0..30_000u32).map(|at| (at * 7 / 3) as u8).collect()
}

/// Reads the file, on whichever core this is.
async fn read(fs: &Rc<FileSystemOfDrive>) -> Vec<u8> {
    let session = session(fs);
    let opened = session.open(5, PATH.into(), OpenFlags::READ, 0).await;
    let (handle, mut bytes) = (opened.unwrap().handle, vec![0; 40_000]);
    let count = session.read(5, handle, 0, &mut bytes).await.unwrap();
    bytes.truncate(count as usize);
    session.close(handle).await.unwrap();
    bytes
}

fn write_and_read(cores: u32) {
    let mut rig = new_rig(config(cores, 2_000));
    run(&mut rig, move |mut host| async move {
        run_on(&mut host, 0, |at| {
            Box::pin(async move {
                let fs = at.file_system().await.unwrap();
                let session = session(&fs);
                let opened = session.open(5, PATH.into(), OpenFlags::CREATE, 0o644).await;
                let handle = opened.unwrap().handle;
                let written = session.write(5, handle, Place::At(0), &content()).await;
                assert_eq!(written.unwrap().bytes, 30_000);
                session.sync_all().await.unwrap();
                session.close(handle).await.unwrap();
            })
        })
        .await;
        for core in 0..cores {
            run_on(&mut host, core, move |at| {
                Box::pin(async move {
                    assert_eq!(at.core.index, core);
                    let fs = at.file_system().await.unwrap();
                    assert!(read(&fs).await == content());
                })
            })
            .await;
        }
    });
    run(&mut rig, move |mut host| async move {
        run_on(&mut host, cores - 1, |at| {
            Box::pin(async move {
                let fs = at.file_system().await.unwrap();
                assert!(read(&fs).await == content(), "after power-on");
                let found = findings(&fs).await;
                assert!(found.is_empty(), "{found:?}");
            })
        })
        .await;
    });
}

#[test]
fn a_file_is_what_was_written_on_all_cores_and_after_power_on() {
    [1, 2, 4].into_iter().for_each(write_and_read);
}
