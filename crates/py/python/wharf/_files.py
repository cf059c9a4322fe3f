"""Files behind a page cache of this process, as file objects."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import weakref
from typing import TYPE_CHECKING

from . import _wharf

if TYPE_CHECKING:
    # In collections.abc since Python 3.12.
    from typing_extensions import Buffer


class PageCache:
    """A page cache for ordinary files and block devices: that of the design `scale`, in this process.

    `bytes` is the memory for pages, a number or text with a unit ("64MiB"). `replacement` is a policy that `wharf policies` lists, but "belady", or
    "two-lists". All other arguments are those of
    `wharf::PageCacheOptions` (`docs/library.md`). Any number of threads may use the cache; the memory is freed when the cache and all its files are
    gone.

    Raises ValueError where an argument cannot be, OSError where the system has no memory or thread left.
    """

    def __init__(
        self,
        bytes: int | str | None = None,
        *,
        dirty_share: float | None = None,
        background: bool | None = None,
        readahead: int | str | None = None,
        replacement: str | None = None,
        files_max: int | None = None,
        threads_max: int | None = None,
    ) -> None:
        self._cache = _wharf.PageCache(
            None if bytes is None else str(bytes),
            dirty_share=dirty_share,
            background=background,
            readahead=None if readahead is None else str(readahead),
            replacement=replacement,
            files_max=files_max,
            threads_max=threads_max,
        )

    def open(self, path: str | os.PathLike[str], mode: str = "rb") -> File:
        """Opens a file. Modes are those of Python's open(), of bytes: "rb", "wb", "xb", "ab", and each with "+".

        A file that is open already, by whatever path, is the same file: its pages are in the cache once. Other programs, and other ways of this
        one, should not write it meanwhile.

        Raises ValueError for another mode, OSError where the file cannot be opened.
        """
        kind = mode.replace("b", "", 1).replace("+", "", 1)
        if kind not in ("r", "w", "x", "a"):
            raise ValueError(f"mode {mode!r}: give rb, wb, xb or ab, each also with +")
        path, both = os.fspath(path), "+" in mode
        return File(self._cache.open(path, kind, both), path, kind, both)

    def statistics(self) -> dict[str, int]:
        """What the threads of this process did with the cache so far: reads, writes, hits, evictions and so on."""
        return self._cache.statistics()


class File(io.RawIOBase):
    """A file of a PageCache. It has no buffer of its own: io.BufferedReader and its like may be put on top.

    What is written is in the cache, and durable after flush() or close(). The position is for one thread at a time, as is that of any file object;
    pread_into and pwrite have none, and any number of threads may call them side by side.
    """

    name: str
    mode: str

    def __init__(self, file: _wharf.File, path: str, kind: str, both: bool) -> None:
        super().__init__()
        self._file = file
        self.name = path
        self.mode = kind + ("b+" if both else "b")
        self._reads = kind == "r" or both
        self._writes = kind != "r" or both
        self._appends = kind == "a"
        self._at = file.length() if self._appends else 0
        self._process = os.getpid()
        _open_files.add(self)

    def readable(self) -> bool:
        """Whether it was opened to be read."""
        self._check()
        return self._reads

    def writable(self) -> bool:
        """Whether it was opened to be written."""
        self._check()
        return self._writes

    def seekable(self) -> bool:
        """It is."""
        self._check()
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Reads from the position on, straight to the memory of `buffer`: how many bytes, 0 at the end of the file."""
        count = self.pread_into(buffer, self._at)
        self._at += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """As many bytes as there are from the position on, no more than `size` if that is not negative."""
        self._check(reads=True)
        most = 2**63 if size is None or size < 0 else size
        found = self._file.read(self._at, most)
        self._at += len(found)
        return found

    def readall(self) -> bytes:
        """All bytes from the position on."""
        return self.read()

    def write(self, buffer: Buffer, /) -> int:
        """Writes all of `buffer` at the position; at the end of the file if it was opened to append."""
        self._check(writes=True)
        if self._appends:
            with memoryview(buffer) as memory:
                count = memory.nbytes
            self._at = self._file.append(buffer)
        else:
            count = self._file.write(buffer, self._at)
            self._at += count
        return count

    def pread_into(self, buffer: Buffer, offset: int, /) -> int:
        """Reads from byte `offset` on, straight to the memory of `buffer`: how many bytes, fewer than it has only at the end of the file."""
        self._check(reads=True)
        return self._file.read_into(buffer, offset)

    def pwrite(self, buffer: Buffer, offset: int, /) -> int:
        """Writes all of `buffer` from byte `offset` on; the file grows if need be, with zeros in between."""
        self._check(writes=True)
        return self._file.write(buffer, offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position: from the beginning (0), from where it is (1), from the end (2)."""
        self._check()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"whence {whence}: give 0, 1 or 2")
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        at = (self._file.length() if start is None else start) + offset
        if at < 0:
            raise ValueError(f"position {at}: it cannot be before the beginning")
        self._at = at
        return at

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._at

    def truncate(self, size: int | None = None, /) -> int:
        """Cuts the file to `size` bytes, the position if none are said, or makes it longer, with zeros."""
        self._check(writes=True)
        size = self._at if size is None else size
        if size < 0:
            raise ValueError(f"a file of {size} bytes: give 0 or more")
        self._file.truncate(size)
        return size

    def flush(self) -> None:
        """Makes durable what was written before, by any thread, and the length."""
        self._check()
        if self._writes and self in _open_files:
            self._file.sync()

    def close(self) -> None:
        """Makes everything durable and ends the file, also if it fails."""
        if self.closed:
            return
        _open_files.discard(self)
        try:
            self._file.close()
        finally:
            super().close()

    def _check(self, *, reads: bool = False, writes: bool = False) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if reads and not self._reads:
            raise io.UnsupportedOperation(f"{self.name}: is open to write only")
        if writes and not self._writes:
            raise io.UnsupportedOperation(f"{self.name}: is open to read only")


_open_files: weakref.WeakSet[File] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """What is in no other memory than the cache's is written before the program ends, even if nobody closes its file."""
    with contextlib.ExitStack() as stack:
        for file in list(_open_files):
            # A process that was forked has copies of files, which are not its own.
            if file._process == os.getpid():
                stack.callback(file.flush)
