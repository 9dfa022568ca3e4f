"""Property tests from the server's own /openapi.json: whatever is sent, the answer is one that the description allows.

The short run has a fixed seed and a small model. The long one takes EADEM_SCHEMATHESIS_SECONDS (600) and is meant for a
program built with sanitizers: EADEM=build-asan/eadem.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

# What is not checked, and why: `ignored_auth` and `use_after_free` have no operation here that they fit.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance"
    ",response_schema_conformance,negative_data_rejection,unsupported_method"
)
CONFIGURATION = pathlib.Path(__file__).with_name("schemathesis.toml")


def schemathesis(server, folder, *options):
    """Runs it and returns what it printed; fails on a finding, and where it tested nothing."""
    command = [str(pathlib.Path(sys.executable).parent / "schemathesis"), "--config-file", str(CONFIGURATION)]
    command += ["run", server.url + "/openapi.json"]
    done = subprocess.run(
        [*command, "--checks", CHECKS, "--request-timeout", "60", "--no-color", "--continue-on-failure", *options],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    tested = re.search(r"Tested:\s+(\d+)", done.stdout)
    assert tested and int(tested.group(1)) >= 8, done.stdout[-3000:]
    server.wait_idle()
    return done.stdout


def test_the_description_is_kept(serve, tmp_path):
    server = serve("--max-model-len", "512")
    schemathesis(
        server, tmp_path, "--max-examples", "12", "--seed", "20261129", "--phases", "examples,coverage,fuzzing"
    )
    assert "Sanitizer" not in server.log()


@pytest.mark.long
def test_the_description_is_kept_for_long(serve, tmp_path):
    server = serve("--max-model-len", "512")
    seconds = os.environ.get("EADEM_SCHEMATHESIS_SECONDS", "600")
    # Most names of a model are none; that is no reason to stop.
    options = ["--workers", "2", "--suppress-health-check", "filter_too_much"]
    schemathesis(server, tmp_path, "--max-time", seconds, *options)
    assert "Sanitizer" not in server.log() and "runtime error" not in server.log()
