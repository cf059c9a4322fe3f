//! One line of each format and exactly the request that it must give; then the whole stream of each
//! generator, pinned.

use wharf_workload::{
    BadLinePolicy, Format, NamedOptions, Op, ReadOptions, Request, TraceReader, Workload,
    WorkloadError, named,
};

fn read(format: &str, text: &str) -> Result<Vec<Request>, WorkloadError> {
    let options = ReadOptions {
        format: Some(format.parse().unwrap()),
        bad_lines: BadLinePolicy {
            share: 0.0,
            grace: 0,
        },
        ..ReadOptions::default()
    };
    TraceReader::from_bytes("line", text.as_bytes().to_vec(), &options)
        .map(Workload::from_stream)
        .and_then(Workload::materialise)
        .map(|(requests, _)| requests)
}

#[test]
fn each_format_gives_exactly_its_request() {
    use Op::{Discard, Flush, Read, Write};
    const NO: u64 = Request::NO_TIME;
    let md5 = "98b9cb7e1dd888f9dac2bf08af1c3cb2";
    let fiu = format!("467651 2522 kjournald 644661632 8 W 6 0 {}", md5.repeat(8));
    #[rustfmt::skip]
    let rows: [(&str, &str, Request); 32] = [
        ("wharf", "# wharf trace 1\n# comment\n12 W 4096 512 3", Request { time_ns: 12, stream: 3, ..Request::new(Write, 4096, 512) }),
        ("wharf", "# wharf trace 1\r\n- R 1 1\r\n", Request { time_ns: NO, stream: 0, ..Request::new(Read, 1, 1) }),
        ("wharf", "# wharf trace 1\n7 D 4096 4294967295 3 9", Request { time_ns: 7, stream: 3, process: 9, ..Request::new(Discard, 4096, u32::MAX) }),
        ("wharf", "# wharf trace 1\n- F 0 8192", Request::new(Flush, 0, 8192)),
        ("msr", "128166372010810581,mds,1,Write,2654453760,4096,54086", Request { time_ns: 12_816_637_201_081_058_100, stream: 1, ..Request::new(Write, 2_654_453_760, 4096) }),
        ("fiu", &fiu, Request { time_ns: 467_651, stream: 6 << 20, process: 2522, ..Request::new(Write, 644_661_632 * 512, 4096) }),
        ("tencent", "1538323200,4247200,128,1,1058", Request { time_ns: 1_538_323_200_000_000_000, stream: 1058, ..Request::new(Write, 4_247_200 * 512, 65_536) }),
        ("alibaba", "419,W,8792731648,16384,1577808144360767", Request { time_ns: 1_577_808_144_360_767_000, stream: 419, ..Request::new(Write, 8_792_731_648, 16_384) }),
        ("csv", "time_us,rw,offset,bytes,disk\n7,read,4096,512,3", Request { time_ns: 7_000, stream: 3, ..Request::new(Read, 4096, 512) }),
        ("systor17", "1456095145.133076000,0.000806000,R,0,899056122368,131072", Request { time_ns: 1_456_095_145_133_076_000, stream: 0, ..Request::new(Read, 899_056_122_368, 131_072) }),
        ("systor17", "5.5,,W,6,4096,512", Request { time_ns: 5_500_000_000, stream: 6, ..Request::new(Write, 4096, 512) }),
        ("cloudphysics", "1,5633898,2a,512,42932745", Request { time_ns: 5_633_898_000_000_000, stream: 0, ..Request::new(Write, 42_932_745 * 512, 512) }),
        ("disksim", "7961.833 0 20228336 8 0", Request { time_ns: 7_961_833_000, stream: 0, ..Request::new(Write, 20_228_336 * 512, 4096) }),
        ("disksim", "  1.5\t2  8   9 3 ", Request { time_ns: 1_500_000, stream: 2, ..Request::new(Read, 4096, 4608) }),
        ("mqsim", "938513000 4 264719034 16 1", Request { time_ns: 938_513_000, stream: 4, ..Request::new(Read, 264_719_034 * 512, 8192) }),
        ("disksim-pages", "26.214000\t0\t303574\t2\t0", Request { time_ns: 26_214_000, stream: 0, ..Request::new(Write, 303_574 * 512, 8192) }),
        ("heimdall", "223.412 0 3159347200 36864 0", Request { time_ns: 223_412_000, stream: 0, ..Request::new(Write, 3_159_347_200, 36_864) }),
        ("spc", "3,20941264,8192,W,0.551706", Request { time_ns: 551_706_000, stream: 3, ..Request::new(Write, 20_941_264 * 512, 8192) }),
        ("spc", "0, 8, 512, r, 2.5, more, fields", Request { time_ns: 2_500_000_000, stream: 0, ..Request::new(Read, 4096, 512) }),
        ("lis", "17 2 0 5", Request::new(Read, 17 * 512, 1024)),
        ("lis", "17 2 9 5", Request::new(Read, 17 * 512, 1024)),
        ("blkparse", "259,2    0        1     0.000000009  4020  Q   R 282624 + 8 [java]", Request { time_ns: 9, stream: 259 << 20 | 2, process: 4020, ..Request::new(Read, 282_624 * 512, 4096) }),
        ("blkparse", "259,2 0 1 0.5 77 Q DS 8 + 8388607 [mkfs]", Request { time_ns: 500_000_000, stream: 259 << 20 | 2, process: 77, ..Request::new(Discard, 4096, 4_294_966_784) }),
        ("blkparse", "259,2 0 1 0.5 77 Q FDE 8 + 8 [mkfs]", Request { time_ns: 500_000_000, stream: 259 << 20 | 2, process: 77, ..Request::new(Discard, 4096, 4096) }),
        ("fio", "fio version 2 iolog\n/dev/sda add\n/dev/sda trim 8192 4096\n/dev/sda sync 0 0\n/dev/sda close", Request::new(Discard, 8192, 4096)),
        ("fio", "fio version 2 iolog\n/dev/sda add\n/dev/sdb add\n/dev/sda open\n/dev/sdb write 2188587008 4096\n/dev/sda close", Request { time_ns: NO, stream: 1, ..Request::new(Write, 2_188_587_008, 4096) }),
        ("fio", "fio version 3 iolog\n17 /a add\n90 /a open\n100142 /a write 4096 512\n100150 /a sync 4096 0\n100160 /a close", Request { time_ns: 100_142_000, ..Request::new(Write, 4096, 512) }),
        ("fio", "fio version 3 iolog\r\n0 /a add\r\n0 /b add\r\n3 /b trim 0 8192\r\n", Request { time_ns: 3000, stream: 1, ..Request::new(Discard, 0, 8192) }),
        ("biotracer", "61071352\t\t8\t\t4096\t\t5\t\t1.741484950\t\t1.741496200\t\t1.741512034\t\t1.741914534", Request { time_ns: 1_741_484_950, stream: 0, ..Request::new(Write, 61_071_352 * 512, 4096) }),
        ("ascii:time=us,offset=page,size=byte,read=0", "7 1 2 100 0", Request { time_ns: 7000, stream: 1, ..Request::new(Read, 8192, 100) }),
        ("ascii:time=s,offset=byte,size=sector,read=1", "7.25 1 2 1 0", Request { time_ns: 7_250_000_000, stream: 1, ..Request::new(Write, 2, 512) }),
        ("ascii:time=ns,offset=byte,size=page,read=1", "7 1 2 1 1", Request { time_ns: 7, stream: 1, ..Request::new(Read, 2, 4096) }),
    ];
    for (format, text, expected) in rows {
        let got = read(format, text).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(got, [expected], "{format}: {text}");
    }
}

#[test]
fn lines_that_nearly_fit_are_refused() {
    for (format, text) in [
        ("wharf", "# wharf trace 2\n1 R 0 1"),
        ("wharf", "# wharf trace 1\n1 r 0 1"),
        ("wharf", "# wharf trace 1\n1 R 0 0"),
        ("wharf", "# wharf trace 1\n1 R 0 1 2 3 4"),
        ("wharf", "# wharf trace 1\n1 T 0 1"),
        ("msr", "1,mds,0,write,0,4096,5"),
        ("msr", "1,mds,0,Write,0,4096"),
        ("fiu", "1 2 p 3 8 W 6 0 0123"),
        ("tencent", "12,0,8,0,1"),
        ("alibaba", "419,w,0,16384,1577808144360767"),
        ("csv", "time_us,rw,where,bytes\n7,read,4096,512"),
        ("csv", "time_us,rw,offset,bytes\n7,seek,4096,512"),
        ("systor17", "1.5,0.1,X,0,0,512"),
        ("cloudphysics", "1,5633898,zz,512,42932745"),
        ("disksim", "7961 0 20228336 8 0"),
        ("mqsim", "7961.5 0 20228336 8 0"),
        ("mqsim", "7961 0 20228336 8 2"),
        ("heimdall", "1.5 0 100 4096 0"),
        ("spc", "0,8,512,X,2.5"),
        ("lis", "17 2 5"),
        ("lis", "17 0 0 5"),
        ("blkparse", "8,16 0 1 5 4020 Q R 0 + 8 [x]"),
        ("fio", "/dev/sda write 0 4096"),
        ("fio", "fio version 4 iolog\n1 /dev/sda write 0 4096"),
        ("fio", "fio version 2 iolog\n1 /dev/sda write 0 4096"),
        ("fio", "fio version 3 iolog\n/dev/sda write 0 4096"),
        (
            "fio",
            "fio version 3 iolog\n1 /dev/sda write 0 4096\n2 /dev/sda wait 5 0",
        ),
        (
            "fio",
            "fio version 3 iolog\n9999999999999999999 /dev/sda write 0 4096",
        ),
        ("biotracer", "8\t8\t4095\t0\t1.0\t1.0\t1.0\t1.0"),
    ] {
        assert!(read(format, text).is_err(), "{format} takes {text:?}");
    }
}

#[test]
fn other_hosts_and_files_get_streams_of_their_own() {
    let text = "1,a,3,Read,0,512,0\n1,b,3,Read,0,512,0\n1,a,0,Read,0,512,0\n1,b,3,Read,0,512,0\n";
    let streams: Vec<u32> = read("msr", text)
        .unwrap()
        .iter()
        .map(|r| r.stream)
        .collect();
    assert_eq!(streams, [3, 1 << 16 | 3, 0, 1 << 16 | 3]);
}

/// Values that must never change: reports name a workload by its seed.
#[test]
fn generated_streams_are_the_same_on_every_machine() {
    for (name, expected) in GOLDEN {
        let options = NamedOptions {
            requests: Some(50_000),
            seed: 12_345,
            ..NamedOptions::default()
        };
        let requests = named(name, &options).unwrap().materialise().unwrap().0;
        let hash = requests.iter().fold(0u64, |hash, request| {
            let op = u64::from(request.op == Op::Write);
            (hash ^ request.offset ^ (u64::from(request.bytes) << 40) ^ op)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(31)
        });
        assert_eq!(hash, expected, "{name}");
    }
}

const GOLDEN: [(&str, u64); 5] = [
    ("sequential", 6_219_199_260_559_542_107),
    ("uniform", 3_667_661_200_866_076_737),
    ("zipf", 16_298_807_879_889_820_493),
    ("webmail", 4_196_278_997_623_426_853),
    ("T1205", 14_077_584_262_812_142_655),
];

#[test]
fn every_format_name_is_documented() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/traces.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for format in Format::NAMED {
        assert!(
            docs.contains(&format!("`{}`", format.name())),
            "{format} is not in docs/traces.md"
        );
    }
    for name in wharf_workload::named::names() {
        assert!(
            docs.contains(&format!("`{name}`")),
            "{name} is not in docs/traces.md"
        );
    }
}
