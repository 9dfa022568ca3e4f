"""Memory: a loaded model takes little more than its packed weights."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

EADEM = os.environ.get("EADEM", str(pathlib.Path(__file__).resolve().parents[3] / "build" / "eadem"))
MIB = 1 << 20

# In a process of its own, whose only child is the program: ru_maxrss is the largest of all children.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
print(done.stdout)
"""


@pytest.mark.parametrize("numerics", ["fma32", "int8", "mma16"])
def test_peak_resident_memory_stays_near_the_packed_weights(smollm2, numerics):
    model = ["-m", smollm2, "--numerics", numerics, "--json"]
    command = [EADEM, "generate", *model, "--max-tokens", "4", "--kv-memory", "64M"]
    info = subprocess.run([EADEM, "info", *model], capture_output=True, text=True)
    packed = json.loads(info.stdout)["model"]["weight_bytes"]
    run = subprocess.run([sys.executable, "-c", MEASURE, *command, "Hello"], capture_output=True, text=True, check=True)
    peak = int(run.stdout.splitlines()[0])
    assert packed > 80 * MIB, "the control: this is the real model"
    assert packed < peak, "the control: the weights are resident"
    assert peak < 1.15 * packed + 64 * MIB + 100 * MIB
