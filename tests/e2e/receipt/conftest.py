"""Receipts through the program: keys, models, and ways to make and verify receipts."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from serving import FIXTURE_MODELS, program, servers_of  # noqa: E402 (the path comes first)

TIMEOUT = 240


class Receipts:
    """Runs the program in one folder, with a key of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("EADEM")}
        self.environment["EADEM_CACHE"] = str(folder / "cache")
        self.key, self.public = folder / "signer.key", folder / "signer.key.pub"
        self.run("keygen", "--out", self.key)

    def run(self, *arguments, status=0):
        command = [program(), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=self.environment)
        assert done.returncode == status, (command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        if status != 0:
            lines = done.stderr.decode().splitlines()
            assert len(lines) == 1 and lines[0].startswith("eadem: "), lines
        return done

    def error(self, *arguments, status=2):
        return self.run(*arguments, status=status).stderr.decode()

    def make(self, name, requests, *arguments, command="generate", model=FIXTURE_MODELS / "llama3"):
        """Writes receipts of these requests to NAME; gives the file and the answers."""
        lines = self.folder / f"{name}.requests"
        lines.write_text("".join(json.dumps(request) + "\n" for request in requests))
        file, answers = self.folder / name, self.folder / f"{name}.answers"
        options = ["--in", lines, "--out", answers, "--receipt", file, "--key", self.key, *arguments]
        self.run(command, "-m", model, *options)
        return file, [json.loads(line) for line in answers.read_text().splitlines()]

    def verify(self, file, *arguments, status=0, model=FIXTURE_MODELS / "llama3", key=True):
        """The report of `eadem verify --json`."""
        known = ["--key", self.public] if key is True else ["--key", key] if key else []
        done = self.run("verify", file, "-m", model, *known, "--json", *arguments, status=status)
        return json.loads(done.stdout)

    def verdict(self, text, *arguments, status=1, **options):
        """What is found about one receipt, given as text: the verdict and the message."""
        file = self.folder / "one.jsonl"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = self.verify(file, *arguments, status=status, **options)["results"]
        assert len(result) == 1
        return result[0]["verdict"], result[0].get("message", ""), result[0]


@pytest.fixture
def receipts(tmp_path):
    return Receipts(tmp_path)


@pytest.fixture
def serve(tmp_path):
    """Starts servers of a small random model; each must end cleanly."""
    yield from servers_of(tmp_path, FIXTURE_MODELS / "llama3")


@pytest.fixture(scope="session")
def kernel_sets():
    """The sets that this machine runs, the fastest last."""
    done = subprocess.run([program(), "info", "--json"], capture_output=True, check=True, timeout=TIMEOUT)
    sets = [s["name"] for s in json.loads(done.stdout)["kernel_sets"] if s["supported"]]
    assert "reference" in sets
    return list(reversed(sets))
