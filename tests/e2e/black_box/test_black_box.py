"""The acceptance matrix from outside: the server passes, free order and a batch-variant stub fail.

A server that runs one request at a time is not testable, and what is broken gives one clear line.
"""

import pathlib
import shutil

import pytest
from serving import FIXTURE_MODELS, Server, free_port
from stub_endpoint import Stub

SHORT = (pathlib.Path(__file__).parent / "short.toml").read_text()
COMPANY = ("batch.size", "batch.position", "batch.content", "batch.seeded", "batch.all", "batch.long_prompt")


@pytest.fixture
def model(tmp_path):
    """The small random model, with room for long answers."""
    path = pathlib.Path(tmp_path) / "model"
    shutil.copytree(FIXTURE_MODELS / "smollm2", path)
    config = path / "config.json"
    config.write_text(config.read_text().replace('"max_position_embeddings": 512', '"max_position_embeddings": 4096'))
    return path


def serve(model, folder, *options):
    return Server(model, *options, folder=folder, environment={"HOME": str(folder)})


# ---- eadem's own server ----


def test_the_server_passes_and_its_requests_met(accept, model, tmp_path):
    with serve(model, tmp_path / "server") as server:
        found = accept(server.url)
        stats = server.stats()["engine"]
    assert found.status == 0, found.output + found.errors
    verdicts = found.verdicts()
    assert found.document["verdict"] == "pass" and set(verdicts.values()) == {"pass", "not_testable"}, verdicts
    assert sum(1 for verdict in verdicts.values() if verdict == "pass") >= 20, verdicts
    assert found.document["options"]["endpoint"]["compared"] == "bits"
    for name in COMPANY:
        assert verdicts[name] == "pass" and found.cells[name]["compared"] >= 1, found.cells[name]
        assert all(met["reached"] for met in found.met(name)[-1:]), found.met(name)
    assert stats["max_sequences"] >= 8 and stats["mixed_steps"] >= 1, stats
    assert all(cell["reason"] for cell in found.cells.values() if cell["verdict"] == "not_testable")


def test_free_order_fails_under_load_and_repeats_alone(accept, model, tmp_path):
    with serve(model, tmp_path / "server", "--mode", "free", "--threads", 2) as server:
        found = accept(server.url)
    assert found.status == 1, found.output + found.errors
    verdicts = found.verdicts()
    assert found.document["verdict"] == "fail"
    assert verdicts["repeat"] == "pass" and verdicts["co-residency"] == "pass", verdicts
    assert verdicts["batch.size"] == "fail" and verdicts["batch.all"] == "fail", verdicts
    first = found.cells["batch.size"]["first_difference"]
    assert first["field"] == "logprobs" and first["was"]["bits"] != first["is"]["bits"], first
    assert "-free" in found.document["numerics"][0]


# ---- stubs: how requests run ----


@pytest.mark.parametrize("metrics", [False, True])
def test_one_request_at_a_time_is_not_testable(accept, short, metrics):
    with Stub(way="one", metrics=metrics) as stub:  # its gauge counts what waits
        found = accept(stub.url, "--matrix", short)
        assert stub.most_running == 1
    assert found.status == 1 and found.document["verdict"] == "not_testable"
    assert found.verdicts() == {"repeat": "pass", "co-residency": "not_testable", "batch.size": "not_testable"}
    assert "co-residency was not reached" in found.cells["batch.size"]["reason"]
    assert found.cells["batch.size"]["compared"] == 0
    assert not any(met["reached"] for met in found.met("co-residency"))


@pytest.mark.parametrize("metrics", [False, True])
def test_requests_that_run_together_are_seen_to(accept, short, metrics):
    with Stub(metrics=metrics) as stub:
        found = accept(stub.url, "--matrix", short)
        assert stub.most_running >= 3
    assert found.status == 0, found.output + found.errors
    met = found.met("batch.size")[-1]
    assert met["reached"] and met["strength"] in ("strong", "moderate", "weak"), met
    assert met["gauge_readings"] == 0 or metrics


def test_an_answer_that_depends_on_the_batch_is_found(accept, short):
    with Stub(variant=True) as stub:
        found = accept(stub.url, "--matrix", short)
    assert found.status == 1 and found.document["verdict"] == "fail"
    assert found.verdicts() == {"repeat": "pass", "co-residency": "pass", "batch.size": "fail"}
    first = found.cells["batch.size"]["first_difference"]
    assert first["field"] == "logprobs" and abs(first["was"]["value"] - first["is"]["value"]) < 1e-4, first


def test_without_logprobs_texts_are_compared(accept, short):
    with Stub(logprobs=False) as stub:
        found = accept(stub.url, "--matrix", short)
    assert found.status == 0, found.output + found.errors
    assert found.document["options"]["endpoint"]["compared"] == "tokens"
    assert found.cells["batch.size"]["level"] == "tokens"


# ---- stubs: what is wrong ----


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("garbage", "sent what is no JSON object: '<html>"),
        ("deep", "has a choice without a proper index"),
        ("failing", "out of cheese"),
        ("busy for long", "to come back in 3600 s"),
        ("silent", "nothing came for 1 s"),
        ("endless", "longer than 64 MiB"),
        ("unknown model", "--endpoint-model"),
        ("moved", "http://127.0.0.1:1/elsewhere"),
    ],
)
def test_what_is_broken_is_one_clear_line(accept, fault, words):
    with Stub(fault=fault) as stub:
        found = accept(stub.url, "--endpoint-timeout", 1 if fault == "silent" else 60)
    assert found.status == 2 and words in found.errors, found.errors
    assert found.errors.startswith("eadem: ") and found.errors.count("\n") == 1, found.errors
    assert found.document is None


def test_retry_after_is_honoured(accept, short):
    with Stub(fault="busy twice") as stub:
        found = accept(stub.url, "--matrix", short)
        assert stub.times[1] - stub.times[0] >= 1 and stub.times[2] - stub.times[1] >= 1, stub.times[:3]
    assert found.status == 0, found.output + found.errors
    assert found.document["options"]["retries"] == 2


def test_an_answer_that_is_cut_off_in_company_fails(accept, short):
    # So slow that the neighbours still run when the request comes that is cut off beside them.
    with Stub(fault="cut in company", step=0.02) as stub:
        found = accept(stub.url, "--matrix", short)
    assert found.status == 1 and found.document["verdict"] == "fail"
    assert found.verdicts() == {"repeat": "pass", "co-residency": "fail", "batch.size": "not_testable"}
    assert "cut off" in found.cells["co-residency"]["reason"], found.cells["co-residency"]


def test_keys(accept, short, tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_text("secret\n")
    with Stub(key="secret") as stub:
        refused = accept(stub.url, "--matrix", short)
        assert refused.status == 2 and "HTTP 401" in refused.errors and "--api-key-file" in refused.errors
        assert accept(stub.url, "--matrix", short, "--api-key-file", file).status == 0
        monkeypatch.setenv("EADEM_API_KEY", "wrong")
        wrong = accept(stub.url, "--matrix", short)
        assert wrong.status == 2 and "is not accepted" in wrong.errors
        monkeypatch.setenv("EADEM_API_KEY", "secret")
        found = accept(stub.url, "--matrix", short)
    assert found.status == 0 and "secret" not in found.output + found.errors
    assert "secret" not in (tmp_path / "found" / "accept.json").read_text()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost/", "http://localhost:80/?key=1"])
def test_what_is_no_endpoint_is_refused(accept, url):
    found = accept(url)
    assert found.status == 2 and "--endpoint must be" in found.errors, found.errors


def test_nobody_listens(accept):
    found = accept(f"http://127.0.0.1:{free_port()}")
    assert found.status == 2 and "is the server running?" in found.errors, found.errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[cell]]\nname = 'a'\n", "needs `invariant`"),
        (SHORT.replace("endpoint.repeat", "endpoint.magic"), "there is no way 'endpoint.magic'"),
        (SHORT.replace('"batch.size"', '"repeat"'), "two cells of the name 'repeat'"),
        (SHORT.replace("values = [3]", "value = [3]"), "no field `value`"),
        ("cell = 3\n", "[[cell]]"),
        ("[[cell\n", "short.toml:1"),
    ],
)
def test_a_faulty_declaration_names_the_line(accept, short, text, words):
    pathlib.Path(short).write_text(text)
    found = accept("http://127.0.0.1:1", "--matrix", short)
    assert found.status == 2 and words in found.errors and "short.toml" in found.errors, found.errors
