"""The invariance matrix with the NEON set, cross-compiled, under the emulator: the same golden hashes."""

import pytest
from test_invariance import ROOT, cells, run_cell

ARM = ROOT / "build-aarch64" / "tests" / "e2e" / "invariance" / "invariance"
EMULATOR = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", "max"]


def run_on_arm(model, cell, folder):
    if not ARM.exists():
        pytest.skip("the Arm build is absent (./dev test builds it; --no-arm leaves it out)")
    run_cell([*EMULATOR, ARM], model, cell, folder)


@pytest.mark.parametrize("cell", cells("cells_neon.txt"))
def test_cell_on_arm(smollm2, cell, tmp_path):
    run_on_arm(smollm2, cell, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cell", cells("cells_neon_long.txt"))
def test_whole_answers_on_arm(smollm2, cell, tmp_path):
    run_on_arm(smollm2, cell, tmp_path)
