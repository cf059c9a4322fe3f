"""Comparisons, sweeps and curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _wharf
from ._words import Name, Value, listed, table, words

if TYPE_CHECKING:
    import numpy


class Rows(list[dict[str, Any]]):
    """Rows of figures, which `pandas.DataFrame` takes; `report` is all that the command line writes as JSON."""

    report: dict[str, Any]

    def __init__(self, rows: Iterable[dict[str, Any]], report: dict[str, Any]) -> None:
        super().__init__(rows)
        self.report = report


def flat(figures: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Figures of figures by names with a dot: `latency_us.p99`. Lists stay as they are."""
    found: dict[str, Any] = {}
    for name, figure in figures.items():
        if isinstance(figure, dict):
            found.update(flat(figure, f"{prefix}{name}."))
        else:
            found[prefix + name] = figure
    return found


# What a row says of the run: rows of several runs are told apart by it.
OF_RUN = ("workload.name", "workload.clients", "workload.depth", "drive.preset", "cache_bytes", "seed", "config_hash")


def compare(
    workload: Name | None = None,
    *,
    designs: str | Iterable[str] | None = None,
    cache: Value | None = None,
    clients: int | None = None,
    depth: int | None = None,
    drive: Name | None = None,
    drives: int | None = None,
    backing: Name | None = None,
    backing_drives: int | None = None,
    host: Name | None = None,
    costs: Name | None = None,
    set: Mapping[str, Value] | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    prepare: Name | None = None,
    real: bool = False,
    threads: int | None = None,
    profile: bool = False,
    speed: float | None = None,
    rule: str | None = None,
    fit: str | None = None,
    requests: int | None = None,
    footprint: Value | None = None,
    bs: Value | None = None,
    read_share: float | None = None,
    theta: float | None = None,
    files: int | None = None,
    loops: int | None = None,
    writers: int | None = None,
    fsync_every: int | None = None,
    view: Literal["blocks", "files"] | None = None,
    overlay: bool = False,
    format: str | None = None,
    bad_lines: str | None = None,
    blkparse_action: str | None = None,
    columns: str | Mapping[str, Value] | None = None,
    block_size: Value | None = None,
    volume: Value | Iterable[Value] | None = None,
) -> Rows:
    """Replays a workload through several designs: a row for each.

    Arguments are the options of `wharf compare` (`wharf compare --help`), with its defaults: the sample trace if no workload is named. `set` changes
    parameters: `set={"drive.timing.read_ns": "25us"}`. Names and units of the figures are those of `docs/report-schema.md`, figures of figures
    with a dot: `latency_us.p99`.

    Raises ValueError where an argument cannot be, OSError where a file cannot be read, RuntimeError where a run fails.
    """
    options = locals()
    first, sets = options.pop("workload"), options.pop("set")
    options |= {"designs": listed(designs), "columns": columns_word(columns), "volume": listed(volume)}
    report = json.loads(_wharf.compare(words(first, options, sets)))
    run = flat({name: part for name, part in report.items() if name != "rows"})
    of_run = {name: run[name] for name in OF_RUN}
    return Rows(({**of_run, **flat(row)} for row in report["rows"]), report)


def sweep(
    workload: Name | Iterable[Name] | None = None,
    *,
    designs: str | Iterable[str] | None = None,
    set: Mapping[str, Value | Iterable[Value]] | None = None,
    jobs: int | None = None,
    **options: Value | Iterable[Value] | None,
) -> Rows:
    """Replays every combination of some values, in virtual time, several at a time: a row for each combination and design.

    `options` are the arguments of `compare`, any of which may be a list of values, as may the workload and each value of `set`
    (`docs/sweeps.md`). What a row is of is under `axes.cache`, `axes.drive.timing.read_ns` and so on; `report` is that of `wharf.sweep/1` in
    `docs/report-schema.md`.

    Raises ValueError where an argument cannot be, OSError where a file cannot be read, RuntimeError where a run fails.
    """
    named = designs.split(",") if isinstance(designs, str) else designs
    report = json.loads(_wharf.sweep(table({"workload": workload, "designs": named, **options}, set), jobs))
    return Rows((flat(row) for row in report["rows"]), report)


def mrc(
    trace: Name | Sequence[int] | numpy.ndarray[Any, Any],
    *,
    policies: str | Iterable[str] | None = None,
    sizes: Value | Iterable[Value] | None = None,
    sample: Value | None = None,
    requests: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    format: str | None = None,
    bad_lines: str | None = None,
    blkparse_action: str | None = None,
    columns: str | Mapping[str, Value] | None = None,
    block_size: Value | None = None,
    volume: Value | Iterable[Value] | None = None,
) -> Rows:
    """Miss-ratio curves: what replacement policies hit, a row for each policy and size of cache.

    `trace` is a file, the name of a workload, or an array of page numbers in the order of their use. Arguments are the options of `wharf mrc`: a
    size is a share of the pages that are used ("5%"), a number of pages, or bytes with a unit ("64MiB").

    Raises ValueError where an argument cannot be, OSError where a file cannot be read.
    """
    options = locals()
    first = options.pop("trace")
    options |= {
        "policies": listed(policies),
        "sizes": listed(sizes),
        "columns": columns_word(columns),
        "volume": listed(volume),
    }
    if isinstance(first, str) or hasattr(first, "__fspath__"):
        report = json.loads(_wharf.mrc(words(first, options)))
    else:
        report = json.loads(_wharf.mrc(words(of_array(options), options), page_numbers(first)))
    of_trace = {"trace": report["trace"], "sample": report["sample"]}
    return Rows(({**of_trace, **row} for row in report["rows"]), report)


def of_array(options: Mapping[str, object]) -> str:
    """The name that an array has in reports. Nothing is made or read for it."""
    for name in ("requests", "seed", "format", "bad_lines", "blkparse_action", "columns", "block_size", "volume"):
        if options[name] is not None:
            raise ValueError(f"{name} is for traces and workloads, and this is an array: leave it out")
    return "array"


def page_numbers(pages: object) -> numpy.ndarray[Any, Any]:
    """Whole numbers from 0 on, as Rust takes them: without a copy if they are uint64."""
    import numpy

    given = numpy.asarray(pages)
    if given.shape == (0,):
        # Of no kind yet, if it is a list: what is wrong with it is that it is empty.
        given = given.astype(numpy.uint64)
    if given.ndim != 1 or given.dtype.kind not in "ui":
        raise ValueError(f"an array of {given.ndim} dimensions of {given.dtype}: give one dimension of page numbers (uint64)")
    if given.dtype.kind == "i" and given.size > 0 and given.min() < 0:
        raise ValueError(f"page number {given.min()}: they begin with 0")
    return numpy.ascontiguousarray(given, dtype=numpy.uint64)


def columns_word(columns: str | Mapping[str, Value] | None) -> str | None:
    """Which columns of a table are what, as the command line has it."""
    if isinstance(columns, Mapping):
        return listed(f"{key}={column}" for key, column in columns.items())
    return columns
