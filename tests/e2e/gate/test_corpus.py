"""eadem corpus: add, freeze, check, and requests from a server's log without what they may give away."""

import json
import sys

import pytest
from conftest import MODELS, ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))

from serving import Server  # noqa: E402 (the path comes first)

SECRETS = [
    "jane.doe@corp.example.org",
    "hunter2",
    "+49 170 1234567",
    "sk-proj-Ab3dEfGh1JkLmN0pQrStUv",
    "4111 1111 1111 1111",
    "123456789012",
    "PRJ-4711",
]


def write(path, *requests):
    path.write_text("".join(json.dumps(r) + "\n" for r in requests))
    return path


def test_add_freeze_check(eadem, tmp_path):
    short = write(tmp_path / "short.jsonl", {"id": "a", "prompt": "x", "temperature": 0})
    code = write(tmp_path / "code.jsonl", {"id": "b", "prompt": "y", "temperature": 1, "seed": 1})
    folder = tmp_path / "corpus"
    added = eadem.json("corpus", "add", folder, short, code, "--licence", "CC0-1.0")
    assert added["frozen"] is None and added["requests"] == 2
    frozen = eadem.json("corpus", "freeze", folder, "--day", "2026-11-29")
    assert frozen["frozen"] == "2026-11-29" and frozen["digest"] == added["digest"]
    assert [f["category"] for f in frozen["files"]] == ["short", "code"]
    assert eadem.json("corpus", "check", folder)["valid"]
    assert "--thaw" in eadem("corpus", "add", folder, short, status=2)

    text = (folder / "short.jsonl").read_text()
    (folder / "short.jsonl").write_text(text.replace('"x"', '"z"'))
    _, error = eadem("corpus", "check", folder, status=1)
    assert "short.jsonl was changed after the freeze" in error
    assert not eadem.json("corpus", "check", folder, status=1)["valid"]
    (folder / "short.jsonl").write_text(text)
    assert "not frozen" in eadem("corpus", "freeze", folder, "--thaw")
    more = write(tmp_path / "more.jsonl", {"id": "c", "prompt": "z", "temperature": 0})
    assert eadem.json("corpus", "add", folder, more, "--category", "short")["requests"] == 3


def test_bad_usage(eadem, tmp_path):
    short = write(tmp_path / "short.jsonl", {"id": "a", "prompt": "x", "temperature": 0})
    folder = tmp_path / "corpus"
    for arguments, words in [
        (["melt", folder], "use add, freeze or check"),
        (["add", folder], "either FILE.jsonl or --from-log"),
        (["add", folder, tmp_path / "none.jsonl"], "none.jsonl is missing"),
        (["add", folder, short, "--level", "vibes"], "bits or tokens"),
        (["add", folder, short, "--category", "../up"], "category"),
        (["add", folder, short, "--redact", "x"], "--redact goes with --from-log"),
        (["add", folder, "--from-log", short, "--redact", "("], "POSIX"),
        (["freeze", folder, "--day", "today"], "2026-11-29"),
        (["freeze", folder], "no folder"),
        (["check", folder], "no folder"),
        (["check", folder, short], "go with `eadem corpus add`"),
    ]:
        assert words in eadem("corpus", *arguments, status=2), arguments
    assert not folder.exists()


def test_the_default_corpus_is_frozen_and_whole(eadem):
    checked = eadem.json("corpus", "check", ROOT / "corpus" / "default")
    assert checked["frozen"] and checked["requests"] >= 60 and checked["licence"] == "Apache-2.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The log of a server that was asked requests full of secrets."""
    folder = tmp_path_factory.mktemp("log")
    text = (
        f"I am Jane, {SECRETS[0]}, phone {SECRETS[2]}. Clone https://jane:{SECRETS[1]}@git.example.org/x.git with "
        f"{SECRETS[3]}, pay with {SECRETS[4]}, account {SECRETS[5]}, for {SECRETS[6]}."
    )
    options = ["--log-prompts", "--log-file", folder / "log.jsonl"]
    with Server(MODELS / "llama3", *options, folder=folder) as server:
        for body in (
            {"prompt": text, "max_tokens": 4, "temperature": 0, "user": SECRETS[0]},
            {"prompt": text, "max_tokens": 4, "temperature": 0},
            {"prompt": ["plain one", "plain two"], "max_tokens": 4, "seed": 9},
            {"prompt": [1, 2, 3], "max_tokens": 4},
            {"prompt": "refused", "colour": 1},
        ):
            server.post("/v1/completions", body)
    return folder / "log.jsonl"


def test_a_log_without_its_secrets(eadem, log, tmp_path):
    original = log.read_text()
    for secret in SECRETS:
        assert secret in original  # the log holds them: the test would prove nothing otherwise
    folder = tmp_path / "corpus"
    result = eadem.json("corpus", "add", folder, "--from-log", log, "--redact", "PRJ-[0-9]+", "--category", "ours")
    assert result["taken"] == 3 and result["repeated"] == 1
    assert result["left_out"] == {"token ids, which cannot be redacted": 1}
    for kind in ("email", "url", "phone", "key", "digits", "custom"):
        assert result["redacted"][kind] >= 1, kind
    everything = "".join(path.read_text() for path in folder.iterdir())
    for secret in SECRETS:
        assert secret not in everything
    assert "I am Jane" in everything  # names are not known: the documentation says so
    first = (folder / "ours.jsonl").read_text()
    again = tmp_path / "again"
    eadem("corpus", "add", again, "--from-log", log, "--redact", "PRJ-[0-9]+", "--category", "ours")
    assert (again / "ours.jsonl").read_text() == first
    eadem("corpus", "freeze", folder)
    eadem("gate", "-m", MODELS / "llama3", "--corpus", folder, "--baseline", tmp_path / "b.json", "--record")
    assert eadem.json("gate", "-m", MODELS / "llama3", "--corpus", folder, "--baseline", tmp_path / "b.json")


def test_a_log_without_bodies_says_what_to_do(eadem, tmp_path):
    line = {"event": "request", "path": "/v1/completions", "status": 200}
    log = write(tmp_path / "log.jsonl", line)
    assert "--log-prompts" in eadem("corpus", "add", tmp_path / "corpus", "--from-log", log, status=2)
    assert not (tmp_path / "corpus" / "manifest.json").exists()
