//! Each thing that the check can find is planted, and found.

use super::layout::{Geometry, STATE_PAGE};
use super::page::{self, Kind};
use super::testing::{assert_sound, made, now};
use super::{Wfs, recover};
use crate::check::check;
use crate::pages::{PAGE_BYTES, PageBytes, RamPages};
use crate::{
    Allocate, By, Caller, Content, Entry, FileSystem, In, New, Owner, SetXattr, Special, Write,
};

/// Some of everything.
struct Sample {
    medium: RamPages,
    geometry: Geometry,
    numbers: Vec<u64>,
}

const TREE: usize = 2;
const PARENT: usize = 3;
const CHILD: usize = 4;
const LINK: usize = 5;
const FIFO: usize = 6;

impl Sample {
    fn new() -> Sample {
        let medium = made(1500);
        let geometry = now(recover::geometry(&medium)).unwrap();
        let wfs = now(Wfs::open(&medium, 1 << 20)).unwrap().0;
        let root = Caller::root();
        let by = By {
            caller: &root,
            now_ns: 50,
        };
        let mut numbers = Vec::new();
        let mut new = |directory, name: &[u8], content| {
            let new = New {
                content,
                mode: 0o644,
                owner: Owner { uid: 0, gid: 0 },
                is_open: false,
            };
            let made = now(wfs.create(by, Entry::new(directory, name), new));
            let number = made.unwrap().number;
            numbers.push(number);
            number
        };
        let write = |number, at| {
            now(wfs.write(by, number, Write::at(at), In::from(&[1; 9000]))).unwrap();
        };
        let one = new(wfs.root(), b"a", Content::File);
        let two = new(wfs.root(), b"b", Content::File);
        write(one, 0);
        write(two, 0);
        let tree = new(wfs.root(), b"c", Content::File);
        for nth in 0..12 {
            write(tree, nth * 40_000);
            let reserved = now(wfs.allocate(by, one, 1 << 30, 1 << 12, Allocate::KeepSize));
            reserved.unwrap();
        }
        let parent = new(wfs.root(), b"d", Content::Directory);
        new(parent, b"e", Content::Directory);
        new(parent, b"l", Content::Symlink(&[b'x'; 500]));
        new(parent, b"p", Content::Special(Special::Fifo, 0));
        for (number, bytes) in [(one, 20), (two, 1000)] {
            let value = vec![7; bytes];
            let set = wfs.set_xattr(by, number, b"user.x", &value, SetXattr::Put);
            now(set).unwrap();
        }
        now(wfs.settle()).unwrap();
        drop(wfs);
        assert_sound(&medium, "before");
        Sample {
            medium,
            geometry,
            numbers,
        }
    }

    /// Where an inode is: its page, and where in that.
    fn inode(&self, nth: usize) -> (u64, usize) {
        let (slot, _) = super::node::slot_of(self.numbers[nth]).unwrap();
        let (page, at) = self.geometry.inode_place(slot).unwrap();
        (page, 32 + 256 * at)
    }

    /// The page of this kind that belongs to a number.
    fn owned(&self, kind: Kind, owner: u64) -> u64 {
        let is_it = |number: &u64| {
            let bytes = self.medium.peek(*number);
            let head = page::head(&bytes);
            head.kind.get() == kind.raw()
                && head.number.get() == *number
                && bytes[32..40] == owner.to_le_bytes()
        };
        let from = self.geometry.groups_first;
        (from..self.geometry.pages)
            .find(is_it)
            .expect("it is there")
    }

    /// What is found after a change of a page, whose checksum is right again.
    fn after(&self, number: u64, change: impl FnOnce(&mut PageBytes)) -> String {
        let hurt = self.medium.clone();
        let mut bytes = hurt.peek(number);
        change(&mut bytes);
        let generation = page::head(&bytes).generation.get();
        page::seal(&mut bytes, generation);
        hurt.poke(number, &bytes);
        now(check(&hurt)).unwrap().findings.join("\n")
    }

    /// Where the records of a node are, in order.
    fn records(&self, number: u64) -> Vec<usize> {
        let bytes = self.medium.peek(number);
        let count = usize::from(u16::from_le_bytes([bytes[42], bytes[43]]));
        let slot = |nth: usize| PAGE_BYTES - 2 * (nth + 1);
        let at = |nth| usize::from(u16::from_le_bytes([bytes[slot(nth)], bytes[slot(nth) + 1]]));
        (0..count).map(at).collect()
    }
}

fn assert_found(found: &str, expected: &str) {
    assert!(found.contains(expected), "{expected} is not in: {found}");
}

#[test]
fn faults_of_pages() {
    let sample = Sample::new();
    let (table, _) = sample.inode(0);
    let mut rotten = sample.medium.peek(table);
    rotten[100] ^= 1;
    for (bytes, expected) in [
        (rotten, "checksum"),
        (sample.medium.peek(STATE_PAGE), "another place"),
        ([0; PAGE_BYTES], "damaged"),
    ] {
        let hurt = sample.medium.clone();
        hurt.poke(table, &bytes);
        let found = now(check(&hurt)).unwrap().findings.join("\n");
        assert_found(&found, expected);
    }
    for (at, expected) in [
        (4, "another kind"),
        (6, "reserved"),
        (16, "another file system"),
        (30, "newer than the newest"),
        (4000, "more than inodes"),
    ] {
        assert_found(&sample.after(table, |bytes| bytes[at] ^= 1), expected);
    }
    let state = sample.after(STATE_PAGE, |bytes| bytes[60] = 1);
    assert_found(&state, "the state has more");
}

#[test]
fn faults_of_groups() {
    let sample = Sample::new();
    let group = sample.geometry.group(0);
    let used = (group.data_from() / 8 + 1) as usize;
    for (at, bit, expected) in [
        (568 + 120, 2, "are nobody's"),
        (568 + used, 1, "count as free"),
        (40, 1, "counts wrong what is free"),
        (44, 1, "counts wrong what is free"),
        (56, 2, "says otherwise of inode slot"),
        (56 + 300, 1, "inodes that are not there"),
        (32, 1, "is another's"),
        (3000, 1, "more than bits"),
    ] {
        assert_found(
            &sample.after(group.first, |bytes| bytes[at] ^= bit),
            expected,
        );
    }
}

#[test]
fn faults_of_inodes() {
    let sample = Sample::new();
    type Plant = fn(&mut [u8]);
    let plants: [(usize, &str, Plant); 17] = [
        (0, "links and", |inode| inode[4] += 1),
        (0, "pages and says otherwise", |inode| inode[32] += 1),
        (0, "bytes behind its end", |inode| inode[24..28].fill(0)),
        (0, "outside of the groups", |inode| inode[104 + 13] = 0xff),
        (0, "overlap or are not in order", |inode| {
            inode.copy_within(104..112, 120);
        }),
        (0, "more extents than room", |inode| inode[20] = 10),
        (0, "extended attributes of", |inode| inode[22] -= 1),
        (0, "not in the list of orphans", |inode| inode[96] = 1),
        (0, "says what cannot be", |inode| inode[3] = 0xff),
        (0, "is of no kind", |inode| inode[0] = 9),
        (0, "is free and has something", |inode| inode[0] = 0),
        (TREE, "too high", |inode| inode[104 + 8] = 14),
        (TREE, "not of its tree", |inode| inode[104 + 8] = 1),
        (PARENT, "entries", |inode| inode[24] += 1),
        (CHILD, "does not know", |inode| inode[64] = 1),
        (LINK, "the target of", |inode| inode[24] += 1),
        (FIFO, "what files have", |inode| inode[100] = 1),
    ];
    for (nth, expected, plant) in plants {
        let (page, at) = sample.inode(nth);
        let found = sample.after(page, |bytes| plant(&mut bytes[at..at + 256]));
        assert_found(&found, expected);
    }
    let (one, two) = (sample.inode(0), sample.inode(1));
    let found = sample.after(one.0, |bytes| {
        bytes.copy_within(two.1 + 104..two.1 + 120, one.1 + 104);
    });
    assert_found(&found, "is in use twice");
    // The parent of a directory is its child.
    let (page, at) = sample.inode(PARENT);
    let child = sample.numbers[CHILD].to_le_bytes();
    let found = sample.after(page, |bytes| {
        bytes[at + 64..at + 72].copy_from_slice(&child)
    });
    assert_found(&found, "is not below the root");
    let found = sample.after(sample.geometry.group(0).first + 1, |bytes| bytes[32] = 0);
    assert_found(&found, "there is no root");
}

#[test]
fn faults_of_names_and_trees() {
    let sample = Sample::new();
    let node = sample.owned(Kind::Node, 1);
    let records = sample.records(node);
    let first = records[0];
    let after = |plant: &dyn Fn(&mut PageBytes)| sample.after(node, plant);
    assert_found(&after(&|b| b[first + 10] ^= 0x40), "leads to nothing");
    assert_found(&after(&|b| b[first + 18] = 1), "leads to nothing");
    assert_found(&after(&|b| b[first + 19] ^= 0x20), "at another hash");
    assert_found(&after(&|b| b[first + 19] = b'/'), "is none");
    assert_found(&after(&|b| b[first + 1] = 0xff), "another hash");
    assert_found(&after(&|b| b[first + 8] = 0xff), "records outside of it");
    assert_found(&after(&|b| b[32] ^= 2), "not of its tree");
    let swap = |b: &mut PageBytes| {
        let (one, two) = (PAGE_BYTES - 2, PAGE_BYTES - 4);
        b.swap(one, two);
        b.swap(one + 1, two + 1);
    };
    assert_found(&after(&swap), "is not in order");
    // The second name becomes the first one, with the next key of the same hash.
    let twice = |b: &mut PageBytes| {
        b.copy_within(first..first + 8, records[1]);
        b[records[1]] += 1;
        b[records[1] + 19] = b[first + 19];
    };
    assert_found(&after(&twice), "has a name twice");
}

#[test]
fn faults_of_pages_of_inodes() {
    let sample = Sample::new();
    let link = sample.owned(Kind::Link, sample.numbers[LINK]);
    assert_found(&sample.after(link, |b| b[40] ^= 1), "the target of");
    assert_found(&sample.after(link, |b| b[32] ^= 1), "is another's");
    assert_found(&sample.after(link, |b| b[48 + 7] = 0), "the target of");
    let xattrs = sample.owned(Kind::Xattrs, sample.numbers[1]);
    let none = format!("extended attributes of {} are none", sample.numbers[1]);
    assert_found(&sample.after(xattrs, |b| b[40] ^= 1), &none);
    assert_found(&sample.after(xattrs, |b| b[48] = 0), &none);
    assert_found(&sample.after(xattrs, |b| b[32] ^= 1), "are another's");
}

#[test]
fn faults_of_the_journal_and_the_list_of_orphans() {
    let sample = Sample::new();
    let first = sample.geometry.journal.first;
    let serial = |number| page::head(&sample.medium.peek(number)).generation.get();
    let newer = match serial(first) > serial(first + 1) {
        true => first,
        false => first + 1,
    };
    let twice = sample.after(newer, |b| b[25] ^= 1);
    assert_found(&twice, "were not written in turn");
    let other = sample.after(newer, |b| b[24] ^= 1);
    assert_found(&other, "is no header");
    let early = sample.after(newer, |b| b[32..40].copy_from_slice(&1u64.to_le_bytes()));
    assert_found(&early, "are not at home");
    let outside = sample.after(newer, |b| b[46] = 1);
    assert_found(&outside, "begins outside");
    let list = |number: u64| {
        sample.after(STATE_PAGE, |b| {
            b[32..40].copy_from_slice(&number.to_le_bytes());
        })
    };
    assert_found(&list(sample.numbers[0]), "in the list of orphans");
    assert_found(&list(1 << 30), "leads nowhere");
}
