//! Every preset is whole, valid, and what its comments say.

use wharf_drive::config::MediaKind;

use super::super::schema::{Schema, leaves};
use super::super::*;
use super::sets;
use crate::config::kinds::Kind;

#[test]
fn every_preset_loads_and_plans_and_has_its_files_name() {
    for preset in DRIVES {
        let (config, provenance) = load_drive(preset.name, &Sets::default()).unwrap();
        config.plan().unwrap();
        assert_eq!(config.name, preset.name);
        assert_eq!(config.media.kind, MediaKind::Stamp, "{}", preset.name);
        assert_eq!(provenance.to_string(), preset.name);
    }
    for preset in HOSTS {
        let (config, _) = load_host(preset.name, &Sets::default()).unwrap();
        config.check().unwrap();
        assert_eq!(config.name, preset.name);
    }
    for preset in COSTS {
        let (table, _) = load_costs(preset.name).unwrap();
        assert_eq!(table.name, preset.name);
    }
}

#[test]
fn a_table_on_a_base_has_its_costs_and_those_of_the_base() {
    let [(base, _), (table, provenance)] =
        ["default", "xeon-4socket"].map(|name| load_costs(name).unwrap());
    assert_eq!(provenance.to_string(), "xeon-4socket (on default)");
    assert_ne!(table.machine, base.machine);
    for (op, given_ns) in [("page_allocator", 94.0), ("line_transfer", 119.1)] {
        assert_eq!(table.cost_ns[op], given_ns);
        assert_ne!(table.cost_ns[op], base.cost_ns[op]);
        assert_eq!(table.spread_ns[op], 0.0);
    }
    assert_eq!(table.cost_ns["interrupt"], base.cost_ns["interrupt"]);
    assert_eq!(table.spread_ns["interrupt"], base.spread_ns["interrupt"]);
}

#[test]
fn every_file_in_configs_is_built_in() {
    let configs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    for (folder, presets) in [("drive", DRIVES), ("host", HOSTS), ("costs", COSTS)] {
        let mut files: Vec<String> = std::fs::read_dir(configs.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().into())
            .collect();
        files.sort();
        // Disks come after flash, of which the first is the one to build upon.
        let mut names: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        assert_eq!(files, names, "configs/{folder}");
    }
}

#[test]
fn every_value_of_a_preset_has_its_source() {
    // What was measured here comes from the program that measured it, with how.
    let published = COSTS.iter().filter(|preset| preset.name != "default");
    for preset in DRIVES.iter().chain(HOSTS).chain(published) {
        let (values, _) = preset
            .text
            .split_once("[spread_ns]")
            .unwrap_or((preset.text, ""));
        for line in values.lines().filter(|line| line.contains(" = ")) {
            let labels = [
                "name =",
                "machine =",
                "date =",
                "commit =",
                "base =",
                "version =",
                "#",
            ];
            let is_label = labels.iter().any(|label| line.starts_with(label));
            let has_source = line.split_once(" # ").is_some_and(|(_, why)| why.len() > 2);
            assert!(is_label || has_source, "{}: {line}", preset.name);
        }
        assert!(
            preset.summary().len() > 20,
            "{}: {}",
            preset.name,
            preset.summary()
        );
    }
}

#[test]
fn sizes_are_those_that_the_comments_promise() {
    let gib = |name: &str| {
        let (config, _) = load_drive(name, &Sets::default()).unwrap();
        let bytes = |pages: u64| (pages * 4096) as f64 / f64::from(1 << 30);
        (
            bytes(config.geometry.pages()),
            bytes(config.namespace_pages()),
        )
    };
    assert_eq!(gib("scala").0, 64.0);
    assert_eq!(gib("scala-artifact").0, 256.0);
    assert_eq!(gib("tlc").0, 64.0);
    for in_place in ["optane", "pmem"] {
        let (_, shown) = gib(in_place);
        assert!((15.9..16.2).contains(&shown), "{in_place}: {shown} GiB");
    }
}

#[test]
fn the_artifacts_spare_flash_is_the_least_the_drive_takes() {
    assert!(load_drive("scala-artifact", &Sets::default()).is_ok());
    let less = sets(&["drive.ftl.over_provisioning=5.1%"]);
    let error = load_drive("scala-artifact", &less).unwrap_err();
    assert!(
        error.to_string().contains("raise ftl.over_provisioning"),
        "{error}"
    );
}

/// Gives keys of flash that are left out where they say nothing something to say.
fn name_all_of_flash(config: &mut wharf_drive::DriveConfig) {
    let reference = wharf_drive::DriveConfig::reference();
    config.geometry.unit_pages = reference.geometry.unit_pages;
    config.compression = reference.compression;
    config.file_system = reference.file_system;
    config.memory = reference.memory;
    config.persistent_memory = reference.persistent_memory;
    let own = &mut config.ftl;
    own.power_loss_protection = true;
    own.shown_bytes = reference.ftl.shown_bytes;
    own.metadata_bytes = reference.ftl.metadata_bytes;
    own.metadata_reserve_share = reference.ftl.metadata_reserve_share;
    own.elide_zeros = true;
}

#[test]
fn keys_are_those_of_the_structs() {
    let schema = Schema::of(&wharf_drive::DriveConfig::reference());
    for preset in DRIVES {
        let (mut config, _) = load_drive(preset.name, &Sets::default()).unwrap();
        // Keys that may be left out.
        config.media.path = Some("x".into());
        let reference = wharf_drive::DriveConfig::reference();
        config.firmware.token_check = reference.firmware.token_check;
        config.link = reference.link;
        if config.disk.is_none() {
            name_all_of_flash(&mut config);
        }
        let values = leaves(&config);
        let has_meaning = |key: &&str| wharf_drive::DriveConfig::check_key(key, &values).is_ok();
        // Flash need not say that it is.
        let expected = schema.keys().filter(has_meaning);
        let expected = expected.filter(|key| *key != "kind" || values.contains_key("kind"));
        assert!(values.keys().eq(expected), "{}", preset.name);
    }
}

#[test]
fn the_cache_is_a_share_of_what_it_is_said_to_be() {
    let (host, _) = load_host("default", &Sets::default()).unwrap();
    assert_eq!(host.cache_bytes(64 << 30, 1 << 40), 12 << 30);
    assert_eq!(host.cache_bytes(0, 1 << 40), 4096);
    assert_eq!(host.cache_bytes(100_000, 0), 16_384);
    let of_drive = sets(&["host.cache_of=drive"]);
    let (host, _) = load_host("default", &of_drive).unwrap();
    assert_eq!(host.cache_bytes(1 << 20, 64 << 30), 12 << 30);
    let fixed = sets(&["host.cache=1GiB"]);
    let (host, _) = load_host("default", &fixed).unwrap();
    assert_eq!(host.cache_bytes(1 << 20, 64 << 30), 1 << 30);
}

#[test]
fn the_idle_policy_reaches_the_engine() {
    let (host, _) = load_host("default", &sets(&["host.idle.park_us=2ms"])).unwrap();
    let idle = wharf_runtime::Idle::from(host.idle);
    assert_eq!((idle.spin_passes, idle.park_us), (1000, 2000));
}

#[test]
fn presets_say_what_every_design_is_told_and_the_default_is_what_it_has_by_itself() {
    for preset in HOSTS {
        let text: toml::Table = toml::from_str(preset.text).unwrap();
        let said = leaves(&text);
        let schema = Schema::of(&HostConfig::reference());
        for key in schema.keys() {
            assert!(said.contains_key(key), "{}: {key}", preset.name);
        }
    }
    let (host, _) = load_host("default", &Sets::default()).unwrap();
    assert_eq!(host.design, DesignTables::default());
}
