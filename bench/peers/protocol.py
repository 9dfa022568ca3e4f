"""The loop of a peer's process: the commands that bench/cpu/worker.cc describes, one JSON object a line."""

import argparse
import json
import os
import sys
import time


def parser():
    """What every peer is told; its own options are added."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--rows", type=int, default=1)
    arguments.add_argument("--positions", type=int, default=4096)
    return arguments


def serve(engine, description):
    """Obeys stdin until it ends. engine has prefill(tokens, seed), start(rows, context, steps, seed), advance(steps)
    and stop(). What libraries print to stdout is sent to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    say(description)
    for line in sys.stdin:
        command = json.loads(line)
        act = getattr(engine, command.pop("do"))
        try:
            start = time.perf_counter()
            act(**command)
            say({"seconds": time.perf_counter() - start})
        except Exception as error:  # a cell without a figure says why
            say({"error": f"{type(error).__name__}: {error}"[:500]})
