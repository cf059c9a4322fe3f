"""Kills the server at any time; what was acknowledged and then flushed, or written with FUA, has to be there.

kills.py ROUNDS FOLDER WHARF SERVE-ARGUMENTS...

A model keeps for each block the last version that is durable, and every version written after it: the block may
hold any of these when the server is started again.
"""

import os
import random
import signal
import subprocess
import sys
import time

import nbd

rounds, folder, wharf, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
BLOCK = 4096
BLOCKS = 2048
seed = 5
dice = random.Random(seed)
durable = [0] * BLOCKS
later = [set() for _ in range(BLOCKS)]
version = 0


def content(block, number):
    if number == 0:
        return bytes(BLOCK)
    return (b"%08d-%08d." % (block, number) * (BLOCK // 18 + 1))[:BLOCK]


def start():
    path = os.path.join(folder, "kill.sock")
    if os.path.exists(path):
        os.unlink(path)
    server = subprocess.Popen([wharf, "serve", "nbd", "--socket", path, *arguments], stdout=subprocess.PIPE)
    line = server.stdout.readline()
    assert line.startswith(b"serving"), line
    return server, path


for turn in range(rounds + 1):
    server, path = start()
    h = nbd.NBD()
    h.connect_unix(path)
    # What is there: the durable version, or one that was written later.
    for block in range(BLOCKS):
        got = h.pread(BLOCK, block * BLOCK)
        allowed = [durable[block], *later[block]]
        found = [number for number in allowed if content(block, number) == got]
        assert found, (seed, turn, block, allowed, got[:40])
        durable[block], later[block] = found[0], set()
    if turn == rounds:
        h.shutdown()
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        break
    # The choice that was found is durable once it is flushed.
    h.flush()
    end = time.monotonic() + dice.uniform(0.05, 0.5)
    under_way = {}
    flushing = None
    acknowledged = set()
    try:
        while time.monotonic() < end:
            while len(under_way) < 16:
                version += 1
                block = dice.randrange(BLOCKS)
                if any(block == b for b, _, _ in under_way.values()):
                    continue
                fua = dice.randrange(10) == 0
                later[block].add(version)
                buffer = nbd.Buffer.from_bytearray(bytearray(content(block, version)))
                flags = nbd.CMD_FLAG_FUA if fua else 0
                under_way[h.aio_pwrite(buffer, block * BLOCK, flags=flags)] = (block, version, fua)
            if flushing is None and dice.randrange(20) == 0:
                # What was acknowledged by now is durable when the flush is.
                flushing = (h.aio_flush(), set(acknowledged))
            h.poll(10)
            for cookie in list(under_way):
                if h.aio_command_completed(cookie):
                    block, number, fua = under_way.pop(cookie)
                    acknowledged.add((block, number))
                    if fua:
                        durable[block] = number
                        later[block] = {n for n in later[block] if n > number}
            if flushing and h.aio_command_completed(flushing[0]):
                for block, number in flushing[1]:
                    if number > durable[block]:
                        durable[block] = number
                        later[block] = {n for n in later[block] if n > number}
                flushing = None
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
print(f"kills: {rounds} rounds, {version} writes, seed {seed}: well ({' '.join(arguments)})")
