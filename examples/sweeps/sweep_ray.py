#!/usr/bin/env python3
"""Runs a sweep in shards as tasks of Ray, and puts them together: sweep_ray.py SWEEP.toml DIR [SHARDS]

On a cluster (`ray start` on each machine, RAY_ADDRESS=auto here) DIR is a directory that all machines see under one name.
"""

import os
import subprocess
import sys

import ray

WHARF = os.environ.get("WHARF", "wharf")


# A task that is lost with its machine is begun again elsewhere, and goes on where it was.
@ray.remote(num_cpus=1, max_retries=3)
def run(sweep, out, shard):
    command = [WHARF, "sweep", "run", sweep, "--shard", shard, "--resume", "--jobs", "1", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    return shard, done.returncode, done.stdout + done.stderr


def main():
    sweep, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    # Tasks of Ray run in directories of their own; paths in the sweep are as seen from here.
    ray.init(runtime_env={"working_dir": None}, log_to_driver=False, include_dashboard=False)
    processors = int(ray.cluster_resources()["CPU"])
    shards = int(sys.argv[3]) if len(sys.argv) > 3 else processors
    tasks = [run.remote(sweep, out, f"{index}/{shards}") for index in range(1, shards + 1)]
    failed = 0
    while tasks:
        (task,), tasks = ray.wait(tasks)
        shard, code, told = ray.get(task)
        print(f"shard {shard}: exit code {code}\n{told}", end="", flush=True)
        failed += code != 0
    merged = subprocess.run([WHARF, "sweep", "merge", out, "--json", out + ".json", "--html", out + ".html"])
    return 1 if failed else merged.returncode


if __name__ == "__main__":
    sys.exit(main())
