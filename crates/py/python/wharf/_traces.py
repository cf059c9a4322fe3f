"""Traces as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _wharf
from ._runs import columns_word
from ._words import Name, Value, listed, words

if TYPE_CHECKING:
    import numpy

# What `op` of a request may be.
READ, WRITE, FLUSH, DISCARD = range(4)


def read_trace(
    path: Name,
    format: str | None = None,
    columns: str | Mapping[str, Value] | None = None,
    *,
    bad_lines: str | None = None,
    blkparse_action: str | None = None,
    block_size: Value | None = None,
    volume: Value | Iterable[Value] | None = None,
) -> dict[str, numpy.ndarray[Any, Any]]:
    """The requests of a trace, plain or compressed, as arrays of one length, in the order of the trace.

    time      int64, ns on the trace's own clock, -1 where it has none
    op        uint8, READ, WRITE, FLUSH or DISCARD
    offset    uint64, first byte
    bytes     uint32
    stream    uint32, the device as the trace numbers it

    Arguments are the options of `wharf trace stat`. `columns` says which columns of a table (CSV) are what: {"offset": "lba", "unit": "sector"}.

    Raises ValueError where an argument or the content cannot be, OSError where the file cannot be read.
    """
    import numpy

    options = locals()
    del options["path"], options["numpy"]
    options["columns"] = columns_word(columns)
    options["volume"] = listed(volume)
    memory = _wharf.read_trace(words(path, options))
    kinds = {"time": numpy.int64, "op": numpy.uint8, "offset": numpy.uint64, "bytes": numpy.uint32, "stream": numpy.uint32}
    return {name: numpy.frombuffer(column, dtype=kind) for (name, kind), column in zip(kinds.items(), memory)}
