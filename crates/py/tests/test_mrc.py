"""Miss-ratio curves of traces, workloads and arrays."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy
import pandas
import pytest

import wharf


def test_a_trace_and_its_pages_have_the_same_curves(sample: pathlib.Path) -> None:
    of_file = wharf.mrc(sample, policies=["lru", "arc"], sizes=["5%", 100, "1MiB"])
    trace = wharf.read_trace(sample)
    moves = trace["op"] <= wharf.WRITE
    first = trace["offset"][moves] // 4096
    last = (trace["offset"][moves] + trace["bytes"][moves] - 1) // 4096
    # The two files of the trace have pages of their own.
    device = trace["stream"][moves].astype(numpy.uint64) << numpy.uint64(40)
    pages = numpy.concatenate([numpy.arange(a, b + 1, dtype=numpy.uint64) for a, b in zip(first + device, last + device)])
    of_pages = wharf.mrc(pages, policies=["lru", "arc"], sizes=["5%", 100, "1MiB"])
    figures = ["policy", "cache_pages", "cache_bytes", "cache_share", "hit_ratio"]
    assert pandas.DataFrame(of_file)[figures].equals(pandas.DataFrame(of_pages)[figures])
    assert len(of_file) == 6 and of_file.report["page_touches"] == len(pages) == of_pages.report["page_touches"]


def test_an_array_is_as_textbooks_have_it() -> None:
    # 1 2 3 4 1 2 5 1 2 3 4 5, of Belady's anomaly: 3 frames of FIFO hit 3 times, 4 frames 2 times.
    pages = numpy.array([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5])
    rows = wharf.mrc(pages, policies="fifo", sizes=[3, 4])
    assert [row["hit_ratio"] * 12 for row in rows] == pytest.approx([3, 2])
    # Any kind of whole numbers, in any layout, up to the largest; lists too.
    largest = numpy.array([2**64 - 1, 0] * 3, dtype=numpy.uint64)[::-1]
    assert wharf.mrc(largest, policies="lru", sizes=2)[0]["hit_ratio"] == pytest.approx(4 / 6)
    assert wharf.mrc([7, 7, 8], policies="lru", sizes=1)[0]["hit_ratio"] == pytest.approx(1 / 3)


def test_a_workload_by_name_and_a_sample() -> None:
    rows = wharf.mrc("zipf", requests=50_000, seed=3, policies=["lru"], sizes=["10%"], sample="20%")
    assert rows[0]["sample"] == 0.2 and 0 < rows[0]["hit_ratio"] < 1
    assert rows == wharf.mrc("zipf", requests=50_000, seed=3, policies=["lru"], sizes=["10%"], sample=0.2)


@pytest.mark.parametrize(
    ("trace", "options", "line"),
    [
        ("zipf", {"policies": "mru"}, "mru"),
        ("zipf", {"sizes": ["0%"]}, "'0%' is no size of a cache"),
        ("zipf", {"sample": 2}, "'2' is not a share"),
        ([1.5], {}, "give one dimension of page numbers"),
        ([[1]], {}, "give one dimension of page numbers"),
        ([-1, 2], {}, "page number -1: they begin with 0"),
        ([], {}, "array has no reads and writes to look at"),
        (None, {}, "give one dimension of page numbers"),
        ([1], {"seed": 1}, "seed is for traces and workloads, and this is an array"),
    ],
)
def test_what_cannot_be_is_said(trace: Any, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as raised:
        wharf.mrc(trace, **options)
    assert line in str(raised.value)


def test_a_trace_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="cannot open trace nosuch.gz"):
        wharf.mrc("nosuch.gz")
