"""The gate and the corpus as a user runs them, on small random models that are part of the repository."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("EADEM", str(ROOT / "build" / "eadem"))
MODELS = ROOT / "tests" / "accuracy" / "fixtures" / "models"
TIMEOUT = 900


class Eadem:
    """Runs `eadem COMMAND ...` in an empty folder, with an empty cache of models."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("EADEM")}
        self.environment["EADEM_CACHE"] = str(folder / "cache")

    def __call__(self, *arguments, status=0):
        """What it wrote to stdout; where it must fail, its one line on stderr."""
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, env=self.environment
        )
        assert done.returncode == status, (done.returncode, done.stdout[-2000:], done.stderr)
        if status == 0:
            return done.stdout
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("eadem: "), lines
        return (done.stdout, lines[0]) if status == 1 else lines[0]

    def json(self, *arguments, status=0):
        out = self(*arguments, "--json", status=status)
        return json.loads(out[0] if status == 1 else out)


@pytest.fixture
def eadem(tmp_path):
    return Eadem(tmp_path)


@pytest.fixture
def model(tmp_path):
    """A copy of a small model, which a test may change."""
    shutil.copytree(MODELS / "llama2", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def keys(tmp_path):
    """(private, public) files of a fresh Ed25519 key, made by OpenSSL itself."""

    def make(name):
        private, public = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
        return private, public

    return make
