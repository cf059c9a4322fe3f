"""Long calls let other threads run, and Ctrl-C ends them."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import wharf

# The second request of this trace is due an hour after the first.
AN_HOUR = '''
    import pathlib, tempfile
    trace = pathlib.Path(tempfile.mkdtemp()) / "hour"
    trace.write_text("# wharf trace 1\\n0 R 0 4096\\n3600000000000 R 4096 4096\\n")
    call = lambda: wharf.compare(trace, designs="direct", drive="tiny", clients=1, real=True, speed=1)
'''

CALLS = {
    "a run in real time": AN_HOUR,
    "a run in virtual time": 'call = lambda: wharf.compare("uniform", designs="all", requests=1_000_000)',
    "a sweep": 'call = lambda: wharf.sweep("uniform", designs="clock,scala", requests=200_000, cache=[f"{n}%" for n in range(1, 90)])',
    "many curves": 'call = lambda: wharf.mrc("zipf", requests=2_000_000, sizes=range(1000, 500_000, 100))',
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_ctrl_c_ends_a_call(call: str) -> None:
    program = f"""
import os, signal, threading, wharf
{textwrap.dedent(call)}
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    call()
except KeyboardInterrupt:
    print("interrupted")
# What goes on after that is the program's.
print(len(wharf.mrc([1, 2, 1], policies="lru", sizes=1)))
"""
    # Each call would take much longer than this.
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "interrupted\n1\n", ended.stderr


def test_a_signal_that_raises_nothing_stops_nothing() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
    timer.start()
    try:
        rows = wharf.mrc("zipf", requests=300_000, policies=["lru", "arc"], sizes=["1%", "10%"])
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1] and len(rows) == 4


def test_other_threads_run_meanwhile() -> None:
    turns = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not is_over.wait(0.001):
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = turns
    wharf.mrc("zipf", requests=500_000, policies=["lru", "arc", "lirs"], sizes=["1%", "10%"])
    during = turns - before
    is_over.set()
    thread.join()
    assert during > 0
