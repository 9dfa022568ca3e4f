"""What all end-to-end tests share: the real small model, fetched once by the program itself."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def smollm2():
    """The path of SmolLM2's file. EADEM_SMOLLM2 names a copy where there is no network."""
    if "EADEM_SMOLLM2" in os.environ:
        return os.environ["EADEM_SMOLLM2"]
    eadem = os.environ.get("EADEM", str(ROOT / "build" / "eadem"))
    pulled = subprocess.run([eadem, "pull", "smollm2-135m"], capture_output=True, text=True, timeout=900)
    assert pulled.returncode == 0, pulled.stderr
    return pulled.stdout.strip().splitlines()[-1]
