//! Traces of operations on files: what is written is read, and mistakes are told.

use super::*;
use crate::error::WorkloadError;

fn read(text: &[u8]) -> Result<(Names, Vec<FileOp>), WorkloadError> {
    let reader = FileTraceReader::from_bytes("t", text.to_vec())?;
    let mut reader = reader.expect("it has the header");
    let mut ops = Vec::new();
    while let Some(op) = reader.next_op()? {
        ops.push(op);
    }
    Ok((reader.into_names(), ops))
}

/// What a trace says of an operation.
fn said(op: &FileOp) -> FileOp {
    let arguments = arguments(op.kind);
    let has_offset = matches!(arguments, Arguments::Range | Arguments::Size);
    let has_bytes = matches!(arguments, Arguments::Range | Arguments::Bytes);
    FileOp {
        offset: if has_offset { op.offset } else { 0 },
        bytes: if has_bytes { op.bytes } else { 0 },
        ..*op
    }
}

#[test]
fn what_is_written_is_read() {
    for (_, personality) in Personality::ALL {
        let spec = FileSpec {
            personality,
            requests: 2_000,
            files: if personality.is_lsm() { 4 * 48 } else { 8 },
            threads: 4,
            footprint_bytes: Some(16 << 20),
            request_bytes: 4096,
            stride_bytes: None,
            job: FileJob::default(),
            seed: 3,
        };
        let made = spec.operations().unwrap();
        let names = made.names().clone();
        let ops: Vec<FileOp> = made.collect();
        let mut text = Vec::new();
        write_file_trace(&names, ops.iter().copied(), &mut text).unwrap();
        let (found, again) = read(&text).unwrap();
        // Names are numbered as they come.
        let path = |names: &Names, file: u32| names.paths[file as usize].clone();
        assert_eq!(again.len(), ops.len());
        for (one, other) in ops.iter().map(said).zip(&again) {
            assert_eq!(path(&names, one.file), path(&found, other.file));
            assert_eq!(FileOp { file: 0, ..one }, FileOp { file: 0, ..*other });
        }
        let existing = |names: &Names| -> Vec<_> {
            let all = names.existing.iter();
            all.map(|(file, what)| (path(names, *file), *what))
                .collect()
        };
        assert_eq!(existing(&names), existing(&found));
    }
}

#[test]
fn every_operation_has_its_line() {
    let text = b"# wharf file trace 1\n\
        dir /a%20b\n\
        file /a%20b/c 8192\n\
        # a comment\n\
        \n\
        100 0 open /a%20b/c ct\n\
        - 1 read /a%20b/c 4096 512\n\
        - 1 rename /a%20b/c /d%25\n\
        - 1 truncate /d%25 0\n\
        - 2 close /d%25\r\n";
    let (names, ops) = read(text).unwrap();
    assert_eq!(&*names.paths[0], "/a b");
    assert_eq!(&*names.paths[2], "/d%");
    assert_eq!(names.existing[1], (1, Existing::File(8192)));
    assert_eq!(ops.len(), 5);
    assert_eq!(ops[0].time(), Some(100));
    assert!(ops[0].how.has(OpenHow::CREATE) && ops[0].how.has(OpenHow::TRUNCATE));
    assert_eq!((ops[1].offset, ops[1].bytes, ops[2].other), (4096, 512, 2));
    let mut written = Vec::new();
    write_file_trace(&names, ops.clone(), &mut written).unwrap();
    assert_eq!(read(&written).unwrap(), (names, ops));
    let other = FileTraceReader::from_bytes("t", b"# wharf trace 1\n".to_vec());
    assert!(other.unwrap().is_none());
}

#[test]
fn a_mistake_is_told_by_file_line_and_cause() {
    for (line, cause) in [
        ("- 0 fly /a", "operation is none that the format allows"),
        ("- 0 read /a 0", "bytes is missing"),
        ("- 0 read /a 0 0", "bytes is 0"),
        ("- 0 read /a 0 99999999999", "bytes is too large"),
        ("- 0 read a 0 1", "name is none"),
        ("- 0 stat /%zz", "escape in the name"),
        ("- 0 stat /%00", "name is none"),
        ("- 0 stat /%ff", "name is none"),
        ("- 0 stat /a b", "is followed by"),
        ("- 0 open /a cc", "flags is none"),
        ("x 0 stat /a", "time is not a number"),
        ("- 0 truncate /a 99999999999999999999", "size is too large"),
        ("- 0 stat /a\ndir /b", "after the first operation"),
    ] {
        let text = format!("# wharf file trace 1\n\n{line}\n");
        let error = read(text.as_bytes()).unwrap_err().to_string();
        let number = 3 + line.matches('\n').count();
        assert!(
            error.starts_with(&format!("t: line {number}: ")) && error.contains(cause),
            "{line}: {error}"
        );
    }
    let long = format!("# wharf file trace 1\n- 0 stat /{}\n", "x".repeat(5_000));
    assert!(
        read(long.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("too large")
    );
}
