//! Any text as a configuration file or as `--set`s: loaded, or refused in one line. What is loaded
//! can be planned and hashed. The first byte chooses what is loaded.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wharf_host::design::Role;
use wharf_lab::config::{
    CacheOf, ConfigError, Sets, config_hash, load_costs, load_drive, load_host, parse_bytes,
    parse_duration_ns, parse_percent, parse_share_or_bytes,
};

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let none = Sets::default();
    match choice % 5 {
        0 => use_drive(load_drive(file(bytes), &none).map(|(drive, _)| drive)),
        1 => use_host(load_host(file(bytes), &none).map(|(host, _)| host)),
        2 => {
            one_line(load_costs(file(bytes)).map(drop));
        }
        3 => {
            let lines: Vec<&str> = text.lines().collect();
            if let Some(sets) = one_line(Sets::parse(&lines)) {
                use_drive(load_drive("tiny", &sets).map(|(drive, _)| drive));
                use_host(load_host("default", &sets).map(|(host, _)| host));
            }
        }
        _ => use_units(text),
    }
});

/// The bytes as a file, always the same one.
fn file(bytes: &[u8]) -> &'static str {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let directory = if PathBuf::from("/dev/shm").is_dir() {
            "/dev/shm".into()
        } else {
            std::env::temp_dir()
        };
        directory.join(format!("wharf-fuzz-config-{}.toml", std::process::id()))
    });
    std::fs::write(path, bytes).expect("a directory for temporary files");
    path.to_str().expect("a plain path")
}

/// An error is a single line.
fn one_line<T>(result: Result<T, ConfigError>) -> Option<T> {
    result
        .inspect_err(|error| {
            let line = error.to_string();
            assert!(
                !line.contains('\n') && !line.is_empty(),
                "more than a line: {line:?}"
            );
        })
        .ok()
}

fn use_drive(loaded: Result<wharf_drive::DriveConfig, ConfigError>) {
    let Some(drive) = one_line(loaded) else {
        return;
    };
    let plan = drive.plan().expect("it was checked");
    assert!(plan.logical_pages > 0 && drive.namespace_pages() > 0);
    let (host, _) = load_host("default", &Sets::default()).expect("a preset");
    let (costs, _) = load_costs("default").expect("a preset");
    assert_eq!(
        config_hash(&[(Role::Cache, &drive)], &host, &costs),
        config_hash(&[(Role::Cache, &drive.clone())], &host, &costs)
    );
}

fn use_host(loaded: Result<wharf_lab::config::HostConfig, ConfigError>) {
    let Some(mut host) = one_line(loaded) else {
        return;
    };
    for cache_of in [CacheOf::Workload, CacheOf::Drive] {
        host.cache_of = cache_of;
        assert!(host.cache_bytes(1 << 30, 1 << 40) >= 4096);
    }
}

fn use_units(text: &str) {
    let bytes = parse_bytes(text);
    if let Ok(bytes) = bytes {
        let again = parse_bytes(&bytes.to_string());
        assert_eq!(again, Ok(bytes));
    }
    let _ = parse_duration_ns(text);
    if let Ok(share) = parse_percent(text) {
        assert!(share.is_finite());
    }
    if let Ok(share) = parse_share_or_bytes(text) {
        assert_eq!(parse_share_or_bytes(&share.to_string()), Ok(share));
    }
}
