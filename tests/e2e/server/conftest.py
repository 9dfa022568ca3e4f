"""Servers for the tests of this folder; the process and its requests are in tests/support/serving.py."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from serving import FIXTURE_MODELS, Server, servers_of  # noqa: E402 (the path comes first)


@pytest.fixture(scope="module")
def server(tmp_path_factory, smollm2):
    """One server of the real small model for all tests of a file; it must end cleanly after the last.

    The model's own template knows no tools; this one shows it how to call them.
    """
    template = pathlib.Path(__file__).parent / "tools.jinja"
    options = ["--served-model-name", "smollm2-135m", "--chat-template", template]
    with Server(smollm2, *options, folder=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def serve(tmp_path):
    """Starts servers with options, of a small random model where none is named; each must end cleanly."""
    yield from servers_of(tmp_path, FIXTURE_MODELS / "llama3")
