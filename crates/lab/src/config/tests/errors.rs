//! Every error is one line that says what is wrong, where, and what to do: word for word.

use wharf_runtime::op::COST_TABLE_VERSION;

use super::super::*;
use super::{sets, text};

/// The error of a drive file with this text, with the folder cut off.
fn drive_file(contents: &str) -> String {
    in_file(contents, |path| text(load_drive(path, &Sets::default())))
}

fn in_file(contents: &str, load: impl Fn(&str) -> String) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    std::fs::write(&path, contents).unwrap();
    let folder = format!("{}/", folder.path().display());
    load(path.to_str().unwrap()).replace(&folder, "")
}

fn drive_set(set: &str) -> String {
    text(load_drive("scala", &sets(&[set])))
}

fn host_set(set: &str) -> String {
    text(load_host("default", &sets(&[set])))
}

/// A preset's text without the lines of some keys.
fn without(presets: &[Preset], name: &str, keys: &[&str]) -> String {
    let preset = presets.iter().find(|preset| preset.name == name).unwrap();
    let is_kept = |line: &&str| !keys.iter().any(|key| line.starts_with(key));
    let lines: Vec<&str> = preset.text.lines().filter(is_kept).collect();
    lines.join("\n")
}

const PRESETS: &str =
    "optane, pmem, scala, scala-artifact, store, tc-csd, tc-csd-small, tiny, tlc, hdd, hdd-small";

#[test]
fn preset_names() {
    let none = Sets::default();
    assert_eq!(
        text(load_drive("skala", &none)),
        format!(
            "no drive preset 'skala', the nearest is 'scala': presets are {PRESETS}, and a file's name ends in .toml"
        )
    );
    assert_eq!(
        text(load_host("write-thru", &none)),
        "no host preset 'write-thru', the nearest is 'write-through': presets are default, write-through, and a file's name ends in .toml"
    );
    assert_eq!(
        text(load_costs("defualt")),
        "no costs preset 'defualt', the nearest is 'default': presets are default, scalacache-host, xeon-4socket, and a file's name ends in .toml"
    );
}

#[test]
fn missing_files() {
    assert_eq!(
        text(load_drive("/nowhere/my.toml", &Sets::default())),
        format!(
            "cannot read the drive file '/nowhere/my.toml' (No such file or directory (os error 2)): name a file, or a preset: {PRESETS}"
        )
    );
}

#[test]
fn syntax() {
    assert_eq!(
        drive_file("base = \"scala\"\n[timing]\nread_ns 5\n"),
        "my.toml:3: not valid TOML: key with no value, expected `=`"
    );
    assert_eq!(
        drive_file("base = \"scala\"\nbase = \"tlc\"\n"),
        "my.toml:2: not valid TOML: duplicate key"
    );
}

#[test]
fn unknown_keys() {
    assert_eq!(
        drive_file("base = \"scala\"\n\n[timing]\nred_ns = 5\n"),
        "my.toml:4: unknown key 'timing.red_ns', the nearest is 'timing.read_ns'"
    );
    assert_eq!(
        drive_file("base = \"scala\"\n[nand]\n"),
        "my.toml:2: unknown key 'nand', the nearest is 'kind'"
    );
    assert_eq!(
        drive_file("base = \"scala\"\ntiming = 5\n"),
        "my.toml:2: 'timing' is a table: set one of its keys, such as 'timing.channel_ns_per_page'"
    );
    assert_eq!(
        drive_set("drive.ftl.gcpolicy=greedy"),
        "--set: unknown key 'drive.ftl.gcpolicy', the nearest is 'drive.ftl.gc_policy'"
    );
    assert_eq!(
        drive_set("drive.read_ns=5"),
        "--set: unknown key 'drive.read_ns', the nearest is 'drive.timing.read_ns'"
    );
    assert_eq!(
        drive_set("drive.timing=5"),
        "--set: 'drive.timing' is a table: set one of its keys, such as 'drive.timing.channel_ns_per_page'"
    );
    assert_eq!(
        drive_set("drive.base=tlc"),
        "--set: unknown key 'drive.base', the nearest is 'drive.name'"
    );
    assert_eq!(
        host_set("host.cash=5%"),
        "--set: unknown key 'host.cash', the nearest is 'host.cache'"
    );
}

#[test]
fn errors_stay_on_one_line_whatever_is_in_the_file() {
    assert_eq!(
        drive_file("base = \"scala\"\n\"a\\nb\" = 1\n"),
        "my.toml:2: unknown key '\"a\\nb\"', the nearest is 'kind'"
    );
    assert_eq!(
        drive_file("base = \"scala\"\n\"timing.read_ns\" = 1\n"),
        "my.toml:2: unknown key '\"timing.read_ns\"', the nearest is 'timing.read_ns'"
    );
    assert_eq!(
        drive_file("base = \"scala\"\n[media]\nkind = \"\"\"a\nb\"\"\"\n"),
        "my.toml:3: media.kind = \"a\\nb\": unknown variant `a b`, expected one of `ram`, `mixed`, `stamp`, `file`"
    );
}

#[test]
fn sets_that_are_none() {
    assert_eq!(
        text(Sets::parse(&["drive.timing.read_ns"])),
        "--set 'drive.timing.read_ns': write it as key=value, such as drive.timing.read_ns=25us"
    );
    assert_eq!(
        text(Sets::parse(&["timing.read_ns=5"])),
        "--set: unknown key 'timing.read_ns', the nearest is 'drive.timing.read_ns'"
    );
    assert_eq!(
        text(Sets::parse(&["cache=5%"])),
        "--set: unknown key 'cache', the nearest is 'host.cache'"
    );
}

#[test]
fn missing_keys() {
    assert_eq!(
        drive_file(&without(DRIVES, "tiny", &["read_ns", "gc_policy"])),
        "my.toml: no value for 'ftl.gc_policy' and 1 more: give every key, or put base = \"optane\" at the top to change a preset"
    );
    let table = without(COSTS, "default", &["map_lookup"]);
    assert_eq!(
        in_file(&table, |path| text(load_costs(path))),
        "my.toml: no value for 'cost_ns.map_lookup' and 1 more: give every key, or put base = \"default\" at the top to change a preset"
    );
}

#[test]
fn bases() {
    assert_eq!(
        drive_file("base = \"scalar\"\n"),
        format!(
            "my.toml:1: base = \"scalar\": no drive preset 'scalar', the nearest is 'scala': presets are {PRESETS}, and a file's name ends in .toml"
        )
    );
    let costs = |base: &str, lines: &str| {
        let version = format!("version = {COST_TABLE_VERSION}\nbase = \"{base}\"\n");
        in_file(&format!("{version}{lines}"), |path| text(load_costs(path)))
    };
    assert_eq!(
        costs("default", "[cost_ns]\nmap_lookup = 5.0\n"),
        "my.toml:2: base = \"default\": costs of another machine need a name of their own"
    );
    let labels = "name = \"my\"\nmachine = \"mine\"\ndate = \"today\"\ncommit = \"none\"\n";
    assert_eq!(
        costs("default", &format!("{labels}[cost_ns]\nmap_lookup = 5.0\n")),
        "my.toml:2: base = \"default\": cost_ns.map_lookup is changed and spread_ns.map_lookup is not: give it, 0 if it is not known"
    );
    assert_eq!(
        costs("xeon-4socket", labels),
        "my.toml:2: base = \"xeon-4socket\": that preset builds on another one itself"
    );
    assert_eq!(
        drive_file("base = 5\n"),
        "my.toml:1: base = 5 is not a preset's name in quotes"
    );
}

#[test]
fn wrong_types() {
    let file = |line: &str| drive_file(&format!("base = \"scala\"\n{line}\n"));
    for (line, error) in [
        (
            "geometry.channels = \"eight\"",
            "geometry.channels = \"eight\" is not a whole number",
        ),
        (
            "geometry.channels = -1",
            "geometry.channels = -1 is not a whole number",
        ),
        (
            "geometry.channels = 8.5",
            "geometry.channels = 8.5 is not a whole number",
        ),
        (
            "geometry.channels = [8]",
            "geometry.channels = (an array) is not a whole number",
        ),
        ("name = 5", "name = 5 is not a text in quotes"),
        ("media.verify = 1", "media.verify = 1 is not true or false"),
        (
            "ftl.capacity_share = true",
            "ftl.capacity_share = true is not a share such as 0.07 or 7%",
        ),
        (
            "firmware.slowness = \"x\"",
            "firmware.slowness = \"x\" is not a number",
        ),
        (
            "firmware.slowness = \"7%\"",
            "firmware.slowness = \"7%\" is not a number",
        ),
        (
            "timing.read_ns = 99999999999999999999",
            "timing.read_ns = (a number beyond 64 bits) is not a whole number of ns, or a time such as 18us",
        ),
    ] {
        assert_eq!(file(line), format!("my.toml:2: {error}"));
    }
    for (set, error) in [
        (
            "drive.timing.read_ns=18kg",
            "drive.timing.read_ns = 18kg is not a whole number of ns, or a time such as 18us",
        ),
        (
            "drive.firmware.stripe_pages=6KB",
            "drive.firmware.stripe_pages = 6KB is not a whole number of pages, or a size such as 128KiB",
        ),
        (
            "drive.media.verify=yes",
            "drive.media.verify = yes is not true or false",
        ),
    ] {
        assert_eq!(drive_set(set), format!("--set: {error}"));
    }
    assert_eq!(
        host_set("host.idle.park_us=1500ns"),
        "--set: host.idle.park_us = 1500ns is not a whole number of us, or a time such as 1ms"
    );
    assert_eq!(
        host_set("host.stripe_bytes=64KB!"),
        "--set: host.stripe_bytes = 64KB! is not a whole number of bytes, or a size such as 64KiB"
    );
}

#[test]
fn values_that_no_key_takes() {
    assert_eq!(
        drive_file("base = \"scala\"\n[ftl]\ngc_policy = \"gredy\"\n"),
        "my.toml:3: ftl.gc_policy = \"gredy\": unknown variant `gredy`, expected `greedy` or `cost-benefit`"
    );
    assert_eq!(
        drive_set("drive.geometry.channels=5000000000"),
        "--set: drive.geometry.channels = 5000000000: the number is too large"
    );
    for share in ["0%", "120%", "x%"] {
        assert_eq!(
            host_set(&format!("host.cache={share}")),
            format!(
                "--set: host.cache = {share}: '{share}' is not a share: write one above 0% and up to 100%, such as 18.75%"
            )
        );
    }
    assert_eq!(
        host_set("host.cache=much"),
        "--set: host.cache = much: 'much' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), or 4GiB"
    );
}

#[test]
fn values_out_of_range() {
    assert_eq!(
        drive_file("base = \"scala\"\n[ftl]\nover_provisioning = 2\n"),
        "my.toml:3: ftl.over_provisioning = 2 must be 0 to 0.95"
    );
    assert_eq!(
        drive_file("base = \"scala\"\n[ftl]\nover_provisioning = nan\n"),
        "my.toml:3: ftl.over_provisioning = NaN must be 0 to 0.95"
    );
    assert_eq!(
        drive_set("drive.firmware.slowness=0"),
        "--set: drive.firmware.slowness = 0 must be 0.01 to 1000"
    );
    assert_eq!(
        host_set("host.queue_depth=1"),
        "--set: host.queue_depth = 1 must be 2 to 4096"
    );
    assert_eq!(
        host_set("host.stripe_bytes=5000"),
        "--set: host.stripe_bytes = 5000 must be a multiple of 4096, up to 1 GiB"
    );
    assert_eq!(
        host_set("host.cache=4095"),
        "--set: host.cache = 4095 must be at least 4096 bytes"
    );
    assert_eq!(
        drive_set("drive.firmware.cores=3"),
        "drive preset scala: 3 cores cannot divide 8 channels evenly: set firmware.cores to a divisor"
    );
    let lines = COSTS[0].text.lines();
    let mut lines: Vec<&str> = lines.collect();
    let at = lines.iter().position(|line| line.starts_with("map_lookup"));
    let at = at.expect("a cost");
    lines[at] = "map_lookup = -1.0";
    assert_eq!(
        in_file(&lines.join("\n"), |path| text(load_costs(path))),
        format!(
            "my.toml:{}: cost_ns.map_lookup = -1 must be a number of nanoseconds between 0 and 1e9",
            at + 1
        )
    );
}

#[test]
fn a_cost_table_of_another_version() {
    let other = COSTS[0].text.replace(
        &format!("version = {COST_TABLE_VERSION}"),
        "version = 99\nunheard_of = 1",
    );
    assert_eq!(
        in_file(&other, |path| text(load_costs(path))),
        format!(
            "my.toml: a cost table of version 99, where this program reads version {COST_TABLE_VERSION}: measure again with `wharf calibrate --out FILE`"
        )
    );
}

#[test]
fn keys_of_one_design() {
    for (set, line) in [
        (
            "design.tri.managers=0",
            "--set: design.tri.managers = 0 must be 1 to 64",
        ),
        (
            "design.tri.manager=3",
            "--set: unknown key 'design.tri.manager', the nearest is 'design.tri.managers'",
        ),
        (
            "design.scale.dflush=seldom",
            "--set: design.scale.dflush = seldom: unknown variant `seldom`, expected one of `flush`, `flush-files`, `sleep-then-flush`, `sleep`",
        ),
        (
            "design.scala=equal",
            "--set: 'design.scala' is a table: set one of its keys, such as 'design.scala.gc_aware'",
        ),
        (
            "design.scale.dflush_share_pages=5KiB",
            "--set: design.scale.dflush_share_pages = 5KiB is not a whole number of pages, or a size such as 128KiB",
        ),
    ] {
        assert_eq!(host_set(set), line);
    }
    let of_file = |contents| in_file(contents, |path| text(load_host(path, &Sets::default())));
    assert_eq!(
        of_file("base = \"default\"\n\n[design.tri]\nmanagers = 65\n"),
        "my.toml:4: design.tri.managers = 65 must be 1 to 64"
    );
    assert_eq!(
        of_file("base = \"default\"\n[design.try]\nmanagers = 6\n"),
        "my.toml:3: unknown key 'design.try.managers', the nearest is 'design.tri.managers'"
    );
}

#[test]
fn a_key_that_is_a_designs_own_now_is_answered_with_where_it_is() {
    for (old, new) in [
        ("managers", "design.tri.managers"),
        (
            "tri_reads_before_overwrite",
            "design.tri.reads_before_overwrite",
        ),
        ("gc_aware", "design.scala.gc_aware"),
        ("shares", "design.scala.shares"),
        ("replacement", "design.clock.replacement"),
        ("index_reclaim", "design.scale.index_reclaim"),
        ("design.tri.managers", "design.tri.managers"),
    ] {
        let line = format!("--set: unknown key 'host.{old}', the nearest is '{new}'");
        let set = format!("host.{old}=1");
        let parsed = Sets::parse(&[&set]);
        let error = parsed.and_then(|sets| load_host("default", &sets));
        assert_eq!(text(error), line);
        if old.contains('.') {
            continue;
        }
        let line = format!("my.toml:2: unknown key '{old}', the nearest is '{new}'");
        let contents = format!("base = \"default\"\n{old} = 1\n");
        let load = |path: &str| text(load_host(path, &Sets::default()));
        assert_eq!(in_file(&contents, load), line);
    }
}
