"""DiskANN's index on disk: `diskann.py build FOLDER`, and `diskann.py search FOLDER`, which prints what was found as one number.

Vectors are in groups, by fixed seeds; COUNT and QUERIES of the environment say how many there are."""

import hashlib
import os
import sys

import diskannpy
import numpy

DIMENSIONS = 96
count, queries = int(os.environ.get("COUNT", 5000)), int(os.environ.get("QUERIES", 100))
groups = numpy.random.default_rng(1).standard_normal((64, DIMENSIONS), dtype=numpy.float32) * 3


def vectors(seed, number):
    rng = numpy.random.default_rng(seed)
    around = groups[rng.integers(0, len(groups), number)]
    return around + rng.standard_normal((number, DIMENSIONS), dtype=numpy.float32)


command, folder = sys.argv[1:]
if command == "build":
    diskannpy.build_disk_index(
        vectors(2, count), "l2", folder, complexity=40, graph_degree=24,
        search_memory_maximum=0.003, build_memory_maximum=1, num_threads=2,
    )
else:
    index = diskannpy.StaticDiskIndex(folder, num_threads=2, num_nodes_to_cache=0)
    found = index.batch_search(vectors(3, queries), k_neighbors=10, complexity=40, num_threads=2, beam_width=4)
    print("found", hashlib.sha256(found.identifiers.tobytes() + found.distances.tobytes()).hexdigest())
