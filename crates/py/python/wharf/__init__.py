"""Wharf: cache designs on an emulated drive, miss-ratio curves, traces, and a page cache for files.

compare, sweep, mrc
                 figures as rows that `pandas.DataFrame` takes
read_trace       a trace as numpy arrays
PageCache        files behind a page cache of this process, as file objects

`docs/python.md` is the guide.
"""

from ._files import File, PageCache
from ._runs import Rows, compare, mrc, sweep
from ._traces import DISCARD, FLUSH, READ, WRITE, read_trace

__all__ = [
    "DISCARD",
    "FLUSH",
    "File",
    "PageCache",
    "READ",
    "Rows",
    "WRITE",
    "compare",
    "mrc",
    "read_trace",
    "sweep",
]
