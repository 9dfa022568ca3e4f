"""The acceptance matrix finds each of ten seeded faults, in the cells that are about it, and in no other.

`eadem-faulty` is the program with a fault led into it by the linker (tests/support/faults). Without one it is accepted;
under each it fails, cell by cell as expectations.py says. `--long`: every cell, on SmolLM2.
"""

import json
import os
import pathlib
import subprocess

import pytest
from expectations import EXPECTED
from tiny_model import write_model

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("EADEM", ROOT / "build" / "eadem")).parent
FAULTY = BUILD / "tests" / "e2e" / "seeded_faults" / "eadem-faulty"
FIXTURE = ROOT / "tests" / "accuracy" / "fixtures" / "models" / "llama3"


def accept(fault, model, *arguments, timeout=600):
    """(cell -> its result, how often the fault acted in the program's own process)."""
    # Two threads whatever the machine has: a fault of theirs needs a number of its own.
    command = [FAULTY, "accept", "-m", model, "--threads", "2", "--json", *arguments]
    environment = {**os.environ, "EADEM_FAULT": fault}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    last = done.stderr.splitlines()[-1].split() if done.stderr else []
    assert last[:3] == ["fault", fault, "acted"], (done.returncode, done.stderr)
    result = json.loads(done.stdout)
    assert done.returncode == (0 if result["verdict"] == "pass" else 1), done.stderr
    return {cell["name"]: cell for cell in result["cells"]}, int(last[3])


def describe(cells, names):
    return {name: (cells[name]["verdict"], cells[name]["reason"], cells[name]["first_difference"]) for name in names}


def check(fault, cells):
    """Where a cell must see the fault it must have seen answers move, not only have failed."""
    must_fail, must_pass = EXPECTED[fault]
    missed = [name for name in must_fail if cells[name]["verdict"] != "fail" or not cells[name]["first_difference"]]
    alarmed = [name for name in must_pass if cells[name]["verdict"] != "pass"]
    assert not missed, (fault, describe(cells, missed))
    assert not alarmed, (fault, describe(cells, alarmed))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return str(write_model(FIXTURE, tmp_path_factory.mktemp("faults") / "tiny"))


@pytest.mark.parametrize("fault", EXPECTED)
def test_the_matrix_on_a_tiny_model(fault, tiny):
    must_fail, must_pass = EXPECTED[fault]
    chosen = [argument for name in must_fail + must_pass for argument in ("--cell", name)]
    cells, acted = accept(fault, tiny, "--matrix", "quick", "--numerics", "fma32", *chosen)
    assert set(cells) == set(must_fail + must_pass)
    assert (acted > 0) == (fault != "none")
    check(fault, cells)


@pytest.mark.long
@pytest.mark.parametrize("fault", EXPECTED)
def test_the_full_matrix_on_smollm2(fault, smollm2):
    cells, acted = accept(fault, smollm2, "--matrix", "full", "--numerics", "int8", timeout=7200)
    assert (acted > 0) == (fault != "none")
    check(fault, cells)
    if fault == "none":
        verdicts = {name: cell["verdict"] for name, cell in cells.items() if cell["verdict"] != "pass"}
        assert set(verdicts.values()) <= {"not_testable"}, verdicts
        assert len(cells) >= 25
