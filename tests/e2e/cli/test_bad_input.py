"""Whatever is wrong with a call: one line that names it, exit status 2, and nothing half-written."""

import json
import shutil

import pytest
from conftest import MODELS


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["generate", "--threads", "many", "x"], ["--threads", "many", "integer"]),
        (["generate", "--threads", "-1", "x"], ["--threads", "-1", "0 ... 1024"]),
        (["generate", "--temperature", "hot", "x"], ["--temperature", "number"]),
        (["generate", "--temperature", "-1", "x"], ["temperature"]),
        (["generate", "--top-p", "1.5", "x"], ["top_p"]),
        (["generate", "--seed", "-1", "x"], ["--seed", "0 ..."]),
        (["generate", "--logit-bias", "5:1", "x"], ["--logit-bias", "ID=BIAS"]),
        (["generate", "--logit-bias", "99999=1", "x"], ["logit_bias", "99999"]),
        (["generate", "--kv-memory", "lots", "x"], ["--kv-memory", "bytes"]),
        (["generate", "--numerics", "fp64", "x"], ["fp64", "mma16"]),
        (["generate", "--isa", "sse", "x"], ["sse", "reference"]),
        (["generate", "--device", "tpu", "x"], ["tpu", "cpu"]),
        (["generate", "--max-batch", "0", "x"], ["--max-batch"]),
        (["generate", "--bogus", "x"], ["--bogus"]),
        (["generate", "--threads"], ["--threads"]),
        (["generate"], ["PROMPT", "--in"]),
        (["generate", "x", "--token-ids", "1"], ["one of"]),
        (["generate", "--token-ids", "1 x"], ["--token-ids", "integers"]),
        (["generate", "--token-ids", "271"], ["271", "270"]),
        (["generate", "--raw", "x" * 3000], ["context"]),
        (["generate", "--kv-blocks", "1", "--max-tokens", "200", "x"], ["kv_blocks"]),
        (["generate", "--max-model-len", "99999", "x"], ["99999", "512"]),
        (["generate", "--in", "/nowhere.jsonl"], ["/nowhere.jsonl"]),
        (["generate", "--in", "/"], ["folder"]),
        (["generate", "x", "--out", "y"], ["--out", "--in"]),
        (["generate", "--raw", "--in", "x"], ["--raw", "--in"]),
        (["score"], ["--in"]),
        (["replay", "/nowhere.jsonl"], ["/nowhere.jsonl"]),
        (["replay"], ["FILE"]),
        (["chat", "--n", "2"], ["--n"]),
        (["bench", "--batch", "0"], ["--batch"]),
        (["pull", "no-such-model"], ["no-such-model", "smollm2-135m"]),
        (["info", "extra"], ["extra"]),
    ],
)
def test_one_line(eadem, arguments, words):
    error = eadem.error(*arguments)
    for word in words:
        assert word in error, error


def test_no_command(eadem):
    eadem.model = None
    assert "frobnicate" in eadem.error("frobnicate")


def test_missing_models(eadem):
    eadem.model = "nowhere/model.gguf"
    assert "nowhere/model.gguf" in eadem.error("generate", "x")
    eadem.model = "smollm2-135m"
    assert "eadem pull smollm2-135m" in eadem.error("generate", "x")
    eadem.model = eadem.folder  # a folder without a model
    assert str(eadem.folder) in eadem.error("generate", "x")


def broken_copy(eadem, change):
    folder = eadem.folder / "model"
    shutil.copytree(MODELS / "qwen2", folder)
    change(folder)
    eadem.model = folder


def change_config(**fields):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def lie_about_header(folder):
    path = folder / "model.safetensors"
    path.write_bytes((1 << 40).to_bytes(8, "little") + path.read_bytes()[8:])


@pytest.mark.parametrize(
    "change, words",
    [
        (change_config(architectures=["MambaForCausalLM"], model_type="mamba"), ["amba"]),
        (change_config(hidden_size=55), ["config.json"]),
        (change_config(vocab_size=100000), ["model.embed_tokens.weight", "100000"]),
        (change_config(rope_scaling={"rope_type": "magic", "factor": 2.0}), ["magic"]),
        (cut_weights, ["model.safetensors"]),
        (lie_about_header, ["model.safetensors"]),
        (lambda folder: (folder / "config.json").write_text("{"), ["config.json"]),
        (lambda folder: (folder / "tokenizer.json").write_text("[]"), ["tokenizer"]),
    ],
)
def test_bad_model_files(eadem, change, words):
    broken_copy(eadem, change)
    target = eadem.folder / "out.jsonl"
    source = eadem.folder / "in.jsonl"
    source.write_text('{"prompt": [1]}\n')
    error = eadem.error("generate", "--in", source, "--out", target)
    for word in words:
        assert word in error, error
    assert not target.exists(), "an output was begun"


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 16, b"PK\x03\x04" + bytes(100)])
def test_bad_gguf(eadem, content):
    path = eadem.folder / "small.gguf"
    path.write_bytes(content)
    eadem.model = path
    assert "small.gguf" in eadem.error("generate", "x")


def test_replay_of_something_else(eadem):
    path = eadem.folder / "file.jsonl"
    path.write_text("{}\nnonsense\n")
    report = json.loads(eadem("replay", path, "--json", status=1).stdout)
    assert len(report["unusable"]) == 2
    path.write_text("")
    assert "no answer" in eadem.error("replay", path)


def test_version_help_info(eadem):
    assert eadem("--version").stdout.startswith(b"eadem 0.")
    for command in ("pull", "generate", "chat", "score", "replay", "info", "bench"):
        text = eadem(command, "--help").stdout.decode()
        assert "Example:" in text and f"eadem {command}" in text
    info = json.loads(eadem("info", "--json").stdout)
    assert info["model"]["family"] and len(info["model"]["fingerprint"]) == 64
    assert [s["name"] for s in info["kernel_sets"]][-1] == "reference" and sum(
        s["used"] for s in info["kernel_sets"]
    ) == 1
    assert info["machine"]["cores"] > 0


def test_isa_is_the_one_that_ran(eadem):
    for kernel_set in json.loads(eadem("info", "--json").stdout)["kernel_sets"]:
        if kernel_set["supported"]:
            name = kernel_set["name"]
            done = eadem("generate", "--raw", "a", "--max-tokens", "2", "--isa", name, "--stats")
            stats = json.loads(done.stderr)
            assert stats["isa"] == name and stats["kernel_calls"] > 0


def test_bench(eadem):
    done = eadem("bench", "--batch", "1,2", "--prompt", "20", "--new", "4", "--repeats", "2", "--json")
    report = json.loads(done.stdout)
    assert [row["batch"] for row in report["results"]] == [1, 2]
    for row in report["results"]:
        assert row["prefill_tokens_per_second"]["median"] > 0 and row["decode_tokens_per_second"]["median"] > 0
    assert b"TTFT" in eadem("bench", "--batch", "1", "--prompt", "5", "--new", "3", "--repeats", "1").stdout
