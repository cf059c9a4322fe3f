//! Bytes of files in pages of a host, which the file system cannot reach: the medium moves them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};

use super::Wfs;
use super::testing::{assert_sound, made, now};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Pages, RamPages, Run};
use crate::{By, Caller, Content, Entry, Errno, FileSystem, HostBytes, In, New, Out, Owner, Write};

/// A medium that has a host's memory, by address.
struct Reaching<'a> {
    medium: &'a RamPages,
    host: RefCell<BTreeMap<u64, PageBytes>>,
}

impl Reaching<'_> {
    /// Does something with what lies in each page.
    fn each(&self, host: HostBytes<'_>, mut f: impl FnMut(&mut [u8], usize)) -> Result<(), Fault> {
        let mut memory = self.host.borrow_mut();
        let mut at = 0;
        for (address, from, bytes) in host.pieces() {
            let page = memory.get_mut(&address).ok_or(Fault::Payload)?;
            f(&mut page[from..from + bytes], at);
            at += bytes;
        }
        Ok(())
    }

    fn take(&self, data: In<'_>) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; data.len() as usize];
        match data {
            In::Bytes(data) => bytes.copy_from_slice(data),
            In::Host(host) => self.each(host, |page, at| {
                bytes[at..at + page.len()].copy_from_slice(page);
            })?,
        }
        Ok(bytes)
    }

    fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        match out {
            Out::Bytes(out) => out.copy_from_slice(bytes),
            Out::Host(host) => self.each(host, |page, at| {
                page.copy_from_slice(&bytes[at..at + page.len()]);
            })?,
        }
        Ok(())
    }
}

impl Pages for Reaching<'_> {
    fn pages(&self) -> u64 {
        self.medium.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.medium.read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.medium.write(runs, bytes).await
    }

    async fn read_bytes(&self, runs: &[Run], skip: u64, out: Out<'_>) -> Result<(), Fault> {
        let mut bytes = vec![0; out.len() as usize];
        let read = self.medium.read_bytes(runs, skip, Out::from(&mut bytes));
        read.await?;
        self.give(&bytes, out)
    }

    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        let bytes = self.take(data)?;
        self.medium.write(runs, &bytes).await
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        self.give(&vec![0; out.len() as usize], out)
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(&self.take(data)?);
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.medium.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.medium.discard(runs).await
    }
}

/// Pages of a host in any order, where in the first something begins, and how long it is.
fn place(rng: &mut Rng) -> (Vec<u64>, usize, u64) {
    let mut addresses: Vec<u64> = (1..9).map(|page| page << 12).collect();
    for at in (1..addresses.len()).rev() {
        addresses.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let offset = rng.below(PAGE_BYTES as u64) as usize / 4 * 4;
    let room = addresses.len() as u64 * PAGE_BYTES as u64 - offset as u64;
    let bytes = match rng.below(3) {
        0 => rng.below(600),
        1 => rng.below(room / PAGE_BYTES as u64) * PAGE_BYTES as u64,
        _ => rng.below(room),
    };
    (addresses, offset, bytes)
}

#[test]
fn bytes_of_a_host_go_where_bytes_in_memory_would() {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = Seed(seed).rng();
    let medium = made(2000);
    let pages = Reaching {
        medium: &medium,
        host: RefCell::new((1..9).map(|page| (page << 12, [0; PAGE_BYTES])).collect()),
    };
    let wfs = now(Wfs::open(&pages, 1 << 20)).unwrap().0;
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 1,
    };
    let new = New {
        content: Content::File,
        mode: 0o644,
        owner: Owner { uid: 0, gid: 0 },
        is_open: false,
    };
    let made = now(wfs.create(by, Entry::new(wfs.root(), b"file"), new));
    let number = made.unwrap().number;
    let mut expected: Vec<u8> = Vec::new();
    for round in 0..1500u32 {
        let (addresses, offset, bytes) = place(&mut rng);
        let host = HostBytes::new(&addresses, offset, bytes);
        let mut at = rng.below(60 * PAGE_BYTES as u64);
        if rng.chance(1, 3) {
            at = at / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        }
        if rng.chance(1, 30) {
            now(wfs.truncate(by, number, at)).unwrap();
            expected.resize(at as usize, 0);
        } else if rng.chance(1, 2) {
            let fill = |page: &mut [u8], from: usize| {
                for (nth, byte) in page.iter_mut().enumerate() {
                    *byte = (round as usize + (from + nth) / 5) as u8;
                }
            };
            pages.each(host, fill).unwrap();
            let data = pages.take(In::Host(host)).unwrap();
            let written = now(wfs.write(by, number, Write::at(at), In::Host(host))).unwrap();
            assert_eq!(written.bytes, bytes, "round {round}");
            let end = at as usize + data.len();
            if !data.is_empty() {
                expected.resize(expected.len().max(end), 0);
                expected[at as usize..end].copy_from_slice(&data);
            }
        } else {
            pages.each(host, |page, _| page.fill(0xee)).unwrap();
            let read = now(wfs.read(number, at, Out::Host(host), 0)).unwrap();
            let there = (expected.len() as u64).saturating_sub(at).min(bytes);
            assert_eq!(read, there, "round {round}");
            let found = pages.take(In::Host(host)).unwrap();
            let start = (at as usize).min(expected.len());
            assert_eq!(found[..read as usize], expected[start..][..read as usize]);
            assert!(found[read as usize..].iter().all(|byte| *byte == 0xee));
        }
    }
    drop(wfs);
    assert_sound(&medium, "in the end");
}

#[test]
fn bytes_out_of_reach_are_an_error_and_change_nothing() {
    let medium = made(500);
    let wfs = now(Wfs::open(&medium, 1 << 20)).unwrap().0;
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 1,
    };
    let new = New {
        content: Content::File,
        mode: 0o644,
        owner: Owner { uid: 0, gid: 0 },
        is_open: false,
    };
    let made = now(wfs.create(by, Entry::new(wfs.root(), b"file"), new));
    let number = made.unwrap().number;
    let host = HostBytes::new(&[1 << 12, 1 << 13], 4, 5000);
    let write = now(wfs.write(by, number, Write::at(0), In::Host(host)));
    assert_eq!(write, Err(Errno::EFAULT.into()));
    assert_eq!(now(wfs.attributes(number)).unwrap().bytes, 0);
    let data = [7; 5000];
    now(wfs.write(by, number, Write::at(0), In::from(&data))).unwrap();
    let read = now(wfs.read(number, 0, Out::Host(host), 0));
    assert_eq!(read, Err(Errno::EFAULT.into()));
    now(wfs.settle()).unwrap();
}
