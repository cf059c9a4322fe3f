"""Files of a page cache, as file objects."""

from __future__ import annotations

import errno
import gc
import io
import multiprocessing
import os
import pathlib
import pickle
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import wharf


@pytest.fixture
def cache() -> wharf.PageCache:
    """A cache that is much smaller than what the tests put through it."""
    return wharf.PageCache("256KiB")


def test_a_file_is_what_the_systems_is(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    """Random operations on a file behind the cache and on one that is not, side by side."""
    seed = 11
    chance = random.Random(seed)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with cache.open(ours, "w+b") as file, open(theirs, "w+b", buffering=0) as model:
        found: int | bytes
        wanted: int | bytes
        for step in range(2000):
            offset, count = chance.randrange(3 << 20), chance.choice([0, 1, 100, 4096, 70_000])
            data = chance.randbytes(count)
            do = chance.randrange(8)
            if do == 0:
                found, wanted = (f.truncate(min(offset, 1 << 20)) for f in (file, model))
            elif do == 1:
                found, wanted = (f.seek(offset) for f in (file, model))
            elif do == 2:
                found, wanted = (f.seek(-min(count, f.seek(0, 2)), 2) for f in (file, model))
            elif do in (3, 4):
                found, wanted = (f.write(data) for f in (file, model))
            elif do == 5:
                found, wanted = (f.read(count) for f in (file, model))
            elif do == 6:
                found, wanted = file.pwrite(data, offset), os.pwrite(model.fileno(), data, offset)
            else:
                into = bytearray(count)
                found, wanted = bytes(into[: file.pread_into(into, offset)]), os.pread(model.fileno(), count, offset)
            assert found == wanted, (seed, step, do)
            assert file.tell() == model.tell(), (seed, step, do)
        file.seek(0)
        model.seek(0)
        assert file.readall() == model.readall()
    assert ours.read_bytes() == theirs.read_bytes()
    assert cache.statistics()["evictions"] > 0


def test_layers_of_io_on_top(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines"
    with io.TextIOWrapper(io.BufferedWriter(cache.open(path, "wb"))) as text:
        text.writelines(f"line {number}\n" for number in range(20_000))
    with io.BufferedReader(cache.open(path)) as reader:
        assert reader.peek(4)[:4] == b"line"
        assert sum(1 for _ in reader) == 20_000
        reader.seek(-6, io.SEEK_END)
        assert reader.read() == b"19999\n"
    with io.BufferedRandom(cache.open(path, "r+b")) as both:
        assert both.readline() == b"line 0\n"
        both.write(b"LINE")
        both.seek(0)
        assert both.read(11) == b"line 0\nLINE"
    # Without a layer too, if slowly.
    with cache.open(path) as file:
        assert next(file) == b"line 0\n"


def test_pickle_zipfile_numpy(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    value = {"numbers": list(range(100_000)), "text": "x" * 100_000}
    with cache.open(tmp_path / "pickle", "w+b") as file:
        pickle.dump(value, file)
        file.seek(0)
        assert pickle.load(file) == value
    names = [f"name {number}" for number in range(50)]
    with cache.open(tmp_path / "zip", "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, name * 10_000)
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None and archive.namelist() == names
    array = numpy.arange(300_000, dtype=numpy.float64).reshape(300, 1000)
    with cache.open(tmp_path / "array.npy", "w+b") as file:
        numpy.save(file, array)
        file.seek(0)
        assert (numpy.load(file) == array).all()


def test_any_memory_is_read_into_and_written_from_in_place(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    kind = numpy.dtype([("key", "u4"), ("value", "f8")])
    records = numpy.zeros(10_000, dtype=kind)
    records["key"] = numpy.arange(10_000)
    with cache.open(tmp_path / "records", "w+b") as file:
        assert file.write(records) == records.nbytes
        found = numpy.empty_like(records)
        assert file.pread_into(found, 0) == records.nbytes
        assert (found == records).all()
        # A part of an array, as it lies there.
        assert file.pread_into(found[5000:], 0) == 5000 * kind.itemsize
        assert (found[5000:] == records[:5000]).all() and (found[:5000] == records[:5000]).all()
        grid = numpy.arange(100, dtype=numpy.uint8).reshape(10, 10)
        assert file.pwrite(memoryview(grid), 0) == 100
        assert file.pread_into(bytearray(0), 0) == 0 == file.pwrite(b"", 1 << 40)
        assert file.pread_into(numpy.empty((0, 5)), 0) == 0
        with pytest.raises(BufferError, match="do not lie in a row"):
            file.pread_into(grid[:, ::2], 0)
        with pytest.raises(BufferError, match="do not lie in a row"):
            file.pwrite(grid.T[::2], 0)
        with pytest.raises(BufferError, match="cannot be written"):
            file.readinto(b"constant")
        with pytest.raises(TypeError):
            file.write("text")  # type: ignore[arg-type]


def test_modes_are_those_of_open(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        cache.open(path)
    with pytest.raises(FileNotFoundError):
        cache.open(path, "r+b")
    with cache.open(path, "xb") as file:
        assert (file.name, file.mode, file.readable(), file.writable(), file.seekable()) == (str(path), "xb", False, True, True)
        assert file.write(b"0123456789") == 10
        with pytest.raises(io.UnsupportedOperation, match="is open to write only"):
            file.read(1)
    with pytest.raises(FileExistsError):
        cache.open(path, "xb")
    with cache.open(path, "ab+") as file:
        assert file.tell() == 10
        file.seek(0)
        file.write(b"end")
        assert file.tell() == 13
        file.seek(8)
        assert file.read(100) == b"89end"
    with cache.open(path, "rb") as file:
        refused: list[Callable[[], object]] = [lambda: file.write(b"x"), lambda: file.truncate(0), lambda: file.pwrite(b"x", 0)]
        for use in refused:
            with pytest.raises(io.UnsupportedOperation, match="is open to read only"):
                use()
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
    with cache.open(path, "w") as file:
        assert file.seek(0, 2) == 0
    assert path.read_bytes() == b""
    for mode in ("", "rt", "rw", "q", "rbb", "r++"):
        with pytest.raises(ValueError, match="mode"):
            cache.open(path, mode)
    with pytest.raises(OSError, match="is neither a file nor a block device"):
        cache.open(tmp_path)


def test_a_file_that_is_closed_says_so(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    file = cache.open(tmp_path / "file", "w+b")
    file.write(b"kept")
    file.close()
    file.close()
    assert file.closed and (tmp_path / "file").read_bytes() == b"kept"
    uses: list[Callable[[], object]] = [file.read, file.tell, file.flush, file.truncate, file.readable, file.__enter__]
    uses += [lambda: file.write(b"x"), lambda: file.seek(0), lambda: file.readinto(bytearray(1))]
    for use in uses:
        with pytest.raises(ValueError, match="closed file"):
            use()


def test_positions_and_sizes_that_cannot_be(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    with cache.open(tmp_path / "file", "w+b") as file:
        file.write(b"0123")
        wrong: list[Callable[[], object]] = [lambda: file.seek(-1), lambda: file.seek(-5, 2), lambda: file.seek(0, 9), lambda: file.truncate(-1)]
        for use in wrong:
            with pytest.raises(ValueError):
                use()
        with pytest.raises(OverflowError):
            file.pread_into(bytearray(1), -1)
        assert file.tell() == 4
        assert file.seek(1 << 70) == 1 << 70
        with pytest.raises(OverflowError):
            file.read(1)
        file.seek(2**63)
        assert file.read(1) == b""
        with pytest.raises(OSError) as raised:
            file.write(b"x")
        assert raised.value.errno in (errno.ENOSPC, errno.EFBIG, errno.EINVAL)
        file.truncate(4)
        file.seek(0)
        assert file.read() == b"0123"


def test_threads_use_one_file_side_by_side(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    count, threads = 200, 4
    with cache.open(tmp_path / "file", "w+b") as file:

        def work(thread: int) -> None:
            for number in range(count):
                block = bytes([thread + 1, number % 256]) * 2048
                offset = (number * threads + thread) * 4096
                file.pwrite(block, offset)
                into = bytearray(4096)
                assert file.pread_into(into, offset) == 4096
                found.append(bytes(into) == block)

        found: list[bool] = []
        workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert found == [True] * (count * threads)
        assert file.seek(0, 2) == count * threads * 4096


def test_who_appends_does_so_in_turn(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    count, threads = 300, 4

    def work(thread: int) -> None:
        with cache.open(tmp_path / "log", "ab") as log:
            for number in range(count):
                log.write(b"%d %d\n" % (thread, number))

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = [tuple(map(int, line.split())) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert sorted(lines) == [(thread, number) for thread in range(threads) for number in range(count)]


def test_a_file_that_a_thread_closes_while_others_use_it(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    for _ in range(20):
        file = cache.open(tmp_path / "file", "w+b")
        ended: list[str] = []

        def work() -> None:
            try:
                while True:
                    file.pwrite(b"x" * 8192, 0)
            except ValueError as error:
                ended.append(str(error))

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        file.close()
        for worker in workers:
            worker.join()
        assert ended == ["I/O operation on closed file."] * 3


def test_the_cache_lives_as_long_as_its_files(tmp_path: pathlib.Path) -> None:
    file = wharf.PageCache("256KiB").open(tmp_path / "file", "wb")
    gc.collect()
    file.write(b"data" * 100_000)
    del file
    gc.collect()
    # What nobody closed was written when it was collected.
    assert (tmp_path / "file").read_bytes() == b"data" * 100_000


def run(program: str, *arguments: object) -> None:
    """Runs a program of its own to its end."""
    words = [sys.executable, "-c", program, *map(str, arguments)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr


def test_what_is_open_at_the_end_of_the_program_is_written(tmp_path: pathlib.Path) -> None:
    program = """
import builtins, io, sys, wharf
cache = wharf.PageCache()
# Nothing collects it.
builtins.kept = cache.open(sys.argv[1], "wb")
kept.write(b"raw")
buffered = io.BufferedWriter(cache.open(sys.argv[2], "wb"))
buffered.write(b"buffered")
"""
    run(program, tmp_path / "raw", tmp_path / "buffered")
    assert (tmp_path / "raw").read_bytes() == b"raw"
    assert (tmp_path / "buffered").read_bytes() == b"buffered"


def test_a_process_that_is_forked_has_no_cache(tmp_path: pathlib.Path) -> None:
    """It has a copy, with neither threads nor I/Os: it is told so, and leaves the parent's file alone when it ends, in whichever way."""
    program = """
import os, sys, wharf
cache = wharf.PageCache("256KiB")
file = cache.open(sys.argv[1], "w+b")
file.write(b"parent")
for ending in (sys.exit, os._exit):
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (lambda: file.pwrite(b"child!", 0), lambda: file.read(), file.flush, cache.statistics, lambda: cache.open(sys.argv[1])):
            try:
                use()
            except RuntimeError as error:
                refused += "process that forked this one" in str(error)
        file.close()
        own = wharf.PageCache("256KiB").open(sys.argv[2], "wb")
        own.write(b"child")
        own.close()
        ending(0 if refused == 5 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
file.seek(0)
assert file.read() == b"parent"
file.close()
"""
    run(program, tmp_path / "parent", tmp_path / "child")
    assert (tmp_path / "parent").read_bytes() == b"parent"
    assert (tmp_path / "child").read_bytes() == b"child"


def in_another_process(path: str) -> int:
    """What a worker does: it makes a cache of its own."""
    with wharf.PageCache("256KiB").open(path) as file:
        return len(file.read())


def test_workers_of_multiprocessing_make_their_own(cache: wharf.PageCache, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    with cache.open(path, "wb") as file:
        file.write(bytes(100_000))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(in_another_process, [str(path)] * 4) == [100_000] * 4


def test_options_that_cannot_be() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"bytes": 5}, "a page cache of 5 bytes is too small"),
        ({"bytes": -5}, "'-5' is not a size"),
        ({"bytes": "many"}, "'many' is not a size"),
        ({"bytes": 1 << 60}, "give it less"),
        ({"replacement": "mru"}, "no replacement 'mru'"),
        ({"dirty_share": 5.0}, "dirty_share of 5"),
        ({"files_max": 0}, "files_max of 0"),
    ]
    for options, line in cases:
        with pytest.raises(ValueError) as raised:
            wharf.PageCache(**options)
        assert line in str(raised.value)


def test_more_files_than_there_may_be(tmp_path: pathlib.Path) -> None:
    cache = wharf.PageCache("256KiB", files_max=2, replacement="lru", background=False, readahead="64KiB")
    files = [cache.open(tmp_path / str(number), "wb") for number in range(2)]
    with pytest.raises(OSError, match="all 2 files") as raised:
        cache.open(tmp_path / "third", "wb")
    assert raised.value.errno == errno.ENFILE
    for file in files:
        file.close()
    cache.open(tmp_path / "third", "wb").close()


def test_more_threads_than_there_may_be(tmp_path: pathlib.Path) -> None:
    """A thread counts from its first use of the cache until it ends."""
    cache = wharf.PageCache("256KiB", threads_max=1, background=False)
    found: list[int | None] = []

    def work() -> None:
        try:
            file.pwrite(b"late", 0)
            found.append(0)
        except OSError as error:
            found.append(error.errno)

    with cache.open(tmp_path / "file", "w+b") as file:
        file.write(b"data")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [errno.EAGAIN]
        file.seek(0)
        assert file.read() == b"data"
