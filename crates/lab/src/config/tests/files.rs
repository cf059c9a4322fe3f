//! Files of one's own, and `--set`.

use wharf_drive::config::GcPolicy;

use super::super::*;
use super::sets;

fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_string();
    (folder, path)
}

#[test]
fn a_whole_file_of_ones_own_needs_no_base() {
    let whole = DRIVES.iter().find(|p| p.name == "tiny").unwrap().text;
    let (_folder, path) = file("mine.toml", whole);
    let (mine, provenance) = load_drive(&path, &Sets::default()).unwrap();
    assert_eq!(mine, load_drive("tiny", &Sets::default()).unwrap().0);
    assert_eq!((provenance.source, provenance.base), (path, None));
}

#[test]
fn a_file_on_a_base_says_only_what_is_different() {
    let text =
        "base = \"scala\"\n[timing]\nread_ns = \"25us\"\n[ftl]\ngc_policy = \"cost-benefit\"\n";
    let (_folder, path) = file("slow-reads.toml", text);
    let (mine, provenance) = load_drive(&path, &Sets::default()).unwrap();
    let mut expected = load_drive("scala", &Sets::default()).unwrap().0;
    expected.name = "slow-reads".into();
    expected.timing.read_ns = 25_000;
    expected.ftl.gc_policy = GcPolicy::CostBenefit;
    assert_eq!(mine, expected);
    assert_eq!(provenance.to_string(), format!("{path} (on scala)"));
}

#[test]
fn a_file_on_a_base_may_name_itself() {
    let (_folder, path) = file(
        "x.toml",
        "base = \"default\"\nname = \"mine\"\nretries = 0\n",
    );
    let (mine, _) = load_host(&path, &Sets::default()).unwrap();
    assert_eq!((mine.name.as_str(), mine.retries), ("mine", 0));
}

#[test]
fn sets_take_plain_numbers_and_units_and_the_last_one_counts() {
    let changes = sets(&[
        "drive.timing.read_ns=1",
        "drive.timing.read_ns=25us",
        "drive.timing.erase_ns=3_500_000",
        "drive.firmware.stripe_pages=64KiB",
        "drive.firmware.slowness=2",
        "drive.ftl.over_provisioning=12.5%",
        "drive.ftl.gc_policy=cost-benefit",
        "drive.ftl.volatile_write_cache=true",
        "drive.media.kind=file",
        "drive.media.path=a=b.img",
        "host.stripe_bytes=128k",
        "host.command_timeout_ns=5s",
        "host.cache=4GiB",
        "host.huge_pages=false",
    ]);
    let (drive, provenance) = load_drive("scala", &changes).unwrap();
    assert_eq!(
        (drive.timing.read_ns, drive.timing.erase_ns),
        (25_000, 3_500_000)
    );
    assert_eq!(
        (drive.firmware.stripe_pages, drive.firmware.slowness),
        (16, 2.0)
    );
    assert_eq!(drive.ftl.over_provisioning, 0.125);
    assert_eq!(drive.ftl.gc_policy, GcPolicy::CostBenefit);
    assert!(drive.ftl.volatile_write_cache);
    assert_eq!(drive.media.path, Some("a=b.img".into()));
    assert_eq!(provenance.sets.len(), 10);
    assert!(
        provenance
            .to_string()
            .starts_with("scala with timing.read_ns=1, timing.read_ns=25us, ")
    );
    let (host, _) = load_host("default", &changes).unwrap();
    assert_eq!(
        (host.stripe_bytes, host.command_timeout_ns),
        (131_072, 5_000_000_000)
    );
    assert_eq!(
        (host.cache, host.huge_pages),
        (ShareOrBytes::Bytes(4 << 30), false)
    );
}

#[test]
fn a_set_may_mend_what_a_file_has_wrong() {
    let (_folder, path) = file("x.toml", "base = \"tiny\"\n[timing]\nread_ns = \"soon\"\n");
    assert!(load_drive(&path, &Sets::default()).is_err());
    let mended = sets(&["drive.timing.read_ns=7"]);
    assert_eq!(load_drive(&path, &mended).unwrap().0.timing.read_ns, 7);
}

#[test]
fn a_cost_table_of_ones_own_is_complete() {
    let (_folder, path) = file("mine.toml", COSTS[0].text);
    let (costs, provenance) = load_costs(&path).unwrap();
    assert_eq!(costs.cost_ns.len(), wharf_runtime::op::OPS);
    assert_eq!(provenance.to_string(), path);
}
