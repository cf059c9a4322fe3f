//! The least drive, which all tests of this crate start from.

use wharf_drive::config::{
    CompressionConfig, DriveConfig, Firmware, FrameIndex, FtlConfig, GcPolicy, Geometry,
    HostMemoryConfig, LinkConfig, LinkKind, MediaConfig, MediaKind, MemoryConfig,
    PersistentMemoryConfig, Placement, Platform, Timing, TokenCheck,
};

/// One core, one plane, ten blocks of four pages; no operation takes time.
pub fn tiny() -> DriveConfig {
    DriveConfig {
        name: "tiny".into(),
        kind: None,
        file_system: None,
        disk: None,
        geometry: Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 10,
            pages_per_block: 4,
            unit_pages: 0,
        },
        timing: Timing {
            read_ns: 0,
            program_ns: 0,
            erase_ns: 0,
            channel_ns_per_page: 0,
        },
        link: LinkConfig {
            latency_ns: 0,
            to_host_mb_s: 0,
            from_host_mb_s: 0,
            kind: LinkKind::Pcie,
            load_ns: 0,
        },
        firmware: Firmware {
            token_check: TokenCheck::default(),
            platform: Platform::Device,
            cores: 1,
            slowness: 1.0,
            stripe_pages: 2,
            commands_max: 8,
            parts_max: 4,
            queues_max: 4,
        },
        ftl: FtlConfig {
            over_provisioning: 0.4,
            capacity_share: 1.0,
            shown_bytes: 0,
            metadata_bytes: 0,
            metadata_reserve_share: 0.0,
            elide_zeros: false,
            placement: Placement::Free,
            read_share: 0.75,
            gc_policy: GcPolicy::Greedy,
            gc_foreground_share: 0.0,
            gc_background_share: 0.0,
            gc_background_invalid_min: 0.0,
            write_buffer_pages: 8,
            volatile_write_cache: false,
            power_loss_protection: false,
            wear_gap_max: 0,
            endurance_cycles: 0,
            checkpoint_pages: 0,
        },
        host_memory: HostMemoryConfig {
            enabled: true,
            busy_wait_ns: 1_000_000,
            index: FrameIndex::Merged,
        },
        compression: CompressionConfig::default(),
        memory: MemoryConfig::default(),
        persistent_memory: PersistentMemoryConfig::default(),
        media: MediaConfig {
            kind: MediaKind::Stamp,
            path: None,
            verify: true,
        },
    }
}
