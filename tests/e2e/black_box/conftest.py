"""Runs `eadem accept --endpoint` and reads what it found."""

import json
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from serving import program  # noqa: E402 (the path comes first)


class Found:
    """The document of a run, and how the program ended."""

    def __init__(self, process, folder, seconds):
        self.status, self.output, self.errors = process.returncode, process.stdout, process.stderr
        self.seconds = seconds
        report = folder / "accept.json"
        self.document = json.loads(report.read_text())["predicate"]["eadem"] if report.exists() else None
        self.cells = {cell["name"]: cell for cell in self.document["cells"]} if self.document else {}

    def verdicts(self):
        return {name: cell["verdict"] for name, cell in self.cells.items()}

    def met(self, name):
        """What speaks for the requests of a cell having met: one object for each that was compared."""
        runs = self.cells[name]["evidence"]["runs"]
        return [one for run in runs for one in run.get("co_residency", [])]


@pytest.fixture
def accept(tmp_path):
    def run(url, *options, seconds=600):
        folder = tmp_path / "found"
        command = [program(), "accept", "--endpoint", url, "--out", str(folder), *map(str, options)]
        start = time.monotonic()
        process = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        return Found(process, folder, time.monotonic() - start)

    return run


@pytest.fixture
def short(tmp_path):
    """A matrix of three cells."""
    return shutil.copy(pathlib.Path(__file__).parent / "short.toml", tmp_path)
