//! Files in the drive through the host's client: what it answers is what the model does, whichever way its commands go.
//!
//! | file | idea |
//! |---|---|
//! | `machine.rs` | a drive with a file system, and a client with a bunch of queue pairs |
//! | `locks.rs` | locks: waits in the drive, waits that are stopped |
//! | `subject.rs` | random programs by the client |
//! | `leave.rs` | eviction in two steps |
//! | `near.rs`, `near_cuts.rs` | threads by way of both caches; power cuts |
//! | `scenes.rs` | tasks that read, write, cut and sync the same few pages of both caches, in many orders; a sync ends beside a writer |
//! | `prefetch.rs` | pages that the drive brings to its cache ahead |
//! | `nearest.rs` | searches that host and drive have parts of |
//! | `window.rs` | what loads and stores of the drive's cache gain |
//! | `ace.rs` | all short programs by way of both caches |
//! | `cached.rs` | the same files with the cache of a process before them |

#![allow(missing_docs)]

mod ace;
mod cached;
mod leave;
mod locks;
mod machine;
#[path = "../../../host/tests/files/model.rs"]
mod model;
mod near;
mod near_cuts;
mod nearest;
#[path = "../../../host/tests/files/owner.rs"]
mod owner;
mod prefetch;
mod scenes;
mod subject;
mod window;

use wharf_files::model::ModelLimits;
use wharf_files::testing::beside::{Difference, Room, assert_alike, compare_answers, new_model};
use wharf_files::testing::program::{Step, callers};
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::Users;
use wharf_files::testing::taste::Taste;
use wharf_files::vfs::SessionLimits;
use wharf_files::{Caller, Errno, OpenFlags};
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{Placement, StorClient};
use wharf_runtime::Seed;

use machine::run;
use subject::ByClient;

const PLACEMENTS: [Placement; 4] = [
    Placement::ByInode,
    Placement::RoundRobin,
    Placement::LeastLoaded,
    Placement::ReadSpread,
];

/// Runs a program through the client and on the model.
fn alike(program: &[Step], cores: u32, placement: Placement) -> Result<(), Difference> {
    let program = program.to_vec();
    run(cores, placement, move |client| async move {
        let model = new_model(ModelLimits::default());
        let mut oracle = Users::new(&&model, &callers(), SessionLimits::default());
        let mut subject = ByClient::new(&client);
        compare_answers(&mut subject, &mut oracle, &program, Room::Enough).await
    })
}

#[test]
fn the_client_answers_as_the_model_does_by_every_placement() {
    for seed in 0..8 {
        let mut steps = Steps::new(Seed(seed).rng(), Taste::default());
        let program = steps.program(120);
        let placement = PLACEMENTS[seed as usize % 4];
        let cores = [1, 2, 4][seed as usize % 3];
        assert_alike(seed, &program, |program| alike(program, cores, placement));
    }
}

/// A file client by its trait: large transfers, appends, errors.
async fn by_trait(client: StorClient) {
    let opened = FileClient::open(&client, b"/f", OpenFlags::CREATE, 0o644).await;
    let handle = opened.unwrap().handle;
    let data: Vec<u8> = (0..3_000_001_u32).map(|at| (at / 7) as u8).collect();
    let all = Extent::new(5, data.len() as u64);
    client.write_at(handle, all, &data).await.unwrap();
    let mut out = vec![0; data.len()];
    assert_eq!(
        client.read_at(handle, all, &mut out).await.unwrap().bytes,
        all.bytes
    );
    assert!(out == data);
    let beyond = Extent::new(all.bytes, 10);
    let mut few = [1; 10];
    let read = client.read_at(handle, beyond, &mut few).await.unwrap();
    assert_eq!(read.bytes, 5);
    let appended = FileClient::append(&client, handle, 4, b"tail")
        .await
        .unwrap();
    assert_eq!(appended.offset, all.bytes + 5);
    FileClient::sync(&client, handle, Extent::new(0, u64::MAX), false)
        .await
        .unwrap();
    assert!(client.is_durable());
    let found = FileClient::stat(&client, b"/f", true).await.unwrap();
    assert_eq!(found.bytes, all.bytes + 9);
    FileClient::close(&client, handle).await.unwrap();
    let closed = FileClient::close(&client, handle).await.unwrap_err();
    assert_eq!(closed.errno(), Errno::EBADF);
    let many = Caller {
        groups: vec![1; 33],
        ..Caller::user(5, 5)
    };
    let refused = client
        .as_caller(many, u64::MAX)
        .stat_fs()
        .await
        .unwrap_err();
    assert_eq!(refused.errno(), Errno::EINVAL, "no group is left out");
    let statistics = client.statistics();
    assert_eq!(
        (statistics.opens, statistics.writes, statistics.failures),
        (1, 2, 1)
    );
}

#[test]
fn the_client_is_a_file_client() {
    for placement in PLACEMENTS {
        run(2, placement, by_trait);
    }
}
