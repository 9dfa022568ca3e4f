"""eadem gate: records, compares, tells what drifted, and takes approvals."""

import itertools
import json
import re

import pytest
from conftest import MODELS, ROOT

REQUESTS = [
    {"id": "greedy", "prompt": "The first of many", "temperature": 0, "max_tokens": 24},
    {"id": "drawn", "prompt": "And now for", "temperature": 1, "seed": 5, "max_tokens": 24, "n": 2},
    {"id": "penalty", "prompt": "a b a b a b", "temperature": 0, "repetition_penalty": 1.3, "max_tokens": 16},
]


@pytest.fixture
def corpus(eadem, tmp_path):
    lines = tmp_path / "own.jsonl"
    lines.write_text("".join(json.dumps(r) + "\n" for r in REQUESTS))
    eadem("corpus", "add", tmp_path / "corpus", lines)
    chat = {"id": "chat", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 8}
    (tmp_path / "chat.jsonl").write_text(json.dumps(chat) + "\n")
    eadem("corpus", "add", tmp_path / "corpus", tmp_path / "chat.jsonl", "--level", "tokens")
    eadem("corpus", "freeze", tmp_path / "corpus")
    return tmp_path / "corpus"


@pytest.fixture
def gate(eadem, corpus, model, tmp_path):
    """(how to call the gate, the baseline), the baseline being recorded."""
    baseline = tmp_path / "baseline" / "int8.json"
    baseline.parent.mkdir()
    common = ["gate", "-m", model, "--corpus", corpus, "--baseline", baseline]
    eadem(*common, "--record", "--threads", "1")
    return common, baseline


def change_weights(model):
    """One bit of one weight."""
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + header])
    name = next(n for n in tensors if n.endswith("down_proj.weight"))
    begin = 8 + header + tensors[name]["data_offsets"][0]
    data[begin + 1] ^= 0x80  # the sign of the first element
    path.write_bytes(data)


def answers_of(eadem, model):
    """What `eadem generate` says to the same requests: the computation beside the gate's.

    The gate takes plain defaults; `generate` takes the model's own, unless a request says otherwise.
    """
    plain = {"top_p": 1, "top_k": 0, "min_p": 0, "logprobs": 0}
    path = eadem.folder / "in.jsonl"
    path.write_text("".join(json.dumps({**plain, **r}) + "\n" for r in REQUESTS))
    lines = eadem("generate", "-m", model, "--in", path).splitlines()
    answers = {}
    for line in map(json.loads, lines):
        name = line["id"] + (f"#{line['index']}" if line["index"] else "")
        answers[name] = line
    return answers


def test_unchanged_code_passes_however_it_runs(eadem, gate):
    common, baseline = gate
    for options in ([], ["--threads", "2", "--prefill-chunk", "3"], ["--max-batch", "1"], ["--isa", "reference"]):
        report = eadem.json(*common, *options)
        assert report["verdict"] == "pass" and report["cause"] == "none"
        assert report["counts"]["pass"] >= 4 and report["counts"]["drift"] == 0
    assert report["baseline"]["identity"] == report["subject"]["identity"]
    assert "Nothing" not in report["summary"]
    assert [r["id"] for r in report["requests"]][:4] == ["greedy", "drawn", "drawn#1", "penalty"]


def test_recording_is_of_the_requests_alone(eadem, gate, tmp_path):
    common, baseline = gate
    other = tmp_path / "other.json"
    eadem(*common[:-1], other, "--record", "--threads", "2", "--max-batch", "1")
    a, b = (json.loads(p.read_text()) for p in (baseline, other))
    assert a["answers"] == b["answers"] and a["identity"] == b["identity"]
    assert a["deployment"] != b["deployment"]


def test_changed_weights_fail_with_the_right_first_difference(eadem, gate, model, tmp_path):
    common, baseline = gate
    was = answers_of(eadem, model)
    change_weights(model)
    now = answers_of(eadem, model)
    report = eadem.json(*common, "--out", tmp_path / "report", status=1)
    assert report["verdict"] == "fail" and report["cause"] == "identity_changed"
    assert [c["field"] for c in report["identity_differences"]] == ["weights"]
    drifted = 0
    for row in report["requests"]:
        if row["id"] not in was:
            continue
        a, b = was[row["id"]], now[row["id"]]
        pairs = list(itertools.zip_longest(a["token_ids"], b["token_ids"]))  # None where an answer has ended
        first = next((i for i, (x, y) in enumerate(pairs) if x != y), None)
        if first is not None:
            assert row["first_difference"]["what"] == "token"
            assert row["first_difference"]["step"] == first
            assert (row["first_difference"]["expected"], row["first_difference"]["found"]) == pairs[first]
            assert row["logprob_distance"] > 0 and row["kl"] > 0
            assert pairs[first][0] is None or row["near_tie_margin"] >= 0
            drifted += 1
        elif a["logprobs"] != b["logprobs"]:
            first = next(i for i, (x, y) in enumerate(zip(a["logprobs"], b["logprobs"], strict=True)) if x != y)
            assert row["first_difference"]["what"] == "logprob" and row["first_difference"]["step"] == first
            drifted += 1
    assert drifted > 0
    assert json.loads((tmp_path / "report" / "gate.json").read_text())["counts"] == report["counts"]
    page = (tmp_path / "report" / "gate.html").read_text()
    assert report["summary"].split("(")[0].strip() in page
    out, error = eadem(*common, status=1)
    assert "drifted" in error and "weights: was" in out


def test_bits_that_change_under_equal_identity_are_a_bug(eadem, gate):
    """What a broken kernel looks like: the baseline tells another token than the engine gives."""
    common, baseline = gate
    recorded = json.loads(baseline.read_text())
    eadem(*common[:-1], baseline, "--record", "--overwrite", "--brief", "--threads", "1")
    lines = baseline.read_text().splitlines()
    index = next(i for i, line in enumerate(lines) if '"id":"greedy"' in line)
    tokens = recorded["answers"][0]["token_ids"]
    changed = [*tokens[:5], (tokens[5] + 1) % 100, *tokens[6:]]
    lines[index] = lines[index].replace(json.dumps(tokens, separators=(",", ":")), str(changed).replace(" ", ""))
    baseline.write_text("\n".join(lines) + "\n")
    out, error = eadem(*common, "--threads", "2", status=1)
    assert "under equal identity: this is a bug" in error
    assert "greedy (bits): token 5 was" in out and "1 tokens differ" in out
    assert "threads: was 1, is 2" in out
    report = eadem.json(*common, "--threads", "2", status=1)
    assert report["cause"] == "bits_changed" and report["counts"]["drift"] == 1
    assert "threads" in [c["field"] for c in report["deployment_differences"]]


def test_an_approval_makes_the_next_run_pass_and_stays_listed(eadem, gate, model, keys):
    common, baseline = gate
    private, public = keys("signer")
    _, stranger = keys("stranger")
    approve = ["--approve", "--reason", "one weight was wrong", "--key", private]
    assert "nothing to approve" in eadem(*common, *approve, status=2)
    change_weights(model)
    out = eadem(*common, *approve, "--signer", "A. Signer")
    assert "approval of" in out and "A. Signer" in out and "one weight was wrong" in out

    report = eadem.json(*common, "--trusted-key", public)
    assert report["verdict"] == "pass" and report["counts"]["approved"] > 0 and report["counts"]["drift"] == 0
    assert report["approvals"][0]["counts"] and report["approvals"][0]["reason"] == "one weight was wrong"
    assert report["approvals"][0]["from"] == report["baseline"]["digest"]
    assert "with an approval" in report["summary"]

    for options in ([], ["--trusted-key", stranger]):  # of nobody that is trusted: it does not count
        report = eadem.json(*common, *options, status=1)
        assert not report["approvals"][0]["counts"] and "not trusted" in report["approvals"][0]["fault"]
    approvals = baseline.parent / "approvals.jsonl"
    envelope = json.loads(approvals.read_text())
    signature = envelope["signatures"][0]["sig"]
    envelope["signatures"][0]["sig"] = ("A" if signature[5] != "A" else "B").join([signature[:5], signature[6:]])
    approvals.write_text(json.dumps(envelope) + "\n")
    report = eadem.json(*common, "--trusted-key", public, status=1)
    assert "signature is bad" in report["approvals"][0]["fault"]


def test_an_approval_is_of_those_answers_alone(eadem, gate, model, keys):
    common, _ = gate
    private, public = keys("signer")
    change_weights(model)
    eadem(*common, "--approve", "--reason", "meant", "--key", private)
    eadem(*common, "--trusted-key", public)
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x80  # a second change, which nobody approved
    path.write_bytes(data)
    report = eadem.json(*common, "--trusted-key", public, status=1)
    assert report["counts"]["drift"] > 0


def test_one_category_alone(eadem, gate):
    common, _ = gate
    report = eadem.json(*common, "--category", "own")
    assert {r["category"] for r in report["requests"]} == {"own"}
    assert "no category 'x'" in eadem(*common, "--category", "x", status=2)


def test_the_corpus_must_be_the_baselines(eadem, gate, corpus, tmp_path):
    common, baseline = gate
    error = eadem("gate", "-m", common[2], "--baseline", baseline, status=2)
    assert "--corpus" in error and "default" in error
    eadem("corpus", "freeze", corpus, "--thaw")
    assert "not frozen" in eadem(*common, status=2)


def test_bad_usage(eadem, gate, tmp_path, keys):
    common, baseline = gate
    private, public = keys("k")
    for options, words in [
        (["--record"], "exists: --overwrite"),
        (["--record", "--approve"], "--record goes without"),
        (["--approve"], "--reason TEXT and --key"),
        (["--reason", "x"], "go with --approve"),
        (["--brief"], "go with --record"),
        (["--trusted-key", tmp_path / "none"], "none"),
        (["--trusted-key", private], "private"),
        (["--approve", "--reason", "x", "--key", public], "public"),
    ]:
        assert words in eadem(*common, *options, status=2), options
    assert "--baseline is needed" in eadem("gate", "-m", common[2], status=2)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "{}",
        lambda text: "[" * 5000,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("eadem-baseline-1", "eadem-baseline-9"),
        lambda text: text.replace('"id":"greedy"', '"id":"other"'),
        lambda text: text.replace('"token_ids":[', '"token_ids":["x",', 1),
        lambda text: re.sub(r'"logprobs":\[-?[\d.e-]+', '"logprobs":[-7.5', text, count=1),
        lambda text: text.replace('"identity_parts": {', '"identity_parts": [{', 1),
        lambda text: text.replace('"finish_reason"', '"reason"', 1),
    ],
)
def test_a_damaged_baseline_is_one_clear_error(eadem, gate, damage):
    common, baseline = gate
    baseline.write_text(damage(baseline.read_text()))
    assert str(baseline) in eadem(*common, status=2)


def test_the_default_corpus_on_a_model_of_the_repository(eadem, tmp_path):
    """Chat and guides are asked where the model can; what it cannot is said, and is the same the next time."""
    baseline = tmp_path / "b.json"
    options = ["-m", MODELS / "llama3", "--category", "short", "--category", "turns", "--category", "structured"]
    eadem("gate", *options, "--baseline", baseline, "--record", "--brief")
    report = eadem.json("gate", *options, "--baseline", baseline)
    assert report["verdict"] == "pass" and report["counts"]["pass"] > 10
    folder = eadem.json("corpus", "check", ROOT / "corpus" / "default")
    assert folder["digest"] == report["corpus"]["digest"]
