#!/usr/bin/env python3
"""Records the sample trace: the file accesses of SQLite at work, as a block trace.

    python3 traces/record.py [OUT]        (default: traces/sqlite-bank.trace.gz)

It runs itself under strace (Debian package `strace`) as the *program*: a bank of 200,000 accounts in one
SQLite database with a page cache of 1 MiB, in which tellers move money between accounts (few of
them busy, most of them idle), write a history, and now and then sum up a branch. Every pread64
and pwrite64 on the database and its write-ahead log becomes one line of the trace:

    time_ns op offset bytes stream         stream 0 is the database, 1 the log

The random numbers are seeded, so a second recording has the same requests; times differ.
"""

import gzip
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

ACCOUNTS = 200_000
BRANCHES = 60
TRANSFERS = 3_000
REPORT_EVERY = 100
SEED = 20261121


def load(path):
    """Fills the bank (not recorded)."""
    bank = sqlite3.connect(path)
    bank.execute("PRAGMA page_size = 4096")
    bank.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, branch INTEGER, balance INTEGER, owner TEXT)")
    bank.execute("CREATE TABLE history (id INTEGER PRIMARY KEY, debit INTEGER, credit INTEGER, amount INTEGER, memo TEXT)")
    rng = random.Random(SEED)
    rows = ((i, rng.randrange(BRANCHES), 1000, f"owner {rng.getrandbits(256):064x}") for i in range(ACCOUNTS))
    bank.executemany("INSERT INTO account VALUES (?, ?, ?, ?)", rows)
    bank.execute("CREATE INDEX account_branch ON account (branch)")
    bank.commit()
    bank.close()


def work(path):
    """The program that is recorded."""
    bank = sqlite3.connect(path, isolation_level=None)
    bank.execute("PRAGMA journal_mode = WAL")
    bank.execute("PRAGMA cache_size = -1024")
    rng = random.Random(SEED + 1)
    busy = [rng.randrange(ACCOUNTS) for _ in range(ACCOUNTS // 50)]

    def pick():
        return rng.choice(busy) if rng.random() < 0.8 else rng.randrange(ACCOUNTS)

    for number in range(TRANSFERS):
        debit, credit, amount = pick(), pick(), rng.randrange(1, 100)
        bank.execute("BEGIN IMMEDIATE")
        bank.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, debit))
        bank.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, credit))
        memo = f"transfer {number} {rng.getrandbits(400):0100x}"
        bank.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?)", (number, debit, credit, amount, memo))
        bank.execute("COMMIT")
        for _ in range(6):
            bank.execute("SELECT balance, owner FROM account WHERE id = ?", (pick(),)).fetchone()
        if number % REPORT_EVERY == 0:
            branch = rng.randrange(BRANCHES)
            bank.execute("SELECT sum(balance) FROM account WHERE branch = ? AND id % 10 = 0", (branch,)).fetchone()
    total = bank.execute("SELECT count(*) FROM history").fetchone()[0]
    assert total == TRANSFERS
    bank.close()


CALL = re.compile(r"^(?:\d+ +)?(\d+)\.(\d{6}) (pread64|pwrite64)\(\d+<([^>]*)>, .*, (\d+), (\d+)\) += (\d+)$")


def convert(log, database, out):
    """Turns strace's lines into the trace."""
    streams = {database: 0, database + "-wal": 1}
    first, count = None, 0
    with gzip.GzipFile(out, "wb", mtime=0) as trace:
        trace.write(b"# wharf trace 1\n# time_ns op offset bytes stream\n")
        for line in log:
            call = CALL.match(line)
            if not call or call[4] not in streams or int(call[7]) == 0:
                continue
            time_ns = int(call[1]) * 1_000_000_000 + int(call[2]) * 1000
            first = time_ns if first is None else first
            op = "R" if call[3] == "pread64" else "W"
            trace.write(f"{time_ns - first} {op} {call[6]} {call[7]} {streams[call[4]]}\n".encode())
            count += 1
    return count


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--work":
        return work(sys.argv[2])
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "sqlite-bank.trace.gz")
    with tempfile.TemporaryDirectory() as directory:
        database, log = os.path.join(directory, "bank.db"), os.path.join(directory, "log")
        load(database)
        recorded = [sys.executable, os.path.abspath(__file__), "--work", database]
        subprocess.run(["strace", "-f", "-ttt", "-y", "-s", "0", "-e", "trace=pread64,pwrite64", "-o", log] + recorded, check=True)
        with open(log) as lines:
            count = convert(lines, database, out)
    print(f"{out}: {count} requests, {os.path.getsize(out)} bytes")


if __name__ == "__main__":
    main()
