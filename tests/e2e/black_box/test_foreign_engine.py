"""Engines without a contract, seen from outside: llama.cpp with everything in one batch, and its stock Python server.

Where llama-cpp-python cannot be imported (its build takes long), EADEM_LLAMA_PYTHON may name an interpreter that has
it, with `fastapi`, `uvicorn` and the other needs of its server; otherwise the tests are skipped.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from serving import ROOT, Server

pytestmark = pytest.mark.long
BATCHED = pathlib.Path(__file__).parent / "llama_batch_server.py"
QUIET = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}  # llama.cpp's threads spin otherwise


def interpreter(module):
    python = os.environ.get("EADEM_LLAMA_PYTHON", sys.executable)
    if python == sys.executable:
        there = importlib.util.find_spec(module.split(".")[0]) is not None
    else:
        there = subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0
    if not there:
        pytest.skip(f"{module} cannot be imported by {python}: install llama-cpp-python, or set EADEM_LLAMA_PYTHON")
    return python


class WithoutHealth(Server):
    """A server that knows /v1/models alone."""

    def _healthy(self):
        try:
            return self.get("/v1/models")[0] == 200
        except OSError:
            return False


@pytest.fixture
def bf16(smollm2, tmp_path):
    """The model with its weights in BF16: llama.cpp multiplies those by other routines when there are more rows."""
    target = tmp_path / "bf16.gguf"
    make = [sys.executable, ROOT / "bench" / "cpu" / "models.py", "smollm2-135m", "BF16", target, "--smollm2", smollm2]
    done = subprocess.run([str(word) for word in make], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def test_the_batch_variance_of_llama_cpp_is_found(accept, short, bf16, tmp_path):
    command = [interpreter("llama_cpp"), BATCHED, bf16, "--threads", "1"]
    server = WithoutHealth("", folder=tmp_path / "server", command=[str(part) for part in command], environment=QUIET)
    server.start()
    try:
        found = accept(server.url, "--matrix", short, seconds=3600)
        most = server.metric("llama_batch_most_running")
    finally:
        server.kill()
    print(found.output)
    assert most >= 4, "requests ran in one llama_decode"
    assert found.status == 1 and found.document["verdict"] == "fail", found.output + found.errors
    assert found.verdicts()["repeat"] == found.verdicts()["co-residency"] == "pass", found.verdicts()
    assert found.met("co-residency")[-1]["strength"] == "strong"
    assert found.cells["batch.size"]["verdict"] == "fail", found.cells["batch.size"]
    first = found.cells["batch.size"]["first_difference"]
    assert first["field"] in ("token_ids", "logprobs", "top_logprobs"), first


def test_the_stock_server_of_llama_cpp_runs_one_at_a_time(accept, short, smollm2, tmp_path):
    python = interpreter("llama_cpp.server.app")
    command = [python, "-m", "llama_cpp.server", "--model", smollm2, "--n_ctx", "2048", "--n_threads", "1"]
    server = WithoutHealth("", folder=tmp_path / "server", command=command, environment=QUIET)
    server.start()
    try:
        found = accept(server.url, "--matrix", short, seconds=3600)
    finally:
        server.kill()
    print(found.output)
    assert found.status == 1 and found.document["verdict"] in ("not_testable", "fail"), found.output + found.errors
    for name in ("co-residency", "batch.size"):
        assert found.cells[name]["verdict"] == "not_testable", found.cells[name]
        assert "co-residency was not reached" in found.cells[name]["reason"]
        assert found.cells[name]["compared"] == 0
