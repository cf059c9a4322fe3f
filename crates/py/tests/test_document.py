"""What docs/python.md prints runs as it is printed, block after block."""

from __future__ import annotations

import pathlib
import re

import pytest

from conftest import ROOT


def test_every_block_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of docs/python.md", "exec"), names)
