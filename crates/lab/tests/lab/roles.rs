//! Drives of different kinds behind two roles: a design that writes to both and reads from the
//! cache keeps every byte, in both volumes, and the result says what the drives of each did.

use std::sync::Arc;

use wharf_host::direct::DirectClient;
use wharf_host::{
    Client, Design, DesignConfig, DesignError, Devices, Direct, Extent, IoError, Needs, NoSettings,
    Parts, Role, Statistics, Touch,
};
use wharf_lab::replay::{DeviceGroup, Prepare, RunError, Setup};
use wharf_lab::result::Row;
use wharf_wire::dma::DmaSpace;
use wharf_workload::Op;
use wharf_workload::generate::Pattern;

use crate::support::{drive, generated, planned, setup, small, spec, try_run};

/// Writes go to both volumes, reads to one of them.
struct Both<const FROM_BACKING: bool> {
    inner: Arc<Direct>,
}

struct BothClient<const FROM_BACKING: bool> {
    cache: DirectClient,
    backing: DirectClient,
}

impl<const FROM_BACKING: bool> Design for Both<FROM_BACKING> {
    const NAME: &'static str = "both";

    const SUMMARY: &'static str = "writes to the drives of two roles, and reads from one";

    const HAS_CACHE: bool = false;

    type Config = NoSettings;

    type Client = BothClient<FROM_BACKING>;

    fn needs(_: &DesignConfig, _: &NoSettings) -> Needs {
        Needs {
            roles: &[Role::Cache, Role::Backing],
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &NoSettings,
        space: &Arc<DmaSpace>,
    ) -> Result<Self, DesignError> {
        // Each client is two of the inner design's: locks of the two volumes are not the same.
        let config = DesignConfig {
            clients: 2 * config.clients,
            ..*config
        };
        let inner = Arc::new(Direct::new(&config, own, space)?);
        Ok(Both { inner })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError> {
        assert!(parts.principal.is_owner());
        let over = |role, index| {
            self.inner.client(Parts {
                cpu: parts.cpu.clone(),
                devices: Devices::cache(parts.devices.volume(role)),
                index,
                principal: parts.principal,
            })
        };
        Ok(BothClient {
            cache: over(Role::Cache, 2 * parts.index)?,
            backing: over(Role::Backing, 2 * parts.index + 1)?,
        })
    }
}

impl<const FROM_BACKING: bool> Client for BothClient<FROM_BACKING> {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        match FROM_BACKING {
            true => self.backing.read(extent, out).await,
            false => self.cache.read(extent, out).await,
        }
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.backing.write(extent, data).await?;
        self.cache.write(extent, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.backing.flush().await?;
        self.cache.flush().await
    }

    fn statistics(&self) -> Statistics {
        let mut both = self.cache.statistics();
        both.merge(&self.backing.statistics());
        both
    }
}

/// A small flash drive before two slower ones that hold everything.
fn two_roles() -> Setup {
    let mut setup = setup(small());
    let mut slow = drive(
        "tlc",
        &[
            "geometry.channels=2",
            "geometry.dies_per_channel=1",
            "geometry.planes_per_die=1",
            "geometry.blocks_per_plane=64",
            "geometry.pages_per_block=32",
            "firmware.cores=1",
            "ftl.over_provisioning=0.25",
            "link.latency_ns=1ms",
        ],
    );
    slow.name = "slow".into();
    let backing = DeviceGroup::new(Role::Backing, slow, 2, &setup.host);
    setup.devices.push(backing);
    (setup.clients, setup.depth, setup.prepare) = (3, 1, Prepare::Empty);
    setup
}

/// A complete run, all of whose reads were checked.
fn checked(row: Result<Row, RunError>) -> Row {
    let row = row.unwrap_or_else(|error| panic!("{error}"));
    assert!(row.complete && row.reads > 0);
    assert_eq!(row.verified_reads, row.reads);
    row
}

#[test]
fn two_roles_are_two_volumes_of_different_drives() {
    let setup = two_roles();
    let backing = setup.group(Role::Backing).expect("it was added");
    assert_eq!(setup.volume_bytes(), backing.volume_bytes());
    assert!(setup.volume_bytes() >= 8 << 20);
    let plan = planned(&generated(spec(Pattern::Uniform, 3_000, 8 << 20)), &setup);
    let count = |op| plan.requests.iter().filter(|r| r.op == op).count() as u64;
    let (reads, writes) = (count(Op::Read), count(Op::Write));
    let from_cache = checked(try_run::<Both<false>>(&setup, &plan));
    let from_backing = checked(try_run::<Both<true>>(&setup, &plan));
    for (row, reads_of) in [(&from_cache, [reads, 0]), (&from_backing, [0, reads])] {
        let [cache, backing] = &row.devices[..] else {
            panic!("{:?}", row.devices);
        };
        assert_eq!(
            (&*cache.role, &*cache.preset, cache.count),
            ("cache", "scala", 1)
        );
        assert_eq!(
            (&*backing.role, &*backing.preset, backing.count),
            ("backing", "slow", 2)
        );
        assert_eq!([cache.read_pages, backing.read_pages], reads_of);
        assert_eq!(
            [cache.written_pages, backing.written_pages],
            [writes, writes]
        );
        assert!(cache.write_amplification.is_some() && backing.write_amplification.is_some());
    }
    // The drives are different ones: it is a millisecond to those that hold all, and one back.
    let mean_us = |row: &Row| row.read_latency_us.expect("reads").mean;
    assert!(mean_us(&from_backing) > mean_us(&from_cache) + 1_000.0);
    let again = checked(try_run::<Both<false>>(&setup, &plan));
    assert_eq!(again.devices, from_cache.devices);
}

#[test]
fn a_design_gets_the_roles_that_it_needs_and_no_others() {
    let setup = two_roles();
    let plan = planned(&generated(spec(Pattern::Uniform, 10, 1 << 20)), &setup);
    let refusal = |result: Result<_, RunError>| result.map(drop).unwrap_err().to_string();
    assert_eq!(
        refusal(try_run::<Direct>(&setup, &plan)),
        "direct: it uses drives for the roles cache, and there are drives for cache, backing"
    );
    let mut alone = setup.clone();
    alone.devices.pop();
    assert_eq!(
        refusal(try_run::<Both<true>>(&alone, &plan)),
        "both: it uses drives for the roles cache, backing, and there are drives for cache"
    );
    let mut mixed = setup;
    mixed.cache_mut().drive.media.kind = wharf_drive::config::MediaKind::Ram;
    assert!(refusal(try_run::<Both<true>>(&mixed, &plan)).contains("drive.media.kind"));
}
