"""What the tests share."""

from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def sample() -> pathlib.Path:
    """The trace that ships here: SQLite at work."""
    return ROOT / "traces" / "sqlite-bank.trace.gz"
