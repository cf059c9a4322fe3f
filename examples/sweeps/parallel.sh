#!/bin/sh
# Runs a sweep in shards by GNU parallel, and puts them together: parallel.sh SWEEP.toml DIR [SHARDS]
#
# With a file of machines (--sshloginfile) the shards go to these; DIR is then a directory that all of them see under one name.
set -eu
sweep=$1 out=$2 shards=${3:-$(nproc)}
wharf=${WHARF:-wharf}

# One point at a time in each: parallel has a process for each processor. A shard that fails is tried again, and goes on where it was.
# What it could not run is told by the merge.
seq "$shards" | parallel --will-cite --line-buffer --retries 2 ${MACHINES:+--sshloginfile "$MACHINES"} --wd . \
  "$wharf" sweep run "$sweep" --shard "{}/$shards" --resume --jobs 1 --out "$out" ||
  echo "some shards failed" >&2

"$wharf" sweep merge "$out" --json "$out.json" --html "$out.html"
