"""n answers of a request against n requests, on SmolLM2: the same tokens, logprobs, keys and values, bit for bit."""

import json
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
EADEM = os.environ.get("EADEM", str(HERE.parents[2] / "build" / "eadem"))


def prompts():
    for line in (HERE / "prompts.txt").read_text().splitlines():
        name, ids = line.split(":")
        if name in ("five", "chat", "block+1", "two-blocks"):
            yield name, [int(i) for i in ids.split()]


def answers(model, numerics, lines, folder, *options):
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [EADEM, "generate", "-m", model, "--numerics", numerics, "--in", source, "--out", target, "--overwrite"]
    run = subprocess.run([*command, "--kv-hash", *options], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in target.read_text().splitlines()]


def bits(answer):
    return answer["token_ids"], answer["logprobs"], answer["kv_hash"]


@pytest.mark.parametrize("numerics", ["fma32", "int8", "mma16"])
def test_each_of_n_answers_is_a_request_of_its_own(smollm2, numerics, tmp_path):
    base = {"max_tokens": 8, "temperature": 0.8, "top_p": 0.95, "logprobs": 1, "ignore_eos": True}
    lines = [{**base, "id": name, "prompt": ids, "seed": 20261129, "n": 3} for name, ids in prompts()]
    together = answers(smollm2, numerics, lines, tmp_path)
    assert len(together) == 3 * len(lines)
    alone = [{**base, "prompt": answer["prompt_token_ids"], "seed": answer["seed"]} for answer in together]
    single = answers(smollm2, numerics, alone, tmp_path, "--max-batch", "2", "--no-prefix-cache")
    for one, other in zip(together, single, strict=True):
        assert bits(one) == bits(other), one["id"]
    assert bits(together[0]) != bits(together[1]), "the control: another seed draws other tokens"
