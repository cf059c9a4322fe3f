"""The part of the package that is in Rust (`crates/py/src/`)."""

import os
from collections.abc import Sequence
from typing import Any, final

import numpy
from typing_extensions import Buffer

__all__ = ["File", "PageCache", "compare", "mrc", "read_trace", "sweep"]

def compare(words: Sequence[str], /) -> str:
    """What `wharf compare WORDS` gives, as JSON."""

def sweep(text: str, jobs: int | None = None, /) -> str:
    """What the sweep of a text gives, as JSON: that of a file for `wharf sweep run`."""

def mrc(words: Sequence[str], pages: numpy.ndarray[Any, Any] | None = None, /) -> str:
    """What `wharf mrc WORDS` gives, as JSON; of pages by number, if there are some, in place of the trace that the first word names."""

def read_trace(words: Sequence[str], /) -> tuple[bytearray, bytearray, bytearray, bytearray, bytearray]:
    """Reads a trace with the options of `wharf trace stat`: times (int64), operations (uint8), offsets (uint64), bytes and streams (uint32)."""

@final
class PageCache:
    """A page cache for files, in this process."""

    def __new__(
        cls,
        bytes: str | None = None,
        *,
        dirty_share: float | None = None,
        background: bool | None = None,
        readahead: str | None = None,
        replacement: str | None = None,
        files_max: int | None = None,
        threads_max: int | None = None,
    ) -> PageCache: ...
    def open(self, path: str | os.PathLike[str], kind: str, both: bool, /) -> File: ...
    def statistics(self) -> dict[str, int]: ...

@final
class File:
    """An open file of a page cache: bytes at offsets."""

    def read_into(self, buffer: Buffer, offset: int, /) -> int: ...
    def read(self, offset: int, count: int, /) -> bytes: ...
    def write(self, buffer: Buffer, offset: int, /) -> int: ...
    def append(self, buffer: Buffer, /) -> int: ...
    def length(self) -> int: ...
    def truncate(self, bytes: int, /) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...
