//! A mount of an image that another process serves: others change it too, and each user has its own rights.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use wharf::files::{Mount, OpenFlags};

use crate::file_system::{mounted_with, with_image};
use crate::served::Serving;

/// The kernel showed what it had kept of a file that another process had written since: the time of the file, by which it saw
/// whether that was old, had been set back (as `rsync --times` does, and `touch -r`).
#[test]
fn a_mount_shows_what_another_process_wrote_who_set_the_time_back() {
    shows_what_another_process_wrote(&["--cache", "64MiB"]);
}

/// What it keeps it keeps under leases, or in the drive's memory: nobody finds anything old either way.
#[test]
fn a_mount_shows_what_another_process_wrote_whatever_it_keeps() {
    shows_what_another_process_wrote(&["--cache", "0"]);
    shows_what_another_process_wrote(&["--cache", "omni:1MiB"]);
    shows_what_another_process_wrote(&["--cache-mode", "write-through"]);
    shows_what_another_process_wrote(&["--cache-mode", "write-around"]);
}

fn shows_what_another_process_wrote(keeping: &[&str]) {
    let place = with_image();
    let serving = Serving::start(&place, &["--drive-cache", "1MiB"]);
    let Some(mount) = mounted_with(&place, "drive.sock", keeping) else {
        return;
    };
    let path = mount.directory().join("file");
    fs::write(&path, [b'a'; 8192]).unwrap();
    let other = Mount::attach(place.path().join("drive.sock")).unwrap();
    let theirs = other.open_file("/file", OpenFlags::UPDATE, 0).unwrap();
    let ours = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut found = [0; 8192];
    for round in 0..40 {
        let byte = b'b' + round % 20;
        theirs.write_at(0, &[byte; 8192]).unwrap();
        other.set_times("/file", 1 << 60, 1 << 60).unwrap();
        ours.read_exact_at(&mut found, 0).unwrap();
        assert!(
            found == [byte; 8192],
            "round {round}: {} in the place of {byte}",
            found[0]
        );
        // And the other way: some bytes of a page.
        ours.write_all_at(b"ours", 5000).unwrap();
        theirs.read_at(0, &mut found).unwrap();
        assert_eq!(
            (found[4999], &found[5000..5004], found[5004]),
            (byte, &b"ours"[..], byte)
        );
    }
    let (mut log, end) = (
        fs::File::options().append(true).open(&path).unwrap(),
        OpenFlags {
            append: true,
            ..OpenFlags::UPDATE
        },
    );
    let their_log = other.open_file("/file", end, 0).unwrap();
    for _ in 0..50 {
        log.write_all(b"mount").unwrap();
        their_log.write_at(0, b"other").unwrap();
    }
    let all = fs::read(&path).unwrap();
    assert_eq!(all[8192..], b"mountother".repeat(50));
    drop((theirs, their_log));
    other.close().unwrap();
    drop((ours, log));
    mount.unmount();
    serving.end();
}

/// Runs a shell as a user, in groups beside its own.
fn as_user(uid: u32, gid: u32, groups: &str, script: &str, place: &Path) -> String {
    let groups = match groups {
        "" => "--clear-groups".to_string(),
        _ => format!("--groups={groups}"),
    };
    let told = Command::new("setpriv")
        .args([
            &format!("--reuid={uid}"),
            &format!("--regid={gid}"),
            &groups,
        ])
        .args(["sh", "-c", script])
        .current_dir(place)
        .output()
        .unwrap();
    String::from_utf8(told.stdout).unwrap()
}

/// The drive decides, for each who asks: the kernel has no `default_permissions`, and shows nobody what it was told for another.
#[test]
fn each_user_of_a_mount_has_its_own_rights_and_groups() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: there is no setpriv");
        return;
    }
    let place = with_image();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let serving = Serving::start(&place, &[]);
    let Some(mount) = mounted_with(&place, "drive.sock", &["--allow-other"]) else {
        return;
    };
    let here = mount.directory();
    let mode = |name: &str, mode| {
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    mode("", 0o777);
    fs::write(here.join("secret"), "seen").unwrap();
    chown(here.join("secret"), Some(0), Some(4242)).unwrap();
    mode("secret", 0o640);
    fs::create_dir(here.join("closed")).unwrap();
    fs::write(here.join("closed/file"), "within").unwrap();
    mode("closed", 0o700);
    // What root has just asked for is not remembered for others.
    assert_eq!(fs::read(here.join("closed/file")).unwrap(), b"within");
    let read = "cat secret 2>/dev/null || echo refused";
    assert_eq!(as_user(1234, 1234, "", read, &here), "refused\n");
    assert_eq!(as_user(1234, 1234, "7,4242", read, &here), "seen");
    assert_eq!(as_user(1234, 1234, "7", read, &here), "refused\n");
    assert_eq!(
        as_user(
            1234,
            1,
            "",
            "cat closed/file 2>/dev/null || echo refused",
            &here
        ),
        "refused\n"
    );
    assert_eq!(
        as_user(
            1234,
            77,
            "4242",
            "mkdir mine && chgrp 4242 mine && echo made",
            &here
        ),
        "made\n"
    );
    let made = fs::metadata(here.join("mine")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1234, 4242));
    let others = "chmod 700 mine 2>/dev/null || chown 1235 mine 2>/dev/null || mv secret mine/ 2>/dev/null || echo refused";
    assert_eq!(as_user(1235, 77, "4242", others, &here), "refused\n");
    mount.unmount();
    serving.end();
}
