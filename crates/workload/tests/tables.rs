//! Tables: columns that a header names, and columns that are named for it.

#![allow(missing_docs)]

use wharf_workload::Op::{Discard, Flush, Read, Write};
use wharf_workload::{Columns, Format, Op, ReadOptions, Request, TraceReader, Workload};

fn read(text: &str, columns: Option<&str>) -> Result<(Vec<Request>, Vec<String>), String> {
    let options = ReadOptions {
        columns: columns.map(|columns| columns.parse::<Columns>().expect("columns")),
        ..ReadOptions::default()
    };
    let reader = TraceReader::from_bytes("table", text.as_bytes().to_vec(), &options);
    let reader = reader.map_err(|error| error.to_string())?;
    assert_eq!(reader.format(), Format::Csv);
    let all = Workload::from_stream(reader).materialise();
    let (requests, info) = all.map_err(|error| error.to_string())?;
    assert_eq!(info.bad_lines, 0);
    Ok((requests, info.notes))
}

fn request(time_ns: u64, op: Op, offset: u64, bytes: u32, stream: u32) -> Request {
    Request {
        time_ns,
        stream,
        ..Request::new(op, offset, bytes)
    }
}

#[test]
fn headers_name_columns_in_many_words() {
    for (text, requests) in [
        (
            "timestamp_us,op,offset,size\n10,R,4096,8192\n11,write,0,512\n",
            vec![
                request(10_000, Read, 4096, 8192, 0),
                request(11_000, Write, 0, 512, 0),
            ],
        ),
        // Sectors by the name; sizes that are no whole sectors as bytes are sectors too.
        (
            "Time;LBA;Length;RW\n0.5;8;16;w\n1.25;100;8;r\n",
            vec![
                request(500_000_000, Write, 4096, 8192, 0),
                request(1_250_000_000, Read, 51_200, 4096, 0),
            ],
        ),
        // Sizes that are whole sectors as bytes are bytes, beside sectors.
        (
            "lba\tsize\ttype\n8\t4096\tRead\n9\t512\tWRITE\n",
            vec![
                request(Request::NO_TIME, Read, 4096, 4096, 0),
                request(Request::NO_TIME, Write, 4608, 512, 0),
            ],
        ),
        // Unix times say their unit, and names may be quoted.
        (
            "\"Device ID\",\"Offset (bytes)\",\"Size (bytes)\",\"Op Type\",\"Timestamp\"\n3,0,4096,D,1577808000000\n3,4096,4096,flush,1577808000001\n",
            vec![
                request(1_577_808_000_000_000_000, Discard, 0, 4096, 3),
                request(1_577_808_000_001_000_000, Flush, 4096, 4096, 3),
            ],
        ),
        // Pages alone: reads of one page each.
        (
            "page,time_ms\n7,1\n9,3\n",
            vec![
                request(1_000_000, Read, 7 * 4096, 4096, 0),
                request(3_000_000, Read, 9 * 4096, 4096, 0),
            ],
        ),
    ] {
        let (found, notes) = read(text, None).unwrap();
        assert_eq!(found, requests, "{text}");
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with("taken as a table: ")),
            "{notes:?}"
        );
    }
}

#[test]
fn columns_are_named_where_the_header_does_not() {
    for (text, columns, expected) in [
        (
            "a,b,c,d\n1,2,8,0\n2,4,8,1\n",
            "timestamp=a,offset=b,size=c,op=d,unit=sector,time=ms,read=0",
            vec![
                request(1_000_000, Read, 1024, 4096, 0),
                request(2_000_000, Write, 2048, 4096, 0),
            ],
        ),
        (
            "1,W,5,1,77\n2,R,6,2,78\n",
            "timestamp=1,op=2,offset=3,size=4,stream=5,unit=page,time=ns",
            vec![
                request(1, Write, 5 * 4096, 4096, 77),
                request(2, Read, 6 * 4096, 8192, 78),
            ],
        ),
        // What is named goes before what the header has.
        (
            "offset,size,guest_offset\n0,4096,8192\n",
            "offset=guest_offset",
            vec![request(Request::NO_TIME, Read, 8192, 4096, 0)],
        ),
    ] {
        assert_eq!(read(text, Some(columns)).unwrap().0, expected, "{columns}");
    }
}

#[test]
fn what_a_table_does_not_say_is_asked_for() {
    for (text, columns, says) in [
        (
            "time,op,where,size\n1,R,0,512\n",
            None,
            "no column for offset",
        ),
        ("time,offset,size\n1,0,512\n", None, "say --columns time=us"),
        (
            "op,offset,size\n0,0,512\n1,0,512\n",
            None,
            "say --columns read=0",
        ),
        ("a,b\n1,2\n", Some("offset=c"), "no column for c (a, b)"),
        ("a,b\n1,2\n", Some("offset=3"), "no column 3"),
        ("5,6\n1,2\n", Some("size=2"), "with their numbers from 1"),
    ] {
        let error = read(text, columns).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    for (columns, says) in [
        ("offset", "not key=value"),
        ("offset=", "not key=value"),
        ("place=1", "no key \"place\""),
        ("unit=block", "unit is"),
        ("time=h", "time is"),
        ("offset=0", "from 1"),
    ] {
        let error = columns.parse::<Columns>().unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("an example is"),
            "{error}"
        );
    }
    let options = ReadOptions {
        format: Some(Format::Msr),
        columns: Some("offset=1".parse().unwrap()),
        ..ReadOptions::default()
    };
    let refused = TraceReader::from_bytes("x", b"offset\n1\n".to_vec(), &options);
    let error = refused.err().expect("it has its columns").to_string();
    assert!(
        error.contains("only a table (csv) takes --columns"),
        "{error}"
    );
}

/// Lines that are none of the table, or numbers that do not fit, are bad lines and nothing else.
#[test]
fn lines_that_do_not_fit_are_bad_ones() {
    let mut text = String::from("time_ns,op,offset,size\n");
    for time in 0..100 {
        text += &format!("{time},R,{},4096\n", time * 4096);
    }
    for bad in [
        "5,R",
        "5,X,0,4096",
        "5,R,-1,4096",
        "5,R,0,4096x",
        "x,R,0,1",
        "5,R,99999999999999999999,1",
        "5,R,0,0",
    ] {
        let text = format!("{text}{bad}\n");
        let reader =
            TraceReader::from_bytes("t", text.into_bytes(), &ReadOptions::default()).unwrap();
        let (requests, info) = Workload::from_stream(reader).materialise().unwrap();
        assert_eq!((requests.len(), info.bad_lines), (100, 1), "{bad}");
    }
}
