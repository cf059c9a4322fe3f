"""What any export has to do, asked through libnbd."""

import random
import sys

import nbd

uri = sys.argv[1]
seed = 7
dice = random.Random(seed)
h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_uri_allow_local_file(True)
h.connect_uri(uri)
h.set_strict_mode(0)
size = h.get_size()
least = max(h.get_block_size(nbd.SIZE_MINIMUM), 1)
span = 16 << 20
base = (size - span) // 4096 * 4096
model = bytearray(span)
h.zero(span, base, 0)
assert h.pread(span, base) == model, "zeros are zeros"

# Random requests, one after the other, against a model.
for step in range(300):
    at = dice.randrange(span // least) * least
    length = min(span - at, max(least, dice.randrange(1, 200_000) // least * least))
    kind = dice.randrange(6)
    fua = nbd.CMD_FLAG_FUA if dice.randrange(8) == 0 else 0
    if kind <= 2:
        data = dice.randbytes(length)
        h.pwrite(data, base + at, fua)
        model[at : at + length] = data
    elif kind == 3:
        flags = dice.choice([0, nbd.CMD_FLAG_NO_HOLE]) | fua
        h.zero(length, base + at, flags)
        model[at : at + length] = bytes(length)
    elif kind == 4:
        got = h.pread(length, base + at)
        assert got == model[at : at + length], (seed, step)
    else:
        h.flush()
assert h.pread(span, base) == model, "all of it, in one read"
got = h.pread(span, base, nbd.CMD_FLAG_DF) if h.can_df() else h.pread(span, base)
assert got == model, "all of it, in one chunk"

# Trim: what it covers is anything, what lies beside it stays.
if h.can_trim():
    h.trim(1 << 20, base + (1 << 20), 0)
    got = h.pread(span, base)
    assert got[: 1 << 20] == model[: 1 << 20]
    assert got[2 << 20 :] == model[2 << 20 :]
    h.pwrite(bytes(model[1 << 20 : 2 << 20]), base + (1 << 20))
    assert h.pread(span, base) == model, "written again after a trim"

# What is under way at a time ends in any order, and all of it is right.
buffers = []
cookies = []
for index in range(200):
    at = index * 65536
    buffer = nbd.Buffer(65536)
    buffers.append((at, buffer))
    cookies.append(h.aio_pread(buffer, base + at))
for cookie in cookies:
    while not h.aio_command_completed(cookie):
        h.poll(-1)
for at, buffer in buffers:
    assert buffer.to_bytearray() == model[at : at + 65536]

# Status adds up, and what it calls zeros are zeros.
if h.can_meta_context("base:allocation"):
    extents = []
    h.block_status(span, base, lambda c, o, entries, e: extents.extend(zip(entries[::2], entries[1::2])))
    at = 0
    for length, flags in extents:
        end = min(at + length, span)
        if flags & nbd.STATE_ZERO:
            assert not any(model[at:end]), ("zeros", at, end)
        at = end
    assert at > 0
    ones = []
    h.block_status(span, base, lambda c, o, entries, e: ones.append(entries), nbd.CMD_FLAG_REQ_ONE)
    assert len(ones[0]) == 2

# What is wrong is refused by the right number, and the connection goes on.
def refused(errno, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errno == errno, (error.errno, errno)
    else:
        raise AssertionError(f"not refused: {errno}")

refused("EINVAL", lambda: h.pread(4096, size))
refused("ENOSPC", lambda: h.pwrite(bytes(4096), size))
refused("ENOSPC", lambda: h.zero(4096, size))
if least > 1:
    refused("EINVAL", lambda: h.pread(least, base + 1))
assert h.pread(4096, base) == model[:4096]

# Another connection sees it all; a flush there is for these writes too.
other = nbd.NBD()
other.set_uri_allow_local_file(True)
other.connect_uri(uri)
assert other.pread(span, base) == model
h.pwrite(b"z" * 4096, base)
other.flush()
assert other.pread(4096, base) == b"z" * 4096
other.shutdown()

# A disconnect with requests under way answers all of them.
buffers = [nbd.Buffer(1 << 20) for _ in range(8)]
cookies = [h.aio_pread(buffer, base + (index << 20)) for index, buffer in enumerate(buffers)]
h.aio_disconnect(0)
while not (h.aio_is_closed() or h.aio_is_dead()):
    h.poll(-1)
assert all(h.aio_command_completed(cookie) for cookie in cookies)
print("export: well, seed", seed)
