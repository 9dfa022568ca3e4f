"""The invariance matrix on SmolLM2: every cell meets the golden hash of each prompt and numerics (invariance.cc)."""

import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
NATIVE = ROOT / "build" / "tests" / "e2e" / "invariance" / "invariance"


def cells(name):
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


def run_cell(command, model, cell, folder):
    file = folder / "cell.txt"
    file.write_text(cell + "\n")
    run = subprocess.run(
        [*command, model, HERE / "prompts.txt", HERE / "golden.txt", file], capture_output=True, text=True, timeout=3600
    )
    if re.search(r"^0 passed, 0 failed, 1 skipped$", run.stdout, re.MULTILINE):
        pytest.skip(run.stdout.splitlines()[0])
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^1 passed, 0 failed, 0 skipped$", run.stdout, re.MULTILINE), run.stdout


@pytest.mark.parametrize("cell", cells("cells.txt"))
def test_cell(smollm2, cell, tmp_path):
    run_cell([NATIVE], smollm2, cell, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cell", cells("cells_long.txt"))
def test_cell_of_the_pairwise_array(smollm2, cell, tmp_path):
    run_cell([NATIVE], smollm2, cell, tmp_path)
