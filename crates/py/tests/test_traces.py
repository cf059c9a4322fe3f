"""Traces as arrays."""

from __future__ import annotations

import gzip
import pathlib

import numpy
import pandas
import pytest

import wharf


def test_columns_are_arrays_of_the_promised_kinds(tmp_path: pathlib.Path) -> None:
    text = "# wharf trace 1\n0 W 0 8192\n1000 R 4096 512\n2000 F 0 8192\n3000 D 4096 4096\n"
    path = tmp_path / "four.gz"
    path.write_bytes(gzip.compress(text.encode()))
    trace = wharf.read_trace(path)
    assert trace["time"].tolist() == [0, 1000, 2000, 3000]
    assert trace["op"].tolist() == [wharf.WRITE, wharf.READ, wharf.FLUSH, wharf.DISCARD]
    assert trace["offset"].tolist() == [0, 4096, 0, 4096]
    assert trace["bytes"].tolist() == [8192, 512, 8192, 4096]
    assert trace["stream"].tolist() == [0, 0, 0, 0]
    kinds = {name: column.dtype.name for name, column in trace.items()}
    assert kinds == {"time": "int64", "op": "uint8", "offset": "uint64", "bytes": "uint32", "stream": "uint32"}
    # They are the caller's own.
    trace["offset"] += numpy.uint64(1)
    assert pandas.DataFrame(trace).offset.sum() == 8196


def test_a_table_is_read_as_its_columns_are_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n8,R,2\n16,W,1\n")
    trace = wharf.read_trace(path, columns={"offset": "a", "op": 2, "size": "c", "unit": "sector"})
    assert trace["offset"].tolist() == [4096, 8192] and trace["bytes"].tolist() == [1024, 512]
    # A trace without times.
    assert trace["time"].tolist() == [-1, -1]
    assert wharf.read_trace(path, "csv", "offset=a,op=2,size=c,unit=sector")["op"].tolist() == [wharf.READ, wharf.WRITE]


def test_the_sample_is_whole(sample: pathlib.Path) -> None:
    trace = wharf.read_trace(str(sample))
    assert {len(column) for column in trace.values()} == {61_473}
    assert (numpy.diff(trace["time"]) >= 0).all()


def test_what_cannot_be_read_is_said(tmp_path: pathlib.Path, sample: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot open trace"):
        wharf.read_trace(tmp_path / "nosuch")
    with pytest.raises(IsADirectoryError):
        wharf.read_trace(tmp_path)
    with pytest.raises(ValueError, match='no trace format "msrx"; nearest is "msr"'):
        wharf.read_trace(sample, format="msrx")
    with pytest.raises(ValueError, match="no key \"a\""):
        wharf.read_trace(sample, columns={"a": 1})
    text = tmp_path / "text"
    text.write_text("once upon a time\n")
    with pytest.raises(ValueError, match="is in no trace format known here"):
        wharf.read_trace(text)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(sample.read_bytes()[:-1000])
    with pytest.raises(OSError, match="the file may be cut short or damaged"):
        wharf.read_trace(cut)
