"""Writes the cells of the invariance matrix: a pairwise array (each pair of values of two variables is in some cell).

usage: make_cells.py [ISA...] > ARRAY, by default the first part of cells_long.txt, of amx, avx512_bf16 and avx2_vnni
the last; the cells between were chosen by hand

Columns: numerics isa threads batch chunk prefix preempt score max_prompt. Slow sets get short prompts; a pair that no
legal cell can hold is left out (a cached prefix needs a prompt of more than one block, for example).
"""

import itertools
import random
import sys

VARIABLES = {
    "numerics": ["fma32", "int8", "mma16"],
    "isa": sys.argv[1:] or ["avx512", "avx2", "reference"],
    "threads": [1, 2, 3],
    "batch": [1, 2, 7, 16, 33],
    "chunk": [1, 7, 64, 500, 2048],
    "prefix": ["cold", "warm", "partial"],
    "preempt": [0, 5],
    "score": [0, 1],
}
NAMES = list(VARIABLES)


def max_prompt(cell):
    """The longest prompt whose cell stays within a minute or two on two cores."""
    if cell["isa"] == "reference":
        return 130 if cell["prefix"] != "cold" else 23
    if cell["numerics"] == "mma16" or cell["chunk"] == 1:
        return 130
    return 0 if cell["batch"] > 2 and cell["isa"] in ("amx", "avx512_bf16", "avx512") else 333


def legal(cell):
    # The reference asked twice over block-long prompts takes minutes; one numerics is enough for that.
    return not (
        cell["isa"] == "reference" and cell["prefix"] != "cold" and (cell["numerics"] == "mma16" or cell["chunk"] == 1)
    )


def pairs_of(cell):
    return {((a, cell[a]), (b, cell[b])) for a, b in itertools.combinations(NAMES, 2)}


def main():
    rng = random.Random(20261129)
    every = [dict(zip(NAMES, values)) for values in itertools.product(*VARIABLES.values())]
    every = [cell for cell in every if legal(cell)]
    missing = set().union(*(pairs_of(cell) for cell in every))
    while missing:
        candidates = rng.sample(every, 2000)
        best = max(candidates, key=lambda cell: len(pairs_of(cell) & missing))
        if not pairs_of(best) & missing:
            continue
        missing -= pairs_of(best)
        print(*(best[name] for name in NAMES), max_prompt(best))
    if sys.argv[1:]:
        return
    print("# A pool too small for the batch: sequences push each other out.")
    print("fma32 best 2 33 512 cold -1 0 0")
    print("# The negative control.")
    print("fma32 free-order 2 33 512 cold 0 0 130")


main()
