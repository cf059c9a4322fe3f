//! Pipes, sockets and devices: on the model and on wfs alike, and on wfs also when it is opened again.

use std::rc::Rc;

use wharf_files::block::{Make, Wfs, check, make};
use wharf_files::pages::RamPages;
use wharf_files::vfs::{At, Session, SessionLimits, Target};
use wharf_files::{
    Caller, Errno, FileSystem, Kind, LIST_START, OpenFlags, Owner, Special, block_on,
};

use super::{NOW_NS, errno, new_root, path, target};

const DEVICE: u32 = 0x12_0345;

fn session<F: FileSystem>(fs: &Rc<F>, caller: Caller) -> Session<Rc<F>> {
    Session::new(fs.clone(), caller, SessionLimits::default())
}

/// Everything that a special file can be asked, by path.
async fn all_of_them<F: FileSystem>(fs: &Rc<F>) {
    let root = session(fs, Caller::root());
    let user = session(fs, Caller::user(7, 7));
    for (number, special) in Special::ALL.into_iter().enumerate() {
        let name = format!("/special{number}");
        let at = || path(&name);
        let made = root.mknod(NOW_NS, at(), special, DEVICE, 0o640).await;
        let made = made.unwrap();
        let device = if special.is_device() { DEVICE } else { 0 };
        assert_eq!(made.kind, Kind::Special(special));
        let shape = (made.device, made.mode, made.links, made.bytes);
        assert_eq!(shape, (device, 0o640, 1, 0));
        let again = root.mknod(NOW_NS, at(), special, DEVICE, 0o640).await;
        assert_eq!(errno(again), Err(Errno::EEXIST));
        let read = OpenFlags::READ;
        assert_eq!(
            errno(root.open(NOW_NS, at(), read, 0).await),
            Err(Errno::ENXIO)
        );
        assert_eq!(
            errno(user.open(NOW_NS, at(), read, 0).await),
            Err(Errno::EACCES)
        );
        let below = format!("{name}/below");
        assert_eq!(errno(root.stat(target(&below)).await), Err(Errno::ENOTDIR));
        assert_eq!(
            errno(root.truncate(NOW_NS, at(), 0).await),
            Err(Errno::EINVAL)
        );
        assert_eq!(errno(root.read_link(at()).await), Err(Errno::EINVAL));
        assert_eq!(errno(root.rmdir(NOW_NS, at()).await), Err(Errno::ENOTDIR));
        let found = root.xattr(target(&name), b"user.a").await;
        assert_eq!(errno(found), Err(Errno::ENODATA));
        let other = format!("{name}.link");
        root.link(NOW_NS, at(), path(&other), false).await.unwrap();
        let refused = user.mknod(NOW_NS, path("/of a user"), special, DEVICE, 0o600);
        let refused = errno(refused.await);
        match special.is_device() {
            true => assert_eq!(refused, Err(Errno::EPERM)),
            false => {
                assert_eq!(refused, Ok(()));
                user.unlink(NOW_NS, path("/of a user")).await.unwrap();
            }
        }
    }
    as_they_were(fs).await;
}

async fn as_they_were<F: FileSystem>(fs: &Rc<F>) {
    let mut entries = Vec::new();
    assert!(
        fs.list(fs.root(), LIST_START, 100, &mut entries)
            .await
            .unwrap()
    );
    assert_eq!(entries.len(), 8);
    for entry in entries {
        let found = fs.attributes(entry.number).await.unwrap();
        let number = usize::from(entry.name[7] - b'0');
        let special = Special::ALL[number];
        assert_eq!(
            (entry.kind, found.kind),
            (Kind::Special(special), found.kind)
        );
        let device = if special.is_device() { DEVICE } else { 0 };
        assert_eq!(
            (found.kind, found.device, found.links),
            (entry.kind, device, 2)
        );
    }
}

#[test]
fn special_files_have_names_and_attributes_on_the_model() {
    block_on(all_of_them(&new_root()));
}

#[test]
fn special_files_have_names_and_attributes_on_wfs_and_are_kept() {
    let pages = RamPages::new(4096);
    let new = Make {
        file_system: 9,
        hash_key: [1, 2],
        now_ns: NOW_NS,
        uid: 0,
        gid: 0,
        mode: 0o777,
    };
    block_on(make(&pages, new)).unwrap();
    let open = || Rc::new(block_on(Wfs::open(&pages, 1 << 20)).unwrap().0);
    let fs = open();
    block_on(all_of_them(&fs));
    block_on(fs.sync_all()).unwrap();
    drop(fs);
    let again = open();
    block_on(as_they_were(&again));
    block_on(again.settle()).unwrap();
    let checked = block_on(check(&pages)).unwrap();
    assert_eq!((checked.findings.len(), checked.specials), (0, 4));
    let user = session(&again, Caller::user(7, 7));
    let whole = At::from(b"/special0");
    let changed = block_on(user.chmod(NOW_NS, Target::Path(whole, true), 0o777));
    assert_eq!(errno(changed), Err(Errno::EPERM));
    assert_eq!(
        block_on(again.attributes(1)).unwrap().owner,
        Owner::default()
    );
}
