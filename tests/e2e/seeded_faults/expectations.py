"""Which cells of the acceptance matrix must see which seeded fault, and which must not.

A cell that is in neither list may do either: a batch cell sees a fault of chunks where its prompts happen to be cut.
Names of faults are those of tests/support/faults, names of cells those of accept/default.toml.
"""

# Cells whose requests run one after the other on one engine, as the baselines do.
ALONE = ["request.nth", "prefix.lineage"]
# Cells without a prefix cache that use a batch.
BATCHES = ["batch.size", "batch.full", "batch.position", "neighbours.content", "neighbours.length"]

# fault: (cells that must fail, cells that must pass)
EXPECTED = {
    # No fault: nothing fails. The long test asks this of every cell.
    "none": (
        [],
        [
            *ALONE,
            *BATCHES,
            "chunk.budget",
            "request.first",
            "machine.threads",
            "machine.isa",
            "scoring",
            "seeds.order",
            "embeddings",
        ],
    ),
    # Prompts of the baselines have many rows, drawn tokens one: whatever draws them in company sees it.
    "batch-split": (["batch.size", "neighbours.content", "scoring"], ["request.nth", "request.first"]),
    "neighbour-noise": ([*BATCHES, "embeddings"], [*ALONE, "request.first"]),
    # The baselines' engine uses its blocks again and again: answers of a new engine are not what they are.
    "stale-block": (["request.first", "batch.size"], []),
    "chunk-position": (["chunk.budget"], [*ALONE, "request.first"]),
    "cache-lineage": (
        ["prefix.lineage"],
        [*BATCHES, "chunk.budget", "request.nth", "request.first", "machine.threads", "scoring"],
    ),
    # Nothing is drawn in a greedy answer, in scoring, in an embedding.
    "slot-seed": (["batch.size", "seeds.order"], [*ALONE, "request.first", "scoring", "embeddings"]),
    "batch-top-p": (["seeds.order"], [*ALONE, "request.first", "scoring", "embeddings"]),
    "thread-sum": (
        ["machine.threads"],
        [*ALONE, *BATCHES, "chunk.budget", "request.first", "scoring", "seeds.order", "machine.isa"],
    ),
    # Engines of the other cells answered a request before they are looked at.
    "first-request": (
        ["request.first"],
        [*ALONE, *BATCHES, "chunk.budget", "machine.threads", "scoring", "seeds.order"],
    ),
    # The same in all runs on one kernel set: only another one can tell.
    "missing-rounding": (
        ["machine.isa"],
        [*ALONE, *BATCHES, "chunk.budget", "request.first", "machine.threads", "scoring", "seeds.order"],
    ),
}
