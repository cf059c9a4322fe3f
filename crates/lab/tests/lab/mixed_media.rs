//! Media that keep 64 bytes of what checked workloads write: every figure is as on media that keep whole pages.

use serde_json::{Value, json};
use wharf_drive::config::{MediaKind, PersistentMemoryConfig};
use wharf_host::stor::{CacheMode, Stor, StorConfig};
use wharf_lab::replay::Setup;
use wharf_workload::files::Personality;

use crate::file_view::{in_memory, of_files, run, spec, with_room};
use crate::support::{planned, setup_on};

/// The rows of both kinds of media.
fn rows_of_both(setup: &Setup, personality: Personality, names: &[&str]) -> [Value; 2] {
    let mut spec = spec(personality);
    if personality == Personality::RandomFiles {
        // Requests that cut pages.
        spec.request_bytes = 1024;
    }
    let plan = planned(&of_files(spec, 512), setup);
    [MediaKind::Ram, MediaKind::Mixed].map(|kind| {
        let mut setup = setup.clone();
        setup.cache_mut().drive.media.kind = kind;
        json!(run(&setup, &plan, names).without_wall_clock().rows)
    })
}

#[test]
fn figures_of_files_are_the_same_on_whole_and_on_mixed_pages() {
    let two = in_memory();
    let mut one = Setup {
        clients: 4,
        depth: 2,
        ..setup_on(1, with_room(&two.cache().drive))
    };
    let cached = StorConfig {
        cache: CacheMode::WriteBack,
        threads: 4,
        cache_files: 256,
        ..StorConfig::default()
    };
    for personality in [
        Personality::Varmail,
        Personality::Fileserver,
        Personality::RandomFiles,
    ] {
        let [whole, mixed] = rows_of_both(&two, personality, &["kernel", "ext4-model"]);
        assert_eq!(whole, mixed);
        let [whole, mixed] = rows_of_both(&one, personality, &["stor", "omni", "nova"]);
        assert_eq!(whole, mixed);
        let mut cached_one = one.clone();
        cached_one.host.design.set::<Stor>(&cached);
        let [whole, mixed] = rows_of_both(&cached_one, personality, &["stor"]);
        assert_eq!(whole, mixed);
    }
    // wpm, on pages and in memory of its own.
    let drive = &mut one.cache_mut().drive;
    drive.file_system = Some(wharf_drive::config::FileSystemKind::Wpm);
    for bytes in [0, 48 << 20] {
        one.cache_mut().drive.persistent_memory = PersistentMemoryConfig {
            bytes,
            ..PersistentMemoryConfig::default()
        };
        let [whole, mixed] = rows_of_both(&one, Personality::Varmail, &["stor", "omni"]);
        assert_eq!(whole, mixed, "{bytes} bytes of persistent memory");
    }
}
