"""The program as a user runs it, on small random models that are part of the repository."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("EADEM", str(ROOT / "build" / "eadem"))
MODELS = ROOT / "tests" / "accuracy" / "fixtures" / "models"
TIMEOUT = 600


class Eadem:
    """Runs `eadem COMMAND -m MODEL ...` with an empty cache of models."""

    def __init__(self, folder, model=MODELS / "llama3"):
        self.folder, self.model = folder, model
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("EADEM")}
        self.environment["EADEM_CACHE"] = str(folder / "cache")

    def command(self, name, *arguments):
        model = ["-m", str(self.model)] if self.model and name not in ("pull", "--version", "--help") else []
        return [PROGRAM, name, *model, *map(str, arguments)]

    def __call__(self, name, *arguments, stdin="", status=0):
        done = subprocess.run(
            self.command(name, *arguments),
            input=stdin.encode(),
            capture_output=True,
            timeout=TIMEOUT,
            env=self.environment,
        )
        assert done.returncode == status, (done.returncode, done.stderr)
        if status != 0:
            lines = done.stderr.decode().splitlines()
            assert len(lines) == 1 and lines[0].startswith("eadem: "), lines
        return done

    def error(self, name, *arguments, stdin="", status=2):
        """The one line on stderr of a run that fails with this status."""
        return self(name, *arguments, stdin=stdin, status=status).stderr.decode()

    def batch(self, requests, *arguments, name="generate", status=0):
        """The answers to request objects (or ready lines), through stdin and stdout."""
        text = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests)
        done = self(name, "--in", "-", *arguments, stdin=text, status=status)
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def eadem(tmp_path):
    return Eadem(tmp_path)
