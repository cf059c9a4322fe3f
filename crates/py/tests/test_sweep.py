"""Sweeps: a row for each combination of values and design."""

from __future__ import annotations

from typing import Any

import pandas
import pytest

import wharf

FEW: dict[str, Any] = {"requests": 300, "footprint": "512KiB", "clients": 2, "drive": "tiny"}


def test_every_combination_has_a_row() -> None:
    rows = wharf.sweep("zipf", designs=["direct", "clock"], cache=["10%", "50%"], set={"drive.timing.read_ns": ["10us", "50us"]}, seed=3, **FEW)
    table = pandas.DataFrame(rows)
    assert len(table) == 8 and table.complete.all() and (table.seed == 3).all()
    assert list(table["axes.cache"]) == ["10%"] * 4 + ["50%"] * 4
    assert list(table["axes.drive.timing.read_ns"]) == ["10us", "10us", "50us", "50us"] * 2
    assert rows.report["schema"] == "wharf.sweep/1" and rows.report["missing"] == []
    # The same as one by one, however many run at a time.
    one = wharf.compare("zipf", designs="clock", cache="50%", set={"drive.timing.read_ns": "50us"}, seed=3, **FEW)[0]
    assert rows[7]["design"] == "clock" and all(rows[7][name] == one[name] for name in ("iops", "hit_ratio", "latency_us.p99", "config_hash"))
    assert wharf.sweep(["zipf", "uniform"], designs="clock", jobs=1, **FEW).report["points"] == 2


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"cach": ["5%"]}, "cach"),
        ({"cache": ["5%", "huge"]}, "huge"),
        ({"designs": ["clok"], "cache": ["5%", "6%"]}, "no design 'clok'"),
        ({"real": True, "cache": ["5%", "6%"]}, "real"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as raised:
        wharf.sweep("zipf", **options)
    assert line in str(raised.value)
