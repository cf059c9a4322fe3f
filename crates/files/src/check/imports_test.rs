//! The check shares nothing with what writes the media.

use std::path::Path;

/// What the sources here may name of the crate.
const ALLOWED: [&str; 3] = ["crate::errno::", "crate::pages::", "crate::check::"];

#[test]
fn nothing_of_the_writer_is_imported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("imports_test.rs") || path.ends_with("faults_test.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            let of_crate = line.match_indices("crate::");
            let is_allowed = |at: usize| ALLOWED.iter().any(|own| line[at..].starts_with(own));
            assert!(
                of_crate.clone().all(|(at, _)| is_allowed(at)),
                "{path:?}: {line}"
            );
            for other in ["zerocopy", "crc_fast", "super::super"] {
                assert!(!line.contains(other), "{path:?}: {line}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 9, "{seen} files");
}
