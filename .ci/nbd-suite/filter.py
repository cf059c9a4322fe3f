"""Reads and writes through a filter of nbdkit. `tolerant`: reads may fail; `same`: what is written must be there already."""

import random
import sys

import nbd

uri, check = sys.argv[1:]
h = nbd.NBD()
h.connect_uri(uri)
dice = random.Random(11)
if check == "same":
    for index in range(50):
        at = dice.randrange(1000) * 4096
        h.pwrite(h.pread(65536, at), at)
    sys.exit(0)
model = bytearray(h.pread(4 << 20, 0)) if check == "strict" else bytearray(4 << 20)
if check != "strict":
    h.pwrite(model, 0)
errors = 0
for index in range(200):
    at = dice.randrange(1000) * 4096
    length = min(len(model) - at, dice.choice([512, 4096, 65536]))
    if dice.randrange(2):
        data = dice.randbytes(length)
        h.pwrite(data, at)
        model[at : at + length] = data
    else:
        try:
            assert h.pread(length, at) == model[at : at + length]
        except nbd.Error:
            errors += 1
assert (errors > 0) == (check == "tolerant"), errors
h.shutdown()
