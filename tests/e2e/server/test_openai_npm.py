"""The official npm client `openai`: whole and streamed answers, tools, errors and an aborted stream, in one run."""

import json
import pathlib
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def result(server):
    before = server.wait_idle()
    done = subprocess.run(
        ["node", "client.mjs", server.url + "/v1", server.model_name()],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    server.wait_ended("cancelled", before["answers"]["cancelled"] + 1)
    return result


def test_models(result, server):
    assert server.model_name() in result["models"]


def test_a_stream_joins_to_the_unstreamed_answer(result):
    choice = result["whole"]["choices"][0]
    assert choice["message"]["content"] == result["streamed"]["text"] == result["helper"]
    assert [entry["logprob"] for entry in choice["logprobs"]["content"]] == result["streamed"]["logprobs"]
    assert result["streamed"]["reasons"] == [choice["finish_reason"]]
    assert result["streamed"]["usage"]["completion_tokens"] == result["whole"]["usage"]["completion_tokens"]


def test_tools(result):
    (call,) = result["tool"]["choices"][0]["message"]["tool_calls"]
    (parts,) = result["toolStreamed"]["tools"].values()
    assert call["function"]["name"] == parts["name"] == "set_light"
    assert call["function"]["arguments"] == parts["arguments"]
    assert set(json.loads(parts["arguments"])) == {"room", "on"}
    assert parts["id"] and result["toolStreamed"]["text"] == ""


def test_token_ids_and_embeddings(result):
    assert result["completion"]["usage"] == {
        **result["completion"]["usage"],
        "prompt_tokens": 2,
        "completion_tokens": 8,
        "total_tokens": 10,
    }
    assert result["embedding"] == 576


def test_errors_are_the_clients_classes(result):
    assert result["badField"]["name"] == "BadRequestError" and "frobnicate" in result["badField"]["message"]
    assert result["badModel"]["name"] == "NotFoundError" and result["badModel"]["status"] == 404


def test_an_aborted_stream_is_cancelled(result):
    # It aborts at the third event; events that came in the same read are still handed out by the client.
    # That the answer was cancelled is waited for above.
    assert 3 <= result["aborted"] < 4000
