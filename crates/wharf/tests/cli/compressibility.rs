//! `wharf trace compressibility`.

use crate::support::{Place, code_and_stderr};

#[test]
fn pages_of_files_below_a_directory_are_measured() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("below")).unwrap();
    place.write("below/text", b"a line of text\n".repeat(3000));
    place.write("zeros", vec![0; 8192]);
    let said = place.ok(&["trace", "compressibility", ".", "--output", "table.toml"]);
    // 45,000 bytes are 10 whole pages and a part.
    assert!(
        said.starts_with("12 pages of 4 KiB, 2 of zeros; zlib level 1"),
        "{said}"
    );
    let table = std::fs::read_to_string(place.path().join("table.toml")).unwrap();
    let table: toml::Table = table.parse().unwrap();
    assert_eq!(table["zero_pages"].as_integer(), Some(2));
}

#[test]
fn what_cannot_be_measured_is_said_in_a_line() {
    let place = Place::new();
    place.write("short", b"no whole page");
    for (arguments, line) in [
        (
            vec!["short"],
            "wharf: short: no page of 4096 bytes that is not zeros\n",
        ),
        (
            vec!["nothing"],
            "wharf: cannot read nothing: No such file or directory (os error 2)\n",
        ),
        (
            vec!["short", "--codec", "gzip"],
            "wharf: --codec gzip: use zlib, lz4, zstd\n",
        ),
        (
            vec!["short", "--level", "10"],
            "wharf: zlib has levels 1 to 9, not 10\n",
        ),
    ] {
        let arguments = [vec!["trace", "compressibility"], arguments].concat();
        let output = place.wharf(&arguments);
        assert_eq!(code_and_stderr(&output), (Some(2), line.to_owned()));
    }
}
