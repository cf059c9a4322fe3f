"""Comparisons: rows that pandas takes, the figures and errors of the command line."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pandas
import pytest

import wharf

FEW: dict[str, Any] = {"requests": 400, "footprint": "512KiB", "clients": 2, "drive": "tiny"}


def test_rows_are_a_table_that_says_what_was_run() -> None:
    rows = wharf.compare("zipf", designs=["direct", "clock"], cache="25%", seed=7, set={"host.write_policy": "write-through"}, **FEW)
    table = pandas.DataFrame(rows)
    assert list(table.design) == ["direct", "clock"]
    assert set(table["workload.name"]) == {"zipf"}
    assert set(table["drive.preset"]) == {"tiny"}
    assert (table.seed == 7).all() and (table.requests == 400).all() and table.complete.all()
    assert (table["latency_us.p50"] <= table["latency_us.p99"]).all()
    # A figure that there is not is none, and not 0.
    assert pandas.isna(table.hit_ratio[0]) and 0 < table.hit_ratio[1] < 1
    assert rows.report["workload"]["requests"] == 400
    # Curves are lists of points.
    assert rows[1]["latency_cdf"][-1][1] == 1


def test_figures_follow_from_the_seed() -> None:
    def figures(seed: int) -> list[dict[str, object]]:
        rows = wharf.compare("zipf", designs="clock", seed=seed, **FEW)
        return [{name: figure for name, figure in row.items() if name != "wall_seconds"} for row in rows]

    assert figures(1) == figures(1)
    assert figures(1) != figures(2)


def test_every_figure_of_the_report_is_in_its_row() -> None:
    rows = wharf.compare("uniform", designs="scala", **FEW)

    def figures(value: object) -> int:
        return sum(map(figures, value.values())) if isinstance(value, dict) else 1

    assert len(rows[0]) == figures(rows.report["rows"][0]) + 7
    assert json.loads(json.dumps(rows)) == list(rows)


def test_values_are_written_as_the_command_line_has_them() -> None:
    rows = wharf.compare(
        "uniform", designs="clock", read_share=1, cache=1 << 17, set={"host.cache_of": "drive", "drive.ftl.volatile_write_cache": False}, **FEW
    )
    assert rows[0]["cache_bytes"] == 1 << 17 and rows[0]["writes"] == 0
    assert rows.report["drive"]["parameters"]["volatile_write_cache"] is False


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"workload": "nosuch"}, 'no file \'nosuch\', and no workload "nosuch"'),
        ({"workload": "--help"}, "no file '--help'"),
        ({"workload": "zipf", "designs": ["clok"]}, "no design 'clok'; nearest is 'clock'"),
        ({"workload": "zipf", "requests": -5}, "invalid value '-5' for '--requests <N>'"),
        ({"workload": "zipf", "cache": "huge"}, "--cache: 'huge' is neither a share nor a size"),
        ({"workload": "zipf", "set": {"drive.x": 3}}, "unknown key 'drive.x'"),
        ({"workload": "zipf", "threads": 3}, "required arguments were not provided: --real"),
        ({"theta": 0.5}, "--theta is for generators"),
    ],
)
def test_errors_are_the_lines_of_the_command_line(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as raised:
        wharf.compare(**arguments)
    assert line in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(tmp_path: pathlib.Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a directory"):
        wharf.compare(tmp_path)
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\3" + bytes(20))
    with pytest.raises(OSError, match="cannot"):
        wharf.compare(damaged)
