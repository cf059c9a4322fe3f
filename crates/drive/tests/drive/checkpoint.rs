//! Checkpoints of a whole drive: taken beside the host's writes, and at power-off.

use wharf_codec::Codec;
use wharf_drive::PowerSwitch;
use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_packed, tiny_timed};
use crate::support::host::Host;
use crate::support::rig::Rig;

const CHECKPOINT_PAGES: u64 = 12;

fn with_checkpoints(mut config: DriveConfig) -> DriveConfig {
    config.ftl.checkpoint_pages = CHECKPOINT_PAGES;
    config
}

/// Plain drives, and those that pack pages, compressed and not.
fn drives() -> Vec<DriveConfig> {
    let packed = [
        (MediaKind::Stamp, Codec::Zlib),
        (MediaKind::Ram, Codec::Lz4),
        (MediaKind::Ram, Codec::None),
    ];
    let packed = packed.map(|(kind, codec)| tiny_packed(kind, codec));
    let all = [tiny(), tiny_timed()].into_iter().chain(packed);
    all.map(with_checkpoints).collect()
}

async fn overwrite(host: &mut Host, pages: u64, writes: u64) {
    for write in 0..writes {
        assert_eq!(
            host.write(write * 7 % pages, 1, write + 1).await,
            StatusCode::Success
        );
    }
}

#[test]
fn an_orderly_power_off_leaves_nothing_to_look_at() {
    for config in drives() {
        let pages = config.namespace_pages();
        let mut rig = Rig::new(config);
        rig.run(move |mut host| async move { overwrite(&mut host, pages, 31).await });
        rig.inspect(|_, ftl| {
            let recovery = ftl.recovery();
            assert_eq!(recovery.map_entries, pages, "{recovery:?}");
            assert_eq!(recovery.oob_reads, 0, "{recovery:?}");
        });
    }
}

#[test]
fn the_checkpointer_bounds_recovery_whenever_the_power_goes() {
    for config in drives() {
        let pages = config.namespace_pages();
        for cut in 40..140 {
            let mut rig = Rig::new(config.clone());
            let script =
                move |mut host: Host| async move { overwrite(&mut host, pages, 1_000).await };
            let script: crate::support::rig::Script = Box::new(move |host| Box::pin(script(host)));
            rig.run_clients(&PowerSwitch::cut_after(cut), vec![script]);
            rig.inspect(|_, ftl| {
                let recovery = ftl.recovery();
                assert_eq!(recovery.map_entries, pages, "cut {cut}: {recovery:?}");
                // While a checkpoint is being written, the buffer's pages may be programmed.
                let programmed_max = CHECKPOINT_PAGES + 8;
                assert!(
                    recovery.oob_reads <= 2 * programmed_max,
                    "cut {cut}: {recovery:?}"
                );
            });
        }
    }
}
