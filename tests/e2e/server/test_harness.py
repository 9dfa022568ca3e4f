"""The harness itself, on a fake server: a sound stream passes, and each kind of spoilt one is noticed."""

import asyncio
import http.client
import importlib
import sys

import pytest
from serving import ROOT, Server, joined, metric, parse_metrics

FAKE = [sys.executable, str(ROOT / "tests" / "support" / "fake_server.py"), "serve"]
BODY = {"prompt": "one two three four five", "max_tokens": 5, "logprobs": 0, "stream_options": {"include_usage": True}}


def fake(folder, *options):
    return Server("fake", *options, folder=folder, command=FAKE)


def test_a_sound_stream_passes(tmp_path):
    with fake(tmp_path) as server:
        assert server.model_name() == "fake"
        whole = server.ask("/v1/completions", BODY)
        parts = joined(server.stream("/v1/completions", BODY))
        assert parts["choices"][0]["text"] == whole["choices"][0]["text"] == "one two three four five "
        assert parts["usage"] == whole["usage"]
        assert server.metric("eadem_requests_total") > 0
        assert server.resident() > 1 << 20


@pytest.mark.parametrize("fault", ["lost", "doubled", "no-done", "cut"])
def test_a_spoilt_stream_is_noticed(tmp_path, fault):
    # A body that is cut is http.client's error, the others are assertions of ours.
    with fake(tmp_path, "--fault", fault) as server, pytest.raises((AssertionError, http.client.HTTPException)):
        joined(server.stream("/v1/completions", BODY))


def test_an_exit_status_is_noticed(tmp_path):
    with pytest.raises(AssertionError, match="exit status 3"), fake(tmp_path, "--fault", "dirty"):
        pass


def test_a_program_that_ends_at_once_is_noticed(tmp_path):
    server = Server("fake", folder=tmp_path, command=[sys.executable, "-c", "import sys; sys.exit('no model')"])
    with pytest.raises(AssertionError, match="ended with 1: no model"):
        server.start()


@pytest.mark.parametrize("fault", ["", "lost", "doubled", "no-done", "cut", "changed"])
def test_the_load_generator_notices(tmp_path, monkeypatch, fault):
    monkeypatch.syspath_prepend(ROOT / "bench" / "serving")
    load = importlib.import_module("load")
    options = load.parse(["soak", "--streams", "8", "--seconds", "1", "--kinds", "4", "--tokens", "16"])
    with fake(tmp_path, "--fault", fault) as server:
        # A busy machine may need longer until each kind was asked twice.
        for seconds in (1, 4, 16, 64):
            options.seconds = seconds
            soak = load.Soak(server, options)
            asyncio.run(soak.run())
            if soak.counts["answers"] > 8 or soak.problems:
                break
    assert bool(soak.problems) == bool(fault), soak.problems[:3]
    assert fault or soak.counts["answers"] > 8


def test_metrics():
    samples = parse_metrics('# HELP a b\na_total{x="1"} 2\na_total{x="2"} 3\nb 1e3\n')
    assert metric(samples, "a_total") == 5 and metric(samples, "b") == 1000
    for wrong in ("a\n", "a 1\na 1\n", "a b c d\n"):
        with pytest.raises(AssertionError):
            parse_metrics(wrong)
