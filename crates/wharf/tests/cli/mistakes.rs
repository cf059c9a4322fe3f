//! Each mistake of the user is told in one line, before anything is run or written.

use crate::support::{Place, QUICK, SAMPLE, json, with};

#[test]
fn each_wrong_name_is_told_in_one_line() {
    let place = Place::new();
    let cases: &[(&[&str], &str)] = &[
        (
            &["compare", "unifrom"],
            "no file 'unifrom', and no workload \"unifrom\"; nearest is \"uniform\" (known: sequential, uniform, \
             zipf, fileserver, varmail, videoserver, ffsb, fileserver-scalecache, varmail-scalecache, videoserver-scalecache, ffsb-scalecache, ycsb-a, ycsb-f, lsm-a, lsm-b, lsm-c, lsm-d, lsm-e, lsm-f, lsm-fillrandom, lsm-readrandom, webserver, webproxy, random-files, sequential-files, crc-files, knn-files, webmail, online, webusers, prn_0, usr_0, src2, T1205, T2982, proj_1, mds, \
             lun0, lun2, lun4, bayes, kmeans, pagerank, sort, terasort)",
        ),
        (
            &["compare", "mds", "--bs", "8k"],
            "workload parameter request size: the profile mds has its own sizes",
        ),
        (
            &["compare", "uniform", "--theta", "0.9"],
            "workload parameter theta: only zipf has one, uniform does not",
        ),
        (
            &["compare", "no/webmail"],
            "no file 'no/webmail': name a trace, or a workload (`wharf workloads` lists them)",
        ),
        (
            &["compare", "nosuch.csv"],
            "no file 'nosuch.csv': name a trace, or a workload (`wharf workloads` lists them)",
        ),
        (
            &["compare", "--designs", "direct,clok"],
            "--designs: no design 'clok'; nearest is 'clock' (known: direct, clock, scala, hardware, tri, kernel, falcon, kernel-dflush, scale, scale-dflush, \
             indexless, ideal, improved-lru, lru, fifo, opencas, through, direct-disk, ext4-model, ext4-scale, nova, stor, omni, all)",
        ),
        (
            &[
                "run",
                "--drive",
                "a=/b",
                "--cache",
                "0",
                "--coherence",
                "none",
                "--",
                "true",
            ],
            "--cache 0: there is no cache that --cache-mode or --coherence could be of",
        ),
        (
            &["compare", "--drive", "scalla"],
            "no drive preset 'scalla', the nearest is 'scala': presets are optane, pmem, scala, \
             scala-artifact, store, tc-csd, tc-csd-small, tiny, tlc, hdd, hdd-small, and a file's name ends in .toml",
        ),
        (
            &["compare", "--drive", "none.toml"],
            "cannot read the drive file 'none.toml' (No such file or directory (os error 2)): name a file, \
             or a preset: optane, pmem, scala, scala-artifact, store, tc-csd, tc-csd-small, tiny, tlc, hdd, hdd-small",
        ),
        (
            &["compare", "--backing", "hdd", "--designs", "direct"],
            "direct uses no backing drives: leave out --backing, or name designs that do",
        ),
        (
            &["compare", "--designs", "lru,clock"],
            "lru keeps all data on a disk behind its drives and clock has no disk: compare them apart",
        ),
        (
            &["compare", "--backing-drives", "2"],
            "--backing-drives: there are none: give --backing",
        ),
        (
            &["compare", "--set", "backing.disk.heads=3"],
            "--set backing.*: there are no backing drives: give --backing",
        ),
        (
            &[
                "compare",
                "--drive",
                "hdd",
                "--set",
                "drive.geometry.channels=3",
            ],
            "--set: geometry.channels is of flash, and kind is \"disk\"",
        ),
        (
            &["compare", "--set", "drive.disk.heads=3"],
            "--set: disk.heads is of disks, and kind is not \"disk\"",
        ),
        (
            &["compare", "--drive", "hdd", "--set", "drive.disk.heads=0"],
            "--set: drive.disk.heads = 0 must be 1 to 64",
        ),
        (
            &["compare", "--host", "defualt"],
            "no host preset 'defualt', the nearest is 'default': presets are default, write-through, and a \
             file's name ends in .toml",
        ),
        (
            &["compare", "--set", "drive.timing.raed_ns=5us"],
            "--set: unknown key 'drive.timing.raed_ns', the nearest is 'drive.timing.read_ns'",
        ),
        (
            &["compare", "--set", "drive.timing.read_ns"],
            "--set 'drive.timing.read_ns': write it as key=value, such as drive.timing.read_ns=25us",
        ),
        (
            &["compare", "--set", "drive.firmware.queues_max=0"],
            "--set: drive.firmware.queues_max = 0 must be 1 to 96",
        ),
        (
            &["compare", "--rule", "robin"],
            "--rule: no rule 'robin': use round-robin, process, stream, address",
        ),
        (
            &["compare", "--fit", "warp"],
            "workload parameter fit: no mode \"warp\"; nearest is \"wrap\" (error, wrap, scale)",
        ),
    ];
    for (arguments, line) in cases {
        assert_eq!(&place.refused(arguments), line);
    }
}

#[test]
fn each_wrong_size_or_number_is_told_in_one_line() {
    let place = Place::new();
    let size = "is not a size: write a whole number of bytes, or one such as 64KiB, 1.5GiB, 4g (GB and the like \
                are powers of 1000)";
    let share = "is not a share: write a number from 0 to 1 such as 0.7, or 70%";
    let count =
        "is not a count: write a whole number, or one such as 1_000, 200k, 1.5M (powers of 1000)";
    let cases: &[(&[&str], String)] = &[
        (&["compare", "zipf", "--footprint", "1x"], format!("--footprint: '1x' {size}")),
        (&["compare", "zipf", "--bs", "four"], format!("--bs: 'four' {size}")),
        (
            &["compare", "--cache", "much"],
            "--cache: 'much' is neither a share nor a size: write one such as 18.75% (above 0%, up to 100%), \
             or 4GiB"
                .into(),
        ),
        (&["compare", "--cache", "100"], "host: cache = 100 must be at least 4096 bytes".into()),
        (&["compare", "--speed", "0"], "--speed 0: give a factor above 0".into()),
        (&["compare", "--bad-lines", "x"], format!("--bad-lines: 'x' {share}")),
        (&["compare", "zipf", "--requests", "many"], format!("--requests: 'many' {count}")),
        (&["compare", "zipf", "--requests", "-5"], format!("--requests: '-5' {count}")),
        (&["compare", "--clients", "0"], "--clients: 0 is out of range: give 1 to 96".into()),
        (
            &["bench", "f", "--runtime", "soon"],
            "--runtime: 'soon' is not a time: write seconds, or a time such as 500ms, 30s, 2m".into(),
        ),
        (
            &["compare", "zipf", "--read-share", "1.5"],
            format!("--read-share: '1.5' {share}"),
        ),
        (
            &["compare", "zipf", "--requests", "0"],
            "--requests: 0 is too small: give 1 or more".into(),
        ),
        (
            &["compare", "--drive", "tiny", "--clients", "8"],
            "--clients 8 needs as many queues, the drive has 4: give --clients 4, or --set drive.firmware.queues_max=8".into(),
        ),
        (
            &["compare", "--drives", "3", "--set", "host.layout=raid10"],
            "a volume of layout raid10 cannot be on 3 drives: it takes 2 or more, an even number".into(),
        ),
        (
            &["compare", "--designs", "scala", "--clients", "2", "--set", "design.scala.shares=4,2,1"],
            "design.scala.shares has weights of 3 clients, and there are 2: name no more of them".into(),
        ),
        (
            &["compare", "--set", "design.scala.shares=4,0"],
            "--set: design.scala.shares = 4,0: '4,0' are not the weights of clients: write equal, or a whole number from 1 to 65535 for each client, such as 4,2,1".into(),
        ),
    ];
    for (arguments, line) in cases {
        assert_eq!(&place.refused(arguments), line);
    }
}

#[test]
fn a_cache_larger_than_memory_is_refused() {
    let place = Place::new();
    // Where pages are stamps, less memory is needed: 8 bytes, and the account of a page.
    for (design, media, needed) in [
        ("clock", "stamp", "10.0 TiB"),
        ("clock", "ram", "1032.0 TiB"),
        ("kernel", "stamp", "22.0 TiB"),
        ("tri", "stamp", "26.0 TiB"),
        ("scale", "stamp", "18.0 TiB"),
    ] {
        let media = format!("drive.media.kind={media}");
        let sets = ["--cache", "1024TiB", "--set", &media, "--designs", design];
        let line = place.refused(&with(&QUICK, &sets));
        let expected = format!("a cache of 1024TiB, in {design}, needs {needed} of memory, and ");
        assert!(line.starts_with(&expected), "{line}");
        assert!(line.ends_with("): give a smaller --cache"), "{line}");
    }
}

/// These were aborts: a table for a million million requests, and caches within memory but not within the limit of the
/// address space.
#[test]
fn what_the_address_space_has_no_room_for_is_refused() {
    let place = Place::new();
    let line = place.refused(&["compare", "uniform", "--requests", "1000000000000"]);
    let expected = "a workload of 1000000000000 requests needs 58.2 TiB of memory, and ";
    assert!(line.starts_with(expected), "{line}");
    for design in ["kernel", "tri", "scale"] {
        let line = place.refused_within(
            1 << 31,
            &with(&QUICK, &["--cache", "200GiB", "--designs", design]),
        );
        assert!(
            line.contains(&format!("200GiB, in {design}, needs")),
            "{line}"
        );
    }
}

/// Two designs were run at a time, since there were two processors, where there were addresses for the drive of one.
#[test]
fn runs_side_by_side_took_more_addresses_than_there_are() {
    let place = Place::new();
    let words = ["compare", "uniform", "--footprint=4MiB", "--requests=1000"];
    let output = place.within(900 << 20, &words);
    assert!(output.status.success(), "{output:?}");
}

/// The drive's refusal was a failed run, exit code 1, and advised to try the same seed.
#[test]
fn a_cache_too_small_for_a_design_is_bad_input() {
    let place = Place::new();
    for (design, cache, said) in [
        ("scala", "4KiB", "use a larger cache"),
        ("hardware", "4KiB", "use a larger cache"),
        ("scala", "16KiB", "give it a cache of at least"),
        ("clock", "1KiB", "must be at least 4096 bytes"),
        ("scale", "1KiB", "must be at least 4096 bytes"),
    ] {
        let words = ["compare", "uniform", "--footprint=4MiB", "--requests=100"];
        let line = place.refused(&with(&words, &["--cache", cache, "--designs", design]));
        assert!(line.contains(said), "{design} {cache}: {line}");
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_told_in_one_line() {
    let place = Place::new();
    place.write(
        "two.csv",
        "128166372003061629,hm,0,Read,383496192,32768,113736\n1,hm,0,Write,0,512,5\n",
    );
    place.write("empty.trace", "");
    place.write(
        "prose.txt",
        "It was a dark and stormy night;\nthe rain fell in torrents.\n",
    );
    let whole = std::fs::read(SAMPLE).expect("the sample trace");
    place.write("cut.gz", &whole[..whole.len() / 2]);
    std::fs::create_dir(place.path().join("folder")).expect("a directory");
    let known = "wharf, msr, fiu, tencent, alibaba, systor17, vscsi, oracleGeneral, cloudphysics, disksim, mqsim, disksim-pages, heimdall, spc, \
                 lis, blkparse, fio, biotracer, csv";
    for command in [&["compare"][..], &["trace", "stat"], &["trace", "convert"]] {
        let out = if command.contains(&"convert") {
            &["out.trace"][..]
        } else {
            &[]
        };
        let run = |file: &str, options: &[&str]| {
            place.refused(&[command, &[file], out, options].concat())
        };
        let forced = run("two.csv", &["--format", "fiu"]);
        assert!(
            forced.starts_with("two.csv is not in format fiu: "),
            "{forced}"
        );
        let none = run("two.csv", &["--format", "mrs"]);
        assert_eq!(
            none,
            format!("no trace format \"mrs\"; nearest is \"msr\" (known: {known})")
        );
        let prose = run("prose.txt", &[]);
        assert!(
            prose.starts_with("prose.txt is in no trace format known here ("),
            "{prose}"
        );
        assert!(prose.ends_with("force it with --format"), "{prose}");
        let empty = run("empty.trace", &[]);
        assert!(empty.contains("empty.trace"), "{empty}");
        let cut = run("cut.gz", &[]);
        assert!(
            cut.starts_with("cannot read trace cut.gz past line "),
            "{cut}"
        );
        assert!(
            cut.ends_with("the file may be cut short or damaged"),
            "{cut}"
        );
        assert_eq!(
            run("folder", &[]),
            "cannot open trace folder: it is a directory"
        );
    }
    let missing = place.refused(&["trace", "stat", "none.csv"]);
    assert_eq!(
        missing,
        "cannot open trace none.csv: No such file or directory (os error 2)"
    );
    assert_eq!(place.files().len(), 5);
}

#[test]
fn a_trace_beyond_the_drive_is_refused_unless_it_is_to_be_fitted() {
    let place = Place::new();
    place.write(
        "far.trace",
        "# wharf trace 1\n0 W 0 4096 0\n5 R 1099511627776 4096 0\n",
    );
    let base = ["compare", "far.trace", "--drive", "tiny", "--clients", "1"];
    let line = place.refused(&base);
    let beyond = "request 1 ends at byte 1099511631872, beyond the device of 720896 bytes; use a larger drive, or \
                  --fit wrap or --fit scale";
    assert_eq!(line, beyond);
    for fit in ["wrap", "scale"] {
        place.ok(&with(
            &base,
            &["--fit", fit, "--json", "fit.json", "--force"],
        ));
        let report = json(&place.path().join("fit.json"));
        let said = report["workload"]["fit"]
            .as_str()
            .expect("it is said aloud");
        assert!(said.contains(fit) || said.contains("moved"), "{said}");
    }
    place.write("large.trace", "# wharf trace 1\n0 W 0 1048576 0\n");
    let line = place.refused(&[
        "compare",
        "large.trace",
        "--drive",
        "tiny",
        "--clients",
        "1",
        "--fit",
        "wrap",
    ]);
    let larger =
        "request 0 of 1048576 bytes is larger than the device of 720896 bytes; use a larger drive";
    assert_eq!(line, larger);
}

#[test]
fn a_report_that_cannot_be_written_is_found_before_the_run() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("folder")).expect("a directory");
    // Long runs: a late answer would take minutes.
    let long = ["compare", "zipf", "--requests", "50000000"];
    for option in ["--json", "--html"] {
        let nowhere = place.refused(&with(&long, &[option, "no/such/folder/report"]));
        let missing = "No such file or directory (os error 2): give another path";
        assert_eq!(
            nowhere,
            format!("cannot write {option} no/such/folder/report: {missing}")
        );
        let folder = place.refused(&with(&long, &[option, "folder"]));
        let directory = "Is a directory (os error 21): give another path";
        assert_eq!(folder, format!("cannot write {option} folder: {directory}"));
    }
    let both = place.refused(&with(&long, &["--json", "same", "--html", "same"]));
    assert_eq!(both, "--json and --html are both same: give two paths");
}

#[test]
fn a_failed_comparison_leaves_an_older_report_alone() {
    let place = Place::new();
    let old = place.write("old.json", "older");
    place.refused(&with(
        &QUICK,
        &["--json", "old.json", "--force", "--drive", "nonesuch"],
    ));
    assert_eq!(std::fs::read_to_string(old).expect("it is there"), "older");
}

#[test]
fn an_unusable_image_is_told_in_one_line_and_left_alone() {
    let place = Place::new();
    let tiny = ["--drive", "tiny", "--clients", "1"];
    let base = with(
        &[
            "compare",
            "uniform",
            "--requests",
            "50",
            "--footprint",
            "512k",
        ],
        &tiny,
    );
    place.ok(&["drive", "prepare", "tiny", "good.img"]);
    place.ok(&with(&base, &["--prepare", "good.img"]));
    let good = std::fs::read(place.path().join("good.img")).expect("an image");
    place.write("cut.img", &good[..good.len() / 2]);
    place.write("head.img", &good[..40]);
    let mut damaged = good.clone();
    damaged[17] ^= 1;
    place.write("damaged.img", &damaged);
    place.write("other.img", "not an image at all");
    let cases = [
        (
            "cut.img",
            "cut.img is truncated, 8415232 bytes of 16830464: restore it from a copy or create it anew",
        ),
        ("head.img", "head.img is truncated, 40 bytes of "),
        (
            "damaged.img",
            "the header of damaged.img is damaged: restore it from a copy or create it anew",
        ),
        ("other.img", "other.img is no"),
        ("none.img", "none.img"),
    ];
    for (image, what) in cases {
        let line = place.refused(&with(&base, &["--prepare", image]));
        assert!(line.contains(what), "{line}");
    }
    let other = place.refused(&with(&QUICK, &["--prepare", "good.img"]));
    assert!(
        other.contains("good.img has cores = 2, and the configuration "),
        "{other}"
    );
    let exists = place.refused(&["drive", "prepare", "tiny", "good.img"]);
    assert_eq!(
        exists,
        "good.img exists: give another name, or --force overwrites it"
    );
    assert!(std::fs::read(place.path().join("good.img")).expect("it is there") == good);
}

/// What shapes a generator's requests was ignored beside a trace: all of it was replayed, and
/// nothing said so.
#[test]
fn options_of_generators_were_ignored_with_a_trace() {
    let place = Place::new();
    place.write("one.trace", "# wharf trace 1\n0 W 0 4096\n");
    for (workload, called) in [(None, "the sample trace"), (Some("one.trace"), "one.trace")] {
        for option in [
            ["--footprint", "1g"],
            ["--bs", "4k"],
            ["--read-share", "0.5"],
            ["--theta", "0.9"],
            ["--files", "4"],
            ["--loops", "4"],
        ] {
            let command = [&["compare"], workload.as_slice(), &option[..]].concat();
            let line = place.refused(&command);
            let expected = format!("{} is for generators, and {called} is a trace: ", option[0]);
            assert!(line.starts_with(&expected), "{line}");
        }
    }
}

/// What says how a trace is read was ignored beside a workload that is made.
#[test]
fn options_of_traces_were_ignored_with_a_workload() {
    let place = Place::new();
    for command in [&["compare", "uniform"], &["mrc", "uniform"]] {
        for option in [
            ["--format", "msr"],
            ["--bad-lines", "2%"],
            ["--block-size", "4k"],
        ] {
            assert_eq!(
                place.refused(&with(command, &option)),
                format!(
                    "{} is for traces, and uniform is a workload that is made: leave it out",
                    option[0]
                )
            );
        }
    }
    let line = place.refused(&["compare", "uniform", "--overlay"]);
    assert!(line.starts_with("--overlay is for traces, "), "{line}");
}

/// `--rwmixread` of a job that only reads was ignored, and so was what says how writes are flushed.
#[test]
fn words_that_do_not_apply_to_a_bench_were_ignored() {
    let place = Place::new();
    let job = ["bench", "f", "--size", "1m", "--rw", "randread"];
    for (more, line) in [
        (
            &["--rwmixread", "30"][..],
            "--rwmixread is for --rw rw and randrw: leave it out",
        ),
        (
            &["--fsync", "8"],
            "--fsync is for jobs that write: leave it out",
        ),
        (
            &["--end-fsync", "0"],
            "--end-fsync is for jobs that write: leave it out",
        ),
        (
            &["--iodepth", "8", "--designs", "scale"],
            "--iodepth is for the row direct: leave it out",
        ),
        (
            &["--designs", "scale,scale"],
            "--designs: scale is there twice: name each once",
        ),
    ] {
        assert_eq!(place.refused(&with(&job, more)), line);
    }
}

/// A design that was named twice had two equal rows.
#[test]
fn a_design_that_is_named_twice_is_refused() {
    let place = Place::new();
    assert_eq!(
        place.refused(&with(&QUICK, &["--designs", "clock,direct,clock"])),
        "--designs: clock is there twice: name each once"
    );
}

/// What clap refuses was told over several lines, with advice to pass a wrong option as a value.
#[test]
fn wrong_arguments_are_told_in_one_line() {
    let place = Place::new();
    let shows = "(--help shows how)";
    for (arguments, line) in [
        (
            &["compare", "--reqests", "5"][..],
            format!("unexpected argument '--reqests' found; a similar argument exists: '--requests' {shows}"),
        ),
        (
            &["compare", "--nothing"],
            format!("unexpected argument '--nothing' found {shows}"),
        ),
        (
            &["bench"],
            format!("the following required arguments were not provided: <FILE> {shows}"),
        ),
        (
            &["completions", "tcsh"],
            "invalid value 'tcsh' for '<SHELL>' [possible values: bash, elvish, fish, powershell, zsh]; a similar value exists: 'zsh'"
                .into(),
        ),
    ] {
        assert_eq!(place.refused(arguments), line);
    }
}

/// Memory and disk that there are not were found out amid the work, by an abort or a kill.
#[test]
fn too_much_is_refused_before_anything_begins() {
    let place = Place::new();
    let cases: &[(&[&str], &str)] = &[
        (
            &["bench", "f", "--size", "8p"],
            "a file of this --size needs 24.0 TiB of memory, and ",
        ),
        (
            &["mrc", "uniform", "--requests", "1T"],
            "a workload of 1000000000000 requests needs 10.9 TiB of memory, and ",
        ),
        (
            &[
                "compare",
                "uniform",
                "--requests",
                "1k",
                "--prepare",
                "steady",
                "--drives",
                "64",
                "--drive",
                "tlc",
            ],
            "what is on the drives needs ",
        ),
        (
            &[
                "drive",
                "prepare",
                "tlc",
                "x.img",
                "--set",
                "drive.media.kind=ram",
                "--set",
                "drive.geometry.channels=256",
            ],
            "a drive so full needs ",
        ),
    ];
    for (arguments, start) in cases {
        let line = place.refused(arguments);
        assert!(line.starts_with(start), "{line}");
    }
}

/// A file called .csv got our own format, which is none.
#[test]
fn a_converted_trace_called_csv_was_no_csv() {
    let place = Place::new();
    assert_eq!(
        place.refused(&["trace", "convert", SAMPLE, "out.csv"]),
        "out.csv would not be CSV but Wharf's own format: say --to msr, or --to wharf"
    );
}

#[test]
fn a_rule_or_a_block_size_that_the_workload_does_not_have_is_refused() {
    let place = Place::new();
    place.write("one.trace", "# wharf trace 1\n0 W 0 4096\n");
    assert_eq!(
        place.refused(&["compare", "one.trace", "--rule", "process"]),
        "--rule process: one.trace does not say which process made a request: use another rule"
    );
    assert_eq!(
        place.refused(&["trace", "stat", "one.trace", "--block-size", "4k"]),
        "one.trace is in format wharf, which says its units: only lis traces have a --block-size"
    );
    assert_eq!(
        place.refused(&["trace", "stat", "one.trace", "--block-size", "4g"]),
        "--block-size 4294967296: give 1 byte to 1 MiB"
    );
}
