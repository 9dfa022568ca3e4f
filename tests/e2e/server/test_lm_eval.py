"""EleutherAI's lm-eval talks to the server: the same numbers twice, and those of `eadem score` and `eadem generate`.

Two runs of each kind, the second with four requests at once and batches of prompts. The tasks are files of this folder;
token ids come from the server's /tokenize (tokenizer_backend=remote), so that no network is needed.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from serving import program

TASKS = pathlib.Path(__file__).parent / "lm_eval_tasks"
UNTIL = ["\n", "."]
# What of a sample's record may differ between runs that ask the same.
RUN_ONLY = ("arguments", "doc_hash", "prompt_hash", "target_hash")


def lm_eval(server, folder, model, endpoint, tasks, *more, **arguments):
    """The samples of each task as lm-eval logged them, and its table of results."""
    arguments = {"model": server.model_name(), "base_url": server.url + endpoint, "max_retries": 1, **arguments}
    environment = {
        **os.environ,
        "HF_HOME": str(folder / "hf"),
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
        "OPENAI_API_KEY": "none",
    }
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", "--model", model, "--tasks", *tasks, "--include_path", "."]
        + ["--model_args", ",".join(f"{k}={v}" for k, v in arguments.items())]
        + ["--output_path", str(folder / "out"), "--log_samples", *more],
        cwd=TASKS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    (results,) = (folder / "out").rglob("results_*.json")
    samples = {}
    for task in tasks:
        (file,) = (folder / "out").rglob(f"samples_{task}_*.jsonl")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        samples[task] = sorted(rows, key=lambda row: row["doc_id"])
    return samples, json.loads(results.read_text())["results"]


def outcome(samples):
    return {
        task: [(row["doc_id"], row["resps"], row["filtered_resps"]) for row in rows] for task, rows in samples.items()
    }


@pytest.fixture(scope="module")
def runs(server, tmp_path_factory):
    tasks = ["eadem_facts", "eadem_continue", "eadem_prose"]
    return [
        lm_eval(
            server,
            tmp_path_factory.mktemp("lm-eval"),
            "local-completions",
            "/v1/completions",
            tasks,
            "--batch_size",
            batch,
            tokenizer_backend="remote",
            num_concurrent=concurrent,
        )
        for concurrent, batch in ((1, "1"), (4, "3"))
    ]


def offline(command, smollm2, lines):
    """The answers of `eadem generate` or `eadem score` to requests, one process."""
    done = subprocess.run(
        [program(), command, "-m", smollm2, "--in", "-"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def tokens(server, text):
    return server.ask("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def test_the_same_numbers_twice(runs):
    (first, results), (second, again) = runs
    assert outcome(first) == outcome(second)
    assert results == again
    assert 0 < results["eadem_facts"]["acc,none"] <= 1
    # The control: the numbers are not all one.
    sums = [float(resp[0][0]) for row in first["eadem_facts"] for resp in row["resps"]]
    assert len(set(sums)) == len(sums) == 24


def test_loglikelihoods_are_those_of_score(runs, server, smollm2):
    lines, sums = [], []
    for row in runs[0][0]["eadem_facts"]:
        for choice, resp in zip(row["doc"]["choices"], row["resps"], strict=True):
            context = tokens(server, row["doc"]["question"])
            whole = tokens(server, row["doc"]["question"] + " " + choice)
            lines.append({"prompt": context, "golden_token_ids": whole[len(context) :]})
            sums.append(float(resp[0][0]))
    scored = offline("score", smollm2, lines)
    assert sums == [sum(answer["logprobs"]) for answer in scored]


def test_rolling_loglikelihoods_are_those_of_score(runs, server, smollm2):
    info = server.ask_get("/tokenizer_info")
    (start,) = tokens(server, info.get("bos_token") or info["eos_token"])
    rows = runs[0][0]["eadem_prose"]
    lines = [{"prompt": [start], "golden_token_ids": tokens(server, row["doc"]["page"])} for row in rows]
    scored = offline("score", smollm2, lines)
    assert [float(row["filtered_resps"][0]) for row in rows] == [sum(answer["logprobs"]) for answer in scored]


def test_generations_are_those_of_generate(runs, server, smollm2):
    rows = runs[0][0]["eadem_continue"]
    lines = [
        {"prompt": tokens(server, row["doc"]["text"]), "temperature": 0, "max_tokens": 16, "stop": UNTIL}
        for row in rows
    ]
    texts = [answer["text"] for answer in offline("generate", smollm2, lines)]
    assert [row["resps"][0][0] for row in rows] == texts
    assert any(texts)


def test_chat_completions(server, tmp_path):
    runs = [
        lm_eval(
            server,
            tmp_path / str(concurrent),
            "local-chat-completions",
            "/v1/chat/completions",
            ["eadem_continue"],
            "--apply_chat_template",
            num_concurrent=concurrent,
        )
        for concurrent in (1, 4)
    ]
    assert outcome(runs[0][0]) == outcome(runs[1][0])
    row = runs[0][0]["eadem_continue"][0]
    body = {
        "messages": [{"role": "user", "content": row["doc"]["text"]}],
        "temperature": 0,
        "max_tokens": 16,
        "stop": UNTIL,
    }
    answer = server.ask("/v1/chat/completions", {"model": server.model_name(), **body})
    assert row["resps"][0][0] == answer["choices"][0]["message"]["content"]
